//! What `run` says at its end.

use indicatif::HumanCount;

use super::Outcome;
use crate::cli::count;

pub(super) fn summary(outcome: &Outcome, out: &str) -> String {
    let rate = outcome.step_variants as f64 / outcome.seconds.max(1e-9);
    let grid = format!(
        "{} x {}",
        count(outcome.n_variants as u64, "variant"),
        count(outcome.n_trajectories as u64, "trajectory")
    );
    // What other processes have done is not counted before the end.
    let mut lines = vec![match outcome.finished || outcome.done > 0 {
        true => format!(
            "{grid}: {} ok, {} with errors",
            count(outcome.cells_ok, "cell"),
            HumanCount(outcome.cells_error)
        ),
        false => grid,
    }];
    lines.push(format!(
        "{}: {} done, {} there before; {} in {:.1} s ({}/s)",
        count(outcome.n_units as u64, "unit"),
        HumanCount(outcome.done as u64),
        HumanCount(outcome.skipped as u64),
        count(outcome.step_variants, "step-variant"),
        outcome.seconds,
        HumanCount(rate as u64)
    ));
    if outcome.cells_known > 0 || outcome.cells_again > 0 {
        lines.push(format!(
            "{} of units done were known from before, {} computed again since log, partners or usage changed",
            count(outcome.cells_known, "cell"),
            HumanCount(outcome.cells_again)
        ));
    }
    if outcome.lost_races > 0 {
        let n = count(outcome.lost_races as u64, "unit");
        lines.push(format!("{n} had parts by another process or an earlier attempt"));
    }
    if outcome.nondeterministic > 0 {
        let n = count(outcome.nondeterministic as u64, "part");
        lines.push(format!("NONDETERMINISTIC: {n} there before with other bytes, see above"));
    }
    lines.extend(reason(outcome));
    lines.extend(failed(outcome));
    match (outcome.finished, outcome.missing.is_empty()) {
        (true, _) => lines.push(format!("tables in {out}")),
        (false, true) => {
            lines.push("parts only; join them with --finish when all shards are done".to_owned())
        }
        (false, false) => {}
    }
    lines.join("\n")
}

/// Why cells have failed: the first reason, and how many have that one.
pub(super) fn reason(outcome: &Outcome) -> Option<String> {
    let error = outcome.first_error.as_ref()?;
    let n = count(outcome.cells_like_it, "cell");
    let rest = match outcome.cells_error - outcome.cells_like_it {
        0 => String::new(),
        rest => format!("\n{} for other reasons, see `error` in cells", count(rest, "cell")),
    };
    Some(format!("{n} failed: {}{rest}", error.trim_end()))
}

/// What was left out or is missing, a line each.
pub(super) fn failed(outcome: &Outcome) -> Vec<String> {
    let left_out = |(unit, error): &(String, String)| format!("unit {unit} is left out: {error}");
    let mut lines: Vec<String> = outcome.quarantined.iter().map(left_out).collect();
    if let (false, Some(first)) = (outcome.finished, outcome.missing.first()) {
        lines.push(format!(
            "{} missing, the first is {first}: no final tables\nhint: run the same command without --finish, or the shards that are left; of `cluster merge`, the units that `cluster status RUN --left` prints",
            count(outcome.missing.len() as u64, "unit")
        ));
    }
    lines
}
