"""Cline's SDK. It counts the characters of a message's JSON by three, in UTF-16 units; a message is a list of items."""

import math

from base import SUMMARY, Item, Model
from harness import compact
from rules_javascript import cut_units, units

FILES = "\n\n## Files\nRead:\n- none\nModified:\n- none"


def size(value):
    return max(1, math.ceil(units(compact(value)) / 3))


def text_of(m):
    return "".join(b["text"] for b in m["content"] if b["type"] == "text")


def kind(m):
    return m.get("metadata", {}).get("kind")


def preserved(m):
    return m.get("metadata", {}).get("compaction") == "preserved"


def results_only(m):
    return bool(m["content"]) and all(b["type"] == "tool_result" for b in m["content"])


def typed(m):
    return m["role"] == "user" and not results_only(m) and kind(m) != "compaction_summary"


def run_span(m):
    """How many prompts of the user a message stands for."""
    if m["role"] != "user" or results_only(m):
        return 0
    span = m.get("metadata", {}).get("userRunSpan")
    return span if span is not None else int(kind(m) == "compaction" or bool(text_of(m).strip()))


def trimmed(m):
    blocks = [b for b in m["content"] if b["type"] != "text" or b["text"].strip()]
    return m | {"content": [b | {"text": b["text"].strip()} if b["type"] == "text" else b for b in blocks]} if blocks else None


def clipped(text, most):
    length = units(text)
    if most <= 0 or length <= most:
        return "" if most <= 0 else text
    if most <= 16:
        return cut_units(text, 0, most)
    head = max(1, most - units(f"\n...[truncated {length - most} chars]"))
    return cut_units(text, 0, head) + f"\n...[truncated {length - head} chars]"


def shortened(m, most):
    blocks = []
    for b in m["content"]:
        key = {"text": "text", "tool_result": "content"}.get(b["type"])
        if key:
            b = b | {key: clipped(b[key], most)}
            most -= units(b[key])
        blocks.append(b)
    return m | {"content": blocks}


def connected(messages, n):
    """The messages tied to one by calls and results."""
    ids = lambda m: {b.get("id") or b.get("tool_use_id") for b in m["content"] if b["type"] in ("tool_use", "tool_result")}
    found, known = set(), ids(messages[n])
    while True:
        more = {n} | {k for k, m in enumerate(messages) if ids(m) & known}
        if more == found:
            return found
        found = more
        known |= set().union(*(ids(messages[k]) for k in found))


def within(messages, target):
    """Over the target, newest first, each but the newest prompt is clipped to its share; then the oldest are dropped."""
    messages = [m for m in messages if m["content"]]
    prompts = lambda: [n for n, m in enumerate(messages) if m["role"] == "user" and not results_only(m)] or [-1]
    now = lambda: sum(map(size, messages))
    for n in range(len(messages) - 1, -1, -1):
        if now() <= target:
            return messages
        m = messages[n]
        if n != prompts()[-1] and any(b["type"] in ("text", "tool_result") for b in m["content"]):
            chars = max(1, units(compact(m)) / size(m))
            messages[n] = shortened(m, max(16, math.floor(target * chars / len(messages))))
    n = 0
    while n < len(messages) and now() > target:
        group = connected(messages, n)
        if group & {prompts()[0], prompts()[-1]}:
            n += 1
            continue
        messages = [m for k, m in enumerate(messages) if k not in group]
    return messages


def noticed(messages, before):
    """Prompts that follow each other are joined; where answers fell away after one, the newest three of all are told."""
    place = {m["id"]: n for n, m in enumerate(before)}
    answer = lambda m: "\n".join(t for b in m["content"] if b["type"] == "text" and (t := b["text"].strip()))
    told = [n for n, m in enumerate(before) if m["role"] == "assistant" and answer(m)][-3:]

    def notice(start, end):
        said = [answer(before[n]) for n in told if start <= n < end]
        return [{"type": "text", "text": NOTICE % "\n---\n".join(said)}] if said else []

    made, last = [], []
    for m in messages:
        if made and typed(m) and typed(made[-1]):
            span = run_span(made[-1]) + run_span(m)
            content = made[-1]["content"] + notice(last[-1] + 1, place[m["id"]]) + m["content"]
            made[-1] = made[-1] | {"content": content, "metadata": made[-1].get("metadata", {}) | {"userRunSpan": span}}
            last[-1] = place[m["id"]]
        else:
            made.append(m)
            last.append(place[m["id"]])
    for n, m in enumerate(made):
        if typed(m):
            end = place[made[n + 1]["id"]] if n + 1 < len(made) else len(before)
            if more := notice(last[n] + 1, end):
                made[n] = m | {"content": m["content"] + more}
    return made


NOTICE = """<SYSTEM_NOTICE>
Earlier context was compacted. Summary of your actions after the request above:
Files read:


Files edited:


Commands ran:


Your recent responses:
%s</SYSTEM_NOTICE>"""


class Cline(Model):
    """The state holds messages as the library has them."""

    DEFAULTS = {"maxInputTokens": None, "maxTokens": None, "preserveRecentTokens": 20000}

    def message(self, at, m):
        if m["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": m["call"], "content": m["text"]}
            return {"id": f"m{at:03}", "role": "user", "content": [block]}
        blocks = [{"type": "text", "text": m["text"]}] if m["text"] else []
        blocks += [{"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]} for c in m.get("calls", [])]
        return {"id": f"m{at:03}", "role": m["role"], "content": blocks}

    def add(self, at, m):
        self.inputs.append(m)
        if m["role"] == "system":
            self.system.append(self.native(at, m))
        elif m["role"] == "tool" and self.inputs[at - 1]["role"] == "tool":
            self.state[-1]["content"] += self.message(at, m)["content"]
        else:
            self.state.append(self.message(at, m))

    def items(self, m):
        results = [b for b in m["content"] if b["type"] == "tool_result"]
        if results:
            places = {i["call"]: at for at, i in enumerate(self.inputs) if i["role"] == "tool"}
            return [Item("tool", b["content"], places[b["tool_use_id"]]) for b in results]
        calls = [{"name": b["name"], "args": b["input"]} for b in m["content"] if b["type"] == "tool_use"]
        return [Item(m["role"], text_of(m), int(m["id"][1:]) if "id" in m else None, calls)]

    def policy(self):
        request = size({"systemPrompt": "".join(i.text for i in self.system), "messages": self.state, "tools": []})
        window = min(self.maxInputTokens, self.contextWindow) if self.maxInputTokens else self.contextWindow * 0.9
        trigger = window * 0.9
        if request >= trigger:
            target = math.floor(trigger * 0.7)
            if self.pairs() >= 5 and self.maxTokens and self.maxTokens < window:
                target = math.floor(window * 0.5)
            target = max(1, min(target, window, max(1, trigger - 1)))
            overhead = max(0, request - sum(map(size, self.state)))
            getattr(self, self.strategy)(max(1, math.floor(target - overhead)), max(1, math.floor(trigger - overhead)))
        return [i for m in self.state for i in self.items(m)]

    def pairs(self):
        roles = [m["role"] for m in self.state]
        return sum(a == "user" and b == "assistant" for a, b in zip(roles, roles[1:]))

    def agentic(self, target, trigger):
        """Back until the tail has the tokens to keep, or to the newest typed prompt, if that is earlier."""
        kept, cut = 0, len(self.state)
        while cut and kept < min(self.preserveRecentTokens, target):
            cut -= 1
            kept += size(self.state[cut])
        newest = max((n for n, m in enumerate(self.state) if typed(m)), default=0)
        cut = min(cut, newest) if newest > 0 and cut > 0 else cut
        while cut > 0 and not (self.state[cut]["role"] == "assistant" or typed(self.state[cut])):
            cut -= 1
        head = self.state[:cut]
        if cut <= 0 or kind(head[-1]) == "compaction_summary":
            return
        runs = sum(map(run_span, head))
        text = SUMMARY + FILES
        metadata = {
            "kind": "compaction_summary", "displayRole": "system", "userRunSpan": runs, "summary": text,
            "details": {"readFiles": [], "modifiedFiles": []}, "tokensBefore": sum(map(size, self.state)),
            "generatedAt": 10**12,
        }
        made = {"role": "user", "content": [{"type": "text", "text": f"Context summary:\n\n{text}"}], "metadata": metadata}
        self.state = [made, *self.state[cut:]]

    def basic(self, target, trigger):
        """All typed prompts; of what came after the newest, the newest that fits; of each turn before, its last answer."""
        before, budget = self.state, max(1, min(target, trigger))
        prompts = [n for n, m in enumerate(before) if typed(m)]
        kept = {n: m for n in prompts if (m := trimmed(before[n]))}
        if len(before) < 2 or not kept:
            return
        used = sum(map(size, kept.values()))
        for n, m in enumerate(before):
            if preserved(m) and n not in prompts:
                kept[n] = m
                used += size(m)
        tail, room = len(before), used
        for n in range(len(before) - 1, prompts[-1], -1):
            room += size(before[n])
            if n in kept or room > budget:
                break
            tail = n
        while tail < len(before) and before[tail]["role"] != "assistant":
            tail += 1
        for n in range(tail, len(before)):
            kept[n] = before[n]
            used += size(before[n])
        for start, end in reversed(list(zip(prompts, prompts[1:]))):
            for n in range(end - 1, start, -1):
                if n in kept:
                    break
                if before[n]["role"] != "assistant" or any(b["type"] == "tool_use" for b in before[n]["content"]):
                    continue
                if text_of(before[n]).strip():
                    if used + size(before[n]) <= budget:
                        kept[n] = before[n]
                        used += size(before[n])
                    break
        limit = min(max(budget, used), trigger)
        made = noticed(within([kept[n] for n in sorted(kept)], limit), before)
        if made == before:
            return
        gone = made[0].get("metadata", {}).get("messagesRemoved", 0) + len(before) - len(made)
        if typed(made[0]):
            marks = {"kind": "compaction", "reason": "auto_compaction", "displayRole": "system", "messagesRemoved": gone}
            marks["userRunSpan"] = run_span(made[0])
            made[0] = made[0] | {"metadata": made[0].get("metadata", {}) | marks}
        mark = lambda m: m if typed(m) else m | {"metadata": m.get("metadata", {}) | {"compaction": "preserved"}}
        self.state = list(map(mark, made))


MODELS = dict.fromkeys(("cline-agentic", "cline-basic", "cline-basic-output"), Cline)
