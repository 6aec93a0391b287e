//! Logs without secrets and personal data, as chat messages.

use std::path::PathBuf;

use crate::store::{StepRow, TrajectoryRow, step_rows};
use crate::text::escape;
use crate::text::redact::{Tally, add};

use super::sessions::Beginning;
use super::{Limits, formats, input, jobs, messages, parts};

/// What was redacted and what could not be read.
#[derive(Debug, Default, serde::Serialize)]
pub struct Redacted {
    pub runs: u64,
    /// By kind: places, and different values.
    pub found: Tally,
    /// Steps of which the log says more than messages can: edits, and what a compaction kept.
    pub steps_with_more: u64,
    /// Files without a run.
    pub without_runs: Vec<String>,
    /// What could not be read, with file and line.
    pub rejects: Vec<String>,
}

/// Reads logs and hands each run over as a line of JSON: chat messages, redacted.
pub fn redact_logs(
    logs: &[PathBuf],
    format: Option<&str>,
    threads: usize,
    mut each: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Redacted> {
    let inputs = parts::joined(input::find(logs)?);
    let how = jobs::How {
        forced: format.map(formats::find).transpose()?,
        threads: Limits::default().threads(threads),
        limits: Limits::default(),
        redacts: true,
        mapping: None,
    };
    let beginnings = jobs::all_beginnings(&inputs, how)?;
    let mut done = Redacted::default();
    let mut n_runs = 0;
    jobs::for_each_part(&inputs, how, &beginnings, |part| {
        let name = &inputs[part.input].name;
        add(&mut done.found, &part.redacted);
        for reject in &part.rejects {
            let line = reject.line.map_or(String::new(), |line| format!(", line {line}"));
            done.rejects.push(format!("{name}{line}: {}", reject.reason));
        }
        let goes_on = matches!(part.beginning, Some(Beginning::Whole(_)));
        n_runs += part.runs.len();
        for jobs::Run { row, steps, .. } in part.runs {
            // A session goes on in another file, which is read, too.
            if !(goes_on && row.parent.is_none()) {
                let steps: Vec<StepRow> = step_rows(&row.trajectory, steps).collect();
                each(&line(&row, &steps, &mut done)?)?;
            }
        }
        if part.is_last {
            if n_runs == 0 {
                done.without_runs.push(name.clone());
            }
            n_runs = 0;
        }
        Ok(())
    })?;
    Ok(done)
}

fn line(row: &TrajectoryRow, steps: &[StepRow], done: &mut Redacted) -> anyhow::Result<String> {
    let (value, n_more) = messages::messages(row, steps);
    done.runs += 1;
    done.steps_with_more += n_more;
    Ok(escape::json_line(&value)?)
}
