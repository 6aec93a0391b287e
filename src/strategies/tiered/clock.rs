//! Trajectory time, in turns; never the wall clock.
//!
//! Where steps have time stamps, a turn takes as long as it took, in units of the mean turn so far: so decay is told
//! per turn and a pause of a night still counts as many turns. A turn without a stamp, or with one before those
//! already seen, counts as it can: one turn, or none. What a turn's time is depends on nothing after it.

use crate::log::Log;

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pace {
    /// As logged, where it is.
    Logged,
    /// A turn is a turn.
    Turns,
}

/// The time of each turn so far.
#[derive(Default)]
pub(crate) struct Clock {
    /// By turn, from 0.
    times: Vec<f64>,
    /// Newest stamp, in microseconds.
    newest: Option<i64>,
    /// Sum and number of the turns' durations, in microseconds.
    passed: f64,
    turns: f64,
}

impl Clock {
    /// The time of a turn; turns before it are made up for.
    pub(crate) fn at(&mut self, log: &Log, pace: Pace, turn: u32) -> f64 {
        while self.times.len() <= turn as usize {
            let next = self.times.len();
            let steps = log.turns.get(next).map_or(0..0, |turn| turn.steps.clone());
            let stamp = steps.filter_map(|step| log.trajectory.steps[step as usize].time).max();
            let passed = match pace {
                Pace::Turns => 1.0,
                Pace::Logged => self.passed(stamp),
            };
            self.times.push(self.times.last().map_or(0.0, |time| time + passed));
        }
        self.times[turn as usize]
    }

    /// How many turns' worth of time passed until a turn with this stamp.
    fn passed(&mut self, stamp: Option<i64>) -> f64 {
        let Some(stamp) = stamp else { return 1.0 };
        let Some(newest) = self.newest.replace(stamp.max(self.newest.unwrap_or(stamp))) else { return 1.0 };
        let passed = stamp.saturating_sub(newest).max(0) as f64;
        self.passed += passed;
        self.turns += 1.0;
        let mean = self.passed / self.turns;
        if mean > 0.0 { passed / mean } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(stamps: &[Option<i64>], pace: Pace) -> Vec<f64> {
        let script: String = stamps.iter().map(|_| "agent: x\n").collect();
        let mut log = Log::script(&format!("user: go\n{script}"));
        for (step, stamp) in log.trajectory.steps[1..].iter_mut().zip(stamps) {
            step.time = *stamp;
        }
        let mut clock = Clock::default();
        (1..=stamps.len() as u32).map(|turn| clock.at(&log, pace, turn)).collect()
    }

    #[test]
    fn time_passes_in_turns() {
        assert_eq!(times(&[None, None, None], Pace::Logged), [1.0, 2.0, 3.0]);
        let even = [Some(100), Some(200), Some(300)];
        assert_eq!(times(&even, Pace::Logged), [1.0, 2.0, 3.0]);
        // After gaps of 100 and 500 the mean is 300.
        assert_eq!(times(&[Some(0), Some(100), Some(600)], Pace::Logged), [1.0, 2.0, 2.0 + 500.0 / 300.0]);
        assert_eq!(times(&[Some(0), Some(100), Some(600)], Pace::Turns), [1.0, 2.0, 3.0]);
        // Stamps that run backwards stop the clock; one that is missing is a turn.
        assert_eq!(times(&[Some(500), Some(100), Some(400)], Pace::Logged), [1.0, 1.0, 1.0]);
        assert_eq!(times(&[Some(0), None, Some(0)], Pace::Logged), [1.0, 2.0, 2.0]);
        assert_eq!(times(&[Some(i64::MIN), Some(i64::MAX)], Pace::Logged), [1.0, 2.0]);
    }
}
