#!/usr/bin/env python3
"""The table of this folder's README on what masking saves: `python3 reports/claims/tables.py RUN`, for a run of experiment.toml, or of
reports/controls. Needs pyarrow.

A cut is 1 - tokens sent / tokens of another way to send the same prompts, over all decisions of the logs of a row: against *full* (nothing
left out) and against *as sent* (what the logs say was sent). Pooled is by tokens, mean over the logs. n_eff: as many repositories of
equal size would say as much, by tokens of full prompts; logs that name none are one each.
"""
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

VARIANTS = ("mask @ turns(n=1,keep=0)", "truncate @ turns(n=21,keep=10)", "summary @ turns(n=21,keep=10) [model-free]")
LENGTHS = (("all", 0, 1 << 30), ("60 and more", 60, 1 << 30))


def rows(run, name, columns, filters=None):
    return pq.read_table(Path(run) / (name + ".parquet"), columns=columns, filters=filters).to_pylist()


def group(trajectory):
    """Logs of one format; SWE-agent 0.x, whose agents were sent the newest 5 observations, by itself."""
    if trajectory["format"] != "sweagent":
        return trajectory["format"]
    return "SWE-agent 0.x" if (trajectory["logged_policy"] or "").startswith("SWE-agent 0") else "SWE-agent 1.x"


def cuts(of):
    """Pooled and mean cut of pairs (what the cut is against, tokens sent)."""
    return 1 - sum(sent for _, sent in of) / sum(base for base, _ in of), sum(1 - sent / base for base, sent in of) / len(of)


def n_eff(trajectories, full):
    by_repository = defaultdict(float)
    for id, t in trajectories.items():
        by_repository[t["repository"] or id] += full[id]
    return sum(by_repository.values()) ** 2 / sum(w * w for w in by_repository.values())


def main(args):
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    run = args[0]
    # A label names the parameter only where a run has several values of it.
    labels = {r["variant"]: r["label"].replace("(keep_last=10)", "") for r in rows(run, "variants", ["variant", "label"])}
    logs = {r["trajectory"]: r for r in rows(run, "trajectories", ["trajectory", "format", "repository", "n_turns", "logged_policy"])}
    full, as_sent, sent = {}, {}, {}
    # The weight of each saving is the tokens that it is against.
    metrics = {"token_savings": full, "token_savings_vs_sent": as_sent}
    for r in rows(run, "scores", ["variant", "trajectory", "metric", "stratum", "value", "weight"], [("metric", "in", list(metrics))]):
        if labels[r["variant"]] == "full @ never":
            metrics[r["metric"]][r["trajectory"]] = r["weight"]
        if r["metric"] == "token_savings" and r["value"] is not None:
            sent[labels[r["variant"]], r["trajectory"]] = r["weight"] * (1 - r["value"])
    print("| logs | turns | number | n_eff | variant | cut of full, pooled | mean | cut of as sent, pooled | mean |\n| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for name in sorted({group(t) for t in logs.values()}, key=lambda g: (g.lower() == g, g)):
        for length, low, high in LENGTHS:
            of = {id: t for id, t in logs.items() if group(t) == name and low <= t["n_turns"] < high and full.get(id)}
            if not of:
                continue
            head = "| %s | %s | %d | %.1f |" % (name, length, len(of), n_eff(of, full))
            print(head, "as sent | %.3f | %.3f | 0 | 0 |" % cuts([(full[id], as_sent[id]) for id in of]))
            for label in VARIANTS:
                pairs = [(id, sent[label, id]) for id in of if (label, id) in sent]
                if pairs:
                    cells = cuts([(full[id], s) for id, s in pairs]) + cuts([(as_sent[id], s) for id, s in pairs])
                    print(head, "%s | %.3f | %.3f | %.3f | %.3f |" % (label, *cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
