"""CrewAI's summary before a call, and agno's compression of results; of the wheels' own files."""

import importlib
import importlib.resources
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import stubs
from harness import SUMMARY, Session, calls_key, compact, tokens

WHEELS = Path(sys.prefix) / "wheels"
VERSIONS = {"crewai": "1.15.30", "agno": "3.1.10"}
SLICES = json.loads((WHEELS / "crewai/crewai/translations/en.json").read_text())["slices"]
ERROR = "crewai.utilities.exceptions.context_window_exceeding_exception.LLMContextLengthExceededError"
stubs.install(
    WHEELS / "crewai",
    ["crewai"],
    ["crewai.llms.context_window", "crewai.utilities.message_utils"],
    {
        "crewai.utilities.i18n.I18N_DEFAULT": SimpleNamespace(slice=SLICES.__getitem__),
        ERROR: type("LLMContextLengthExceededError", (Exception,), {}),
    },
)
stubs.install(WHEELS / "agno", ["agno"], ["agno.compression.manager"], {"agno.models.utils.get_model": lambda m: m})
importlib.resources.files = lambda package: WHEELS / "crewai" / package.replace(".", "/")  # its catalog of windows
context_window = importlib.import_module("crewai.llms.context_window")
manager = importlib.import_module("agno.compression.manager")


class Llm:
    def __init__(self, window):
        self.window = window

    def get_context_window_size(self):
        return int(self.window * context_window.CONTEXT_WINDOW_USAGE_RATIO)

    def get_input_tokens_count(self, messages):
        return (sum(len(m["content"]) for m in messages) + 3) // 4  # the library's own, where a provider has none

    async def acall(self, messages, callbacks=None):
        return SUMMARY


class CrewAi(Session):
    """The check before a call is the one of its base class: over the usable window."""

    system_apart = False

    def native(self, at, m):
        made = {"role": m["role"], "content": m["text"], "at": at}
        if m.get("calls"):
            function = lambda c: {"name": c["name"], "arguments": compact(c["args"])}
            made["tool_calls"] = [{"id": c["id"], "type": "function", "function": function(c)} for c in m["calls"]]
        return made | ({"name": m["name"], "tool_call_id": m["call"]} if m["role"] == "tool" else {})

    def policy(self):
        llm = Llm(self.settings["window"])
        others = [m for m in self.state if m["role"] != "system"]
        alone = len(others) == 1 and others[0]["role"] == "user"
        if llm.get_input_tokens_count(self.state) > llm.get_context_window_size() and not alone:
            context_window.summarize_messages(llm, self.state, [], False)
        return self.state

    def view(self, m):
        calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in m.get("tool_calls", [])]
        yield m.get("at"), m["role"], m["content"], calls_key(calls)


class Agno(Session):
    def __init__(self, **settings):
        super().__init__(**settings)
        model = SimpleNamespace(response=lambda messages: SimpleNamespace(content=SUMMARY))
        self.manager = manager.CompressionManager(model=model, **settings)

    def native(self, at, m):
        calls = calls_key((c["name"], c["args"]) for c in m.get("calls", []))
        return SimpleNamespace(
            role=m["role"], content=m["text"], tool_name=m.get("name"), tool_calls=None, calls=calls, at=at,
            compressed_content=None,
        )

    def policy(self):
        model = SimpleNamespace(count_tokens=lambda ms, *_: sum(tokens((m.compressed_content or m.content) + m.calls) for m in ms))
        if self.manager.should_compress(self.state, model=model):
            self.manager.compress(self.state)
        return self.state

    def view(self, m):
        yield m.at, m.role, m.compressed_content or m.content, m.calls


POLICIES = {
    "crewai": ("crewai", {"window": 8000}, CrewAi),
    "agno-compression": ("agno", {"compress_tool_results_limit": 3}, Agno),
    "agno-compression-tokens": ("agno", {"compress_token_limit": 4000}, Agno),
}
