"""Drives a library's policy through every list, one model call at a time, and records what stood in the prompt.

A driver has `POLICIES`: name -> (package, settings, class). The class is made anew for every list; it has `add(at, message)`
for each message of the list, `ask()` for the prompt before each assistant message, and `view(native)`, which gives
(place or None, role, text, calls) for each message that a native one stands for.
"""

import argparse
import asyncio
import hashlib
import importlib
import importlib.metadata
import json
import logging
import math
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "drivers")]
import lists  # noqa: E402

SUMMARY = ("The files were read, the fault was found, and its tests pass now. " * 6).strip()


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tokens(text):
    """The stand-in for a tokenizer: characters by four, rounded up."""
    return math.ceil(len(text) / 4)


def count(message):
    """Tokens of one message of a list by the stand-in: its text, and its calls' names and arguments."""
    return tokens(message["text"] + "".join(c["name"] + compact(c["args"]) for c in message.get("calls", [])))


def calls_key(calls):
    return "".join(name + compact(args) for name, args in calls)


LOOP = asyncio.new_event_loop()


def run(coroutine):
    return LOOP.run_until_complete(coroutine)


class Stop(Exception):
    """The library gives up: its agent would end here."""


class Session:
    """The state of one conversation under a policy: what most drivers share."""

    system_apart = True  # the library keeps the system prompt outside the messages
    merge_results = False  # results of parallel calls are one message

    def __init__(self, **settings):
        self.settings, self.state, self.system, self.inputs, self.usage = settings, [], [], [], 0

    def add(self, at, message):
        self.inputs.append(message)
        native = self.native(at, message)
        if message["role"] == "system" and self.system_apart:
            self.system.append(native)
        elif self.merge_results and message["role"] == "tool" and self.inputs[at - 1]["role"] == "tool":
            self.merge(self.state[-1], native)
        else:
            self.state.append(native)

    def ask(self):
        return self.system + self.policy()

    def answered(self, views):
        """The prompt that the model got; `usage` is what a provider would report for it."""
        self.usage = sum(tokens(text + calls) for _, _, text, calls in views)


def sha(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def packed(prompt, made):
    """Places; messages the policy made or rewrote as -1, -2 ... into `made`; runs of three and more as [first, last]."""
    numbers = []
    for e in prompt:
        if not isinstance(e, int):
            if e not in made:
                made.append(e)
            e = -1 - made.index(e)
        numbers.append(e)
    out, run = [], []
    for n in [*numbers, None]:
        if run and n is not None and n == run[-1] + (1 if n >= 0 and run[-1] >= 0 else -1 if n < 0 and run[-1] < 0 else 10**9):
            run.append(n)
            continue
        out += [[run[0], run[-1]]] if len(run) > 2 else run
        run = [n]
    return out


def entry(seen, originals):
    """The place of a message that stands as it was given, else what the policy made of it."""
    at, role, text, calls = seen
    if at is not None and originals[at] == seen:
        return at
    made = {"m": at} if at is not None else {}
    made |= {"role": role, "len": len(text), "sha": sha(text)}
    if calls and (at is None or originals[at][3] != calls):
        made["calls"] = sha(calls)
    return made


def record(session, one):
    """The decisions at which the prompt is not the one before plus the new messages."""
    fired, made, before, originals, decisions, stopped = [], [], [], [], 0, None
    for at, message in enumerate(one["messages"]):
        if message["role"] == "assistant":
            decisions += 1
            try:
                views = [v for native in session.ask() for v in session.view(native)]
            except Stop:
                stopped = at
                break
            session.answered(views)
            seen = [entry(v, originals) for v in views]
            expected = before + list(range(asked, at)) if decisions > 1 else list(range(at))
            if seen != expected:
                fired.append({"at": at, "prompt": packed(seen, made)})
            before, asked = seen, at
        originals += list(session.view(session.native(at, message)))[-1:]
        assert len(originals) == at + 1 and originals[at][0] == at, (at, originals[at:])
        session.add(at, message)
    line = {"list": one["id"], "decisions": decisions, "made": made, "fired": fired}
    return line | ({"stopped": stopped} if stopped is not None else {})


def main():
    args = argparse.ArgumentParser()
    args.add_argument("driver")
    args.add_argument("--only", default="")
    args.add_argument("--out", default=str(HERE / "recordings"))
    args = args.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    driver = importlib.import_module(args.driver)
    every = lists.all_lists()
    Path(args.out).mkdir(exist_ok=True)
    for name, (package, settings, kind) in driver.POLICIES.items():
        if args.only not in name:
            continue
        start = time.time()
        version = getattr(driver, "VERSIONS", {}).get(package) or importlib.metadata.version(package)
        lines = [{"policy": name, "package": package, "version": version, "settings": settings}]
        lines += [record(kind(**settings), one) for one in every]
        lists.write_zst(Path(args.out) / f"{name}.jsonl.zst", lines)
        fired = [len(line["fired"]) for line in lines[1:]]
        print(f"{name:36} {version:10} lists {len(fired)}  fired {sum(n > 0 for n in fired)}  "
              f"twice {sum(n > 1 for n in fired)}  {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    importlib.import_module("harness").main()  # the same module that the drivers import
