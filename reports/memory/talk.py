#!/usr/bin/env python3
"""What pruning drops of the rated talk: `python3 reports/memory/talk.py RUN` for a run of talk.toml. Needs pyarrow and Python 3.11.

Prints how many messages of each worth go under each variant, which of high worth, and the whole order under the two lists of rules.
"""
import sys
import tomllib
from pathlib import Path

import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
WORTH = {m["step"]: m["importance"] for m in tomllib.loads((HERE.parent.parent / "datasets/memory/importance.toml").read_text())["message"]}
# The head (turn 0: system prompt, first user message) and the newest pair never go.
N = {level: sum(1 for step, w in WORTH.items() if w == level and 2 <= step <= 58) for level in ("low", "medium", "high")}


def main(run):
    read = lambda name: pq.read_table(Path(run) / (name + ".parquet")).to_pylist()
    short = lambda label: label.split(" @ ")[0] + (" [" + label.rsplit(" [", 1)[1] if label.endswith("]") else "")
    labels = {v["variant"]: short(v["label"]) for v in read("variants") if v["strategy"] in ("prune-importance", "tri-level")}
    gone = {label: [] for label in labels.values()}
    for item in read("items"):
        if item["fate"] == "dropped" and item["variant"] in labels:
            gone[labels[item["variant"]]].append(item)
    print("Of %d low, %d medium and %d high messages that can go:\n" % (N["low"], N["medium"], N["high"]))
    print("| variant | gone: low | medium | high | high ones that went (step, words) |\n| --- | ---: | ---: | ---: | --- |")
    for label, items in gone.items():
        n = {level: sum(1 for i in items if WORTH[i["step"]] == level) for level in N}
        high = ["%d %s" % (i["step"], i["text"][:28].replace("|", " ")) for i in items if WORTH[i["step"]] == "high"]
        print("| %s | %d | %d | %d | %s |" % (label, n["low"], n["medium"], n["high"], "; ".join(high) or "none"))
    for label, items in gone.items():
        if "max_tokens=300" in label and label.startswith("prune") and "pair" not in label:
            print("\n%s, in order:\n" % label)
            for i in items:
                print("%3d %-6s %4.0f  %s" % (i["step"], WORTH[i["step"]], i["score"], i["text"][:90]))


main(sys.argv[1])
