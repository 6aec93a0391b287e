//! Compactions, and what they keep.

use super::*;
use crate::logs::formats::reading::testing::{cut, resized};

#[test]
fn a_session_with_a_compaction() {
    let (t, losses) = run(&[
        r#"{"type":"summary","summary":"x","leafUuid":"y"}"#,
        r#"{"type":"user","uuid":"1","sessionId":"s1","cwd":"/home/u/proj","timestamp":"1970-01-01T00:00:01Z","message":{"role":"user","content":"Fix it."}}"#,
        r#"{"type":"assistant","uuid":"2","message":{"id":"m1","model":"c","content":[{"type":"thinking","thinking":"hm"}]}}"#,
        r#"{"type":"assistant","uuid":"3","message":{"id":"m1","model":"c","content":[{"type":"text","text":"Reading."}]}}"#,
        r#"{"type":"assistant","uuid":"4","message":{"id":"m1","model":"c","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"a.py"}}]}}"#,
        r#"{"type":"progress","uuid":"p","data":{"type":"bash_progress"}}"#,
        r#"{"type":"user","uuid":"5","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x = 1"}]},"toolUseResult":{"file":"x = 1"}}"#,
        r#"{"type":"user","uuid":"5","message":{"content":"again"}}"#,
        r#"{"type":"assistant","uuid":"6","message":{"id":"m2","model":"c","content":[{"type":"text","text":"Done."}]}}"#,
        r#"{"type":"system","subtype":"compact_boundary","uuid":"7","compactMetadata":{"trigger":"auto","preTokens":9,"postTokens":4}}"#,
        r#"{"type":"user","uuid":"8","isCompactSummary":true,"message":{"content":"So far: fixed."}}"#,
        r#"{"type":"user","uuid":"9","isMeta":true,"message":{"content":"caveat"}}"#,
        r#"{"type":"assistant","uuid":"10","isSidechain":true,"message":{"id":"z","content":[]}}"#,
        r#"{"type":"assistant","uuid":"11","message":{"id":"m3","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]}}"#,
        r#"{"type":"assistant","uuid":"12","message":{"id":"m4","model":"c","content":[{"type":"text","text":"Next."}]}}"#,
    ]);
    let outline = cut(&t);
    assert_eq!(
        outline,
        [
            "0 0 message Fix it.",
            "0 1 thought hm",
            "0 1 thought Reading.",
            "0 1 action Read\na.py",
            "0 1 observation x = 1",
            "0 2 message Done.",
            "1 3 compaction So far: fixed.",
            "1 3 message caveat",
            "1 3 message Next."
        ]
    );
    assert_eq!(resized(&t), [(6, Some(9), Some(4))]);
    assert_eq!((t.task_id.as_deref(), t.repository.as_deref()), (Some("s1"), Some("proj")));
    assert_eq!(t.steps[0].time, Some(1_000_000));
    for what in [
        "progress line left out",
        "line with a repeated uuid left out",
        "message not of the model left out",
        "summary line left out",
    ] {
        assert_eq!(losses.0[what], 1, "{what}");
    }
}

#[test]
fn a_summary_line_right_after_the_boundary_is_its_summary() {
    let (t, losses) = run(&[
        r#"{"type":"user","message":{"content":"T"}}"#,
        r#"{"type":"system","subtype":"compact_boundary"}"#,
        r#"{"type":"summary","summary":"so far"}"#,
        r#"{"type":"user","message":{"content":"U"}}"#,
    ]);
    assert_eq!(t.steps[1].text, "so far");
    assert_eq!(losses.0.len(), 0);
}

#[test]
fn the_text_of_a_continuation_is_a_summary_without_its_mark() {
    let text = "This session is being continued from a previous conversation that ran out of context. Never touch a.py.";
    let begun = [user("1", "", text), reply("2", "1", "m1", &say("a")), user("3", "2", "take 9")];
    let (t, losses) = run(&begun);
    let summary = format!("1 1 user compaction {text}");
    assert_eq!(outline(&t), [&summary, "1 1 agent message a", "1 2 user message take 9"]);
    assert_eq!((t.goal.as_deref(), losses), (Some("take 9"), Losses::default()));
    // Behind a boundary it is the summary of that. A user who quotes it says it.
    let boundary = line("system", "4", "", r#""subtype":"compact_boundary""#);
    let (t, losses) = run(&[user("3", "", "T"), boundary, user("5", "4", text)]);
    assert_eq!(outline(&t), ["0 0 user message T", &summary]);
    assert_eq!(losses, Losses::default());
    let (t, _) = run(&[user("1", "", &format!("What is this: {text}"))]);
    assert_eq!(t.steps[0].kind, crate::trajectory::Kind::Message);
}

#[test]
fn a_boundary_without_a_summary_opens_a_segment() {
    let (t, losses) = run(&[
        r#"{"type":"user","message":{"content":"T"}}"#,
        r#"{"type":"system","subtype":"compact_boundary"}"#,
        r#"{"type":"user","message":{"content":"U"}}"#,
    ]);
    assert_eq!(t.steps.iter().map(|s| s.segment).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(losses.0["compaction without its summary"], 1);
}

#[test]
fn a_cleared_context_sees_nothing_but_the_head() {
    let hook = line("progress", "4", "", r#""data":{"type":"hook_progress"}"#);
    let (t, losses) = run(&[
        user("1", "", "T"),
        reply("2", "1", "m1", &call("t1")),
        result("3", "2", "t1", "a"),
        hook,
        user("5", "4", "U"),
        reply("6", "5", "m2", &say("b")),
    ]);
    assert_eq!(
        outline(&t),
        [
            "0 0 user message T",
            "0 1 agent action F",
            "0 1 tool observation a",
            "1 2 user compaction ",
            "1 2 user message U",
            "1 2 agent message b"
        ]
    );
    assert_eq!(losses.0["context cleared by the user"], 1);
}

#[test]
fn what_a_compaction_preserves_is_kept_with_its_pair() {
    let compaction = |uuid: &str, kept: &str| {
        [
            line(
                "system",
                uuid,
                "",
                &format!(r#""subtype":"compact_boundary","compactMetadata":{{{kept}}}"#),
            ),
            line(
                "user",
                &format!("{uuid}s"),
                uuid,
                r#""isCompactSummary":true,"message":{"content":"so far"}"#,
            ),
        ]
    };
    let log = |first: &str, second: &str| {
        let mut lines = vec![
            user("1", "", "T"),
            reply("2", "1", "m1", &say("a")),
            user("3", "2", "U"),
            reply("4", "3", "m2", &say("b")),
            reply("5", "4", "m2", &call("t1")),
            result("6", "5", "t1", "c"),
        ];
        lines.extend(compaction("7", first));
        lines.push(reply("8", "6", "m3", &say("d")));
        lines.extend(compaction("9", second));
        let (t, losses) = run(&lines);
        (t.steps.iter().map(|s| s.kept_to).collect::<Vec<_>>(), losses)
    };
    // The steps are T, a, U, b, the call, c, the summary, d, the summary.
    let (none, one, two) = (None, Some(1), Some(2));
    let named = r#""preservedMessages":{"anchorUuid":"7s","uuids":["6"]}"#;
    let (kept, losses) = log(named, "");
    assert_eq!(kept, [none, none, none, one, one, one, none, none, none]);
    assert_eq!(losses, Losses::default());
    let further = r#""preservedSegment":{"headUuid":"5","anchorUuid":"9s","tailUuid":"8"}"#;
    assert_eq!(log(named, further).0, [none, none, none, two, two, two, none, two, none]);
    let segment = r#""preservedSegment":{"headUuid":"3","anchorUuid":"7s","tailUuid":"4"}"#;
    assert_eq!(log(segment, "").0, [none, none, one, one, one, one, none, none, none]);
    // The head stands in every prompt anyway; what is not in the file is told.
    let (kept, losses) = log(r#""preservedMessages":{"uuids":["1","gone"]}"#, "");
    assert!(kept.iter().all(Option::is_none));
    assert_eq!(losses.0["kept message that is not in the log"], 1);
}

#[test]
fn a_microcompaction_is_an_edit_from_the_next_decision_on() {
    let micro = |tools: &str, attachments: &str| {
        format!(
            r#""subtype":"microcompact_boundary","microcompactMetadata":{{"preTokens":90,"tokensSaved":20,"compactedToolIds":[{tools}],"clearedAttachmentUUIDs":[{attachments}]}}"#
        )
    };
    let (t, losses) = run(&[
        user("1", "", "T"),
        line("attachment", "2", "1", r#""attachment":{"type":"file"},"rendered":[{"content":"f"}]"#),
        reply("3", "2", "m1", &call("t1")),
        result("4", "3", "t1", "a"),
        reply("5", "4", "m2", &call("t2")),
        result("6", "5", "t2", "b"),
        line("system", "7", "6", &micro(r#""t1","gone""#, r#""2","gone""#)),
        reply("8", "7", "m3", &say("Done.")),
        line("system", "9", "8", &micro("", "")),
    ]);
    let edits: Vec<Option<LoggedEdit>> = t.steps.iter().map(|s| s.edit.as_deref().cloned()).collect();
    let cleared = LoggedEdit { from: 3, text: "[Old tool result content cleared]".to_owned() };
    let gone = LoggedEdit { from: 3, text: String::new() };
    assert_eq!(edits, [None, Some(gone), None, Some(cleared), None, None, None]);
    assert_eq!(resized(&t), [(1, Some(90), Some(70)), (3, Some(90), Some(70))]);
    assert!(t.policy.is_some());
    assert_eq!(losses.0["cleared message that is not in the log"], 2);
    assert_eq!(losses.0["what went is not told: microcompaction"], 1);
}

#[test]
fn a_reply_that_is_logged_again_behind_a_compaction_is_kept() {
    let (said, called) = (say("I look."), call("t1"));
    let lines = |again: &[String]| {
        let mut lines = vec![
            user("1", "", "T"),
            reply("2", "1", "m1", &said),
            reply("3", "2", "m1", &called),
            result("4", "3", "t1", "a"),
            line("system", "5", "", r#""subtype":"compact_boundary""#),
            line("user", "6", "5", r#""isCompactSummary":true,"message":{"content":"so far"}"#),
        ];
        lines.extend_from_slice(again);
        lines.push(reply("10", "9", "m2", &say("Done.")));
        run(&lines)
    };
    let again = [reply("7", "6", "m1", &said), reply("8", "7", "m1", &called), result("9", "8", "t1", "a")];
    let (t, losses) = lines(&again);
    assert_eq!(
        outline(&t),
        [
            "0 0 user message T",
            "0 1 agent thought I look.",
            "0 1 agent action F",
            "0 1 tool observation a",
            "1 2 user compaction so far",
            "1 2 agent message Done."
        ]
    );
    let kept: Vec<Option<u32>> = t.steps.iter().map(|s| s.kept_to).collect();
    assert_eq!(kept, [None, Some(1), Some(1), Some(1), None, None]);
    assert_eq!(losses.0["reply that is logged again behind a compaction merged"], 2);
    // Another text under its id is another reply.
    let (t, losses) = lines(&[reply("7", "6", "m1", &say("Else."))]);
    assert_eq!((t.steps.len(), losses.0["reply with the id of another one"]), (7, 1));
}
