#!/usr/bin/env python3
"""The tables of this folder's README: `python3 reports/triggers/tables.py RUN`, for a run of experiment.toml or of ablation.toml that
`trajpress report RUN --population these` has read. Needs pyarrow.

Prints what fires (events of strategy `truncate`, if the run has it: per 100 decisions, with the mean size of their scopes; the turns of a scope of
single steps are those from the first to the last of them), and for each strategy and trigger its events, the logs in which it fires, what it saves (tokens, the same against
what the logs say was sent, money with a prompt cache) and needs kept (common set, tail 10) with the report's interval, where it has one.
"""
import csv
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq


def rows(run, name, columns):
    return pq.read_table(Path(run) / (name + ".parquet"), columns=columns).to_pylist()


def trigger(label):
    name = label.split(" @ ", 1)[1].removesuffix(" [model-free]")
    return {"turns(n=21,keep=10)": "turns N=21, M=10", "turns(n=10,keep=0)": "turns n=10"}.get(name, name)


def main(args):
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    run = Path(args[0])
    with open(run / "report" / "summary.csv", newline="") as file:
        summary = {row["variant"]: row for row in csv.DictReader(file)}
    decisions = defaultdict(int)
    for r in rows(run, "cells", ["variant", "n_decisions", "status"]):
        if r["status"] == "ok":
            decisions[r["variant"]] += r["n_decisions"]
    fired, logs = defaultdict(lambda: [0, 0, 0]), defaultdict(set)
    for r in rows(run, "events", ["variant", "trajectory", "trigger_kind", "scope_start", "scope_end", "removable_tokens"]):
        logs[r["variant"]].add(r["trajectory"])
        if summary[r["variant"]]["strategy"] == "truncate":
            of = fired[r["variant"], r["trigger_kind"]]
            of[0], of[1], of[2] = of[0] + 1, of[1] + r["scope_end"] - r["scope_start"], of[2] + r["removable_tokens"]
    if fired:
        print("| trigger | kind | events a 100 decisions | turns of the scope | tokens of the scope |\n| --- | --- | ---: | ---: | ---: |")
    for (variant, kind), (n, turns, tokens) in sorted(fired.items(), key=lambda item: (trigger(summary[item[0][0]]["label"]), -item[1][0])):
        print("| %s | `%s` | %.1f | %.1f | %s |" % (trigger(summary[variant]["label"]), kind, 100 * n / decisions[variant], turns / n, format(round(tokens / n), ",")))
    print("\n%s decisions\n" % format(max(decisions.values()), ","))
    print("| strategy | trigger | events | in logs | tokens saved | against as sent | money saved | needs kept (common set, tail 10) |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in sorted(summary.values(), key=lambda row: (row["strategy"], float(row["token_savings"]))):
        if row["trigger"] != "never":
            name = "need_retention_common"
            ends = " [%.2f, %.2f]" % (float(row[name + "_lo"]), float(row[name + "_hi"])) if row[name + "_lo"] else ""
            print("| %s | %s | %s | %d | %.3f | %.3f | %.3f | %s%s |" % (
                row["strategy"], trigger(row["label"]), format(int(row["n_events"]), ","), len(logs[row["variant"]]),
                *(float(row[saved]) for saved in ("token_savings", "token_savings_vs_sent", "cost_savings")), "%.3f" % float(row[name]) if row[name] else "-", ends))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
