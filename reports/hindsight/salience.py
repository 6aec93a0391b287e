#!/usr/bin/env python3
"""What a rater of statements learns from labels: `python3 reports/hindsight/salience.py DATA OUT [PART ...]`. Needs numpy, pyarrow, scikit-learn, lightgbm.

DATA is a dataset that `trajpress ingest` and `annotate` made of labelled logs (datasets/labels/join.py). Parts: table, calibration, types, formats,
curve, errors (all without a name). Each writes a CSV to OUT; logs are read once, into OUT/salience.pickle, and each fold is fitted once, into
OUT/fold-N.npz. Weights are made on other repositories than they are scored on. An item and a span fit by the rule of src/scores/items.rs; of a point
at most ITEMS items are taken.
"""
import collections
import csv
import json
import pathlib
import pickle
import sys

import numpy as np
import scipy.sparse as sparse
from sklearn.linear_model import LogisticRegression

import features

FOLDS, INNER, ITEMS, STRENGTH, NEGATIVES, DRAWS = 10, 3, 12, 0.1, 0.3, 1000
WORDS, NUMBERS, CLIP = 5.0, 0.5, 4  # What a text's pieces and a standard deviation count in the regression.


def fits(a, b):
    """Two texts, their words between blanks: one holds the other, and the shorter has half the words of the longer."""
    if len(a) < len(b):
        a, b = b, a
    return b.strip() != "" and 2 * len(b.split()) >= len(a.split()) and b in a


def pack(log):
    """The points of a log as plain arrays."""
    messages = [s["message"] for s in log.steps]
    for at in log.truth["compression_points"]:
        end = sum(m <= at for m in messages)
        point = features.Point(log, end)
        some = [c for c in log.candidates if c["step"] < end]
        spans = [{"type": s["type"], "message": s["step"], "start": s["start"], "end": s["end"], "text": s["text"], "used": s["used_later"],
                  "words": f" {' '.join(features.words_of(s['text']))} "} for s in log.truth["salient"] if at in s["points"]]
        action = lambda c: log.steps[log.steps[c["step"]]["call"]]["action"] if log.steps[c["step"]]["call"] is not None else None
        yield {"log": log.id, "repository": log.repository or log.agent, "agent": log.agent, "spans": spans,
               "words": [f" {c['norm']} " for c in some], "text": [c["text"] for c in some], "source": [c["source"] for c in some],
               "step": np.array([c["step"] for c in some]), "message": [messages[c["step"]] for c in some],
               "first": np.array([c["step"] in point.users[:1] for c in some]), "X": np.array([features.numbers(point, c) for c in some], np.float32),
               "pieces": [features.pieces(c, action(c)) for c in some], "y": labels(some, messages, spans)}


def labels(some, messages, spans):
    """The type of the span that a statement fits, or makes a half of, at its place; another telling in the same words counts as well."""
    at, y, told = collections.defaultdict(list), np.zeros(len(some), int), {}
    for s in spans:
        at[s["message"]].append(s)
    for i, c in enumerate(some):
        for s in at.get(messages[c["step"]], ()):
            start, end = c["start"], c["start"] + len(c["text"].encode())
            both = min(end, s["end"]) - max(start, s["start"])
            if both > 0 and (fits(f" {c['norm']} ", s["words"]) or 2 * both >= end - start and both >= .3 * (s["end"] - s["start"])):
                y[i] = told[c["norm"]] = 1 + features.TYPES.index(s["type"])
    return np.array([told.get(c["norm"], 0) if not y[i] and len(c["words"]) > 1 else y[i] for i, c in enumerate(some)])


def load(data, out):
    cache = out / "salience.pickle"
    if not cache.is_file():
        cache.write_bytes(pickle.dumps([p for log in features.read(data) if log.truth for p in pack(log)]))
    return pickle.loads(cache.read_bytes())


def folds(points, n=FOLDS, key="repository"):
    size = collections.Counter(p[key] for p in points)
    load, fold = [0] * n, {}
    for name in sorted(size, key=lambda name: (-size[name], name)):
        fold[name] = load.index(min(load))
        load[fold[name]] += size[name]
    return np.array([fold[p[key]] for p in points])


class Table:
    """All statements of some points in one matrix."""
    def __init__(self, points):
        self.points = points
        rows = [h for p in points for h in p["pieces"]]
        ends = np.cumsum([0] + [len(h) for h in rows])
        weight = np.repeat(WORDS / np.sqrt(np.maximum(np.diff(ends), 1)), np.diff(ends)).astype(np.float32)
        self.text = sparse.csr_matrix((weight, np.concatenate([np.array(h) for h in rows]), ends), shape=(len(rows), features.BUCKETS))
        self.X, self.y = np.concatenate([p["X"] for p in points]), np.concatenate([p["y"] for p in points]) > 0
        self.point = np.repeat(np.arange(len(points)), [len(p["y"]) for p in points])
        self.step = np.concatenate([p["step"] for p in points])
        self.taken = self.y | (np.random.default_rng(0).random(len(self.y)) < NEGATIVES)

    def rows(self, which):
        return np.flatnonzero(np.isin(self.point, which))

    def by_point(self, values):
        return np.split(values, np.cumsum([len(p["y"]) for p in self.points])[:-1])


class Linear:
    """Logistic regression of hashed pieces and standardized numbers; all positives and a part of the rest, weighted back."""
    def __init__(self, table, rows, has=("words", "numbers")):
        self.table, self.has, rows = table, has, rows[table.taken[rows]]
        self.mean, self.scale = table.X[rows].mean(0), table.X[rows].std(0) + 1e-6
        weight = np.where(table.y[rows], 1, 1 / NEGATIVES)
        self.model = LogisticRegression(C=STRENGTH, max_iter=50).fit(self.matrix(rows), table.y[rows], weight)

    def matrix(self, rows):
        z = np.clip((self.table.X[rows] - self.mean) / self.scale, -CLIP, CLIP) * NUMBERS
        given = {"words": lambda: self.table.text[rows], "numbers": lambda: sparse.csr_matrix(z)}
        return sparse.hstack([given[name]() for name in self.has]).tocsr()

    def __call__(self, rows):
        return self.model.decision_function(self.matrix(rows))


class Goals(Linear):
    """The same of what users say, and of goals."""
    def __init__(self, table, rows, goal):
        self.table, self.has = table, ("words", "numbers")
        rows = rows[table.X[rows, features.NAMES.index("source_user")] > 0]
        self.mean, self.scale = table.X[rows].mean(0), table.X[rows].std(0) + 1e-6
        self.model = LogisticRegression(C=STRENGTH, max_iter=50).fit(self.matrix(rows), goal[rows])


def around(table, rows, odds):
    """Odds of a statement beside those of its neighbours, the best of its step, and its place in the order of its point."""
    same = lambda d: (table.point[rows] == np.roll(table.point[rows], d)) & (table.step[rows] == np.roll(table.step[rows], d))
    best, place, mean = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    group = table.point[rows].astype(np.int64) * 100000 + table.step[rows]
    for g in np.unique(group):
        at = np.flatnonzero(group == g)
        best[at], mean[at] = odds[at].max(), odds[at].mean()
    for g in np.unique(table.point[rows]):
        at = np.flatnonzero(table.point[rows] == g)
        place[at[np.argsort(-odds[at])]] = np.log1p(np.arange(len(at)))
    low = odds.min() if len(odds) else 0
    return np.column_stack([odds, np.where(same(1), np.roll(odds, 1), low), np.where(same(-1), np.roll(odds, -1), low), odds - best, mean, place])


def trees(X, y, weight):
    from lightgbm import LGBMClassifier
    model = LGBMClassifier(n_estimators=150, num_leaves=15, learning_rate=.05, min_child_samples=40, subsample=.8, subsample_freq=1,
                           colsample_bytree=.5, reg_lambda=5, verbose=-1, n_jobs=1, random_state=1).fit(X, y, weight)
    return lambda X: model.predict_proba(X, raw_score=True)


def straight(X, y, weight):
    mean, scale = X.mean(0), X.std(0) + 1e-6
    z = lambda X: np.clip((X - mean) / scale, -CLIP, CLIP)
    model = LogisticRegression(C=.01, max_iter=100).fit(z(X), y, weight)
    return lambda X: model.decision_function(z(X))


def fitted(table, train, test, which):
    """Odds of the test points' statements, by models that saw the train points."""
    rows, asked, odds = table.rows(train), table.rows(test), {}
    some = table.taken[rows]
    weight = np.where(table.y[rows[some]], 1, 1 / NEGATIVES)
    for name, has in (("words", ("words",)), ("numbers", ("numbers",)), ("both", ("words", "numbers"))):
        if name in which:
            odds[name] = Linear(table, rows, has)(asked)
    if "trees" in which:
        odds["trees"] = trees(table.X[rows[some]], table.y[rows[some]], weight)(table.X[asked])
    if {"stacked", "chained"} & set(which):
        inner, mine = folds([table.points[i] for i in train], INNER), np.zeros(len(table.y))
        for j in range(INNER):
            mine[table.rows(train[inner == j])] = Linear(table, table.rows(train[inner != j]))(table.rows(train[inner == j]))
        theirs = odds["both"] if "both" in odds else Linear(table, rows)(asked)
        seen = np.hstack([table.X[rows], around(table, rows, mine[rows])])
        new = np.hstack([table.X[asked], around(table, asked, theirs)])
        for name, make in (("stacked", trees), ("chained", straight)):
            if name in which:
                odds[name] = make(seen[some], table.y[rows[some]], weight)(new)
    return odds


def crossed(table, fold, which, out):
    odds = collections.defaultdict(lambda: np.zeros(len(table.y)))
    for j in sorted(set(fold)):
        test, kept = np.flatnonzero(fold == j), out / f"fold-{j}.npz"
        if not kept.is_file():
            np.savez_compressed(kept, **fitted(table, np.flatnonzero(fold != j), test, which))
        for name, values in np.load(kept).items():
            odds[name][table.rows(test)] = values
    return odds


def pick(point, odds, left_out=(), items=ITEMS, least=-np.inf):
    """The best statements, no two of which fit each other."""
    chosen = []
    for i in np.argsort(-odds, kind="stable"):
        if odds[i] < least or len(chosen) == items:
            break
        words = point["words"][i]
        if words.strip() and words not in left_out and not any(fits(words, point["words"][x]) for x in chosen):
            chosen.append(i)
    return chosen


def known(points, fold):
    """Of each fold the statements that also stand in the others."""
    by = [{w for p, x in zip(points, fold) if x == j for w in p["words"]} for j in range(max(fold) + 1)]
    return [set().union(*(by[i] for i in range(len(by)) if i != j)) for j in range(len(by))]


def left(point, seen):
    """The spans that are scored where statements in `seen` are left out."""
    gone = [(m, w) for m, w in zip(point["message"], point["words"]) if w in seen]
    return [s for s in point["spans"] if s["words"] not in seen and not any(m == s["message"] and fits(w, s["words"]) for m, w in gone)]


def matched(point, chosen, spans):
    """One to one in the order of the spans: the item of each span, or none."""
    free, found = list(chosen), []
    for s in spans:
        own = next((i for i in free if fits(point["words"][i], s["words"])), None)
        found.append(own)
        if own is not None:
            free.remove(own)
    return found


def scored(table, odds, seen, least=-np.inf, view="unseen", items=ITEMS):
    """Of each point: hits, items, spans, and (type, used later, hit) of each span."""
    for n, (point, values) in enumerate(zip(table.points, table.by_point(odds))):
        out, spans = (seen[n], left(point, seen[n])) if view != "all" else (set(), point["spans"])
        if view == "behind the task":
            out = out | {w for w, first in zip(point["words"], point["first"]) if first}
            task = {m for m, first in zip(point["message"], point["first"]) if first}
            spans = [s for s in spans if s["message"] not in task]
        chosen = pick(point, values, out, items, least)
        found = matched(point, chosen, spans)
        yield sum(x is not None for x in found), len(chosen), len(spans), [(s["type"], s["used"], x is not None) for s, x in zip(spans, found)]


def share(a, b):
    return a / b if b else float("nan")


def summary(table, rows):
    """Precision and recall with intervals by bootstrap over repositories."""
    by = collections.defaultdict(lambda: np.zeros(3))
    for p, (hits, items, spans, _) in zip(table.points, rows):
        by[p["repository"]] += [hits, items, spans]
    cells, rng = np.array(list(by.values())), np.random.default_rng(1)
    drawn = cells[rng.integers(len(cells), size=(DRAWS, len(cells)))].sum(1)
    hits, items, spans = cells.sum(0)
    return ["%.3f" % x for x in (share(hits, items), *np.nanquantile(drawn[:, 0] / drawn[:, 1], [.025, .975]),
                                 share(hits, spans), *np.quantile(drawn[:, 0] / drawn[:, 2], [.025, .975]))] + [int(items), int(spans)]


def differs(table, rows, base):
    """Precision less that of `base`, unseen statements, with its interval by bootstrap over repositories."""
    by = collections.defaultdict(lambda: np.zeros(4))
    for p, a, b in zip(table.points, rows, base):
        by[p["repository"]] += [a[0], a[1], b[0], b[1]]
    cells, rng = np.array(list(by.values())), np.random.default_rng(1)
    less = lambda v: v[..., 0] / v[..., 1] - v[..., 2] / v[..., 3]
    return ["%.3f" % x for x in (less(cells.sum(0)), *np.quantile(less(cells[rng.integers(len(cells), size=(DRAWS, len(cells)))].sum(1)), [.025, .975]))]


HEAD = ["precision", "p_low", "p_high", "recall", "r_low", "r_high", "items", "spans"]


def write(out, name, head, body):
    with open(out / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *body])
    print(name, *[", ".join(map(str, row)) for row in [head, *body]], sep="\n", flush=True)


def compare(table, fold, seen, out):
    body, odds = [], crossed(table, fold, ("words", "numbers", "both", "trees", "chained", "stacked"), out)
    odds["sum"] = odds["both"] + odds["trees"]
    odds["random"] = np.random.default_rng(1).random(len(table.y))
    odds["labels"] = table.y.astype(float)
    for name, values in odds.items():
        for view in ("all", "unseen", "behind the task"):
            body.append([name, view, *summary(table, list(scored(table, values, seen, view=view)))])
    write(out, "salience.csv", ["odds", "statements", *HEAD], body)
    base, body = list(scored(table, odds["both"], seen)), []
    for name in ("words", "numbers", "trees", "stacked", "sum"):
        body.append([name + " - both", *differs(table, list(scored(table, odds[name], seen)), base)])
    write(out, "salience_differences.csv", ["odds", "precision", "low", "high"], body)
    np.savez_compressed(out / "odds.npz", **odds)


def kept_odds(table, fold, out):
    """The odds that `table` kept."""
    if not (out / "odds.npz").is_file():
        compare(table, fold, [known(table.points, fold)[j] for j in fold], out)
    return np.load(out / "odds.npz")


def formats(table, fold, seen, out):
    odds = kept_odds(table, fold, out)
    body, rows = [], {name: list(scored(table, odds[name], seen)) for name in ("both", "sum")}
    for name in rows:
        for kind in features.TYPES:
            spans = [s for r in rows[name] for s in r[3] if s[0] == kind]
            used = [s for s in spans if s[1]]
            body.append([name, "type", kind, share(sum(s[2] for s in spans), len(spans)), len(spans), share(sum(s[2] for s in used), len(used)), ""])
        for agent, count in collections.Counter(p["agent"] for p in table.points).most_common():
            some = [r for p, r in zip(table.points, rows[name]) if p["agent"] == agent]
            if count >= 6:
                hits, items, spans = (sum(r[i] for r in some) for i in range(3))
                body.append([name, "format", agent, share(hits, spans), spans, "", share(hits, items)])
    write(out, "salience_by.csv", ["odds", "by", "name", "recall", "spans", "recall_used_later", "precision"],
          [[("%.3f" % x if isinstance(x, float) else x) for x in row] for row in body])
    body = []
    for name in ("both", "sum"):
        for items in (4, 6, 8, 12, 20, 40):
            body.append([name, items, *summary(table, list(scored(table, odds[name], seen, items=items)))])
    write(out, "salience_items.csv", ["odds", "items", *HEAD], body)
    body = []
    for agent in ("claude-code", "swe-agent", "mini-swe-agent", "openhands", "opencode-go", "tau2"):
        test = np.array([i for i, p in enumerate(table.points) if p["agent"] == agent])
        mine = {table.points[i]["repository"] for i in test}
        train = np.array([i for i, p in enumerate(table.points) if p["agent"] != agent and p["repository"] not in mine])
        words = {w for i in train for w in table.points[i]["words"]}
        values = fitted(table, train, test, ("both",))["both"]
        whole = np.zeros(len(table.y))
        whole[table.rows(test)] = values
        rows = list(scored(table, whole, [words] * len(table.points)))
        hits, items, spans = (sum(rows[i][k] for i in test) for k in range(3))
        body.append([agent, len(test), "%.3f" % share(hits, items), "%.3f" % share(hits, spans)])
    write(out, "salience_left_out.csv", ["format left out", "points", "precision", "recall"], body)


def curve(table, fold, seen, out):
    """Trained on some of the logs of the other folds, tested on all."""
    logs, body = sorted({p["log"] for p in table.points}), []
    for size in (14, 28, 56, 98):
        found = []
        for seed in range(1 if size == 98 else 2):
            values, rng = np.zeros(len(table.y)), np.random.default_rng(seed)
            for j in sorted(set(fold)):
                some = set(rng.permutation(sorted({p["log"] for p, x in zip(table.points, fold) if x != j}))[:size])
                train = np.array([i for i, p in enumerate(table.points) if fold[i] != j and p["log"] in some])
                test = np.flatnonzero(fold == j)
                values[table.rows(test)] = fitted(table, train, test, ("both",))["both"]
            rows = list(scored(table, values, seen))
            found.append([share(sum(r[0] for r in rows), sum(r[k] for r in rows)) for k in (1, 2)])
        body.append([min(size, len(logs)), len(found), *("%.3f" % x for x in np.mean(found, 0))])
    write(out, "salience_curve.csv", ["logs", "draws", "precision", "recall"], body)


def errors(table, fold, seen, out):
    """50 spans that were missed: where the best fitting statement came in the order, if one fits. Texts go to OUT only, beside the pickle."""
    odds, misses = table.by_point(kept_odds(table, fold, out)["stacked"]), []
    for n, point in enumerate(table.points):
        order = np.argsort(-odds[n], kind="stable")
        spans = left(point, seen[n])
        for s, own in zip(spans, matched(point, pick(point, odds[n], seen[n]), spans)):
            if own is None:
                place = next((k for k, i in enumerate(order) if fits(point["words"][i], s["words"])), None)
                misses.append({"agent": point["agent"], "type": s["type"], "place": place, "of": len(order), "text": s["text"],
                               "lines": s["text"].strip().count("\n") + 1})
    rng = np.random.default_rng(1)
    some = [misses[i] for i in rng.permutation(len(misses))[:50]]
    (out / "misses.json").write_text(json.dumps(some, indent=1, ensure_ascii=False))
    kind = lambda m: ("no statement fits" if m["place"] is None else "place 13 to 24" if m["place"] < 24 else "place 25 to 60" if m["place"] < 60
                      else "beyond place 60")
    count, total = collections.Counter((m["type"], kind(m), m["lines"] > 1) for m in misses), len(misses)
    write(out, "salience_misses.csv", ["type", "where", "several_lines", "spans", "share"],
          [[*key, n, "%.3f" % (n / total)] for key, n in sorted(count.items())])


class Types:
    """Which type a salient statement is of, by its numbers alone."""
    def __init__(self, X, types):
        self.mean, self.scale = X.mean(0), X.std(0) + 1e-6
        self.model = LogisticRegression(C=STRENGTH, max_iter=300).fit(self.z(X), types)

    def z(self, X):
        return np.clip((X - self.mean) / self.scale, -CLIP, CLIP) * NUMBERS

    def __call__(self, X):
        return self.model.classes_[self.model.decision_function(self.z(X)).argmax(1)]


def types(table, fold, seen, out):
    """Of the labelled statements: type given against type found, on other repositories."""
    true = np.concatenate([p["y"] for p in table.points]) - 1
    found = np.full(len(true), -1)
    for j in sorted(set(fold)):
        train, test = (rows[table.y[rows]] for rows in (table.rows(np.flatnonzero(fold != j)), table.rows(np.flatnonzero(fold == j))))
        found[test] = Types(table.X[train], true[train])(table.X[test])
    count = lambda a, b: int(((true == a) & (found == b)).sum())
    write(out, "salience_types.csv", ["labelled", *features.TYPES, "right"],
          [[name, *(count(a, b) for b in range(5)), "%.3f" % share(count(a, a), int((true == a).sum()))] for a, name in enumerate(features.TYPES)])


def calibration(table, fold, seen, out):
    """Share that is salient, by odds of models that did not see the repository, turned into probabilities on the other folds."""
    odds, body, p = kept_odds(table, fold, out), [], {}
    for name in ("both", "sum"):
        p[name] = np.zeros(len(table.y))
        for j in sorted(set(fold)):
            train, test = table.rows(np.flatnonzero(fold != j)), table.rows(np.flatnonzero(fold == j))
            model = LogisticRegression(C=100).fit(odds[name][train, None], table.y[train])
            p[name][test] = model.predict_proba(odds[name][test, None])[:, 1]
        for low, high in ((0, .01), (.01, .03), (.03, .1), (.1, .2), (.2, .4), (.4, .6), (.6, 1)):
            at = (p[name] >= low) & (p[name] < high)
            body.append([name, low, high, int(at.sum()), "%.3f" % p[name][at].mean(), "%.3f" % table.y[at].mean()])
    write(out, "salience_calibration.csv", ["odds", "from", "to", "statements", "mean probability", "salient"], body)
    body = []
    for name in p:
        for least in (.05, .1, .15, .2, .3, .4, .5):
            body.append([name, least, *summary(table, list(scored(table, p[name], seen, least)))])
    write(out, "salience_least.csv", ["odds", "least probability", *HEAD], body)


PARTS = {"table": compare, "calibration": calibration, "types": types, "formats": formats, "curve": curve, "errors": errors}


def main(data, out, *parts):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    table = Table(load(data, out))
    fold = folds(table.points)
    seen = [known(table.points, fold)[j] for j in range(FOLDS)]
    seen = [seen[j] for j in fold]
    print(len(table.points), "points,", len(table.y), "statements,", int(table.y.sum()), "salient,", len({p["repository"] for p in table.points}),
          "repositories")
    for part in parts or PARTS:
        PARTS[part](table, fold, seen, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
