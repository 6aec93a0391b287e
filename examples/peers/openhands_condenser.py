"""The condenser of the OpenHands SDK: its summary of the middle by a model that runs here, as a server of its API."""

import json
import os

# Prices would be fetched, a banner shown, and small models refused.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENHANDS_SUPPRESS_BANNER="1", ALLOW_SHORT_CONTEXT_WINDOWS="true")

from local_model import server
from openhands.sdk import LLM, Message, TextContent
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, Condensation, MessageEvent, ObservationEvent
from openhands.sdk.llm import MessageToolCall
from openhands.sdk.tool import Observation

import trajpress

# What the server can read, and a short answer.
llm = LLM(
    model="openai/local", base_url=server().listening_address + "/v1", api_key="none", usage_id="condenser",
    max_input_tokens=7000, max_output_tokens=64, temperature=0.0, num_retries=0,
)


class Output(Observation):
    pass


def native(m: trajpress.Message):
    # The condenser shows events to the model; a small one cannot read them whole.
    shown = m["content"][:120]
    text = [TextContent(text=shown)]
    if m.get("tool_calls"):
        name = m["tool_calls"][0]["function"]["name"] or "tool"
        call = MessageToolCall(id=m["tool_calls"][0]["id"], name=name, arguments=json.dumps({"input": shown}), origin="completion")
        return ActionEvent(id=m["id"], thought=[], action=None, tool_name=name, tool_call_id=call.id, llm_response_id=m["id"], tool_call=call)
    if m["role"] == "tool" and m.get("tool_call_id"):
        return ObservationEvent(
            id=m["id"], observation=Output.from_text(shown), action_id=m["tool_call_id"], tool_name="tool", tool_call_id=m["tool_call_id"]
        )
    role = m["role"] if m["role"] != "tool" else "user"
    return MessageEvent(id=m["id"], source="agent" if role == "assistant" else "user", llm_message=Message(role=role, content=text))


@trajpress.strategy(version="1.58.2")
def openhands_condenser(event: trajpress.Event) -> list:
    events = [native(m) for m in event.messages]
    size = max(10, len(events) // 2)
    condenser = LLMSummarizingCondenser(llm=llm, max_size=size, keep_first=1)
    made = condenser.condense(View.from_events(events), agent_llm=llm)
    if not isinstance(made, Condensation):
        return event.messages
    left = [m for m in event.messages if m["id"] not in made.forgotten_event_ids]
    at = made.summary_offset or 0
    return [*left[:at], made.summary or "", *left[at:]]


trajpress.main()
