//! Sessions of pi of both versions, with compactions and branches.

use super::*;
use crate::logs::formats::reading::testing::{brief, outline, read, resized, told};

fn user(text: &str) -> String {
    format!(r#""type":"message","message":{{"role":"user","content":"{text}"}}"#)
}

fn done(text: &str) -> String {
    format!(
        r#""type":"message","message":{{"role":"assistant","model":"m","content":[{{"type":"text","text":"{text}"}}]}}"#
    )
}

const CALL: &str = r#""type":"message","message":{"role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm."},{"type":"toolCall","id":"c1","name":"ls","arguments":{"path":"."}}],"usage":{"input":3,"output":4,"cacheRead":40,"cacheWrite":7,"cost":{"input":0.1,"total":0.5}}}"#;
const RESULT: &str = r#""type":"message","message":{"role":"toolResult","toolCallId":"c1","toolName":"ls","content":[{"type":"text","text":"a.py"},{"type":"image","data":"AAAABBBB","mimeType":"image/png"}],"isError":false}"#;

#[test]
fn what_is_left_of_a_torn_message_begins_no_conversation() {
    let lines = [user("Q"), r#""type":"toolCall","id":"c9","name":"ls""#.to_owned(), done("A")];
    let (runs, losses) = read("pi", &lines.map(|line| format!("{{{line}}}")));
    assert_eq!(outline(&runs[0]).len(), 2);
    assert_eq!(told(&losses), ["1 block outside of a message left out"]);
}

/// What the user was shown of it stays.
#[test]
fn a_result_that_was_taken_out_of_the_log_is_as_it_was_shown() {
    let result = |shown: &str| {
        format!(
            r#""type":"message","message":{{"role":"toolResult","toolCallId":"c1","toolName":"ls","content":[{{"type":"text","text":"[evicted]"}}],"details":{{{shown}}},"isError":false}},"evictedContent":{{"reason":"compacted_history"}}"#
        )
    };
    let of = |shown: &str| {
        let lines = [user("List it."), CALL.into(), result(shown)];
        let (runs, losses) = read("pi", &lines.map(|line| format!("{{{line}}}")));
        (runs[0].steps[3].text.clone(), told(&losses))
    };
    assert_eq!(of(r#""displayContent":{"text":"a.py"}"#), ("a.py".to_owned(), Vec::new()));
    let told = vec!["1 content that the product took out of the log".to_owned()];
    assert_eq!(of(""), ("[evicted]".to_owned(), told));
}

#[test]
fn version_1_keeps_lines_by_their_numbers() {
    let header = r#""type":"session","id":"s1","cwd":"/x/cli","timestamp":"2026-01-01T00:00:00Z""#.to_owned();
    let compaction =
        r#""type":"compaction","summary":"a.py is there.","firstKeptEntryIndex":4,"tokensBefore":9"#;
    let command =
        r#""type":"message","message":{"role":"bashExecution","command":"pwd","output":"/x","exitCode":2}"#;
    let lines = [
        header,
        user("List it."),
        CALL.into(),
        RESULT.into(),
        user("Sort it."),
        done("Sorted."),
        compaction.into(),
        command.into(),
        user("Go on."),
    ];
    let (runs, losses) = read("pi", &lines.map(|line| format!("{{{line}}}")));
    let t = &runs[0];
    assert_eq!(
        outline(t),
        [
            "0 0 user message List it.",
            "0 1 agent thought Hm.",
            "0 1 agent action ls .",
            "0 1 tool observation a.py [image image/png 6 bytes]",
            "0 2 user message Sort it.",
            "0 2 agent message Sorted.",
            "1 3 user compaction a.py is there.",
            "1 3 system message Ran `pwd` /x Command exited with code 2",
            "1 3 user message Go on.",
        ]
    );
    let kept: Vec<u32> = t.steps.iter().filter_map(|s| s.kept_to).collect();
    assert_eq!((kept, t.steps[4].kept_to), (vec![1, 1], Some(1)));
    assert_eq!(resized(t), [(6, Some(9), None)]);
    let usage = t.steps[1].usage.as_deref().unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.cache_write), (50, Some(40), Some(7)));
    assert_eq!(usage.cost, Some(0.5));
    let of = [&t.task_id, &t.repository, &t.model].map(|of| of.as_deref().unwrap());
    assert_eq!(of, ["s1", "cli", "m"]);
    assert_eq!(told(&losses), ["1 media replaced by a placeholder"]);
}

fn line(id: &str, parent: &str, rest: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(r#"{{"id":"{id}","parentId":{parent},{rest}}}"#)
}

fn compaction(summary: &str, first: &str) -> String {
    format!(r#""type":"compaction","summary":"{summary}","firstKeptEntryId":"{first}""#)
}

#[test]
fn later_versions_are_trees() {
    let (runs, losses) = read(
        "pi",
        &[
            r#"{"type":"session","version":3,"id":"s1","cwd":"/x"}"#.to_owned(),
            line("a", "", &user("List it.")),
            line("b", "a", &done("a.py")),
            line("c", "b", &user("Wrong way.")),
            line("d", "b", r#""type":"branch_summary","summary":"It was wrong.","fromId":"c""#),
            line("e", "d", &user("Sort it.")),
            line("f", "e", &compaction("One.", "e")),
            line("g", "f", &done("Sorted.")),
            line("h", "g", &compaction("Two.", "e")),
            line("i", "h", r#""type":"label","label":"x""#),
            line("j", "i", &compaction("Three.", "j")),
            line("k", "j", &done("Done.")),
        ],
    );
    assert_eq!(
        outline(&runs[0]),
        [
            "0 0 user message List it.",
            "0 1 agent message a.py",
            "0 1 system message It was wrong.",
            "0 2 user message Sort it.",
            "1 3 user compaction One.",
            "1 3 agent message Sorted.",
            "2 4 user compaction Two.",
            "3 5 user compaction Three.",
            "3 5 agent message Done.",
        ]
    );
    let kept: Vec<Option<u32>> = runs[0].steps.iter().map(|s| s.kept_to).collect();
    assert_eq!(kept, [None, None, None, Some(2), None, Some(2), None, None, None]);
    assert_eq!(
        told(&losses),
        ["1 line of an abandoned branch left out", "1 record of the harness left out: label"]
    );
}

#[test]
fn lines_of_which_none_names_the_one_before_follow_one_another() {
    let line = |id: &str, role: &str| {
        format!(r#"{{"type":"message","id":"{id}","message":{{"role":"{role}","content":"{id}"}}}}"#)
    };
    let head = r#"{"type":"session","id":"s","cwd":"/w"}"#.to_owned();
    let (runs, losses) = read("pi", &[head, line("a", "user"), line("b", "assistant"), line("c", "user")]);
    assert_eq!(brief(&runs[0]), ["0 message a", "1 message b", "2 message c"]);
    assert_eq!(told(&losses), Vec::<String>::new());
}

#[test]
fn copies_of_a_session_have_the_time_of_the_first_message() {
    let head = "{\"type\":\"session\",\"id\":\"s2\"}\n{\"type\":\"message\",\"timestamp\":\"2026-01-01T00:00:00Z\"}\n";
    assert!(matches!(origin(head.as_bytes(), false), Origin::Uuid(id) if id == "pi 2026-01-01T00:00:00Z"));
    assert!(matches!(origin(&head.as_bytes()[..30], false), Origin::More));
    assert!(matches!(origin(b"{\"type\":\"user\"}\n", true), Origin::None));
}
