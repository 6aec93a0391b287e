#!/usr/bin/env python3
"""`python3 datasets/labels/test_labels.py`: labels keep the rules of the README, join.py finds their texts, convert.py reads each form.

With TRAJPRESS_LOGS, the folder of the logs, swe.jsonl is joined to them; without it only made-up logs are read.
"""
import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import convert  # noqa: E402
import counts  # noqa: E402
import join  # noqa: E402


def run(*args):
    """(exit code, rows, what was told) of join.py."""
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        code = join.main([str(a) for a in args])
    return code, [json.loads(line) for line in out.getvalue().splitlines()], told.getvalue()


class Rows(unittest.TestCase):
    def test_rules(self):
        for path in HERE.glob("*.jsonl"):
            for row in join.rows(path):
                with self.subTest(file=path.name, source=row["source"], run=row.get("run")):
                    self.check(row)

    def check(self, row):
        self.assertRegex(row["sha256"], "^[0-9a-f]{64}$")
        self.assertTrue(row["points"] and row["points"] == sorted(set(row["points"])))
        self.assertLess(row["points"][-1], row["messages"])
        last = (0, 0)
        for span in row["spans"]:
            self.assertLess(span["start"], span["end"])
            self.assertGreaterEqual((span["message"], span["start"]), last)
            last = (span["message"], span["end"])
            self.assertIn(span["type"], counts.TYPES)
            self.assertIn(span["used_later"], (True, False, None))
            self.assertTrue(span["points"] and set(span["points"]) <= set(row["points"]))
            self.assertLessEqual(span["message"], span["points"][0])
        for change in row.get("goal_changes", []):
            self.assertRegex(change["sha256"], "^[0-9a-f]{8}$")

    def test_no_log_is_labelled_twice_by_one_file(self):
        for path in HERE.glob("*.jsonl"):
            keys = [(row["source"], row.get("run")) for row in join.rows(path)]
            self.assertEqual(len(keys), len(set(keys)), path)

    def test_at_most_three_logs_a_repository(self):
        names = [row["repository"] for row in join.rows(HERE / "swe.jsonl")]
        self.assertLessEqual(max(names.count(name) for name in names), 3)

    @unittest.skipUnless(os.environ.get("TRAJPRESS_LOGS") and convert.can_unzstd(), "no logs, or neither zstd nor pyarrow")
    def test_swe_joins_its_logs(self):
        code, rows, told = run(HERE / "swe.jsonl")
        self.assertEqual(code, 0, told)
        self.assertEqual(len(rows), len(join.rows(HERE / "swe.jsonl")))


class Join(unittest.TestCase):
    """A log of two messages, and a label on the second sentence of a message with letters of two bytes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.logs = Path(folder.name)
        content = "Größe zählt. Never touch main."
        log = json.dumps({"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "Yes."}]})
        (self.logs / "a.json").write_text(log, encoding="utf-8")
        span = {"message": 0, "start": 13, "end": 30, "sha256": hashlib.sha256(content[13:].encode()).hexdigest()[:8],
                "type": "constraint", "used_later": True, "points": [1]}
        self.row = {"source": "a.json", "sha256": hashlib.sha256(log.encode()).hexdigest(),
                    "format": "x", "repository": "a/b", "agent": "x", "messages": 2, "points": [1],
                    "spans": [span], "goal_changes": [], "subtask_ends": []}

    def joined(self):
        labels = self.logs / "second-swe.jsonl"
        labels.write_text(json.dumps(self.row) + "\n", encoding="utf-8")
        return run("--logs", self.logs, labels)

    def test_offsets_become_bytes(self):
        code, rows, _ = self.joined()
        salient = rows[0]["annotations"]["salient"][0]
        self.assertEqual((code, salient["text"], salient["start"], salient["end"]), (0, "Never touch main.", 16, 33))
        self.assertEqual(rows[0]["annotations"]["constraints"], [{"id": "C1", "text": "Never touch main.", "step": 0}])

    def test_a_changed_log_is_left_out_and_told(self):
        with open(self.logs / "a.json", "a", encoding="utf-8") as file:
            file.write("\n")
        self.assertEqual(self.joined(), (1, [], "left out: a.json : the log has changed\n0 logs joined, 1 left out\n"))

    def test_other_text_is_left_out_and_told(self):
        self.row["spans"][0]["end"] -= 1
        code, rows, told = self.joined()
        self.assertEqual((code, rows), (1, []))
        self.assertIn("other text at message 0, 13 to 29", told)


class Convert(unittest.TestCase):
    def test_steps_of_swe_agent_are_calls(self):
        history = [{"role": "system", "content": "s"}, {"role": "user", "content": "demo", "is_demo": True},
                   {"role": "user", "content": "task"}, {"role": "assistant", "content": "x"}]
        steps = [{"thought": "Look.", "action": "ls -a\n", "observation": "b"}, {"thought": "Done.", "action": "", "observation": ""}]
        got = convert.swe_agent({"history": history, "trajectory": steps})
        self.assertEqual([(m["role"], m["content"]) for m in got],
                         [("system", "s"), ("user", "task"), ("assistant", "Look."), ("tool", "b"), ("assistant", "Done.")])
        self.assertEqual(got[2]["tool_calls"][0]["function"], {"name": "ls", "arguments": '{"command": "ls -a\\n"}'})

    def test_users_tools_are_not_the_agents(self):
        said = [{"role": "user", "content": "hi"}, {"role": "user", "content": None, "tool_calls": [{"requestor": "user"}]},
                {"role": "tool", "content": "on", "requestor": "user", "id": "1"}, {"role": "assistant", "content": "ok"}]
        got = convert.tau2({"info": {"environment_info": {"policy": "p"}}, "simulations": [{"messages": said}]}, 0)
        self.assertEqual([m["content"] for m in got], ["p", "hi", "ok"])

    def test_aider_is_a_user_of_its_own(self):
        text = "# aider chat started at 1\n#### x\n# aider chat started at 2\n\n> Added a.py  \n\n#### do it\n\nSure.\n\n> Applied\n"
        got = convert.aider(text, 2)
        self.assertEqual([(m["role"], m["name"], m["content"]) for m in got],
                         [("user", "aider", "Added a.py"), ("user", "user", "do it"),
                          ("assistant", "aider", "Sure."), ("user", "aider", "Applied")])

    def test_long_outputs_lose_their_middle(self):
        got = convert.said("tool", "a" * 7000 + "b" * 7000)["content"]
        self.assertTrue(got.startswith("a" * 6000 + "\n[... 2000 characters cut") and got.endswith("b" * 6000))

    def test_points_end_turns(self):
        call = [convert.call("ls", "", "1")]
        talk = [convert.said("system", "s" * 900), convert.said("user", "u" * 30), convert.said("assistant", "a" * 30, call),
                convert.said("tool", "t" * 30), convert.said("assistant", "e" * 30)]
        self.assertEqual(convert.points(talk), [3, 4])


if __name__ == "__main__":
    unittest.main()
