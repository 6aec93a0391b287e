//! The provider's count of a dataset's sessions: each with enough calls is fitted as it comes, the others when the factors
//! of their model's sessions are known. What waits for that is a few calls a session.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::store::UsageRow;
use crate::trajectory::usage::{self, Call, Fit};

/// What `annotate` tells of the provider's counts; zeros and nulls where no usage is logged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Trajectories with logged usage.
    pub n_sessions: u64,
    pub n_calls: u64,
    pub n_stretches: u64,
    /// Where usage fell and no record says why.
    pub n_unlogged_edits: u64,
    /// Median over stretches of the tokens that the log does not show.
    pub unseen: Option<f64>,
    /// Median over sessions of what one of our tokens counts.
    pub factor: Option<f64>,
    /// Lowest and highest of them.
    pub factors: Option<[f64; 2]>,
    /// Median over sessions of the median of |residual| / usage.
    pub residual_median: Option<f64>,
    /// Median over sessions of its 90th percentile.
    pub residual_p90: Option<f64>,
}

/// Sessions in the order of the data.
#[derive(Default)]
pub(crate) struct Sessions(Vec<Session>);

struct Session {
    trajectory: String,
    /// Number of its model; none is unknown.
    model: Option<u32>,
    calls: Calls,
}

enum Calls {
    Fitted(Fit),
    Waiting(Vec<Call>),
}

impl Sessions {
    /// Adds a trajectory; one without calls is none.
    pub(crate) fn add(&mut self, trajectory: &str, model: Option<u32>, calls: Vec<Call>) {
        if calls.is_empty() {
            return;
        }
        let calls = match usage::factor(&calls) {
            Some(factor) => Calls::Fitted(usage::fit(&calls, factor)),
            None => Calls::Waiting(calls),
        };
        self.0.push(Session { trajectory: trajectory.to_owned(), model, calls });
    }

    /// The rows of all sessions, and what they add up to.
    pub(crate) fn rows(self) -> (Vec<UsageRow>, Counted) {
        let mut of_models: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for session in &self.0 {
            if let (Some(model), Calls::Fitted(fit)) = (session.model, &session.calls) {
                of_models.entry(model).or_default().push(fit.factor);
            }
        }
        let of_models: BTreeMap<u32, f64> = of_models
            .into_iter()
            .filter_map(|(model, mut factors)| Some((model, usage::median(&mut factors)?)))
            .collect();
        let mut rows = Vec::new();
        for session in self.0 {
            let of_model = session.model.and_then(|model| of_models.get(&model).copied());
            let (fit, factor_of) = match session.calls {
                Calls::Fitted(fit) => (fit, "session"),
                Calls::Waiting(calls) => {
                    let factor_of = if of_model.is_some() { "model" } else { "none" };
                    (usage::fit(&calls, of_model.unwrap_or(1.0)), factor_of)
                }
            };
            rows.extend(rows_of(&session.trajectory, fit, factor_of));
        }
        let counted = counted(&rows);
        (rows, counted)
    }
}

fn rows_of(trajectory: &str, fit: Fit, factor_of: &str) -> Vec<UsageRow> {
    let row = |(stretch, s): (u32, usage::Stretch)| UsageRow {
        trajectory: trajectory.to_owned(),
        stretch,
        first_turn: s.turns.start,
        end_turn: s.turns.end,
        n_calls: s.n_calls as u32,
        unseen: s.unseen,
        factor: fit.factor,
        factor_of: factor_of.to_owned(),
        unlogged_edit: s.is_after_edit,
        sent_is_known: s.is_sent_known,
        residual_median: fit.residual_median,
        residual_p90: fit.residual_p90,
    };
    (0..).zip(fit.stretches).map(row).collect()
}

/// What rows add up to; those of a trajectory stand together.
fn counted(rows: &[UsageRow]) -> Counted {
    let sessions: Vec<&UsageRow> =
        rows.chunk_by(|a, b| a.trajectory == b.trajectory).map(|rows| &rows[0]).collect();
    let median =
        |of: fn(&UsageRow) -> f64| usage::median(&mut sessions.iter().map(|row| of(row)).collect::<Vec<_>>());
    let factors = || sessions.iter().map(|row| row.factor);
    Counted {
        n_sessions: sessions.len() as u64,
        n_calls: rows.iter().map(|row| u64::from(row.n_calls)).sum(),
        n_stretches: rows.len() as u64,
        n_unlogged_edits: rows.iter().filter(|row| row.unlogged_edit).count() as u64,
        unseen: usage::median(&mut rows.iter().map(|row| row.unseen as f64).collect::<Vec<_>>()),
        factor: median(|row| row.factor),
        factors: factors()
            .reduce(f64::min)
            .zip(factors().reduce(f64::max))
            .map(|(least, most)| [least, most]),
        residual_median: median(|row| row.residual_median),
        residual_p90: median(|row| row.residual_p90),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many calls of one segment: usage = 1,000 + factor x ours.
    fn calls(n: u64, factor: u64) -> Vec<Call> {
        let call = |i: u64| Call {
            turn: i as u32 + 1,
            segment: 1..99,
            ours: 100 * i,
            usage: 1000 + 100 * i * factor / 10,
        };
        (0..n).map(call).collect()
    }

    #[test]
    fn few_calls_take_the_median_factor_of_their_model() {
        let mut sessions = Sessions::default();
        sessions.add("few", Some(7), calls(3, 20));
        for (name, factor) in [("a", 12), ("b", 13), ("c", 18)] {
            sessions.add(name, Some(7), calls(9, factor));
        }
        sessions.add("stranger", Some(8), calls(3, 20));
        sessions.add("unknown", None, calls(1, 20));
        sessions.add("silent", Some(7), Vec::new());
        let (rows, counted) = sessions.rows();
        let seen: Vec<(&str, f64, &str, u64)> =
            rows.iter().map(|r| (r.trajectory.as_str(), r.factor, r.factor_of.as_str(), r.unseen)).collect();
        let expected = [
            // Usage 1,000, 1,200, 1,400 less 1.3 x 0, 100, 200: 1,000, 1,070, 1,140.
            ("few", 1.3, "model", 1070),
            ("a", 1.2, "session", 1000),
            ("b", 1.3, "session", 1000),
            ("c", 1.8, "session", 1000),
            ("stranger", 1.0, "none", 1100),
            ("unknown", 1.0, "none", 1000),
        ];
        assert_eq!(seen, expected);
        assert_eq!((counted.n_sessions, counted.n_calls, counted.n_stretches), (6, 34, 6));
        assert_eq!((counted.factor, counted.factors), (Some(1.25), Some([1.0, 1.8])));
        assert_eq!(counted.unseen, Some(1000.0));
        assert_eq!(Sessions::default().rows(), (Vec::new(), Counted::default()));
    }
}
