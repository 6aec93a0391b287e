//! Transcripts of Cursor.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::spoken;

#[test]
fn a_transcript_without_results() {
    let source = Source::test("p/agent-transcripts/a1/subagents/b2.jsonl", "cursor");
    let mut sink = Sink::new(&source);
    let mut transcript = Box::<Transcript>::default();
    for line in [
        r#"{"role":"user","message":{"content":[{"type":"text","text":"<open_files>a</open_files>\n<user_query>\nFix it.\n</user_query>"}]}}"#,
        r#"{"role":"assistant","message":{"content":[{"type":"text","text":"I look.\n\n[REDACTED]"},{"type":"tool_use","name":"Read","input":{"path":"a"}},{"type":"tool_use","name":"Grep","input":{"pattern":"x"}}]}}"#,
        r#"{"role":"assistant","message":{"content":[{"type":"text","text":"[REDACTED]"},{"type":"tool_use","name":"Write","input":{"path":"b"}}]}}"#,
        r#"{"role":"assistant","message":{"content":[{"type":"text","text":"Done."}]}}"#,
    ] {
        transcript.value(line.as_bytes()).unwrap();
    }
    transcript.finish(&mut sink);
    let t = &sink.trajectories[0];
    let outline = spoken(t);
    assert_eq!(
        outline,
        [
            "0 system message <open_files>a</open_files>",
            "0 user message Fix it.",
            "1 agent thought I look.",
            "1 agent action Read\na",
            "1 agent action Grep\nx",
            "2 agent action Write\nb",
            "3 agent message Done.",
        ]
    );
    assert_eq!((t.task_id.as_deref(), t.parent.as_deref()), (Some("b2"), Some("a1")));
    assert_eq!(sink.losses.0["redacted thinking left out"], 2);
    assert_eq!(sink.losses.0["call without a result"], 3);
}
