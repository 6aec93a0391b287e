//! How likely a unit of work ended with a turn, by odds that are learned from turns of real logs that were read.
//!
//! The turn tells it and the one after it: what the agent turns to, and whether the user speaks. So it is known one turn later.
//! `train --target subtasks` makes the odds; datasets/phases says how good they are on repositories that they have not seen.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::intents::{BUCKETS, Class};
use crate::trajectory::Step;

/// Buckets of a turn, of the next, and one for what the user says in it.
pub const N_BUCKETS: usize = 2 * BUCKETS + 1;
/// From this probability on a unit is told to have ended.
pub const LEAST: f64 = 0.15;

/// The name of the one class.
const NAME: &str = "end";

/// The pieces by which the end of a turn is told.
pub(crate) fn pieces(turn: &[u16], next: &[u16], is_asked: bool) -> Vec<u16> {
    let next = next.iter().map(|piece| piece + BUCKETS as u16);
    turn.iter().copied().chain(next).chain(is_asked.then_some(2 * BUCKETS as u16)).collect()
}

/// The odds that a unit of work ends.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    pub class: Class,
    /// What it was made of.
    #[serde(default)]
    pub manifest: serde_json::Value,
}

impl Ends {
    /// Of an intercept, and a weight for each bucket.
    pub fn new(intercept: f64, weights: &[f64]) -> Self {
        Ends { class: Class::named(NAME, intercept, weights), manifest: serde_json::Value::Null }
    }

    /// Reads a file of weights.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let hint = "no odds of ends\nhint: `train --target subtasks` writes them";
        let ends: Ends = serde_json::from_str(text).map_err(|error| anyhow::anyhow!("{error}: {hint}"))?;
        anyhow::ensure!(ends.class.is(NAME, N_BUCKETS), "{hint}");
        Ok(ends)
    }

    /// Those that travel with the program.
    pub fn shipped() -> &'static Self {
        &SHIPPED
    }

    /// The probability that a unit ended, 0 to 1.
    pub fn likely(&self, pieces: &[u16]) -> f64 {
        self.class.likely(pieces)
    }

    /// By turn the probability that a unit ended with the turn before it.
    pub(crate) fn of_turns(&self, steps: &[Step]) -> Vec<f64> {
        super::ends_of(steps).iter().map(|pieces| pieces.as_ref().map_or(0.0, |of| self.likely(of))).collect()
    }
}

static SHIPPED: LazyLock<Ends> = LazyLock::new(|| {
    Ends::parse(include_str!("../data/subtasks.json")).expect("the weights travel with the build")
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Of three pieces with weights 2, 1 and 0 the odds are -1 + 3 / sqrt 3.
    #[test]
    fn a_turn_and_the_next_tell_by_hand() {
        let pieces = pieces(&[3], &[3], true);
        assert_eq!(pieces, [3, 3 + BUCKETS as u16, 2 * BUCKETS as u16]);
        let mut weights = vec![0.0; N_BUCKETS];
        (weights[3], weights[3 + BUCKETS]) = (2.0, 1.0);
        let ends = Ends::new(-1.0, &weights);
        let odds = -1.0 + 3.0 / 3f64.sqrt();
        assert!((ends.likely(&pieces) - 1.0 / (1.0 + (-odds).exp())).abs() < 0.01);
        let again = Ends::parse(&serde_json::to_string(&ends).unwrap()).unwrap();
        assert_eq!(again.likely(&pieces), ends.likely(&pieces));
        let short = Ends::new(0.0, &weights[1..]);
        assert!(Ends::parse(&serde_json::to_string(&short).unwrap()).is_err());
    }
}
