//! Sessions of goose, in both forms.

use crate::logs::detect::of_tables;
use crate::logs::formats::reading::tables::Tables;
use crate::logs::formats::{Reading, Sink, Source, find};

const CONTENT: [(&str, &str, &str); 6] = [
    ("user", r#"[{"type":"text","text":"Fix it."}]"#, r#"{"userVisible":true,"agentVisible":false}"#),
    (
        "assistant",
        r#"[{"type":"thinking","thinking":"hm"},{"type":"toolRequest","id":"c1","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"ls"}}}},{"type":"toolRequest","id":"c2","toolCall":{"status":"error","error":"bad call"}}]"#,
        r#"{"userVisible":true,"agentVisible":false}"#,
    ),
    (
        "user",
        r#"[{"type":"toolResponse","id":"c1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"a b"},{"type":"text","text":"for you","annotations":{"audience":["user"]}}],"isError":false}}},{"type":"toolResponse","id":"c2","toolResult":{"status":"error","error":"not run"}}]"#,
        r#"{"userVisible":true,"agentVisible":false}"#,
    ),
    ("user", r#"[{"type":"text","text":"The summary."}]"#, r#"{"userVisible":false,"agentVisible":true}"#),
    (
        "assistant",
        r#"[{"type":"text","text":"Go on as if nothing was."}]"#,
        r#"{"userVisible":false,"agentVisible":true}"#,
    ),
    ("assistant", r#"[{"type":"text","text":"Done."}]"#, r#"{"userVisible":true,"agentVisible":true}"#),
];

const OUTLINE: [&str; 9] = [
    "0 user message Fix it.",
    "1 agent thought hm",
    "1 agent action shell\nls",
    "1 agent action unknown\nbad call",
    "1 tool observation a b",
    "1 tool observation not run",
    "2 user compaction The summary.",
    "2 system message Go on as if nothing was.",
    "2 agent message Done.",
];

fn outline(sink: &Sink<'_>) -> Vec<String> {
    let line =
        |s: &crate::trajectory::Step| format!("{} {} {} {}", s.turn, s.role.name(), s.kind.name(), s.text);
    sink.trajectories[0].steps.iter().map(line).collect()
}

#[test]
fn rows_of_a_database_and_lines_are_the_same_run() {
    let rows: Vec<serde_json::Value> = CONTENT
        .iter()
        .map(|(role, content, metadata)| {
            serde_json::json!({"session_id": "7", "role": role, "content_json": content, "metadata_json": metadata,
                "created_timestamp": 1_700_000_000})
        })
        .collect();
    let run = serde_json::json!({"sessions": [{"id": "7", "working_dir": "/w/app"}], "messages": rows});
    let source = Source::test("sessions.db", "goose");
    let mut sink = Sink::new(&source);
    super::read(run.to_string().as_bytes(), &mut sink).unwrap();
    assert_eq!(outline(&sink), OUTLINE);
    assert_eq!(sink.trajectories[0].steps[5].is_error, Some(true));
    assert_eq!(sink.losses.0["part of a result for the user alone left out"], 1);
    let Reading::Session { open, .. } = find("goose-lines").unwrap().reading else { panic!() };
    let lines = |lines: &[String], name: &str| {
        let source = Source::test(name, "goose-lines");
        let mut sink = Sink::new(&source);
        let mut session = open();
        lines.iter().for_each(|line| session.value(line.as_bytes()).unwrap());
        session.finish(&mut sink);
        assert_eq!(outline(&sink), OUTLINE);
        sink.trajectories.remove(0).task_id
    };
    let of_rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    assert_eq!(lines(&of_rows, "rows.jsonl").as_deref(), Some("7"));
    let mut old = vec![r#"{"working_dir":"/w/app","description":"d","message_count":6}"#.to_owned()];
    old.extend(CONTENT.iter().map(|(role, content, metadata)| {
        format!(r#"{{"role":"{role}","created":1700000000,"content":{content},"metadata":{metadata}}}"#)
    }));
    assert_eq!(lines(&old, "20251001_101010.jsonl").as_deref(), Some("20251001_101010"));
}

/// Of a call and its result, and of the words that a compaction kept, the agent saw something else later.
#[test]
fn what_gives_way_is_recorded_as_an_edit() {
    let both = r#"{"userVisible":true,"agentVisible":true}"#;
    let (hidden, alone) = (CONTENT[0].2, CONTENT[3].2);
    let text = |text: &str| format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    let read_all = |rows: &[(&str, String, &str)]| {
        let lines = rows.iter().map(|(role, content, metadata)| {
            serde_json::json!({"session_id": "7", "role": role, "content_json": content, "metadata_json": metadata})
        });
        let run = serde_json::json!({"sessions": [], "messages": lines.collect::<Vec<_>>()});
        let source = Source::test("sessions.db", "goose");
        let mut sink = Sink::new(&source);
        super::read(run.to_string().as_bytes(), &mut sink).unwrap();
        let line = |s: &crate::trajectory::Step| {
            let edit = s.edit.as_ref().map_or(String::new(), |e| format!(" (gone from {})", e.from));
            let kept = s.kept_to.map_or(String::new(), |to| format!(" (kept to {to})"));
            format!("{} {} {}{edit}{kept}", s.turn, s.kind.name(), s.text)
        };
        sink.trajectories[0].steps.iter().map(line).collect::<Vec<_>>()
    };
    let call = CONTENT[1].1.split(r#",{"type":"toolRequest","id":"c2""#).next().unwrap().to_owned() + "]";
    let result = CONTENT[2].1.split(r#",{"type":"toolResponse","id":"c2""#).next().unwrap().to_owned() + "]";
    let pair = [
        ("user", text("Fix it."), both),
        ("assistant", call, hidden),
        ("user", result, hidden),
        ("assistant", text("I go on."), both),
        ("user", text("ls said a b."), alone),
        ("assistant", text("Done."), both),
    ];
    assert_eq!(
        read_all(&pair),
        [
            "0 message Fix it.",
            "1 thought hm (gone from 3)",
            "1 action shell\nls (gone from 3)",
            "1 observation a b (gone from 3)",
            "2 message I go on.",
            "2 message ls said a b.",
            "3 message Done.",
        ]
    );
    let gone = r#"{"userVisible":false,"agentVisible":false}"#;
    let twice = [
        ("user", text("First."), hidden),
        ("user", text("Summary 1."), gone),
        ("assistant", text("Go on."), gone),
        ("assistant", text("Yes."), hidden),
        ("user", text("Summary 2."), alone),
        ("assistant", text("Go on."), alone),
    ];
    assert_eq!(
        read_all(&twice),
        [
            "0 message First.",
            "1 compaction Summary 1.",
            "1 message Go on.",
            "1 message Yes.",
            "2 compaction Summary 2.",
            "2 message Go on.",
        ]
    );
    let compacted = [
        ("user", text("First."), hidden),
        ("assistant", text("Yes."), hidden),
        ("user", text("Second."), hidden),
        ("user", text("The summary."), alone),
        ("user", text("Second."), alone),
        ("assistant", text("Done."), both),
    ];
    assert_eq!(
        read_all(&compacted),
        [
            "0 message First.",
            "1 message Yes.",
            "2 message Second. (kept to 1)",
            "3 compaction The summary.",
            "3 message Done.",
        ]
    );
}

#[test]
fn databases_are_told_by_their_tables() {
    let told = |tables: &[(&str, &[&str])]| {
        let mut known = Tables::default();
        for (table, columns) in tables {
            columns.iter().for_each(|column| known.add((*table).to_owned(), (*column).to_owned()));
        }
        of_tables(&known).map(|entry| entry.name)
    };
    let goose: &[&str] = &["session_id", "role", "content_json", "created_timestamp"];
    assert_eq!(told(&[("sessions", &["id", "working_dir"]), ("messages", goose)]), Some("goose"));
    let sessions: &[&str] = &["id", "parent_session_id"];
    let old: &[&str] = &["id", "session_id", "role", "parts", "created_at"];
    assert_eq!(told(&[("sessions", sessions), ("messages", old)]), Some("opencode-go"));
    let new: &[&str] = &["id", "session_id", "role", "parts", "created_at", "provider"];
    assert_eq!(told(&[("sessions", sessions), ("messages", new)]), Some("crush"));
    let message: &[&str] = &["id", "session_id", "time_created", "data"];
    let part: &[&str] = &["id", "session_id", "message_id", "data"];
    let opencode: [(&str, &[&str]); 3] =
        [("session", &["id", "directory"]), ("message", message), ("part", part)];
    assert_eq!(told(&opencode), Some("opencode"));
    assert_eq!(told(&[("cookies", &["id"])]), None);
}
