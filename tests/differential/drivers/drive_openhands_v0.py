"""OpenHands V0's condensers, of the wheel's own files. A call is an event and its result another."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import stubs
from harness import SUMMARY, Session, calls_key, tokens

WHEELS = Path(sys.prefix) / "wheels"
IMPL = ["observation_masking", "recent_events", "amortized_forgetting", "conversation_window", "llm_summarizing"]


@dataclass
class Event:
    id: int = -1


class Action(Event):
    pass


class Observation(Event):
    pass


class Message(Action):
    source = "user"


class System(Action):
    pass


class Condensed(Observation):
    def __init__(self, content):
        super().__init__()
        self.content = self.message = content


class Request(Event):
    pass


class CondensationAction(Event):
    def __init__(self, forgotten_event_ids=None, forgotten_events_start_id=None, forgotten_events_end_id=None, **rest):
        super().__init__()
        self.summary, self.summary_offset = rest.get("summary"), rest.get("summary_offset")
        start, end = forgotten_events_start_id, forgotten_events_end_id
        self.forgotten = forgotten_event_ids if start is None else list(range(start, end + 1))


GIVEN = {
    "openhands.events.event.Event": Event,
    "openhands.events.observation.observation.Observation": Observation,
    "openhands.events.observation.agent.AgentCondensationObservation": Condensed,
    "openhands.events.observation.AgentCondensationObservation": Condensed,
    "openhands.events.observation.Observation": Observation,
    "openhands.events.action.agent.CondensationAction": CondensationAction,
    "openhands.events.action.agent.CondensationRequestAction": Request,
    "openhands.events.action.agent.RecallAction": Request,
    "openhands.events.action.message.MessageAction": Message,
    "openhands.events.action.message.SystemMessageAction": System,
    "openhands.events.event.EventSource": SimpleNamespace(USER="user"),
    "openhands.events.EventSource": SimpleNamespace(USER="user"),
    "openhands.events.serialization.event.truncate_content": lambda text, max_chars: text[:max_chars],
    "openhands.core.logger.openhands_logger": SimpleNamespace(
        info=lambda *_: None, warning=lambda *_: None, debug=lambda *_: None
    ),
}
REAL = ["openhands.memory.view", "openhands.memory.condenser.condenser"]
stubs.install(
    WHEELS / "openhands_ai",
    ["openhands", "litellm"],
    REAL + [f"openhands.memory.condenser.impl.{name}_condenser" for name in IMPL],
    GIVEN,
)
VERSIONS = {"openhands-ai": "0.62.0"}


def condenser(name, **settings):
    made = importlib.import_module(f"openhands.memory.condenser.impl.{name}_condenser")
    kind = "LLM" + "SummarizingCondenser" if name == "llm_summarizing" else (
        "".join(part.capitalize() for part in name.split("_")) + "Condenser"
    )
    return getattr(made, kind)(**settings)


class Llm:
    format_messages_for_llm = staticmethod(lambda messages: messages)
    metrics = SimpleNamespace(get=lambda: {})

    def completion(self, **_):
        choice = SimpleNamespace(message=SimpleNamespace(content=SUMMARY))
        return SimpleNamespace(choices=[choice], model_dump=lambda: {})


class OpenHandsV0(Session):
    system_apart = False

    def __init__(self, kind, overflow=None, **settings):
        super().__init__(**settings)
        self.events, self.overflow = [], overflow
        if kind == "llm_summarizing":
            settings["llm"] = Llm()
        self.condenser = condenser(kind, **settings)
        self.condenser.add_metadata = lambda key, value: None
        type(self.condenser).llm_metadata = {}

    def native(self, at, m):
        calls = m.get("calls", [])
        kind = {"user": Message, "system": System, "tool": Observation, "assistant": Action}[m["role"]]
        made = []
        for n, call in enumerate(calls or [None]):
            event = kind()
            event.at, event.role, event.text = at, m["role"], m["text"] if n == 0 else ""
            event.calls = calls_key([(call["name"], call["args"])]) if call else ""
            made.append(event)
        return made

    def add(self, at, message):
        self.inputs.append(message)
        for event in self.native(at, message):
            self.push(event)

    def push(self, event):
        event.id = len(self.events)
        self.events.append(event)

    def ask(self):
        from openhands.memory.view import View

        for _ in range(10):  # after a condensation the agent's step starts anew
            view = View.from_events(self.events)
            if self.overflow and sum(tokens(e.text + e.calls) for e in view if hasattr(e, "at")) > self.overflow:
                before = len(view)
                self.push(Request())  # the provider refuses the prompt
                view = View.from_events(self.events)
                self.push(self.condenser.condense(view).action)
                if len(View.from_events(self.events)) >= before:
                    break
                continue
            made = self.condenser.condense(view)
            if isinstance(made, View):
                view = made
                break
            self.push(made.action)
        groups = []
        masked = iter(View.from_events(self.events).events)
        for e in view.events:
            place = next(masked, None)
            if isinstance(e, Condensed) and hasattr(place, "at"):  # a masked observation stands at its own place
                e.at, e.role, e.text, e.calls = place.at, place.role, e.content, ""
            last = groups[-1][-1] if groups else None
            if isinstance(e, Action) and last and getattr(last, "at", None) == e.at and e.id == last.id + 1:
                groups[-1].append(e)
            else:
                groups.append([e])
        return groups

    def view(self, group):
        e = group[0]
        if hasattr(e, "at"):
            yield e.at, e.role, "".join(p.text for p in group), "".join(p.calls for p in group)
        else:
            yield None, "user", e.content, ""


def policy(kind, **settings):
    return "openhands-ai", {"kind": kind, **settings}, OpenHandsV0


POLICIES = {
    "openhands-v0-masking": policy("observation_masking", attention_window=10),
    "openhands-v0-recent": policy("recent_events", keep_first=2, max_events=30),
    "openhands-v0-amortized": policy("amortized_forgetting", max_size=40, keep_first=2),
    "openhands-v0-summarizing": policy("llm_summarizing", max_size=40, keep_first=2),
    "openhands-v0-window": policy("conversation_window", overflow=6000),
}
