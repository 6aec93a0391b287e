#!/usr/bin/env python3
"""`python3 datasets/phases/firings.py`: shares of the firings of triggers that readers took for plausible (firings.jsonl), by what was drawn, format and kind.

A row is one place, the turn before which a trigger cuts a log (`cut`), as read without knowing what fired there. Intervals are Wilson's, of 95 %; what
is doubtful does not count as plausible. Since reading 6 a row has `semantics`, those of the program that fired, and where it is plausible `end`, the turn
with which the reader saw a unit end: `cut` or the one before.
"""
import json
import math
from collections import Counter
from pathlib import Path

ROWS = Path(__file__).resolve().parent / "firings.jsonl"
VERDICTS = ("plausible", "doubtful", "wrong")
# Those that every reading has, beside all where there are others.
COMMON = ("claude-code", "mini-swe-agent", "sweagent")


def wilson(k, n, z=1.96):
    """The interval of a share of k in n."""
    p, d = k / n, 1 + z * z / n
    middle, half = (p + z * z / (2 * n)) / d, z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / d
    return max(0.0, middle - half), min(1.0, middle + half)


def shares(rows):
    """Verdicts of each reading, and within it of each kind, format, and of the formats that all readings have."""
    counts = {}
    for row in rows:
        # What reading 5 drew of `subtask` is two of its signals, which nobody should add up.
        signals = (row["reading"], row["firing"]) == (5, "subtask")
        of = ["", row["format"]] + ([", ".join(COMMON)] if row["format"] in COMMON else [])
        for by in ([] if signals else of) + [row["kind"]]:
            counts.setdefault((row["reading"], row["firing"], by), Counter())[row["verdict"]] += 1
    return counts


def main():
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    print("| reading | firing | | plausible | doubtful | of | share |\n| ---: | --- | --- | ---: | ---: | ---: | --- |")
    for (reading, firing, by), of in sorted(shares(rows).items()):
        n = sum(of.values())
        low, high = wilson(of["plausible"], n)
        print(f"| {reading} | {firing} | {by} | {of['plausible']} | {of['doubtful']} | {n} | {of['plausible'] / n:.2f} [{low:.2f}, {high:.2f}] |")


if __name__ == "__main__":
    main()
