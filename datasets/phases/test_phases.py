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
import firings  # noqa: E402
import real  # noqa: E402

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


class Firings(unittest.TestCase):
    def test_rows(self):
        rows = [json.loads(text) for text in firings.ROWS.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            self.assertIn(row["verdict"], firings.VERDICTS)
            # Why, in a reader's own few words.
            self.assertTrue("why" in row or row["verdict"] == "plausible", row)
            self.assertLess(len(row.get("why", "")), 90)
            self.assertEqual("semantics" in row, row["reading"] >= 6)
            self.assertEqual("end" in row, row["reading"] >= 6 and row["verdict"] == "plausible", row)
            self.assertIn(row.get("end", row["cut"]), (row["cut"] - 1, row["cut"]))
        places = [(row["reading"], row["firing"], row["trajectory"], row["cut"], row["kind"]) for row in rows]
        self.assertEqual(len(places), len(set(places)))
        shares = firings.shares(rows)
        self.assertEqual(sum(shares[5, "intent", ""].values()), 60)
        for firing in ("subtask, learned", "subtask, the seed's signals"):
            self.assertEqual(sum(shares[6, firing, ", ".join(firings.COMMON)].values()), 60)

    def test_wilson(self):
        for (k, n), expected in {(40, 60): (0.54, 0.77), (0, 20): (0.0, 0.16), (20, 20): (0.84, 1.0)}.items():
            self.assertEqual(tuple(round(end, 2) for end in firings.wilson(k, n)), expected)


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


class Real(unittest.TestCase):
    FIELDS = ["path", "sha256", "format", "repository", "task", "trajectory", "turn", "intent", "phase_end", "subtask_end", "moves", "confidence"]

    @classmethod
    def setUpClass(cls):
        cls.first, cls.second = real.read("real.jsonl"), real.read("real_second.jsonl")

    def test_fields(self):
        for r in [*self.first.values(), *self.second.values()]:
            self.assertEqual(list(r), self.FIELDS)
            self.assertIn(r["intent"], agreement.INTENTS)
            self.assertIn(r["confidence"], ("sure", "likely", "unsure"))
            self.assertEqual(r["moves"], [k for k in real.MOVES if k in r["moves"]])
            self.assertRegex(r["sha256"], "^[0-9a-f]{64}$")
            if "module" in r["moves"]:
                self.assertIn("file", r["moves"])

    def test_every_turn_of_a_log_once(self):
        runs = {}
        for trajectory, turn in self.first:
            runs.setdefault(trajectory, []).append(turn)
        self.assertTrue(all(turns == list(range(1, len(turns) + 1)) for turns in runs.values()))
        self.assertGreaterEqual(len(self.first), 600)
        self.assertGreaterEqual(len(runs), 20)
        self.assertGreaterEqual(len({r["repository"] for r in self.first.values()}), 12)

    def test_phases_end_where_they_can(self):
        for (trajectory, turn), r in self.first.items():
            if r["phase_end"]:
                self.assertNotEqual(r["intent"], "none", (trajectory, turn))
                self.assertIn((trajectory, turn + 1), self.first, "the last turn of a log ends no phase")

    def test_the_second_reading_is_of_sixty_turns_of_ten_logs(self):
        self.assertLessEqual(set(self.second), set(self.first))
        self.assertEqual((len(self.second), len({trajectory for trajectory, _ in self.second})), (60, 10))

    def test_comparisons(self):
        key, row = next(iter(self.second.items()))
        self.assertIn("| intent |  |  | 60 of 60 | 1.00 |", real.compared(self.second, self.second))
        other = {**self.second, key: {**row, "intent": "refactor", "phase_end": not row["phase_end"]}}
        self.assertTrue(any(line.startswith("| intent |  |  | 59 of 60 |") for line in real.compared(other, self.second)))
        told = {k: {"intent": r["intent"], "subtask_end": False, "boundary": bool(r["moves"]), "cuts": set()} for k, r in self.second.items()}
        lines = real.beside(self.second, told)
        self.assertIn("| all | 60 | 60 | 1.00 |", lines)
        self.assertTrue(any(line.startswith("| `subtask`, subtask end | 5 | 0 | 0 | - | 0.00 | 0.00 |") for line in lines), lines)
        self.assertTrue(any(line.startswith("| `boundary`, moves |") and line.endswith("| 1.00 | 1.00 | 1.00 | 1.00 |") for line in lines), lines)


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
