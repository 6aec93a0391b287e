"""Runs of the program ``trajpress`` and their tables."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Optional, Union

PathLike = Union[str, "os.PathLike[str]"]


def _program() -> str:
    """The program of this wheel, or else the one that is found first."""
    own = Path(sysconfig.get_path("scripts")) / ("trajpress.exe" if os.name == "nt" else "trajpress")
    found = str(own) if own.is_file() else shutil.which("trajpress")
    if found is None:
        raise FileNotFoundError("the program `trajpress` is not there: install the wheel `trajpress`")
    return found


def run(
    experiment: PathLike, data: PathLike, out: PathLike = "run", *, threads: int = 0, limit: Optional[int] = None
) -> Path:
    """Replays an experiment over data, or goes on where that was stopped; gives the folder of the run.

    :param experiment: the experiment, a file in TOML.
    :param data: the folder that ``trajpress ingest`` has made.
    :param out: the folder of the run.
    :param threads: how many threads work; 0 is one a core.
    :param limit: how many trajectories are taken, the first; all if none is given.
    :raises subprocess.CalledProcessError: it could not be run, or some trajectories failed (status 1): stderr says why.
    """
    command = [_program(), "run", os.fspath(experiment), "--data", os.fspath(data), "--out", os.fspath(out)]
    command += ["--threads", str(threads)]
    if limit is not None:
        command += ["--limit", str(limit)]
    subprocess.run(command, check=True)
    return Path(out)


def read(run: PathLike, table: str = "scores", *, library: Optional[str] = None) -> Any:
    """A table of a run as a frame: ``scores``, ``cells``, ``events``, ``variants``, ``trajectories``, ``items``, ``timeline``...

    :param run: the folder of a run, or of data.
    :param table: its name, without ``.parquet``; docs/catalogue.md has the columns with their units.
    :param library: ``polars`` or ``pandas``; the first of them that is installed, if none is given.
    :raises FileNotFoundError: the folder has no such table; the error names those that it has.
    """
    folder = Path(run)
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
