#!/usr/bin/env python3
"""The table of this folder's README: `python3 reports/bridge/tables.py RUN`, for a run of experiment.toml that `trajpress report RUN --population these` has
read.

Exposed needs alone, tail 10; columns are those of report/summary.csv, and of scores.parquet what the logged summaries say of their sources. Needs pyarrow.
"""
import csv
import sys
from pathlib import Path

import pyarrow.parquet as pq


def number(text):
    return "%.3f" % float(text) if text else "-"


def interval(row, name):
    """A value with its interval, where it has one."""
    ends = " [%.2f, %.2f]" % (float(row[name + "_lo"]), float(row[name + "_hi"])) if row[name + "_lo"] else ""
    return number(row[name]) + ends


def main(args):
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    run = Path(args[0])
    with open(run / "report" / "summary.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["trigger"] == "logged"]
    print("| variant | kept | needs kept | surface | random | oracle | atom-bag | chance | efficiency | needs |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in sorted(rows, key=lambda row: float(row["kept_share"])):
        shadows = " | ".join(number(row[name + "_exposed"]) for name in ("surface_retention", "random", "oracle", "atom_bag", "chance"))
        print("| %s | %.3f | %s | %s | %s | %s |" % (row["label"].split(" @ ")[0], float(row["kept_share"]), interval(row, "need_retention_exposed"), shadows,
                                                  interval(row, "efficiency"), row["n_needs_exposed"]))
    logged = next(row["variant"] for row in rows if row["strategy"] == "logged")
    for metric in ("fabrication_rate", "quote_fidelity"):
        of = [r for r in pq.read_table(run / "scores.parquet", columns=["variant", "metric", "stratum", "value", "weight"]).to_pylist()
              if r["variant"] == logged and r["metric"] == metric and not r["stratum"] and r["value"] is not None]
        weight = sum(r["weight"] for r in of)
        print("\n%s: %.3f of %d, in %d logs" % (metric, sum(r["value"] * r["weight"] for r in of) / weight, weight, len(of)))
    of = [r for r in pq.read_table(run / "events.parquet", columns=["variant", "trajectory", "tokens_before", "kept_tokens", "removable_tokens"]).to_pylist() if r["variant"] == logged]
    middle = lambda name: sorted(r[name] for r in of)[len(of) // 2]  # noqa: E731
    print("\n%d compactions in %d logs; medians: %d tokens before, %d of the summary" % (
        len(of), len({r["trajectory"] for r in of}), middle("tokens_before"), middle("kept_tokens")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
