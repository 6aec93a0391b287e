"""LangChain's context editing: `ClearToolUsesEdit` clears all tool results but the newest three."""

from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain_messages import counter, from_langchain, to_langchain

import trajpress


@trajpress.strategy(version="1.5.2")
def langchain_editing(event: trajpress.Event) -> list:
    messages = to_langchain(event.messages)
    edit = ClearToolUsesEdit(trigger=0, keep=event.params.get("keep", 3))
    edit.apply(messages, count_tokens=counter(event.messages))
    return from_langchain(messages, event.messages)


trajpress.main()
