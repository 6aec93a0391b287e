//! Mappings, and what is read by them.

use super::*;
use crate::logs::formats::Source;
use crate::trajectory::Trajectory;

fn mapping(text: &str) -> &'static Mapping {
    Box::leak(Box::new(settings::Source { path: "m.toml", text }.read().unwrap()))
}

fn outline(runs: &[Trajectory]) -> Vec<String> {
    let steps = runs.iter().flat_map(|run| &run.steps);
    steps.map(|s| format!("{} {} {}: {}", s.turn, s.role.name(), s.kind.name(), s.text)).collect()
}

#[test]
fn runs_in_a_document_with_calls_in_messages() {
    let text = r#"
        runs = "/data/episodes"
        messages = "/turns"
        [run]
        task = "/name"
        model = "/cfg/llm"
        system = "/sys"
        [message]
        role = ["/who", "/kind"]
        content = "/says"
        time = "/at"
        usage = "/cost"
        calls = "/does"
        result_id = "/of"
        [call]
        id = "/n"
        name = "/op"
        arguments = "/with"
        [roles]
        boss = "user"
        worker = "agent"
        env = "tool"
        mark = "none"
    "#;
    let source = Source { mapping: Some(mapping(text)), ..Source::new("d/x.json", "mapping") };
    let mut sink = Sink::new(&source);
    let log = r#"{"data":{"episodes":[{"name":"t1","cfg":{"llm":"m"},"sys":"Be brief.","turns":[
        {"who":"boss","says":"List.","at":"2026-01-01T00:00:00Z"},
        {"who":"worker","says":"I look.","cost":{"prompt_tokens":9,"completion_tokens":2},"does":[{"n":1,"op":"ls","with":{"path":"/"}}]},
        {"who":"env","of":1,"says":"a b"},{"kind":"mark"},{"who":"ghost","says":"boo"},{"who":"worker","says":"a and b"}]},{"name":"t2"}]}}"#;
    read(log.as_bytes(), &mut sink).unwrap();
    assert_eq!(
        outline(&sink.trajectories),
        [
            "0 system system: Be brief.",
            "0 user message: List.",
            "1 agent thought: I look.",
            "1 agent action: ls\n/",
            "1 tool observation: a b",
            "2 agent message: a and b"
        ]
    );
    let run = &sink.trajectories[0];
    assert_eq!(
        (run.task_id.as_deref(), run.model.as_deref(), run.format.as_str()),
        (Some("t1"), Some("m"), "mapping")
    );
    assert_eq!(run.steps[2].usage.as_deref().map(|u| u.input), Some(9));
    assert!(run.steps[1].time.is_some());
    assert_eq!(run.steps[4].call_id, run.steps[3].call_id);
    let losses = &sink.losses.0;
    assert_eq!(losses["record that the mapping leaves out"], 1);
    assert_eq!(losses["record without a role in the mapping left out: ghost"], 1);
    assert_eq!(losses["run without messages where the mapping says they are"], 1);
}

#[test]
fn lines_of_one_run_with_results_in_calls() {
    let text = r#"
        each = "lines"
        [message]
        role = "/type"
        content = "/text"
        calls = ""
        [call]
        name = "/tool"
        arguments = "/args"
        result = "/out"
        [roles]
        step = "agent"
    "#;
    let source = Source { mapping: Some(mapping(text)), ..Source::new("d/x.jsonl", "mapping") };
    let mut sink = Sink::new(&source);
    let mut lines = Box::<Lines>::default();
    for line in [
        r#"{"type":"user","text":"Go."}"#,
        r#"{"type":"step","text":"","tool":"ls","args":"{}","out":"a"}"#,
        r#"{"type":"assistant","text":"Done."}"#,
    ] {
        lines.value(line.as_bytes()).unwrap();
    }
    lines.finish(&mut sink);
    assert_eq!(
        outline(&sink.trajectories),
        ["0 user message: Go.", "1 agent action: ls", "1 tool observation: a", "2 agent message: Done."]
    );
    assert_eq!(mapping(text).entry().name, "mapping");
}

#[test]
fn a_wrong_key_is_told() {
    let error = settings::Source { path: "m.toml", text: "mesages = \"/x\"" }.read::<Mapping>().map(|_| ());
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("m.toml:1") && error.contains("messages"), "{error}");
}

#[test]
fn what_no_pointer_leads_to_is_counted() {
    let text = "messages = \"/turns\"\n[message]\nrole = \"/who\"\ncontent = \"/says\"\ncalls = \"/does\"\n[call]\nname = \"/op\"\n";
    let source = Source { mapping: Some(mapping(text)), ..Source::new("d/x.json", "mapping") };
    let log = r#"{"meta":{"v":1,"none":null},"turns":[{"who":"user","says":"Go.","a/b":[1,{"c":2}]},
        {"who":"agent","says":"","does":[{"op":"ls","took":5}],"meta":{}}]}"#;
    crate::logs::formats::reading::fields::take_counts();
    read(log.as_bytes(), &mut Sink::new(&source)).unwrap();
    let dropped = crate::logs::formats::reading::fields::take_counts().dropped;
    let left: Vec<(&str, u64)> = dropped
        .iter()
        .filter(|(key, _)| key.starts_with("mapping"))
        .map(|(key, n)| (key.as_str(), *n))
        .collect();
    assert_eq!(
        left,
        [
            ("mapping.call./took", 1),
            ("mapping.message./a~1b/*", 1),
            ("mapping.message./a~1b/*/c", 1),
            ("mapping.run./meta/v", 1)
        ]
    );
}
