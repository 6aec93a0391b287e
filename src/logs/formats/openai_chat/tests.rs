//! Tests of `openai_chat`.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::brief as outline;

fn runs(json: &str) -> (Vec<Trajectory>, super::super::Losses) {
    let source = Source::test("d/chat.jsonl", "openai-chat");
    let mut sink = Sink::new(&source);
    read(json.as_bytes(), &mut sink).unwrap();
    (sink.trajectories, sink.losses)
}

/// The losses as `name: count`.
fn told(losses: &super::super::Losses) -> Vec<String> {
    losses.0.iter().map(|(what, n)| format!("{what}: {n}")).collect()
}

#[test]
fn parallel_calls_answered_in_any_order() {
    let json = r#"{"id":7,"model":"m","reward":0.5,"tools":[{"type":"function"}],"messages":[
            {"role":"developer","content":"S"},{"role":"user","content":[{"type":"text","text":"T"}]},
            {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
              {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
              {"id":"b","type":"function","function":{"name":"g","arguments":"{broken"}}]},
            {"role":"tool","tool_call_id":"b","content":"of g"},{"role":"tool","tool_call_id":"a","content":null},
            {"role":"assistant","content":"done","tool_calls":[]}]}"#;
    let (t, _) = runs(json);
    assert_eq!(
        outline(&t[0]),
        [
            "0 tools [{\"type\":\"function\"}]",
            "0 system S",
            "0 message T",
            "1 thought hm",
            "1 action f\n1",
            "1 action g\n{broken",
            "1 observation of g",
            "1 observation ",
            "2 message done"
        ]
    );
    assert_eq!(t[0].steps[6].tool.as_deref(), Some("g"));
    assert_eq!(t[0].steps[7].call_id.as_deref(), Some("a"));
    assert_eq!(
        (t[0].task_id.as_deref(), t[0].reward, t[0].label_source.as_deref()),
        (Some("7"), Some(0.5), Some("log"))
    );
}

/// OpenHands writes the results of models without calls of their own so; SWE-Gym names the model in the run.
#[test]
fn results_in_the_name_of_the_user_are_observations() {
    let json = r#"{"run_id":"gpt-4o_maxiter_30_N_v2.1","instance_id":"a__b-1","messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":"Look.\n<function=execute_bash>\n<parameter=command>\nls\n</parameter>\n</function>"},
            {"role":"user","content":[{"type":"text","text":"EXECUTION RESULT of [execute_bash]:\na b"}]},
            {"role":"assistant","content":"done"},{"role":"user","content":"What is EXECUTION RESULT of [x]: y?"}]}"#;
    let (t, _) = runs(json);
    assert_eq!(
        outline(&t[0]),
        [
            "0 message T",
            "1 thought Look.",
            "1 action execute_bash\nls",
            "1 observation EXECUTION RESULT of [execute_bash]:\na b",
            "2 message done",
            "3 message What is EXECUTION RESULT of [x]: y?"
        ]
    );
    assert_eq!((t[0].task_id.as_deref(), t[0].model.as_deref()), (Some("a__b-1"), Some("gpt-4o")));
    assert!(t[0].steps[3].call_id.is_some() && t[0].steps[3].call_id == t[0].steps[2].call_id);
    for no_call in ["<function=f>", "as in <function=f></function>", "<function=f>x</function>"] {
        let json = format!(r#"{{"messages":[{{"role":"assistant","content":"{no_call}"}}]}}"#);
        assert_eq!(outline(&runs(&json).0[0]), [format!("1 message {no_call}")]);
    }
}

#[test]
fn the_older_function_call_is_matched_by_name() {
    let json = r#"{"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":"","function_call":{"name":"f","arguments":"{}"}},
            {"role":"function","name":"f","content":"r"}]}"#;
    let (t, losses) = runs(json);
    assert_eq!(outline(&t[0])[1..], ["1 action f", "1 observation r"]);
    assert_eq!(t[0].steps[1].call_id, t[0].steps[2].call_id);
    assert_eq!(losses.0.len(), 0);
}

#[test]
fn items_and_lists_of_messages() {
    let source = Source::test("d/chat.jsonl", "openai-chat");
    let mut sink = Sink::new(&source);
    sink.index = Some(1);
    read(br#"{"messages":[{"role":"user","content":"b"}]}"#, &mut sink).unwrap();
    assert_eq!(sink.trajectories[0].task_id.as_deref(), Some("chat-1"));
    let (t, _) = runs(r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#);
    assert_eq!(outline(&t[0]), ["0 message a", "1 message b"]);
}

#[test]
fn blocks_of_the_anthropic_style() {
    let json = r#"{"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"go"},
              {"type":"tool_use","id":"u","name":"Read","input":{"file_path":"/a"}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":[{"type":"text","text":"x"}],"is_error":true},
              {"type":"text","text":"and more"}]}]}"#;
    let (t, _) = runs(json);
    assert_eq!(
        outline(&t[0])[1..],
        ["1 thought hm", "1 thought go", "1 action Read\n/a", "1 observation x", "2 message and more"]
    );
    assert_eq!(t[0].steps[4].is_error, Some(true));
}

#[test]
fn a_call_in_two_styles_is_one_call_and_so_is_its_result() {
    let json = r#"{"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":[{"type":"text","text":"go"},
               {"type":"tool_use","id":"toolu_1","name":"f","input":{"a": 1}},
               {"type":"tool_use","id":"toolu_2","name":"f","input":{"a": 2}}],
             "tool_calls":[{"id":"toolu_2","type":"function","function":{"name":"f","arguments":"{\"a\":2}"}},
               {"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}],
             "function_call":{"name":"f","arguments":"{\"a\":1}"}},
            {"role":"tool","tool_call_id":"call_1","content":"one"},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"one"}]},
               {"type":"tool_result","tool_use_id":"toolu_2","content":"two"}]}]}"#;
    let (t, losses) = runs(json);
    assert_eq!(
        outline(&t[0])[1..],
        ["1 thought go", "1 action f\n1", "1 action f\n2", "1 observation one", "1 observation two"]
    );
    assert_eq!(t[0].steps[2].call_id, t[0].steps[4].call_id);
    assert_eq!(told(&losses), ["call given in two styles merged: 3", "repeated tool result merged: 1"]);
}

#[test]
fn items_among_messages() {
    let json = r#"{"messages":[{"role":"user","content":"Where?"},
            {"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"look it up"}]},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Looking."}]},
            {"type":"function_call","call_id":"c1","name":"find","arguments":"{\"o\": 5}"},
            {"type":"custom_tool_call","call_id":"c2","name":"patch","input":"*** x"},
            {"type":"function_call_output","call_id":"c1","output":"D-19"},
            {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"ok"}]},
            {"type":"web_search_call","id":"ws","status":"completed","action":{"type":"search","query":"q"}},
            {"type":"code_interpreter_call","id":"ci","code":"1+1","outputs":[{"type":"logs","logs":"2"}]},
            {"type":"mcp_approval_request","id":"m","name":"pay","arguments":"{}"},
            {"role":"assistant","content":"In D-19."},{"role":"critic","content":"fine"},
            {"role":"user","content":"Thanks"}]}"#;
    let (t, losses) = runs(json);
    assert_eq!(
        outline(&t[0])[1..],
        [
            "1 thought look it up",
            "1 thought Looking.",
            "1 action find\n5",
            "1 action patch\n*** x",
            "1 observation D-19",
            "1 observation ok",
            "2 action web_search\n{\"type\":\"search\",\"query\":\"q\"}",
            "2 action code_interpreter\n1+1",
            "2 observation [logs] logs: 2",
            "2 observation [mcp_approval_request] pay\n{}",
            "3 message In D-19.",
            "3 observation [critic] fine",
            "4 message Thanks"
        ]
    );
    assert_eq!(
        told(&losses),
        [
            "block without a rule kept as text: logs: 1",
            "call without a result: 1",
            "item without a rule kept as text: mcp_approval_request: 1",
            "message of unknown role kept as text: 1"
        ]
    );
}

#[test]
fn a_request_with_its_response() {
    let json = r#"{"model":"m","instructions":"Be kind.","input":"Hi","output":[
            {"type":"reasoning","summary":[],"encrypted_content":"x"},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}],
            "usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}"#;
    let (t, losses) = runs(json);
    assert_eq!(outline(&t[0]), ["0 system Be kind.", "0 message Hi", "1 message Hello"]);
    let usage = t[0].steps[2].usage.as_deref().unwrap();
    assert_eq!((usage.input, usage.output, usage.cache_read), (9, Some(2), Some(4)));
    assert_eq!(told(&losses), ["encrypted reasoning left out: 1"]);
}

/// From source only: a block or an item stands for all before it, and is sent back in later requests.
#[test]
fn compactions_of_the_provider() {
    let json = r#"{"messages":[{"role":"user","content":"T"},{"role":"assistant","content":"one"},{"role":"user","content":"U"},
            {"role":"assistant","content":[{"type":"compaction","content":"So far."},{"type":"text","text":"two"}],
             "context_management":{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_tool_uses":3,"cleared_input_tokens":900}]}},
            {"role":"user","content":"V"},{"role":"assistant","content":[{"type":"compaction","content":null},{"type":"text","text":"three"}]}]}"#;
    let (t, losses) = runs(json);
    let segments: Vec<String> =
        t[0].steps.iter().map(|s| format!("{} {} {} {}", s.segment, s.turn, s.kind.name(), s.text)).collect();
    assert_eq!(
        segments,
        [
            "0 0 message T",
            "0 1 message one",
            "0 2 message U",
            "1 3 compaction So far.",
            "1 3 message two",
            "1 4 message V",
            "1 4 message three"
        ]
    );
    assert_eq!(
        told(&losses),
        [
            "compaction that failed left out: 1",
            "what went is not told: edit of the prompt (clear_tool_uses_20250919): 1"
        ]
    );
    let items = r#"{"input":[{"role":"user","content":"T"},{"type":"message","role":"assistant","content":"one"},
            {"type":"compaction","id":"cmp","encrypted_content":"x"}],"output":[{"type":"message","role":"assistant","content":"two"}]}"#;
    let (t, losses) = runs(items);
    assert_eq!(outline(&t[0]), ["0 message T", "1 message one", "2 compaction ", "2 message two"]);
    assert_eq!(told(&losses), ["compaction whose text is encrypted: 1"]);
}

#[test]
fn words_under_other_names_are_kept() {
    let json = r#"{"system":"Be kind.","messages":[{"role":"system","content":"Be brief."},
            {"role":"user","parts":[{"text":"Where is it?"}],"model":"m"},
            {"role":"assistant","content":"","tool_call":{"name":"find"}},{"role":"assistant","content":"","model":"m-1"}]}"#;
    let (t, losses) = runs(json);
    assert_eq!(
        outline(&t[0]),
        [
            "0 system Be kind.",
            "0 system Be brief.",
            "0 message [message] parts: [{\"text\":\"Where is it?\"}]",
            "1 action find\n"
        ]
    );
    assert_eq!(
        told(&losses),
        [
            "call without a result: 1",
            "field without a rule kept as text: parts: 1",
            "tool call outside of a list: 1"
        ]
    );
    let (t, _) = runs(&json.replace("Be kind.", "Be brief."));
    assert_eq!(outline(&t[0])[0], "0 system Be brief.");
    assert_eq!(t[0].steps.len(), 3);
}

#[test]
fn tools_of_the_server_stand_inside_of_a_reply() {
    let json = r#"{"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":[{"type":"text","text":"I search."},
               {"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}},
               {"type":"web_search_tool_result","tool_use_id":"s1","content":[
                  {"type":"web_search_result","url":"https://a.b","title":"A","encrypted_content":"zzz"}]},
               {"type":"server_tool_use","id":"s2","name":"web_fetch","input":{"url":"u"}},
               {"type":"web_fetch_tool_result","tool_use_id":"s2","content":{"type":"web_fetch_tool_result_error","error_code":"gone"}},
               {"type":"text","text":"It is A."}]}]}"#;
    let (t, _) = runs(json);
    assert_eq!(
        outline(&t[0])[1..],
        [
            "1 thought I search.",
            "1 action web_search\nq",
            "1 observation [web_search_result] url: https://a.b\ntitle: A",
            "1 action web_fetch\nu",
            "1 observation [web_fetch_tool_result_error] error_code: gone",
            "1 message It is A."
        ]
    );
    assert_eq!(t[0].steps[3].call_id.as_deref(), Some("s1"));
    assert_eq!((t[0].steps[3].is_error, t[0].steps[5].is_error), (None, Some(true)));
}

#[test]
fn labels_and_times_are_null_where_they_are_none() {
    let json = r#"{"reward":"NaN","resolved":"NaN","messages":[{"role":"user","content":"T","timestamp":"0001-01-01T00:00:00Z"}]}"#;
    let (t, losses) = runs(json);
    assert_eq!((t[0].reward, t[0].resolved, t[0].label_source.as_deref()), (None, None, None));
    assert_eq!(t[0].steps[0].time, None);
    assert_eq!(losses.0.len(), 3);
}

#[test]
fn words_beside_others_are_kept() {
    let json = r#"{"messages":[{"role":"user","content":"see","attachments":[{"name":"a","text":"of a"}]},
            {"role":"assistant","content":"x","thinking":"hm","reasoning":"so it is","refusal":"no",
             "provider_specific_fields":{"reasoning":"so it is"},"finish_reason":"stop",
             "tool_call":{"id":"k","name":"f","arguments":"{\"a\":1}"}},
            {"role":"tool","tool_call_id":"k","content":"r","stdout":"s","output":"r","error":"e"},
            {"role":"assistant","content":[{"type":"text","text":"y"}],
             "reasoning_details":[{"type":"reasoning.text","text":"one"},{"type":"reasoning.encrypted","data":"zz"}]}]}"#;
    let (t, losses) = runs(json);
    assert_eq!(
        outline(&t[0]),
        [
            "0 message see\n[message] attachments: [{\"name\":\"a\",\"text\":\"of a\"}]",
            "1 thought hm",
            "1 thought so it is",
            "1 thought x",
            "1 thought no",
            "1 action f\n1",
            "1 observation r\n[message] stdout: s\nerror: e",
            "2 thought one",
            "2 message y"
        ]
    );
    assert_eq!(
        told(&losses),
        [
            "field without a rule kept as text: attachments: 1",
            "field without a rule kept as text: error: 1",
            "field without a rule kept as text: stdout: 1",
            "field without a rule kept as thought: reasoning_details: 1",
            "field without a rule kept as thought: thinking: 1",
            "tool call outside of a list: 1"
        ]
    );
}

#[test]
fn a_reply_that_is_logged_again_is_one() {
    let call = |id: &str| {
        format!(
            r#"{{"role":"assistant","content":"x","tool_calls":[{{"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#
        )
    };
    let result =
        |id: &str, text: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{text}"}}"#);
    let state = |text: &str| format!(r#"{{"role":"assistant","id":"m1","content":"{text}"}}"#);
    let run = |messages: &[String]| {
        let json = format!(r#"[{{"role":"user","content":"T"}},{}]"#, messages.join(","));
        let (t, losses) = runs(&json);
        let told = losses.0.get("reply that is logged again merged").copied().unwrap_or(0);
        (outline(&t[0])[1..].join("; "), told)
    };
    let one = "1 thought x; 1 action f; 1 observation r".to_owned();
    let twice = [call("c"), call("c"), result("c", "r"), result("c", "r")];
    assert_eq!(run(&twice), (one.clone(), 1));
    let after_its_result = [call("c"), result("c", "r"), call("c"), result("c", "r")];
    assert_eq!(run(&after_its_result), (one.clone(), 1));
    assert_eq!(run(&after_its_result[..3]), (one.clone(), 1));
    // An id used again: the second call has a result of its own.
    let polled = [call("c"), result("c", "r"), call("c"), result("c", "done")];
    assert_eq!(run(&polled), (format!("{one}; 2 thought x; 2 action f; 2 observation done"), 0));
    let grown = [state("Hel"), state("Hello"), state("Hello")];
    assert_eq!(run(&grown), ("1 message Hello".to_owned(), 2));
    assert_eq!(run(&[state("a"), call("c"), state("b")]).1, 0);
    // Its calls one by one, each with the id of the message and behind the result of the one before.
    let with_id = |id: &str| call(id).replacen('{', r#"{"id":"m1","#, 1);
    let parts = [with_id("c"), result("c", "r"), with_id("d"), result("d", "s")];
    assert_eq!(run(&parts), (format!("{one}; 1 action f; 1 observation s"), 1));
}

#[test]
fn a_result_after_another_reply_is_new() {
    let json = r#"[{"role":"user","content":"T"},
            {"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c","content":"run"},{"role":"tool","tool_call_id":"c","content":"running"},
            {"role":"assistant","content":"wait"},{"role":"tool","tool_call_id":"c","content":"running, done"}]"#;
    let (t, _) = runs(json);
    assert_eq!(
        outline(&t[0])[1..],
        ["1 action f", "1 observation running", "2 message wait", "2 observation running, done"]
    );
}

#[test]
fn words_of_items_in_other_fields_are_kept() {
    let json = r#"[{"role":"user","content":"T"},{"type":"reasoning","summary":[],"note":"an aside"},
            {"type":"function_call","call_id":"c","name":"f","arguments":"{}","thought":"why"},
            {"type":"function_call_output","call_id":"c","output":"r","stderr":"e"}]"#;
    let (t, losses) = runs(json);
    assert_eq!(
        outline(&t[0])[1..],
        [
            "1 thought why",
            "1 thought [message] note: an aside",
            "1 action f",
            "1 observation r\n[message] stderr: e"
        ]
    );
    assert_eq!(losses.0.len(), 3);
}

#[test]
fn the_output_of_a_response_is_one_reply() {
    let json = r#"{"input":[{"role":"user","content":"T"},{"type":"odd","text":"asked so"}],"output":[
            {"type":"mcp_list_tools","tools":[{"name":"mt"}]},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},
            {"type":"odd","text":"words"},{"role":"assistant","content":"b"},
            {"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"usage":{"input_tokens":5}}"#;
    let (t, _) = runs(json);
    assert_eq!(
        outline(&t[0])[2..],
        [
            "1 thought [mcp_list_tools] tools: [{\"name\":\"mt\"}]",
            "1 thought a",
            "1 thought [odd] text: words",
            "1 thought b",
            "1 action f"
        ]
    );
}

/// mini-swe-agent 2 logs with their own `extra`: the call and the whole reply once more.
#[test]
fn a_reply_logged_whole_beside_itself_says_nothing_new() {
    let json = r#"{"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":"He said \"go\"","tool_calls":[{"id":"c1","type":"function",
               "function":{"name":"bash","arguments":"{\"command\": \"grep \\\"x\\\" f1\"}"}}],
             "extra":{"actions":[{"command":"grep \"x\" f1"}],"response":{"id":"gen-1","choices":[{"message":
               {"content":"He said \"go\"","role":"assistant","tool_calls":[{"id":"c1","type":"function",
               "function":{"name":"bash","arguments":"{\"command\":\"grep \\\"x\\\" f1\"}"}}]}}],"created":1}}},
            {"role":"tool","tool_call_id":"c1","content":"r"},
            {"role":"assistant","content":"{\"answer\": \"a \\\"b\\\"\"}","parsed":{"answer":"a \"b\""}}]}"#;
    let (t, losses) = runs(json);
    assert_eq!(
        outline(&t[0])[1..],
        [
            "1 thought He said \"go\"",
            "1 action bash\ngrep \"x\" f1",
            "1 observation r",
            "2 message {\"answer\": \"a \\\"b\\\"\"}"
        ]
    );
    assert_eq!(losses.0.len(), 0);
}

#[test]
fn an_item_of_a_known_id_is_the_same_item() {
    let reasoning = r#"{"type":"reasoning","id":"rs1","summary":[{"type":"summary_text","text":"hm hm"}]}"#;
    let call = r#"{"type":"function_call","id":"fc1","status":"completed","call_id":"c1","name":"find","arguments":"{}"}"#;
    let output =
        |text: &str| format!(r#"{{"type":"function_call_output","call_id":"c1","output":"{text}"}}"#);
    let said = |id: &str, text: &str| {
        format!(r#"{{"type":"message","role":"assistant","id":"{id}","content":"{text}"}}"#)
    };
    let run = |items: &[&str]| {
        let (t, losses) =
            runs(&format!(r#"{{"input":[{{"role":"user","content":"T"}},{}]}}"#, items.join(",")));
        let told = losses.0.get("item that is logged again merged").copied().unwrap_or(0);
        (outline(&t[0])[1..].join("; "), told)
    };
    let (old, new, end) = (output("D"), output("E"), said("msg1", "fin"));
    let one = "1 thought hm hm; 1 action find; 1 observation D; 2 message fin".to_owned();
    let again = call.replace("completed", "in_progress");
    assert_eq!(run(&[reasoning, call, &old, reasoning, &again, &old, &end]), (one.clone(), 2));
    assert_eq!(run(&[reasoning, call, reasoning, call, &old, &old, &end]), (one.clone(), 2));
    // All of it once more, behind its end.
    assert_eq!(run(&[reasoning, call, &old, &end, reasoning, call, &old, &end]).0, one);
    // Ids that begin anew in each reply: the second call has a result of its own.
    let (steps, told) = run(&[reasoning, call, &old, reasoning, call, &new]);
    assert_eq!(steps.split("; ").filter(|s| s.starts_with('2')).count(), 3);
    assert_eq!(told, 0);
    // An id of several items is none.
    let (wait, other) = (said("m", "wait"), said("m", "so"));
    let user = r#"{"role":"user","content":"?"}"#;
    let many = [wait.as_str(), user, &other, user, &other];
    assert_eq!(run(&many).0, "1 message wait; 2 message ?; 2 message so; 3 message ?; 3 message so");
    let fake = said(super::chat::NO_ID, "wait");
    assert_eq!(run(&[&fake, user, &fake]).0, "1 message wait; 2 message ?; 2 message wait");
}

#[test]
fn a_repeat_is_one_until_something_else_stood_between() {
    let call = |calls: &[&str]| {
        let calls: Vec<String> = calls
            .iter()
            .map(|id| format!(r#"{{"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}}}"#))
            .collect();
        format!(r#"{{"role":"assistant","content":"x","tool_calls":[{}]}}"#, calls.join(","))
    };
    let result = |id: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"r{id}"}}"#);
    let n_turns = |messages: &[String]| {
        let (t, _) = runs(&format!(r#"[{{"role":"user","content":"T"}},{}]"#, messages.join(",")));
        t[0].steps.last().unwrap().turn
    };
    let (a, b) = (call(&["a"]), call(&["b"]));
    assert_eq!(n_turns(&[a.clone(), result("a"), a.clone(), result("a")]), 1);
    assert_eq!(n_turns(&[a.clone(), result("a"), b, result("b"), a.clone(), result("a")]), 3);
    assert_eq!(n_turns(&[a.clone(), result("a"), result("z"), a, result("a")]), 2);
    // The repeat stands between the results of one reply.
    let both = call(&["a", "b"]);
    assert_eq!(n_turns(&[both.clone(), result("a"), both, result("b")]), 1);
}
