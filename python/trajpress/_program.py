"""A function as a program that answers events in lines of JSON: see "A program of one's own" in docs/experiments.md."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, TypedDict, TypeVar, Union, overload

PROTOCOL = 1


class Message(TypedDict, total=False):
    """A message in the form of OpenAI. A new one has no ``id``."""

    id: str
    """What names it among those of its event."""
    role: str
    content: str
    tool_calls: List[Dict[str, Any]]
    tool_call_id: Optional[str]
    kind: str
    """What it is in the log: thought, action, observation, message, excerpt, generated..."""
    turn: int
    """The turn that it belongs to, from 1."""
    tokens: int
    """Its length in tokens, as the experiment counts them."""


@dataclass(frozen=True)
class Event:
    """A moment at which something is to be compressed. Nothing that came later is in it."""

    messages: List[Message]
    """Those in the scope, one a step of the log."""
    turn: int
    """The turn that comes next."""
    goal: Optional[str]
    """The first message of the user."""
    tokens: int
    """Tokens of all the messages."""
    budget: int
    """Tokens to keep of them: ``kept_share`` of the experiment."""
    seed: int
    """What chance is to be drawn by, so that the same event has the same answer."""
    params: Dict[str, Any]
    """``params`` of the experiment."""


Answer = Union[str, List[Union[str, Message]]]
Strategy = Callable[[Event], Answer]
F = TypeVar("F", bound=Strategy)


@dataclass(frozen=True)
class _Program:
    function: Strategy
    name: str
    version: str
    recursive: bool


_programs: List[_Program] = []


@overload
def strategy(function: F) -> F: ...
@overload
def strategy(
    *, name: Optional[str] = None, version: str = "0", recursive: bool = False
) -> Callable[[F], F]: ...
def strategy(
    function: Optional[F] = None, *, name: Optional[str] = None, version: str = "0", recursive: bool = False
) -> Any:
    """Makes a function the strategy of this program; :func:`main` serves it.

    It is given an :class:`Event` and gives the messages that stand in the place of those in the scope: some of ``event.messages``,
    in their order, as they are or with another ``content``, and new ones, for which a string will do. It is called anew for each event, and
    must remember nothing: the same event has the same answer.

    :param name: its name in the variant; the function's, if none is given.
    :param version: to be raised when what it depends on beside its own file changes.
    :param recursive: whether it is shown what it left of earlier events, too.
    """

    def register(function: F) -> F:
        _programs.append(_Program(function, name or function.__name__, version, recursive))
        return function

    return register if function is None else register(function)


def main() -> None:
    """Answers events until there are no more. To be called at the end of the program."""
    if len(_programs) != 1:
        sys.exit(f"a program serves one function, and {len(_programs)} are decorated with @trajpress.strategy")
    # What is printed, here or in a library, is no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    program = _programs[0]
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "protocol" in request:
            answer: Dict[str, Any] = {
                "protocol": PROTOCOL,
                "name": program.name,
                "version": program.version,
                "recursive": program.recursive,
            }
        else:
            number = request.pop("event")
            answer = {"event": number, "messages": _messages(program.function(Event(**request)))}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _messages(answer: Answer) -> List[Any]:
    if isinstance(answer, str):
        answer = [answer]
    return [{"role": "user", "content": one} if isinstance(one, str) else one for one in answer]
