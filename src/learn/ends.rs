//! Learns from turns that were read where a unit of work ends (`trajpress train --target subtasks`).

use super::intents::Labels;
use super::regression::{self, Rows, fit};
use crate::context::log::Log;
use crate::turns::ends::{Ends, LEAST, N_BUCKETS};
use crate::turns::ends_of;

/// How much a row counts beside the penalty on weights, and what its one piece would count.
const STRENGTH: f64 = 1.0;
const TEXT: f64 = 5.0;

/// What is learned from a log: the pieces of its labelled turns, and whether a unit ended there. Nothing is told of the last turn.
pub struct Sample(Vec<(Vec<u16>, bool)>);

impl Sample {
    /// What a log teaches; nothing where no turn of it is labelled.
    pub fn of(log: &Log, labels: &Labels) -> Self {
        let ends = labels.ends(&log.trajectory.id);
        let mut pieces = if ends.is_empty() { Vec::new() } else { ends_of(&log.trajectory.steps) };
        let turn = |&(turn, ends): &(u32, bool)| Some((pieces.get_mut(turn as usize + 1)?.take()?, ends));
        Sample(ends.iter().filter_map(turn).collect())
    }

    pub fn n_turns(&self) -> usize {
        self.0.len()
    }

    pub fn n_ends(&self) -> usize {
        self.0.iter().filter(|(_, ends)| *ends).count()
    }

    /// Of each turn what was read, and what is told: 1 where a unit ends.
    pub fn told(&self, ends: &Ends) -> Vec<[usize; 2]> {
        let told = |(pieces, read): &(Vec<u16>, bool)| {
            [usize::from(*read), usize::from(ends.likely(pieces) >= LEAST)]
        };
        self.0.iter().map(told).collect()
    }
}

/// What these samples teach; nothing where no unit ends, or one with each turn.
pub fn learn(samples: &[&Sample]) -> Option<Ends> {
    let rows: Vec<&(Vec<u16>, bool)> = samples.iter().flat_map(|sample| &sample.0).collect();
    let labels: Vec<bool> = rows.iter().map(|(_, ends)| *ends).collect();
    (labels.contains(&true) && labels.contains(&false)).then(|| {
        let of_row = rows.iter().map(|(pieces, _)| pieces.as_slice()).collect();
        let pieces = regression::Pieces { buckets: N_BUCKETS, of_row, weight: TEXT };
        let mut weights = fit(&Rows { numbers: &[], labels: &labels, pieces }, STRENGTH);
        let intercept = weights.pop().unwrap_or(0.0);
        weights.iter_mut().for_each(|weight| *weight *= TEXT);
        Ends::new(intercept, &weights)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u32) -> Sample {
        let mut log = Log::script(&format!(
            "user: Mend parser {n}.
             thought: I look for parser_{n}.
             action: grep -rn parser_{n} .
             observation: a_{n}.py
             thought: That is done, it holds.
             action: pytest test_{n}.py
             observation: 1 passed
             thought: Now the manual.
             action: cat README.md
             observation: x"
        ));
        log.trajectory.id = "id".to_owned();
        let line = |turn: u32, end: bool| {
            format!(
                "{{\"path\":\"\",\"task\":\"\",\"trajectory\":\"id\",\"turn\":{turn},\"intent\":\"none\",\"subtask_end\":{end}}}\n"
            )
        };
        let mut labels = Labels::default();
        labels.read("turns.jsonl", &(line(1, false) + &line(2, true) + &line(3, true))).unwrap();
        assert_eq!(labels.find([("id", "", Some(""))].into_iter()), 0);
        Sample::of(&log, &labels)
    }

    #[test]
    fn what_was_learned_tells_where_a_unit_ends() {
        let samples: Vec<Sample> = (10..20).map(sample).collect();
        let ends = learn(&samples.iter().collect::<Vec<_>>()).unwrap();
        let new = sample(77);
        // The last turn has none after it.
        assert_eq!((new.n_turns(), new.n_ends()), (2, 1));
        assert_eq!(new.told(&ends), [[0, 0], [1, 1]]);
        assert!(learn(&[]).is_none());
    }
}
