"""Drives the units of a run over a Ray cluster: ``python -m trajpress.ray experiment.toml --data data --out RUN``.

No rows go through Ray: an actor is one long-lived ``trajpress cluster worker``, which is asked for units by id. What is right is
decided by the files of the run, so any worker may be killed, hang or be asked twice. See docs/cluster.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict, deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Deque, Dict, List, Optional, Tuple

STOPPED = 75
"""Exit code of a driver that was asked to end: started again, it goes on."""
STARTS = 5
"""Workers in a row that do not start, after which nothing is hoped for."""
LATE = ("given to another", "slower than its second copy")


class Died(Exception):
    """The process of a worker has ended."""


class Worker:
    """The actor: one process that does units, several at once where models are asked."""

    def __init__(self, command: List[str], folder: str) -> None:
        self.lock, self.heard = threading.Lock(), tempfile.TemporaryFile()
        self.opened: Future[Dict[str, Any]] = Future()
        self.waiting: Dict[str, Future[Dict[str, Any]]] = {"": self.opened}
        self.ended: Optional[Died] = None
        started = threading.Event()
        # The system ends the process with the thread that started it: this one lives as long.
        threading.Thread(target=self._run, args=(command, folder, started), daemon=True).start()
        started.wait()

    def _run(self, command: List[str], folder: str, started: threading.Event) -> None:
        try:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self.heard, text=True, cwd=folder
            )
            started.set()
            for line in self.process.stdout or []:
                answer = json.loads(line)
                with self.lock:
                    future = self.waiting.pop(answer.get("unit", ""))
                future.set_result(answer)
            code = self.process.wait()
            self.heard.seek(max(0, self.heard.seek(0, os.SEEK_END) - 2000))
            died = Died(f"status {code}: {self.heard.read().decode(errors='replace').strip()}")
        except (OSError, ValueError, KeyError) as error:
            died = Died(repr(error))
        with self.lock:
            self.ended = died
        started.set()
        for future in self.waiting.values():
            future.set_exception(died)

    def ready(self) -> Dict[str, Any]:
        """Waits until its data are open; where it is."""
        self.opened.result()
        return {"host": socket.gethostname(), "pid": self.process.pid}

    def unit(self, unit: str) -> Dict[str, Any]:
        """Does a unit."""
        future: Future[Dict[str, Any]] = Future()
        with self.lock:
            if self.ended:
                raise self.ended
            self.waiting[unit] = future
            try:
                assert self.process.stdin
                self.process.stdin.write(unit + "\n")
                self.process.stdin.flush()
            except OSError:
                pass  # It has ended; the thread that reads tells why.
        return future.result()


@dataclass(eq=False)
class Actor:
    group: str
    handle: Any
    begun: float = field(default_factory=time.monotonic)
    ready: Optional[float] = None
    units: List[str] = field(default_factory=list)
    told: Dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def alone(self, what: str, begun: float, ended: float) -> float:
        """Seconds that were not counted before: units that are done side by side share the time of their slot."""
        counted, self.told[what] = self.told[what], ended
        return max(0.0, ended - max(begun, counted))


class Driver:
    """Hands out units until all are there or given up."""

    def __init__(self, args: argparse.Namespace, ray: Any) -> None:
        self.args, self.ray, self.stopped = args, ray, False
        self.given = [args.experiment, "--out", args.out, *(["--data", args.data] if args.data else []), *args.more]
        self.actors: List[Actor] = []
        self.refs: Dict[Any, Tuple[Actor, str, float]] = {}
        self.todo: Dict[str, Deque[str]] = {}
        self.units: Dict[str, Dict[str, Any]] = {}
        self.attempts: Counter[str] = Counter()
        self.paces: List[float] = []
        self.given_up: Dict[str, str] = {}
        self.told: Counter[str] = Counter()
        self.seconds: Dict[str, float] = defaultdict(float)
        self.failed_starts, self.at_once = 0, 1

    def program(self, *arguments: str) -> Any:
        # What `merge` finds damaged is for whoever reads.
        quiet = [] if arguments[0] == "merge" else ["--quiet"]
        command = [self.args.program, "cluster", *arguments, "--json", *quiet]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode > 1 or not done.stdout:
            sys.exit(2)
        return json.loads(done.stdout)

    def plan(self) -> None:
        """Asks which units are left."""
        args = self.args
        asked = [("--sample", args.sample), ("--budget-hours", args.budget_hours), ("--rates", args.rates)]
        drawn = [word for name, value in asked if value for word in (name, value)]
        planned = self.program("plan", *self.given, *drawn)
        self.at_once = planned["at_once"]
        self.units = {unit["unit"]: unit for unit in planned["status"]["left"]}
        self.todo = {unit["group"]: deque() for unit in self.units.values()}
        for unit in self.units.values():
            self.todo[unit["group"]].append(unit["unit"])

    def staff(self) -> None:
        """Has as many workers as there is room for: nodes come and go."""
        there = self.ray.cluster_resources()
        for group, todo in self.todo.items():
            cpus, gpus = (self.args.cpus, 0.0) if group == "model-free" else (self.args.model_cpus, self.args.gpus)
            of_group = [actor for actor in self.actors if actor.group == group]
            room = int(there.get("GPU", 0) / gpus) if gpus else int(there.get("CPU", 0) / cpus)
            work = len(todo) + sum(bool(actor.units) for actor in of_group)
            for _ in range(min(room, self.args.workers, work) - len(of_group)):
                options = {"num_cpus": cpus, "num_gpus": gpus, "max_concurrency": self.at_once + 1}
                command = [self.args.program, "cluster", "worker", *self.given]
                actor = Actor(group, self.ray.remote(Worker).options(**options).remote(command, os.getcwd()))
                self.actors.append(actor)
                self.refs[actor.handle.ready.remote()] = (actor, "", time.monotonic())
            # Room for other groups.
            if not todo and len(self.todo) > 1:
                for actor in [actor for actor in of_group if actor.ready and not actor.units]:
                    self.dismiss(actor)

    def hand_out(self) -> None:
        for actor in [actor for actor in self.actors if actor.ready]:
            todo = self.todo[actor.group]
            while len(actor.units) < self.at_once and not any(self.attempts[unit] for unit in actor.units):
                # What was tried before is tried alone: whose fault it is, is then known.
                if todo and not (actor.units and self.attempts[todo[0]]):
                    self.ask(actor, todo.popleft())
                elif not todo and (slow := self.slow(actor)):
                    self.told["second copies"] += 1
                    self.ask(actor, slow)
                else:
                    break

    def ask(self, actor: Actor, unit: str) -> None:
        actor.units.append(unit)
        self.refs[actor.handle.unit.remote(unit)] = (actor, unit, time.monotonic())

    def slow(self, actor: Actor) -> Optional[str]:
        """A unit of which an idle worker may make a second copy: it takes longer than three times what nearly all do."""
        pace = sorted(self.paces)[int(0.95 * len(self.paces))] if self.paces else 0.0
        running = Counter(unit for _, unit, _ in self.refs.values() if unit)
        for other, unit, begun in self.refs.values():
            if running[unit] == 1 and other.group == actor.group and other is not actor:
                if time.monotonic() - begun > max(self.args.slow, 3 * pace * self.units[unit]["step_variants"]):
                    return unit
        return None

    def dismiss(self, actor: Actor, outcome: str = "", error: str = "") -> None:
        """Ends a worker. What it was at is tried again, if nobody else is at it."""
        self.actors.remove(actor)
        self.seconds["slots"] += time.monotonic() - actor.begun
        self.ray.kill(actor.handle)
        for ref in [ref for ref, (of, _, _) in self.refs.items() if of is actor]:
            del self.refs[ref]
        for unit in actor.units:
            self.note(unit, outcome, error)
            self.again(unit, error)

    def again(self, unit: str, error: str) -> None:
        self.attempts[unit] += 1
        if any(of == unit for _, of, _ in self.refs.values()) or unit not in self.units:
            return
        if self.attempts[unit] < self.args.attempts:
            self.todo[self.units[unit]["group"]].append(unit)
        else:
            self.given_up[unit] = error
            record = {"unit": unit, "error": error, "attempts": self.attempts[unit]}
            self.write(f"_quarantine/{unit}.json", record)

    def note(self, unit: str, outcome: str, error: str) -> None:
        """What became of an attempt that cannot say it itself."""
        self.told[outcome] += 1
        n = 0
        while (Path(self.args.out) / f"_attempts/{unit}.{n}.json").exists():
            n += 1
        self.write(f"_attempts/{unit}.{n}.json", {"unit": unit, "outcome": outcome, "error": error})

    def write(self, name: str, value: Dict[str, Any]) -> None:
        path = Path(self.args.out) / name
        path.parent.mkdir(exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({**value, "host": socket.gethostname(), "pid": os.getpid()}, indent=2))
        os.replace(new, path)

    def answered(self, ref: Any) -> None:
        actor, unit, begun = self.refs.pop(ref)
        try:
            answer = self.ray.get(ref)
        except self.ray.exceptions.RayError as error:
            died = isinstance(error, self.ray.exceptions.RayTaskError)
            reason = str(error.cause if died else error).strip()
            if not unit and died:
                self.failed_starts += 1
                print(f"a worker did not start: {reason}", file=sys.stderr)
                if self.failed_starts == STARTS:
                    sys.exit(2)
            self.dismiss(actor, "died" if died else "lost", reason)
            return
        now = time.monotonic()
        if not unit:
            actor.ready, self.failed_starts = now, 0
            self.seconds["load"] += now - actor.begun
            return
        actor.units.remove(unit)
        if unit not in self.units:
            return  # Another copy was sooner.
        self.told[answer["outcome"]] += 1
        self.seconds["asked"] += actor.alone("asked", begun, now)
        if answer["outcome"] == "failed":
            self.again(unit, answer.get("reason", ""))
            return
        self.seconds["work"] += actor.alone("work", now - answer["ms"] / 1000, now)
        self.paces.append((now - begun) / max(1, self.units[unit]["step_variants"]))
        self.given_up.pop(unit, None)
        del self.units[unit]
        # Who still is at it hangs, or is too late. One that does others beside it may end them.
        for other in {of for of, name, _ in self.refs.values() if name == unit and of.units == [unit]}:
            self.dismiss(other, *LATE)

    def is_busy(self) -> bool:
        return any(unit in self.units for _, unit, _ in self.refs.values())

    def work(self) -> None:
        looked, told = 0.0, time.monotonic()
        while (set(self.units) - set(self.given_up) and not self.stopped) or self.is_busy():
            now = time.monotonic()
            if now - looked > 1 and not self.stopped:
                looked = now
                self.staff()
            if not self.stopped:
                self.hand_out()
            for actor in {of for of, unit, begun in self.refs.values() if unit and now - begun > self.args.timeout}:
                self.dismiss(actor, "hung", f"no answer in {self.args.timeout} s")
            if self.refs:
                done, _ = self.ray.wait(list(self.refs), num_returns=1, timeout=0.5)
                more, _ = self.ray.wait(list(self.refs), num_returns=len(self.refs), timeout=0)
                for ref in dict.fromkeys([*done, *more]):
                    if ref in self.refs:
                        self.answered(ref)
            else:
                time.sleep(0.2)
            if now - told > 10:
                told = now
                why = "" if self.actors else ": no node has room for one, by --cpus, --model-cpus, --gpus"
                print(f"{len(self.units)} units left, {len(self.actors)} workers{why}", file=sys.stderr)

    def run(self) -> int:
        begun, finished, outcome = time.monotonic(), False, {}
        # Parts that were damaged meanwhile are found when all are joined.
        for _ in range(3):
            self.plan()
            self.work()
            for actor in list(self.actors):
                self.dismiss(actor, *LATE)
            if self.stopped or self.given_up:
                break
            outcome = self.program("merge", *self.given)
            finished = outcome["finished"]
            if finished:
                break
        took = {f"{name}_seconds": round(value, 3) for name, value in self.seconds.items()}
        efficiency = self.seconds["work"] / self.seconds["slots"] if self.seconds["slots"] else None
        told = {"finished": finished, "stopped": self.stopped, "seconds": round(time.monotonic() - begun, 3)}
        print(json.dumps({**told, **took, "efficiency": efficiency, "answers": self.told, "given_up": self.given_up}))
        if self.stopped and not finished:
            return STOPPED
        return 0 if finished and not outcome.get("cells_error") else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trajpress.ray", description="Do a run on a Ray cluster.")
    parser.add_argument("experiment")
    parser.add_argument("--data", help="folder of ingested and annotated data; absolute, as all nodes see it")
    parser.add_argument("--out", required=True, help="folder of the run, on a file system that all nodes share")
    parser.add_argument("--address", help="of the cluster; none starts one on this machine")
    parser.add_argument("--node-ip", help="of this machine, where Ray would take another")
    parser.add_argument("--workers", type=int, default=1 << 20, help="at most so many of a group")
    parser.add_argument("--cpus", type=float, default=1, help="of a worker without a model")
    parser.add_argument("--model-cpus", type=float, default=1, help="of a worker with a model")
    parser.add_argument("--gpus", type=float, default=0, help="of a worker with a model")
    parser.add_argument("--sample", help="draw so many sessions, as `trajpress cluster plan` does")
    parser.add_argument("--budget-hours", help="draw as many sessions as take so many hours, by the rates of --rates")
    parser.add_argument("--rates", help="folder of a run of which the rates are taken")
    parser.add_argument("--attempts", type=int, default=3, help="after so many a unit is put into quarantine")
    parser.add_argument("--slow", type=float, default=10, help="seconds that a unit may take before it is done twice")
    parser.add_argument("--timeout", type=float, default=6 * 3600, help="seconds after which a worker counts as hung")
    parser.add_argument("--program", default=shutil.which("trajpress") or "trajpress", help="trajpress on the nodes")
    parser.epilog = "Behind `--` stand more arguments of `trajpress cluster plan`, `worker` and `merge`: `-- --limit 20`."
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args = parser.parse_args(sys.argv[1:end])
    if min(args.cpus, args.model_cpus) <= 0 or args.gpus < 0 or args.workers < 1:
        parser.error("a worker takes a part of a processor, and there is one at least")
    args.more = sys.argv[end + 1 :]
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        print("error: ray is not installed\nhint: pip install 'trajpress[ray]'", file=sys.stderr)
        return 2
    for name in ("experiment", "data", "out"):
        setattr(args, name, getattr(args, name) and os.path.abspath(getattr(args, name)))
    own = {"_node_ip_address": args.node_ip} if args.node_ip else {}
    ray.init(address=args.address, logging_level="ERROR", log_to_driver=False, **own)
    driver = Driver(args, ray)

    def stop(*_: Any) -> None:
        driver.stopped = True

    # Ray sets its own when it starts.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return driver.run()


if __name__ == "__main__":
    sys.exit(main())
