//! Sessions as they are logged, and what is right of them by hand.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::testing::outline;
use crate::trajectory::{LoggedEdit, Usage};

mod branches;
mod compactions;
mod replies;

fn runs<S: AsRef<str>>(lines: &[S]) -> (Vec<Trajectory>, Losses) {
    let source = Source::test("s.jsonl", "claude-code");
    let mut sink = Sink::new(&source);
    let mut session = Box::<ClaudeSession>::default();
    for line in lines {
        session.value(line.as_ref().as_bytes()).unwrap();
    }
    session.finish(&mut sink);
    (sink.trajectories, sink.losses)
}

fn run<S: AsRef<str>>(lines: &[S]) -> (Trajectory, Losses) {
    let (mut trajectories, losses) = runs(lines);
    (trajectories.remove(0), losses)
}

/// A line by its type, place in the tree, and what else stands in it.
fn line(kind: &str, uuid: &str, parent: &str, rest: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s1",{rest}}}"#)
}

fn user(uuid: &str, parent: &str, text: &str) -> String {
    line("user", uuid, parent, &format!(r#""message":{{"content":"{text}"}}"#))
}

/// A line of a reply with these blocks, of the request `r` + id.
fn reply(uuid: &str, parent: &str, id: &str, blocks: &str) -> String {
    let message =
        format!(r#""requestId":"r{id}","message":{{"id":"{id}","model":"c","content":[{blocks}]}}"#);
    line("assistant", uuid, parent, &message)
}

fn say(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"F","input":{{}}}}"#)
}

fn result(uuid: &str, parent: &str, call: &str, text: &str) -> String {
    let block = format!(r#"{{"type":"tool_result","tool_use_id":"{call}","content":"{text}"}}"#);
    line("user", uuid, parent, &format!(r#""message":{{"content":[{block}]}}"#))
}

#[test]
fn the_origin_is_the_first_uuid_of_the_conversation() {
    let found = |head: &str, whole| match origin(head.as_bytes(), whole) {
        Origin::Uuid(uuid) => uuid,
        Origin::None => "none".to_owned(),
        Origin::More => "more".to_owned(),
    };
    let head = concat!(
        r#"{"type":"summary","leafUuid":"0"}"#,
        "\n{broken \"uuid\"\n",
        r#"{"type":"progress","uuid":"1","sessionId":"s"}"#,
        "\n",
        r#"{"type":"user","uuid":"2","sessionId":"s","isSidechain":true}"#,
        "\n",
        r#"{"type":"user","sessionId":"s","message":{"content":"a"},"uuid":"3"}"#,
    );
    assert_eq!(found(head, true), "3");
    assert_eq!(found(&format!("{head}\n"), false), "3");
    assert_eq!(found(&head[..head.len() - 5], false), "more");
    // A fork may give its copies other uuids.
    for (from, origin) in [(r#"{"sessionId":"s","messageUuid":"3"}"#, "3"), (r#""s""#, "9"), ("null", "9")] {
        let line = format!(r#"{{"type":"user","uuid":"9","sessionId":"t","forkedFrom":{from}}}"#);
        assert_eq!(found(&line, true), origin);
    }
    assert_eq!(found(r#"{"messages":[{"uuid":"#, false), "none");
    assert_eq!(found(r#"{"uuid":"1"}"#, true), "none");
}

#[test]
fn who_speaks_in_messages_of_the_user() {
    let ask = r#"{"type":"tool_use","id":"t1","name":"AskUserQuestion","input":{}}"#.to_owned();
    let answer = r#""toolUseResult":{"answers":{"Which?":"B"}},"message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"B"}]}"#;
    let refusal =
        "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said: no";
    let refused = format!(
        r#""message":{{"content":[{{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":"{refusal}"}}]}}"#
    );
    let (t, losses) = run(&[
        line("user", "0", "", r#""isMeta":true,"message":{"content":"Caveat"}"#),
        user("1", "0", "<system-reminder>A</system-reminder> T"),
        reply("2", "1", "m1", &[ask, call("t2"), call("t3")].join(",")),
        line("user", "3", "2", answer),
        line("user", "4", "3", &refused),
        // Of another tool.
        line("user", "8", "4", &answer.replace("t1", "t3")),
        user("5", "4", "[Request interrupted by user for tool use]"),
        line(
            "system",
            "6",
            "5",
            r#""subtype":"local_command","content":"<local-command-stdout>x</local-command-stdout>""#,
        ),
        line("user", "7", "6", r#""isVisibleInTranscriptOnly":true,"message":{"content":"unseen"}"#),
    ]);
    assert_eq!(
        outline(&t),
        [
            "0 0 system message Caveat",
            "0 0 system message <system-reminder>A</system-reminder>",
            "0 0 user message T",
            "0 1 agent action AskUserQuestion",
            "0 1 agent action F",
            "0 1 agent action F",
            "0 1 user observation B",
            &format!("0 1 user observation {refusal}"),
            "0 1 tool observation B",
            "0 1 system message [Request interrupted by user for tool use]",
            "0 1 system message <local-command-stdout>x</local-command-stdout>",
        ]
    );
    assert_eq!((t.goal.as_deref(), t.steps[6].call_id.as_deref()), (Some("T"), Some("t1")));
    assert_eq!(losses.0["message that only the user is shown left out"], 1);
}

#[test]
fn the_goal_stands_behind_what_the_editor_says() {
    let note = "<ide_opened_file>The user opened the file /w/a.py in the IDE.</ide_opened_file>";
    let content = format!(r#""message":{{"content":[{},{}]}}"#, say(note), say("Fix the port."));
    let (t, _) = run(&[
        line("user", "1", "", &content),
        reply("2", "1", "m1", &say("Which?")),
        user("3", "2", "<ide_selection>port = 1</ide_selection>\\ntake 9"),
    ]);
    assert_eq!(
        outline(&t),
        [
            &format!("0 0 system message {note}"),
            "0 0 user message Fix the port.",
            "0 1 agent message Which?",
            "0 1 system message <ide_selection>port = 1</ide_selection>",
            "0 2 user message take 9",
        ]
    );
    assert_eq!(t.goal.as_deref(), Some("Fix the port."));
}

#[test]
fn what_the_program_attaches_is_kept_if_the_model_is_sent_it() {
    let attachment = |uuid: &str, rest: &str| line("attachment", uuid, "", rest);
    let (t, losses) = run(&[
        attachment("1", r#""attachment":{"type":"hook_cancelled","content":"no"}"#),
        attachment("2", r#""attachment":{"type":"hook_success","hookEvent":"PostToolUse","content":"no"}"#),
        attachment(
            "3",
            r#""attachment":{"type":"diagnostics","files":[]},"rendered":[{"content":"as sent"}]"#,
        ),
        attachment("4", r#""attachment":{"type":"edited_text_file","filename":"a.py","snippet":"1 x"}"#),
        user("5", "", "T"),
    ]);
    assert_eq!(
        outline(&t),
        [
            "0 0 system message as sent",
            "0 0 system message edited_text_file filename: a.py snippet: 1 x",
            "0 0 user message T"
        ]
    );
    assert_eq!(losses.0["attachment that the model is not sent left out"], 2);
    assert_eq!(losses.0["attachment kept as text: edited_text_file"], 1);
}

#[test]
fn tools_of_the_provider_and_unknown_blocks() {
    let blocks = r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}},
        {"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"T","url":"https://x"}]},
        {"type":"text","text":"Found."},{"type":"poem","line":"x"}"#;
    let (t, losses) = run(&[user("1", "", "T"), reply("2", "1", "m1", blocks)]);
    assert_eq!(
        outline(&t)[1..],
        [
            "0 1 agent action web_search q",
            "0 1 tool observation title: T url: https://x",
            "0 1 agent thought Found.",
            "0 1 agent thought poem line: x"
        ]
    );
    assert_eq!((t.steps[2].call_id.as_deref(), t.steps[2].tool.as_deref()), (Some("s1"), Some("web_search")));
    assert_eq!(losses.0["block kept as text: poem"], 1);
}

#[test]
fn fields_without_a_rule_are_kept_and_their_calls_are_one() {
    let chat = |id: &str| {
        format!(r#"{{"id":"{id}","type":"function","function":{{"name":"F","arguments":"{{ }}"}}}}"#)
    };
    let message = |uuid: &str, rest: &str| line("assistant", uuid, "", &format!(r#""message":{{{rest}}}"#));
    let (t, losses) = run(&[
        line("user", "1", "", r#""message":{"role":"user","content":null,"text":"Fix it."}"#),
        message(
            "2",
            &format!(
                r#""id":"m1","content":[{},{}],"tool_calls":[{}],"reasoning_content":"so it is","stop_reason":"end turn now""#,
                say("I look."),
                call("t1"),
                chat("t1")
            ),
        ),
        result("3", "", "t1", "a"),
        message("4", &format!(r#""id":"m2","content":[{}],"tool_calls":[{}]"#, say("next"), chat("t2"))),
        result("5", "", "t2", "b"),
        message("6", r#""id":"m3","content":null,"parts":[{"text":"in parts"}],"reasoning":"in parts""#),
    ]);
    assert_eq!(
        outline(&t),
        [
            "0 0 user message [message] text: Fix it.",
            "0 1 agent thought so it is",
            "0 1 agent thought I look.",
            "0 1 agent action F",
            "0 1 agent thought [message] stop_reason: end turn now",
            "0 1 tool observation a",
            "0 2 agent thought next",
            "0 2 agent action F",
            "0 2 tool observation b",
            "0 3 agent message in parts",
        ]
    );
    for what in [
        "field without a rule kept as text: text",
        "field without a rule kept as thought: reasoning_content",
        "field without a rule kept as text: stop_reason",
        "call given in two styles merged",
        "field without a rule read as content: parts",
    ] {
        assert_eq!(losses.0.get(what), Some(&1), "{what}");
    }
    assert_eq!(losses.0.len(), 5);
}

#[test]
fn parts_of_a_google_model_are_calls_results_and_thoughts() {
    let parts = |kind: &str, uuid: &str, parts: &str| {
        line(kind, uuid, "", &format!(r#""message":{{"parts":[{parts}]}}"#))
    };
    let call = r#"{"functionCall":{"id":"c1","name":"F","args":{"b":1,"a":2}}}"#;
    let output = r#"{"functionResponse":{"id":"c1","name":"F","response":{"output":"a\nb"}}}"#;
    let failed = r#"{"functionResponse":{"id":"c2","response":{"error":"no","code":3}}}"#;
    let (t, losses) = run(&[
        parts("user", "1", r#"{"text":"T"}"#),
        parts(
            "assistant",
            "2",
            &format!(r#"{{"text":"hm","thought":true}},{call},{}"#, call.replace("c1", "c2")),
        ),
        parts("tool_result", "3", output),
        parts("tool_result", "4", failed),
        parts("assistant", "5", r#"{"text":"Done."}"#),
    ]);
    assert_eq!(
        outline(&t),
        [
            "0 0 user message T",
            "0 1 agent thought hm",
            "0 1 agent action F b: 1 a: 2",
            "0 1 agent action F b: 1 a: 2",
            "0 1 tool observation a b",
            r#"0 1 tool observation {"error":"no","code":3}"#,
            "0 2 agent message Done.",
        ]
    );
    assert_eq!(t.steps[2].arguments.as_deref(), Some(r#"{"b":1,"a":2}"#));
    assert_eq!((t.steps[4].is_error, t.steps[5].is_error), (None, Some(true)));
    assert_eq!(losses.0["field without a rule read as content: parts"], 5);
}

#[test]
fn sub_agents_are_runs_linked_to_their_session() {
    let side = |line: String, agent: &str| {
        line.replacen(r#""sessionId""#, &format!(r#""isSidechain":true{agent},"sessionId""#), 1)
    };
    let (a, b) = ("", r#","agentId":"ab12""#);
    let main = [user("1", "", "T"), reply("2", "1", "m1", &call("t1"))];
    let lines = [
        &main[..],
        &[
            side(user("a1", "", "Look."), a),
            side(user("b1", "", "Search."), b),
            side(reply("a2", "a1", "n1", &call("ta")), a),
            side(reply("b2", "b1", "n2", &call("tb")), b),
            side(result("a3", "a2", "ta", "x"), a),
            side(result("b3", "b2", "tb", "y"), b),
            side(user("c1", "", "Warmup"), a),
        ],
        &[result("3", "2", "t1", "found")],
    ]
    .concat();
    let (found, losses) = runs(&lines);
    let alone = run(&[&main[..], &[result("3", "2", "t1", "found")]].concat()).0;
    assert_eq!((&found[0].id, outline(&found[0])), (&alone.id, outline(&alone)));
    let of = |i: usize| (found[i].task_id.as_deref(), found[i].parent.as_deref(), outline(&found[i]));
    let right = |task: &str, result: &str| {
        vec![
            format!("0 0 user message {task}"),
            "0 1 agent action F".to_owned(),
            format!("0 1 tool observation {result}"),
        ]
    };
    assert_eq!(of(1), (Some("a1"), Some("s1"), right("Look.", "x")));
    assert_eq!(of(2), (Some("agent-ab12/b1"), Some("s1"), right("Search.", "y")));
    assert_eq!(of(3).2, ["0 0 user message Warmup"]);
    assert_eq!((found.len(), losses), (4, Losses::default()));
    // A file of one agent holds its run and no empty one of the session.
    let (found, losses) = runs(&lines[3..4]);
    assert_eq!((found.len(), found[0].parent.as_deref(), losses), (1, Some("s1"), Losses::default()));
    // Its texts are not in the lines that tell of its progress: no run is made of them.
    let call = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"c","name":"Bash","input":{}}]}}"#;
    let data = format!(r#""data":{{"type":"agent_progress","agentId":"x","message":{call}}}"#);
    let progress = line("progress", "p", "2", &data);
    let (found, losses) = runs(&[&main[..], &[progress]].concat());
    assert_eq!(losses.0["call of a sub-agent without its texts, left out"], 1);
    assert!(!losses.0.contains_key("result of a sub-agent without its texts, left out"));
    assert_eq!((found.len(), losses.0["progress line of a sub-agent, without its texts, left out"]), (1, 1));
}

#[test]
fn numbers_marks_and_times_are_read_strictly() {
    let of = |id: &str, usage: &str| {
        let message = format!(r#""message":{{"id":"{id}","content":[{}],"usage":{usage}}}"#, say(id));
        line("assistant", id, "", &message)
    };
    let failed = |uuid: &str, call: &str, is_error: &str| {
        let block =
            format!(r#"{{"type":"tool_result","tool_use_id":"{call}","content":"o","is_error":{is_error}}}"#);
        line("user", uuid, "", &format!(r#""isMeta":"False","message":{{"content":[{block}]}}"#))
    };
    let at = |uuid: &str, time: &str| {
        line(
            "user",
            uuid,
            "",
            &format!(r#""isSidechain":"false","timestamp":{time},"message":{{"content":"T"}}"#),
        )
    };
    let lines = [
        at("1", "1767225600000"),
        at("2", "\"2026-01-01T00:00:00Z\""),
        at("3", "\"0001-01-01T00:00:00Z\""),
        reply("4", "", "m1", &[call("t1"), call("t2"), call("t3")].join(",")),
        failed("5", "t1", "\"False\""),
        failed("6", "t2", "\"true\""),
        failed("7", "t3", "\"NaN\""),
        of("a", r#"{"input_tokens":"NaN","output_tokens":"5"}"#),
        of("b", r#"{"input_tokens":3.0,"output_tokens":2.5,"cache_read_input_tokens":null}"#),
        of("c", r#"{"input_tokens":3,"cache_read_input_tokens":"x"}"#),
        of("d", r#"{"input_tokens":"3","cache_read_input_tokens":97,"output_tokens":5}"#),
    ];
    let (t, losses) = run(&lines);
    let times: Vec<Option<i64>> = t.steps[..3].iter().map(|s| s.time).collect();
    assert_eq!(times, [Some(1_767_225_600_000_000), Some(1_767_225_600_000_000), None]);
    let errors: Vec<Option<bool>> = t.steps[6..9].iter().map(|s| s.is_error).collect();
    assert_eq!(errors, [Some(false), Some(true), None]);
    let usages: Vec<Option<Usage>> = t.steps[9..].iter().map(|s| s.usage.as_deref().copied()).collect();
    let usage = |input, output, cache_read| Some(Usage { input, output, cache_read, ..Usage::default() });
    assert_eq!(usages, [None, usage(3, None, None), None, usage(100, Some(5), Some(97))]);
    for (what, n) in [
        ("time that cannot be one taken as unknown", 1),
        ("is_error that is neither true nor false taken as unknown", 1),
        ("usage with a count that is none", 3),
    ] {
        assert_eq!(losses.0[what], n, "{what}");
    }
}
