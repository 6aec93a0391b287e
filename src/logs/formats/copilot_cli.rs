//! Events of GitHub Copilot CLI (`events.jsonl`): one JSON value a line, a file is one session.
//!
//! - Calls are the `toolRequests` of a reply; `tool.execution_start` repeats them. A result is `result.content`, what the
//!   model saw. What the program puts around a prompt (`transformedContent`) is a message of the role system.
//! - `session.compaction_complete` is a compaction, if it succeeded: it runs beside the agent, so what was logged since its
//!   start stays. `session.truncation` does not say what it removed: a loss. `session.snapshot_rewind` takes back all from an
//!   event on.
//! - Events of a sub-agent name it, or the call that started it: they are a run of their own.
//! - Replies are counted, prompts are not; of these `session.shutdown` has the sum of a session, and a compaction what was there
//!   before it.

use std::collections::HashMap;

use super::reading::content::{Arguments, UNKNOWN_TOOL};
use super::reading::draft::{ABANDONED, Losses, UNTOLD};
use super::reading::names::{Name, repository_of};
use super::reading::reply::{Call, Reply};
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, heads, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::{Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "copilot-cli",
    summary: "GitHub Copilot CLI events, with their compactions",
    reading: Reading::Session { open: || Box::<Copilot>::default(), origin },
};

record! {
    struct Line in "copilot" {
        kind: String = "type",
        id: String = "id",
        timestamp: Scalar = "timestamp",
        agent_id: String = "agentId",
        data: Data = "data",
    }

    /// What an event of any kind says.
    struct Data in "copilot.data" {
        session_id: String = "sessionId",
        context: Place = "context",
        model: String = "selectedModel" | "newModel" | "model",
        content: Content = "content",
        transformed: String = "transformedContent",
        source: String = "source",
        reasoning: String = "reasoningText",
        requests: List<Request> = "toolRequests",
        output: Scalar = "outputTokens",
        parent_call: String = "parentToolCallId",
        call_id: String = "toolCallId",
        tool: String = "toolName",
        success: Scalar = "success",
        result: Outcome = "result",
        error: Failure = "error",
        summary: String = "summaryContent",
        tokens_before: Scalar = "preCompactionTokens",
        tokens_after: Scalar = "postCompactionTokens",
        written: Written = "compactionTokensUsed",
        up_to: Name = "upToEventId",
        metrics: HashMap<String, Metrics> = "modelMetrics",
    }

    /// What was counted for the call that wrote a summary.
    struct Written in "copilot.compactionTokensUsed" {
        input: Scalar = "input" | "inputTokens",
        output: Scalar = "output" | "outputTokens",
        cache_read: Scalar = "cachedInput" | "cacheReadTokens",
        cache_write: Scalar = "cacheWriteTokens",
    }

    struct Place in "copilot.context" { cwd: String = "cwd" }

    struct Request in "copilot.toolRequest" {
        id: String = "toolCallId",
        name: String = "name",
        arguments: Arguments = "arguments",
    }

    struct Outcome in "copilot.result" {
        content: Content = "content" | "text_result_for_llm" | "textResultForLlm",
        kind: String = "result_type" | "resultType",
    }

    struct Failure in "copilot.error" { message: String = "message" }

    struct Metrics in "copilot.metrics" { usage: Tokens = "usage" }

    struct Tokens in "copilot.usage" { input: Scalar = "inputTokens" }
}

/// An event with its place in the file.
type Placed = (usize, Line);

#[derive(Default)]
struct Copilot {
    lines: Vec<Placed>,
    /// Where the events of these ids stand in `lines`.
    by_id: HashMap<String, usize>,
    n_lines: usize,
    losses: Losses,
}

impl Session for Copilot {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        self.n_lines += 1;
        let up_to = line.data.as_ref().and_then(|data| data.up_to.as_ref());
        if line.kind.as_deref() == Some("session.snapshot_rewind")
            && let Some(from) = up_to.and_then(|id| self.by_id.get(&id.0).copied())
        {
            let gone = self.lines.split_off(from.min(self.lines.len()));
            self.losses.add_n(ABANDONED, gone.len() as u64);
            return Ok(());
        }
        self.by_id.extend(line.id.clone().map(|id| (id, self.lines.len())));
        self.lines.push((self.n_lines - 1, line));
        Ok(())
    }

    fn is_another(&self, bytes: &[u8]) -> bool {
        let known = || self.lines.iter().find_map(|(_, line)| line.data.as_ref()?.session_id.as_ref());
        let id = heads::id(bytes, "session.start", "/data/sessionId");
        id.is_some_and(|id| known().is_some_and(|known| *known != id))
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        sink.losses.merge(&self.losses);
        let data = || self.lines.iter().filter_map(|(_, line)| line.data.as_ref());
        let id = data().find_map(|data| data.session_id.clone());
        let cwd = data().find_map(|data| data.context.as_ref()?.cwd.clone());
        let sent = data().filter_map(|data| data.metrics.as_ref()).next_back().map(|metrics| {
            let input = |model: &Metrics| model.usage.as_ref()?.input?.count();
            metrics.values().filter_map(input).sum()
        });
        let about = Trajectory {
            repository: cwd.as_deref().and_then(repository_of),
            agent: Some("copilot-cli".to_owned()),
            ..Trajectory::default()
        };
        let main = about.clone().of_session(id, &sink.source.stem);
        let session = main.task_id.clone().unwrap_or_default();
        let (lines, agents) = cut(std::mem::take(&mut self.lines));
        let is_logged = main.session.is_some();
        Run::write(lines, Trajectory { tokens_sent: sent, ..main }, sink);
        for (agent, lines) in agents {
            let task_id = Some(format!("agent-{agent}"));
            let named = is_logged.then(|| format!("{session}/agent-{agent}"));
            let parent = Some(session.clone());
            Run::write(lines, Trajectory { task_id, session: named, parent, ..about.clone() }, sink);
        }
    }
}

/// The events of the agent, and those of each sub-agent.
fn cut(lines: Vec<Placed>) -> (Vec<Placed>, Vec<(String, Vec<Placed>)>) {
    let mut main = Vec::new();
    let mut agents: Vec<(String, Vec<Placed>)> = Vec::new();
    let mut by_agent: HashMap<String, usize> = HashMap::new();
    for (position, mut line) in lines {
        let call = line.data.as_mut().and_then(|data| data.parent_call.take());
        // What starts and ends a sub-agent stands with it; the session's own events name none.
        let Some(agent) = line.agent_id.take().or(call) else {
            main.push((position, line));
            continue;
        };
        let at = *by_agent.entry(agent.clone()).or_insert_with(|| {
            agents.push((agent, Vec::new()));
            agents.len() - 1
        });
        agents[at].1.push((position, line));
    }
    (main, agents)
}

/// One run in the making.
#[derive(Default)]
struct Run {
    draft: Draft,
    model: Option<String>,
    /// The system prompt, as it was said last.
    system: Option<String>,
    /// Thoughts that came before their reply.
    thoughts: Vec<String>,
    /// The tools of the calls that began.
    tools: HashMap<String, String>,
    /// Where the compaction that runs began.
    compaction: Option<u32>,
}

impl Run {
    fn write(lines: Vec<Placed>, about: Trajectory, sink: &mut Sink<'_>) {
        let mut run = Run::default();
        for (position, line) in lines {
            let time = line.timestamp.unwrap_or_default().time(&mut run.draft.losses);
            run.draft.at(position, time);
            let kind = line.kind.unwrap_or_default();
            run.event(&kind, line.data.unwrap_or_default());
        }
        run.draft.finish(about, sink);
    }

    fn event(&mut self, kind: &str, data: Data) {
        match kind {
            "system.message" => self.system(data),
            "user.message" => self.user(data),
            "system.notification" => {
                let text = self.text(data.content);
                self.draft.notice(text);
            }
            "assistant.reasoning" => {
                let text = self.text(data.content);
                self.thoughts.push(text);
            }
            "assistant.message" => self.reply(data),
            "tool.execution_complete" => self.result(data),
            "session.compaction_start" => self.compaction = Some(self.draft.place().0 as u32),
            "session.compaction_complete" => self.compact(data),
            "session.start" | "session.resume" | "session.model_change" => {
                self.model = data.model.or(self.model.take());
            }
            "session.truncation" => {
                self.draft.losses.add(&format!("{UNTOLD}truncation"));
            }
            "tool.execution_start" => self.tools.extend(data.call_id.zip(data.tool)),
            "assistant.turn_start" | "assistant.turn_end" => {}
            _ => {
                let kind: String = kind.chars().take(40).collect();
                self.draft.losses.add(&format!("event left out: {kind}"));
            }
        }
    }

    fn text(&mut self, content: Option<Content>) -> String {
        content.unwrap_or_default().into_text(&mut self.draft.losses)
    }

    fn system(&mut self, data: Data) {
        let text = self.text(data.content);
        if self.system.as_ref() == Some(&text) {
            return self.draft.losses.add("system prompt that is logged again");
        }
        self.system = Some(text.clone());
        self.draft.system(text);
    }

    /// A prompt, and what the program puts around it.
    fn user(&mut self, data: Data) {
        let text = self.text(data.content);
        if data.source.is_some_and(|source| source != "user") {
            return self.draft.notice(data.transformed.unwrap_or(text));
        }
        let sent = data.transformed.unwrap_or_default();
        let around = match sent.split_once(&text) {
            Some((before, behind)) => format!("{}\n{}", before.trim(), behind.trim()),
            None => {
                self.draft.losses.add_n("prompt that was sent in other words", u64::from(!sent.is_empty()));
                sent
            }
        };
        if !text.is_empty() {
            self.draft.user(text);
        }
        if !around.trim().is_empty() {
            self.draft.notice(around.trim().to_owned());
        }
    }

    fn reply(&mut self, data: Data) {
        let text = self.text(data.content);
        let waiting = std::mem::take(&mut self.thoughts);
        let thoughts = data.reasoning.map_or(waiting, |text| vec![text]);
        let requests = data.requests.unwrap_or_default().0;
        let output = data.output.and_then(Scalar::count).filter(|n| *n > 0);
        if text.is_empty() && thoughts.is_empty() && requests.is_empty() && output.is_none() {
            return self.draft.losses.add("reply without anything to read left out");
        }
        self.model.iter().for_each(|model| self.draft.model(model));
        let usage = output.map(|_| Usage { output, ..Usage::default() });
        let mut reply = Reply::begin(usage, &mut self.draft);
        thoughts.into_iter().for_each(|thought| reply.thought(thought, &self.draft));
        reply.text(text, &self.draft);
        for request in requests {
            let tool = request.name.unwrap_or_else(|| UNKNOWN_TOOL.to_owned());
            let call = Call::new(request.id, tool, request.arguments.unwrap_or_default().0);
            reply.call(call, &mut Vec::new(), &mut self.draft);
        }
        reply.end(&mut self.draft);
    }

    fn result(&mut self, data: Data) {
        let result = data.result.unwrap_or_default();
        let success = data.success.and_then(|is| is.truth("success", &mut self.draft.losses));
        let success = success.or_else(|| result.kind.as_deref().map(|kind| kind == "success"));
        let text = self.text(result.content);
        let error = data.error.and_then(|error| error.message).filter(|message| !text.contains(message));
        let texts: Vec<String> =
            [Some(text), error].into_iter().flatten().filter(|t| !t.is_empty()).collect();
        let tool = data.call_id.as_ref().and_then(|id| self.tools.remove(id));
        self.draft.result(
            data.call_id.as_deref(),
            data.tool.or(tool),
            texts.join("\n"),
            success.map(|is| !is),
        );
    }

    fn compact(&mut self, data: Data) {
        let start = self.compaction.take();
        if data.success.and_then(|is| is.truth("success", &mut self.draft.losses)) == Some(false) {
            return self.draft.losses.add("compaction that failed");
        }
        let is_since = |message: u32| start.is_some_and(|start| message >= start);
        let n_steps = self.draft.n_steps();
        self.draft.compact_but(data.summary.unwrap_or_default(), |step| is_since(step.message));
        let count = |n: Option<Scalar>| n.and_then(Scalar::count).filter(|n| *n > 0);
        let written = data.written.unwrap_or_default();
        let usage = count(written.input).map(|input| Usage {
            input,
            output: count(written.output),
            cache_read: count(written.cache_read),
            cache_write: count(written.cache_write),
            ..Usage::default()
        });
        self.draft.written_with(usage, n_steps);
        self.draft.resized(data.tokens_before, data.tokens_after, n_steps);
    }
}

/// The id of the session.
fn origin(head: &[u8], _whole: bool) -> Origin {
    record! {
        struct First in "copilot.first" { kind: String = "type", data: Named = "data" }
        struct Named in "copilot.first.data" { session_id: String = "sessionId" }
    }
    let line = head.split(|b| *b == b'\n').next().unwrap_or(head);
    match serde_json::from_slice::<First>(line) {
        Ok(First { kind: Some(kind), data: Some(Named { session_id: Some(id) }) })
            if kind == "session.start" =>
        {
            Origin::Uuid(id)
        }
        _ => Origin::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::reading::testing::{outline, read, resized, told};

    fn event(id: &str, kind: &str, data: &str) -> String {
        format!(r#"{{"type":"{kind}","id":"{id}","timestamp":"2026-01-01T00:00:00Z","data":{{{data}}}}}"#)
    }

    const CALL: &str = r#""messageId":"m1","content":"I look.","reasoningText":"Hm.","toolRequests":[{"toolCallId":"c1","name":"view","arguments":{"path":"."}},{"toolCallId":"c2","name":"bash","arguments":"{\"command\":\"ls\"}"}],"outputTokens":9"#;

    /// A session that is compacted beside the agent.
    fn session() -> Vec<String> {
        vec![
            event("1", "session.start", r#""sessionId":"s1","selectedModel":"m","context":{"cwd":"/x/cli"}"#),
            event("2", "system.message", r#""role":"system","content":"Be brief.""#),
            event(
                "3",
                "user.message",
                r#""content":"List it.","transformedContent":"<now>9</now>\n\nList it.\n\n<rem>x</rem>""#,
            ),
            event("4", "assistant.message", CALL),
            event("5", "tool.execution_start", r#""toolCallId":"c1","toolName":"view""#),
            event(
                "6",
                "tool.execution_complete",
                r#""toolCallId":"c1","success":true,"result":{"content":"a.py","detailedContent":"long"}"#,
            ),
            event(
                "7",
                "tool.execution_complete",
                r#""toolCallId":"c2","success":false,"error":{"message":"no","code":"x"}"#,
            ),
            event("8", "system.message", r#""role":"system","content":"Be brief.""#),
            event("9", "session.compaction_start", ""),
            event("a", "user.message", r#""content":"Go on.""#),
            event("b", "assistant.message", r#""content":"Yes.""#),
            event(
                "c",
                "session.compaction_complete",
                r#""success":true,"preCompactionTokens":900,"postCompactionTokens":60,"summaryContent":"a.py is there.","compactionTokensUsed":{"input":800,"output":40,"cachedInput":500}"#,
            ),
            event("d", "tool.execution_start", r#""toolCallId":"x","toolName":"glob""#),
            event(
                "d",
                "tool.execution_complete",
                r#""toolCallId":"x","success":true,"result":{"content":"b.py"}"#,
            ),
            event("e", "session.compaction_complete", r#""success":false"#),
            event(
                "f",
                "session.shutdown",
                r#""modelMetrics":{"m":{"usage":{"inputTokens":70}},"n":{"usage":{"inputTokens":7}}}"#,
            ),
        ]
    }

    #[test]
    fn a_session_with_a_compaction_beside_the_agent() {
        let (runs, losses) = read("copilot-cli", &session());
        let t = &runs[0];
        assert_eq!(
            outline(t),
            [
                "0 0 system system Be brief.",
                "0 0 user message List it.",
                "0 0 system message <now>9</now> <rem>x</rem>",
                "0 1 agent thought Hm.",
                "0 1 agent thought I look.",
                "0 1 agent action view .",
                "0 1 agent action bash ls",
                "0 1 tool observation a.py",
                "0 1 tool observation no",
                "0 2 user message Go on.",
                "0 2 agent message Yes.",
                "1 3 user compaction a.py is there.",
                "1 3 tool observation b.py",
            ]
        );
        assert_eq!(t.steps[12].tool.as_deref(), Some("glob"));
        let counted: Vec<(usize, u64, Option<u64>)> = (0..11)
            .filter_map(|at| t.steps[at].usage.as_deref().map(|of| (at, of.input, of.output)))
            .collect();
        assert_eq!(counted, [(3, 0, Some(9))]);
        let written = t.steps[11].usage.as_deref().map(|of| (of.input, of.output, of.cache_read));
        assert_eq!(written, Some((800, Some(40), Some(500))));
        assert_eq!(resized(t), [(11, Some(900), Some(60))]);
        assert_eq!((t.steps[7].is_error, t.steps[8].is_error), (Some(false), Some(true)));
        let kept: Vec<usize> = (0..t.steps.len()).filter(|at| t.steps[*at].kept_to == Some(1)).collect();
        assert_eq!((kept, t.tokens_sent), (vec![9, 10], Some(77)));
        let of = [&t.task_id, &t.repository, &t.model].map(|of| of.as_deref().unwrap());
        assert_eq!(of, ["s1", "cli", "m"]);
        assert_eq!(
            told(&losses),
            [
                "1 compaction that failed",
                "1 event left out: session.shutdown",
                "1 system prompt that is logged again",
                "1 tool result without a call",
            ]
        );
    }

    #[test]
    fn sub_agents_are_runs_of_their_own_and_rewinds_take_back() {
        let (runs, losses) = read(
            "copilot-cli",
            &[
                event("1", "user.message", r#""content":"List it.""#),
                event(
                    "2",
                    "assistant.message",
                    r#""toolRequests":[{"toolCallId":"c1","name":"task","arguments":{}}]"#,
                ),
                event("3", "assistant.message", r#""content":"In the task.","parentToolCallId":"c1""#),
                event(
                    "4",
                    "tool.execution_complete",
                    r#""toolCallId":"c1","result":{"result_type":"success","text_result_for_llm":"ok"}"#,
                ),
                event("5", "user.message", r#""content":"Wrong way.""#),
                event("6", "session.snapshot_rewind", r#""upToEventId":"5","eventsRemoved":1"#),
                event("7", "user.message", r#""content":"Right way.""#),
            ],
        );
        let texts: Vec<&str> = runs[0].steps.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, ["List it.", "task", "ok", "Right way."]);
        assert_eq!(outline(&runs[1]), ["0 1 agent message In the task."]);
        assert_eq!((runs[1].task_id.as_deref(), runs[1].parent.as_deref()), (Some("agent-c1"), Some("s")));
        assert_eq!(told(&losses), ["1 line of an abandoned branch left out"]);
        assert!(
            matches!(origin(event("1", "session.start", r#""sessionId":"a""#).as_bytes(), true), Origin::Uuid(id) if id == "a")
        );
    }
}
