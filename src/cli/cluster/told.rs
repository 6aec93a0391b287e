//! What `cluster` says.

use std::path::Path;

use indicatif::{DecimalBytes, HumanCount};

use crate::cli::count;
use crate::experiment::run::{Beginning, Drawn, Estimate, Status, Swept, Wanted};

/// How far a run is, and what comes next.
pub(super) fn planned(status: &Status, out: &Path) -> String {
    let mut text = format!(
        "{}: {} of {} done, {} of {} step-variants left\n",
        out.display(),
        HumanCount(status.published as u64),
        count(status.n_units as u64, "unit"),
        HumanCount(status.step_variants_left),
        HumanCount(status.step_variants),
    );
    if !status.attempts.is_empty() {
        let counted: Vec<String> = status.attempts.iter().map(|(what, n)| format!("{what}: {n}")).collect();
        text.push_str(&format!("attempts: {}\n", counted.join(", ")));
    }
    for unit in &status.quarantined {
        text.push_str(&format!("in quarantine: {unit}, see _quarantine/{unit}.json\n"));
    }
    text.push_str(match (status.finished, status.left.is_empty()) {
        (true, _) => "its tables are there\n",
        (false, true) => "`trajpress cluster merge` makes its tables\n",
        (false, false) => "`trajpress cluster status --left` prints the units for workers\n",
    });
    text
}

/// What a run begins with, where that is not all sessions and no rows.
pub(super) fn begun(beginning: &Beginning) -> String {
    let mut text = String::new();
    if let Some(Drawn { sessions, of, strata, strata_whole }) = beginning.drawn {
        text.push_str(&format!(
            "drawn: {} of {}; strata: {}, of them taken whole: {}\n",
            HumanCount(sessions),
            count(of, "session"),
            HumanCount(strata),
            HumanCount(strata_whole)
        ));
    }
    if beginning.step_variants_known > 0 {
        text.push_str(&format!(
            "taken over from an older run: the rows of {} step-variants\n",
            HumanCount(beginning.step_variants_known)
        ));
    }
    text
}

pub(super) fn estimated(told: &Estimate, wanted: Wanted) -> String {
    let mut text = format!(
        "{} steps, {} step-variants\n",
        HumanCount(told.steps),
        HumanCount(told.step_variants as u64)
    );
    for (group, rate) in &told.rates {
        text.push_str(&match rate {
            Some(rate) if *rate < 100.0 => format!("{group}: {rate:.2} step-variants a second and worker\n"),
            Some(rate) => format!("{group}: {} step-variants a second and worker\n", HumanCount(*rate as u64)),
            None => format!(
                "{group}: unknown, since no attempt was noted\nhint: do some of it with `trajpress run --limit 20`, and name that run by `--rates`\n"
            ),
        });
    }
    let (Some(work), Some(hours)) = (told.work_hours, told.hours) else { return text };
    text.push_str(&format!(
        "{work:.3} hours of work; {hours:.3} hours on {}",
        count(wanted.workers.max(1) as u64, "worker")
    ));
    if let Some(efficiency) = told.efficiency {
        text.push_str(&format!(", of which {:.0} % is work", 100.0 * efficiency));
    }
    if let Some(money) = told.money {
        text.push_str(&format!(", for {money:.2}"));
    }
    text.push('\n');
    text
}

pub(super) fn swept(swept: &Swept) -> String {
    format!(
        "{} of processes that have ended, {} that no longer hold{}: {}, {}\n",
        count(swept.scratch as u64, "folder"),
        count(swept.quarantine as u64, "error"),
        if swept.parts { ", and the parts" } else { "" },
        count(swept.files, "file"),
        DecimalBytes(swept.bytes)
    )
}
