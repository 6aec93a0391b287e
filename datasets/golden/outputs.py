"""Outputs of tools: noise alone, or noise around lines that matter."""
import chatter
from kit import capital, expand, noise

LENGTHS = {"low": (2, 4), "mid": (5, 10), "high": (11, 24)}
TABLES = {"log": chatter.LOG_LINES, "pytest": chatter.PYTEST, "cargo": chatter.CARGO, "jest": chatter.JEST, "listing": chatter.LISTING,
          "csv": chatter.CSV, "trace": chatter.TRACE, "hits": chatter.HITS, "page": chatter.PAGES, "manual": chatter.MANUAL, "policy": chatter.POLICY, "spec": chatter.SPECS}
CODE = ["def {w0}_{a0}({w1}):", "    for {w2} in {w1}:", "        if not {w2}.{a0}:", "            continue", "        {w0}.append({w2})",
        "    return {w0}", "", "class {w1}Mixin:", "    {a0} = None", "    # {w0} before {w1}, see the manual"]


class Outputs:
    def __init__(self, chance, words, level):
        self.chance, self.words, self.level = chance, words, level

    def n(self):
        return self.chance.int(*LENGTHS[self.level])

    def line(self, text):
        return expand(self.chance, text, self.words())

    def lines(self, kind, n=None):
        return [self.line(self.chance.choice(TABLES[kind])) for _ in range(n or self.n())]

    def blob(self, kind):
        """A whole output that nobody needs."""
        c = self.chance
        if kind in ("pytest", "cargo", "jest"):
            rows = self.lines(kind)
            failed = c.below(3) if c.chance(0.35) else 0
            tail = {"pytest": "===== %s%d passed in %d.%02ds =====" % ("%d failed, " % failed if failed else "", c.int(5, 90), c.int(0, 30), c.below(100)),
                    "cargo": "test result: %s. %d passed; %d failed; 0 ignored" % ("FAILED" if failed else "ok", c.int(5, 90), failed),
                    "jest": "Tests: %s%d passed, %d total" % ("%d failed, " % failed if failed else "", c.int(5, 50), c.int(51, 60))}[kind]
            return noise("\n".join(rows + [tail]))
        if kind == "trace":
            error = c.choice(["KeyError", "ValueError", "TimeoutError", "TypeError", "IndexError", "UnicodeDecodeError"])
            return noise("\n".join(["Traceback (most recent call last):"] + self.lines("trace", max(2, self.n() // 2))
                                   + [error + self.line(": {a0} {w1}")]))
        if kind == "code":
            return noise("\n".join(self.line(CODE[i % len(CODE)]) for i in range(self.n())))
        if kind == "json":
            return noise("[\n" + "\n".join(self.line(c.choice(chatter.JSON_ROWS)) for _ in range(max(1, self.n() // 2))).rstrip(",") + "\n]")
        if kind == "counts":
            return noise("\n".join(self.line("{n3} {w0}/{w1}.py") for _ in range(self.n())))
        if kind == "make":
            return noise("\n".join(self.line("cc -O2 -c {w0}_{w1}.c") for _ in range(self.n())) + "\nok")
        if kind == "csv":
            return noise("\n".join(["id,name,state,value"] + self.lines("csv")))
        if kind in ("edited", "ok", "received"):
            return {"edited": "edited, 1 replacement", "ok": "{\"ok\": true}", "received": "received"}[kind]
        if kind == "edited_failed":
            return "error: the text to replace was not found" if c.chance(0.5) else "edited, 1 replacement"
        if kind == "ok_failed":
            return "{\"ok\": false, \"reason\": \"busy, try again\"}" if c.chance(0.5) else "{\"ok\": true}"
        if kind == "preview":
            return self.line("preview {n3} ready")
        if kind == "preview_failed":
            return self.line("preview failed: {w0} too {a0}") if c.chance(0.5) else self.line("preview {n3} ready")
        return noise("\n".join(self.lines(kind)))

    def around(self, kind, facts, more="page"):
        """The lines of `facts` (marked sentences without a period) inside an output of this kind."""
        c = self.chance
        rest = c.sample(range(100), max(1, self.n() - len(facts)))
        items = c.shuffled([(f, True) for f in facts] + [(None, False) for _ in rest])
        out = []
        for fact, real in items:
            if kind == "log":
                stamp = "%02d:%02d:%02d" % (c.below(24), c.below(60), c.below(60))
                out.append(stamp + self.line(" NOTE  {w1}: ") + fact if real else noise(self.lines("log", 1)[0]))
            elif kind == "hits":
                out.append(self.line("{w0}/{w1}.md:{n2}: ") + fact if real else noise(self.lines("hits", 1)[0]))
            elif kind == "config":
                out.append("# " + fact if real else noise(self.line("{w0}_{a0} = {n3}")))
            elif kind == "commitlog":
                out.append("    " + fact if real else noise(self.line("{w0}: tidy the {a0} {w1}")))
            elif kind == "records":
                out.append("{\"remark\": \"" + fact + "\"}" if real else noise(self.line("{\"entry\": {n3}, \"state\": \"{a0}\", \"about\": \"{w0}\"}")))
            else:
                out.append(capital(fact) + "." if real else noise(self.lines(more, 1)[0]))
        if kind == "doc":
            out.insert(0, self.line("# {w0} and {w1}"))
            return "\n".join(out)
        return (" " if kind == "page" else "\n").join(out)
