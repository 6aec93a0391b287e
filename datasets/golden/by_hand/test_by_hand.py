#!/usr/bin/env python3
"""`python3 datasets/golden/by_hand/test_by_hand.py`: by_hand.jsonl is what the talks compile to, and its truth holds together."""
import json
import re
import sys
import unittest
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import by_hand  # noqa: E402
import check  # noqa: E402  from the recorder, whose folder by_hand adds

MORE_FIELDS = {"near_duplicates", "noise"}
NAMES_OR_NUMBERS = re.compile(r"[\w./-]*\d[\w./-]*|/\S+")


def calls_of(message):
    return "\n".join(c["function"]["arguments"] for c in message.get("tool_calls", ()))


class ByHand(unittest.TestCase):
    now = None

    @classmethod
    def setUpClass(cls):
        cls.kept = (HERE / "by_hand.jsonl").read_bytes()
        cls.runs = [json.loads(x) for x in cls.kept.decode("utf-8").splitlines()]

    def each(self):
        for run in self.runs:
            self.now = run["task_id"]
            yield run, run["messages"], run["annotations"]
        self.now = None

    def _formatMessage(self, msg, standard):
        return super()._formatMessage("%s: %s" % (self.now, msg) if self.now else msg, standard)

    def slice(self, messages, step, start, end):
        self.assertTrue(0 <= step < len(messages), step)
        raw = messages[step]["content"].encode("utf-8")
        self.assertTrue(0 <= start < end <= len(raw), (step, start, end))
        return raw[start:end].decode("utf-8")

    def test_compiles_to_the_same_bytes(self):
        self.assertEqual(by_hand.compiled().encode("utf-8"), self.kept)

    def test_recorder_accepts(self):
        fields, check.FIELDS = check.FIELDS, check.FIELDS | MORE_FIELDS
        self.addCleanup(setattr, check, "FIELDS", fields)
        for run, messages, notes in self.each():
            errors = []
            turns = check.check_messages(messages, errors.append)
            check.check_annotations(messages, notes, errors.append)
            self.assertEqual(errors, [])
            self.assertTrue(12 <= turns <= 45, turns)

    def test_names(self):
        names = [run["task_id"] for run in self.runs]
        self.assertGreaterEqual(len(set(names)), 10)
        self.assertEqual(len(set(names)), len(names))
        readme = (HERE / "README.md").read_text(encoding="utf-8")
        for run, messages, _ in self.each():
            self.assertEqual(run["repository"], "golden-by-hand/" + run["task_id"])
            self.assertEqual((run["agent"], run["model"]), ("trajpress-golden", None))
            self.assertIn("| %s | %d |" % (run["task_id"], sum(m["role"] == "assistant" for m in messages)), readme)

    def test_no_mark_is_left(self):
        for _, messages, _ in self.each():
            for m in messages:
                self.assertIsNone(by_hand.MARK.search(m["content"]), m["content"])
                self.assertNotRegex(m["content"] + calls_of(m), r"\[\[(?:%s|again|noise|at)\b" % "|".join(by_hand.SALIENT))
                self.assertNotIn("@superseded", m["content"])

    def test_only_declared_tools_with_their_parameters(self):
        for run, messages, _ in self.each():
            declared = {t["function"]["name"]: set(t["function"]["parameters"]["required"]) for t in run["tools"]}
            for m in messages:
                for c in m.get("tool_calls", ()):
                    self.assertEqual(set(json.loads(c["function"]["arguments"])), declared[c["function"]["name"]])

    def test_goal(self):
        for _, messages, notes in self.each():
            first = next(s for s in notes["salient"] if s["type"] == "goal")
            self.assertEqual(first["text"], notes["goal"])
            self.assertEqual([s["text"] for s in notes["salient"] if s["type"] == "goal"][1:], [g["text"] for g in notes.get("goal_changes", ())])

    def test_constraints(self):
        for _, messages, notes in self.each():
            spans = {(s["step"], s["text"]) for s in notes["salient"] if s["type"] == "constraint"}
            for c in notes["constraints"]:
                self.assertIn((c["step"], c["text"]), spans)
                self.assertIsInstance(c["implicit"], bool)
                for anchor in c.get("anchors", ()):
                    self.assertIn(anchor, c["text"])
                if "until" in c:
                    self.assertTrue(c["step"] < c["until"] < len(messages))

    def test_used(self):
        for _, messages, notes in self.each():
            for s in notes["salient"]:
                used = s.get("used", [])
                self.assertEqual(used, sorted(set(used)))
                for step in used:
                    self.assertTrue(s["step"] <= step < len(messages))
                    self.assertEqual(messages[step]["role"], "assistant")

    def test_no_idle_fact(self):
        """A fact or an output is salient because the agent uses it or a probe asks for it."""
        for _, _, notes in self.each():
            asked = {tuple(need) for p in notes["probes"] for need in p["needs"]}
            for s in notes["salient"]:
                if s["type"] in ("fact", "tool_output"):
                    self.assertTrue(s.get("used") or (s["step"], s["start"], s["end"]) in asked, s["text"])

    def test_turns_are_told_apart(self):
        """After an answer without calls comes a person."""
        for _, messages, _ in self.each():
            for a, b in zip(messages, messages[1:]):
                self.assertFalse(a["role"] == b["role"] == "assistant", b["content"][:60])

    def test_observed_facts_reach_later_calls(self):
        """Every talk with calls has facts from a tool or a user whose literals stand in a call at least five messages later."""
        for run, messages, notes in self.each():
            far = 0
            for s in notes["salient"]:
                literals = NAMES_OR_NUMBERS.findall(s["text"])
                far += sum(any(x.strip(".,/-") in calls_of(messages[k]) for x in literals) for k in s.get("used", ()) if k - s["step"] >= 5)
            self.assertGreaterEqual(far, 0 if run["task_id"] == "waiting-room" else 1)

    def test_near_duplicates_and_noise(self):
        total = Counter()
        for _, messages, notes in self.each():
            salient = [(s["step"], s["start"], s["end"]) for s in notes["salient"]]
            for d in notes.get("near_duplicates", ()):
                copy = self.slice(messages, d["step"], d["start"], d["end"])
                self.assertLess(notes["salient"][d["of"]]["step"], d["step"])
                self.assertNotEqual(copy, notes["salient"][d["of"]]["text"])
                total["copies"] += 1
            for x in notes.get("noise", ()):
                self.slice(messages, x["step"], x["start"], x["end"])
                for step, start, end in salient:
                    self.assertFalse(step == x["step"] and start < x["end"] and x["start"] < end, "noise over a salient span")
                total["noise"] += 1
        self.assertGreaterEqual(total["copies"], 5)
        self.assertGreaterEqual(total["noise"], 20)

    def test_spans_of_one_message_do_not_cross(self):
        for _, _, notes in self.each():
            spans = sorted((s["step"], s["start"], s["end"]) for s in notes["salient"])
            for a, b in zip(spans, spans[1:]):
                self.assertTrue(a[0] != b[0] or a[2] <= b[1], (a, b))

    def test_points(self):
        for _, messages, notes in self.each():
            self.assertTrue(2 <= len(notes["compression_points"]) <= 4, notes["compression_points"])
            ends = check.turn_ends(messages)
            for p in notes["compression_points"] + notes["subtask_ends"]:
                self.assertIn(p, ends)

    def test_probes(self):
        kinds = Counter()
        for _, messages, notes in self.each():
            self.assertTrue(6 <= len(notes["probes"]) <= 12, len(notes["probes"]))
            self.assertTrue({"goal", "constraint", "artifact", "continuation", "decision"} == {p["kind"] for p in notes["probes"]})
            kinds.update(p["kind"] for p in notes["probes"])
            for p in notes["probes"]:
                self.assertEqual(len(p["choices"]), 4)
                self.assertEqual(len(set(p["choices"])), 4)
                self.assertEqual(p["choices"].count(p["answer"]), 1)
                self.assertTrue(p["needs"])
                for step, start, end in p["needs"]:
                    self.slice(messages, step, start, end)
                    self.assertLessEqual(step, p["step"])

    def test_form_of_choices_gives_nothing_away(self):
        probes = [p for run in self.runs for p in run["annotations"]["probes"]]
        n = len(probes)
        places = Counter(p["choices"].index(p["answer"]) for p in probes)
        self.assertTrue(all(0.2 * n <= places[k] <= 0.3 * n for k in range(4)), places)
        for name, pick in (("longest", max), ("shortest", min)):
            hits = 0.0
            for p in probes:
                sizes = [len(c) for c in p["choices"]]
                best = [c for c in p["choices"] if len(c) == pick(sizes)]
                hits += (p["answer"] in best) / len(best)
            self.assertTrue(hits < 0.4 * n, "%s choice is right in %.0f of %d" % (name, hits, n))


if __name__ == "__main__":
    unittest.main()
