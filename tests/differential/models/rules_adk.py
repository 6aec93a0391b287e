"""Google ADK: compaction of events, by tokens and by invocations. Results of one step are one event."""

import json

from base import SUMMARY, Item, Model
from harness import compact


class Event:
    def __init__(self, items, turn, usage):
        self.items, self.turn, self.usage = items, turn, usage

    def chars(self):
        """What the estimate counts: text, names, and JSON as Python writes it."""
        made = 0
        for i in self.items:
            made += len(i.name) + len(json.dumps({"result": i.text})) if i.role == "tool" else len(i.text)
            made += sum(len(c["name"]) + len(json.dumps(c["args"])) for c in i.calls)
        return made

    def size(self):
        """The characters of the content's JSON."""
        parts = []
        for i in self.items:
            if i.role == "tool":
                parts.append({"function_response": {"id": i.call, "name": i.name, "response": {"result": i.text}}})
            elif i.text:
                parts.append({"text": i.text})
            parts += [{"function_call": {"id": c["id"], "args": c["args"], "name": c["name"]}} for c in i.calls]
        role = "user" if self.items[0].role in ("user", "tool") else "model"
        return len(compact({"parts": parts, "role": role}))


SUMMARY_SIZE = len(compact({"parts": [{"text": SUMMARY}], "role": "model"}))
EMPTY_SIZE = len(compact({"parts": [], "role": "model"}))


class Adk(Model):
    DEFAULTS = {"token_threshold": None, "compaction_interval": None}

    def __init__(self, usage=True, **settings):
        super().__init__(**settings)
        self.reports, self.events, self.turn = usage, [], 0
        self.ranges, self.reported = [], []  # first and last event of each summary; prompts' tokens since the last one

    def add(self, at, m):
        if m["role"] == "user":
            if self.turn and self.compaction_interval:
                self.by_tokens() or self.by_invocations()
            self.turn += 1
        item = self.native(at, m)
        self.inputs.append(m)
        if m["role"] == "system":
            self.system.append(item)
        elif m["role"] == "tool" and self.inputs[at - 1]["role"] == "tool":
            self.events[-1].items.append(item)
        else:
            self.events.append(Event([item], self.turn, self.usage))
            if m["role"] == "assistant":
                self.reported.append(self.usage)

    def standing(self, ranges):
        """Without the ranges that another contains; of equal ones the newest stands."""
        kept, end = [], -1
        for n, (a, b) in sorted(enumerate(ranges), key=lambda r: (r[1][0], -r[1][1], -r[0])):
            if b > end:
                kept.append(n)
                end = b
        return [ranges[n] for n in sorted(kept)]

    def prompt(self, ranges):
        """Events and, at the end of its range, None for each summary."""
        standing = self.standing(ranges)
        shown = []
        for n, e in enumerate(self.events):
            if not any(a <= n <= b for a, b in standing):
                shown.append(e)
            shown += [None for _, b in standing if b == n]
        return shown

    def worth(self, span):
        """The events it hides, and summaries it supersedes, must be more than the last summary."""
        size = lambda shown: sum(SUMMARY_SIZE if e is None else e.size() for e in shown)
        made = self.prompt([*self.ranges, span])
        after = size(made) - SUMMARY_SIZE + EMPTY_SIZE
        return size(self.prompt(self.ranges)) - after > (SUMMARY_SIZE if self.ranges else 0)

    def compact(self, span):
        if not self.worth(span):
            return False
        self.ranges.append(span)
        self.reported = []
        return True

    def by_tokens(self):
        if not self.token_threshold:
            return False
        if self.reports and self.reported:
            now = self.reported[-1]
        else:
            now = sum(len(SUMMARY) if e is None else e.chars() for e in self.prompt(self.ranges)) // 4
        last = self.standing(self.ranges)[-1:]
        first = last[0][1] + 1 if last else 0
        cut = len(self.events) - self.event_retention_size
        if now < self.token_threshold or cut <= first:
            return False
        while cut > first and self.events[cut].items[0].role == "tool":
            cut -= 1
        return cut > first and self.compact((last[0][0] if last else first, cut - 1))

    def by_invocations(self):
        end = self.ranges[-1][1] if self.ranges else -1
        turns = list(dict.fromkeys(e.turn for e in self.events))
        new = [t for t in turns if max(n for n, e in enumerate(self.events) if e.turn == t) > end]
        if len(new) < self.compaction_interval:
            return False
        start = turns[max(0, turns.index(new[0]) - self.overlap_size)]
        return self.compact((next(n for n, e in enumerate(self.events) if e.turn == start), len(self.events) - 1))

    def policy(self):
        self.by_tokens()
        shown = self.prompt(self.ranges)
        return [i for e in shown for i in ([Item("assistant", SUMMARY)] if e is None else e.items)]


MODELS = {name: Adk for name in ("adk-tokens", "adk-tokens-estimate", "adk-interval", "adk-interval-2", "adk-both")}
