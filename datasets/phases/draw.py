#!/usr/bin/env python3
"""Draws what is labelled: `python3 datasets/phases/draw.py` prints the runs, `--second` the stretches of the second labelling.

First draw: in each folder the runs are put in the order of SHA-256("phases 1 " + task id) and taken whole until the folder's
number of turns is reached; for coding that is all of them. Second draw: each run taken is cut into stretches of ten turns (a rest under five joins the last);
these are put in the order of SHA-256("second 1 " + task id + " " + first turn) and taken until a quarter of the folder's turns is reached.
"""
import hashlib
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
DATASETS = Path(__file__).resolve().parent.parent
# Runs that came into these folders after the draw; they must not change it.
ADDED_LATER = set()
LEAST_TURNS = {"coding": 330, "support": 35, "templates": 20}
STRETCH, REST = 10, 5


def rank(seed, *parts):
    return hashlib.sha256(" ".join([seed, *map(str, parts)]).encode("utf-8")).hexdigest()


def runs(folder):
    """(task id, source, turns) of each run; a turn is a call of the model, as the program counts them."""
    for path in sorted((DATASETS / folder).glob("*.json*")):
        text = path.read_text(encoding="utf-8")
        for run in [json.loads(text)] if path.suffix == ".json" else map(json.loads, text.splitlines()):
            task = run.get("task_id") or run["instance_id"]
            if task in ADDED_LATER:
                continue
            yield task, "%s/%s" % (folder, path.name), sum(m["role"] == "assistant" for m in run["messages"])


def drawn():
    """{folder: [(task id, source, turns)]} of the first draw."""
    out = {}
    for folder, least in LEAST_TURNS.items():
        taken = out[folder] = []
        for run in sorted(runs(folder), key=lambda run: rank("phases 1", run[0])):
            if sum(turns for _, _, turns in taken) < least:
                taken.append(run)
    return out


def stretches(turns):
    starts = list(range(1, turns + 1, STRETCH))
    if len(starts) > 1 and turns - starts[-1] + 1 < REST:
        starts.pop()
    return [(first, after - 1) for first, after in zip(starts, starts[1:] + [turns + 1])]


def second():
    """[(task id, source, first turn, last turn)] of the second draw."""
    out = []
    for taken in drawn().values():
        cut = [(task, source, *stretch) for task, source, turns in taken for stretch in stretches(turns)]
        wanted, got = sum(turns for _, _, turns in taken) / 4, 0
        for part in sorted(cut, key=lambda part: rank("second 1", part[0], part[2])):
            if got < wanted:
                out.append(part)
                got += part[3] - part[2] + 1
    return sorted(out, key=lambda part: (part[1], part[0], part[2]))


def second_toml():
    head = "# Turns to be labelled a second time, drawn by draw.py; first and last are both in.\n"
    row = '\n[[stretch]]\nsource = "%s"\ntask_id = "%s"\nfirst = %d\nlast = %d\n'
    return head + "".join(row % (source, task, first, last) for task, source, first, last in second())


if __name__ == "__main__":
    if sys.argv[1:] == ["--second"]:
        print(second_toml(), end="")
    else:
        for taken in drawn().values():
            for task, source, turns in taken:
                print("%-45s %-25s %3d" % (source, task, turns))
