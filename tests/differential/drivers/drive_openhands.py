"""OpenHands SDK's condenser. A call is an event and its result another; the calls of one reply share its id."""

import json

from openhands.sdk import LLM, Message, TextContent
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, Condensation, MessageEvent, ObservationEvent, SystemPromptEvent
from openhands.sdk.event.condenser import CondensationSummaryEvent
from openhands.sdk.llm import MessageToolCall
from openhands.sdk.tool import Observation

from harness import SUMMARY, Session, calls_key, compact, tokens


class Output(Observation):
    pass


def text_of(content):
    return "".join(c.text for c in content if isinstance(c, TextContent))


def token_count(self, messages, **_):
    calls = lambda m: "".join(c.name + c.arguments for c in m.tool_calls or [])
    return sum(tokens(text_of(m.content) + calls(m)) for m in messages)


def generate(self, forgotten_events, summary_offset, max_event_str_length=None):
    return Condensation(
        forgotten_event_ids={e.id for e in forgotten_events}, summary=SUMMARY, summary_offset=summary_offset,
        llm_response_id="summary",
    )


LLM.get_token_count = token_count
LLMSummarizingCondenser._generate_condensation = generate


class OpenHands(Session):
    system_apart = False

    def __init__(self, **settings):
        super().__init__(**settings)
        self.llm = LLM(model="gpt-4o", api_key="unused", usage_id="condenser", max_input_tokens=10**9)
        self.condenser = LLMSummarizingCondenser(llm=self.llm, **settings)

    def native(self, at, m):
        content = [TextContent(text=m["text"])]
        if m["role"] == "system":
            return [SystemPromptEvent(id=f"m{at}", system_prompt=content[0], tools=[])]
        if m["role"] == "tool":
            observation = Output.from_text(m["text"])
            return [
                ObservationEvent(
                    id=f"m{at}", observation=observation, action_id=m["call"], tool_name=m["name"], tool_call_id=m["call"]
                )
            ]
        if m["role"] == "assistant" and m["calls"]:
            return [
                ActionEvent(
                    id=f"m{at}.{n}", thought=content if n == 0 and m["text"] else [], action=None, tool_name=c["name"],
                    tool_call_id=c["id"], llm_response_id=f"r{at}",
                    tool_call=MessageToolCall(
                        id=c["id"], name=c["name"], arguments=compact(c["args"]), origin="completion"
                    ),
                )
                for n, c in enumerate(m["calls"])
            ]
        source = "agent" if m["role"] == "assistant" else "user"
        message = Message(role=m["role"], content=content)
        return [MessageEvent(id=f"m{at}", source=source, llm_message=message)]

    def policy(self):
        events = [e for group in self.state for e in group]
        for _ in range(10):  # after a condensation the agent's step starts anew
            made = self.condenser.condense(View.from_events(events), agent_llm=self.llm)
            if isinstance(made, View):
                break
            self.state.append([made])
            events.append(made)
        groups = []
        for e in made.events:
            if groups and isinstance(e, ActionEvent) and isinstance(groups[-1][0], ActionEvent):
                if groups[-1][0].llm_response_id == e.llm_response_id:
                    groups[-1].append(e)
                    continue
            groups.append([e])
        return groups

    def view(self, group):
        e = group[0]
        at = int(e.id[1:].split(".")[0]) if e.id[0] == "m" else None
        if isinstance(e, SystemPromptEvent):
            yield at, "system", e.system_prompt.text, ""
        elif isinstance(e, ActionEvent):
            calls = [(a.tool_call.name, json.loads(a.tool_call.arguments)) for a in group]
            yield at, "assistant", text_of(e.thought), calls_key(calls)
        elif isinstance(e, ObservationEvent):
            yield at, "tool", text_of(e.observation.to_llm_content), ""
        elif isinstance(e, CondensationSummaryEvent):
            m = e.to_llm_message()
            yield None, m.role, text_of(m.content), ""
        else:
            yield at, e.llm_message.role, text_of(e.llm_message.content), ""


def policy(**settings):
    return "openhands-sdk", settings, OpenHands


POLICIES = {
    "openhands-sdk-events": policy(max_size=40, keep_first=2),
    "openhands-sdk-events-agent": policy(max_size=30, keep_first=4),
    "openhands-sdk-tokens": policy(max_size=1000, keep_first=2, max_tokens=6000),
    "openhands-sdk-both": policy(max_size=40, keep_first=4, max_tokens=8000),
}
