//! How many sessions a time holds: the run begins with a few, and grows while the rate of what was replayed says that more fit.

use std::path::Path;
use std::time::Instant;

use super::super::catalogue;
use crate::experiment::cell::{Models, Shelf, run_unit};
use crate::experiment::run::select;
use crate::experiment::{Dataset, Options, Plan, run_with};

/// Of the time for the replay so much is left to what comes behind it, such as the report.
const REPORT: f64 = 0.2;
/// Of the time that is left one round takes about so much, unless all fits: then the rate is known better.
const ROUND: f64 = 0.6;
/// Fewer sessions are no answer, however short the time.
const LEAST: usize = 3;

/// Replays sessions of the data in the folder `run` until `end`, and gives how many of them a plan has to name; none if that is
/// all of them.
pub(super) fn sample(
    text: &str,
    data: &Dataset,
    run: &Path,
    options: &Options,
    end: Instant,
) -> anyhow::Result<Option<usize>> {
    let plan = Plan::parse("try.toml", text, &catalogue())?;
    let n_all = data.entries().len();
    // The lot is the same however many are drawn, so more sessions are never fewer steps.
    let steps = |n: usize| -> anyhow::Result<f64> {
        let chosen = select(&sampled(&plan, n), data, options)?;
        let steps: u64 = chosen.iter().map(|&index| u64::from(data.entries()[index].n_steps)).sum();
        Ok((steps * plan.variants.len() as u64) as f64)
    };
    let begin = Instant::now();
    let end = end - end.saturating_duration_since(begin).mul_f64(REPORT);
    let (mut n, mut replayed) = (LEAST.min(n_all), 0);
    loop {
        let (start, shelf, models) = (Instant::now(), Shelf::default(), Models::new());
        let outcome = run_with(&sampled(&plan, n), data, run, options, &|data, unit, plan, progress| {
            run_unit(data, unit, plan, &shelf, &models, progress)
        })?;
        if n == n_all {
            return Ok(None);
        }
        replayed += outcome.step_variants;
        let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
        let (done, twice) = (steps(n)?, (2 * n).min(n_all));
        // Where all was known from before nothing tells how long more takes.
        let (rate, most) = match outcome.step_variants {
            0 => (f64::INFINITY, twice),
            now => (now as f64 / start.elapsed().as_secs_f64(), n_all),
        };
        let fits = |more: usize, rate: f64, seconds: f64| {
            Ok::<_, anyhow::Error>(seconds > 0.0 && steps(more)? - done <= rate * seconds)
        };
        let next = if fits(most, rate, left)? {
            most
        } else {
            let (mut fitting, mut above) = (n, most);
            while above - fitting > 1 {
                let middle = (fitting + above) / 2;
                if fits(middle, rate, ROUND * left)? { fitting = middle } else { above = middle }
            }
            // The first rounds are slow by what each round takes: more of the like take as long again, at the most.
            let whole_rate = replayed as f64 / begin.elapsed().as_secs_f64();
            if fits(twice, whole_rate, left)? { fitting.max(twice) } else { fitting }
        };
        if next == n {
            return Ok(Some(n));
        }
        n = next;
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
    use crate::trajectory::usage::LongestPrompt;

    #[test]
    fn no_time_is_a_few_sessions_and_much_is_all() {
        let dir = tempfile::tempdir().unwrap();
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/coding");
        let (out, run) = (dir.path().join("data"), dir.path().join("run"));
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
        let longest = data.longest_prompts().unwrap();
        assert_eq!(
            longest.iter().map(LongestPrompt::tokens).collect::<Vec<_>>(),
            of_logs.collect::<Vec<_>>()
        );
        let options = Options { threads: Some(1), quiet: true, replace: true, ..Options::default() };
        let sample = |seconds| {
            let end = Instant::now() + std::time::Duration::from_secs(seconds);
            sample(EXPERIMENT, &data, &run, &options, end).unwrap()
        };
        assert_eq!(sample(0), Some(LEAST));
        assert_eq!(sample(100_000), None);
        // What was replayed before says nothing of the rate of the rest.
        assert_eq!(sample(0), Some(LEAST));
    }
}
