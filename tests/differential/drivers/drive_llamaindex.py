"""LlamaIndex: the two buffers and the queue of Memory (without blocks). Tokens by the stand-in."""

from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage, ChatResponse, MockLLM
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer, Memory

from harness import SUMMARY, Session, calls_key, run, tokens


def tokenizer(text):
    return range(tokens(text))


class Llm(MockLLM):
    def chat(self, messages, **_):
        return ChatResponse(message=ChatMessage(role="assistant", content=SUMMARY))


class LlamaIndex(Session):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.places, self.kept = {}, []
        self.buffer = self.make(**settings)

    def native(self, at, m):
        blocks = [TextBlock(text=m["text"])] if m["text"] else []
        for c in m.get("calls", []):
            blocks.append(ToolCallBlock(tool_call_id=c["id"], tool_name=c["name"], tool_kwargs=c["args"]))
        made = ChatMessage(role=m["role"], blocks=blocks)
        self.places[id(made)] = at
        self.kept.append(made)  # so that no other object gets its id
        return made

    def add(self, at, message):
        super().add(at, message)
        if message["role"] != "system":
            self.buffer.put(self.state[-1])

    def policy(self):
        return self.buffer.get()

    def view(self, m):
        text = "".join(b.text for b in m.blocks if isinstance(b, TextBlock))
        calls = [(b.tool_name, b.tool_kwargs) for b in m.blocks if isinstance(b, ToolCallBlock)]
        yield self.places.get(id(m)), m.role.value, text, calls_key(calls)


class Buffer(LlamaIndex):
    def make(self, **settings):
        return ChatMemoryBuffer.from_defaults(tokenizer_fn=tokenizer, **settings)


class Summary(LlamaIndex):
    def make(self, **settings):
        return ChatSummaryMemoryBuffer.from_defaults(tokenizer_fn=tokenizer, llm=Llm(), **settings)


class Queue(LlamaIndex):
    """The queue gives its messages back as new objects: they are the newest ones that were put."""

    def make(self, **settings):
        return Memory.from_defaults(session_id="s", tokenizer_fn=tokenizer, **settings)

    def add(self, at, message):
        Session.add(self, at, message)
        if message["role"] != "system":
            run(self.buffer.aput(self.state[-1]))

    def policy(self):
        got = run(self.buffer.aget())
        newest = self.state[len(self.state) - len(got):]
        assert [m.content for m in got] == [m.content for m in newest]
        return newest


POLICIES = {
    "llamaindex-buffer": ("llama-index-core", {"token_limit": 4000}, Buffer),
    "llamaindex-summary-buffer": ("llama-index-core", {"token_limit": 4000}, Summary),
    "llamaindex-memory": (
        "llama-index-core", {"token_limit": 6250, "chat_history_token_ratio": 0.7, "token_flush_size": 600}, Queue
    ),
}
