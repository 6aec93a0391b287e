//! Tests of `sweagent`.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::brief as outline;

fn run(path: &str, json: &str) -> (Trajectory, super::super::Losses) {
    let source = Source::test(path, "sweagent");
    let mut sink = Sink::new(&source);
    read(json.as_bytes(), &mut sink).unwrap();
    (sink.trajectories.remove(0), sink.losses)
}

#[test]
fn text_commands() {
    let json = r#"{"environment":"swe_main","trajectory":[
            {"action":"open a.py","observation":"1:x","response":"Look.\n<command>","thought":"Look.","state":"{}"},
            {"action":"exit_cost","observation":"Exited","response":"Exit due to cost limit","thought":"Exit due to cost limit","state":"{}"}],
            "history":[{"role":"system","content":"S"},{"role":"user","content":"demo","is_demo":true},
              {"role":"assistant","content":"d","is_demo":true},{"role":"user","content":"Fix it."},
              {"role":"assistant","content":"Look."}],
            "info":{"exit_status":"submitted (exit_cost)"}}"#;
    let (t, losses) = run("x/django__django-1.traj", json);
    assert_eq!(
        outline(&t),
        [
            "0 system S",
            "0 demonstration demo",
            "0 demonstration d",
            "0 message Fix it.",
            "1 thought Look.",
            "1 action open a.py",
            "1 observation 1:x"
        ]
    );
    assert_eq!(t.steps[5].tool.as_deref(), Some("open"));
    assert_eq!(t.steps[5].call_id, t.steps[6].call_id);
    assert_eq!(t.repository.as_deref(), Some("django/django"));
    assert_eq!(t.outcome.as_deref(), Some("submitted (exit_cost)"));
    assert_eq!(t.goal.as_deref(), Some("Fix it."));
    assert_eq!(losses.0.len(), 1);
    assert_eq!(losses.0["exit written by the harness left out"], 1);
}

/// What the model got is the history's observation; the bare one stands where the history has none.
#[test]
fn observations_are_as_the_model_got_them() {
    let json = r#"{"trajectory":[
            {"action":"open a.py","observation":"1:x","response":"L","thought":"L","state":"{}"},
            {"action":"ls","observation":"a.py","response":"L","thought":"L","state":"{}"},
            {"action":"cat b","observation":"gone","response":"L","thought":"L","state":"{}"},
            {"action":"submit","observation":"diff","response":"L","thought":"L","state":"{}"}],
            "history":[{"role":"user","content":"T"},
              {"role":"assistant","content":"L","action":"open a.py"},
              {"role":"user","content":"1:x\n(Open file: /a.py)\nbash-$"},
              {"role":"assistant","content":"L","action":"ls"},
              {"role":"user","content":"OBSERVATION:\na.py"},{"role":"user","content":"Two turns are left."},
              {"role":"assistant","content":"L","action":"cat b"},
              {"role":"user","content":"No such file."},
              {"role":"assistant","content":"L","action":"submit"}],"info":{}}"#;
    let (t, losses) = run("a__b-1.traj", json);
    let seen: Vec<&str> = t.steps.iter().filter(|s| s.kind == Kind::Observation).map(|s| &*s.text).collect();
    let all = [
        "1:x\n(Open file: /a.py)\nbash-$",
        "OBSERVATION:\na.py\nTwo turns are left.",
        "No such file.",
        "diff",
    ];
    assert_eq!(seen, all);
    assert_eq!(losses.0["observation that the history words otherwise, taken from there"], 1);
}

#[test]
fn tool_calls_come_from_the_history() {
    let json = r#"{"trajectory":[{"action":"ls /x","observation":"a","response":"L","thought":"L","state":{},
              "query":[{"role":"system","content":"copied"}]}],
            "history":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"T"}]},
              {"role":"assistant","content":"L","action":"ls /x","tool_calls":[{"function":{"name":"bash","arguments":"{\"command\":\"ls /x\"}"},"id":"t1"}]}],
            "info":{"swe_agent_version":"1.0.1"}}"#;
    let (t, _) = run("r__r.acb0f10f.pr_1.traj", json);
    assert_eq!(outline(&t)[2..], ["1 thought L", "1 action bash\nls /x", "1 observation a"]);
    assert_eq!(t.steps[4].call_id.as_deref(), Some("t1"));
    assert_eq!(t.steps[3].arguments.as_deref(), Some("{\"command\":\"ls /x\"}"));
}

/// A run of steps with these commands, and a history with those.
fn with_history(actions: &[&str], entries: &[&str]) -> (Trajectory, super::super::Losses) {
    let steps: Vec<_> = actions
        .iter()
        .map(|a| serde_json::json!({"action": a, "observation": "o", "response": "r", "thought": "t"}))
        .collect();
    let mut history =
        vec![serde_json::json!({"role": "user", "content": "T", "message_type": "observation"})];
    for (i, action) in entries.iter().enumerate() {
        let call =
            serde_json::json!({"id": format!("t{i}"), "function": {"name": "bash", "arguments": "{}"}});
        history.push(serde_json::json!({"role": "assistant", "action": action, "tool_calls": [call]}));
        history.push(serde_json::json!({"role": "tool", "content": "o", "tool_call_ids": [format!("t{i}")]}));
    }
    run("a__b-1.traj", &serde_json::json!({"trajectory": steps, "history": history, "info": {}}).to_string())
}

#[test]
fn an_entry_that_does_not_fit_costs_only_its_own_call() {
    let ids = |t: &Trajectory| -> Vec<String> {
        let actions = t.steps.iter().filter(|s| s.kind == Kind::Action);
        actions.map(|s| s.call_id.as_deref().unwrap().to_owned()).collect()
    };
    let told = "step without its entry in the history, told by its command only";
    let (t, losses) = with_history(&["a", "b", "c"], &["a", "b", "c"]);
    assert_eq!((ids(&t), losses.0.get(told)), (vec!["t0".into(), "t1".into(), "t2".into()], None));
    let (t, losses) = with_history(&["a", "b", "c"], &["a", " b\n", "c"]);
    assert_eq!((ids(&t), losses.0[told]), (vec!["t0".into(), "call-2".into(), "t2".into()], 1));
    let (t, losses) = with_history(&["a", "b", "c", "a"], &["a", "x", "c", "a"]);
    assert_eq!(ids(&t), ["t0", "call-2", "t2", "t3"]);
    assert_eq!(losses.0[told], 1);
    let (t, losses) = with_history(&["a", "b", "c"], &["a", "c"]);
    assert_eq!((ids(&t), losses.0[told]), (vec!["t0".into(), "call-2".into(), "t1".into()], 1));
    let (t, losses) = with_history(&["a", "b"], &["x", "y", "a", "b"]);
    assert_eq!(ids(&t), ["t2", "t3"]);
    assert_eq!(losses.0["reply in the history without its step left out"], 2);
}

#[test]
fn attempts_of_the_retry_agent() {
    let attempt = |action: &str| {
        format!(
            r#"{{"trajectory":[{{"action":"{action}","observation":"o","response":"r","thought":"t"}}],
                "history":[{{"role":"user","content":"T"}}],"info":{{"model_stats":{{"tokens_sent":7,"api_calls":1,"instance_cost":0.5}}}}}}"#
        )
    };
    let attempts = format!(r#"{{"attempts":[{},{},7]}}"#, attempt("a"), attempt("b"));
    let source = Source::test("a__b-1.traj", "sweagent");
    let mut sink = Sink::new(&source);
    read(attempts.as_bytes(), &mut sink).unwrap();
    let tasks: Vec<_> = sink.trajectories.iter().map(|t| t.task_id.clone().unwrap()).collect();
    assert_eq!(tasks, ["a__b-1-attempt-1", "a__b-1-attempt-2"]);
    let first = &sink.trajectories[0];
    assert_eq!((first.repository.as_deref(), first.tokens_sent), (Some("a/b"), Some(7)));
    assert_eq!(first.cost, Some(0.5));
    assert_eq!(sink.rejects.iter().map(|r| r.0).collect::<Vec<_>>(), [attempts.find(",7]").unwrap() + 1]);
    // One was chosen: it is the run, and the counts of all are not its own.
    let chosen = attempt("b").replacen('{', &attempts.replace("]}", "],").replacen(",7]", "]", 1), 1);
    let (t, losses) = run("a__b-1.traj", &chosen);
    assert_eq!((t.task_id.as_deref(), t.tokens_sent), (Some("a__b-1"), None));
    assert_eq!(losses.0["attempt that was not chosen left out"], 1);
}

#[test]
fn odd_entries_of_a_history_are_told_once() {
    let json = r#"{"history":[null,{"role":"user","content":"T"},{"role":"assistant","content":"t","action":"ls"}]}"#;
    let source = Source::test("demo.traj", "sweagent");
    let mut sink = Sink::new(&source);
    crate::logs::formats::read_repaired(json.as_bytes(), &mut sink, read);
    assert_eq!(sink.trajectories.len(), 1);
    assert_eq!(sink.losses.0["list item of the wrong type left out"], 1);
}

#[test]
fn a_demonstration_of_history_alone() {
    let json = r#"{"history":[{"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"t","thought":"t","action":"find_file a","agent":"main",
             "tool_calls":[{"function":{"name":"find_file","arguments":"{\"file_name\":\"a\"}"},"id":"c1"}]},
            {"role":"tool","content":"found","tool_call_ids":["c1"]}]}"#;
    let (t, _) = run("demo.traj", json);
    assert_eq!(outline(&t)[2..], ["1 thought t", "1 action find_file\na", "1 observation found"]);
    assert_eq!(t.steps[4].tool.as_deref(), Some("find_file"));
}

#[test]
fn a_call_logged_twice_is_one_and_demonstrations_are_told_by_text_too() {
    let json = r#"{"environment":"swe","trajectory":[{"action":"ls","observation":"o","thought":"t","response":"t"}],
            "history":[{"role":"system","content":"S"},{"role":"user","content":"demo","is_demo":"True"},
              {"role":"user","content":"T","is_demo":"False"},
              {"role":"assistant","content":"t","action":"ls","tool_calls":[
                {"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\": \"ls\"}"}},
                {"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]},
              {"role":"tool","content":"o","tool_call_ids":["c"]}],"info":{}}"#;
    let (t, losses) = run("x/a__b-1.traj", json);
    assert_eq!(
        outline(&t)[1..],
        ["0 demonstration demo", "0 message T", "1 thought t", "1 action bash\nls", "1 observation o"]
    );
    assert_eq!(losses.0.into_iter().collect::<Vec<_>>(), [("repeated call merged".to_owned(), 1)]);
}

/// A run of the same command six times; the history has entries of those steps, with or without tool calls.
fn repeated(entries: &[usize], leaves_answers: bool, has_calls: bool) -> (Vec<String>, Vec<String>, u64) {
    let step = |i: usize| serde_json::json!({"action": "ls", "observation": format!("[lines {i}]"), "thought": "t", "response": "t"});
    let mut history = vec![serde_json::json!({"role": "user", "content": "T"})];
    for i in 0..6 {
        let mut reply =
            serde_json::json!({"role": "assistant", "content": "t", "thought": "t", "action": "ls"});
        if has_calls {
            reply["tool_calls"] =
                serde_json::json!([{"id": format!("k{i}"), "function": {"name": "bash", "arguments": "{}"}}]);
        }
        let is_there = entries.contains(&i);
        history.extend(is_there.then_some(reply));
        let answer = serde_json::json!({"role": "user", "content": format!("[lines {i}]\n(Open file: a)")});
        history.extend((is_there || leaves_answers).then_some(answer));
    }
    let steps: Vec<_> = (0..6).map(step).collect();
    let json = serde_json::json!({"trajectory": steps, "history": history, "info": {}}).to_string();
    let (t, losses) = run("a__b-1.traj", &json);
    let seen = t.steps.iter().filter(|s| s.kind == Kind::Observation).map(|s| s.text.replace('\n', " "));
    let ids = t
        .steps
        .iter()
        .filter(|s| s.kind == Kind::Action)
        .map(|s| s.call_id.as_deref().unwrap().to_owned())
        .collect();
    let told = "step without its entry in the history, told by its command only";
    (seen.collect(), ids, losses.0.get(told).copied().unwrap_or(0))
}

#[test]
fn a_missing_entry_among_equal_commands_costs_only_itself() {
    for missing in 0..6 {
        let entries: Vec<usize> = (0..6).filter(|i| *i != missing).collect();
        for has_calls in [false, true] {
            let (seen, ids, told) = repeated(&entries, false, has_calls);
            for i in 0..6 {
                let bare = format!("[lines {i}]");
                let whole = format!("{bare} (Open file: a)");
                assert_eq!(seen[i], if i == missing { bare } else { whole }, "{missing}");
                if has_calls {
                    let id = if i == missing { format!("call-{}", i + 1) } else { format!("k{i}") };
                    assert_eq!(ids[i], id, "{missing}");
                }
            }
            assert_eq!(told, u64::from(has_calls));
        }
    }
    // Replies that are missing leave their answers to their own steps.
    let (seen, ids, told) = repeated(&[0, 3, 4, 5], true, true);
    let all: Vec<String> = (0..6).map(|i| format!("[lines {i}] (Open file: a)")).collect();
    assert_eq!((seen, told), (all, 2));
    assert_eq!(ids, ["k0", "call-2", "call-3", "k3", "k4", "k5"]);
}

#[test]
fn words_in_fields_without_a_rule_are_kept_and_told() {
    let json = r#"{"trajectory":[{"action":"ls","observation":"a","thought":"t0","response":"t0","state":"{\"a\": \"b c\"}",
              "query":[{"role":"user","content":"T once more"}],"reasoning":"deep words"},
              {"action":"","observation":"","thought":"bye","response":"bye"}],
            "history":[{"role":"system","content":"S","note":"an aside"},{"role":"user","content":"T"},
              {"role":"assistant","content":"t0","action":"ls","thought":"t0","reasoning_content":"deep words",
               "thinking_blocks":[{"type":"thinking","thinking":"block words","signature":"s s"}],"parsed":{"command":"ls -a \"x\""},
               "tool_calls":[{"id":"k","function":{"name":"bash","arguments":"{\"command\":\"ls -a \\\"x\\\"\"}"}}]},
              {"role":"tool","content":"a","tool_call_ids":["k"],"stderr":"warned"}],"info":{"swe_agent_version":"1"}}"#;
    let (t, losses) = run("a__b-1.traj", json);
    assert_eq!(
        outline(&t),
        [
            "0 system S\n[message] note: an aside",
            "0 message T",
            "1 thought deep words",
            "1 thought block words",
            "1 thought t0",
            "1 action bash\nls -a \"x\"",
            "1 observation a\n[message] stderr: warned",
            "2 message bye"
        ]
    );
    let told: Vec<&str> = losses.0.keys().map(String::as_str).collect();
    assert_eq!(
        told,
        [
            "field without a rule kept as text: note",
            "field without a rule kept as text: stderr",
            "field without a rule kept as thought: reasoning",
            "field without a rule kept as thought: thinking_blocks",
            "step without its entry in the history, told by its command only"
        ]
    );
    // The same where there is only the history.
    let (start, end) = (json.find("\"history\"").unwrap(), json.find(",\"info\"").unwrap());
    let (t, _) = run("demo.traj", &format!("{{{}}}", &json[start..end]));
    assert_eq!(outline(&t)[2..5], ["1 thought deep words", "1 thought block words", "1 thought t0"]);
}
