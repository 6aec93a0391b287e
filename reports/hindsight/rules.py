#!/usr/bin/env python3
"""The rater of statements beside the rules that it took the place of: `python3 reports/hindsight/rules.py DATA RUN OUT [GOALS]`.

DATA and OUT are those of salience.py. RUN is a run of rules.toml over DATA by the last version that had the rules (commit 9754850): its table
`items` holds score and type of each statement behind the task. GOALS has a line of JSON for each goal that the reader of that version took to be in
force: log, the step before which it was known, its text. Repositories are none that the rater was trained on. Statements that also stand in
training are left out, and so is the first message of the user, which stands in every prompt, but for the goals. An item and a span fit as in salience.py.
"""
import collections
import json
import pathlib
import re
import sys

import numpy as np
import pyarrow.parquet as pq

import features
import salience

ODDS = lambda p: np.log(p / (1 - p))
LEAST, LEAST_LEARNED, EVERY, TOOL = ODDS(.3), .05, 10**9, features.TYPES.index("tool_output")
HAN = re.compile("[\u4e00-\u9fff]")
# How much each variant kept: items at most, from which odds on.
SETS = {"rules, standard": (EVERY, LEAST), "rules, conservative": (EVERY, LEAST - 1), "rules, ranked": (EVERY, ODDS(5 / 9)),
        "rules, top-k": (10, -50), "rules, aggressive": (3, LEAST), "rules, best 12": (12, -50)}




def of_rules(points, run):
    """Odds and type of each statement by the rules; of those that no event saw none."""
    told = {}
    for row in pq.read_table(f"{run}/items.parquet", columns=["trajectory", "step", "text", "score", "kind"]).to_pylist():
        key = row["trajectory"], row["step"], row["text"]
        told[key] = max(told.get(key, (0, 0)), (row["score"] or 0, features.TYPES.index(row["kind"])))
    rows = [told.get((p["log"], int(step), text)) for p in points for step, text in zip(p["step"], p["text"])]
    odds = [ODDS(np.clip(row[0], 1e-6, 1 - 1e-6)) if row else -np.inf for row in rows]
    return np.array(odds), np.array([row[1] if row else 3 for row in rows])


def kinds(table, fold):
    """The type of each statement, if it is salient, by weights that did not see its repository; a result is one by who says it."""
    found, true = np.zeros(len(table.y), int), np.concatenate([p["y"] for p in table.points]) - 1
    for j in sorted(set(fold)):
        train, test = table.rows(np.flatnonzero(fold != j)), table.rows(np.flatnonzero(fold == j))
        found[test] = salience.Types(table.X[train[table.y[train]]], true[train[table.y[train]]])(table.X[test])
    found[np.concatenate([[x == "tool" for x in p["source"]] for p in table.points])] = TOOL
    return found


def picked(table, seen, odds, kind, items, least, quota=(EVERY,) * 5, types=features.TYPES):
    """Rows as `scored` has them, behind the task, of no type more than its quota; spans of some types."""
    for n, (point, values, of) in enumerate(zip(table.points, table.by_point(odds), table.by_point(kind))):
        task = {m for m, first in zip(point["message"], point["first"]) if first}
        out = seen[n] | {w for w, first in zip(point["words"], point["first"]) if first}
        spans = [s for s in salience.left(point, seen[n]) if s["message"] not in task and s["type"] in types]
        chosen, left = [], list(quota)
        for i in np.argsort(-values, kind="stable"):
            if values[i] < max(least, -1e9) or len(chosen) == items:
                break
            words = point["words"][i]
            if left[of[i]] and words.strip() and words not in out and not any(salience.fits(words, point["words"][x]) for x in chosen):
                chosen.append(i)
                left[of[i]] -= 1
        found = salience.matched(point, chosen, spans)
        who = dict(zip(point["message"], point["source"]))
        yield sum(x is not None for x in found), len(chosen), len(spans), [
            (s["type"], who.get(s["message"], ""), x is not None, bool(HAN.search(s["text"]))) for s, x in zip(spans, found)]


def chosen_elsewhere(table, fold, rows):
    """Of each fold the rows of the setting that is best on the others, by F1."""
    f1 = lambda rows, which: (lambda s: 2 * s[0] / (s[1] + s[2]))(np.sum([rows[n][:3] for n in which], 0))
    best = [max(rows, key=lambda name: f1(rows[name], np.flatnonzero(fold != j))) for j in range(max(fold) + 1)]
    return [rows[best[j]][n] for n, j in enumerate(fold)], collections.Counter(best)


def by_part(table, rows):
    """Recall by type of the span, by who says it and in Chinese; precision and recall by format."""
    for kind in features.TYPES:
        spans = [s for r in rows for s in r[3] if s[0] == kind]
        yield "type", kind, "", "%.3f" % salience.share(sum(s[2] for s in spans), len(spans)), "", len(spans)
    for name, of in [(who, lambda s, who=who: s[1] == who) for who in features.SOURCES] + [("chinese", lambda s: s[3])]:
        spans = [s for r in rows for s in r[3] if of(s)]
        yield "said by" if name != "chinese" else "script", name, "", "%.3f" % salience.share(sum(s[2] for s in spans), len(spans)), "", len(spans)
    for agent, count in collections.Counter(p["agent"] for p in table.points).most_common():
        hits, items, spans = (sum(r[i] for p, r in zip(table.points, rows) if p["agent"] == agent) for i in range(3))
        if count >= 6:
            yield "format", agent, "%.3f" % salience.share(hits, items), "%.3f" % salience.share(hits, spans), items, spans


def of_goals(table, fold):
    """The odds that a statement of a user is a goal: the rater's inputs, other labels."""
    goal, odds = np.concatenate([p["y"] for p in table.points]) == 1, np.zeros(len(table.y))
    for j in sorted(set(fold)):
        train, test = table.rows(np.flatnonzero(fold != j)), table.rows(np.flatnonzero(fold == j))
        odds[test] = salience.Goals(table, train, goal)(test)
    return odds


def current(point, odds, least):
    """The goal in force: the likeliest statement of the newest later message that has one so likely, else of the first message."""
    user = np.array([x == "user" for x in point["source"]])
    first = np.flatnonzero(point["first"])
    later = np.flatnonzero(user & ~point["first"] & (odds >= least))
    some = later[point["step"][later] == point["step"][later].max()] if len(later) else first
    return point["words"][some[np.argmax(odds[some])]] if len(some) else ""


def goals(table, fold, told, out):
    """At how many points the goal in force fits a labelled one; changed: where a labelled one stands behind the first message."""
    by = collections.defaultdict(list)
    for row in map(json.loads, pathlib.Path(told).read_text().splitlines()):
        by[row["log"]].append(row)
    odds, rows = table.by_point(of_goals(table, fold)), {}
    spans = [[s for s in p["spans"] if s["type"] == "goal"] for p in table.points]

    def fits(words_at):
        for n, p in enumerate(table.points):
            task = {m for m, first in zip(p["message"], p["first"]) if first}
            fit = any(salience.fits(words_at(n, p), s["words"]) for s in spans[n])
            yield int(fit), int(bool(spans[n])), int(bool(spans[n])), [("goal", any(s["message"] not in task for s in spans[n]), fit)]

    def by_rules(n, p):
        known = [row for row in by[p["log"]] if row["until"] <= p["step"].max() + 1]
        return f" {' '.join(features.words_of(known[-1]['current'][1]))} " if known and known[-1]["current"] else ""

    settings = {least: list(fits(lambda n, p: current(p, odds[n], ODDS(least)))) for least in (.1, .2, .3, .4, .5)}
    rows["rules"], (rows["learned"], chosen) = list(fits(by_rules)), chosen_elsewhere(table, fold, settings)
    rows["first statement"] = list(fits(lambda n, p: p["words"][0] if len(p["words"]) else ""))
    print("least probability of a goal, by fold:", dict(chosen))
    changed = lambda r: [fit for *_, [(_, is_changed, fit)] in r if is_changed]
    shown = lambda name, r: [name, *salience.summary(table, r)[:3], sum(x[1] for x in r), sum(changed(r)), len(changed(r))]
    salience.write(out, "salience_goals.csv", ["goal in force by", "share", "low", "high", "points", "changed right", "changed"],
                   [shown(name, r) for name, r in rows.items()] + [["learned - rules", *salience.differs(table, rows["learned"], rows["rules"]), "", "", ""]])


def main(data, run, out, told=None):
    out = pathlib.Path(out)
    table = salience.Table(salience.load(data, out))
    fold = salience.folds(table.points)
    seen = [salience.known(table.points, fold)[j] for j in fold]
    learned, kind = salience.crossed(table, fold, ("both",), out)["both"], kinds(table, fold)
    rules, by_rules = of_rules(table.points, run)
    rows = {name: list(picked(table, seen, rules, by_rules, *how)) for name, how in SETS.items()}
    own = lambda items=12, **how: list(picked(table, seen, learned, kind, items, ODDS(LEAST_LEARNED), **how))
    quotas = {results: own(quota=(*(EVERY,) * TOOL, results)) for results in (2, 4, 6, 8, 12)}
    rows["learned, results limited"], chosen = chosen_elsewhere(table, fold, quotas)
    print("results among 12 items, by fold:", dict(chosen))
    rows |= {"learned": quotas[12], "learned, best 3": own(3)}
    rows["random"] = list(picked(table, seen, np.random.default_rng(1).random(len(rules)), kind, 12, 0))
    core, some = (EVERY, EVERY, EVERY, 0, 0), features.TYPES[:3]
    rows["core by rules"] = list(picked(table, seen, rules, by_rules, EVERY, LEAST, core, some))
    demands = np.where((kind == 3) & np.concatenate([[x == "user" for x in p["source"]] for p in table.points]), 1, kind)
    ways = {k: list(picked(table, seen, learned, of, 12, ODDS(LEAST_LEARNED), core, some)) for k, of in (("as typed", kind), ("demands", demands))}
    rows["core learned, what users say is no fact"], chosen = chosen_elsewhere(table, fold, ways)
    print("what users say is no fact, by fold:", dict(chosen))
    rows["core learned"] = ways["as typed"]
    salience.write(out, "salience_rules.csv", ["picked by", *salience.HEAD], [[name, *salience.summary(table, r)] for name, r in rows.items()])
    pairs = [("learned", name) for name in (*SETS, "random")] + [("learned, best 3", "rules, aggressive"), ("core learned", "core by rules")]
    salience.write(out, "salience_rules_differences.csv", ["precision of", "less that of", "difference", "low", "high"],
                   [[a, b, *salience.differs(table, rows[a], rows[b])] for a, b in pairs])
    salience.write(out, "salience_rules_by.csv", ["picked by", "by", "name", "precision", "recall", "items", "spans"],
                   [[name, *part] for name in ("learned", "rules, best 12", "rules, standard") for part in by_part(table, rows[name])])
    if told:
        goals(table, fold, told, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
