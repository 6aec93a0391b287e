#!/usr/bin/env python3
"""The tables of this folder's README: `python3 reports/memory/tables.py RUN` for a run that `trajpress report RUN --population
these` has read (RUN/report/summary.csv). Needs pyarrow.

Needs, shadows and efficiency are the report's, with its intervals; ratios, honesty and fallbacks are pooled here by the weights of their rows.
"""
import csv
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq


def told(value, digits=3):
    return "-" if value in (None, "") else f"{float(value):.{digits}f}"


def main(run):
    run = Path(run)
    read = lambda name, columns: pq.read_table(run / (name + ".parquet"), columns=columns).to_pylist()
    with open(run / "report" / "summary.csv", newline="") as file:
        summary = list(csv.DictReader(file))
    pooled = defaultdict(lambda: [0.0, 0.0, 0])
    for r in read("scores", ["variant", "event", "metric", "stratum", "value", "weight", "n"]):
        if r["event"] is None and r["value"] is not None:
            sums = pooled[r["variant"], r["metric"], r["stratum"]]
            sums[0] += r["value"] * r["weight"]
            sums[1] += r["weight"]
            sums[2] += r["n"]

    def score(variant, metric, stratum=""):
        sums = pooled.get((variant, metric, stratum))
        return sums[0] / sums[1] if sums and sums[1] else None

    events = defaultdict(list)
    for e in read("events", ["variant", "fallback", "degenerate", "model_calls", "model_tokens_in", "model_tokens_out"]):
        events[e["variant"]].append(e)
    sent, recalled = defaultdict(int), defaultdict(int)
    full = defaultdict(int)
    for t in read("timeline", ["variant", "tokens_full", "tokens_sent", "recalled_tokens"]):
        full[t["variant"]] += t["tokens_full"]
        sent[t["variant"]] += t["tokens_sent"]
        recalled[t["variant"]] += t["recalled_tokens"]
    head = ("variant", "kept", "token savings", "net savings", "money savings", "recalled", "needs kept, common", "exposed", "random store",
            "oracle store", "efficiency", "light, heavy", "in band", "fabrication (n)", "events with an unusable answer", "fell back")
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    rows = sorted(summary, key=lambda row: -float(row["kept_share"] or 0))
    for row in rows:
        v = row["variant"]
        of = events[v]
        both = lambda metric: "-" if score(v, metric, "level=light") is None else ", ".join(
            told(score(v, metric, "level=" + level), 2 if metric == "level_in_band" else 1) for level in ("light", "heavy"))
        ends = lambda name: f" [{told(row[name + '_lo'], 2)}, {told(row[name + '_hi'], 2)}]" if row[name + "_lo"] else ""
        interval = lambda name: told(row[name]) + ends(name)
        made = score(v, "fabrication_rate")
        n_made = pooled[v, "fabrication_rate", ""][2]
        asked = [e for e in of if e["model_calls"]]
        bad = sum(1 for e in asked if e["degenerate"])
        cells = (row["label"], told(row["kept_share"]), told(row["token_savings"]), told(row["net_savings"]), told(row["cost_savings"]),
                 told(recalled[v] / full[v] if full[v] else None), told(row["need_retention_common"]), interval("need_retention_exposed"),
                 told(row["random_exposed"]), told(row["oracle_exposed"]), interval("efficiency"), both("level_ratio"), both("level_in_band"),
                 f"{told(made, 2)} ({n_made})" if made is not None else "-", f"{bad} of {len(asked)}" if asked else "-",
                 f"{sum(1 for e in of if e['fallback'])} of {len(of)}" if asked else "-")
        print("| " + " | ".join(cells) + " |")
    one = max(summary, key=lambda row: int(row["n_needs_exposed"] or 0))
    print(f"\n{one['n_cells_ok']} trajectories, {one['n_clusters']} clusters, {one['n_events']} events, "
          f"{one['n_needs_common']} common needs (n_eff {told(one['n_eff_common'], 1)}), {one['n_needs_exposed']} exposed (n_eff {told(one['n_eff_exposed'], 1)}).")


main(sys.argv[1])
