#!/usr/bin/env python3
"""Weights and expected odds that another implementation can be held to:
`python3 reports/hindsight/export.py NEEDS_DATA LABELLED_DATA OPEN_DATA OUT`, with `needs.pickle` and `salience.pickle` in OUT (needs.py, salience.py).

OPEN_DATA is the dataset of datasets/coding, whose texts may stand here. Writes OUT/weights.json and OUT/expected.json. Weights are made of all logs.
"""
import base64
import hashlib
import json
import pathlib
import sys

import numpy as np
import pyarrow.parquet as pq

import features
import needs
import replay
import salience

STATEMENTS, ATOMS, STEPS = 200, 100, 127


def rounded(values, places=6):
    return [round(float(v), places) for v in values]


def of_atoms(logs):
    model = needs.Linear(*needs.gathered(logs), list(range(len(replay.NAMES))))
    return {"names": replay.NAMES, "mean": rounded(model.mean), "scale": rounded(model.scale), "clip": needs.CLIP,
            "weights": rounded(model.model.coef_[0]), "intercept": round(float(model.model.intercept_[0]), 6)}


def of_goals(table):
    return of_statements(table, salience.Goals(table, np.arange(len(table.y)), np.concatenate([p["y"] for p in table.points]) == 1))


def of_statements(table, model=None):
    model = model or salience.Linear(table, table.rows(np.arange(len(table.points))))
    coef = model.model.coef_[0]
    words, numbers = coef[:features.BUCKETS] * salience.WORDS, coef[features.BUCKETS:] * salience.NUMBERS
    step = np.abs(words).max() / STEPS
    return {"names": features.NAMES, "mean": rounded(model.mean), "scale": rounded(model.scale), "clip": salience.CLIP, "weights": rounded(numbers),
            "intercept": round(float(model.model.intercept_[0]), 6), "buckets": features.BUCKETS, "word_step": float("%.9g" % step),
            "words": base64.b64encode(np.round(words / step).astype(np.int8).tobytes()).decode()}


def of_types(table):
    true = np.concatenate([p["y"] for p in table.points])[table.y] - 1
    model = salience.Types(table.X[table.y], true)
    return {"types": features.TYPES, "mean": rounded(model.mean), "scale": rounded(model.scale), "clip": salience.CLIP,
            "weights": [rounded(w * salience.NUMBERS) for w in model.model.coef_], "intercepts": rounded(model.model.intercept_)}


def z(weights, x):
    return np.clip((np.array(x) - weights["mean"]) / weights["scale"], -weights["clip"], weights["clip"])


def odds_of_atom(weights, x):
    return float(z(weights, x) @ weights["weights"] + weights["intercept"])


def odds_of_statement(weights, x, pieces):
    words = np.frombuffer(base64.b64decode(weights["words"]), np.int8)
    text = weights["word_step"] * words[pieces].astype(float).sum() / np.sqrt(max(len(pieces), 1))
    return float(odds_of_atom(weights, x) + text)


def statements(data, weights, kinds, goals):
    logs = [log for log in features.read(data)]
    rows = []
    for log in logs:
        end = 2 * len(log.steps) // 3
        point = features.Point(log, end)
        for c in [c for c in log.candidates if c["step"] < end]:
            call = log.steps[c["step"]]["call"]
            x, pieces = rounded(features.numbers(point, c), 5), features.pieces(c, log.steps[call]["action"] if call is not None else None)
            odds = z(kinds, x) @ np.array(kinds["weights"]).T + kinds["intercepts"]
            rows.append({"trajectory": log.id, "before_step": end, "step": log.steps[c["step"]]["step"], "start": c["start"], "text": c["text"],
                         "numbers": x, "pieces": pieces, "odds": round(odds_of_statement(weights, x, pieces), 4),
                         "goal": round(odds_of_statement(goals, x, pieces), 4),
                         "source": c["source"], "type": kinds["types"][int(odds.argmax())]})
    mixed = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    return [r for source in features.SOURCES for r in [r for r in mixed if r["source"] == source][:STATEMENTS // 3 + 1]][:STATEMENTS]


def atoms(data, weights):
    rows = []
    for row, run in replay.read(data, lambda r: r["n_turns"] >= replay.N + replay.KEEP):
        for event in run.events:
            rows += [{"trajectory": row["trajectory"], "turn": event.turn, "atom": atom, "numbers": x, "odds": round(odds_of_atom(weights, x), 4)}
                     for atom, x in zip(event.atoms, (rounded(x, 5) for x in event.numbers))]
    return [rows[i] for i in np.random.default_rng(1).permutation(len(rows))[:ATOMS]]


def seen(target, data, logs):
    """What `trajpress train` must not compare the weights on: repositories, and logs of none."""
    of = {row["trajectory"]: row["repository"] for row in pq.read_table(f"{data}/trajectories.parquet", columns=["trajectory", "repository"]).to_pylist()}
    names = {("trajectory", log["id"]) if of[log["id"]] is None else ("repository", of[log["id"]]) for log in logs}
    return [{"target": target, key: name} for key, name in sorted(names)]


def main(needs_data, labelled, opened, out):
    out = pathlib.Path(out)
    logs, table = needs.load(needs_data, out), salience.Table(salience.load(labelled, out))
    weights = {"atoms": of_atoms(logs), "statements": of_statements(table), "types": of_types(table), "goals": of_goals(table)}
    expected = {"statements": statements(opened, *(weights[name] for name in ("statements", "types", "goals"))),
                "atoms": atoms(opened, weights["atoms"])}
    # manifest.py writes it: what the weights were made of.
    if (training := out / "training.csv").is_file():
        weights["manifest"] = {"training": "reports/hindsight/training.csv", "sha256": hashlib.sha256(training.read_bytes()).hexdigest(),
                               "logs": [*seen("needs", needs_data, logs), *seen("salience", labelled, ({"id": p["log"]} for p in table.points))]}
    for name, value in (("weights", weights), ("expected", expected)):
        (out / f"{name}.json").write_text("{\n" + ",\n".join(
            f"{json.dumps(k)}: " + ("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in v) + "\n]" if isinstance(v, list) else json.dumps(v))
            for k, v in value.items()) + "\n}\n", encoding="utf-8")
    print({k: len(v) for k, v in expected.items()}, {name: (out / f"{name}.json").stat().st_size for name in ("weights", "expected")})


if __name__ == "__main__":
    main(*sys.argv[1:])
