//! Table `steps`: what a log says, entry by entry.

use std::borrow::Cow;
use std::sync::Arc;

use anyhow::Context as _;

use super::column::Time;
use super::row::table;
use crate::trajectory::{Kind, LoggedEdit, Resized, Role, Step, Usage};

table! {
    /// One entry of a log: what the log says.
    pub struct StepRow in "steps" {
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Position in the trajectory, from 0.
        pub step: u32,
        /// Turn: one model call with its results; 0 is the head before the first call.
        pub turn: u32,
        /// Segment: raised by each compaction that the log contains.
        pub segment: u32,
        /// Index of the logged message that it came from.
        pub message: u32,
        /// system, user, agent, tool.
        pub role: Cow<'static, str>,
        /// system, tools, demonstration, message, thought, action, observation, compaction.
        pub kind: Cow<'static, str>,
        /// What the model saw or wrote.
        pub text: String,
        /// Tool name, where known.
        pub tool: Option<String>,
        /// Ties an observation to its action.
        pub call_id: Option<String>,
        /// Arguments of an action as logged.
        pub arguments: Option<String>,
        /// When it was logged, UTC, where known; not monotone.
        pub time: Option<Time>,
        /// Whether the tool said that it failed, where logged.
        pub is_error: Option<bool>,
        /// On the first step of a reply, and on a compaction of the call that wrote it: tokens of its whole prompt by the
        /// provider's count, cache included; null is unknown.
        pub usage_in: Option<u64>,
        /// Likewise: tokens that the model wrote.
        pub usage_out: Option<u64>,
        /// Likewise: tokens of the prompt that the cache served.
        pub usage_cache_read: Option<u64>,
        /// Likewise: tokens of the prompt that were written to the cache.
        pub usage_cache_write: Option<u64>,
        /// Likewise: tokens of these that were written for an hour; the rest for five minutes.
        pub usage_cache_write_1h: Option<u64>,
        /// Likewise: tokens that the model wrote as reasoning; part of `usage_out`.
        pub usage_reasoning: Option<u64>,
        /// Likewise: what the call cost in USD, by the log's own count.
        pub cost_usd: Option<f64>,
        /// Likewise: the model, where the log names another than that of the first reply.
        pub model: Option<String>,
        /// Turn from whose decision on the agent was sent `edit_text` instead; null where the log records no edit.
        pub edit_from: Option<u32>,
        /// What was sent instead; empty if the step was left out.
        pub edit_text: Option<String>,
        /// Last segment in whose prompts it stands, where a compaction that the log records kept it; null: its own alone.
        pub kept_to: Option<u32>,
        /// On a compaction, and on a step with an edit: tokens of the whole context before it, as the log's record of it says; null where
        /// it does not.
        pub resized_from: Option<u64>,
        /// Likewise: tokens of the context behind it.
        pub resized_to: Option<u64>,
    }
}

table! {
    /// Whose row it is.
    pub struct StepKey in "steps" {
        /// Trajectory id.
        pub trajectory: String,
        /// Turn from whose decision on the agent was sent something else; null where the log records no edit.
        pub edit_from: Option<u32>,
    }
}

table! {
    /// What is needed of a step to know how long prompts are.
    pub struct StepUsage in "steps" {
        /// Turn: one model call with its results; 0 is the head before the first call.
        pub turn: u32,
        /// Segment: raised by each compaction that the log contains.
        pub segment: u32,
        /// system, user, agent, tool.
        pub role: Cow<'static, str>,
        /// On the first step of a reply: tokens of its whole prompt by the provider's count, cache included; null is unknown.
        pub usage_in: Option<u64>,
    }
}

table! {
    /// Which model answered.
    pub struct StepModel in "steps" {
        /// On the first step of a reply: the model, where the log names another than that of the first reply.
        pub model: Option<String>,
    }
}

table! {
    /// When a step was logged.
    pub struct StepTime in "steps" {
        /// When it was logged, UTC, where known; not monotone.
        pub time: Option<Time>,
    }
}

/// The steps of a trajectory as rows, made one by one; takes the texts with it.
pub fn step_rows(id: &str, steps: Vec<Step>) -> impl Iterator<Item = StepRow> {
    let id: Arc<str> = id.into();
    steps.into_iter().enumerate().map(move |(i, s)| StepRow {
        trajectory: id.clone(),
        step: i as u32,
        turn: s.turn,
        segment: s.segment,
        message: s.message,
        role: s.role.name().into(),
        kind: s.kind.name().into(),
        text: s.text,
        tool: s.tool.map(Into::into),
        call_id: s.call_id.map(Into::into),
        arguments: s.arguments.map(Into::into),
        time: s.time.map(Time),
        is_error: s.is_error,
        usage_in: s.usage.as_ref().map(|u| u.input).filter(|input| *input > 0),
        usage_out: s.usage.as_ref().and_then(|u| u.output),
        usage_cache_read: s.usage.as_ref().and_then(|u| u.cache_read),
        usage_cache_write: s.usage.as_ref().and_then(|u| u.cache_write),
        usage_cache_write_1h: s.usage.as_ref().and_then(|u| u.cache_write_1h),
        usage_reasoning: s.usage.as_ref().and_then(|u| u.reasoning),
        cost_usd: s.usage.as_ref().and_then(|u| u.cost),
        model: s.model.map(String::from),
        edit_from: s.edit.as_ref().map(|e| e.from),
        edit_text: s.edit.map(|e| e.text),
        kept_to: s.kept_to,
        resized_from: s.resized.as_ref().and_then(|r| r.from),
        resized_to: s.resized.and_then(|r| r.to),
    })
}

impl TryFrom<StepRow> for Step {
    type Error = anyhow::Error;
    fn try_from(row: StepRow) -> anyhow::Result<Self> {
        Ok(Step {
            turn: row.turn,
            segment: row.segment,
            role: Role::parse(&row.role).with_context(|| format!("unknown role `{}`", row.role))?,
            kind: Kind::parse(&row.kind).with_context(|| format!("unknown kind `{}`", row.kind))?,
            text: row.text,
            tool: row.tool.map(Into::into),
            call_id: row.call_id.map(Into::into),
            arguments: row.arguments.map(Into::into),
            time: row.time.map(|t| t.0),
            is_error: row.is_error,
            message: row.message,
            usage: row.usage_in.or(row.usage_out.map(|_| 0)).map(|input| {
                Box::new(Usage {
                    input,
                    output: row.usage_out,
                    cache_read: row.usage_cache_read,
                    cache_write: row.usage_cache_write,
                    cache_write_1h: row.usage_cache_write_1h,
                    reasoning: row.usage_reasoning,
                    cost: row.cost_usd,
                })
            }),
            model: row.model.map(String::into_boxed_str),
            edit: row
                .edit_from
                .map(|from| Box::new(LoggedEdit { from, text: row.edit_text.unwrap_or_default() })),
            kept_to: row.kept_to,
            resized: Resized { from: row.resized_from, to: row.resized_to }.known(),
        })
    }
}
