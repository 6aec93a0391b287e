"""Letta's compaction (sliding window, then all), of the wheel's summarizer files alone; asked after each step.

The list must begin with a system prompt: where it has none, an empty one stands for it and is not recorded.
"""

import enum
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import stubs
from harness import SUMMARY, Session, Stop, calls_key, run, tokens


class Role(enum.Enum):
    system, user, assistant, tool, approval, summary = "system", "user", "assistant", "tool", "approval", "summary"


class TooLong(Stop):
    def __init__(self, **_):
        pass


def quiet(*_):
    pass


async def simple_summary(**_):
    return SUMMARY


WHEELS = Path(sys.prefix) / "wheels"
NAMES = ["compact", "summarizer_sliding_window", "summarizer_all", "constants"]
stubs.install(
    WHEELS / "letta",
    ["letta", "openai"],
    [f"letta.services.summarizer.{name}" for name in NAMES],
    {
        "letta.schemas.enums.MessageRole": Role,
        "letta.errors.ContextWindowExceededError": type("ContextWindowExceededError", (Exception,), {}),
        "letta.errors.SystemPromptTokenExceededError": TooLong,
        "letta.schemas.message.MessageRole": Role,
        "letta.otel.tracing.trace_method": lambda f: f,
        "letta.log.get_logger": lambda name: SimpleNamespace(info=quiet, warning=quiet, critical=quiet, error=quiet),
        "letta.services.summarizer.summarizer.simple_summary": simple_summary,
        "letta.system.package_summarize_message_no_counts": lambda summary, **_: summary,
        "letta.services.summarizer.summarizer_config.get_default_prompt_for_mode": lambda mode: "",
    },
)
compact = importlib.import_module("letta.services.summarizer.compact")
sliding = importlib.import_module("letta.services.summarizer.summarizer_sliding_window")
VERSIONS = {"letta": "0.16.8"}


async def count_tokens(actor, llm_config, messages):
    return sum(tokens(m.text + m.calls) for m in messages)


async def count_tokens_with_tools(actor, llm_config, messages, tools=None):
    return await count_tokens(actor, llm_config, messages)


async def same_config(agent_llm_config, summarizer_config, actor):
    return agent_llm_config


sliding.count_tokens = compact.count_tokens = count_tokens
compact.count_tokens_with_tools, compact.build_summarizer_llm_config = count_tokens_with_tools, same_config


class Config(SimpleNamespace):
    def model_copy(self, update):
        return Config(**(self.__dict__ | update))


class Letta(Session):
    system_apart = False

    def native(self, at, m):
        calls = calls_key((c["name"], c["args"]) for c in m.get("calls", []))
        return SimpleNamespace(role=Role(m["role"]), at=at, text=m["text"], calls=calls, tool_calls=None)

    def policy(self):
        window = self.settings["context_window"]
        if self.state and self.state[0].role != Role.system:
            self.state.insert(0, SimpleNamespace(role=Role.system, at=-1, text="", calls="", tool_calls=None))
        threshold = int(window * 0.9)
        if run(count_tokens(None, None, self.state)) > threshold:
            config = Config(
                mode="sliding_window", prompt="p", prompt_acknowledgement=False, clip_chars=50000,
                sliding_window_percentage=self.settings["sliding_window_percentage"],
            )
            made = run(
                compact.compact_messages(
                    actor=None, agent_id="", agent_llm_config=SimpleNamespace(context_window=window),
                    telemetry_manager=None, llm_client=None, agent_type=None, messages=self.state, timezone="UTC",
                    compaction_settings=config, trigger_threshold=threshold,
                )
            )
            summary = made.summary_message
            summary.__dict__.update(at=None, text=summary.content[0].text, calls="", role=Role.summary, tool_calls=None)
            self.state = made.compacted_messages
        return [m for m in self.state if m.at != -1]

    def view(self, m):
        yield m.at, "user" if m.role == Role.summary else m.role.value, m.text, m.calls


POLICIES = {
    "letta": ("letta", {"context_window": 6000, "sliding_window_percentage": 0.3}, Letta),
    "letta-half": ("letta", {"context_window": 6000, "sliding_window_percentage": 0.5}, Letta),
}
