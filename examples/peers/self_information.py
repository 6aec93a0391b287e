"""Pruning in the style of Selective Context: the lines that say least go, until the budget is met.

Selective Context asks a language model how surprising each phrase is. Here the model is one of pairs of words, counted over the
event's own messages; no weights are needed."""

import math
import re
from collections import Counter

import trajpress

WORD = re.compile(r"\w+|[^\w\s]")


@trajpress.strategy(version="1")
def self_information(event: trajpress.Event) -> list:
    lines = [(m["id"], line) for m in event.messages for line in m["content"].splitlines()]
    words = [["\n", *WORD.findall(line)] for _, line in lines]
    one = Counter(word for line in words for word in line)
    two = Counter(pair for line in words for pair in zip(line, line[1:]))
    n = sum(one.values())

    def surprise(line: list) -> float:
        bits = [-math.log(0.5 * two[a, b] / one[a] + 0.5 * one[b] / n) for a, b in zip(line, line[1:])]
        return sum(bits) / len(bits) if bits else 0.0

    cost = [len(line) for line in words]
    scale = event.tokens / max(sum(cost), 1)
    left, kept = float(event.budget), set()
    for at in sorted(range(len(lines)), key=lambda at: -surprise(words[at])):
        if cost[at] * scale <= left:
            left -= cost[at] * scale
            kept.add(at)
    texts: dict = {}
    for at in sorted(kept):
        texts.setdefault(lines[at][0], []).append(lines[at][1])
    return [{"id": id, "content": "\n".join(text)} for id, text in texts.items()]


trajpress.main()
