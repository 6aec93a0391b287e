#!/usr/bin/env python3
"""`python3 datasets/labels/test_agree.py`: the labels of products keep their rules, stand in the logs, and agreement is computed right.

Set TRAJPRESS_LOGS to the folder of the logs; without it the texts are not looked up.
"""
import hashlib
import json
import os
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import agree  # noqa: E402
import convert  # noqa: E402
import convert_products  # noqa: E402

LOGS = os.environ.get("TRAJPRESS_LOGS")


def span(message, start, end, kind="fact", points=(9,)):
    return {"message": message, "start": start, "end": end, "type": kind, "points": list(points)}


class Labels(unittest.TestCase):
    rows = [json.loads(text) for text in (HERE / "products.jsonl").read_text(encoding="utf-8").splitlines()]

    def test_spans_are_in_order_before_their_points(self):
        for row in self.rows:
            last = (-1, 0)
            self.assertEqual(row["points"], sorted(set(row["points"])))
            for s in row["spans"]:
                self.assertGreaterEqual((s["message"], s["start"]), last, row["source"])
                self.assertIn(s["type"], agree.TYPES)
                self.assertIn(s["used_later"], (True, False, None))
                self.assertTrue(set(s["points"]) <= set(row["points"]) and s["points"])
                self.assertLessEqual(s["message"], min(s["points"]))
                last = (s["message"], s["end"])

    @unittest.skipUnless(LOGS and convert.can_unzstd(), "no logs, or neither zstd nor pyarrow")
    def test_texts_stand_in_the_logs(self):
        for row in self.rows:
            path = Path(LOGS) / row["source"]
            self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), row["sha256"])
            messages = convert_products.convert(path, row.get("run"))
            self.assertEqual(len(messages), row["messages"], path)
            for s in row["spans"]:
                text = messages[s["message"]]["content"][s["start"]:s["end"]]
                self.assertEqual(hashlib.sha256(text.encode("utf-8")).hexdigest()[:8], s["sha256"], path)
                self.assertNotEqual(messages[s["message"]]["role"], "system")


class Agreement(unittest.TestCase):
    def test_overlap_needs_a_common_character(self):
        self.assertTrue(agree.overlap(span(1, 0, 5), span(1, 4, 9)))
        self.assertFalse(agree.overlap(span(1, 0, 5), span(1, 5, 9)))
        self.assertFalse(agree.overlap(span(1, 0, 5), span(2, 0, 5)))

    def test_found_tells_the_type_apart(self):
        n, hit, same = agree.found([span(1, 0, 5, "goal"), span(1, 6, 9, "fact")], [span(1, 0, 9, "fact")])
        self.assertEqual((sum(n.values()), sum(hit.values()), sum(same.values())), (2, 2, 1))

    def test_lines_leave_out_the_system_prompt_and_blanks(self):
        messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "ab\n\ncd"}, {"role": "user", "content": "e"}]
        self.assertEqual([(x["message"], x["start"], x["end"]) for x in agree.lines(messages, 1)], [(1, 0, 2), (1, 4, 6)])

    def test_a_point_has_its_own_spans(self):
        one = {"spans": [span(1, 0, 2, points=(3,)), span(1, 4, 6, points=(3, 9))]}
        two = {"spans": [span(1, 4, 5, points=(9,))]}
        messages = [{"role": "user", "content": ""}, {"role": "user", "content": "ab\n\ncd"}]
        self.assertEqual(agree.chosen(messages, one, two, 9), [(False, False), (True, True)])
        self.assertEqual(agree.chosen(messages, one, two, 3), [(True, False), (True, False)])


if __name__ == "__main__":
    unittest.main()
