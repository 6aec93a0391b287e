"""Strands and Kimi CLI."""

from base import SUMMARY, Item, Model, total, user
from harness import count, tokens


class Strands(Model):
    """Messages: the results of one step are one user message. A message here is a list of items."""

    DEFAULTS = {"overflow": None, "context": None, "per_turn": False, "pin_first": 0, "proactive_compression": False}

    def __init__(self, **settings):
        super().__init__(**settings)
        self.pinned = None

    def add(self, at, m):
        if m["role"] == "user" and self.state:
            self.end_of_turn()
        item = self.native(at, m)
        self.inputs.append(m)
        if m["role"] == "system":
            self.system.append(item)
        elif m["role"] == "tool" and self.inputs[at - 1]["role"] == "tool":
            self.state[-1].append(item)
        else:
            self.state.append([item])

    def size(self):
        return total(self.system) + sum(map(total, self.state))

    def pin(self):
        if self.pinned is None:
            pinned = self.pin_first
            if pinned and pinned < len(self.state) and self.is_result(pinned):
                pinned += 1  # the results of a pinned call
            self.pinned = self.state[:pinned]

    def policy(self):
        if self.context and self.size() / self.context >= 0.7:
            self.reduce(False)
        if self.per_turn:
            self.end_of_turn()
        while self.overflow and self.size() > self.overflow:
            before = self.size(), len(self.state)
            if not self.reduce(True) or (self.size(), len(self.state)) == before:
                break
        return [i for m in self.state for i in m]

    def is_result(self, n):
        return self.state[n][0].role == "tool"


class Sliding(Strands):
    def end_of_turn(self):
        if len(self.state) > self.window_size:
            self.reduce(False)

    def clip_oldest(self):
        """On overflow the oldest message with results (no pinned one) is clipped to head and tail, once."""
        first = next((m for m in self.state if m[0].role == "tool" and m not in self.pinned), [])
        clipped = False
        for n, i in enumerate(first):
            if len(i.text) > 400 and "... [truncated:" not in i.text:
                gone = len(i.text) - 400
                first[n] = i.but(text=f"{i.text[:200]}...\n\n... [truncated: {gone} chars removed] ...\n\n...{i.text[-200:]}")
                clipped = True
        return clipped

    def reduce(self, overflow):
        self.pin()
        if overflow and self.clip_oldest():
            return True
        items = self.state
        start = 2 if len(items) <= self.window_size else len(items) - self.window_size
        cut = next((n for n in range(start, len(items)) if items[n][0].role == "user"), None)
        if cut is None:
            pairs = (n for n in range(start, len(items) - 1) if items[n][0].calls and self.is_result(n + 1))
            cut = next(pairs, None)
        if cut is None or all(m in self.pinned for m in items[:cut]):
            return False
        self.state = [m for n, m in enumerate(items) if n >= cut or m in self.pinned]
        return True


class Summarizing(Strands):
    DEFAULTS = Strands.DEFAULTS | {"summary_ratio": 0.3, "preserve_recent_messages": 10}

    def end_of_turn(self):
        pass

    def reduce(self, overflow):
        items = self.state
        cut = min(max(1, int(len(items) * self.summary_ratio)), len(items) - self.preserve_recent_messages)
        if cut <= 0:
            return False
        while cut < len(items) and self.is_result(cut):
            cut += 1
        if cut == len(items):
            return False
        self.pin()
        kept = [m for m in items[:cut] if m in self.pinned]
        if len(kept) == cut:
            return False
        self.state = [*kept, [user()], *items[cut:]]
        return True


class Kimi(Model):
    reported, pending = 0, 0

    def add(self, at, m):
        super().add(at, m)
        if m["role"] == "assistant":
            self.reported, self.pending = self.usage + count(m), 0
        elif m["role"] != "system":
            self.pending += len(m["text"])

    def policy(self):
        now, window = self.reported + self.pending // 4, self.max_context_size
        if now >= window * self.trigger_ratio or now + self.reserved_context_size >= window:
            turns = [n for n, i in enumerate(self.state) if i.role != "tool"]
            cut = turns[-2] if len(turns) > 1 else 0
            kept = self.state[cut:]
            self.reported = (tokens(SUMMARY) if cut else 0) + sum(len(i.text) for i in kept) // 4
            self.pending = 0
            if cut:
                self.state = [user(f"<system>{PREFIX}</system>{SUMMARY}"), *kept]
        return self.state


PREFIX = "Previous context has been compacted. Here is the compaction output:"
MODELS = {"kimi-cli": Kimi, "kimi-cli-ratio": Kimi} | {
    f"strands-{name}": Sliding if "sliding" in name else Summarizing
    for name in ("sliding", "sliding-per-turn", "sliding-overflow", "sliding-proactive", "summarizing",
                 "summarizing-proactive", "summarizing-pinned")
}
