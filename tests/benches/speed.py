"""How fast the program is, beside the kept tables: python3 tests/benches/speed.py PROGRAM [--keep] [--beside OTHER] [PART ...]

With another build of the program both are measured in turn, row by row, and the ratio is to that one. Parts: strategies, grid, growth, memory, ingest, report; all where none is named. Each prints a table with the ratio of each figure to
the kept one (reports/speed/PART.csv; over 1 is better now), which `--keep` replaces. Speed is by time on the processor, of one thread,
so that what else runs disturbs it little. TRAJPRESS_LOGS names a folder of real logs, of which every sixth file is read; without
it, and for growth, memory and report, logs are made up, and no ratio is told of other logs than the kept ones.
"""

import csv
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "reports" / "speed"
# By name: the variants, which differ by the turns that are left alone, and their number.
TRIGGERS = {"n=10": ("n = 10\nkeep = [5, 6, 7, 8]", 4), "n=1": ("n = 1\nkeep = [0, 1]", 2)}
# Those that need a model or a program, compress nothing, or go with one trigger alone.
LEFT_OUT = {"command", "full", "as-sent", "logged"}
RATING = ["salience", "protected-core", "core-notes", "prune-importance", "tri-level"]
OTHERS = ["tiered", "notes", "anchored", "codex", "summary", "hierarchical", "tool-log"]


def run(*command, to=subprocess.DEVNULL):
    """Seconds of the processor and of the clock, and MB at most, that a command takes."""
    start = time.monotonic()
    process = subprocess.Popen([*map(str, command)], stdout=to)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, time.monotonic() - start, used.ru_maxrss / 1e3


def least(command, times=2):
    """The best of several tries of what is fast; what takes long is tried once."""
    tries = [run(*command)]
    while len(tries) < times and tries[0][0] < 4:
        tries.append(run(*command))
    return tuple(map(min, zip(*tries)))


def experiment(path, strategies, trigger):
    names = [("full", ""), *strategies] if strategies else [("full", "")]
    text = "".join(f'[[strategies]]\nname = "{name}"\n{params}\n' for name, params in names)
    path.write_text(f'name = "speed"\n{text}[[triggers]]\nname = "turns"\n{trigger}\n')
    return path


class Bench:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.logs, self.data, self.n_steps, self.n_logs = "", None, 0, 0

    def read(self, *logs, name="data"):
        """A dataset of these files."""
        data = self.folder / name
        run(self.program, "ingest", *logs, "--out", data, "--fresh", "--quiet")
        run(self.program, "annotate", data, "--quiet")
        told = json.loads((data / "annotate.json").read_text())
        self.n_logs = told["n_trajectories"]
        return data, told["n_steps"]

    def real(self):
        """The logs that strategies are measured over, read once."""
        if self.data is None:
            if logs := os.environ.get("TRAJPRESS_LOGS"):
                files = sorted(path for path in pathlib.Path(logs).resolve().glob("*/*") if path.is_file())
                files = [path for path in files if path.parent.name != "LICENSES"][::6]
                self.logs = "real logs"
            else:
                print("SKIPPED: TRAJPRESS_LOGS names no folder of real logs; made up ones stand for them")
                files = [made(self.folder / "made.jsonl", 40, 400)]
                self.logs = "made up logs"
            self.data, self.n_steps = self.read(*files)
        return self.data, self.n_steps

    def over(self, data, strategies, trigger, threads=1, times=2):
        """Seconds and MB of a run of these strategies, beside the baseline that compresses nothing."""
        plan = experiment(self.folder / "plan.toml", strategies, trigger)
        return least([self.program, "run", plan, "--data", data, "--out", self.folder / "run", "--threads", threads, "--fresh", "--quiet"], times)

    def strategies(self):
        """Step-variants a second of one core for each strategy, with shadows, partners and scores: what it adds to a run."""
        data, n_steps = self.real()
        told = json.loads(subprocess.check_output([self.program, "list", "strategies", "--json"]))
        bare, *_ = self.over(data, [], "n = 10")
        for name in (one["name"] for one in told if one["name"] not in LEFT_OUT):
            of = {}
            for trigger, (params, n_variants) in TRIGGERS.items():
                cpu, *_ = self.over(data, [(name, "")], params)
                of[trigger] = round(n_steps * n_variants / max(cpu - bare, 0.01))
            yield {"strategy": name, "logs": self.logs, **of, "n=10 over n=1": round(of["n=10"] / of["n=1"], 1)}

    def grid(self):
        """Grids of strategies that write or rate, all of a run: by the clock and the processor of two threads; and by arithmetic
        the core hours of a million logs like these."""
        data, n_steps = self.real()
        for name, strategies in [("twelve", OTHERS + RATING), ("those that rate no statements", OTHERS)]:
            cpu, clock, peak = self.over(data, [(one, "") for one in strategies], "n = 10\nkeep = 5", threads=2)
            n = n_steps * (len(strategies) + 1)
            rates = {"a second of two cores": round(n / cpu * 2), "a second by the clock": round(n / clock)}
            yield {"grid": name, "logs": self.logs, **rates, "MB": round(peak), "core hours": round(cpu / self.n_logs * 1e6 / 3600, 1)}

    def growth(self):
        """Step-variants a second of one core, by the messages of a log."""
        sizes = [100, 1_000, 5_000, 20_000]
        rows = {name: {"strategy": name, "logs": "made up logs"} for name in ["mask", "random", *OTHERS, *RATING]}
        for size in sizes:
            n_logs = max(1, 4_000 // size)
            data, n_steps = self.read(made(self.folder / "made.jsonl", n_logs, size), name="made")
            bare, *_ = self.over(data, [], "n = 10", times=1)
            for name, row in rows.items():
                cpu, *_ = self.over(data, [(name, "")], "n = 10\nkeep = 5", times=1)
                row[f"{size} messages"] = round(n_steps / max(cpu - bare, 0.01))
        yield from rows.values()

    def memory(self):
        """Peak of a run with two threads, over logs and many times as many of the same kind."""
        for times in [1, 3, 10]:
            data, n_steps = self.read(made(self.folder / "made.jsonl", 40 * times, 200), name="made")
            strategies = [(name, "") for name in ["mask", "summary", "notes", "tiered", "salience"]]
            _, _, peak = self.over(data, strategies, "n = 10\nkeep = 5", threads=2, times=1)
            yield {"logs": f"{40 * times} of 200 messages", "steps": n_steps, "MB": round(peak)}

    def ingest(self):
        """MB a second of the processor: beside a script with json and pyarrow (its start included), format by format, and beside
        agentpile where it is installed."""
        logs = os.environ.get("TRAJPRESS_LOGS")
        if not logs:
            return print("SKIPPED: TRAJPRESS_LOGS names no folder of real logs")
        folders = [path for path in sorted(pathlib.Path(logs).resolve().iterdir()) if re.match("sweagent|mini-swe-agent|claude-code", path.name)]
        script = ROOT / "tests" / "benches" / "ingest_reference.py"
        with (self.folder / "told").open("w") as told:
            theirs, *_ = run(sys.executable, script, self.folder, *folders, to=told)
        n_bytes = float(re.search(r"([0-9.]+) MB, ", (self.folder / "told").read_text())[1])
        ours, *_ = least([self.program, "ingest", *folders, "--out", self.folder / "logs", "--fresh", "--quiet", "--threads", 1])
        yield {"what": "all of the script", "MB a second": round(n_bytes / ours), "times json and pyarrow": round(theirs / ours, 2)}
        if "TRAJPRESS_FORMATS" not in os.environ:
            return print("SKIPPED: formats and agentpile, for TRAJPRESS_FORMATS names no folder of logs by format")
        formats = [sys.executable, ROOT / "tests" / "formats.py", self.program]
        for line in subprocess.check_output([*formats, "speed"], text=True).splitlines():
            if found := re.match(r"(\S+) .* runs\s+(\d+) MB/s", line):
                yield {"what": found[1], "MB a second": int(found[2])}
        done = subprocess.run([*formats, "agentpile"], text=True, capture_output=True)
        print(done.stdout if done.returncode == 0 else "SKIPPED: agentpile is not installed")

    def report(self):
        """Seconds to report 200 variants of 500 logs."""
        data, _ = self.read(made(self.folder / "made.jsonl", 500, 20), name="made")
        plan = experiment(self.folder / "plan.toml", [("mask", f"keep_last = {list(range(20))}")], f"n = {list(range(1, 11))}")
        run(self.program, "run", plan, "--data", data, "--out", self.folder / "run", "--fresh", "--quiet")
        cpu, clock, peak = run(self.program, "report", self.folder / "run", "--out", self.folder / "report", "--quiet")
        yield {"what": "report of 200 x 500", "seconds of the processor": round(cpu, 1), "by the clock": round(clock, 1), "MB": round(peak)}


def made(path, n_logs, n_messages):
    """Writes logs of an agent that reads, edits and tests files, each with other words."""
    rng = random.Random(1)
    parts = ["order", "parser", "report", "cache", "token", "index", "queue", "worker", "total", "price", "reader", "engine"]
    word = lambda: f"{rng.choice(parts)}_{rng.choice(parts)}{rng.randrange(99)}"
    with path.open("w") as file:
        for number in range(n_logs):
            messages = [{"role": "user", "content": f"Task {number}: find out why {word()} fails. Never edit tests/{word()}.py."}]
            for turn in range(n_messages // 2):
                name = f"src/{word()}.py"
                command = rng.choice([f"cat {name}", f"pytest tests/{word()}.py", f"sed -i s/{word()}/{word()}/ {name}", f"grep -rn {word()} src"])
                call = {"id": f"c{turn}", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
                say = f"I look at {name}, since {word()} calls {word()} there. We decided to keep {word()}."
                messages.append({"role": "assistant", "content": say, "tool_calls": [call]})
                lines = (f"    {word()} = {word()}({word()}, limit={rng.randrange(9999)})  # see src/{word()}.py:{rng.randrange(999)}" for _ in range(8))
                messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": "\n".join(lines)})
            file.write(json.dumps({"task_id": f"t{number}", "messages": messages}) + "\n")
    return path


# Columns in which less is better.
COSTS = ("MB", "core hours", "seconds of the processor", "by the clock", "n=10 over n=1")
PARTS = ["strategies", "grid", "growth", "memory", "ingest", "report"]


def beside(row, before):
    """The row with the ratio of each figure to that of another."""
    cells = [f"{next(iter(row.values())):<32}"]
    for column, value in list(row.items())[1:]:
        text = str(value)
        if isinstance(value, (int, float)) and before.get(column):
            ratio = max(float(value), 1e-9) / max(float(before[column]), 1e-9)
            text += f" ({1 / ratio if column in COSTS else ratio:.2f})"
        cells.append(f"{column}: {text}")
    return "  ".join(cells)


def key(row):
    """What a row is of. Rows of other logs are no measure."""
    return str(next(iter(row.values()))), row.get("logs")


def keep_rows(path, rows):
    columns = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    program, *asked = sys.argv[1:]
    keep = "--keep" in asked
    other = asked[asked.index("--beside") + 1] if "--beside" in asked else None
    parts = [one for one in asked if one in PARTS] or PARTS
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as folder_of_other:
        bench = Bench(pathlib.Path(program).resolve(), folder)
        bench_of_other = other and Bench(pathlib.Path(other).resolve(), folder_of_other)
        for part in parts:
            path, rows = KEPT / f"{part}.csv", []
            print(f"== {part}: {getattr(Bench, part).__doc__}", flush=True)
            kept = {} if other or not path.exists() else {key(row): row for row in csv.DictReader(path.open())}
            of_other = getattr(bench_of_other, part)() if other else None
            for row in getattr(bench, part)():
                rows.append(row)
                before = next(of_other) if other else kept.get(key(row), {})
                print(beside(row, before), flush=True)
            if keep and rows:
                keep_rows(path, rows)


if __name__ == "__main__":
    main()
