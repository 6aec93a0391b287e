"""How many sessions each preset has an event in, at each window, of the shard of a run. Usage: sessions.py RUN

A shard holds a share of the trajectories, and is not joined: its parts are read as they lie there.
"""

import json
import re
import sys
from pathlib import Path

import pandas as pd

run = Path(sys.argv[1])
labels = {v["id"]: v["label"] for v in json.loads((run / "_manifest.json").read_text())["plan"]["variants"]}
cells = pd.concat(pd.read_parquet(path) for path in sorted((run / "parts/cells").rglob("*.parquet")))
cells["label"] = cells.variant.map(labels)
table = {}
for label, rows in cells.groupby("label"):
    match = re.fullmatch(r"(\S+) @ (.*?)(?: \[(.*)\])?", label)
    if match and match[3] in (None, "model-free", "no summary"):
        window = "half" if match[2].startswith("0.5") else match[2]
        fired = rows[rows.n_events > 0]
        cell = f"{len(fired)}, {fired.n_events.sum()}" if len(fired) else "null"
        table.setdefault(match[1], {}).setdefault(window, cell)
print(f"{cells.trajectory.nunique()} trajectories. Sessions with an event, events; null where nothing fired.\n")
print("| preset | 128k | 200k | half of the longest prompt |\n| --- | --- | --- | --- |")
for name, windows in sorted(table.items()):
    if "128k" in windows:
        print("|", name, "|", " | ".join(windows.get(window, "null") for window in ("128k", "200k", "half")), "|")
