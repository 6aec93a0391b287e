//! Rollouts as they are logged, and what is right of them by hand.

use super::*;
use crate::logs::formats::reading::testing::{outline, read, read_hostile, resized, told};
use crate::trajectory::Usage;

/// A line of a type, with its payload.
fn line(second: u32, kind: &str, payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-01-01T00:00:{second:02}Z","type":"{kind}","payload":{payload}}}"#)
}

fn item(second: u32, payload: &str) -> String {
    line(second, "response_item", payload)
}

fn said(role: &str, text: &str) -> String {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{text}"}}]}}"#)
}

fn call(id: &str) -> String {
    format!(
        r#"{{"type":"function_call","name":"shell","arguments":"{{\"command\":[\"ls\"]}}","call_id":"{id}"}}"#
    )
}

fn output(id: &str, text: &str) -> String {
    format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"{text}"}}"#)
}

fn tokens(total: u64, last: u64) -> String {
    let info = format!(
        r#"{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total}}},"last_token_usage":{{"input_tokens":{last},"cached_input_tokens":1,"output_tokens":2}}}}}}"#
    );
    line(9, "event_msg", &info)
}

fn usages(t: &Trajectory) -> Vec<(u32, u64)> {
    t.steps.iter().filter_map(|s| Some((s.turn, s.usage.as_ref()?.input))).collect()
}

#[test]
fn a_session_of_version_0_57() {
    let (runs, losses) = read(
        "codex",
        &[
            line(0, "session_meta", r#"{"id":"s1","cwd":"/home/me/cli","instructions":"Use tabs."}"#),
            item(0, &said("user", "# AGENTS.md instructions for /x\\n\\nUse tabs.")),
            item(0, &said("user", "<environment_context>\\n<cwd>/x</cwd></environment_context>")),
            item(
                1,
                &said(
                    "user",
                    "# Context from my IDE setup:\\n\\n## Open tabs:\\n## My request for Codex:\\nList it.\\n",
                ),
            ),
            line(1, "event_msg", r#"{"type":"user_message","message":"List it."}"#),
            line(1, "turn_context", r#"{"model":"gpt-5-codex"}"#),
            line(2, "event_msg", r#"{"type":"token_count","info":null}"#),
            line(2, "event_msg", r#"{"type":"agent_reasoning","text":"Hm."}"#),
            tokens(10, 10),
            item(
                3,
                r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"x"}"#,
            ),
            item(3, &call("c1")),
            item(
                4,
                r#"{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"a.py\\n\",\"metadata\":{\"exit_code\":1,\"duration_seconds\":0.5}}"}"#,
            ),
            tokens(10, 10),
            tokens(25, 15),
            item(5, r#"{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c2"}"#),
            item(
                5,
                r#"{"type":"custom_tool_call_output","call_id":"c2","output":{"content":"ok","success":true}}"#,
            ),
            tokens(45, 20),
            item(6, &said("assistant", "Done.")),
        ],
    );
    let t = &runs[0];
    assert_eq!(
        outline(t),
        [
            "0 0 system message # AGENTS.md instructions for /x  Use tabs.",
            "0 0 system message <environment_context> <cwd>/x</cwd></environment_context>",
            "0 0 user message List it.",
            "0 0 system message # Context from my IDE setup:  ## Open tabs:",
            "0 1 agent thought Hm.",
            "0 1 agent action shell [\"ls\"]",
            "0 1 tool observation a.py exit_code: 1 duration_seconds: 0.5",
            "0 2 agent action apply_patch *** Begin",
            "0 2 tool observation ok",
            "0 3 agent message Done.",
        ]
    );
    assert_eq!(usages(t), [(1, 10), (2, 15), (3, 20)]);
    let first = Usage { input: 10, output: Some(2), cache_read: Some(1), ..Usage::default() };
    assert_eq!(t.steps[4].usage.as_deref(), Some(&first));
    assert_eq!((t.steps[6].is_error, t.steps[8].is_error), (Some(true), Some(false)));
    assert_eq!(t.steps[9].time, Some(1_767_225_606_000_000));
    let of = [&t.task_id, &t.repository, &t.model, &t.goal].map(|of| of.as_deref().unwrap());
    assert_eq!(of, ["s1", "cli", "gpt-5-codex", "List it."]);
    assert_eq!(
        told(&losses),
        [
            "1 event for the screen left out: agent_reasoning",
            "1 event for the screen left out: token_count",
            "1 event for the screen left out: user_message",
            "1 instructions of the header that a message repeats",
            "1 usage that repeats the one before, or counts nothing",
        ]
    );
}

/// Newer versions write the count behind the reply, and parts of one reply as items of their own.
#[test]
fn counts_behind_replies() {
    let (runs, _) = read(
        "codex",
        &[
            line(0, "session_meta", r#"{"id":"s1","base_instructions":{"text":"Be brief."}}"#),
            item(1, &said("developer", "Ask first.")),
            item(1, &said("user", "List it.")),
            item(2, &said("assistant", "I look.")),
            item(2, &call("c1")),
            item(2, &call("c2")),
            tokens(10, 10),
            item(3, &output("c1", "a")),
            item(3, &output("c2", "b")),
            item(4, &said("assistant", "Now the rest.")),
            tokens(25, 15),
            item(5, &said("assistant", "Done.")),
            tokens(45, 20),
        ],
    );
    assert_eq!(
        outline(&runs[0]),
        [
            "0 0 system system Be brief.",
            "0 0 system system Ask first.",
            "0 0 user message List it.",
            "0 1 agent thought I look.",
            "0 1 agent action shell [\"ls\"]",
            "0 1 agent action shell [\"ls\"]",
            "0 1 tool observation a",
            "0 1 tool observation b",
            "0 2 agent message Now the rest.",
            "0 3 agent message Done.",
        ]
    );
    assert_eq!(usages(&runs[0]), [(1, 10), (2, 15), (3, 20)]);
}

#[test]
fn a_compaction_with_a_list_keeps_what_stands_in_it() {
    let history = format!(
        r#"{{"message":"","replacement_history":[{},{},{}]}}"#,
        said("user", "List it."),
        said("user", "And sort it."),
        said("user", "Summary: a.py is there.")
    );
    let (runs, losses) = read(
        "codex",
        &[
            item(1, &said("user", "List it.")),
            item(2, &call("c1")),
            item(2, &output("c1", "a.py")),
            item(3, &said("user", "And sort it.")),
            item(4, &said("assistant", "Sorted.")),
            line(5, "compacted", &history),
            line(5, "event_msg", r#"{"type":"context_compacted"}"#),
            item(6, &said("user", "Go on.")),
            item(7, &said("assistant", "Yes.")),
        ],
    );
    let t = &runs[0];
    assert_eq!(
        outline(t)[5..],
        ["1 3 user compaction Summary: a.py is there.", "1 3 user message Go on.", "1 3 agent message Yes."]
    );
    let kept: Vec<Option<u32>> = t.steps.iter().map(|s| s.kept_to).collect();
    assert_eq!(kept, [None, None, None, Some(1), None, None, None, None]);
    assert_eq!(told(&losses), ["1 event for the screen left out: context_compacted"]);
}

/// Codex counts the new context, and logs that before the compaction or behind it.
#[test]
fn a_total_alone_is_the_count_of_the_new_context() {
    let total = r#"{"type":"token_count","info":{"total_token_usage":{"input_tokens":50},"last_token_usage":{"input_tokens":0,"cached_input_tokens":0,"output_tokens":0,"total_tokens":321}}}"#;
    let (counted, compacted) =
        (line(5, "event_msg", total), line(5, "compacted", r#"{"message":"a.py is sorted."}"#));
    for two in [[&counted, &compacted], [&compacted, &counted]] {
        let (first, last) = (
            [item(1, &said("user", "List it.")), item(2, &said("assistant", "a.py"))],
            [item(6, &said("assistant", "Yes."))],
        );
        let (runs, _) = read("codex", &[&first[..], &two.map(String::clone), &last].concat());
        assert_eq!(resized(&runs[0]), [(2, None, Some(321))]);
        assert!(runs[0].steps.iter().all(|step| step.usage.is_none()));
    }
}

#[test]
fn a_compaction_without_a_list_keeps_the_words_of_the_user() {
    let remote = r#"{"message":"","replacement_history":[{"type":"compaction","encrypted_content":"x"}]}"#;
    let (runs, losses) = read(
        "codex",
        &[
            item(1, &said("user", "List it.")),
            item(2, &said("assistant", "a.py")),
            item(3, &said("user", "Sort it.")),
            item(4, &said("assistant", "Sorted.")),
            line(5, "compacted", r#"{"message":"a.py is sorted."}"#),
            item(6, &said("assistant", "Yes.")),
            line(7, "compacted", remote),
        ],
    );
    let t = &runs[0];
    assert_eq!(
        outline(t)[4..],
        ["1 3 user compaction a.py is sorted.", "1 3 agent message Yes.", "2 4 user compaction "]
    );
    let kept: Vec<Option<u32>> = t.steps.iter().map(|s| s.kept_to).collect();
    assert_eq!(kept, [None, None, Some(1), None, None, None, None]);
    assert_eq!(told(&losses), ["1 compaction without its summary", "1 item left out: compaction"]);
}

#[test]
fn turns_that_were_rolled_back_are_left_out() {
    let (runs, losses) = read(
        "codex",
        &[
            item(1, &said("user", "One.")),
            item(2, &said("assistant", "1")),
            item(3, &said("user", "Two.")),
            item(4, &said("assistant", "2")),
            line(5, "event_msg", r#"{"type":"thread_rolled_back","num_turns":1}"#),
            item(6, &said("user", "Three.")),
            item(7, &said("assistant", "3")),
        ],
    );
    let texts: Vec<&str> = runs[0].steps.iter().map(|s| s.text.as_str()).collect();
    assert_eq!(texts, ["One.", "1", "Three.", "3"]);
    assert_eq!(told(&losses), ["2 line of an abandoned branch left out"]);
}

/// What another agent tells this one answers no call, and is nobody's statement.
#[test]
fn a_message_of_another_agent_is_a_notice() {
    let told = r#"{"type":"agent_message","author":"a","recipient":"b","content":[{"type":"input_text","text":"Hurry."}]}"#;
    let lines = [item(1, &said("user", "One.")), item(2, &said("assistant", "1")), item(3, told)];
    let (runs, _) = read("codex", &lines);
    let last = outline(&runs[0]).pop().unwrap();
    assert!(last.starts_with("0 1 system message Hurry."), "{last}");
}

#[test]
fn the_oldest_files_hold_bare_items() {
    let (runs, losses) = read(
        "codex",
        &[
            r#"{"id":"s1","timestamp":"2025-05-01T00:00:00.000Z","instructions":"Be brief."}"#,
            r#"{"record_type":"state"}"#,
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"List it."}]}"#,
            r#"{"type":"local_shell_call","call_id":"c1","status":"completed","action":{"type":"exec","command":["ls"]}}"#,
            r#"{"type":"function_call_output","call_id":"c1","output":"a.py"}"#,
        ],
    );
    assert_eq!(
        outline(&runs[0]),
        [
            "0 0 system system Be brief.",
            "0 0 user message List it.",
            "0 1 agent action local_shell {\"type\":\"exec\",\"command\":[\"ls\"]}",
            "0 1 tool observation a.py",
        ]
    );
    assert_eq!(told(&losses), ["1 record left out: state"]);
}

#[test]
fn the_stream_of_exec() {
    let (runs, losses) = read(
        "codex",
        &[
            r#"{"type":"thread.started","thread_id":"s1"}"#,
            r#"{"type":"turn.started"}"#,
            r#"{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"Hm."}}"#,
            r#"{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"ls","aggregated_output":"","status":"in_progress"}}"#,
            r#"{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"ls","aggregated_output":"a.py","exit_code":2,"status":"failed"}}"#,
            r#"{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"Done."}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":70,"cached_input_tokens":60,"output_tokens":5}}"#,
            r#"{"type":"item.started","item":{"id":"item_3","type":"mcp_tool_call","server":"s","tool":"find","arguments":{"q":1}}}"#,
        ],
    );
    let t = &runs[0];
    assert_eq!(
        outline(t),
        [
            "0 1 agent thought Hm.",
            "0 1 agent action command_execution ls",
            "0 1 tool observation a.py",
            "0 2 agent message Done.",
            "0 3 agent action find 1",
        ]
    );
    assert_eq!(
        (t.task_id.as_deref(), t.tokens_sent, t.steps[2].is_error),
        (Some("s1"), Some(70), Some(true))
    );
    assert_eq!(told(&losses), ["1 call without a result"]);
}

#[test]
fn a_sub_agent_names_its_parent_and_a_fork_its_origin() {
    let meta = r#"{"id":"child","source":{"subagent":{"thread_spawn":{"parent_thread_id":"p","depth":1}}}}"#;
    let (runs, _) = read("codex", &[line(0, "session_meta", meta), item(1, &said("user", "Go."))]);
    assert_eq!(runs[0].parent.as_deref(), Some("p"));
    let of = |lines: &[&str]| {
        let text = lines.iter().map(|meta| line(0, "session_meta", meta) + "\n").collect::<String>();
        match origin((text + &item(1, &said("user", "Go."))).as_bytes(), true) {
            Origin::Uuid(id) => id,
            _ => panic!("no origin"),
        }
    };
    assert_eq!(of(&[r#"{"id":"a"}"#]), "a");
    assert_eq!(of(&[r#"{"id":"b","forked_from_id":"a"}"#, r#"{"id":"a"}"#]), "a");
    assert!(matches!(origin(b"{\"type\":\"user\"}\n", true), Origin::None));
    assert!(matches!(origin(b"{\"timestamp\":1,\"type\":\"session_meta\",\"payl", false), Origin::More));
}

#[test]
fn a_broken_line_costs_itself_alone() {
    let lines = [
        item(1, &said("user", "List it.")),
        r#"{"type":"response_item","payload":{"type":"message","role":"assi"#.to_owned(),
        r#"{"type":"response_item","payload":7}"#.to_owned(),
        item(2, &said("assistant", "Done.")),
    ];
    let (runs, _, rejects) = read_hostile("codex", lines.iter().map(|line| line.as_bytes()));
    let texts: Vec<&str> = runs[0].steps.iter().map(|s| s.text.as_str()).collect();
    assert_eq!((texts, rejects.len()), (vec!["List it.", "Done."], 2));
}

/// From 0.146 on the count stands behind the outputs of the calls of its reply; before that comes a record that is no event.
#[test]
fn counts_behind_outputs() {
    let lines = [
        item(1, &said("user", "List it.")),
        item(2, &call("c1")),
        item(2, &output("c1", "a")),
        tokens(10, 10),
        item(3, &call("c2")),
        item(3, &output("c2", "b")),
        tokens(25, 15),
        item(4, &said("assistant", "Done.")),
        tokens(45, 20),
        item(5, &said("user", "Again.")),
        item(6, &call("c3")),
        item(6, &output("c3", "b")),
        tokens(55, 30),
        item(7, &said("assistant", "Done.")),
    ];
    let right = [(1, 10), (2, 15), (3, 20), (4, 30)];
    assert_eq!(usages(&read("codex", &lines).0[0]), right);
    // A session that an older version began: its counts stand before their replies.
    let older = [
        item(1, &said("user", "First.")),
        tokens(3, 3),
        item(1, &call("c0")),
        item(1, &output("c0", "b")),
        tokens(7, 4),
        item(1, &said("assistant", "Done.")),
    ];
    let (runs, _) = read("codex", &[&older[..], &lines].concat());
    assert_eq!(usages(&runs[0]), [(1, 3), (2, 4), (3, 10), (4, 15), (5, 20), (6, 30)]);
}

#[test]
fn records_of_usage_name_the_reply_that_ends() {
    let record = |total: u64, last: u64| {
        let usage = |n: u64| format!(r#"{{"input_tokens":{n},"cached_input_tokens":1,"output_tokens":2}}"#);
        let payload =
            format!(r#"{{"response_id":"r","usage":{},"thread_token_usage":{}}}"#, usage(last), usage(total));
        line(9, "token_usage_record", &payload)
    };
    let count = |total, last| {
        tokens(total, last).replace(
            &format!(r#""total_token_usage":{{"input_tokens":{total}}}"#),
            &format!(
                r#""total_token_usage":{{"input_tokens":{total},"cached_input_tokens":1,"output_tokens":2}}"#
            ),
        )
    };
    let (runs, losses) = read(
        "codex",
        &[
            item(1, &said("user", "List it.")),
            item(2, &call("c1")),
            record(10, 10),
            item(2, &output("c1", "a")),
            count(10, 10),
            item(3, &said("assistant", "One.")),
            record(25, 15),
            item(3, &said("assistant", "Two.")),
            record(45, 20),
        ],
    );
    assert_eq!(usages(&runs[0]), [(1, 10), (2, 15), (3, 20)]);
    assert_eq!(told(&losses), ["1 usage that repeats the one before, or counts nothing"]);
}

/// The summary is asked for with the whole past; its call is none of the agent's, and what it cost stands on the compaction.
#[test]
fn the_reply_that_is_the_summary_is_no_turn() {
    let history = |last: &str| {
        let message = format!("Here is the summary:\\n{last}");
        format!(
            r#"{{"message":"{message}","replacement_history":[{},{}]}}"#,
            said("user", "List it."),
            said("user", &message)
        )
    };
    let lines = |summary: &str| {
        [
            item(1, &said("user", "List it.")),
            item(2, &call("c1")),
            item(2, &output("c1", "a.py")),
            tokens(10, 10),
            item(3, r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]}"#),
            item(3, &said("assistant", "## Done\\n- a.py is there.")),
            tokens(25, 15),
            line(4, "compacted", &history(summary)),
            tokens(25, 0),
            item(5, &said("assistant", "Yes.")),
            tokens(29, 4),
        ]
    };
    let (runs, losses) = read("codex", &lines("## Done\\n- a.py is there."));
    let t = &runs[0];
    assert_eq!(
        outline(t)[1..],
        [
            "0 1 agent action shell [\"ls\"]",
            "0 1 tool observation a.py",
            "1 2 user compaction Here is the summary: ## Done - a.py is there.",
            "1 2 agent message Yes.",
        ]
    );
    assert_eq!(usages(t), [(1, 10), (2, 15), (2, 4)]);
    assert_eq!(losses.0["call of a summariser left out, whose text stands in the next prompt"], 2);
    // Another reply before a compaction is one of the agent's.
    let (runs, _) = read("codex", &lines("a.py is there."));
    assert_eq!(outline(&runs[0])[4], "0 2 agent message ## Done - a.py is there.");
}
