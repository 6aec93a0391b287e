#!/usr/bin/env python3
"""What the second reader would score as a rater: `python3 reports/hindsight/readers.py FIRST.jsonl SECOND.jsonl`, both made by datasets/labels/join.py.

All spans of the second reader at a point are its items; the rule is that of salience.py. Printed for all spans, and for the first 12 of a point.
"""
import json
import sys

import features
import salience


def read(path):
    with open(path, encoding="utf-8") as file:
        return {row["source_path"] + row["task_id"]: row for row in map(json.loads, file)}


def at(row, point):
    return [f" {' '.join(features.words_of(s['text']))} " for s in row["annotations"]["salient"] if point in s["points"]]


def main(first, second):
    first, second = read(first), read(second)
    both = [(first[k], second[k]) for k in second if k in first]
    for most in (None, salience.ITEMS):
        hits = items = spans = 0
        for one, other in both:
            for point in one["annotations"]["compression_points"]:
                wanted, free = at(one, point), at(other, point)[:most]
                items, spans = items + len(free), spans + len(wanted)
                for w in wanted:
                    own = next((f for f in free if salience.fits(f, w)), None)
                    if own:
                        hits += 1
                        free.remove(own)
        print(len(both), "logs,", "all items" if most is None else "%d items" % most, "precision %.3f recall %.3f" % (hits / items, hits / spans), items, spans)


if __name__ == "__main__":
    main(*sys.argv[1:])
