//! Chats of VS Code, in both forms.

use crate::logs::formats::{Reading, Sink, Source, find};

const CHAT: &str = r#"{"version":3,"sessionId":"s1","responderUsername":"GitHub Copilot","requests":[
{"requestId":"r1","timestamp":1700000000000,"modelId":"copilot/g-1","message":{"text":"Fix it."},"promptTokens":500,"completionTokens":9,
 "response":[{"value":"shown alone"}],
 "result":{"metadata":{"cacheKey":"file:///w/app","renderedGlobalContext":[{"type":1,"text":"<environment_info>x</environment_info>"},{"type":3}],
  "renderedUserMessage":[{"type":1,"text":"<context>\nnow\n</context>\n<userRequest>\nFix it.\n</userRequest>"}],
  "toolCallRounds":[
   {"response":"I look.","summary":"The summary.","thinking":{"text":"hm"},"toolCalls":[{"id":"c1","name":"read_file","arguments":"{\"f\":\"a\"}"}]},
   {"response":"Done.","toolCalls":[]}],
  "toolCallResults":{"c1":{"content":[{"value":{"node":{"type":1,"children":[{"type":2,"text":"line 1"},{"type":1,"children":[{"type":2,"text":"line 2","lineBreakBefore":true}]}]}}},{"value":"end"}]},"c9":{"content":[]}}}}},
{"requestId":"r2","timestamp":1700000100000,"modelId":"copilot/g-1","message":{"text":"More."},"shouldBeRemovedOnSend":{"requestId":"r2"},"response":[]},
{"requestId":"r3","timestamp":1700000200000,"modelId":"copilot/g-1","message":{"text":"Stop?"},"isCanceled":true,
 "response":[{"kind":"thinking","value":"so"},{"value":"I look at "},{"kind":"inlineReference","inlineReference":{"path":"/w/b.rs"}},{"kind":"undoStop"},
  {"kind":"toolInvocationSerialized","toolCallId":"u1","toolId":"copilot_readFile","invocationMessage":{"value":"Reading b.rs"}}]}]}"#;

const OUTLINE: [&str; 12] = [
    "0 system message <environment_info>x</environment_info>",
    "0 system message <context>\nnow\n</context>\n<userRequest>\n",
    "0 user message Fix it.",
    "1 agent thought hm",
    "1 agent thought I look.",
    "1 agent action read_file\na",
    "1 tool observation line 1\nline 2\nend",
    "2 user compaction The summary.",
    "2 agent message Done.",
    "3 user message Stop?",
    "3 agent thought so",
    "3 agent thought I look at b.rs",
];

fn outline(format: &'static str, text: &str) -> (crate::trajectory::Trajectory, Vec<String>, Vec<String>) {
    let source = Source::test("c.json", format);
    let mut sink = Sink::new(&source);
    match find(format).unwrap().reading {
        Reading::Values(read) => read(text.as_bytes(), &mut sink).unwrap(),
        Reading::Session { open, .. } => {
            let mut session = open();
            text.lines().for_each(|line| session.value(line.as_bytes()).unwrap());
            session.finish(&mut sink);
        }
        _ => panic!("{format}"),
    }
    let t = sink.trajectories.remove(0);
    let line =
        |s: &crate::trajectory::Step| format!("{} {} {} {}", s.turn, s.role.name(), s.kind.name(), s.text);
    let outline = t.steps.iter().map(line).collect();
    (t, outline, sink.losses.0.keys().cloned().collect())
}

#[test]
fn chats_in_one_file_are_runs_of_their_own() {
    let two = [CHAT, &CHAT.replace("\"s1\"", "\"s2\"")].join("\n");
    let (runs, _) = crate::logs::formats::reading::testing::read("vscode-chat", &[two]);
    let names: Vec<_> = runs.iter().map(|run| (run.task_id.as_deref().unwrap(), run.steps.len())).collect();
    assert_eq!(names, [("s1", 13), ("s2", 13)]);
}

#[test]
fn a_chat_is_what_the_model_was_sent() {
    let (t, lines, losses) = outline("vscode-chat", CHAT);
    assert_eq!(lines[..12], OUTLINE);
    assert_eq!(lines[12], "3 agent action copilot_readFile\nReading b.rs");
    assert_eq!(lines.len(), 13);
    let usage: Vec<Option<u64>> = t.steps.iter().map(|s| s.usage.as_ref().map(|u| u.input)).collect();
    assert_eq!(usage[8], Some(500));
    let about = [&t.task_id, &t.repository, &t.model].map(|text| text.as_deref().unwrap());
    assert_eq!(about, ["s1", "app", "g-1"]);
    for loss in ["request taken back left out", "result of a call that no round holds left out"] {
        assert!(losses.contains(&loss.to_owned()), "{losses:?}");
    }
}

/// A journal that ends in the chat is the chat.
#[test]
fn a_journal_is_played_again() {
    let chat: serde_json::Value = serde_json::from_str(CHAT).unwrap();
    let requests = chat["requests"].as_array().unwrap();
    let mut empty = chat.clone();
    empty["requests"] = serde_json::json!([]);
    empty["sessionId"] = "s0".into();
    let mut first = requests[0].clone();
    first["response"] = serde_json::json!([{"value": "partial"}, {"value": "gone"}]);
    first["message"]["text"] = "Fxi it.".into();
    first["extra"] = 1.into();
    let lines = [
        serde_json::json!({"kind": 0, "v": empty}),
        serde_json::json!({"kind": 2, "k": ["requests"], "v": [first]}),
        serde_json::json!({"kind": 2, "k": ["requests", 0, "response"], "v": requests[0]["response"], "i": 0}),
        serde_json::json!({"kind": 1, "k": ["requests", 0, "message", "text"], "v": "Fix it."}),
        serde_json::json!({"kind": 3, "k": ["requests", 0, "extra"]}),
        serde_json::json!({"kind": 1, "k": ["requests", 1], "v": requests[1]}),
        serde_json::json!({"kind": 2, "k": ["requests"], "v": [requests[0], requests[0]], "i": 2}),
        serde_json::json!({"kind": 2, "k": ["requests"], "v": [requests[2]], "i": 2}),
        serde_json::json!({"kind": 1, "k": ["sessionId"], "v": "s1"}),
    ];
    let journal: Vec<String> = lines.iter().map(ToString::to_string).collect();
    assert_eq!(outline("vscode-journal", &journal.join("\n")).0.id, outline("vscode-chat", CHAT).0.id);
    // The line that begins it costs itself alone.
    let (cut, ..) = outline("vscode-journal", &journal[1..].join("\n"));
    assert_eq!(cut.steps.len(), outline("vscode-chat", CHAT).0.steps.len());
    // Places that are not there cost the change alone.
    let odd = r#"{"kind":1,"k":["requests",18446744073709551615],"v":1}
{"kind":2,"k":["requests",0,"nothing","deeper"],"v":[1]}
{"kind":3,"k":[]}
{"kind":9,"k":["x"],"v":1}"#;
    let (t, _, losses) = outline("vscode-journal", &format!("{}\n{odd}", journal.join("\n")));
    assert_eq!(t.id, outline("vscode-chat", CHAT).0.id);
    assert!(losses.contains(&"change of a place that is not there left out".to_owned()));
}

#[test]
fn requests_before_a_cut_stay() {
    let cut = &CHAT[..CHAT.find("Stop?").unwrap()];
    assert_eq!(outline("vscode-chat", cut).1, OUTLINE[..9]);
}

/// A request that was cancelled may hold many replies; the tokens are those of the last one.
#[test]
fn what_was_shown_behind_a_call_is_another_reply() {
    let chat = r#"{"version":3,"sessionId":"s1","requests":[{"message":{"text":"Go."},"promptTokens":500,"response":[
        {"value":"I look."},{"kind":"toolInvocationSerialized","toolCallId":"u1","toolId":"a","invocationMessage":"x"},{"value":"\n"},
        {"kind":"toolInvocationSerialized","toolCallId":"u2","toolId":"b","invocationMessage":"y"},
        {"value":"So."},{"kind":"thinking","value":"hm"},{"kind":"toolInvocationSerialized","toolCallId":"u3","toolId":"c","invocationMessage":"z"},
        {"kind":"thinking","value":""},{"value":"Done."}]}]}"#;
    let (t, lines, _) = outline("vscode-chat", chat);
    assert_eq!(
        lines[1..],
        [
            "1 agent thought I look.",
            "1 agent action a\nx",
            "1 agent action b\ny",
            "2 agent thought hm",
            "2 agent thought So.",
            "2 agent action c\nz",
            "3 agent message Done.",
        ]
    );
    let usage: Vec<Option<u64>> = t.steps.iter().map(|s| s.usage.as_ref().map(|u| u.input)).collect();
    assert_eq!((usage[7], usage.iter().flatten().count()), (Some(500), 1));
}
