//! Samples of Inspect with and without calls, in a pool and in line.

use super::*;
use crate::logs::formats::Source;
use crate::logs::formats::reading::testing::resized;
use crate::trajectory::Trajectory;

const HEADER: &str = r#"{"version":2,"status":"success","eval":{"task":"t","model":"p/m"},
    "plan":{"steps":[{"solver":"system_message"},{"solver":"basic_agent"}]},"samples":[]}"#;

fn runs(sample: &str) -> (Vec<Trajectory>, Vec<String>) {
    let source = Source::test("x.json", "inspect-json");
    let mut sink = Sink::new(&source);
    open(HEADER.as_bytes()).unwrap().run(sample.as_bytes(), &mut sink).unwrap();
    let told = sink.losses.0.iter().map(|(what, n)| format!("{what}: {n}")).collect();
    (sink.trajectories, told)
}

fn outline(t: &Trajectory) -> Vec<String> {
    let edit = |s: &crate::trajectory::Step| {
        s.edit.as_ref().map_or(String::new(), |e| format!(" -> {} {}", e.from, e.text))
    };
    t.steps.iter().map(|s| format!("{} {} {}{}", s.turn, s.kind.name(), s.text, edit(s))).collect()
}

#[test]
fn a_sample_without_calls_is_read_from_its_messages() {
    let (t, told) = runs(
        r#"{"id":3,"epoch":1,"messages":[{"role":"system","content":"attachment://aa"},{"role":"user","content":"Q"},
        {"role":"assistant","content":[{"type":"reasoning","reasoning":"hm","redacted":false},{"type":"text","text":"A"}]},
        {"role":"user","content":"attachment://none"},7],
        "attachments":{"aa":"Be \"kind\"."},"scores":{"match":{"value":"P"},"other":{"value":1}},"limit":{"type":"token"}}"#,
    );
    assert_eq!(
        outline(&t[0]),
        [
            "0 system Be \"kind\".",
            "0 message Q",
            "1 thought hm",
            "1 message A",
            "2 message attachment://none"
        ]
    );
    assert_eq!(
        (t[0].reward, t[0].resolved, t[0].outcome.as_deref()),
        (Some(0.5), None, Some("limit: token"))
    );
    assert_eq!((t[0].task_id.as_deref(), t[0].agent.as_deref()), (Some("t/3"), Some("basic_agent")));
    assert_eq!(
        told,
        [
            "attachment that is not in the log: 1",
            "part of a sample that cannot be read left out: 1",
            "score of another scorer left out: 1"
        ]
    );
}

#[test]
fn prompts_of_a_pool_with_an_edit_a_scorer_and_another_agent() {
    let call = r#"{"id":"c","function":"bash","arguments":{"cmd":"ls"},"type":"function"}"#;
    let pool = format!(
        r#"[{{"id":"1","role":"user","content":"Q"}},{{"id":"2","role":"assistant","content":"go","tool_calls":[{call}]}},
        {{"id":"3","role":"tool","content":"attachment://aa","tool_call_id":"c","function":"bash"}},
        {{"id":"4","role":"assistant","content":"more"}},{{"id":"5","role":"user","content":"on"}},
        {{"id":"6","role":"tool","content":"cut","tool_call_id":"c","function":"bash"}},
        {{"id":"7","role":"user","content":"Sub"}}]"#
    );
    let event = |refs: &str, rest: &str, message: &str| {
        format!(
            r#"{{"event":"model","span_id":"s","input":[],"input_refs":{refs},{rest}"tools":[{{"name":"bash"}}],
            "output":{{"model":"m","choices":[{{"message":{message}}}],
              "usage":{{"input_tokens":5,"output_tokens":7,"total_tokens":42,"input_tokens_cache_read":30}}}}}}"#
        )
    };
    let events = [
        r#"{"event":"span_begin","id":"p","type":"scorers"}"#.to_owned(),
        r#"{"event":"span_begin","id":"q","parent_id":"p","type":"x"}"#.to_owned(),
        event(
            "[[0,1]]",
            "",
            &format!(r#"{{"id":"2","role":"assistant","content":"go","tool_calls":[{call}]}}"#),
        ),
        r#"{"event":"tool","result":{"a":1},"input":"x"}"#.to_owned(),
        event("[[0,3]]", "", r#"{"id":"4","role":"assistant","content":"more"}"#),
        event("[[6,7]]", "", r#"{"id":"8","role":"assistant","content":"sub"}"#),
        event("[[0,2],[5,6],[3,5]]", "", r#"{"id":"9","role":"assistant","content":"done"}"#),
        event("[[0,99999999999999]]", r#""role":"grader","#, r#"{"role":"assistant","content":"C"}"#),
    ];
    let events = [
        events.join(","),
        event("[[0,1]]", "", r#"{"role":"assistant","content":"x"}"#).replace("\"s\"", "\"q\""),
    ];
    let (t, told) = runs(&format!(
        r#"{{"id":"1","events":[{}],"message_pool":{pool},"attachments":{{"aa":"a.py"}},"scores":{{"m":{{"value":true}}}},
        "messages":[{{"role":"user","content":"Q"}},{{"role":"assistant","content":"done"}},{{"role":"user","content":"on"}}]}}"#,
        events.join(",")
    ));
    assert_eq!(
        outline(&t[0]),
        [
            "0 tools [{\"name\":\"bash\"}]",
            "0 message Q",
            "1 thought go",
            "1 action bash\nls",
            "1 observation a.py -> 3 cut",
            "2 message more",
            "3 message on",
            "3 message done",
            "4 message on"
        ]
    );
    let usage: Vec<u64> = t[0].steps.iter().filter_map(|s| Some(s.usage.as_ref()?.input)).collect();
    assert_eq!((usage, t[0].resolved), (vec![35, 35, 35], Some(true)));
    assert_eq!(outline(&t[1])[1..], ["0 message Sub", "1 message sub"]);
    assert_eq!(t[1].parent.as_deref(), Some("t/1"));
    assert_eq!(told, ["call of a scorer left out: 2"]);
}

/// The product asks for a summary with the whole past; that call is none of the agent's, and its text stands in the next prompt.
#[test]
fn the_call_of_a_summariser_is_no_turn() {
    let pool = r#"[{"id":"0","role":"system","content":"S"},{"id":"1","role":"user","content":"Q"},{"id":"2","role":"assistant","content":"go"},
        {"id":"6","role":"user","content":"A result."},
        {"id":"3","role":"user","content":"Write a summary."},{"id":"4","role":"user","content":"Summary: go was said."}]"#;
    let call = |refs: &str, says: &str| {
        format!(
            r#"{{"event":"model","span_id":"s","input":[],"input_refs":{refs},
            "output":{{"model":"m","choices":[{{"message":{{"role":"assistant","content":"{says}"}}}}],"usage":{{"input_tokens":9,"output_tokens":2}}}}}}"#
        )
    };
    let events = [
        call("[[0,2]]", "go"),
        call("[[0,5]]", "go was said."),
        r#"{"event":"compaction","span_id":"s","type":"summary","tokens_before":900,"tokens_after":60}"#
            .to_owned(),
        call("[[0,2],[5,6]]", "on"),
    ];
    let (t, told) = runs(&format!(
        r#"{{"id":"1","events":[{}],"message_pool":{pool},"messages":[{{"role":"user","content":"Q"}}]}}"#,
        events.join(",")
    ));
    // What was said since the last call of the agent stands in the prompt for the summary alone.
    assert_eq!(
        outline(&t[0]),
        [
            "0 system S",
            "0 message Q",
            "1 message go",
            "2 message A result.",
            "3 compaction Summary: go was said.",
            "3 message on"
        ]
    );
    assert_eq!(t[0].steps[4].usage.as_ref().map(|usage| usage.input), Some(9));
    assert_eq!(resized(&t[0]), [(4, Some(900), Some(60))]);
    assert_eq!(
        (t.len(), told),
        (1, vec!["call of a summariser left out, whose text stands in the next prompt: 1".to_owned()])
    );
}
