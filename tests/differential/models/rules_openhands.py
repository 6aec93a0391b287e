"""OpenHands, both: a call is an event, and its result another."""

from base import SUMMARY, Item, Model, total


class Events(Model):
    """The state is a list of events: (item, number of its call, how many calls the message has)."""

    system_apart = False

    def add(self, at, m):
        self.inputs.append(m)
        item = self.native(at, m)
        for n in range(max(1, len(item.calls))):
            self.state.append((item, n, max(1, len(item.calls))))

    def shown(self, events):
        """Messages of events: an assistant stands once, with the calls that are left of it."""
        made, before = [], None
        for item, n, of in events:
            if of > 1 and made and before == (item.at, n - 1):
                made[-1] = made[-1].but(calls=[*made[-1].calls, item.calls[n]])
            else:
                made.append(item.but(calls=item.calls[n : n + 1], text=item.text if n == 0 else "") if of > 1 else item)
            before = (item.at, n)
        return made


SUMMARY_EVENT = lambda: (Item("user", SUMMARY), 0, 1)


class Sdk(Events):
    DEFAULTS = {"max_tokens": None}

    def size(self, events):
        """User messages that follow each other are sent, and counted, as one: so is a summary after one."""
        runs = []
        for i in self.shown(events):
            if i.role == "user" and runs and runs[-1].role == "user":
                runs[-1] = runs[-1].but(text=runs[-1].text + i.text)
            else:
                runs.append(i)
        return total(runs)

    def next_allowed(self, at):
        """The next place that is not between a call and its result, nor amid the calls of one reply."""
        waiting, last = set(), None
        for n, (item, k, of) in enumerate(self.state):
            inside = bool(waiting) or of > 1 and k > 0
            if n >= at and not inside:
                return n
            if item.calls:
                waiting.add(item.calls[k]["id"])
            waiting.discard(item.call)
        return len(self.state)

    def policy(self):
        for _ in range(10):
            if not self.condensed():
                break
        return self.shown(self.state)

    def condensed(self):
        events, keep = self.state, []
        over = self.max_tokens and self.size(events) > self.max_tokens
        if over:
            rest = events[self.keep_first :]
            reduce = self.size(events) - self.max_tokens // 2
            gone = next((n for n in range(1, len(rest)) if self.prefix(n) > reduce), len(rest))
            keep.append(len(rest) - gone if reduce > 0 else len(rest))
        if len(events) > self.max_size:
            keep.append(self.max_size // 2 - self.keep_first - 1)
        if not keep:
            return False
        system = next((n for n, e in enumerate(events) if e[0].role == "system"), -1)
        start = self.next_allowed(max(self.keep_first, system + 1))
        end = self.next_allowed(len(events) - min(keep))
        if end - start < max(1, len(events) * 0.1):
            if not over:
                return False
            start, end = system + 1, len(events)
        self.state = [*events[:start], SUMMARY_EVENT(), *events[end:]]
        return True

    def prefix(self, n):
        head = self.state[: self.keep_first]
        return self.size(self.state[: self.keep_first + n]) - self.size(head)


class V0(Events):
    DEFAULTS = {"overflow": None}

    def observation(self, event):
        return event[0].role == "tool"

    def policy(self):
        return getattr(self, self.kind)()

    def observation_masking(self):
        made = []
        for n, e in enumerate(self.state):
            masked = self.observation(e) and n < len(self.state) - self.attention_window
            made.append((e[0].but(text="<MASKED>"), 0, 1) if masked else e)
        return self.shown(made)

    def recent_events(self):
        tail = self.max_events - len(self.state[: self.keep_first])
        return self.shown(self.state[: self.keep_first] + self.state[-tail:])

    def amortized_forgetting(self):
        if len(self.state) > self.max_size:
            tail = self.max_size // 2 - self.keep_first
            self.state = self.state[: self.keep_first] + self.state[-tail:]
        return self.shown(self.state)

    def llm_summarizing(self):
        if len(self.state) > self.max_size:
            tail = self.max_size // 2 - self.keep_first - 1
            self.state = self.state[: self.keep_first] + [SUMMARY_EVENT()] + self.state[-tail:]
        return self.shown(self.state)

    def conversation_window(self):
        """Each time the provider refuses: system, first user message, the newest half of the others."""
        for _ in range(10):
            before = len(self.state)
            if total(i for e in self.state for i in self.shown([e])) <= self.overflow:
                break
            firsts = [next((e for e in self.state if e[0].role == role), None) for role in ("system", "user")]
            if firsts[1] is None:
                break
            kept = max(1, (before - sum(e is not None for e in firsts)) // 2)
            tail = self.state[before - kept :]
            while tail and self.observation(tail[0]):
                tail = tail[1:]
            self.state = [e for n, e in enumerate(self.state) if e in firsts or n >= before - len(tail)]
            if len(self.state) >= before:
                break
        return self.shown(self.state)


MODELS = {f"openhands-sdk-{name}": Sdk for name in ("events", "events-agent", "tokens", "both")} | {
    f"openhands-v0-{name}": V0 for name in ("masking", "recent", "amortized", "summarizing", "window")
}
