//! What the provider counted beside what the log shows: usage = a + b x ours, of each session.
//!
//! *a* is what the log does not show (system prompt, tools), one for each stretch of calls; *b* is a factor between two
//! tokenizers, one for the session. Plain numbers in and out: reads no file, knows no table.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::trajectory::Step;

/// Calls that a session needs for a factor of its own.
pub const MIN_CALLS: usize = 8;
/// No two tokenizers are further apart.
const FACTORS: [f64; 2] = [0.8, 2.0];
/// A fall of usage by more than this share of it begins a new stretch.
const FALL: f64 = 0.05;
/// Each call is paired with so many of the later calls of its stretch at most, evenly spread over them: all pairs of up to
/// 65 calls, and work that is linear in their number.
const PAIRS: usize = 64;

/// The longest prompt of a session, from its steps in order: as its provider counted, else as the log shows (a segment with
/// all that was said).
#[derive(Clone, Default)]
pub struct LongestPrompt {
    counted: Option<u64>,
    /// The turn that was counted last: its first usage is that of its prompt.
    turn: Option<u32>,
    segment: u32,
    in_segment: u64,
    shown: u64,
    /// Of the first prompt: the provider's count, and what stands before the first turn.
    first: Option<u64>,
    before: u64,
}

impl LongestPrompt {
    pub fn add(&mut self, turn: u32, segment: u32, tokens: u32, usage: Option<u64>) {
        if usage.is_some() && self.turn != Some(turn) {
            self.turn = Some(turn);
            self.counted = self.counted.max(usage);
            self.first = self.first.or(usage);
        }
        if turn == 0 {
            self.before += u64::from(tokens);
        }
        if segment != self.segment {
            (self.segment, self.in_segment) = (segment, 0);
        }
        self.in_segment += u64::from(tokens);
        self.shown = self.shown.max(self.in_segment);
    }

    pub fn tokens(&self) -> u64 {
        self.counted.unwrap_or(self.shown)
    }

    /// Of the first prompt.
    pub fn first(&self) -> u64 {
        self.first.unwrap_or(self.before)
    }
}

/// One call of the agent's model with logged usage.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub turn: u32,
    /// Turns of its segment.
    pub segment: Range<u32>,
    /// Tokens of the prompt that the log says was sent, by our tokenizer.
    pub ours: u64,
    /// Tokens of the prompt by the provider's count; above 0.
    pub usage: u64,
}

/// Calls over which nothing came or went that the log does not show.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Turns that it speaks of; those of a segment's stretches follow one another and fill the segment.
    pub turns: Range<u32>,
    pub n_calls: usize,
    /// *a*: tokens by the provider's count that the log does not show.
    pub unseen: u64,
    /// Whether it begins where usage fell and no record says why.
    pub is_after_edit: bool,
    /// Whether no such edit stands before it in its segment: else what was sent is not known.
    pub is_sent_known: bool,
}

/// The fit of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// *b*.
    pub factor: f64,
    pub stretches: Vec<Stretch>,
    /// Median of |usage - a - b x ours| / usage over its calls.
    pub residual_median: f64,
    /// Nine tenths of its calls have at most this residual.
    pub residual_p90: f64,
}

/// What a stretch says of the prompts of its turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    pub turns: Range<u32>,
    pub unseen: u64,
    pub factor: f64,
}

impl Rate {
    /// A number of our tokens as the provider counts them, without what is unseen.
    pub fn counted(&self, ours: u64) -> f64 {
        self.factor * ours as f64
    }

    /// A prompt of so many of our tokens as the provider counts it.
    pub fn billed(&self, ours: u64) -> f64 {
        self.unseen as f64 + self.counted(ours)
    }
}

/// The calls of a log with usage, in order. `tokens`: of each step; `count` counts those of what was sent in its place.
pub fn calls(steps: &[Step], tokens: &[u32], count: impl Fn(&str) -> u32) -> Vec<Call> {
    if steps.iter().all(|step| step.usage.is_none()) {
        return Vec::new();
    }
    let mut calls: Vec<Call> = Vec::new();
    // Steps that stand in the prompts of later segments, too.
    let mut staying: Vec<(&Step, u32)> = Vec::new();
    let mut start = 0;
    for of in steps.chunk_by(|a, b| a.segment == b.segment) {
        let turns = of[0].turn..of[of.len() - 1].turn + 1;
        let mut prompt = Prompt::of(of[0].segment, &staying);
        // The turn that was decided last, and its prompt.
        let mut decided = None;
        for (step, &n) in of.iter().zip(&tokens[start..]) {
            if step.is_agent() && decided.is_none_or(|(turn, _)| turn != step.turn) {
                decided = Some((step.turn, prompt.sent(step.turn)));
            }
            if let (Some(usage), Some((turn, ours))) = (&step.usage, decided)
                && turn == step.turn
                && usage.input > 0
                && calls.last().is_none_or(|last| last.turn != turn)
            {
                calls.push(Call { turn, segment: turns.clone(), ours, usage: usage.input });
            }
            prompt.append(step, n, &count);
            if step.turn == 0 || step.kept_to.is_some() {
                staying.push((step, n));
            }
        }
        start += of.len();
    }
    calls
}

/// The prompt as the log says it was sent: it grows step by step, and edits change it.
#[derive(Default)]
struct Prompt {
    tokens: i64,
    /// Turns from whose decision on the prompt has so many tokens more.
    edits: BinaryHeap<Reverse<(u32, i64)>>,
}

impl Prompt {
    /// That of a segment, before its first step.
    fn of(segment: u32, staying: &[(&Step, u32)]) -> Self {
        let stays = |step: &Step| step.turn == 0 || step.kept_to.is_some_and(|to| to >= segment);
        let tokens = staying.iter().filter(|(step, _)| stays(step)).map(|(_, n)| i64::from(*n)).sum();
        Prompt { tokens, ..Prompt::default() }
    }

    fn append(&mut self, step: &Step, tokens: u32, count: impl Fn(&str) -> u32) {
        self.tokens += i64::from(tokens);
        if let Some(edit) = &step.edit {
            let sent = if edit.text.is_empty() { 0 } else { count(&edit.text) };
            self.edits.push(Reverse((edit.from, i64::from(sent) - i64::from(tokens))));
        }
    }

    /// Its tokens at the decision of a turn.
    fn sent(&mut self, turn: u32) -> u64 {
        while let Some(Reverse((_, change))) = self.edits.peek().filter(|edit| edit.0.0 <= turn) {
            self.tokens += change;
            self.edits.pop();
        }
        u64::try_from(self.tokens).unwrap_or(0)
    }
}

/// A session's own factor; none under 8 calls, or where its prompts never differ.
pub fn factor(calls: &[Call]) -> Option<f64> {
    if calls.len() < MIN_CALLS {
        return None;
    }
    let mut slopes = Vec::new();
    for stretch in cut(calls) {
        let calls = &calls[stretch];
        for (i, call) in calls.iter().enumerate() {
            let later = calls.len() - 1 - i;
            let n = later.min(PAIRS);
            for other in (0..n).map(|k| &calls[i + 1 + k * later / n]) {
                let by = |f: fn(&Call) -> u64| f(other) as f64 - f(call) as f64;
                let (rise, run) = (by(|c| c.usage), by(|c| c.ours));
                if run != 0.0 {
                    slopes.push(rise / run);
                }
            }
        }
    }
    median(&mut slopes).map(|slope| slope.clamp(FACTORS[0], FACTORS[1]))
}

/// Fits a session of which the factor is known. `calls` in order.
pub fn fit(calls: &[Call], factor: f64) -> Fit {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut residuals = Vec::with_capacity(calls.len());
    for range in cut(calls) {
        let of = &calls[range.clone()];
        let mut unseen: Vec<f64> = of.iter().map(|c| c.usage as f64 - factor * c.ours as f64).collect();
        let unseen = median(&mut unseen).unwrap_or(0.0).max(0.0).round();
        residuals.extend(of.iter().map(|c| {
            let usage = c.usage as f64;
            (usage - unseen - factor * c.ours as f64).abs() / usage
        }));
        let segment = &of[0].segment;
        let before = range.start.checked_sub(1).map(|i| &calls[i]).filter(|c| c.segment == *segment);
        let is_after_edit = before.is_some_and(|before| !is_told(before, &of[0], factor));
        let is_first = before.is_none();
        let last = stretches.last_mut().filter(|_| !is_first);
        let is_sent_known = last.is_none_or(|last| {
            last.turns.end = of[0].turn;
            last.is_sent_known
        }) && !is_after_edit;
        stretches.push(Stretch {
            turns: if is_first { segment.start } else { of[0].turn }..segment.end,
            n_calls: of.len(),
            unseen: unseen as u64,
            is_after_edit,
            is_sent_known,
        });
    }
    residuals.sort_by(f64::total_cmp);
    // The smallest residual that nine tenths are at or under.
    let p90 = (9 * residuals.len()).div_ceil(10).checked_sub(1).and_then(|at| residuals.get(at));
    Fit {
        factor,
        stretches,
        residual_p90: p90.copied().unwrap_or(0.0),
        residual_median: median(&mut residuals).unwrap_or(0.0),
    }
}

/// The stretches of calls: a segment, cut again where usage falls.
fn cut(calls: &[Call]) -> Vec<Range<usize>> {
    let mut start = 0;
    let ranges = calls.chunk_by(|a, b| a.segment == b.segment && !falls(a, b)).map(|chunk| {
        let range = start..start + chunk.len();
        start = range.end;
        range
    });
    ranges.collect()
}

fn falls(before: &Call, after: &Call) -> bool {
    (after.usage as f64) < (1.0 - FALL) * before.usage as f64
}

/// Whether the log's own records say why usage fell: what they took away is as much, within the share that is no fall.
fn is_told(before: &Call, after: &Call, factor: f64) -> bool {
    let taken = factor * before.ours.saturating_sub(after.ours) as f64;
    after.usage as f64 + taken >= (1.0 - FALL) * before.usage as f64
}

/// The median; of an even number of values the mean of the two in the middle. Sorts them.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    Some((values.get(n.checked_sub(1)? / 2)? + values.get(n / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Builder, Kind, LoggedEdit, Role, Usage, step};

    #[test]
    fn the_longest_prompt_is_the_providers_else_a_whole_segment() {
        let of = |steps: &[(u32, u32, u32, Option<u64>)]| {
            let mut longest = LongestPrompt::default();
            steps
                .iter()
                .for_each(|&(turn, segment, tokens, usage)| longest.add(turn, segment, tokens, usage));
            (longest.tokens(), longest.first())
        };
        assert_eq!(of(&[]), (0, 0));
        assert_eq!(of(&[(0, 0, 10, None), (1, 0, 5, None), (2, 1, 12, None), (3, 1, 1, None)]), (15, 10));
        // The first usage of a turn counts, and any usage counts before what is shown.
        assert_eq!(
            of(&[(0, 0, 90, None), (1, 0, 5, Some(40)), (1, 0, 5, Some(70)), (2, 0, 1, Some(50))]),
            (50, 40)
        );
    }

    /// Calls of one segment: turn, ours, usage.
    fn segment(turns: Range<u32>, calls: &[(u32, u64, u64)]) -> Vec<Call> {
        calls.iter().map(|&(turn, ours, usage)| Call { turn, segment: turns.clone(), ours, usage }).collect()
    }

    /// Usage = 5,000 + 1.5 x ours, then after a compaction 9,000 + 1.5 x ours.
    fn affine() -> Vec<Call> {
        let first: Vec<_> = (0..5).map(|i| (i as u32 + 1, 1000 * i, 5000 + 1500 * i)).collect();
        let second: Vec<_> = (0..4).map(|i| (i as u32 + 7, 400 * i, 9000 + 600 * i)).collect();
        [segment(1..7, &first), segment(7..12, &second)].concat()
    }

    #[test]
    fn a_session_is_affine_with_an_unseen_part_by_stretch() {
        let calls = affine();
        assert_eq!(factor(&calls), Some(1.5));
        let fit = fit(&calls, 1.5);
        let stretches: Vec<_> =
            fit.stretches.iter().map(|s| (s.turns.clone(), s.n_calls, s.unseen, s.is_sent_known)).collect();
        assert_eq!(stretches, [(1..7, 5, 5000, true), (7..12, 4, 9000, true)]);
        assert_eq!((fit.residual_median, fit.residual_p90), (0.0, 0.0));
        let rate = Rate { turns: 1..7, unseen: 5000, factor: 1.5 };
        assert_eq!((rate.billed(1000), rate.counted(1000)), (6500.0, 1500.0));
        assert_eq!(factor(&calls[..7]), None, "seven calls");
    }

    /// The fourth call reads 2,000 where 6,500 stood before and nothing in the log says so.
    #[test]
    fn a_fall_without_a_record_is_an_unlogged_edit() {
        let calls = segment(
            1..20,
            &[
                (2, 0, 5000),
                (3, 500, 5500),
                (4, 1500, 6500),
                (6, 2000, 2000),
                (7, 2500, 2500),
                (9, 3000, 2900),
            ],
        );
        let fit = fit(&calls, 1.0);
        let stretches: Vec<_> = fit
            .stretches
            .iter()
            .map(|s| (s.turns.clone(), s.n_calls, s.unseen, s.is_after_edit, s.is_sent_known))
            .collect();
        // The second stretch would need an unseen part of less than nothing.
        assert_eq!(stretches, [(1..6, 3, 5000, false, true), (6..20, 3, 0, true, false)]);
        // Residuals: 0 five times and 100 / 2,900 once: nine tenths of six are the sixth.
        assert_eq!((fit.residual_median, fit.residual_p90), (0.0, 100.0 / 2900.0));
        // A fall of 5 % or less cuts nothing: 6,500 to 6,175.
        let calls = segment(1..9, &[(1, 1000, 6500), (2, 1100, 6175), (3, 1200, 6174)]);
        assert_eq!(super::fit(&calls, 1.0).stretches.len(), 1);
        // What stays unknown stays so in the segment alone.
        let more =
            [segment(1..5, &[(1, 10, 900), (2, 20, 500), (3, 30, 400)]), segment(5..9, &[(5, 10, 300)])];
        let known: Vec<bool> =
            super::fit(&more.concat(), 1.0).stretches.iter().map(|s| s.is_sent_known).collect();
        assert_eq!(known, [true, false, false, true]);
    }

    /// Where a logged edit took 1,000 of ours, usage may fall by as much times the factor.
    #[test]
    fn a_fall_that_a_record_explains_is_none() {
        let calls = segment(1..9, &[(1, 2000, 5000), (2, 1000, 3800), (3, 1100, 3920)]);
        let at =
            |factor| -> Vec<bool> { fit(&calls, factor).stretches.iter().map(|s| s.is_after_edit).collect() };
        assert_eq!(at(1.2), [false, false]);
        // 3,800 + 800 is under 0.95 x 5,000.
        assert_eq!(at(0.8), [false, true]);
    }

    #[test]
    fn a_factor_is_a_median_and_no_further_than_tokenizers_are_apart() {
        let mut calls: Vec<(u32, u64, u64)> =
            (0..9).map(|i| (i as u32 + 1, 1000 * i, 9000 + 1200 * i)).collect();
        // One call with a burst that the log does not show, not followed by a fall of 5 %.
        calls[4].2 += 700;
        assert_eq!(factor(&segment(1..20, &calls)), Some(1.2));
        let steep: Vec<_> = (0..9).map(|i| (i as u32 + 1, 10 * i, 9000 + 500 * i)).collect();
        assert_eq!(factor(&segment(1..20, &steep)), Some(2.0));
        let flat: Vec<_> = (0..9).map(|i| (i as u32 + 1, 10 * i, 9000)).collect();
        assert_eq!(factor(&segment(1..20, &flat)), Some(0.8));
        let still: Vec<_> = (0..9).map(|i| (i as u32 + 1, 10, 9000 + i)).collect();
        assert_eq!(factor(&segment(1..20, &still)), None);
        assert_eq!(factor(&[]), None);
    }

    /// Each call of a long stretch is paired with a bounded number of later ones, which say the same.
    #[test]
    fn long_stretches_say_the_same() {
        let calls: Vec<_> = (0..20_000).map(|i| (i as u32 + 1, 100 * i, 9000 + 130 * i + i % 7)).collect();
        let calls = segment(1..20_002, &calls);
        let found = factor(&calls).unwrap();
        assert!((found - 1.3).abs() < 0.001, "{found}");
    }

    /// Head of 10 tokens; an observation of 20 that is 3 from turn 3 on; a compaction that keeps a step of 7.
    #[test]
    fn ours_is_what_the_log_says_was_sent() {
        let usage = |input| Some(Usage { input, ..Usage::default() });
        let mut builder = Builder::new();
        let mut tokens = Vec::new();
        let mut add = |builder: &mut Builder, n: u32, step: Step| {
            builder.push(step);
            tokens.push(n);
        };
        let plain = |role, kind| step(role, kind, "x");
        let call = |input| Step { usage: usage(input).map(Box::new), ..plain(Role::Agent, Kind::Action) };
        add(&mut builder, 6, plain(Role::System, Kind::Demonstration));
        add(&mut builder, 4, plain(Role::User, Kind::Message));
        builder.begin_call();
        // A thought before the call: the usage of the reply is that of the prompt before both.
        add(&mut builder, 1, plain(Role::Agent, Kind::Thought));
        add(&mut builder, 5, call(100));
        let edit = Some(Box::new(LoggedEdit { from: 3, text: "abc".to_owned() }));
        add(&mut builder, 20, Step { edit, ..plain(Role::Tool, Kind::Observation) });
        builder.begin_call();
        add(&mut builder, 2, call(200));
        builder.begin_call();
        add(&mut builder, 7, Step { kept_to: Some(1), ..call(300) });
        builder.begin_call();
        // A usage of nothing is none.
        add(&mut builder, 1, call(0));
        add(&mut builder, 9, plain(Role::User, Kind::Compaction));
        builder.begin_call();
        add(&mut builder, 1, call(400));
        add(&mut builder, 3, plain(Role::User, Kind::Compaction));
        builder.begin_call();
        add(&mut builder, 1, call(500));
        let calls = calls(&builder.finish(), &tokens, |text| text.len() as u32);
        let seen: Vec<_> = calls.iter().map(|c| (c.turn, c.segment.clone(), c.ours, c.usage)).collect();
        let expected = [
            (1, 0..5, 10, 100),
            (2, 0..5, 10 + 1 + 5 + 20, 200),
            (3, 0..5, 10 + 1 + 5 + 3 + 2, 300),
            (5, 5..6, 10 + 7 + 9, 400),
            (6, 6..7, 10 + 3, 500),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn medians_by_hand() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }
}
