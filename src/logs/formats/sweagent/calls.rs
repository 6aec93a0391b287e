//! Which calls of a history belong to which steps.

use std::collections::VecDeque;

use crate::logs::formats::Losses;
use crate::logs::formats::reading::Draft;

use super::replied::{Answer, Replied, seen};
use super::{Message, TrajStep};

/// The replies in the history, as far as they fit the steps of the trajectory.
pub(super) struct Calls {
    /// By the number of their step.
    fitting: VecDeque<(usize, Replied)>,
    has_tool_calls: bool,
}

impl Calls {
    pub(super) fn of(body: Vec<Message>, steps: &[TrajStep], losses: &mut Losses) -> Self {
        let mut calls: Vec<Replied> = Vec::new();
        for mut entry in body {
            if entry.is_agent() {
                calls.push(Replied::of(entry));
            } else if let Some(call) = calls.last_mut() {
                let content = entry.take_content(losses);
                match &mut call.answer {
                    Some(answer) => answer.more.push(content),
                    None => {
                        let tags = entry.tags.unwrap_or_default().0;
                        call.answer = Some(Answer { content, more: Vec::new(), tags });
                    }
                }
            }
        }
        let has_tool_calls = calls.iter().any(|c| c.tool_calls.is_some());
        let mut pairs = pairs(steps, &calls).into_iter().peekable();
        let mut fitting = VecDeque::new();
        while let Some((step, call)) = pairs.next() {
            let mut found = Some((step, std::mem::take(&mut calls[call])));
            while let Some((step, mut replied)) = found {
                let next = steps.get(step + 1).filter(|_| pairs.peek().is_none_or(|pair| pair.0 > step + 1));
                found = next.and_then(|next| replied.split_off(next)).map(|replied| (step + 1, replied));
                fitting.push_back((step, replied));
            }
        }
        let n_left = calls.iter().filter(|call| !call.action.is_empty()).count();
        losses.add_n("reply in the history without its step left out", n_left as u64);
        Calls { fitting, has_tool_calls }
    }

    pub(super) fn of_step(&mut self, step: usize, draft: &mut Draft) -> Option<Replied> {
        let found = self.fitting.iter().position(|(s, _)| *s >= step).unwrap_or(self.fitting.len());
        self.fitting.drain(..found);
        let replied = self.fitting.pop_front_if(|(s, _)| *s == step).map(|(_, replied)| replied);
        if self.has_tool_calls && replied.as_ref().is_none_or(|r| r.is_missing) {
            draft.losses.add("step without its entry in the history, told by its command only");
        }
        replied
    }
}

/// So many steps and replies are matched at once.
const BLOCK: usize = 256;
const BEST_FIT: u32 = 5;

/// Steps and replies of the same command, in order, so that as much as can be fits: what does not costs only itself.
fn pairs(steps: &[TrajStep], calls: &[Replied]) -> Vec<(usize, usize)> {
    let (mut s, mut c) = (0, 0);
    let mut out = Vec::new();
    while s < steps.len() && c < calls.len() {
        if calls[c].fit(&calls[c].answer_text(), &steps[s], &seen(&steps[s])) == BEST_FIT {
            out.push((s, c));
            (s, c) = (s + 1, c + 1);
            continue;
        }
        let ends = (steps.len().min(s + BLOCK), calls.len().min(c + BLOCK));
        let block = best_pairs(&steps[s..ends.0], &calls[c..ends.1]);
        out.extend(block.iter().map(|(a, b)| (s + a, c + b)));
        (s, c) = block.last().map_or(ends, |(a, b)| (s + a + 1, c + b + 1));
    }
    out
}

/// The pairs of the greatest sum of fits.
fn best_pairs(steps: &[TrajStep], calls: &[Replied]) -> Vec<(usize, usize)> {
    let answers: Vec<String> = calls.iter().map(Replied::answer_text).collect();
    let fits = |step: &TrajStep| -> Vec<u32> {
        let seen = seen(step);
        calls.iter().zip(&answers).map(|(call, answer)| call.fit(answer, step, &seen)).collect()
    };
    let fits: Vec<Vec<u32>> = steps.iter().map(fits).collect();
    // Of what begins at a step and a reply.
    let mut best = vec![vec![0; calls.len() + 1]; steps.len() + 1];
    for s in (0..steps.len()).rev() {
        for c in (0..calls.len()).rev() {
            let fit = fits[s][c];
            let pair = if fit > 0 { fit + best[s + 1][c + 1] } else { 0 };
            best[s][c] = pair.max(best[s + 1][c]).max(best[s][c + 1]);
        }
    }
    let (mut s, mut c) = (0, 0);
    let mut out = Vec::new();
    while s < steps.len() && c < calls.len() {
        let fit = fits[s][c];
        if fit > 0 && best[s][c] == fit + best[s + 1][c + 1] {
            out.push((s, c));
            (s, c) = (s + 1, c + 1);
        } else if best[s][c] == best[s + 1][c] {
            s += 1;
        } else {
            c += 1;
        }
    }
    out
}
