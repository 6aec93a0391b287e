"""What strategy `command` costs: python3 tests/benches/command.py target/release/trajpress

Runs made logs under a built-in strategy that changes nothing, and under programs that change nothing: the difference by event, three times
each, the least of each, with a scope of one turn and of twenty; then eight workers in Python on so many cores as there are, with the peak memory of all processes together.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PLAIN = """import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "protocol" in asked:
        answer = {"protocol": 1, "name": "nothing", "version": "1"}
    else:
        answer = {"event": asked["event"], "edits": []}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""
PACKAGE = """import trajpress

@trajpress.strategy(version="1")
def nothing(event):
    return event.messages

trajpress.main()
"""
STRATEGIES = {
    "built-in": 'name = "clip-arguments"\nlonger_than = 1000000',
    "program": 'name = "command"\ncommand = ["python3", "plain.py"]',
    "package": 'name = "command"\ncommand = ["python3", "package.py"]',
}
LOGS, TURNS = 16, 400


def log(number: int) -> str:
    messages = [{"role": "user", "content": f"Task {number}: find out why the job fails."}]
    for turn in range(TURNS):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": f"cat part{turn}.py"})}}
        messages.append({"role": "assistant", "content": "I look at the next file.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": f"value_{turn} = compute(order, limit={number})\n" * 12})
    return json.dumps({"messages": messages})


def memory(root: int) -> tuple:
    """KiB that a process and all that it started hold (what they share counts once), and how many it started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    family = {root}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for process in family:
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total, len(family) - 1


def processors() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(trajpress: str, strategy: str, threads: int, turns: int = 1) -> tuple:
    """Seconds, those of processors (the programs' among them); KiB and programs at most."""
    # A grid, so that there is work for all threads.
    more = f"kept_share = {[n / 10 for n in range(1, 9)]}" if threads > 1 else ""
    text = f'name = "x"\n[[strategies]]\n{STRATEGIES[strategy]}\n{more}\n[[triggers]]\nname = "turns"\nn = {turns}\n'
    Path("x.toml").write_text(text)
    command = [trajpress, "run", "x.toml", "--data", "data", "--out", "run", "--threads", str(threads), "--fresh", "--quiet"]
    start, before = time.monotonic(), processors()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    peak = [0, 0]

    def watch() -> None:
        while process.poll() is None:
            peak[:] = map(max, peak, memory(process.pid))
            time.sleep(0.2)

    if threads > 1:
        threading.Thread(target=watch, daemon=True).start()
    assert process.wait() == 0
    return time.monotonic() - start, processors() - before, peak


def main() -> None:
    trajpress = str(Path(sys.argv[1]).resolve())
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "python")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("logs.jsonl").write_text("".join(log(number) + "\n" for number in range(LOGS)))
        Path("plain.py").write_text(PLAIN)
        Path("package.py").write_text(PACKAGE)
        subprocess.run([trajpress, "ingest", "logs.jsonl", "--out", "data", "--quiet"], check=True, stderr=subprocess.DEVNULL)
        subprocess.run([trajpress, "annotate", "data", "--quiet"], check=True, stderr=subprocess.DEVNULL)
        for turns in (1, 20):
            events = LOGS * ((TURNS - 1) // turns)
            least = {name: [min(all) for all in zip(*(run(trajpress, name, 1, turns)[:2] for _ in range(3)))] for name in STRATEGIES}
            for name, both in least.items():
                over = [(mine - ours) / events * 1000 for mine, ours in zip(both, least["built-in"])]
                print(f"{name}: {both[0]:.2f} s for {events} events of {turns} turns; over the built-in one {over[0]:.3f} ms an event, {over[1]:.3f} of processors")
        seconds, _, (peak, programs) = run(trajpress, "package", 8)
        print(f"{programs} workers in Python on {os.cpu_count()} cores: {seconds:.2f} s, peak {peak / 1024:.0f} MiB of all processes")
        os.chdir("/")


main()
