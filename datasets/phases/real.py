#!/usr/bin/env python3
"""What stands in real.jsonl, and how well real_second.jsonl agrees with it: `python3 datasets/phases/real.py [TRAJPRESS DATA]`.

With TRAJPRESS, the program, and DATA, a folder with these logs, ingested and annotated (needs pyarrow), it prints what the program's rules say of the
same turns instead: kappa of the intents by format, and the marks of `subtask`, `intent` and `boundary`, by their defaults, beside the labels.
"""
import json
import sys
from collections import Counter
from pathlib import Path

import agreement

HERE = Path(__file__).resolve().parent
MOVES = ("file", "module", "api")
MARKS = [("phase end", lambda r: r["phase_end"]), ("subtask end", lambda r: r["subtask_end"])]
MARKS += [("moves: " + kind, lambda r, kind=kind: kind in r["moves"]) for kind in MOVES]


def read(name):
    """{(trajectory, turn): row}, in the order of the file."""
    rows = [json.loads(text) for text in (HERE / name).read_text(encoding="utf-8").splitlines()]
    return {(r["trajectory"], r["turn"]): r for r in rows}


def counts(rows):
    """A line a format: runs, turns, intents, marks."""
    by_format = {}
    for r in rows.values():
        by_format.setdefault(r["format"], []).append(r)
    head = ["format", "runs", "turns", *agreement.INTENTS, *(name for name, _ in MARKS)]
    out = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |"]
    for name, some in [*by_format.items(), ("all", list(rows.values()))]:
        intents = Counter(r["intent"] for r in some)
        cells = [name, len({r["trajectory"] for r in some}), len(some), *(intents[i] for i in agreement.INTENTS)]
        out.append("| " + " | ".join(map(str, cells + [sum(map(test, some)) for _, test in MARKS])) + " |")
    return out


def compared(first, second):
    """A line a label: how often in each reading, and Cohen's kappa."""
    def line(name, pairs):
        value = agreement.kappa(pairs)
        same, shown = sum(a == b for a, b in pairs), "-" if value is None else "%.2f" % value
        yes = ["", ""] if name == "intent" else [sum(a for a, _ in pairs), sum(b for _, b in pairs)]
        return "| %s | %s | %s | %d of %d | %s |" % (name, *yes, same, len(pairs), shown)

    both = [(first[key], second[key]) for key in second]
    out = ["| label | first | second | the same | kappa |", "| --- | ---: | ---: | ---: | ---: |"]
    out.append(line("intent", [(a["intent"], b["intent"]) for a, b in both]))
    out += [line("intent: " + i, [(a["intent"] == i, b["intent"] == i) for a, b in both]) for i in agreement.INTENTS]
    return out + [line(name, [(test(a), test(b)) for a, b in both]) for name, test in MARKS]


def told_of(program, data, labels):
    """What the rules say of the labelled turns, by the keys of `labels`."""
    import pyarrow.parquet as pq
    import rules

    columns = ["source", "task_id", "trajectory"]
    rows = pq.read_table(Path(data) / "trajectories.parquet", columns=columns).to_pylist()
    # Ids hash what was read of a log: another version may give others. A task may have several runs in a file.
    known = {r["trajectory"] for r in rows}
    ids = {(r["source"], r["task_id"]): r["trajectory"] for r in rows}
    runs = {}
    for key, r in labels.items():
        runs.setdefault((key[0], key[0] if key[0] in known else ids[r["path"], r["task"]]), []).append(key[1])
    told = {}
    for (run, now), turns in runs.items():
        of_run = rules.told(rules.timeline(program, data, now), turns)
        told.update({(run, turn): row for turn, row in of_run.items()})
    return told


def beside(labels, told):
    """Intents by format, then marks of triggers beside those of the reader."""
    def show(value):
        return "-" if value is None else "%.2f" % value

    out = ["| format | turns | intents the same | kappa |", "| --- | ---: | ---: | ---: |"]
    formats = list(dict.fromkeys(r["format"] for r in labels.values()))
    for name in formats + ["all"]:
        keys = [key for key, r in labels.items() if name in ("all", r["format"])]
        pairs = [(labels[key]["intent"], told[key]["intent"]) for key in keys]
        out.append("| %s | %d | %d | %s |" % (name, len(keys), sum(a == b for a, b in pairs), show(agreement.kappa(pairs))))
    out += ["", "| trigger, label | labelled | fired | both | precision | recall | F1 | F1 within a turn |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    # `subtask` and `boundary` fire after the turn that they speak of, `intent` after the first turn of the next phase.
    marks = [("subtask", "subtask end", lambda r: r["subtask_end"], lambda row: row["subtask_end"]),
             ("intent", "phase end", lambda r: r["phase_end"], lambda row: "intent" in row["cuts"]),
             ("boundary", "moves", lambda r: r["moves"], lambda row: row["boundary"])]
    for trigger, name, test, fires in marks:
        a, b = (sorted(key for key, r in rows.items() if has(r)) for rows, has in ((labels, test), (told, fires)))
        both = agreement.matched(a, b)
        shares = [both / len(b) if b else None, both / len(a) if a else None, agreement.f1(a, b), agreement.f1(a, b, 1)]
        out.append("| `%s`, %s | %d | %d | %d | %s |" % (trigger, name, len(a), len(b), both, " | ".join(map(show, shares))))
    return out


def main(args):
    labels = read("real.jsonl")
    if len(args) == 2:
        print("\n".join(beside(labels, told_of(*args, labels))))
    elif not args:
        print("\n".join(counts(labels) + [""] + compared(labels, read("real_second.jsonl"))))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
