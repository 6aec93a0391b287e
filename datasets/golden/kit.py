"""What every story is told with: chance, text marks, and the log that grows with its truth.

Only `random.Random.random()` is used, so every version of Python draws the same numbers. Truth is
never typed as an offset: a text carries marks (control characters that no text holds), and when a
message is appended the marks are taken out and the bytes are counted.
"""
import json
import random
import re

OPEN, MID, CLOSE = "\x02", "\x1f", "\x03"
LEVELS = ("low", "mid", "high")


class Chance:
    def __init__(self, seed):
        self._random = random.Random(seed)

    def real(self):
        return self._random.random()

    def below(self, n):
        return int(self._random.random() * n)

    def int(self, low, high):
        """Both ends count."""
        return low + self.below(high - low + 1)

    def choice(self, items):
        return items[self.below(len(items))]

    def chance(self, p):
        return self._random.random() < p

    def shuffled(self, items):
        items = list(items)
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items

    def sample(self, items, n):
        return self.shuffled(items)[:n]


ALTERNATIVES = re.compile("«([^«»]*)»")
PLACE = re.compile(r"\{([a-z_]+[0-9]*)\}")


def expand(chance, text, words):
    """`«a|b|c»` is one of them; `{name}` is looked up in `words`."""
    while "«" in text:
        text = ALTERNATIVES.sub(lambda m: chance.choice(m.group(1).split("|")), text)
    return PLACE.sub(lambda m: str(words[m.group(1)]) if m.group(1) in words else m.group(0), text)


def mark(kind, key, text):
    return OPEN + kind + MID + key + MID + text + CLOSE


def salient(kind, key, text):
    """A span that must not be lost; `kind` as in the annotated form."""
    return mark("s:" + kind, key, text)


def again(key, text):
    """A later restatement of the span `key`."""
    return mark("d", key, text)


def noise(text):
    return mark("n", "", text)


def place(key, text):
    """A span that a probe can point at, not salient in itself."""
    return mark("x", key, text)


def strip(text):
    """(plain text, [(start, end, kind, key)]), offsets in bytes; marks may nest."""
    out, at, stack, spans, i = [], 0, [], [], 0
    while i < len(text):
        if text[i] == OPEN:
            kind, key, _ = text[i + 1:].split(MID, 2)
            stack.append((at, kind, key))
            i += 1 + len(kind) + 1 + len(key) + 1
        elif text[i] == CLOSE:
            start, kind, key = stack.pop()
            spans.append((start, at, kind, key))
            i += 1
        else:
            out.append(text[i])
            at += len(text[i].encode("utf-8"))
            i += 1
    assert not stack, text
    return "".join(out), spans


def capital(text):
    """The first letter large, behind marks; a path or an identifier stays as it is."""
    i = 0
    while text[i:i + 1] == OPEN:
        i = text.index(MID, text.index(MID, i) + 1) + 1
    if re.match(r"[a-zà-ž]+([ ,;:'’][\w \"(“]|[.]?$)", text[i:]):
        return text[:i] + text[i].upper() + text[i + 1:]
    return text


class Log:
    """The messages of a run and all that is known of them."""

    def __init__(self, chance):
        self.chance = chance
        self.messages, self.turns = [], 0
        self.spans = {}        # key -> {step, start, end, type, text, used}
        self.places = {}       # key -> (step, start, end)
        self.copies, self.noise = [], []
        self.intents, self.subtask_ends, self.compression_points = [], [], []
        self.constraints, self.superseded, self.goal_changes = [], [], []
        self.goal, self.calls = None, 0
        self.turn_of = []      # per message

    @property
    def last(self):
        return len(self.messages) - 1

    def add(self, role, text, **fields):
        plain, spans = strip(text)
        step = len(self.messages)
        raw = plain.encode("utf-8")
        for start, end, kind, key in spans:
            if start == end:
                continue
            if kind.startswith("s:") and key not in self.spans:
                self.spans[key] = {"step": step, "start": start, "end": end, "type": kind[2:],
                                   "text": raw[start:end].decode("utf-8"), "used": []}
            elif kind.startswith("s:") or kind == "d":
                self.copies.append((step, start, end, key))
            elif kind == "n":
                self.noise.append((step, start, end))
            if kind == "x" or kind.startswith("s:"):
                self.places.setdefault(key, (step, start, end))
        message = {"role": role, "content": plain}
        message.update(fields)
        self.messages.append(message)
        if role == "assistant":
            self.turns += 1
        self.turn_of.append(self.turns)
        return step

    def user(self, text):
        return self.add("user", text)

    def agent(self, text, intent, uses=()):
        step = self.add("assistant", text)
        self._note(step, intent, uses)
        return step

    def _note(self, step, intent, uses):
        self.intents.append({"step": step, "intent": intent})
        for key in uses:
            if key in self.spans:
                self.spans[key]["used"].append(step)

    def call(self, text, calls, intent, uses=()):
        """`calls`: [(tool, arguments, result)]; one turn."""
        listed = []
        for tool, arguments, _ in calls:
            self.calls += 1
            code = "%06x" % self.chance.below(1 << 24)
            plain = {k: strip(v)[0] if isinstance(v, str) else v for k, v in arguments.items()}
            listed.append({"id": "call_%s%03d" % (code, self.calls), "type": "function",
                           "function": {"name": tool, "arguments": json.dumps(plain, ensure_ascii=False)}})
        step = self.add("assistant", text, tool_calls=listed)
        self._note(step, intent, uses)
        for item, (tool, _, result) in zip(listed, calls):
            self.add("tool", result, tool_call_id=item["id"], name=tool)
        return step

    def text_of(self, step):
        m = self.messages[step]
        return m["content"] + "".join("\n" + c["function"]["arguments"] for c in m.get("tool_calls", ()))

    def annotations(self, probes, knobs, constraints):
        """The truth in the annotated form; spans that turned out to matter to nothing are left out."""
        asked = {k for p in probes for k in p["keys"]}
        kept = [k for k, s in self.spans.items()
                if s["type"] in ("goal", "constraint", "decision") or s["used"] or k in asked]
        kept.sort(key=lambda k: (self.spans[k]["step"], self.spans[k]["start"], self.spans[k]["end"]))
        index = {k: i for i, k in enumerate(kept)}
        return {
            "goal": self.goal,
            "goal_changes": self.goal_changes,
            "constraints": constraints,
            "knobs": knobs,
            "salient": [dict(self.spans[k], used=sorted(set(self.spans[k]["used"]))) for k in kept],
            "near_duplicates": [{"step": s, "start": a, "end": b, "of": index[k]}
                                for s, a, b, k in sorted(self.copies) if k in index],
            "noise": [{"step": s, "start": a, "end": b} for s, a, b in sorted(self.noise)],
            "compression_points": self.compression_points,
            "intents": self.intents,
            "subtask_ends": self.subtask_ends,
            "superseded": self.superseded,
            "probes": [{"step": p["step"], "kind": p["kind"], "question": p["question"],
                        "choices": p["choices"], "answer": p["answer"],
                        "needs": [list(self.places[k]) for k in p["keys"]]} for p in probes],
        }
