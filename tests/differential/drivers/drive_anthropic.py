"""The tool runner of Anthropic's SDK with its own compaction (since replaced by the server's): asked after each reply.

When it compacts, the reply that led to it was not stored yet: its calls are never run. So here that reply, and the
results that the list has for it, are left out.
"""

from types import SimpleNamespace

from anthropic.lib.tools._beta_runner import BetaToolRunner

from harness import SUMMARY, Session, calls_key, count


class Runner(BetaToolRunner):
    def __init__(self, threshold):
        self._compaction_control = {"enabled": True, "context_token_threshold": threshold}
        answer = SimpleNamespace(usage=SimpleNamespace(output_tokens=1), content=[SimpleNamespace(type="text", text=SUMMARY)])
        self._client = SimpleNamespace(
            beta=SimpleNamespace(messages=SimpleNamespace(create=lambda **_: answer))
        )

    def _get_last_message(self):
        return self.reply

    def set_messages_params(self, params):
        self._params = params(self._params)

    def compacted(self, messages, prompt, output):
        self._params = {"messages": list(messages), "model": "m", "max_tokens": 1}
        usage = dict(input_tokens=prompt, cache_creation_input_tokens=0, cache_read_input_tokens=0, output_tokens=output)
        self.reply = SimpleNamespace(usage=SimpleNamespace(**usage))
        return self._params["messages"] if self._check_and_compact() else None


class Anthropic(Session):
    merge_results = True
    lost = False

    def __init__(self, **settings):
        super().__init__(**settings)
        self.runner, self.places = Runner(settings["context_token_threshold"]), {}

    def native(self, at, m):
        if m["role"] == "tool":
            self.places[m["call"]] = at
            return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": m["call"], "content": m["text"]}]}
        blocks = [{"type": "text", "text": m["text"]}] if m["text"] else []
        blocks += [{"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]} for c in m.get("calls", [])]
        return {"role": m["role"], "content": blocks, "at": at}

    def add(self, at, message):
        if message["role"] == "assistant":
            made = self.runner.compacted(self.state, self.usage, count(message))
            self.lost = made is not None
            if self.lost:
                self.state = made
        elif message["role"] == "user":
            self.lost = False
        if self.lost:
            self.inputs.append(message)
        else:
            super().add(at, message)

    def merge(self, before, native):
        before["content"].extend(native["content"])

    def policy(self):
        return self.state

    def view(self, m):
        results = [b for b in m["content"] if b["type"] == "tool_result"]
        for r in results:
            yield self.places[r["tool_use_id"]], "tool", r["content"], ""
        if not results:
            calls = [(b["name"], b["input"]) for b in m["content"] if b["type"] == "tool_use"]
            yield m.get("at"), m["role"], "".join(b["text"] for b in m["content"] if b["type"] == "text"), calls_key(calls)


POLICIES = {"anthropic-tool-runner": ("anthropic", {"context_token_threshold": 6000}, Anthropic)}
