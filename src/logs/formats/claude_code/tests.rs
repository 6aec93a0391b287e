//! Sessions as they are logged, and what is right of them by hand.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::draft::Losses;
use crate::trajectory::{LoggedEdit, Step, Usage};

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

/// `segment turn role kind text` of each step.
fn outline(t: &Trajectory) -> Vec<String> {
    let line = |s: &Step| {
        let text = s.text.replace('\n', " ");
        format!("{} {} {} {} {text}", s.segment, s.turn, s.role.name(), s.kind.name())
    };
    t.steps.iter().map(line).collect()
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
        r#"{"type":"system","subtype":"compact_boundary","uuid":"7","compactMetadata":{"trigger":"auto","preTokens":9}}"#,
        r#"{"type":"user","uuid":"8","isCompactSummary":true,"message":{"content":"So far: fixed."}}"#,
        r#"{"type":"user","uuid":"9","isMeta":true,"message":{"content":"caveat"}}"#,
        r#"{"type":"assistant","uuid":"10","isSidechain":true,"message":{"id":"z","content":[]}}"#,
        r#"{"type":"assistant","uuid":"11","message":{"id":"m3","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]}}"#,
        r#"{"type":"assistant","uuid":"12","message":{"id":"m4","model":"c","content":[{"type":"text","text":"Next."}]}}"#,
    ]);
    let outline: Vec<String> =
        t.steps.iter().map(|s| format!("{} {} {} {}", s.segment, s.turn, s.kind.name(), s.text)).collect();
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
    assert_eq!(found(r#"{"messages":[{"uuid":"#, false), "none");
    assert_eq!(found(r#"{"uuid":"1"}"#, true), "none");
}

#[test]
fn results_between_the_lines_of_one_call() {
    let (t, _) = run(&[
        r#"{"type":"user","message":{"content":"T"}}"#,
        r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"A","input":{}}]}}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"a"}]}}"#,
        r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t2","name":"B","input":{}}]}}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"b"}]}}"#,
    ]);
    let turns: Vec<u32> = t.steps.iter().map(|s| s.turn).collect();
    assert_eq!(turns, [0, 1, 1, 1, 1]);
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
fn one_reply_on_many_lines() {
    let usage = |out: u32| {
        format!(
            r#""usage":{{"input_tokens":3,"cache_creation_input_tokens":200,"cache_read_input_tokens":9000,"output_tokens":{out}}}"#
        )
    };
    let part = |uuid: &str, blocks: &[String], out: u32| {
        let blocks = blocks.join(",");
        let message = format!(r#""message":{{"id":"m1","content":[{blocks}],{}}}"#, usage(out));
        line("assistant", uuid, "", &format!(r#""requestId":"r1",{message}"#))
    };
    let read = |parts: &[String]| {
        let mut lines = vec![user("u", "", "T")];
        lines.extend_from_slice(parts);
        lines.extend([result("r", "", "t1", "a"), reply("e", "", "m2", &say("Done."))]);
        run(&lines)
    };
    let right = [
        "0 0 user message T",
        "0 1 agent thought I read.",
        "0 1 agent action F",
        "0 1 tool observation a",
        "0 2 agent message Done.",
    ];
    // A line a block, the same line again, and the list each time that it has grown.
    let blocks = [part("1", &[say("I read.")], 1), part("2", &[call("t1")], 90)];
    let again = [part("1", &[say("I read."), call("t1")], 90), part("2", &[say("I read."), call("t1")], 90)];
    let grown = [
        part("1", &[say("I")], 2),
        part("2", &[say("I read.")], 9),
        part("3", &[say("I read."), call("t1")], 90),
    ];
    for (lines, n_merged) in [(&blocks[..], 0), (&again, 2), (&grown, 2)] {
        let (t, losses) = read(lines);
        assert_eq!(outline(&t), right);
        let whole = Usage {
            input: 9203,
            output: Some(90),
            cache_read: Some(9000),
            cache_write: Some(200),
            ..Usage::default()
        };
        let logged: Vec<Option<Usage>> = t.steps.iter().map(|s| s.usage.as_deref().copied()).collect();
        assert_eq!(logged, [None, Some(whole), None, None, None]);
        assert_eq!(losses.0.get("repeated block of one reply merged").copied().unwrap_or(0), n_merged);
    }
    // The same line grown under its own uuid is a later state of it; any other line with a uuid that came before is a copy.
    let hook = line("progress", "h", "", r#""data":{"type":"hook_progress"}"#);
    let (t, _) =
        read(&[grown[0].clone(), hook, part("1", &[say("I read."), call("t1")], 90), user("u", "", "T")]);
    assert_eq!(outline(&t), right);
}

#[test]
fn a_call_that_is_logged_after_the_result_of_another_one() {
    let (t, losses) = run(&[
        user("1", "", "T"),
        reply("2", "1", "m1", &call("t1")),
        result("3", "2", "t1", "a"),
        reply("4", "2", "m1", &call("t2")),
        result("5", "4", "t2", "b"),
        // Logged twice: the one that grew counts.
        result("6", "4", "t2", "b and more"),
        reply("7", "6", "m2", &say("Done.")),
    ]);
    assert_eq!(
        outline(&t),
        [
            "0 0 user message T",
            "0 1 agent action F",
            "0 1 agent action F",
            "0 1 tool observation a",
            "0 1 tool observation b and more",
            "0 2 agent message Done."
        ]
    );
    assert_eq!(losses.0["repeated result of one call merged"], 1);
    assert_eq!(losses.0.len(), 1);
}

#[test]
fn an_empty_id_is_none_and_lines_joined_by_one_alone_are_told() {
    let of = |id: &str, call: &str, uuid: &str| {
        let blocks = format!(r#"{{"type":"tool_use","id":"{call}","name":"F","input":{{}}}}"#);
        line("assistant", uuid, "", &format!(r#""message":{{"id":"{id}","content":[{blocks}]}}"#))
    };
    let read = |id: &str, a: &str, b: &str| {
        let (t, losses) = run(&[
            user("", "", "T"),
            of(id, a, ""),
            result("", "", a, "a"),
            of(id, b, ""),
            result("", "", b, "b"),
        ]);
        let turns: Vec<u32> = t.steps.iter().map(|s| s.turn).collect();
        let calls: Vec<bool> = t.steps[1..].iter().map(|s| s.call_id.is_some()).collect();
        assert_eq!(calls, [true; 4]);
        (turns, losses.0.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(read("", "t1", "t2"), (vec![0, 1, 1, 2, 2], vec![]));
    assert_eq!(read("", "", ""), (vec![0, 1, 1, 2, 2], vec![]));
    let joined = ("line joined to a reply by its id alone, across results".to_owned(), 1);
    assert_eq!(read("msg", "t1", "t2"), (vec![0, 1, 1, 1, 1], vec![joined]));
}

#[test]
fn an_id_is_a_new_reply_behind_another_one_words_of_the_user_or_another_request() {
    let of_request = |uuid: &str, request: &str, text: &str| {
        let message = format!(r#""message":{{"id":"m","content":[{}]}}"#, say(text));
        line("assistant", uuid, "", &format!(r#""requestId":"{request}",{message}"#))
    };
    let turns = |lines: &[String]| {
        let (t, losses) = run(lines);
        let turns: Vec<u32> = t.steps.iter().map(|s| s.turn).collect();
        (turns, losses.0.get("reply with the id of another one").copied().unwrap_or(0))
    };
    let task = || user("u", "", "T");
    let [a, b] = [of_request("1", "r1", "a"), of_request("2", "r1", "b")];
    assert_eq!(turns(&[task(), a.clone(), b.clone()]), (vec![0, 1, 1], 0));
    assert_eq!(turns(&[task(), a.clone(), of_request("2", "r2", "b")]), (vec![0, 1, 2], 1));
    assert_eq!(turns(&[task(), a.clone(), user("v", "", "U"), b.clone()]), (vec![0, 1, 2, 2], 1));
    assert_eq!(turns(&[task(), a.clone(), reply("x", "", "n", &say("x")), b.clone()]), (vec![0, 1, 2, 3], 1));
    // What the harness says between the lines of a reply is seen by the next one.
    let meta = line("user", "v", "", r#""isMeta":true,"message":{"content":"hook"}"#);
    let (t, _) = run(&[task(), a, meta, b]);
    assert_eq!(outline(&t)[1..], ["0 1 agent message a", "0 1 agent message b", "0 1 system message hook"]);
}

#[test]
fn prompts_of_the_queue_stand_where_they_were_taken_up() {
    let queue = |operation: &str, text: &str| {
        format!(r#"{{"type":"queue-operation","operation":"{operation}","sessionId":"s1"{text}}}"#)
    };
    let log = |attached: Option<String>| {
        let mut lines = vec![
            user("1", "", "T"),
            reply("2", "1", "m1", &call("t1")),
            queue("enqueue", r#","content":"Use semicolons.""#),
            queue("remove", ""),
            result("3", "2", "t1", "a"),
        ];
        lines.extend(attached);
        lines.push(reply("5", "3", "m2", &say("Done.")));
        run(&lines)
    };
    let right = ["0 1 tool observation a", "0 2 user message Use semicolons.", "0 2 agent message Done."];
    let (t, losses) = log(None);
    assert_eq!(
        (&outline(&t)[2..], losses.0["prompt taken from the queue"]),
        (&right.map(str::to_owned)[..], 1)
    );
    let attachment =
        r#""attachment":{"type":"queued_command","prompt":"Use semicolons.","commandMode":"prompt"}"#;
    let (t, losses) = log(Some(line("attachment", "4", "3", attachment)));
    assert_eq!(
        (&outline(&t)[2..], losses.0["queued prompt that stands in the log twice"]),
        (&right.map(str::to_owned)[..], 1)
    );
    let (t, _) = log(Some(user("4", "3", "Use semicolons.")));
    assert_eq!(outline(&t)[2..], right);
    // One that says that a task is done is the harness's.
    let note = r#""attachment":{"type":"queued_command","prompt":[{"type":"text","text":"done"}],"commandMode":"task-notification"}"#;
    let (t, _) = log(Some(line("attachment", "4", "3", note)));
    assert_eq!(
        outline(&t)[3..],
        ["0 1 system message done", "0 2 user message Use semicolons.", "0 2 agent message Done."]
    );
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
fn branches_that_were_left_are_left_out() {
    let lines = [
        user("1", "", "T"),
        reply("2", "1", "m1", &say("Which?")),
        user("3", "2", "redis"),
        reply("4", "3", "m2", &call("t1")),
        result("5", "4", "t1", "installed"),
        // The same parent, behind a line that only hangs in the tree.
        line("system", "6", "2", r#""subtype":"turn_duration""#),
        user("7", "6", "no redis"),
        reply("8", "7", "m3", &call("t2")),
        result("9", "8", "t2", "a"),
        reply("10", "8", "m3", &call("t3")),
        result("11", "10", "t3", "b"),
        reply("12", "11", "m4", &say("Done.")),
    ];
    let (t, losses) = run(&lines);
    assert_eq!(
        outline(&t),
        [
            "0 0 user message T",
            "0 1 agent message Which?",
            "0 2 user message no redis",
            "0 2 agent action F",
            "0 2 agent action F",
            "0 2 tool observation a",
            "0 2 tool observation b",
            "0 3 agent message Done."
        ]
    );
    assert_eq!(losses.0["line of an abandoned branch left out"], 3);
    // A record at the end says that the other branch is the one that goes on.
    let leaf = r#"{"type":"last-prompt","leafUuid":"5","sessionId":"s1"}"#.to_owned();
    let with_leaf = [&lines[..], &[leaf.clone()]].concat();
    let (t, losses) = run(&with_leaf);
    assert_eq!(
        outline(&t)[2..],
        ["0 2 user message redis", "0 2 agent action F", "0 2 tool observation installed"]
    );
    assert_eq!(losses.0["line of an abandoned branch left out"], 6);
    // One that lags behind leaves nothing.
    let lags = r#"{"type":"last-prompt","leafUuid":"1","sessionId":"s1"}"#.to_owned();
    assert_eq!(run(&[&lines[..6], &[lags]].concat()).0.steps.len(), 5);
    // One that lines stand behind is old.
    let old = [&lines[..6], &[leaf], &lines[6..]].concat();
    assert_eq!(run(&old).0.steps.len(), 8);
}

#[test]
fn a_prompt_of_the_queue_begins_a_branch_beside_a_typed_one() {
    let queued = |uuid: &str, text: &str| {
        let attachment =
            format!(r#""attachment":{{"type":"queued_command","prompt":"{text}","commandMode":"prompt"}}"#);
        line("attachment", uuid, "2", &attachment)
    };
    let begun = [user("1", "", "T"), reply("2", "1", "m1", &say("A"))];
    let (q, typed) = (queued("3", "q"), user("5", "2", "typed"));
    let (b, c) = (reply("4", "3", "m2", &say("B")), reply("6", "5", "m3", &say("C")));
    let read = |rest: &[&String]| {
        let lines: Vec<String> = begun.iter().chain(rest.iter().copied()).cloned().collect();
        let (t, losses) = run(&lines);
        let said: Vec<String> = t.steps.iter().map(|s| s.text.clone()).collect();
        (said.join(" "), losses.0.get("line of an abandoned branch left out").copied())
    };
    assert_eq!(read(&[&q, &b, &typed, &c]), ("T A typed C".to_owned(), Some(2)));
    assert_eq!(read(&[&typed, &c, &q, &b]), ("T A q B".to_owned(), Some(2)));
    // Two of the queue were both taken up.
    assert_eq!(read(&[&q, &queued("9", "r"), &b]), ("T A q r B".to_owned(), None));
}

#[test]
fn no_branch_is_where_a_parent_is_missing_or_a_compaction_stands() {
    let (t, losses) = run(&[
        user("1", "gone", "T"),
        reply("2", "1", "m1", &say("a")),
        user("3", "2", "U"),
        line("system", "4", "", r#""logicalParentUuid":"3","subtype":"compact_boundary""#),
        line("user", "5", "4", r#""isCompactSummary":true,"message":{"content":"so far"}"#),
        user("6", "2", "V"),
        reply("7", "gone", "m2", &say("b")),
    ]);
    assert_eq!(
        outline(&t)[2..],
        ["0 2 user message U", "1 3 user compaction so far", "1 3 user message V", "1 3 agent message b"]
    );
    assert_eq!(losses, Losses::default());
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
fn prompts_that_no_reply_saw_are_runs_of_their_own() {
    let (found, losses) = runs(&[
        result("0", "gone", "t0", "left over"),
        user("1", "", "T"),
        reply("2", "1", "m1", &say("a")),
        user("3", "", "U"),
        line("user", "4", "", r#""message":{"content":"<command-name>/exit</command-name>"}"#),
    ]);
    assert_eq!(found.len(), 2);
    assert_eq!(
        outline(&found[0]),
        ["0 0 user message T", "0 1 agent message a", "0 2 user message <command-name>/exit</command-name>"]
    );
    assert_eq!(outline(&found[1]), ["0 0 user message U"]);
    assert_eq!((found[1].task_id.as_deref(), found[1].parent.as_deref()), (Some("3"), Some("s1")));
    assert_eq!(losses.0["line before a cleared context that no reply saw left out"], 1);
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
            r#""subtype":"microcompact_boundary","microcompactMetadata":{{"compactedToolIds":[{tools}],"clearedAttachmentUUIDs":[{attachments}]}}"#
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
    assert!(t.policy.is_some());
    assert_eq!(losses.0["cleared message that is not in the log"], 2);
    assert_eq!(losses.0["microcompaction that cleared nothing"], 1);
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
fn hostile_trees_are_read_in_the_order_of_the_file() {
    // A line under itself, a circle, a compaction and a segment that name nothing or what comes later.
    let (t, _) = run(&[
        user("1", "1", "T"),
        user("2", "3", "U"),
        reply("3", "2", "m1", &say("a")),
        line(
            "system",
            "4",
            "3",
            r#""subtype":"compact_boundary","logicalParentUuid":"4","compactMetadata":{"preservedSegment":{"headUuid":"3","tailUuid":"2"},"preservedMessages":null}"#,
        ),
        line("attachment", "5", "4", r#""attachment":null"#),
        line("user", "6", "5", r#""message":{"content":[null,7,{"type":"tool_result"},[]]}"#),
        line("poem", "7", "6", r#""message":{"content":"x"}"#),
    ]);
    assert_eq!(outline(&t)[..3], ["0 0 user message T", "0 0 user message U", "0 1 agent message a"]);
    assert!(outline(&t).last().unwrap().ends_with("system message poem x"));
}

#[test]
fn texts_of_the_harness_before_a_prompt_belong_to_its_branch() {
    let hook = |uuid: &str, parent: &str| {
        line("user", uuid, parent, &format!(r#""isMeta":true,"message":{{"content":"hook {uuid}"}}"#))
    };
    let note = |uuid: &str, parent: &str| {
        line("attachment", uuid, parent, r#""attachment":{"type":"note","text":"n"},"rendered":"note""#)
    };
    let start = || vec![user("1", "", "T"), reply("2", "1", "m1", &say("Which?"))];
    let right = |rest: &[&str]| {
        let head = ["0 0 user message T", "0 1 agent message Which?"];
        [&head[..], rest].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let lived = ["0 2 user message lived", "0 2 agent message b"];
    let with_hook = ["0 1 system message hook 6", lived[0], lived[1]];
    let branch = |parent: &str| [user("4", parent, "left"), reply("5", "4", "m2", &say("a"))];
    let last = |parent: &str| [user("7", parent, "lived"), reply("8", "7", "m3", &say("b"))];
    let n_left = |losses: &Losses| losses.0["line of an abandoned branch left out"];
    // A reminder before the prompt of each branch.
    let (t, losses) =
        run(&[start(), vec![hook("3", "2")], branch("3").into(), vec![hook("6", "2")], last("6").into()]
            .concat());
    assert_eq!((outline(&t), n_left(&losses)), (right(&with_hook), 3));
    // Before one of them only; attachments and interruptions are no other.
    let interrupted = user("3", "2", "[Request interrupted by user]");
    for before in [hook("3", "2"), note("3", "2"), interrupted] {
        let (t, losses) = run(&[start(), vec![before], branch("3").into(), last("2").into()].concat());
        assert_eq!((outline(&t), n_left(&losses)), (right(&lived), 3));
    }
    // One that both branches hang under was lived.
    let (t, losses) = run(&[start(), vec![hook("6", "2")], branch("6").into(), last("6").into()].concat());
    assert_eq!((outline(&t), n_left(&losses)), (right(&with_hook), 2));
    // Rewound to before a command, its caveat and its output.
    let command = [
        hook("c1", "2"),
        user("c2", "c1", "<command-name>/cost</command-name>"),
        user("c3", "c2", "<local-command-stdout>$1</local-command-stdout>"),
    ];
    let (t, losses) = run(&[start(), command.into(), branch("c3").into(), last("2").into()].concat());
    assert_eq!((outline(&t), n_left(&losses)), (right(&lived), 5));
    // What the harness says at the start is no branch, and two first prompts under it are two.
    let first = [hook("0", ""), user("1", "0", "left"), reply("2", "1", "m1", &say("a"))];
    let (t, _) = run(&[&first[..], &[user("3", "0", "lived"), reply("4", "3", "m2", &say("b"))]].concat());
    assert_eq!(outline(&t), ["0 0 system message hook 0", "0 0 user message lived", "0 1 agent message b"]);
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

#[test]
fn another_result_of_one_call_stays() {
    let results = |texts: [&str; 3]| {
        let [a, b, c] = texts;
        let lines = [
            user("1", "", "T"),
            reply("2", "1", "m1", &call("t1")),
            result("3", "2", "t1", a),
            result("4", "2", "t1", b),
            result("5", "2", "t1", c),
            reply("6", "5", "m2", &say("Done.")),
        ];
        let (t, losses) = run(&lines);
        let texts = t.steps.iter().filter(|s| s.kind == crate::trajectory::Kind::Observation);
        let n_merged = losses.0.get("repeated result of one call merged").copied().unwrap_or(0);
        let n_other = losses.0.get("tool result without a call").copied().unwrap_or(0);
        (texts.map(|s| s.text.clone()).collect::<Vec<_>>().join("|"), n_merged, n_other)
    };
    assert_eq!(results(["out", "else", "else"]), ("out|else".to_owned(), 1, 1));
    // A result that grows is one.
    assert_eq!(results(["", "out", "out, more"]), ("out, more".to_owned(), 2, 0));
}

#[test]
fn a_result_that_a_reply_saw_stays() {
    let lines = [
        user("1", "", "T"),
        reply("2", "1", "m1", &call("t1")),
        result("3", "2", "t1", "out"),
        reply("4", "3", "m2", &say("Done.")),
        result("5", "4", "t1", "out, and more"),
        // The same again is a copy, before a reply and behind it.
        result("6", "5", "t1", "out, and more"),
        user("7", "6", "U"),
        reply("8", "7", "m3", &say("Well.")),
        result("9", "8", "t1", "out, and more"),
    ];
    let (t, losses) = run(&lines);
    assert_eq!(
        outline(&t)[1..],
        [
            "0 1 agent action F",
            "0 1 tool observation out",
            "0 2 agent message Done.",
            "0 2 tool observation out, and more",
            "0 3 user message U",
            "0 3 agent message Well."
        ]
    );
    assert_eq!(losses.0["repeated result of one call merged"], 2);
}

#[test]
fn a_reply_or_a_lost_result_that_is_logged_again_is_one() {
    let (one, two) = ([say("One"), call("t1")].join(","), [say("Two"), call("t2")].join(","));
    let begun = [user("1", "", "T"), reply("2", "1", "m1", &one), result("3", "2", "t1", "a")];
    let again = [reply("5", "4", "m1", &one), result("6", "5", "t1", "a"), result("7", "4", "t2", "b")];
    let right = [
        "0 0 user message T",
        "0 1 agent thought One",
        "0 1 agent action F",
        "0 1 tool observation a",
        "0 2 agent thought Two",
        "0 2 agent action F",
        "0 2 tool observation b",
    ];
    let (t, losses) = run(&[&begun[..], &[reply("4", "3", "m2", &two)], &again].concat());
    assert_eq!(outline(&t), right);
    assert_eq!(losses.0["reply that is logged again behind another one merged"], 1);
    assert_eq!(losses.0["repeated result of one call merged"], 1);
    assert_eq!(losses.0.len(), 2);
    // Behind words of the user, too; without a request the id of a call tells it, a text does not.
    let unnamed = |uuid: &str, blocks: &str| {
        line("assistant", uuid, "", &format!(r#""message":{{"id":"m","content":[{blocks}]}}"#))
    };
    let n_said = |blocks: &str| {
        let log = [user("1", "", "T"), unnamed("2", blocks), user("3", "", "U"), unnamed("4", blocks)];
        run(&log).0.steps.iter().filter(|s| s.text == "One").count()
    };
    assert_eq!([n_said(&one), n_said(&say("One"))], [1, 2]);
    // The call is not in the log; one of the same id that comes later is another.
    let lost = [result("1", "", "t1", "early"), result("2", "1", "t1", "early")];
    let (t, losses) = run(&[&lost[..], &[reply("3", "2", "m1", &one), result("4", "3", "t1", "a")]].concat());
    assert_eq!(
        outline(&t),
        [
            "0 0 tool observation early",
            "0 1 agent thought One",
            "0 1 agent action F",
            "0 1 tool observation a"
        ]
    );
    assert_eq!(losses.0["repeated result of one call merged"], 1);
    assert_eq!(losses.0["tool result without a call"], 1);
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

#[test]
fn a_prompt_of_the_queue_does_not_split_a_request() {
    let queued = r#""attachment":{"type":"queued_command","prompt":"Q","commandMode":"prompt"}"#;
    let queue = |operation: &str, text: &str| {
        format!(r#"{{"type":"queue-operation","operation":"{operation}","sessionId":"s1"{text}}}"#)
    };
    let prompts = [
        vec![line("attachment", "4", "3", queued), queue("remove", "")],
        vec![queue("remove", ""), user("4", "3", "Q")],
    ];
    for prompt in prompts {
        let mut lines = vec![
            user("1", "", "T"),
            reply("2", "1", "m1", &call("t1")),
            queue("enqueue", r#","content":"Q""#),
            result("3", "2", "t1", "a"),
        ];
        lines.extend(prompt);
        lines.extend([
            reply("5", "2", "m1", &call("t2")),
            result("6", "5", "t2", "b"),
            reply("7", "6", "m2", &say("Done.")),
        ]);
        let (t, losses) = run(&lines);
        assert_eq!(
            outline(&t)[1..],
            [
                "0 1 agent action F",
                "0 1 agent action F",
                "0 1 tool observation a",
                "0 2 user message Q",
                "0 2 tool observation b",
                "0 2 agent message Done."
            ]
        );
        assert!(!losses.0.contains_key("reply with the id of another one"));
    }
}
