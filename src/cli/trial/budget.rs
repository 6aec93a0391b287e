//! How many sessions a time holds: a few are replayed, and the time that they take tells.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::super::catalogue;
use crate::experiment::cell::{Models, Shelf, run_unit};
use crate::experiment::run::select;
use crate::experiment::{Dataset, Options, Plan, run_with};

/// Of the time that is left the few take about a part of so many; more than [`ENOUGH`] tells nothing more.
const PILOT: u32 = 40;
const ENOUGH: Duration = Duration::from_secs(2);
/// What the report leaves to the replay.
const REPLAY: f64 = 0.8;
/// Fewer sessions are no answer, however short the time.
const LEAST: usize = 10;

/// Sessions of the data that a plan can be tried on until `end`; none if that is all of them. `folder` is for the few, and is
/// gone afterwards.
pub(super) fn sample(
    text: &str,
    data: &Dataset,
    folder: &Path,
    threads: usize,
    end: Instant,
) -> anyhow::Result<Option<usize>> {
    let plan = Plan::parse("try.toml", text, &catalogue())?;
    let n = data.entries().len();
    let steps = |n: usize| -> anyhow::Result<u64> {
        let chosen = select(&sampled(&plan, n), data, &Options::default())?;
        Ok(chosen.iter().map(|&index| u64::from(data.entries()[index].n_steps)).sum())
    };
    let left = || end.saturating_duration_since(Instant::now());
    let options = Options { threads: Some(threads), quiet: true, ..Options::default() };
    let (mut few, least) = (1, (left() / PILOT).min(ENOUGH));
    let rate = loop {
        remove(folder)?;
        let (start, shelf, models) = (Instant::now(), Shelf::default(), Models::new());
        run_with(&sampled(&plan, few), data, folder, &options, &|data, unit, plan, progress| {
            run_unit(data, unit, plan, &shelf, &models, progress)
        })?;
        let took = start.elapsed();
        if took >= least || 2 * few >= n {
            break steps(few)? as f64 / took.as_secs_f64();
        }
        few *= 2;
    };
    remove(folder)?;
    let fit = rate * REPLAY * left().as_secs_f64();
    let mut fitting = n;
    while fitting > LEAST && steps(fitting)? as f64 > fit {
        // The lot is the same however many are drawn, so fewer sessions are never more steps.
        fitting = (fitting * 9 / 10).max(LEAST);
    }
    Ok((fitting < n).then_some(fitting))
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn sampled(plan: &Plan, n: usize) -> Plan {
    let mut plan = plan.clone();
    plan.filter.sample = Some(n as u32);
    plan
}

#[cfg(test)]
mod tests {
    use super::super::EXPERIMENT;
    use super::*;

    #[test]
    fn no_time_is_a_few_sessions_and_much_is_all() {
        let dir = tempfile::tempdir().unwrap();
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/coding");
        let (out, pilot) = (dir.path().join("data"), dir.path().join("pilot"));
        let options = crate::logs::Options {
            inputs: vec![built_in],
            out: out.clone(),
            threads: 1,
            ..crate::logs::Options::default()
        };
        crate::logs::ingest(&options, &mut |_| {}).unwrap();
        crate::annotate::annotate(&out, "o200k", 1).unwrap();
        let data = Dataset::open(&out).unwrap();
        assert!(data.entries().len() > LEAST);
        let of_logs = (0..data.entries().len()).map(|i| data.log(i, false).unwrap().longest_prompt());
        assert_eq!(data.longest_prompts().unwrap(), of_logs.collect::<Vec<_>>());
        let sample = |seconds| {
            let end = Instant::now() + Duration::from_secs(seconds);
            sample(EXPERIMENT, &data, &pilot, 1, end).unwrap()
        };
        assert_eq!(sample(0), Some(LEAST));
        assert_eq!(sample(100_000), None);
        assert!(!pilot.exists());
    }
}
