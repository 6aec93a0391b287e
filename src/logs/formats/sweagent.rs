//! SWE-agent trajectories (`.traj`): 0.x with commands in text, 1.x with tool calls, the attempts of the retry agent,
//! and demonstrations.
//!
//! `trajectory` and `history` tell the same story twice. The steps come from `trajectory`; system prompt, demonstrations
//! and task, which only `history` has, from there, and so do the words of each observation: in `history` it stands as
//! the model got it, with open file and directory behind it (0.x) or in the words of a template (1.x). In 1.x the tool
//! calls stand in `history` alone. Its entries are matched to the steps by command and words; one that is missing or fits
//! no step costs only itself. A hand-made demonstration that has only `history` is read from it. Demonstrations inside of a run stood in all
//! of its prompts: they are head.
//!
//! What the agent was sent of old observations is told by [`masking`].

use serde_json::value::RawValue;

use crate::logs::formats::reading::content::ToolCalls;
use crate::logs::formats::reading::fields::RawItems;
use crate::logs::formats::reading::others::{self, Said};
use crate::logs::formats::reading::reply::Call;
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::usage::dollars;
use crate::logs::formats::reading::{Content, Draft, List, names, record};
use crate::logs::formats::{Entry, Losses, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

mod calls;
mod masking;
mod replied;

use calls::Calls;
use masking::Observed;
use replied::{Replied, said};

pub(super) const ENTRY: Entry = Entry {
    name: "sweagent",
    summary: "SWE-agent .traj files, 0.x and 1.x, retries, and demonstrations",
    reading: Reading::Values(read),
};

record! {
    struct File in "traj" {
        trajectory: List<TrajStep> = "trajectory",
        history: List<Message> = "history",
        info: Info = "info",
        environment: String = "environment",
        replay_config: Box<RawValue> = "replay_config",
        attempts: RawItems = "attempts",
    }

    struct TrajStep in "traj.step" {
        action: String = "action",
        observation: Content = "observation",
        thought: String = "thought",
        response: String = "response",
        // The whole prompt stands beside each step.
        .. rest but "state" | "query" | "messages"
    }

    struct Info in "traj.info" {
        exit_status: String = "exit_status",
        swe_agent_version: String = "swe_agent_version",
        model_stats: ModelStats = "model_stats",
    }

    struct ModelStats in "traj.info.model_stats" {
        tokens_sent: Scalar = "tokens_sent",
        api_calls: Scalar = "api_calls",
        cost: Scalar = "instance_cost",
    }

    struct Message in "traj.history" {
        role: String = "role",
        content: Content = "content",
        is_demo: Scalar = "is_demo",
        message_type: String = "message_type",
        thought: String = "thought",
        action: String = "action",
        tool_calls: ToolCalls = "tool_calls",
        tool_call_ids: List<String> = "tool_call_ids",
        tags: List<String> = "tags",
        .. rest
    }
}

impl Message {
    fn is_demonstration(&self) -> bool {
        self.is_demo.and_then(|is| is.truth("is_demo", &mut Losses::default())) == Some(true)
            || self.message_type.as_deref() == Some("demonstration")
    }

    fn is_agent(&self) -> bool {
        self.role.as_deref() == Some("assistant")
    }

    /// Its content, with what it says in fields that have no rule.
    fn take_content(&mut self, losses: &mut Losses) -> Content {
        let mut content = self.content.take().unwrap_or_default();
        let others = others::read(&self.rest, || Said::of(texts(&content)), losses).behind(String::new());
        if !others.is_empty() {
            content.append(others);
        }
        content
    }
}

fn texts(content: &Content) -> Vec<&str> {
    let mut texts = Vec::new();
    content.say(&mut texts);
    texts
}

/// Steps of the harness, not of the model: how a run was ended from outside.
fn is_exit(step: &TrajStep) -> bool {
    let action = step.action.as_deref().unwrap_or("").trim();
    let exits = ["exit_cost", "exit_context", "exit_format", "exit_error", "exit_api", "exit_forfeit"];
    exits.contains(&action) && step.response.as_deref().unwrap_or("").starts_with("Exit")
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let mut file: File = serde_json::from_slice(bytes)?;
    let attempts = file.attempts.take().map_or_else(Vec::new, |items| items.0);
    let has_run = file.trajectory.is_some() || file.history.is_some();
    if has_run || attempts.is_empty() {
        // The attempt that was chosen stands in the file itself; its counts are those of all attempts.
        if !attempts.is_empty() {
            sink.losses.add_n("attempt that was not chosen left out", attempts.len() as u64 - 1);
            file.info.get_or_insert_default().model_stats = None;
        }
        finish(file, None, sink);
        return Ok(());
    }
    sink.losses.add_n("attempt of which none was chosen read as a run", attempts.len() as u64);
    for (i, (address, attempt)) in attempts.into_iter().enumerate() {
        let offset = address.checked_sub(bytes.as_ptr() as usize).unwrap_or_default();
        super::read_item(&attempt, offset, sink, |file, sink| finish(file, Some(i), sink));
    }
    Ok(())
}

/// Turns a file, or an attempt in it, into a trajectory.
fn finish(file: File, attempt: Option<usize>, sink: &mut Sink<'_>) {
    let info = file.info.unwrap_or_default();
    let steps = file.trajectory.unwrap_or_default().0;
    let mut head = file.history.unwrap_or_default().0;
    let mut draft = Draft::new();
    let n_head = head.iter().position(|e| e.is_agent() && !e.is_demonstration()).unwrap_or(head.len());
    let mut body = head.split_off(n_head);
    let n_body = body.len();
    body.retain(|e| !e.is_demonstration());
    draft.losses.add_n("demonstration after the first reply left out", (n_body - body.len()) as u64);
    let stats = info.model_stats.unwrap_or_default();
    let count = |s: Option<Scalar>| s.and_then(Scalar::count);
    let run = masking::Run {
        replay_config: file.replay_config.as_deref().map(RawValue::get),
        is_version_0: info.swe_agent_version.is_none()
            && !head.iter().chain(&body).any(|e| e.message_type.is_some() || e.tool_calls.is_some()),
        was_a_model: !steps.is_empty() && count(stats.api_calls) != Some(0),
    };
    let policy = masking::policy(&run, &mut draft.losses);
    let mut message = 0;
    let mut n_said = 0;
    for mut entry in head {
        draft.at(message, None);
        message += 1;
        let is_demonstration = entry.is_demonstration();
        let text = entry.take_content(&mut draft.losses).into_text(&mut draft.losses);
        match entry.role.as_deref() {
            _ if is_demonstration => draft.demonstration(text),
            Some("system") => draft.system(text),
            _ => {
                n_said += 1;
                draft.user(text);
            }
        }
    }
    if steps.is_empty() {
        read_history(body, message, &mut draft);
    } else {
        let observed = read_steps(steps, body, message, &mut draft);
        if let Some(policy) = &policy {
            policy.apply(n_said, observed, &mut draft);
        }
    }
    let task = names::swe_task_id(&sink.source.stem).to_owned();
    let about = Trajectory {
        repository: names::swe_repository(&task),
        task_id: Some(attempt.map_or(task.clone(), |i| format!("{task}-attempt-{}", i + 1))),
        is_named_by_file: true,
        agent: Some("swe-agent".to_owned()),
        outcome: info.exit_status,
        tokens_sent: count(stats.tokens_sent).filter(|n| *n > 0),
        cost: dollars(stats.cost),
        policy: policy.map(|p| p.words()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// Pushes the steps of the run; returns its observations as the history has them.
fn read_steps(
    steps: Vec<TrajStep>,
    body: Vec<Message>,
    mut message: usize,
    draft: &mut Draft,
) -> Vec<Observed> {
    let mut calls = Calls::of(body, &steps, &mut draft.losses);
    let mut observed = Vec::new();
    for (i, step) in steps.into_iter().enumerate() {
        if is_exit(&step) {
            draft.losses.add("exit written by the harness left out");
            continue;
        }
        draft.at(message, None);
        message += 1;
        draft.begin_call();
        let action = step.action.unwrap_or_default();
        let has_call = !action.trim().is_empty();
        let mut entry = calls.of_step(i, draft).unwrap_or_default();
        // The response is thought and command in one; alone it counts only where no command was found.
        let mut thought = step.thought.unwrap_or_default();
        let response = step.response.unwrap_or_default();
        entry.rest.0.splice(0..0, step.rest.0);
        entry.said.extend([thought.clone(), response.clone()]);
        if !has_call && thought.trim().is_empty() {
            thought = response;
        }
        let answer = entry.answer.take();
        let id = push_reply(thought, action, entry, draft);
        let at = draft.n_steps();
        let (text, sent) = said(step.observation.unwrap_or_default(), answer, draft);
        if has_call {
            draft.result(id.as_deref(), None, text, None);
        } else if !text.is_empty() {
            draft.observation(text, None);
        }
        let step = (draft.n_steps() > at).then_some(at);
        observed.push(Observed { step, turn: draft.turn(), marker: sent.0, tags: sent.1 });
    }
    observed
}

/// Pushes a reply with its action; returns the logged id of that.
fn push_reply(thought: String, action: String, entry: Replied, draft: &mut Draft) -> Option<String> {
    let has_call = !action.trim().is_empty();
    let kind = if has_call { Kind::Thought } else { Kind::Message };
    let said = || {
        let mut said = Said::of(entry.said.iter().chain([&thought, &action]).map(String::as_str));
        for call in entry.tool_calls.iter().flat_map(|calls| &calls.0) {
            let function = call.function.as_ref().and_then(|f| f.arguments.as_ref());
            function.or(call.arguments.as_ref()).inspect(|arguments| said.add(&arguments.0));
        }
        said
    };
    let mut others = others::read(&entry.rest, said, &mut draft.losses);
    for thought in std::mem::take(&mut others.thoughts) {
        draft.agent(Kind::Thought, thought);
    }
    draft.agent(kind, thought);
    draft.agent(kind, others.behind(String::new()));
    if has_call { push_action(action, entry.tool_calls, draft) } else { None }
}

/// Pushes the action of a step, by its tool call where that is logged; returns the logged id.
fn push_action(action: String, tool_calls: Option<ToolCalls>, draft: &mut Draft) -> Option<String> {
    let mut calls: Vec<Call> = Vec::new();
    for call in tool_calls.map(|c| c.0).unwrap_or_default().into_iter().map(Call::of) {
        if calls.iter().any(|known| known.is(&call)) {
            draft.losses.add("repeated call merged");
        } else {
            calls.push(call);
        }
    }
    if calls.len() == 1 {
        let Call { id, tool, arguments, .. } = calls.remove(0);
        draft.action(tool, arguments, id.clone());
        return id;
    }
    draft.losses.add_n("tool call told by its command only", calls.len() as u64);
    let tool = action.split_whitespace().next().unwrap_or("").chars().take(80).collect();
    draft.action_as(tool, action, None, None);
    None
}

fn read_history(body: Vec<Message>, mut message: usize, draft: &mut Draft) {
    for mut entry in body {
        draft.at(message, None);
        message += 1;
        if entry.is_agent() {
            draft.begin_call();
            let text = entry.content.take().unwrap_or_default().into_text(&mut draft.losses);
            let (thought, action) = (entry.thought.clone(), entry.action.clone().unwrap_or_default());
            let mut entry = Replied::of(entry);
            entry.said.push(text.clone());
            push_reply(thought.unwrap_or(text), action, entry, draft);
            continue;
        }
        let text = entry.take_content(&mut draft.losses).into_text(&mut draft.losses);
        if entry.role.as_deref() == Some("system") {
            draft.system(text);
        } else {
            let id = entry.tool_call_ids.and_then(|ids| ids.0.into_iter().next());
            draft.result(id.as_deref(), None, text, None);
        }
    }
}

#[cfg(test)]
mod tests;
