"""Semantic Kernel, Haystack, LlamaIndex."""

from base import SUMMARY, Item, Model, newest_within, steps, total
from harness import tokens


def tool_like(i):
    return i.role == "tool" or bool(i.calls)


def safe_index(items, target, threshold, offset, with_system):
    """Where the kept part starts: not amid a run of calls and results, then at a user message within the threshold."""
    target -= with_system
    if with_system and target <= 0:
        return len(items)
    border = len(items) - threshold - target
    if border <= offset:
        return None
    at = len(items) - target
    while at >= offset and items[at].role != "system" and tool_like(items[at]):
        if at - 1 < offset or not tool_like(items[at - 1]):
            break
        at -= 1
    return next((n for n in range(at, border - 1, -1) if items[n].role == "user"), at)


class Reducer(Model):
    system_apart = False
    DEFAULTS = {"threshold_count": 0, "use_single_summary": True, "include_function_content_in_summary": False}

    def policy(self):
        items = self.state
        if len(items) > self.target_count + self.threshold_count:
            system = next((n for n, i in enumerate(items) if i.role == "system"), None)
            gone = system is not None and system < len(items) - self.target_count
            offset = next((n for n, i in enumerate(items) if i.at is not None), 0) if self.summary else 0
            cut = safe_index(items, self.target_count, self.threshold_count, offset, gone)
            if cut is not None and (made := self.reduced(items, cut, offset)) is not None:
                self.state = made
                if system is not None and items[system] not in made:
                    self.state = [items[system], *made]
        return self.state

    summary = False

    def reduced(self, items, cut, offset):
        return items[cut:]


class SummaryReducer(Reducer):
    summary = True

    def reduced(self, items, cut, offset):
        head = items[0 if self.use_single_summary else offset : cut]
        wanted = [i for i in head if i.role != "system" and (self.include_function_content_in_summary or not tool_like(i))]
        if not wanted:
            return None
        kept = [] if self.use_single_summary else items[:offset]
        return [*kept, Item("assistant", SUMMARY), *items[cut:]]


class Haystack(Model):
    """At compact_at of the window down to compact_to of it; a made message has no place."""

    system_apart = False
    DEFAULTS = {"compact_at": 0.7, "compact_to": 0.4, "min_keep_steps": 1, "min_tokens": 200}

    def policy(self):
        target = int(self.context_window * self.compact_to)
        if total(self.state) >= self.context_window * self.compact_at and total(self.state) > target:
            getattr(self, self.compactor)(target)
        return self.state

    def parts(self):
        """System, past turns, the task (newest user message), its steps."""
        items = self.state
        end = next((n for n, i in enumerate(items) if i.role != "system"), len(items))
        task = max((n for n, i in enumerate(items) if i.role == "user" and i.at is not None), default=None)
        turns = []
        for i in items[end : task if task is not None else end]:
            if i.role == "user" and i.at is not None:
                turns.append([])
            if turns:
                turns[-1].append(i)
        start = end if task is None else task + 1
        spans = []
        for i in items[start:]:
            if i.role == "assistant":
                spans.append([i])
            elif i.role == "tool" and spans:
                spans[-1].append(i)
        return items[:end], turns, items[task : task + 1] if task is not None else [], spans

    def sliding_window(self, target):
        head, turns, task, spans = self.parts()
        turns = [[i for i in turn if i.at is not None] for turn in turns]
        room = target - total(head + task)
        if sum(map(total, spans)) > room:
            kept = newest_within(spans, room, total)
            first, turns = min(len(spans) - kept, max(len(spans) - self.min_keep_steps, 0)), []
        else:
            kept = newest_within(turns, room - sum(map(total, spans)), total)
            first, turns = 0, turns[len(turns) - kept :]
        turns, later = [i for t in turns for i in t], [i for s in spans[first:] for i in s]
        kept = head + turns + task + later
        gone = [i for i in self.state if i not in kept]
        if all(i.at is None for i in gone):
            return
        text = f"[{len(gone)} earlier messages were removed from this conversation to free up context and cannot be recovered.]"
        note = [Item("user", text)]
        self.state = head + turns + task + note + later if first else head + note + turns + task + later

    def tool_result_pruning(self, target):
        groups = [g for g in steps(self.state) if g[0].calls and len(g) > 1]
        safe = {id(i) for g in groups[-self.min_keep_steps :] for i in g}
        now = total(self.state)
        for n, i in enumerate(self.state):
            if i.role == "tool" and id(i) not in safe and i.tok > self.min_tokens and i.text == self.first_text(i):
                self.state[n] = i.but(text=PRUNED.replace("{tool_name}", i.name))
                if self.state[n].tok >= i.tok:
                    self.state[n] = i
                now -= i.tok - self.state[n].tok
                if now <= target:
                    break

    def first_text(self, i):
        return self.inputs[i.at]["text"]

    def summarization(self, target):
        while total(self.state) > target and (chosen := self.next_summary(target)):
            at = min(n for n, i in enumerate(self.state) if i in chosen)
            made = [i for i in self.state if i not in chosen]
            made.insert(at, Item("user", f"<conversation_summary>\n{SUMMARY}\n</conversation_summary>"))
            if total(made) >= total(self.state):
                break
            self.state = made

    def next_summary(self, target):
        head, turns, task, spans = self.parts()
        place = self.state.index(task[0]) if task else len(head)
        past = [i for i in self.state[len(head) : place] if i.at is None]
        own = [i for i in self.state[place:] if i.at is None and i.role == "user"]
        old = spans[: max(len(spans) - self.min_keep_steps, 0)]
        for groups, least in ((turns, 0), ([[i] for i in past], 2), (old, 0), ([[i] for i in own], 2)):
            if len(groups) < max(least, 1):
                continue
            left, chosen = total(self.state), []
            for n, group in enumerate(groups):
                if n >= least and left + self.approximate_summary_tokens <= target and n > 0:
                    break
                chosen += group
                left -= total(group)
            return chosen
        return []


PRUNED = "[Tool result removed to free up context. Call `{tool_name}` again if you need it.]"


class Buffer(Model):
    """LlamaIndex's buffer: contents joined by a space; a message without text counts as the word None."""

    def size(self, items):
        return tokens(" ".join(i.text or "None" for i in items)) if items else 0

    def policy(self):
        n = len(self.state)
        while n > 1 and self.size(self.state[-n:]) > self.token_limit:
            n -= 1
            while n > 1 and self.state[-n].role in ("tool", "assistant"):
                n -= 1
        return self.state[-n:] if n and self.size(self.state[-n:]) <= self.token_limit else self.state[-1:]


class SummaryBuffer(Buffer):
    def policy(self):
        kept = newest_within(self.state, self.token_limit, lambda i: self.size([i]))
        old, new = self.state[: len(self.state) - kept], self.state[len(self.state) - kept :]
        while new and new[0].role in ("tool", "assistant"):
            old = [*old, new.pop(0)]
        if old and not (len(old) == 1 and old[0].role == "system"):
            old = [Item("system", SUMMARY)]
        self.state = old + new
        return self.state


class Queue(Model):
    """LlamaIndex's Memory: at each put, over ratio x limit, the oldest go in batches up to a user message."""

    def add(self, at, m):
        super().add(at, m)
        limit = self.token_limit * self.chat_history_token_ratio
        size = lambda items: sum(tokens(i.text) for i in items if i.text)
        queue = self.state
        while m["role"] != "system" and size(queue) > limit and len(queue) > 1:
            flushed, rest = [], list(queue)
            while size(flushed) < self.token_flush_size and len(rest) > 1:
                flushed.append(rest.pop(0))
            while rest[0].role != "user" and len(rest) > 1:
                flushed.append(rest.pop(0))
            if len(rest) == 1 and rest[0].role != "user":
                users = [n for n, i in enumerate(flushed) if i.role == "user"]
                flushed, rest = flushed + rest, []
                if users:
                    flushed, rest = flushed[: users[-1]], flushed[users[-1] :]
            self.state = queue = rest
            if not flushed:
                break


MODELS = {
    "semantic-kernel-truncation": Reducer, "semantic-kernel-truncation-threshold": Reducer,
    "semantic-kernel-summary": SummaryReducer, "semantic-kernel-summaries": SummaryReducer,
    "semantic-kernel-summary-functions": SummaryReducer, "haystack-sliding-window": Haystack,
    "haystack-sliding-window-steps": Haystack, "haystack-tool-pruning": Haystack, "haystack-tool-pruning-steps": Haystack,
    "haystack-summarization": Haystack, "llamaindex-buffer": Buffer, "llamaindex-summary-buffer": SummaryBuffer,
    "llamaindex-memory": Queue,
}
