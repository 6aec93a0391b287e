"""Aider's ChatSummary, of the wheel's history.py alone. It knows no tools: a result is a user's message here, calls are text.

The finished exchanges (all up to the last reply) are summarised when they are too big; what came since is sent as it is.
"""

import importlib
import sys
from pathlib import Path

import stubs
from harness import SUMMARY, Session, calls_key, tokens

WHEELS = Path(sys.prefix) / "wheels"
stubs.install(WHEELS / "aider_chat", ["aider"], ["aider.history", "aider.prompts"])
ChatSummary = importlib.import_module("aider.history").ChatSummary
VERSIONS = {"aider-chat": "0.86.2"}


class Model:
    name = "stub"

    def __init__(self, max_input_tokens):
        self.info = {"max_input_tokens": max_input_tokens}

    def token_count(self, messages):
        return sum(tokens(m["content"]) for m in (messages if isinstance(messages, list) else [messages]))

    def simple_send_with_retries(self, messages):
        return SUMMARY


class Aider(Session):
    def __init__(self, max_input_tokens, max_tokens):
        super().__init__()
        self.summarizer = ChatSummary([Model(max_input_tokens)], max_tokens)

    def native(self, at, m):
        role = "user" if m["role"] == "tool" else m["role"]
        content = m["text"] + calls_key((c["name"], c["args"]) for c in m.get("calls", []))
        return {"role": role, "content": content, "at": at}

    def policy(self):
        cut = len(self.state)
        while cut and self.state[cut - 1]["role"] == "user":
            cut -= 1
        done, current = self.state[:cut], self.state[cut:]
        if done and self.summarizer.too_big(done):
            self.state = self.summarizer.summarize(done) + current
        return self.state

    def view(self, m):
        yield m.get("at"), m["role"], m["content"], ""


POLICIES = {
    "aider": ("aider-chat", {"max_input_tokens": 100000, "max_tokens": 4000}, Aider),
    "aider-short-input": ("aider-chat", {"max_input_tokens": 2512, "max_tokens": 3000}, Aider),
}
