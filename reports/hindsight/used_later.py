#!/usr/bin/env python3
"""Labelled logs with the spans alone that were used later: `python3 reports/hindsight/used_later.py LABELLED.jsonl... > used.jsonl`."""
import json
import sys

for path in sys.argv[1:]:
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        row["annotations"]["salient"] = [span for span in row["annotations"]["salient"] if span["used_later"] is True]
        print(json.dumps(row, ensure_ascii=False))
