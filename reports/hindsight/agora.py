#!/usr/bin/env python3
"""Labels of AGORA (arXiv 2605.26596) beside needs: `python3 reports/hindsight/agora.py DATA OUT TRAJPRESS [MODEL [SECONDS]]`.

DATA as of needs.py. Of a log one call that needs an atom of what was compressed last is taken, with a context of about 1,500 tokens: the task, a piece
of the compressed lines with the one that is needed, the newest turns. MODEL tells the likelihood of the call with all lines, and with each of LINES
of the piece's second half left out: the change is the line's label. Lines left out stand in the order in which most of the context is shared with
the call before. No more than SECONDS. Writes agora.csv, and agora_rows.csv with a row a line.
"""
import collections
import csv
import hashlib
import pathlib
import pickle
import sys

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

import lines as choose
import replay
import salience
from asked import ask, likelihood
from needs import CLIP, STRENGTH
from salience import DRAWS

PIECE, TASK, NEWEST, CALL, LINE = 3000, 400, 700, 300, 400  # Characters: about 3 a token.
LINES, OF_ONE, FOLDS = 8, 3, 5  # Lines of a context; contexts of a format and repository.
NEAR = ["n_bound", "chars", "goal", "place", "by_tool", "by_agent", "is_error"]


def contexts(data, out):
    """One of each log that has a need to ask for, in the order of a checksum."""
    kept = out / "agora.pickle"
    if kept.is_file():
        return pickle.loads(kept.read_bytes())
    rows, taken, chosen = pq.read_table(f"{data}/trajectories.parquet").to_pylist(), collections.Counter(), set()
    for r in sorted(rows, key=lambda r: hashlib.sha256(r["trajectory"].encode()).hexdigest()):
        if 16 <= r["n_turns"] <= 150 and taken[r["format"], r["repository"]] < 3 * OF_ONE:
            taken[r["format"], r["repository"]] += 1
            chosen.add(r["trajectory"])
    found, taken = [], collections.Counter()
    for row, run in replay.read(data, lambda r: r["trajectory"] in chosen):
        key = row["format"], row["repository"]
        context = one(row, run, np.random.default_rng(int(hashlib.sha256(row["trajectory"].encode()).hexdigest()[:8], 16)))
        if context and taken[key] < OF_ONE:
            taken[key] += 1
            found.append(context)
    # Formats and repositories take turns, so that the first contexts are of many.
    by = collections.defaultdict(int)
    place = {}
    for c in found:
        by[c["format"], c["repository"]] += 1
        place[c["log"]] = by[c["format"], c["repository"]]
    found.sort(key=lambda c: (place[c["log"]], hashlib.sha256(c["log"].encode()).hexdigest()))
    kept.write_bytes(pickle.dumps(found))
    return found


def one(row, run, rng):
    """A call of the log with what it could be told."""
    later = collections.defaultdict(set)   # Atoms of an event that are needed after it, whenever.
    now = collections.defaultdict(set)     # The same by a turn, of the newest event before it.
    for n, turn, atom, _, _, since in run.needs:
        at = next((k for k in range(n - 1, since - 1, -1) if atom in run.events[k].atoms), None)
        if at is not None:
            later[at].add(atom)
            if at == n - 1:
                now[turn, at].add(atom)
    log, places = run.log, sorted(now)
    for place in rng.permutation(len(places)):
        turn, k = places[place]
        before, after = log.split(turn)
        call = "\n".join(s["text"] for s in after if s["role"] == "agent" and s["kind"] == "action").strip()
        event = run.events[k]
        some = [line for line in event.lines if line[5].strip()]
        needed = [i for i, line in enumerate(some) if line[3] & now[turn, k]]
        if not call or not needed or len(some) < 2 * LINES:
            continue
        start, end = piece(some, needed[rng.integers(len(needed))], rng)
        half = start + max(int(np.searchsorted(np.cumsum([size(line) for line in some[start:end]]), PIECE / 2)), 0)
        asked = [i for i in needed if half <= i < end][:LINES // 2]
        others = [i for i in range(half, end) if i not in asked]
        asked = sorted(asked + list(rng.permutation(others)[:LINES - len(asked)]), reverse=True)
        if not others or not any(i in needed for i in asked):
            continue
        newest = [s for t in log.turns if event.turn <= t < turn and log.segment(t) == log.segment(turn) for s in log.turns[t]] + before
        task = next((s["text"] for s in log.steps if (s["role"], s["kind"]) == ("user", "message")), "")
        return {"log": row["trajectory"], "format": row["format"], "repository": row["repository"] or row["format"],
                "task": task[:TASK], "piece": [line[5].rstrip("\n")[:LINE] for line in some[start:end]], "call": call[:CALL],
                "newest": "\n".join(s["text"] for s in newest)[-NEWEST:], "asked": [int(i) - start for i in asked],
                "now": [bool(some[i][3] & now[turn, k]) for i in asked], "later": [bool(some[i][3] & later[k]) for i in asked],
                "X": numbers(run, event, some, asked)}
    return None


def size(line):
    return min(len(line[5]), LINE) + 1


def piece(some, needed, rng):
    """From and to of lines around a needed one, which stands somewhere in the second half."""
    end, room = needed + 1, PIECE * rng.uniform(0, .4)
    while end < len(some) and room > size(some[end]):
        room -= size(some[end])
        end += 1
    start, room = needed, PIECE - sum(size(line) for line in some[needed:end])
    while start and room > size(some[start - 1]):
        room -= size(some[start - 1])
        start -= 1
    return start, end


def numbers(run, event, some, asked):
    """Of each line the highest and the mean number of its bound atoms, and some of its own."""
    known = dict(zip(event.atoms, event.numbers))
    goal = choose.bm25([line[5] for line in some], run.history.goal)
    rows = []
    for i in asked:
        s, _, _, bound, _, text = some[i]
        mine = np.array([known[a] for a in bound if a in known] or [[0.0] * len(replay.NAMES)])
        own = [np.log1p(sum(a in known for a in bound)), np.log1p(len(text)), goal[i], i / len(some), s["role"] == "tool", s["role"] == "agent",
               bool(s["is_error"])]
        rows.append([*mine.max(0), *mine.mean(0), *map(float, own)])
    return np.array(rows, np.float32)


def calls(context):
    """First with all lines, then with each left out."""
    def call(left):
        lines = [f"{line}\n" for i, line in enumerate(context["piece"]) if i != left]
        parts = [context["task"] + "\n\n", *lines, "\n" + context["newest"] + "\n\n"]
        return {"score": {"prompt": {"parts": [{"text": t} for t in parts]}, "continuations": [context["call"]]}}
    return [call(None), *(call(i) for i in context["asked"])]


def changes(context, answers):
    """How much likelier the call is with a line than without, in nats."""
    told = [likelihood(a["scores"]["continuations"][0]) for a in answers]
    return told[0] - np.array(told[1:])


def rank(context, a, b):
    """Spearman's correlation within a context; none where one of the two is the same for all."""
    a, b = rankdata(a), rankdata(b)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else np.nan


def right_pairs(values, y):
    """Share of pairs, a needed line with one that is not, that stand in the right order."""
    y = np.array(y, bool)
    pairs = np.sign(values[y][:, None] - values[~y][None, :])
    return float((pairs > 0).mean() + (pairs == 0).mean() / 2) if pairs.size else np.nan


def rated(X, y, fold):
    """Log-odds of each line by lines of other logs."""
    odds = np.zeros(len(y))
    for j in set(fold):
        train, test = fold != j, fold == j
        mean, scale = X[train].mean(0), X[train].std(0) + 1e-6
        z = lambda rows: np.clip((X[rows] - mean) / scale, -CLIP, CLIP)
        odds[test] = LogisticRegression(C=STRENGTH, max_iter=200).fit(z(train), y[train]).decision_function(z(test))
    return odds


def told(values, groups):
    """Mean over contexts, with its interval by bootstrap over the repositories."""
    names = sorted(set(groups))
    cells = np.array([[np.nansum(mine), np.sum(~np.isnan(mine))] for mine in (values[[g == n for g in groups]] for n in names)])
    rng = np.random.default_rng(1)
    drawn = cells[rng.integers(len(cells), size=(DRAWS, len(cells)))].sum(1)
    return ["%.3f" % (cells[:, 0].sum() / cells[:, 1].sum()), *("%.3f" % x for x in np.nanquantile(drawn[:, 0] / drawn[:, 1], [.025, .975]))]


def main(data, out, program, model="smollm2-135m", seconds="1200"):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    found = contexts(data, out)
    answers, at, got = ask(program, model, [c for context in found for c in calls(context)], out, float(seconds)), 0, []
    tokens = []
    for context in found:
        mine, at = answers[at:at + 1 + len(context["asked"])], at + 1 + len(context["asked"])
        if len(mine) == 1 + len(context["asked"]) and all("scores" in a for a in mine):
            tokens.append(mine[0]["scores"]["prompt_tokens"])
            got.append((context, changes(context, mine)))
    groups = [c["repository"] for c, _ in got]
    # All lines of a log are in one fold.
    fold = np.concatenate([np.full(len(change), n % FOLDS) for n, (_, change) in enumerate(got)])
    X, change = np.concatenate([c["X"] for c, _ in got]), np.concatenate([v for _, v in got])
    later, now = (np.concatenate([c[key] for c, _ in got]) for key in ("later", "now"))
    # As many lines count as telling as are needed, so that both raters see the same share.
    telling = change >= np.quantile(change, 1 - later.mean())
    odds = {"trained on needs": rated(X, later, fold), "trained on changes": rated(X, telling, fold)}
    odds["both"] = odds["trained on needs"] + odds["trained on changes"]
    odds |= {"random": np.random.default_rng(1).random(len(change)), "the change itself": change, "the need itself": later.astype(float)}
    ends = np.cumsum([0] + [len(v) for _, v in got])
    cut = lambda values: [values[a:b] for a, b in zip(ends, ends[1:])]
    body, by = [], {}
    for name, values in odds.items():
        for test, of in (("needed later", lambda c, v, mine: right_pairs(mine, c["later"])), ("needed by this call", lambda c, v, mine: right_pairs(mine, c["now"])),
                         ("change of likelihood", lambda c, v, mine: rank(c, v, mine))):
            by[name, test] = np.array([of(c, v, mine) for (c, v), mine in zip(got, cut(values))], float)
            body.append([name, test, *told(by[name, test], groups), int((~np.isnan(by[name, test])).sum())])
    for a, b in (("trained on changes", "trained on needs"), ("both", "trained on needs")):
        for test in ("needed later", "needed by this call", "change of likelihood"):
            less = by[a, test] - by[b, test]
            body.append([f"{a} - {b}", test, *told(less, groups), int((~np.isnan(less)).sum())])
    print(len(got), "contexts of", len(set(groups)), "repositories,", len(change), "lines,", int(later.sum()), "needed later,", int(now.sum()), "by the call;",
          "median tokens", int(np.median(tokens)), "and change %.2f nats where needed by the call, %.2f elsewhere" % (np.median(change[now]), np.median(change[~now])))
    salience.write(out, "agora.csv", ["rater", "test", "value", "low", "high", "contexts"], body)
    with open(out / "agora_rows.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["context", "format", "change", "needed_by_call", "needed_later", "by_needs", "by_changes"])
        rows.writerows([n, c["format"], "%.3f" % change[i], int(now[i]), int(later[i]), "%.3f" % odds["trained on needs"][i], "%.3f" % odds["trained on changes"][i]]
                       for n, (c, _) in enumerate(got) for i in range(ends[n], ends[n + 1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
