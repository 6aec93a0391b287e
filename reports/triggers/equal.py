#!/usr/bin/env python3
"""Semantic triggers against the number of turns, and of tokens, at equal tokens: `python3 reports/triggers/equal.py RUN`. Needs pyarrow and numpy.

Prints tables: needs kept, discard lift, of annotated logs the share of cuts in the middle of a subtask; the needs kept by kind of log (agent, outcome, length); and the three
claims of the seed (+40 % precision, +25 % information, +15 % efficiency) by one yardstick.

RUN is a run of equal.toml. Repository by repository a setting of `turns` (and one of `tokens`) is chosen: of those that on its logs send as many tokens as the semantic trigger
(within 0.02 of the full tokens; if there is none, the nearest) the one that keeps most needs on all other repositories. The two are compared log by log: tokens sent and needs
kept (set `common`, tail 10), pooled over all logs, with 95 % intervals by bootstrap over tasks with all their runs (repositories are fewer than 20). Kinds of logs with fewer than
10 tasks are not judged.

The yardstick of the claims is a ratio, that of the semantic trigger over that of the settings: needs kept and discard lift at equal tokens; tokens saved at equal needs kept (by the other
repositories: of the settings whose needs kept are within 0.02, the one that saves most). A claim is supported if the ratio lies above the claimed one, contradicted if it lies below: two-sided p of the
bootstrap, adjusted by Holm over the rows of the claim, below 0.05. No ratio is taken where the denominator's interval reaches 0, or the two sides are not equal within 0.05.

`equal.py RUN --tuned-on GRID`, for a sample with a model: of the settings in GRID, a run of equal.toml, that send as many tokens on the logs of RUN (within 0.02, without
a model; else the nearest) the one that keeps most needs on the repositories that RUN does not have; compared on RUN, which need not hold more than these settings.
"""
import json
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

# (metric, stratum) in scores.parquet; each log's value counts by its weight.
METRICS = [("need_retention", "set=common tail=10"), ("discard_lift", ""), ("mid_subtask_share", "")]
NAMES = ["needs kept", "discard lift", "cuts in mid-subtask"]
NEEDS, LIFT = 0, 1
# Columns of what is summed over logs: tokens sent, full tokens, and of each metric its weight and its weighted value.
SENT, FULL, WIDTH = 0, 1, 2 + 2 * len(METRICS)
COUNTED = ("turns", "tokens")
DRAWS = 10_000
NEAR = 0.02
EQUAL = 0.05
LEAST_CLUSTERS = 10


class Run:
    def __init__(self, folder):
        def rows(name, columns):
            return pq.read_table(Path(folder) / (name + ".parquet"), columns=columns).to_pylist()
        self.variants = {r["variant"]: r for r in rows("variants", ["variant", "strategy", "strategy_params", "model", "trigger", "trigger_params"])}
        self.logs = rows("trajectories", ["trajectory", "repository", "task_id", "format", "resolved", "n_turns"])
        at = {r["trajectory"]: i for i, r in enumerate(self.logs)}
        # Of each variant a row for each log; 0 where its cell failed.
        self.cells = {variant: np.zeros((len(at), WIDTH)) for variant in self.variants}
        for r in rows("cells", ["variant", "trajectory", "status", "tokens_sent", "tokens_full"]):
            if r["status"] == "ok":
                self.cells[r["variant"]][at[r["trajectory"]], :2] = r["tokens_sent"], r["tokens_full"]
        for r in rows("scores", ["variant", "trajectory", "event", "metric", "stratum", "value", "weight"]):
            if r["event"] is None and r["value"] is not None and (r["metric"], r["stratum"] or "") in METRICS:
                cell = self.cells[r["variant"]][at[r["trajectory"]]]
                if cell[FULL]:
                    column = 2 + 2 * METRICS.index((r["metric"], r["stratum"] or ""))
                    cell[column:column + 2] = r["weight"], r["value"] * r["weight"]

    def grouped(self, column):
        """Logs (by their numbers) with the same value."""
        groups = defaultdict(list)
        for i, row in enumerate(self.logs):
            groups[row[column] or row["trajectory"]].append(i)
        return groups

    def by_trigger(self):
        """(strategy, model, its parameters) and trigger: variants."""
        found = defaultdict(lambda: defaultdict(list))
        for i, v in sorted(self.variants.items()):
            if v["trigger"] != "never":
                found[v["strategy"], v["model"] or "", v["strategy_params"]][v["trigger"]].append(i)
        return {of: dict(sorted(found[of].items())) for of in sorted(found)}

    def kinds(self):
        """Kinds of logs: name, and the logs of it."""
        turns = statistics.median(r["n_turns"] for r in self.logs)
        tests = [(f, lambda r, f=f: r["format"] == f) for f in sorted({r["format"] for r in self.logs})]
        tests += [("resolved", lambda r: r["resolved"] is True), ("not resolved", lambda r: r["resolved"] is False)]
        tests += [("up to %d turns" % turns, lambda r: r["n_turns"] <= turns), ("longer", lambda r: r["n_turns"] > turns)]
        return [(name, {i for i, r in enumerate(self.logs) if test(r)}) for name, test in tests]


def part(over, under):
    """Their ratio, none where nothing is below."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(under != 0, over / under, np.nan)


def of_metric(sums, metric):
    return part(sums[..., 3 + 2 * metric], sums[..., 2 + 2 * metric])


def saved(sums):
    return 1.0 - part(sums[..., SENT], sums[..., FULL])


def best_of(grid, cells, off, best, tuning):
    """Of settings that are off by no more than NEAR the one with the largest `best` over those for tuning; else the nearest."""
    off = {i: np.nan_to_num(abs(off(i)), nan=np.inf) for i in grid}
    near = [i for i in grid if off[i] <= NEAR]
    return max(near, key=lambda i: np.nan_to_num(best(cells[i][tuning].sum(0)))) if near else min(grid, key=off.get)


def at_equal_tokens(grid, cells, semantic, logs, tuning):
    """Equal on these logs, best on those for tuning."""
    return best_of(grid, cells, lambda i: saved(cells[i][logs].sum(0)) - saved(cells[semantic][logs].sum(0)), lambda s: of_metric(s, NEEDS), tuning)


def at_equal_needs(grid, cells, semantic, _, tuning):
    """Equal and best on those for tuning: of a few logs the needs are few."""
    return best_of(grid, cells, lambda i: of_metric(cells[i][tuning].sum(0), NEEDS) - of_metric(cells[semantic][tuning].sum(0), NEEDS), saved, tuning)


def by_repository(choose, grid, run, semantic):
    """The cells of the setting that is chosen for each repository, and how often which is."""
    side, chosen = np.zeros_like(run.cells[semantic]), Counter()
    for logs in run.grouped("repository").values():
        best = choose(grid, run.cells, semantic, logs, sorted(set(range(len(run.logs))) - set(logs)))
        side[logs] = run.cells[best][logs]
        chosen[setting(run.variants[best])] += len(logs)
    return side, chosen


class Pair:
    """Two variants over the same logs: their sums, and those of each draw of tasks."""

    def __init__(self, a, b, tasks, of):
        # A log counts where both have a value.
        held = np.column_stack([(a[:, FULL] > 0) & (b[:, FULL] > 0)] * 2 + [(a[:, w] > 0) & (b[:, w] > 0) for w in range(2, WIDTH, 2) for _ in range(2)])
        a, b = a * held, b * held
        clusters = [k for k in ([i for i in logs if i in of] for logs in tasks.values()) if k]
        self.judged = len(clusters) >= LEAST_CLUSTERS
        if self.judged:
            times = np.random.default_rng(1).multinomial(len(clusters), [1 / len(clusters)] * len(clusters), DRAWS)
            # Row 0: as it is.
            times = np.vstack([np.ones(len(clusters)), times])
            self.sums = [times @ np.array([side[k].sum(0) for k in clusters]) for side in (a, b)]

    def saved(self):
        """Difference of token savings."""
        return float(saved(self.sums[0])[0] - saved(self.sums[1])[0])

    def difference(self, metric):
        """Difference of savings, the metric of the second, difference of the metric, its interval; none without values."""
        if not self.judged:
            return None
        a, b = (of_metric(side, metric) for side in self.sums)
        return None if np.isnan(a[0] - b[0]) else (self.saved(), b[0], a[0] - b[0], interval(a - b))

    def ratio(self, value):
        """The ratio of a value, as it is and of each draw; none where the second may be 0."""
        a, b = (value(side) for side in self.sums)
        if np.isnan(a[0] * b[0]) or interval(b)[0] <= 0:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            return a / b


def interval(values):
    drawn = values[1:][~np.isnan(values[1:])]
    return tuple(np.quantile(drawn, [0.025, 0.975])) if len(drawn) else (values[0], values[0])


def judge(rows, claimed):
    """Ratios (None: not taken) beside the claimed one: ratio, interval, verdict, by p adjusted by Holm."""
    def p(ratio):
        drawn = ratio[1:][~np.isnan(ratio[1:])]
        return min(1.0, 2 * (1 + min((drawn < claimed).sum(), (drawn > claimed).sum())) / (1 + len(drawn)))
    found = sorted((p(r), i) for i, r in enumerate(rows) if r is not None)
    adjusted, most = {}, 0.0
    for rank, (value, i) in enumerate(found):
        most = adjusted[i] = max(most, min(1.0, value * (len(found) - rank)))
    for i, r in enumerate(rows):
        if r is None:
            yield "-"
        else:
            verdict = "undecided" if adjusted[i] >= 0.05 else "supported" if r[0] > claimed else "contradicted"
            yield "%.2f [%.2f, %.2f] %s" % (r[0], *interval(r), verdict)


def setting(variant):
    params = json.loads(variant["trigger_params"] or "{}")
    told = ["%s %s" % (key, format(value, ",")) for key, value in sorted(params.items(), reverse=True) if key in ("n", "keep", "window")]
    return ", ".join(["`%s`" % variant["trigger"], *told])


def table(head, rows):
    by_model = any(row[1] for row in rows)
    rows = [(row[0], *([row[1] or "none"] if by_model else []), *row[2:]) for row in rows]
    texts = ["strategy", *(["model"] if by_model else []), "trigger", "beside"]
    print("\n| %s | %s\n|%s%s" % (" | ".join(texts), head, " --- |" * len(texts), " ---: |" * head.count("|")))
    print("\n".join("| %s |" % " | ".join(row) for row in rows))


DIFFERENCE = "token savings, difference | %s beside | difference | %s"
CLAIMS = [("needs kept at equal tokens, claimed 1.25", 1.25), ("discard lift at equal tokens, claimed 1.40", 1.40), ("tokens saved at equal needs kept, claimed 1.15", 1.15)]


def compared(folder):
    run = Run(folder)
    tasks, kinds, everything = run.grouped("task_id"), run.kinds(), set(range(len(run.logs)))
    tables, ratios = defaultdict(list), defaultdict(list)
    for (strategy, model, _), triggers in run.by_trigger().items():
        for trigger, other in [(t, o) for t in triggers if t not in COUNTED for o in COUNTED if o in triggers]:
            own, grid = run.cells[triggers[trigger][0]], triggers[other]
            beside, chosen = by_repository(at_equal_tokens, grid, run, triggers[trigger][0])
            head = (strategy, model, trigger, chosen.most_common(1)[0][0])
            pair = Pair(own, beside, tasks, everything)
            for metric in range(len(METRICS)):
                row = pair.difference(metric)
                if row:
                    tables[metric].append((*head, "%+.3f | %.3f | %+.3f | [%+.3f, %+.3f]%s" % (*row[:3], *row[3], "" if row[3][0] <= 0 <= row[3][1] else " *")))
            of_kinds = [Pair(own, beside, tasks, of).difference(NEEDS) for _, of in kinds]
            tables["kinds"].append((*head, " | ".join("-" if row is None else "%+.3f%s" % (row[2], "" if row[3][0] <= 0 <= row[3][1] else " *") for row in of_kinds)))
            equal = abs(pair.saved()) <= EQUAL
            for claim, metric in ((0, NEEDS), (1, LIFT)):
                ratios[claim].append(((*head[:3], "`%s`" % other), pair.ratio(lambda s, m=metric: of_metric(s, m)) if equal else None))
            pair = Pair(own, by_repository(at_equal_needs, grid, run, triggers[trigger][0])[0], tasks, everything)
            needs = pair.difference(NEEDS)
            ratios[2].append(((*head[:3], "`%s`" % other), pair.ratio(saved) if needs and abs(needs[2]) <= EQUAL else None))
    print("%d logs of %d tasks in %d repositories; *: interval without 0" % (len(run.logs), len(tasks), len(run.grouped("repository"))))
    for metric, name in enumerate(NAMES):
        if tables[metric]:
            table(DIFFERENCE % (name, "interval |"), tables[metric])
    print("\nNeeds kept, difference, by kind of log (number of logs)")
    table("".join("%s (%d) | " % (name, len(of)) for name, of in kinds).rstrip(), tables["kinds"])
    print("\nThe claims: ratios, intervals, verdicts after Holm's adjustment")
    heads = [head for head, _ in ratios[0]]
    columns = [judge([ratio for _, ratio in ratios[claim]], claimed) for claim, (_, claimed) in enumerate(CLAIMS)]
    table(" | ".join(name for name, _ in CLAIMS) + " |", [(*head, " | ".join(row)) for head, *row in zip(heads, *columns)])


def tuned_on(folder, grid_folder):
    """Settings that send as many tokens here, the best of them by the other repositories of a larger run, compared on all logs of this one."""
    run, large = Run(folder), Run(grid_folder)
    names, repositories = {r["trajectory"] for r in run.logs}, {r["repository"] for r in run.logs}
    here = [i for i, r in enumerate(large.logs) if r["trajectory"] in names]
    others = [i for i, r in enumerate(large.logs) if r["repository"] not in repositories]
    tasks, grids, tables = run.grouped("task_id"), large.by_trigger(), defaultdict(list)
    for (strategy, model, params), triggers in run.by_trigger().items():
        grid = next(of for (s, m, _), of in grids.items() if s == strategy and not m)
        for trigger, other in [(t, o) for t in triggers if t not in COUNTED for o in COUNTED if o in grid]:
            best = large.variants[at_equal_tokens(grid[other], large.cells, grid[trigger][0], here, others)]
            beside = [i for i in triggers.get(other, []) if setting(run.variants[i]) == setting(best)]
            head = (strategy, model, trigger, setting(best))
            if not beside:
                tables[0].append((*head, "not in this run | | |"))
                continue
            pair = Pair(run.cells[triggers[trigger][0]], run.cells[beside[0]], tasks, set(range(len(run.logs))))
            for metric in range(len(METRICS)):
                row = pair.difference(metric)
                if row:
                    tables[metric].append((*head, "%+.3f | %.3f | %+.3f | [%+.3f, %+.3f]" % (*row[:3], *row[3])))
    print("%d logs of %d repositories; settings by %d logs of others" % (len(run.logs), len(repositories), len(others)))
    for metric, name in enumerate(NAMES):
        if tables[metric]:
            table(DIFFERENCE % (name, "interval |"), tables[metric])


def main(args):
    if len(args) == 3 and args[1] == "--tuned-on":
        tuned_on(args[0], args[2])
    elif len(args) == 1:
        compared(args[0])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
