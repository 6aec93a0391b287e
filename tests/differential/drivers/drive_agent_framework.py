"""Microsoft Agent Framework's compaction strategies. What is left out stays left out: the messages carry the mark."""

import json
from types import SimpleNamespace

from agent_framework import Content, Message, apply_compaction
from agent_framework import _compaction as strategies

from harness import SUMMARY, Session, calls_key, compact, run, tokens


class Tokenizer:
    """The stand-in for a tokenizer: of a serialised message it counts what the others count."""

    def count_tokens(self, text):
        try:
            contents = json.loads(text)["contents"]
        except (ValueError, TypeError, KeyError):
            return tokens(text)
        pick = lambda c: (c.get("text") or "") + (c.get("name") or "") + (c.get("arguments") or "") + (c.get("result") or "")
        return tokens("".join(pick(c) for c in contents))


class Client:
    async def get_response(self, messages, **_):
        return SimpleNamespace(text=SUMMARY)


class AgentFramework(Session):
    system_apart = False

    def __init__(self, strategy, **settings):
        super().__init__(**settings)
        kind = getattr(strategies, strategy)
        if strategy == "SummarizationStrategy":
            settings = settings | {"client": Client(), "tokenizer": Tokenizer()}
        if "tokens" in settings:
            settings = {k: v for k, v in settings.items() if k != "tokens"} | {"tokenizer": Tokenizer()}
        if strategy == "ContextWindowCompactionStrategy":
            settings = settings | {"tokenizer": Tokenizer()}
        self.strategy = kind(**settings)

    def native(self, at, m):
        contents = [m["text"]] if m["text"] else []
        if m["role"] == "assistant":
            contents += [
                Content.from_function_call(call_id=c["id"], name=c["name"], arguments=compact(c["args"])) for c in m["calls"]
            ]
        if m["role"] == "tool":
            contents = [Content.from_function_result(call_id=m["call"], result=m["text"])]
        return Message(m["role"], contents, message_id=f"m{at}")

    def policy(self):
        return run(apply_compaction(self.state, strategy=self.strategy))

    def view(self, m):
        at = int(m.message_id[1:]) if m.message_id[0] == "m" else None
        results = [c.result for c in m.contents if c.type == "function_result"]
        calls = [(c.name, json.loads(c.arguments)) for c in m.contents if c.type == "function_call"]
        yield at, m.role, "".join(results) if results else m.text, calls_key(calls)


def policy(strategy, **settings):
    return "agent-framework-core", {"strategy": strategy, **settings}, AgentFramework


POLICIES = {
    "agent-framework-context-window": policy(
        "ContextWindowCompactionStrategy", max_context_window_tokens=8172, max_output_tokens=1000
    ),
    "agent-framework-context-window-first": policy(
        "ContextWindowCompactionStrategy",
        max_context_window_tokens=8000,
        max_output_tokens=1000,
        keep_last_tool_call_groups=2,
        preserve_first_user_group=True,
    ),
    "agent-framework-truncation": policy("TruncationStrategy", max_n=40, compact_to=20),
    "agent-framework-truncation-tokens": policy("TruncationStrategy", max_n=6094, compact_to=3000, tokens=True),
    "agent-framework-sliding": policy("SlidingWindowStrategy", keep_last_groups=12),
    "agent-framework-selective": policy("SelectiveToolCallCompactionStrategy", keep_last_tool_call_groups=4),
    "agent-framework-tool-result": policy("ToolResultCompactionStrategy", keep_last_tool_call_groups=4),
    "agent-framework-summarization": policy("SummarizationStrategy", target_count=10, threshold=10),
}
