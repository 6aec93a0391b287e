//! Values that were superseded and still look current.
//!
//! A key is stale in a context that holds its old value and nowhere states the new one; only keys count whose new value was
//! stated in a scope compressed so far. Stated is a value that stands within 15 words of two content words of the line that
//! stated it (as with needs: a bag of values states nothing). Lower is better; `full` states both and is never stale,
//! `drop-all` holds the old value only where the head does (a goal that was changed later). What says the new value in
//! words all of its own counts as not stating it.

use super::Rows;
use super::ground::{Ground, Tally, Truth};
use super::registry::{Better, Entry};
use crate::context::log::Log;
use crate::text::runs::words;

pub const STALE_VALUE_SHARE: Entry = Entry {
    name: "stale_value_share",
    summary: "Share of superseded values that the context still presents as current; lower is better",
    formula: "keys whose old value stands in the context and whose new one is not stated there / keys superseded in compressed scopes",
    better: Better::Lower,
    truth: Some((140, "Stale values: superseded, and still presented as current; lower is better")),
    ..Entry::TRUTH
};

pub(super) const ENTRIES: &[Entry] = &[STALE_VALUE_SHARE];

/// Words around a value in which its cues are looked for.
const WINDOW: usize = 15;
/// Letters of a cue, at least: shorter words are mostly of grammar.
const CUE_LETTERS: usize = 4;

/// The content words of the line of a step that states a value, but for the value's own; none where no line does.
fn cues(log: &Log, step: u32, value: &[u64]) -> Vec<u64> {
    let holds = |line: &&str| words(line).windows(value.len()).any(|run| run == value);
    let line = log.trajectory.steps[step as usize].text.lines().find(holds).unwrap_or("");
    let is_cue = |word: &&str| word.chars().filter(|c| c.is_alphabetic()).count() >= CUE_LETTERS;
    let content = line.split(|c: char| !c.is_alphanumeric()).filter(is_cue).flat_map(words);
    let mut cues: Vec<u64> = content.filter(|word| !value.contains(word)).collect();
    cues.sort_unstable();
    cues.dedup();
    cues
}

pub(super) fn score(truth: &Truth, ground: &Ground<'_>, rows: &mut Rows) {
    let mut all = Tally::default();
    for value in truth.annotations.superseded.iter().filter(|value| ground.in_scope(value.step)) {
        let (old, new) = (words(&value.old), words(&value.new));
        if old.is_empty() || new.is_empty() {
            continue;
        }
        let cues = cues(ground.log, value.step, &new);
        let old = ground.hold(&old);
        let stated = ground.base.bind(&new, &cues, WINDOW);
        let stated = ground.between.each_ref().map(|between| stated || between.bind(&new, &cues, WINDOW));
        all.add(std::array::from_fn(|context| old[context] && !stated[context]));
    }
    all.push(&STALE_VALUE_SHARE, ground.stratum(None), rows);
}
