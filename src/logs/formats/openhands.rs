//! OpenHands (once OpenDevin): evaluation results with a history a line (`output.jsonl`), results of its issue resolver, and lists of
//! events. Single events are those of [`super::openhands_events`].
//!
//! - What an observation says is worded as the agent's model got it, with the exit code and the folder of a shell.
//! - Events of one provider response are one reply, with its usage.
//! - A delegate is a run of its own, linked by `parent`; its result stands in the run that called it.
//! - Events of the harness (states, recalls without knowledge) are left out and counted.

use serde_json::value::RawValue;

use super::reading::draft::Losses;
use super::reading::names::{self, Name};
use super::reading::scalar::Scalar;
use super::reading::usage::dollars;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

mod event;
mod sdk;
mod view;

use event::{Bound, Events};
pub(super) use event::{Item, Response};
use view::Met;

pub(super) const ENTRY: Entry = Entry {
    name: "openhands",
    summary: "OpenHands output.jsonl, resolver output, and lists of events",
    reading: Reading::Values(read),
};

record! {
    struct Run in "openhands" {
        instance_id: Name = "instance_id",
        id: Name = "id",
        history: List<Item> = "history",
        metadata: RunMetadata = "metadata",
        metrics: Metrics = "metrics",
        report: Report = "report",
        instance: Instance = "instance",
        issue: Issue = "issue",
        success: Scalar = "success",
        error: Box<RawValue> = "error",
        resolved: Scalar = "resolved",
    }

    struct RunMetadata in "openhands.metadata" {
        agent_class: String = "agent_class",
        llm_config: LlmConfig = "llm_config",
        llm: LlmConfig = "llm",
        condenser: Condenser = "condenser_config",
    }

    struct LlmConfig in "openhands.llm_config" {
        model: String = "model",
    }

    struct Condenser in "openhands.condenser_config" {
        kind: String = "type",
    }

    struct Metrics in "openhands.metrics" {
        condenser: List<Box<RawValue>> = "condenser",
        cost: Scalar = "accumulated_cost",
    }

    struct Report in "openhands.report" {
        resolved: Scalar = "resolved",
    }

    struct Instance in "openhands.instance" {
        repo: String = "repo",
    }

    struct Issue in "openhands.issue" {
        owner: String = "owner",
        repo: String = "repo",
        number: Name = "number",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let is_list = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    let run = match is_list {
        true => Run { history: Some(serde_json::from_slice(bytes)?), ..Run::default() },
        false => serde_json::from_slice(bytes)?,
    };
    finish(run, sink);
    Ok(())
}

fn finish(run: Run, sink: &mut Sink<'_>) {
    let metadata = run.metadata.unwrap_or_default();
    let issue = run.issue.unwrap_or_default();
    let owned = issue.owner.zip(issue.repo).map(|(owner, repo)| format!("{owner}/{repo}"));
    let number = issue.number.unwrap_or_default().0;
    let by_issue = owned.as_ref().map(|repo| format!("{repo}#{number}"));
    let logged =
        [run.instance_id, run.id].into_iter().flatten().map(|n| n.0).find(|n| !n.is_empty()).or(by_issue);
    let is_named_by_file = logged.is_none();
    let by_place = || sink.index.map_or(sink.source.stem.clone(), |i| format!("{}-{i}", sink.source.stem));
    let task = logged.unwrap_or_else(by_place);
    let mut losses = Losses::default();
    let resolved = run.report.and_then(|report| report.resolved).or(run.resolved);
    let resolved = resolved.and_then(|is| is.truth("resolved", &mut losses));
    let error = run.error.filter(|e| e.get() != "null").map(|e| super::reading::fields::words_of(e.get()));
    let success = run.success.and_then(|is| is.truth("success", &mut losses));
    let metrics = run.metrics.unwrap_or_default();
    let about = Trajectory {
        cost: dollars(metrics.cost),
        repository: run.instance.and_then(|i| i.repo).or(owned).or_else(|| names::swe_repository(&task)),
        task_id: Some(task),
        is_named_by_file,
        agent: Some(metadata.agent_class.unwrap_or_else(|| "openhands".to_owned())),
        model: metadata.llm_config.or(metadata.llm).and_then(|llm| llm.model),
        outcome: error.or(success.map(|is| if is { "success" } else { "failure" }.to_owned())),
        resolved,
        label_source: resolved.is_some().then(|| "log".to_owned()),
        ..Trajectory::default()
    };
    let unlogged = metrics.condenser.map_or(0, |edits| edits.0.len());
    let mut history = History { losses, ..History::default() };
    history.losses.add_n("edit of the context by a condenser, not in the history", unlogged as u64);
    for item in run.history.unwrap_or_default().0 {
        item.0.into_iter().for_each(|event| history.read(event));
    }
    history.finish(about, sink);
}

/// Events of a run, and of the delegates in it.
#[derive(Default)]
pub(super) struct History {
    events: Events,
    /// The run, and delegates that are at work, each in the one before.
    open: Vec<(String, Vec<Met>)>,
    delegates: Vec<(String, Vec<Met>)>,
    n: usize,
    pub(super) losses: Losses,
}

impl History {
    pub(super) fn read(&mut self, mut event: event::Logged) {
        let id = event.id.as_ref().map_or(String::new(), |id| id.0.clone());
        let time = event.timestamp.and_then(|time| time.time(&mut self.losses));
        let (bodies, bound) = match event.kind.take() {
            Some(kind) => (sdk::read(&kind, event, &mut self.losses), Bound::None),
            None => self.events.read(event, &mut self.losses),
        };
        if bound == Bound::End && self.open.len() > 1 {
            self.delegates.extend(self.open.pop());
        }
        if self.open.is_empty() {
            self.open.push(Default::default());
        }
        let position = self.n;
        self.n += 1;
        if let Some((_, run)) = self.open.last_mut() {
            run.extend(bodies.into_iter().map(|body| Met { id: id.clone(), position, time, body }));
        }
        if let Bound::Begin(agent) = bound {
            self.open.push((agent, Vec::new()));
        }
    }

    /// Hands over the runs.
    pub(super) fn finish(mut self, about: Trajectory, sink: &mut Sink<'_>) {
        let task = about.task_id.clone().unwrap_or_default();
        let at_work = self.open.split_off(1.min(self.open.len()));
        let main = self.open.pop().map_or(Vec::new(), |(_, events)| events);
        sink.losses.merge(&self.losses);
        let finish = |events: Vec<Met>, about: Trajectory, sink: &mut Sink<'_>| {
            let mut draft = Draft::new();
            let model = view::push(events, &mut draft);
            draft.finish(Trajectory { model: model.or(about.model.clone()), ..about }, sink);
        };
        finish(main, about.clone(), sink);
        for (i, (agent, events)) in self.delegates.into_iter().chain(at_work).enumerate() {
            let (task_id, parent) = (Some(format!("{task}/{agent}-{}", i + 1)), Some(task.clone()));
            let about = Trajectory {
                task_id,
                parent,
                agent: Some(agent),
                outcome: None,
                resolved: None,
                label_source: None,
                ..about.clone()
            };
            finish(events, about, sink);
        }
    }
}

#[cfg(test)]
mod tests;
