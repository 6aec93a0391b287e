"""Compresses logged trajectories of LLM agents offline: strategies in Python, runs and their tables.

A strategy of one's own is a program of a few lines::

    import trajpress

    @trajpress.strategy(version="1")
    def newest(event: trajpress.Event) -> trajpress.Answer:
        return event.messages[-4:]

    trajpress.main()

and an experiment names it: ``name = "command"``, ``command = ["python3", "my.py"]``. A score of one's own likewise, with
:func:`scorer` in the place of :func:`strategy` and ``[[scores.programs]]`` in the experiment. All the work is done by the program
``trajpress``, which is in the same wheel.
"""

from importlib import metadata as _metadata

from ._program import Answer, Drop, Edits, Event, Insert, Mask, Message, Scored, Value, main, scorer, strategy
from ._runs import Failed, read, report, run

try:
    __version__ = _metadata.version("trajpress")
except _metadata.PackageNotFoundError:
    # From the sources: the version stands in Cargo.toml.
    __version__ = "0"

__all__ = [
    "Answer",
    "Drop",
    "Edits",
    "Event",
    "Failed",
    "Insert",
    "Mask",
    "Message",
    "Scored",
    "Value",
    "__version__",
    "main",
    "read",
    "report",
    "run",
    "scorer",
    "strategy",
]
