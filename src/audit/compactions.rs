//! Compactions with their summaries: what each took away, what it put there, and what the user had said that stands nowhere any
//! more. What was used later and what was paid needs a call behind it; the rest does not.

use std::collections::HashSet;

use super::lost::{NameAlone, Perhaps, Taken, lost_of};
use super::places::Places;
use super::stays::Stays;
use super::words::{Typed, Words};
use super::{Bench, Change, is_of_user, typos};
use crate::context::log::Log;
use crate::context::needs::Need;
use crate::context::{Block, Content};
use crate::experiment::cell::Bridged;
use crate::replay::Event;
use crate::scores::honesty::known_atoms;
use crate::scores::money::Shorter;
use crate::text::runs::Runs;
use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;

/// A compaction behind which a call was sent.
#[derive(Clone)]
pub struct Compaction {
    pub change: Change,
    pub past: Past,
    /// What the call that wrote the summary cost, in price x tokens; at most so much where the log does not tell.
    pub summary_cost: Option<f64>,
    pub is_summary_cost_logged: bool,
    /// Calls until shorter prompts had paid for that and the lost cache.
    pub paid_with_summary: Option<u32>,
    /// Things used later of which the name (of a path the last part) stood in the summary or in what came behind it, without the line
    /// that says what they are.
    pub names_alone: Vec<NameAlone>,
    /// Tokens of this prompt that stand in no step and stood not in the session's first prompt, where these are many: some products
    /// put files back that they do not log, so that what is lost and read again cannot be told.
    pub unlogged: Option<u64>,
    /// Whether it is known how much that is: not where the log begins in the middle of the session.
    pub is_prompt_known: bool,
}

/// What became of a past, whether or not a call came behind.
#[derive(Clone)]
pub struct Past {
    pub summary_tokens: u32,
    /// Tokens of older steps that stay in the prompts beside the summary.
    pub kept_tokens: u64,
    /// Steps that it took out.
    pub n_steps: usize,
    /// How much of the prompt before it the log shows, where the provider counted that: some logs begin in the middle of a session,
    /// or take out what a summary replaces.
    pub shown: Option<f64>,
    /// Whether the log shows at least half of what was replaced: else there may be more than what is told of it.
    pub is_shown: bool,
    /// Things that the summary names and no step before it, of so many that it names; says nothing if that is not shown.
    pub invented: Vec<String>,
    pub n_named: usize,
    /// Sentences of the user that stand nowhere word for word any more.
    pub words: Vec<Words>,
}

/// A compaction that no call came behind.
#[derive(Clone)]
pub struct Unsent {
    /// The turn that it opens, and when that was.
    pub turn: u32,
    pub time: Option<i64>,
    /// Tokens of the last prompt before it, else of that which the summary was written from; null where neither was sent.
    pub before: Option<u64>,
    pub counted_by: CountedBy,
    /// The product's own count of the context before and behind it, where the record has that.
    pub logged: [Option<u64>; 2],
    /// What the call that wrote the summary cost by the log, in price x tokens.
    pub summary_cost: Option<f64>,
    /// Whether another compaction came next, rather than the end of the log.
    pub is_followed: bool,
    pub past: Past,
}

/// Whose count tokens are by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedBy {
    /// The provider, of a prompt.
    Provider,
    /// What the log says of the compaction itself.
    Record,
    Us,
}

/// All compactions of a session, and apart from them what the user cleared.
#[derive(Default)]
pub(super) struct All {
    pub(super) compactions: Vec<Compaction>,
    pub(super) clears: Vec<Change>,
    pub(super) unsent: Vec<Unsent>,
}

/// Where the log has a compaction, the user's clears among them.
struct Mark<'a> {
    /// Its step: the summary.
    step: u32,
    /// Its place among the replayed ones, and of the first decision behind it, if one is before the next mark.
    event: Option<usize>,
    sent: Option<usize>,
    summary: String,
    stays: Stays,
    log: &'a Log,
}

impl Mark<'_> {
    /// Whether it took out a step, and one that the mark before it had left there.
    fn goes(&self, before: Option<&Mark<'_>>, step: u32) -> bool {
        self.stays.leave(self.log, step)
            && before.is_none_or(|before| step > before.step || before.stays.has(step))
    }
}

impl Bench<'_> {
    pub(super) fn compactions(&self, bridged: &Bridged, tokenizer: &Tokenizer) -> anyhow::Result<All> {
        let log = self.log;
        let sources = Runs::new(log.trajectory.steps.iter().map(|step| &step.text));
        let typed = Typed::of(log, &sources);
        let events = &bridged.run.events;
        let marks = self.marks(events);
        let stays: Vec<&Stays> = marks.iter().filter(|of| of.event.is_some()).map(|of| &of.stays).collect();
        let (mut taken, whole) = (self.taken(bridged, &stays)?, self.whole());
        let invented = self.invented(&bridged.log, &sources, &marks)?;
        let mut all = All::default();
        for (i, (mark, (n_named, invented))) in marks.iter().zip(invented).enumerate() {
            let is_of_user = is_of_user(&log.trajectory.steps, mark.step);
            let before = i.checked_sub(1).map(|before| &marks[before]);
            let goes = |step: u32| mark.goes(before, step);
            let is_gone = |step: u32| mark.stays.leave(log, step);
            let decided = |at: usize| self.step(self.sent.decisions[at].turn);
            let next = marks[i + 1..].iter().find_map(|next| next.sent);
            let until = next.map_or(log.n_steps() as u32, decided);
            let at = mark.sent.map(|at| self.fallen(at));
            let prompt = at.unwrap_or_else(|| self.behind(mark.step));
            let from = at.map_or(mark.step, decided);
            let past = || {
                let n_steps = (0..from).filter(|&step| goes(step)).count();
                // Of the last prompt before the record: later ones were sent with the old past, which the replay has replaced by then.
                let shown = self.shown(mark.sent.unwrap_or(prompt));
                // What was said before the log begins is not known.
                let is_of_middle = i == 0 && self.unseen.is_of_middle;
                Past {
                    summary_tokens: tokenizer.count(&mark.summary) as u32,
                    kept_tokens: mark.stays.tokens(log, tokenizer),
                    n_steps,
                    shown,
                    // Of two in a row the second takes the summary of the first.
                    is_shown: !is_of_middle
                        && (n_steps > 0 || i > 0)
                        && shown.is_none_or(|share| share >= 0.5),
                    invented,
                    n_named,
                    words: typed.gone(0..from, until, (&goes, &is_gone), &mark.summary),
                }
            };
            let Some(at) = at else {
                if !is_of_user {
                    all.unsent.push(self.unsent(prompt, mark, i + 1 < marks.len(), past()));
                }
                continue;
            };
            let mut change = self.compacted(at, mark.step);
            if is_of_user {
                all.clears.push(change);
                continue;
            }
            change.again = self.reads.again(log, &self.tariff, from..until, &is_gone);
            let taken = mark.event.map(|event| std::mem::take(&mut taken[event])).unwrap_or_default();
            all.compactions.push(self.told_of(&bridged.log, at, change, (past(), taken), &whole));
        }
        Ok(all)
    }

    /// The compactions that the log has, in order.
    fn marks(&self, events: &[Event]) -> Vec<Mark<'_>> {
        let (log, decisions) = (self.log, &self.sent.decisions);
        let told: Vec<u32> = events.iter().map(|event| self.told(self.step(event.turn))).collect();
        let steps: Vec<u32> =
            (0..log.n_steps() as u32).filter(|&step| log.kind(step) == Kind::Compaction).collect();
        let mark = |(i, &step): (usize, &u32)| {
            let event = told.iter().position(|&told| told == step);
            let behind = self.behind(step);
            let first = decisions.get(behind).map(|decision| self.step(decision.turn));
            let is_sent = first.is_some_and(|first| steps.get(i + 1).is_none_or(|next| first < *next));
            let sent = event.and_then(|event| self.decision(events[event].turn));
            let sent = sent.or(is_sent.then_some(behind));
            let turn = sent.map_or(log.turn_of(step), |at| decisions[at].turn);
            Mark {
                step,
                event,
                sent,
                summary: match event {
                    Some(event) => summary(&events[event].after),
                    None => log.trajectory.steps[step as usize].text.clone(),
                },
                stays: Stays::of(log, log.turns[turn as usize].segment).cut(log, turn),
                log,
            }
        };
        steps.iter().enumerate().map(mark).collect()
    }

    /// The place of the first decision behind a step.
    fn behind(&self, step: u32) -> usize {
        self.sent.decisions.partition_point(|decision| self.step(decision.turn) < step)
    }

    /// What the first prompt behind a compaction is, and when that was.
    fn compacted(&self, at: usize, step: u32) -> Change {
        let (shorter, is_billed) = self.shorter(at);
        let change = self.change(at, &shorter, shorter.cached_without, is_billed);
        Change {
            time: self.log.trajectory.steps[step as usize].time.or(change.time),
            logged: self.logged(step),
            ..change
        }
    }

    /// What the record of a compaction says of the context.
    fn logged(&self, step: u32) -> [Option<u64>; 2] {
        let of = self.log.trajectory.steps[step as usize].resized.as_deref();
        of.map(|of| [of.from, of.to]).unwrap_or_default()
    }

    /// One of which a call came behind, with what that and later ones used.
    fn told_of(
        &self,
        bridged: &Log,
        at: usize,
        change: Change,
        (past, taken): (Past, Taken),
        whole: &[bool],
    ) -> Compaction {
        let (turn, decision) = (change.turn, &self.sent.decisions[at]);
        let Taken { lost, names_alone } = taken;
        let lost_of = |need: &Need| lost_of(bridged, need);
        let lost = lost.into_iter().filter(|(need, _)| need.turn >= turn);
        let (sure, perhaps): (Vec<_>, Vec<_>) =
            lost.partition(|(need, _)| self.is_sure(whole, (turn, true), need.turn));
        let is_told = |need: &Need| need.turn >= turn && self.is_sure(whole, (turn, false), need.turn);
        let names_alone = names_alone.into_iter().filter(|(need, _)| is_told(need));
        let (shorter, is_billed) = self.shorter(at);
        let logged_cost = self.logged_cost(self.told(self.step(turn)), turn);
        let summary_cost = logged_cost.or_else(|| self.summary_cost(at, &shorter, past.summary_tokens));
        let perhaps = perhaps.into_iter();
        Compaction {
            summary_cost,
            is_summary_cost_logged: logged_cost.is_some(),
            paid_with_summary: self.paid(at, &shorter, summary_cost.unwrap_or(0.0), is_billed),
            names_alone: names_alone
                .map(|(need, step)| NameAlone { lost: lost_of(need), named: self.log.turn_of(step) })
                .collect(),
            unlogged: self.unseen.more(self.log, decision),
            is_prompt_known: self.unseen.is_known(self.log, decision),
            change: Change {
                n_steps: past.n_steps,
                lost: sure.into_iter().map(|(need, _)| lost_of(need)).collect(),
                perhaps: perhaps
                    .map(|(need, is_of_file)| Perhaps { lost: lost_of(need), is_of_file })
                    .collect(),
                ..change
            },
            past,
        }
    }

    /// One that no call came behind; `prompt` is the place that its decision would have.
    fn unsent(&self, prompt: usize, mark: &Mark<'_>, is_followed: bool, past: Past) -> Unsent {
        let before = prompt.checked_sub(1);
        let step = &self.log.trajectory.steps[mark.step as usize];
        let billed = || Some((self.billed(before?)?, CountedBy::Provider));
        let logged = self.logged(mark.step);
        let of_record = || {
            let read = step.usage.as_ref().map(|usage| usage.input).filter(|n| *n > 0);
            Some((logged[0].or(read)?, CountedBy::Record))
        };
        let ours = || Some((self.sent.decisions[before?].tokens_sent, CountedBy::Us));
        let counted = billed().or_else(of_record).or_else(ours);
        let turn = self.log.turn_of(mark.step);
        Unsent {
            turn,
            time: step.time,
            before: counted.map(|(tokens, _)| tokens),
            counted_by: counted.map_or(CountedBy::Us, |(_, by)| by),
            logged,
            summary_cost: self.logged_cost(mark.step, turn),
            is_followed,
            past,
        }
    }

    /// Beside each compaction how many things its summary names, and which of them stand nowhere before it.
    fn invented(
        &self,
        bridged: &Log,
        sources: &Runs,
        marks: &[Mark<'_>],
    ) -> anyhow::Result<Vec<(usize, Vec<String>)>> {
        let mut all = Vec::new();
        for mark in marks {
            let stood = |words: &[u64]| sources.hold_before(words, mark.step as usize);
            let known = known_atoms(bridged, &written(&mark.summary), mark.step, &stood);
            let unknown = known.iter().filter(|(_, is_known)| !is_known).map(|(atom, _)| atom.clone());
            all.push((known.len(), unknown.collect::<Vec<_>>()));
        }
        let places = Places::of(self.log, all.iter().flat_map(|(_, unknown)| unknown.clone()).collect())?;
        for ((_, unknown), mark) in all.iter_mut().zip(marks) {
            let told = mark.step;
            unknown.retain(|atom| places.steps(atom).first().is_none_or(|first| *first >= told));
            unknown.retain(|atom| !typos::stood_alike(self.log, sources, atom, told));
            let stood = |words: &[u64]| sources.hold_before(words, told as usize);
            unknown.retain(|atom| !typos::stood_around_brackets(atom, &stood));
            // `Summary.txt` at the start of a sentence is `summary.txt`.
            let mut seen = HashSet::new();
            unknown.retain(|atom| seen.insert(atom.to_lowercase()));
        }
        Ok(all)
    }

    /// The newest summary before a step: it is a step of its own.
    pub(super) fn told(&self, step: u32) -> u32 {
        (0..step).rev().find(|&step| self.log.kind(step) == Kind::Compaction).unwrap_or(step)
    }

    /// How much of the prompt before this one the log shows, but for what stands in each prompt.
    fn shown(&self, at: usize) -> Option<f64> {
        let at = at.checked_sub(1)?;
        let before = &self.sent.decisions[at];
        let always = self.unseen.tokens.filter(|_| !self.unseen.is_of_middle).unwrap_or(0.0);
        let said = (self.billed(at)? as f64 - always).max(1.0);
        Some((self.log.rate(before.turn)?.counted(before.tokens_sent) / said).min(1.0))
    }

    /// What the call that wrote a summary cost, which many logs do not show, if it read the whole prompt anew: the cache may serve
    /// that, and some products send a part.
    fn summary_cost(&self, at: usize, shorter: &Shorter, n_summary: u32) -> Option<f64> {
        let turn = self.sent.decisions[at].turn;
        let (prices, [prompt, _]) = (self.tariff.at(turn), shorter.billed);
        let written = self.log.rate(turn).map_or(1.0, |rate| rate.counted(1)) * f64::from(n_summary);
        (n_summary > 0).then(|| prices.uncached(prompt) + prices.answer(prompt, written))
    }
}

/// How Claude Code begins what it says behind a summary: that is not the model's.
const BEHIND: &str = "\nIf you need specific details from before compaction";

/// What the model wrote of a summary, without tags around it (or around its parts), which are a form that it was asked for.
fn written(summary: &str) -> String {
    let text = summary.split_once(BEHIND).map_or(summary, |(text, _)| text).trim_start();
    let tag = text.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let closed = tag.map(|(tag, _)| [format!("<{tag}>"), format!("</{tag}>")]);
    match closed.filter(|[_, closing]| text.contains(closing)) {
        Some([opening, closing]) => text.replace(&opening, "").replace(&closing, ""),
        None => text.to_owned(),
    }
}

/// The text that stands in the place of a scope.
fn summary(after: &[Block]) -> String {
    let generated = after.iter().filter_map(|block| match &block.content {
        Content::Generated { text } => Some(text.as_str()),
        _ => None,
    });
    generated.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn tags_around_a_summary_are_not_the_models() {
        assert_eq!(written("<summary>\nDone.\n</summary>\n\nMore."), "\nDone.\n\n\nMore.");
        let notices = "<SYSTEM_NOTICE>\na\n</SYSTEM_NOTICE>\n<SYSTEM_NOTICE>\nb\n</SYSTEM_NOTICE>";
        assert!(!written(notices).contains("NOTICE"), "{}", written(notices));
        assert_eq!(written("<b> is what?"), "<b> is what?");
    }
}
