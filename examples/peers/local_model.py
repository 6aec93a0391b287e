"""A small model that runs here, by llama.cpp: `PEERS_MODEL` names its weights, a file in GGUF."""

import functools
import os

import xllamacpp


@functools.lru_cache(maxsize=None)
def server() -> xllamacpp.Server:
    """Also serves the API of OpenAI at `listening_address`."""
    params = xllamacpp.CommonParams()
    params.model.path = os.environ["PEERS_MODEL"]
    params.n_ctx, params.n_parallel, params.warmup = 8192, 1, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(params)


def reply(prompt: str, tokens: int, longest: int = 2000) -> str:
    """At temperature 0, so that the same prompt has the same answer. Of a prompt of more characters the middle is left out."""
    if len(prompt) > longest:
        prompt = prompt[: longest // 2] + "\n...\n" + prompt[-longest // 2 :]
    messages = [{"role": "user", "content": prompt}]
    answer = server().handle_chat_completions({"messages": messages, "max_tokens": tokens, "temperature": 0, "cache_prompt": False})
    return answer["choices"][0]["message"]["content"]
