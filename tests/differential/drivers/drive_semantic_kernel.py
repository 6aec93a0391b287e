"""Semantic Kernel's two history reducers, asked before every model call (auto_reduce)."""

from semantic_kernel.contents import (
    ChatHistoryTruncationReducer,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    TextContent,
)
from semantic_kernel.contents.history_reducer.chat_history_summarization_reducer import ChatHistorySummarizationReducer
from semantic_kernel.contents.utils.author_role import AuthorRole

from harness import SUMMARY, Session, calls_key, compact, run
import json


class SemanticKernel(Session):
    system_apart = False

    def native(self, at, m):
        items = [TextContent(text=m["text"])] if m["text"] else []
        for c in m.get("calls", []):
            items.append(FunctionCallContent(id=c["id"], name=c["name"], arguments=compact(c["args"])))
        if m["role"] == "tool":
            items = [FunctionResultContent(id=m["call"], name=m["name"], result=m["text"])]
        return ChatMessageContent(role=AuthorRole(m["role"]), items=items, metadata={"at": at})

    def policy(self):
        self.reducer.messages = self.state
        if run(self.reducer.reduce()):
            self.state = self.reducer.messages
        return self.state

    def view(self, m):
        calls = [(i.name, json.loads(i.arguments)) for i in m.items if isinstance(i, FunctionCallContent)]
        results = [i.result for i in m.items if isinstance(i, FunctionResultContent)]
        yield m.metadata.get("at"), m.role.value, "".join(results) if results else m.content, calls_key(calls)


class Truncation(SemanticKernel):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.reducer = ChatHistoryTruncationReducer(**settings)


async def summarize(self, messages):
    return ChatMessageContent(role=AuthorRole.ASSISTANT, content=SUMMARY)


class Summarization(SemanticKernel):
    def __init__(self, **settings):
        super().__init__(**settings)
        ChatHistorySummarizationReducer._summarize = summarize
        defaults = {"include_function_content_in_summary": False, "fail_on_error": True, "use_single_summary": True}
        self.reducer = ChatHistorySummarizationReducer.model_construct(messages=[], **(defaults | settings))


def policy(kind, **settings):
    return "semantic-kernel", settings, kind


POLICIES = {
    "semantic-kernel-truncation": policy(Truncation, target_count=15),
    "semantic-kernel-truncation-threshold": policy(Truncation, target_count=10, threshold_count=15),
    "semantic-kernel-summary": policy(Summarization, target_count=10, threshold_count=15),
    "semantic-kernel-summaries": policy(Summarization, target_count=10, threshold_count=5, use_single_summary=False),
    "semantic-kernel-summary-functions": policy(
        Summarization, target_count=10, threshold_count=15, include_function_content_in_summary=True
    ),
}
