//! Logs without secrets and personal data, as chat messages.

use std::collections::BTreeMap;

use crate::store::{StepRow, step_rows};
use crate::text::escape;
use crate::text::redact::{Tally, add};

use super::forks::{Forked, Forks};
use super::sessions::Beginning;
use super::{Options, input, jobs, messages, parts};

/// What was redacted and what could not be read.
#[derive(Debug, Default, serde::Serialize)]
pub struct Redacted {
    pub runs: u64,
    /// By kind: places, and different values.
    pub found: Tally,
    /// What forks of sessions had of others, by what became of it.
    pub context: BTreeMap<String, u64>,
    /// Files that were not asked for.
    pub left_out: u64,
    /// Files without a run.
    pub without_runs: Vec<String>,
    /// What could not be read, with file and line.
    pub rejects: Vec<String>,
}

/// Reads logs and hands each run over as a line of JSON: chat messages, redacted.
pub fn redact_logs(
    options: &Options,
    mut each: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Redacted> {
    let how = jobs::How { redacts: true, ..super::how(options)? };
    let mut inputs = parts::joined(input::find(&options.inputs)?);
    let (left_out, _) = options.filter.apply(&mut inputs)?;
    let (beginnings, origins) = jobs::all_beginnings(&mut inputs, how)?;
    let mut forks = Forks::default();
    let mut done = Redacted { left_out, ..Redacted::default() };
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
        let shared = origins[part.input].filter(|_| part.beginning == Some(Beginning::Shared));
        for run in part.runs {
            // A session goes on in another file, which is read, too.
            if goes_on && run.row.parent.is_none() {
                continue;
            }
            let forked = forks.take(shared, run, part.input, &mut done.context);
            if let Forked::Run(super::part::Run { row, steps, .. }) = forked {
                let steps: Vec<StepRow> = step_rows(&row.trajectory, steps).collect();
                each(&escape::json_line(&messages::messages(&row, &steps))?)?;
                done.runs += 1;
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
