"""inspect_ai's compaction handler. The provider reports the tokens of a prompt; what came after is counted."""

from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    CompactionEdit,
    CompactionSummary,
    CompactionTrim,
    Model,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
)
from inspect_ai.tool import ToolCall

from harness import SUMMARY, Session, Stop, calls_key, compact, run, tokens


def text_of(m):
    return m.content if isinstance(m.content, str) else "\n".join(c.text for c in m.content if c.type == "text")


def calls_of(m):
    return calls_key((c.function, c.arguments) for c in getattr(m, "tool_calls", None) or [])


async def count_tokens(self, messages, config=None):
    return sum(tokens(text_of(m) + calls_of(m)) for m in messages)


async def count_tool_tokens(self, tools):
    return 0


async def generate(self, input, **_):
    return ModelOutput.from_content("mockllm", SUMMARY)


Model.count_tokens, Model.count_tool_tokens, Model.generate = count_tokens, count_tool_tokens, generate
MODEL = get_model("mockllm/model")


class Inspect(Session):
    system_apart = False

    def __init__(self, strategy, **settings):
        super().__init__(**settings)
        kinds = {"edit": CompactionEdit, "trim": CompactionTrim, "summary": CompactionSummary}
        self.strategy, self.handler = kinds[strategy](**settings), None

    def native(self, at, m):
        common = {"content": m["text"], "id": f"m{at}", "metadata": {"at": at}}
        if m["role"] == "system":
            return ChatMessageSystem(**common)
        if m["role"] == "tool":
            return ChatMessageTool(**common, tool_call_id=m["call"], function=m["name"])
        if m["role"] == "assistant":
            calls = [ToolCall(id=c["id"], function=c["name"], arguments=c["args"]) for c in m["calls"]]
            return ChatMessageAssistant(**common, tool_calls=calls or None)
        first = all(before["role"] != "assistant" for before in self.inputs)
        return ChatMessageUser(**common, source="input" if first else None)

    def policy(self):
        if self.handler is None:
            self.handler = compaction(self.strategy, list(self.state), [], MODEL)
        try:
            made, extra = run(self.handler.compact_input(self.state))
        except RuntimeError as error:
            raise Stop() from error
        if extra is not None:
            self.state.append(extra)
        self.asked = made
        return made

    def answered(self, views):
        super().answered(views)
        usage = ModelUsage(input_tokens=self.usage, output_tokens=1, total_tokens=self.usage + 1)
        run(self.handler.record_output(self.asked, ModelOutput(model="mockllm", usage=usage)))

    def view(self, m):
        yield (m.metadata or {}).get("at"), m.role, text_of(m), calls_of(m)


def policy(strategy, **settings):
    return "inspect-ai", {"strategy": strategy, **settings}, Inspect


POLICIES = {
    "inspect-edit": policy("edit", threshold=6000),
    "inspect-edit-inputs": policy("edit", threshold=6094, keep_tool_uses=5, keep_tool_inputs=False),
    "inspect-trim": policy("trim", threshold=6000),
    "inspect-trim-half": policy("trim", threshold=6094, preserve=0.5),
    "inspect-summary": policy("summary", threshold=6094),
}
