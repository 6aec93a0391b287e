//! How long the rest of a run takes on so many workers, and what that costs, by the rates of attempts that were noted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::super::dataset::Dataset;
use super::super::plan::Plan;
use super::super::stratified;
use super::super::units::group_name;
use super::attempts::{self, Attempt};
use super::status::{Left, left, planned};
use crate::store::UnitRow;

/// What is to be estimated.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub workers: usize,
    /// Of a worker and hour.
    pub price: Option<f64>,
    /// Steps of a corpus that is as this one but larger; none is this one.
    pub steps: Option<u64>,
}

/// What it takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Step-variants a second of one worker, by group of variants; null is unknown.
    pub rates: BTreeMap<String, Option<f64>>,
    /// Steps that it is for; with those done before.
    pub steps: u64,
    pub step_variants: f64,
    /// Hours of all workers together; null where the rate of a group is unknown.
    pub work_hours: Option<f64>,
    /// Hours until the last unit is done.
    pub hours: Option<f64>,
    /// Share of the workers' time that is work: the rest is the tail.
    pub efficiency: Option<f64>,
    pub money: Option<f64>,
}

/// Estimates what the units take that are left in the folder of a run, or with `steps` all those of a larger corpus, by the
/// rates of the attempts at another run (or the same), or, of groups without one, by those that are forecast.
///
/// # Errors
/// One of both is no run, or cannot be read.
pub fn estimate(
    out: &Path,
    rates_of: &Path,
    forecast: HashMap<String, f64>,
    wanted: Wanted,
) -> anyhow::Result<Estimate> {
    let units = planned(out)?;
    let n_steps = steps(&units);
    let todo = match wanted.steps {
        None => left(out, None, &units)?,
        Some(_) => super::status::all(&units),
    };
    let scale = wanted.steps.map_or(1.0, |steps| steps as f64 / n_steps.max(1) as f64);
    let mut known = forecast;
    known.extend(rates(rates_of)?);
    let rate = |unit: &Left| known.get(&unit.group).copied();
    let rates: BTreeMap<String, Option<f64>> =
        todo.iter().map(|unit| (unit.group.clone(), rate(unit))).collect();
    let seconds: Option<Vec<f64>> =
        todo.iter().map(|unit| rate(unit).map(|rate| unit.step_variants as f64 / rate)).collect();
    let n = wanted.workers.max(1) as f64;
    // Of a larger corpus the work grows; the tail is that of the last units all the same.
    let time = seconds.map(|seconds| {
        let work: f64 = seconds.iter().sum();
        let tail = (makespan(&seconds, wanted.workers.max(1)) - work / n).max(0.0);
        (scale * work / 3600.0, (scale * work / n + tail) / 3600.0)
    });
    let hours = time.map(|(_, hours)| hours);
    Ok(Estimate {
        rates,
        steps: wanted.steps.unwrap_or(n_steps),
        step_variants: scale * todo.iter().map(|unit| unit.step_variants as f64).sum::<f64>(),
        work_hours: time.map(|(work, _)| work),
        hours,
        efficiency: time.filter(|(_, hours)| *hours > 0.0).map(|(work, hours)| work / (hours * n)),
        money: hours.zip(wanted.price).map(|(hours, price)| hours * price * n),
    })
}

/// The largest sample by strata that takes no more hours of all workers together, by the rates of the attempts at another run; none
/// where there is time for all.
///
/// # Errors
/// The rate of a group is not known, or there is no time for two sessions.
pub fn affordable(plan: &Plan, data: &Dataset, rates_of: &Path, hours: f64) -> anyhow::Result<Option<usize>> {
    let known = rates(rates_of)?;
    let mut seconds_a_step = 0.0;
    for (model, variants) in plan.groups() {
        let group = group_name(model);
        let rate = known.get(&group).with_context(|| {
            format!("the rate of the variants of {group} is not known\nhint: do some sessions with `trajpress run --limit 20`, and name that run by `--rates`")
        })?;
        seconds_a_step += variants.len() as f64 / rate;
    }
    let all = data.traits(&plan.filter, plan.seed)?;
    let steps: HashMap<&str, u32> = all.iter().map(|s| (s.trajectory.as_str(), s.n_steps)).collect();
    let takes = |n: usize| {
        let drawn = stratified::draw(&all, plan.seed, n);
        let n_steps: f64 = drawn.iter().map(|row| f64::from(steps[row.trajectory.as_str()])).sum();
        n_steps * seconds_a_step <= 3600.0 * hours
    };
    if takes(all.len()) {
        return Ok(None);
    }
    // What is below fits, what is above does not.
    let (mut low, mut high) = (2, all.len());
    anyhow::ensure!(takes(low), "{hours} hours are not enough for two sessions");
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if takes(middle) { low = middle } else { high = middle }
    }
    Ok(Some(low))
}

/// Steps of a run. A long trajectory is in several units, of some variants each.
fn steps(units: &[UnitRow]) -> u64 {
    let mut seen = HashSet::new();
    let mut first = |unit: &UnitRow| seen.insert(unit.trajectories.first().cloned());
    let Some(group) = units.first().map(|unit| &unit.variant_group) else { return 0 };
    units
        .iter()
        .filter(|unit| unit.variant_group == *group)
        .filter(|unit| first(unit))
        .map(|unit| unit.n_steps)
        .sum()
}

/// Step-variants a second by group, over the attempts at a run.
fn rates(run: &Path) -> anyhow::Result<HashMap<String, f64>> {
    let units = planned(run)?;
    let group: HashMap<&str, &str> =
        units.iter().map(|unit| (unit.unit.as_str(), unit.variant_group.as_str())).collect();
    let mut by_group: HashMap<&str, Vec<Attempt>> = HashMap::new();
    for attempt in attempts::all(run) {
        if let Some(group) = group.get(attempt.unit.as_str()) {
            by_group.entry(group).or_default().push(attempt);
        }
    }
    let rate =
        |(group, attempts): (&str, Vec<Attempt>)| Some((group.to_owned(), attempts::rate(attempts.iter())?));
    Ok(by_group.into_iter().filter_map(rate).collect())
}

/// Seconds until all is done, where who is idle takes the next.
fn makespan(seconds: &[f64], workers: usize) -> f64 {
    // As microseconds: those have an order.
    let mut free: BinaryHeap<Reverse<u64>> = (0..workers).map(|_| Reverse(0)).collect();
    for unit in seconds {
        let Reverse(at) = free.pop().unwrap_or_default();
        free.push(Reverse(at + (unit * 1e6) as u64));
    }
    free.into_iter().map(|Reverse(at)| at).max().unwrap_or_default() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_idle_takes_the_next() {
        assert_eq!(makespan(&[4.0, 1.0, 1.0, 1.0, 1.0], 2), 4.0);
        assert_eq!(makespan(&[1.0, 1.0, 1.0, 1.0, 4.0], 2), 6.0);
        assert_eq!((makespan(&[2.5], 8), makespan(&[], 8)), (2.5, 0.0));
    }
}
