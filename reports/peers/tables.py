"""The tables of README.md from the kept rows: python3 reports/peers/tables.py"""

import csv
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CONTROLS = ("random", "oracle")
NEAREST = 5


def shown(row: dict, name: str) -> str:
    value, low, high = (row[name + end] for end in ("", "_lo", "_hi"))
    needs = name.removeprefix("need_retention_")
    if not value and row.get(f"n_lost_{needs}"):
        n = int(row[f"n_needs_{needs}"])
        return f"{n - int(row[f'n_lost_{needs}'])} of {n}"
    if not value:
        return "-"
    return f"{float(value):.3f}" + (f" [{float(low):.2f}, {float(high):.2f}]" if low and high else "")


def called(row: dict) -> str:
    label = row["label"].split(" @ ")[0]
    program = re.search(r"program=(\S+ \S+) #", label)
    return f"**{program[1]}**" if program else label


def savings(row: dict) -> float:
    return float(row["token_savings"] or 0)


def table(rows: list) -> str:
    peers = [row for row in rows if row["strategy"] == "command"]
    others = [row for row in rows if row["strategy"] not in ("command", "full", *CONTROLS) and row["token_savings"]]
    near = lambda row: min((abs(savings(row) - savings(peer)) for peer in peers), default=0)
    chosen = peers + sorted(others, key=near)[:NEAREST] + [row for row in rows if row["strategy"] in CONTROLS]
    header = "token savings", "cost savings", "need retention, common", "floor", "ceiling", "exposed", "efficiency", "logs", "events", "errors"
    out = f"| variant | {' | '.join(header)} |\n| --- |" + " --: |" * len(header) + "\n"
    for row in sorted(chosen, key=savings):
        cells = [shown(row, name) for name in ("token_savings", "cost_savings", "need_retention_common")]
        cells += [f"{float(row[name]):.3f}" if row[name] else "-" for name in ("random_common", "oracle_common")]
        cells += [shown(row, name) for name in ("need_retention_exposed", "efficiency")]
        cells += [row[name] for name in ("n_cells_ok", "n_events", "n_cells_error")]
        out += f"| {called(row)} | {' | '.join(cells)} |\n"
    return out


for path in sorted(FOLDER.glob("*.csv"), reverse=True):
    with path.open(newline="") as file:
        print(f"## {path.stem}\n\n{table(list(csv.DictReader(file)))}")
