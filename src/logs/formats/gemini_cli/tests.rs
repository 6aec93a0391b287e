//! Chats as they are logged, and what is right of them by hand.

use super::*;
use crate::logs::formats::reading::testing::{outline, read, told};
use crate::trajectory::LoggedEdit;

const HEADER: &str = r#"{"sessionId":"s1","projectHash":"p","directories":["/x/cli"]}"#;

fn user(id: &str, text: &str) -> String {
    format!(
        r#"{{"id":"{id}","timestamp":"2026-01-01T00:00:00Z","type":"user","content":[{{"text":"{text}"}}]}}"#
    )
}

/// A reply that is a call, with its result once it is there.
fn reply(id: &str, call: &str, result: Option<&str>) -> String {
    let result = result.map_or("null".to_owned(), |text| {
        format!(r#"[{{"functionResponse":{{"id":"{call}","name":"ls","response":{{"output":"{text}"}}}}}}]"#)
    });
    format!(
        r#"{{"id":"{id}","type":"gemini","content":"I look.","model":"m","thoughts":[{{"subject":"Plan","description":"Hm."}}],"tokens":{{"input":50,"output":4,"cached":20,"thoughts":3,"tool":0,"total":57}},"toolCalls":[{{"id":"{call}","name":"ls","args":{{"path":"."}},"result":{result},"status":"success"}}]}}"#
    )
}

fn done(id: &str) -> String {
    format!(r#"{{"id":"{id}","type":"gemini","content":"Done.","model":"m"}}"#)
}

#[test]
fn lines_that_are_written_again_count_once() {
    let (runs, losses) = read(
        "gemini-cli",
        &[
            HEADER.to_owned(),
            user("1", "List it."),
            reply("2", "c1", None),
            r#"{"id":"3","type":"info","content":"Update!"}"#.to_owned(),
            reply("2", "c1", Some("a.py")),
            r#"{"$set":{"lastUpdated":"2026-01-01T00:00:09Z"}}"#.to_owned(),
            done("4"),
        ],
    );
    let t = &runs[0];
    assert_eq!(
        outline(t),
        [
            "0 0 user message List it.",
            "0 1 agent thought Plan Hm.",
            "0 1 agent thought I look.",
            "0 1 agent action ls .",
            "0 1 tool observation a.py",
            "0 2 agent message Done.",
        ]
    );
    let usage = t.steps[1].usage.as_deref().unwrap();
    assert_eq!((usage.input, usage.output, usage.cache_read), (50, Some(7), Some(20)));
    assert_eq!(t.steps[4].is_error, Some(false));
    let of = [&t.task_id, &t.repository, &t.model].map(|of| of.as_deref().unwrap());
    assert_eq!(of, ["s1", "cli", "m"]);
    assert_eq!(told(&losses), ["1 message for the screen left out: info"]);
}

#[test]
fn calls_in_a_message_of_their_own_belong_to_the_reply_before() {
    let words = r#"{"id":"2","type":"gemini","content":"I look.","tokens":{"input":50,"output":4}}"#;
    let call = r#"{"id":"4","type":"gemini","content":"","toolCalls":[{"id":"c1","name":"ls","args":{}}]}"#;
    let info = r#"{"id":"3","type":"info","content":"Update!"}"#;
    let lines =
        [user("1", "List it."), words.to_owned(), info.to_owned(), call.to_owned(), call.replace("4", "5")];
    let (runs, losses) = read("gemini-cli", &lines);
    assert_eq!(
        outline(&runs[0]),
        [
            "0 0 user message List it.",
            "0 1 agent thought I look.",
            "0 1 agent action ls",
            "0 2 agent action ls"
        ]
    );
    assert_eq!(losses.0["calls of a reply in a message of their own joined to it"], 1);
}

#[test]
fn a_document_is_the_same() {
    let messages = [user("1", "List it."), reply("2", "c1", Some("a.py")), done("3")].join(",");
    let document = format!(r#"{{"sessionId":"s1","projectHash":"p","messages":[{messages}]}}"#);
    let lines = [HEADER.to_owned(), user("1", "List it."), reply("2", "c1", Some("a.py")), done("3")];
    let (of_document, of_lines) = (read("gemini-cli", &[document]).0, read("gemini-cli", &lines).0);
    assert_eq!(of_document[0].steps, of_lines[0].steps);
    assert_eq!(of_document[0].steps.len(), 6);
}

#[test]
fn a_rewind_takes_back_what_stands_behind() {
    let rewind = |id: &str| format!(r#"{{"$rewindTo":"{id}"}}"#);
    let lines =
        [user("1", "One."), done("2"), user("3", "Two."), done("4"), rewind("3"), user("5", "Three.")];
    let (runs, losses) = read("gemini-cli", &lines);
    assert_eq!(
        outline(&runs[0]),
        ["0 0 user message One.", "0 1 agent message Done.", "0 2 user message Three."]
    );
    assert_eq!(told(&losses), ["2 line of an abandoned branch left out"]);
    // An unknown one takes back all.
    let (runs, _) = read("gemini-cli", &[user("1", "One."), rewind("x"), user("5", "Three.")]);
    assert_eq!(outline(&runs[0]), ["0 0 user message Three."]);
}

#[test]
fn a_list_that_is_set_anew_is_a_compaction_or_an_edit() {
    let set = |messages: &[String]| format!(r#"{{"$set":{{"messages":[{}]}}}}"#, messages.join(","));
    let before = [user("1", "List it."), reply("2", "c1", Some("a.py")), user("3", "Sort it."), done("4")];
    let masked =
        set(&[before[0].clone(), reply("2", "c1", Some("[cleared]")), before[2].clone(), before[3].clone()]);
    let (runs, _) = read("gemini-cli", &[&before[..], &[masked, user("5", "Go on."), done("6")]].concat());
    let t = &runs[0];
    assert_eq!(t.steps[4].text, "a.py");
    assert_eq!(t.steps[4].edit.as_deref(), Some(&LoggedEdit { from: 3, text: "[cleared]".to_owned() }));
    assert_eq!(
        outline(t)[5..],
        [
            "0 2 user message Sort it.",
            "0 2 agent message Done.",
            "0 3 user message Go on.",
            "0 3 agent message Done."
        ]
    );
    let compressed = set(&[user("9", "a.py is there."), before[3].clone()]);
    let (runs, losses) = read("gemini-cli", &[&before[..], &[compressed, user("5", "Go on.")]].concat());
    assert_eq!(outline(&runs[0])[7..], ["1 3 user compaction a.py is there.", "1 3 user message Go on."]);
    assert_eq!(runs[0].steps[6].kept_to, Some(1));
    assert_eq!(told(&losses), [] as [&str; 0]);
    // A later list still holds the summary: what is edited behind it is no compaction.
    let (list, later) = (
        [user("9", "a.py is there."), before[3].clone()],
        [user("5", "Go on."), reply("6", "c2", Some("b.py"))],
    );
    let masked =
        [list.clone().to_vec(), vec![later[0].clone(), reply("6", "c2", Some("[cleared]"))]].concat();
    let lines = [&before[..], &[set(&list)], &later, &[set(&masked), done("7")]].concat();
    let (runs, losses) = read("gemini-cli", &lines);
    let t = &runs[0];
    assert_eq!(outline(t)[7..9], ["1 3 user compaction a.py is there.", "1 3 user message Go on."]);
    assert_eq!((t.steps[12].text.as_str(), t.steps[13].text.as_str(), t.steps.len()), ("b.py", "Done.", 14));
    assert_eq!(t.steps[12].edit.as_deref(), Some(&LoggedEdit { from: 4, text: "[cleared]".to_owned() }));
    assert_eq!(told(&losses), [] as [&str; 0]);
}

#[test]
fn a_checkpoint_is_a_list_of_contents() {
    let list = r#"[{"role":"user","parts":[{"text":"List it."}]},{"role":"model","parts":[{"text":"Hm.","thought":true},{"functionCall":{"name":"ls","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{"output":"a.py"}}},{"inlineData":{"mimeType":"image/png","data":"AAAABBBB"}}]},{"role":"model","parts":[{"text":"Done."}]}]"#;
    let expected = [
        "0 0 user message List it.",
        "0 1 agent thought Hm.",
        "0 1 agent action ls",
        "0 1 tool observation a.py",
        "0 2 user message [image image/png 6 bytes]",
        "0 2 agent message Done.",
    ];
    for text in [list.to_owned(), format!(r#"{{"history":{list},"authType":"x"}}"#)] {
        let (runs, losses) = read("gemini-cli", &[text]);
        assert_eq!(outline(&runs[0]), expected);
        assert_eq!(told(&losses), ["1 media replaced by a placeholder"]);
    }
}

#[test]
fn several_sessions_in_a_file_and_their_origins() {
    let session =
        |id: &str| format!(r#"{{"sessionId":"{id}","projectHash":"p","messages":[{}]}}"#, user("1", id));
    let (runs, _) = read("gemini-cli", &[session("a"), session("b")]);
    let ids: Vec<&str> = runs.iter().map(|t| t.task_id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert!(matches!(origin(session("a").as_bytes(), true), Origin::Uuid(id) if id == "a"));
    assert!(matches!(origin(br#"{"sessionId":"a","uuid":"u"}"#, true), Origin::None));
}

/// A session that goes on writes a header and an empty list, then the whole list, in which each call of a reply has the results of all.
#[test]
fn a_session_that_goes_on_is_no_compaction() {
    let set = |messages: &[String]| format!(r#"{{"$set":{{"messages":[{}]}}}}"#, messages.join(","));
    let response = |id: &str, text: &str| {
        format!(r#"{{"functionResponse":{{"id":"{id}","name":"ls","response":{{"output":"{text}"}}}}}}"#)
    };
    let both = |of: [&[&str]; 2]| {
        let call = |id: &str, results: &[&str]| {
            let results: Vec<String> = results.iter().map(|id| response(id, &format!("{id}.py"))).collect();
            format!(
                r#"{{"id":"{id}","name":"ls","args":{{"path":"{id}"}},"result":[{}],"status":"success"}}"#,
                results.join(",")
            )
        };
        let calls = [call("c1", of[0]), call("c2", of[1])].join(",");
        format!(
            r#"{{"id":"2","type":"gemini","content":"I look.","tokens":{{"input":50,"output":4}},"toolCalls":[{calls}]}}"#
        )
    };
    let (context, task) = (user("0", "Today is Friday."), user("1", "List it."));
    let alone = both([&["c1"], &["c2"]]);
    let again = both([&["c1", "c2"], &["c1", "c2"]]);
    let copy =
        alone.replace(r#""id":"2""#, r#""id":"7""#).replace(r#""tokens":{"input":50,"output":4},"#, "");
    let head = [HEADER.to_owned(), set(std::slice::from_ref(&context)), task.clone(), alone.clone()];
    let on = [
        HEADER.to_owned(),
        set(std::slice::from_ref(&context)),
        set(&[context.clone(), task.clone(), again]),
    ];
    let end = [user("5", "Go on."), done("6")];
    let outlined = |lines: &[String]| {
        let (runs, losses) = read("gemini-cli", lines);
        assert!(runs[0].steps.iter().all(|step| step.edit.is_none()));
        (outline(&runs[0]), told(&losses))
    };
    let (plain, losses) = outlined(&[&head[..], &end].concat());
    assert_eq!((plain.len(), losses.len()), (9, 0));
    let (lived, losses) = outlined(&[&head[..], &on, &end].concat());
    assert_eq!(lived, plain);
    assert_eq!(losses, ["1 message that was replaced before a call saw it left out"]);
    // Once more all is written down behind the list, and replaced.
    let whole = set(&[context, task.clone(), alone]);
    let (lived, _) = outlined(&[&head[..], &on, &[task, copy, whole], &end].concat());
    assert_eq!(lived, plain);
}

/// The list that a compression leaves may end with the call whose result comes next, and shortens results on the way.
#[test]
fn a_compression_before_the_result_keeps_the_call() {
    let set = |messages: &[String]| format!(r#"{{"$set":{{"messages":[{}]}}}}"#, messages.join(","));
    let call = |id: &str| {
        format!(
            r#"{{"id":"x{id}","type":"gemini","content":[{{"text":"I look."}},{{"functionCall":{{"id":"{id}","name":"ls","args":{{"path":"."}}}}}}]}}"#
        )
    };
    let result = |id: &str, text: &str| {
        format!(
            r#"{{"id":"y{id}","type":"user","content":[{{"functionResponse":{{"id":"{id}","name":"ls","response":{{"output":"{text}"}}}}}}]}}"#
        )
    };
    let plain = |id: &str, text: &str| {
        reply(id, id, Some(text)).replace(r#"[{"subject":"Plan","description":"Hm."}]"#, "[]")
    };
    let list = [
        user("9", "The summary."),
        r#"{"id":"8","type":"gemini","content":[{"text":"Got it."}]}"#.to_owned(),
        call("c2"),
        result("c2", "b, and more"),
        call("c3"),
    ];
    let lines = [
        HEADER.to_owned(),
        user("1", "List it."),
        plain("c1", "a.py"),
        plain("c2", "b.py and much more"),
        plain("c3", "c.py"),
        set(&list),
        result("c3", "c.py"),
        done("4"),
    ];
    let (runs, losses) = read("gemini-cli", &lines);
    let t = &runs[0];
    let kept = |step: &crate::trajectory::Step| step.kept_to.map_or(String::new(), |to| format!(" to {to}"));
    let told_of: Vec<String> =
        outline(t).into_iter().zip(&t.steps).map(|(line, step)| line + &kept(step)).collect();
    assert_eq!(
        told_of[1..],
        [
            "0 1 agent thought I look.",
            "0 1 agent action ls .",
            "0 1 tool observation a.py",
            "0 2 agent thought I look. to 1",
            "0 2 agent action ls . to 1",
            "0 2 tool observation b.py and much more to 1",
            "0 3 agent thought I look. to 1",
            "0 3 agent action ls . to 1",
            "0 3 tool observation c.py to 1",
            "1 4 user compaction The summary.  Got it.",
            "1 4 agent message Done.",
        ]
    );
    assert_eq!(t.steps[6].edit.as_deref(), Some(&LoggedEdit { from: 4, text: "b, and more".to_owned() }));
    assert_eq!(told(&losses), ["1 repeated tool result merged"]);
}
