"""LLMLingua-2 on tool results: `LLMLINGUA2` names the folder of its weights, which no package registry has."""

import os

from llmlingua import PromptCompressor

import trajpress

compressor = PromptCompressor(model_name=os.environ["LLMLINGUA2"], use_llmlingua2=True, device_map="cpu")


@trajpress.strategy(version="0.2.2")
def llmlingua2(event: trajpress.Event) -> list:
    rate = event.budget / max(event.tokens, 1)
    pruned = lambda text: compressor.compress_prompt(text, rate=rate)["compressed_prompt"] if text else text
    return [{"id": m["id"], "content": pruned(m["content"])} if m["role"] == "tool" else m for m in event.messages]


trajpress.main()
