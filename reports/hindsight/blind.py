#!/usr/bin/env python3
"""What a compression left, two ways side by side and unnamed: `python3 reports/hindsight/blind.py show DATA WEIGHTS OUT`, then `... open DATA WEIGHTS OUT JUDGED.csv`; OTHER="BM25 to the goal" sets that in the place of `coverage`.

`show` takes EVENTS events of logs whose repositories the weights have not seen, compresses each by `hindsight` and by `coverage` at SHARE of the
tokens, and writes OUT/page-N.txt: the task, the agent's next turns, and what was kept, as A and B in random order. The key goes to OUT/key.json.
Whoever judges writes a line a page: number, A, B or tie, and why. `open` joins them with the key, adds what the needs say, and counts.
"""
import collections
import csv
import hashlib
import json
import os
import pathlib
import random
import sys

import numpy as np
import pyarrow.parquet as pq

import honest

EVENTS, OF_REPOSITORY, SHARE, NEXT, CHARS, KEPT = 40, 4, 0.05, 12, 330, 2600
WAYS = ("hindsight", os.environ.get("OTHER", "coverage"))
# Other events for another pair: who has read the first knows its texts.
SALT = "blind" + WAYS[1].removeprefix("coverage")


def chosen(data, weights):
    """An event a log: the middle one."""
    folds, taken, found = honest.fold_of(weights), collections.Counter(), []
    rows = pq.read_table(f"{data}/trajectories.parquet").to_pylist()
    for row in sorted(rows, key=lambda row: hashlib.sha256((SALT + row["trajectory"]).encode()).hexdigest()):
        name = honest.family(row["repository"] or "")
        # tau's results are one line of JSON: neither way can choose.
        if name in folds and row["n_turns"] >= 20 and not row["format"].startswith("tau") and taken[name] < OF_REPOSITORY and len(found) < EVENTS:
            taken[name] += 1
            found.append((row["trajectory"], folds[name]))
    return found


def cut(text, n=CHARS):
    return text if len(text) <= n else text[:n * 2 // 3] + f" [... {len(text) - n} characters ...] " + text[-n // 3:]


def show(data, weights, out):
    logs, key = chosen(data, weights), {}
    ids = f"ids = {json.dumps([log for log, _ in logs])}"
    run = honest.run(honest.plan("hindsight-blind", weights, (SHARE,), {WAYS[1]}, ids, "contexts = true"), data, out / "run")
    variants = honest.names_of(run, weights)
    folds = dict(logs)
    left = collections.defaultdict(list)
    for row in pq.read_table(run / "contexts.parquet").to_pylist():
        name, _, fold = variants[row["variant"]]
        if row["place"] == "left" and name in WAYS and fold in (None, folds[row["trajectory"]]):
            left[row["trajectory"], row["event"], name].append(row)
    steps = collections.defaultdict(list)
    for row in pq.read_table(f"{data}/steps.parquet", filters=[("trajectory", "in", list(folds))]).to_pylist():
        steps[row["trajectory"]].append(row)
    draw = random.Random(1 if SALT == "blind" else SALT)
    for log, _ in logs:
        events = sorted({event for of, event, _ in left if of == log})
        both = [event for event in events if all((log, event, name) in left for name in WAYS)]
        if not both:
            continue
        event, order = both[len(both) // 2], draw.sample(WAYS, 2)
        number, said = len(key), {row["step"]: row["text"] for row in steps[log]}
        decision = left[log, event, WAYS[0]][0]["decision"]
        text = [f"PAGE {number}", "", "TASK: " + cut(next((r["text"] for r in steps[log] if r["role"] == "user"), "")), "", "NEXT:"]
        after = [r for r in steps[log] if r["turn"] >= decision and r["role"] == "agent"]
        text += [f"  [{r['turn']}] {r['kind']}: " + cut(r["text"]) for r in after[:NEXT]]
        for letter, name in zip("AB", order):
            rows = sorted(left[log, event, name], key=lambda row: row["block"])
            text += ["", f"--- {letter} ---", cut("\n".join(row["text"] if row["text"] is not None else said[row["step"]] for row in rows), KEPT)]
        (out / f"page-{number:02}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
        key[number] = {"log": log, "event": event, "A": order[0], "B": order[1], "tokens": {n: sum(r["tokens"] for r in left[log, event, n]) for n in WAYS}}
    (out / "key.json").write_text(json.dumps(key, indent=1), encoding="utf-8")
    print(len(key), "pages")


def opened(data, weights, out, judged):
    key, count, body = json.loads((out / "key.json").read_text()), collections.Counter(), []
    about = {row["trajectory"]: row for row in pq.read_table(f"{data}/trajectories.parquet").to_pylist()}
    with open(judged, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            of = key[row["page"]]
            won = of.get(row["better"], "tie")
            count[won] += 1
            body.append([row["page"], about[of["log"]]["format"], of["event"], *of["tokens"].values(), won, row["why"]])
    honest.write(out, pathlib.Path(judged).name.replace("judged", "blind"), ["page", "format", "event", *(f"tokens_{name}" for name in WAYS), "better", "why"], body)
    n = count["hindsight"] + count[WAYS[1]]
    drawn = np.random.default_rng(1).binomial(n, .5, 100_000)
    print(dict(count), "two-sided sign test", round(float((abs(drawn - n / 2) >= abs(count["hindsight"] - n / 2)).mean()), 4))


def main(what, data, weights, out, *judged):
    weights, out = pathlib.Path(weights), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    {"show": show, "open": opened}[what](data, weights, out, *judged)


main(*sys.argv[1:])
