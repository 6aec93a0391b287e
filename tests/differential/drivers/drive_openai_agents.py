"""OpenAI Agents SDK: ToolOutputTrimmer. A view only. A reply and its calls are several items."""

import json
from itertools import groupby

from agents.extensions import ToolOutputTrimmer
from agents.run_config import CallModelData, ModelInputData

from harness import Session, calls_key, compact


class Trimmer(Session):
    def native(self, at, m):
        if m["role"] == "tool":
            return [{"type": "function_call_output", "call_id": m["call"], "output": m["text"], "at": at}]
        items = [{"type": "message", "role": m["role"], "content": m["text"], "at": at}]
        for c in m.get("calls", []):
            call = {"type": "function_call", "call_id": c["id"], "name": c["name"], "arguments": compact(c["args"])}
            items.append(call | {"at": at})
        return items

    def policy(self):
        items = [item for group in self.state for item in group]
        data = CallModelData(model_data=ModelInputData(input=items, instructions=None), agent=None, context=None)
        made = ToolOutputTrimmer(**self.settings)(data).input
        return [list(group) for _, group in groupby(made, key=lambda item: item["at"])]

    def view(self, items):
        first = items[0]
        if first["type"] == "function_call_output":
            yield first["at"], "tool", first["output"], ""
            return
        calls = [(i["name"], json.loads(i["arguments"])) for i in items if i["type"] == "function_call"]
        yield first["at"], first["role"], first["content"], calls_key(calls)


POLICIES = {
    "openai-agents-trimmer": ("openai-agents", {}, Trimmer),
    "openai-agents-trimmer-1": (
        "openai-agents", {"recent_turns": 1, "max_output_chars": 300, "preview_chars": 100, "trimmable_tools": ["bash"]}, Trimmer
    ),
}
