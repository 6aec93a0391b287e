"""What is read of real logs, by format: counts beside those of their manifests, logged usage beside our own counts, speed of one
core, and the time beside agentpile, a package that parses logs.

    python3 tests/formats.py PROGRAM counts|usage|speed|agentpile [FOLDER]

TRAJPRESS_LOGS and TRAJPRESS_FORMATS name folders with a MANIFEST.tsv each. Needs pyarrow; `agentpile` needs that package.
"""

import collections
import csv
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

COLUMNS = ["user", "assistant", "calls", "results", "compactions"]
MANIFEST = ["user_messages", "assistant_messages", "tool_calls", "tool_results", "compaction_records"]

# Why our counts differ from those of a manifest: by its subformat and the column. What is not here is a fault.
WHY = {
    ("gemini-json", "assistant"): "a reply that was cut before it said anything",
    ("opencode-db", "assistant"): "a message is one turn a step: two calls of the model",
    ("opencode-tree", "*"): "the same session as in the database, counted there",
    ("crush-db", "assistant"): "replies of an error, with nothing to read",
    ("copilot-cli", "user"): "a message of the harness alone (`transformedContent`)",
    ("vscode-json", "*"): "requests without metadata have a turn; one session stands in a journal, too",
    ("vscode-jsonl", "assistant"): "requests without metadata have a turn",
    ("roo-api", "user"): "messages that hold results of tools alone are no words of the user",
    ("roo-ui", "*"): "what the user was shown; the run is read from the messages of the API",
    ("cline-sdk", "*"): "the file of compactions belongs to the session",
    ("codex", "assistant"): "turns with calls alone count as well",
    ("codex", "user"): "messages that the interface shows and the context does not hold",
    ("specstory", "assistant"): "words and the call behind them are one turn",
    ("kimi-cli-wire", "*"): "the same session as in the context beside it",
    ("langfuse", "calls"): "calls in the messages that no observation of a tool repeats",
    ("langfuse", "results"): "results in the messages that no observation of a tool repeats",
    ("spans-list", "assistant"): "an answer of the agent that stands in a later prompt alone",
    ("copilot-otel-db", "*"): "calls beside the sessions (titles, progress) are left out",
    ("otlp-jsonl", "assistant"): "only calls of tools are logged: a turn each",
    ("openai-agents", "assistant"): "a reply whose words are not logged",
    ("claude-code", "user"): "prompts of sub-agents count; interrupted ones and caveats of the program do not",
    ("claude-code", "compactions"): "hollow clearings, that clear nothing",
}

# The same for runs, by the folders of the other manifest.
WHY_RUNS = {
    "aider-chat-history": "sessions in which neither the user nor the model says anything, or that end where they begin",
    "codex-small": "a file of usage alone, and one with nothing said",
    "openhands-events": "sessions that the manifest does not count, and a file of labels",
    "openhands-llm-completions": "two tries of one task",
    "openhands-sdk-v1": "the calls of one conversation are one run",
}


def run(*command, fine=(0,)):
    """The time of the processor and of the clock that a command takes, and what it says."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in fine:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.time() - start, done.stdout


def tables(program, out, *logs):
    import pyarrow.parquet as pq

    run(program, "ingest", *logs, "--out", out, "--fresh", "--quiet")
    report = json.loads((pathlib.Path(out) / "ingest.json").read_text())
    return report, *(pq.read_table(f"{out}/{name}.parquet") for name in ["trajectories", "steps"])


def manifest(folder):
    return list(csv.DictReader((folder / "MANIFEST.tsv").open(), delimiter="\t"))


def by_source(trajectories, steps):
    """What we count, by file."""
    counts, turns = collections.defaultdict(collections.Counter), collections.defaultdict(set)
    columns = ["trajectory", "turn", "role", "kind"]
    for step in steps.select(columns).to_pylist():
        of = counts[step["trajectory"]]
        of["user"] += step["role"] == "user" and step["kind"] == "message"
        of["calls"] += step["kind"] == "action"
        of["results"] += step["kind"] == "observation"
        of["compactions"] += step["kind"] == "compaction"
        if step["role"] == "agent":
            turns[step["trajectory"]].add(step["turn"])
    files = collections.defaultdict(collections.Counter)
    for row in trajectories.select(["trajectory", "source"]).to_pylist():
        files[row["source"]].update(counts[row["trajectory"]])
        files[row["source"]].update(assistant=len(turns[row["trajectory"]]), runs=1)
    return files


def counts(program, out, logs, formats):
    """Compares counts; ends with an error where a difference is not explained."""
    report, trajectories, steps = tables(program, out, formats)
    files, odd = by_source(trajectories, steps), 0
    groups = collections.defaultdict(list)
    for row in manifest(formats):
        # Files that are one run.
        apart = row["path"] if row["subformat"] not in ("opencode-tree", "roo-api", "roo-ui") else ""
        groups[row["subformat"], apart].append(row)
    for (kind, _), rows in sorted(groups.items()):
        got = sum((files[row["path"]] for row in rows if row["path"] in files), collections.Counter())
        for column, name in zip(COLUMNS, MANIFEST):
            told = [int(row[name]) for row in rows if row[name].isdigit()]
            if told and got[column] != sum(told):
                why = WHY.get((kind, column)) or WHY.get((kind, "*"))
                odd += why is None
                print(f"{kind:<18}{rows[0]['path'][:56]:<58}{column:<12}{got[column]:>5} of {sum(told):<5} {why or 'NOT EXPLAINED'}")
    n = len(manifest(formats))
    print(f"{n} files of {formats.name}: {report['trajectories']} runs, {report['rejects']} rejects")
    report, trajectories, _ = tables(program, out, logs)
    told = collections.Counter()
    for row in manifest(logs):
        told[row["source"]] += int(row["n_trajectories"])
    got = collections.Counter(row["source"].split("/")[0] for row in trajectories.select(["source"]).to_pylist())
    again = collections.Counter(row["source"].split("/")[0] for row in report["duplicates"])
    for name, n in sorted(told.items()):
        if got[name] + again[name] != n:
            why = WHY_RUNS.get(name)
            odd += why is None
            print(f"{name:<30}{got[name]:>6} runs and {again[name]} duplicates of {n:<6} {why or 'NOT EXPLAINED'}")
    print(f"{logs.name}: {sum(got.values())} runs and {sum(again.values())} duplicates of {sum(told.values())}, {report['rejects']} rejects")
    print(f"differences that are not explained: {odd}")
    return odd


def usage(program, out, logs, formats):
    """Tokens by the providers' count beside ours, and what of them the logs do not show: medians over runs."""
    import pyarrow.parquet as pq

    _, trajectories, steps = tables(program, out, logs, formats)
    run(program, "annotate", out, "--quiet")
    format_of = {row["trajectory"]: row["format"] for row in trajectories.select(["trajectory", "format"]).to_pylist()}
    rows = pq.read_table(f"{out}/usage.parquet").to_pylist()
    by_format = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        by_format[format_of[row["trajectory"]]][row["trajectory"]].append(row)
    median = lambda values: sorted(values)[len(values) // 2] if values else float("nan")
    print(f"{'format':<22}{'runs':>6}{'calls':>8}{'factor':>8}{'unseen':>8}{'residual':>10}{'unlogged edits':>16}")
    for name, runs in sorted(by_format.items()):
        first = [rows[0] for rows in runs.values()]
        all_rows = [row for rows in runs.values() for row in rows]
        print(
            f"{name:<22}{len(runs):>6}{sum(row['n_calls'] for row in all_rows):>8}{median([row['factor'] for row in first]):>8.2f}"
            f"{median([row['unseen'] for row in all_rows]):>8}{median([row['residual_median'] for row in first]):>10.3f}"
            f"{sum(row['unlogged_edit'] for row in all_rows):>16}"
        )
    costs(program, out, trajectories, steps)


def costs(program, out, trajectories, steps):
    """Costs that logs tell beside what the prices of their models say, as `inspect` prints them: medians over runs."""
    costed = set(steps.filter(pyarrow_is_set(steps, "cost_usd")).column("trajectory").to_pylist())
    ratios = collections.defaultdict(list)
    for row in trajectories.select(["trajectory", "format"]).to_pylist():
        if row["trajectory"] in costed:
            _, _, told = run(program, "inspect", out, row["trajectory"], "--width", "1")
            found = re.search(r"models ([0-9.]+) of that", told)
            ratios[row["format"]] += [float(found[1])] if found else []
            ratios[row["format"], "n"].append(1)
    for name in sorted(key for key in ratios if isinstance(key, str)):
        known = sorted(ratios[name])
        middle = f"{known[len(known) // 2]:.2f}" if known else "no prices known"
        print(f"cost by the model's prices over that of the log, {name}: {middle} (n = {len(known)} of {len(ratios[name, 'n'])} runs)")


def pyarrow_is_set(table, column):
    import pyarrow.compute as pc

    return pc.is_valid(table.column(column))


# What makes a copy of a session another session: ids of 8 hex digits, and years.
IDS = re.compile(rb"\b([0-9a-f]{8})(-[0-9a-f]{4}-)")
YEARS = re.compile(rb'(")20\d\d(-\d\d-\d\dT)')


def copies(path, folder, n_bytes):
    """Copies of a file in a folder, each another session: so many in one file that it is no small one."""
    text = unpacked(path)
    if text.startswith((b"SQLite format 3", b"PK")):
        blocks, n_blocks = [text], max(1, n_bytes // max(len(text), 1 << 18))
    else:
        try:
            # A document a line.
            text = json.dumps(json.loads(text)).encode()
        except ValueError:
            pass
        n_in_one = max(1, (2 << 20) // len(text))
        blocks, n_blocks = [text] * n_in_one, max(1, n_bytes // (n_in_one * len(text)))
    for n in range(n_blocks):
        place = folder / f"{n}"
        place.mkdir(parents=True)
        copy = blocks[0]
        if not copy.startswith((b"SQLite format 3", b"PK")):
            copies = (renamed(text, n * len(blocks) + i) for i, text in enumerate(blocks))
            copy = b"\n".join(copies) + b"\n"
        (place / path.name.removesuffix(".zst")).write_bytes(copy)


def renamed(text, n):
    """A log with other ids and of another year."""
    text = IDS.sub(lambda m: b"%08x" % ((int(m[1], 16) + n) % 2**32) + m[2], text)
    return YEARS.sub(lambda m: m[1] + b"%04d" % (1000 + n % 9000) + m[2], text)


def speed(program, out, logs, formats):
    """MB/s of one core for each format: its largest real file of at most 8 MB, many times, in memory."""
    report, trajectories, _ = tables(program, out, logs, formats)
    largest = {}
    for row in trajectories.select(["source", "format"]).to_pylist():
        top, rest = row["source"].split("/", 1)
        path = (logs if top == logs.name else formats) / rest
        size = path.stat().st_size
        if size <= 8 << 20 and size > largest.get(row["format"], (0, None))[0]:
            largest[row["format"]] = (size, path)
    all_bytes = all_time = 0.0
    for name, (_, path) in sorted(largest.items()):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            folder = pathlib.Path(folder)
            copies(path, folder / "logs", int(os.environ.get("TRAJPRESS_SPEED_MB", "64")) << 20)
            command = [program, "ingest", folder / "logs", "--out", folder / "data", "--threads", "1", "--quiet"]
            # 1: nothing is read of a file by itself.
            cpu, wall, _ = run(*command, fine=[0, 1])
            told = json.loads((folder / "data" / "ingest.json").read_text())
            n, n_runs = told["bytes"] / 1e6, told["trajectories"]
            print(f"{name:<22}{n:>6.0f} MB{told['files']:>6} files{n_runs:>8} runs{n / cpu:>6.0f} MB/s of processor{n / wall:>6.0f} by the clock  {path.name[:50]}", flush=True)
            all_bytes, all_time = all_bytes + n, all_time + cpu
    print(f"all: {all_bytes / all_time:.0f} MB/s of processor, each format with about as many bytes")
    cpu, wall, _ = run(program, "ingest", logs, formats, "--out", out, "--fresh", "--threads", "1", "--quiet")
    print(f"all logs as they are: {report['bytes'] / 1e6 / cpu:.0f} MB/s of processor, {report['bytes'] / 1e6 / wall:.0f} by the clock ({report['bytes'] / 1e6:.0f} MB)")


def agentpile(program, out, logs, formats):
    """Claude Code and ATIF: the time to read, write and count against that of agentpile to parse."""
    import agentpile as package

    for name, kind, folders in KINDS:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            folder = pathlib.Path(folder)
            for path in (path for of in folders for path in sorted((logs / of).iterdir()) if path.is_file()):
                text = unpacked(path)
                for n, text in enumerate([text] if name == "claude-code" else longer(text)):
                    (folder / f"{n}-{path.name.removesuffix('.zst')}").write_bytes(text)
            files = sorted(folder.iterdir())
            n_bytes = sum(path.stat().st_size for path in files)
            n_read, failed, before = 0, [], time.process_time()
            for path in files:
                try:
                    n_read += sum(1 for _ in package.load(str(path), reader=kind))
                except Exception as error:
                    failed.append(f"{path.name}: {error}")
            theirs = time.process_time() - before
            ours = min(run(program, "ingest", folder, "--out", out, "--fresh", "--threads", "1", "--quiet")[0] for _ in range(3))
            told = f"; {len(failed)} files it does not read, as {failed[0][:90]}" if failed else ""
            print(f"{name}: {len(files)} files, {n_bytes / 1e6:.0f} MB: {ours:.2f} s of processor; agentpile {theirs:.2f} s for {n_read} records, {theirs / ours:.1f} times{told}")


# Formats of agentpile, and the folders with such logs.
KINDS = [("claude-code", "claude-code-jsonl", ["claude-code-entire", "claude-code-small"]), ("atif", "atif", ["atif"])]


def longer(text):
    """Forty ATIF documents, each with the steps of this one many times, of the version that agentpile has tested: the real ones are
    too short to time."""
    document = json.loads(text)
    document["schema_version"] = "ATIF-v1.7"
    document.pop("subagent_trajectories", None)
    steps = document["steps"] * (2_000_000 // len(text) + 1)
    for n in range(40):
        document["session_id"] = f"s{n}"
        document["steps"] = [{**step, "step_id": i + 1} for i, step in enumerate(steps)]
        yield json.dumps(document).encode()


def unpacked(path):
    """The bytes of a file that may be packed."""
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout
    return path.read_bytes()


def main():
    program, what = sys.argv[1:3]
    logs, formats = (pathlib.Path(os.environ[name]).resolve() for name in ["TRAJPRESS_LOGS", "TRAJPRESS_FORMATS"])
    out = sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp()
    try:
        sys.exit({"counts": counts, "usage": usage, "speed": speed, "agentpile": agentpile}[what](program, out, logs, formats) or 0)
    finally:
        if len(sys.argv) <= 3:
            shutil.rmtree(out, ignore_errors=True)


main()
