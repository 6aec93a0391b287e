"""Written dialogues (support talks, templates): text with marks, made into the annotated form."""
import hashlib

from markup import Annotations
from writers import dumps


class Talk:
    """A dialogue under construction. `u` user, `a` assistant, `t` assistant with a tool call and its result."""

    def __init__(self, task_id, repository, system, tools=()):
        self.task_id, self.repository, self.tools = task_id, repository, list(tools)
        self.messages, self.notes, self.turns = [], Annotations(), 0
        self.messages.append({"role": "system", "content": system})

    def _add(self, role, text, **more):
        step = len(self.messages)
        self.messages.append({"role": role, "content": self.notes.marked(text, step), **more})
        return step

    def u(self, text):
        self._add("user", text)

    def a(self, text, intent=None):
        step = self._add("assistant", text)
        self.turns += 1
        self._intent(step, intent)

    def t(self, text, name, args, result, intent=None):
        cid = "call_" + hashlib.sha256(("%s/%d" % (self.task_id, len(self.messages))).encode()).hexdigest()[:20]
        step = self._add("assistant", text, tool_calls=[
            {"id": cid, "type": "function", "function": {"name": name, "arguments": dumps(args)}}])
        self.turns += 1
        self._intent(step, intent)
        self._add("tool", result, tool_call_id=cid, name=name)

    def _intent(self, step, intent):
        if intent:
            self.notes.intents.append({"step": step, "intent": intent})

    def point(self):
        self.notes.compression_points.append(len(self.messages) - 1)

    def done(self):
        self.notes.subtask_ends.append(len(self.messages) - 1)

    def superseded(self, key, old, new):
        """The last message says that `key` is `new` now and no longer `old`."""
        self.notes.superseded.append({"key": key, "old": old, "new": new, "step": len(self.messages) - 1})

    def probe(self, kind, question, answer, *wrong):
        choices = sorted([answer] + list(wrong), key=lambda c: hashlib.sha256((question + c).encode()).digest())
        self.notes.probes.append({"step": len(self.messages) - 1, "kind": kind, "question": question,
                                  "choices": choices, "answer": answer})


def tool(name, description, **params):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": {k: {"type": v} for k, v in params.items()}, "required": list(params)}}}


def line(talk):
    out = {"task_id": talk.task_id, "repository": talk.repository, "agent": "trajpress-recorder", "model": None}
    if talk.tools:
        out["tools"] = talk.tools
    return dumps({**out, "messages": talk.messages, "annotations": talk.notes.as_dict()}) + "\n"
