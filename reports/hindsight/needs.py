#!/usr/bin/env python3
"""What a rater of atoms learns from needs: `python3 reports/hindsight/needs.py DATA OUT [PART ...]`. Needs numpy, pyarrow, scikit-learn, lightgbm.

DATA is a dataset that `trajpress ingest` and `annotate` made of real logs. Parts: table, trees, groups, few, formats, kinds, curve (all without a name).
Each writes a CSV to OUT; logs are read once, into OUT/needs.pickle. Weights are made on other repositories than they are scored on.
"""
import collections
import csv
import hashlib
import pathlib
import pickle
import sys

import numpy as np
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression

import lines
import replay

FIRST = ("often", "acted", "kind", "where", "name")
FOLDS, CAP, STRENGTH, CLIP, DRAWS = 8, 80, 0.1, 4, 1000
AUTHORED = {"path", "identifier"}


def sample(data):
    """Logs of 16 turns and more, at most CAP of a format and repository, in the order of a checksum."""
    rows, taken, chosen = pq.read_table(f"{data}/trajectories.parquet").to_pylist(), collections.Counter(), set()
    for r in sorted(rows, key=lambda r: hashlib.sha256(r["trajectory"].encode()).hexdigest()):
        key = r["format"], r["repository"]
        if r["n_turns"] >= 16 and taken[key] < CAP:
            taken[key] += 1
            chosen.add(r["trajectory"])
    return chosen


def load(data, out):
    cache = out / "needs.pickle"
    if not cache.is_file():
        chosen = sample(data)
        cache.write_bytes(pickle.dumps([lines.pack(row, run) for row, run in replay.read(data, lambda r: r["trajectory"] in chosen)]))
    return pickle.loads(cache.read_bytes())


def folds(logs, key="repository"):
    size = collections.Counter()
    for log in logs:
        size[log[key]] += len(log["needs"]) + len(log["events"])
    load, fold = [0] * FOLDS, {}
    for name in sorted(size, key=lambda name: (-size[name], name)):
        fold[name] = load.index(min(load))
        load[fold[name]] += size[name]
    return np.array([fold[log[key]] for log in logs])


class Linear:
    """Logistic regression of standardized numbers."""
    def __init__(self, X, y, columns):
        self.columns, self.mean, self.scale = columns, X[:, columns].mean(0), X[:, columns].std(0) + 1e-6
        self.model = LogisticRegression(C=STRENGTH, max_iter=200).fit(self.z(X), y)

    def z(self, X):
        return np.clip((X[:, self.columns] - self.mean) / self.scale, -CLIP, CLIP)

    def __call__(self, X):
        return self.model.predict_proba(self.z(X))[:, 1] if len(X) else np.zeros(0)


class Trees:
    def __init__(self, X, y, columns):
        from lightgbm import LGBMClassifier
        self.model = LGBMClassifier(n_estimators=60, num_leaves=8, learning_rate=.1, min_child_samples=50, colsample_bytree=.4,
                                    reg_lambda=10, verbose=-1, n_jobs=1, random_state=1).fit(X, y)

    def __call__(self, X):
        return self.model.predict_proba(X)[:, 1] if len(X) else np.zeros(0)


def gathered(logs, kinds=None):
    events = [e for log in logs for e in log["events"]]
    X, y = np.concatenate([e["X"] for e in events]), np.concatenate([e["y"] for e in events]) > 0
    if kinds is None:
        return X, y
    is_kind = X[:, [n for n in range(10) if KINDS[n] in kinds]].any(1)
    return X[is_kind], y[is_kind]


KINDS = "path identifier number version hash url quoted error flag id".split()


def crossed(logs, fold, make=Linear, columns=None, kinds=None, draw=None):
    """Odds of each event's atoms by weights of the other folds."""
    columns, odds = columns or list(range(len(replay.NAMES))), {}
    for j in range(FOLDS):
        train = [log for log, x in zip(logs, fold) if x != j]
        model = make(*gathered(draw(train) if draw else train, kinds), columns)
        for n in np.flatnonzero(fold == j):
            for k, e in enumerate(logs[n]["events"]):
                odds[n, k] = model(e["X"])
    return lambda log, n, k, e: odds[n, k]


def pooled(rows, share, which=None):
    cells = [v for (s, n), v in rows.items() if s == share and (which is None or n in which)]
    total = np.sum(cells, 0) if cells else np.zeros(3)
    return total[:2] / total[2] if total[2] else np.array([np.nan] * 2)


def interval(logs, rows, share, base=None):
    """95 % by bootstrap over repositories; with a base, of the difference."""
    by = collections.defaultdict(lambda: np.zeros(2 if base is None else 3))
    for (s, n), v in rows.items():
        if s == share:
            by[logs[n]["repository"]] += [v[0], v[2]] if base is None else [v[0], v[2], base[s, n][0]]
    cells, rng = np.array(list(by.values())), np.random.default_rng(1)
    drawn = cells[rng.integers(len(cells), size=(DRAWS, len(cells)))].sum(1)
    value = (drawn[:, 0] - (drawn[:, 2] if base is not None else 0)) / drawn[:, 1]
    return np.quantile(value, [.025, .975])


def write(out, name, head, body):
    with open(out / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *body])
    print(name, *[", ".join(map(str, row)) for row in [head, *body]], sep="\n", flush=True)


def digits(value):
    return "%.3f" % value


def table(logs, fold, out):
    learned = crossed(logs, fold)
    ways = {"random": lines.random_lines(1), "recency": lines.newest, "atom-bag": lines.atom_bag, "BM25 to the goal": lines.by_goal,
            "coverage of every atom": lines.every_atom, "coverage": lines.covering(lines.alike), "rarity with coverage": lines.covering(lines.rarity),
            "cue-bag by rarity": lines.cue_bag(lines.rarity), "hindsight": lines.covering(learned), "cue-bag by hindsight": lines.cue_bag(learned),
            "oracle": lines.oracle}
    rows = {name: lines.served(logs, way) for name, way in ways.items()}
    body = []
    for name in ways:
        for share in lines.SHARES:
            bound, surface = pooled(rows[name], share)
            floor, ceiling = (pooled(rows[x], share)[0] for x in ("random", "oracle"))
            body.append([name, share, *map(digits, [bound, *interval(logs, rows[name], share), surface, (bound - floor) / (ceiling - floor)])])
    for name in ("coverage", "cue-bag by hindsight"):
        body += [["hindsight - " + name, share, digits(pooled(rows["hindsight"], share)[0] - pooled(rows[name], share)[0]),
                  *map(digits, interval(logs, rows["hindsight"], share, rows[name])), "", ""] for share in lines.SHARES]
    write(out, "needs.csv", ["strategy", "share", "bound", "low", "high", "surface", "way_to_oracle"], body)
    body = []
    for name in sorted({log["format"] for log in logs}):
        which = {n for n, log in enumerate(logs) if log["format"] == name}
        count = sum(len(logs[n]["needs"]) for n in which)
        if count >= 20:
            body += [[name, count, share, *(digits(pooled(rows[x], share, which)[0])
                      for x in ("random", "coverage", "rarity with coverage", "hindsight", "oracle"))] for share in (0.02, 0.1)]
    write(out, "needs_by_format.csv", ["format", "needs", "share", "random", "coverage", "rarity", "hindsight", "oracle"], body)


def groups(logs, fold, out):
    shares, body = (0.02, 0.05, 0.1), []
    base = lines.served(logs, lines.covering(crossed(logs, fold)), shares)
    for left in replay.GROUPS:
        columns = [i for i, name in enumerate(replay.NAMES) if name not in replay.GROUPS[left]]
        rows = lines.served(logs, lines.covering(crossed(logs, fold, columns=columns)), shares)
        body.append([left, *(digits(pooled(rows, s)[0] - pooled(base, s)[0]) for s in shares), *map(digits, interval(logs, rows, 0.02, base))])
    write(out, "needs_without.csv", ["without", *shares, "low_0.02", "high_0.02"], body)


def few(logs, fold, out):
    """Some groups alone, and one after the other."""
    shares, body = (0.02, 0.05, 0.1), []
    sets = [[name] for name in replay.GROUPS] + [list(FIRST[:n]) for n in range(2, len(FIRST) + 1)]
    for names in sets:
        columns = [i for i, name in enumerate(replay.NAMES) if any(name in replay.GROUPS[g] for g in names)]
        rows = lines.served(logs, lines.covering(crossed(logs, fold, columns=columns)), shares)
        body.append([" + ".join(names), len(columns), *(digits(pooled(rows, s)[0]) for s in shares)])
    write(out, "needs_few.csv", ["groups", "numbers", *shares], body)


def formats(logs, fold, out):
    """Trained without a format, on other repositories than those tested."""
    body = []
    for name in ("claude-code", "mini-swe-agent", "sweagent", "tau-bench", "tau2-bench", "openhands-completion"):
        mine = [log for log in logs if log["format"] == name]
        repositories = {log["repository"] for log in mine}
        model = Linear(*gathered([log for log in logs if log["format"] != name and log["repository"] not in repositories]),
                       list(range(len(replay.NAMES))))
        rows = [lines.served(mine, way, (0.02, 0.1)) for way in (lines.random_lines(1), lines.covering(lines.alike),
                lines.covering(lambda log, n, k, e: model(e["X"])), lines.oracle)]
        body += [[name, share, *(digits(pooled(r, share)[0]) for r in rows)] for share in (0.02, 0.1)]
    write(out, "needs_left_out.csv", ["format left out", "share", "random", "coverage", "hindsight", "oracle"], body)


def kinds(logs, fold, out):
    """Trained on needs of some kinds, tested on needs of others."""
    other, body = set(KINDS) - AUTHORED, []
    ways = {"random": lines.random_lines(1), "coverage": lines.covering(lines.alike), "oracle": lines.oracle}
    for name, trained in (("names", AUTHORED), ("others", other), ("all", set(KINDS))):
        ways["trained on " + name] = lines.covering(crossed(logs, fold, columns=list(range(10, len(replay.NAMES))), kinds=trained))
    for name, way in ways.items():
        for tested, some in (("names", AUTHORED), ("others", other)):
            rows = lines.served(logs, way, (0.02, 0.1), some)
            body.append([name, tested, *(digits(pooled(rows, s)[0]) for s in (0.02, 0.1))])
    write(out, "needs_by_kind.csv", ["strategy", "needs of", 0.02, 0.1], body)


def curve(logs, fold, out):
    body = []
    for size in (25, 50, 120, 250, len(logs)):
        found = []
        for seed in range(1 if size == len(logs) else 3):
            rng = np.random.default_rng(seed)
            draw = lambda train: [train[i] for i in rng.permutation(len(train))[:size]]
            rows = lines.served(logs, lines.covering(crossed(logs, fold, draw=draw)), (0.02, 0.1))
            found.append([pooled(rows, s)[0] for s in (0.02, 0.1)])
        body.append([size, len(found), *map(digits, np.mean(found, 0)), *map(digits, np.ptp(found, 0))])
    write(out, "needs_curve.csv", ["logs", "draws", 0.02, 0.1, "range_0.02", "range_0.1"], body)


def trees(logs, fold, out):
    body = []
    for name, make in (("logistic", Linear), ("60 trees of 8 leaves", Trees)):
        rows = lines.served(logs, lines.covering(crossed(logs, fold, make)), (0.02, 0.05, 0.1))
        body.append([name, *(digits(pooled(rows, s)[0]) for s in (0.02, 0.05, 0.1))])
    write(out, "needs_models.csv", ["model", 0.02, 0.05, 0.1], body)


PARTS = {"table": table, "trees": trees, "groups": groups, "few": few, "formats": formats, "kinds": kinds, "curve": curve}


def main(data, out, *parts):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    logs = load(data, out)
    fold = folds(logs)
    print(len(logs), "logs,", sum(len(log["events"]) for log in logs), "events,", sum(len(log["needs"]) for log in logs), "needs,",
          len({log["repository"] for log in logs}), "repositories,", sum(len(e["y"]) for log in logs for e in log["events"]), "rated atoms of",
          sum(int((e["y"] > 0).sum()) for log in logs for e in log["events"]), "needed")
    for part in parts or PARTS:
        PARTS[part](logs, fold, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
