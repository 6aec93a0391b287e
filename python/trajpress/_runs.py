"""Runs of the program ``trajpress`` and their tables."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Deque, List, Literal, Optional, Union, overload

if TYPE_CHECKING:
    import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import polars  # type: ignore[import-not-found,unused-ignore]

PathLike = Union[str, "os.PathLike[str]"]


def _program() -> str:
    """The program of this wheel, or else the one that is found first."""
    own = Path(sysconfig.get_path("scripts")) / ("trajpress.exe" if os.name == "nt" else "trajpress")
    found = str(own) if own.is_file() else shutil.which("trajpress")
    if found is None:
        raise FileNotFoundError("the program `trajpress` is not there: install the wheel `trajpress`")
    return found


class Failed(subprocess.CalledProcessError):
    """The program ended with another status than 0; the error ends with its last lines, which are ``stderr``, too."""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.stderr}".rstrip()


def _call(*arguments: str) -> None:
    """Runs the program. What it says goes through ``sys.stderr``: a notebook shows nothing else."""
    command = [_program(), *arguments]
    last: Deque[str] = deque(maxlen=40)
    out = subprocess.PIPE
    with subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace") as process:
        try:
            for line in process.stdout or []:
                last.append(line)
                sys.stderr.write(line)
        except BaseException:
            # Who interrupts a notebook does not reach it. It ends the programs that it started.
            process.terminate()
            raise
    if process.returncode:
        raise Failed(process.returncode, command, stderr="".join(last))


def run(
    experiment: PathLike,
    data: PathLike,
    out: PathLike = "run",
    *,
    threads: int = 0,
    limit: Optional[int] = None,
    fresh: bool = False,
    replace: bool = False,
) -> Path:
    """Replays an experiment over data, or goes on where that was stopped; gives the folder of the run.

    :param experiment: the experiment, a file in TOML.
    :param data: the folder that ``trajpress ingest`` has made.
    :param out: the folder of the run.
    :param threads: how many threads work; 0 is one a core.
    :param limit: how many trajectories are taken, the first; all if none is given.
    :param fresh: whether another run that stands in ``out`` is deleted. Else it is an error.
    :param replace: whether this run takes its place, and takes over the rows that both have.
    :raises Failed: it could not be run, or some trajectories failed (status 1); the error says why.
    """
    command = ["run", os.fspath(experiment), "--data", os.fspath(data), "--out", os.fspath(out), "--threads", str(threads)]
    if limit is not None:
        command += ["--limit", str(limit)]
    command += ["--fresh"] * fresh + ["--replace"] * replace
    _call(*command)
    return Path(out)


def report(
    run: PathLike,
    out: Optional[PathLike] = None,
    *,
    population: Literal["these", "other"] = "other",
    baseline: Optional[str] = None,
) -> Path:
    """Makes the tables and figures of a run; gives their folder, of which :func:`read` reads ``summary``, ``own`` and others.

    :param run: the folder of the run.
    :param out: the folder of the report; ``report`` in that of the run, if none is given.
    :param population: of which logs intervals speak: more of ``these`` repositories, or of ``other`` ones.
    :param baseline: the strategy or label that the others are compared with; the program chooses, if none is given.
    :raises Failed: it could not be made; the error says why.
    """
    folder = Path(run) / "report" if out is None else Path(out)
    command: List[str] = ["report", os.fspath(run), "--out", os.fspath(folder), "--population", population]
    if baseline is not None:
        command += ["--baseline", baseline]
    _call(*command)
    return folder


@overload
def read(run: PathLike, table: str = "scores", *, library: Literal["polars"]) -> "polars.DataFrame": ...


@overload
def read(run: PathLike, table: str = "scores", *, library: Literal["pandas"]) -> "pandas.DataFrame": ...


@overload
def read(run: PathLike, table: str = "scores", *, library: Optional[str] = None) -> Any: ...


def read(run: PathLike, table: str = "scores", *, library: Optional[str] = None) -> Any:
    """A table of a run as a frame: ``scores``, ``cells``, ``events``, ``variants``, ``trajectories``, ``items``, ``timeline``...

    :param run: the folder of a run, of a report, or of data.
    :param table: its name, without ``.parquet``; docs/catalogue.md has the columns with their units.
    :param library: ``polars`` or ``pandas``; the first of them that is installed, if none is given.
    :raises FileNotFoundError: there is no such folder, or it has no such table; then the error names those that it has.
    """
    folder = Path(run)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}")
    path = folder / f"{table}.parquet"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.parquet"))) or "none"
        raise FileNotFoundError(f"{folder} has no table {table!r} (those that it has: {known})")
    for name in [library] if library else ["polars", "pandas"]:
        if name not in ("polars", "pandas"):
            raise ValueError(f"no library of frames is called {name!r}: polars or pandas")
        try:
            frames = importlib.import_module(name)
        except ImportError:
            continue
        return frames.read_parquet(path)
    raise ImportError(f"{library} is not installed" if library else "neither polars nor pandas is installed")
