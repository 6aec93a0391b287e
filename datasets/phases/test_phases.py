#!/usr/bin/env python3
"""`python3 datasets/phases/test_phases.py`: the labels keep their rules, the draws are those of draw.py, the agreement is computed right."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import agreement  # noqa: E402
import draw  # noqa: E402

FIELDS = ["source", "task_id", "trajectory", "turn", "intent", "also", "subtask_end", "boundary", "kinds", "file", "note"]
LOOKS_BACK = 5


def part(file):
    """The part of the system that a main file belongs to; sources of research have none."""
    if "." not in file and "/" not in file and file != "Makefile":
        return None
    if file.endswith(".md") or file.startswith("docs/"):
        return "documents"
    if file.endswith(".ini") or file.startswith(("etc/", "data/")):
        return "configuration and data"
    return {"Makefile": "build", "tools": "tools"}.get(file.split("/")[0], "code")


class Labels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = [json.loads(text) for text in (HERE / "labels.jsonl").read_text(encoding="utf-8").splitlines()]

    def test_every_turn_of_the_draw_and_no_other(self):
        wanted = [(source, task, turn) for taken in draw.drawn().values() for task, source, turns in taken for turn in range(1, turns + 1)]
        self.assertEqual([(r["source"], r["task_id"], r["turn"]) for r in self.rows], wanted,
                         "if runs were added to the folders, name them in ADDED_LATER of draw.py")
        self.assertGreaterEqual(len(wanted), 200)

    def test_fields(self):
        for r in self.rows:
            self.assertEqual(list(r), FIELDS)
            self.assertIn(r["intent"], agreement.INTENTS)
            self.assertIn(r["also"], (None,) + agreement.INTENTS)
            self.assertNotEqual(r["intent"], r["also"])
            self.assertEqual(r["boundary"], bool(r["kinds"]))
            self.assertEqual(r["kinds"], [k for k in agreement.KINDS if k in r["kinds"]])

    def test_file_and_module_boundaries_follow_from_the_main_files(self):
        runs = {}
        for r in self.rows:
            runs.setdefault(r["task_id"], []).append(r)
        for rows in runs.values():
            last = None
            for k, r in enumerate(rows):
                new = r["file"] not in (None, last) and last is not None
                recent = [x["file"] for x in rows[max(0, k - LOOKS_BACK):k]]
                crosses = new and r["file"] not in recent
                self.assertEqual("file" in r["kinds"], crosses, (r["task_id"], r["turn"]))
                self.assertEqual("module" in r["kinds"], crosses and part(r["file"]) != part(last), (r["task_id"], r["turn"]))
                last = r["file"] or last

    def test_a_quarter_is_drawn_for_the_second_labelling(self):
        text = (HERE / "second.toml").read_text(encoding="utf-8")
        self.assertEqual(text, draw.second_toml())
        keys = agreement.stretches(text)
        self.assertEqual(len(keys), len(set(keys)))
        self.assertLessEqual(set(keys), {(r["source"], r["task_id"], r["turn"]) for r in self.rows})
        self.assertTrue(1 / 4 <= len(keys) / len(self.rows) < 1 / 3)


class Agreement(unittest.TestCase):
    PAIRS = [("debug", "debug")] * 20 + [("debug", "verify")] * 5 + [("verify", "debug")] * 10 + [("verify", "verify")] * 15

    def test_kappa_worked_by_hand(self):
        # 35 of 50 agree; chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5.
        self.assertAlmostEqual(agreement.kappa(self.PAIRS), 0.4)
        self.assertAlmostEqual(agreement.kappa([("a", "b"), ("b", "a")]), -1)
        self.assertIsNone(agreement.kappa([("a", "a")]))

    def test_by_class(self):
        self.assertEqual(agreement.by_class(self.PAIRS, ["debug", "none"]), [("debug", 25, 30, 20, 40 / 55), ("none", 0, 0, 0, None)])

    def test_marks_are_paired_one_to_one(self):
        a, b = [("r", 3), ("r", 4), ("r", 9), ("s", 3)], [("r", 4), ("r", 5), ("s", 4)]
        self.assertEqual(agreement.f1(a, b), 2 / 7)
        self.assertEqual(agreement.f1(a, b, 1), 6 / 7)
        self.assertEqual(agreement.f1([("r", 1)], [("s", 1)], 1), 0)
        self.assertIsNone(agreement.f1([], []))

    def test_a_whole_comparison(self):
        first = agreement.read(HERE / "labels.jsonl")
        keys = agreement.stretches((HERE / "second.toml").read_text(encoding="utf-8"))
        self.assertIn("intents: 1.00 the same, kappa 1.00", agreement.table(first, first, keys))
        second = {k: {**first[k], "intent": "none" if k == keys[0] else first[k]["intent"]} for k in keys}
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder) / "second.jsonl", io.StringIO()
            path.write_text("".join(json.dumps(r) + "\n" for r in second.values()), encoding="utf-8")
            with contextlib.redirect_stdout(out):
                self.assertEqual(agreement.main([HERE / "labels.jsonl", path]), 0)
            self.assertIn("| %s | %d | %s | none |" % (keys[0][1], keys[0][2], first[keys[0]]["intent"]), out.getvalue())
            path.write_text("", encoding="utf-8")
            with contextlib.redirect_stderr(out):
                self.assertEqual(agreement.main([HERE / "labels.jsonl", path]), 2)
                self.assertEqual(agreement.main([HERE / "labels.jsonl", Path(folder) / "none.jsonl"]), 2)
            self.assertIn("without a label", out.getvalue())


if __name__ == "__main__":
    unittest.main()
