//! What an agent's own product did to the past of a session, by what the log records: compactions with their summaries, and
//! results that it took out or shortened later (edits).
//!
//! Needs, money and inventions are those of the scores: needs by a replay over the compactions with the logged summaries,
//! prompts by a replay of what was sent. Here is only what no score says: to whom it belongs, and what was read again.

mod again;
mod words;

use std::collections::{BTreeSet, HashSet};

use crate::context::log::Log;
use crate::context::needs::Need;
use crate::context::{Block, Content};
use crate::experiment::cell::{Bridged, Models, bridged, recipe};
use crate::experiment::{Dataset, Plan};
use crate::replay::{Decision, Event, Observer, Run, replay};
use crate::scores::honesty::known_atoms;
use crate::scores::money::{self, Shorter, Tariff};
use crate::text::atoms::lex;
use crate::text::runs::{self, Runs};
use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;
use again::Reads;
use words::Typed;

pub use again::Again;
pub use words::Words;

/// What was done to one session.
pub struct Audit {
    pub compactions: Vec<Compaction>,
    pub edits: Vec<Change>,
    /// Places where the context began anew without a summary.
    pub n_cleared: usize,
    /// Compactions behind which nothing was sent any more.
    pub n_unsent: usize,
}

/// A prompt that was made shorter.
pub struct Change {
    /// The turn whose call was the first with the shorter prompt, and when.
    pub turn: u32,
    pub time: Option<i64>,
    /// Tokens of the prompt before, and of this one; by the provider's count where both are logged.
    pub before: u64,
    pub after: u64,
    pub is_billed: bool,
    /// What this prompt cost more than the longer one would have, in price x tokens.
    pub cost: f64,
    /// Calls until shorter prompts had paid for that, and calls that there were.
    pub paid_after: Option<u32>,
    pub n_left: u32,
    /// Steps that it took out or shortened.
    pub n_steps: usize,
    /// Files that were read again although nothing had changed them.
    pub again: Vec<Again>,
}

/// A compaction with a summary.
pub struct Compaction {
    pub change: Change,
    pub summary_tokens: u32,
    /// Tokens of older steps that stay in the prompts behind the summary.
    pub kept_tokens: u64,
    pub lost: Vec<Lost>,
    /// Things that the summary names and no step before it, of so many that it names.
    pub invented: Vec<String>,
    pub n_named: usize,
    /// Sentences of the user that stand nowhere word for word any more.
    pub words: Vec<Words>,
}

/// Something that was used later, and that the compaction had taken from the prompt.
pub struct Lost {
    pub atom: String,
    /// The line that says what it is, and its turn.
    pub line: String,
    pub stood: u32,
    /// The turn of its last mention, and the one whose reply used it.
    pub seen: u32,
    pub needed: u32,
    /// Whether its name stands in the summary, without the words that say what it is.
    pub is_named: bool,
}

/// Who looks at nothing.
struct Nobody;

impl Observer for Nobody {}

/// Audits a session. One variant of the plan replays over logged compactions (`logged`), one is what was sent (`as-sent`).
pub fn audit(data: &Dataset, plan: &Plan, index: usize) -> anyhow::Result<Audit> {
    let log = data.log(index, false)?;
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let tariff = plan.prices.tariff(&log);
    let reads = Reads::of(&log, data.features(index)?)?;
    let replayed = |strategy: &str| -> anyhow::Result<Run> {
        let variant = plan.variants.iter().find(|v| v.strategy == strategy).expect("a variant of the plan");
        replay(&log, &recipe(variant, &Models::new())?, &tokenizer, &Default::default(), &mut Nobody)
    };
    let sent = replayed("as-sent")?;
    let bench =
        Bench { log: &log, sent: &sent, alive: money::alive(&log, &sent, &tariff), tariff, reads: &reads };
    let edits = bench.edits();
    let logged = log.trajectory.steps.iter().filter(|step| step.kind == Kind::Compaction);
    let logged: BTreeSet<u32> = logged.map(|step| step.segment).collect();
    let mut compactions = Vec::new();
    if !logged.is_empty() {
        compactions = bench.compactions(&bridged(data, plan, index)?, &tokenizer);
    }
    let n_cleared = (1..log.n_segments).filter(|segment| !logged.contains(segment)).count();
    let n_unsent = logged.len().saturating_sub(compactions.len());
    Ok(Audit { compactions, edits, n_cleared, n_unsent })
}

/// Beside the lost needs: the compaction that took each away, the first behind its last mention whose summary does not name
/// it, else the first.
fn owners(bridged: &Bridged) -> Vec<Option<usize>> {
    let events = &bridged.run.events;
    let names =
        |event: &Event| lex(&summary(&event.after)).atoms.into_iter().map(|a| a.norm.into()).collect();
    let named: Vec<HashSet<String>> = events.iter().map(names).collect();
    let owner = |need: &Need| {
        let first = events.partition_point(|event| event.turn <= need.turn - need.gap);
        let end = events.partition_point(|event| event.turn <= need.turn);
        let atom = bridged.log.atom(need.atom).text;
        (first..end).find(|&i| !named[i].contains(atom)).or((first < end).then_some(first))
    };
    bridged.lost.iter().map(owner).collect()
}

/// What all places of a session share.
struct Bench<'a> {
    log: &'a Log,
    /// Its prompts as they were sent.
    sent: &'a Run,
    /// Beside the decisions: how likely the cache still lived.
    alive: Vec<f64>,
    tariff: Tariff,
    reads: &'a Reads,
}

impl Bench<'_> {
    /// The edits that the log records, those of one decision together.
    fn edits(&self) -> Vec<Change> {
        let mut all = Vec::new();
        let events: Vec<&Event> = self.sent.events.iter().collect();
        for (i, event) in events.iter().enumerate() {
            let Some(at) = self.decision(event.turn) else { continue };
            let decision = &self.sent.decisions[at];
            let shorter = Shorter::of(event, decision, self.log.rate(decision.turn));
            let gone = event.only.clone().unwrap_or_default();
            let from = self.step(event.turn);
            let until = events.get(i + 1).map_or(self.log.n_steps() as u32, |next| self.step(next.turn));
            let again = self.reads.again(self.log, from..until, &|step| gone.binary_search(&step).is_ok());
            // The call of a result goes with it, and is no edit of its own.
            let is_edited = |step: &&u32| self.log.trajectory.steps[**step as usize].edit.is_some();
            all.push(Change {
                n_steps: gone.iter().filter(is_edited).count(),
                again,
                ..self.change(at, &shorter, event.tokens_before, false)
            });
        }
        all
    }

    fn compactions(&self, bridged: &Bridged, tokenizer: &Tokenizer) -> Vec<Compaction> {
        let log = self.log;
        let sources = Runs::new(log.trajectory.steps.iter().map(|step| &step.text));
        let typed = Typed::of(log, &sources);
        let events = &bridged.run.events;
        let mut lost: Vec<Vec<&Need>> = events.iter().map(|_| Vec::new()).collect();
        for (owner, need) in owners(bridged).into_iter().zip(&bridged.lost) {
            if let Some(owner) = owner {
                lost[owner].push(need);
            }
        }
        let mut all = Vec::new();
        for (i, event) in events.iter().enumerate() {
            let Some(at) = self.decision(event.turn) else { continue };
            let (from, segment) = (self.step(event.turn), log.turns[event.turn as usize].segment);
            let until = events.get(i + 1).map_or(log.n_steps() as u32, |next| self.step(next.turn));
            let stays = Stays::of(log, segment);
            let since = i.checked_sub(1).map_or(0, |before| self.step(events[before].turn));
            let before = i.checked_sub(1).map(|before| log.turns[events[before].turn as usize].segment);
            let stood_before = before.map(|before| Stays::of(log, before));
            let kept_tokens = stays.0.iter().map(|&step| u64::from(log.tokens[step as usize])).sum();
            let is_gone = |step: u32| {
                let of = &log.trajectory.steps[step as usize];
                of.segment < segment && of.turn > 0 && !stays.has(step)
            };
            let summary = summary(&event.after);
            // What stood before the summary, which is a step of its own.
            let told =
                (0..from).rev().find(|&step| log.kind(step) == Kind::Compaction).unwrap_or(from) as usize;
            let stood = |words: &[u64]| sources.hold_before(words, told);
            let known = known_atoms(&bridged.log, &summary, from, &stood);
            let lost = lost[i].iter().filter(|need| !stays.mention(&bridged.log, need));
            // What an earlier compaction had taken out does not go again.
            let goes = |step: u32| {
                is_gone(step) && (step >= since || stood_before.as_ref().is_some_and(|stays| stays.has(step)))
            };
            let (shorter, is_billed) = self.shorter(at);
            let change = self.change(at, &shorter, shorter.cached_without, is_billed);
            all.push(Compaction {
                change: Change {
                    n_steps: (0..from).filter(|&step| goes(step)).count(),
                    again: self.reads.again(log, from..until, &is_gone),
                    ..change
                },
                summary_tokens: tokenizer.count(&summary) as u32,
                kept_tokens,
                lost: lost.map(|need| lost_of(&bridged.log, need, &summary)).collect(),
                n_named: known.len(),
                words: typed.gone(0..from, until, (&goes, &is_gone), &summary),
                // A part of a longer path or name is none, where its words stood one after the other.
                invented: known
                    .into_iter()
                    .filter(|(atom, is_known)| !is_known && !stood(&runs::words(atom)))
                    .map(|(atom, _)| atom)
                    .collect(),
            });
        }
        all
    }

    /// Where the decision of a turn stands among those that were sent.
    fn decision(&self, turn: u32) -> Option<usize> {
        self.sent.decisions.binary_search_by_key(&turn, |d| d.turn).ok()
    }

    /// The step of a turn's decision: those before it had been logged.
    fn step(&self, turn: u32) -> u32 {
        let turn = &self.log.turns[turn as usize];
        turn.decision.unwrap_or(turn.steps.start)
    }

    /// The first prompt behind a compaction beside the one that would have been sent: that before, with all that was logged since.
    /// By the provider's count where it is logged, since what no log shows (files that are attached anew) changes there.
    fn shorter(&self, at: usize) -> (Shorter, bool) {
        let (log, decision) = (self.log, &self.sent.decisions[at]);
        let before = at.checked_sub(1).map(|before| &self.sent.decisions[before]);
        let since = before.map_or(0, |before| self.step(before.turn))..self.step(decision.turn);
        let logged = since.filter(|&step| log.kind(step) != Kind::Compaction);
        let logged: u64 = logged.map(|step| u64::from(log.tokens[step as usize])).sum();
        let usage = |d: &Decision| log.usage(d.turn).filter(|usage| usage.input > 0);
        let billed = before.and_then(usage).zip(usage(decision));
        let (sent, with, cached_with) = match billed {
            Some((old, new)) => (old.input, new.input, new.cache_read.unwrap_or(0)),
            None => (before.map_or(0, |d| d.tokens_sent), decision.tokens_sent, decision.cached_sent),
        };
        let counted = log.rate(decision.turn).filter(|_| billed.is_some());
        let without = sent + counted.map_or(logged, |rate| rate.counted(logged).round() as u64);
        let saved = without.saturating_sub(with);
        // Without the provider's count of both, ours with what the log does not show.
        let rate = log.rate(decision.turn).filter(|_| billed.is_none());
        let billed_as = [without, with].map(|n| rate.map_or(n as f64, |rate| rate.billed(n)));
        let shorter = Shorter { without, cached_without: sent, with, cached_with, saved, billed: billed_as };
        (shorter, billed.is_some())
    }

    /// What became of a prompt; `before` is the one before it, `is_billed` whether both are by the provider's count.
    fn change(&self, at: usize, shorter: &Shorter, before: u64, is_billed: bool) -> Change {
        let (log, decisions) = (self.log, &self.sent.decisions);
        let decision = &decisions[at];
        let prices = self.tariff.at(decision.turn);
        let segment = |d: &Decision| log.turns[d.turn as usize].segment;
        // Dollars are paid for the provider's tokens.
        let rate = log.rate(decision.turn).filter(|_| !is_billed);
        Change {
            turn: decision.turn,
            time: log.decided_at(decision.turn),
            before,
            after: shorter.with,
            is_billed,
            cost: rate.map_or(1.0, |rate| rate.counted(1)) * shorter.debt(self.alive[at], prices),
            paid_after: shorter.paid_after(self.alive[at], prices),
            n_left: decisions[at + 1..].iter().take_while(|d| segment(d) == segment(decision)).count() as u32,
            n_steps: 0,
            again: Vec::new(),
        }
    }
}

/// Steps of earlier segments that stand in the prompts of one, in order.
struct Stays(Vec<u32>);

impl Stays {
    fn of(log: &Log, segment: u32) -> Self {
        let mut all: Vec<u32> = log.pinned_before(segment).chain(log.kept_in(segment)).collect();
        all.sort_unstable();
        Stays(all)
    }

    fn has(&self, step: u32) -> bool {
        self.0.binary_search(&step).is_ok()
    }

    /// Whether what is needed stands in one of them.
    fn mention(&self, log: &Log, need: &Need) -> bool {
        log.mentions_of_atom(need.atom).any(|mention| self.has(log.spans[mention.span as usize].step))
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

fn lost_of(log: &Log, need: &Need, summary: &str) -> Lost {
    let atom = log.atom(need.atom).text.to_owned();
    // Of a path its last part is a name.
    let name = atom.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&atom);
    Lost {
        is_named: summary.contains(name),
        atom,
        line: log.span_text(need.cheapest).to_owned(),
        stood: log.turn_of(log.spans[need.cheapest as usize].step),
        seen: need.turn - need.gap,
        needed: need.turn,
    }
}
