#!/usr/bin/env python3
"""How well two readers agree: `python3 datasets/labels/agree.py [LOGS]` compares each second-NAME.jsonl with NAME.jsonl.

For each point of a log that both have read: the share of one's spans that overlap a span of the other, both ways, by type.
With LOGS, the folder that the sources are below, also Cohen's kappa over the lines that stand before the point.
"""
import importlib
import json
import sys
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "phases")]
from agreement import kappa  # noqa: E402

TYPES = ("goal", "constraint", "decision", "fact", "tool_output")


def read(path):
    """{(source, run): row}"""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(row["source"], row.get("run")): row for row in rows}


def overlap(a, b):
    return a["message"] == b["message"] and a["start"] < b["end"] and b["start"] < a["end"]


def at(row, point):
    return [span for span in row["spans"] if point in span["points"]]


def found(spans, others):
    """Counters by type: spans, those that overlap a span of the other, those that overlap one of their own type."""
    n, hit, same = Counter(), Counter(), Counter()
    for span in spans:
        n[span["type"]] += 1
        near = [other for other in others if overlap(span, other)]
        hit[span["type"]] += bool(near)
        same[span["type"]] += any(other["type"] == span["type"] for other in near)
    return n, hit, same


def lines(messages, point):
    """Each line with words before the point, as a span; the system prompt is never labelled."""
    for i, message in enumerate(messages[:point + 1]):
        start = 0
        for line in message["content"].split("\n"):
            if line.strip() and message["role"] != "system":
                yield {"message": i, "start": start, "end": start + len(line)}
            start += len(line) + 1


def chosen(messages, first, second, point):
    """(first has a span there, second has one) for each line."""
    one, two = at(first, point), at(second, point)
    return [(any(overlap(line, s) for s in one), any(overlap(line, s) for s in two)) for line in lines(messages, point)]


def compare(name, logs):
    first, second = read(HERE / (name + ".jsonl")), read(HERE / ("second-%s.jsonl" % name))
    both, pairs = sorted(set(first) & set(second), key=str), []
    forth, back = [Counter(), Counter(), Counter()], [Counter(), Counter(), Counter()]
    for key in both:
        a, b = first[key], second[key]
        for point in set(a["points"]) & set(b["points"]):
            for total, more in zip(forth + back, found(at(a, point), at(b, point)) + found(at(b, point), at(a, point))):
                total.update(more)
            if logs:
                convert = importlib.import_module("convert_products" if name == "products" else "convert").convert
                pairs += chosen(convert(logs / key[0], key[1]), a, b, point)
    print("%s: %d logs read twice" % (name, len(both)))
    for kind in TYPES + ("all",):
        n, hit, same = ([sum(c.values()) if kind == "all" else c[kind] for c in sides] for sides in zip(forth, back))
        print("  %-11s first %3d, %s in second, %s of its type; second %3d, %s in first, %s of its type" % (
            kind, n[0], share(hit[0], n[0]), share(same[0], n[0]), n[1], share(hit[1], n[1]), share(same[1], n[1])))
    if pairs:
        print("  kappa over %d lines: %.2f" % (len(pairs), kappa(pairs)))


def share(part, whole):
    return "%3.0f %%" % (100 * part / whole) if whole else "  -"


if __name__ == "__main__":
    for path in sorted(HERE.glob("second-*.jsonl")):
        compare(path.stem[len("second-"):], Path(sys.argv[1]) if len(sys.argv) > 1 else None)
