#!/usr/bin/env python3
"""Weights of `hindsight` on repositories other than those scored, by the program: `python3 reports/hindsight/folds.py DATA OUT`. Needs trajpress, pyarrow.

Repositories with logs of 16 turns and more fall into FOLDS parts of about as many steps; names that differ by owner or by leading digits (worktrees) into one.
Writes OUT/fold-N.txt (repositories), OUT/fold-N.json (weights made without them), and two raters that learned nothing, as
controls of the same form: OUT/coverage.json (every atom alike) and OUT/rarity.json (odds by rarity alone). OUT/names.json has each file as `PATH#HASH`.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

import pyarrow.parquet as pq

FOLDS, LEAST = 4, 16


def family(repository):
    return re.sub(r"^\d+-", "", repository.split("/")[-1])


def parts(rows):
    size, names = collections.Counter(), collections.defaultdict(set)
    for row in (row for row in rows if row["repository"]):
        names[family(row["repository"])].add(row["repository"])
        size[family(row["repository"])] += row["n_steps"] * (row["n_turns"] >= LEAST)
    load, folds = [0] * FOLDS, [set() for _ in range(FOLDS)]
    for name in sorted(names, key=lambda name: (-size[name], name)):
        at = load.index(min(load))
        load[at] += size[name]
        folds[at] |= names[name]
    return folds


def untrained(weights, numbers, intercept):
    """A rater of the same form whose odds hang on these numbers alone."""
    atoms = dict(weights["atoms"])
    atoms["weights"] = [numbers.get(name, 0.0) * scale for name, scale in zip(atoms["names"], atoms["scale"])]
    atoms["intercept"] = intercept
    return {**weights, "atoms": atoms}


def hashed(path):
    """The name by which an experiment asks for the file; its hash is in what `train` says, or in the program's hint."""
    plan = f'name = "x"\n[[strategies]]\nname = "hindsight"\nweights = "{path}"\n[[triggers]]\nname = "turns"\n'
    asked = path.with_suffix(".toml")
    asked.write_text(plan, encoding="utf-8")
    said = subprocess.run([PROGRAM, "run", asked, "--list"], capture_output=True, text=True).stderr
    asked.unlink()
    return f"{path}#" + re.search(r"#([0-9a-f]{16})", said)[1]


def main(data, out):
    out = pathlib.Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    rows = pq.read_table(f"{data}/trajectories.parquet", columns=["repository", "n_steps", "n_turns"]).to_pylist()
    names = {}
    for number, fold in enumerate(parts(rows)):
        left, weights = out / f"fold-{number}.txt", out / f"fold-{number}.json"
        left.write_text("".join(name + "\n" for name in sorted(fold)), encoding="utf-8")
        subprocess.run([PROGRAM, "train", data, "--exclude-repos", left, "--out", weights, "--threads", "1"], check=True)
        names[f"fold-{number}"] = hashed(weights)
    made = json.loads(weights.read_text(encoding="utf-8"))
    # `rarity` is a logarithm: odds in proportion to 1 / (share of steps that tell it), low enough to be no more than proportional.
    for name, numbers, intercept in (("coverage", {}, 0.0), ("rarity", {"rarity": 1.0}, -4.0)):
        (out / f"{name}.json").write_text(json.dumps(untrained(made, numbers, intercept)), encoding="utf-8")
        names[name] = hashed(out / f"{name}.json")
    (out / "names.json").write_text(json.dumps(names, indent=1), encoding="utf-8")


if __name__ == "__main__":
    PROGRAM = "trajpress"
    main(*sys.argv[1:])
