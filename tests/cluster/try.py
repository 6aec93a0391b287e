"""Tries a run on Ray nodes of this machine while all sorts of things go wrong, and holds its rows against the serial run.

    python3 tests/cluster/try.py PROGRAM [--quick] [SCENE...]

Needs ray and pyarrow on PYTHONPATH. It ends what it has started, by id, and nothing else.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import pyarrow
import pyarrow.parquet

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.argv[1]).resolve())
QUICK = "--quick" in sys.argv
# Where nodes do not even begin, nothing can be tried.
NO_RAY = 3
# Ray makes of 127.0.0.1 the machine's own address.
HEAD, PORT = "127.0.0.2", 6399
TABLES = ["cells", "events", "items", "timeline", "scores"]
EXPERIMENT = """
name = "cluster"
seed = 1
strategies = [
  {{ name = "command", command = ["python3", "{slow}"] }},
  {{ name = "mask", keep_last = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }},
  {{ name = "truncate", keep_last = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }},
]
triggers = [{{ name = "turns", n = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }}]
exclude = [{{ strategy = "command", trigger.n = [1, 2, 3, 4, 6, 7, 8, 9, 10] }}]
"""


def sessions(folder: Path, n: int) -> None:
    """Short sessions, each a unit: so many variants are there."""
    folder.mkdir()
    draw = random.Random(1)
    for session in range(n):
        messages: List[Dict[str, Any]] = [{"role": "user", "content": f"Mend module_{session:02}.py."}]
        for turn in range(7):
            what = json.dumps({"command": f"cat src/part_{draw.randrange(5)}.py"})
            tool = {"id": f"c{turn}", "type": "function", "function": {"name": "bash", "arguments": what}}
            messages.append({"role": "assistant", "content": f"Step {turn}.", "tool_calls": [tool]})
            shown = f"value_{draw.randrange(9)} = {draw.randrange(10**6)}\nsrc/part_{draw.randrange(5)}.py"
            messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": shown})
        (folder / f"{session:02}.json").write_text(json.dumps({"messages": messages}))


def call(*arguments: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, stdout=subprocess.PIPE, check=False, **more)


def below(pid: int) -> List[int]:
    """A process and all that it has started."""
    children = collections.defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(stat.parent.name))
    found = [pid]
    for process in found:
        found.extend(children[process])
    return found


def kill(pids: List[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def wait(what: str, is_so: Callable[[], Any], seconds: float = 60) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := is_so():
            return found
        time.sleep(0.1)
    raise SystemExit(f"error: waited {seconds} s in vain: {what}")


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder, self.nodes = folder, {}
        # Its name misleads: nodes on addresses of the loopback are refused without it.
        self.environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
        # By default what works is nicer than all else on the machine, and starves beside it.
        self.environment["RAY_worker_niceness"] = "0"
        # A token of its own: one that lies in the home folder would be asked of some nodes and not sent by others.
        self.environment.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
        self.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), *sys.path[1:]])

    def start(self, ip: str) -> None:
        own = ["--head", "--port", str(PORT), "--include-dashboard=false", f"--temp-dir={self.folder}"]
        where = own if ip == HEAD else ["--address", f"{HEAD}:{PORT}"]
        ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--block", *where]
        ray += ["--node-ip-address", ip, "--num-cpus", "1", "--object-store-memory", "80000000"]
        log = (self.folder.parent / f"{ip}.log").open("w")
        self.nodes[ip] = subprocess.Popen(ray, env=self.environment, stdout=log, stderr=log)

    def wait(self, ip: str) -> None:
        log = self.folder.parent / f"{ip}.log"
        until = time.monotonic() + 120
        while "will now block" not in log.read_text():
            if self.nodes[ip].poll() is not None or time.monotonic() > until:
                print(f"error: Ray does not begin at {ip}\n{log.read_text()}", file=sys.stderr)
                raise SystemExit(NO_RAY)
            time.sleep(0.1)

    def kill(self, ip: str) -> None:
        kill(below(self.nodes.pop(ip).pid))

    def drive(self, place: "Place", out: str, *more: str) -> subprocess.Popen[str]:
        arguments = [str(place.experiment), "--data", str(place.data), "--out", str(place.at / out), "--program", PROGRAM]
        arguments += ["--address", f"{HEAD}:{PORT}", "--node-ip", HEAD, "--slow", "5", "--", "--no-cache", *more]
        return subprocess.Popen(
            [sys.executable, "-m", "trajpress.ray", *arguments], env=self.environment, text=True, stdout=subprocess.PIPE
        )


class Place:
    def __init__(self, at: Path) -> None:
        self.at, self.data, self.experiment = at, at / "data", at / "experiment.toml"
        sessions(at / "logs", 18 if QUICK else 36)
        assert call("ingest", at / "logs", "--out", self.data, "--quiet").returncode == 0
        shutil.copy(ROOT / "tests/cluster/slow.py", at / "slow.py")
        self.experiment.write_text(EXPERIMENT.format(slow=at / "slow.py"))
        begun = time.monotonic()
        assert call("run", self.experiment, "--data", self.data, "--out", at / "serial", "--threads", 1, "--quiet").returncode == 0
        self.serial_seconds = time.monotonic() - begun
        self.serial = self.digests("serial")

    def digests(self, out: str) -> Dict[str, str]:
        tables = sorted((self.at / out).glob("[a-z]*.parquet"))
        return {table.name: hashlib.sha256(table.read_bytes()).hexdigest() for table in tables}

    def of(self, out: str) -> List[Any]:
        return [self.experiment, "--data", self.data, "--out", self.at / out]

    def published(self, out: str) -> List[Path]:
        return list((self.at / out / "parts/cells").glob("*/*.parquet"))

    def workers(self, out: str) -> List[int]:
        found = []
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = line.read_bytes().decode().split("\0")
            except OSError:
                continue
            if words[1:3] == ["cluster", "worker"] and str(self.at / out) in words:
                found.append(int(line.parent.name))
        return found

    def attempts(self, out: str) -> Dict[str, int]:
        notes = [json.loads(note.read_text()) for note in (self.at / out / "_attempts").glob("*.json")]
        return dict(collections.Counter(note["outcome"] for note in notes))

    def check(self, out: str) -> None:
        """Its rows are those of the serial run, byte for byte; of each planned unit there is one part of each table, and no other."""
        digests = self.digests(out)
        assert digests == self.serial, f"other bytes: {digests} {self.serial}"
        read = pyarrow.parquet.read_table
        planned = read(self.at / out / "_units.parquet").column("unit").to_pylist()
        assert len(planned) == len(set(planned))
        for table in TABLES:
            parts = list((self.at / out / "parts" / table).glob("*/*.parquet"))
            assert sorted(part.stem for part in parts) == sorted(f"u-{unit}" for unit in planned), f"{out}: parts of {table}"
            rows = pyarrow.concat_tables([read(part, partitioning=None) for part in parts])
            assert by_cell(rows) == by_cell(read(self.at / "serial" / f"{table}.parquet")), f"{out}: rows of {table}"
        cells = read(self.at / out / "cells.parquet").select(["trajectory", "variant"]).to_pylist()
        assert len({(cell["trajectory"], cell["variant"]) for cell in cells}) == len(cells)


def by_cell(rows: Any) -> Any:
    """How many rows each cell has, and of the table of cells the rows themselves."""
    if "status" in rows.column_names:
        return sorted(json.dumps(row, default=str) for row in rows.to_pylist())
    counted = rows.select(["trajectory", "variant"]).group_by(["trajectory", "variant"]).aggregate([([], "count_all")])
    return sorted(tuple(row.values()) for row in counted.to_pylist())


def ended(driver: subprocess.Popen[str], code: int) -> Dict[str, Any]:
    try:
        told, _ = driver.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        kill(below(driver.pid))
        raise SystemExit("error: the driver does not end")
    assert driver.returncode == code, f"the driver ended with {driver.returncode}, not {code}: {told}"
    # Ray may say something, too.
    return json.loads([line for line in told.splitlines() if line.startswith("{")][-1])


def some(place: Place, out: str, n: int = 2) -> None:
    wait(f"{n} units of {out}", lambda: len(place.published(out)) >= n, 90)


def undisturbed(cluster: Cluster, place: Place, out: str) -> Any:
    return ended(cluster.drive(place, out), 0)


def node_killed(cluster: Cluster, place: Place, out: str) -> Any:
    driver = cluster.drive(place, out)
    some(place, out)
    cluster.kill("127.0.0.4")
    cluster.start("127.0.0.5")
    return ended(driver, 0)


def driver_killed(cluster: Cluster, place: Place, out: str) -> Any:
    driver = cluster.drive(place, out)
    some(place, out)
    driver.kill()
    driver.wait()
    wait("workers end with their driver", lambda: not place.workers(out))
    assert not (place.at / out / "_SUCCESS").exists()
    return ended(cluster.drive(place, out), 0)


def driver_stopped(cluster: Cluster, place: Place, out: str) -> Any:
    driver = cluster.drive(place, out)
    some(place, out)
    driver.terminate()
    assert ended(driver, 75)["stopped"]
    return ended(cluster.drive(place, out), 0)


def worker_hung(cluster: Cluster, place: Place, out: str) -> Any:
    driver = cluster.drive(place, out)
    some(place, out)
    kill(wait("a worker", lambda: place.workers(out))[:1], signal.SIGSTOP)
    return ended(driver, 0)


def racing(cluster: Cluster, place: Place, out: str) -> Any:
    assert call("cluster", "plan", *place.of(out), "--quiet").returncode == 0
    unit = call("cluster", "status", place.at / out, "--left").stdout.split()[0]
    command = [PROGRAM, "cluster", "unit", *map(str, place.of(out)), unit, "--quiet"]
    four = [subprocess.Popen(command, text=True, stdout=subprocess.PIPE) for _ in range(4)]
    outcomes = [json.loads(one.communicate()[0].splitlines()[-1])["outcome"] for one in four]
    assert outcomes.count("done") == 1 and set(outcomes) <= {"done", "skipped", "lost_race"}, outcomes
    return {**ended(cluster.drive(place, out), 0), "four": outcomes}


def poison(cluster: Cluster, place: Place, out: str) -> Any:
    goals = (place.at / "goals").read_text().splitlines()
    (place.at / "poisonous-goal").write_text(goals[len(goals) // 2])
    told = ended(cluster.drive(place, out), 1)
    (place.at / "poisonous-goal").unlink()
    planned = pyarrow.parquet.read_table(place.at / out / "_units.parquet").num_rows
    n = len(told["given_up"])
    assert n > 0 and len(place.published(out)) == planned - n, told
    assert {record.stem for record in (place.at / out / "_quarantine").glob("*.json")} == set(told["given_up"])
    return {**ended(cluster.drive(place, out), 0), "given_up": n}


def main() -> None:
    begun = time.monotonic()
    # Paths of sockets are short.
    at = Path(tempfile.mkdtemp(prefix="tp-", dir="/tmp"))
    cluster = Cluster(at / "ray")
    # Whoever ends it ends its nodes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        cluster.start(HEAD)
        place = Place(at)
        cluster.wait(HEAD)
        for ip in ("127.0.0.3", "127.0.0.4"):
            cluster.start(ip)
            cluster.wait(ip)
        units = pyarrow.parquet.read_table(at / "serial/_units.parquet").num_rows
        print(f"serial: {units} units in {place.serial_seconds:.1f} s; the rest began after {time.monotonic() - begun:.0f} s")
        scenes = [undisturbed, node_killed, driver_killed, driver_stopped, worker_hung, racing, poison]
        named = [scene for scene in scenes if scene.__name__ in sys.argv]
        for scene in named or (scenes[:3] if QUICK else scenes):
            start = time.monotonic()
            if QUICK and start - begun > 100:
                print(f"SKIPPED: {scene.__name__}: two minutes are nearly over, `make cluster-test` does all", flush=True)
                continue
            told = scene(cluster, place, scene.__name__)
            place.check(scene.__name__)
            assert not told["efficiency"] or told["efficiency"] <= 1, told
            efficiency = f", {100 * told['efficiency']:.0f} % of the slots' time is work" if told["efficiency"] else ""
            attempts = ", ".join(f"{name} {n}" for name, n in sorted(place.attempts(scene.__name__).items()))
            print(f"{scene.__name__}: rows equal; {time.monotonic() - start:.1f} s{efficiency}; attempts: {attempts}; {told}", flush=True)
        print(f"ok: all rows are those of the serial run, {time.monotonic() - begun:.0f} s in all")
    finally:
        for ip in list(cluster.nodes):
            cluster.kill(ip)
        if "--keep" not in sys.argv:
            shutil.rmtree(at, ignore_errors=True)


if __name__ == "__main__":
    main()
