#!/usr/bin/env python3
"""What the compiled-in weights were made of: `python3 reports/hindsight/manifest.py LOGS OUT.csv DATA... [-- LABELS.jsonl...]`. Needs pyarrow.

LOGS is the folder whose MANIFEST.tsv says of each file where it comes from (and `formats` beside it), DATA what `ingest` made of both. The choice of
logs is that of needs.py. A row is a file: what it was used for, logs of it that were read, place below LOGS, repository, commit, path and licence
where it comes from, and the sha256 of the file as it lies there.
"""
import collections
import csv
import hashlib
import json
import pathlib
import sys

import pyarrow.parquet as pq

CAP, LEAST = 80, 16
LABELS = pathlib.Path(__file__).resolve().parents[2] / "datasets" / "labels"


def origins(logs):
    """Place of a file -> its row of a MANIFEST, and the file."""
    found = {}
    for name, folder in (("", logs), ("formats/", logs.parent / "formats")):
        with open(folder / "MANIFEST.tsv", newline="", encoding="utf-8") as file:
            found.update({name + row["path"]: (row, folder / row["path"]) for row in csv.DictReader(file, delimiter="\t")})
    return found


def needs(datasets):
    rows = {row["trajectory"]: row for data in datasets for row in pq.read_table(f"{data}/trajectories.parquet").to_pylist()}
    taken = collections.Counter()
    for row in sorted(rows.values(), key=lambda row: hashlib.sha256(row["trajectory"].encode()).hexdigest()):
        key = row["format"], row["repository"]
        if row["n_turns"] >= LEAST and taken[key] < CAP:
            taken[key] += 1
            yield row["source"].split("#")[0]


def labelled(files):
    for path in files:
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            yield row.get("source") or row["source_path"]


def main(logs, out, *rest):
    at = rest.index("--") if "--" in rest else len(rest)
    found = origins(pathlib.Path(logs))
    used = {"atoms": collections.Counter(needs(rest[:at])),
            "statements": collections.Counter(labelled([LABELS / "swe.jsonl", LABELS / "products.jsonl", *rest[at + 1:]]))}
    body, missing = [], collections.Counter()
    for what, files in used.items():
        for place, n in sorted(files.items()):
            place = place.removeprefix("../")
            if place not in found:
                missing[place] += n
                continue
            row, path = found[place]
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            body.append([what, n, place, row["source_repo"], row["commit"], row["source_path"], row["licence"], sha256])
    with open(out, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([["rater", "logs", "file", "repository", "commit", "path", "licence", "sha256"], *body])
    print({what: (sum(files.values()), len(files)) for what, files in used.items()}, "not in a MANIFEST:", dict(missing), file=sys.stderr)


main(*sys.argv[1:])
