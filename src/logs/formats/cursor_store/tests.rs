//! A chat as blobs that name each other.

use super::*;
use crate::logs::formats::Source;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

/// A field of protobuf with bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

#[test]
fn the_newest_root_names_the_messages() {
    let id = |n: u8| [n; 32];
    let messages = [
        (1, r#"{"role":"system","content":"You help."}"#),
        (2, r#"{"role":"user","content":[{"type":"text","text":"<user_query>\nFix it.\n</user_query>"}]}"#),
        (
            3,
            r#"{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"tool-call","toolCallId":"c1","toolName":"Read","args":{"path":"a"}}]}"#,
        ),
        (
            4,
            r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","toolName":"Read","result":"line"}]}"#,
        ),
        (5, r#"{"role":"user","content":"left behind"}"#),
    ];
    // The root names itself, too: no circle.
    let branch = [field(1, &id(3)), field(1, &id(4)), vec![3 << 3, 200, 1]].concat();
    let root = [field(1, &id(1)), field(1, &id(2)), field(2, &id(9)), field(1, &id(8))].concat();
    let mut blobs = vec![(hex(&id(9)), hex(&branch)), (hex(&id(8)), hex(&root))];
    blobs.extend(messages.iter().rev().map(|(n, json)| (hex(&id(*n)), hex(json.as_bytes()))));
    let blobs: Vec<serde_json::Value> = blobs
        .into_iter()
        .map(|(id, data)| serde_json::json!({"id": id.to_lowercase(), "data": data}))
        .collect();
    let meta = serde_json::json!({"agentId": "a1", "latestRootBlobId": hex(&id(8)), "lastUsedModel": "g"});
    let read_all = |meta: &str| {
        let run = serde_json::json!({"meta": [{"key": "0", "value": hex(meta.as_bytes())}], "blobs": blobs});
        let source = Source::test("store.db", "cursor-store");
        let mut sink = Sink::new(&source);
        read(run.to_string().as_bytes(), &mut sink).unwrap();
        let t = sink.trajectories.remove(0);
        let line = |s: &crate::trajectory::Step| {
            format!("{} {} {} {}", s.turn, s.role.name(), s.kind.name(), s.text)
        };
        (t.steps.iter().map(line).collect::<Vec<_>>(), t.task_id, sink.losses)
    };
    let (outline, task, losses) = read_all(&meta.to_string());
    assert_eq!(
        outline,
        [
            "0 system system You help.",
            "0 user message Fix it.",
            "1 agent thought hm",
            "1 agent action Read\na",
            "1 tool observation line",
        ]
    );
    assert_eq!(task.as_deref(), Some("a1"));
    assert_eq!(losses.0["message that the newest state does not name left out"], 1);
    let (outline, _, losses) = read_all("{}");
    assert_eq!(outline.len(), 6);
    assert_eq!(losses.0["message of a chat without a root, in the order of the table"], 5);
}
