//! Results, lists of events, delegates and condensations of OpenHands.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::brief as outline;

fn runs(json: &str) -> (Vec<Trajectory>, Losses) {
    let source = Source::test("d/output.jsonl", "openhands");
    let mut sink = Sink::new(&source);
    read(json.as_bytes(), &mut sink).unwrap();
    (sink.trajectories, sink.losses)
}

/// The provider's reply with some calls, as it stands beside each of their events.
fn metadata(response: &str, id: &str, calls: &str) -> String {
    format!(
        r#""tool_call_metadata":{{"function_name":"execute_bash","tool_call_id":"{id}","model_response":{{"id":"{response}","model":"m-1",
        "choices":[{{"message":{{"role":"assistant","content":"I look.","tool_calls":[{calls}]}}}}],
        "usage":{{"prompt_tokens":90,"completion_tokens":7}}}}}}"#
    )
}

fn call(id: &str, command: &str) -> String {
    format!(
        r#"{{"id":"{id}","type":"function","function":{{"name":"execute_bash","arguments":"{{\"command\":\"{command}\"}}"}}}}"#
    )
}

#[test]
fn a_line_of_results() {
    let both = [call("c1", "ls"), call("c2", "pwd")].join(",");
    let (first, second) = (metadata("r1", "c1", &both), metadata("r1", "c2", &both));
    let json = format!(
        r#"{{"instance_id":"owner__name-7","metadata":{{"agent_class":"CodeActAgent","llm_config":{{"model":"x"}}}},"error":null,
        "report":{{"resolved":true}},"metrics":{{"condenser":[]}},"history":[
        {{"id":0,"source":"agent","action":"system","args":{{"content":"Be kind.","tools":[{{"type":"function"}}]}}}},
        {{"id":1,"timestamp":"2026-01-01T00:00:00","source":"user","action":"message","args":{{"content":"Fix it."}}}},
        {{"id":2,"source":"user","action":"recall","args":{{"query":"Fix it."}}}},
        {{"id":3,"source":"environment","observation":"recall","cause":2,"content":"Added","extras":{{"recall_type":"knowledge","repo_name":"",
           "microagent_knowledge":[{{"name":"git","trigger":"git","content":"Use git."}}]}}}},
        {{"id":4,"source":"agent","action":"run",{first},"args":{{"command":"ls","thought":"I look."}}}},
        {{"id":5,"source":"agent","observation":"run","cause":4,{first},"content":"a.py","success":true,"extras":{{"command":"ls","metadata":{{"exit_code":0,"working_dir":"/w"}}}}}},
        {{"id":6,"source":"agent","action":"run",{second},"args":{{"command":"pwd","thought":""}}}},
        {{"id":7,"source":"agent","observation":"error","cause":6,{second},"content":"No."}},
        {{"id":8,"source":"environment","observation":"agent_state_changed","content":"","extras":{{}}}},
        {{"id":9,"source":"user","action":"run","args":{{"command":"make"}}}},
        {{"id":10,"source":"user","observation":"run","cause":9,"content":"ok","extras":{{"exit_code":0}}}},
        {{"id":11,"source":"agent","action":"finish","args":{{"thought":"Done."}}}}]}}"#
    );
    let (t, losses) = runs(&json);
    assert_eq!(
        outline(&t[0]),
        [
            "0 tools [{\"type\":\"function\"}]",
            "0 system Be kind.",
            "0 message Fix it.",
            "0 message git (git): Use git.",
            "1 thought I look.",
            "1 action execute_bash\nls",
            "1 action execute_bash\npwd",
            "1 observation a.py\n[Current working directory: /w]\n[Command finished with exit code 0]",
            "1 observation No.\n[Error occurred in processing last action]",
            "2 message User executed the command:\nmake",
            "2 message Observed result of command executed by user:\nok",
            "2 thought Done.",
            "2 action finish"
        ]
    );
    let errors: Vec<Option<bool>> = t[0].steps[7..9].iter().map(|s| s.is_error).collect();
    assert_eq!(errors, [Some(false), Some(true)]);
    // The usage of a response counts once.
    let usage: Vec<u64> = t[0].steps.iter().filter_map(|s| Some(s.usage.as_ref()?.input)).collect();
    assert_eq!(usage, [90]);
    assert_eq!((t[0].resolved, t[0].model.as_deref()), (Some(true), Some("m-1")));
    assert_eq!(t[0].repository.as_deref(), Some("owner/name"));
    let told: Vec<String> = losses.0.iter().map(|(what, n)| format!("{what}: {n}")).collect();
    assert_eq!(
        told,
        [
            "call without a result: 1",
            "event of the harness left out: agent_state_changed: 1",
            "event of the harness left out: recall: 1",
            "recalled knowledge without the words of its template: 1"
        ]
    );
}

#[test]
fn events_without_ids_and_pairs() {
    let flat = r#"{"issue":{"owner":"o","repo":"r","number":5},"success":true,"git_patch":"","history":[
        {"content":"Fix it.","action":"message","wait_for_response":false},
        {"command":"ls","thought":"I look.","keep_prompt":true,"action":"run","is_confirmed":"confirmed"},
        {"content":"a.py","command_id":-1,"command":"ls","exit_code":0,"observation":"run"},
        {"content":"Done.","action":"message"}]}"#;
    let (t, _) = runs(flat);
    let steps = [
        "0 message Fix it.",
        "1 thought I look.",
        "1 action run\nls",
        "1 observation a.py",
        "2 message Done.",
    ];
    assert_eq!(outline(&t[0]), steps);
    assert_eq!((t[0].task_id.as_deref(), t[0].repository.as_deref()), (Some("o/r#5"), Some("o/r")));
    assert_eq!(t[0].outcome.as_deref(), Some("success"));
    let pairs = r#"{"instance_id":"a__b-1","history":[
        [{"source":"user","action":"message","args":{"content":"Fix it."}},{"observation":"null","content":""}],
        [{"source":"agent","action":"run","args":{"command":"ls","thought":"I look."}},
         {"source":"agent","observation":"run","content":"a.py","extras":{"exit_code":1}}]]}"#;
    let (t, losses) = runs(pairs);
    assert_eq!(outline(&t[0]), steps[..4]);
    assert_eq!(t[0].steps[3].is_error, Some(true));
    assert_eq!(losses.0.len(), 1);
}

#[test]
fn a_delegate_is_a_run_of_its_own() {
    let json = r#"[{"id":0,"source":"user","action":"message","args":{"content":"Look it up."}},
        {"id":1,"source":"agent","action":"delegate","args":{"agent":"Browser","inputs":{"task":"T"},"thought":"I ask."}},
        {"id":2,"source":"agent","action":"browse","args":{"url":"u"}},
        {"id":3,"source":"agent","observation":"browse","cause":2,"content":"page","extras":{"screenshot":"AAAA"}},
        {"id":4,"source":"agent","observation":"delegate","cause":1,"content":"found","extras":{"outputs":{}}},
        {"id":5,"source":"agent","action":"message","args":{"content":"Found."}}]"#;
    let (t, losses) = runs(json);
    assert_eq!(
        outline(&t[0]),
        [
            "0 message Look it up.",
            "1 thought I ask.",
            "1 action delegate\nagent: Browser\ninputs: {\"task\":\"T\"}",
            "1 observation found",
            "2 message Found."
        ]
    );
    assert_eq!(outline(&t[1]), ["1 action browse\nu", "1 observation page"]);
    assert_eq!((t[1].task_id.as_deref(), t[1].parent.as_deref()), (Some("output/Browser-1"), Some("output")));
    assert_eq!(losses, Losses::default());
}

#[test]
fn what_a_condensation_does_not_name_stays() {
    let message = |id: u32, who: &str, text: &str| {
        format!(r#"{{"id":{id},"source":"{who}","action":"message","args":{{"content":"{text}"}}}}"#)
    };
    let condensation = |id: u32, what: &str| {
        format!(r#"{{"id":{id},"source":"agent","action":"condensation","args":{{{what}}}}}"#)
    };
    let events = [
        message(0, "user", "Task."),
        message(1, "agent", "a"),
        message(2, "user", "b"),
        message(3, "agent", "c"),
        condensation(
            4,
            r#""forgotten_events_start_id":1,"forgotten_events_end_id":2,"summary":"S1","summary_offset":1"#,
        ),
        message(5, "agent", "d"),
        condensation(6, r#""forgotten_event_ids":[3,4,4000000000],"summary":null"#),
        message(7, "agent", "e"),
    ];
    let (t, _) = runs(&format!("[{}]", events.join(",")));
    let steps: Vec<String> = t[0]
        .steps
        .iter()
        .map(|s| format!("{} {:?} {} {}", s.segment, s.kept_to, s.kind.name(), s.text))
        .collect();
    assert_eq!(
        steps,
        [
            "0 None message Task.",
            "0 None message a",
            "0 None message b",
            "0 Some(1) message c",
            "1 None compaction S1",
            "1 Some(2) message d",
            "2 None compaction ",
            "2 None message e"
        ]
    );
}
