//! Chooses what to keep: greedy on the worth that is gained per token, where an atom that is kept already is worth less.
//!
//! A gain only falls, so a queue in which only the first is weighed again gives the same as weighing all anew.

use std::collections::BinaryHeap;

/// What can be kept whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    pub tokens: u32,
    /// Numbers of its atoms, each once.
    pub atoms: Vec<u32>,
}

/// What was chosen so far.
pub struct Cover {
    /// Tokens that are left.
    pub left: u32,
    /// Of 1 an atom counts once, of 0 each time.
    diversity: f64,
    /// How often each atom is kept.
    kept: Vec<u32>,
    is_chosen: Vec<bool>,
}

impl Cover {
    /// `kept` says how often each atom is kept already.
    pub fn new(units: &[Unit], kept: Vec<u32>, budget: u32, diversity: f64) -> Self {
        Cover { left: budget, diversity, kept, is_chosen: vec![false; units.len()] }
    }

    /// Chooses of the units what gains most by the worth of each atom; what does not fit any more is passed over.
    pub fn choose(&mut self, units: &[Unit], worth: &[f64]) {
        let candidate = |(at, unit): (usize, &Unit)| Candidate { density: self.density(unit, worth), at };
        let open =
            units.iter().enumerate().filter(|(at, unit)| !self.is_chosen[*at] && unit.tokens <= self.left);
        let mut queue: BinaryHeap<Candidate> = open.map(candidate).filter(|c| c.density > 0.0).collect();
        while let Some(first) = queue.pop() {
            let unit = &units[first.at];
            if unit.tokens > self.left {
                continue;
            }
            let density = self.density(unit, worth);
            if density <= 0.0 {
                continue;
            }
            if density < first.density {
                queue.push(Candidate { density, ..first });
                continue;
            }
            self.take(unit);
            self.is_chosen[first.at] = true;
        }
    }

    /// The numbers of the units that were chosen, in order.
    pub fn chosen(&self) -> impl Iterator<Item = usize> + '_ {
        self.is_chosen.iter().enumerate().filter(|(_, is)| **is).map(|(at, _)| at)
    }

    /// Whether an atom is kept.
    pub fn keeps(&self, atom: u32) -> bool {
        self.kept[atom as usize] > 0
    }

    fn take(&mut self, unit: &Unit) {
        self.left -= unit.tokens;
        for &atom in &unit.atoms {
            self.kept[atom as usize] += 1;
        }
    }

    fn density(&self, unit: &Unit, worth: &[f64]) -> f64 {
        let gain = |atom: &u32| match self.kept[*atom as usize] {
            0 => worth[*atom as usize],
            _ if self.diversity >= 1.0 => 0.0,
            n => worth[*atom as usize] * libm::pow(1.0 - self.diversity, f64::from(n)),
        };
        unit.atoms.iter().map(gain).sum::<f64>() / f64::from(unit.tokens.max(1))
    }
}

#[derive(PartialEq)]
struct Candidate {
    density: f64,
    at: usize,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    /// Of equal gains the earlier unit.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.density.total_cmp(&other.density).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chosen(units: &[(u32, &[u32])], worth: &[f64], budget: u32, diversity: f64) -> Vec<usize> {
        let units: Vec<Unit> =
            units.iter().map(|(tokens, atoms)| Unit { tokens: *tokens, atoms: atoms.to_vec() }).collect();
        let mut cover = Cover::new(&units, vec![0; worth.len()], budget, diversity);
        cover.choose(&units, worth);
        cover.chosen().collect()
    }

    #[test]
    fn the_most_per_token_comes_first_and_an_atom_counts_once() {
        let units: &[(u32, &[u32])] = &[(10, &[0, 1]), (2, &[0]), (3, &[1]), (1, &[])];
        let worth = [0.5, 0.3];
        // Per token: 0.08, 0.25, 0.1; behind the second the first has only 0.03.
        assert_eq!(chosen(units, &worth, 5, 1.0), [1, 2]);
        assert_eq!(chosen(units, &worth, 15, 1.0), [1, 2]);
        // Halved: 0.055 for the first once both are kept.
        assert_eq!(chosen(units, &worth, 15, 0.5), [0, 1, 2]);
        assert_eq!(chosen(units, &worth, 1, 1.0), [0; 0]);
        // Of equals the earlier; what does not fit is passed over.
        assert_eq!(chosen(&[(4, &[0]), (9, &[1]), (4, &[0])], &[0.5, 9.0], 6, 1.0), [0]);
    }

    proptest! {
        /// The lazy queue chooses what weighing all anew each time chooses.
        #[test]
        fn a_lazy_queue_is_the_plain_greed(
            units in prop::collection::vec((1..20u32, prop::collection::btree_set(0..8u32, 0..5)), 0..20),
            worth in prop::collection::vec(0..64u32, 8),
            budget in 0..60u32,
            diversity in prop::sample::select(vec![0.0, 0.5, 1.0]),
        ) {
            let units: Vec<Unit> = units.into_iter().map(|(tokens, atoms)| Unit { tokens, atoms: atoms.into_iter().collect() }).collect();
            let worth: Vec<f64> = worth.into_iter().map(f64::from).collect();
            let mut lazy = Cover::new(&units, vec![0; 8], budget, diversity);
            lazy.choose(&units, &worth);
            let mut plain = Cover::new(&units, vec![0; 8], budget, diversity);
            loop {
                let open = (0..units.len()).filter(|&at| !plain.is_chosen[at] && units[at].tokens <= plain.left);
                let best = open.map(|at| Candidate { density: plain.density(&units[at], &worth), at }).max();
                let Some(best) = best.filter(|best| best.density > 0.0) else { break };
                plain.take(&units[best.at]);
                plain.is_chosen[best.at] = true;
            }
            prop_assert_eq!(lazy.chosen().collect::<Vec<_>>(), plain.chosen().collect::<Vec<_>>());
        }
    }
}
