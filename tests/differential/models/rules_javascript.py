"""pi and Gemini CLI: both count in UTF-16 units."""

import math

from base import SUMMARY, Item, Model, user
from harness import compact, count


def units(text):
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class Pi(Model):
    """0.73: asked at the end of a turn only. `self.state` are all entries; `first` is the first that stands."""

    mid_turn = False
    PREFIX = "The conversation history before this point was compacted into the following summary:\n\n<summary>\n"

    def __init__(self, **settings):
        super().__init__(**settings)
        self.first, self.text, self.border, self.totals = 0, None, 0, {}

    def size(self, i):
        calls = sum(units(c["name"]) + units(compact(c["args"])) for c in i.calls)
        return math.ceil((units(i.text) + calls) / 4)

    def add(self, at, m):
        if m["role"] == "user" and self.inputs and self.inputs[-1]["role"] == "assistant":
            self.compact(self.totals[len(self.inputs) - 1])
        super().add(at, m)
        if m["role"] == "assistant":
            self.totals[at] = self.usage + count(m)

    def compact(self, now):
        if now <= self.window - self.reserveTokens or not self.state:
            return
        items, kept = self.state, 0
        points = [n for n in range(self.first, len(items)) if items[n].role != "tool"]
        cut = points[0]
        for n in range(len(items) - 1, self.first - 1, -1):
            kept += self.size(items[n])
            if kept >= self.keepRecentTokens:
                cut = next((p for p in points if p >= n), self.no_cut_after(points))
                break
        start = max((n for n in range(self.first, cut + 1) if items[n].role == "user"), default=None)
        split = items[cut].role != "user" and start is not None
        history = (start if split else cut) > self.first
        if not history and not split and not self.empty_is_made:
            return
        self.text = self.joined(history) if split else SUMMARY
        self.first, self.border = cut, len(items)

    empty_is_made = True

    def no_cut_after(self, points):
        return points[0]

    def joined(self, history):
        return (SUMMARY if history else self.no_history()) + "\n\n---\n\n**Turn Context (split turn):**\n\n" + SUMMARY

    def no_history(self):
        return "No prior history."

    def policy(self):
        if self.mid_turn and self.inputs and self.inputs[-1]["role"] == "tool":
            self.compact(self.estimate())
        head = [user(self.PREFIX + self.text + "\n</summary>")] if self.text else []
        return head + self.state[self.first :]


class Pi15(Pi):
    """1.5: also before each further model call of a turn; an old summary is not lost; else the last cut is taken."""

    mid_turn, empty_is_made = True, False

    def no_cut_after(self, points):
        return points[-1]

    def no_history(self):
        return self.text or "No prior history."

    def estimate(self):
        replies = [n for n, i in enumerate(self.state) if i.role == "assistant" and n >= self.border]
        if replies:
            return self.totals[self.state[replies[-1]].at] + sum(map(self.size, self.state[replies[-1] + 1 :]))
        summary = math.ceil(units(self.text) / 4) if self.text else 0
        return summary + sum(map(self.size, self.state[self.first :]))


ENVIRONMENT = """<session_context>
This is the Gemini CLI. We are setting up the context for our chat.
Today's date is Monday, January 1, 2024 (formatted according to the user's locale).
My operating system is: linux
The project's temporary directory is: outputs



</session_context>"""


def text_tokens(text):
    size = units(text)
    if size > 100_000:
        return size / 4
    ascii_count = sum(c < "\x80" for c in text)
    return ascii_count * 0.25 + (size - ascii_count) * 1.5


def part_tokens(part):
    if "text" in part:
        return text_tokens(part["text"])
    if "functionResponse" in part:
        f = part["functionResponse"]
        return units(f["name"]) / 4 + units(compact(f["response"])) / 4
    return units(compact(part)) / 4


def cut_units(text, start, end):
    raw = text.encode("utf-16-le", "surrogatepass")
    raw = raw[2 * start : 2 * end if end else None] if start >= 0 else raw[2 * start :]
    return raw.decode("utf-16-le", "replace")


class Gemini(Model):
    """`self.state` is a list of contents (lists of items; the results of one step are one) without the pending request."""

    DEFAULTS = {"threshold": None, "masking": None, "truncate": 40000}

    def __init__(self, **settings):
        super().__init__(**settings)
        self.pending, self.last, self.failed, self.files = [], 0, False, 0

    def add(self, at, m):
        item = self.native(at, m)
        merge = m["role"] == "tool" and self.inputs[at - 1]["role"] == "tool"
        self.inputs.append(m)
        if m["role"] == "system":
            self.system.append(item)
        elif merge:
            self.pending[-1].append(item)
        else:
            self.pending.append([item])
        if m["role"] == "assistant":
            self.last = self.usage
            self.state, self.pending = self.state + self.pending, []

    def parts(self, content):
        made = []
        for i in content:
            if i.role == "tool":
                made.append({"functionResponse": {"id": i.call, "name": i.name, "response": {"output": i.text}}})
                continue
            made += [{"text": i.text}] if i.text else []
            made += [{"functionCall": {"id": c["id"], "name": c["name"], "args": c["args"]}} for c in i.calls]
        return made

    def chars(self, content):
        role = "model" if content[0].role == "assistant" else "user"
        return units(compact({"role": role, "parts": self.parts(content)}))

    def estimate(self, contents, more=0.0):
        for content in contents:
            for part in self.parts(content):
                more += part_tokens(part)
        return math.floor(more)

    def policy(self):
        if self.threshold and self.state and self.last >= self.threshold:
            self.compress()
        if self.masking:
            self.mask()
        return [i for content in self.state + self.pending for i in content]

    def truncated(self):
        """Newest first: a result that would pass 50,000 tokens of results is clipped to 40,000 characters."""
        made, used = [], 0
        for content in reversed(self.state):
            made.insert(0, list(content))
            for n in range(len(content) - 1, -1, -1):
                i = content[n]
                if i.role != "tool":
                    continue
                size = math.floor(text_tokens(i.text))
                if used + size > 50_000:
                    self.files += 1
                    i = made[0][n] = i.but(text=self.clipped(i))
                    size = math.floor(text_tokens(i.text))
                used += size
        return made

    def clipped(self, i):
        size, most = units(i.text), self.truncate
        if size <= most:
            return i.text
        head = int(most * 0.2)
        tail = most - head
        return (
            f"Output too large. Showing first {head:,} and last {tail:,} characters. For full output see: "
            f"outputs/tool-outputs/{i.name}_{self.files}.txt\n{cut_units(i.text, 0, head)}\n\n"
            f"... [{size - most:,} characters omitted] ...\n\n{cut_units(i.text, -tail, None)}"
        )

    def compress(self):
        made = self.truncated()
        if self.failed:
            if self.estimate(made) < self.last:
                self.state, self.last = made, self.estimate(made)
            return
        cut = self.split(made)
        if cut == 0:
            return
        made = [[user()], [Item("assistant", "Got it. Thanks for the additional context!")], *made[cut:]]
        if self.estimate(made, text_tokens(ENVIRONMENT)) > self.last:
            self.failed = True
            return
        self.state, self.last = made, self.estimate(made)

    def split(self, contents):
        sizes = [self.chars(c) for c in contents]
        seen, last = 0, 0
        for n, content in enumerate(contents):
            if content[0].role == "user":
                if seen >= sum(sizes) * 0.7:
                    return n
                last = n
            seen += sizes[n]
        return len(contents) if contents[-1][0].role == "assistant" and not contents[-1][0].calls else last

    def mask(self):
        used, found, reached = 0, [], False
        for c in range(len(self.state) - (2 if self.masking["protectLatestTurn"] else 1), -1, -1):
            for n in range(len(self.state[c]) - 1, -1, -1):
                i = self.state[c][n]
                if i.role != "tool" or "<tool_output_masked" in i.text:
                    continue
                size = math.floor(part_tokens(self.parts([i])[0]))
                used += size
                reached = reached or used > self.masking["protectionThresholdTokens"]
                if reached:
                    found.append((c, n, size))
        if sum(size for _, _, size in found) < self.masking["minPrunableThresholdTokens"]:
            return
        for c, n, size in found:
            i = self.state[c][n]
            made = i.but(text=self.masked(i))
            if math.floor(part_tokens(self.parts([made])[0])) < size:
                self.state[c] = [*self.state[c][:n], made, *self.state[c][n + 1 :]]

    def masked(self, i):
        content = '{\n  "output": ' + compact(i.text) + "\n}"
        if units(content) > 500:
            content = f"{cut_units(content, 0, 250)}\n... [TRUNCATED] ...\n{cut_units(content, -250, None)}"
        path = f"outputs/tool-outputs/session-s/{i.name.lower()}_{i.call.lower()}_.txt"
        return f"<tool_output_masked>\n{content}\n\nOutput too large. Full output available at: {path}\n</tool_output_masked>"


MODELS = {
    "pi-0.73": Pi, "pi-0.73-small-tail": Pi, "pi-1.5": Pi15, "pi-1.5-small-tail": Pi15,
    "gemini-cli-compression": Gemini, "gemini-cli-masking": Gemini, "gemini-cli": Gemini,
}
