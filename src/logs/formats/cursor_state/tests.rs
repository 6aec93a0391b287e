//! Bubbles of Cursor's editor.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::spoken;

#[test]
fn bubbles_become_replies() {
    let run = r#"{"chats":[{"value":{"composerId":"c1","modelConfig":{"modelName":"g"},"fullConversationHeadersOnly":[
        {"bubbleId":"b1"},{"bubbleId":"b2"},{"bubbleId":"b3"},{"bubbleId":"b4"},{"bubbleId":"b5"}]}}],"bubbles":[
        {"id":"b5","value":{"type":2,"text":"Done."}},
        {"id":"b9","value":{"type":2,"text":"of another branch"}},
        {"id":"b1","value":{"type":1,"text":"Fix it."}},
        {"id":"b2","value":{"type":2,"text":"","thinking":{"text":"hm"},"tokenCount":{"inputTokens":0,"outputTokens":0}}},
        {"id":"b3","value":{"type":2,"text":"I look.","tokenCount":{"inputTokens":90,"outputTokens":4},"toolFormerData":{"toolCallId":"t1","name":"read","rawArgs":"{\"p\":\"a\"}","result":"line","status":"completed","modelCallId":"k"}}},
        {"id":"b4","value":{"type":2,"text":"","toolFormerData":{"toolCallId":"t2","name":"grep","rawArgs":"{\"p\":\"b\"}","result":"none","status":"error","modelCallId":"k"}}}]}"#;
    let source = Source::test("state.vscdb", "cursor-state");
    let mut sink = Sink::new(&source);
    read(run.as_bytes(), &mut sink).unwrap();
    let t = &sink.trajectories[0];
    let outline = spoken(t);
    assert_eq!(
        outline,
        [
            "0 user message Fix it.",
            "1 agent thought hm",
            "1 agent thought I look.",
            "1 agent action read\na",
            "1 agent action grep\nb",
            "1 tool observation line",
            "1 tool observation none",
            "2 agent message Done.",
        ]
    );
    assert_eq!(t.steps[1].usage.as_ref().map(|u| u.input), Some(90));
    assert_eq!(t.steps[6].is_error, Some(true));
    assert_eq!(sink.losses.0["message that the chat does not name left out"], 1);
}
