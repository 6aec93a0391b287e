#!/usr/bin/env python3
"""`counts.py [FILE.jsonl ...]`: logs, repositories, spans by type and format, and what is used later."""
import json
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
TYPES = ("goal", "constraint", "decision", "fact", "tool_output")


def table(rows):
    """Lines of a table: a format, its logs and its spans of each type."""
    yield "| format | logs | %s | all |" % " | ".join(TYPES)
    yield "| --- " * (len(TYPES) + 3) + "|"
    for form in sorted({row["format"] for row in rows}) + ["all"]:
        mine = [row for row in rows if form in (row["format"], "all")]
        n = Counter(span["type"] for row in mine for span in row["spans"])
        yield "| %s | %d | %s | %d |" % (form, len(mine), " | ".join(str(n[kind]) for kind in TYPES), sum(n.values()))


def used(rows):
    """true/false/null of each type."""
    n = Counter((kind, span["used_later"]) for row in rows for span in row["spans"] for kind in (span["type"], "all"))
    return ", ".join("%s %s" % (kind, "/".join(str(n[kind, value]) for value in (True, False, None))) for kind in TYPES + ("all",))


def main(files):
    rows = [json.loads(line) for file in files for line in Path(file).read_text(encoding="utf-8").splitlines()]
    repositories = {row["repository"] for row in rows}
    points = sum(len(row["points"]) for row in rows)
    spans = sum(len(row["spans"]) for row in rows)
    print("%d logs of %d repositories, %d points, %d spans\n" % (len(rows), len(repositories), points, spans))
    print("\n".join(table(rows)))
    print("\nused_later true/false/null: " + used(rows))


if __name__ == "__main__":
    main(sys.argv[1:] or sorted(p for p in HERE.glob("*.jsonl") if not p.name.startswith("second-")))
