#!/usr/bin/env python3
"""Draws seeds.svg from rows.csv: retention against savings, a panel a format that has needs enough to tell. again.sh calls it."""
import csv
from pathlib import Path

HERE = Path(__file__).parent
NAMES = {"claude-code": "Claude Code", "sweagent": "SWE-agent", "openhands-completion": "OpenHands", "annotated": "golden data (invented)",
         "fireact": "FireAct", "who-and-when": "Who&amp;When"}
# Runs that have panels, with the run of triggers that is drawn beside.
RUNS = {"experiment": ("triggers", ""), "golden-experiment": ("golden-triggers", ""), "short": (None, ", n = 6, keep = 2")}
LEAST, COLUMNS = 6, 2  # Points of a panel; panels side by side.
# Code, name; strategies under `turns`, then triggers with strategy A.
STRATEGIES = {
    "summary": ("A", "naive summary"), "codex": ("B", "Codex"), "hierarchical": ("C", "hierarchical"), "notes": ("D", "A-MEM (notes)"),
    "tool-log": ("E", "claude-mem (tool log)"), "protected-core": ("F", "protected core"), "core-notes": ("G", "hybrid of F and D"),
    "salience": ("H", "selective salience"), "tiered(top_n=0": ("T0", "tiered, no recall"), "tiered(top_n=3,visible=hot": ("T", "tiered"),
    "tiered(top_n=3,visible=all": ("Ta", "tiered, all in sight"), "prune-importance": ("P", "importance"), "tri-level": ("L", "tri-level"),
    "random": ("R", "random lines, 0.1"), "drop-all": ("0", "nothing kept"),
}
TRIGGERS = {"subtask": "s", "subtask, the seed's signals": "s0", "intent": "i", "boundary": "b", "staleness": "t", "hybrid": "y"}
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#777"
WIDTH, HEIGHT, LEFT, TOP = 380, 300, 60, 40


def code(row):
    """What a variant is called in the figure; none for what is not drawn."""
    label = row["label"]
    if label.startswith("seed-hybrid") and label.endswith("[model-free]"):
        return "hy", BLUE
    strategy, _, trigger = label.partition(" @ ")
    if row["run"].endswith("triggers"):
        name = trigger.partition(" [")[0].partition("(")[0]
        return (TRIGGERS[name], ORANGE) if strategy == "summary" and name in TRIGGERS else None
    found = [name for name in STRATEGIES if strategy.startswith(name)]
    return (STRATEGIES[found[0]][0], GREY if found[0] in ("random", "drop-all") else BLUE) if found else None


def text(x, y, said, anchor="start", size=10, colour="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{said}</text>'


def line(x1, y1, x2, y2, colour, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def points(rows):
    """Of the rows of a panel what is drawn, with name and colour."""
    told = [(*code(row), row) for row in rows if row["need_retention_exposed"] and row["token_savings"] and code(row)]
    return [(float(row["token_savings"]), float(row["need_retention_exposed"]), *rest, row) for *rest, row in told]


def panel(drawn_points, title, left, top):
    x = lambda value: left + float(value) * WIDTH
    y = lambda value: top + (1 - float(value)) * HEIGHT
    drawn = [text(left, top - 10, title, size=12)]
    for i in range(0, 11, 2):
        drawn += [line(x(0), y(i / 10), x(1), y(i / 10), "#e5e5e5"), text(left - 6, y(i / 10) + 3, i / 10, "end", 9)]
        drawn.append(text(x(i / 10), y(0) + 14, i / 10, "middle", 9))
    drawn_points = [(x(saved), y(kept), *rest) for saved, kept, *rest in drawn_points]
    # Below each dot what random lines of as many tokens keep; beside it its interval.
    for at, height, _, colour, row in drawn_points:
        if row["need_retention_exposed_lo"]:
            drawn.append(line(at, y(row["need_retention_exposed_lo"]), at, y(row["need_retention_exposed_hi"]), colour, 0.5))
        if row["random_exposed"]:
            drawn.append(line(at - 4, y(row["random_exposed"]), at + 4, y(row["random_exposed"]), colour, 1.2))
        drawn.append(f'<circle cx="{at:.1f}" cy="{height:.1f}" r="2.5" fill="{colour}"/>')
    # Names stand to the right of their dots, in the order of height, none on another.
    placed = [(at - 3, height + 3) for at, height, *_ in drawn_points]
    for at, height, name, colour, _ in sorted(drawn_points, key=lambda point: (point[1], point[2])):
        column, level = at + 9, height + 3
        while any(-10 < c - column < 14 and abs(level - l) < 9 for c, l in placed):
            column += 15
            if column > at + 60:
                column, level = at + 9, level + 3
        placed.append((column, level))
        drawn += [line(at + 2, height, column - 1, level - 3, "#bbb", 0.5), text(column, level, name, size=9, colour=colour)]
    return drawn


def panels(rows):
    """Title and points of each; formats with most runs first."""
    for run, (beside, said) in RUNS.items():
        mine = [row for row in rows if row["run"] == run and row["format"] != "all"]
        n = {row["format"]: int(row["n_trajectories"]) for row in mine}
        told = {format: points([row for row in rows if row["run"] in (run, beside) and row["format"] == format]) for format in n}
        for format in sorted((format for format in n if len(told[format]) >= LEAST), key=lambda format: -float(told[format][0][-1]["n_needs_exposed"])):
            of = told[format][0][-1]
            yield f"{NAMES.get(format, format)}{said}: {n[format]} runs, {of['n_needs_exposed']} needs", told[format]


def main():
    with open(HERE / "rows.csv", newline="") as file:
        found = list(panels(list(csv.DictReader(file))))
    lines = -(-len(found) // COLUMNS)
    wide, high = COLUMNS * (LEFT + WIDTH) + 190, lines * (TOP + HEIGHT + 20) + 40
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" font-family="sans-serif">',
             f'<rect width="{wide}" height="{high}" fill="white"/>']
    for i, (title, told) in enumerate(found):
        drawn += panel(told, title, LEFT + i % COLUMNS * (WIDTH + LEFT), TOP + i // COLUMNS * (HEIGHT + TOP + 20))
    drawn.append(text(COLUMNS * (LEFT + WIDTH) / 2, high - 12, "tokens saved, as a share of all that are sent without compression", "middle", 11))
    drawn.append(f'<text transform="translate(18 {high / 2:.0f}) rotate(-90)" text-anchor="middle" font-size="11">exposed needs kept</text>')
    left, top = COLUMNS * (LEFT + WIDTH) + 20, TOP + 10
    key = [("", "n = 21, keep = 10", "#222")] + [(c, name, GREY if c in "R0" else BLUE) for c, name in STRATEGIES.values()] + [
        ("hy", "the seed's hybrid", BLUE), ("", "", ""), ("", "A under other triggers", "#222")] + [(c, name, ORANGE) for name, c in TRIGGERS.items()] + [
        ("", "", ""), ("", "line: 95 % interval", "#222"), ("", "tick: random lines of", "#222"), ("", "as many tokens", "#222")]
    for i, (c, name, colour) in enumerate(key):
        drawn += [text(left, top + 15 * i, c, colour=colour), text(left + (22 if c else 0), top + 15 * i, name)]
    (HERE / "seeds.svg").write_text("\n".join(drawn + ["</svg>"]) + "\n")


main()
