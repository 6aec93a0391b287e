"""distil-llm's `compress_messages`: tool results become digests, from which it can restore them."""

from distil import compress_messages

import trajpress


@trajpress.strategy(version="1.58.0")
def distil(event: trajpress.Event) -> list:
    shown = [{"role": m["role"], "content": m["content"]} for m in event.messages]
    made = compress_messages(shown).messages
    assert len(made) == len(shown), "it left messages out"
    return [{"id": m["id"], "content": new["content"]} for m, new in zip(event.messages, made)]


trajpress.main()
