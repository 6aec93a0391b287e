"""A function as a program that answers lines of JSON: see docs/own.md."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    SupportsFloat,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
    overload,
)

PROTOCOL = 1


class Message(TypedDict, total=False):
    """A message in the form of OpenAI, one a step: calls that were made at once are several, with a result each.

    A new one has no ``id``, and is the user's: another ``role`` is refused.
    """

    id: str
    """What names it among those of its event."""
    role: str
    content: str
    """Its text. Of a call it is what ``tool_calls`` says once more: the tool's name, and behind it what it was given."""
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


@dataclass(frozen=True)
class Scored:
    """An event to be scored: what stood in the prompt, what stands there after it, and what came later."""

    before: List[Message]
    """The prompt before the event."""
    after: List[Message]
    """The prompt after it, with what was recalled for it."""
    later: List[Message]
    """All that was logged from then on."""
    turn: int
    """The turn that comes next."""
    goal: Optional[str]
    """The first message of the user."""
    seed: int
    """What chance is to be drawn by, so that the same event has the same value."""
    params: Dict[str, Any]
    """``params`` of the experiment."""


class Drop(TypedDict):
    """Takes a message out."""

    drop: str
    """Its id."""


class Mask(TypedDict):
    """Puts a text in the place of a message's."""

    mask: str
    """Its id."""
    text: str


class _Insert(TypedDict):
    insert: str
    """The new text."""


class Insert(_Insert, total=False):
    """Adds a message of the user."""

    before: Optional[str]
    """The id of the message that it stands before; behind all, if none is given."""


@dataclass(frozen=True)
class Edits:
    """An answer that says what changes; what it does not name stays."""

    edits: Iterable[Union[Drop, Mask, Insert]]


Answer = Union[str, Message, Iterable[Union[str, Message]], Edits]
"""What a strategy gives: what stands in the place of the scope, or what changes in it."""
Value = Union[SupportsFloat, None, Tuple[Optional[SupportsFloat], SupportsFloat]]
"""What a scorer gives: a number, ``None`` where that is undefined, or one of them with its weight; ``True`` is 1."""
Better = Literal["higher", "lower", "neither"]
Strategy = Callable[[Event], Answer]
Scorer = Callable[[Scored], Value]
F = TypeVar("F", bound=Strategy)
G = TypeVar("G", bound=Scorer)


@dataclass(frozen=True)
class _Program:
    greeting: Dict[str, Any]
    """What it says of itself."""
    answer: Callable[[Dict[str, Any]], Dict[str, Any]]
    """What it answers to a request."""


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
    in their order, as they are or with another ``content``, and new ones, for which a string will do; or :class:`Edits`. An answer that is
    longer than the scope leaves that as it was. It is called anew for each event, and must remember nothing: the same event has the same
    answer.

    :param name: its name in the variant; the function's, if none is given.
    :param version: to be raised when what it depends on beside its own file changes.
    :param recursive: whether it is shown what it left of earlier events, too.
    """

    def register(function: F) -> F:
        greeting = {"name": name or function.__name__, "version": version, "recursive": recursive}
        _programs.append(_Program(greeting, lambda request: _changes(function(Event(**request)))))
        return function

    return register if function is None else register(function)


@overload
def scorer(function: G) -> G: ...
@overload
def scorer(
    *,
    name: Optional[str] = None,
    version: str = "0",
    better: Better = "higher",
    range: Tuple[Optional[SupportsFloat], Optional[SupportsFloat]] = (0, 1),
    unit: str = "share",
) -> Callable[[G], G]: ...
def scorer(
    function: Optional[G] = None,
    *,
    name: Optional[str] = None,
    version: str = "0",
    better: Better = "higher",
    range: Tuple[Optional[SupportsFloat], Optional[SupportsFloat]] = (0, 1),
    unit: str = "share",
) -> Any:
    """Makes a function the score of this program; :func:`main` serves it.

    It is given a :class:`Scored` event and gives a number, ``None`` where that is undefined, or a number with its weight: a run's value is
    the mean of its events', by their weights (1, if none is given).

    :param name: its name in tables; the function's, if none is given.
    :param version: to be raised when what it depends on beside its own file changes.
    :param better: ``higher``, ``lower`` or ``neither``.
    :param range: the least and the largest value, ``None`` for no limit; other values are none.
    :param unit: what one of it is: ``share``, ``tokens``...
    """

    def answer(function: G, request: Dict[str, Any]) -> Dict[str, Any]:
        value = function(Scored(**request))
        of, weight = value if isinstance(value, tuple) else (value, 1)
        return {"value": _number(of), "weight": _number(weight)}

    def register(function: G) -> G:
        greeting = {
            "name": name or function.__name__,
            "version": version,
            "better": better,
            "range": [_number(end) for end in range],
            "unit": unit,
        }
        _programs.append(_Program(greeting, lambda request: answer(function, request)))
        return function

    return register if function is None else register(function)


def main() -> None:
    """Answers events until there are no more. To be called at the end of the program."""
    if len(_programs) != 1:
        decorators = "@trajpress.strategy or @trajpress.scorer"
        sys.exit(f"a program serves one function, and {len(_programs)} are decorated with {decorators}")
    # What is printed, here or in a library, is no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    program = _programs[0]
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "protocol" in request:
            answer: Dict[str, Any] = {"protocol": PROTOCOL, "files": _imported(), **program.greeting}
        else:
            number = request.pop("event")
            answer = {"event": number, **program.answer(request)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _imported() -> List[str]:
    """Files of the modules that are imported so far, but for those of Python, of installed packages and of this one."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")] + [os.path.dirname(__file__)]
    others = tuple(os.path.realpath(folder) + os.sep for folder in folders)
    found = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    files = [os.path.realpath(file) for _, file in sorted(found.items()) if file and file.endswith(".py")]
    return [file for file in files if not file.startswith(others)]


def _changes(answer: Answer) -> Dict[str, Any]:
    if isinstance(answer, Edits):
        return {"edits": list(answer.edits)}
    # A message alone is a dict, whose keys are no messages.
    messages = [answer] if isinstance(answer, (str, Mapping)) else answer
    return {"messages": [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]}


def _number(value: Optional[SupportsFloat]) -> Optional[float]:
    """As JSON has it: numbers of other libraries, and truth, are none there."""
    if value is not None and not isinstance(value, SupportsFloat):
        raise TypeError(f"{value!r} is no number")
    return None if value is None else float(value)
