//! Runs as `trajpress redact` writes them: chat messages, with keys of our own for what those have no place for.
//!
//! Nothing is guessed here: turns and kinds are those that are told. Where they are not, or cannot be, a reply is a turn.

use serde_json::value::{RawValue, Value};

use super::reading::content::Function;
use super::reading::draft::{EMPTY_RUN, Losses, clean};
use super::reading::points;
use super::reading::scalar::Scalar;
use super::reading::usage::{LoggedUsage, dollars};
use super::reading::{List, record};
use super::{Entry, Reading, Sink, find};
use crate::trajectory::{Kind, LoggedEdit, Resized, Role, Step, Trajectory, action_text, step};

pub(super) const ENTRY: Entry = Entry {
    name: "trajpress-chat",
    summary: "runs as `trajpress redact` writes them",
    reading: Reading::Values(read),
};

record! {
    struct Run in "trajpress" {
        format: String = "format",
        task_id: String = "task_id",
        repository: String = "repository",
        agent: String = "agent",
        model: String = "model",
        goal: String = "goal",
        constraints: List<String> = "constraints",
        outcome: String = "outcome",
        reward: Scalar = "reward",
        resolved: Scalar = "resolved",
        label_source: String = "label_source",
        parent: String = "parent",
        tokens_sent: Scalar = "logged_tokens_sent",
        cost: Scalar = "logged_cost_usd",
        policy: String = "logged_policy",
        annotations: Box<RawValue> = "annotations",
        tools: Box<RawValue> = "tools",
        messages: List<Message> = "messages",
    }

    struct Message in "trajpress.message" {
        role: String = "role",
        kind: String = "kind",
        by: String = "by",
        content: String = "content",
        reasoning: String = "reasoning_content",
        calls: List<Call> = "tool_calls",
        call_id: String = "tool_call_id",
        tool: String = "name",
        is_error: Scalar = "is_error",
        usage: LoggedUsage = "usage",
        model: String = "model",
        time: Scalar = "timestamp",
        turn: Scalar = "turn",
        message: Scalar = "message",
        kept_to: Scalar = "kept_to",
        edit: Edit = "edit",
        resized: Sizes = "resized",
    }

    struct Sizes in "trajpress.resized" {
        from: Scalar = "from",
        to: Scalar = "to",
    }

    struct Call in "trajpress.call" {
        id: String = "id",
        function: Function = "function",
        text: String = "text",
        has_arguments: Scalar = "has_arguments",
    }

    struct Edit in "trajpress.edit" {
        from: Scalar = "from",
        text: String = "text",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let mut steps = Steps::default();
    if let Some(tools) = run.tools {
        // As it is written, whatever blanks stand between.
        let value = serde_json::from_str::<Value>(tools.get());
        steps.push(step(Role::System, Kind::Tools, value.map_or(tools.get().to_owned(), |v| v.to_string())));
    }
    for (i, message) in run.messages.unwrap_or_default().0.into_iter().enumerate() {
        steps.read(i, message);
    }
    let Steps { steps, mut losses, .. } = steps;
    let reward = run.reward.and_then(|reward| reward.number("reward", &mut losses));
    let resolved = run.resolved.and_then(|is| is.truth("resolved", &mut losses));
    let annotations = run.annotations.map(|a| points::with_clean_points(a.get(), &mut losses));
    if steps.is_empty() {
        losses.add(EMPTY_RUN);
        sink.losses.merge(&losses);
        return Ok(());
    }
    let mut run = Trajectory {
        source: sink.source.path.clone(),
        // The same content is the same run.
        format: run.format.filter(|name| find(name).is_ok()).unwrap_or_else(|| ENTRY.name.to_owned()),
        task_id: run.task_id,
        repository: run.repository,
        agent: run.agent,
        model: run.model,
        goal: run.goal,
        constraints: run.constraints.unwrap_or_default().0,
        outcome: run.outcome,
        reward,
        resolved,
        label_source: run.label_source,
        annotations,
        parent: run.parent,
        tokens_sent: run.tokens_sent.and_then(Scalar::count),
        cost: dollars(run.cost),
        policy: run.policy,
        steps,
        ..Trajectory::default()
    };
    run.goal.iter_mut().chain(&mut run.constraints).for_each(|text| clean(text, &mut losses));
    run.id = run.content_id();
    sink.losses.merge(&losses);
    sink.trajectories.push(run);
    Ok(())
}

/// The steps so far, and the place of the newest one.
#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
    losses: Losses,
    turn: u32,
    segment: u32,
}

impl Steps {
    /// A step behind the others, in the place where they stand.
    fn push(&mut self, mut step: Step) {
        if step.kind == Kind::Compaction {
            (self.turn, self.segment) = (self.turn + 1, self.segment + 1);
        }
        (step.turn, step.segment) = (self.turn, self.segment);
        // The head stands in every prompt anyway.
        step.kept_to = step.kept_to.filter(|kept| step.turn > 0 && *kept > step.segment);
        clean(&mut step.text, &mut self.losses);
        step.arguments = step.arguments.map(|arguments| {
            let mut arguments = arguments.into_string();
            clean(&mut arguments, &mut self.losses);
            arguments.into()
        });
        self.steps.push(step);
    }

    fn read(&mut self, i: usize, message: Message) {
        let Message { role, kind, by, content, reasoning, calls, call_id, tool, .. } = message;
        let role = role.unwrap_or_default();
        let usual = match role.as_str() {
            "assistant" => (Role::Agent, Kind::Message),
            "system" => (Role::System, Kind::System),
            "tool" => (Role::Tool, Kind::Observation),
            "compaction" => (Role::User, Kind::Compaction),
            _ => (Role::User, Kind::Message),
        };
        let told = kind.as_deref().and_then(Kind::parse);
        let (who, kind) = (by.as_deref().and_then(Role::parse).unwrap_or(usual.0), told.unwrap_or(usual.1));
        let count = |n: Option<Scalar>| n.and_then(Scalar::count).and_then(|n| u32::try_from(n).ok());
        let mut place = step(who, kind, "");
        place.time = message.time.unwrap_or_default().time(&mut self.losses);
        place.message = count(message.message).unwrap_or(i as u32);
        place.kept_to = count(message.kept_to);
        // A turn is the same as before or the next one.
        let next = self.turn + u32::from(who == Role::Agent);
        self.turn = count(message.turn).unwrap_or(next).clamp(self.turn, self.turn + 1);
        if kind == Kind::Compaction {
            self.turn = self.steps.last().map_or(0, |step| step.turn);
        } else if who == Role::Agent {
            self.turn = self.turn.max(1);
        }
        place.edit = message.edit.and_then(|edit| {
            let from = count(edit.from).filter(|from| *from >= self.turn)?;
            Some(Box::new(LoggedEdit { from, text: edit.text.unwrap_or_default() }))
        });
        let sizes = message.resized.unwrap_or_default();
        let [from, to] = [sizes.from, sizes.to].map(|n| n.and_then(Scalar::count));
        place.resized = Resized { from, to }.known();
        if who == Role::Agent && told.is_none() {
            place.usage = message.usage.and_then(|usage| usage.of_call()).map(Box::new);
            place.model = message.model.map(String::into_boxed_str);
            return self.read_reply(reasoning, content, calls.unwrap_or_default().0, place);
        }
        place.text = content.unwrap_or_default();
        (place.tool, place.call_id) = (tool.map(Into::into), call_id.map(Into::into));
        place.is_error = message.is_error.and_then(|is| is.truth("is_error", &mut self.losses));
        self.push(place);
    }

    /// What the agent thought, said and called; `place` is where that stands.
    fn read_reply(
        &mut self,
        thought: Option<String>,
        said: Option<String>,
        calls: Vec<Call>,
        mut place: Step,
    ) {
        let kind = if calls.is_empty() { Kind::Message } else { Kind::Thought };
        let texts = [(Kind::Thought, thought), (kind, said)];
        let texts = texts.into_iter().filter_map(|(kind, text)| Some(step(Role::Agent, kind, text?)));
        let calls = calls.into_iter().map(|call| {
            let Function { name, arguments, .. } = call.function.unwrap_or_default();
            let (tool, arguments) = (name.unwrap_or_default(), arguments.unwrap_or_default().0);
            let text = call.text.unwrap_or_else(|| action_text(&tool, &arguments));
            let has_arguments = call.has_arguments != Some(Scalar::Bool(false));
            let mut action = step(Role::Agent, Kind::Action, text);
            (action.tool, action.call_id) = (Some(tool.into()), call.id.map(Into::into));
            action.arguments = has_arguments.then(|| arguments.into());
            action
        });
        for mut step in texts.chain(calls) {
            (step.time, step.message, step.kept_to) = (place.time, place.message, place.kept_to);
            (step.usage, step.model) = (place.usage.take(), place.model.take());
            (step.edit, step.resized) = (place.edit.clone(), place.resized.clone());
            self.push(step);
        }
    }
}
