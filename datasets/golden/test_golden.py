#!/usr/bin/env python3
"""Checks the golden data: `python3 datasets/golden/test_golden.py`. `--figures` prints the tables of the README."""
import json
import statistics
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "recorder"))

import check
import generate
from kit import LEVELS
from questions import Guessers, places

TYPES = {"goal", "constraint", "decision", "fact", "tool_output"}
KINDS = {"goal", "constraint", "artifact", "continuation", "decision"}
ANNOTATIONS = {"goal", "goal_changes", "constraints", "knobs", "salient", "near_duplicates", "noise", "compression_points", "intents", "subtask_ends", "superseded", "probes"}
CATEGORIES = {"budget", "deadline", "prohibition", "format", "dependency", "licence", "privacy", "security", "accessibility", "performance", "scope", "style"}


def load():
    return [json.loads(line) for domain, _ in generate.DOMAINS for line in (HERE / (domain + ".jsonl")).read_text("utf-8").splitlines()]


def text_of(message):
    return message["content"] + "".join("\n" + c["function"]["arguments"] for c in message.get("tool_calls", ()))


def turns_before(messages):
    """Per message, how many turns have begun."""
    out, n = [], 0
    for m in messages:
        n += m["role"] == "assistant"
        out.append(n)
    return out


def distances(run):
    """Turns between the last mention of a fact's value and its first later use by the agent, and whether words bind it."""
    messages, turn = run["messages"], turns_before(run["messages"])
    texts = [text_of(m).lower() for m in messages]
    out = []
    for s in run["annotations"]["salient"]:
        if s["type"] not in ("fact", "tool_output"):
            continue
        for used in s["used"]:
            values = [v for v in run_values(run, used) if v.lower() in s["text"].lower()]
            if values:
                v = max(values, key=len).lower()
                last = max((i for i in range(used) if places(texts[i], v)), default=None)
                if last is not None:
                    out.append(turn[used] - turn[last])
    return out


def run_values(run, step):
    """Words of a message that look like a value: the longest that also stands in the fact is meant."""
    strip = ".,;:'\"{}[]()“”|"
    text = text_of(run["messages"][step])
    words = text.replace("'", " ").replace('"', " ").replace("=", " ").replace("/health", "").replace("127.0.0.1:", "").split()
    joined = [" ".join(words[i:i + 2]) for i in range(len(words) - 1)]
    return [w.strip(strip) for w in words + joined if any(c.isdigit() or c in "/_-#" for c in w) and len(w.strip(strip)) > 2]


def guess_rates(runs):
    """Share of probes that each guesser gets right, `first` included; over all probes."""
    hits, n = dict.fromkeys(Guessers.NAMES + ("first", "last"), 0), 0
    for run in runs:
        for p in run["annotations"]["probes"]:
            guessers = Guessers([text_of(m) for m in run["messages"][:p["step"]]])
            at = p["choices"].index(p["answer"])
            for name, guess in guessers.guesses(p["choices"]).items():
                hits[name] += guess == at
            hits["first"] += at == 0
            hits["last"] += at == 3
            n += 1
    return {k: v / n for k, v in hits.items()}, n


class Golden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runs = load()

    def each(self):
        return [(run, run["messages"], run["annotations"]) for run in self.runs]

    def test_made_again_the_bytes_are_the_same(self):
        lines = {}
        for domain, line in generate.make(generate.SEED):
            lines.setdefault(domain, []).append(line)
        for domain, _ in generate.DOMAINS:
            self.assertEqual("".join(lines[domain]).encode("utf-8"), (HERE / (domain + ".jsonl")).read_bytes(), domain)

    def test_no_order_of_hashes_gets_in(self):
        """Another process, with another seed for the hashes of strings."""
        name = "golden-coding-09"
        made = [subprocess.run([sys.executable, "-B", str(HERE / "generate.py"), "--out", ".", "--only", name], capture_output=True, check=True,
                               env={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")]
        self.assertEqual(made[0], made[1])

    def test_size_and_spread(self):
        self.assertTrue(64 <= len(self.runs) <= 72)
        self.assertGreaterEqual(len({r["repository"] for r in self.runs}), 24)
        self.assertLess(sum((HERE / (d + ".jsonl")).stat().st_size for d, _ in generate.DOMAINS), 5_000_000)
        lengths = [turns_before(r["messages"])[-1] for r in self.runs]
        self.assertTrue(min(lengths) >= 19 and max(lengths) <= 201, lengths)
        self.assertTrue(40 <= statistics.median(lengths) <= 60, statistics.median(lengths))
        for knob in ("distance", "noise", "paraphrase", "rarity"):
            for level in LEVELS:
                self.assertGreaterEqual(sum(r["annotations"]["knobs"][knob] == level for r in self.runs), 12, (knob, level))
        for domain, _ in generate.DOMAINS:
            self.assertGreaterEqual(sum(r["task_id"].startswith("golden-" + domain) for r in self.runs), 16)

    def test_schema(self):
        names = set()
        for run, messages, notes in self.each():
            self.assertNotIn(run["task_id"], names)
            names.add(run["task_id"])
            self.assertEqual((run["agent"], run["model"]), ("trajpress-golden", None))
            self.assertTrue(run["repository"].startswith("golden/"))
            self.assertEqual(set(notes), ANNOTATIONS)
            errors = []
            check.check_messages(messages, errors.append)
            old = {k: v for k, v in notes.items() if k in check.FIELDS}
            check.check_annotations(messages, old, errors.append)
            self.assertEqual(errors, [])
            self.assertEqual([i["step"] for i in notes["intents"]], [k for k, m in enumerate(messages) if m["role"] == "assistant"])
            for m in messages:
                self.assertTrue(m["content"] or m["role"] == "tool", m)
                for bad in ("\x02", "\x03", "\x1f", "«", "»", "{e}", "{v}", "{w0}", "{o}", "{r}"):
                    self.assertNotIn(bad, text_of(m))
            self.assertLessEqual({c["category"] for c in notes["constraints"]}, CATEGORIES)

    def test_offsets_are_exact(self):
        for run, messages, notes in self.each():
            raw = [m["content"].encode("utf-8") for m in messages]
            for s in notes["salient"]:
                self.assertEqual(raw[s["step"]][s["start"]:s["end"]].decode("utf-8"), s["text"])
                self.assertIn(s["type"], TYPES)
                for u in s["used"]:
                    self.assertGreater(u, s["step"])
                    self.assertEqual(messages[u]["role"], "assistant")
            for d in notes["near_duplicates"] + notes["noise"]:
                self.assertTrue(0 <= d["start"] < d["end"] <= len(raw[d["step"]]))
                raw[d["step"]][d["start"]:d["end"]].decode("utf-8")
            for d in notes["near_duplicates"]:
                self.assertGreaterEqual(d["step"], notes["salient"][d["of"]]["step"])
            covered = {(s["step"], k) for s in notes["salient"] for k in range(s["start"], s["end"])}
            for d in notes["noise"]:
                self.assertFalse(any((d["step"], k) in covered for k in (d["start"], d["end"] - 1)), d)

    def test_constraints(self):
        for run, messages, notes in self.each():
            for c in notes["constraints"]:
                for a in c["anchors"]:
                    self.assertIn(a, c["text"])
                if c["until"] is not None:
                    self.assertGreater(c["until"], c["step"])
        all_of_them = [c for r in self.runs for c in r["annotations"]["constraints"]]
        self.assertEqual({c["category"] for c in all_of_them}, CATEGORIES)
        self.assertTrue(0.2 < sum(c["implicit"] for c in all_of_them) / len(all_of_them) < 0.7)

    def test_probes(self):
        for run, messages, notes in self.each():
            self.assertTrue(6 <= len(notes["probes"]) <= 15, len(notes["probes"]))
            for p in notes["probes"]:
                self.assertIn(p["kind"], KINDS)
                self.assertEqual(len(set(p["choices"])), 4)
                self.assertEqual(p["choices"].count(p["answer"]), 1)
                before = "\n".join(text_of(m) for m in messages[:p["step"] + 1]).lower()
                for choice in p["choices"]:
                    self.assertTrue(places(before, choice.lower()), (p["question"], choice))
                self.assertTrue(p["needs"])
                for step, start, end in p["needs"]:
                    self.assertLess(step, p["step"])
                    said = messages[step]["content"].encode("utf-8")[start:end].decode("utf-8")
                    self.assertTrue(said)
                texts = [messages[s]["content"].encode("utf-8")[a:b].decode("utf-8").lower() for s, a, b in p["needs"]]
                self.assertTrue(any(p["answer"].lower() in t for t in texts), (p, texts))
                gone = {s["old"] for s in notes["superseded"] if s["step"] <= p["step"]}
                self.assertNotIn(p["answer"], gone)
            asked = {p["step"] for p in notes["probes"]}
            self.assertGreaterEqual(len(asked), 3)

    def test_points(self):
        for run, messages, notes in self.each():
            ends = check.turn_ends(messages)
            points, n = notes["compression_points"], turns_before(messages)[-1]
            self.assertLessEqual(set(points) | set(notes["subtask_ends"]), ends)
            self.assertTrue(2 <= len(points) <= 6)
            self.assertTrue(len(points) >= 3 or n < 26)
            if len(notes["goal_changes"]) == 2:
                self.assertEqual(notes["goal_changes"][1]["text"], notes["goal"])

    def test_superseded(self):
        for run, messages, notes in self.each():
            for s in notes["superseded"]:
                before = [k for k, m in enumerate(messages) if s["old"].lower() in text_of(m).lower()]
                self.assertLess(before[0], s["step"])
                self.assertIn(s["new"].lower(), messages[s["step"]]["content"].lower())
                self.assertFalse(any(places(text_of(m).lower(), s["new"].lower()) for m in messages[:s["step"]]), s)
        self.assertGreater(sum(bool(r["annotations"]["superseded"]) for r in self.runs), 0.8 * len(self.runs))
        self.assertTrue(0.2 < sum(bool(r["annotations"]["goal_changes"]) for r in self.runs) / len(self.runs) < 0.5)

    def test_cheap_guesses_know_nothing(self):
        rates, n = guess_rates(self.runs)
        for name, rate in rates.items():
            self.assertTrue(0.17 <= rate <= 0.33, (name, rate))

    def test_the_knobs_turn(self):
        by = lambda knob, of: [statistics.mean(x for r in self.runs if r["annotations"]["knobs"][knob] == level for x in of(r)) for level in LEVELS]
        low, mid, high = by("distance", distances)
        self.assertTrue(low < 10 < mid < 26 and high > 25, (low, mid, high))
        share = lambda r: [sum(d["end"] - d["start"] for d in r["annotations"]["noise"]) / sum(len(m["content"].encode("utf-8")) for m in r["messages"])]
        low, mid, high = by("noise", share)
        self.assertTrue(low + 0.1 < mid < high, (low, mid, high))
        same = lambda r: [float(copy_of(r, d).lower().rstrip(".") == r["annotations"]["salient"][d["of"]]["text"].lower().rstrip(".")) for d in r["annotations"]["near_duplicates"]]
        low, mid, high = by("paraphrase", same)
        self.assertTrue(low > mid > high, (low, mid, high))


def copy_of(run, d):
    return run["messages"][d["step"]]["content"].encode("utf-8")[d["start"]:d["end"]].decode("utf-8")


def figures():
    runs = load()
    print("| | coding | research | support | design | all |\n| --- | --- | --- | --- | --- | --- |")
    groups = [[r for r in runs if r["task_id"].startswith("golden-" + d)] for d, _ in generate.DOMAINS] + [runs]
    note = lambda k: lambda g: sum(len(r["annotations"][k]) for r in g)
    turns = lambda g: sorted(turns_before(r["messages"])[-1] for r in g)
    rows = [("runs", len), ("repositories", lambda g: len({r["repository"] for r in g})), ("turns: least", lambda g: turns(g)[0]), ("turns: median", lambda g: "%g" % statistics.median(turns(g))),
            ("turns: most", lambda g: turns(g)[-1]), ("turns: all", lambda g: sum(turns(g))), ("messages", lambda g: sum(len(r["messages"]) for r in g)),
            ("kilobytes of text", lambda g: sum(len(text_of(m).encode("utf-8")) for r in g for m in r["messages"]) // 1000)]
    rows += [(k.replace("_", " "), note(k)) for k in ("salient", "near_duplicates", "noise", "constraints")]
    rows += [("of these implicit", lambda g: sum(c["implicit"] for r in g for c in r["annotations"]["constraints"])), ("superseded values", note("superseded")),
             ("runs with a change of goal", lambda g: sum(bool(r["annotations"]["goal_changes"]) for r in g)), ("of these back to the first", lambda g: sum(len(r["annotations"]["goal_changes"]) == 2 for r in g)),
             ("compression points", note("compression_points")), ("subtask ends", note("subtask_ends")), ("probes", note("probes"))]
    rows += [("probes: " + k, lambda g, k=k: sum(p["kind"] == k for r in g for p in r["annotations"]["probes"])) for k in sorted(KINDS)]
    for name, of in rows:
        print("| %s | %s |" % (name, " | ".join(str(of(g)) for g in groups)))
    print("\n| knob | level | runs | turns (median) | distance of a use (mean) | noise (share of bytes) | restated verbatim |\n| --- | --- | --- | --- | --- | --- | --- |")
    for knob in ("distance", "noise", "paraphrase", "rarity"):
        for level in LEVELS:
            g = [r for r in runs if r["annotations"]["knobs"][knob] == level]
            d = [x for r in g for x in distances(r)]
            noisy = sum(d["end"] - d["start"] for r in g for d in r["annotations"]["noise"]) / sum(len(m["content"].encode("utf-8")) for r in g for m in r["messages"])
            same = [copy_of(r, d).lower().rstrip(".") == r["annotations"]["salient"][d["of"]]["text"].lower().rstrip(".") for r in g for d in r["annotations"]["near_duplicates"]]
            print("| %s | %s | %d | %g | %.1f (n=%d) | %.2f | %.2f |" % (knob, level, len(g), statistics.median(turns(g)), statistics.mean(d), len(d), noisy, statistics.mean(same)))
    rates, n = guess_rates(runs)
    print("\n| guess | right, of %d |\n| --- | --- |" % n)
    for name, rate in rates.items():
        print("| %s | %.3f |" % (name.replace("_", " "), rate))
    print("\ncategories:", {c: sum(x["category"] == c for r in runs for x in r["annotations"]["constraints"]) for c in sorted(CATEGORIES)})


if __name__ == "__main__":
    if "--figures" in sys.argv:
        figures()
    else:
        unittest.main()
