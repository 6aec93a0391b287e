#!/usr/bin/env python3
"""What the program says of the labelled turns: `python3 datasets/phases/rules.py TRAJPRESS DATA [LABELS] [--model NAME]`.

TRAJPRESS is the program, DATA a folder with the built-in runs, ingested and annotated (needs pyarrow); LABELS is labels.jsonl if not named. With a model
intents are those that it tells, in place of learned odds, and how well the two agree is printed first. Prints the
tables of agreement.py over all turns: intents by learned odds beside the labelled ones, and the turns before which the triggers `subtask` and `boundary`
fire, by their defaults, beside labelled subtask ends and boundaries. A trigger fires at the next decision, so its mark is of the turn before. And
of the turns after which triggers cut (by their defaults, `turns` with N = 21, M = 10), and of all turns, the share that is more than one
turn away from every labelled subtask end, with a 95 % interval by bootstrap over runs.
"""
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent))
from agreement import HERE, INTENTS, by_class, f1, kappa, marks, matched, read  # noqa: E402


# Triggers whose scopes are whole turns.
CUTTING = ("turns", "subtask", "intent", "boundary")


def timeline(program, data, run, model=None):
    """What `inspect --timeline` draws of a run."""
    by = ["--intents-by", model] if model else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.json"
        subprocess.run([program, "inspect", data, run, "--timeline", path, *by], check=True, stderr=subprocess.PIPE)
        return json.loads(path.read_text(encoding="utf-8"))


def told(rows, first, by="learned odds"):
    """{turn: label} of an exported timeline; `first` are the labelled turns of the run."""
    groups = {group["name"]: {row["name"]: row["spans"] for row in group["rows"]} for group in rows["groups"]}
    intents = {turn: name for name, spans in groups["Intent, by " + by].items() for s in spans for turn in range(s["from"], s["to"] + 1)}
    triggers = groups["Triggers"]
    fired = {name: {s["from"] - 1 for s in spans if s["look"] == "tick"} for name, spans in triggers.items()}
    # A scope ends with the turn that it cuts after.
    cuts = {name: {s["to"] for s in triggers[name] if s["look"] == "scope"} for name in CUTTING}
    return {turn: {"intent": intents.get(turn, "none"), "subtask_end": turn in fired["subtask"], "boundary": turn in fired["boundary"],
                   "cuts": {name for name in CUTTING if turn in cuts[name]}}
            for turn in first}


def middle(first, keys, cuts):
    """How many of these turns are more than one turn away from every labelled subtask end of their run."""
    ends = {(key[:2], key[2]) for key in keys if first[key]["subtask_end"]}
    return sum(all((key[:2], key[2] + off) not in ends for off in (-1, 0, 1)) for key in cuts)


def interval(first, keys, cuts):
    """Of the share of cuts in the middle, 95 %, over runs."""
    of = {run: [key for key in keys if key[:2] == run] for run in sorted({key[:2] for key in keys})}
    parts = [(middle(first, of[run], [key for key in cuts if key[:2] == run]), sum(key[:2] == run for key in cuts)) for run in of]
    draw, shares = random.Random(1), []
    for _ in range(2000):
        found, n = (sum(column) for column in zip(*draw.choices(parts, k=len(parts))))
        if n:
            shares.append(found / n)
    shares.sort()
    return "[%.2f, %.2f]" % (shares[int(0.025 * len(shares))], shares[int(0.975 * len(shares)) - 1])


def table(first, second):
    def show(value):
        return "-" if value is None else "%.2f" % value

    keys = sorted(first)
    pairs = [(first[k]["intent"], second[k]["intent"]) for k in keys]
    same = sum(a == b for a, b in pairs) / len(pairs)
    loose = sum(a == b or first[k].get("also") == b for k, (a, b) in zip(keys, pairs)) / len(pairs)
    out = ["%d turns of %d runs; intents: %.2f the same, kappa %s; %.2f if a second labelled intent counts"
           % (len(keys), len({k[:2] for k in keys}), same, show(kappa(pairs)), loose), "",
           "| intent | labelled | told | both | agreement |", "| --- | ---: | ---: | ---: | ---: |"]
    out += ["| %s | %d | %d | %d | %s |" % (*counts, show(share)) for *counts, share in by_class(pairs, INTENTS)]
    out += ["", "| mark | labelled | fired | both | precision | recall | F1 | F1 within a turn |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name in ("subtask_end", "boundary"):
        a, b = (marks(rows, keys, lambda r, name=name: r[name]) for rows in (first, second))
        both = matched(a, b)
        out.append("| %s | %d | %d | %d | %s | %s | %s | %s |" % (
            name.replace("_", " "), len(a), len(b), both, show(both / len(b) if b else None), show(both / len(a) if a else None), show(f1(a, b)), show(f1(a, b, 1))))
    out += ["", "| cuts | number | in the middle of a subtask | interval |", "| --- | ---: | ---: | --- |"]
    for name in ("any turn", *CUTTING):
        cuts = [key for key in keys if name == "any turn" or name in second[key]["cuts"]]
        share = show(middle(first, keys, cuts) / len(cuts) if cuts else None)
        out.append("| %s | %d | %s | %s |" % (name, len(cuts), share, interval(first, keys, cuts) if cuts else "-"))
    out += ["", "| labelled, then told | turns |", "| --- | ---: |"]
    wrong = {}
    for a, b in pairs:
        if a != b:
            wrong[a, b] = wrong.get((a, b), 0) + 1
    out += ["| %s, %s | %d |" % (a, b, n) for (a, b), n in sorted(wrong.items(), key=lambda item: (-item[1], item[0]))[:8]]
    return "\n".join(out)


def main(args):
    model = None
    if "--model" in args[:-1]:
        at = args.index("--model")
        model, args = args[at + 1], args[:at] + args[at + 2:]
    if len(args) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    first = read(args[2] if len(args) == 3 else HERE / "labels.jsonl")
    second, by_odds = {}, {}
    # Ids hash what was read of a log, so that another version may give others: a run is known by its source and task.
    columns = ["source", "task_id", "trajectory"]
    ids = {(r["source"], r["task_id"]): r["trajectory"] for r in pq.read_table(Path(args[1]) / "trajectories.parquet", columns=columns).to_pylist()}
    runs = {}
    for key, row in first.items():
        runs.setdefault(ids[row["source"], row["task_id"]], {})[key[2]] = key
    for run, turns in runs.items():
        drawn = timeline(args[0], args[1], run, model)
        for turn, row in told(drawn, turns, model or "learned odds").items():
            second[turns[turn]] = row
        for turn, row in told(drawn, turns).items():
            by_odds[turns[turn]] = row
    if model:
        pairs = [(by_odds[key]["intent"], second[key]["intent"]) for key in sorted(first)]
        print("learned odds and %s: %.2f of the intents the same, kappa %.2f\n" % (model, sum(a == b for a, b in pairs) / len(pairs), kappa(pairs)))
    print(table(first, second))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
