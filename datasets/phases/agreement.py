#!/usr/bin/env python3
"""How well two labellings agree: `python3 datasets/phases/agreement.py [FIRST SECOND]`, labels.jsonl and second.jsonl if not named.

Compares the turns of second.toml. SECOND has a row for each, with `source`, `task_id`, `turn`, `intent` and `subtask_end`, and
perhaps `kinds` and `also` as in RULES.md. Exit code 2 if a file or a turn is missing.
"""
import json
import re
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
INTENTS = ("explore", "debug", "implement", "verify", "document", "refactor", "none")
KINDS = ("file", "module", "test", "api")


def read(path):
    """{(source, task id, turn): row}"""
    rows = [json.loads(text) for text in Path(path).read_text(encoding="utf-8").splitlines() if text.strip()]
    return {(r["source"], r["task_id"], r["turn"]): r for r in rows}


def stretches(text):
    """Keys of the turns that second.toml names."""
    keys = []
    for block in text.split("[[stretch]]")[1:]:
        field = dict(re.findall(r'^(\w+) = "?([^"\n]+)"?$', block, re.M))
        keys += [(field["source"], field["task_id"], turn) for turn in range(int(field["first"]), int(field["last"]) + 1)]
    return keys


def kappa(pairs):
    """Cohen's kappa of [(a, b)]; None if chance alone agrees everywhere."""
    n, a, b = len(pairs), Counter(x for x, _ in pairs), Counter(y for _, y in pairs)
    same = sum(x == y for x, y in pairs) / n
    chance = sum(a[label] * b[label] for label in a) / n ** 2
    return None if chance == 1 else (same - chance) / (1 - chance)


def by_class(pairs, labels):
    """(label, n in first, n in second, n in both, agreement 2 both / (first + second) or None if neither has it)."""
    a, b, both = Counter(x for x, _ in pairs), Counter(y for _, y in pairs), Counter(x for x, y in pairs if x == y)
    return [(k, a[k], b[k], both[k], 2 * both[k] / (a[k] + b[k]) if a[k] + b[k] else None) for k in labels]


def matched(first, second, near=0):
    """How many marks of two sorted lists of (run, turn) can be paired one to one within `near` turns."""
    left, n = list(second), 0
    for run, turn in first:
        hit = next((m for m in left if m[0] == run and abs(m[1] - turn) <= near), None)
        if hit:
            left.remove(hit)
            n += 1
    return n


def f1(first, second, near=0):
    """None if neither has a mark."""
    return 2 * matched(first, second, near) / (len(first) + len(second)) if first or second else None


def marks(rows, keys, test):
    return sorted((key[:2], key[2]) for key in keys if test(rows[key]))


def table(first, second, keys):
    def show(value):
        return "-" if value is None else "%.2f" % value

    def row(name, test):
        a, b = marks(first, keys, test), marks(second, keys, test)
        return "| %s | %d | %d | %d | %s | %s |" % (name, len(a), len(b), matched(a, b), show(f1(a, b)), show(f1(a, b, 1)))

    pairs = [(first[k]["intent"], second[k]["intent"]) for k in keys]
    same = sum(a == b for a, b in pairs) / len(pairs)
    loose = sum(a == b or first[k].get("also") == b or second[k].get("also") == a for k, (a, b) in zip(keys, pairs)) / len(pairs)
    out = ["%d turns; intents: %.2f the same, kappa %s; %.2f if a second intent counts" % (len(keys), same, show(kappa(pairs)), loose), "",
           "| intent | first | second | both | agreement |", "| --- | --- | --- | --- | --- |"]
    out += ["| %s | %d | %d | %d | %s |" % (*counts, show(share)) for *counts, share in by_class(pairs, INTENTS)]
    out += ["", "| mark | first | second | both | F1 | F1 within a turn |", "| --- | --- | --- | --- | --- | --- |",
            row("subtask end", lambda r: r["subtask_end"])]
    if all("kinds" in second[k] for k in keys):
        out += [row(kind + " boundary", lambda r, kind=kind: kind in r["kinds"]) for kind in KINDS]
    different = [(k, a, b) for k, (a, b) in zip(keys, pairs) if a != b]
    out += ["", "| run | turn | first | second |", "| --- | --- | --- | --- |"]
    out += ["| %s | %d | %s | %s |" % (k[1], k[2], a, b) for k, a, b in different]
    return "\n".join(out)


def main(args):
    paths = args or [HERE / "labels.jsonl", HERE / "second.jsonl"]
    if len(paths) != 2 or not all(Path(p).is_file() for p in paths):
        print("error: needs two files, of %s\nhint: second.jsonl is not there before somebody has labelled the turns of second.toml"
              % " and ".join(map(str, paths)), file=sys.stderr)
        return 2
    first, second = map(read, paths)
    keys = stretches((HERE / "second.toml").read_text(encoding="utf-8"))
    missing = [k for k in keys if k not in first or k not in second]
    wrong = [k for k in keys if k not in missing and second[k]["intent"] not in INTENTS]
    if missing or wrong:
        print("error: %d turns without a label, %d with an unknown intent, the first of them %s" % (len(missing), len(wrong), (missing + wrong)[0]), file=sys.stderr)
        return 2
    print(table(first, second, keys))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
