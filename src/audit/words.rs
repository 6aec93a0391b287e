//! What the user had typed, and where it stands no more.

use std::collections::HashMap;
use std::ops::Range;

use crate::context::log::Log;
use crate::text::runs::{Runs, words};
use crate::text::sentences::statements;
use crate::trajectory::{Kind, Role};

/// Shorter sentences say little (`go on`, `thanks`).
const LEAST: usize = 5;

/// A sentence of the user.
pub struct Words {
    pub turn: u32,
    pub text: String,
}

/// Sentences of the user among `steps` that stand word for word neither in the summary, nor in what stays, nor in what is logged
/// until the next compaction. What was said more than once is left out.
pub(super) fn gone(
    log: &Log,
    steps: Range<u32>,
    until: u32,
    is_gone: &dyn Fn(u32) -> bool,
    summary: &str,
) -> Vec<Words> {
    let typed = |step: &u32| {
        let step = &log.trajectory.steps[*step as usize];
        step.role == Role::User && step.kind == Kind::Message
    };
    let text = |step: u32| log.trajectory.steps[step as usize].text.as_str();
    let all = 0..log.n_steps() as u32;
    let mut said: HashMap<Vec<u64>, u32> = HashMap::new();
    for step in all.filter(typed) {
        for range in statements(text(step), true) {
            *said.entry(words(&text(step)[range])).or_default() += 1;
        }
    }
    let standing = (0..until).filter(|&step| step >= steps.end || !is_gone(step)).map(text);
    let standing = Runs::new(standing.chain([summary]));
    let mut found = Vec::new();
    for step in steps.filter(|step| typed(step) && is_gone(*step)) {
        for range in statements(text(step), true) {
            let sentence = &text(step)[range];
            let of = words(sentence);
            // A tag is what a harness put there.
            if !sentence.starts_with('<')
                && of.len() >= LEAST
                && said.get(&of) == Some(&1)
                && !standing.hold(&of)
            {
                found.push(Words { turn: log.turn_of(step), text: sentence.to_owned() });
            }
        }
    }
    found
}
