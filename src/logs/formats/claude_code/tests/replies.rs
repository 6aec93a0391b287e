//! Replies over several lines, their calls and results.

use super::*;

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

/// It was billed, whatever came of it.
#[test]
fn a_reply_without_text_has_its_usage() {
    let blank = |uuid: &str, id: &str, n: u32| {
        let usage = format!(r#""usage":{{"input_tokens":{n},"output_tokens":1}}"#);
        line(
            "assistant",
            uuid,
            "",
            &format!(r#""message":{{"id":"{id}","content":[{}],{usage}}}"#, say(r"\n\n")),
        )
    };
    let (t, losses) = run(&[
        user("a", "", "T"),
        blank("b", "m1", 90),
        user("c", "", "Again"),
        blank("d", "m2", 0),
        reply("e", "", "m3", &say("Done.")),
        blank("f", "m4", 70),
    ]);
    let told: Vec<(String, Option<u64>)> = outline(&t)
        .into_iter()
        .zip(t.steps.iter().map(|s| s.usage.as_ref().map(|usage| usage.input)))
        .collect();
    let right = [
        ("0 0 user message T", None),
        ("0 1 agent message ", Some(90)),
        ("0 2 user message Again", None),
        ("0 2 agent message Done.", None),
        ("0 3 agent message ", Some(70)),
    ];
    assert_eq!(told, right.map(|(step, usage)| (step.to_owned(), usage)));
    assert_eq!(losses.0["reply without text that was billed"], 2);
    assert_eq!(losses.0["reply without anything to read left out"], 1);
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
