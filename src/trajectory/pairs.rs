//! Calls and their results: which steps of a log belong together, and whether a prompt holds one without the other.
//!
//! Providers refuse a prompt in which a call stands without its result, or a result without its call. A *pair* is the
//! calls of one id with their results, as messages; excerpts and generated texts are no messages. A call that the log
//! never answers, and a result that the log never asked for, are of no pair. Source: DESIGN section 12, ours.

use std::collections::HashMap;

use crate::trajectory::{Kind, Step};

const NONE: u32 = u32::MAX;

/// The pairs of a log.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Per step: its pair, or [`NONE`].
    of: Vec<u32>,
    /// Steps of each pair, in order.
    steps: Vec<Vec<u32>>,
    /// Whether some result came in a later turn than its call.
    has_late: bool,
}

impl Pairs {
    /// Finds the pairs. An id that calls again after its result names another pair. A result whose call stands in no
    /// prompt of its segment has none.
    pub fn of(steps: &[Step]) -> Self {
        let mut found: Vec<Vec<u32>> = Vec::new();
        let mut open: HashMap<&str, usize> = HashMap::new();
        for (i, step) in steps.iter().enumerate() {
            let Some(id) = step.call_id.as_deref() else { continue };
            let stands = |&other: &u32| {
                let other = &steps[other as usize];
                other.segment == step.segment || other.kept_to >= Some(step.segment)
            };
            // What stands in no prompt of this segment stands in none of a later one.
            let pair = open.get(id).copied().filter(|&pair| found[pair].iter().rev().any(stands));
            let last = pair.and_then(|pair| found[pair].last()).map(|&last| &steps[last as usize]);
            match (step.kind, pair) {
                (Kind::Action, Some(pair)) if last.is_some_and(|l| l.kind == Kind::Action) => {
                    found[pair].push(i as u32);
                }
                (Kind::Action, _) => {
                    open.insert(id, found.len());
                    found.push(vec![i as u32]);
                }
                (Kind::Observation, Some(pair)) => found[pair].push(i as u32),
                _ => drop(open.remove(id)),
            }
        }
        let is_answered =
            |pair: &Vec<u32>| pair.last().is_some_and(|&last| steps[last as usize].kind == Kind::Observation);
        found.retain(is_answered);
        let mut pairs = Pairs { of: vec![NONE; steps.len()], steps: found, has_late: false };
        for (number, pair) in pairs.steps.iter().enumerate() {
            pair.iter().for_each(|&step| pairs.of[step as usize] = number as u32);
            let turn = |step: Option<&u32>| step.map(|&step| steps[step as usize].turn);
            pairs.has_late |= turn(pair.first()) != turn(pair.last());
        }
        pairs
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether some result came in a later turn than its call.
    pub fn has_late(&self) -> bool {
        self.has_late
    }

    /// The number of a step's pair.
    pub fn number(&self, step: u32) -> Option<u32> {
        self.of.get(step as usize).copied().filter(|&number| number != NONE)
    }

    /// All steps of a step's pair, in order; the last one is a result.
    pub fn with(&self, step: u32) -> Option<&[u32]> {
        Some(&self.steps[self.number(step)? as usize])
    }
}

/// How many steps of a pair were logged since the context began, and how many of them stand as messages.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    logged: [u32; 2],
    standing: [u32; 2],
}

/// What a pair lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    Call,
    Result,
}

impl Count {
    /// What is missing although it was logged.
    fn lack(&self) -> Option<Lack> {
        match (self.logged.contains(&0), self.standing.map(|n| n > 0)) {
            (false, [false, true]) => Some(Lack::Call),
            (false, [true, false]) => Some(Lack::Result),
            _ => None,
        }
    }
}

/// What stands of each pair in a context: each change costs the same, whatever stands there.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// By number of the pair.
    counts: Vec<Count>,
    touched: Vec<u32>,
    /// Pairs that lack their call, and their result.
    lacking: [u32; 2],
}

/// Where a step's kind is counted: calls, then results.
fn place(kind: Kind) -> usize {
    usize::from(kind == Kind::Observation)
}

impl Standing {
    /// Forgets all.
    pub fn clear(&mut self) {
        for number in self.touched.drain(..) {
            self.counts[number as usize] = Count::default();
        }
        self.lacking = [0, 0];
    }

    /// A step of a pair was logged, and stands there whole.
    pub fn logged(&mut self, number: u32, kind: Kind) {
        self.change(number, |count| {
            count.logged[place(kind)] += 1;
            count.standing[place(kind)] += 1;
        });
    }

    /// A message of a pair was put there, or taken away.
    pub fn set(&mut self, number: u32, kind: Kind, stands: bool) {
        self.change(number, |count| {
            let n = &mut count.standing[place(kind)];
            *n = if stands { *n + 1 } else { n.saturating_sub(1) };
        });
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Count)) {
        let at = number as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, Count::default());
        }
        let count = &mut self.counts[at];
        if count.logged == [0, 0] {
            self.touched.push(number);
        }
        let before = count.lack();
        change(count);
        let after = count.lack();
        before.into_iter().for_each(|lack| self.lacking[lack as usize] -= 1);
        after.into_iter().for_each(|lack| self.lacking[lack as usize] += 1);
    }

    /// What a pair lacks.
    pub fn lack_of(&self, number: u32) -> Option<Lack> {
        self.counts.get(number as usize)?.lack()
    }

    /// Whether some pair lacks this.
    pub fn lacks(&self, lack: Lack) -> bool {
        self.lacking[lack as usize] > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Role, step};

    /// A step for each letter: a call (in capitals) or a result of that id.
    fn steps(script: &str) -> Vec<Step> {
        let of = |(i, c): (usize, char)| {
            let (role, kind) = match c.is_uppercase() {
                true => (Role::Agent, Kind::Action),
                false => (Role::Tool, Kind::Observation),
            };
            let mut step = step(role, kind, "x");
            step.call_id = Some(c.to_ascii_lowercase().to_string().into());
            step.turn = i as u32;
            step
        };
        script.chars().enumerate().map(of).collect()
    }

    #[test]
    fn a_pair_is_a_call_with_its_results() {
        let pairs = |script| Pairs::of(&steps(script)).steps;
        assert_eq!(pairs("AaBb"), [vec![0, 1], vec![2, 3]]);
        assert_eq!(pairs("ABba"), [vec![0, 3], vec![1, 2]]);
        // Twice answered; called again; never answered; never asked for.
        assert_eq!(pairs("AaaAaBc"), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(pairs("aA"), [[0; 0]; 0]);
    }

    #[test]
    fn a_compaction_parts_what_it_does_not_keep() {
        let mut steps = steps("AaBb");
        steps[1].segment = 1;
        steps[3].segment = 1;
        steps[2].kept_to = Some(1);
        let pairs = Pairs::of(&steps);
        assert_eq!((pairs.number(0), pairs.with(3)), (None, Some(&[2, 3][..])));
        assert!(pairs.has_late());
    }

    /// The first result stands behind the compaction no more, and the call does: the second one answers it, too.
    #[test]
    fn a_call_that_was_kept_is_answered_again() {
        let mut steps = steps("Aaa");
        steps[2].segment = 1;
        steps[0].kept_to = Some(1);
        assert_eq!(Pairs::of(&steps).with(2), Some(&[0, 1, 2][..]));
    }

    #[test]
    fn both_ways_are_told() {
        let mut standing = Standing::default();
        standing.logged(3, Kind::Action);
        // Its result is still to come.
        assert!(!standing.lacks(Lack::Result));
        standing.set(3, Kind::Action, false);
        assert!(!standing.lacks(Lack::Call));
        standing.logged(3, Kind::Observation);
        assert!(standing.lacks(Lack::Call) && standing.lack_of(3) == Some(Lack::Call));
        standing.set(3, Kind::Action, true);
        standing.set(3, Kind::Observation, false);
        assert!(!standing.lacks(Lack::Call) && standing.lacks(Lack::Result));
        standing.set(3, Kind::Action, false);
        assert!(!standing.lacks(Lack::Result));
        // A result without a call in the log.
        standing.logged(0, Kind::Observation);
        assert_eq!(standing.lack_of(0), None);
        standing.clear();
        assert!(standing.counts.iter().all(|count| count.logged == [0, 0]) && standing.touched.is_empty());
    }
}
