"""ctxprune on tool results: a small model says which words stay. Its weights come from a hub when it is first used."""

import ctxprune

import trajpress

ctxprune.prune("Are the weights there?", keep=0.5)


@trajpress.strategy(version="0.2.1")
def prune(event: trajpress.Event) -> list:
    keep = event.budget / max(event.tokens, 1)
    is_result = lambda m: m["role"] == "tool"
    return [{"id": m["id"], "content": ctxprune.prune(m["content"], keep=keep)} if is_result(m) else m for m in event.messages]


trajpress.main()
