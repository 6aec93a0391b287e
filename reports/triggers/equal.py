#!/usr/bin/env python3
"""Semantic triggers against the number of turns, and of tokens, at equal tokens: `python3 reports/triggers/equal.py RUN`. Needs pyarrow and numpy.

Prints tables: needs kept, discard lift, of annotated logs the share of cuts in the middle of a subtask; the needs kept by kind of log (agent, outcome, length); and the three
claims of the seed (+40 % precision, +25 % information, +15 % efficiency) by one yardstick.

RUN is a run of equal.toml. The logs are cut into strata: repository, agent, shorter or longer than the median. For each stratum two settings of `turns` (or of `tokens`) are mixed so that
the mix sends exactly as many tokens on its logs as the semantic trigger: of all pairs with one setting that saves no more and one that saves no less, both within 0.05 of the full tokens, the pair whose mix keeps
most needs on all other repositories. (Where there is no such pair the nearest setting stands alone.) A mix has the shares of its settings in every sum; of settings that are far apart it would be another
policy, which compresses some logs and leaves others alone. The two are compared over all logs for which
both have a value: needs kept (set `common`, tail 10), pooled, and discard lift of pooled shares, with 95 % intervals by bootstrap over tasks with all their runs (repositories are fewer than 20),
in which the mixes are not chosen again. Kinds of logs with fewer than 10 tasks are not judged. A star: two-sided p of the bootstrap below 0.05 after Holm's adjustment over the table.

The yardstick of the claims is a ratio, that of the semantic trigger over that of the mixes: needs kept and discard lift at equal tokens; tokens saved at equal needs kept (mixes of settings that keep as
many needs on the stratum, and save most on the other repositories). A claim is supported if the ratio lies above the claimed one, contradicted if it lies below, p adjusted by Holm over the column; out
of reach if the mixes have so much that the claimed ratio would be more than 1 in all. No ratio is taken where the denominator's interval reaches 0, or where what was to be equal is not: tokens saved
within 0.02, needs kept within 1.5 % of them.

`equal.py RUN --tuned-on GRID`, for a sample with a model: of the settings in GRID, a run of equal.toml, that send as many tokens on the logs of RUN (within 0.02, without
a model; else the nearest) the one that keeps most needs on the repositories that RUN does not have; compared on RUN, which need not hold more than these settings.
"""
import functools
import json
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

# (metric, stratum) in scores.parquet: each has a column of weights and one of weighted values, after the tokens sent and the full ones.
SUMMED = [("need_retention", "set=common tail=10"), ("needed_removed_share", ""), ("needed_scope_share", ""), ("mid_subtask_share", "")]
SENT, FULL, WIDTH = 0, 1, 2 + 2 * len(SUMMED)
COUNTED = ("turns", "tokens")
DRAWS = 20_000
REACH = 0.05
NEAR = 0.02
NEAR_NEEDS = 0.015
LEAST_CLUSTERS = 10


def part(over, under):
    """Their ratio, none where nothing is below."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(under != 0, over / under, np.nan)


def share(sums, of):
    return part(sums[..., 3 + 2 * of], sums[..., 2 + 2 * of])


def saved(sums):
    return 1.0 - part(sums[..., SENT], sums[..., FULL])


def kept(sums):
    return share(sums, 0)


def lift(sums):
    return 1.0 - part(share(sums, 1), share(sums, 2))


def in_middle(sums):
    return share(sums, 3)


METRICS = [("needs kept", kept), ("discard lift", lift), ("cuts in mid-subtask", in_middle)]
CLAIMS = [("needs kept at equal tokens, claimed 1.25", kept, 1.25), ("discard lift at equal tokens, claimed 1.40", lift, 1.40), ("tokens saved at equal needs kept, claimed 1.15", saved, 1.15)]


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
            if r["event"] is None and r["value"] is not None and (r["metric"], r["stratum"] or "") in SUMMED:
                cell = self.cells[r["variant"]][at[r["trajectory"]]]
                if cell[FULL]:
                    column = 2 + 2 * SUMMED.index((r["metric"], r["stratum"] or ""))
                    cell[column:column + 2] = r["weight"], r["value"] * r["weight"]

    def grouped(self, column):
        """Logs (by their numbers) with the same value."""
        groups = defaultdict(list)
        for i, row in enumerate(self.logs):
            groups[row[column] or row["trajectory"]].append(i)
        return groups

    def strata(self):
        """Logs of a repository, an agent and a length, with all logs of other repositories."""
        longer = statistics.median(r["n_turns"] for r in self.logs)
        for logs in self.grouped("repository").values():
            others = sorted(set(range(len(self.logs))) - set(logs))
            alike = defaultdict(list)
            for i in logs:
                alike[self.logs[i]["format"], self.logs[i]["n_turns"] > longer].append(i)
            yield from ((of, others) for of in alike.values())

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


def mixed(grid, cells, equal, best, semantic, logs, others):
    """Two settings and the share of the first: `equal` is on these logs what it is for the semantic trigger, `best` the largest on the others."""
    wanted = equal(cells[semantic][logs].sum(0))
    has = {i: equal(cells[i][logs].sum(0)) for i in grid}
    has = {i: float(x) for i, x in has.items() if not np.isnan(x)}
    if np.isnan(wanted) or not has:
        return grid[0], grid[0], 1.0
    elsewhere = {i: cells[i][others].sum(0) for i in has}
    found = []
    for i in has:
        for j in has:
            if has[i] <= wanted <= has[j] and max(wanted - has[i], has[j] - wanted) <= REACH:
                of_i = (has[j] - wanted) / (has[j] - has[i]) if has[j] > has[i] else 1.0
                found.append((float(np.nan_to_num(best(of_i * elsewhere[i] + (1 - of_i) * elsewhere[j]))), i, j, of_i))
    if not found:
        nearest = min(has, key=lambda i: abs(has[i] - wanted))
        return nearest, nearest, 1.0
    return max(found)[1:]


def beside(run, grid, equal, best, semantic):
    """The cells of the mixes that are chosen for each stratum, and which settings they are made of. Where a stratum has nothing to be equal in, the others tell."""
    side, chosen = np.zeros_like(run.cells[semantic]), Counter()
    for logs, others in run.strata():
        of = others if np.isnan(equal(run.cells[semantic][logs].sum(0))) else logs
        i, j, of_i = mixed(grid, run.cells, equal, best, semantic, of, others)
        side[logs] = of_i * run.cells[i][logs] + (1 - of_i) * run.cells[j][logs]
        for setting_, weight in ((i, of_i), (j, 1 - of_i)):
            chosen[setting(run.variants[setting_])] += weight * len(logs)
    return side, chosen


@functools.lru_cache(maxsize=64)
def draws(n):
    """How often each of n clusters is drawn; row 0: as they are."""
    return np.vstack([np.ones(n), np.random.default_rng(1).multinomial(n, [1 / n] * n, DRAWS)]).astype(np.float32)


class Pair:
    """Two variants over the same logs: their sums, and those of each draw of tasks."""

    def __init__(self, a, b, tasks, of):
        # A log counts where both have a value.
        held = np.column_stack([(a[:, FULL] > 0) & (b[:, FULL] > 0)] * 2 + [(a[:, w] > 0) & (b[:, w] > 0) for w in range(2, WIDTH, 2) for _ in range(2)])
        a, b = a * held, b * held
        clusters = [k for k in ([i for i in logs if i in of] for logs in tasks.values()) if k]
        self.judged = len(clusters) >= LEAST_CLUSTERS
        if self.judged:
            times = draws(len(clusters))
            self.sums = [times.astype(float) @ np.array([side[k].sum(0) for k in clusters]) for side in (a, b)]

    def saved(self):
        """Difference of token savings."""
        return float(saved(self.sums[0])[0] - saved(self.sums[1])[0])

    def sides(self, value):
        """A value of both, as it is and of each draw; none without values."""
        if not self.judged:
            return None
        a, b = (value(side) for side in self.sums)
        return None if np.isnan(a[0] - b[0]) else (a, b)

    def ratio(self, value):
        """The ratio of a value, as it is and of each draw; none where the second may be 0."""
        sides = self.sides(value)
        if sides is None or not interval(sides[1])[0] > 0:
            return None
        return part(*sides)


def interval(values):
    drawn = values[1:][~np.isnan(values[1:])]
    return tuple(np.quantile(drawn, [0.025, 0.975])) if len(drawn) else (np.nan, np.nan)


def adjusted(values, against):
    """Two-sided p of each (None for none) that it is not what it is held against, after Holm's adjustment."""
    def p(value):
        drawn = value[1:][~np.isnan(value[1:])]
        return min(1.0, 2 * (1 + min((drawn <= against).sum(), (drawn >= against).sum())) / (1 + len(drawn)))
    found, told, most = sorted((p(v), i) for i, v in enumerate(values) if v is not None), [None] * len(values), 0.0
    for rank, (value, i) in enumerate(found):
        most = told[i] = max(most, min(1.0, value * (len(found) - rank)))
    return told


def setting(variant):
    params = json.loads(variant["trigger_params"] or "{}")
    told = ["%s %s" % (key, format(value, ",")) for key, value in sorted(params.items(), reverse=True) if key in ("n", "keep", "window")]
    return ", ".join(["`%s`" % variant["trigger"], *told])


def table(texts, numbers, rows):
    """Rows begin with strategy and model; the latter is a column if any has one."""
    by_model = any(row[1] for row in rows)
    rows = [(row[0], *([row[1] or "none"] if by_model else []), *row[2:]) for row in rows]
    head = ["strategy", *(["model"] if by_model else []), *texts, *numbers]
    print("\n| %s |\n|%s%s" % (" | ".join(head), " --- |" * (len(head) - len(numbers)), " ---: |" * len(numbers)))
    print("\n".join("| %s |" % " | ".join(row) for row in rows))


def differences(name, found):
    """Rows (head, pair, both sides), with a star where the difference is not 0."""
    if found:
        p = adjusted([a - b for _, _, (a, b) in found], 0.0)
        table(["trigger", "beside (most often)"], ["token savings, difference", name + " beside", "difference", "interval"], [
            (*head, "%+.3f" % pair.saved(), "%.3f" % b[0], "%+.3f" % (a - b)[0], "[%+.3f, %+.3f]%s" % (*interval(a - b), " *" if p[i] < 0.05 else ""))
            for i, (head, pair, (a, b)) in enumerate(found)])


def judge(found, value, claimed):
    """Ratios (None: not taken) beside the claimed one: ratio, interval, verdict."""
    p = adjusted([ratio for ratio, _ in found], claimed)
    for i, (ratio, base) in enumerate(found):
        if ratio is None:
            yield "-"
        else:
            verdict = "out of reach" if value is not lift and claimed * base > 1 else "undecided" if p[i] >= 0.05 else "supported" if ratio[0] > claimed else "contradicted"
            yield "%.2f [%.2f, %.2f] %s" % (ratio[0], *interval(ratio), verdict)


def compared(folder):
    run = Run(folder)
    tasks, kinds, everything = run.grouped("task_id"), run.kinds(), set(range(len(run.logs)))
    heads, by_metric, by_kind, by_claim = [], defaultdict(list), [], [[] for _ in CLAIMS]
    for (strategy, model, _), triggers in run.by_trigger().items():
        for trigger, other in [(t, o) for t in triggers if t not in COUNTED for o in COUNTED if o in triggers]:
            semantic, grid = triggers[trigger][0], triggers[other]
            mixes, chosen = beside(run, grid, saved, kept, semantic)
            heads.append((strategy, model, trigger, "`%s`" % other))
            head = (strategy, model, trigger, chosen.most_common(1)[0][0])
            pair = Pair(run.cells[semantic], mixes, tasks, everything)
            for name, value in METRICS:
                sides = pair.sides(value)
                if sides:
                    by_metric[name].append((head, pair, sides))
            by_kind.append([Pair(run.cells[semantic], mixes, tasks, of) for _, of in kinds])
            alike = beside(run, grid, kept, saved, semantic)[0]
            alike = Pair(run.cells[semantic], alike, tasks, everything)
            needs = alike.ratio(kept)
            are_equal = [abs(pair.saved()) <= NEAR] * 2 + [needs is not None and abs(needs[0] - 1) <= NEAR_NEEDS]
            for claim, (_, value, _) in enumerate(CLAIMS):
                of = alike if value is saved else pair
                by_claim[claim].append((of.ratio(value) if are_equal[claim] else None, value(of.sums[1])[0]))
    some = next(iter(run.cells.values()))
    held = [i for i in everything if any(cells[i, 2] > 0 for cells in run.cells.values())]
    print("%d logs of %d tasks in %d repositories, of which %d logs of %d tasks have needs in the common set; *: p below 0.05 after Holm's adjustment" % (
        len(some), len(tasks), len(run.grouped("repository")), len(held), sum(any(i in held for i in of) for of in tasks.values())))
    for name, _ in METRICS:
        differences(name, by_metric[name])
    print("\nNeeds kept, difference, by kind of log (number of logs); in brackets the difference of token savings")
    flat = [None if sides is None else sides[0] - sides[1] for row in by_kind for sides in (pair.sides(kept) for pair in row)]
    stars = iter(adjusted(flat, 0.0))
    values = iter(flat)

    def cell(pair):
        value, p = next(values), next(stars)
        return "-" if value is None else "%+.3f%s (%+.2f)" % (value[0], " *" if p < 0.05 else "", pair.saved())
    table(["trigger", "beside"], ["%s (%d)" % (name, len(of)) for name, of in kinds], [(*head, *(cell(pair) for pair in row)) for head, row in zip(heads, by_kind)])
    print("\nThe claims: ratios, intervals, verdicts after Holm's adjustment")
    columns = [judge(found, value, claimed) for found, (_, value, claimed) in zip(by_claim, CLAIMS)]
    table(["trigger", "beside"], [name for name, *_ in CLAIMS], [(*head, *row) for head, *row in zip(heads, *columns)])


def nearest(grid, cells, semantic, logs, others):
    """Of settings that save as much on these logs (within NEAR) the one that keeps most on the others; else the nearest."""
    off = {i: abs(saved(cells[i][logs].sum(0)) - saved(cells[semantic][logs].sum(0))) for i in grid}
    near = [i for i in grid if off[i] <= NEAR]
    return max(near, key=lambda i: np.nan_to_num(kept(cells[i][others].sum(0)))) if near else min(grid, key=off.get)


def tuned_on(folder, grid_folder):
    """Settings that send as many tokens here, the best of them by the other repositories of a larger run, compared on all logs of this one."""
    run, large = Run(folder), Run(grid_folder)
    names, repositories = {r["trajectory"] for r in run.logs}, {r["repository"] for r in run.logs}
    here = [i for i, r in enumerate(large.logs) if r["trajectory"] in names]
    others = [i for i, r in enumerate(large.logs) if r["repository"] not in repositories]
    tasks, grids, by_metric = run.grouped("task_id"), large.by_trigger(), defaultdict(list)
    for (strategy, model, params), triggers in run.by_trigger().items():
        grid = next(of for (s, m, _), of in grids.items() if s == strategy and not m)
        for trigger, other in [(t, o) for t in triggers if t not in COUNTED for o in COUNTED if o in grid]:
            best = setting(large.variants[nearest(grid[other], large.cells, grid[trigger][0], here, others)])
            same = [i for i in triggers.get(other, []) if setting(run.variants[i]) == best]
            if not same:
                print("%s under %s: %s is not in this run" % (strategy, trigger, best))
                continue
            pair = Pair(run.cells[triggers[trigger][0]], run.cells[same[0]], tasks, set(range(len(run.logs))))
            for name, value in METRICS:
                sides = pair.sides(value)
                if sides:
                    by_metric[name].append(((strategy, model, trigger, best), pair, sides))
    print("%d logs of %d repositories; settings by %d logs of others; *: p below 0.05 after Holm's adjustment" % (len(run.logs), len(repositories), len(others)))
    for name, _ in METRICS:
        differences(name, by_metric[name])


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
