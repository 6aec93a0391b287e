"""What `trajpress ingest` is measured against: json and pyarrow, one thread, the same two tables.

    python3 tests/benches/ingest_reference.py OUT LOGS...

Reads SWE-agent, mini-swe-agent and Claude Code logs (plain or .zst) and writes trajectories.parquet and
steps.parquet (zstd, level 1) with the columns of the program. Prints runs, steps, bytes and seconds. It rejects
nothing, repairs nothing, reports no loss and joins no labels: it does less.
"""

import hashlib
import json
import os
import sys
import time
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

STEP = ["trajectory", "step", "turn", "segment", "message", "role", "kind", "text", "tool", "call_id", "arguments",
        "time", "is_error"]
TRAJECTORY = ["trajectory", "source", "format", "task_id", "repository", "agent", "model", "goal", "n_steps",
              "n_turns", "n_segments", "n_bytes"]
STEP_TYPES = {"step": pa.uint32(), "turn": pa.uint32(), "segment": pa.uint32(), "message": pa.uint32(),
              "time": pa.int64(), "is_error": pa.bool_()}
TRAJECTORY_TYPES = {"n_steps": pa.uint32(), "n_turns": pa.uint32(), "n_segments": pa.uint32(), "n_bytes": pa.uint64()}
PLAIN = {"text", "arguments", "call_id", "goal"}


def text_of(content):
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(b if isinstance(b, str) else b.get("text") or b.get("thinking") or "" for b in content)
    return str(content)


def sweagent(log, add):
    for i, step in enumerate(log.get("history") or []):
        if step.get("is_demo"):
            continue
        role, text = step.get("role"), text_of(step.get("content"))
        if role == "system":
            add(i, "system", "system", text)
        elif role == "assistant":
            calls = step.get("tool_calls")
            if step.get("thought"):
                add(i, "agent", "thought", step["thought"])
            if calls:
                for call in calls:
                    function = call["function"]
                    add(i, "agent", "action", "", function["name"], call.get("id"), function["arguments"])
            else:
                add(i, "agent", "action", "", "bash", None, step.get("action") or text)
        elif role == "tool" or step.get("message_type") == "observation":
            ids = step.get("tool_call_ids") or [None]
            add(i, "environment", "observation", text, None, ids[0])
        else:
            add(i, "user" if i < 3 else "environment", "message" if i < 3 else "observation", text)
    return log.get("environment"), "sweagent", None


def mini(log, add):
    for i, message in enumerate(log.get("messages") or []):
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "system":
            add(i, "system", "system", text)
        elif role == "assistant":
            add(i, "agent", "thought", text)
            for call in message.get("tool_calls") or []:
                function = call["function"]
                add(i, "agent", "action", "", function["name"], call.get("id"), function["arguments"])
        elif role == "tool":
            add(i, "environment", "observation", text, None, message.get("tool_call_id"))
        else:
            add(i, "user" if i < 2 else "environment", "message" if i < 2 else "observation", text)
    info = log.get("info") or {}
    model = (info.get("config") or {}).get("model") or {}
    return log.get("instance_id"), "mini-swe-agent", model.get("model_name")


def claude(lines, add):
    model = session = None
    seen = set()
    for i, raw in enumerate(lines):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if line.get("type") not in ("user", "assistant") or line.get("isSidechain") or line.get("isMeta"):
            continue
        if line.get("uuid") in seen:
            continue
        seen.add(line.get("uuid"))
        session = line.get("sessionId") or session
        when = line.get("timestamp")
        when = int(datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp() * 1e6) if when else None
        message = line.get("message") or {}
        content = message.get("content")
        if line["type"] == "user":
            if isinstance(content, list):
                for block in content:
                    if block.get("type") == "tool_result":
                        add(i, "environment", "observation", text_of(block.get("content")), None,
                            block.get("tool_use_id"), None, when, block.get("is_error"))
                    else:
                        add(i, "user", "message", block.get("text") or "", time=when)
            else:
                add(i, "user", "compaction" if line.get("isCompactSummary") else "message", text_of(content), time=when)
        else:
            model = model or message.get("model")
            for block in content if isinstance(content, list) else [{"type": "text", "text": text_of(content)}]:
                if block.get("type") == "tool_use":
                    add(i, "agent", "action", "", block["name"], block["id"], json.dumps(block["input"]), when)
                else:
                    add(i, "agent", "thought", block.get("text") or block.get("thinking") or "", time=when)
    return session, "claude-code", model


def read(path):
    if path.endswith(".zst"):
        with pa.CompressedInputStream(pa.OSFile(path), "zstd") as stream:
            return stream.read()
    with open(path, "rb") as file:
        return file.read()


class Table:
    """Columns in the making; written in row groups of about eight megabytes of text."""

    def __init__(self, path, names, types):
        self.schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
        self.columns = {name: [] for name in names}
        self.writer = pq.ParquetWriter(path, self.schema, compression="zstd", compression_level=1,
                                       use_dictionary=[n for n in names if n not in PLAIN])
        self.bytes = 0

    def flush(self):
        if self.columns[self.schema.names[0]]:
            arrays = [pa.array(self.columns[f.name], type=f.type) for f in self.schema]
            self.writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
            for column in self.columns.values():
                column.clear()
        self.bytes = 0


def main():
    out, inputs = sys.argv[1], sys.argv[2:]
    os.makedirs(out, exist_ok=True)
    start = time.time()
    paths = sorted(os.path.join(d, f) for top in inputs for d, _, fs in os.walk(top) for f in fs)
    trajectories = Table(os.path.join(out, "trajectories.parquet"), TRAJECTORY, {**TRAJECTORY_TYPES})
    steps = Table(os.path.join(out, "steps.parquet"), STEP, STEP_TYPES)
    n_bytes = n_runs = n_steps = 0
    for path in paths:
        name = path.removesuffix(".zst")
        if not name.endswith((".traj", ".traj.json", ".jsonl", ".json")):
            continue
        raw = read(path)
        rows, turn, segment = [], 0, 0
        hasher = hashlib.blake2b(digest_size=16)

        def add(message, role, kind, text, tool=None, call_id=None, arguments=None, time=None, is_error=None):
            nonlocal turn, segment
            turn += kind == "action"
            segment += kind == "compaction"
            if arguments is not None and not isinstance(arguments, str):
                arguments = json.dumps(arguments)
            text = text.encode("utf-8", "replace").decode()
            hasher.update(text.encode())
            rows.append((turn, segment, message, role, kind, text, tool, call_id, arguments, time, is_error))

        if name.endswith(".jsonl"):
            about, kind = claude(raw.decode("utf-8", "replace").split("\n"), add), "claude-code"
        else:
            log = json.loads(raw)
            if not isinstance(log, dict) or ("history" not in log and "messages" not in log):
                continue
            kind = "sweagent" if "history" in log else "mini-swe-agent"
            about = (sweagent if kind == "sweagent" else mini)(log, add)
        n_bytes += len(raw)
        if not rows:
            continue
        run = hasher.hexdigest()
        goal = next((r[5] for r in rows if r[3] == "user"), None)
        size = sum(len(r[5]) for r in rows)
        for name_, value in zip(TRAJECTORY, (run, path, kind, about[0], None, about[1], about[2], goal, len(rows),
                                             turn, segment + 1, size)):
            trajectories.columns[name_].append(value)
        for i, row in enumerate(rows):
            for name_, value in zip(STEP, (run, i) + row):
                steps.columns[name_].append(value)
        n_runs += 1
        n_steps += len(rows)
        steps.bytes += size
        if steps.bytes > 8 << 20:
            steps.flush()
    for table in (trajectories, steps):
        table.flush()
        table.writer.close()
    seconds = time.time() - start
    print(f"{n_runs} runs, {n_steps} steps, {n_bytes / 1e6:.1f} MB, {seconds:.2f} s, {n_bytes / 1e6 / seconds:.0f} MB/s")


main()
