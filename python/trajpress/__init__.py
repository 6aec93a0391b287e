"""Compresses logged trajectories of LLM agents offline: strategies in Python, runs and their tables.

A strategy of one's own is a program of a few lines::

    import trajpress

    @trajpress.strategy(version="1")
    def newest(event: trajpress.Event) -> list:
        return event.messages[-4:]

    trajpress.main()

and an experiment names it: ``name = "command"``, ``command = ["python3", "my.py"]``. A score of one's own likewise, with
:func:`scorer` in the place of :func:`strategy` and ``[[scores.programs]]`` in the experiment. All the work is done by the program
``trajpress``, which is in the same wheel.
"""

from ._program import Event, Message, Scored, main, scorer, strategy
from ._runs import read, run

__all__ = ["Event", "Message", "Scored", "main", "read", "run", "scorer", "strategy"]
