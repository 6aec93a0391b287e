"""AutoGen, Microsoft Agent Framework, OpenAI Agents, SWE-agent, Vercel AI, Mastra."""

from base import SUMMARY, Item, Model, steps, total, user
from harness import Stop, compact, tokens

PROMPT_TOKENS = 149  # of Agent Framework's prompt for a summary


def merged(items):
    """Messages as AutoGen has them: the results of one step are one."""
    made = []
    for item in items:
        if item.role == "tool" and made and made[-1][0].role == "tool":
            made[-1].append(item)
        else:
            made.append([item])
    return made


def flat(groups):
    return [item for group in groups for item in group]


def unled(groups):
    """Without results at the front, whose call is gone."""
    return groups[1:] if groups and groups[0][0].role == "tool" else groups


class Buffered(Model):
    def policy(self):
        return flat(unled(merged(self.state)[-self.buffer_size :]))


class HeadAndTail(Model):
    def policy(self):
        groups = merged(self.state)
        skipped = len(groups) - self.head_size - self.tail_size
        if skipped <= 0:
            return self.state
        head = groups[: self.head_size]
        if head[-1][0].calls:
            head = head[:-1]
        return flat(head) + [user(f"Skipped {skipped} messages.")] + flat(unled(groups[-self.tail_size :]))


class DropMiddle(Model):
    def policy(self):
        groups = merged(self.state)
        while sum(map(total, groups)) > self.token_limit and groups:
            groups.pop(len(groups) // 2)
        return flat(unled(groups))


class Groups(Model):
    """Agent Framework: groups are a system or user message, a text, or calls with their results; one goes as a whole."""

    system_apart = False
    DEFAULTS = {"tokens": False, "preserve_first_user_group": False, "keep_last_tool_call_groups": 4}

    def groups(self):
        return steps(self.state)

    def policy(self):
        getattr(self, self.strategy)()
        return self.state

    def TruncationStrategy(self, most=None, target=None, tokens=None):
        groups = self.groups()
        size = (lambda gs: sum(map(total, gs))) if tokens or self.tokens else (lambda gs: sum(map(len, gs)))
        if size(groups) <= (most or self.max_n):
            return
        kinds = [g[0].role for g in groups]
        kept = {n for n, kind in enumerate(kinds) if kind == "system"}
        others = [n for n in range(len(groups)) if n not in kept]
        if self.preserve_first_user_group and "user" in self.seen_roles():
            kept |= {n for n in range(len(groups)) if groups[n][0] is self.first_user}
        kept |= set(others[-1:])
        left = dict(enumerate(groups))
        for n in range(len(groups)):
            if size(left.values()) <= (target or self.compact_to):
                break
            if n not in kept:
                del left[n]
        self.state = flat(left.values())

    def seen_roles(self):
        self.first_user = next((i for i in self.state if i.role == "user"), None)
        return [i.role for i in self.state]

    def SlidingWindowStrategy(self):
        groups = self.groups()
        others = [n for n, g in enumerate(groups) if g[0].role != "system"][-self.keep_last_groups :]
        self.state = flat(g for n, g in enumerate(groups) if n in others or g[0].role == "system")

    def tool_groups(self):
        groups = self.groups()
        calls = [n for n, g in enumerate(groups) if g[0].calls]
        return groups, calls[: max(0, len(calls) - self.keep_last_tool_call_groups)]

    def SelectiveToolCallCompactionStrategy(self):
        groups, old = self.tool_groups()
        self.state = flat(g for n, g in enumerate(groups) if n not in old)

    def ToolResultCompactionStrategy(self):
        groups, old = self.tool_groups()
        for n in old:
            groups[n] = [Item("assistant", self.digest(groups[n][1:]))]
        self.state = flat(groups)

    def digest(self, results):
        label = "; ".join(f"{r.name}: {r.text}".strip() for r in results)
        if len(label) + 16 > 4096:
            label = label[: 4096 - 15 - 15 - 1].rstrip() + "... [truncated]"
        return f"[Tool results: {label}]"

    def ContextWindowCompactionStrategy(self):
        budget = self.max_context_window_tokens - self.max_output_tokens
        if total(self.state) > int(budget * 0.5):
            self.ToolResultCompactionStrategy()
        if total(self.state) > int(budget * 0.8):
            self.TruncationStrategy(int(budget * 0.8), int(budget * 0.5), True)

    def SummarizationStrategy(self):
        groups = self.groups()
        others = [n for n, g in enumerate(groups) if g[0].role != "system"]
        if sum(len(groups[n]) for n in others) <= self.target_count + self.threshold:
            return
        kept = 0
        while others and (kept == 0 or kept < self.target_count):
            kept += len(groups[others.pop()])
        if taken := self.fitting(groups, others):
            groups[taken[0]] = [Item("assistant", SUMMARY)]
            self.state = flat(g for n, g in enumerate(groups) if n not in taken[1:])

    def fitting(self, groups, others):
        """The oldest groups whose text and the prompt are within 8,000 tokens; too large ones before them stay."""
        taken, number, used = [], 1, PROMPT_TOKENS
        for n in others:
            size = tokens("\n".join(self.line(number + k, i) for k, i in enumerate(groups[n]))) + (1 if taken else 0)
            if used + size <= 8000:
                taken, number, used = [*taken, n], number + len(groups[n]), used + size
            elif taken:
                break
        return taken

    def line(self, number, i):
        calls = [f"function_call {c['name']}({compact(c['args'])}) [call_id={c['id']}]" for c in i.calls]
        text = f"function_result: {i.text or 'no result'} [call_id={i.call}]" if i.role == "tool" else i.text
        return f"{number}. [{i.role}] " + "; ".join(([text] if text else []) + calls)


class Trimmer(Model):
    """OpenAI Agents: a view. Outputs before the newest `recent_turns` user messages become a header and a preview."""

    DEFAULTS = {"recent_turns": 2, "max_output_chars": 500, "preview_chars": 200, "trimmable_tools": None}

    def policy(self):
        users = [n for n, i in enumerate(self.state) if i.role == "user"]
        border = users[-self.recent_turns] if len(users) >= self.recent_turns else 0
        return [self.short(i) if n < border and i.role == "tool" else i for n, i in enumerate(self.state)]

    def short(self, i):
        size = len(i.text)
        if size <= self.max_output_chars or self.trimmable_tools and i.name not in self.trimmable_tools:
            return i
        text = f"[Trimmed: {i.name} output — {size} chars → {self.preview_chars} char preview]\n{i.text[: self.preview_chars]}..."
        return i.but(text=text) if len(text) < size else i


class LastObservations(Model):
    """SWE-agent: a view. All observations but the first and the newest n become one line."""

    system_apart = False
    DEFAULTS = {"polling": 1, "old": False}

    def policy(self):
        seen = [n for n, i in enumerate(self.state) if i.role in ("user", "tool")]
        gone = seen[1 : max(0, len(seen) // self.polling * self.polling - self.n)]
        line = "Old environment output: (%d lines omitted)"
        return [i.but(text=line % len(i.text.splitlines())) if n in gone else i for n, i in enumerate(self.state)]


class OldLastObservations(LastObservations):
    """Version 0.0.1: results are user messages."""

    def native(self, at, m):
        made = super().native(at, m)
        return made.but(role="user") if made.role == "tool" else made

    def policy(self):
        seen = [n for n, i in enumerate(self.state) if i.role == "user"]
        gone = seen[1 : max(1, len(seen) - self.n)]
        line = "Old output ommitted (%d lines)"
        return [i.but(text=line % len(i.text.splitlines())) if n in gone else i for n, i in enumerate(self.state)]


class Prune(Model):
    """Vercel AI: a view. Calls and results before the last N messages go, but for those that the last N name."""

    DEFAULTS = {"emptyMessages": "remove"}

    def policy(self):
        made = self.state
        rules = self.toolCalls if isinstance(self.toolCalls, list) else [{"type": self.toolCalls}]
        for rule in rules:
            made = self.pruned(made, rule["type"], rule.get("tools"))
        return [i for i in made if i.text or i.calls or i.role == "tool" and i.call or self.emptyMessages == "keep"]

    def pruned(self, items, kind, tools):
        last = 0 if kind == "all" else 1 if kind == "before-last-message" else int(kind.split("-")[2])
        tail = items[len(items) - last :]
        kept = {c["id"] for i in tail for c in i.calls} | {i.call for i in tail if i.role == "tool"}
        stays = lambda id, name: id in kept or tools and name not in tools
        made = []
        for n, i in enumerate(items):
            if n < len(items) - last and i.role == "tool" and not stays(i.call, i.name):
                i = i.but(text="", call=None)
            elif n < len(items) - last and i.calls:
                i = i.but(calls=[c for c in i.calls if stays(c["id"], c["name"])])
            made.append(i)
        return made


class Limiter(Model):
    """Mastra: a view. Groups of calls with results, newest first, while they fit; one too large is skipped."""

    DEFAULTS = {"trimMode": "best-fit"}

    def size(self, group):
        made = 0
        for i in group:
            text = i.role + i.text + "".join(c["name"] + compact(c["args"]) for c in i.calls)
            made += tokens(text) + (3.8 - 12 * len(i.calls))
        return made

    def policy(self):
        system = sum(map(lambda i: self.size([i]), self.system))
        if system + 24 >= self.limit or not self.state:
            raise Stop()
        left, kept = self.limit - system - 24, []
        used = 0
        for group in reversed(steps(self.state)):
            size = self.size(group)
            if used + size <= left:
                used += size
                kept.insert(0, group)
            elif self.trimMode == "contiguous":
                break
        if not kept:
            raise Stop()
        return flat(kept)


MODELS = {
    "autogen-buffered": Buffered, "autogen-head-and-tail": HeadAndTail, "autogen-token-limited": DropMiddle,
    "openai-agents-trimmer": Trimmer, "openai-agents-trimmer-1": Trimmer, "sweagent-0.0.1-last-5": OldLastObservations,
    "sweagent-1.1-last-5": LastObservations, "sweagent-1.1-polling": LastObservations,
    "vercel-prune-last-message": Prune, "vercel-prune-last-10": Prune, "vercel-prune-last-10-bash": Prune,
    "vercel-prune-all-keep-empty": Prune, "mastra-token-limiter": Limiter, "mastra-token-limiter-contiguous": Limiter,
} | {
    f"agent-framework-{name}": Groups
    for name in ("context-window", "context-window-first", "truncation", "truncation-tokens", "sliding", "selective",
                 "tool-result", "summarization")
}
