"""Computes reference.json: values that the statistics of `trajpress report` must reproduce.

    python -m venv VENV && VENV/bin/pip install numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0
    VENV/bin/python tests/data/statistics/reference.py > tests/data/statistics/reference.json

Everything is computed by SciPy, statsmodels or plain NumPy, never by trajpress. Inputs are small and
kept beside the values, so that the Rust tests (src/report/reference.rs) read one file. Values without
random numbers are compared to 1e-9, bootstrap values within the tolerance given beside them.
"""

import json
import math

import numpy as np
import scipy
import statsmodels
from scipy import special, stats
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(20240607)
out = {
    "made_by": "tests/data/statistics/reference.py",
    "versions": {"numpy": np.__version__, "scipy": scipy.__version__, "statsmodels": statsmodels.__version__},
}


def bca(statistic, data, resamples=200_000):
    """SciPy's paired BCa interval, and the p-value of 0 by bisection on its confidence level."""
    arguments = dict(paired=True, vectorized=True, method="BCa", rng=np.random.default_rng(1))
    first = stats.bootstrap(data, statistic, n_resamples=resamples, batch=5_000, **arguments)

    def ends(level):
        again = stats.bootstrap(
            data, statistic, n_resamples=0, bootstrap_result=first, confidence_level=level, **arguments
        )
        return again.confidence_interval

    lo, hi = ends(0.95)
    # The interval grows with its level; p is 1 - the level at which it first holds 0.
    inside, outside = 1 - 1e-9, 1e-9
    for _ in range(40):
        middle = (inside + outside) / 2
        end = ends(middle)
        if end.low <= 0 <= end.high:
            inside = middle
        else:
            outside = middle
    return dict(lo=lo, hi=hi, p=1 - inside)


def ratio(top, bottom, axis=-1):
    return top.sum(axis=axis) / bottom.sum(axis=axis)


def difference(top_a, bottom_a, top_b, bottom_b, axis=-1):
    return ratio(top_a, bottom_a, axis) - ratio(top_b, bottom_b, axis)


# Pooled scores of clusters (sum of hits, sum of needs), two variants on the same clusters.
out["bca"] = []
for n, gap in [(14, 0.12), (25, 0.06), (40, 0.0)]:
    needs = rng.integers(5, 60, n).astype(float)
    share = rng.beta(4, 3, n)
    a = rng.binomial(needs.astype(int), np.clip(share + gap, 0, 1)).astype(float)
    b = rng.binomial(needs.astype(int), share).astype(float)
    one = bca(ratio, (a, needs))
    both = bca(difference, (a, needs, b, needs))
    by_cluster = a / needs - b / needs
    out["bca"].append(
        dict(
            a=[a.tolist(), needs.tolist()],
            b=[b.tolist(), needs.tolist()],
            value=float(ratio(a, needs)),
            interval=[one["lo"], one["hi"]],
            difference=float(difference(a, needs, b, needs)),
            difference_interval=[both["lo"], both["hi"]],
            p=both["p"],
            g_z=float(
                math.exp(special.gammaln((n - 1) / 2) - special.gammaln((n - 2) / 2))
                / math.sqrt((n - 1) / 2)
                * by_cluster.mean()
                / by_cluster.std(ddof=1)
            ),
            better=float((by_cluster > 0).mean()),
            worse=float((by_cluster < 0).mean()),
            tolerance=0.004,
            tolerance_p=0.015,
        )
    )

def jackknife(statistic, rows):
    """Standard error with each cluster left out."""
    n = len(rows[0])
    values = np.array([statistic(*[np.delete(row, i) for row in rows]) for i in range(n)])
    return math.sqrt((n - 1) / n * ((values - values.mean()) ** 2).sum())


# The same clusters: Student's t with n_eff - 1 degrees of freedom, shares on the logit scale.
out["jackknife"] = []
for case in out["bca"]:
    (top_a, bottom), (top_b, _) = [[np.array(row) for row in case[side]] for side in ("a", "b")]
    n_eff = float(bottom.sum() ** 2 / (bottom**2).sum())
    share, apart = case["value"], case["difference"]
    logit_error = jackknife(ratio, [top_a, bottom]) / (share * (1 - share))
    error = jackknife(difference, [top_a, bottom, top_b, bottom])
    out["jackknife"].append(
        dict(
            n_eff=n_eff,
            interval=list(special.expit(stats.t.interval(0.95, n_eff - 1, special.logit(share), logit_error))),
            difference_interval=list(stats.t.interval(0.95, n_eff - 1, apart, error)),
            p=2 * float(stats.t.sf(abs(apart) / error, n_eff - 1)),
        )
    )

# Holm: statsmodels.
out["holm"] = []
for n in [1, 5, 12]:
    p = np.round(rng.beta(0.5, 3, n), 4)
    out["holm"].append(dict(p=p.tolist(), adjusted=multipletests(p, method="holm")[1].tolist()))

# Ranks: with ties, and with whole-number weights by giving rows that often.
out["ranks"] = []
for n, levels in [(6, 100), (15, 6), (40, 9)]:
    x = rng.integers(0, levels, n).astype(float)
    y = np.round(x / 2 + rng.normal(0, levels / 4, n))
    group = rng.random(n) < 0.4
    group[:2] = [True, False]
    weights = rng.integers(0, 4, n)
    weights[:2] = [1, 2]

    def biserial(x, group):
        u = stats.mannwhitneyu(x[group], x[~group]).statistic
        return float(2 * u / (group.sum() * (~group).sum()) - 1)

    again = np.repeat(np.arange(n), weights)
    out["ranks"].append(
        dict(
            x=x.tolist(),
            y=y.tolist(),
            group=group.tolist(),
            weights=weights.tolist(),
            spearman=float(stats.spearmanr(x, y).statistic),
            spearman_weighted=float(stats.spearmanr(x[again], y[again]).statistic),
            kendall_tau_b=float(stats.kendalltau(x, y, variant="b").statistic),
            rank_biserial=biserial(x, group),
            rank_biserial_weighted=biserial(x[again], group[again]),
        )
    )

# Area over the logarithm of the budget, normalised.
budgets = np.array([0.02, 0.05, 0.1, 0.2, 0.4])
retention = np.round(np.sort(rng.random(5)), 4)
out["area"] = dict(
    budgets=budgets.tolist(),
    retention=retention.tolist(),
    area=float(np.trapezoid(retention, np.log(budgets)) / np.log(20)),
)

# Pareto frontier by brute force over given resamples: every resample, every variant, every other.
n_variants, n_clusters, n_resamples = 6, 9, 300
needs = rng.integers(1, 9, n_clusters).astype(float)
tokens = rng.integers(50, 90, n_clusters).astype(float)
hits = rng.binomial(needs.astype(int), np.linspace(0.2, 0.9, n_variants)[:, None], (n_variants, n_clusters))
saved = tokens * np.clip(np.linspace(0.7, 0.3, n_variants)[:, None] + rng.normal(0, 0.2, (n_variants, n_clusters)), 0, 1)
counts = rng.multinomial(n_clusters, np.ones(n_clusters) / n_clusters, n_resamples)


def on_frontier(weights):
    points = [(s @ weights / (tokens @ weights), h @ weights / (needs @ weights)) for s, h in zip(saved, hits)]
    return [
        not any(
            q[0] >= p[0] - 1e-12 and q[1] >= p[1] - 1e-12 and (q[0] > p[0] + 1e-12 or q[1] > p[1] + 1e-12)
            for q in points
        )
        for p in points
    ]


out["pareto"] = dict(
    counts=counts.tolist(),
    needs=needs.tolist(),
    tokens=tokens.tolist(),
    hits=hits.tolist(),
    saved=saved.tolist(),
    on_frontier=on_frontier(np.ones(n_clusters)),
    frequency=np.mean([on_frontier(c) for c in counts], axis=0).tolist(),
)

# Agreement: Spearman over the variants of two scores, recomputed in each of the same resamples.
other = rng.binomial(needs.astype(int), np.linspace(0.3, 0.7, n_variants)[:, None], (n_variants, n_clusters))
draws = [stats.spearmanr(hits @ c / (needs @ c), other @ c / (needs @ c)).statistic for c in counts]
value = stats.spearmanr(hits.sum(1), other.sum(1)).statistic
out["agreement"] = dict(
    other=other.tolist(),
    spearman=float(value),
    interval=[float(min(value, np.quantile(draws, 0.025))), float(max(value, np.quantile(draws, 0.975)))],
)

lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in out.items()]
print("{\n" + ",\n".join(lines) + "\n}")
