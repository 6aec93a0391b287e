"""What the peers of LangChain share: messages of an event as LangChain's, and back."""

import json
from typing import Dict, List

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

import trajpress


def arguments(text: str) -> dict:
    """Of a call, which LangChain wants as an object."""
    try:
        made = json.loads(text)
    except ValueError:
        made = None
    return made if isinstance(made, dict) else {"input": text}


def to_langchain(messages: List[trajpress.Message]) -> List[BaseMessage]:
    made: List[BaseMessage] = []
    for m in messages:
        if m["role"] == "assistant":
            calls = [
                {"id": c["id"], "name": c["function"]["name"] or "tool", "args": arguments(c["function"]["arguments"])}
                for c in m.get("tool_calls", [])
            ]
            made.append(AIMessage(m["content"], id=m["id"], tool_calls=calls))
        elif m["role"] == "tool":
            made.append(ToolMessage(m["content"], id=m["id"], tool_call_id=m.get("tool_call_id") or "none"))
        else:
            made.append((SystemMessage if m["role"] == "system" else HumanMessage)(m["content"], id=m["id"]))
    return made


def from_langchain(messages: List[BaseMessage], shown: List[trajpress.Message]) -> list:
    """Messages that were shown are named by their id, and have the text that they have now; others are new."""
    ids = {m["id"] for m in shown}
    return [{"id": m.id, "content": m.content} if m.id in ids else str(m.content) for m in messages]


def counter(shown: List[trajpress.Message]):
    """Counts tokens as the experiment does; new messages four characters to a token."""
    known: Dict[str, int] = {m["id"]: m["tokens"] for m in shown}

    def count(messages, **_) -> int:
        all_of = messages if isinstance(messages, list) else [messages]
        return sum(known.get(m.id, len(str(m.content)) // 4 + 1) for m in all_of)

    return count
