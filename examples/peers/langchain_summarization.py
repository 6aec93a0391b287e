"""LangChain's `SummarizationMiddleware`: a summary by a model that runs here, and the newest messages for half of the budget."""

from langchain.agents.middleware.summarization import SummarizationMiddleware
from langchain_core.language_models.chat_models import SimpleChatModel
from langchain_messages import counter, from_langchain, to_langchain
from local_model import reply

import trajpress


class Local(SimpleChatModel):
    tokens: int

    def _call(self, messages, stop=None, run_manager=None, **_) -> str:
        return reply(messages[-1].content, self.tokens)

    @property
    def _llm_type(self) -> str:
        return "local"


@trajpress.strategy(version="1.5.2")
def langchain_summarization(event: trajpress.Event) -> list:
    half = max(event.budget // 2, 1)
    middleware = SummarizationMiddleware(
        model=Local(tokens=min(half, 64)), trigger=("tokens", 1), keep=("tokens", half),
        token_counter=counter(event.messages), trim_tokens_to_summarize=None,
    )
    messages = to_langchain(event.messages)
    update = middleware.before_model({"messages": messages}, None)
    return from_langchain(update["messages"][1:] if update else messages, event.messages)


trajpress.main()
