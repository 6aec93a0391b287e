//! Wires as they are logged, and what is right of them by hand.

use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::{outline, read, resized, told};
use crate::trajectory::Trajectory;

fn message(origin: &str, text: &str) -> String {
    format!(
        r#"{{"type":"context.append_message","message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"origin":{{"kind":"{origin}"}}}},"time":1767225600000}}"#
    )
}

fn event(rest: &str) -> String {
    format!(r#"{{"type":"context.append_loop_event","event":{{{rest}}},"time":1767225600000}}"#)
}

/// A step that calls a tool, as its lines.
fn calling(step: &str) -> Vec<String> {
    vec![
        event(&format!(r#""type":"step.begin","uuid":"{step}""#)),
        event(&format!(
            r#""type":"content.part","stepUuid":"{step}","part":{{"type":"think","think":"Hm."}}"#
        )),
        event(&format!(
            r#""type":"tool.call","stepUuid":"{step}","toolCallId":"Bash_0","name":"Bash","args":{{"command":"ls"}}"#
        )),
        event(
            r#""type":"tool.result","toolCallId":"Bash_0","result":{"output":"a.py","note":"<system>1 line</system>","isError":true}"#,
        ),
        event(&format!(
            r#""type":"step.end","uuid":"{step}","usage":{{"inputOther":3,"output":4,"inputCacheRead":40,"inputCacheCreation":7}}"#
        )),
        r#"{"type":"usage.record","usage":{"inputOther":3}}"#.to_owned(),
    ]
}

fn saying(step: &str, text: &str) -> Vec<String> {
    vec![event(&format!(
        r#""type":"content.part","stepUuid":"{step}","part":{{"type":"text","text":"{text}"}}"#
    ))]
}

fn texts(t: &Trajectory) -> Vec<&str> {
    t.steps.iter().map(|s| s.text.as_str()).collect()
}

#[test]
fn a_session_with_a_compaction() {
    let prompt =
        r#"{"type":"turn.prompt","input":[{"type":"text","text":"List it."}],"origin":{"kind":"user"}}"#;
    let compaction = r#"{"type":"context.apply_compaction","summary":"Listed a.py.","contextSummary":"Compacted.\nListed a.py.\n\nAll is in /k/wire.jsonl.","compactedCount":5,"keptUserMessageCount":1,"tokensBefore":900,"tokensAfter":60}"#;
    let lines = [
        vec![
            r#"{"type":"metadata","protocol_version":"1.4"}"#.to_owned(),
            r#"{"type":"config.update","systemPrompt":"Be brief.","modelAlias":"k2"}"#.to_owned(),
            prompt.to_owned(),
            message("user", "List it."),
            message("injection", "Remember."),
        ],
        calling("u1"),
        vec![message("user", "Sort it.")],
        saying("u2", "Sorted."),
        vec![compaction.to_owned(), r#"{"type":"plan_mode.exit"}"#.to_owned(), message("user", "Go on.")],
    ]
    .concat();
    let (runs, losses) = read("kimi-code", &lines);
    let t = &runs[0];
    assert_eq!(
        outline(t),
        [
            "0 0 system system Be brief.",
            "0 0 user message List it.",
            "0 0 system message Remember.",
            "0 1 agent thought Hm.",
            "0 1 agent action Bash ls",
            "0 1 tool observation a.py <system>1 line</system>",
            "0 2 user message Sort it.",
            "0 2 agent message Sorted.",
            "1 3 user compaction Listed a.py.",
            // What the product says around it.
            "1 3 system message Compacted.  All is in /k/wire.jsonl.",
            "1 3 user message Go on.",
        ]
    );
    assert_eq!(resized(t), [(8, Some(900), Some(60))]);
    let kept: Vec<usize> = (0..t.steps.len()).filter(|at| t.steps[*at].kept_to == Some(1)).collect();
    assert_eq!((kept, t.steps[5].is_error, t.model.as_deref()), (vec![6], Some(true), Some("k2")));
    let usage = t.steps[3].usage.as_deref().unwrap();
    assert_eq!((usage.input, usage.output, usage.cache_read), (50, Some(4), Some(40)));
    assert_eq!(told(&losses), ["1 record of the harness left out: plan_mode.exit"]);
}

/// Requests name the model behind the alias; what the summary's call cost is on the compaction.
#[test]
fn requests_name_the_model_and_the_call_for_a_summary() {
    let request = |kind: &str, model: &str| {
        format!(r#"{{"type":"llm.request","kind":"{kind}","model":"{model}","modelAlias":"mine"}}"#)
    };
    let usage = |n: u32| {
        format!(
            r#"{{"type":"usage.record","model":"mine","usage":{{"inputOther":{n},"output":3,"inputCacheRead":0,"inputCacheCreation":0}}}}"#
        )
    };
    let bind = r#"{"type":"profile.bind","modelAlias":"mine","systemPrompt":"Be brief."}"#;
    let compaction = r#"{"type":"context.apply_compaction","summary":"S","keptUserMessageCount":0}"#;
    // A step begins before its request is told.
    let mut first = calling("u1");
    first.insert(1, request("loop", "k2-0905"));
    let lines = [
        vec![bind.to_owned(), message("user", "List it.")],
        first,
        vec![usage(70), request("compaction", "k2-0905"), usage(90), compaction.to_owned(), usage(11)],
        saying("u2", "Sorted."),
    ]
    .concat();
    let (runs, _) = read("kimi-code", &lines);
    let t = &runs[0];
    assert_eq!((t.model.as_deref(), texts(t)[0]), (Some("k2-0905"), "Be brief."));
    assert!(t.steps.iter().all(|step| step.model.is_none()));
    let written = t
        .steps
        .iter()
        .find(|step| step.kind == crate::trajectory::Kind::Compaction)
        .and_then(|step| step.usage.as_deref());
    assert_eq!(written.map(|usage| (usage.input, usage.output)), Some((90, Some(3))));
}

#[test]
fn older_compactions_keep_the_messages_behind_those_they_count() {
    let compaction = r#"{"type":"context.apply_compaction","summary":"S","compactedCount":1}"#;
    let lines = [vec![message("user", "List it.")], calling("u1"), vec![compaction.to_owned()]].concat();
    let (runs, _) = read("kimi-code", &lines);
    let kept: Vec<bool> = runs[0].steps.iter().map(|s| s.kept_to == Some(1)).collect();
    // The prompt is the one that is counted; it stands in the head, which stays anyway.
    assert_eq!(kept, [false, true, true, true, false]);
}

#[test]
fn prompts_are_undone_and_contexts_cleared() {
    let undo = r#"{"type":"context.undo","count":1}"#.to_owned();
    let clear = r#"{"type":"context.clear"}"#.to_owned();
    let lines = [
        vec![message("user", "One.")],
        saying("u1", "1"),
        vec![message("user", "Two.")],
        saying("u2", "2"),
        vec![undo.clone(), clear, undo, message("user", "Three.")],
    ]
    .concat();
    let (runs, losses) = read("kimi-code", &lines);
    assert_eq!(texts(&runs[0]), ["One.", "1", "", "Three."]);
    assert_eq!(told(&losses), ["1 context cleared by the user", "2 line of an abandoned branch left out"]);
}

#[test]
fn a_prompt_that_no_message_repeats_is_said() {
    let prompt = r#"{"type":"turn.prompt","input":[{"type":"text","text":"List it."}]}"#;
    let (runs, _) = read("kimi-code", &[vec![prompt.to_owned()], calling("u1")].concat());
    assert_eq!(texts(&runs[0])[0], "List it.");
}

#[test]
fn the_folders_name_a_session_and_its_sub_agents() {
    for (path, task, parent) in [
        ("wd/s-1/agents/main/wire.jsonl", "s-1", None),
        ("wd/s-1/agents/agent-0/wire.jsonl", "s-1/agent-0", Some("s-1")),
        ("wire-x.jsonl", "wire-x", None),
    ] {
        let source = Source::test(path, "kimi-code");
        assert_eq!(super::session(&source), (task.to_owned(), parent.map(str::to_owned)));
    }
}
