"""LangChain: trim_messages, ClearToolUsesEdit, SummarizationMiddleware; and LangMem, deepagents."""

from copy import deepcopy

from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain.agents.middleware.summarization import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import RunnableLambda

from harness import SUMMARY, Session, calls_key, compact, run, tokens

ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
MODEL = FakeListChatModel(responses=["unused"])


def counter(messages):
    """The stand-in for a tokenizer, over LangChain's messages."""
    made = 0
    for m in [messages] if not isinstance(messages, list) else messages:
        calls = "".join(c["name"] + compact(c["args"]) for c in getattr(m, "tool_calls", []))
        made += tokens((m.content if isinstance(m.content, str) else "") + calls)
    return made


class LangChain(Session):
    def native(self, at, m):
        id = f"m{at}"
        if m["role"] == "assistant":
            return AIMessage(m["text"], id=id, tool_calls=[dict(c, type="tool_call") for c in m["calls"]])
        if m["role"] == "tool":
            return ToolMessage(m["text"], id=id, tool_call_id=m["call"], name=m["name"])
        return (SystemMessage if m["role"] == "system" else HumanMessage)(m["text"], id=id)

    def view(self, m):
        at = int(m.id[1:]) if m.id and m.id[0] == "m" and m.id[1:].isdigit() else None
        calls = calls_key((c["name"], c["args"]) for c in getattr(m, "tool_calls", []))
        yield at, ROLES[m.type], m.content, calls


class Trim(LangChain):
    system_apart = False

    def policy(self):
        return trim_messages(self.state, token_counter=counter, **self.settings)


class Clear(LangChain):
    def policy(self):
        edited = deepcopy(self.state)
        ClearToolUsesEdit(**self.settings).apply(edited, count_tokens=counter)
        return edited


class Summarize(LangChain):
    def policy(self):
        own = self.settings.get("token_counter") == "own"
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in self.settings.items() if k != "token_counter"}
        middleware = SummarizationMiddleware(
            model=MODEL, summarizer=lambda messages: SUMMARY,
            token_counter=count_tokens_approximately if own else counter, **settings
        )
        update = middleware.before_model({"messages": self.state}, None)
        if update:
            self.state = update["messages"][1:]
        return self.state


POLICIES = {
    "langchain-trim": ("langchain-core", {"max_tokens": 4000, "strategy": "last"}, Trim),
    "langchain-trim-human": (
        "langchain-core",
        {"max_tokens": 4000, "strategy": "last", "include_system": True, "start_on": "human"},
        Trim,
    ),
    "langchain-trim-first": ("langchain-core", {"max_tokens": 4058, "strategy": "first", "end_on": ["human", "tool"]}, Trim),
    "langchain-trim-partial": ("langchain-core", {"max_tokens": 4000, "strategy": "last", "allow_partial": True}, Trim),
    "langchain-context-editing": ("langchain", {"trigger": 4058, "keep": 3}, Clear),
    "langchain-context-editing-inputs": (
        "langchain",
        {"trigger": 4058, "keep": 5, "clear_at_least": 1500, "clear_tool_inputs": True, "exclude_tools": ["search"]},
        Clear,
    ),
    "langchain-summarization": ("langchain", {"trigger": ["tokens", 6000], "keep": ["messages", 20]}, Summarize),
    "langchain-summarization-tokens": (
        "langchain",
        {"trigger": ["tokens", 6000], "keep": ["tokens", 2000], "trim_tokens_to_summarize": 4000},
        Summarize,
    ),
    "langchain-summarization-messages": ("langchain", {"trigger": ["messages", 40], "keep": ["messages", 10]}, Summarize),
    "langchain-summarization-own": (
        "langchain",
        {"trigger": ["tokens", 6000], "keep": ["tokens", 2000], "token_counter": "own"},
        Summarize,
    ),
}
