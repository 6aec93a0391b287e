"""SWE-agent's history processors. A view only. Version 0.0.1 is on PyPI; 1.1.0 is not: SWEAGENT_SOURCE names a checkout.

Every user message and every result is an observation; the first is the task.
"""

import importlib.util
import os
import sys
from pathlib import Path

import stubs
from harness import Session, calls_key

WHEELS = Path(sys.prefix) / "wheels"
VERSIONS = {"sweagent": "0.0.1", "sweagent-git": "1.1.0"}


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


old = load("sweagent_old", WHEELS / "sweagent" / "sweagent" / "agent" / "history_processors.py")
source = os.environ.get("SWEAGENT_SOURCE")
if source:
    stubs.install(WHEELS, ["sweagent"], [])
    new = load("sweagent_new", Path(source) / "sweagent" / "agent" / "history_processors.py")


class SweAgent(Session):
    system_apart = False
    observations = ("user", "tool")

    def native(self, at, m):
        kind = "observation" if m["role"] in self.observations else "action"
        role = "user" if m["role"] == "tool" and self.old else m["role"]
        calls = calls_key((c["name"], c["args"]) for c in m.get("calls", []))
        return {"role": role, "content": m["text"], "message_type": kind, "at": at, "calls": calls}

    def view(self, m):
        yield m["at"], m["role"], m["content"], m["calls"]


class Old(SweAgent):
    old = True

    def policy(self):
        return old.LastNObservations(**self.settings)(self.state)


class New(SweAgent):
    old = False

    def policy(self):
        return new.LastNObservations(**self.settings)(self.state)


POLICIES = {"sweagent-0.0.1-last-5": ("sweagent", {"n": 5}, Old)}
if source:
    POLICIES |= {
        "sweagent-1.1-last-5": ("sweagent-git", {"n": 5}, New),
        "sweagent-1.1-polling": ("sweagent-git", {"n": 5, "polling": 10}, New),
    }
