"""LangChain, LangMem, deepagents."""

import math

from base import SUMMARY, Item, Model, newest_within, total, user


def lines(text):
    parts = text.split("\n")
    return [p + "\n" for p in parts[:-1]] + parts[-1:]


def trim_last(items, max_tokens, start_on=None, include_system=False, allow_partial=False, size=lambda i: i.tok):
    """trim_messages with strategy last."""
    head = []
    if include_system and items and items[0].role == "system":
        head, items = items[:1], items[1:]
        max_tokens = max(0, max_tokens - size(head[0]))
    kept = newest_within(items, max_tokens, size)
    made = items[len(items) - kept :]
    if allow_partial and kept < len(items):
        left, part = max_tokens - sum(map(size, made)), items[len(items) - kept - 1]
        pieces = lines(part.text)
        fitting = [n for n in range(1, len(pieces) + 1) if size(part.but(text="".join(pieces[-n:]))) <= left]
        if part.text and fitting:
            made = [part.but(text="".join(pieces[-max(fitting) :])), *made]
    while start_on and made and made[0].role != start_on:
        made = made[1:]
    return head + made


class Trim(Model):
    system_apart = False

    def policy(self):
        s = self.settings
        start = {"human": "user"}.get(s.get("start_on"))
        return trim_last(self.state, s["max_tokens"], start, s.get("include_system"), s.get("allow_partial"))


class TrimFirst(Model):
    system_apart = False

    def policy(self):
        made, left = [], self.settings["max_tokens"]
        for item in self.state:
            left -= item.tok
            if left < 0:
                break
            made.append(item)
        while made and made[-1].role not in ("user", "tool"):
            made.pop()
        return made


class Clear(Model):
    """A view: of the results all but the newest `keep` are cleared, oldest first, until enough is freed."""

    DEFAULTS = {"clear_at_least": 0, "clear_tool_inputs": False, "exclude_tools": []}

    def policy(self):
        made, before = list(self.state), total(self.state)
        if before <= self.trigger:
            return made
        results = [n for n, i in enumerate(made) if i.role == "tool"]
        for n in results[: max(0, len(results) - self.keep)]:
            result = made[n]
            if result.name in self.exclude_tools:
                continue
            made[n] = result.but(text="[cleared]")
            if self.clear_tool_inputs:
                a = max(k for k in range(n) if made[k].role == "assistant")
                calls = [c | {"args": {}} if c["id"] == result.call else c for c in made[a].calls]
                made[a] = made[a].but(calls=calls)
            if self.clear_at_least and before - total(made) >= self.clear_at_least:
                break
        return made


def own_size(i):
    """LangChain's own count of a message: characters by four rounded up, and three."""
    calls = [{"name": c["name"], "args": c["args"], "id": c["id"], "type": "tool_call"} for c in i.calls]
    chars = len(i.text) + (len(repr(calls)) if calls else 0) + len(i.role) + len(i.call or "") + len(i.name or "")
    return math.ceil(chars / 4) + 3


def safe(items, cut):
    """A cut at a result goes back to its call."""
    while 0 < cut < len(items) and items[cut].role == "tool":
        cut -= 1
    return cut


def cutoff(items, keep, size=lambda i: i.tok):
    kind, amount = keep
    if kind == "messages":
        return safe(items, len(items) - amount) if len(items) > amount else 0
    if sum(map(size, items)) <= amount:
        return 0
    return safe(items, len(items) - max(1, newest_within(items, amount, size)))


def reached(items, trigger, size):
    return (len(items) if trigger[0] == "messages" else sum(map(size, items))) >= trigger[1]


TOO_LONG = "Previous conversation was too long to summarize."


class Summarize(Model):
    DEFAULTS = {"token_counter": None, "trim_tokens_to_summarize": 4000}

    def policy(self):
        size = own_size if self.token_counter else lambda i: i.tok
        if reached(self.state, self.trigger, size) and (cut := cutoff(self.state, self.keep, size)) > 0:
            seen = trim_last(self.state[:cut], self.trim_tokens_to_summarize, "user", True, True, size)
            made = user(f"Here is a summary of the conversation to date:\n\n{SUMMARY if seen else TOO_LONG}")
            self.state = [made, *self.state[cut:]]
        return self.state


class LangMem(Model):
    system_apart = False
    done, summary = 0, False
    DEFAULTS = {"max_summary_tokens": 256, "max_tokens_before_summary": None}

    def policy(self):
        head = self.state[:1] if self.state and self.state[0].role == "system" else []
        items = self.state[len(head) :]
        room, left, seen = self.max_tokens - self.max_summary_tokens - total(head), total(items[self.done :]), 0
        for n in range(self.done, len(items)):
            seen += items[n].tok
            if seen >= (self.max_tokens_before_summary or self.max_tokens) and left - seen <= room:
                self.done, self.summary = n + 1, True
                while items[n].calls and self.done < len(items) and items[self.done].role == "tool":
                    self.done += 1
                break
        made = [Item("system", f"Summary of the conversation so far: {SUMMARY}")] if self.summary else []
        return head + made + items[self.done :]


PATH = """You are in the middle of a conversation that has been summarized.

The full conversation history has been saved to /conversation_history/session.md should you need to refer back to it for details.

A condensed summary follows:

<summary>
%s
</summary>"""


class DeepAgents(Model):
    """The clipped arguments are a view; the summary stays."""

    cut, summary = 0, []

    def clipped(self, items, size):
        args = self.truncate_args_settings
        kind, amount = args["keep"]
        if not reached(self.system * (args["trigger"][0] == "tokens") + items, args["trigger"], size):
            return items
        kept = amount if kind == "messages" else newest_within(items, amount)
        if kept == 0 or len(items) <= kept and kind == "messages":
            return items
        made = []
        for n, i in enumerate(items):
            if n < len(items) - kept and any(c["name"] in ("write_file", "edit_file") for c in i.calls):
                i = i.but(calls=[self.clip(c, args["max_length"]) for c in i.calls])
            made.append(i)
        return made

    def clip(self, call, most):
        if call["name"] not in ("write_file", "edit_file"):
            return call
        short = lambda v: v[:20] + "...(argument truncated)" if isinstance(v, str) and len(v) > most else v
        return call | {"args": {k: short(v) for k, v in call["args"].items()}}

    def policy(self):
        items = self.clipped(self.summary + self.state[self.cut :], lambda i: i.tok)
        if not reached(self.system + items, self.trigger, lambda i: i.tok) or (cut := cutoff(items, self.keep)) <= 0:
            return items
        seen = trim_last(items[:cut], 4000, "user", True, True)
        self.cut += cut - len(self.summary)
        self.summary = [user(PATH % (SUMMARY if seen else TOO_LONG))]
        return self.summary + items[cut:]


MODELS = {
    "langchain-trim": Trim, "langchain-trim-human": Trim, "langchain-trim-partial": Trim, "langchain-trim-first": TrimFirst,
    "langchain-context-editing": Clear, "langchain-context-editing-inputs": Clear, "langchain-summarization": Summarize,
    "langchain-summarization-tokens": Summarize, "langchain-summarization-messages": Summarize,
    "langchain-summarization-own": Summarize, "langmem": LangMem, "langmem-default": LangMem, "deepagents": DeepAgents,
    "deepagents-tokens": DeepAgents,
}
