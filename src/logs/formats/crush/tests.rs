//! Sessions of Crush.

use crate::logs::formats::reading::testing::spoken;
use crate::logs::formats::{Sink, Source};

const RUN: &str = r#"{"sessions":[{"id":"s1","parent_session_id":"s0","summary_message_id":"m5"}],"messages":[
{"id":"m1","role":"user","created_at":1700000000,"parts":[{"type":"text","data":{"text":"Fix it."}},{"type":"binary","data":{"Path":"a.png","MIMEType":"image/png","Data":"AAAABBBB"}},{"type":"finish","data":{"reason":"stop"}}]},
{"id":"m2","role":"assistant","model":"g","created_at":1700000001,"parts":[{"type":"reasoning","data":{"thinking":"hm","signature":"s"}},{"type":"tool_call","data":{"id":"c1","name":"ls","input":"{\"path\":\"/w\"}","finished":true}},{"type":"finish","data":{"reason":"tool_use"}}]},
{"id":"m3","role":"tool","created_at":1700000002,"parts":[{"type":"tool_result","data":{"tool_call_id":"c1","name":"","content":"no","metadata":"{}","is_error":true}}]},
{"id":"m4","role":"assistant","model":"g","created_at":1700000003,"parts":[{"type":"finish","data":{"reason":"error","message":"API Error"}}]},
{"id":"m5","role":"assistant","model":"g","created_at":1700000004,"parts":[{"type":"text","data":{"text":"The summary."}}]},
{"id":"m6","role":"user","created_at":1700000005,"parts":[{"type":"text","data":{"text":"More."}},{"type":"shell_command","data":{"command":"ls"}}]}]}"#;

#[test]
fn a_session_with_a_summary() {
    let source = Source::test("crush.db", "crush");
    let mut sink = Sink::new(&source);
    super::read("crush", RUN.as_bytes(), &mut sink).unwrap();
    let t = &sink.trajectories[0];
    let outline = spoken(t);
    assert_eq!(
        outline,
        [
            "0 user message Fix it.\n[image image/png 6 bytes]",
            "1 agent thought hm",
            "1 agent action ls\n/w",
            "1 tool observation no",
            "2 user compaction The summary.",
            "2 system message [shell_command] command: ls",
            "2 user message More.",
        ]
    );
    assert_eq!(t.steps[3].is_error, Some(true));
    let about = [&t.task_id, &t.parent, &t.model, &t.agent].map(|text| text.as_deref().unwrap());
    assert_eq!(about, ["s1", "s0", "g", "crush"]);
    assert_eq!(sink.losses.0["error of the provider left out"], 1);
    assert_eq!(sink.losses.0["reply without anything to read left out"], 1);
}
