#!/usr/bin/env python3
"""Logs of coding products as plain messages: `convert_products.py LOG [RUN]` prints one message a line.

A message is {role, content, tool_calls?, tool_call_id?}. Thinking is left out, nothing is added, and outputs over 12,000
characters lose their middle. Labels point into this form, so a change here moves the labels. `convert(path, run)` knows the
format by a folder in the path; `run` is the id of a session where a file holds several. Python 3.9, and the program zstd or pyarrow.
"""
import json
import sqlite3
import sys
from pathlib import Path

from convert import unzstd  # noqa: E402

CAP = 12_000


def read(path):
    if path.endswith(".zst"):
        raw = unzstd(path)
    else:
        raw = Path(path).read_bytes()
    return raw.decode("utf-8", "replace")


def lines(path):
    """The objects of a JSONL file; a line that is cut is passed over."""
    for line in read(path).split("\n"):
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict):
            yield value


def cut(text):
    if len(text) <= CAP:
        return text
    half = CAP // 2
    return "%s\n[... %d characters cut by the annotator ...]\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def text_of(content):
    """The text of a string, of one block or of a list of blocks."""
    if not isinstance(content, list):
        content = [content]
    out = []
    for block in content:
        if isinstance(block, str):
            out.append(block)
        elif not isinstance(block, dict):
            continue
        elif isinstance(block.get("text"), str) and block.get("type") not in ("thinking", "reasoning"):
            out.append(block["text"])
        elif block.get("type") in ("image", "image_url", "input_image"):
            out.append("[image]")
        elif block.get("type") == "file":
            out.append("%s\n%s" % (block.get("path"), block.get("content")))
        elif "type" not in block and "result" in block:  # Cline's reads and commands
            out.append(arguments(block["result"]))
        elif block.get("type") == "tool_reference":
            out.append("[tool_reference %s]" % block.get("tool_name", ""))
    return "\n".join(out)


def arguments(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Chat:
    """Messages in the order of the log. Answers of one model call are joined by `key`."""

    def __init__(self):
        self.messages, self.keys = [], []

    def add(self, role, text, **more):
        self.messages.append({"role": role, "content": cut(text), **more})
        self.keys.append(None)

    def user(self, text):
        if text.strip():
            self.add("user", text)

    def result(self, call, text):
        self.add("tool", text, tool_call_id=call)

    def assistant(self, text="", calls=(), key=None):
        """`calls` are (id, name, arguments)."""
        if not text and not calls:
            return
        message = self.open(key)
        if text:
            message["content"] += ("\n" if message["content"] else "") + text
        for call, name, args in calls:
            one = {"id": call, "type": "function", "function": {"name": name, "arguments": arguments(args)}}
            message.setdefault("tool_calls", []).append(one)

    def open(self, key):
        """The message of this key since the last user's turn, else a new one: results may stand between its parts."""
        for message, known in zip(reversed(self.messages), reversed(self.keys)):
            if message["role"] == "user" or key is None:
                break
            if known == key:
                return message
        self.add("assistant", "")
        self.keys[-1] = key
        return self.messages[-1]


def anthropic(chat, role, content, key=None):
    """Blocks as Anthropic's API names them; also the spelling of Amp."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if role == "assistant":
        calls = [(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"]
        chat.assistant("\n".join(b["text"] for b in content if b["type"] == "text"), calls, key)
        return
    for block in content:
        if block["type"] == "tool_result":
            run = block.get("run")
            told = arguments(run.get("result")) if run else text_of(block.get("content"))
            chat.result(block.get("tool_use_id") or block.get("toolUseID"), told)
    chat.user(text_of([b for b in content if b["type"] != "tool_result"]))


def claude_code(path, _):
    chat = Chat()
    for line in lines(path):
        if line.get("type") not in ("user", "assistant") or line.get("isSidechain"):
            continue
        message = line["message"]
        if message.get("model") != "<synthetic>":
            anthropic(chat, line["type"], message["content"], message.get("id"))
    return chat.messages


def codex(path, _):
    chat, turn = Chat(), 0
    for line in lines(path):
        item, kind = line.get("payload") or {}, line.get("type")
        if kind != "response_item":
            continue
        kind = item.get("type")
        if kind == "message" and item["role"] == "assistant":
            chat.assistant(text_of(item["content"]), key=turn)
        elif kind == "message":
            role = "user" if item["role"] == "user" else "system"
            chat.add(role, text_of(item["content"]))
            turn += 1
        elif kind in ("function_call", "custom_tool_call"):
            args = item.get("arguments") if kind == "function_call" else {"input": item["input"]}
            chat.assistant(calls=[(item["call_id"], item["name"], args)], key=turn)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            chat.result(item["call_id"], text_of(item["output"]))
            turn += 1
    return chat.messages


def copilot_cli(path, _):
    chat, known = Chat(), set()
    for line in lines(path):
        kind, data = line["type"], line.get("data", {})
        if kind == "system.message":
            chat.add("system", data["content"])
        elif kind == "user.message":
            chat.user(data["content"])
        elif kind == "assistant.message":
            calls = [(c["toolCallId"], c["name"], c["arguments"]) for c in data.get("toolRequests", [])]
            chat.assistant(data.get("content", ""), calls, data["messageId"])
            known |= {call for call, _name, _args in calls}
        elif kind == "tool.execution_complete" and data["toolCallId"] in known:
            told = data.get("result") or data.get("error") or {}
            chat.result(data["toolCallId"], told.get("content") or told.get("message") or "")
    return chat.messages


def tables(path, run):
    """Crush, and opencode as it was in Go."""
    chat = Chat()
    base = sqlite3.connect("file:%s?mode=ro&immutable=1" % path, uri=True)
    rows = base.execute("select role, parts from messages where session_id = ? order by created_at, rowid", (run,))
    for role, parts in rows:
        parts = [(p["type"], p["data"]) for p in json.loads(parts)]
        text = "\n".join(d["text"] for t, d in parts if t == "text")
        if role == "assistant":
            chat.assistant(text, [(d["id"], d["name"], d["input"]) for t, d in parts if t == "tool_call"])
        elif role == "user":
            chat.user(text)
        for kind, data in parts:
            if kind == "tool_result":
                chat.result(data["tool_call_id"], data["content"])
    return chat.messages


def gemini(path, _):
    chat = Chat()
    for message in json.loads(read(path))["messages"]:
        if message["type"] == "user":
            chat.user(text_of(message["content"]))
        elif message["type"] == "gemini":
            calls = message.get("toolCalls") or []
            chat.assistant(text_of(message["content"]), [(c["id"], c["name"], c["args"]) for c in calls])
            for call in calls:
                for part in call.get("result") or []:
                    told = part["functionResponse"]["response"]
                    chat.result(call["id"], arguments(told.get("output", told.get("error", ""))))
    return chat.messages


def goose(path, _):
    chat = Chat()
    for line in lines(path):
        parts = json.loads(line["content_json"])
        text = text_of(parts)
        if line["role"] == "assistant":
            calls = [(p["id"], p["toolCall"]["value"]["name"], p["toolCall"]["value"].get("arguments", {}))
                     for p in parts if p["type"] == "toolRequest"]
            chat.assistant(text, calls)
            continue
        for part in parts:
            if part["type"] == "toolResponse":
                told = part["toolResult"]
                chat.result(part["id"], text_of(told["value"]["content"]) if "value" in told else str(told.get("error")))
        chat.user(text)
    return chat.messages


def kimi_code(path, _):
    chat = Chat()
    for line in lines(path):
        event = line.get("event", {})
        kind = event.get("type")
        if line["type"] == "context.append_message" and line["message"]["role"] == "user":
            chat.user(text_of(line["message"]["content"]))
        elif line["type"] == "context.apply_compaction":
            chat.user(line.get("contextSummary") or line["summary"])
        elif kind == "content.part" and event["part"]["type"] == "text":
            chat.assistant(event["part"]["text"], key=event["stepUuid"])
        elif kind == "tool.call":
            chat.assistant(calls=[(event["toolCallId"], event["name"], event["args"])], key=event["stepUuid"])
        elif kind == "tool.result":
            chat.result(event["toolCallId"], text_of(event["result"]["output"]))
    return chat.messages


def opencode_events(path, _):
    """Each update repeats the whole part: the first place and the last text of a part count."""
    roles, parts = {}, {}
    for line in lines(path):
        data = line["data"]
        if line["type"].startswith("message.updated"):
            roles[data["info"]["id"]] = data["info"]["role"]
        elif line["type"].startswith("message.part.updated"):
            parts[data["part"]["id"]] = data["part"]
    chat = Chat()
    for message, role in roles.items():
        mine = [p for _, p in sorted(parts.items()) if p["messageID"] == message]
        text = "\n".join(p["text"] for p in mine if p["type"] == "text")
        tools = [p for p in mine if p["type"] == "tool"]
        if role == "user":
            chat.user(text)
            continue
        chat.assistant(text, [(p["callID"], p["tool"], p["state"].get("input", {})) for p in tools])
        for part in tools:
            chat.result(part["callID"], part["state"].get("output") or part["state"].get("error") or "")
    return chat.messages


def blocks(path, _):
    """Amp and Cline SDK: one JSON file of messages with Anthropic's blocks."""
    chat = Chat()
    for message in json.loads(read(path))["messages"]:
        anthropic(chat, message["role"], message["content"])
    return chat.messages


def roo(path, _):
    """Calls are XML within the text, and a result is the user's message that begins with `[tool] Result:`."""
    chat = Chat()
    for message in json.loads(read(path)):
        text = text_of(message["content"])
        if message["role"] != "user" or not text.startswith("[") or "] Result:" not in text:
            chat.add(message["role"], text)
            continue
        asked = next(m for m in reversed(chat.messages) if m["role"] == "assistant")
        call = "call_%d" % len(chat.messages)
        one = {"id": call, "type": "function", "function": {"name": text[1:].split("]")[0].split()[0], "arguments": "{}"}}
        asked.setdefault("tool_calls", []).append(one)
        chat.result(call, text)
    return chat.messages


def droid(path, _):
    chat = Chat()
    for line in lines(path):
        if "message" in line:
            anthropic(chat, line["message"]["role"], line["message"]["content"])
    return chat.messages


def continue_dev(path, _):
    chat = Chat()
    for item in json.loads(read(path))["history"]:
        message = item["message"]
        if message["role"] == "user":
            chat.user(text_of(message["content"]))
        elif message["role"] == "assistant":
            calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("toolCalls") or []]
            chat.assistant(text_of(message["content"]), calls)
        for state in item.get("toolCallStates", []):
            chat.result(state["toolCallId"], "\n".join(o["content"] for o in state.get("output", [])))
    return chat.messages


def prompt_tree(node):
    """The text of a prompt tree, as VS Code keeps it."""
    if isinstance(node, str):
        return node
    return node.get("text", "") + "".join(map(prompt_tree, node.get("children", [])))


def vscode(path, _):
    whole = json.loads(read(path)) if path.endswith(".json") else next(lines(path))["v"]
    chat = Chat()
    for request in whole["requests"]:
        chat.user(request["message"]["text"])
        meta = (request.get("result") or {}).get("metadata") or {}
        for turn in meta.get("toolCallRounds", []):
            calls = [(c["id"], c["name"], c["arguments"]) for c in turn.get("toolCalls", [])]
            chat.assistant(turn.get("response") or "", calls)
            for call, _name, _args in calls:
                told = meta.get("toolCallResults", {}).get(call, {}).get("content", [])
                values = [part.get("value", "") for part in told]
                chat.result(call, "".join(prompt_tree(v.get("node", v) if isinstance(v, dict) else v) for v in values))
    return chat.messages


def specstory(path, _):
    """Turns begin at their heading; a `tool-use` element is a call and its output, in the order of the page."""
    chat, role, body, count = Chat(), None, [], 0

    def flush():
        nonlocal count
        text = "\n".join(body).strip()
        if role != "agent":
            chat.user(text if role else "")
        elif text.startswith("<tool-use"):
            head, _, rest = text.partition(">")
            count += 1
            chat.assistant(calls=[("call_%d" % count, head.split('data-tool-name="')[1].split('"')[0], {})])
            chat.result("call_%d" % count, rest.removesuffix("</tool-use>"))
        elif not text.startswith("<think>"):
            chat.assistant(text)

    for line in read(path).split("\n"):
        if line.startswith("_**User (") or line.startswith("_**Agent ("):
            flush()
            role, body = ("user" if line.startswith("_**User") else "agent"), []
        elif line != "---":
            body.append(line)
    flush()
    return chat.messages


FORMATS = {
    "claude-code": claude_code, "claude-code-entire": claude_code, "codex": codex, "copilot-cli": copilot_cli,
    "crush": tables, "opencode-go": tables, "gemini-cli": gemini, "goose": goose, "kimi-code": kimi_code,
    "opencode": opencode_events, "amp": blocks, "cline-sdk": blocks,
    "roo-code": roo, "factory-droid": droid, "continue": continue_dev,
    "vscode-copilot-chat": vscode, "specstory": specstory,
}


def convert(path, run=None):
    folder = next(part for part in Path(path).parts if part in FORMATS)
    return FORMATS[folder](str(path), run)


if __name__ == "__main__":
    for message in convert(*sys.argv[1:]):
        print(json.dumps(message, ensure_ascii=False))
