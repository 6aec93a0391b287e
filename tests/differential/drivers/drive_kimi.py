"""Kimi CLI's compaction. The provider reports the tokens of a step; what came after is estimated by the library."""

from types import SimpleNamespace

import kosong
from kimi_cli.soul.compaction import SimpleCompaction, estimate_text_tokens, should_auto_compact
from kosong.message import Message, TextPart, ToolCall

from harness import SUMMARY, Session, calls_key, compact, count, run, tokens
import json


async def step(**_):
    message = Message(role="assistant", content=[TextPart(text=SUMMARY)])
    return SimpleNamespace(message=message, usage=SimpleNamespace(input=0, output=tokens(SUMMARY)), trace_id=None)


kosong.step = step


class Kimi(Session):
    reported, pending = 0, []

    def native(self, at, m):
        calls = [
            ToolCall(id=c["id"], function=ToolCall.FunctionBody(name=c["name"], arguments=compact(c["args"])))
            for c in m.get("calls", [])
        ]
        made = Message(
            role=m["role"], content=[TextPart(text=m["text"])], tool_calls=calls or None, tool_call_id=m.get("call")
        )
        object.__setattr__(made, "__place__", at)
        return made

    def add(self, at, message):
        super().add(at, message)
        if message["role"] == "assistant":
            self.reported, self.pending = self.usage + count(message), []
        elif message["role"] != "system":
            self.pending = [*self.pending, self.state[-1]]

    def policy(self):
        now = self.reported + estimate_text_tokens(self.pending)
        window, reserve = self.settings["max_context_size"], self.settings["reserved_context_size"]
        if should_auto_compact(
            now, window, trigger_ratio=self.settings["trigger_ratio"], reserved_context_size=reserve
        ):
            made = run(SimpleCompaction().compact(self.state, SimpleNamespace(chat_provider=None)))
            self.state = list(made.messages)
            self.reported, self.pending = made.estimated_token_count, []
        return self.state

    def view(self, m):
        calls = [(c.function.name, json.loads(c.function.arguments)) for c in m.tool_calls or []]
        text = "".join(p.text for p in m.content if isinstance(p, TextPart))
        yield getattr(m, "__place__", None), m.role, text, calls_key(calls)


POLICIES = {
    "kimi-cli": (
        "kimi-cli", {"max_context_size": 8000, "trigger_ratio": 0.85, "reserved_context_size": 2000}, Kimi
    ),
    "kimi-cli-ratio": (
        "kimi-cli", {"max_context_size": 6000, "trigger_ratio": 0.85, "reserved_context_size": 500}, Kimi
    ),
}
