"""What users may write, and what a checker is to refuse: `mypy --strict` finds nothing here, an unused `ignore` neither."""

from fractions import Fraction
from typing import Iterator, List, Optional, Sequence, Tuple, Union

import trajpress


@trajpress.strategy
def newest(event: trajpress.Event) -> List[trajpress.Message]:
    return event.messages[-4:]


@trajpress.strategy(version="2", recursive=True)
def texts(event: trajpress.Event) -> List[str]:
    return [message["content"] for message in event.messages]


@trajpress.strategy
def pair(event: trajpress.Event) -> Tuple[str, trajpress.Message]:
    return "What was before.", event.messages[-1]


@trajpress.strategy
def each(event: trajpress.Event) -> Iterator[Union[str, trajpress.Message]]:
    yield "What was before."
    yield from event.messages[-2:]


@trajpress.strategy
def alone(event: trajpress.Event) -> trajpress.Message:
    return {"id": event.messages[0]["id"], "content": "(gone)"}


@trajpress.strategy
def masked(event: trajpress.Event) -> trajpress.Edits:
    results = [message["id"] for message in event.messages if message["role"] == "tool"]
    return trajpress.Edits([{"insert": "Then:", "before": "0"}, *[trajpress.Mask(mask=id, text="(gone)") for id in results]])


@trajpress.strategy
def either(event: trajpress.Event) -> trajpress.Answer:
    return ["Then:", *event.messages] if event.goal else trajpress.Edits([{"drop": "0"}])


@trajpress.scorer
def is_shorter(event: trajpress.Scored) -> bool:
    return len(event.after) < len(event.before)


@trajpress.scorer(better="lower", range=(0, None), unit="messages")
def left(event: trajpress.Scored) -> int:
    return len(event.after)


@trajpress.scorer
def share(event: trajpress.Scored) -> Optional[Fraction]:
    return Fraction(len(event.after), len(event.before)) if event.before else None


@trajpress.scorer(better="neither")
def weighed(event: trajpress.Scored) -> Tuple[float, int]:
    return 0.5, len(event.before)


@trajpress.scorer
def any_value(event: trajpress.Scored) -> trajpress.Value:
    return None


def of_a_run(messages: Sequence[trajpress.Message]) -> str:
    where = trajpress.report(trajpress.run("x.toml", "data", fresh=True), population="these")
    return f"{trajpress.__version__}: {where.name}"


trajpress.scorer(better="highest")  # type: ignore[call-overload]


@trajpress.strategy  # type: ignore[type-var]
def counted(event: trajpress.Event) -> int:
    return len(event.messages)


@trajpress.scorer  # type: ignore[type-var]
def worded(event: trajpress.Scored) -> str:
    return "good"
