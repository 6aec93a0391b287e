//! Mappings, and what is read by them.

use super::*;
use crate::logs::formats::{Session as _, Source};
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
    let mut lines = Box::<lines::Lines>::default();
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

/// Lines of several sessions, mixed; one without a name goes on with the line before.
#[test]
fn lines_of_several_sessions_are_their_runs() {
    let read = |key: &str| {
        let text = format!("each = \"lines\"\n{key}\n[message]\nrole = \"/who\"\ncontent = \"/says\"\n");
        let source = Source { mapping: Some(mapping(&text)), ..Source::new("d/x.jsonl", "mapping") };
        let mut sink = Sink::new(&source);
        let mut lines = Box::<lines::Lines>::default();
        for line in [
            r#"{"who":"user","says":"Go on, a."}"#,
            r#"{"session":"a","who":"user","says":"Go, a."}"#,
            r#"{"session":7,"who":"user","says":"Go, 7."}"#,
            r#"{"session":"a","who":"bot","says":"Done, a."}"#,
            r#"{"who":"user","says":"Thanks, a."}"#,
            r#"{"session":7,"who":"bot","says":"Done, 7."}"#,
        ] {
            lines.value(line.as_bytes()).unwrap();
        }
        lines.finish(&mut sink);
        let runs = sink.trajectories.iter().map(|run| {
            let said: Vec<&str> = run.steps.iter().map(|s| s.text.as_str()).collect();
            format!("{}: {}", run.task_id.as_deref().unwrap(), said.join(" "))
        });
        (runs.collect::<Vec<_>>(), sink.losses.0)
    };
    let (runs, losses) = read("session = \"/session\"");
    assert_eq!(runs, ["a: Go on, a. Go, a. Done, a. Thanks, a.", "7: Go, 7. Done, 7."]);
    assert!(losses.is_empty(), "{losses:?}");
    let (runs, losses) = read("");
    assert_eq!(runs.len(), 1);
    let told = losses.keys().next().unwrap();
    assert!(told.starts_with("file of 2 sessions") && told.contains("`session = \"/session\"`"), "{told}");
}

/// Counts with names of their own, as the whole prompt or without its cached part; what stands around the runs is of all of them.
#[test]
fn parts_of_usage_are_read_by_their_pointers() {
    let read = |usage: &str, log: &str| {
        let text = format!(
            "runs = \"/runs\"\nmessages = \"/turns\"\n[run]\nagent = \"/app\"\ntask = \"/name\"\n[message]\nrole = \"/who\"\ncontent = \"/says\"\n[usage]\n{usage}"
        );
        let source = Source { mapping: Some(mapping(&text)), ..Source::new("d/x.json", "mapping") };
        let mut sink = Sink::new(&source);
        super::read(log.as_bytes(), &mut sink).unwrap();
        sink.trajectories.remove(0)
    };
    let log = r#"{"app":"mine","name":"of all","odd":1,"runs":[{"turns":[{"who":"user","says":"Go."},
        {"who":"bot","says":"Done.","burn":{"in":100,"out":20,"hit":60,"put":5,"think":7,"usd":0.5}}]}]}"#;
    let whole = "input = [\"/none\", \"/burn/in\"]\noutput = \"/burn/out\"\ncached = \"/burn/hit\"\nreasoning = \"/burn/think\"\ncost = \"/burn/usd\"\n";
    crate::logs::formats::reading::fields::take_counts();
    let run = read(whole, log);
    let dropped = crate::logs::formats::reading::fields::take_counts().dropped;
    let left: Vec<&str> =
        dropped.keys().map(|key| key.as_str()).filter(|key| key.contains("mapping")).collect();
    assert_eq!(left, ["mapping.document./name", "mapping.document./odd", "mapping.message./burn/put"]);
    // Who works is said once for all, and no task is that of all runs.
    assert_eq!((run.agent.as_deref(), run.task_id.as_deref()), (Some("mine"), Some("x")));
    let usage = run.steps[1].usage.as_deref().unwrap();
    assert_eq!((usage.input, usage.output, usage.cache_read), (100, Some(20), Some(60)));
    assert_eq!((usage.reasoning, usage.cost), (Some(7), Some(0.5)));
    let parts = "uncached = \"/burn/in\"\ncached = \"/burn/hit\"\ncache_write = \"/burn/put\"\n";
    let usage = read(parts, log).steps[1].usage.as_deref().cloned().unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.cache_write), (165, Some(60), Some(5)));
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
