"""LangChain's `trim_messages`: the newest messages that fit the budget."""

from langchain_core.messages import trim_messages
from langchain_messages import counter, from_langchain, to_langchain

import trajpress


@trajpress.strategy(version="1.8.3")
def langchain_trim(event: trajpress.Event) -> list:
    shown = event.messages
    kept = trim_messages(
        to_langchain(shown), max_tokens=event.budget, strategy="last", token_counter=counter(shown)
    )
    return from_langchain(kept, shown)


trajpress.main()
