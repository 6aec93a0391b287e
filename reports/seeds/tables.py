#!/usr/bin/env python3
"""Tables and rows of this folder: `python3 reports/seeds/tables.py MADE OUT`. Needs duckdb.

MADE has a folder a run (experiment, short, triggers, sessions, and labelled, of annotated.toml; golden-experiment, golden-triggers and golden-annotated of
golden data), each as again.sh makes it: its rows, and report/ by `trajpress report`. Writes tables.md; rows.csv, a row a variant and format with intervals, which figure.py draws;
and firings.csv, a row a trigger, signal and format.
"""
import csv
import re
import sys
from pathlib import Path

import duckdb

FIELDS = ["run", "format", "label", "n_trajectories", "n_needs_exposed", "n_eff_exposed", "token_savings", "cost_savings", "need_retention_exposed",
          "need_retention_exposed_lo", "need_retention_exposed_hi", "random_exposed", "oracle_exposed", "efficiency", "efficiency_lo", "efficiency_hi"]
RUNS = ["experiment", "short", "triggers", "sessions", "golden-experiment", "golden-triggers"]
MIN_DECISIONS = 300  # Of a format that has a column of its own among the firings; firings.csv has all.


def told(value, digits=2):
    return "-" if value in (None, "") else f"{float(value):.{digits}f}"


def named(label):
    """The two settings of `subtask` by what they are; its six switches would fill the line."""
    return re.sub(r"subtask\(learned=(true|false)[^)]*\)", lambda found: "subtask" if found[1] == "true" else "subtask, the seed's signals", label)


def rows_of(run):
    """Rows by format, and of all formats together where there are several."""
    with open(run / "report" / "by_format.csv", newline="") as file:
        rows = [{field: row.get(field, "") for field in FIELDS} | {"run": run.name} for row in csv.DictReader(file)]
    if len({row["format"] for row in rows}) > 1:
        with open(run / "report" / "summary.csv", newline="") as file:
            for row in csv.DictReader(file):
                more = {"run": run.name, "format": "all", "n_trajectories": row["n_cells_ok"]}
                rows.append({field: row.get(field, "") for field in FIELDS} | more)
    return [row | {"label": named(row["label"])} for row in rows]


def table(rows, name):
    """The variants of a run on a format; none where no need is exposed often enough."""
    if any(row["need_retention_exposed"] for row in rows):
        yield f"\n## {name}\n\n| variant | token savings | money | exposed needs kept | random | oracle | efficiency |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        for row in sorted(rows, key=lambda row: (-float(row["need_retention_exposed"] or -1), row["label"])):
            ends = lambda of: f" [{told(row[of + '_lo'])}, {told(row[of + '_hi'])}]" if row[of + "_lo"] else ""
            cells = [row["label"], told(row["token_savings"]), told(row["cost_savings"]), told(row["need_retention_exposed"]) + ends("need_retention_exposed")]
            cells += [told(row["random_exposed"]), told(row["oracle_exposed"]), told(row["efficiency"]) + ends("efficiency")]
            yield "| " + " | ".join(cells) + " |"


def ask(run, query):
    read = {name: f"'{run}/{name}.parquet'" for name in ("cells", "trajectories", "events", "variants", "scores", "recalls")}
    return duckdb.sql(query.format(**read)).fetchall()


def formats(made, rows):
    """What each format has to be judged by, where strategy A compresses; too few is what the report leaves without a figure."""
    yield "## Formats\n\n| format | runs | decisions | events | exposed needs | n_eff | events, every six turns | exposed needs | n_eff |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    found = {}
    for name in ("experiment", "short", "golden-experiment"):
        for format, *counts in ask(made / name, """
                select format, count(*), sum(n_decisions), sum(n_events) from {cells} join {trajectories} using (trajectory) join {variants} using (variant)
                where strategy = 'summary' group by format"""):
            row = next(row for row in rows if (row["run"], row["format"]) == (name, format) and row["label"].startswith("summary"))
            is_told = row["need_retention_exposed"] != ""
            n = row["n_needs_exposed"] or "0"
            found.setdefault(format, {})[name] = counts, n if is_told or n == "0" else f"{n}, too few", told(row["n_eff_exposed"], 0)
    for format, of in sorted(found.items(), key=lambda pair: (-max(counts[1] for counts, *_ in pair[1].values()), pair[0])):
        counts, *needs = of.get("experiment") or of["golden-experiment"]
        short = of.get("short")
        yield f"| {format} | {' | '.join(map(str, [*counts, *needs]))} | {' | '.join(map(str, [short[0][2], *short[1:]] if short else ['-'] * 3))} |"


def firings(made, out):
    """Firings in 100 decisions, and the share of events of one turn, where each event holds the turns since the last and no others."""
    found = [row for name in ("triggers", "golden-triggers") for row in ask(made / name, """
        with decisions as (select variant, format, sum(n_decisions) n from {cells} join {trajectories} using (trajectory) group by all),
        fired as (select variant, format, coalesce(trigger_kind || coalesce(' ' || (details::json->>'from') || ' to ' || (details::json->>'to'), ''), 'all') signal,
                         grouping(trigger_kind) whole, count(*) n, sum((scope_end - scope_start <= 1)::int) one
                  from {events} join {trajectories} using (trajectory) group by grouping sets ((variant, format), (variant, format, trigger_kind, details)))
        select trigger || case when trigger = 'subtask' and trigger_params::json->>'learned' = 'false' then ', the seed''s signals' else '' end trigger,
               signal, format, decisions.n::int, sum(fired.n)::int, sum(one)::int
        from decisions join {variants} using (variant) join fired using (variant, format) where strategy = 'drop-all' group by all order by all""")]
    n_of = {format: n for _, _, format, n, *_ in found}
    with open(out / "firings.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["trigger", "signal", "format", "decisions", "firings", "of_one_turn", "per_100_decisions", "share_of_one_turn"])
        writer.writerows([*row, told(100 * row[4] / row[3]), told(row[5] / row[4])] for row in found)
    wide = sorted((format for format, n in n_of.items() if n >= MIN_DECISIONS), key=lambda format: (-n_of[format], format))
    yield (f"\n## Firings in 100 decisions\n\nIn brackets the share of events of one turn. Formats of {MIN_DECISIONS} decisions and more; firings.csv has all.\n\n"
           f"| trigger | signal | {' | '.join(wide)} |\n| --- | --- |{' ---: |' * len(wide)}\n| | decisions | {' | '.join(str(n_of[f]) for f in wide)} |")
    by = {(trigger, signal, format): f"{100 * n / decisions:.1f} ({one / n:.2f})" for trigger, signal, format, decisions, n, one in found}
    for trigger, signal in dict.fromkeys((row[0], row[1]) for row in found):
        # A trigger of one signal says it once.
        if signal == "all" or len({row[1] for row in found if row[0] == trigger}) > 2:
            yield f"| `{trigger}` | {signal} | {' | '.join(by.get((trigger, signal, format), '0') for format in wide)} |"


def recalls(run):
    """In how many decisions something came back, and the share of all tokens that were sent."""
    yield "\n## Recalls\n\n| variant | decisions | with recall | share of the tokens sent |\n| --- | ---: | ---: | ---: |"
    for label, n, n_recalled, share in ask(run, """
            with sent as (select variant, sum(n_decisions)::int n, sum(tokens_sent) tokens from {cells} group by variant)
            select label, sent.n, count(*), sum(recalled_tokens) / any_value(sent.tokens) from {recalls} join sent using (variant) join {variants} using (variant)
            group by all order by label"""):
        yield f"| {label} | {n} | {n_recalled} | {share:.4f} |"


def sessions(run):
    """Needs across sessions that were kept: all, and those that the agent found out again."""
    yield "\n## Needs across sessions\n\n| variant | n | kept | random | found again, n | kept | random |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for label, *figures in ask(run, """
            with of as (select variant, stratum, sum(n) n, sum(value * weight) / sum(weight) kept, sum(floor * weight) / sum(weight) random
                        from {scores} where event is null and metric = 'need_retention' and weight > 0
                        and stratum in ('set=exposed tail=0', 'set=exposed tail=0 found=again') group by all)
            select label, a.n, a.kept, a.random, b.n, b.kept, b.random from of a join of b using (variant) join {variants} using (variant)
            where a.stratum like '%tail=0' and b.stratum like '%again' order by a.kept desc, label"""):
        yield f"| {label} | {' | '.join(f'{value}' if i % 3 == 0 else told(value, 3) for i, value in enumerate(figures))} |"


def annotated(made):
    """What is kept of what annotations or readers say that an agent must know."""
    yield "\n## Where truth is known\n\n| strategy | golden: constraints held | n | labelled: recall of spans | precision | n |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    truth = {}
    for name, measures in (("golden-annotated", ["constraint_retention"]), ("labelled", ["salience_recall", "salience_precision"])):
        with open(made / name / "report" / "truth.csv", newline="") as file:
            for row in csv.DictReader(file):
                if row["measure"] in measures:
                    truth.setdefault(row["label"], {})[row["measure"]] = row
    for label, of in sorted(truth.items()):
        cell = lambda measure: told(of[measure]["value"]) + (f" [{told(of[measure]['value_lo'])}, {told(of[measure]['value_hi'])}]" if of[measure]["value_lo"] else "")
        n = lambda measure: of[measure]["n_items"]
        yield (f"| {label} | {cell('constraint_retention')} | {n('constraint_retention')} | {cell('salience_recall')} | {cell('salience_precision')} | "
               f"{n('salience_recall')} |")


def main(made, out):
    rows = [row for name in RUNS for row in rows_of(made / name)]
    with open(out / "rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = [*formats(made, rows), *firings(made, out), *annotated(made), *recalls(made / "experiment"), *sessions(made / "sessions")]
    for run, format in dict.fromkeys((row["run"], row["format"]) for row in rows):
        lines += table([row for row in rows if (row["run"], row["format"]) == (run, format)], f"{run} on {format}")
    (out / "tables.md").write_text("# Tables\n\n*By again.sh, from the rows beside it. Format `annotated` is the golden data.*\n\n" + "\n".join(lines) + "\n")


main(*map(Path, sys.argv[1:]))
