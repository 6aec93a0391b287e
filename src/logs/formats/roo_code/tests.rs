//! Tasks of Roo Code and Cline: several files are one run.

use crate::logs::formats::reading::testing::resized;
use crate::logs::formats::{File, Reading, Sink, Source, find};

const MESSAGES: &str = r#"[
{"role":"user","ts":1700000000000,"content":[{"type":"text","text":"<task>\nFix it.\n</task>"},{"type":"text","text":"<environment_details>\n<model>m-1</model>\n# Current Workspace Directory (d:/dev/app) Files\na\n</environment_details>"}]},
{"role":"assistant","ts":1700000010000,"content":[{"type":"text","text":"I look.\n<read_file>\n<path>a</path>\n</read_file>"}]},
{"role":"user","ts":1700000011000,"content":[{"type":"text","text":"[read_file for 'a'] Result:"},{"type":"text","text":"line 1\nline 2"},{"type":"text","text":"<environment_details>\nb</environment_details>"}]},
{"role":"assistant","ts":1700000020000,"content":"<ask_followup_question><question>Which?</question></ask_followup_question>"},
{"role":"user","ts":1700000021000,"content":[{"type":"text","text":"[ask_followup_question for 'Which?'] Result:"},{"type":"text","text":"<answer>\nThe first\n</answer>"},{"type":"text","text":"New instructions for task continuation:\n<user_message>\nHurry\n</user_message>"}]},
{"role":"user","ts":1700000022000,"isSummary":true,"condenseId":"x","content":"The summary."},
{"role":"assistant","ts":1700000030000,"content":[{"type":"tool_use","id":"t1","name":"execute_command","input":{"command":"ls"}}]},
{"role":"user","ts":1700000031000,"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"},{"type":"text","text":"[ERROR] You did not use a tool"}]}]"#;

const SHOWN: &str = r#"[
{"ts":1700000000001,"type":"say","say":"text","text":"Fix it."},
{"ts":1700000001000,"type":"say","say":"api_req_started","text":"{\"tokensIn\":1,\"tokensOut\":0,\"cacheWrites\":0,\"cacheReads\":0,\"cancelReason\":\"x\"}"},
{"ts":1700000002000,"type":"say","say":"api_req_started","text":"{\"request\":\"r\",\"apiProtocol\":\"anthropic\",\"tokensIn\":10,\"tokensOut\":7,\"cacheWrites\":100,\"cacheReads\":3}"},
{"ts":1700000003000,"type":"say","say":"reasoning","text":"hm"},
{"ts":1700000004000,"type":"ask","ask":"tool","text":"{\"tool\":\"readFile\",\"path\":\"a\"}"},
{"ts":1700000012000,"type":"say","say":"api_req_started","text":"{\"apiProtocol\":\"openai\",\"tokensIn\":500,\"tokensOut\":9,\"cacheWrites\":0,\"cacheReads\":400}"},
{"ts":1700000013000,"type":"ask","ask":"command","text":"ls"},
{"ts":1700000014000,"type":"say","say":"command_output","text":"a b"},
{"ts":1700000015000,"type":"say","say":"user_feedback","text":"Hurry"},
{"ts":1700000016000,"type":"say","say":"checkpoint_saved","text":"abc"}]"#;

const METADATA: &str = r#"{"workspace":"/w/other","files_in_context":[]}"#;

fn read(files: &[(&str, &str)]) -> (crate::trajectory::Trajectory, Vec<String>, Vec<String>) {
    let Reading::Files { read, .. } = find("roo-code").unwrap().reading else { panic!() };
    let files: Vec<File> = files
        .iter()
        .map(|(name, text)| File { name: (*name).to_owned(), bytes: text.as_bytes().to_vec() })
        .collect();
    let source = Source::test(&files[0].name, "roo-code");
    let mut sink = Sink::new(&source);
    read(&files, &mut sink);
    let rejects: Vec<String> = sink.rejects.iter().map(|(_, reason)| reason.clone()).collect();
    let losses = sink.losses.0.keys().cloned().chain(rejects).collect();
    let t = sink.trajectories.remove(0);
    let line =
        |s: &crate::trajectory::Step| format!("{} {} {} {}", s.turn, s.role.name(), s.kind.name(), s.text);
    let outline = t.steps.iter().map(line).collect();
    (t, outline, losses)
}

#[test]
fn the_messages_with_what_the_user_was_shown() {
    let (t, outline, losses) = read(&[
        ("t/abc/api_conversation_history.json", MESSAGES),
        ("t/abc/ui_messages.json", SHOWN),
        ("t/abc/task_metadata.json", METADATA),
    ]);
    assert_eq!(
        outline,
        [
            "0 user message <task>\nFix it.\n</task>",
            "0 system message <environment_details>\n<model>m-1</model>\n# Current Workspace Directory (d:/dev/app) Files\na\n</environment_details>",
            "1 agent thought hm",
            "1 agent thought I look.",
            "1 agent action read_file\na",
            "1 tool observation line 1\nline 2",
            "1 system message <environment_details>\nb</environment_details>",
            "2 agent action ask_followup_question\nWhich?",
            "2 user observation <answer>\nThe first\n</answer>",
            "3 user message New instructions for task continuation:\n<user_message>\nHurry\n</user_message>",
            "4 user compaction The summary.",
            "4 agent action execute_command\nls",
            "4 tool observation ok",
            "4 system message [ERROR] You did not use a tool",
        ]
    );
    let inputs: Vec<Option<u64>> = t.steps.iter().map(|s| s.usage.as_ref().map(|u| u.input)).collect();
    assert_eq!(inputs.iter().flatten().copied().collect::<Vec<_>>(), [113, 500]);
    assert_eq!((inputs[2], inputs[7]), (Some(113), Some(500)));
    let about = [&t.task_id, &t.repository, &t.model, &t.agent].map(|text| text.as_deref().unwrap());
    assert_eq!(about, ["abc", "other", "m-1", "roo-code"]);
    assert_eq!(t.goal.as_deref(), Some("Fix it."));
    assert_eq!(
        losses,
        ["call of the model that was tried again", "usage of a call without a reply left out"]
    );
}

#[test]
fn what_the_user_was_shown_alone() {
    let (t, outline, losses) = read(&[("t/abc/ui_messages.json", SHOWN)]);
    assert_eq!(
        outline,
        [
            "0 user message Fix it.",
            "2 agent thought hm",
            "2 agent action readFile\na",
            "3 agent action ls",
            "3 tool observation a b",
            "4 user message Hurry",
        ]
    );
    assert_eq!(t.steps[1].usage.as_ref().map(|u| u.input), Some(113));
    assert!(losses.contains(&"what the user was shown left out: checkpoint_saved".to_owned()), "{losses:?}");
}

/// Cline's messages have no times; which message was the newest is noted beside each request.
#[test]
fn usage_is_told_by_the_place_where_messages_have_no_time() {
    let messages = r#"[{"role":"user","content":"Fix it."},{"role":"assistant","content":"One."},
{"role":"user","content":"Go on."},{"role":"assistant","content":"Two."}]"#;
    let shown = |at: i64, n: u32| {
        format!(
            r#"{{"ts":{n},"type":"say","say":"api_req_started","text":"{{\"tokensIn\":{n}}}","conversationHistoryIndex":{at}}}"#
        )
    };
    let shown = format!("[{},{},{}]", shown(-1, 5), shown(1, 6), shown(1, 7));
    let (t, _, losses) =
        read(&[("abc/api_conversation_history.json", messages), ("abc/ui_messages.json", &shown)]);
    let inputs: Vec<_> = t.steps.iter().map(|s| s.usage.as_ref().map(|usage| usage.input)).collect();
    assert_eq!(inputs, [None, Some(5), None, Some(7)]);
    assert_eq!(
        losses,
        ["call of the model that was tried again", "usage of a call without a reply left out"]
    );
}

/// Newer versions of Cline call the first words of the user a task; of tools that look for something they show what was found.
#[test]
fn the_task_a_plan_and_what_was_found_are_read_from_what_was_shown() {
    let shown = r#"[{"ts":1,"type":"say","say":"task","text":"Fix it."},
{"ts":2,"type":"say","say":"api_req_started","text":"{\"tokensIn\":5}"},
{"ts":3,"type":"say","say":"tool","text":"{\"tool\":\"searchFiles\",\"regex\":\"fn\",\"content\":\"a.rs: fn a\"}"},
{"ts":4,"type":"say","say":"api_req_started","text":"{\"tokensIn\":7}"},
{"ts":5,"type":"say","say":"tool","text":"{\"tool\":\"newFileCreated\",\"content\":\"fn b\"}"},
{"ts":6,"type":"say","say":"api_req_started","text":"{\"tokensIn\":9}"},
{"ts":7,"type":"ask","ask":"plan_mode_respond","text":"{\"response\":\"First a, then b.\",\"options\":[]}"}]"#;
    let (_, outline, losses) = read(&[("abc/ui_messages.json", shown)]);
    assert_eq!(
        outline,
        [
            "0 user message Fix it.",
            "1 agent action searchFiles\nfn",
            "1 tool observation a.rs: fn a",
            "2 agent action newFileCreated\nfn b",
            "3 agent message First a, then b.",
        ]
    );
    assert_eq!(losses, ["call without a result"]);
}

/// A summary is inserted before what it kept; when that was is shown to the user alone.
#[test]
fn what_a_compaction_kept_was_seen_before_it() {
    let message = |role: &str, n: u32, rest: &str| {
        format!(r#"{{"role":"{role}","ts":17000000{n}000,"content":"text {n}"{rest}}}"#)
    };
    let messages = [
        message("user", 10, ""),
        message("assistant", 11, r#","condenseParent":"x""#),
        message("user", 29, r#","isSummary":true,"condenseId":"x""#),
        message("user", 30, ""),
        message("assistant", 31, ""),
        message("user", 50, ""),
    ];
    let messages = format!("[{}]", messages.join(","));
    let shown = r#"[{"ts":1700000040000,"type":"say","say":"condense_context","contextCondense":{"summary":"s","condenseId":"x","cost":0.25,"prevContextTokens":900,"newContextTokens":60}}]"#;
    let (t, outline, _) =
        read(&[("abc/api_conversation_history.json", &messages), ("abc/ui_messages.json", shown)]);
    assert_eq!(
        outline,
        [
            "0 user message text 10",
            "1 agent message text 11",
            "2 user message text 30",
            "2 agent message text 31",
            "3 user compaction text 29",
            "3 user message text 50",
        ]
    );
    let kept: Vec<Option<u32>> = t.steps.iter().map(|s| s.kept_to).collect();
    assert_eq!(kept, [None, None, Some(1), Some(1), None, None]);
    assert_eq!(t.steps[4].usage.as_ref().and_then(|usage| usage.cost), Some(0.25));
    assert_eq!(resized(&t), [(4, Some(900), Some(60))]);
    // It was when the user was shown it; its mark has a time beside what it kept.
    assert_eq!(t.steps[4].time, Some(1_700_000_040_000_000));
    // Of two without a name the earlier one's mark is gone, with what it replaced.
    let messages = messages.replace(r#","condenseId":"x""#, "");
    let shown = |n: u32| {
        format!(
            r#"{{"ts":17000000{n}000,"type":"say","say":"condense_context","contextCondense":{{"summary":"s"}}}}"#
        )
    };
    let shown = format!("[{},{}]", shown(20), shown(40));
    let (_, of_two, losses) =
        read(&[("abc/api_conversation_history.json", &messages), ("abc/ui_messages.json", &shown)]);
    assert_eq!(of_two, outline);
    assert_eq!(losses, ["what went is not told: compaction"]);
    // Nobody says when: it stands where it is.
    let (t, alone, _) = read(&[("abc/api_conversation_history.json", &messages)]);
    assert_eq!(alone[2], "2 user compaction text 29");
    assert_eq!(t.steps[2].time, Some(1_700_000_029_000_000));
}

/// A message went with the mark that it names, if that is still there: a summary stays behind a truncation that does not name it.
#[test]
fn what_names_no_mark_stays() {
    let message = |role: &str, n: u32, rest: &str| {
        format!(r#"{{"role":"{role}","ts":17000000{n}000,"content":"text {n}"{rest}}}"#)
    };
    let messages = [
        message("user", 10, r#","condenseParent":"C""#),
        message("assistant", 11, r#","condenseParent":"C""#),
        message("user", 12, r#","isSummary":true,"condenseId":"C""#),
        message("assistant", 13, r#","truncationParent":"T""#),
        message("user", 14, ""),
        message("assistant", 15, r#","condenseParent":"gone""#),
        message("user", 16, r#","isTruncationMarker":true,"truncationId":"T""#),
        message("assistant", 17, ""),
    ];
    let (t, outline, _) =
        read(&[("abc/api_conversation_history.json", &format!("[{}]", messages.join(",")))]);
    let kept: Vec<(u32, Option<u32>)> = t.steps.iter().map(|s| (s.segment, s.kept_to)).collect();
    assert_eq!(
        kept,
        [(0, None), (0, None), (1, Some(2)), (1, None), (1, Some(2)), (1, Some(2)), (2, None), (2, None)],
        "{outline:?}"
    );
}

/// A file that was cut costs what is cut alone.
#[test]
fn messages_before_a_cut_stay() {
    let cut = &MESSAGES[..MESSAGES.find("New instructions").unwrap()];
    let (_, outline, losses) =
        read(&[("abc/api_conversation_history.json", cut), ("abc/task_metadata.json", "{\"wor")]);
    assert_eq!(outline.last().unwrap(), "2 agent action ask_followup_question\nWhich?");
    assert_eq!(
        losses.iter().filter(|loss| loss.contains("EOF") || loss.contains("cut")).count(),
        2,
        "{losses:?}"
    );
}

#[test]
fn files_of_a_folder_are_one_task() {
    let Reading::Files { together, .. } = find("roo-code").unwrap().reading else { panic!() };
    let names = [
        "a/api_conversation_history.json",
        "a/other.json",
        "a/ui_messages.json",
        "b/task_metadata.json",
        "b/ui_messages.json.zst",
    ];
    assert_eq!(together(&names), [vec![0, 2], vec![4, 3]]);
}

/// Cline sends a part of the messages no more, and notes which beside what it shows: the first two and what came later stay.
#[test]
fn what_cline_left_out_of_the_prompts_is_a_compaction() {
    let shown = |index: i32, range: &str, rest: &str| {
        let range = if range.is_empty() {
            String::new()
        } else {
            format!(r#","conversationHistoryDeletedRange":{range}"#)
        };
        format!(
            r#"{{"ts":17000000{:02}000,"type":"say","conversationHistoryIndex":{index}{range},{rest}}}"#,
            index + 10
        )
    };
    let call = |index, range| shown(index, range, r#""say":"api_req_started","text":"{}""#);
    let says = |index, range, text: &str| shown(index, range, &format!(r#""say":"text","text":"{text}""#));
    let list = [
        shown(-1, "", r#""say":"text","text":"Fix it.""#),
        call(-1, ""),
        says(0, "", "one"),
        call(1, ""),
        says(2, "", "two"),
        call(3, ""),
        says(4, "", "three"),
        // The call is told before its prompt is cut.
        call(5, ""),
        says(6, "[2,3]", "four"),
        call(7, "[2,3]"),
        says(8, "[2,5]", "five"),
    ];
    let list = format!("[{}]", list.join(","));
    let of = |t: &crate::trajectory::Trajectory| -> Vec<String> {
        let kept = |s: &crate::trajectory::Step| s.kept_to.map_or(String::new(), |to| format!(" to {to}"));
        let line = |s: &crate::trajectory::Step| format!("{} {}{}", s.segment, s.text, kept(s));
        t.steps.iter().map(line).collect()
    };
    let (t, _, losses) = read(&[("t/abc/ui_messages.json", &list)]);
    let alone = ["0 Fix it.", "0 one to 2", "0 two", "0 three to 1", "1 ", "1 four to 2", "2 ", "2 five"];
    assert_eq!((of(&t), losses), (alone.map(str::to_owned).to_vec(), Vec::new()));
    let said = ["one", "two", "three", "four", "five"];
    let messages: Vec<String> = said
        .iter()
        .enumerate()
        .map(|(i, said)| {
            let user = if i == 0 { "Fix it.".to_owned() } else { format!("[ERROR] {i}") };
            format!(r#"{{"role":"user","content":"{user}"}},{{"role":"assistant","content":"{said}"}}"#)
        })
        .collect();
    let messages = format!("[{}]", messages.join(","));
    let (t, ..) =
        read(&[("t/abc/api_conversation_history.json", &messages), ("t/abc/ui_messages.json", &list)]);
    assert_eq!(
        of(&t),
        [
            "0 Fix it.",
            "0 one to 2",
            "0 [ERROR] 1",
            "0 two",
            "0 [ERROR] 2 to 1",
            "0 three to 1",
            "1 ",
            "1 [ERROR] 3 to 2",
            "1 four to 2",
            "2 ",
            "2 [ERROR] 4",
            "2 five"
        ]
    );
}
