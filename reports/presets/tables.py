"""The table of the presets, a row for each preset and window: events, tasks that they hit, needs kept, tokens saved. Usage: tables.py REPORT [RUN]

REPORT is what `trajpress report` makes of a run; the presets are read where this program stands. With RUN sessions that have an event are counted, too. Of a preset that summarises the ends of
its bracket stand beside each other: without a summary, an extract, the oracle's. Where nothing fired all is null. Windows in which a preset does the same share a line.
"""

import re
import sys
import tomllib
from pathlib import Path

import pandas as pd

report, run = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
summary = pd.read_csv(f"{report}/summary.csv")
sessions = {}
if run:
    cells = pd.read_parquet(f"{run}/cells.parquet")
    sessions = cells[cells.n_events > 0].groupby("variant").size().to_dict()


def policy_of(name):
    path = Path(__file__).parent / f"../../src/data/presets/{name}.toml"
    return tomllib.loads(path.read_text())["policy"] if path.exists() else None


def kept_free(policy):
    """The part of its own window that a preset keeps free: it is the same of half of the longest prompt."""
    window = policy.get("window", 200000)
    rules = [r for r in policy.get("by_window", []) if r["key"].endswith("trigger.below")]
    rules = [r for r in rules if r.get("over", 0) < window <= r.get("up_to", window)]
    below = [int(r.get("share", 0) * window) + r.get("plus", 0) for r in rules]
    below = [max(r.get("least", 0), min(n, r.get("most", n))) for r, n in zip(rules, below)]
    below += [stage["trigger"].get("below", 0) for stage in policy["stages"]]
    free = policy.get("reserve", 0) + max(below)
    return [f"{free:,} of {window:,} tokens kept free, as a share"] if free else []


def fixed(policy):
    """Limits in tokens that are the same in any window."""
    by_window = {rule["key"].split(".", 1)[-1] if rule["key"][0].isdigit() else rule["key"] for rule in policy.get("by_window", [])}
    found = [
        f"{value:,} (`{part}.{key}`)"
        for stage in policy["stages"]
        for part in ("trigger", "scope")
        for key, value in stage.get(part, {}).items()
        if key != "below" and isinstance(value, int) and value >= 1000 and f"{part}.{key}" not in by_window
    ]
    return [f"the same in any window: {', '.join(dict.fromkeys(found))}"] if found else []


def number(value):
    return "null" if pd.isna(value) else f"{value:.3f}"


def interval(form, row):
    """That of the kept share, but for the ends of a bracket."""
    low, high = row.need_retention_exposed_lo, row.need_retention_exposed_hi
    return "" if "no" in form or "oracle" in form or pd.isna(low) else f" [{low:.2f}, {high:.2f}]"


rows = {}
for _, row in summary[summary.strategy != "full"].iterrows():
    match = re.fullmatch(r"(\S+) @ (.*?)(?: \[(.*)\])?", row.label)
    if match:
        name, window, form = match.groups()
        rows.setdefault((name, window.replace("0.5 of the longest prompt", "half")), {})[form or ""] = row
heads = ["preset", "counts", "window", *(["sessions"] if run else []), "events", "tasks hit", "exposed needs", "kept", "tokens saved", "note"]
print("|", " | ".join(heads), "|\n|" + " --- |" * len(heads))
told = {}
for (name, window), forms in sorted(rows.items()):
    ordered = sorted(forms.items(), key=lambda item: ("no" not in item[0], "oracle" in item[0]))
    most = max(forms.values(), key=lambda row: row.n_events)
    cells = [str(sessions.get(most.variant, 0))] if run else []
    if most.n_events == 0:
        cells += ["0", "0", "null", "null", "null"]
    else:
        cells += [str(most.n_events), str(int(most.n_clusters_exposed)) if not pd.isna(most.n_clusters_exposed) else "0"]
        cells += [str(most.n_needs_exposed)]
        cells += [" / ".join(number(row.need_retention_exposed) + interval(form, row) for form, row in ordered)]
        cells += [" / ".join(number(row.token_savings) for _, row in ordered)]
    told.setdefault(name, {}).setdefault(tuple(cells), []).append(window)
for name, lines in told.items():
    policy = policy_of(name)
    counts = "" if policy is None else "usage" if policy.get("counter", {}).get("by") == "usage" else "log"
    for cells, windows in lines.items():
        notes = [] if policy is None else (kept_free(policy) if "half" in windows else []) + fixed(policy)
        print("|", " | ".join([name, counts, ", ".join(windows), *cells, "; ".join(notes)]), "|")
