//! Tests of `mini_swe_agent`.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::brief as outline;

fn run(json: &str) -> (Trajectory, super::super::Losses) {
    let source = Source::test("run/a__b-1.traj.json", "mini-swe-agent");
    let mut sink = Sink::new(&source);
    read(json.as_bytes(), &mut sink).unwrap();
    (sink.trajectories.remove(0), sink.losses)
}

#[test]
fn tool_calls() {
    let json = r#"{"info":{"exit_status":"Submitted","config":{"model":{"model_name":"m"}}},"messages":[
            {"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"think","tool_calls":[{"id":"c1","index":0,"function":{"name":"bash","arguments":"{\"command\": \"ls\"}"},"type":"function"}],
             "function_call":null,"extra":{"response":{"choices":["again"]},"timestamp":2.5}},
            {"role":"tool","content":"<output>a</output>","tool_call_id":"c1","extra":{"raw_output":"a","returncode":1,"timestamp":3.0}},
            {"role":"exit","content":"diff","extra":{}}],
            "trajectory_format":"mini-swe-agent-1.1","instance_id":"a__b-1"}"#;
    let (t, losses) = run(json);
    assert_eq!(
        outline(&t)[2..],
        ["1 thought think", "1 action bash\nls", "1 observation <output>a</output>"]
    );
    assert_eq!(t.steps[4].is_error, Some(true));
    assert_eq!(t.steps[2].time, Some(2_500_000));
    assert_eq!((t.model.as_deref(), t.repository.as_deref()), (Some("m"), Some("a/b")));
    assert_eq!(losses.0["exit message (submission) left out"], 1);
}

#[test]
fn bash_blocks_of_the_early_list() {
    let json = r#"[{"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"Look.\n\n```bash\nls\npwd\n```"},{"role":"user","content":"a"},
            {"role":"assistant","content":"no block"},{"role":"user","content":"please"}]"#;
    let (t, _) = run(json);
    assert_eq!(
        outline(&t)[2..],
        [
            "1 thought Look.",
            "1 action ls\npwd",
            "1 observation a",
            "2 message no block",
            "2 observation please"
        ]
    );
    assert_eq!(t.steps[4].call_id.as_deref(), Some("call-1"));
    assert_eq!(t.steps[3].tool.as_deref(), Some("bash"));
}

#[test]
fn fences_by_default_and_by_the_configuration() {
    let first = |logged: Option<&str>, text: &str| {
        fences(logged, &mut Draft::new()).iter().find_map(|fence| split(fence, text))
    };
    let found = Some(("a\nb".to_owned(), "x".to_owned()));
    assert_eq!(first(None, "a\n```bash\nx\n```\nb"), found);
    assert_eq!(first(None, "a\n```mswea_bash_command\nx\n```\nb"), found);
    assert_eq!(first(None, "```bash\nx\n``` ```bash\ny\n```"), None);
    assert_eq!(first(None, "```bash\nx"), None);
    assert_eq!(first(Some("<run>(.*?)</run>"), "a<run>x</run>b"), found);
    // What cannot be used is as if it were not there.
    assert_eq!(first(Some("(?<=x)(y"), "a\n```bash\nx\n```\nb"), found);
}

#[test]
fn commands_in_the_text_of_version_2() {
    let json = r#"{"info":{"model_stats":{"instance_cost":0.5,"api_calls":3},"config":{"model":{"action_regex":"```mswea_bash_command\\s*\\n(.*?)\\n```"}}},"messages":[
            {"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"Look.\n\n```mswea_bash_command\nls\n```","extra":{"actions":[{"command":"ls"}],"cost":0.25,
              "response":{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":5}}}},
            {"role":"user","content":"a","extra":{"returncode":0,"raw_output":"a"}},
            {"role":"assistant","content":"Odd: <x>pwd</x>","extra":{"actions":[{"command":"pwd"}],"response":"repr"}},
            {"role":"user","content":"/","extra":{"returncode":2}},
            {"role":"user","content":"Give one action.","extra":{"interrupt_type":"FormatError","response":{"usage":{"prompt_tokens":9}}}}],
            "trajectory_format":"mini-swe-agent-1.1"}"#;
    let (t, losses) = run(json);
    assert_eq!(
        outline(&t)[2..],
        [
            "1 thought Look.",
            "1 action ls",
            "1 observation a",
            "2 thought Odd: <x>pwd</x>",
            "2 action pwd",
            "2 observation /",
            "2 observation Give one action."
        ]
    );
    assert_eq!(
        t.steps[2].usage.as_ref().map(|u| (u.input, u.output, u.cost)),
        Some((50, Some(5), Some(0.25)))
    );
    assert_eq!(t.cost, Some(0.5));
    let errors: Vec<Option<bool>> = t.steps[4..].iter().map(|s| s.is_error).collect();
    assert_eq!(errors, [Some(false), None, None, Some(true), Some(true)]);
    assert_eq!(losses.0["reply of a wrong format, which the agent drops, left out"], 1);
}

#[test]
fn what_the_user_does_is_the_users() {
    let json = r#"[{"role":"user","content":"T"},{"role":"assistant","content":"```bash\nrm x\n```"},
            {"role":"user","content":"Rejected: keep x","extra":{"interrupt_type":"UserRejection"}},
            {"role":"user","content":"User command: ls","extra":{"actions":[{"command":"ls"}]}},
            {"role":"user","content":"x","extra":{"returncode":0}},
            {"role":"user","content":"Now y","extra":{"interrupt_type":"UserNewTask"}}]"#;
    let (t, _) = run(json);
    let roles: Vec<String> =
        t.steps.iter().map(|s| format!("{} {} {}", s.role.name(), s.kind.name(), s.text)).collect();
    assert_eq!(
        roles[1..],
        [
            "agent action rm x",
            "user observation Rejected: keep x",
            "user message User command: ls",
            "tool observation x",
            "user message Now y"
        ]
    );
    assert_eq!(t.steps[1].call_id, t.steps[2].call_id);
}

#[test]
fn the_output_of_a_users_first_command_is_no_statement_of_the_user() {
    let command = r#"{"role":"user","content":"ls it","extra":{"actions":[{"command":"ls"}]}}"#;
    for extra in [r#","extra":{"returncode":0}"#, ""] {
        let json = format!(
            r#"[{{"role":"user","content":"T"}},{command},{{"role":"user","content":"a"{extra}}},{{"role":"user","content":"Now"}}]"#
        );
        let (t, _) = run(&json);
        let roles: Vec<String> = t.steps.iter().map(|s| format!("{} {}", s.role.name(), s.text)).collect();
        assert_eq!(roles, ["user T", "user ls it", "tool a", "user Now"]);
    }
}

#[test]
fn replies_of_the_responses_api() {
    let json = r#"{"info":{"mini_version":"2"},"messages":[{"role":"system","content":"S"},{"role":"user","content":"T"},
            {"object":"response","id":"r","status":"completed","usage":{"input_tokens":70,"output_tokens":7},"output":[
              {"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},
              {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Look."}]},
              {"type":"function_call","call_id":"c1","name":"bash","arguments":"{\"command\":\"ls\"}"},
              {"type":"function_call","call_id":"c2","name":"bash","arguments":"{\"command\":\"pwd\"}"}],
             "extra":{"actions":[{"command":"ls","tool_call_id":"c1"},{"command":"pwd","tool_call_id":"c2"}],"timestamp":2.0}},
            {"type":"function_call_output","call_id":"c1","output":"a","extra":{"returncode":0,"timestamp":3.0}},
            {"type":"function_call_output","call_id":"c2","output":"/","extra":{"returncode":1}},
            {"type":"message","role":"user","content":[{"type":"input_text","text":"No calls."}],"extra":{"interrupt_type":"FormatError"}},
            {"role":"exit","content":"d"}],"trajectory_format":"mini-swe-agent-1.1"}"#;
    let (t, losses) = run(json);
    assert_eq!(
        outline(&t)[2..],
        [
            "1 thought hm",
            "1 thought Look.",
            "1 action bash\nls",
            "1 action bash\npwd",
            "1 observation a",
            "1 observation /",
            "1 observation No calls."
        ]
    );
    assert_eq!(t.steps[2].usage.as_ref().map(|u| u.input), Some(70));
    assert_eq!((t.steps[6].is_error, t.steps[6].time), (Some(false), Some(3_000_000)));
    assert_eq!(t.steps[7].call_id.as_deref(), Some("c2"));
    assert_eq!(losses.0["reply of a wrong format, which the agent drops, left out"], 1);
}

#[test]
fn words_and_calls_in_other_fields() {
    let json = r#"{"info":{},"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":"","extra":{"actions":[{"action":"finish","tool":"submit"}]}},
            {"role":"assistant","content":null,"function_call":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},
            {"role":"user","content":"o","note":"of the harness"},{"role":"assistant","content":"","refusal":"no"},
            {"role":"assistant","content":"Go\n```bash\npwd\n```","thinking_blocks":[{"type":"thinking","thinking":"deep"}],
             "extra":{"actions":[{"command":"pwd"}]}}],
            "trajectory_format":"mini-swe-agent-1.1","instance_id":"a__b-1"}"#;
    let (t, losses) = run(json);
    assert_eq!(
        outline(&t)[1..],
        [
            "1 message [message] action: {\"action\":\"finish\",\"tool\":\"submit\"}",
            "2 action bash\nls",
            "2 observation o\n[message] note: of the harness",
            "3 message no",
            "4 thought deep",
            "4 thought Go",
            "4 action pwd"
        ]
    );
    let told: Vec<&str> = losses.0.keys().map(String::as_str).collect();
    assert_eq!(
        told,
        [
            "call without a result",
            "field without a rule kept as text: action",
            "field without a rule kept as text: note",
            "field without a rule kept as thought: thinking_blocks"
        ]
    );
}

#[test]
fn a_call_in_two_styles_is_one_call() {
    let json = r#"{"info":{},"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":[{"type":"text","text":"hi"},
               {"type":"tool_use","id":"c","name":"bash","input":{"command":"ls"}}],
             "tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}],
             "extra":{"actions":[{"command":"ls","tool_call_id":"c"}]}},
            {"role":"tool","tool_call_id":"c","content":"o"}],"trajectory_format":"mini-swe-agent-1.1"}"#;
    let (t, losses) = run(json);
    assert_eq!(outline(&t)[1..], ["1 thought hi", "1 action bash\nls", "1 observation o"]);
    assert_eq!(losses.0["call given in two styles merged"], 1);
}

#[test]
fn a_reply_that_is_logged_again_is_one() {
    let run = |messages: &[&str]| {
        let json = format!(
            r#"{{"info":{{}},"messages":[{{"role":"user","content":"T"}},{}],"trajectory_format":"mini-swe-agent-1.1"}}"#,
            messages.join(",")
        );
        let (t, losses) = run(&json);
        let told = ["reply", "item"].map(|what| format!("{what} that is logged again merged"));
        let n: u64 = told.iter().filter_map(|what| losses.0.get(what)).sum();
        let usage: u64 = t.steps.iter().filter_map(|s| s.usage.as_ref().map(|u| u.input)).sum();
        (outline(&t)[1..].join("; "), n, usage)
    };
    let call = r#"{"role":"assistant","content":"go","tool_calls":[{"id":"c1","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}],
            "extra":{"actions":[{"command":"ls","tool_call_id":"c1"}],"response":{"usage":{"prompt_tokens":10,"completion_tokens":2}}}}"#;
    let result = |text: &str| format!(r#"{{"role":"tool","tool_call_id":"c1","content":"{text}"}}"#);
    let (result, other) = (result("r"), result("done"));
    let one = "1 thought go; 1 action bash\nls; 1 observation r".to_owned();
    assert_eq!(run(&[call, call, &result, &result]), (one.clone(), 1, 10));
    assert_eq!(run(&[call, &result, call, &result]), (one.clone(), 1, 10));
    let polled = format!("{one}; 2 thought go; 2 action bash\nls; 2 observation done");
    assert_eq!(run(&[call, &result, call, &other]), (polled, 0, 20));
    // Commands in the text have no ids: only what stands side by side is the same.
    let text = r#"{"role":"assistant","content":"go\n```bash\nls\n```"}"#;
    let output = r#"{"role":"user","content":"r"}"#;
    let one = "1 thought go; 1 action ls; 1 observation r".to_owned();
    assert_eq!(run(&[text, text, output]), (one.clone(), 1, 0));
    let again = format!("{one}; 2 thought go; 2 action ls; 2 observation r");
    assert_eq!(run(&[text, output, text, output]), (again, 0, 0));
    // Responses, with and without ids of the items.
    for id in ["", r#""id":"fc1","#] {
        let response = format!(
            r#"{{"object":"response","usage":{{"input_tokens":7,"output_tokens":1}},"output":[
                {{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"go"}}]}},
                {{"type":"function_call",{id}"call_id":"c1","name":"bash","arguments":"{{\"command\":\"ls\"}}"}}]}}"#
        );
        let output = r#"{"type":"function_call_output","call_id":"c1","output":"r"}"#;
        let last =
            r#"{"object":"response","output":[{"type":"message","role":"assistant","content":"end"}]}"#;
        let all = "1 thought go; 1 action bash\nls; 1 observation r; 2 message end";
        let twice = run(&[&response, &response, output, last]);
        assert_eq!((twice.0.as_str(), twice.2), (all, 7));
        let (steps, n, usage) = run(&[&response, output, &response, output, last]);
        assert_eq!((steps.as_str(), n, usage), (all, 2, 7));
    }
}
