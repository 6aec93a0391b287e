#!/usr/bin/env python3
"""`python3 datasets/recorder/test_recorder.py`: two recordings give the same bytes, and they equal what is checked in.

The comparison with the files in the repository is made only with the Python that recorded them,
because tracebacks and messages of unittest differ between versions of Python.
"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED_WITH = (3, 11)


def files(base):
    return {p.relative_to(base).as_posix(): p.read_bytes() for d in ("coding", "support", "templates") for p in sorted((base / d).glob("*"))}


class RecorderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folders = [tempfile.TemporaryDirectory() for _ in range(2)]
        for folder in cls.folders:
            subprocess.run([sys.executable, str(HERE / "record.py"), "--out", folder.name], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        for folder in cls.folders:
            folder.cleanup()

    def test_twice_the_same(self):
        first, second = (files(Path(f.name)) for f in self.folders)
        self.assertEqual(sorted(first), sorted(second))
        self.assertEqual([k for k in first if first[k] != second[k]], [])

    def test_same_as_checked_in(self):
        if sys.version_info[:2] != RECORDED_WITH:
            self.skipTest("recorded with Python %d.%d" % RECORDED_WITH)
        made, kept = files(Path(self.folders[0].name)), files(HERE.parent)
        self.assertEqual([k for k in sorted(set(made) | set(kept)) if made.get(k) != kept.get(k)], [])

    def test_checker_accepts(self):
        done = subprocess.run([sys.executable, str(HERE / "check.py"), self.folders[0].name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_checker_rejects_a_moved_offset(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "support").mkdir()
            text = (Path(self.folders[0].name) / "support" / "northwind__helpdesk-1.jsonl").read_text(encoding="utf-8")
            wrong = re.sub(r'"start": (\d+)', lambda m: '"start": %d' % (int(m.group(1)) + 1), text, count=1)
            self.assertNotEqual(text, wrong)
            (Path(folder) / "support" / "x.jsonl").write_text(wrong, encoding="utf-8")
            done = subprocess.run([sys.executable, str(HERE / "check.py"), folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
