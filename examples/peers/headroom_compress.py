"""headroom's `compress`, without its model: that is downloaded from a hub when it is first used."""

import os

# Prices of models would be fetched.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from headroom import compress

import trajpress


@trajpress.strategy(version="0.42.0")
def headroom(event: trajpress.Event) -> list:
    shown = [{key: m[key] for key in ("role", "content", "tool_calls", "tool_call_id") if key in m} for m in event.messages]
    made = compress(shown, model="gpt-4o", kompress_model="disabled", protect_recent=0).messages
    assert len(made) == len(shown), "it left messages out"
    return [{"id": m["id"], "content": new["content"]} for m, new in zip(event.messages, made)]


trajpress.main()
