//! The ground of the scores over annotated truth: what is annotated, and the four contexts that are compared at a point.
//!
//! They are (see [`super::points`]) the variant's, `full` (its ceiling), and `drop-all` and the shuffled text (the larger of
//! them its floor).

use super::Rows;
use super::constraints::{self, Constraint, Outcome, Prepared};
use super::points::Point;
use super::registry::Entry;
use crate::context::annotations::{Annotations, Constraint as Annotated, Place};
use crate::context::log::Log;
use crate::text::runs::{Runs, words};

/// The annotations of a trajectory, ready to be looked for.
pub struct Truth {
    pub(super) annotations: Annotations,
    /// The words of each salient place.
    pub(super) salient: Vec<Vec<u64>>,
    /// The words of each place that a probe needs.
    pub(super) needs: Vec<Vec<Vec<u64>>>,
    pub(super) constraints: Vec<Known>,
    /// The words of the log, as constraints are read; none where it has no constraints.
    pub(super) said: Runs,
}

impl Truth {
    /// None where a trajectory is not annotated.
    pub fn of(log: &Log) -> Option<Self> {
        let annotations = Annotations::of(log)?;
        let of_place = |place: &Place| words(place.text(log));
        let salient = annotations.salient.iter().map(|s| of_place(&s.place)).collect();
        let needs = annotations.probes.iter().map(|p| p.needs.iter().map(of_place).collect()).collect();
        let (constraints, said) = Known::all(log, &annotations.constraints);
        Some(Truth { annotations, salient, needs, constraints, said })
    }
}

/// A constraint, and the steps that hold it.
pub(super) struct Known {
    pub(super) rules: Constraint,
    /// With how: preserved or paraphrased.
    steps: Vec<(u32, Outcome)>,
}

impl Known {
    /// The constraints of a trajectory, and the words of its log; reads each step once.
    pub(super) fn all(log: &Log, annotated: &[Annotated]) -> (Vec<Known>, Runs) {
        if annotated.is_empty() {
            return (Vec::new(), Runs::of::<&[u64]>([]));
        }
        let texts: Vec<Prepared<'_>> =
            log.trajectory.steps.iter().map(|step| Prepared::new([step.text.as_str()])).collect();
        let known = |annotated: &Annotated| {
            let mut rules = Constraint::new(&annotated.text, &annotated.category);
            if let Some(text) = texts.get(annotated.step as usize) {
                rules.stated_in(text);
            }
            let steps = (0..).zip(&texts).map(|(step, text)| (step, constraints::held(&rules, text)));
            let steps = steps.filter(|(_, outcome)| outcome.held()).collect();
            Known { rules, steps }
        };
        (annotated.iter().map(known).collect(), Runs::of(texts.iter().flat_map(Prepared::words)))
    }

    /// Its outcome in copied steps, which are sorted.
    pub(super) fn in_steps(&self, steps: &[u32]) -> Outcome {
        let held = self.steps.iter().filter(|(step, _)| steps.binary_search(step).is_ok());
        held.map(|(_, outcome)| *outcome).min().unwrap_or(Outcome::Dropped)
    }
}

/// The contexts that are compared, in the order of [`Tally::hits`].
pub(super) const VARIANT: usize = 0;
pub(super) const FULL: usize = 1;
pub(super) const DROP_ALL: usize = 2;
pub(super) const SHUFFLED: usize = 3;

/// The four contexts of a point.
pub(super) struct Ground<'a> {
    pub(super) log: &'a Log,
    pub(super) point: Point<'a>,
    /// Head and tail, which all contexts have.
    pub(super) base: Runs,
    /// What stands for the scope: in the variant, in `full`, in `drop-all`, shuffled.
    pub(super) between: [Runs; 4],
    pub(super) shuffled: String,
}

impl<'a> Ground<'a> {
    pub(super) fn new(log: &'a Log, point: Point<'a>, seed: u64) -> Self {
        let shuffled = point.shuffled(log, seed);
        let nothing: [&str; 0] = [];
        Ground {
            log,
            base: Runs::new(Point::texts(log, &point.base)),
            between: [
                Runs::new(point.kept_texts(log)),
                Runs::new(Point::texts(log, &point.scope)),
                Runs::new(nothing),
                Runs::new([&shuffled]),
            ],
            shuffled,
            point,
        }
    }

    /// Whether the step was compressed.
    pub(super) fn in_scope(&self, step: u32) -> bool {
        self.point.scope.binary_search(&step).is_ok()
    }

    /// Whether the words stand one after the other in each of the contexts.
    pub(super) fn hold(&self, run: &[u64]) -> [bool; 4] {
        let base = self.base.hold(run);
        self.between.each_ref().map(|between| base || between.hold(run))
    }

    /// The stratum of this point, with more if it is the last.
    pub(super) fn stratum(&self, more: Option<(&str, &str)>) -> String {
        let point = format!("point={}", self.point.name());
        more.map_or(point.clone(), |(key, value)| format!("{point} {key}={value}"))
    }

    pub(super) fn is_end(&self) -> bool {
        self.point.number.is_none()
    }
}

/// Items, and how many of them each context holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) n: u64,
    pub(super) hits: [u64; 4],
}

impl Tally {
    pub(super) fn add(&mut self, hits: [bool; 4]) {
        self.n += 1;
        for (sum, hit) in self.hits.iter_mut().zip(hits) {
            *sum += u64::from(hit);
        }
    }

    /// A row of the share of items, with its floor and ceiling; none where there are no items.
    pub(super) fn push(&self, score: &Entry, stratum: String, rows: &mut Rows) {
        if self.n == 0 {
            return;
        }
        let share = |context: usize| self.hits[context] as f64 / self.n as f64;
        let row = rows.push(score, stratum, Some(share(VARIANT)), self.n as f64, self.n);
        row.floor = Some(share(DROP_ALL).max(share(SHUFFLED)));
        row.ceiling = Some(share(FULL));
    }
}
