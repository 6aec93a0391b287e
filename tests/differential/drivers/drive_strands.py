"""Strands' two conversation managers. Results of parallel calls are one user message.

`overflow` plays a provider that refuses a prompt above so many tokens: the manager reduces until it passes or gives up.
"""

from types import SimpleNamespace
from unittest.mock import patch

from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.types.exceptions import ContextWindowOverflowException

from harness import SUMMARY, Session, calls_key, tokens


class Strands(Session):
    merge_results = True

    def __init__(self, overflow=None, context=None, **settings):
        super().__init__(**settings)
        self.overflow, self.context, self.places = overflow, context, {}
        self.manager = self.kind(**settings)
        self.agent = SimpleNamespace(messages=self.state, aux_model=None)
        self.state = self.agent.messages

    def add(self, at, message):
        if message["role"] == "user" and self.state:
            self.manager.apply_management(self.agent)  # the end of the turn before
        super().add(at, message)

    def native(self, at, m):
        blocks = [{"text": m["text"]}] if m["text"] else []
        for c in m.get("calls", []):
            blocks.append({"toolUse": {"toolUseId": c["id"], "name": c["name"], "input": c["args"]}})
        if m["role"] == "tool":
            self.places[m["call"]] = at
            result = {"toolUseId": m["call"], "status": "success", "content": [{"text": m["text"]}]}
            blocks = [{"toolResult": result}]
        return {"role": "user" if m["role"] == "tool" else m["role"], "content": blocks, "at": at}

    def merge(self, before, native):
        before["content"].extend(native["content"])

    def size(self):
        return sum(tokens(text + calls) for m in self.system + self.state for _, _, text, calls in self.view(m))

    def policy(self):
        event = SimpleNamespace(agent=self.agent, projected_input_tokens=self.size())
        self.agent.model = SimpleNamespace(
            estimate_utilization=lambda n: n / self.context, context_window_limit=self.context
        )
        if self.context:
            self.manager._on_before_model_call_threshold(event)
        if hasattr(self.manager, "per_turn"):
            self.manager._on_before_model_call(event)
        while self.overflow and self.size() > self.overflow:
            before = self.size(), len(self.state)
            try:
                self.manager.reduce_context(self.agent, e=ContextWindowOverflowException("too long"))
            except ContextWindowOverflowException:
                break
            if (self.size(), len(self.state)) == before:  # a summary of a summary: the library would ask for ever
                break
        return self.state

    def view(self, m):
        results = [b["toolResult"] for b in m["content"] if "toolResult" in b]
        for r in results:
            yield self.places[r["toolUseId"]], "tool", r["content"][0]["text"], ""
        if not results:
            calls = [(b["toolUse"]["name"], b["toolUse"]["input"]) for b in m["content"] if "toolUse" in b]
            text = "".join(b["text"] for b in m["content"] if "text" in b)
            yield m.get("at"), m["role"], text, calls_key(calls)


class Sliding(Strands):
    kind = SlidingWindowConversationManager


class Summarizing(Strands):
    kind = SummarizingConversationManager

    def policy(self):
        summary = lambda *_: {"role": "user", "content": [{"text": SUMMARY}]}
        with patch.object(SummarizingConversationManager, "_generate_summary", summary):
            return super().policy()


def policy(kind, **settings):
    return "strands-agents", settings, kind


POLICIES = {
    "strands-sliding": policy(Sliding, window_size=20),
    "strands-sliding-per-turn": policy(Sliding, window_size=20, per_turn=True, pin_first=1),
    "strands-sliding-overflow": policy(Sliding, window_size=40, overflow=6000),
    "strands-sliding-proactive": policy(Sliding, window_size=30, per_turn=True, proactive_compression=True, context=8000),
    "strands-summarizing": policy(Summarizing, overflow=6000),
    "strands-summarizing-proactive": policy(
        Summarizing, summary_ratio=0.6, preserve_recent_messages=4, proactive_compression=True, context=8000
    ),
    "strands-summarizing-pinned": policy(Summarizing, overflow=6000, pin_first=2, summary_ratio=0.5),
}
