//! What an agent's own product did to the past of a session, by what the log records: compactions with their summaries, and
//! results that it took out or shortened later (edits).
//!
//! Needs, money and inventions are those of the scores: needs by a replay over the compactions with the logged summaries,
//! prompts by a replay of what was sent. Here is only what no score says: to whom it belongs, and what was read again.

mod again;
mod answers;
mod compactions;
mod falls;
mod lost;
mod places;
mod stays;
mod typos;
mod unseen;
mod words;

use std::collections::{BTreeSet, HashMap};

use crate::context::log::Log;
use crate::context::needs::Need;
use crate::experiment::cell::{Models, bridged, recipe, unsent};
use crate::experiment::{Dataset, Plan};
use crate::replay::{Decision, Event, Observer, Run, replay};
use crate::scores::costs::of_call;
use crate::scores::money::{self, Shorter, Tariff};
use crate::text::tokens::Tokenizer;
use crate::trajectory::{Kind, Resized, Role, Step, Trajectory};
use again::Reads;
use compactions::All;
use lost::{lost_of, name_of};
use places::Places;
use stays::Stays;
use unseen::Unseen;

pub use again::Again;
pub use compactions::{Compaction, CountedBy, Past, Unsent};
pub use falls::Fall;
pub use lost::{Lost, NameAlone, Perhaps};
pub use words::Words;

/// What was done to one session.
#[derive(Clone)]
pub struct Audit {
    pub compactions: Vec<Compaction>,
    /// Where the user had the context cleared, by a command: that is no doing of the product.
    pub clears: Vec<Change>,
    pub edits: Vec<Change>,
    pub falls: Vec<Fall>,
    /// Places where the context began anew without a summary.
    pub n_cleared: usize,
    /// Compactions that no call came behind: at the end of the log, or with another one before any call.
    pub unsent: Vec<Unsent>,
}

impl Audit {
    /// All that it quotes of the log.
    pub fn texts(&mut self) -> Vec<&mut String> {
        let mut texts: Vec<&mut String> = Vec::new();
        let mut changes: Vec<&mut Change> = self.clears.iter_mut().chain(&mut self.edits).collect();
        let mut pasts: Vec<&mut Past> = self.unsent.iter_mut().map(|unsent| &mut unsent.past).collect();
        let mut lost: Vec<&mut Lost> = Vec::new();
        for of in &mut self.compactions {
            changes.push(&mut of.change);
            pasts.push(&mut of.past);
            lost.extend(of.names_alone.iter_mut().map(|name| &mut name.lost));
        }
        for change in changes {
            lost.extend(
                change.lost.iter_mut().chain(change.perhaps.iter_mut().map(|perhaps| &mut perhaps.lost)),
            );
            texts.extend(change.again.iter_mut().map(|again| &mut again.path));
        }
        texts.extend(lost.into_iter().flat_map(|lost| [&mut lost.atom, &mut lost.line]));
        for past in pasts {
            texts.extend(past.invented.iter_mut().chain(past.words.iter_mut().map(|words| &mut words.text)));
        }
        texts
    }
}

/// A prompt that was made shorter.
#[derive(Clone)]
pub struct Change {
    /// The turn whose call was the first with the shorter prompt, and when it was made so: a user may let the call wait.
    pub turn: u32,
    pub time: Option<i64>,
    /// Tokens of the prompt before, and of this one; by the provider's count where both are logged.
    pub before: u64,
    pub after: u64,
    pub is_billed: bool,
    /// Where they are not: what the provider counted last before, and at which turn.
    pub counted: Option<(u32, u64)>,
    /// The product's own count of the context before and behind it, where the record has that: of what it counts, the prompt is more.
    pub logged: [Option<u64>; 2],
    /// Whether it is shorter than it would have been.
    pub is_shorter: bool,
    /// What this prompt cost more than the longer one would have, in price x tokens.
    pub cost: f64,
    /// Calls until shorter prompts had paid for that, and calls that there were.
    pub paid_after: Option<u32>,
    pub n_left: u32,
    /// Steps that it took out or shortened.
    pub n_steps: usize,
    /// What it took from the prompt, and the model used later all the same.
    pub lost: Vec<Lost>,
    /// The same as far as the log shows, of which a prompt may hold some that it does not show.
    pub perhaps: Vec<Perhaps>,
    /// Files that were read again although nothing had changed them.
    pub again: Vec<Again>,
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
    let bench = Bench {
        log: &log,
        sent: &sent,
        alive: money::alive(&log, &sent, &tariff),
        tariff,
        reads: &reads,
        unseen: Unseen::of(&log, &sent.decisions),
    };
    let edits = bench.edits(unsent(data, plan, index)?)?;
    let steps = &log.trajectory.steps;
    let summaries = steps.iter().filter(|step| step.kind == Kind::Compaction);
    let logged: BTreeSet<u32> = summaries.map(|step| step.segment).collect();
    let All { compactions, clears, unsent } = match logged.is_empty() {
        true => All::default(),
        false => bench.compactions(&bridged(data, plan, index)?, &tokenizer)?,
    };
    let n_cleared = (1..log.n_segments).filter(|segment| !logged.contains(segment)).count();
    let unlogged = data.usage(index)?.into_iter().filter(|row| row.unlogged_edit).map(|row| row.first_turn);
    let changes = || compactions.iter().map(|of| &of.change).chain(&clears);
    let told = |fall: &Fall| changes().all(|of| of.turn != fall.turn);
    let falls = unlogged.filter_map(|turn| bench.fall(turn)).filter(told).collect();
    Ok(Audit { compactions, clears, edits, falls, n_cleared, unsent })
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
    unseen: Unseen,
}

impl Bench<'_> {
    /// The edits that the log records, those of one decision together.
    fn edits(&self, unsent: Vec<Need>) -> anyhow::Result<Vec<Change>> {
        let mut all = Vec::new();
        let places = Places::of(self.log, unsent.iter().map(|need| name_of(self.log, need)).collect())?;
        let mut stays = Stays::of(self.log, 0);
        let is_lost = |need: &Need| {
            if need.segment != stays.segment {
                stays = Stays::of(self.log, need.segment);
            }
            lost::is_name(&name_of(self.log, need)) && !self.was_sent(need, &stays, &places)
        };
        let unsent: Vec<Need> = unsent.into_iter().filter(is_lost).collect();
        let whole = self.whole();
        let events: Vec<&Event> = self.sent.events.iter().collect();
        let mut taken: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, event) in events.iter().enumerate() {
            event.only.iter().flatten().for_each(|&step| taken.entry(step).or_default().push(i));
        }
        // The last edit of a step that had told what was needed.
        let owner = |need: &Need| {
            let steps = self.log.mentions_of_atom(need.atom).map(|m| self.log.spans[m.span as usize].step);
            let edits = steps.filter_map(|step| taken.get(&step)).flatten().copied();
            edits.filter(|&i| events[i].turn <= need.turn).max()
        };
        let owners: Vec<Option<usize>> = unsent.iter().map(owner).collect();
        let mut records: HashMap<u32, Vec<&Step>> = HashMap::new();
        for step in &self.log.trajectory.steps {
            step.edit.iter().for_each(|edit| records.entry(edit.from).or_default().push(step));
        }
        for (i, event) in events.iter().enumerate() {
            let Some(at) = self.decision(event.turn) else { continue };
            let decision = &self.sent.decisions[at];
            let (shorter, before, is_billed) = match self.shorter(at) {
                (billed, true) => {
                    let before = billed.cached_without;
                    (billed, before, true)
                }
                _ => {
                    let counted = Shorter::of(event, decision, self.log.rate(decision.turn));
                    (counted, event.tokens_before, false)
                }
            };
            let gone = event.only.clone().unwrap_or_default();
            let from = self.step(event.turn);
            let until = events.get(i + 1).map_or(self.log.n_steps() as u32, |next| self.step(next.turn));
            // What earlier edits had taken is gone as well.
            let edited = |step: u32| self.log.trajectory.steps[step as usize].edit.as_deref();
            let is_gone = |step: u32| edited(step).is_some_and(|edit| edit.from <= event.turn);
            let again = self.reads.again(self.log, &self.tariff, from..until, &is_gone);
            // The call of a result goes with it, and is no edit of its own.
            let is_edited = |step: &&u32| edited(**step).is_some();
            let lost = unsent.iter().zip(&owners).filter(|(_, owner)| **owner == Some(i));
            let (sure, perhaps): (Vec<&Need>, Vec<&Need>) = lost
                .map(|(need, _)| need)
                .partition(|need| self.is_sure(&whole, (event.turn, false), need.turn));
            let lost_of = |need: &Need| lost_of(self.log, need);
            let is_of_file = |need: &Need| self.had_file(places.steps(&name_of(self.log, need)), event.turn);
            let perhaps =
                perhaps.iter().map(|need| Perhaps { lost: lost_of(need), is_of_file: is_of_file(need) });
            let of_records = records.get(&event.turn).into_iter().flatten().copied();
            all.push(Change {
                logged: resized(of_records),
                n_steps: gone.iter().filter(is_edited).count(),
                lost: sure.into_iter().map(lost_of).collect(),
                perhaps: perhaps.collect(),
                again,
                ..self.change(at, &shorter, before, is_billed)
            });
        }
        Ok(all)
    }

    /// What the call that wrote this summary before a turn cost, if the log tells what was counted for it.
    fn logged_cost(&self, summary: u32, turn: u32) -> Option<f64> {
        let summary = &self.log.trajectory.steps[summary as usize];
        let usage = summary.usage.as_ref().filter(|_| summary.kind == Kind::Compaction)?;
        Some(1e6 * usage.cost.filter(|cost| *cost > 0.0).or_else(|| of_call(self.tariff.at(turn), usage))?)
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

    /// The provider's tokens, for which dollars are paid, to one of a prompt.
    fn of_provider(&self, turn: u32, is_billed: bool) -> f64 {
        self.log.rate(turn).filter(|_| !is_billed).map_or(1.0, |rate| rate.counted(1))
    }

    /// Calls until a shorter prompt has paid for the lost cache, and for `more` in price x tokens of the provider.
    fn paid(&self, at: usize, shorter: &Shorter, more: f64, is_billed: bool) -> Option<u32> {
        let turn = self.sent.decisions[at].turn;
        // A prompt that is no shorter pays for nothing.
        (shorter.saved > 0).then_some(())?;
        let debt = shorter.debt(self.alive[at], self.tariff.at(turn));
        shorter.pays(debt + more / self.of_provider(turn, is_billed), self.tariff.at(turn))
    }

    /// The turn of the newest prompt before this one that the provider counted, of those since the last compaction, with its tokens.
    fn counted(&self, at: usize) -> Option<(u32, u64)> {
        let decisions = &self.sent.decisions;
        let segment = |at: usize| self.log.turns[decisions[at].turn as usize].segment;
        let mut before = (0..at).rev().take_while(|&before| segment(before) == segment(at - 1));
        before.find_map(|before| Some((decisions[before].turn, self.billed(before)?)))
    }

    /// What became of a prompt; `before` is the one before it, `is_billed` whether both are by the provider's count.
    fn change(&self, at: usize, shorter: &Shorter, before: u64, is_billed: bool) -> Change {
        let (log, decisions) = (self.log, &self.sent.decisions);
        let decision = &decisions[at];
        let segment = |d: &Decision| log.turns[d.turn as usize].segment;
        let debt = shorter.debt(self.alive[at], self.tariff.at(decision.turn));
        Change {
            turn: decision.turn,
            time: log.decided_at(decision.turn),
            before,
            after: shorter.with,
            is_billed,
            counted: if is_billed { None } else { self.counted(at) },
            logged: [None; 2],
            is_shorter: shorter.saved > 0,
            cost: self.of_provider(decision.turn, is_billed) * debt,
            paid_after: self.paid(at, shorter, 0.0, is_billed),
            n_left: decisions[at + 1..].iter().take_while(|d| segment(d) == segment(decision)).count() as u32,
            n_steps: 0,
            lost: Vec::new(),
            perhaps: Vec::new(),
            again: Vec::new(),
        }
    }
}

/// What records of edits that one prompt was the first to see say of the context, taken together.
fn resized<'a>(edited: impl Iterator<Item = &'a Step>) -> [Option<u64>; 2] {
    let all: Vec<&Resized> = edited.filter_map(|step| step.resized.as_deref()).collect();
    [all.iter().filter_map(|of| of.from).max(), all.iter().filter_map(|of| of.to).min()]
}

/// The longest prompt that a log says its product compacted: by the provider's count, else by the record's, else by ours (`tokens` of
/// each step). None where it compacted nothing; that the user had the context cleared is no compaction.
pub fn compacted_at(trajectory: &Trajectory, tokens: &[u32]) -> Option<u64> {
    let steps = &trajectory.steps;
    let is_one = |&at: &usize| steps[at].kind == Kind::Compaction && !is_of_user(steps, at as u32);
    let before = |at: usize| {
        let segment = steps[at].segment - 1;
        let of_segment = || (0..at).rev().filter(|&i| steps[i].segment == segment || steps[i].turn == 0);
        let usage = of_segment().filter(|&i| steps[i].is_agent()).find_map(|i| steps[i].usage.as_deref());
        let billed = usage.map(|usage| usage.input + usage.output.unwrap_or(0)).filter(|n| *n > 0);
        let logged = || steps[at].resized.as_ref().and_then(|of| of.from);
        billed.or_else(logged).unwrap_or_else(|| of_segment().map(|i| u64::from(tokens[i])).sum())
    };
    (0..steps.len()).filter(is_one).map(before).max()
}

/// Whether a compaction without a summary is behind a command of the user that asks for it.
fn is_of_user(steps: &[Step], at: u32) -> bool {
    let (before, of) = (&steps[..at as usize], &steps[at as usize]);
    let said = before.iter().rfind(|step| step.role == Role::User);
    let is_asked = |said: &Step| said.kind == Kind::Message && CLEAR.contains(&said.text.trim());
    of.kind == Kind::Compaction && of.text.trim().is_empty() && said.is_some_and(is_asked)
}

/// Such commands.
const CLEAR: [&str; 3] = ["/clear", "/reset", "/new"];
