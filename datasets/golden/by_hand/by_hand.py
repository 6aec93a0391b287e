#!/usr/bin/env python3
"""Compiles the hand-written talks to the annotated form: `python3 datasets/golden/by_hand/by_hand.py` writes by_hand.jsonl.

A `.talk` file is a text with sections. A section begins with one of these at the start of a line:

    name: NAME                        first line of the file; the repository is golden-by-hand/NAME
    @tool NAME(a: string, b: integer) description
    @system                           the text follows, as for the next three
    @user [ends=C1,C2]                this message ends these constraints (their `until`)
    @agent [INTENT] [uses=l1,l2]      what this message makes use of; calls follow the text, one a paragraph:
                                      `-> NAME {json}`, strings may hold line breaks, or
                                      `-> NAME(param) raw text`, the rest is the only argument
    @result                           one for each call, in order
    @point                            compression point after the last message; @done: end of a subtask
    @superseded KEY | OLD | NEW
    @probe KIND needs=l1,l2           the question, then `+ right` and `- wrong` lines

Spans are marked inline as `[[KIND words|text]]`, with KIND one of goal, constraint, decision, fact,
tool_output (these are salient), `again #l` (a near-duplicate of span l), `noise`, or `at` (a place that a probe points
at, not salient). Words: `#label`; for a constraint `ID:category` (the ID is its label) and perhaps
`implicit`; double braces inside a constraint are its anchors. No offset is typed by hand.
"""
import hashlib
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "recorder"))
from markup import Annotations  # noqa: E402
from writers import dumps  # noqa: E402

SECTION = re.compile(r"^@(tool|system|user|agent|result|point|done|superseded|probe)\b[ \t]*(.*)$", re.M)
SALIENT = ("goal", "constraint", "decision", "fact", "tool_output")
MARK = re.compile(r"\[\[(goal|constraint|decision|fact|tool_output|again|noise|at)\b([^|\[\]]*)\|(.+?)\]\]", re.S)
ANCHOR = re.compile(r"\{\{(.+?)\}\}", re.S)
CALL = re.compile(r"^-> ([a-z_]+)(?:\((\w+)\))? ", re.M)
TOOL = re.compile(r"(\w+)\((.*?)\) (.+)$")
ORDER = ("goal", "goal_changes", "constraints", "salient", "near_duplicates", "noise", "compression_points", "intents",
         "subtask_ends", "superseded", "probes")


class Notes(Annotations):
    """The recorder's annotations, with labels and what hangs on them."""

    def __init__(self):
        super().__init__()
        self.places, self.copies, self.noise, self.used = {}, [], [], []

    def marked(self, text, step):
        plain, last = "", 0
        for m in MARK.finditer(text):
            plain += text[last:m.start()]
            last = m.end()
            kind, words, quote = m.group(1), m.group(2).split(), m.group(3)
            anchors = ANCHOR.findall(quote) if kind == "constraint" else []
            quote = ANCHOR.sub(r"\1", quote) if anchors else quote
            start = len(plain.encode("utf-8"))
            plain += quote
            self._mark(kind, words, quote, anchors, (step, start, len(plain.encode("utf-8"))))
        return plain + text[last:]

    def _mark(self, kind, words, quote, anchors, place):
        labels = [w[1:] for w in words if w.startswith("#")]
        if kind == "noise":
            self.noise.append(dict(zip(("step", "start", "end"), place)))
            return
        if kind == "again":
            self.copies.append((place, labels[0]))
            return
        if kind == "constraint":
            (named,) = [w for w in words if ":" in w]
            cid, category = named.split(":")
            labels.append(cid)
            self.constraints.append({"id": cid, "text": quote, "category": category, "step": place[0], "implicit": "implicit" in words,
                                     **({"anchors": anchors} if anchors else {})})
        if kind == "goal":
            if self.goal is None:
                self.goal = quote
            else:
                self.goal_changes.append({"step": place[0], "text": quote})
        if kind in SALIENT:
            self.span(*place, kind, quote)
        for label in labels:
            assert label not in self.places, "label twice: " + label
            self.places[label] = place

    def use(self, labels, step):
        self.used += [(label, step) for label in labels]

    def end(self, cid, step):
        (constraint,) = [c for c in self.constraints if c["id"] == cid]
        constraint["until"] = step

    def as_dict(self):
        self.salient.sort(key=lambda s: (s["step"], s["start"], s["end"]))
        where = {(s["step"], s["start"], s["end"]): s for s in self.salient}
        index = {place: k for k, place in enumerate(where)}
        for label, step in self.used:
            where[self.places[label]].setdefault("used", []).append(step)
        out = super().as_dict()
        if self.copies:
            out["near_duplicates"] = [{"step": s, "start": a, "end": b, "of": index[self.places[label]]} for (s, a, b), label in self.copies]
        if self.noise:
            out["noise"] = self.noise
        for probe in self.probes:
            probe["needs"] = [list(self.places[label]) for label in probe["needs"]]
        return {name: out[name] for name in ORDER if name in out}


def digest(*parts):
    return hashlib.sha256("/".join(map(str, parts)).encode("utf-8")).hexdigest()


def words_of(rest):
    """`debug uses=a,b` -> ("debug", {"uses": ["a", "b"]})."""
    plain, named = None, {}
    for word in rest.split():
        if "=" in word:
            key, value = word.split("=", 1)
            named[key] = value.split(",")
        else:
            plain = word
    return plain, named


def schema(line):
    name, params, description = TOOL.match(line).groups()
    pairs = [p.split(": ") for p in params.split(", ") if p]
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": {k: {"type": v} for k, v in pairs}, "required": [k for k, _ in pairs]}}}


class Talk:
    def __init__(self, text):
        head, *rest = SECTION.split(text)
        self.name = re.match(r"name: ([\w-]+)$", head.strip()).group(1)
        self.messages, self.tools, self.notes, self.waiting = [], [], Notes(), []
        for section, words, body in zip(rest[0::3], rest[1::3], rest[2::3]):
            getattr(self, section)(words.strip(), body.strip("\n").rstrip())

    @property
    def last(self):
        return len(self.messages) - 1

    def add(self, role, body, **more):
        step = len(self.messages)
        self.messages.append({"role": role, **more, "content": self.notes.marked(body, step)})
        return step

    def tool(self, words, body):
        self.tools.append(schema(words))

    def system(self, words, body):
        self.add("system", body)

    def user(self, words, body):
        _, named = words_of(words)
        step = self.add("user", body)
        for cid in named.get("ends", ()):
            self.notes.end(cid, step)

    def agent(self, words, body):
        assert not self.waiting, "%s: message %d: results are missing" % (self.name, len(self.messages))
        intent, named = words_of(words)
        text, *calls = CALL.split("\n" + body)
        step = self.add("assistant", text.strip("\n"))
        if intent:
            self.notes.intents.append({"step": step, "intent": intent})
        self.notes.use(named.get("uses", ()), step)
        listed = []
        for k, (name, param, raw) in enumerate(zip(calls[0::3], calls[1::3], calls[2::3])):
            arguments = {param: raw.strip("\n")} if param else json.loads(raw, strict=False)
            listed.append({"id": "call_" + digest(self.name, step, k)[:20], "type": "function",
                           "function": {"name": name, "arguments": dumps(arguments)}})
        if listed:
            self.messages[step]["tool_calls"] = listed
            self.waiting = [(c["id"], c["function"]["name"]) for c in listed]

    def result(self, words, body):
        cid, name = self.waiting.pop(0)
        self.add("tool", body, tool_call_id=cid, name=name)

    def point(self, words, body):
        self.notes.compression_points.append(self.last)

    def done(self, words, body):
        self.notes.subtask_ends.append(self.last)

    def superseded(self, words, body):
        key, old, new = words.split(" | ")
        self.notes.superseded.append({"key": key, "old": old, "new": new, "step": self.last})

    def probe(self, words, body):
        kind, named = words_of(words)
        question, *lines = body.strip().split("\n")
        (answer,) = [x[2:] for x in lines if x.startswith("+ ")]
        wrong = [x[2:] for x in lines if x.startswith("- ")]
        wrong.sort(key=lambda c: digest(question, c))
        # the right one's place: every four probes of a talk use each of the four places once
        number, size = len(self.notes.probes), len(wrong) + 1
        places = sorted(range(size), key=lambda k: digest(self.name, number // size, k))
        wrong.insert(places[number % size], answer)
        self.notes.probes.append({"step": self.last, "kind": kind, "question": question, "choices": wrong,
                                  "answer": answer, "needs": named["needs"]})

    def line(self):
        assert not self.waiting, "%s ends within a turn" % self.name
        out = {"task_id": self.name, "repository": "golden-by-hand/" + self.name, "agent": "trajpress-golden", "model": None}
        if self.tools:
            out["tools"] = self.tools
        return dumps({**out, "messages": self.messages, "annotations": self.notes.as_dict()}) + "\n"


def compiled():
    talks = []
    for path in sorted(HERE.glob("*.talk")):
        try:
            talks.append(Talk(path.read_text(encoding="utf-8")))
        except Exception as e:
            raise ValueError("%s: %s: %s" % (path.name, type(e).__name__, e)) from e
    return "".join(t.line() for t in talks)


if __name__ == "__main__":
    (HERE / "by_hand.jsonl").write_text(compiled(), encoding="utf-8", newline="\n")
