//! Branches, and prompts of the queue.

use super::*;

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
