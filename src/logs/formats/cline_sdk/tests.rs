//! Sessions of the Cline SDK, with and without their compactions.

use crate::logs::formats::reading::testing::resized;
use crate::logs::formats::{File, Reading, Sink, Source, find};
use crate::trajectory::Trajectory;

const MESSAGES: &str = r#"{"version":1,"agent":"lead","sessionId":"s1","system_prompt":"You help.","messages":[
{"id":"m1","role":"user","ts":1700000000000,"content":[{"type":"text","text":"Fix it."},{"type":"file","path":"/w/a","content":"line"}]},
{"id":"m2","role":"assistant","ts":1700000001000,"modelInfo":{"id":"g"},"metrics":{"inputTokens":100,"outputTokens":7,"cacheReadTokens":90,"cacheWriteTokens":0},"content":[{"type":"thinking","thinking":"hm"},{"type":"tool_use","id":"c1","name":"run","input":{"c":"ls"}}]},
{"id":"m3","role":"user","ts":1700000002000,"content":[{"type":"tool_result","tool_use_id":"c1","name":"run","content":[{"query":"ls","result":"a","success":true}]}]},
{"id":"m4","role":"assistant","ts":1700000003000,"modelInfo":{"id":"g"},"metrics":{"inputTokens":3,"cacheReadTokens":90,"cacheWriteTokens":7},"content":[{"type":"text","text":"Done."}]},
{"id":"m5","role":"user","ts":1700000009000,"content":"More."}]}"#;

const COMPACTED: &str = r#"{"version":1,"agent":"lead","sessionId":"s1","system_prompt":"You help.","messages":[
{"id":"m1","role":"user","ts":1700000000000,"content":[{"type":"text","text":"Fix it."},{"type":"text","text":"<SYSTEM_NOTICE>\nEarlier context was compacted.\n</SYSTEM_NOTICE>"}],"metadata":{"kind":"compaction","messagesRemoved":2,"tokensBefore":900}},
{"id":"m4","role":"assistant","ts":1700000003000,"content":[{"type":"text","text":"Done."}],"metadata":{"compaction":"preserved"}},
{"id":"m5","role":"user","ts":1700000009000,"content":"More."}]}"#;

const SESSION: &str =
    r#"{"version":1,"session_id":"s1","cwd":"/w/app","metadata":{"fork":{"forkedFromSessionId":"s0"}}}"#;

fn read(files: &[&str]) -> (Trajectory, Vec<String>, Vec<String>) {
    let Reading::Files { read, .. } = find("cline-sdk").unwrap().reading else { panic!() };
    let file = |text: &&str| File { name: "s1.messages.json".to_owned(), bytes: text.as_bytes().to_vec() };
    let source = Source::test("s1.messages.json", "cline-sdk");
    let mut sink = Sink::new(&source);
    read(&files.iter().map(file).collect::<Vec<_>>(), &mut sink);
    let rejects: Vec<String> = sink.rejects.iter().map(|(_, reason)| reason.clone()).collect();
    let t = sink.trajectories.remove(0);
    let line = |s: &crate::trajectory::Step| {
        let kept = s.kept_to.map_or(String::new(), |to| format!(" kept to {to}"));
        format!("{} {} {} {}{kept}", s.turn, s.role.name(), s.kind.name(), s.text)
    };
    let outline = t.steps.iter().map(line).collect();
    (t, outline, rejects)
}

/// What belongs together stays together in one file, and what is another session is another run.
#[test]
fn sessions_in_one_file_are_runs_of_their_own() {
    let Reading::Files { read: read_files, .. } = find("cline-sdk").unwrap().reading else { panic!() };
    let other = MESSAGES.replace("\"s1\"", "\"s2\"");
    let file =
        File { name: "all.json".to_owned(), bytes: [MESSAGES, &other, COMPACTED].join("\n").into_bytes() };
    let source = Source::test("all.json", "cline-sdk");
    let mut sink = Sink::new(&source);
    read_files(&[file], &mut sink);
    let names: Vec<_> =
        sink.trajectories.iter().map(|t| (t.task_id.as_deref().unwrap(), t.steps.len())).collect();
    let alone = |files: &[&str]| read(files).0.steps.len();
    assert_eq!(names, [("s1", alone(&[MESSAGES, COMPACTED])), ("s2", alone(&[MESSAGES]))]);
    assert!(sink.rejects.is_empty());
}

const NOTICE: &str = "<SYSTEM_NOTICE>\nEarlier context was compacted.\n</SYSTEM_NOTICE>";

#[test]
fn what_stands_in_both_files_counts_once() {
    let (t, outline, _) = read(&[MESSAGES, COMPACTED, SESSION]);
    assert_eq!(
        outline,
        [
            "0 system system You help.",
            "0 system message /w/a\nline",
            "0 user message Fix it.",
            "1 agent thought hm",
            "1 agent action run\nls",
            r#"1 tool observation [{"query":"ls","result":"a","success":true}]"#,
            "2 agent message Done. kept to 1",
            &format!("3 user compaction {NOTICE}"),
            "3 user message More.",
        ]
    );
    let usage: Vec<u64> = t.steps.iter().filter_map(|s| s.usage.as_ref().map(|u| u.input)).collect();
    assert_eq!(usage, [100, 100]);
    assert_eq!(resized(&t), [(7, Some(900), None)]);
    let about = [&t.task_id, &t.repository, &t.model].map(|text| text.as_deref().unwrap());
    assert_eq!(about, ["s1", "app", "g"]);
    assert!(!read(&[MESSAGES]).1.iter().any(|line| line.contains("compaction")));
}

/// Without a time of its own it was compacted when its context was logged, if nothing was said behind it.
#[test]
fn the_last_act_has_the_time_of_its_file() {
    let updated = r#"{"version":1,"updated_at":"2026-01-01T00:00:00Z","#;
    let compacted = COMPACTED.replacen(r#"{"version":1,"#, updated, 1);
    let (behind, _, _) = read(&[MESSAGES, &compacted, SESSION]);
    assert_eq!(behind.steps[7].time, Some(1_700_000_003_000_000), "a message came behind it");
    let last = |text: &str| {
        text.replacen(r#"{"id":"m5","role":"user","ts":1700000009000,"content":"More."}"#, "", 1)
            .replace("},\n]", "}]")
    };
    let (end, outline, _) = read(&[&last(MESSAGES), &last(&compacted), SESSION]);
    assert!(outline.last().unwrap().contains("compaction"), "{outline:?}");
    assert_eq!(end.steps.last().unwrap().time, Some(1_767_225_600_000_000));
}

#[test]
fn a_compacted_context_alone_is_a_run() {
    let (t, outline, _) = read(&[COMPACTED]);
    assert_eq!(resized(&t), [(2, Some(900), None)]);
    assert_eq!(
        outline,
        [
            "0 system system You help.",
            "0 user message Fix it.",
            &format!("1 user compaction {NOTICE}"),
            "1 agent message Done.",
            "2 user message More.",
        ]
    );
}

#[test]
fn messages_before_a_cut_stay() {
    let (_, outline, rejects) = read(&[&MESSAGES[..MESSAGES.find("Done.").unwrap()]]);
    assert_eq!(outline.len(), 6, "{outline:?}");
    assert!(rejects[0].contains("cut off"), "{rejects:?}");
}

#[test]
fn files_of_one_session_are_found() {
    let Reading::Files { together, .. } = find("cline-sdk").unwrap().reading else { panic!() };
    let names = ["a/basic.compaction.json", "a/s.json", "a/s.messages.json", "a/x.json"];
    assert_eq!(together(&names), [vec![2, 0, 1]]);
    let two = ["p.messages.json", "q.compaction.json", "q.messages.json", "r.compaction.json"];
    assert_eq!(together(&two), [vec![0], vec![2, 1]]);
}
