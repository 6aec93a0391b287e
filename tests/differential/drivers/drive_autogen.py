"""AutoGen's model contexts. A view only: the messages stay. Results of parallel calls are one message."""

from autogen_core import FunctionCall
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext,
)
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)

import json

from harness import Session, calls_key, compact, run, tokens


class AutoGen(Session):
    merge_results = True

    def native(self, at, m):
        if m["role"] == "assistant":
            if not m["calls"]:
                return AssistantMessage(content=m["text"], source=f"m{at}")
            calls = [FunctionCall(id=c["id"], name=c["name"], arguments=compact(c["args"])) for c in m["calls"]]
            return AssistantMessage(content=calls, thought=m["text"], source=f"m{at}")
        if m["role"] == "tool":
            result = FunctionExecutionResult(content=m["text"], name=m["name"], call_id=f"m{at}")
            return FunctionExecutionResultMessage(content=[result])
        if m["role"] == "system":
            made = SystemMessage(content=m["text"])
            made.__dict__["at"] = at
            return made
        return UserMessage(content=m["text"], source=f"m{at}")

    def merge(self, before, native):
        before.content.extend(native.content)

    def view(self, m):
        if isinstance(m, FunctionExecutionResultMessage):
            for r in m.content:
                yield int(r.call_id[1:]), "tool", r.content, ""
        elif isinstance(m, SystemMessage):
            yield m.__dict__["at"], "system", m.content, ""
        elif isinstance(m, AssistantMessage):
            calls = [] if isinstance(m.content, str) else m.content
            text = (m.thought or "") if calls else m.content
            yield int(m.source[1:]), "assistant", text, calls_key((c.name, json.loads(c.arguments)) for c in calls)
        else:
            yield (int(m.source[1:]) if m.source[0] == "m" else None), "user", m.content, ""


class Counting:
    """The model client that a token limit asks."""

    def count_tokens(self, messages, tools=()):
        made = 0
        for m in messages:
            if isinstance(m, FunctionExecutionResultMessage):
                made += sum(tokens(r.content) for r in m.content)
            elif isinstance(m.content, str):
                made += tokens(m.content)
            else:
                made += tokens((m.thought or "") + "".join(c.name + c.arguments for c in m.content))
        return made


class Buffered(AutoGen):
    def policy(self):
        return run(BufferedChatCompletionContext(initial_messages=self.state, **self.settings).get_messages())


class HeadAndTail(AutoGen):
    def policy(self):
        return run(HeadAndTailChatCompletionContext(initial_messages=self.state, **self.settings).get_messages())


class TokenLimited(AutoGen):
    def policy(self):
        context = TokenLimitedChatCompletionContext(Counting(), initial_messages=self.state, **self.settings)
        return run(context.get_messages())


POLICIES = {
    "autogen-buffered": ("autogen-core", {"buffer_size": 20}, Buffered),
    "autogen-head-and-tail": ("autogen-core", {"head_size": 4, "tail_size": 20}, HeadAndTail),
    "autogen-token-limited": ("autogen-core", {"token_limit": 4000}, TokenLimited),
}
