"""The message lists that every library is driven with: 200 generated ones, and 50 cut out of real logs.

A list is {"id", "messages"}; a message is {"role", "text"}, an assistant's has "calls" [{"id", "name", "args"}] too,
and a tool's "call" and "name". `lists.jsonl.zst` keeps the generated lists without their text, which `text` makes from
place and length; `real.tsv` says where in the logs the real ones stand.
"""

import hashlib
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TOOLS = ["bash", "bash", "bash", "read_file", "read_file", "edit_file", "write_file", "search"]
WORDS = ["lorem ipsum dolor sit amet", "sed do eiusmod tempor", "größer wäre schöner", "日本語の文章 🙂 и текст"]


def text(place, length, words):
    """Text of `length` code points that no other place has: the place and the words, over and over."""
    unit = f"{place} {WORDS[words]}\n"
    made = (unit * (length // len(unit) + 1))[:length]
    return made[:-1] + "." if made else made


def sized(rng, median, sigma, most):
    return max(8, min(most, int(math.exp(rng.gauss(math.log(median), sigma)))))


def turn(rng, heavy, length):
    """One user message, then steps of calls and results, then mostly a closing answer."""
    made = [{"role": "user", "len": sized(rng, 160, 0.8, 3000)}]
    for _ in range(rng.choice([0, 1, 2, 3, 5, 8, 13, 30]) if length > 0 else 1):
        names = [rng.choice(TOOLS) for _ in range(rng.choice([1, 1, 1, 1, 1, 2, 2, 3]))]
        calls = []
        for name in names:
            call = {"name": name}
            if name in ("read_file", "edit_file", "write_file"):
                call["file"] = rng.randrange(5)
            call["args"] = sized(rng, 1200 if name == "write_file" else 60, 0.9, 6000)
            calls.append(call)
        made.append({"role": "assistant", "len": 0 if rng.random() < 0.3 else sized(rng, 120, 0.8, 2000), "calls": calls})
        for name in names:
            long = heavy and rng.random() < 0.4
            made.append({"role": "tool", "len": sized(rng, 9000, 1.0, 60000) if long else sized(rng, 500, 1.2, 6000)})
    if rng.random() < 0.85:
        made.append({"role": "assistant", "len": sized(rng, 300, 0.8, 3000), "calls": []})
    return made


def generated(seed=38, count=200):
    """Shapes of lists: all but the text."""
    rng = random.Random(seed)
    for number in range(count):
        heavy = number % 10 == 9
        wanted = rng.randint(20, 120)
        messages = [{"role": "system", "len": sized(rng, 400, 0.7, 4000)}] if rng.random() < 0.7 else []
        while len(messages) < wanted:
            messages += turn(rng, heavy, wanted - len(messages))
        words = rng.choice([0, 0, 0, 0, 1, 1, 2, 3])
        yield {"id": f"g{number:03}", "words": words, "messages": messages[:120]}


def write_args(call, place, words):
    body = text(place, call["args"], words)
    path = f"/src/file{call.get('file')}.py"
    if call["name"] in ("edit_file", "write_file"):
        return {"file_path": path, "content": body}
    return {"file_path": path} if call["name"] == "read_file" else {"command": body}


def filled(shape):
    """The list of a shape: text, ids of calls, and calls that have no result left out."""
    messages, waiting = [], []
    for at, m in enumerate(shape["messages"]):
        place = f"{shape['id']}.{at}"
        made = {"role": m["role"], "text": text(place, m["len"], shape["words"])}
        if m["role"] == "assistant":
            made["calls"] = waiting = [
                {"id": f"c{at}_{n}", "name": c["name"], "args": write_args(c, f"{place}.{n}", shape["words"])}
                for n, c in enumerate(m["calls"])
            ]
            waiting = list(waiting)
        if m["role"] == "tool":
            call = waiting.pop(0)
            made |= {"call": call["id"], "name": call["name"]}
        messages.append(made)
    return {"id": shape["id"], "messages": paired(messages)}


def paired(messages):
    """Up to the last message before which every call is answered."""
    open_calls, good = set(), 0
    for at, m in enumerate(messages):
        open_calls |= {c["id"] for c in m.get("calls", [])}
        open_calls.discard(m.get("call"))
        if not open_calls:
            good = at + 1
    return messages[:good]


def plain(content):
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def from_log(messages):
    """A list out of messages in the style of OpenAI; None where calls and results do not pair."""
    made, waiting = [], {}
    for at, m in enumerate(messages[:120]):
        role = "system" if m["role"] == "developer" else m["role"]
        one = {"role": role, "text": plain(m.get("content"))}
        if role == "exit":
            break
        if role not in ("system", "user", "assistant", "tool") or (role != "tool" and waiting):
            return None
        if role == "assistant":
            one["calls"] = []
            for n, call in enumerate(m.get("tool_calls") or []):
                f = call.get("function") or call
                args = json.loads(f["arguments"]) if isinstance(f["arguments"], str) else f["arguments"]
                one["calls"].append({"id": f"c{at}_{n}", "name": f["name"], "args": args})
                waiting[call["id"]] = one["calls"][-1]
        if role == "tool":
            ids = [m.get("tool_call_id"), m.get("id"), *m.get("tool_call_ids", [])]
            call = next((waiting.pop(id) for id in ids if id in waiting), None)
            if call is None:
                return None
            one |= {"call": call["id"], "name": call["name"]}
        made.append(one)
    return paired(made)


def pointed(document, pointer):
    for key in pointer.strip("/").split("/"):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def digest(messages):
    made = json.dumps(messages, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(made.encode()).hexdigest()


def unzstd(path):
    """What a file holds that is packed by zstd: by that program, or by pyarrow where there is none."""
    try:
        return subprocess.run(["zstd", "-dc", str(path)], capture_output=True, check=True).stdout
    except FileNotFoundError:
        import pyarrow

        with pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd") as stream:
            return stream.read()


def log(path):
    return json.loads(unzstd(path))


def real(logs):
    """The real lists, held to the digests they were recorded with."""
    open_logs = {}
    for line in (HERE / "real.tsv").read_text().splitlines()[1:]:
        id, path, pointer, sha = line.split("\t")
        if path not in open_logs:
            open_logs[path] = log(Path(logs) / path)
        messages = from_log(pointed(open_logs[path], pointer))
        assert digest(messages) == sha, f"{path}{pointer} is not the log that the recordings were made of"
        yield {"id": id, "messages": messages}


def all_lists(shapes=None):
    made = [filled(shape) for shape in shapes or read_zst(HERE / "lists.jsonl.zst")]
    if not os.environ.get("TRAJPRESS_LOGS"):
        return made
    try:
        return made + list(real(os.environ["TRAJPRESS_LOGS"]))
    except ImportError:
        print("SKIPPED: lists of real logs: neither zstd nor pyarrow is there", file=sys.stderr)
        return made


def write_zst(path, lines):
    data = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(subprocess.run(["zstd", "-19", "-q", "-c"], input=data.encode(), capture_output=True, check=True).stdout)


def read_zst(path):
    return [json.loads(line) for line in unzstd(path).decode().splitlines()]


def choose(logs):
    """Pick the real lists once: of each kind of log the first that pair and are long enough to be compacted."""
    rows = ["list\tpath\tpointer\tsha256 of the list"]
    kinds = [("tau-bench/*.zst", 10, 10), ("tau2-bench/*.zst", 10, 3), ("openhands-llm-completions/last/*.zst", 12, 1),
             ("mini-swe-agent-2x/*/*.traj.json.zst", 17, 1), ("sweagent-1x-swesmith/*.zst", 1, 1)]
    for pattern, wanted, each in kinds:
        taken = 0
        for path in sorted(Path(logs).glob(pattern)):
            document = log(path)
            if isinstance(document, list):
                pointers = [f"/{n}/traj" for n in range(len(document)) if "traj" in document[n]]
            elif "simulations" in document:
                pointers = [f"/simulations/{n}/messages" for n in range(len(document["simulations"]))]
            else:
                pointers = [f"/{key}" for key in ("messages", "history") if key in document][:1]
            here = 0
            for pointer in pointers:
                if here == each or taken == wanted:
                    break
                try:
                    messages = from_log(pointed(document, pointer))
                except (KeyError, TypeError, ValueError):
                    continue
                if messages and len(messages) >= 16 and sum(len(m["text"]) for m in messages) > 12000:
                    rows.append(f"r{len(rows) - 1:03}\t{path.relative_to(logs)}\t{pointer}\t{digest(messages)}")
                    here, taken = here + 1, taken + 1
        print(pattern, taken)
    (HERE / "real.tsv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__" and sys.argv[1:2] == ["dump"]:
    # `dump -`: the shapes come on standard input.
    for one in all_lists([json.loads(line) for line in sys.stdin] if sys.argv[2:] else None):
        print(json.dumps(one, ensure_ascii=False))
elif __name__ == "__main__":
    write_zst(HERE / "lists.jsonl.zst", generated())
    if os.environ.get("TRAJPRESS_LOGS"):
        choose(os.environ["TRAJPRESS_LOGS"])
