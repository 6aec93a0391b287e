//! What a run will take, before it is begun: some of its units are done, and their rows thrown away.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::super::dataset::Dataset;
use super::super::options::Options;
use super::super::plan::Plan;
use super::super::publish::Scratch;
use super::super::units::{self, Unit};
use super::{UnitFn, parts, select, threads};

/// No unit is begun after this.
const LONG: Duration = Duration::from_secs(5);
/// Step-variants that are tried of a unit, or one trajectory: a whole one may take long. What neighbours share is the less.
const SOME: u64 = 5_000;

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    pub step_variants: u64,
    /// Of all threads together.
    pub seconds: f64,
    /// Of the parts.
    pub bytes: u64,
}

impl Sample {
    /// Step-variants a second of a thread.
    pub fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0 && self.step_variants > 0).then(|| self.step_variants as f64 / self.seconds)
    }

    /// Bytes that a run of so many step-variants leaves: its parts, and the tables that they are joined to.
    pub fn bytes_of(&self, step_variants: u64) -> Option<u64> {
        let part = step_variants as f64 / (self.step_variants > 0).then_some(self.step_variants)? as f64;
        Some((2.0 * part * self.bytes as f64) as u64)
    }
}

/// Does units from all over a run for some seconds.
pub fn sample(plan: &Plan, data: &Dataset, options: &Options, unit_fn: &UnitFn) -> anyhow::Result<Sample> {
    let units = units::cut(plan, data, &select(plan, data, options)?)?;
    let folder = tempfile::tempdir().context("cannot make a folder\nhint: TMPDIR names another place")?;
    let scratch = Scratch::open(folder.path())?;
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    let total = Mutex::new(Ok(Sample::default()));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads(options).min(units.len())).build()?;
    pool.broadcast(|_| {
        while start.elapsed() < LONG {
            let Some(unit) = spread(next.fetch_add(1, Ordering::Relaxed), units.len()) else { break };
            let unit = beginning(data, &units[unit]);
            let began = Instant::now();
            let tried = tried(plan, data, &unit, &scratch, unit_fn);
            let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match (&mut *total, tried) {
                (Ok(total), Ok(bytes)) => {
                    total.step_variants += unit.step_variants();
                    total.seconds += began.elapsed().as_secs_f64();
                    total.bytes += bytes;
                }
                (total, Err(error)) => *total = Err(error),
                (Err(_), _) => break,
            }
        }
    });
    total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The first trajectories of a unit.
fn beginning(data: &Dataset, unit: &Unit) -> Unit {
    let (mut step_variants, n_variants) = (0, unit.variants.len() as u64);
    let some = unit.trajectories.iter().copied().take_while(|&index| {
        let before = step_variants;
        step_variants += u64::from(data.entries()[index].n_steps) * n_variants;
        before == 0 || step_variants <= SOME
    });
    unit.piece(data, some.collect(), unit.variants.clone())
}

/// The n-th of so many places, those that halve what is left first: 0 of 8 is 0, then 4, 2, 6, 1, ...
fn spread(n: usize, of: usize) -> Option<usize> {
    let bits = usize::BITS - of.saturating_sub(1).leading_zeros();
    let place = |n: usize| if bits == 0 { n } else { n.reverse_bits() >> (usize::BITS - bits) };
    (0..1 << bits).map(place).filter(|place| *place < of).nth(n)
}

/// Bytes that the rows of a unit take.
fn tried(
    plan: &Plan,
    data: &Dataset,
    unit: &Unit,
    scratch: &Scratch,
    unit_fn: &UnitFn,
) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for path in parts::write_all(plan, scratch, unit_fn(data, unit, plan, &|_| {})?)? {
        bytes += fs::metadata(&path)?.len();
        fs::remove_file(&path)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_tried_from_all_over_a_run_and_each_once() {
        let all = |of: usize| (0..=of).map_while(|n| spread(n, of)).collect::<Vec<_>>();
        assert_eq!(all(8), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(all(5), [0, 4, 2, 1, 3]);
        assert_eq!((all(1), all(0)), (vec![0], vec![]));
    }

    #[test]
    fn what_was_tried_tells_of_the_rest() {
        let sample = Sample { step_variants: 1_000, seconds: 0.5, bytes: 3_000 };
        assert_eq!((sample.rate(), sample.bytes_of(10_000)), (Some(2_000.0), Some(60_000)));
        assert_eq!((Sample::default().rate(), Sample::default().bytes_of(5)), (None, None));
    }
}
