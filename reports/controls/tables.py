#!/usr/bin/env python3
"""The tables of this folder's README: `python3 reports/controls/tables.py RUN` for a run of experiment.toml that `trajpress report RUN --population
these` has read (RUN/report/summary.csv). Needs pyarrow.

Rows of scores.parquet are pooled by their weights, as in the report; the cut in prompt tokens is 1 - tokens sent / full tokens, summed over
the decisions of the runs of a row, and beside it the same against the prompts that the log says were sent. Intervals and n_eff are the
report's.
"""
import csv
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

STEPS = " @ turns(n=21,keep=10)"
ROLLING = " @ turns(n=1,keep=0)"
CONTROLS = ("atom-bag", "drop-all", "echo", "mask", "oracle", "random", "shuffle", "truncate")
ONE_OF_EACH = ("atom-bag(kept_share=0.1)", "drop-all", "mask(keep_last=10)", "oracle(kept_share=0.1)", "random(kept_share=0.1)")
LENGTHS = (("under 30", 0, 30), ("30-59", 30, 60), ("60-119", 60, 120), ("120 and more", 120, 1 << 30), ("all", 0, 1 << 30))


def rows(run, name, columns):
    return pq.read_table(Path(run) / (name + ".parquet"), columns=columns).to_pylist()


def table(title, head, body):
    print("\n## %s\n\n| %s |\n|%s" % (title, " | ".join(head), " --- |" * len(head)))
    print("\n".join("| %s |" % " | ".join(line) for line in body))


def told(value):
    return "-" if value is None else "%.3f" % value


def interval(row, name):
    """A value of the summary with its interval, where it has one."""
    if row[name] == "":
        return "-"
    ends = " [%.2f, %.2f]" % (float(row[name + "_lo"]), float(row[name + "_hi"])) if row[name + "_lo"] else ""
    return "%.3f%s" % (float(row[name]), ends)


def pooled(of, column="value"):
    """Mean of a column of score rows by their weights; none where no row has it."""
    of = [r for r in of if r[column] is not None]
    weight = sum(r["weight"] for r in of)
    return sum(r[column] * r["weight"] for r in of) / weight if weight else None


def main(args):
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    run = Path(args[0])
    with open(run / "report" / "summary.csv", newline="") as file:
        summary = {row["label"]: row for row in csv.DictReader(file)}
    labels = {row["variant"]: label for label, row in summary.items()}
    formats = {r["trajectory"]: (r["format"], r["n_turns"]) for r in rows(run, "trajectories", ["trajectory", "format", "n_turns"])}
    scores = defaultdict(list)
    for r in rows(run, "scores", ["variant", "trajectory", "event", "metric", "stratum", "value", "floor", "ceiling", "atom_bag", "chance", "weight", "n"]):
        if r["event"] is None and r["value"] is not None:
            scores[labels[r["variant"]], r["metric"], r["stratum"]].append(r)

    body, exposed = [], "set=exposed tail=10"
    for label in sorted(summary):
        if not label.endswith(STEPS) or not label.startswith(CONTROLS):
            continue
        bound, row = scores[label, "need_retention", exposed], summary[label]
        body.append((label.removesuffix(STEPS), told(pooled(scores[label, "surface_retention", exposed])), *(told(pooled(bound, c)) for c in ("value", "floor", "ceiling", "atom_bag")),
                     interval(row, "efficiency"), str(sum(r["n"] for r in bound)), "%.1f" % float(row["n_eff_exposed"])))
    table("Controls, raw: exposed needs, tail 10, trigger N=21, M=10",
          ["variant", "surface", "bound", "bound: random shadow", "oracle shadow", "atom-bag shadow", "efficiency", "needs", "n_eff"], body)

    body = []
    for metric in ("need_retention", "surface_retention"):
        for name in ONE_OF_EACH:
            by_kind = [[r for r in scores[name + STEPS, metric, exposed + kind] if r["chance"] is not None] for kind in ("", " partners=same_repository")]
            cells = [told(pooled(by_kind[0]))]
            for of in by_kind:
                chance, value = pooled(of, "chance"), pooled(of)
                cells += [told(chance), told((value - chance) / (1 - chance) if of else None)]
            body.append((name, metric, *cells))
    table("Atoms that were never there: what the contexts of partner trajectories hold of them (exposed needs, tail 10, N=21, M=10)",
          ["variant", "metric", "raw", "other repository", "corrected by it", "same repository", "corrected by it"], body)

    body = []
    for form in sorted({f for f, _ in formats.values()}):
        for tail in (10, 3):
            for name in ("authored", "observed", "user", "system"):
                of = [r for r in scores["full @ never", "at_risk_share", "tail=%d class=%s" % (tail, name)] if formats[r["trajectory"]][0] == form]
                lost = scores["drop-all" + STEPS, "surface_retention", "set=exposed tail=%d class=%s" % (tail, name)]
                n = sum(r["n"] for r in of)
                at_risk = round(sum(r["value"] * r["weight"] for r in of))
                exposed_here = sum(r["n"] for r in lost if formats[r["trajectory"]][0] == form)
                if n:
                    body.append((form, "tail=%d class=%s" % (tail, name), str(n), str(at_risk), told(at_risk / n), str(exposed_here)))
    table("Needs at risk, and exposed under N=21, M=10, by source", ["format", "tail and class", "needs", "at risk", "share", "exposed (outside bodies)"], body)

    body = []
    for tail in (10, 3):
        of = scores["full @ never", "need_coverage", "set=common tail=%d" % tail]
        body.append(("set=common tail=%d" % tail, told(pooled(of)), str(sum(r["n"] for r in of))))
    table("Coverage of bound retention", ["stratum", "coverage", "needs"], body)

    body = []
    for form in sorted({f for f, _ in formats.values()}):
        classes = [scores["full @ never", "unsupported_share", "tail=10 class=" + name] for name in ("observed", "user")]
        of = [r for rows_of in classes for r in rows_of if formats[r["trajectory"]][0] == form]
        body.append((form, told(pooled(of)), str(sum(r["n"] for r in of))))
    table("Needs at risk that agents met without having been sent what they needed (tail 10, observed and user)", ["format", "share", "needs"], body)

    sent = defaultdict(lambda: [0, 0, 0])
    for r in rows(run, "timeline", ["variant", "trajectory", "tokens_full", "tokens_sent"]):
        cell = sent[labels[r["variant"]], r["trajectory"]]
        cell[0], cell[1], cell[2] = cell[0] + r["tokens_full"], cell[1] + r["tokens_sent"], cell[2] + 1
    # Of a score of savings against what was sent the weight is what was sent.
    as_sent = {r["trajectory"]: r["weight"] for r in scores["full @ never", "token_savings_vs_sent", ""]}
    body = []
    for label in ("drop-all" + STEPS, "mask(keep_last=10)" + ROLLING):
        for form in sorted({f for f, _ in formats.values()}):
            for name, low, high in LENGTHS:
                of = [(*sent[label, t], as_sent[t]) for t, (f, n) in formats.items() if f == form and low <= n < high and sent[label, t][2]]
                if of:
                    full, kept, n, logged = (sum(c) for c in zip(*of))
                    body.append((label, form, name, str(len(of)), "%d" % (full / n), "%d" % (logged / n), "%.3f" % (1 - kept / full), "%.3f" % (1 - kept / logged)))
    table("Cut in prompt tokens", ["variant", "format", "turns", "runs", "mean prompt, full", "as sent", "cut", "cut against as sent"], body)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
