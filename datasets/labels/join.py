#!/usr/bin/env python3
"""Labels and logs make the annotated form: `join.py --logs DIR [FILE.jsonl ...] > labelled.jsonl`.

Without a FILE, swe.jsonl and products.jsonl. DIR is the folder that `source` of a row counts from; without `--logs`, that of
TRAJPRESS_LOGS. The labels hold no text of the logs, only where it stands; a row whose log is missing or changed is left out and told.
Exit code 1 if a row was left out.
"""
import argparse
import hashlib
import importlib
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What a file's name ends with -> who makes messages of its logs; second-NAME.jsonl holds second readings.
CONVERTERS = {"swe": "convert", "products": "convert_products"}


class Left(Exception):
    """Why a row has no place in the output."""


def rows(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]


def converter(path):
    sys.path.insert(0, str(HERE))
    return importlib.import_module(CONVERTERS[Path(path).stem.split("-")[-1]])


def messages_of(row, logs, convert):
    """The messages that a row speaks of, if the log is the one that was labelled."""
    log = Path(logs) / row["source"]
    if not log.is_file():
        raise Left("no such log")
    if hashlib.sha256(log.read_bytes()).hexdigest() != row["sha256"]:
        raise Left("the log has changed")
    messages = convert(str(log), row.get("run"))
    if len(messages) != row["messages"]:
        raise Left("%d messages, labelled with %d" % (len(messages), row["messages"]))
    return messages


def slice_of(messages, span):
    text = messages[span["message"]]["content"][span["start"]:span["end"]]
    if hashlib.sha256(text.encode()).hexdigest()[:8] != span["sha256"]:
        raise Left("other text at message %(message)d, %(start)d to %(end)d" % span)
    return text


def salient(messages, span):
    """A span of the annotated form, whose offsets count bytes."""
    content, text = messages[span["message"]]["content"], slice_of(messages, span)
    start = len(content[:span["start"]].encode())
    return {"step": span["message"], "start": start, "end": start + len(text.encode()), "type": span["type"], "text": text,
            "points": span["points"], "used_later": span["used_later"]}


def join(row, messages):
    spans = [salient(messages, s) for s in row["spans"]]
    rules = [s for s in spans if s["type"] == "constraint"]
    goals = [s for s in spans if s["type"] == "goal"]
    name = Path(row["source"]).name.split(".")[0] + ("" if row.get("run") is None else "#%s" % row["run"])
    return {
        "task_id": name, "repository": row["repository"], "agent": row["agent"], "source_path": row["source"], "messages": messages,
        "annotations": {
            "goal": goals[0]["text"] if goals else None,
            "goal_changes": [{"step": c["message"], "text": slice_of(messages, c)} for c in row.get("goal_changes", [])],
            "constraints": [{"id": "C%d" % n, "text": s["text"], "step": s["step"]} for n, s in enumerate(rules, 1)],
            "salient": spans, "compression_points": row["points"], "subtask_ends": row.get("subtask_ends", []), "superseded": []}}


def main(args):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", default=os.environ.get("TRAJPRESS_LOGS"))
    parser.add_argument("files", nargs="*", default=[str(HERE / f) for f in ("swe.jsonl", "products.jsonl") if (HERE / f).is_file()])
    given = parser.parse_args(args)
    if not given.logs:
        parser.error("no folder of logs\nhint: name it by --logs or TRAJPRESS_LOGS")
    done, left = 0, 0
    for file in given.files:
        convert = converter(file).convert
        for row in rows(file):
            try:
                print(json.dumps(join(row, messages_of(row, given.logs, convert)), ensure_ascii=False))
                done += 1
            except Left as reason:
                print("left out: %s %s: %s" % (row["source"], row.get("run", ""), reason), file=sys.stderr)
                left += 1
    print("%d logs joined, %d left out" % (done, left), file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
