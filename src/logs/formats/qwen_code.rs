//! Sessions of Qwen Code: one JSON value a line, with messages in the style of Gemini.
//!
//! - `parentUuid` tells what was lived: a rewind hangs where it leads back to, and what it left is counted. A line whose uuid
//!   came before is that line anew.
//! - `chat_compression` is a compaction: its `compressedHistory` is the context from there on. What of it was said before was
//!   kept, the rest is the text.
//! - A result is `functionResponse`, what the model saw; `toolCallResult` repeats it for the screen.
//! - Lines with an `agentId` are the run of a sub-agent. Other records of the harness are left out and counted.
//!
//! No system prompt and no tools are recorded. A branch begins with copies of old lines, as in Claude Code.

use std::collections::HashMap;

use super::reading::apart::{Place, apart};
use super::reading::branch::{Parent, lived};
use super::reading::draft::{ABANDONED, Losses};
use super::reading::names::repository_of;
use super::reading::parts::{GeminiUsage, Turn};
use super::reading::reply::Reply;
use super::reading::scalar::Scalar;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "qwen-code",
    summary: "Qwen Code session JSONL, with its compactions",
    reading: Reading::Session { open: || Box::<Qwen>::default(), origin: super::claude_code::origin },
};

record! {
    struct Line in "qwen" {
        uuid: String = "uuid",
        parent: String = "parentUuid",
        session_id: String = "sessionId",
        timestamp: Scalar = "timestamp",
        kind: String = "type",
        subtype: String = "subtype",
        cwd: String = "cwd",
        model: String = "model",
        message: Turn = "message",
        usage: GeminiUsage = "usageMetadata",
        payload: Payload = "systemPayload",
        agent_id: String = "agentId",
    }

    struct Payload in "qwen.systemPayload" {
        history: List<Turn> = "compressedHistory",
        info: Compression = "info",
    }

    struct Compression in "qwen.systemPayload.info" {
        before: Scalar = "originalTokenCount",
        behind: Scalar = "newTokenCount",
    }
}

#[derive(Default)]
struct Qwen {
    lines: Vec<Line>,
    by_uuid: HashMap<String, usize>,
    losses: Losses,
}

impl Session for Qwen {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        let known = line.uuid.as_ref().and_then(|uuid| self.by_uuid.get(uuid));
        if let Some(&at) = known {
            self.losses.add("earlier state of a line left out");
            self.lines[at] = line;
            return Ok(());
        }
        self.by_uuid.extend(line.uuid.clone().map(|uuid| (uuid, self.lines.len())));
        self.lines.push(line);
        Ok(())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        let lines: Vec<Placed> = std::mem::take(&mut self.lines).into_iter().enumerate().collect();
        let numbers = apart(&lines.iter().map(place).collect::<Vec<_>>());
        let mut runs: Vec<Vec<Placed>> = Vec::new();
        let numbers = numbers.unwrap_or_else(|| vec![0; lines.len()]);
        for (line, number) in lines.into_iter().zip(numbers) {
            runs.resize_with(runs.len().max(number + 1), Vec::new);
            runs[number].push(line);
        }
        if runs.is_empty() {
            runs.push(Vec::new());
        }
        runs.into_iter().for_each(|lines| write_session(lines, &mut self.losses, sink));
        sink.losses.merge(&self.losses);
    }
}

fn place((_, line): &Placed) -> Place<'_> {
    Place {
        session: line.session_id.as_deref(),
        uuid: line.uuid.as_deref(),
        parents: [line.parent.as_deref(), None],
        is_said: line.message.is_some(),
        goes_on: line.payload.is_some(),
    }
}

/// Hands over the runs of one session.
fn write_session(lines: Vec<Placed>, losses: &mut Losses, sink: &mut Sink<'_>) {
    let first = |of: fn(&Line) -> &Option<String>| lines.iter().find_map(|(_, line)| of(line).clone());
    let logged = first(|line| &line.session_id);
    let is_logged = logged.is_some();
    let session = logged.clone().unwrap_or_else(|| sink.source.stem.clone());
    let about = Trajectory {
        repository: first(|line| &line.cwd).and_then(|cwd| repository_of(&cwd)),
        agent: Some("qwen-code".to_owned()),
        ..Trajectory::default()
    };
    let (main, agents) = cut(lines, losses);
    if !main.is_empty() || agents.is_empty() {
        write(main, about.clone().of_session(logged, &sink.source.stem), sink);
    }
    for (agent, lines) in agents {
        let task_id = Some(format!("agent-{agent}"));
        let named = is_logged.then(|| format!("{session}/agent-{agent}"));
        let parent = Some(session.clone());
        write(lines, Trajectory { task_id, session: named, parent, ..about.clone() }, sink);
    }
}

/// A line with its place in the file.
type Placed = (usize, Line);

/// The lines that were lived, and those of each sub-agent.
fn cut(lines: Vec<Placed>, losses: &mut Losses) -> (Vec<Placed>, Vec<(String, Vec<Placed>)>) {
    let mut agents: Vec<(String, Vec<Placed>)> = Vec::new();
    let mut by_agent: HashMap<String, usize> = HashMap::new();
    let mut main: Vec<Placed> = Vec::new();
    for (i, mut line) in lines {
        let Some(agent) = line.agent_id.take() else {
            main.push((i, line));
            continue;
        };
        let at = *by_agent.entry(agent.clone()).or_insert_with(|| {
            agents.push((agent, Vec::new()));
            agents.len() - 1
        });
        agents[at].1.push((i, line));
    }
    let is_lived = lived(main.iter().map(|(_, line)| {
        (line.uuid.as_deref(), line.parent.as_deref().map_or(Parent::Before, Parent::Named))
    }));
    let n_all = main.len();
    let mut is_lived = is_lived.into_iter();
    main.retain(|_| is_lived.next() == Some(true));
    losses.add_n(ABANDONED, (n_all - main.len()) as u64);
    (main, agents)
}

fn write(lines: Vec<Placed>, about: Trajectory, sink: &mut Sink<'_>) {
    let mut draft = Draft::new();
    for (position, line) in lines {
        let time = line.timestamp.unwrap_or_default().time(&mut draft.losses);
        draft.at(position, time);
        match (line.kind.as_deref().unwrap_or(""), line.message) {
            ("assistant", Some(message)) => {
                line.model.iter().for_each(|model| draft.model(model));
                let mut reply = Reply::begin(line.usage.and_then(|usage| usage.usage()), &mut draft);
                message.parts.unwrap_or_default().write_reply(&mut reply, &mut draft);
                reply.end(&mut draft);
            }
            ("user" | "tool_result", Some(message)) => {
                message.parts.unwrap_or_default().write_user(&mut draft);
            }
            (kind, _) => match line.payload.and_then(|of| Some((of.history?, of.info.unwrap_or_default()))) {
                Some((history, Compression { before, behind })) => {
                    let n_steps = draft.n_steps();
                    let mut new = Draft::new();
                    history.0.into_iter().for_each(|turn| turn.write(&mut new));
                    draft.replace(new);
                    draft.resized(before, behind, n_steps);
                }
                None => {
                    let kind: String = line.subtype.as_deref().unwrap_or(kind).chars().take(40).collect();
                    draft.losses.add(&format!("record of the harness left out: {kind}"));
                }
            },
        }
    }
    draft.finish(about, sink);
}

#[cfg(test)]
mod tests {
    use crate::logs::formats::reading::testing::{outline, read, resized, told};

    /// A line of the main chain, behind another one.
    fn line(uuid: &str, parent: &str, rest: &str) -> String {
        let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
        format!(r#"{{"uuid":"{uuid}","parentUuid":{parent},"sessionId":"s1","cwd":"/x/cli",{rest}}}"#)
    }

    fn said(kind: &str, text: &str) -> String {
        format!(r#""type":"{kind}","message":{{"parts":[{{"text":"{text}"}}]}}"#)
    }

    const CALL: &str = r#""type":"assistant","model":"m","usageMetadata":{"promptTokenCount":50,"candidatesTokenCount":4,"thoughtsTokenCount":3,"cachedContentTokenCount":20},"message":{"role":"model","parts":[{"text":"Hm.","thought":true},{"functionCall":{"id":"c1","name":"ls","args":{"path":"."}}}]}"#;
    const RESULT: &str = r#""type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"ls","response":{"error":"no"}}}]},"toolCallResult":{"callId":"c1","resultDisplay":"no"}"#;

    #[test]
    fn a_session_with_a_rewind_and_a_line_written_twice() {
        let (runs, losses) = read(
            "qwen-code",
            &[
                line("a", "", &said("user", "List it.")),
                line("b", "a", r#""type":"system","subtype":"ui_telemetry","systemPayload":{}"#),
                line("c", "b", &said("assistant", "half")),
                line("c", "b", CALL),
                line("d", "c", RESULT),
                line("e", "d", &said("user", "Wrong way.")),
                line("f", "d", r#""type":"system","subtype":"rewind","systemPayload":{"truncatedCount":1}"#),
                line("g", "f", &said("assistant", "Done.")),
                line("h", "g", &said("user", "In a task.").replace("\"type\"", "\"agentId\":\"x\",\"type\"")),
            ],
        );
        assert_eq!(
            outline(&runs[0]),
            [
                "0 0 user message List it.",
                "0 1 agent thought Hm.",
                "0 1 agent action ls .",
                "0 1 tool observation no",
                "0 2 agent message Done.",
            ]
        );
        assert_eq!(runs[0].steps[3].is_error, Some(true));
        let usage = runs[0].steps[1].usage.as_deref().unwrap();
        assert_eq!((usage.input, usage.output, usage.cache_read), (50, Some(7), Some(20)));
        assert_eq!((runs[0].model.as_deref(), runs[0].repository.as_deref()), (Some("m"), Some("cli")));
        assert_eq!(
            (outline(&runs[1]), runs[1].parent.as_deref()),
            (vec!["0 0 user message In a task.".to_owned()], Some("s1"))
        );
        assert_eq!(
            told(&losses),
            [
                "1 earlier state of a line left out",
                "1 line of an abandoned branch left out",
                "1 record of the harness left out: rewind",
                "1 record of the harness left out: ui_telemetry",
            ]
        );
    }

    #[test]
    fn a_compression_replaces_the_context() {
        let history = r#""type":"system","subtype":"chat_compression","systemPayload":{"info":{"originalTokenCount":900,"newTokenCount":60},"compressedHistory":[{"role":"user","parts":[{"text":"a.py is there."}]},{"role":"user","parts":[{"text":"Sort it."}]}]}"#;
        let (runs, losses) = read(
            "qwen-code",
            &[
                line("a", "", &said("user", "List it.")),
                line("b", "a", CALL),
                line("c", "b", RESULT),
                line("d", "c", &said("user", "Sort it.")),
                line("e", "d", history),
                line("f", "e", &said("assistant", "Done.")),
            ],
        );
        assert_eq!(
            outline(&runs[0])[4..],
            ["0 2 user message Sort it.", "1 3 user compaction a.py is there.", "1 3 agent message Done."]
        );
        assert_eq!(runs[0].steps[4].kept_to, Some(1));
        assert_eq!(resized(&runs[0]), [(5, Some(900), Some(60))]);
        assert_eq!(told(&losses), [] as [&str; 0]);
    }
}
