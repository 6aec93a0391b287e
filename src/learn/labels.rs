//! Learns from labelled logs which statements matter, of what type, and which are goals (`trajpress train --target salience`).
//!
//! A log teaches at each compression point of its annotations: all statements before it, each labelled by the salient span that it
//! fits at its place, or makes a half of. Another telling in the same words has the label as well.

use rustc_hash::FxHashMap;

use super::regression::{CLIP, Pieces, Rows, fit, placed, standard};
use super::statements::{N, Rated, Source, Statements, names};
use super::{OfStatements, OfTypes, TYPES};
use crate::context::annotations::{Annotations, Salient};
use crate::context::log::Log;
use crate::text::pieces::{BUCKETS, Bytes};
use crate::text::runs::{fits, words};

/// How much a row counts beside the penalty on weights.
const STRENGTH: f64 = 0.1;
/// What a deviation of a number and a text's pieces count in the regression.
const NUMBER: f32 = 0.5;
const TEXT: f64 = 5.0;
/// Items of a point, in the test of weights.
const ITEMS: usize = 12;

/// What is learned from a log.
#[derive(Default)]
pub struct Sample {
    points: Vec<Point>,
}

/// The statements before a point, and the spans that matter there.
struct Point {
    rated: Vec<Rated>,
    words: Vec<Vec<u64>>,
    /// The number of the type of each, if it matters.
    kinds: Vec<Option<usize>>,
    spans: Vec<Vec<u64>>,
}

/// What was learned.
pub struct Learned {
    pub statements: OfStatements,
    pub types: OfTypes,
    pub goals: OfStatements,
}

impl Sample {
    /// What a log teaches; nothing where it has no labels.
    pub fn of(log: &Log) -> Self {
        let known = Annotations::of(log).unwrap_or_default();
        let point = |&message: &u32| {
            let end = log.trajectory.steps.partition_point(|step| step.message <= message) as u32;
            let holds = |span: &&Salient| span.points.is_empty() || span.points.contains(&message);
            let spans: Vec<&Salient> =
                known.salient.iter().filter(holds).filter(|span| span.place.step < end).collect();
            Point::new(log, end, &spans)
        };
        Sample { points: known.points.iter().map(point).collect() }
    }

    pub fn n_rated(&self) -> usize {
        self.points.iter().map(|point| point.rated.len()).sum()
    }

    pub fn n_salient(&self) -> usize {
        self.points.iter().flat_map(|point| &point.kinds).flatten().count()
    }

    /// How many spans have an item of their own among the likeliest of each point, and how many there are.
    pub fn found(&self, rater: &OfStatements) -> (f64, f64) {
        let found: usize = self.points.iter().map(|point| point.found(rater)).sum();
        (found as f64, self.points.iter().map(|point| point.spans.len()).sum::<usize>() as f64)
    }
}

impl Point {
    fn new(log: &Log, end: u32, spans: &[&Salient]) -> Self {
        let steps: Vec<u32> = (0..end).collect();
        let rated = Statements::default().rate(log, &steps, end);
        let texts = rated.iter().map(|one| {
            let text = &log.trajectory.steps[one.step as usize].text;
            words(&text[one.bytes.start as usize..one.bytes.end as usize])
        });
        let own: Vec<Vec<u64>> = texts.collect();
        let of_spans: Vec<Vec<u64>> = spans.iter().map(|span| words(span.place.text(log))).collect();
        let mut by_step: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (at, span) in spans.iter().enumerate() {
            by_step.entry(span.place.step).or_default().push(at);
        }
        let kind = |(one, own): (&Rated, &Vec<u64>)| {
            let there = by_step.get(&one.step).map_or(&[][..], Vec::as_slice).iter().copied();
            let mut own = there.filter(|&at| {
                let place = &spans[at].place.bytes;
                let both = one.bytes.end.min(place.end).saturating_sub(one.bytes.start.max(place.start));
                let is_half =
                    2 * both >= one.bytes.end - one.bytes.start && 10 * both >= 3 * (place.end - place.start);
                both > 0 && (is_half || fits(own, &of_spans[at]))
            });
            own.next_back().and_then(|at| TYPES.iter().position(|name| *name == spans[at].kind))
        };
        let mut kinds: Vec<Option<usize>> = rated.iter().zip(&own).map(kind).collect();
        let told: FxHashMap<&[u64], usize> =
            own.iter().zip(&kinds).filter_map(|(own, kind)| Some((own.as_slice(), (*kind)?))).collect();
        let again: Vec<Option<usize>> =
            own.iter().map(|own| told.get(own.as_slice()).copied().filter(|_| own.len() > 1)).collect();
        kinds.iter_mut().zip(again).for_each(|(kind, again)| *kind = kind.or(again));
        Point { rated, words: own, kinds, spans: of_spans }
    }

    fn found(&self, rater: &OfStatements) -> usize {
        let odds: Vec<f64> = self.rated.iter().map(|one| rater.odds(one)).collect();
        let mut order: Vec<usize> = (0..odds.len()).collect();
        order.sort_by(|&a, &b| odds[b].total_cmp(&odds[a]).then(a.cmp(&b)));
        let mut free: Vec<&[u64]> = Vec::new();
        for at in order {
            let words = self.words[at].as_slice();
            if !words.is_empty() && !free.iter().any(|chosen| fits(chosen, words)) {
                free.push(words);
            }
            if free.len() == ITEMS {
                break;
            }
        }
        let mut take = |span: &&Vec<u64>| {
            let own = free.iter().position(|item| fits(item, span));
            own.map(|own| free.remove(own)).is_some()
        };
        self.spans.iter().filter(&mut take).count()
    }
}

/// What these samples teach; nothing where no statement of them is salient, or all are.
pub fn learn(samples: &[&Sample]) -> Option<Learned> {
    let points = || samples.iter().flat_map(|sample| &sample.points);
    let all: Vec<(&Rated, Option<usize>)> =
        points().flat_map(|point| point.rated.iter().zip(point.kinds.iter().copied())).collect();
    let labelled = |rows: &[(&Rated, Option<usize>)], is: &dyn Fn(Option<usize>) -> bool| {
        let labels: Vec<bool> = rows.iter().map(|(_, kind)| is(*kind)).collect();
        (labels.contains(&true) && labels.contains(&false)).then_some(labels)
    };
    let statements = of_statements(&all, &labelled(&all, &|kind| kind.is_some())?);
    let said: Vec<(&Rated, Option<usize>)> =
        all.iter().copied().filter(|(one, _)| one.source == Source::User).collect();
    let goals = of_statements(&said, &labelled(&said, &|kind| kind == Some(0))?);
    all.iter().any(|(_, kind)| kind.is_some()).then(|| Learned { statements, types: of_types(&all), goals })
}

fn of_statements(rows: &[(&Rated, Option<usize>)], labels: &[bool]) -> OfStatements {
    let numbers: Vec<&[f32; N]> = rows.iter().map(|(one, _)| &one.numbers).collect();
    let (mean, scale) = standard(&numbers);
    let numbers = placed(&numbers, &mean, &scale, NUMBER);
    let of_row = rows.iter().map(|(one, _)| one.pieces.as_slice()).collect();
    let pieces = Pieces { buckets: BUCKETS, of_row, weight: TEXT };
    let mut weights = fit(&Rows { numbers: &numbers, labels, pieces }, STRENGTH);
    let intercept = weights.pop().unwrap_or(0.0);
    let words = weights.split_off(N);
    let most = words.iter().fold(0.0, |most: f64, word| most.max(word.abs())) * TEXT;
    let word_step = most.max(1e-9) / f64::from(i8::MAX);
    let words = words.into_iter().map(|word| (word * TEXT / word_step).round() as i8).collect();
    let weights = weights.into_iter().map(|weight| weight as f32 * NUMBER).collect();
    let (names, clip, buckets) = (names(), CLIP, BUCKETS);
    OfStatements { names, mean, scale, clip, weights, intercept, buckets, word_step, words: Bytes(words) }
}

/// Each type against the others, of what is salient.
fn of_types(rows: &[(&Rated, Option<usize>)]) -> OfTypes {
    let salient: Vec<(&Rated, usize)> =
        rows.iter().filter_map(|(one, kind)| Some((*one, (*kind)?))).collect();
    let numbers: Vec<&[f32; N]> = salient.iter().map(|(one, _)| &one.numbers).collect();
    let (mean, scale) = standard(&numbers);
    let numbers = placed(&numbers, &mean, &scale, NUMBER);
    let of_type = |kind: usize| {
        let labels: Vec<bool> = salient.iter().map(|(_, own)| *own == kind).collect();
        let mut weights =
            fit(&Rows { numbers: &numbers, labels: &labels, pieces: Pieces::default() }, STRENGTH);
        let intercept = weights.pop().unwrap_or(0.0);
        (weights.into_iter().map(|weight| weight as f32 * NUMBER).collect(), intercept)
    };
    let (weights, intercepts) = (0..TYPES.len()).map(of_type).unzip();
    OfTypes { types: TYPES.map(str::to_owned).to_vec(), mean, scale, clip: CLIP, weights, intercepts }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of what a user says the line with a limit matters, and the task.
    fn log(n: u32) -> Log {
        let mut log = Log::script(&format!(
            "user: Mend parser {n}.~The limit of {n} must never be exceeded.~It is a fine day in town {n}.
             agent: I read it.
             action: ls {n}
             observation: a_{n}.py
             agent: so"
        ));
        let text = log.trajectory.steps[0].text.clone();
        let span = |kind: &str, words: &str| {
            let start = text.find(words).unwrap();
            serde_json::json!({"step": 0, "start": start, "end": start + words.len(), "type": kind, "points": [3]})
        };
        let spans = [
            span("goal", &format!("Mend parser {n}.")),
            span("constraint", &format!("The limit of {n} must never be exceeded.")),
        ];
        let later = serde_json::json!({"step": 0, "start": 0, "end": 4, "type": "fact", "points": [4]});
        let all: Vec<_> = spans.into_iter().chain([later]).collect();
        log.trajectory.annotations =
            Some(serde_json::json!({"salient": all, "compression_points": [3]}).to_string());
        log
    }

    #[test]
    fn statements_are_labelled_by_the_spans_of_their_point() {
        let sample = Sample::of(&log(7));
        let point = &sample.points[0];
        assert_eq!(point.kinds[..3], [Some(0), Some(1), None]);
        assert_eq!((sample.n_rated(), sample.n_salient(), point.spans.len()), (5, 2, 2));
        assert_eq!(Sample::of(&Log::script("user: a\nagent: b")).n_rated(), 0);
    }

    #[test]
    fn what_was_learned_tells_what_matters_and_what_it_is() {
        let samples: Vec<Sample> = (10..40).map(|n| Sample::of(&log(n))).collect();
        let learned = learn(&samples.iter().collect::<Vec<_>>()).unwrap();
        let new = Sample::of(&log(77));
        let rated = &new.points[0].rated;
        let odds = |rater: &OfStatements| rated.iter().map(|one| rater.odds(one)).collect::<Vec<f64>>();
        let (matters, goal) = (odds(&learned.statements), odds(&learned.goals));
        assert!(matters[0].min(matters[1]) > matters[2] + 1.0, "{matters:?}");
        assert!(goal[0] > goal[1] + 1.0, "{goal:?}");
        assert_eq!([0, 1].map(|at| learned.types.likeliest(&rated[at].numbers)), [0, 1]);
        assert_eq!(new.found(&learned.statements), (2.0, 2.0));
        assert!(learn(&[&Sample::default()]).is_none());
    }

    #[test]
    fn threads_change_nothing() {
        let samples: Vec<Sample> = (10..20).map(|n| Sample::of(&log(n))).collect();
        let learn = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let learned = pool.install(|| learn(&samples.iter().collect::<Vec<_>>()).unwrap());
            [learned.statements, learned.goals].map(|rater| serde_json::to_string(&rater).unwrap())
        };
        assert_eq!(learn(1), learn(3));
    }
}
