//! `claims`: what a run says of each registered claim.
//!
//! - figure: the claim's score pooled over its logs, or the difference or ratio of two, with its interval
//!   over clusters ([`crate::report::statistics::inference`]).
//! - p: two-sided, of "the truth is at the end of the claimed region that is nearest to the figure"; adjusted by
//!   Holm over all figures of a family in this run.
//! - supported: the whole interval lies within the region, and p (Holm) is under 0.05. Contradicted: the whole
//!   interval lies outside of it on one side, and p (Holm) is under 0.05. Undecided: else, and always below the
//!   minimum. A figure that is only a bound can go one way alone, see [`judge`].
//!
//! What the run has no variant, score or log for is said to be missing and not estimated.

mod page;

use crate::report::statistics::estimate::ratio;
use std::collections::BTreeMap;

use super::pages::{Page, p_shown};
use crate::report::claims::{Asked, Bound, Claim, Claims, Kind, Logs, PAID_BACK, Region, Side, Test};
use crate::report::lines::{Line, Lines};
use crate::report::load::{Event, Run, Stratum, Trajectory};
use crate::report::statistics::design;
use crate::report::statistics::effects::holm;
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::inference::{self, Resampled};
use crate::report::statistics::pooled;
use crate::report::tables::{Entry, fixed};
use crate::scores::registry::{Field, Scale};

pub(super) const ENTRY: Entry = Entry {
    name: "claims",
    measures: Vec::new,
    page: |input| Ok(page(input.claims, input.run, input.lines)),
};

const LEVEL: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Supported,
    Contradicted,
    Undecided,
    NotRun,
    NotTestable,
}

impl Verdict {
    const ALL: [Verdict; 5] = [
        Verdict::Supported,
        Verdict::Contradicted,
        Verdict::Undecided,
        Verdict::NotRun,
        Verdict::NotTestable,
    ];

    fn name(self) -> &'static str {
        match self {
            Verdict::Supported => "supported",
            Verdict::Contradicted => "contradicted",
            Verdict::Undecided => "undecided",
            Verdict::NotRun => "not in this run",
            Verdict::NotTestable => "not testable as stated",
        }
    }
}

/// A claim, held against a variant (or two) of the run.
struct Row<'a> {
    claim: &'a Claim,
    /// Of which variants the figure is.
    variants: String,
    /// Which logs are meant, and how many there are.
    logs: String,
    figure: Figure,
    p_holm: Option<f64>,
    n_family: usize,
    verdict: Verdict,
    why: String,
}

/// What was measured of a claim.
#[derive(Default)]
struct Figure {
    estimate: Estimate,
    p: Option<f64>,
    /// Why there is no verdict, whatever the figure.
    withheld: Option<String>,
}

/// What rows a verdict rests on.
struct Ground<'a> {
    lines: &'a Lines,
    trajectories: &'a [Trajectory],
    /// Of each variant.
    events: &'a [Vec<Event>],
}

/// The page of all claims.
pub(crate) fn page(claims: &Claims, run: &Run, lines: &Lines) -> Page {
    page_of(claims, &Ground { lines, trajectories: &run.trajectories, events: &run.events })
}

fn page_of(claims: &Claims, ground: &Ground) -> Page {
    let rows = rows(claims, ground);
    Page {
        table: page::table(&rows),
        title: "Claims",
        gist: "what others claim of compression, registered before the run: supported, contradicted or undecided",
        about: page::about(claims, &rows),
        parts: page::parts(&rows),
        notes: page::notes(claims, &rows),
    }
}

fn rows<'a>(claims: &'a Claims, ground: &Ground) -> Vec<Row<'a>> {
    let mut rows: Vec<Row> = claims.claims.iter().flat_map(|claim| rows_of(claims, claim, ground)).collect();
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, row) in rows.iter().enumerate().filter(|(_, r)| r.figure.p.is_some()) {
        families.entry(&row.claim.family).or_default().push(i);
    }
    for family in families.into_values() {
        let p_values: Vec<f64> = family.iter().filter_map(|&i| rows[i].figure.p).collect();
        for (&i, adjusted) in family.iter().zip(holm(&p_values)) {
            (rows[i].p_holm, rows[i].n_family) = (Some(adjusted), p_values.len());
        }
    }
    for row in rows.iter_mut().filter(|r| r.verdict == Verdict::Undecided) {
        if let Ok(test) = &row.claim.test {
            (row.verdict, row.why) = judge(test, &row.figure, row.p_holm, row.n_family);
        }
    }
    rows
}

/// A row for each variant, or pair of variants, that the claim is about; one row that says what is missing
/// where there is none. Verdicts are left open.
fn rows_of<'a>(claims: &Claims, claim: &'a Claim, ground: &Ground) -> Vec<Row<'a>> {
    let row = |verdict, variants: String, figure, why| Row {
        claim,
        variants,
        logs: claim.test.as_ref().map_or_else(|_| String::new(), |test| ground.words(test)),
        figure,
        p_holm: None,
        n_family: 0,
        verdict,
        why,
    };
    let test = match &claim.test {
        Err(why) => {
            return vec![row(Verdict::NotTestable, String::new(), Figure::default(), why.clone())];
        }
        Ok(test) => test,
    };
    let missing = |why| vec![row(Verdict::NotRun, String::new(), Figure::default(), why)];
    let pairs = pairs(test, ground.lines);
    if pairs.is_empty() {
        return missing(no_variant(claims, test, ground.lines));
    }
    let sides = || [Some(&test.of), test.than.as_ref()].into_iter().flatten();
    if let Some(side) = sides().find(|side| !ground.logs(&side.logs).contains(&true)) {
        return missing(format!("no log of this run is of the claimed kind ({})", side.logs.words()));
    }
    let measured: Vec<Row> = pairs
        .into_iter()
        .map(|(line, than)| {
            let figure = ground.figure(test, line, than);
            row(Verdict::Undecided, variants(test, line, than), figure, String::new())
        })
        .filter(|r| r.figure.estimate.n_trajectories > 0)
        .collect();
    if measured.is_empty() {
        let asked = sides().map(|side| &side.asked);
        let names: Vec<String> = asked.clone().map(|a| format!("`{a}`")).collect();
        let unbuilt = asked.clone().find(|a| claims.is_planned("metrics", &a.metric));
        let reason = unbuilt.map_or("these logs or variants have none".to_owned(), |a| {
            format!("`{}` is not built yet", a.metric)
        });
        return missing(format!("no scores {} in this run: {reason}", names.join(" and ")));
    }
    measured
}

/// Variants that a test is about, each with the one that it is compared with. What the two sides of a
/// claim do not tell apart must be the same in both.
fn pairs<'a>(test: &Test, lines: &'a Lines) -> Vec<(&'a Line, Option<&'a Line>)> {
    let of = lines.all.iter().filter(|l| fits(&test.of, l));
    let Some(than) = &test.than else { return of.map(|line| (line, None)).collect() };
    let same_strategy = test.of.strategy == than.strategy;
    let same_trigger = test.of.trigger == than.trigger;
    let comparable = |a: &Line, b: &Line| {
        (!same_strategy || (&a.strategy, &a.params, &a.model) == (&b.strategy, &b.params, &b.model))
            && (!same_trigger || a.trigger == b.trigger)
            && (a.model == b.model || a.model.is_none() || b.model.is_none())
    };
    of.flat_map(|a| {
        let others = lines.all.iter().filter(move |b| fits(than, b) && comparable(a, b));
        others.map(move |b| (a, Some(b)))
    })
    .collect()
}

fn fits(side: &Side, line: &Line) -> bool {
    side.strategy.fits(&line.strategy, &line.params)
        && side.trigger.fits(&line.trigger_name, &line.trigger_params)
        // What the log's own summary selected keeps other company.
        && (!line.is_bridge() || side.trigger.names.contains(&line.trigger_name))
}

/// Which variant the run lacks.
fn no_variant(claims: &Claims, test: &Test, lines: &Lines) -> String {
    let sides = [Some(&test.of), test.than.as_ref()].into_iter().flatten();
    let lacking = sides.clone().find(|side| !lines.all.iter().any(|l| fits(side, l)));
    let Some(side) = lacking else {
        return "no two variants of this run differ in nothing but what the claim compares".to_owned();
    };
    let at =
        if side.trigger.names.is_empty() { String::new() } else { format!(" @ {}", side.trigger.words()) };
    let asked = vec![side.asked.metric.clone()];
    let lists =
        [("strategies", &side.strategy.names), ("triggers", &side.trigger.names), ("metrics", &asked)];
    let unbuilt: Vec<&str> = lists
        .into_iter()
        .filter(|(list, names)| !names.is_empty() && names.iter().all(|n| claims.is_planned(list, n)))
        .flat_map(|(_, names)| names.iter().map(String::as_str))
        .collect();
    let unbuilt = match &unbuilt[..] {
        [] => String::new(),
        [one] => format!("; `{one}` is not built yet"),
        many => format!("; not built yet: {}", many.join(", ")),
    };
    format!("no variant of this run is {}{at}{unbuilt}", side.strategy.words())
}

/// `mask @ turns`, or `salience @ turns minus protected-core @ turns` where two variants are compared.
fn variants(test: &Test, line: &Line, than: Option<&Line>) -> String {
    match than.filter(|than| than.label != line.label) {
        None => line.label.clone(),
        Some(than) => {
            format!("{} {} {}", line.label, if test.kind == Kind::Ratio { "/" } else { "-" }, than.label)
        }
    }
}

/// `token_savings`, or `salience_recall point=3 - salience_recall point=1, a compression`.
fn scores(test: &Test) -> String {
    let Some(than) = test.than.as_ref().filter(|than| than.asked != test.of.asked) else {
        return test.of.asked.to_string();
    };
    let sign = if test.kind == Kind::Ratio { "/" } else { "-" };
    let each = if test.kind == Kind::Trend { ", a compression" } else { "" };
    format!("{} {sign} {}{each}", test.of.asked, than.asked)
}

impl Ground<'_> {
    /// Which trajectories are meant.
    fn logs(&self, logs: &Logs) -> Vec<bool> {
        self.trajectories.iter().map(|t| logs.holds(&t.format, t.n_turns)).collect()
    }

    /// `sweagent: 185 of 371 logs`.
    fn words(&self, test: &Test) -> String {
        let one = |logs: &Logs| {
            let n = self.logs(logs).into_iter().filter(|holds| *holds).count();
            format!("{}: {n} of {} logs", logs.words(), self.trajectories.len())
        };
        match &test.than {
            Some(than) if than.logs != test.of.logs => {
                format!("{}; {}", one(&test.of.logs), one(&than.logs))
            }
            _ => one(&test.of.logs),
        }
    }

    fn figure(&self, test: &Test, line: &Line, other: Option<&Line>) -> Figure {
        let mut only = self.logs(&test.of.logs);
        let mut only_than = test.than.as_ref().map(|than| self.logs(&than.logs));
        let sides = [(&test.of, Some(line)), (test.than.as_ref().unwrap_or(&test.of), other)];
        // Two sides over the same logs: over those that have both scores.
        if let Some(than) = only_than.as_mut().filter(|than| **than == only) {
            for (side, line) in sides.iter().filter_map(|(side, line)| Some((side, (*line)?))) {
                let has = has(line, &side.asked, only.len());
                only.iter_mut().zip(&has).for_each(|(o, has)| *o &= has);
            }
            than.clone_from(&only);
        }
        let mut withheld = None;
        for (side, line) in &sides {
            let Some(line) = line else { continue };
            if side.asked.field == Field::Efficiency {
                let room = self.lines.series(line, &side.asked.room().key(), Some(&only)).estimate();
                withheld = withheld.or(pooled::efficiency_withheld(&room));
            }
        }
        let a = self.measured(line, &test.of.asked, &only);
        let Some((than, other)) = test.than.as_ref().zip(other) else {
            return figure(&a.pooled, a.n_trajectories, &test.region, withheld);
        };
        let only_than = only_than.unwrap_or_default();
        let b = self.measured(other, &than.asked, &only_than);
        if let Some((asked, within)) = &test.matched {
            let value = |line, only| self.measured(line, asked, only).pooled.value;
            let apart = value(line, &only).zip(value(other, &only_than)).map(|(a, b)| (a - b).abs());
            if apart.is_none_or(|apart| apart > *within) {
                let apart = apart.map_or_else(|| "an unknown amount".to_owned(), |x| fixed(x, 3));
                withheld = withheld.or(Some(format!(
                    "the two are {apart} apart in {asked}, more than {within}: no fair comparison"
                )));
            }
        }
        let share = 1.0 / test.steps;
        let pooled = match test.kind {
            Kind::Ratio => a.pooled.over(&b.pooled),
            _ => Resampled::combine(&[(share, &a.pooled), (-share, &b.pooled)]),
        };
        figure(&pooled, a.n_trajectories.min(b.n_trajectories), &test.region, withheld)
    }

    fn measured(&self, line: &Line, asked: &Asked, only: &[bool]) -> Measured {
        if asked.metric == PAID_BACK {
            return self.paid_back(line, &asked.stratum, only);
        }
        let series = self.lines.series(line, &asked.key(), Some(only));
        Measured { n_trajectories: series.n_trajectories, pooled: series.pooled }
    }

    /// Share of the compressions that have paid for the cache they broke `within` so many decisions, after
    /// Kaplan and Meier: a log that ends before says so much, and no more.
    fn paid_back(&self, line: &Line, stratum: &str, only: &[bool]) -> Measured {
        let within = Stratum::parse(stratum).get("within").and_then(|w| w.parse().ok()).unwrap_or(0_usize);
        let n_clusters = self.lines.draws.n_clusters;
        // By cluster: paid at a time, and under way until then.
        let mut table = vec![vec![[0.0; 2]; within + 1]; n_clusters];
        let mut counted = vec![false; only.len()];
        let mut n_events = 0;
        let events = line.members.iter().flat_map(|&i| &self.events[i]);
        for event in events.filter(|e| only[e.trajectory as usize] && line.cells[e.trajectory as usize]) {
            let cluster = &mut table[self.lines.clusters[event.trajectory as usize] as usize];
            let until = event.break_even_turns.unwrap_or(event.decisions_left) as usize;
            cluster.iter_mut().take(until + 1).for_each(|at| at[1] += event.weight);
            if event.break_even_turns.is_some() && until <= within {
                cluster[until][0] += event.weight;
            }
            counted[event.trajectory as usize] = true;
            n_events += 1;
        }
        let share = |sums: &[[f64; 2]]| {
            let mut unpaid = 1.0;
            for [paid, under_way] in sums {
                if unpaid > 0.0 {
                    unpaid *= 1.0 - ratio(*paid, *under_way)?;
                }
            }
            Some(1.0 - unpaid)
        };
        let sum = |weight: &dyn Fn(usize) -> f64| {
            let mut sums = vec![[0.0; 2]; within + 1];
            for (cluster, table) in table.iter().enumerate().filter(|(_, t)| t[0][1] > 0.0) {
                let weight = weight(cluster);
                for (sum, at) in sums.iter_mut().zip(table) {
                    *sum = [sum[0] + weight * at[0], sum[1] + weight * at[1]];
                }
            }
            sums
        };
        let draws = &self.lines.draws;
        let counts = design::counting(&draws.drawn, |c| table[c][0][1] > 0.0);
        let pooled = Resampled {
            scale: Scale::Share,
            value: share(&sum(&|_| 1.0)),
            jackknife: inference::jackknife(&draws.drawn, &counts, |weights| share(&sum(&|c| weights[c]))),
            n_eff: inference::n_eff_of(&draws.drawn, table.iter().map(|t| t[0][1])),
            counts,
            drawn: draws.drawn.clone(),
            n_items: n_events,
            n_kept: None,
            draws: (0..draws.n_resamples())
                .map(|i| share(&sum(&|c| draws.share(c, i))).unwrap_or(f64::NAN))
                .collect(),
        };
        Measured { n_trajectories: counted.iter().filter(|c| **c).count(), pooled }
    }
}

struct Measured {
    pooled: Resampled,
    n_trajectories: usize,
}

/// Which of `n` trajectories have a score under a line.
fn has(line: &Line, asked: &Asked, n: usize) -> Vec<bool> {
    if asked.metric == PAID_BACK {
        return vec![true; n];
    }
    let mut has = vec![false; n];
    line.by_trajectory(&asked.key()).iter().for_each(|(t, _)| has[*t as usize] = true);
    has
}

fn figure(pooled: &Resampled, n_trajectories: usize, region: &Region, withheld: Option<String>) -> Figure {
    let estimate = Estimate { n_trajectories, ..pooled.estimate() };
    let no_interval = || {
        let reason = estimate.reason.as_deref().unwrap_or("no data");
        match (estimate.value, estimate.interval) {
            (None, _) if pooled.value.is_none() => {
                Some("the figure is undefined here, such as 0 / 0".to_owned())
            }
            (None, _) => Some(format!("below the minimum: {reason}")),
            (_, None) => Some(format!("no interval: {reason}")),
            _ => None,
        }
    };
    let withheld = withheld.or_else(no_interval);
    let p = withheld.is_none().then(|| p_of(pooled, region)).flatten();
    Figure { estimate, p, withheld }
}

/// Of "the truth is at the end of the region that the figure is nearest to", on either side of it.
fn p_of(pooled: &Resampled, region: &Region) -> Option<f64> {
    let value = pooled.value?;
    let at = |end: f64| if end.is_finite() { pooled.p_value_of(end) } else { None };
    if value < region.low {
        at(region.low)
    } else if value > region.high {
        at(region.high)
    } else {
        [at(region.low), at(region.high)].into_iter().flatten().reduce(f64::max)
    }
}

/// The verdict and one line of why.
fn judge(test: &Test, figure: &Figure, p_holm: Option<f64>, n_family: usize) -> (Verdict, String) {
    if let Some(reason) = &figure.withheld {
        return (Verdict::Undecided, reason.clone());
    }
    let (Some((lo, hi)), Some(p_holm)) = (figure.estimate.interval, p_holm) else {
        return (Verdict::Undecided, "no interval".to_owned());
    };
    let Region { low, high, .. } = test.region;
    // What lies within, and what beyond, can be said of a bound only where the region is open on that side.
    let (verdict, why) = match test.bound {
        _ if lo >= low && hi <= high => {
            let told = match test.bound {
                None => true,
                Some(Bound::Upper) => low == f64::NEG_INFINITY,
                Some(Bound::Lower) => high == f64::INFINITY,
            };
            match told {
                true => (Verdict::Supported, "the whole interval lies within the claimed region".to_owned()),
                false => (
                    Verdict::Undecided,
                    "the figure is only a bound: it leaves the claim possible".to_owned(),
                ),
            }
        }
        Some(Bound::Lower) if hi < low => {
            (Verdict::Undecided, "the figure is only a lower bound: what is claimed may be higher".to_owned())
        }
        Some(Bound::Upper) if lo > high => {
            (Verdict::Undecided, "the figure is only an upper bound: what is claimed may be lower".to_owned())
        }
        _ if hi < low => (Verdict::Contradicted, format!("the whole interval lies below {}", amount(low, 3))),
        _ if lo > high => {
            (Verdict::Contradicted, format!("the whole interval lies above {}", amount(high, 3)))
        }
        _ => {
            let end = if lo < low { low } else { high };
            (
                Verdict::Undecided,
                format!("the interval holds {}, an end of the claimed region", amount(end, 3)),
            )
        }
    };
    if verdict == Verdict::Contradicted && test.possible {
        return (Verdict::Undecided, format!("not here ({why}), but the claim is only that it can be"));
    }
    if verdict != Verdict::Undecided && p_holm >= LEVEL {
        let why = format!("p is {} after Holm's adjustment over {n_family}", p_shown(Some(p_holm)));
        return (Verdict::Undecided, why);
    }
    (verdict, why)
}

/// `0.412`, or `164210` where decimals mean nothing.
fn amount(x: f64, decimals: usize) -> String {
    fixed(x, if x.abs() >= 1000.0 { 0 } else { decimals })
}

#[cfg(test)]
mod tests;
