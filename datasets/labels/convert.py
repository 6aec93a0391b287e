#!/usr/bin/env python3
"""Logs as plain chat messages: what the labels of this folder count in. Nothing is invented, thinking is left out.

`convert(path, run)` gives the messages of one run of a log; `run` picks it where a file holds several. Python 3.9 and, for packed logs, the
program zstd, or pyarrow. Outputs over 12,000 characters are cut in the middle, as in the first 14 labelled logs.
"""
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zipfile

CAP = 12000


def can_unzstd():
    return shutil.which("zstd") is not None or importlib.util.find_spec("pyarrow") is not None


def unzstd(path):
    """What a file holds that is packed by zstd: by that program, or by pyarrow where there is none."""
    try:
        return subprocess.run(["zstd", "-dc", str(path)], capture_output=True, check=True).stdout
    except FileNotFoundError:
        import pyarrow

        with pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd") as stream:
            return stream.read()


def read(path):
    path = str(path)
    if path.endswith(".zst"):
        return unzstd(path).decode("utf-8", "replace")
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def load(path):
    if str(path).endswith(".eval"):
        return zipfile.ZipFile(path)
    text = read(path)
    return [json.loads(line) for line in text.splitlines() if line.strip()] if ".jsonl" in str(path) else json.loads(text)


def cut(text):
    if len(text) <= CAP:
        return text
    half = CAP // 2
    return text[:half] + "\n[... %d characters cut by the annotator ...]\n" % (len(text) - 2 * half) + text[-half:]


def text_of(content):
    """The text of a string or of a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif "text" in part:
            parts.append(part["text"])
        elif part.get("type") in ("image", "image_url"):
            parts.append("[image]")
    return "\n".join(parts)


def call(name, arguments, id):
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(role, text, calls=(), **more):
    message = {"role": role, "content": cut(text) if role in ("tool", "user") else text, **more}
    if calls:
        message["tool_calls"] = list(calls)
    return message


def chat(messages):
    """OpenAI's form, with calls of either generation."""
    out, last = [], None
    for at, m in enumerate(messages):
        role, text = m["role"], text_of(m.get("content"))
        if role == "exit":
            continue
        calls = [call(c["function"]["name"], c["function"]["arguments"], c["id"]) for c in m.get("tool_calls") or []]
        if m.get("function_call"):
            last = "call_%d" % at
            calls.append(call(m["function_call"]["name"], m["function_call"]["arguments"], last))
        if role in ("tool", "function"):
            out.append(said("tool", text, tool_call_id=m.get("tool_call_id") or last))
        else:
            out.append(said(role, text, calls))
    return out


def swe_agent(d):
    """SWE-agent: the steps of `trajectory` after the head of `history`, without demonstrations."""
    out = []
    for m in [m for m in d["history"] if not (m.get("is_demo") or m.get("message_type") == "demonstration")]:
        if m["role"] == "assistant":
            break
        out.append(said(m["role"], text_of(m["content"])))
    for i, step in enumerate(d["trajectory"]):
        action, seen = step.get("action") or "", step.get("observation") or ""
        if not action.strip():
            out.append(said("assistant", step.get("thought") or step.get("response") or ""))
            if seen:
                out.append(said("user", seen))
            continue
        out.append(said("assistant", step.get("thought") or "", [call(action.split()[0][:80], {"command": action}, "call_%d" % i)]))
        out.append(said("tool", seen, tool_call_id="call_%d" % i))
    return out


def completions(d):
    """The last logged model call of OpenHands: its prompt and its answer."""
    return chat(d["messages"] + ([d["response"]["choices"][0]["message"]] if d.get("response") else []))


def openhands_events(events):
    """OpenHands' actions and observations; events of the state of the agent are left out."""
    events = [e for pair in events for e in (pair if isinstance(pair, list) else [pair])]
    out, waits = [], None
    for i, e in enumerate(events):
        action, args = e.get("action"), e.get("args") or {k: v for k, v in e.items() if k not in ("action", "id", "source", "timestamp")}
        if action == "message":
            out.append(said("user" if e.get("source", "" if i else "user") == "user" else "assistant", args.get("content") or ""))
        elif {action, e.get("observation")} & {"system", "change_agent_state", "agent_state_changed", "null", "recall"}:
            continue
        elif action:
            waits = "call_%s" % e.get("id", i)
            rest = {k: v for k, v in args.items() if k != "thought" and v not in (None, "", False)}
            out.append(said("assistant", text_of(args.get("thought")), [call(action, rest, waits)]))
        elif e.get("observation") and waits:
            out.append(said("tool", e.get("content") or "", tool_call_id="call_%s" % e["cause"] if e.get("cause") is not None else waits))
    return out


def atif(d):
    out, roles = [], {"system": "system", "user": "user", "agent": "assistant"}
    for step in d["steps"]:
        calls = [call(c["function_name"], c["arguments"], c["tool_call_id"]) for c in step.get("tool_calls") or []]
        out.append(said(roles[step["source"]], text_of(step["message"]), calls))
        for r in (step.get("observation") or {}).get("results") or []:
            id = r.get("source_call_id") or (calls[-1]["id"] if calls else None)
            out.append(said("tool", text_of(r.get("content")), tool_call_id=id) if id else said("user", text_of(r.get("content"))))
    return out


def tau2(d, run):
    """The agent's side: what a user does with tools of its own is not seen by the agent."""
    out = [said("system", d["info"]["environment_info"]["policy"])]
    for m in d["simulations"][run]["messages"]:
        if m.get("requestor") == "user" or (m["role"] == "user" and not m.get("content")):
            continue
        if m["role"] == "tool":
            out.append(said("tool", m.get("content") or "", tool_call_id=m["id"]))
        else:
            calls = [call(c["name"], c["arguments"], c["id"]) for c in m.get("tool_calls") or [] if c.get("requestor") != "user"]
            out.append(said(m["role"], m.get("content") or "", calls))
    return out


def who_and_when(d):
    """Several agents speak: each is an assistant with a name; people and a terminal are not."""
    out = []
    for m in d["history"]:
        name = m.get("name") or m["role"]
        role = "user" if m["role"] == "human" or name in ("Computer_terminal", "human") else "assistant"
        out.append(said(role, text_of(m["content"]), name=name))
    return out


def toolbench(d):
    chains = d["answer_generation"]["train_messages"]
    return chat(max(chains, key=len))


def fireact(d, run):
    return chat(d[str(run)]["prompt"] + d[str(run)]["traj"])


def inspect(archive, run):
    """A sample of an archive of Inspect; its arguments are objects."""
    out = []
    for m in json.loads(archive.read("samples/%s.json" % run))["messages"]:
        if m["role"] == "tool":
            text = text_of(m["content"]) or (m.get("error") or {}).get("message", "")
            out.append(said("tool", text, tool_call_id=m["tool_call_id"]))
        else:
            calls = [call(c["function"], c["arguments"], c["id"]) for c in m.get("tool_calls") or []]
            out.append(said(m["role"], text_of(m["content"]), calls))
    return out


def pi(lines):
    """Sessions of pi. What the user runs itself (`bashExecution`) is a message of the user."""
    out = []
    for m in [line["message"] for line in lines if line["type"] == "message"]:
        if m["role"] == "toolResult":
            out.append(said("tool", text_of(m["content"]), tool_call_id=m["toolCallId"]))
        elif m["role"] == "bashExecution":
            out.append(said("user", "%s\n%s" % (m["command"], m["output"])))
        else:
            parts = m["content"] if isinstance(m["content"], list) else []
            calls = [call(c["name"], c["arguments"], c["id"]) for c in parts if c["type"] == "toolCall"]
            out.append(said(m["role"], text_of(m["content"]), calls))
    return out


def abcd(d):
    """A person at a desk; what its buttons did is a message of the user with a name."""
    roles = {"agent": "assistant", "customer": "user"}
    return [said(roles.get(who, "user"), text, name=who) for who, text in d["original"]]


def aider(text, run):
    """The session `run` of a history in Markdown: `#### ` is the user, `> ` Aider itself, a user with that name; all else is the reply."""
    session = re.split(r"(?m)^(?=# aider chat started at )", text)[run]
    out, marks = [], {"#### ": ("user", "user"), "> ": ("user", "aider")}
    for line in session.splitlines()[1:]:
        mark = next((m for m in marks if line.startswith(m)), "")
        role, name = marks.get(mark, ("assistant", "aider"))
        if line.strip() and (not out or (out[-1]["role"], out[-1]["name"]) != (role, name)):
            out.append({"role": role, "name": name, "content": ""})
        if out:
            out[-1]["content"] += line[len(mark):] + "\n"
    return [said(m["role"], m["content"].strip(), name=m["name"]) for m in out]


def convert(path, run=None):
    if ".md" in str(path):
        return aider(read(path), run)
    d = load(path)
    if isinstance(d, zipfile.ZipFile):
        return inspect(d, run)
    if isinstance(d, list) and d and "original" in d[0]:
        return abcd(d[run])
    if isinstance(d, list) and d and d[0].get("type") == "session":
        return pi(d)
    if isinstance(d, list) and d and "state" in d[0]:
        return chat(d[run]["state"]["history"])
    if isinstance(d, list) and d and "traj" in d[0]:
        return chat(d[run]["traj"])
    if isinstance(d, list) and d and "history" in d[0]:
        return openhands_events(d[run]["history"])
    if isinstance(d, list):
        return chat(d)
    if str(run) in d:
        return fireact(d, run)
    if "steps" in d:
        return atif(d)
    if "simulations" in d:
        return tau2(d, run)
    if "answer_generation" in d:
        return toolbench(d)
    if "mistake_step" in d:
        return who_and_when(d)
    if "history" in d:
        return swe_agent(d)
    if "response" in d:
        return completions(d)
    return chat(d["messages"])


def size(message):
    return len(message["content"]) + sum(len(c["function"]["arguments"]) for c in message.get("tool_calls", []))


def points(messages):
    """Two ends of turns: at a third and two thirds of the characters, or at 12k and 25k tokens (of 4) where a log has more than 37.5k.

    The system prompt does not count: the policy of a support desk is longer than a talk.
    """
    sums, total = [], 0
    for m in messages:
        total += size(m) if m["role"] != "system" else 0
        sums.append(total)
    found = []
    for goal in [48000, 100000] if total > 150000 else [total / 3, 2 * total / 3]:
        for i, m in enumerate(messages):
            after = messages[i + 1]["role"] if i + 1 < len(messages) else None
            ends = m["role"] == "assistant" and not m.get("tool_calls") or m["role"] == "tool" and after != "tool"
            if ends and sums[i] >= goal and i not in found:
                found.append(i)
                break
    return found


if __name__ == "__main__":
    result = convert(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
    print(json.dumps(result, ensure_ascii=False, indent=1))
