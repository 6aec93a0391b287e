//! Which lines of a scope are kept: those that cover what could be needed at the fewest tokens.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cover::{Cover, Unit};
use crate::context::log::{AtomId, BOUND, Log};
use crate::text::atoms::AtomKind;

/// What can be copied from a scope, with the odds of the atoms that could be needed.
pub struct Odds {
    pub spans: Vec<u32>,
    pub of: FxHashMap<AtomId, f64>,
}

impl Odds {
    /// Which of these units, lines that are kept together, are kept; what binds an atom that is `held` need not be.
    pub fn choose(
        &self,
        log: &Log,
        units: &[Vec<u32>],
        held: &FxHashSet<AtomId>,
        budget: u32,
        diversity: f64,
    ) -> Vec<usize> {
        let mut numbers: FxHashMap<AtomId, u32> = FxHashMap::default();
        let (mut worth, mut kept) = (Vec::new(), Vec::new());
        let mut number = |atom: AtomId| {
            *numbers.entry(atom).or_insert_with(|| {
                worth.push(self.of.get(&atom).copied().unwrap_or(0.0));
                kept.push(u32::from(held.contains(&atom)));
                worth.len() as u32 - 1
            })
        };
        let mut unit = |spans: &Vec<u32>| {
            let tokens = spans.iter().map(|&span| log.spans[span as usize].tokens).sum();
            let mut atoms: Vec<u32> =
                spans.iter().flat_map(|&span| bound(log, span)).map(&mut number).collect();
            atoms.sort_unstable();
            atoms.dedup();
            Unit { tokens, atoms }
        };
        let units: Vec<Unit> = units.iter().map(&mut unit).collect();
        let rest: Vec<f64> = worth.iter().map(|worth| if *worth > 0.0 { 0.0 } else { 1.0 }).collect();
        let mut cover = Cover::new(&units, kept, budget, diversity);
        cover.choose(&units, &worth);
        cover.choose(&units, &rest);
        cover.chosen().collect()
    }
}

/// Atoms that a line binds.
pub fn bound(log: &Log, span: u32) -> impl Iterator<Item = AtomId> + '_ {
    log.mentions_in(span).iter().filter(|mention| mention.flags & BOUND != 0).map(|mention| mention.so_far)
}

/// How many lines before an error are looked at for its place.
const NEAR: usize = 3;

/// Each line as a unit, of equal ones the first; with `group` an error and its place are one.
pub fn lines(log: &Log, spans: &[u32], group: bool) -> Vec<Vec<u32>> {
    let names =
        |span: u32, kind: AtomKind| log.mentions_in(span).iter().any(|m| log.atom(m.so_far).kind == kind);
    let mut seen = FxHashSet::default();
    let mut units = Vec::with_capacity(spans.len());
    for (at, &span) in spans.iter().enumerate() {
        if !seen.insert(log.span_text(span).trim()) {
            continue;
        }
        let step = log.spans[span as usize].step;
        let is_lost = group && names(span, AtomKind::Error) && !names(span, AtomKind::Path);
        let before = spans[..at].iter().rev().take(NEAR).take_while(|&&s| log.spans[s as usize].step == step);
        let place = before.copied().filter(|_| is_lost).find(|&s| names(s, AtomKind::Path));
        units.push(place.into_iter().chain([span]).collect());
    }
    units
}
