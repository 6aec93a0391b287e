"""Anthropic's tool runner, CrewAI, agno."""

from base import SUMMARY, Model, user
from harness import count


class Runner(Model):
    """A reply at or over the threshold is lost, its calls and results with it; all before it becomes the summary."""

    lost = False

    def add(self, at, m):
        if m["role"] == "assistant":
            self.lost = self.usage + count(m) >= self.context_token_threshold
            if self.lost:
                self.state = [user()]
        elif m["role"] == "user":
            self.lost = False
        if not self.lost:
            return super().add(at, m)
        self.inputs.append(m)


FRAME = "<summary>\n%s\n</summary>\n\nContinue the task from where the conversation left off. The above is a structured summary of prior context."


class CrewAi(Model):
    """Over the usable window all but the system messages become one user message: a summary for each chunk that fits."""

    system_apart = False
    PROMPT = 154 + 742  # characters of the instructions

    def policy(self):
        others = [i for i in self.state if i.role != "system"]
        alone = len(others) == 1 and others[0].role == "user"
        if (sum(len(i.text) for i in self.state) + 3) // 4 > self.usable() and not alone:
            made = user(FRAME % "\n\n".join([SUMMARY] * self.chunks(others)))
            self.state = [i for i in self.state if i.role == "system"] + [made]
        return self.state

    def usable(self):
        return int(self.window * 0.85)

    def line(self, item, length):
        label = {"assistant": "[ASSISTANT]:", "tool": f"[TOOL_RESULT ({item.name})]:"}.get(item.role, "[USER]:")
        return len(label) + 1 + length

    def request(self, lines):
        return (self.PROMPT + sum(lines) + 2 * max(0, len(lines) - 1) + 3) // 4

    def chunks(self, items):
        most, done, current = self.usable(), 0, []
        for item in items:
            line = self.line(item, len(item.text))
            if self.request([*current, line]) <= most:
                current.append(line)
                continue
            done, current = done + bool(current), []
            if self.request([line]) <= most:
                current = [line]
                continue
            room = max(1, int((most - self.request([])) * 0.75))
            length = max(1, int(len(item.text) * room / (self.request([line]) - self.request([]))))
            for start in range(0, len(item.text), length):
                part = self.line(item, min(length, len(item.text) - start))
                if self.request([*current, part]) > most:
                    done, current = done + 1, []
                current.append(part)
        return done + bool(current)


class Agno(Model):
    """Once as many results are uncompressed, or the prompt has the tokens, each of them is rewritten, the newest too."""

    DEFAULTS = {"compress_tool_results_limit": None, "compress_token_limit": None}

    def policy(self):
        raw = [n for n, i in enumerate(self.state) if i.role == "tool" and i.at not in self.done]
        limit, most = self.compress_tool_results_limit, self.compress_token_limit
        if limit and len(raw) >= limit or most and sum(i.tok for i in self.state) >= most:
            for n in raw:
                self.done.add(self.state[n].at)
                self.state[n] = self.state[n].but(text=SUMMARY)
        return self.state

    def __init__(self, **settings):
        super().__init__(**settings)
        self.done = set()


MODELS = {
    "anthropic-tool-runner": Runner, "crewai": CrewAi, "agno-compression": Agno, "agno-compression-tokens": Agno,
}
