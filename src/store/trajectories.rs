//! Table `trajectories`: what is known of a run beside its steps.

use super::row::table;
use crate::trajectory::Trajectory;

table! {
    /// One logged run.
    pub struct TrajectoryRow in "trajectories" {
        /// Content hash of the steps, 32 hex digits.
        pub trajectory: String,
        /// Path of the file it was read from, relative to the ingested folder.
        pub source: String,
        /// Name of the reader.
        pub format: String,
        /// Task id as logged or taken from the file name; null is unknown.
        pub task_id: Option<String>,
        /// Repository, domain or scenario: the cluster of the statistics; null is unknown.
        pub repository: Option<String>,
        /// Agent as logged; null is unknown.
        pub agent: Option<String>,
        /// Model as logged; null is unknown.
        pub model: Option<String>,
        /// The task: an annotation, or the first user message; in a run without keys and personal data.
        pub goal: Option<String>,
        /// Constraints by annotation; empty is none known, and in a run.
        pub constraints: Vec<String>,
        /// Exit status as logged; null is unknown.
        pub outcome: Option<String>,
        /// Reward as logged; null is unknown, never 0.
        pub reward: Option<f64>,
        /// Whether the task was solved, by the log or a label file; null is unknown.
        pub resolved: Option<bool>,
        /// Where reward and resolved come from: `log` or the path of a label file.
        pub label_source: Option<String>,
        /// Number of steps.
        pub n_steps: u32,
        /// Number of turns after the head.
        pub n_turns: u32,
        /// Number of segments; more than 1 where the log itself contains compactions.
        pub n_segments: u32,
        /// Bytes of text over all steps.
        pub n_bytes: u64,
        /// The `annotations` object of the annotated form, JSON; null where there is none, and in a run.
        pub annotations: Option<String>,
        /// Session or task that started this run, as the log names it; null for a run of its own.
        pub parent: Option<String>,
        /// Tokens of all prompts together, as the log counts them; null is unknown.
        pub logged_tokens_sent: Option<u64>,
        /// What the run cost in USD, as the log sums it up; null is unknown. What calls cost stands in their steps.
        pub logged_cost_usd: Option<f64>,
        /// The policy behind the edits that the log records (`edit_from` of steps); null where it records none.
        pub logged_policy: Option<String>,
        /// Whether its prompts were cached for an hour and not for five minutes, by what was written more; null where not logged.
        pub cached_an_hour: Option<bool>,
        /// The same for the same run however it has grown: format, and the log's own session id, else the file's digest and
        /// the run's number in it.
        pub source_key: String,
        /// Hash of all that its steps hold, 32 hex digits: `trajectory` leaves out times, arguments, errors and places in the log.
        pub content: String,
    }
}

table! {
    /// What makes trajectories alike, for a sample.
    pub struct TrajectoryTraits in "trajectories" {
        /// Content hash of the steps, 32 hex digits.
        pub trajectory: String,
        /// Name of the reader.
        pub format: String,
        /// Name of the agent, as logged.
        pub agent: Option<String>,
        /// Whether the task was solved; null is unknown.
        pub resolved: Option<bool>,
        /// Number of steps.
        pub n_steps: u32,
    }
}

table! {
    /// What is needed to choose a trajectory without reading the rest of its row.
    pub struct TrajectoryKey in "trajectories" {
        /// Content hash of the steps, 32 hex digits.
        pub trajectory: String,
        /// Path of the file it was read from, relative to the ingested folder.
        pub source: String,
        /// Name of the reader.
        pub format: String,
        /// Number of turns after the head.
        pub n_turns: u32,
        /// Bytes of the text of its steps.
        pub n_bytes: u64,
    }
}

impl From<&Trajectory> for TrajectoryRow {
    fn from(t: &Trajectory) -> Self {
        TrajectoryRow {
            trajectory: t.id.clone(),
            source: t.source.clone(),
            format: t.format.clone(),
            task_id: t.task_id.clone(),
            repository: t.repository.clone(),
            agent: t.agent.clone(),
            model: t.model.clone(),
            goal: t.goal.clone(),
            constraints: t.constraints.clone(),
            outcome: t.outcome.clone(),
            reward: t.reward,
            resolved: t.resolved,
            label_source: t.label_source.clone(),
            n_steps: t.steps.len() as u32,
            n_turns: t.n_turns(),
            n_segments: t.steps.last().map_or(1, |s| s.segment + 1),
            n_bytes: t.steps.iter().map(|s| s.text.len() as u64).sum(),
            annotations: t.annotations.clone(),
            parent: t.parent.clone(),
            logged_tokens_sent: t.tokens_sent,
            logged_cost_usd: t.cost,
            logged_policy: t.policy.clone(),
            cached_an_hour: t.is_cached_an_hour(),
            content: t.content(),
            source_key: t.session.as_ref().map(|name| format!("{} {name}", t.format)).unwrap_or_default(),
        }
    }
}

impl From<TrajectoryRow> for Trajectory {
    /// Without its steps.
    fn from(row: TrajectoryRow) -> Self {
        Trajectory {
            id: row.trajectory,
            source: row.source,
            format: row.format,
            task_id: row.task_id,
            is_named_by_file: false,
            repository: row.repository,
            agent: row.agent,
            model: row.model,
            goal: row.goal,
            constraints: row.constraints,
            outcome: row.outcome,
            reward: row.reward,
            resolved: row.resolved,
            label_source: row.label_source,
            annotations: row.annotations,
            parent: row.parent,
            session: None,
            tokens_sent: row.logged_tokens_sent,
            cost: row.logged_cost_usd,
            policy: row.logged_policy,
            steps: Vec::new(),
        }
    }
}
