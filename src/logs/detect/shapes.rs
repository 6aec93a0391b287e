//! The rules: which format has values of this shape.

use crate::logs::formats::reading::shape::Shape;
use crate::logs::formats::{ALL, api_calls};

use super::{Detected, Layout, UNKNOWN};

pub(super) fn reader(name: &str, layout: Layout) -> Detected {
    let entry = ALL.iter().find(|e| e.name == name).expect("detection names readers of the catalogue");
    Detected::Log(entry, layout)
}

/// The rules, the most telling first. Paths are relative to a value, for arrays to the array.
pub(super) fn by_shape(s: &Shape, head: &[u8], layout: Layout) -> Detected {
    agents(s, layout)
        .or_else(|| sessions(s, head, layout))
        .or_else(|| traces(s, layout))
        .or_else(|| runs(s, head, layout))
        .or_else(|| chats(s, head, layout))
        .or_else(|| further(s, layout))
        .or_else(|| labels(s))
        .unwrap_or(Detected::NoLog(UNKNOWN))
}

/// Sessions of command line agents but Claude Code.
fn agents(s: &Shape, layout: Layout) -> Option<Detected> {
    if s.has("payload")
        && s.any(|p| {
            ["session_meta", "response_item", "event_msg", "turn_context", "compacted"]
                .iter()
                .any(|t| p.strip_prefix("type=") == Some(t))
        })
    {
        return Some(reader("codex", Layout::Lines));
    }
    let is_old = s.has_all(&["id", "timestamp", "instructions"]) && !s.has("payload");
    let is_old_item = s.has_any(&["type=message", "type=reasoning", "type=function_call"]);
    if s.has_any(&["record_type=state", "type=thread.started"]) || is_old && is_old_item {
        return Some(reader("codex", Layout::Lines));
    }
    if s.has("type=session") && s.has_any(&["cwd", "timestamp"]) || is_pi(s) {
        return Some(reader("pi", Layout::Lines));
    }
    let is_gemini_line =
        s.has_any(&["$set.lastUpdated", "$set.messages", "$rewindTo"]) || s.has_all(&["id", "type=gemini"]);
    let is_asked = s.has_all(&["id", "timestamp", "type=user", "content"])
        && !s.has_any(&["message", "uuid", "parentId", "sessionId", "session_id", "role", "data"]);
    let is_content = ["[]", "history[]"]
        .iter()
        .any(|list| s.has(&format!("{list}.role")) && s.has(&format!("{list}.parts")));
    if s.has_all(&["sessionId", "projectHash"]) || is_gemini_line || is_asked || is_content {
        return Some(reader("gemini-cli", layout));
    }
    let is_event = s.has_any(&["type=tool_use", "type=tool_result"]) && s.has("tool_id");
    let is_end =
        s.has_any(&["stats.input_tokens", "stats.total_tokens"]) && s.has_all(&["type=result", "status"]);
    if is_event || is_end || s.has_all(&["type=init", "session_id", "model"]) {
        return Some(reader("gemini-stream", Layout::Lines));
    }
    let is_copilot =
        |p: &str| p.starts_with("type=session.") || p == "type=user.message" || p == "type=assistant.message";
    let is_event = |p: &str| p.strip_prefix("type=").is_some_and(|kind| kind.contains('.'));
    let is_of_copilot = s.any(is_copilot) || s.any(is_event) && !s.has("aggregate_id");
    if s.has_all(&["data", "id", "timestamp"]) && is_of_copilot {
        return Some(reader("copilot-cli", Layout::Lines));
    }
    let is_kimi = |p: &str| p.starts_with("type=context.append_") || p == "type=turn.prompt";
    if s.any(is_kimi)
        || s.has_all(&["type=metadata", "protocol_version"])
        || s.has("time") && s.any(is_event) && !s.has_any(&["data", "timestamp", "id"])
    {
        return Some(reader("kimi-code", Layout::Lines));
    }
    let is_wire = ["TurnBegin", "StepBegin", "ContentPart", "ToolCall", "StatusUpdate"];
    let is_wire = s.has("timestamp") && is_wire.iter().any(|kind| s.has(&format!("message.type={kind}")));
    let is_context =
        ["_system_prompt", "_checkpoint", "_usage"].iter().any(|role| s.has(&format!("role={role}")));
    if is_wire || is_context {
        return Some(reader("kimi-cli", Layout::Document));
    }
    let is_qwen = s.has("message.parts") && !s.has("message.content") || s.has("systemPayload");
    if s.has_all(&["uuid", "parentUuid", "sessionId"]) && is_qwen {
        return Some(reader("qwen-code", Layout::Lines));
    }
    None
}

/// A message of pi, where the line that begins its session is damaged or gone.
fn is_pi(s: &Shape) -> bool {
    let own = ["role=toolResult", "role=bashExecution", "content[].type=toolCall", "stopReason"];
    let is_old = s.has_all(&["timestamp", "message.role", "message.content"])
        && !s.has_any(&["id", "uuid", "session_id", "sessionId"]);
    s.has("type=message") && (is_old || own.iter().any(|own| s.has(&format!("message.{own}"))))
}

/// Lines of sessions, each told by the records of what was said: the line that begins a session may be damaged or gone.
fn sessions(s: &Shape, head: &[u8], layout: Layout) -> Option<Detected> {
    if s.has_all(&["accountKey", "windowKind", "usedPercent"]) {
        return Some(Detected::Label("codex-usage"));
    }
    // What Continue notes of calls for itself: prompts of its sessions once more, and those of completions.
    if s.has_all(&["eventName", "schema", "userAgent"])
        || s.has_all(&["prompt", "completion", "completionOptions"])
    {
        return Some(Detected::Label("continue-dev-data"));
    }
    let is_streamed = s.has_all(&["text", "role", "session_id"]);
    let is_said = s.has_all(&["id", "timestamp", "message.role", "message.content[].type"]);
    if s.has("type=message") && (is_streamed || is_said)
        || s.has_any(&["type=session_start", "type=todo_state", "type=compaction_state"])
    {
        return Some(reader("factory-droid", Layout::Lines));
    }
    let claude_line = s.has_all(&["sessionId", "uuid", "type"]) && s.has_any(&["message", "data", "subtype"]);
    let claude_meta = ["type=file-history-snapshot", "type=queue-operation"];
    if claude_line || s.has_any(&claude_meta) || s.has_all(&["type=summary", "leafUuid"]) {
        return Some(reader("claude-code", if layout == Layout::Items { layout } else { Layout::Lines }));
    }
    let is_thinking = s.has_all(&["type=thinking", "subtype=delta"]);
    if s.has("session_id") && (is_thinking || s.has_all(&["type=tool_call", "tool_call"])) {
        return Some(reader("cursor-stream", Layout::Lines));
    }
    let is_said = s.has_any(&["type=user", "type=assistant"]) && s.has("message.content");
    if s.has("session_id")
        && (s.has("type=system")
            || s.has_all(&["type=result", "subtype"])
            || s.has_all(&["message", "parent_tool_use_id"])
            || is_said)
    {
        return Some(reader("claude-stream", if layout == Layout::Items { layout } else { Layout::Lines }));
    }
    let is_printed = ["step_start", "step_finish", "text", "tool_use", "reasoning"];
    let is_printed = is_printed.iter().any(|kind| s.has(&format!("type={kind}")));
    if s.has_all(&["aggregate_id", "seq", "type", "data"])
        || is_printed && s.has_all(&["sessionID", "part.type"])
    {
        return Some(reader("opencode-events", layout));
    }
    if s.has_all(&["sessionId", "agent", "version", "messages"]) {
        return Some(reader("cline-sdk", Layout::Document));
    }
    if s.has("requests") && s.has_any(&["responderUsername", "initialLocation", "requests[].requestId"]) {
        return Some(reader("vscode-chat", layout));
    }
    if layout == Layout::Lines && s.has_all(&["kind", "v"]) && s.has_any(&["v.requests", "v.version", "k"]) {
        return Some(reader("vscode-journal", layout));
    }
    if s.has_all(&["role", "message.content"]) && !s.has_any(&["type", "uuid"]) && layout == Layout::Lines {
        return Some(reader("cursor", layout));
    }
    let is_roo = s.has("[].ts") || memchr::memmem::find(head, b"<environment_details>").is_some();
    if s.has_all(&["[].role", "[].content"]) && is_roo
        || s.has_all(&["[].ts", "[].text"]) && s.has_any(&["[].type=say", "[].type=ask"])
    {
        return Some(reader("roo-code", Layout::Document));
    }
    let is_row =
        s.has("content_json") || layout == Layout::Lines && s.has_all(&["created", "content[].type"]);
    if s.has("role") && (is_row || s.has_all(&["working_dir", "description"])) {
        return Some(reader("goose-lines", Layout::Lines));
    }
    if s.has_all(&["info", "messages[].info", "messages[].parts"]) {
        return Some(reader("opencode-export", layout));
    }
    let is_opencode = s.has_all(&["id", "time"]) && !s.has("messages");
    if is_opencode && (s.has_all(&["sessionID", "role"]) || s.has_all(&["projectID", "title"]))
        || s.has_all(&["id", "messageID", "type"])
    {
        return Some(reader("opencode-tree", Layout::Document));
    }
    None
}

/// Traces: runs, observations and spans.
fn traces(s: &Shape, layout: Layout) -> Option<Detected> {
    if ["", "[].", "post[].", "patch[].", "runs[]."].iter().any(|at| s.has(&format!("{at}dotted_order"))) {
        return Some(reader("langsmith", layout));
    }
    let observations = ["", "trace."].iter().any(|at| {
        ["parentObservationId", "traceId"].iter().any(|key| s.has(&format!("{at}observations[].{key}")))
    });
    if observations {
        return Some(reader("langfuse", layout));
    }
    if s.any(|p| ["object=trace", "object=trace.span"].contains(&p)) {
        return Some(reader("openai-agents", Layout::Lines));
    }
    if s.has_any(&["resourceSpans", "resource_spans"])
        || is_span(s, "")
        || is_span(s, "[].")
        || is_span(s, "spans[].")
    {
        return Some(reader("otel", layout));
    }
    None
}

/// Events of OpenHands, of the SDK (by `kind`) and of the first line.
pub(crate) fn openhands_events(s: &Shape, layout: Layout) -> Option<Detected> {
    let is_kind = |p: &str| p.ends_with("Event") || p.ends_with("=Condensation");
    let event = |at: &str| {
        s.any(|p| p.strip_prefix(at).is_some_and(|p| p.starts_with("kind=")) && is_kind(p))
            && s.has(&format!("{at}source"))
            || s.has(&format!("{at}source"))
                && (s.has(&format!("{at}action")) || s.has(&format!("{at}observation")))
    };
    if layout != Layout::Items && event("") {
        return Some(reader("openhands-events", layout));
    }
    (event("[].") || event("[][].")).then(|| reader("openhands", Layout::Document))
}

/// Documents and lines that hold runs.
pub(crate) fn runs(s: &Shape, head: &[u8], layout: Layout) -> Option<Detected> {
    if s.any(|p| p.starts_with("schema_version=ATIF-v")) {
        return Some(reader("atif", layout));
    }
    if s.has("messages[].messageId") || s.has("messages[].content[].toolUseID") {
        return Some(reader("amp", layout));
    }
    if s.has_all(&["sessionId", "history"]) && s.has_any(&["workspaceDirectory", "history[].message"]) {
        return Some(reader("continue", layout));
    }
    if s.has_all(&["session_id", "messages"]) && s.has_any(&["session_start", "platform"])
        || is_hermes(s, head)
    {
        return Some(reader("hermes", layout));
    }
    if s.has_all(&["suite_name", "pipeline_name", "messages"]) {
        return Some(reader("agentdojo", layout));
    }
    if s.has("agents[].in_context_message_ids") || s.has_all(&["agents[].messages", "blocks"]) {
        return Some(reader("letta", layout));
    }
    if s.has("simulations") && s.has_any(&["info", "tasks", "simulations[].messages"]) {
        return Some(reader("tau2-bench", Layout::Document));
    }
    // A run of a document whose beginning is damaged.
    if s.has_all(&["traj", "gt", "pred"]) {
        return Some(reader("fireact", layout));
    }
    if s.has_all(&["traj", "reward"]) && (layout == Layout::Items || s.has("task_id")) {
        return Some(reader("tau-bench", layout));
    }
    if s.has_all(&["mistake_step", "history"]) || s.has_all(&["question_ID", "history"]) {
        return Some(reader("who-and-when", layout));
    }
    if s.any(|p| p.starts_with("trajectory_format=mini-swe-agent"))
        || s.has_all(&["messages", "info"])
            && s.has_any(&["info.mini_version", "info.exit_status", "info.model_stats"])
    {
        return Some(reader("mini-swe-agent", layout));
    }
    if s.has_all(&["trajectory[].action", "trajectory[].observation"])
        || s.has_all(&["history[].role", "history[].agent"])
    {
        return Some(reader("sweagent", layout));
    }
    if s.has_all(&["trajectory", "history", "info"])
        || s.has_any(&["attempts[].trajectory", "attempts[].history"])
    {
        return Some(reader("sweagent", layout));
    }
    if s.has_all(&["issue", "git_patch", "history"]) {
        return Some(reader("openhands", layout));
    }
    // Some evaluations call the instance `id`.
    let openhands =
        s.has_any(&["metadata.agent_class", "history[].source", "history[][].source", "test_result"]);
    if s.has_all(&["instance_id", "history"])
        || s.has_any(&["instance_id", "id"])
            && (openhands && s.has("history") || s.has_all(&["test_result", "instruction"]))
    {
        return Some(reader("openhands", layout));
    }
    None
}

/// Documents and lines of messages, the plain ones last.
fn chats(s: &Shape, head: &[u8], layout: Layout) -> Option<Detected> {
    if s.has("trajpress") {
        return Some(reader("trajpress-chat", layout));
    }
    if s.has_all(&["messages", "annotations"]) {
        return Some(reader("annotated", layout));
    }
    if s.has("messages")
        && (s.has_all(&["response", "kwargs"])
            || s.has("fncall_messages")
            || s.has_all(&["response", "cost", "timestamp"]))
    {
        let layout = if layout == Layout::Document { layout } else { Layout::Lines };
        return Some(reader("openhands-completion", layout));
    }
    if api_calls::is_call(s) {
        let layout = if layout == Layout::Document { layout } else { Layout::Lines };
        return Some(reader("api-calls", layout));
    }
    if s.has("messages[].role") {
        return Some(reader("openai-chat", layout));
    }
    if s.has("object=response") || lists_items(s) {
        return Some(reader("openai-chat", layout));
    }
    if s.has_all(&["role", "content"]) && layout == Layout::Lines {
        return Some(reader("chat-lines", layout));
    }
    if s.has_all(&["[].role", "[].content"]) || s.has_all(&["role", "content"]) && layout == Layout::Document
    {
        let early = memchr::memmem::find(head, b"```bash\\n").is_some()
            && memchr::memmem::find(head, b"\"tool_calls\"").is_none();
        return Some(reader(if early { "mini-swe-agent" } else { "openai-chat" }, layout));
    }
    None
}

/// A span of OpenTelemetry, as the SDKs write it.
fn is_span(s: &Shape, at: &str) -> bool {
    let has = |key: &str| s.has(&format!("{at}{key}"));
    has("attributes")
        && has("name")
        && ["spanContext", "spanId", "context.span_id", "span_id"].iter().any(|key| has(key))
}

/// Conversations in the style of ShareGPT, where calls are tags.
fn is_hermes(s: &Shape, head: &[u8]) -> bool {
    s.has("conversations[].from")
        && [&b"<tool_call>"[..], b"<tool_response>"]
            .iter()
            .any(|tag| memchr::memmem::find(head, tag).is_some())
}

/// Runs of further agents and sets, which are known but not read.
fn further(s: &Shape, layout: Layout) -> Option<Detected> {
    if s.has_all(&["prompt", "completion"]) {
        return Some(reader("verifiers", layout));
    }
    if s.has_any(&["conversations[].from", "[].conversations[].from"]) {
        return Some(reader("sharegpt", layout));
    }
    if s.has_all(&["state", "task"]) && s.has_any(&["state.history", "state.finished"]) {
        return Some(reader("mint", layout));
    }
    if s.has_all(&["eval", "status"]) || s.has_all(&["eval", "samples"]) {
        return Some(reader("inspect-json", Layout::Document));
    }
    if s.has_all(&["win", "tree"]) || s.has_all(&["answer_generation"]) {
        return Some(reader("toolbench", layout));
    }
    if s.has_any(&["[].convo_id", "convo_id"]) {
        return Some(reader("abcd", layout));
    }
    if s.has_any(&["[].utterances", "utterances"]) {
        return Some(reader("taskmaster", layout));
    }
    if s.has("transitions") || s.has_all(&["nodes", "metadata"]) {
        return Some(reader("moatless", layout));
    }
    if s.any(|p| p.ends_with(".traj")) && s.any(|p| p.ends_with(".gt")) {
        return Some(reader("fireact", layout));
    }
    let is_row = s.has_any(&["instance_id", "traj_id", "trajectory_id"]);
    let is_text = s.has("messages") && !s.any(|p| p.starts_with("messages["));
    if is_row && (s.has("trajectory[].role") || is_text) {
        return Some(reader("swe-corpora", layout));
    }
    openhands_events(s, layout)
}

/// Labels.
fn labels(s: &Shape) -> Option<Detected> {
    if s.has("tokenUsage") && s.has_any(&["autonomyMode", "providerLock", "tokenUsage.thinkingTokens"]) {
        return Some(Detected::Label("factory-droid-settings"));
    }
    if s.has_all(&["checkpoint_id", "session_id"]) {
        return Some(Detected::Label("entire-checkpoint"));
    }
    if s.has_all(&["agent_class", "llm_config"]) {
        return Some(Detected::Label("openhands-metadata"));
    }
    if s.has("resolved_ids") {
        return Some(Detected::Label("swebench-run-report"));
    }
    if s.has("resolved") && s.has_any(&["no_generation", "no_logs", "generated", "with_logs", "applied"]) {
        return Some(Detected::Label("swebench-results"));
    }
    if s.any(|p| p.ends_with(".patch_exists")) || s.any(|p| p.ends_with(".tests_status")) {
        return Some(Detected::Label("swebench-instance-report"));
    }
    if s.any(|p| p.ends_with(".resolved")) && s.any(|p| p.ends_with(".total")) {
        return Some(Detected::Label("swebench-summary"));
    }
    if s.has_any(&["model_patch", "[].model_patch"]) {
        return Some(Detected::Label("swebench-predictions"));
    }
    None
}

/// Whether messages without roles, or items of the Responses API, stand in a list where a run may have them.
fn lists_items(s: &Shape) -> bool {
    const TYPES: [&str; 6] = ["message", "function_call", "function_call_output", "reasoning", "human", "ai"];
    let lists = ["messages[]", "[]", "input[]", "output[]"];
    let holds = |list: &&str| TYPES.iter().any(|t| has_type(s, list, t));
    lists.iter().any(holds) || s.has_all(&["input[].role", "input[].content"])
}

fn has_type(s: &Shape, list: &str, kind: &str) -> bool {
    s.has(&format!("{list}.type={kind}")) && !s.has(&format!("{list}.payload"))
}
