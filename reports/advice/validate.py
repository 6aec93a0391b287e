#!/usr/bin/env python3
"""The tables of this folder: `python3 reports/advice/validate.py RUN AUDIT SPLITS OUT` for a run of experiment.toml, what
`trajpress audit LOGS --json` and `trajpress advise LOGS --splits 200 --json` print. Prints them, and writes sessions.csv and compactions.csv,
of which they are made, to the folder OUT. Needs pyarrow.

Agreement is Kendall's tau-b over the pairs of sessions of one stratum: 1 where the session that lost more always has the worse outcome, 0
where the order says nothing. Its interval is the jackknife over clusters (tasks or sessions), t with one degree of freedom less than there are.
"""
import csv
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

# Two-sided 95 % points of t by degrees of freedom; the next smaller one stands for those between.
T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 8: 2.31, 10: 2.23, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00, 120: 1.98, 1000: 1.96}
LENGTHS = (15, 25, 40, 70, 110)


def rows(run, name, columns):
    return pq.read_table(Path(run) / (name + ".parquet"), columns=columns).to_pylist()


def sign(a, b):
    return (a > b) - (a < b)


def pairs(points):
    """Of each pair of points (stratum, cluster, x, y) of one stratum: its clusters, and the signs of both differences."""
    strata = defaultdict(list)
    for stratum, cluster, x, y in points:
        strata[stratum].append((cluster, x, y))
    for of in strata.values():
        for i, (c, x, y) in enumerate(of):
            for d, u, v in of[:i]:
                yield c, d, sign(x, u), sign(y, v)


def tau(sums):
    agree, n_x, n_y = sums
    return agree / math.sqrt(n_x * n_y) if n_x and n_y else None


def agreement(points):
    """tau-b, its interval, and how many pairs differ in both."""
    total, told = [0, 0, 0], 0
    without = defaultdict(lambda: [0, 0, 0])
    for c, d, x, y in pairs(points):
        part = (x * y, abs(x), abs(y))
        told += abs(x * y)
        for of in [total] + [without[k] for k in {c, d}]:
            for i in range(3):
                of[i] += part[i]
    value = tau(total)
    clusters = {c for _, c, _, _ in points}
    left = [tau([total[i] - without[c][i] for i in range(3)]) for c in clusters]
    left = [v for v in left if v is not None]
    if value is None or len(left) < 4:
        return value, None, told, len(clusters)
    mean = sum(left) / len(left)
    se = math.sqrt((len(left) - 1) / len(left) * sum((v - mean) ** 2 for v in left))
    t = T[max(k for k in T if k < len(left))]
    return value, (max(-1, value - t * se), min(1, value + t * se)), told, len(clusters)


def line(name, points):
    value, ends, told, n_clusters = agreement(points)
    value = "-" if value is None else "%+.3f" % value
    ends = "-" if ends is None else "[%+.2f, %+.2f]" % ends
    n_lost = sum(x > 0 for _, _, x, _ in points)
    print("| %s | %d | %d | %d | %d | %s | %s |" % (name, len(points), n_clusters, n_lost, told, value, ends))


def head(title):
    print("\n## %s\n\n| lost by, and outcome | sessions | clusters | that lost any | pairs | tau-b | 95 %% interval |" % title)
    print("| --- |" + " ---: |" * 6)


def lost_by_session(run):
    """Needs lost of each session, by policy. `as sent`: what the model used although it had been taken from its prompt."""
    label = {v["variant"]: v["label"].split(" @ ")[0] for v in rows(run, "variants", ["variant", "label"])}
    lost = defaultdict(lambda: defaultdict(float))
    for row in rows(run, "scores", ["variant", "trajectory", "metric", "stratum", "value", "weight"]):
        of, metric, stratum = label[row["variant"]], row["metric"], row["stratum"]
        if not row["weight"] or row["value"] is None:
            continue
        if of == "full" and metric == "unsupported_share" and stratum.startswith("tail=3"):
            lost["as sent"][row["trajectory"]] += row["value"] * row["weight"]
        elif of not in ("full", "as-sent") and metric == "surface_retention" and stratum == "set=common tail=3":
            lost[of][row["trajectory"]] += (1 - row["value"]) * row["weight"]
    return lost


def keep(out, name, of):
    with open(Path(out) / name, "w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(of[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(of)


def sessions(run, audit):
    """A row each session whose outcome is logged."""
    lost = lost_by_session(run)
    again = {s["session"]: sum(a["tokens"] for e in s["edits"] for a in e["read_again"]) for s in audit["sessions"]}
    columns = ["trajectory", "format", "task_id", "n_turns", "resolved", "reward", "logged_cost_usd"]
    found = []
    for log in rows(run, "trajectories", columns):
        good = log["resolved"] if log["resolved"] is not None else log["reward"]
        if good is None:
            continue
        of = {"session": log["trajectory"], "format": log["format"], "task": log["task_id"], "turns": log["n_turns"], "failed": 1 - float(good)}
        of |= {"cost": log["logged_cost_usd"], "tokens_read_again": again.get(log["trajectory"], 0)}
        found.append(of | {policy: round(by.get(log["trajectory"], 0), 6) for policy, by in sorted(lost.items())})
    return sorted(found, key=lambda of: (of["format"], of["session"]))


def compactions(audit):
    """A row each compaction."""
    return [
        {
            "session": s["session"], "format": s["format"], "turn": c["turn"], "calls_left": c["calls_left"], "lost": len(c["lost"]),
            "left_by_name": len(c["used_with_the_name_alone"]), "files_read_again": len(c["read_again"]),
            "tokens_read_again": sum(a["tokens"] for a in c["read_again"]),
        }
        for s in audit["sessions"] for c in s["compactions"] if c["is_prompt_after_in_the_log"] and c["lost"] is not None and c["read_again"] is not None
    ]


def band(n, bounds):
    return sum(n >= bound for bound in bounds)


def outcomes(of_all):
    policies = list(of_all[0])[7:]
    formats = defaultdict(list)
    for of in of_all:
        formats[of["format"]].append(of)
    head("Between sessions of one length")
    for form, of in formats.items():
        for policy in policies:
            for outcome in ("failed", "cost", "tokens_read_again"):
                # What was really taken from prompts, and what its product's own edits made it read again, is known of one format.
                is_real = form == "sweagent" and policy == "as sent"
                if any(o[outcome] is None for o in of) or (policy == "as sent" or outcome == "tokens_read_again") and not is_real:
                    continue
                points = [(band(o["turns"], LENGTHS), o["task"], o[policy], o[outcome]) for o in of]
                if any(x for _, _, x, _ in points):
                    line("%s, %s: %s" % (form, policy, outcome.replace("_", " ")), points)
    head("Between sessions of one task")
    for form, of in formats.items():
        for policy in policies:
            if policy != "as sent" and len({o["task"] for o in of}) < 0.9 * len(of):
                line("%s, %s: failed" % (form, policy), [(o["task"], o["task"], o[policy], o["failed"]) for o in of])


def of_compactions(of_all):
    head("Between compactions before about as many calls")
    for name in ("tokens_read_again", "files_read_again"):
        for lost, x in (("lost", lambda c: c["lost"]), ("lost or left by name", lambda c: c["lost"] + c["left_by_name"])):
            points = [(band(c["calls_left"], (10, 50, 150)), c["session"], x(c), c[name]) for c in of_all]
            line("%s: %s" % (lost, name.replace("_", " ")), points)


def of_splits(splits):
    print("\n## Chosen on one half of the tasks, looked at on the other, 200 times\n")
    print("| compared with | window | sessions | set by the half | excess within the margin on the other | within its own bound |")
    print("| --- |" + " ---: |" * 5)
    for of in splits["groups"]:
        n = of["splits"]
        print("| %s | %d | %d | %d | %d | %d |" % (of["reference"], of["window"], of["sessions"], n["set"], n["within_margin"], n["within_bound"]))


def main(args):
    if len(args) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    audit, splits = (json.loads(Path(path).read_text()) for path in args[1:3])
    of_sessions, compacted = sessions(args[0], audit), compactions(audit)
    keep(args[3], "sessions.csv", of_sessions)
    keep(args[3], "compactions.csv", compacted)
    outcomes(of_sessions)
    of_compactions(compacted)
    of_splits(splits)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
