//! What is compared: measures, and their terms a trajectory.

use std::collections::BTreeMap;

use crate::report::claims::Asked;
use crate::report::load::{Event, Score, VariantScores};
use crate::report::statistics::pooled::{AT_END, Sets};
use crate::scores;
use crate::scores::own::UNSCORED_SHARE;
use crate::scores::registry::{About, Entry, Field, Scale, Set};

/// A score that is pooled: sum of tops / sum of bottoms over trajectories.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) name: String,
    score: &'static Entry,
    pub(super) set: Set,
    field: Field,
}

impl Measure {
    pub(crate) fn new(name: impl Into<String>, score: &'static Entry, set: Set, field: Field) -> Self {
        Measure { name: name.into(), score, set, field }
    }

    /// The value of a score under the score's name.
    pub(crate) fn of(score: &'static Entry) -> Self {
        Measure::new(score.name, score, Set::Whole, Field::Value)
    }

    /// A score with its floor and ceiling, and where it stands between them.
    pub(crate) fn placed(score: &'static Entry) -> impl Iterator<Item = Measure> {
        PARTS.iter().map(move |(part, field)| {
            Measure::new(format!("{}{part}", score.name), score, Set::Whole, *field)
        })
    }
}

/// Of a score with a floor and a ceiling: what is added to its name. The pooled value, floor and ceiling, where the
/// value stands between them (0 to 1), and how far apart they are.
const PARTS: [(&str, Field); 5] = [
    ("", Field::Value),
    (" floor", Field::Floor),
    (" ceiling", Field::Ceiling),
    (" between", Field::Efficiency),
    (" room", Field::Room),
];

/// The room that decides whether an efficiency is told.
pub(crate) const ROOM: &str = "room";

/// Scores that all say how much was kept, each in its way. Not every run has all of them.
pub(crate) fn retentions() -> Vec<&'static Entry> {
    let mut all: Vec<&Entry> = scores::all().filter(|score| score.retention.is_some()).collect();
    all.sort_by_key(|score| score.retention);
    all
}

/// Of several readers each has a measure of its own: the score's name, this, its name.
const BY: &str = " by ";

pub(super) fn by_readers() -> impl Iterator<Item = &'static Entry> {
    scores::all().filter(|score| score.by_readers)
}

/// Whether this is what a reader says of a score, and not its floor or another part.
pub(super) fn is_by(name: &str, metric: &str) -> bool {
    name.strip_prefix(metric)
        .and_then(|rest| rest.strip_prefix(BY))
        .is_some_and(|reader| !reader.contains(' '))
}

/// How a score that is in no catalogue is called among measures, and what is told of it by stratum.
pub(crate) fn own_measure(metric: &str, stratum: &str) -> String {
    if stratum.is_empty() { metric.to_owned() } else { format!("{metric} {stratum}") }
}

/// What a trajectory adds to a measure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) trajectory: u32,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    pub(super) n: u32,
    /// Of these those that the score counts as kept; none where it counts none.
    pub(super) n_kept: Option<u32>,
}

/// The terms of a measure.
pub(super) struct Measured {
    pub(super) scale: Scale,
    pub(super) terms: Vec<Term>,
}

impl Measured {
    /// What rows say of a score.
    pub(super) fn of(scale: Scale, field: Field, rows: &[Score]) -> Self {
        let term = |s: &Score| {
            let [top, bottom] = s.terms(field)?;
            let n_kept = s.kept().filter(|_| field == Field::Value).map(|kept| kept as u32);
            Some(Term { trajectory: s.trajectory, top, bottom, n: s.n as u32, n_kept })
        };
        Measured {
            scale: field.scale(scale),
            terms: rows.iter().filter(|s| s.weight > 0.0).filter_map(term).collect(),
        }
    }
}

/// A score of one's own is a share if it says that it stays within 0 to 1; one that nobody knows may be.
fn scale_of(metric: &str, programs: &[About]) -> Scale {
    let is_share =
        |about: &About| matches!(about.range, [Some(low), Some(high)] if low >= 0.0 && high <= 1.0);
    match (scores::find(metric), programs.iter().find(|about| about.name == metric)) {
        (Some(score), _) => score.scale,
        (None, Some(about)) if !is_share(about) => Scale::Score,
        _ => Scale::Share,
    }
}

/// The terms of a variant by the name of the measure, and which trajectories it was scored on.
pub(super) struct Terms {
    pub(super) by_measure: BTreeMap<String, Measured>,
    pub(super) cells: Vec<bool>,
}

impl Terms {
    /// `programs` are the scores that are in no catalogue.
    pub(super) fn of(
        scores: &VariantScores,
        measures: &[Measure],
        programs: &[About],
        n_trajectories: usize,
    ) -> Self {
        let sets = Sets::of(scores);
        let get = |m: &Measure| {
            let stratum = sets.stratum(scores, m.score.name, m.set);
            scores.get(&(m.score.name.to_owned(), stratum.to_owned())).map_or(&[][..], Vec::as_slice)
        };
        let mut cells = vec![false; n_trajectories];
        scores.values().flatten().for_each(|s| cells[s.trajectory as usize] = true);
        let measured = |m: &Measure| (m.name.clone(), Measured::of(m.score.scale, m.field, get(m)));
        let mut by_measure: BTreeMap<_, _> = measures.iter().map(measured).collect();
        for score in by_readers() {
            for ((_, stratum), rows) in scores.iter().filter(|((metric, _), _)| metric == score.name) {
                let at = stratum.strip_prefix(AT_END).unwrap_or(stratum).trim_start();
                let Some(reader) = at.strip_prefix("scorer=") else { continue };
                by_measure.extend(PARTS.iter().map(move |(part, field)| {
                    let name = format!("{}{BY}{reader}{part}", score.name);
                    (name, Measured::of(score.scale, *field, rows))
                }));
            }
        }
        let own = scores.iter().filter(|((metric, _), _)| scores::find(metric).is_none());
        let unscored = scores.iter().filter(|((metric, _), _)| metric == UNSCORED_SHARE.name);
        by_measure.extend(own.chain(unscored).map(|((metric, stratum), rows)| {
            (own_measure(metric, stratum), Measured::of(scale_of(metric, programs), Field::Value, rows))
        }));
        Terms { by_measure, cells }
    }

    /// Of a measure; a reader may have no score of a line.
    pub(super) fn of_measure(&self, measure: &str) -> &[Term] {
        self.by_measure.get(measure).map_or(&[], |measured| &measured.terms)
    }

    /// Adds what a claim asks for.
    pub(super) fn ask(&mut self, asked: &Asked, scores: &VariantScores, events: &[Event]) {
        let measured = if let Some(of_event) = asked.of_event() {
            let mut sums: BTreeMap<u32, Term> = BTreeMap::new();
            for event in events {
                let [top, bottom] = of_event(event).map(|x| event.weight * x);
                let trajectory = event.trajectory;
                let sum = sums.entry(trajectory).or_insert(Term {
                    trajectory,
                    top: 0.0,
                    bottom: 0.0,
                    n: 0,
                    n_kept: None,
                });
                *sum = Term { top: sum.top + top, bottom: sum.bottom + bottom, n: sum.n + 1, ..*sum };
            }
            Measured { scale: Scale::Share, terms: sums.into_values().collect() }
        } else {
            let rows = scores.get(&(asked.metric.clone(), asked.stratum.clone()));
            let rows = rows.map_or(&[][..], Vec::as_slice);
            Measured::of(scale_of(&asked.metric, &[]), asked.field, rows)
        };
        self.by_measure.insert(asked.key(), measured);
    }
}
