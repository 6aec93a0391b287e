"""Haystack's compaction hook with its three compactors; tokens by the stand-in, no count reported by a provider."""

from haystack.dataclasses import ChatMessage, ToolCall
from haystack.hooks.compaction import CompactionHook, SlidingWindowCompactor, ToolResultPruningCompactor
from haystack.hooks.compaction.summarization import SummarizationCompactor

from harness import SUMMARY, Session, calls_key, compact, tokens


def text_of(m):
    return m.tool_call_result.result if m.tool_call_result else m.text or ""


class Counter:
    def count(self, messages, tools=None):
        calls = lambda m: "".join(c.tool_name + compact(c.arguments) for c in m.tool_calls)
        return sum(tokens(text_of(m) + calls(m)) for m in messages)


class Generator:
    def run(self, messages):
        return {"replies": [ChatMessage.from_assistant(SUMMARY)]}


class State:
    def __init__(self, messages):
        self.data = {"messages": messages, "context_tokens": 0}

    def set(self, key, value, handler_override=None):
        self.data[key] = value


class Haystack(Session):
    system_apart = False

    def __init__(self, compactor, **settings):
        super().__init__(**settings)
        hook = {k: settings.pop(k) for k in ("context_window", "compact_at", "compact_to") if k in settings}
        made = SummarizationCompactor(Generator(), **settings) if compactor == "summarization" else (
            SlidingWindowCompactor if compactor == "sliding_window" else ToolResultPruningCompactor
        )(**settings)
        self.hook = CompactionHook(made, token_counter=Counter(), **hook)

    def native(self, at, m):
        meta = {"at": at}
        if m["role"] == "system":
            return ChatMessage.from_system(m["text"], meta=meta)
        if m["role"] == "user":
            return ChatMessage.from_user(m["text"], meta=meta)
        if m["role"] == "tool":
            origin = ToolCall(tool_name=m["name"], arguments={}, id=m["call"])
            return ChatMessage.from_tool(m["text"], origin=origin, meta=meta)
        calls = [ToolCall(tool_name=c["name"], arguments=c["args"], id=c["id"]) for c in m["calls"]]
        return ChatMessage.from_assistant(m["text"] or None, tool_calls=calls, meta=meta)

    def policy(self):
        state = State(self.state)
        self.hook.run(state)
        self.state = list(state.data["messages"])
        return self.state

    def view(self, m):
        yield m.meta.get("at"), m.role.value, text_of(m), calls_key((c.tool_name, c.arguments) for c in m.tool_calls)


def policy(compactor, **settings):
    return "haystack-ai", {"compactor": compactor, "context_window": 8320, **settings}, Haystack


POLICIES = {
    "haystack-sliding-window": policy("sliding_window"),
    "haystack-sliding-window-steps": policy("sliding_window", context_window=8420, min_keep_steps=3, compact_at=0.9, compact_to=0.3),
    "haystack-tool-pruning": policy("tool_result_pruning"),
    "haystack-tool-pruning-steps": policy("tool_result_pruning", min_keep_steps=4, min_tokens=50),
    "haystack-summarization": policy("summarization", approximate_summary_tokens=100),
}
