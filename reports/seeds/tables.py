#!/usr/bin/env python3
"""Tables, rows and figure of this folder: `python3 reports/seeds/tables.py RUN TRIGGERS` for runs of experiment.toml and triggers.toml
that `trajpress report .. --population these` has read. Needs duckdb.

Writes rows.csv (all that the figure shows, by format, with intervals) and retention_savings.svg beside itself, and prints the tables.
Without runs it draws the figure again from rows.csv.
"""
import csv
import sys
from pathlib import Path

HERE = Path(__file__).parent
FIELDS = ["run", "format", "label", "n_trajectories", "n_needs_exposed", "n_eff_exposed", "token_savings", "need_retention_exposed",
          "need_retention_exposed_lo", "need_retention_exposed_hi", "random_exposed", "oracle_exposed", "efficiency", "efficiency_lo", "efficiency_hi"]
SHAPES = {"claude-code": "#1f77b4", "mini-swe-agent": "#ff7f0e", "sweagent": "#2ca02c", "tau-bench": "#d62728", "tau2-bench": "#9467bd"}


def told(value, digits=2):
    return "-" if value in (None, "") else f"{float(value):.{digits}f}"


def rows_of(run):
    """Rows by format, and of all formats together."""
    with open(run / "report" / "by_format.csv", newline="") as file:
        for row in csv.DictReader(file):
            yield {field: row.get(field, "") for field in FIELDS} | {"run": run.name}
    with open(run / "report" / "summary.csv", newline="") as file:
        for row in csv.DictReader(file):
            more = {"run": run.name, "format": "all", "n_trajectories": row["n_cells_ok"]}
            yield {field: row.get(field, "") for field in FIELDS} | more


def table(rows, name):
    print(f"\n## {name}\n\n| variant | token savings | exposed needs kept | random | oracle | efficiency |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in sorted(rows, key=lambda row: -float(row["need_retention_exposed"] or -1)):
        ends = lambda of: f" [{told(row[of + '_lo'])}, {told(row[of + '_hi'])}]" if row[of + "_lo"] else ""
        cells = [row["label"], told(row["token_savings"])] + [told(row[of]) + ends(of) for of in ("need_retention_exposed",)]
        cells += [told(row["random_exposed"]), told(row["oracle_exposed"]), told(row["efficiency"]) + ends("efficiency")]
        print("| " + " | ".join(cells) + " |")


def firings(run):
    """Firings in 100 decisions, and the share of events whose scope is one turn, by trigger and format."""
    import duckdb

    read = lambda name: f"'{run}/{name}.parquet'"
    rows = duckdb.sql(f"""
        with decisions as (select variant, format, count(*) n from {read('timeline')} join {read('trajectories')} using (trajectory) group by all),
        fired as (select variant, format, count(*) n, avg((scope_end - scope_start <= 1)::int) one
                  from {read('events')} join {read('trajectories')} using (trajectory) group by all)
        select trigger, format, 100.0 * coalesce(fired.n, 0) / decisions.n, one
        from decisions join {read('variants')} using (variant) left join fired using (variant, format)
        where trigger not in ('never', 'logged-edits') order by all""").fetchall()
    print("\n## Firings in 100 decisions, and the share of events of one turn\n\n| trigger | format | firings | of one turn |\n| --- | --- | ---: | ---: |")
    for trigger, format, per, one in rows:
        print(f"| `{trigger}` | {format} | {per:.1f} | {told(one)} |")


def recalls(run):
    """In how many decisions something came back, and the share of all tokens that were sent."""
    import duckdb

    read = lambda name: f"'{run}/{name}.parquet'"
    rows = duckdb.sql(f"""
        select label, count(*), sum((recalled_tokens > 0)::int), sum(recalled_tokens) / sum(tokens_sent)
        from {read('timeline')} join {read('variants')} using (variant) group by label having sum(recalled_tokens) > 0 order by label""").fetchall()
    print("\n## Recalls\n\n| variant | decisions | with recall | share of the tokens sent |\n| --- | ---: | ---: | ---: |")
    for label, n, n_recalled, share in rows:
        print(f"| {label} | {n} | {n_recalled} | {share:.4f} |")


def figure(rows, path):
    """A point a variant and format: savings to the right, needs kept upwards; the tick below is what random lines keep."""
    width, height, left, top = 900, 620, 60, 20
    x = lambda value: left + float(value) * (width - left - 260)
    y = lambda value: top + (1 - float(value)) * (height - top - 50)
    drawn = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 620" font-family="sans-serif" font-size="11">',
             '<rect width="900" height="620" fill="white"/>']
    for i in range(11):
        drawn.append(f'<line x1="{x(0):.0f}" x2="{x(1):.0f}" y1="{y(i / 10):.0f}" y2="{y(i / 10):.0f}" stroke="#ddd"/><text x="{x(0) - 8:.0f}" y="{y(i / 10) + 4:.0f}" text-anchor="end">{i / 10}</text>')
        drawn.append(f'<text x="{x(i / 10):.0f}" y="{y(0) + 16:.0f}" text-anchor="middle">{i / 10}</text>')
    drawn.append(f'<text x="{x(0.5):.0f}" y="{y(0) + 36:.0f}" text-anchor="middle">tokens saved, as a share of all that are sent without compression</text>')
    drawn.append(f'<text transform="translate(16 {y(0.5):.0f}) rotate(-90)" text-anchor="middle">exposed needs kept (tick: random lines of as many tokens)</text>')
    known = [row for row in rows if row["format"] in SHAPES and row["need_retention_exposed"] and row["token_savings"]]
    labels = sorted({row["label"] for row in known})
    for row in known:
        at, colour = (x(row["token_savings"]), y(row["need_retention_exposed"])), SHAPES[row["format"]]
        if row["random_exposed"]:
            drawn.append(f'<line x1="{at[0]:.1f}" x2="{at[0]:.1f}" y1="{at[1]:.1f}" y2="{y(row["random_exposed"]):.1f}" stroke="{colour}" stroke-opacity="0.3"/>')
        drawn.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="7" fill="{colour}" fill-opacity="0.25" stroke="{colour}"/>')
        drawn.append(f'<text x="{at[0]:.1f}" y="{at[1] + 3:.1f}" text-anchor="middle" font-size="8">{labels.index(row["label"]) + 1}</text>')
    for i, format in enumerate(SHAPES):
        drawn.append(f'<circle cx="650" cy="{30 + 16 * i}" r="5" fill="{SHAPES[format]}"/><text x="662" y="{34 + 16 * i}">{format}</text>')
    for i, label in enumerate(labels):
        text = label.replace("&", "&amp;").replace("<", "&lt;")
        drawn.append(f'<text x="645" y="{130 + 14 * i}" font-size="9">{i + 1} {text}</text>')
    path.write_text("\n".join(drawn + ["</svg>"]) + "\n")


def main(runs):
    kept = HERE / "rows.csv"
    if runs:
        rows = [row for run in runs for row in rows_of(run)]
        with open(kept, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    with open(kept, newline="") as file:
        rows = list(csv.DictReader(file))
    for format in ["all", *SHAPES]:
        table([row for row in rows if row["format"] == format and row["token_savings"]], format)
    if runs:
        recalls(runs[0])
        firings(runs[-1])
    figure(rows, HERE / "retention_savings.svg")


main([Path(run) for run in sys.argv[1:]])
