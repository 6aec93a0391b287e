#!/usr/bin/env python3
"""`python3 datasets/memory/test_memory.py`: the files are what support_30.py makes, and the traps are what the seed's rules do."""
import json
import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import support_30  # noqa: E402
import check  # noqa: E402  from the recorder, whose folder support_30 adds

# The rules of the seed as it prints them.
UP = [r"\b(account|id|number|email|phone)\b", r"\b(ticket|order|reference)\s*#?\d+", r"\b(deadline|urgent|critical|asap)\b",
      r"\b(password|security|privacy)\b", r"\b(error|bug|issue|problem)\b", r"^\d+[.:]"]
DOWN = [r"^(thanks?|thx|ty|thank you)", r"^(ok|okay|sure|yes|no)$", r"^(hi|hello|hey)", r"(lol|haha|hmm)"]


def seed_score(text):
    score = 5 + 2 * sum(bool(re.search(p, text, re.I)) for p in UP) - 2 * sum(bool(re.search(p, text, re.I)) for p in DOWN)
    return max(1, min(10, score + (len(text.split()) > 30)))


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.talk = support_30.talk()
        cls.rows = {r["step"]: r for r in cls.talk.ratings}
        cls.text = {k: m["content"] for k, m in enumerate(cls.talk.messages)}

    def test_files_are_made_from_the_script(self):
        for name, text in support_30.files().items():
            self.assertEqual((HERE / name).read_text(encoding="utf-8"), text, name)

    def test_annotations_hold(self):
        errors = []
        check.check_file(HERE / "support-30.jsonl", errors)
        self.assertEqual(errors, [])

    def test_thirty_turns_each_rated(self):
        self.assertEqual(sorted(self.rows), list(range(1, 61)))
        self.assertEqual([r["turn"] for r in self.rows.values()], [t for t in range(1, 31) for _ in "ua"])
        self.assertEqual({r["importance"] for r in self.rows.values()}, {"low", "medium", "high"})

    def test_what_is_named_in_the_seed(self):
        level = {text: self.rows[k]["importance"] for k, text in self.text.items() if k}
        for filler in ("Thanks!", "OK", "Sure, go ahead", "Hmm, let me think"):
            self.assertEqual(level[filler], "low")
        for fact in ("My account ID is ABC123", "I'm getting error code 500", "I need this resolved by Friday"):
            (found,) = [text for text in level if fact in text]
            self.assertEqual(level[found], "high")

    def test_traps_are_those_of_the_seeds_rules(self):
        score = {k: seed_score(text) for k, text in self.text.items()}
        for k, row in self.rows.items():
            other = k + 1 if row["role"] == "user" else k - 1
            level, trap = row["importance"], None
            if level == "low" and score[k] > 5:
                trap = "high"
            elif level == "high" and score[k] <= 5:
                trap = "low" if score[k] < 5 else "unseen"
            elif level == "low" and self.rows[other]["importance"] == "high" and score[k] < score[other]:
                trap = "pair"
            self.assertEqual(row.get("trap"), trap, (k, score[k], self.text[k]))

    def test_every_salient_span_is_of_worth(self):
        for s in json.loads(support_30.files()["support-30.jsonl"])["annotations"]["salient"]:
            self.assertEqual(self.rows[s["step"]]["importance"], "high", s)

    def test_toml_reads_back(self):
        try:
            import tomllib
        except ImportError:
            self.skipTest("needs Python 3.11")
        self.assertEqual(tomllib.loads((HERE / "importance.toml").read_text(encoding="utf-8"))["message"], self.talk.ratings)


if __name__ == "__main__":
    unittest.main()
