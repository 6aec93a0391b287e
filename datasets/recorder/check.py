#!/usr/bin/env python3
"""Checks the built-in data: `python3 datasets/recorder/check.py [DIR]`, exit code 1 on any error."""
import json
import sys
from pathlib import Path

INTENTS = {"explore", "debug", "implement", "verify", "document", "refactor"}
KINDS = {"goal", "constraint", "artifact", "continuation", "decision"}
TYPES = {"goal", "constraint", "decision", "fact", "tool_output"}
FIELDS = {"goal", "goal_changes", "constraints", "salient", "compression_points", "intents", "subtask_ends", "probes", "superseded"}


def turn_ends(messages):
    """Indices after which a history may be cut: nothing unanswered before, no tool result after."""
    open_calls, ends = set(), set()
    for k, m in enumerate(messages):
        open_calls |= {c["id"] for c in m.get("tool_calls") or ()}
        if m["role"] == "tool":
            open_calls.discard(m["tool_call_id"])
        if m["role"] in ("assistant", "tool") and not open_calls:
            ends.add(k)
    return ends


def check_messages(messages, err, mini=False):
    calls, turns = {}, 0
    for k, m in enumerate(messages):
        if not isinstance(m.get("content"), str):
            err("message %d: content is no string" % k)
        turns += m["role"] == "assistant"
        for c in m.get("tool_calls") or ():
            if not isinstance(json.loads(c["function"]["arguments"]), dict):
                err("message %d: arguments are no object" % k)
            if c["id"] in calls:
                err("message %d: call id twice: %s" % (k, c["id"]))
            calls[c["id"]] = False
        if m["role"] == "tool":
            if calls.get(m["tool_call_id"]) is not False:
                err("message %d: result without a call" % k)
            calls[m["tool_call_id"]] = True
        if m["role"] not in ("system", "user", "assistant", "tool") + (("exit",) if mini else ()):
            err("message %d: role %r" % (k, m["role"]))
        if "trajpress-rec-" in m["content"]:
            err("message %d: a path of the recording machine" % k)
    missing = [c for c, answered in calls.items() if not answered]
    if len(missing) > (1 if mini else 0):
        err("calls without result: %s" % missing)
    return turns


def check_annotations(messages, notes, err):
    n, ends, raw = len(messages), turn_ends(messages), [m["content"].encode("utf-8") for m in messages]
    text = "\n".join(m["content"] + json.dumps(m.get("tool_calls", ""), ensure_ascii=False) for m in messages)

    def step(item, what):
        if not (isinstance(item["step"], int) and 0 <= item["step"] < n):
            err("%s: step %r out of range" % (what, item["step"]))
            return False
        return True

    for name in set(notes) - FIELDS:
        err("unknown annotation %r" % name)
    if "goal" in notes and notes["goal"] not in text:
        err("goal is not in the text")
    for g in notes.get("goal_changes", ()):
        if step(g, "goal_changes") and g["text"] not in messages[g["step"]]["content"]:
            err("goal change not in message %d" % g["step"])
    ids = [c["id"] for c in notes.get("constraints", ())]
    if len(set(ids)) != len(ids):
        err("constraint ids repeat: %s" % ids)
    for c in notes.get("constraints", ()):
        if step(c, "constraint") and c["text"] not in messages[c["step"]]["content"]:
            err("constraint %s not in message %d" % (c["id"], c["step"]))
        if not c["category"]:
            err("constraint %s: no category" % c["id"])
    for s in notes.get("salient", ()):
        if not step(s, "salient"):
            continue
        if not 0 <= s["start"] < s["end"] <= len(raw[s["step"]]):
            err("salient %r: offsets out of range" % s)
            continue
        try:
            quote = raw[s["step"]][s["start"]:s["end"]].decode("utf-8")
        except UnicodeDecodeError:
            err("salient %r: cuts a character" % s)
            continue
        if "text" in s and s["text"] != quote:
            err("salient at message %d: text %r, slice %r" % (s["step"], s["text"], quote))
        if s["type"] not in TYPES:
            err("salient type %r" % s["type"])
    for name in ("compression_points", "subtask_ends"):
        points = notes.get(name, [])
        if points != sorted(set(points)):
            err("%s not ascending" % name)
        for p in points:
            if p not in ends:
                err("%s: %r is not the last message of a turn" % (name, p))
    for i in notes.get("intents", ()):
        if step(i, "intents") and messages[i["step"]]["role"] != "assistant":
            err("intent on a message that is not the assistant's: %d" % i["step"])
        if i["intent"] not in INTENTS:
            err("intent %r" % i["intent"])
    for p in notes.get("probes", ()):
        step(p, "probe")
        if p["kind"] not in KINDS:
            err("probe kind %r" % p["kind"])
        if len(p["choices"]) < 2 or len(set(p["choices"])) != len(p["choices"]) or p["answer"] not in p["choices"]:
            err("probe %r: answer must be one of at least two distinct choices" % p["question"])
    for s in notes.get("superseded", ()):
        if step(s, "superseded"):
            before = "\n".join(m["content"] + json.dumps(m.get("tool_calls", ""), ensure_ascii=False) for m in messages[:s["step"] + 1])
            if s["old"] not in before or s["new"] not in before:
                err("superseded %r: old or new value is not in the text up to message %d" % (s["key"], s["step"]))


def check_file(path, errors):
    """Returns [(id, kind, turns, repository)]."""
    rows = []

    def err(text):
        errors.append("%s: %s" % (path, text))
    try:
        data = path.read_bytes().decode("utf-8")
        if path.name.endswith(".traj.json"):
            d = json.loads(data)
            turns = check_messages(d["messages"], err, mini=True)
            if d["trajectory_format"] != "mini-swe-agent-1.1" or not d["instance_id"] or d["messages"][-1]["role"] != "exit":
                err("not a complete mini-swe-agent 1.1 file")
            return [(d["instance_id"], "mini-swe-agent 1.1", turns, d["info"]["repository"])]
        for number, text in enumerate(data.rstrip("\n").split("\n"), 1):
            d = json.loads(text)

            def line_err(e, number=number):
                err("line %d: %s" % (number, e))
            for key in ("task_id", "repository", "agent", "model", "messages"):
                if key not in d:
                    line_err("no %s" % key)
            turns = check_messages(d["messages"], line_err)
            if "annotations" in d:
                check_annotations(d["messages"], d["annotations"], line_err)
            rows.append((d["task_id"], "annotated" if "annotations" in d else "chat JSONL", turns, d["repository"]))
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as e:
        err("%s: %s" % (type(e).__name__, e))
    return rows


def main():
    base = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    errors, rows, ids = [], [], set()
    files = [f for d in ("coding", "support", "templates") for f in sorted((base / d).glob("*")) if f.suffix in (".json", ".jsonl")]
    for file in files:
        for row in check_file(file, errors):
            if row[0] in ids:
                errors.append("%s: id twice: %s" % (file, row[0]))
            ids.add(row[0])
            rows.append((file.relative_to(base).as_posix(),) + row)
    if not rows:
        errors.append("no data under %s" % base)
    for row in rows:
        print("| %s | %s | %s | %d | %s |" % row)
    for e in errors:
        print("error: %s" % e, file=sys.stderr)
    print("%d files, %d runs, %d errors" % (len(files), len(rows), len(errors)), file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
