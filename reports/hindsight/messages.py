#!/usr/bin/env python3
"""What whole turns keep of the labelled spans, by learned odds and by lists of rules: `python3 reports/hindsight/messages.py DATA OUT LISTS`.

DATA and OUT are those of salience.py. LISTS is a folder of lists of rules, as src/strategies/prune_importance of commit 9754850 has them. The turns
behind the task that fit a share of its tokens (of 4 characters) are kept, those first that rate most. Repositories are none that the rater was trained
on, and statements that also stand in training are left out. Prints share of the spans that stand in these turns, with intervals over repositories.
"""
import collections
import pathlib
import re
import sys
import tomllib

import numpy as np

import features
import salience

SHARES = (.2, .5)


def listed(path):
    rules = tomllib.loads(path.read_text())
    python = lambda pattern: re.compile(pattern.replace(r"\z", r"\Z").replace("(?-u:", "(?:").replace("(?-u)", ""), re.I)
    rows = [(python(rule["pattern"]), rule["add"], rule.get("only")) for rule in rules["rule"]]

    def rate(who, text):
        found = sum(add for pattern, add, only in rows if (only is None or who in only) and pattern.search(text))
        long = rules["longer_adds"] if len(text.split()) > rules["longer_than_words"] else 0
        return min(10, max(1, rules["start"] + found + long))
    return rate


def who(step):
    return "agent" if step["role"] == "agent" else "user" if step["role"] == "user" and step["kind"] in ("message", "observation") else "tool"


def scores(point, turns, odds, seen, lists, rng):
    """Of each way to rate the score of each turn."""
    best = collections.defaultdict(lambda: -9)
    for i, (step, words) in enumerate(zip(point["step"], point["words"])):
        if words not in seen:
            best[int(step)] = max(best[int(step)], odds[i])
    learned = {t: max(best[s["i"]] for s in steps) for t, steps in turns.items()}
    yield "learned", learned
    yield "learned, per token", {t: 1 / (1 + np.exp(-odds)) / tokens(turns[t]) for t, odds in learned.items()}
    yield "recency", {t: t for t in turns}
    yield "random", {t: rng.random() for t in turns}
    for name, rate in lists.items():
        rated = {t: [rate(who(s), s["text"]) for s in steps] for t, steps in turns.items()}
        for pair in (min, max):
            # Of equals the newer.
            yield f"{name}, {'least' if pair is min else 'most'}", {t: pair(all_) + t * 1e-6 for t, all_ in rated.items()}


def tokens(steps):
    return sum(len(s["text"]) for s in steps) / 4 + 1


def main(data, out, lists):
    table = salience.Table(salience.load(data, pathlib.Path(out)))
    fold = salience.folds(table.points)
    seen = [salience.known(table.points, fold)[j] for j in fold]
    odds = table.by_point(salience.crossed(table, fold, ("both",), pathlib.Path(out))["both"])
    logs = {log.id: log for log in features.read(data) if log.truth}
    lists = {path.stem: listed(path) for path in sorted(pathlib.Path(lists).glob("*.toml"))}
    kept, rng = collections.defaultdict(lambda: collections.defaultdict(lambda: np.zeros(2))), np.random.default_rng(1)
    for n, point in enumerate(table.points):
        task = {m for m, first in zip(point["message"], point["first"]) if first}
        spans = [s for s in salience.left(point, seen[n]) if s["message"] not in task]
        turns = collections.defaultdict(list)
        for s in logs[point["log"]].steps[:int(point["step"].max()) + 1]:
            if s["role"] != "system" and s["message"] not in task:
                turns[s["turn"]].append(s)
        for name, score in scores(point, turns, odds[n], seen[n], lists, rng):
            for share in SHARES:
                left, messages = share * sum(map(tokens, turns.values())), set()
                for t in sorted(turns, key=lambda t: -score[t]):
                    if tokens(turns[t]) <= left:
                        left -= tokens(turns[t])
                        messages |= {s["message"] for s in turns[t]}
                kept[name, share][point["repository"]] += [sum(s["message"] in messages for s in spans), len(spans)]
    for (name, share), by in kept.items():
        cells = np.array(list(by.values()))
        drawn = cells[np.random.default_rng(1).integers(len(cells), size=(salience.DRAWS, len(cells)))].sum(1)
        hits, spans = cells.sum(0)
        print(f"{name} at {share}: %.3f [%.3f, %.3f] of %d" % (hits / spans, *np.quantile(drawn[:, 0] / drawn[:, 1], [.025, .975]), spans))


if __name__ == "__main__":
    main(*sys.argv[1:])
