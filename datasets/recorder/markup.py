"""Inline marks in written text: [[type|text]] names a salient span.

`[[goal|...]]`, `[[decision|...]]`, `[[fact|...]]` mark a span of that type;
`[[constraint:ID:category|...]]` also declares a constraint. The marks are
taken out and the byte offsets are counted, so no offset is typed by hand.
"""
import re

MARK = re.compile(r"\[\[([a-z_]+)(?::([\w-]+):([\w-]+))?\|(.+?)\]\]", re.S)


def strip(text):
    """Return (plain text, [(start, end, type, constraint id, category)]), offsets in UTF-8 bytes."""
    out, spans, last = "", [], 0
    for m in MARK.finditer(text):
        out += text[last:m.start()]
        start = len(out.encode("utf-8"))
        out += m.group(4)
        spans.append((start, len(out.encode("utf-8")), m.group(1), m.group(2), m.group(3)))
        last = m.end()
    return out + text[last:], spans


class Annotations:
    """Collects the ground truth of one run while it is written or recorded."""

    def __init__(self):
        self.goal = None
        self.goal_changes, self.constraints, self.salient = [], [], []
        self.compression_points, self.intents, self.subtask_ends = [], [], []
        self.probes, self.superseded = [], []

    def marked(self, text, step):
        """Strip the marks from `text`, which becomes message `step`."""
        plain, spans = strip(text)
        raw = plain.encode("utf-8")
        for start, end, kind, cid, category in spans:
            quote = raw[start:end].decode("utf-8")
            self.span(step, start, end, kind, quote)
            if kind == "goal":
                if self.goal is None:
                    self.goal = quote
                else:
                    self.goal_changes.append({"step": step, "text": quote})
            if kind == "constraint":
                self.constraints.append({"id": cid, "text": quote, "category": category, "step": step})
        return plain

    def span(self, step, start, end, kind, quote):
        item = {"step": step, "start": start, "end": end, "type": kind, "text": quote}
        if item not in self.salient:
            self.salient.append(item)

    def quote(self, step, content, quote, kind):
        """Mark the first place of `quote` in the message `content`."""
        at = content.encode("utf-8").find(quote.encode("utf-8"))
        if at < 0:
            raise ValueError("quote not in message %d: %r" % (step, quote))
        self.span(step, at, at + len(quote.encode("utf-8")), kind, quote)

    def as_dict(self):
        """Only what is known: an unknown field is missing, not empty."""
        out = {"goal": self.goal} if self.goal else {}
        self.salient.sort(key=lambda s: (s["step"], s["start"], s["end"]))
        for name in ("goal_changes", "constraints", "salient", "compression_points",
                     "intents", "subtask_ends", "probes", "superseded"):
            if getattr(self, name):
                out[name] = getattr(self, name)
        return out
