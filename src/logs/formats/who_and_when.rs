//! Who&When failure logs: `{history, question, mistake_agent, mistake_step}` of several agents, read as the run of those that
//! decide.
//!
//! In the hand-made ones this is the orchestrator: what it hands to another agent (`Orchestrator (-> X)`) is a call, what that
//! one says the result. In the generated ones the experts speak in turn, each named in its text; the terminal answers them.

use std::collections::HashMap;

use super::reading::message;
use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::logs::formats::reading::fields::Rest;
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry =
    Entry { name: "who-and-when", summary: "Who&When failure logs", reading: Reading::Values(read) };

record! {
    struct Run in "who_and_when" {
        history: List<Said> = "history",
        question: String = "question",
        question_id: Name = "question_ID",
        is_correct: Scalar = "is_correct" | "is_corrected",
        mistake_agent: String = "mistake_agent",
        mistake_step: Name = "mistake_step",
        system_prompt: Prompts = "system_prompt",
    }

    struct Said in "who_and_when.history" {
        content: Content = "content",
        role: String = "role",
        name: String = "name",
    }

    /// The prompt of each agent.
    struct Prompts in "who_and_when.system_prompt" {
        .. rest
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let mut draft = Draft::new();
    for prompt in prompts(run.system_prompt.unwrap_or_default().rest) {
        draft.system(prompt);
    }
    let mut table = Table { question: run.question.unwrap_or_default(), ..Table::default() };
    let mut history = run.history.unwrap_or_default().0.into_iter().enumerate().peekable();
    while let Some((i, said)) = history.next() {
        draft.at(i, None);
        let is_next = |said: &Said| said.role.as_deref().is_some_and(|role| role.starts_with(ORCHESTRATOR));
        table.read(i, said, history.peek().is_some_and(|(_, said)| is_next(said)), &mut draft);
    }
    let resolved = run.is_correct.and_then(|is| is.truth("is_correct", &mut draft.losses));
    let mistake = run.mistake_step.map_or(String::new(), |step| step.0);
    let about = Trajectory {
        task_id: run.question_id.map(|id| id.0).or(Some(sink.source.stem.clone())),
        agent: Some(if table.is_orchestrated { "magentic-one" } else { "captain-agent" }.to_owned()),
        outcome: run.mistake_agent.map(|agent| format!("mistake of {agent} in step {mistake}")),
        resolved,
        label_source: resolved.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

fn prompts(mut rest: Rest) -> Vec<String> {
    let names: Vec<String> = rest.0.iter().map(|(name, _)| name.clone()).collect();
    names.into_iter().map(|name| format!("{name}: {}", rest.take_text(&name))).collect()
}

/// How the role of the orchestrator begins; behind it stands what it does.
const ORCHESTRATOR: &str = "Orchestrator (";

/// Who sits at the table.
#[derive(Default)]
struct Table {
    question: String,
    is_orchestrated: bool,
    has_task: bool,
    /// The orchestrator speaks: what comes belongs to the same reply,
    is_open: bool,
    /// in which it has called somebody.
    has_called: bool,
    /// The newest call of each agent.
    calls: HashMap<String, String>,
}

impl Table {
    /// Reads an entry; `is_orchestrator_next` says that the one behind it is the orchestrator's.
    fn read(&mut self, i: usize, said: Said, is_orchestrator_next: bool, draft: &mut Draft) {
        let role = said.role.unwrap_or_default();
        let text = said.content.unwrap_or_default().into_text(&mut draft.losses);
        // The first entry is the task, whoever is named for it.
        let is_task = !std::mem::replace(&mut self.has_task, true);
        if is_task && !text.contains(self.question.trim()) {
            draft.user(std::mem::take(&mut self.question));
        } else if is_task || role == "human" {
            return draft.user(text);
        }
        let name = said.name.unwrap_or_default();
        if let Some(what) = role.strip_prefix(ORCHESTRATOR) {
            // Behind a call it says who speaks next; more than that is another reply.
            self.is_open &= !(self.has_called && is_orchestrator_next);
            return self.orchestrator(i, what.trim_end_matches(')'), text, draft);
        }
        self.is_open = false;
        if !message::is_role(&role) {
            let call = self.calls.remove(&role);
            draft.result(call.as_deref(), Some(role), text, None);
        } else if name == "Computer_terminal" {
            draft.observation(text, None);
        } else {
            draft.begin_call();
            draft.agent(Kind::Message, format!("{name}: {text}"));
        }
    }

    fn orchestrator(&mut self, i: usize, what: &str, text: String, draft: &mut Draft) {
        self.is_orchestrated = true;
        if !std::mem::replace(&mut self.is_open, true) {
            draft.begin_call();
            self.has_called = false;
        }
        match what.strip_prefix("-> ") {
            Some(agent) => {
                let id = format!("{agent}-{i}");
                self.has_called = true;
                self.calls.insert(agent.to_owned(), id.clone());
                draft.action_as(agent.to_owned(), text, None, Some(id));
            }
            None if what == "thought" => draft.agent(Kind::Thought, text),
            None => draft.agent(Kind::Message, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    fn run(json: &str) -> (Trajectory, Vec<String>) {
        let source = Source::test("d/1.json", "who-and-when");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        assert!(sink.losses.0.keys().all(|what| what == "call without a result"));
        let t = sink.trajectories.remove(0);
        let outline = brief(&t);
        (t, outline)
    }

    #[test]
    fn an_orchestrator_and_experts() {
        let (t, outline) = run(
            r#"{"question":"Who?","question_ID":"q","is_corrected":false,"mistake_agent":"Orchestrator","mistake_step":"3","history":[
            {"role":"human","content":"Who?\n"},{"role":"Orchestrator (thought)","content":"Plan."},{"role":"Orchestrator (-> WebSurfer)","content":"Look."},
            {"role":"Orchestrator (thought)","content":"Plan B."},{"role":"Orchestrator (-> WebSurfer)","content":"Look there."},{"role":"Orchestrator (thought)","content":"Next WebSurfer."},
            {"role":"WebSurfer","content":"Seen."},{"role":"Orchestrator (termination condition)","content":"Stop."}]}"#,
        );
        assert_eq!(
            outline,
            [
                "0 message Who?\n",
                "1 thought Plan.",
                "1 action Look.",
                "2 thought Plan B.",
                "2 action Look there.",
                "2 thought Next WebSurfer.",
                "2 observation Seen.",
                "3 message Stop."
            ]
        );
        assert_eq!(t.steps[4].call_id, t.steps[6].call_id);
        assert_eq!(
            (t.resolved, t.outcome.as_deref()),
            (Some(false), Some("mistake of Orchestrator in step 3"))
        );
        let (_, outline) = run(
            r#"{"question":"Who?","question_ID":"q","is_correct":false,"system_prompt":{"A":"Be A."},"history":[
            {"role":"assistant","name":"A","content":"You are given: Who?"},{"role":"user","name":"Computer_terminal","content":"No code."},
            {"role":"user","name":"A","content":"I check."}]}"#,
        );
        assert_eq!(
            outline,
            [
                "0 system A: Be A.",
                "0 message You are given: Who?",
                "0 observation No code.",
                "1 message A: I check."
            ]
        );
    }
}
