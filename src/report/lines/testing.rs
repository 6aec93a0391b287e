//! Lines by hand, for tests.

use crate::report::series::Draws;
use crate::report::statistics::bootstrap::Resampling;
use crate::report::statistics::design::DrawnFrom;
use crate::scores;
use crate::scores::registry::Scale;

use super::measures::{Measured, Term, Terms};
use super::{Line, Lines};

#[cfg(test)]
impl Line {
    /// A line with the value and weight of measures on each trajectory, named like
    /// `strategy(key=number) @ trigger`.
    pub(crate) fn by_hand(label: &str, of: &[(&str, &[(f64, f64)])]) -> Self {
        let (name, trigger) = label.split_once(" @ ").unwrap();
        let (strategy, params) = name.trim_end_matches(')').split_once('(').unwrap_or((name, ""));
        let param = params.split_once('=').map(|(key, x)| (key.to_owned(), x.parse::<f64>().unwrap().into()));
        let terms = |scores: &[(f64, f64)]| -> Vec<Term> {
            let term = |(t, (value, weight)): (usize, &(f64, f64))| Term {
                trajectory: t as u32,
                top: value * weight,
                bottom: *weight,
                n: *weight as u32,
                n_kept: None,
            };
            scores.iter().enumerate().map(term).collect()
        };
        let measured = |(name, of): &(&str, &[(f64, f64)])| {
            let scale = scores::find(name).map_or(Scale::Share, |score| score.scale);
            ((*name).to_owned(), Measured { scale, terms: terms(of) })
        };
        let by_measure = of.iter().map(measured).collect();
        let cells = vec![true; of[0].1.len()];
        Line {
            label: label.to_owned(),
            strategy: strategy.to_owned(),
            params: param.into_iter().collect(),
            model: None,
            policy: None,
            control: false,
            trigger: trigger.to_owned(),
            trigger_name: trigger.to_owned(),
            trigger_params: serde_json::Map::new(),
            members: vec![],
            seeds: vec![1],
            cells: cells.clone(),
            terms: vec![Terms { by_measure, cells }],
            stream: 1,
        }
    }

    /// The same without a trajectory.
    pub(crate) fn without(mut self, trajectory: usize) -> Self {
        self.cells[trajectory] = false;
        self
    }
}

#[cfg(test)]
impl Lines {
    /// Each trajectory is a cluster of its own.
    pub(crate) fn by_hand(all: Vec<Line>, n_trajectories: usize) -> Self {
        let resampling = Resampling { seed: 1, resamples: 400 };
        let clusters = (0..n_trajectories as u32).collect();
        let draws = Draws::new(resampling, vec![DrawnFrom::from(0); n_trajectories].into());
        let weights = vec![1.0; n_trajectories];
        Lines { all, draws, clusters, weights, resampling }
    }
}
