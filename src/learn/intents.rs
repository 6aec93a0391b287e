//! Learns from turns that were read what an agent is about (`trajpress train --target intents`).

use std::collections::{HashMap, HashSet};

use anyhow::Context as _;
use serde::Deserialize;

use super::regression::{self, Rows, fit};
use crate::context::log::Log;
use crate::turns::intents::{BUCKETS, CLASSES, Class, Intent, Rater};
use crate::turns::pieces;

/// How much a row counts beside the penalty on weights, and what its one piece would count.
const STRENGTH: f64 = 0.3;
const TEXT: f64 = 5.0;

/// The classes of turns that were read.
#[derive(Default)]
pub struct Labels {
    runs: Vec<Run>,
    by_id: HashMap<String, usize>,
    /// The run of a trajectory of the dataset, by its id.
    found: HashMap<String, usize>,
}

/// A labelled run: where it stands, and turns with their classes.
#[derive(Debug, Default, PartialEq)]
struct Run {
    path: String,
    task: String,
    id: String,
    turns: Vec<(u32, usize)>,
    /// Turns of which it is said whether a unit of work ended with them.
    ends: Vec<(u32, bool)>,
}

/// A line of a file of labels.
#[derive(Deserialize)]
struct Line {
    path: String,
    task: String,
    trajectory: String,
    turn: u32,
    intent: String,
    subtask_end: Option<bool>,
}

impl Labels {
    /// Adds those of a file of lines in JSON, as datasets/phases/real.jsonl.
    pub fn read(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        for (at, line) in text.lines().enumerate() {
            let place = || format!("{name}, line {}", at + 1);
            let line: Line = serde_json::from_str(line).with_context(place)?;
            let intent = Intent::parse(&line.intent).map(|intent| intent as usize);
            let none = (line.intent == "none").then_some(CLASSES - 1);
            let class =
                intent.or(none).with_context(|| format!("{}: `{}` is no intent", place(), line.intent))?;
            let Line { path, task, trajectory: id, turn, subtask_end, .. } = line;
            let at = *self.by_id.entry(id.clone()).or_insert_with(|| {
                self.runs.push(Run { path, task, id, ..Run::default() });
                self.runs.len() - 1
            });
            self.runs[at].turns.push((turn, class));
            self.runs[at].ends.extend(subtask_end.map(|ends| (turn, ends)));
        }
        Ok(())
    }

    /// Finds the runs among trajectories, by id, file and task, and says how many are not there. Ids change with what a version
    /// reads of a log: then the one run of this task in a file of this path is taken.
    pub fn find<'a>(
        &mut self,
        rows: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)> + Clone,
    ) -> usize {
        let ids: HashSet<&str> = rows.clone().map(|(id, ..)| id).collect();
        let mut of_task: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
        for (id, source, task) in rows {
            of_task.entry(task.unwrap_or_default()).or_default().push((id, source));
        }
        let find = |run: &Run| {
            if ids.contains(run.id.as_str()) {
                return Some(run.id.clone());
            }
            let same = |source: &str| source.ends_with(&run.path) || run.path.ends_with(source);
            let there = of_task.get(run.task.as_str()).into_iter().flatten();
            let mut there = there.filter(|(_, source)| same(source));
            there.next().filter(|_| there.next().is_none()).map(|(id, _)| (*id).to_owned())
        };
        let found = self.runs.iter().enumerate();
        self.found = found.filter_map(|(at, run)| Some((find(run)?, at))).collect();
        self.runs.len() - self.found.len()
    }

    /// The turns of a trajectory of which it is said whether a unit of work ended with them.
    pub(super) fn ends(&self, id: &str) -> &[(u32, bool)] {
        self.found.get(id).map_or(&[], |&run| &self.runs[run].ends)
    }

    /// Whether turns of a trajectory are labelled.
    pub fn has(&self, id: &str) -> bool {
        self.found.contains_key(id)
    }
}

/// What is learned from a log: the pieces of its labelled turns, and their classes.
pub struct Sample(Vec<(Vec<u16>, usize)>);

impl Sample {
    /// What a log teaches; nothing where no turn of it is labelled.
    pub fn of(log: &Log, labels: &Labels) -> Self {
        let Some(&run) = labels.found.get(&log.trajectory.id) else { return Sample(Vec::new()) };
        let mut pieces = pieces(&log.trajectory.steps);
        let turn =
            |&(turn, class): &(u32, usize)| Some((std::mem::take(pieces.get_mut(turn as usize)?), class));
        Sample(labels.runs[run].turns.iter().filter_map(turn).collect())
    }

    pub fn n_turns(&self) -> usize {
        self.0.len()
    }

    pub fn n_intents(&self) -> usize {
        self.0.iter().filter(|(_, class)| *class < CLASSES - 1).count()
    }

    /// Of each turn the class that was read, and the one that is told.
    pub fn told(&self, rater: &Rater) -> Vec<[usize; 2]> {
        self.0.iter().map(|(pieces, class)| [*class, rater.rate(pieces).0]).collect()
    }
}

/// What these samples teach, each class against the others; nothing where all turns are of one.
pub fn learn(samples: &[&Sample]) -> Option<Rater> {
    let rows: Vec<&(Vec<u16>, usize)> = samples.iter().flat_map(|sample| &sample.0).collect();
    let first = rows.first()?.1;
    rows.iter().any(|(_, class)| *class != first).then_some(())?;
    let class = |class: usize| {
        let labels: Vec<bool> = rows.iter().map(|(_, own)| *own == class).collect();
        let of_row = rows.iter().map(|(pieces, _)| pieces.as_slice()).collect();
        let pieces = regression::Pieces { buckets: BUCKETS, of_row, weight: TEXT };
        let mut weights = fit(&Rows { numbers: &[], labels: &labels, pieces }, STRENGTH);
        let intercept = weights.pop().unwrap_or(0.0);
        weights.iter_mut().for_each(|weight| *weight *= TEXT);
        Class::new(class, intercept, &weights)
    };
    Some(Rater { classes: (0..CLASSES).map(class).collect(), manifest: serde_json::Value::Null })
}

/// Cohen's kappa of pairs of classes; none where chance explains all.
pub fn kappa(pairs: &[[usize; 2]]) -> Option<f64> {
    let n = pairs.len() as f64;
    let share =
        |side: usize, class: usize| pairs.iter().filter(|pair| pair[side] == class).count() as f64 / n;
    let same = pairs.iter().filter(|[a, b]| a == b).count() as f64 / n;
    let chance: f64 = (0..CLASSES).map(|class| share(0, class) * share(1, class)).sum();
    (chance < 1.0).then(|| (same - chance) / (1.0 - chance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(n: u32) -> Log {
        let mut log = Log::script(&format!(
            "user: Mend parser {n}.
             thought: I look for the parser.
             action: grep -rn parser_{n} .
             observation: a_{n}.py
             thought: I change the parser now.
             action: sed -i s/a/b/ a_{n}.py
             observation: ok"
        ));
        log.trajectory.id = format!("id {n}");
        log
    }

    fn labels(n: u32) -> Labels {
        let turns = vec![(1, Intent::Explore as usize), (2, Intent::Implement as usize)];
        let run = Run { id: format!("id {n}"), turns, ..Run::default() };
        Labels { runs: vec![run], found: HashMap::from([(format!("id {n}"), 0)]), ..Labels::default() }
    }

    #[test]
    fn what_was_learned_tells_what_a_turn_is_about() {
        let samples: Vec<Sample> = (10..20).map(|n| Sample::of(&log(n), &labels(n))).collect();
        let rater = learn(&samples.iter().collect::<Vec<_>>()).unwrap();
        let new = Sample::of(&log(77), &labels(77));
        assert_eq!(new.told(&rater), [[0, 0], [2, 2]]);
        assert_eq!(Sample::of(&log(78), &labels(77)).n_turns(), 0);
        assert!(learn(&[]).is_none());
        let text = serde_json::to_string(&rater).unwrap();
        assert_eq!(
            text,
            serde_json::to_string(&learn(&samples.iter().collect::<Vec<_>>()).unwrap()).unwrap()
        );
    }

    /// A task with two runs in a file is told by its id alone.
    #[test]
    fn runs_are_found_by_id_or_by_a_task_that_is_one_run() {
        let line = |task: &str, run: &str, intent: &str| {
            format!(
                "{{\"path\":\"x/a.json\",\"task\":\"{task}\",\"trajectory\":\"{run}\",\"turn\":1,\"intent\":\"{intent}\"}}\n"
            )
        };
        let lines = line("one", "x", "none") + &line("two", "y", "debug") + &line("two", "z", "verify");
        // Lines of a run need not stand together.
        let lines = lines + &line("two", "y", "verify");
        let mut labels = Labels::default();
        labels.read("turns.jsonl", &lines).unwrap();
        assert_eq!(labels.runs[1].turns, [(1, 1), (1, 3)]);
        let rows =
            [("new", "a.json", Some("one")), ("z", "a.json", Some("two")), ("w", "a.json", Some("two"))];
        assert_eq!(labels.find(rows.into_iter()), 1);
        assert_eq!(["new", "z", "w"].map(|id| labels.found.get(id).copied()), [Some(0), Some(2), None]);
        let error = labels.read("turns.jsonl", &line("one", "x", "sleep")).err().unwrap();
        assert_eq!(format!("{error:#}"), "turns.jsonl, line 1: `sleep` is no intent");
    }

    /// Of four 3 the same; by chance 0.5 x 0.75 + 0.5 x 0.25 = 0.5.
    #[test]
    fn kappa_by_hand() {
        assert_eq!(kappa(&[[0, 0], [0, 0], [1, 0], [1, 1]]), Some(0.5));
        assert_eq!(kappa(&[[1, 1], [1, 1]]), None);
    }
}
