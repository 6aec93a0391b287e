"""Ways to choose lines of a scope to a budget, and what of the needs they serve. Times and weights are those of docs/method.md, section 6."""
import collections
import heapq
import math

import numpy as np

import replay

SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
CUES = 3  # Tokens of two cue words, about.


def pack(row, run):
    """A log as plain arrays; atoms are numbers."""
    ids = {}
    number = lambda atom: ids.setdefault(atom, len(ids))
    events = [{"atoms": [number(a) for a in e.atoms], "X": np.array(e.numbers, np.float32).reshape(-1, len(replay.NAMES)),
               "tokens": np.array([line[2] for line in e.lines]), "bound": [[number(a) for a in line[3]] for line in e.lines],
               "held": [[number(a) for a in line[4]] for line in e.lines], "goal": bm25([line[5] for line in e.lines], run.history.goal)}
              for e in run.events]
    needs = [(n, number(atom), weight, kind, since) for n, _, atom, weight, kind, since in run.needs]
    log = {"id": row["trajectory"], "format": row["format"], "repository": row["repository"] or row["format"], "events": events,
           "needs": needs, "atoms": list(ids)}
    label(log)
    return log


def label(log):
    """y of an atom at an event: the weight of the needs whose newest compressed mention lies in the event's scope."""
    places = [{a: i for i, a in enumerate(e["atoms"])} for e in log["events"]]
    for e in log["events"]:
        e["y"] = np.zeros(len(e["atoms"]))
    for n, atom, weight, kind, since in log["needs"]:
        at = next((k for k in range(n - 1, since - 1, -1) if atom in places[k]), None)
        if at is not None:
            log["events"][at]["y"][places[at][atom]] += weight


def bm25(texts, goal):
    lines = [replay.words(text) for text in texts]
    df, mean = collections.Counter(w for line in lines for w in line), max(1, sum(map(len, lines)) / max(1, len(lines)))
    odds = {w: math.log(1 + (len(lines) - df[w] + .5) / (df[w] + .5)) for w in goal if w in df}
    return np.array([sum(odds[w] * 2.2 / (1 + 1.2 * (.25 + .75 * len(line) / mean)) for w in line if w in odds) for line in lines])


def cover(e, worth, budget):
    """Greedy on worth gained per token; an atom counts once. (A lazy queue: a gain only falls.)"""
    has = [{a for a in line if worth.get(a, 0) > 0} for line in e["bound"]]
    queue = [(-sum(worth[a] for a in h) / t, i) for i, (h, t) in enumerate(zip(has, e["tokens"])) if h and t <= budget]
    heapq.heapify(queue)
    got, chosen = set(), []
    while queue:
        gain, i = heapq.heappop(queue)
        now = -sum(worth[a] for a in has[i] - got) / e["tokens"][i]
        if now == 0 or e["tokens"][i] > budget:
            continue
        if now > gain + 1e-12:
            heapq.heappush(queue, (now, i))
            continue
        chosen.append(i)
        budget -= e["tokens"][i]
        got |= has[i]
    return chosen


def first_fit(e, order, budget):
    chosen = []
    for i in order:
        if e["tokens"][i] <= budget:
            chosen.append(i)
            budget -= e["tokens"][i]
    return chosen


def as_atoms(e, chosen):
    return {a for i in chosen for a in e["bound"][i]}, {a for i in chosen for a in e["held"][i]}


def random_lines(seed):
    def choose(log, n, k, e, budget):
        order = np.random.default_rng([seed, n, k]).permutation(len(e["tokens"]))
        inside = np.cumsum(e["tokens"][order]) <= budget
        return as_atoms(e, order[inside])
    return choose


def newest(log, n, k, e, budget):
    return as_atoms(e, first_fit(e, range(len(e["tokens"]) - 1, -1, -1), budget))


def by_goal(log, n, k, e, budget):
    return as_atoms(e, first_fit(e, np.argsort(-e["goal"], kind="stable"), budget))


def tokens_of(log, atom):
    """Tokens of an atom alone, about; `trajpress` counts them."""
    return max(1, round(len(log["atoms"][atom]) / 3.2))


def atom_bag(log, n, k, e, budget):
    got = set()
    for atom in (a for line in reversed(e["held"]) for a in line):
        if atom not in got:
            budget -= tokens_of(log, atom)
            if budget < 0:
                break
            got.add(atom)
    return set(), got


def cue_bag(value):
    def choose(log, n, k, e, budget):
        v, cost, got = value(log, n, k, e), np.array([tokens_of(log, a) + CUES for a in e["atoms"]]), set()
        for i in np.argsort(-v / cost, kind="stable") if len(cost) else ():
            if cost[i] <= budget:
                budget -= cost[i]
                got.add(e["atoms"][i])
        return got, got
    return choose


def covering(value):
    return lambda log, n, k, e, budget: as_atoms(e, cover(e, dict(zip(e["atoms"], value(log, n, k, e))), budget))


def oracle(log, n, k, e, budget):
    worth = collections.defaultdict(float)
    for seen, atom, weight, _, since in log["needs"]:
        if seen > k >= since:
            worth[atom] += weight
    return as_atoms(e, cover(e, worth, budget))


def every_atom(log, n, k, e, budget):
    """Coverage that does not ask what the head and the newest turns hold anyway."""
    return as_atoms(e, cover(e, {a: 1 for line in e["bound"] for a in line}, budget))


def rarity(log, n, k, e):
    return e["X"][:, replay.NAMES.index("rarity")]


def alike(log, n, k, e):
    return np.ones(len(e["atoms"]))


def served(logs, choose, shares=SHARES, kinds=None):
    """(share, log, kind) -> weight served bound, served on the surface, all."""
    rows = collections.defaultdict(lambda: np.zeros(3))
    for n, log in enumerate(logs):
        if not log["needs"]:
            continue
        for share in shares:
            kept = [choose(log, n, k, e, int(e["tokens"].sum() * share)) for k, e in enumerate(log["events"])]
            for seen, atom, weight, kind, since in log["needs"]:
                if kinds is None or kind in kinds:
                    hits = [any(atom in kept[k][level] for k in range(since, seen)) for level in (0, 1)]
                    rows[share, n] += weight * np.array([*hits, 1])
    return rows
