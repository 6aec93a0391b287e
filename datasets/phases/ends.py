#!/usr/bin/env python3
"""Where units of work end, told by odds that have not seen the repository: `python3 datasets/phases/ends.py TRAJPRESS DATA`.

DATA: a folder with the labelled logs, ingested and annotated. In five folds by repository the odds are learned from the other four (`train --target subtasks
--exclude-repos`), trigger `subtask` runs with them, and where it fires is held beside the labels; so do the seed's signals, which have learned nothing.
"""
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import agreement
import real

FILES = ["real.jsonl", "more.jsonl", "third.jsonl"]
FOLDS = 5
SEED = "learned = false"
RULES = ["test_success = true", "explicit_completion = true", "semantic_marker = true", "tool_pattern = true"]


def fold(repository):
    return int(hashlib.md5(repository.encode()).hexdigest(), 16) % FOLDS


def fired(program, data, at, triggers):
    """By the trigger's place in the list, the (trajectory, turn) with which it says that a unit ended."""
    text = 'name = "ends"\n[[strategies]]\nname = "drop-all"\n'
    text += "".join('[[triggers]]\nname = "subtask"\n%s\n' % params for params in triggers)
    (at / "ends.toml").write_text(text)
    run = [program, "run", at / "ends.toml", "--data", data, "--out", at / "run", "--fresh", "--quiet"]
    subprocess.run([str(word) for word in run], check=True)
    known = pq.read_table(at / "run/variants.parquet", columns=["variant", "trigger"]).to_pylist()
    order = [row["variant"] for row in known if row["trigger"] == "subtask"]
    rows = pq.read_table(at / "run/events.parquet", columns=["variant", "trajectory", "details"]).to_pylist()
    all_of = [set() for _ in order]
    # Edits that the log itself records have no details.
    for row in filter(lambda row: row["details"] and row["variant"] in order, rows):
        all_of[order.index(row["variant"])].add((row["trajectory"], json.loads(row["details"])["outcome"]))
    return all_of


def main(program, data):
    labels = {}
    for name in FILES:
        labels.update({key: dict(row, file=name) for key, row in real.read(name).items()})
    rows = pq.read_table(Path(data) / "trajectories.parquet", columns=["source", "task_id", "trajectory", "n_turns", "repository", "format"]).to_pylist()
    known = {r["trajectory"] for r in rows}
    ids = {(Path(r["source"]).name, r["task_id"]): r["trajectory"] for r in rows}
    now = {key: key if key[0] in known else (ids[Path(r["path"]).name, r["task"]], key[1]) for key, r in labels.items()}
    labels = {now[key]: row for key, row in labels.items()}
    # Where nothing follows nothing can be compressed.
    last = {r["trajectory"]: r["n_turns"] - 1 for r in rows}
    labels = {key: row for key, row in labels.items() if key[1] + 2 <= last[key[0]]}
    # By the names that the program knows.
    group = {r["trajectory"]: r["repository"] or r["format"] for r in rows}
    part_of = {key: fold(group[key[0]]) for key in labels}
    least = [0.03, 0.05, 0.07, 0.1, 0.15, 0.2]
    shown = ["the seed's signals"] + ["learned, from %.2f on" % odds for odds in least] + ["both, from 0.10 on"]
    told = {name: set() for name in shown}
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        for part in range(FOLDS):
            out = {group[key[0]] for key in labels if part_of[key] == part}
            (at / "out.txt").write_text("\n".join(sorted(out)) + "\n")
            given = [word for name in FILES for word in ("--labels", Path(__file__).parent / name)]
            train = [program, "train", data, "--target", "subtasks", *given, "--exclude-repos", at / "out.txt", "--out", at / "w.json", "--json", "--quiet"]
            weights = json.loads(subprocess.check_output([str(word) for word in train]))["weights"]
            own = ['end_weights = "%s"\nleast_odds = %s' % (weights, odds) for odds in [*least, 0.1]]
            rules = "\n".join(RULES)
            off = rules.replace("true", "false")
            triggers = [SEED + "\n" + rules] + [text + "\n" + off for text in own[:-1]] + [own[-1] + "\n" + rules]
            for name, turns in zip(shown, fired(program, data, at, triggers)):
                told[name] |= {key for key in turns if part_of.get(key) == part}
    print("| told by | labels | ends | told | both | F1 | F1 within a turn | kappa |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in shown:
        for which in ("all", "real.jsonl"):
            some = {key: row for key, row in labels.items() if which in ("all", row["file"])}
            ends = sorted(key for key, row in some.items() if row["subtask_end"])
            turns = sorted(key for key in told[name] if key in some)
            kappa = agreement.kappa([(row["subtask_end"], key in told[name]) for key, row in some.items()])
            both = agreement.matched(ends, turns)
            f1 = ["%.2f" % (value or 0) for value in (agreement.f1(ends, turns), agreement.f1(ends, turns, 1), kappa)]
            print("| %s | %s | %d | %d | %d | %s |" % (name, which, len(ends), len(turns), both, " | ".join(f1)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
