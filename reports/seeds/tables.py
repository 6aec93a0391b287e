#!/usr/bin/env python3
"""Tables and rows of this folder: `python3 reports/seeds/tables.py [RUN...]`, for runs of experiment.toml, triggers.toml and sessions.toml that
`trajpress report` has read; each has the name of its experiment at the end of its path. Needs duckdb.

Prints the tables, and writes rows.csv: a row a variant and format, with intervals. figure.py draws it.
"""
import csv
import sys
from pathlib import Path

import duckdb

HERE = Path(__file__).parent
FIELDS = ["run", "format", "label", "n_trajectories", "n_needs_exposed", "n_eff_exposed", "token_savings", "need_retention_exposed",
          "need_retention_exposed_lo", "need_retention_exposed_hi", "random_exposed", "oracle_exposed", "efficiency", "efficiency_lo", "efficiency_hi"]


def told(value, digits=2):
    return "-" if value in (None, "") else f"{float(value):.{digits}f}"


def rows_of(run):
    """Rows by format, and of all formats together where there are several."""
    with open(run / "report" / "by_format.csv", newline="") as file:
        rows = [{field: row.get(field, "") for field in FIELDS} | {"run": run.name} for row in csv.DictReader(file)]
    if len({row["format"] for row in rows}) > 1:
        with open(run / "report" / "summary.csv", newline="") as file:
            for row in csv.DictReader(file):
                more = {"run": run.name, "format": "all", "n_trajectories": row["n_cells_ok"]}
                rows.append({field: row.get(field, "") for field in FIELDS} | more)
    return rows


def table(rows, name):
    print(f"\n## {name}\n\n| variant | token savings | exposed needs kept | random | oracle | efficiency |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in sorted(rows, key=lambda row: -float(row["need_retention_exposed"] or -1)):
        ends = lambda of: f" [{told(row[of + '_lo'])}, {told(row[of + '_hi'])}]" if row[of + "_lo"] else ""
        cells = [row["label"], told(row["token_savings"]), told(row["need_retention_exposed"]) + ends("need_retention_exposed")]
        cells += [told(row["random_exposed"]), told(row["oracle_exposed"]), told(row["efficiency"]) + ends("efficiency")]
        print("| " + " | ".join(cells) + " |")


def ask(run, query):
    read = {name: f"'{run}/{name}.parquet'" for name in ("timeline", "trajectories", "events", "variants", "scores")}
    return duckdb.sql(query.format(**read)).fetchall()


def firings(run):
    """Firings in 100 decisions, and the share of events of one turn, by trigger and format, where each event holds the turns since the last."""
    rows = ask(run, """
        with decisions as (select variant, format, count(*) n from {timeline} join {trajectories} using (trajectory) group by all),
        fired as (select variant, format, count(*) n, avg((scope_end - scope_start <= 1)::int) one
                  from {events} join {trajectories} using (trajectory) group by all)
        select trigger, format, 100.0 * coalesce(fired.n, 0) / decisions.n, one
        from decisions join {variants} using (variant) left join fired using (variant, format)
        where strategy = 'drop-all' order by all""")
    print("\n## Firings in 100 decisions, and the share of events of one turn\n\n| trigger | format | firings | of one turn |\n| --- | --- | ---: | ---: |")
    for trigger, format, per, one in rows:
        print(f"| `{trigger}` | {format} | {per:.1f} | {told(one)} |")


def recalls(run):
    """In how many decisions something came back, and the share of all tokens that were sent."""
    rows = ask(run, """
        select label, count(*), sum((recalled_tokens > 0)::int), sum(recalled_tokens) / sum(tokens_sent)
        from {timeline} join {variants} using (variant) group by label having sum(recalled_tokens) > 0 order by label""")
    print("\n## Recalls\n\n| variant | decisions | with recall | share of the tokens sent |\n| --- | ---: | ---: | ---: |")
    for label, n, n_recalled, share in rows:
        print(f"| {label} | {n} | {n_recalled} | {share:.4f} |")


def sessions(run):
    """Needs across sessions that were kept: all, and those that the agent found out again."""
    rows = ask(run, """
        with of as (select variant, stratum, metric, sum(n) n, sum(value * weight) / sum(weight) kept, sum(floor * weight) / sum(weight) random
                    from {scores} where event is null and stratum in ('set=exposed tail=0', 'set=exposed tail=0 found=again')
                    and metric in ('need_retention', 'surface_retention') and weight > 0 group by all)
        select label, max(of.n) filter (metric = 'need_retention' and stratum like '%0'), max(kept) filter (metric = 'need_retention' and stratum like '%0'),
               max(random) filter (metric = 'need_retention' and stratum like '%0'), max(of.n) filter (metric = 'need_retention' and stratum like '%again'),
               max(kept) filter (metric = 'need_retention' and stratum like '%again'), max(random) filter (metric = 'need_retention' and stratum like '%again')
        from of join {variants} using (variant) group by label order by 3 desc""")
    print("\n## Needs across sessions\n\n| variant | n | kept | random | found again, n | kept | random |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for label, *figures in rows:
        cells = [f"{value}" if i % 3 == 0 else told(value, 3) for i, value in enumerate(figures)]
        print(f"| {label} | {' | '.join(cells)} |")


def main(runs):
    rows = [row for run in runs for row in rows_of(run)]
    with open(HERE / "rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for name in dict.fromkeys((row["run"], row["format"]) for row in rows):
        table([row for row in rows if (row["run"], row["format"]) == name and row["token_savings"]], " on ".join(name))
    for run in runs:
        for says, of in ((recalls, "experiment"), (firings, "triggers"), (sessions, "sessions")):
            if run.name == of:
                says(run)


main([Path(run) for run in sys.argv[1:]])
