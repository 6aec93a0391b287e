"""Turns a recorded run into one of the on-disk forms that trajpress reads."""
import json

from engine import MINI_TASK, SYSTEM

AGENT, MODEL = "trajpress-recorder", "scripted"

TOOLS = [
    {"type": "function", "function": {
        "name": "bash", "description": "Run a command in the repository root; stdout and stderr come back together.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}},
    {"type": "function", "function": {
        "name": "read_file", "description": "Show a file with line numbers, or a range of its lines.",
        "parameters": {"type": "object", "properties": {
            "path": {"type": "string"}, "start": {"type": "integer"}, "end": {"type": "integer"}}, "required": ["path"]}}},
    {"type": "function", "function": {
        "name": "replace_in_file", "description": "Replace a text that occurs exactly once in a file.",
        "parameters": {"type": "object", "properties": {
            "path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}},
            "required": ["path", "old", "new"]}}},
]


def dumps(value, indent=None):
    return json.dumps(value, ensure_ascii=False, indent=indent)


def openai_messages(messages):
    """The messages of a run as the OpenAI chat API has them."""
    out = []
    for m in messages:
        if m["role"] == "tool":
            out.append({"role": "tool", "tool_call_id": m["call_id"], "name": m["name"], "content": m["content"]})
        elif m.get("calls"):
            calls = [{"id": cid, "type": "function", "function": {"name": name, "arguments": dumps(args)}}
                     for cid, name, args in m["calls"]]
            out.append({"role": "assistant", "content": m["content"], "tool_calls": calls})
        else:
            out.append({"role": m["role"], "content": m["content"]})
    return out


def head(run):
    return {"task_id": run.task_id, "repository": run.repository, "agent": AGENT, "model": MODEL}


def chat_line(run):
    """(b) OpenAI chat JSONL: one run a line."""
    return dumps({**head(run), "resolved": run.resolved, "tools": TOOLS, "messages": openai_messages(run.messages)}) + "\n"


def annotated_line(run):
    """(c) the annotated form: (b) with `annotations`."""
    return dumps({**head(run), "resolved": run.resolved, "tools": TOOLS, "messages": openai_messages(run.messages),
                  "annotations": run.notes.as_dict()}) + "\n"


def mini_document(run):
    """(a) mini-swe-agent 1.1. No timestamps and no usage: the recorder has no clock and calls no model."""
    out, n_calls = [], 0
    for m in run.messages:
        if m["role"] == "assistant":
            n_calls += 1
            calls = [{"index": k, "function": {"arguments": dumps(args), "name": name}, "id": cid, "type": "function"}
                     for k, (cid, name, args) in enumerate(m["calls"])]
            inner = {"content": m["content"], "role": "assistant", "tool_calls": calls, "function_call": None}
            out.append({**inner, "provider_specific_fields": None, "extra": {
                "actions": [{"command": args["command"], "tool_call_id": cid} for cid, _, args in m["calls"]],
                "response": {"model": MODEL, "object": "chat.completion",
                             "choices": [{"finish_reason": "tool_calls", "index": 0, "message": inner}]},
                "cost": 0.0}})
        elif m["role"] == "tool":
            out.append({"content": m["content"], "extra": {"raw_output": m["raw"], "returncode": m["rc"], "exception_info": ""},
                        "tool_call_id": m["call_id"], "role": "tool"})
        elif m["role"] == "exit":
            out.append({"role": "exit", "content": m["content"],
                        "extra": {"exit_status": run.exit_status, "submission": run.submission}})
        else:
            out.append({"role": m["role"], "content": m["content"]})
    info = {
        "model_stats": {"instance_cost": 0.0, "api_calls": n_calls},
        "config": {
            "agent": {"system_template": SYSTEM["mini"], "instance_template": MINI_TASK % {"task": "{{task}}", "cwd": "{{cwd}}"}},
            "agent_type": AGENT, "model": {"model_name": MODEL}, "model_type": "script",
            "environment": {"cwd": run.shown, "timeout": 120, "interpreter": ["bash", "-c"]}, "environment_type": "local"},
        "agent": AGENT, "repository": run.repository, "resolved": run.resolved,
        "exit_status": run.exit_status, "submission": run.submission,
    }
    return dumps({"info": info, "messages": out, "trajectory_format": "mini-swe-agent-1.1", "instance_id": run.task_id}, 1) + "\n"
