//! What a log asks of every variant: its needs with their weights.

use std::collections::HashMap;

use crate::context::log::Log;
use crate::context::needs::{Group, Need, Needs};
use crate::replay::sent::Sent;
use crate::text::tokens::Tokenizer;

/// Weight, in the oracle's eyes, of needs outside the headline: served when nothing better is left.
pub(super) const MINOR_WEIGHT: f64 = 0.01;

/// The questions that a log asks of every variant: its needs with their weights.
pub struct Questions {
    pub needs: Needs,
    /// Tokens of all prompts that the log says were sent.
    pub tokens_as_sent: u64,
    /// Reference tails in turns, ascending.
    pub(super) tails: Vec<u32>,
    /// Per need, per tail, per level.
    pub(super) weights: Vec<Vec<[f64; 2]>>,
}

impl Questions {
    /// # Errors
    /// The log cannot be replayed as it was sent.
    pub fn of(log: &Log, tails: &[u32], tokenizer: &Tokenizer) -> anyhow::Result<Self> {
        let tails = sorted(tails);
        let mut needs = Needs::of(log, tails.first().copied().unwrap_or(0));
        let sent = Sent::of(log, &needs, tokenizer)?;
        for (need, supported) in needs.list.iter_mut().zip(sent.supported) {
            need.supported = supported;
        }
        let mut shares: HashMap<(u32, Group, bool, usize, usize), f64> = HashMap::new();
        let eligible = |need: &Need, tail: u32, level: usize| need.gap > tail && (level == 0 || need.bound);
        for need in &needs.list {
            for (t, &tail) in tails.iter().enumerate() {
                for level in 0..2 {
                    if eligible(need, tail, level) {
                        let those = (need.turn, need.group, need.supported, t, level);
                        *shares.entry(those).or_default() += 1.0;
                    }
                }
            }
        }
        let weight = |need: &Need, t: usize, tail: u32, level: usize| {
            let those = (need.turn, need.group, need.supported, t, level);
            if eligible(need, tail, level) { 1.0 / shares[&those] } else { 0.0 }
        };
        let weights = needs
            .list
            .iter()
            .map(|need| {
                tails
                    .iter()
                    .enumerate()
                    .map(|(t, &tail)| [weight(need, t, tail, 0), weight(need, t, tail, 1)])
                    .collect()
            })
            .collect();
        Ok(Questions { needs, tokens_as_sent: sent.tokens, tails, weights })
    }
}

impl Questions {
    /// The needs of the headline that bound retention asks for, by place in the list, with their weights for the shortest tail.
    pub fn headline(&self) -> impl Iterator<Item = (usize, f64)> {
        let weight = |i: usize| self.weights[i].first().map_or(0.0, |tail| tail[1]);
        let all = (0..self.needs.list.len()).filter(|&i| self.needs.list[i].is_headline());
        all.map(move |i| (i, weight(i))).filter(|(_, weight)| *weight > 0.0)
    }
}

/// Reference tails are counted in ascending order.
pub(super) fn sorted(tails: &[u32]) -> Vec<u32> {
    let mut tails = tails.to_vec();
    tails.sort_unstable();
    tails
}
