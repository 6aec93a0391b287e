#!/usr/bin/env python3
"""Recency and BM25 to the goal as programs of one's own (docs/own.md): strategy `command` with `params = { by = "recency" }` or `"bm25"`.

Keeps whole lines, in the order of the log, to `budget` tokens; a line's tokens are its share of its message's, by characters.
"""
import collections
import json
import math
import re
import sys


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


def lines(messages):
    for message in messages:
        each = message["tokens"] / max(1, len(message["content"]))
        yield from ((line, each * (len(line) + 1)) for line in message["content"].split("\n") if line.strip())


def bm25(texts, goal):
    texts, goal = [words(text) for text in texts], set(words(goal))
    df, mean = collections.Counter(w for text in texts for w in set(text)), max(1, sum(map(len, texts)) / max(1, len(texts)))
    odds = {w: math.log(1 + (len(texts) - df[w] + .5) / (df[w] + .5)) for w in goal if w in df}
    def score(text):
        return sum(odds[w] * n * 2.2 / (n + 1.2 * (.25 + .75 * len(text) / mean)) for w, n in collections.Counter(text).items() if w in odds)
    return [score(text) for text in texts]


def chosen(event):
    rows = list(lines(event["messages"]))
    worth = range(len(rows)) if event["params"]["by"] == "recency" else bm25([text for text, _ in rows], event["goal"])
    left, kept = event["budget"], []
    for at in sorted(range(len(rows)), key=lambda at: -worth[at]):
        if rows[at][1] <= left and worth[at] > (-1 if event["params"]["by"] == "recency" else 0):
            left -= rows[at][1]
            kept.append(at)
    return "\n".join(rows[at][0] for at in sorted(kept))


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if "protocol" in asked:
            said = {"protocol": 1, "name": "by-line", "version": "1", "recursive": False}
        else:
            text = chosen(asked)
            said = {"event": asked["event"], "messages": [{"role": "user", "content": text}] if text else []}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
