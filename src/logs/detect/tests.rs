//! Tests of `detect`.

use super::lines::NOISE_LOOKED_THROUGH;
use super::*;

fn name(text: &str) -> String {
    match detect(text.as_bytes(), true) {
        Detected::Log(e, layout) => format!("{} {layout:?}", e.name),
        Detected::NotRead(n) => format!("not read: {n}"),
        Detected::Table => "table".to_owned(),
        Detected::Label(n) => format!("label: {n}"),
        Detected::NoLog(n) => format!("no log: {n}"),
        Detected::Bad(n) => format!("bad: {n}"),
        Detected::Database => "database".to_owned(),
        Detected::More => "more".to_owned(),
    }
}

#[test]
fn formats_are_told_by_content() {
    let chat = r#"{"messages":[{"role":"user","content":"x"}]}"#;
    assert_eq!(name(chat), "openai-chat Lines");
    assert_eq!(name(&format!("{chat}\n{chat}\n")), "openai-chat Lines");
    assert_eq!(name(&format!("[{chat}]")), "openai-chat Items");
    assert_eq!(
        name("{\n \"messages\": [\n  {\"role\": \"user\", \"content\": \"x\"}\n ]\n}"),
        "openai-chat Document"
    );
    assert_eq!(name(&format!("\u{feff}{chat}\r\n\r\n{chat}")), "openai-chat Lines");
    assert_eq!(name(&format!("{{\"broken\n{chat}\n")), "openai-chat Lines");
    assert_eq!(name(r#"[{"role":"user","content":"x"}]"#), "openai-chat Document");
    assert_eq!(name(r#"[{"role":"assistant","content":"do\n```bash\nls\n```"}]"#), "mini-swe-agent Document");
    assert_eq!(name(r#"{"messages":[{"role":"user"}],"annotations":{}}"#), "annotated Lines");
    assert_eq!(name(r#"{"schema_version":"ATIF-v1.7","steps":[]}"#), "atif Lines");
    assert_eq!(name(r#"{"resolved_ids":[],"schema_version":2}"#), "label: swebench-run-report");
    assert_eq!(name("{\"type\":\"summary\",\"leafUuid\":\"1\"}\n"), "claude-code Lines");
    assert_eq!(name("{\"role\":\"user\",\"content\":\"x\"}\n"), "chat-lines Lines");
    assert_eq!(name(r#"{"messages":[{"type":"reasoning"},{"type":"function_call"}]}"#), "openai-chat Lines");
    assert_eq!(name(r#"{"input":"q","output":[{"type":"message","content":[]}]}"#), "openai-chat Lines");
    assert_eq!(name(r#"[{"type":"function_call","call_id":"c"}]"#), "openai-chat Document");
    assert_eq!(name(r#"{"attempts":[{"trajectory":[],"history":[]}]}"#), "sweagent Lines");
    let event = r#"{"source":"agent","action":"run","args":{}}"#;
    for id in ["id", "instance_id"] {
        let line = format!(r#"{{"{id}":"a__b-1","history":[{event}],"metadata":{{"agent_class":"C"}}}}"#);
        assert_eq!(name(&line), "openhands Lines");
    }
    assert_eq!(name(&format!("[{event}]")), "openhands Document");
    assert_eq!(name(&format!("[{event},\n{event}]")), "openhands Document");
    assert_eq!(name(&format!("{event}\n{event}\n")), "openhands-events Lines");
    assert_eq!(name(r#"{"kind":"ActionEvent","source":"agent"}"#), "openhands-events Lines");
    assert_eq!(name(r#"{"issue":{},"git_patch":"","history":[{"action":"run"}]}"#), "openhands Lines");
    assert_eq!(name(r#"{"instance_id":"i","trajectory":[{"role":"ai","text":"x"}]}"#), "swe-corpora Lines");
    assert_eq!(name(r#"{"messages":"[]","instance_id":"i","traj_id":"t"}"#), "swe-corpora Lines");
    assert_eq!(
        name(r#"{"messages":[{"role":"user"}],"response":{},"kwargs":{}}"#),
        "openhands-completion Lines"
    );
    for (text, told) in [
        (r#"{"aggregate_id":"s","seq":0,"type":"session.created.1","data":{}}"#, "opencode-events Lines"),
        (r#"{"info":{"id":"s"},"messages":[{"info":{"role":"user"},"parts":[]}]}"#, "opencode-export Lines"),
        (r#"{"id":"m","sessionID":"s","role":"user","time":{}}"#, "opencode-tree Document"),
        (r#"{"id":"p","messageID":"m","type":"text","text":"x"}"#, "opencode-tree Document"),
        (r#"{"id":"s","projectID":"p","title":"t","time":{}}"#, "opencode-tree Document"),
        (r#"{"id":1,"session_id":"s","role":"user","content_json":"[]"}"#, "goose-lines Lines"),
        (
            "{\"working_dir\":\"/w\",\"description\":\"d\"}\n{\"role\":\"user\",\"content\":[]}\n",
            "goose-lines Lines",
        ),
        (r#"{"version":1,"agent":"lead","sessionId":"s","messages":[]}"#, "cline-sdk Document"),
        (r#"{"messages":[{"role":"user"}],"response":{"content":[]}}"#, "api-calls Lines"),
        (r#"{"request":{"input":"Q"},"response":{"output":[]}}"#, "api-calls Lines"),
        (r#"{"id":"r","previous_response_id":null,"input":[],"output":[]}"#, "api-calls Lines"),
        (
            r#"{"messages":[{"role":"user"}],"response":{"choices":[]},"kwargs":{}}"#,
            "openhands-completion Lines",
        ),
        (r#"[{"role":"user","content":[],"ts":1}]"#, "roo-code Document"),
        (r#"[{"ts":1,"type":"say","say":"text","text":"x"}]"#, "roo-code Document"),
        (r#"{"version":3,"responderUsername":"C","requests":[]}"#, "vscode-chat Lines"),
        (r#"{"kind":0,"v":{"version":3,"requests":[]}}"#, "vscode-journal Lines"),
        (r#"{"role":"user","message":{"content":[]}}"#, "cursor Lines"),
        ("SQLite format 3\0", "database"),
        ("\u{18}", "bad: binary file"),
    ] {
        assert_eq!(name(text), told, "{text}");
    }
    assert_eq!(name(&format!("\0\0{chat}\n")), "openai-chat Lines");
    assert_eq!(name("\0\0\n\0"), "bad: NUL bytes and nothing else");
    assert_eq!(name("just a text\n"), "no log: text without JSON");
    assert_eq!(name("a text\n{\"a\":1}\n[cut\n"), "no log: JSON of no known format");
    assert_eq!(name("\u{0}\u{1}\u{2}"), "bad: binary file");
    assert_eq!(name(" \n "), "bad: nothing but white space");
}

#[test]
fn what_agents_print_is_told_by_content() {
    for (text, told) in [
        (
            r#"{"eventName":"chat","schema":"0.2.0","userAgent":"a","prompt":"p","completion":"c"}"#,
            "label: continue-dev-data",
        ),
        (r#"{"prompt":"p","completion":"c","completionOptions":{}}"#, "label: continue-dev-data"),
        (r#"{"type":"text","sessionID":"s","part":{"type":"text","text":"x"}}"#, "opencode-events Lines"),
        (
            "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}\n{\"type\":\"tool_call\",\"subtype\":\"started\",\"call_id\":\"c\",\"tool_call\":{},\"session_id\":\"s\"}\n",
            "cursor-stream Lines",
        ),
        (r#"{"type":"init","session_id":"s","model":"m"}"#, "gemini-stream Lines"),
        (r#"{"type":"tool_use","tool_name":"f","tool_id":"f-1","parameters":{}}"#, "gemini-stream Lines"),
        (
            "{\"type\":\"message\",\"role\":\"user\",\"content\":\"x\"}\n{\"type\":\"init\",\"session_id\":\"s\",\"model\":\"m\"}\n",
            "gemini-stream Lines",
        ),
    ] {
        assert_eq!(name(text), told, "{text}");
    }
}

#[test]
fn agents_sessions_are_told_by_content() {
    let content = r#"{"role":"user","parts":[{"text":"x"}]}"#;
    for (line, told) in [
        (r#"{"type":"session_meta","payload":{"id":"s"}}"#, "codex Lines"),
        (r#"{"type":"event_msg","payload":{"type":"token_count"}}"#, "codex Lines"),
        (r#"{"type":"thread.started","thread_id":"s"}"#, "codex Lines"),
        (r#"{"sessionId":"s","projectHash":"p","messages":[]}"#, "gemini-cli Lines"),
        (r#"{"$set":{"lastUpdated":"x"}}"#, "gemini-cli Lines"),
        (r#"{"id":"1","type":"gemini","content":"x"}"#, "gemini-cli Lines"),
        (r#"{"history":[{"role":"user","parts":[{"text":"x"}]}]}"#, "gemini-cli Lines"),
        (
            r#"{"uuid":"1","parentUuid":null,"sessionId":"s","type":"user","message":{"parts":[]}}"#,
            "qwen-code Lines",
        ),
        (
            r#"{"uuid":"1","parentUuid":null,"sessionId":"s","type":"user","message":{"content":[]}}"#,
            "claude-code Lines",
        ),
        (r#"{"type":"session.start","id":"1","timestamp":"x","data":{}}"#, "copilot-cli Lines"),
        (r#"{"type":"session","id":"s","cwd":"/x"}"#, "pi Lines"),
        (r#"{"type":"context.append_message","message":{}}"#, "kimi-code Lines"),
        (r#"{"role":"_checkpoint","id":0}"#, "kimi-cli Document"),
        (r#"{"timestamp":1,"message":{"type":"TurnBegin"}}"#, "kimi-cli Document"),
        (r#"{"type":"system","subtype":"init","session_id":"s"}"#, "claude-stream Lines"),
    ] {
        assert_eq!(name(line), told, "{line}");
        assert_eq!(name(&format!("{line}\n{line}\n")), told, "{line}");
    }
    assert_eq!(name(&format!("[{content}]")), "gemini-cli Document");
    let old = "{\"id\":\"s\",\"timestamp\":\"x\",\"instructions\":null}\n{\"type\":\"message\",\"role\":\"user\",\"content\":[]}\n";
    assert_eq!(name(old), "codex Lines");
    let document = "{\n \"sessionId\": \"s\",\n \"projectHash\": \"p\",\n \"messages\": [\n  {\"type\": \"user\"}\n ]\n}";
    assert_eq!(name(document), "gemini-cli Document");
}

#[test]
fn lines_are_told_behind_any_number_of_bad_ones() {
    let chat = r#"{"messages":[{"role":"user","content":"x"}]}"#;
    for bad in ["hello world,\n", "{\"id\": \"x\", \"messages\": [{\"role\"\n"] {
        let text = bad.repeat(25) + chat + "\n";
        assert_eq!(name(&text), "openai-chat Lines", "{bad}");
        assert_eq!(layout_of(text.as_bytes(), true), Some(Layout::Lines));
        // They may go on behind the head.
        let head = bad.repeat(25);
        assert!(matches!(detect(head.as_bytes(), false), Detected::More), "{bad}");
        assert_eq!(layout_of(head.as_bytes(), false), None);
        assert_eq!(layout_of(head.as_bytes(), true), Some(Layout::Document));
    }
    let text = "hello world\n".repeat(25);
    assert_eq!(name(&text), "no log: text without JSON");
    let long = "hello world\n".repeat(NOISE_LOOKED_THROUGH / 12 + 1);
    assert!(matches!(detect(long.as_bytes(), false), Detected::NoLog(_)));
    // Kinds of text that are known, and documents over many lines, stay what they are.
    let aider = format!("# aider chat started at 1\n{}{chat}\n", "text\n".repeat(30));
    assert_eq!(name(&aider), "aider Document");
    assert_eq!(name(&format!("_**User (2026-01-01 00:00:00Z)**_\n\n{chat}\n{chat}\n")), "specstory Document");
    assert_eq!(
        name(&format!("<!-- Generated by SpecStory -->\n\n# A title\n{chat}\n")),
        "specstory Document"
    );
    let items = "  1,\n".repeat(30);
    let document = format!("{{\"simulations\": [],\n\"info\": [\n{items}{{\"a\": 1}}\n]}}\n");
    assert_eq!(name(&document), "tau2-bench Document");
}

/// A list or document over many lines whose first bytes are gone is one still; text and tables are none.
/// What is left of a record has keys in places where they tell another format.
#[test]
fn torn_lines_tell_nothing_beside_whole_ones() {
    let said = r#""message":{"role":"assistant","content":[{"type":"text","text":"x"}]}"#;
    let line = format!(r#"{{"sessionId":"s","uuid":"u","timestamp":"t","type":"user",{said}}}"#);
    let torn = r#"{"message":{"content":[{"type":"thinking"}],"id":"m"}],"id":"m","type":"message"},"timestamp":"t"}"#;
    assert_eq!(name(&format!("{torn}\n{line}\n")), "claude-code Lines");
    assert_eq!(name(&format!("{line}\n{torn}\n")), "claude-code Lines");
    let said = r#"{"role":"user","content":"x"}"#;
    let line = format!(r#"{{"prompt":[{said}],"completion":[{said},{said}]}}"#);
    let torn = format!("{{\"prompt\":[{said}],\"completion\":[\n{said},{said}]}}");
    assert_eq!(name(&format!("{line}\n{torn}\n")), "verifiers Lines");
    let begin = r#"{"kind":0,"v":{"version":3,"requests":[]}}"#;
    assert_eq!(name(&format!("[{begin}\n")), "vscode-journal Lines");
}

#[test]
fn a_document_without_its_beginning_is_told() {
    let run = "{\n  \"task_id\": 1,\n  \"reward\": 0.0,\n  \"info\": {},\n  \"traj\": [\n  {\n  \"role\": \"user\",\n  \"content\": \"x\"\n  }\n  ]\n}";
    let list = format!("[\n{run},\n{run},\n{run}\n]\n");
    assert_eq!(name(&list), "tau-bench Items");
    for cut in [6, 12, 30] {
        assert_eq!(name(&list[cut..]), "tau-bench Items", "{cut}");
    }
    for before in ["null\n", "# a comment\n", "log: "] {
        assert_eq!(name(&format!("{before}{list}")), "tau-bench Items", "{before}");
    }
    let document = format!("{{\n\"timestamp\": \"t\",\n\"info\": {{}},\n\"simulations\": [\n{run}\n]\n}}\n");
    assert_eq!(name(&document[2..]), "tau2-bench Document");
    let unknown = "\"a\": 1,\n\"b\": [\n{\n\"c\": 2\n}\n]\n}\n";
    assert_eq!(name(unknown), "bad: JSON whose beginning is missing");
    for text in ["a, b,\n".repeat(30), "\"a\",\"b\"\n".repeat(30), "key: value\n- x\n".repeat(30)] {
        assert!(name(&text).starts_with("no log"), "{text}");
    }
}

#[test]
fn what_stands_before_the_first_record_tells_nothing() {
    let chat = r#"{"messages":[{"role":"user","content":"x"}]}"#;
    let lines = format!("{chat}\n{chat}\n");
    for padding in ["\n", "\r\n", " ", "\0", "\u{feff}"] {
        let padding = padding.repeat(70_000);
        assert!(matches!(detect(padding.as_bytes(), false), Detected::More));
        assert_eq!(name(&format!("{padding}{lines}")), "openai-chat Lines");
    }
    // No value goes on like that: what tells is the other lines.
    for stray in ["{\n", "{", "[\n", "[", "[{\n", "{\"\n", "}\n", ",\n", "\"\n", "{\"a\":1,\n"] {
        assert_eq!(name(&format!("{stray}{lines}{lines}")), "openai-chat Lines", "{stray}");
    }
    let traj = r#"{"history":[{"role":"user","agent":"a"}]}"#;
    for stray in ["}", "]}", "1e999", "\"\\ud800\""] {
        // The last two are values: what comes behind them is told alone.
        let told = if stray.ends_with('}') { "sweagent Items" } else { "sweagent Lines" };
        assert_eq!(name(&format!("{stray}{traj}")), told, "{stray}");
        let document = format!("{stray}{{\"info\":{{}},\"simulations\":[]}}");
        assert_eq!(name(&document), "tau2-bench Document", "{stray}");
    }
    // With the first quote of the document the one before is a text, and no text goes on with a letter.
    assert_eq!(name(r#""{"info":{},"simulations":[]}"#), "tau2-bench Document");
    let runs = format!(r#""{{"info":{{}},"simulations":[{chat},{chat}]}}"#);
    assert_eq!(name(&runs), "tau2-bench Document");
    for stray in ["{", "x", ",", "\"", "[{\"cut"] {
        assert_eq!(name(&format!("{stray}{chat},{chat}]")), "openai-chat Items", "{stray}");
    }
    assert_eq!(name(&format!("# Title\n```\n[{chat},{chat}]\n```\n")), "no log: text without JSON");
}

#[test]
fn a_record_that_is_cut_by_the_head_tells_nothing() {
    // All commas: wherever the head ends, its last line seems to be part of a larger value.
    let commas = ",".repeat(500);
    let run = format!(r#"{{"messages":[{{"role":"user","content":"{commas}"}}],"annotations":{{}}}}"#);
    let text = format!("{}\n{run}\n{run}\n", &run[..300]);
    for end in 1..text.len() {
        match detect(&text.as_bytes()[..end], false) {
            Detected::More => assert!(end < 310 + run.len(), "{end}"),
            Detected::Log(entry, Layout::Lines) => assert_eq!(entry.name, "annotated", "{end}"),
            _ => panic!("{end}"),
        }
    }
    let text = format!("[{run},\n{run}]");
    for end in 1..text.len() {
        match detect(&text.as_bytes()[..end], false) {
            Detected::More => assert!(end < 1 + run.len(), "{end}"),
            Detected::Log(entry, Layout::Items) => assert_eq!(entry.name, "annotated", "{end}"),
            _ => panic!("{end}"),
        }
    }
    // A document over many lines is one, also where each message has its line.
    let text = format!(
        "{{\"messages\": [\n{}{{\"role\":\"user\",\"content\":\"x\"}}\n]}}\n",
        "{\"role\":\"user\",\"content\":\"x\"},\n".repeat(9)
    );
    assert_eq!(name(&text), "openai-chat Document");
}

#[test]
fn lists_of_runs_are_told_by_their_items() {
    let run = |rest: &str| format!(r#"{{"messages":[{{"role":"user","content":"x"}}]{rest}}}"#);
    for (item, told) in [
        (run(""), "openai-chat Items"),
        (run(r#","annotations":{}"#), "annotated Items"),
        (run(r#","info":{"exit_status":"x"}"#), "mini-swe-agent Items"),
        (r#"{"traj":[],"reward":1}"#.to_owned(), "tau-bench Items"),
        (r#"{"history":[{"role":"user","agent":"a"}]}"#.to_owned(), "sweagent Items"),
        (r#"{"sessionId":"s","uuid":"u","type":"user","message":{}}"#.to_owned(), "claude-code Items"),
        (r#"{"role":"user","content":"x"}"#.to_owned(), "openai-chat Document"),
        (r#"{"convo_id":1}"#.to_owned(), "abcd Items"),
        (r#"{"reward":true,"gt":"a","pred":"a","traj":[]}"#.to_owned(), "fireact Items"),
    ] {
        assert_eq!(name(&format!("[{item}]")), told);
        assert_eq!(name(&format!("[\n  {item},\n  {item}\n]\n")), told);
    }
    let whole = run("");
    assert_eq!(name(&format!("[{whole},{}", &whole[..20])), "openai-chat Items");
    assert_eq!(name(&format!("[{whole}]\n[{whole}]\n")), "openai-chat Items");
}

#[test]
fn sessions_of_products_are_told() {
    for (text, told) in [
        (r#"{"v":1,"id":"T-1","messages":[{"role":"user","messageId":0,"content":[]}]}"#, "amp Lines"),
        (
            r#"{"sessionId":"s","workspaceDirectory":"/w","history":[{"message":{"role":"user","content":"x"}}]}"#,
            "continue Lines",
        ),
        (r#"{"type":"session_start","id":"s","cwd":"/w"}"#, "factory-droid Lines"),
        (r#"{"type":"message","role":"user","text":"x","session_id":"s"}"#, "factory-droid Lines"),
        (
            r#"{"type":"message","id":"1","timestamp":"t","message":{"role":"user","content":[{"type":"text"}]}}"#,
            "factory-droid Lines",
        ),
        (r#"{"type":"message","id":"1","message":{"role":"toolResult","content":[]}}"#, "pi Lines"),
        (
            r#"{"type":"user","message":{"role":"user","content":"x"},"session_id":"s"}"#,
            "claude-stream Lines",
        ),
        (r#"{"role":"user","created":1,"content":[{"type":"text","text":"x"}]}"#, "goose-lines Lines"),
        ("{\n> Tokens: 1k sent, 2 received.\n", "aider Document"),
        (
            r#"{"model":"m","tokenUsage":{"inputTokens":1,"thinkingTokens":1}}"#,
            "label: factory-droid-settings",
        ),
        (r#"{"session_id":"s","platform":"cli","messages":[{"role":"user","content":"x"}]}"#, "hermes Lines"),
        (r#"{"conversations":[{"from":"gpt","value":"<tool_call>{}</tool_call>"}]}"#, "hermes Lines"),
        (r#"{"object":"trace","id":"t","workflow_name":"w"}"#, "openai-agents Lines"),
        (r#"{"resourceSpans":[]}"#, "otel Lines"),
        (r#"[{"name":"n","spanContext":{"traceId":"t"},"attributes":{}}]"#, "otel Items"),
        (r#"{"name":"n","context":{"span_id":"1"},"attributes":{}}"#, "otel Lines"),
        (r#"{"post":[{"id":"1","dotted_order":"o"}],"patch":[]}"#, "langsmith Lines"),
        (r#"{"id":"1","run_type":"llm","dotted_order":"o"}"#, "langsmith Lines"),
        (r#"{"trace":{"id":"t"},"observations":[{"id":"1","parentObservationId":null}]}"#, "langfuse Lines"),
        (
            r#"{"suite_name":"s","pipeline_name":"p","messages":[{"role":"user","content":"x"}]}"#,
            "agentdojo Lines",
        ),
        (r#"{"agents":[{"in_context_message_ids":[],"messages":[]}],"blocks":[]}"#, "letta Lines"),
    ] {
        assert_eq!(name(text), told, "{text}");
    }
}
