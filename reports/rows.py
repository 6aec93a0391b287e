#!/usr/bin/env python3
"""Keeps the rows of a run beside its report: `python3 reports/rows.py RUN reports/NAME/rows [WITHOUT...]`. Needs pyarrow.

What a report reads stays, packed as small as zstd can; text of the logs (goals, annotations, where they stood), scores of single
events and the tables named WITHOUT go (timeline: two figures need it; what was recalled stays in recalls.parquet). `make figures` draws the
report again from them.
"""
import hashlib
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TABLES = ["variants", "trajectories", "cells", "events", "scores", "timeline"]
TEXT = ["goal", "annotations", "constraints", "source"]
# Columns that no report reads.
UNREAD = {"cells": ["id"], "events": ["turn", "confidence", "tokens_after", "generated_tokens", "model_calls", "embeddings", "model_tokens_cut",
                                      "degenerate", "violations"]}


def main(args):
    if len(args) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    run, out = map(Path, args[:2])
    out.mkdir(parents=True, exist_ok=True)
    for name in (name for name in TABLES if name not in args[2:]):
        table = pq.read_table(run / (name + ".parquet")).drop_columns(UNREAD.get(name, []))
        if name == "scores":
            table = table.filter(pc.is_null(table["event"]))
        if name == "events":
            table = intents(table)
        for i, field in enumerate(table.schema):
            if field.name in TEXT:
                empty = pa.nulls(len(table), field.type) if field.nullable else pa.array([""] * len(table), field.type)
                table = table.set_column(i, field, empty)
        pq.write_table(table, out / (name + ".parquet"), compression="zstd", compression_level=19)
    if "timeline" in args[2:]:
        recalls = pq.read_table(run / "timeline.parquet", columns=["variant", "trajectory", "recalled_tokens"], filters=[("recalled_tokens", ">", 0)])
        if len(recalls):
            pq.write_table(recalls, out / "recalls.parquet", compression="zstd", compression_level=19)
    # Of the manifest a report needs what tokens cost, and the scores of one's own; tests/figures.sh holds the README to the semantics.
    made = json.loads((run / "_manifest.json").read_text())
    kept = {key: made["plan"][key] for key in ("prices", "score_programs") if key in made["plan"]}
    manifest = {"semantics": made["semantics"], "plan": kept, "kept": [about(path) for path in sorted(out.glob("*.parquet"))]}
    (out / "_manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return 0


def intents(events):
    """Of the details of events, which have text of the logs, the intents from which and to which alone."""
    told = [json.loads(d) if kind == "intent" and d else None for kind, d in zip(events["trigger_kind"].to_pylist(), events["details"].to_pylist())]
    kept = pa.array([None if d is None else json.dumps({"from": d["from"], "to": d["to"]}) for d in told], events.schema.field("details").type)
    return events.set_column(events.schema.get_field_index("details"), events.schema.field("details"), kept)


def about(path):
    """What a report checks a table by."""
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"path": path.name, "sha256": sha256, "rows": pq.read_metadata(path).num_rows, "bytes": path.stat().st_size}


sys.exit(main(sys.argv[1:]))
