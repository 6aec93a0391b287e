#!/usr/bin/env python3
"""Semantic triggers against the number of turns, and of tokens, at equal tokens: `python3 reports/triggers/equal.py RUN [SEEDS]`. Needs pyarrow.

Prints tables: needs kept, discard lift, of annotated logs the share of cuts in the middle of a subtask, and the needs kept by kind of log (agent, outcome, length).

RUN is a run of equal.toml. The repositories are halved at random. On one half a setting of `turns` (and one of `tokens`) is chosen: of those whose tokens sent, over all logs,
are within 0.02 of the full tokens of those of the semantic trigger, the one that keeps most needs; if there is none, the nearest. On the other half the two are compared, log by log: tokens sent and needs kept (set `common`, tail 10), pooled, with
95 % intervals by bootstrap over tasks with all their runs (repositories are fewer than 20 in a half). Halves and bootstrap are drawn from a seed; all SEEDS halvings (20) are made and their medians printed, so
that no lucky half is picked. Kinds of logs with fewer than 10 tasks in a half are not judged.

`equal.py RUN --tuned-on GRID`, for a sample with a model: of the settings in GRID, a run of equal.toml, that send as many tokens on the logs of RUN (within 0.02, without
a model; else the nearest) the one that keeps most needs on the repositories that RUN does not have; compared on RUN, which need not hold more than these settings.
"""
import random
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

# (metric, stratum) in scores.parquet; each log's value counts by its weight.
METRICS = [("need_retention", "set=common tail=10"), ("discard_lift", ""), ("mid_subtask_share", "")]
NAMES = ["needs kept", "discard lift", "cuts in mid-subtask"]
COUNTED = ("turns", "tokens")
DRAWS = 500
NEAR = 0.02
LEAST_CLUSTERS = 10


def load(run):
    """variants {id: row}; logs {id: row}; per (variant, log): tokens sent and full, then weight and weighted value of each metric."""
    rows = lambda name, columns: pq.read_table(Path(run) / (name + ".parquet"), columns=columns).to_pylist()  # noqa: E731
    variants = {r["variant"]: r for r in rows("variants", ["variant", "strategy", "strategy_params", "model", "trigger", "trigger_params"])}
    logs = {r["trajectory"]: r for r in rows("trajectories", ["trajectory", "repository", "task_id", "format", "resolved", "n_turns"])}
    cells = {(r["variant"], r["trajectory"]): [r["tokens_sent"], r["tokens_full"]] + [0.0] * (2 * len(METRICS))
             for r in rows("cells", ["variant", "trajectory", "status", "tokens_sent", "tokens_full"]) if r["status"] == "ok"}
    for r in rows("scores", ["variant", "trajectory", "event", "metric", "stratum", "value", "weight"]):
        if r["event"] is None and r["value"] is not None and (r["variant"], r["trajectory"]) in cells:
            if (r["metric"], r["stratum"] or "") in METRICS:
                at = 2 + 2 * METRICS.index((r["metric"], r["stratum"] or ""))
                cells[r["variant"], r["trajectory"]][at:at + 2] = r["weight"], r["value"] * r["weight"]
    return variants, logs, cells


def sums(cells, variant, logs):
    """Tokens sent, full tokens, weights and weighted values over these logs."""
    total = [0.0] * (2 + 2 * len(METRICS))
    for log in logs:
        cell = cells.get((variant, log))
        if cell:
            total = [a + b for a, b in zip(total, cell)]
    return total


def interval(values):
    values = sorted(values)
    return values[int(0.025 * len(values))], values[int(0.975 * len(values))]


def compared(by_cluster, draw, metric=0):
    """Differences semantic - turns of token savings and of a metric, pooled, the interval of the latter, and it under turns; none without values."""
    names, at = sorted(by_cluster), 2 + 2 * metric

    def difference(picked):
        a, b = ([sum(side) for side in zip(*(by_cluster[name][which] for name in picked))] for which in (0, 1))
        saved = (b[0] - a[0]) / a[1] if a[1] else 0.0
        kept = (a[at + 1] / a[at] - b[at + 1] / b[at], b[at + 1] / b[at]) if a[at] and b[at] else (None, None)
        return (saved, *kept)
    saved, kept, base = difference(names) if len(names) >= LEAST_CLUSTERS else (0.0, None, None)
    if kept is None:
        return None
    draws = [difference(draw.choices(names, k=len(names)))[1] for _ in range(DRAWS)]
    return saved, kept, interval([d for d in draws if d is not None] or [kept]), base


def kinds_of(logs):
    """Kinds of logs: name, and the logs of it."""
    turns = statistics.median(r["n_turns"] for r in logs.values())
    tests = [(f, lambda r, f=f: r["format"] == f) for f in sorted({r["format"] for r in logs.values()})]
    tests += [("resolved", lambda r: r["resolved"] is True), ("not resolved", lambda r: r["resolved"] is False)]
    tests += [("up to %d turns" % turns, lambda r: r["n_turns"] <= turns), ("longer", lambda r: r["n_turns"] > turns)]
    return [(name, {log for log, r in logs.items() if test(r)}) for name, test in tests]


def told(results, seeds):
    """Medians of the difference in savings, the metric under turns, its difference and interval; in how many halvings that is below, around and above 0."""
    results = [r for r in results if r]
    if len(results) < seeds // 2:
        return None
    middle = lambda values: statistics.median(values)  # noqa: E731
    low, high = (middle([r[2][side] for r in results]) for side in (0, 1))
    below, above = sum(r[2][1] < 0 for r in results), sum(r[2][0] > 0 for r in results)
    return middle([r[0] for r in results]), middle([r[3] for r in results]), middle([r[1] for r in results]), low, high, below, len(results) - below - above, above


def best_of(grid, cells, semantic, logs, tuning):
    """Of settings that send about as many tokens over these logs as a semantic trigger, the one that keeps most needs over those for tuning; else the nearest."""
    wanted, found = sums(cells, semantic, logs)[0], {i: sums(cells, i, logs) for i in grid}
    off = {i: abs(of[0] - wanted) / of[1] for i, of in found.items()}
    near = [i for i in grid if off[i] <= NEAR]
    return max(near, key=lambda i: sums(cells, i, tuning)[3]) if near else min(grid, key=off.get)


def setting(variant):
    return "%s %s" % (variant["trigger"], variant["trigger_params"].replace('"', ""))


def grouped(logs, column):
    groups = defaultdict(list)
    for log, row in logs.items():
        groups[row[column] or log].append(log)
    return groups


def by_trigger(variants):
    """(strategy, model, its parameters) and trigger: ids."""
    found = defaultdict(lambda: defaultdict(list))
    for i, v in sorted(variants.items()):
        if v["trigger"] != "never":
            found[v["strategy"], v["model"] or "", v["strategy_params"]][v["trigger"]].append(i)
    return {of: dict(sorted(found[of].items())) for of in sorted(found)}


def table(head, rows):
    print("\n| strategy | model | trigger | beside | token savings, difference | %s\n| --- | --- | --- | --- | ---: | %s" % (head, "---: | " * head.count("|")))
    print("\n".join("| %s | %s | %s | %s | %s |" % row for row in rows))


def halved(run, seeds):
    variants, logs, cells = load(run)
    groups, tasks = grouped(logs, "repository"), grouped(logs, "task_id")
    names, classes = sorted(groups), kinds_of(logs)
    tables = defaultdict(list)
    for (strategy, model, _), triggers in by_trigger(variants).items():
        for trigger, other in [(t, o) for t in triggers if t not in COUNTED for o in COUNTED if o in triggers]:
            semantic, grid = triggers[trigger][0], triggers[other]
            results, chosen = defaultdict(list), defaultdict(int)
            for seed in range(seeds):
                draw = random.Random(seed)
                order = names[:]
                draw.shuffle(order)
                tuning, test = order[: len(order) // 2], sorted(order[len(order) // 2:])
                tuned = [log for name in tuning for log in groups[name]]
                best = best_of(grid, cells, semantic, tuned, tuned)
                chosen[setting(variants[best])] += 1

                def parts(of):
                    of = of & {log for name in test for log in groups[name]}
                    kept = {name: [log for log in tasks[name] if log in of] for name in tasks}
                    return {n: (sums(cells, semantic, k), sums(cells, best, k)) for n, k in kept.items() if k}
                for metric in range(len(METRICS)):
                    results[metric].append(compared(parts(set(logs)), draw, metric))
                for kind, of in classes:
                    results[kind].append(compared(parts(of), draw))
            head = (strategy, model or "-", trigger, max(chosen, key=chosen.get))
            for metric in range(len(METRICS)):
                row = told(results[metric], seeds)
                if row:
                    tables[metric].append((*head, "%+.3f | %.3f | %+.3f | [%+.3f, %+.3f] | %d, %d, %d" % row))
            cells_of = [told(results[kind], seeds) for kind, _ in classes]
            # Decided the same way in more than half of the halvings: with a star.
            tables["kinds"].append((*head, " | ".join(
                ["-"] + ["-" if row is None else "%+.3f%s" % (row[2], "*" if 2 * max(row[5], row[7]) > sum(row[5:]) else "") for row in cells_of])))
    print("%d logs of %d repositories, %d halvings" % (len(logs), len(names), seeds))
    for metric, name in enumerate(NAMES):
        if tables[metric]:
            table("%s beside | difference | median interval | halvings below, around, above 0 |" % name, tables[metric])
    print("\nNeeds kept, difference, by kind of log (number of logs); * interval on the same side of 0 in most halvings.")
    table("".join("%s (%d) | " % (name, len(of)) for name, of in classes).rstrip(), tables["kinds"])


def tuned_on(run, grid_run):
    """Settings that send as many tokens here, the best of them by the other repositories of a larger run, compared on all logs of this one."""
    variants, logs, cells = load(run)
    g_variants, g_logs, g_cells = load(grid_run)
    here = {row["repository"] for row in logs.values()}
    others = [log for log, row in g_logs.items() if row["repository"] not in here]
    groups, tasks, grids, tables = grouped(logs, "repository"), grouped(logs, "task_id"), by_trigger(g_variants), defaultdict(list)
    for (strategy, model, params), triggers in by_trigger(variants).items():
        grid = next(of for (s, m, _), of in grids.items() if s == strategy and not m)
        for trigger, other in [(t, o) for t in triggers if t not in COUNTED for o in COUNTED if o in grid]:
            best = g_variants[best_of(grid[other], g_cells, grid[trigger][0], logs, others)]
            beside = [i for i in triggers.get(other, []) if setting(variants[i]) == setting(best)]
            head = (strategy, model or "-", trigger, setting(best))
            if not beside:
                tables[0].append((*head, "not in this run | | |"))
                continue
            parts = {n: (sums(cells, triggers[trigger][0], k), sums(cells, beside[0], k)) for n, k in tasks.items()}
            for metric in range(len(METRICS)):
                row = compared(parts, random.Random(0), metric)
                if row:
                    saved, kept, (low, high), base = row
                    tables[metric].append((*head, "%+.3f | %.3f | %+.3f | [%+.3f, %+.3f]" % (saved, base, kept, low, high)))
    print("%d logs of %d repositories; settings by %d logs of others" % (len(logs), len(groups), len(others)))
    for metric, name in enumerate(NAMES):
        if tables[metric]:
            table("%s beside | difference | interval |" % name, tables[metric])


def main(args):
    if len(args) == 3 and args[1] == "--tuned-on":
        tuned_on(args[0], args[2])
    elif len(args) in (1, 2):
        halved(args[0], int(args[1]) if len(args) == 2 else 20)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
