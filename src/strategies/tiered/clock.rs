//! Trajectory time, in turns; never the wall clock.
//!
//! Where steps have time stamps, a turn takes as long as it took, in units of the median of the newest [`WINDOW`] turns:
//! so decay is told per turn, and one pause changes the length of no other turn. A pause counts as [`MAX_TURNS`] turns
//! at most, and a turn whose stamp is missing, or is not after that of the turn before, as one. What a turn's time is
//! depends on nothing after it; that of the turn about to be decided, on nothing after its decision.

use std::collections::VecDeque;
use std::ops::Range;

use crate::context::log::Log;

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pace {
    /// As logged, where it is.
    Logged,
    /// A turn is a turn.
    Turns,
}

/// Turns whose median length is the unit.
const WINDOW: usize = 101;
/// What a turn counts, at most.
const MAX_TURNS: f64 = 50.0;

/// The time of each turn so far.
#[derive(Default)]
pub(crate) struct Clock {
    /// By turn, from 0.
    times: Vec<f64>,
    /// Stamp of the last turn that has one, in microseconds.
    previous: Option<i64>,
    /// What the newest turns took, in microseconds.
    gaps: VecDeque<f64>,
}

impl Clock {
    /// The time of a turn that is over; turns before it are made up for.
    pub(crate) fn at(&mut self, log: &Log, pace: Pace, turn: u32) -> f64 {
        while self.times.len() <= turn as usize {
            let steps = log.turns.get(self.times.len()).map_or(0..0, |turn| turn.steps.clone());
            let stamp = stamp(log, steps);
            let passed = self.passed(pace, stamp);
            self.times.push(self.times.last().map_or(0.0, |time| time + passed));
            if let (Some(gap), true) = (self.gap(stamp), self.times.len() > 1) {
                self.gaps.push_back(gap);
                self.gaps.drain(..self.gaps.len().saturating_sub(WINDOW));
            }
            self.previous = stamp.or(self.previous);
        }
        self.times[turn as usize]
    }

    /// The time before a decision of a turn, whose steps before `until` are known.
    pub(crate) fn now(&mut self, log: &Log, pace: Pace, turn: u32, until: u32) -> f64 {
        let Some(before) = turn.checked_sub(1) else { return 0.0 };
        let time = self.at(log, pace, before);
        let start = log.turns[turn as usize].steps.start;
        time + self.passed(pace, stamp(log, start..until.max(start)))
    }

    /// What passed since the previous stamp, if anything did.
    fn gap(&self, stamp: Option<i64>) -> Option<f64> {
        let gap = stamp?.saturating_sub(self.previous?);
        (gap > 0).then_some(gap as f64)
    }

    /// How many turns' worth of time passed until a turn with this stamp.
    fn passed(&self, pace: Pace, stamp: Option<i64>) -> f64 {
        let Some(gap) = self.gap(stamp).filter(|_| pace == Pace::Logged) else { return 1.0 };
        let mut gaps: Vec<f64> = self.gaps.iter().copied().chain([gap]).collect();
        gaps.sort_by(f64::total_cmp);
        let median = (gaps[(gaps.len() - 1) / 2] + gaps[gaps.len() / 2]) / 2.0;
        (gap / median).min(MAX_TURNS)
    }
}

/// The newest stamp of some steps.
fn stamp(log: &Log, steps: Range<u32>) -> Option<i64> {
    steps.filter_map(|step| log.trajectory.steps[step as usize].time).max()
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
        // Of gaps of 100 and 500 the median is 300.
        assert_eq!(times(&[Some(0), Some(100), Some(600)], Pace::Logged), [1.0, 2.0, 2.0 + 500.0 / 300.0]);
        assert_eq!(times(&[Some(0), Some(100), Some(600)], Pace::Turns), [1.0, 2.0, 3.0]);
        // A stamp before the last one, the same one, and none are a turn.
        assert_eq!(times(&[Some(500), Some(100), Some(400)], Pace::Logged), [1.0, 2.0, 3.0]);
        assert_eq!(times(&[Some(0), None, Some(0)], Pace::Logged), [1.0, 2.0, 3.0]);
        assert_eq!(times(&[Some(i64::MIN), Some(i64::MAX)], Pace::Logged), [1.0, 2.0]);
    }

    /// Neither a pause of a day nor a first stamp of another century changes the turns after it.
    #[test]
    fn one_odd_stamp_does_not_stop_the_clock() {
        let day = 86_400_000_000;
        let stamps: Vec<_> = [0, 10, 20, 30, day, day + 10, day + 20].map(Some).into();
        assert_eq!(times(&stamps, Pace::Logged), [1.0, 2.0, 3.0, 4.0, 54.0, 55.0, 56.0]);
        let stamps: Vec<_> = [99 * 365 * day, 10, 20, 30].map(Some).into();
        assert_eq!(times(&stamps, Pace::Logged), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn the_open_turn_has_the_time_of_what_is_known_of_it() {
        let mut log = Log::script("user: go\nagent: a\nuser: b\naction: c\nobservation: d\nagent: e");
        for (step, time) in log.trajectory.steps.iter_mut().zip([0, 100, 200, 300, 9000, 9100]) {
            step.time = Some(time);
        }
        let mut clock = Clock::default();
        let until = log.turns[2].decision.unwrap();
        assert_eq!(log.turns[2].steps, 2..5);
        assert_eq!(clock.now(&log, Pace::Logged, 2, until), 2.0);
        // Gaps of 100 and 8,900: the median is 4,500.
        assert_eq!(clock.at(&log, Pace::Logged, 2), 1.0 + 8900.0 / 4500.0);
    }
}
