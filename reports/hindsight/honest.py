#!/usr/bin/env python3
"""`hindsight` on repositories that its weights have not seen, by the program: `python3 reports/hindsight/honest.py DATA WEIGHTS OUT [PART ...]`.

DATA is a dataset of real logs, WEIGHTS the folder that folds.py wrote for it. Parts: table (by_program.csv), later (LABELLED in
place of DATA: a dataset of labelled logs whose spans were all used later), likely (asks smollm2-135m). Needs trajpress, pyarrow and numpy.
A repository counts under the weights of its fold; logs of no repository are in every training and not scored.
"""
import collections
import csv
import hashlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from folds import FOLDS, family

SHARES, DRAWS, LEAST, LONG, OF_REPOSITORY = (0.02, 0.05, 0.1, 0.2, 0.4), 2000, 16, 120, 8
HERE = pathlib.Path(__file__).resolve().parent
# What stands in a table -> strategy and parameter of the share.
KEPT = {"random": "random", "atom-bag": "atom-bag", "cue-bag (shipped weights)": "cue-bag", "oracle": "oracle"}
UNTRAINED = {"coverage": "coverage", "rarity with coverage": "rarity"}
COMMANDS = {"recency": "recency", "BM25 to the goal": "bm25"}


def strategy(name, **params):
    # A text of JSON reads the same in TOML, but for tables.
    told = "".join(f"{key} = {value if key == 'params' else json.dumps(value)}\n" for key, value in params.items())
    return f'[[strategies]]\nname = "{name}"\n{told}\n'


def plan(name, weights, shares, only=None, data="", more="", folds=range(FOLDS), turns=(10, 5)):
    """The experiment; what is asked of `hindsight` has one variant a fold."""
    names, text = json.loads((weights / "names.json").read_text()), f'name = "{name}"\nseed = 1\npartners = []\n{more}\n[data]\n{data}\n\n'
    wanted = lambda told: only is None or told in only
    text += strategy("full") + strategy("drop-all")
    text += "".join(strategy(of, kept_share=list(shares)) for told, of in KEPT.items() if wanted(told))
    rated = [names[of] for told, of in UNTRAINED.items() if wanted(told)] + [names[f"fold-{n}"] for n in folds]
    text += strategy("hindsight", budget=list(shares), weights=rated)
    for told, by in COMMANDS.items():
        if wanted(told):
            text += strategy("command", command=["python3", str(HERE / "by_line.py")], params=f'{{ by = "{by}" }}', kept_share=list(shares))
    return text + f'[[triggers]]\nname = "turns"\nn = {turns[0]}\nkeep = {turns[1]}\n'


def run(text, data, out, *options):
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.toml").write_text(text, encoding="utf-8")
    subprocess.run(["trajpress", "run", out / "plan.toml", "--data", data, "--out", out / "run", "--threads", "1", "--replace", *options], check=True)
    return out / "run"


def names_of(run, weights):
    """Variant -> what it is called in a table, its share, and the fold whose repositories it may be scored on (None: all)."""
    files = {value: key for key, value in json.loads((weights / "names.json").read_text()).items()}
    told = {of: name for table in (KEPT, UNTRAINED, COMMANDS) for name, of in table.items()}
    found = {}
    for row in pq.read_table(run / "variants.parquet").to_pylist():
        params = json.loads(row["strategy_params"])
        name, fold = row["strategy"], None
        if name == "hindsight":
            name = files[params["weights"]]
            name, fold = ("hindsight", int(name[5:])) if name.startswith("fold-") else (told[name], None)
        elif name == "command":
            name = told[params["params"]["by"]]
        else:
            name = told.get(name, name)
        found[row["variant"]] = name, params.get("budget", params.get("kept_share")), fold
    return found


def fold_of(weights):
    return {family(name): n for n in range(FOLDS) for name in (weights / f"fold-{n}.txt").read_text().split("\n") if name}


def scored(runs, weights, metric, stratum):
    """(name, share) -> repository -> [value x weight, weight, n]."""
    folds, rows = fold_of(weights), collections.defaultdict(lambda: collections.defaultdict(lambda: np.zeros(3)))
    for run in runs:
        variants = names_of(run, weights)
        of = {row["trajectory"]: family(row["repository"] or "") for row in pq.read_table(run / "trajectories.parquet").to_pylist()}
        table = pq.read_table(run / "scores.parquet", filters=(pc.field("metric") == metric) & (pc.field("stratum") == stratum))
        for row in table.to_pylist():
            (name, share, fold), home = variants[row["variant"]], of[row["trajectory"]]
            if row["event"] is None and row["value"] is not None and home in folds and fold in (None, folds[home]):
                rows[name, share][home] += [row["value"] * row["weight"], row["weight"], row["n"]]
    return rows


def pooled(of):
    total = np.sum(list(of.values()), 0)
    return total[0] / total[1]


def interval(of, base=None):
    """95 % by bootstrap over repositories; with a base, of the difference."""
    names = sorted(of)
    cells = np.array([[*of[name][:2], *(base[name][:2] if base is not None else (0, 1))] for name in names])
    drawn = cells[np.random.default_rng(1).integers(len(cells), size=(DRAWS, len(cells)))].sum(1)
    value = drawn[:, 0] / drawn[:, 1] - drawn[:, 2] / drawn[:, 3]
    return np.quantile(value, [.025, .975])


def write(out, name, head, body):
    with open(out / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *body])
    print(name, *[", ".join(map(str, row)) for row in [head, *body]], sep="\n", flush=True)


def digits(value):
    return "%.3f" % value


def by_checksum(data, most, wanted=lambda row: True):
    """Logs in the order of a checksum, at most so many of a repository and format."""
    rows, taken = pq.read_table(f"{data}/trajectories.parquet").to_pylist(), collections.Counter()
    for row in sorted(rows, key=lambda row: hashlib.sha256(row["trajectory"].encode()).hexdigest()):
        key = family(row["repository"] or ""), row["format"]
        if row["repository"] and row["n_turns"] >= LEAST and wanted(row) and taken[key] < most:
            taken[key] += 1
            yield row


def table(data, weights, out):
    folds, runs = fold_of(weights), []
    logs = list(by_checksum(data, OF_REPOSITORY, lambda row: row["n_turns"] <= LONG))
    for n in range(FOLDS):
        asked = f"ids = {json.dumps([row['trajectory'] for row in logs if folds.get(family(row['repository'])) == n])}"
        runs.append(run(plan("hindsight-unseen", weights, SHARES, data=asked, folds=[n]), data, out / f"table-{n}"))
    rows = scored(runs, weights, "need_retention", STRATUM)
    body, order = [], list(KEPT)[:1] + list(COMMANDS) + list(KEPT)[1:3] + list(UNTRAINED) + ["hindsight", "oracle"]
    for name in order:
        for share in SHARES:
            of = rows[name, share]
            floor, ceiling = pooled(rows["random", share]), pooled(rows["oracle", share])
            body.append([name, share, *map(digits, [pooled(of), *interval(of), (pooled(of) - floor) / (ceiling - floor)]), len(of), int(sum(v[2] for v in of.values()))])
    for other in ("coverage", "rarity with coverage", "BM25 to the goal", "cue-bag (shipped weights)"):
        for share in SHARES:
            of, base = rows["hindsight", share], rows[other, share]
            body.append([f"hindsight - {other}", share, *map(digits, [pooled(of) - pooled(base), *interval(of, base)]), "", len(of), ""])
    write(out, "by_program.csv", ["strategy", "share", "retention", "low", "high", "way_to_oracle", "repositories", "needs"], body)


READER = """[[models]]
name = "smollm2-135m"
roles = ["scorer", "tokenizer"]
about = "SmolLM2-135M-Instruct Q8_0, read 2,048 tokens at a time"
licence = "Apache-2.0"
context = 8192
window = 2048
bytes = 144811072
sha256 = "0c1d3326cd9793cfb7296113c063dd5c24e2bd734b48ec1a3d01b7158eca9387"
sources = [{ convert = "q4_1-to-q8_0", model = "smollm2-135m-q4_1" }]
"""
# What comes next has an eighth of the window, and a scope what is left: of the logs here only those of mini-swe-agent are short enough. (SWE-agent's record
# edits, and `as-sent`, which is added to a run of these, would be asked for, too.)
CODING, LONGEST, MOST, LIKELY = ("mini-swe-agent",), 3000, 60, 0.05

# What `hindsight` is set beside; a control more costs two calls an event.
CONTROLS = ["coverage"]


def sample(data, fold, size):
    fits = lambda row: row["format"] in CODING and row["repository"] in fold and row["n_turns"] <= MOST and row["n_bytes"] <= LONGEST * row["n_turns"]
    return [row["trajectory"] for row in by_checksum(data, 3, fits)][:size]


def likely(data, weights, out, size=1):
    """Likelihood of the next calls, with and without the tokens of their atoms, at equal tokens: sums over the same decisions."""
    gains = collections.defaultdict(lambda: collections.defaultdict(dict))
    for n in range(FOLDS):
        fold = set((weights / f"fold-{n}.txt").read_text().split("\n"))
        ids = sample(data, fold, size)
        if not ids:
            continue
        asked = f"ids = {json.dumps(ids)}"
        (out / "reader.toml").write_text(READER, encoding="utf-8")
        text = plan("hindsight-likely", weights, (LIKELY,), set(CONTROLS), asked, folds=[n])
        done = run(text + '[scores]\nask = { likelihood = "smollm2-135m" }\n', data, out / f"likely-{n}", "--models", out / "reader.toml",
                   "--cache", out / "calls.sqlite")
        variants = names_of(done, weights)
        for row in pq.read_table(done / "scores.parquet").to_pylist():
            if row["metric"] == "likelihood_retention" and row["event"] is None and row["value"] is not None:
                of = "atoms" if "of=atoms" in row["stratum"] else "all"
                gains[row["trajectory"]][variants[row["variant"]][0]][of] = row["value"] * row["weight"], row["floor"] * row["weight"], row["weight"], row["n"]
    body = []
    names = ["hindsight", *CONTROLS]
    cells = {of: {name: [] for name in names} for of in ("all", "atoms", "all but atoms")}
    for log in gains.values():
        if all({"all", "atoms"} <= set(log[name]) for name in names):
            for name in names:
                every, atoms = np.array(log[name]["all"][:3]), np.array(log[name]["atoms"][:3])
                for of, value in (("all", every), ("atoms", atoms), ("all but atoms", every - atoms)):
                    cells[of][name].append(value)
    decisions = sum(log["hindsight"]["all"][3] for log in gains.values() if "all" in log["hindsight"])
    for of, each in cells.items():
        draws = np.random.default_rng(1).integers(len(each[names[0]]), size=(DRAWS, len(each[names[0]])))
        drawn = {name: np.array(each[name])[draws].sum(1) for name in names}
        for name in names:
            total, share = np.sum(each[name], 0), drawn[name][:, 0] / drawn[name][:, 2]
            body.append([of, name, digits(total[0] / total[2]), *map(digits, np.quantile(share, [.025, .975])), digits(total[1] / total[2]), len(each[name]), decisions])
        for other in names[1:]:
            share = (drawn["hindsight"][:, 0] - drawn[other][:, 0]) / drawn[other][:, 2]
            value = (np.sum(each["hindsight"], 0)[0] - np.sum(each[other], 0)[0]) / np.sum(each[other], 0)[2]
            body.append([of, f"hindsight - {other}", digits(value), *map(digits, np.quantile(share, [.025, .975])), "", len(each[other]), decisions])
    write(out, "likelihood.csv", ["tokens", "strategy", "retention", "low", "high", "shuffled", "logs", "decisions"], body)


def later(data, weights, out):
    """Labelled spans of compressed scopes that the agent used later: which share still stands word for word, at the end of the log."""
    shares, ways = (0.05, 0.1, 0.2), {"random", "coverage", "rarity with coverage", "BM25 to the goal", "cue-bag (shipped weights)"}
    done = run(plan("hindsight-later", weights, shares, ways, turns=(5, 3)), data, out / "later")
    rows = scored([done], weights, "salience_recall", "point=end")
    floor, body = rows["drop-all", None], []
    for share in shares:
        for name in [*sorted(ways), "hindsight"]:
            # What stands without the scope is found by any of them: it is taken off.
            of = {repository: v - [floor[repository][0], floor[repository][0], 0] for repository, v in rows[name, share].items()}
            of = {repository: v for repository, v in of.items() if v[1] > 0}
            body.append([name, share, digits(pooled(of)), *map(digits, interval(of)), len(of), int(sum(v[1] for v in of.values()))])
            if name == "coverage":
                base = of
        body.append(["hindsight - coverage", share, digits(pooled(of) - pooled(base)), *map(digits, interval(of, base)), len(of), ""])
    write(out, "later.csv", ["strategy", "share", "recall", "low", "high", "repositories", "spans"], body)


STRATUM = "set=exposed tail=3"
PARTS = {"table": table, "later": later, "likely": likely}


def main(data, weights, out, *parts):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for part in parts or ["table"]:
        PARTS[part](pathlib.Path(data), pathlib.Path(weights), out)


if __name__ == "__main__":
    main(*sys.argv[1:])
