#!/usr/bin/env python3
"""Semantic triggers against the number of turns at equal tokens: `python3 reports/triggers/equal.py RUN [SEEDS]`. Needs pyarrow.

RUN is a run of equal.toml. The repositories are halved at random. On one half a setting of `turns` is chosen: of those whose tokens sent, over all logs,
are within 0.02 of the full tokens of those of the semantic trigger, the one that keeps most needs; if there is none, the nearest. On the other half the two are compared, log by log: tokens sent and needs kept (set `common`, tail 10), pooled, with
95 % intervals by bootstrap over repositories. Halves and bootstrap are drawn from a seed; all SEEDS halvings (20) are made and their medians printed, so
that no lucky half is picked.
"""
import random
import statistics
import sys
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

METRIC = "need_retention", "set=common tail=10"
DRAWS = 500
NEAR = 0.02


def load(run):
    """variants {id: row}; logs {id: repository}; per (variant, log): tokens sent and full, weight and weighted value of the metric."""
    rows = lambda name, columns: pq.read_table(Path(run) / (name + ".parquet"), columns=columns).to_pylist()  # noqa: E731
    variants = {r["variant"]: r for r in rows("variants", ["variant", "strategy", "trigger", "trigger_params"])}
    logs = {r["trajectory"]: r["repository"] or r["trajectory"] for r in rows("trajectories", ["trajectory", "repository"])}
    cells = {(r["variant"], r["trajectory"]): [r["tokens_sent"], r["tokens_full"], 0.0, 0.0]
             for r in rows("cells", ["variant", "trajectory", "status", "tokens_sent", "tokens_full"]) if r["status"] == "ok"}
    for r in rows("scores", ["variant", "trajectory", "event", "metric", "stratum", "value", "weight"]):
        if r["event"] is None and r["value"] is not None and (r["variant"], r["trajectory"]) in cells:
            if (r["metric"], r["stratum"]) == METRIC:
                cells[r["variant"], r["trajectory"]][2:] = r["weight"], r["value"] * r["weight"]
    return variants, logs, cells


def sums(cells, variant, logs):
    """Tokens sent, full tokens, weight, weighted value over these logs."""
    total = [0.0] * 4
    for log in logs:
        cell = cells.get((variant, log))
        if cell:
            total = [a + b for a, b in zip(total, cell)]
    return total


def interval(values):
    values = sorted(values)
    return values[int(0.025 * len(values))], values[int(0.975 * len(values))]


def compared(by_repository, names, draw):
    """Differences semantic - turns of token savings and needs kept, pooled, with intervals."""
    def difference(picked):
        a, b = [0.0] * 4, [0.0] * 4
        for name in picked:
            x, y = by_repository[name]
            a, b = [p + q for p, q in zip(a, x)], [p + q for p, q in zip(b, y)]
        saved = (b[0] - a[0]) / a[1] if a[1] else 0.0
        kept = a[3] / a[2] - b[3] / b[2] if a[2] and b[2] else None
        return saved, kept
    point = difference(names)
    draws = [difference(draw.choices(names, k=len(names))) for _ in range(DRAWS)]
    return point, interval([d[0] for d in draws]), interval([d[1] for d in draws if d[1] is not None] or [0.0])


def main(args):
    if len(args) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    variants, logs, cells = load(args[0])
    seeds = int(args[1]) if len(args) == 2 else 20
    groups = defaultdict(list)
    for log, repository in logs.items():
        groups[repository].append(log)
    names = sorted(groups)
    print("%d logs of %d repositories, %d halvings" % (len(logs), len(names), seeds))
    print()
    print("| strategy | trigger | `turns` most often chosen | token savings, difference | needs kept, difference | median interval | halvings in which it holds 0 |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    kinds = sorted({(v["strategy"], v["trigger"]) for v in variants.values() if v["trigger"] not in ("turns", "never")})
    for strategy, trigger in kinds:
        semantic = next(i for i, v in variants.items() if (v["strategy"], v["trigger"]) == (strategy, trigger))
        grid = sorted(i for i, v in variants.items() if (v["strategy"], v["trigger"]) == (strategy, "turns"))
        results, chosen = [], defaultdict(int)
        for seed in range(seeds):
            draw = random.Random(seed)
            order = names[:]
            draw.shuffle(order)
            tuning, test = order[: len(order) // 2], sorted(order[len(order) // 2:])
            tuned = [log for name in tuning for log in groups[name]]
            wanted = sums(cells, semantic, tuned)[0]
            found = {i: sums(cells, i, tuned) for i in grid}
            off = {i: abs(sent - wanted) / full for i, (sent, full, _, _) in found.items()}
            near = [i for i in grid if off[i] <= NEAR]
            best = max(near, key=lambda i: found[i][3]) if near else min(grid, key=off.get)
            chosen[variants[best]["trigger_params"]] += 1
            parts = {name: (sums(cells, semantic, groups[name]), sums(cells, best, groups[name])) for name in test}
            results.append(compared(parts, test, draw))
        saved = statistics.median(r[0][0] for r in results)
        kept = statistics.median(r[0][1] for r in results)
        low, high = (statistics.median(r[2][side] for r in results) for side in (0, 1))
        holds = sum(r[2][0] <= 0 <= r[2][1] for r in results)
        print("| %s | %s | %s | %+.3f | %+.3f | [%+.3f, %+.3f] | %d of %d |" % (
            strategy, trigger, max(chosen, key=chosen.get).replace('"', ""), saved, kept, low, high, holds, seeds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
