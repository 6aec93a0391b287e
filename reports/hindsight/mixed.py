#!/usr/bin/env python3
"""A budget shared between `hindsight` and BM25 to the goal: `python3 reports/hindsight/mixed.py LABELLED WEIGHTS OUT`. Needs trajpress, pyarrow, numpy.

LABELLED is a dataset of labelled logs whose spans were all used later. Of each event `hindsight` keeps a part, and lines of the scope by BM25 take the
rest of the tokens; a span counts where it stands, word for word, in what all events kept, and in no step outside of the scopes.
"""
import collections
import json
import pathlib
import re
import sys

import numpy as np
import pyarrow.parquet as pq

import honest
from by_line import bm25

PARTS = ((0.0, 0.1), (0.05, 0.05), (0.1, 0.0), (0.02, 0.08), (0.05, 0.15), (0.1, 0.1), (0.2, 0.0), (0.0, 0.2))


def flat(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def main(data, weights, out):
    weights, out = pathlib.Path(weights), pathlib.Path(out)
    shares = sorted({part for part, _ in PARTS if part})
    plan = honest.plan("hindsight-mixed", weights, shares, {"coverage"}, more="contexts = true", turns=(5, 3))
    run = honest.run(plan, data, out / "mixed")
    variants, folds = honest.names_of(run, weights), honest.fold_of(weights)
    logs = {row["trajectory"]: row for row in pq.read_table(run / "trajectories.parquet").to_pylist()}
    notes = {row["trajectory"]: json.loads(row["annotations"]) for row in pq.read_table(f"{data}/trajectories.parquet").to_pylist() if row["annotations"]}
    steps, kept, events = collections.defaultdict(list), collections.defaultdict(list), {}
    for row in pq.read_table(f"{data}/steps.parquet").to_pylist():
        steps[row["trajectory"]].append(row)
    mine = lambda row: variants[row["variant"]][0] == "hindsight" and variants[row["variant"]][2] == folds.get(honest.family(logs[row["trajectory"]]["repository"] or ""))
    for row in pq.read_table(run / "events.parquet").to_pylist():
        if mine(row):
            events[row["trajectory"], row["event"]] = row["scope_start"], row["scope_end"], row["removable_tokens"]
    for row in pq.read_table(run / "contexts.parquet").to_pylist():
        if row["place"] == "left" and mine(row):
            kept[row["trajectory"], row["event"], variants[row["variant"]][1]].append(row)
    found = collections.defaultdict(lambda: collections.defaultdict(lambda: np.zeros(2)))
    for log, note in notes.items():
        mine = [(event, scope) for (of, event), scope in events.items() if of == log]
        if not mine:
            continue
        inside = [step for step in steps[log] if any(a <= step["turn"] <= b for _, (a, b, _) in mine)]
        outside = flat(" ".join(step["text"] for step in steps[log] if step not in inside and step["turn"] <= max(b for _, (_, b, _) in mine) + 3))
        spans = [flat(span["text"]) for span in note["salient"]]
        spans = [span for span in spans if span and span in flat(" ".join(step["text"] for step in inside)) and span not in outside]
        goal = next((step["text"] for step in steps[log] if step["role"] == "user"), "")
        said = {step["step"]: step["text"] for step in steps[log]}
        for by_odds, by_goal in PARTS:
            text = []
            for event, (a, b, tokens) in mine:
                rows = kept[log, event, by_odds] if by_odds else []
                held = "\n".join(row["text"] if row["text"] is not None else said[row["step"]] for row in sorted(rows, key=lambda row: row["block"]))
                left = tokens * (by_odds + by_goal) - sum(row["tokens"] for row in rows)
                scope = [step for step in steps[log] if a <= step["turn"] <= b]
                each = tokens / max(1, sum(len(step["text"]) for step in scope))
                lines = [line for step in scope for line in step["text"].split("\n") if line.strip() and line not in held]
                worth = bm25(lines, goal) if by_goal else [0] * len(lines)
                taken = []
                for at in sorted(range(len(lines)), key=lambda at: -worth[at]):
                    if worth[at] > 0 and (len(lines[at]) + 1) * each <= left:
                        left -= (len(lines[at]) + 1) * each
                        taken.append(at)
                text += [held, *(lines[at] for at in sorted(taken))]
            stands = flat(" ".join(text))
            home = honest.family(logs[log]["repository"] or "")
            found[by_odds, by_goal][home] += [sum(span in stands for span in spans), len(spans)]
    body = []
    for (by_odds, by_goal), of in found.items():
        of = {name: v for name, v in of.items() if v[1]}
        body.append([by_odds, by_goal, *map(honest.digits, [honest.pooled(of), *honest.interval(of)]), len(of), int(sum(v[1] for v in of.values()))])
    honest.write(out, "mixed.csv", ["hindsight", "BM25 to the goal", "recall", "low", "high", "repositories", "spans"], body)


main(*sys.argv[1:])
