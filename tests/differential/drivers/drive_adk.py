"""Google ADK: compaction of a session's events, by tokens and by invocations. Responses of one step are one event."""

from google.adk.agents import Agent
from google.adk.apps import compaction
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.flows.llm_flows.context._compaction import _process_compaction_events
from google.adk.sessions.session import Session as AdkSession
from google.genai import types

from harness import SUMMARY, Session, calls_key, run


class Summarizer(BaseEventsSummarizer):
    async def maybe_summarize_events(self, *, events):
        content = types.Content(role="model", parts=[types.Part(text=SUMMARY)])
        actions = EventActions(
            compaction=EventCompaction(
                start_timestamp=events[0].timestamp, end_timestamp=events[-1].timestamp, compacted_content=content
            )
        )
        return Event(author="user", timestamp=events[-1].timestamp, invocation_id=Event.new_id(), actions=actions)


AGENT = Agent(name="agent", model="gemini-2.0-flash")


class Adk(Session):
    merge_results = True

    def __init__(self, usage=True, **settings):
        super().__init__(**settings)
        self.reports = usage
        self.config = EventsCompactionConfig(summarizer=Summarizer(), **settings)
        self.app = App(name="app", root_agent=AGENT, events_compaction_config=self.config)
        self.session = AdkSession(id="s", app_name="app", user_id="u", events=[])
        self.state, self.turn, self.places = self.session.events, 0, {}

    async def append_event(self, session, event):
        session.events.append(event)

    def add(self, at, message):
        if message["role"] == "user":
            if self.turn and self.config.compaction_interval:
                run(self.after_invocation())
            self.turn += 1
        super().add(at, message)

    async def after_invocation(self):
        async for event in compaction._run_compaction_for_sliding_window(self.app, self.session, self):
            self.session.events.append(event)

    def native(self, at, m):
        usage = None
        if m["role"] == "tool":
            self.places[m["call"]] = at
            response = types.FunctionResponse(id=m["call"], name=m["name"], response={"result": m["text"]})
            parts = [types.Part(function_response=response)]
        else:
            parts = [types.Part(text=m["text"])] if m["text"] else []
            for c in m.get("calls", []):
                parts.append(types.Part(function_call=types.FunctionCall(id=c["id"], name=c["name"], args=c["args"])))
        if m["role"] == "assistant" and self.reports:
            usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=self.usage)
        user = m["role"] == "user"
        content = types.Content(role="user" if user or m["role"] == "tool" else "model", parts=parts)
        return Event(
            id=f"{m['role']} {at}", timestamp=at + 1.0, invocation_id=f"i{self.turn}", content=content,
            author="user" if user else "agent", usage_metadata=usage,
        )

    def merge(self, before, native):
        before.content.parts.extend(native.content.parts)
        before.timestamp = native.timestamp

    def policy(self):
        if self.config.token_threshold:
            run(
                compaction._run_compaction_for_token_threshold_config(
                    config=self.config, session=self.session, session_service=self, agent=AGENT, agent_name="agent"
                )
            )
        return _process_compaction_events(self.session.events)

    def view(self, e):
        if e.actions.compaction:
            yield None, "assistant", e.content.parts[0].text, ""
            return
        role, at = e.id.split(" ")
        parts = e.content.parts
        if role == "tool":
            for p in parts:
                yield self.places[p.function_response.id], "tool", p.function_response.response["result"], ""
            return
        calls = [(p.function_call.name, p.function_call.args) for p in parts if p.function_call]
        yield int(at), role, "".join(p.text for p in parts if p.text), calls_key(calls)


def policy(**settings):
    return "google-adk", settings, Adk


POLICIES = {
    "adk-tokens": policy(token_threshold=6000, event_retention_size=8),
    "adk-tokens-estimate": policy(token_threshold=6000, event_retention_size=8, usage=False),
    "adk-interval": policy(compaction_interval=1, overlap_size=1),
    "adk-interval-2": policy(compaction_interval=2, overlap_size=1),
    "adk-both": policy(compaction_interval=2, overlap_size=1, token_threshold=8000, event_retention_size=10),
}
