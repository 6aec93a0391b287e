//! What stands in several files counts once.

use super::*;

#[test]
fn the_same_log_twice_is_one_trajectory() {
    let dir = Dir::new();
    let done = dir
        .file("a.jsonl", format!("{}\n{}\n", chat("a"), chat("b")))
        .file("copy/a.jsonl.gz", gzip(&format!("{}\n{}\n", chat("a"), chat("b"))))
        .ingest();
    assert_eq!(done.trajectories.len(), 2);
    assert_eq!(done.report.duplicates.len(), 2);
    assert_eq!(done.report.duplicates[0].source, "copy/a.jsonl.gz");
    assert_eq!(done.report.duplicates[0].repeats, "a.jsonl");
}

/// Of two copies of a session one has usage: that one stands.
#[test]
fn the_copy_of_a_session_that_has_usage_stands() {
    let bare = session("s", &["a", "b"]);
    let billed = bare.replace(r#""id":"m0","#, r#""id":"m0","usage":{"input_tokens":50,"output_tokens":5},"#);
    let done = Dir::new().file("a.jsonl", bare).file("b.jsonl", billed).ingest();
    assert_eq!(done.trajectories.len(), 1);
    assert_eq!(
        (done.trajectories[0].source.as_str(), done.report.duplicates[0].source.as_str()),
        ("b.jsonl", "a.jsonl")
    );
    assert!(done.steps.iter().any(|step| step.usage_in == Some(50)));
}

#[test]
fn the_same_log_under_another_name_is_one_trajectory() {
    let traj = r#"{"trajectory":[{"action":"ls","observation":"a","thought":"t","response":"r","state":"{}"}],"history":[{"role":"user","content":"T"}],"info":{}}"#;
    let early = r#"[{"role":"user","content":"U"},{"role":"assistant","content":"```bash\nls\n```"}]"#;
    let logged = |id: &str| chat("same").replacen('{', &format!(r#"{{"id":"{id}","#), 1);
    let dir = Dir::new();
    let done = dir
        .file("a__b-1.traj", traj)
        .file("backup.traj", traj)
        .file("e.json", early)
        .file("f.traj.json", early)
        .file("x-copy.jsonl", format!("{}\n{}\n", chat("a"), chat("b")))
        .file("x.json", format!("[{},{}]", chat("a"), chat("b")))
        .file("z.jsonl", format!("{}\n{}\n", logged("1"), logged("2")))
        .ingest();
    let repeats: Vec<(&str, &str)> =
        done.report.duplicates.iter().map(|d| (d.source.as_str(), d.repeats.as_str())).collect();
    assert_eq!(
        repeats,
        [
            ("backup.traj", "a__b-1.traj"),
            ("f.traj.json", "e.json"),
            ("x.json", "x-copy.jsonl"),
            ("x.json", "x-copy.jsonl")
        ]
    );
    assert_eq!(done.trajectories.len(), 6, "runs that are told apart by logged ids both stay");
}

/// A session of Claude Code in which each text is said by the user and answered.
fn session(id: &str, texts: &[&str]) -> String {
    let mut lines = r#"{"type":"summary","summary":"x","leafUuid":"y"}"#.to_owned() + "\n";
    for (i, text) in texts.iter().enumerate() {
        lines += &format!(
            r#"{{"type":"user","sessionId":"{id}","message":{{"content":"{text}"}},"uuid":"u{i}"}}
{{"type":"assistant","sessionId":"{id}","message":{{"id":"m{i}","content":[{{"type":"text","text":"ok"}}]}},"uuid":"a{i}"}}
"#
        );
    }
    lines
}

#[test]
fn a_session_that_is_the_beginning_of_another_one_is_left_out() {
    let long = "q".repeat(100_000);
    let dir = Dir::new();
    // Progress lines make the shorter one the larger file.
    let progress = "{\"type\":\"progress\",\"uuid\":\"p\",\"sessionId\":\"s\"}\n".repeat(5000);
    dir.file("1.jsonl", session("s", &[&long, "b"]) + &progress)
        .file("2.jsonl.gz", gzip(&session("resumed", &[&long, "b", "c", "d"])))
        .file("3.jsonl", session("s", &[&long, "b", "c"]))
        .file("4.jsonl", session("fork", &[&long, "b", "x"]))
        .file("5.jsonl", chat("a"));
    let done = dir.ingest();
    let repeats: Vec<(&str, &str)> =
        done.report.duplicates.iter().map(|d| (d.source.as_str(), d.repeats.as_str())).collect();
    assert_eq!(repeats, [("1.jsonl", "2.jsonl.gz"), ("3.jsonl", "2.jsonl.gz")]);
    let sources: Vec<&str> = done.trajectories.iter().map(|t| t.source.as_str()).collect();
    assert_eq!(sources, ["2.jsonl.gz", "4.jsonl", "5.jsonl"]);
    let shared = "step of a session that a fork was sent kept as context";
    assert_eq!(done.losses("claude-code")[shared], 4);
    let turns: Vec<u32> = done.trajectories.iter().map(|t| t.n_turns).collect();
    assert_eq!(turns[..2], [4, 1], "the fork's own turn counts alone");
    let totals = &done.report.formats["claude-code"];
    assert_eq!((totals.trajectories, totals.duplicates, totals.steps), (2, 2, 8 + 6));
    let one = dir.ingest_with(1, None);
    for name in ["trajectories.parquet", "steps.parquet", "ingest.json"] {
        assert!(
            fs::read(done.out.join(name)).unwrap() == fs::read(one.out.join(name)).unwrap(),
            "{name} differs"
        );
    }
    let other = dir.ingest_with(3, Some("openai-chat"));
    assert!(other.report.duplicates.is_empty(), "read as another format, nothing is a session");
}

/// A rollout of Codex in which the user and the agent say these texts in turn.
fn codex(id: &str, forked: &str, said: &[&str]) -> String {
    let mut lines = format!(
        r#"{{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{{"id":"{id}"{forked}}}}}"#
    );
    for (i, text) in said.iter().enumerate() {
        let (role, kind) = if i % 2 == 0 { ("user", "input") } else { ("assistant", "output") };
        lines += &format!(
            "\n{}",
            serde_json::json!({"timestamp": "2026-01-01T00:00:01Z", "type": "response_item",
            "payload": {"type": "message", "role": role, "content": [{"type": format!("{kind}_text"), "text": text}]}})
        );
    }
    lines
}

/// A session of pi, likewise.
fn pi(id: &str, said: &[&str]) -> String {
    let mut lines = format!(
        r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}}"#
    );
    for (i, text) in said.iter().enumerate() {
        let role = if i % 2 == 0 { "user" } else { "assistant" };
        let parent = i.checked_sub(1).map(|i| format!("e{i}"));
        lines += &format!(
            "\n{}",
            serde_json::json!({"type": "message", "id": format!("e{i}"), "parentId": parent,
            "timestamp": "2026-01-01T00:00:01Z", "message": {"role": role, "content": [{"type": "text", "text": text}]}})
        );
    }
    lines
}

/// Two sessions that part behind the first turn, in the forms of products: the turns of both count once, and a fork that says
/// nothing new is none.
#[test]
fn turns_before_a_fork_count_once_in_every_format() {
    // An old tree that says the same as an export is a duplicate of it: these are of another time.
    let message = |id: &str, i: usize| {
        let created = 1_767_225_600_000u64 + 1000 * u64::from(id.starts_with("ses")) + i as u64;
        let role = if i % 2 == 0 { "user" } else { "assistant" };
        serde_json::json!({"id": format!("msg_{id}{i}"), "sessionID": id, "role": role, "time": {"created": created}})
    };
    let part = |id: &str, i: usize, text: &str| serde_json::json!({"id": format!("prt_{id}{i}"), "sessionID": id, "messageID": format!("msg_{id}{i}"), "type": "text", "text": text});
    let opencode = |id: &str, said: &[&str]| {
        let messages = said
            .iter()
            .enumerate()
            .map(|(i, text)| serde_json::json!({"info": message(id, i), "parts": [part(id, i, text)]}));
        serde_json::json!({"info": {"id": id, "directory": "/w"}, "messages": messages.collect::<Vec<_>>()})
            .to_string()
    };
    let (first, fork) =
        (["Fix it.", "Fixed.", "Test it.", "Tested."], ["Fix it.", "Fixed.", "Drop it.", "Dropped."]);
    let (parted, from) = (&fork[..2], r#","forked_from_id":"a""#);
    let dir = Dir::new();
    dir.file("codex/1.jsonl", codex("a", "", &first))
        .file("codex/2.jsonl", codex("b", from, &fork))
        .file("codex/3.jsonl", codex("c", from, parted))
        .file("pi/1.jsonl", pi("a", &first))
        .file("pi/2.jsonl", pi("b", &fork))
        .file("pi/3.jsonl", pi("c", parted))
        .file("opencode/1.json", opencode("a", &first))
        .file("opencode/2.json", opencode("b", &fork))
        .file("opencode/3.json", opencode("c", parted));
    for (id, said) in [("ses_a", &first[..]), ("ses_b", &fork), ("ses_c", parted)] {
        dir.file(
            &format!("tree/session/p/{id}.json"),
            serde_json::json!({"id": id, "directory": "/w"}).to_string(),
        );
        for (i, text) in said.iter().enumerate() {
            let (name, of) = (
                format!("tree/message/{id}/msg_{id}{i}.json"),
                format!("tree/part/msg_{id}{i}/prt_{id}{i}.json"),
            );
            dir.file(&name, message(id, i).to_string()).file(&of, part(id, i, text).to_string());
        }
    }
    let done = dir.ingest();
    let folders =
        [("codex", "codex"), ("pi", "pi"), ("opencode", "opencode-export"), ("tree", "opencode-tree")];
    for (folder, format) in folders {
        let of = |t: &&TrajectoryRow| t.source.starts_with(folder);
        let turns: Vec<u32> = done.trajectories.iter().filter(of).map(|t| t.n_turns).collect();
        assert_eq!(turns, [2, 1], "{format}");
        assert_eq!(done.report.formats[format].duplicates, 1, "{format}");
        assert_eq!(
            done.losses(format)["step of a session that a fork was sent kept as context"],
            2,
            "{format}"
        );
    }
}

#[test]
fn sub_agents_are_runs_and_count_once_in_copies_of_their_session() {
    let agent = |name: &str, task: &str| {
        let head = format!(r#""sessionId":"s","isSidechain":true,"agentId":"{name}""#);
        format!(
            r#"{{"type":"user",{head},"uuid":"{name}1","parentUuid":null,"message":{{"content":"{task}"}}}}
{{"type":"assistant",{head},"uuid":"{name}2","parentUuid":"{name}1","message":{{"id":"{name}m","content":[{{"type":"text","text":"ok"}}]}}}}
"#
        )
    };
    let dir = Dir::new();
    // The old file of a session that was resumed holds two sub-agents; the new one has one of them, which has a file
    // of its own, too.
    dir.file("1.jsonl", session("s", &["a", "b"]) + &agent("x", "Look.") + &agent("y", "Search."))
        .file("2.jsonl", session("s2", &["a", "b", "c"]) + &agent("x", "Look."))
        .file("2/subagents/agent-x.jsonl", agent("x", "Look."))
        .file("2/subagents/agent-z.jsonl", agent("z", "Wait."));
    let done = dir.ingest();
    let runs: Vec<(&str, Option<&str>, Option<&str>)> = done
        .trajectories
        .iter()
        .map(|t| (t.source.as_str(), t.task_id.as_deref(), t.parent.as_deref()))
        .collect();
    assert_eq!(
        runs,
        [
            ("1.jsonl", Some("agent-x/x1"), Some("s")),
            ("1.jsonl", Some("agent-y/y1"), Some("s")),
            ("2.jsonl", Some("s2"), None),
            ("2/subagents/agent-z.jsonl", Some("agent-z/z1"), Some("s")),
        ]
    );
    let repeats: Vec<(&str, &str)> =
        done.report.duplicates.iter().map(|d| (d.source.as_str(), d.repeats.as_str())).collect();
    assert_eq!(
        repeats,
        [("1.jsonl", "2.jsonl"), ("2.jsonl", "1.jsonl"), ("2/subagents/agent-x.jsonl", "1.jsonl")]
    );
    assert_eq!(done.losses("claude-code").get("run without messages"), None);
}
