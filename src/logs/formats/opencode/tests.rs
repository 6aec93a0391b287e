//! Sessions of opencode in all forms.

use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::{File, Reading, Sink, Source, find};
use crate::trajectory::Trajectory;

fn outline(t: &Trajectory) -> Vec<String> {
    let line = |s: &crate::trajectory::Step| {
        let edit = s.edit.as_ref().map_or(String::new(), |e| format!(" [{} from {}]", e.text, e.from));
        let kept = s.kept_to.map_or(String::new(), |to| format!(" kept to {to}"));
        format!("{} {} {} {}{edit}{kept}", s.turn, s.role.name(), s.kind.name(), s.text)
    };
    t.steps.iter().map(line).collect()
}

fn read_value(format: &'static str, json: &str) -> (Vec<Trajectory>, Losses) {
    let source = Source::test("d/s.json", format);
    let mut sink = Sink::new(&source);
    match find(format).unwrap().reading {
        Reading::Database { read, .. } | Reading::Values(read) => read(json.as_bytes(), &mut sink).unwrap(),
        Reading::Session { open, .. } => {
            let mut session = open();
            json.lines().for_each(|line| session.value(line.as_bytes()).unwrap());
            session.finish(&mut sink);
        }
        _ => panic!("{format}"),
    }
    (sink.trajectories, sink.losses)
}

const EXPORT: &str = r#"{"info":{"id":"ses_1","parentID":"ses_0","directory":"/w/app"},"messages":[
{"info":{"id":"msg_1","role":"user","time":{"created":1700000000000}},"parts":[
 {"id":"prt_1","type":"text","text":"Fix it."},
 {"id":"prt_2","type":"text","text":"Called the Read tool","synthetic":true},
 {"id":"prt_3","type":"text","text":"never sent","ignored":true},
 {"id":"prt_4","type":"file","mime":"image/png","url":"data:image/png;base64,AAAABBBB"}]},
{"info":{"id":"msg_2","role":"assistant","time":{"created":1700000001000},"modelID":"m-1","tokens":{"input":1}},"parts":[
 {"id":"prt_a","type":"step-start"},
 {"id":"prt_b","type":"reasoning","text":"hm"},
 {"id":"prt_c","type":"tool","callID":"c1","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"a b","time":{"end":1700000002000,"compacted":1700000004500}}},
 {"id":"prt_d","type":"tool","callID":"c2","tool":"read","state":{"status":"error","input":{"f":"x"},"error":"none"}},
 {"id":"prt_e","type":"tool","callID":"c3","tool":"web","state":{"status":"running","input":{}}},
 {"id":"prt_f","type":"step-finish","cost":0.5,"tokens":{"input":10,"output":5,"reasoning":2,"cache":{"read":100,"write":3}}}]},
{"info":{"id":"msg_3","role":"assistant","time":{"created":1700000003000},"error":{"name":"APIError"}},"parts":[
 {"id":"prt_x","type":"text","text":"half an answer"}]},
{"info":{"id":"msg_4","role":"user","time":{"created":1700000004000}},"parts":[{"id":"prt_g","type":"text","text":"Go on."}]},
{"info":{"id":"msg_5","role":"assistant","time":{"created":1700000005000},"modelID":"m-2"},"parts":[
 {"id":"prt_h","type":"text","text":"Done."}]},
{"info":{"id":"msg_6","role":"user","time":{"created":1700000006000}},"parts":[
 {"id":"prt_i","type":"compaction","auto":true,"tail_start_id":"msg_4"}]},
{"info":{"id":"msg_7","role":"assistant","parentID":"msg_6","summary":true,"finish":"stop","cost":0.02,"tokens":{"input":90,"output":6,"reasoning":0,"cache":{"read":0,"write":0}},"time":{"created":1700000007000}},"parts":[
 {"id":"prt_j","type":"text","text":"The summary."}]},
{"info":{"id":"msg_8","role":"user","time":{"created":1700000008000}},"parts":[{"id":"prt_k","type":"text","text":"More."}]}]}"#;

const OUTLINE: [&str; 14] = [
    "0 user message Fix it.",
    "0 system message Called the Read tool",
    "0 user message [image image/png 6 bytes]",
    "1 agent thought hm",
    "1 agent action bash\nls",
    "1 agent action read\nx",
    "1 agent action web",
    "1 tool observation a b [[Old tool result content cleared] from 2]",
    "1 tool observation none",
    "1 tool observation [Tool execution was interrupted]",
    "2 user message Go on. kept to 1",
    "2 agent message Done. kept to 1",
    "3 user compaction The summary.",
    "3 user message More.",
];

#[test]
fn an_export_is_what_the_model_was_sent() {
    let (runs, losses) = read_value("opencode-export", EXPORT);
    let t = &runs[0];
    assert_eq!(outline(t), OUTLINE);
    let about = [&t.task_id, &t.parent, &t.repository, &t.model].map(|text| text.as_deref().unwrap());
    assert_eq!(about, ["ses_1", "ses_0", "app", "m-1"]);
    let usage = t.steps[3].usage.as_deref().unwrap();
    assert_eq!((usage.input, usage.output, usage.cache_read), (113, Some(7), Some(100)));
    assert_eq!((usage.reasoning, usage.cost), (Some(2), Some(0.5)));
    assert_eq!(t.steps[11].model.as_deref(), Some("m-2"));
    // Of the call that wrote the summary.
    let usage = t.steps[12].usage.as_deref().unwrap();
    assert_eq!((usage.input, usage.output, usage.cost), (90, Some(6), Some(0.02)));
    let errors: Vec<Option<bool>> = t.steps[7..10].iter().map(|s| s.is_error).collect();
    assert_eq!(errors, [Some(false), Some(true), Some(true)]);
    for loss in ["reply that failed and was not sent again left out", "text that is not sent left out"] {
        assert_eq!(losses.0[loss], 1, "{losses:?}");
    }
}

/// What `opencode run --format json` prints has no words of the user; some pass it on without ids.
#[test]
fn printed_parts_are_replies() {
    let line = |kind: &str, part: &str| {
        format!(r#"{{"type":"{kind}","timestamp":1700000000000,"sessionID":"ses_1","part":{part}}}"#)
    };
    let lines = [
        line("step_start", r#"{"type":"step-start"}"#),
        line("text", r#"{"type":"text","text":"I look."}"#),
        line(
            "tool_use",
            r#"{"type":"tool","callID":"c1","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"a.rs"}}"#,
        ),
        line(
            "step_finish",
            r#"{"type":"step-finish","reason":"tool-calls","tokens":{"input":10,"output":5,"reasoning":0,"cache":{"read":90,"write":0}}}"#,
        ),
        line("step_start", r#"{"type":"step-start"}"#),
        line("text", r#"{"type":"text","text":"Done."}"#),
    ];
    let (runs, _) = crate::logs::formats::reading::testing::read("opencode-events", &lines);
    assert_eq!(
        crate::logs::formats::reading::testing::brief(&runs[0]),
        ["1 thought I look.", "1 action bash\nls", "1 observation a.rs", "2 message Done."]
    );
    assert_eq!(runs[0].steps[0].usage.as_ref().map(|usage| usage.input), Some(100));
    assert_eq!(runs[0].task_id.as_deref(), Some("ses_1"));
}

#[test]
fn exports_in_one_file_are_runs_of_their_own() {
    let (one, _) = crate::logs::formats::reading::testing::read("opencode-export", &[EXPORT]);
    let (two, _) =
        crate::logs::formats::reading::testing::read("opencode-export", &[[EXPORT, EXPORT].join("\n")]);
    let n_steps =
        |runs: &[crate::trajectory::Trajectory]| runs.iter().map(|run| run.steps.len()).collect::<Vec<_>>();
    assert_eq!(n_steps(&two), [n_steps(&one), n_steps(&one)].concat());
}

/// The same session in all forms is the same run.
#[test]
fn rows_events_and_files_are_the_same_run() {
    let export: serde_json::Value = serde_json::from_str(EXPORT).unwrap();
    let id = read_value("opencode-export", EXPORT).0[0].id.clone();
    let (mut messages, mut parts, mut events, mut files) = (vec![], vec![], vec![], vec![]);
    let mut event = |kind: &str, data: serde_json::Value| {
        events.push(
            serde_json::json!({"aggregate_id": "ses_1", "seq": 1, "type": kind, "data": data}).to_string(),
        );
    };
    let mut file = |name: String, json: &serde_json::Value| {
        files.push(File { name, bytes: json.to_string().into_bytes() });
    };
    event("session.created.1", serde_json::json!({"info": export["info"]}));
    for message in export["messages"].as_array().unwrap() {
        let info = &message["info"];
        messages.push(serde_json::json!({"id": info["id"], "data": info}));
        event("message.updated.1", serde_json::json!({"info": {"id": info["id"], "role": "user"}}));
        event("message.updated.1", serde_json::json!({"info": info}));
        file(format!("s/message/ses_1/{}.json", info["id"].as_str().unwrap()), info);
        for part in message["parts"].as_array().unwrap().iter().rev() {
            parts.push(serde_json::json!({"id": part["id"], "message_id": info["id"], "data": part}));
            let mut part = part.clone();
            part["messageID"] = info["id"].clone();
            event("message.part.updated.1", serde_json::json!({"part": part}));
            file(
                format!("s/part/{}/{}.json", info["id"].as_str().unwrap(), part["id"].as_str().unwrap()),
                &part,
            );
        }
    }
    event("message.updated.1", serde_json::json!({"info": {"id": "msg_9", "role": "user"}}));
    event("message.removed.1", serde_json::json!({"messageID": "msg_9"}));
    let rows = serde_json::json!({
        "session": [{"id": "ses_1", "parent_id": "ses_0", "directory": "/w/app"}], "message": messages, "part": parts});
    assert_eq!(read_value("opencode", &rows.to_string()).0[0].id, id);
    assert_eq!(read_value("opencode-events", &events.join("\n")).0[0].id, id);
    file("s/session/p/ses_1.json".to_owned(), &export["info"]);
    file("s/session/p/ses_2.json".to_owned(), &export["info"]);
    let Reading::Files { together, read, .. } = find("opencode-tree").unwrap().reading else { panic!() };
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let groups = together(&names);
    assert_eq!((groups.len(), groups[0].len()), (1, files.len() - 1));
    files.pop();
    let source = Source::test("s/message/ses_1/msg_1.json", "opencode-tree");
    let mut sink = Sink::new(&source);
    read(&files, &mut sink);
    assert_eq!(sink.trajectories[0].id, id);
}

#[test]
fn files_of_the_oldest_layout_are_found() {
    let Reading::Files { together, .. } = find("opencode-tree").unwrap().reading else { panic!() };
    let names = [
        "storage/session/info/s.json",
        "storage/session/message/s/m.json",
        "storage/session/part/s/m/p.json",
        "storage/session/part/s/n/p.json",
        "message/s/m.json",
        "part/m/p.json",
        "other.json",
    ];
    assert_eq!(together(&names), [vec![4, 5], vec![1, 0, 2]]);
}

#[test]
fn what_was_taken_back_is_left_out() {
    let reverted = EXPORT.replacen(r#""id":"ses_1","#, r#""id":"ses_1","revert":{"messageID":"msg_4"},"#, 1);
    let (runs, losses) = read_value("opencode-export", &reverted);
    assert_eq!(outline(&runs[0]).last().unwrap(), "1 tool observation [Tool execution was interrupted]");
    assert_eq!(losses.0["message taken back left out"], 5);
}

#[test]
fn messages_before_a_cut_stay() {
    let cut = &EXPORT[..EXPORT.find("Done.").unwrap()];
    assert_eq!(outline(&read_value("opencode-export", cut).0[0]).len(), 11);
}
