#!/usr/bin/env python3
"""What a model's rating adds to the learned odds: `python3 reports/hindsight/stack.py DATA OUT TRAJPRESS [MODEL [SECONDS]]`.

DATA and OUT as of salience.py. Of a point of a log, the SHORT statements that the odds of other folds put first are put to the model as
`extract = "keep"` of `salience` does (keep.txt; the goal is that of the other folds' rater of goals, no limits), one point of each log first, until
SECONDS are over. A stacker on the other folds weighs both. Statements that also stand in training are left out. Writes stack_MODEL.csv, and
stack_rows_MODEL.csv with a row a statement.
"""
import collections
import csv
import pathlib
import sys

import numpy as np
from sklearn.linear_model import LogisticRegression

import rules
import salience
from asked import ask, likelihood

SHORT, JUDGED, GOAL = 24, 300, .4  # Statements of a point; characters of one in a prompt; from this probability on a later goal is one.
KEEP = pathlib.Path(__file__).parents[2] / "src/strategies/salience/keep.txt"


def one_line(text):
    return " ".join(text.split())[:JUDGED]


def prompt(goal, source, statement):
    """keep.txt in the parts that src/models/prompt.rs makes of it."""
    text = KEEP.read_text().split("--- text ---\n")[1].strip("\n").replace("{{ source }}", source)
    parts = []
    for name, data in (("goal", one_line(goal)), ("limits", "none"), ("statement", one_line(statement))):
        before, text = text.split("{{ %s }}" % name)
        parts += [before, data]
    return {"parts": [{"text": t} for t in [*parts, text]]}


def goal_of(point, odds):
    """As rules.current, as it is written."""
    user = np.array([x == "user" for x in point["source"]])
    first, later = np.flatnonzero(point["first"]), np.flatnonzero(user & ~point["first"] & (odds >= rules.ODDS(GOAL)))
    some = later[point["step"][later] == point["step"][later].max()] if len(later) else first
    return point["text"][some[np.argmax(odds[some])]] if len(some) else ""


def order(points):
    """The points in an order of chance, one of each log first."""
    seen, keys = collections.Counter(), []
    for n in np.random.default_rng(1).permutation(len(points)):
        keys.append((seen[points[n]["log"]], len(keys), n))
        seen[points[n]["log"]] += 1
    return [n for *_, n in sorted(keys)]


def asked(table, odds, seen, goals, model, seconds, program, out):
    """Of each point that was asked about: its statements, and the model's log-odds of each."""
    which, calls = [], []
    for n in order(table.points):
        point = table.points[n]
        short = salience.pick(point, odds[n], seen[n], SHORT)
        which.append((n, np.array(short, int)))
        goal = goal_of(point, goals[n])
        calls += [{"score": {"prompt": prompt(goal, point["source"][i], point["text"][i]), "continuations": [" yes", " no"]}} for i in short]
    answers, at, got = ask(program, model, calls, out, seconds), 0, {}
    for n, short in which:
        mine, at = answers[at:at + len(short)], at + len(short)
        if len(mine) == len(short) > 0 and all("scores" in a for a in mine):
            yes, no = ([likelihood(a["scores"]["continuations"][k]) for a in mine] for k in (0, 1))
            got[n] = short, np.array(yes) - np.array(no)
    return got


def stacked(X, y, fold, columns):
    """Log-odds by a regression on the other folds."""
    odds, X = np.zeros(len(y)), X[:, columns]
    for j in set(fold):
        train, test = fold != j, fold == j
        mean, scale = X[train].mean(0), X[train].std(0) + 1e-6
        odds[test] = LogisticRegression().fit((X[train] - mean) / scale, y[train]).decision_function((X[test] - mean) / scale)
    return odds


def precision_of_order(y):
    """Average precision of labels in their order; none without a right one."""
    return np.mean([y[:k + 1].mean() for k in np.flatnonzero(y)]) if y.any() else np.nan


def scored(table, got, seen, values, at):
    """Of each point: hits, items, spans at 12 items and at 6; average precision within its statements, whether there is one;
    log loss, statements."""
    rows = []
    for n, (short, _) in got.items():
        point, mine = table.points[n], values[at[n]]
        spans, best = salience.left(point, seen[n]), short[np.argsort(-mine, kind="stable")]
        row = []
        for items in (salience.ITEMS, salience.ITEMS // 2):
            found = salience.matched(point, list(best[:items]), spans)
            row += [sum(x is not None for x in found), len(best[:items])]
        ap = precision_of_order(point["y"][best] > 0)
        is_right = point["y"][short] > 0
        loss = np.logaddexp(0, np.where(is_right, -mine, mine)).sum()
        rows.append([*row, len(spans), np.nan_to_num(ap), not np.isnan(ap), loss, len(short)])
    return np.array(rows, float)


MEASURES = {"precision_12": lambda s: s[..., 0] / s[..., 1], "recall_12": lambda s: s[..., 0] / s[..., 4],
            "f1_12": lambda s: 2 * s[..., 0] / (s[..., 1] + s[..., 4]), "precision_6": lambda s: s[..., 2] / s[..., 3],
            "average_precision": lambda s: s[..., 5] / s[..., 6], "log_loss": lambda s: s[..., 7] / s[..., 8]}
STRATEGY = "learned + standardised model, as the strategy"


def drawn(repositories, rows):
    """Sums of the rows of repositories drawn with replacement; the first is that of all."""
    names = sorted(set(repositories))
    cells = np.array([rows[[r == name for r in repositories]].sum(0) for name in names])
    rng = np.random.default_rng(1)
    return np.concatenate([cells.sum(0)[None], cells[rng.integers(len(cells), size=(salience.DRAWS, len(cells)))].sum(1)])


def told(values):
    return ["%.3f" % values[0], *("%.3f" % x for x in np.nanquantile(values[1:], [.025, .975]))]


def main(data, out, program, model="qwen2.5-coder-0.5b", seconds="1200"):
    out, name = pathlib.Path(out), pathlib.Path(model).name.removesuffix(".gguf")
    table = salience.Table(salience.load(data, out))
    fold = salience.folds(table.points)
    known = salience.known(table.points, fold)
    seen = [known[j] for j in fold]
    kept = out / "goals.npy"
    if not kept.is_file():
        np.save(kept, rules.of_goals(table, fold))
    odds, goals = table.by_point(salience.kept_odds(table, fold, out)["both"]), table.by_point(np.load(kept))
    got = asked(table, odds, seen, goals, model, float(seconds), program, out)
    ends = np.cumsum([0] + [len(short) for short, _ in got.values()])
    at = {n: slice(a, b) for n, a, b in zip(got, ends, ends[1:])}
    columns = [(odds[n][short], said, (said - said.mean()) / (said.std() + 1e-6), np.log1p(np.arange(len(short)))) for n, (short, said) in got.items()]
    X = np.concatenate([np.column_stack(c) for c in columns])
    y = np.concatenate([table.points[n]["y"][short] > 0 for n, (short, _) in got.items()])
    folds = np.concatenate([np.full(len(short), fold[n]) for n, (short, _) in got.items()])
    learned = {"learned": [0], "model": [1], "stacked without the model": [0, 3], "stacked": [0, 1, 2, 3]}
    ways = {way: stacked(X, y, folds, columns) for way, columns in learned.items()}
    ways |= {STRATEGY: X[:, 0] + X[:, 2], "random": np.random.default_rng(1).random(len(y)), "labels": y.astype(float)}
    repositories, calls = [table.points[n]["repository"] for n in got], len(y)
    sums = {way: drawn(repositories, scored(table, got, seen, values, at)) for way, values in ways.items()}
    body = []
    for way, s in sums.items():
        body += [[way, measure, *told(of(s))] for measure, of in MEASURES.items() if measure != "log_loss" or way in learned]
    for way, base in ((STRATEGY, "learned"), ("stacked", "learned"), ("stacked", "stacked without the model")):
        body += [[f"{way} - {base}", measure, *told(of(sums[way]) - of(sums[base]))] for measure, of in MEASURES.items()
                 if measure != "log_loss" or way in learned]
        body.append([f"{way} - {base}", "right items for 100 calls", *told((sums[way] - sums[base])[:, 0] * 100 / calls)])
    print(len(got), "points of", len(set(repositories)), "repositories,", calls, "calls,", int(y.sum()), "labelled")
    salience.write(out, f"stack_{name}.csv", ["order by", "measure", "value", "low", "high"], body)
    with open(out / f"stack_rows_{name}.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["point", "fold", "learned", "model", "stacked", "labelled"])
        rows.writerows([n, folds[i], *("%.3f" % v for v in (X[i, 0], X[i, 1], ways["stacked"][i])), int(y[i])] for n in got for i in range(*at[n].indices(calls)))


if __name__ == "__main__":
    main(*sys.argv[1:])
