//! What an agent's own product did to the past of a session, by what the log records: compactions with their summaries, and
//! results that it took out or shortened later (edits).
//!
//! Needs, money and inventions are those of the scores: needs by a replay over the compactions with the logged summaries,
//! prompts by a replay of what was sent. Here is only what no score says: to whom it belongs, and what was read again.

mod again;
mod falls;
mod lost;
mod places;
mod stays;
mod typos;
mod unseen;
mod words;

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::context::log::Log;
use crate::context::needs::Need;
use crate::context::{Block, Content};
use crate::experiment::cell::{Bridged, Models, bridged, recipe, unsent};
use crate::experiment::{Dataset, Plan};
use crate::replay::{Decision, Event, Observer, Run, replay};
use crate::scores::costs::of_call;
use crate::scores::honesty::known_atoms;
use crate::scores::money::{self, Shorter, Tariff};
use crate::text::runs::Runs;
use crate::text::tokens::Tokenizer;
use crate::trajectory::{Kind, Role, Step, Trajectory};
use again::Reads;
use lost::{Taken, lost_of, name_of};
use places::Places;
use stays::Stays;
use unseen::Unseen;
use words::Typed;

pub use again::Again;
pub use falls::Fall;
pub use lost::{Lost, NameAlone, Perhaps};
pub use words::Words;

/// What was done to one session.
pub struct Audit {
    pub compactions: Vec<Compaction>,
    /// Where the user had the context cleared, by a command: that is no doing of the product.
    pub clears: Vec<Change>,
    pub edits: Vec<Change>,
    pub falls: Vec<Fall>,
    /// Places where the context began anew without a summary.
    pub n_cleared: usize,
    /// Compactions behind which nothing was sent any more, though something was before.
    pub n_unsent: usize,
}

/// A prompt that was made shorter.
pub struct Change {
    /// The turn whose call was the first with the shorter prompt, and when it was made so: a user may let the call wait.
    pub turn: u32,
    pub time: Option<i64>,
    /// Tokens of the prompt before, and of this one; by the provider's count where both are logged.
    pub before: u64,
    pub after: u64,
    pub is_billed: bool,
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

/// A compaction with a summary.
pub struct Compaction {
    pub change: Change,
    pub summary_tokens: u32,
    /// Tokens of older steps that stay in the prompts beside the summary.
    pub kept_tokens: u64,
    /// What the call that wrote the summary cost, in price x tokens; at most so much where the log does not tell.
    pub summary_cost: Option<f64>,
    pub is_summary_cost_logged: bool,
    /// Calls until shorter prompts had paid for that and the lost cache.
    pub paid_with_summary: Option<u32>,
    /// Things used later of which the name (of a path the last part) stood in the summary or in what came behind it, without the line
    /// that says what they are.
    pub names_alone: Vec<NameAlone>,
    /// How much of the prompt before it the log shows, where the provider counted that: some logs begin in the middle of a session,
    /// or take out what a summary replaces.
    pub shown: Option<f64>,
    /// Tokens of this prompt that stand in no step and stood not in the session's first prompt, where these are many: some products
    /// put files back that they do not log, so that what is lost and read again cannot be told.
    pub unlogged: Option<u64>,
    /// Whether it is known how much that is: not where the log begins in the middle of the session.
    pub is_prompt_known: bool,
    /// Whether the log shows at least half of what was replaced: else there may be more than what is told of it.
    pub is_shown: bool,
    /// Things that the summary names and no step before it, of so many that it names; says nothing if that is not shown.
    pub invented: Vec<String>,
    pub n_named: usize,
    /// Sentences of the user that stand nowhere word for word any more.
    pub words: Vec<Words>,
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
    let summaries = || (0..).zip(steps).filter(|(_, step)| step.kind == Kind::Compaction);
    let logged: BTreeSet<u32> = summaries().map(|(_, step)| step.segment).collect();
    let last = steps.iter().rfind(|step| step.is_agent()).map(|step| step.segment);
    let unsent = summaries()
        .filter(|(at, step)| last.is_some_and(|last| step.segment > last) && !is_of_user(steps, *at));
    let n_unsent = unsent.map(|(_, step)| step.segment).collect::<BTreeSet<u32>>().len();
    let (mut compactions, mut clears) = (Vec::new(), Vec::new());
    if !logged.is_empty() {
        (compactions, clears) = bench.compactions(&bridged(data, plan, index)?, &tokenizer)?;
    }
    let n_cleared = (1..log.n_segments).filter(|segment| !logged.contains(segment)).count();
    let unlogged = data.usage(index)?.into_iter().filter(|row| row.unlogged_edit).map(|row| row.first_turn);
    let changes = || compactions.iter().map(|of| &of.change).chain(&clears);
    let told = |fall: &Fall| changes().all(|of| of.turn != fall.turn);
    let falls = unlogged.filter_map(|turn| bench.fall(turn)).filter(told).collect();
    Ok(Audit { compactions, clears, edits, falls, n_cleared, n_unsent })
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
            !self.was_sent(need, &stays, &places)
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
            let again = self.reads.again(self.log, from..until, &is_gone);
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
            all.push(Change {
                n_steps: gone.iter().filter(is_edited).count(),
                lost: sure.into_iter().map(lost_of).collect(),
                perhaps: perhaps.collect(),
                again,
                ..self.change(at, &shorter, before, is_billed)
            });
        }
        Ok(all)
    }

    /// The compactions, and apart from them what the user cleared.
    fn compactions(
        &self,
        bridged: &Bridged,
        tokenizer: &Tokenizer,
    ) -> anyhow::Result<(Vec<Compaction>, Vec<Change>)> {
        let log = self.log;
        let sources = Runs::new(log.trajectory.steps.iter().map(|step| &step.text));
        let typed = Typed::of(log, &sources);
        let events = &bridged.run.events;
        let stays =
            |event: &Event| Stays::of(log, log.turns[event.turn as usize].segment).cut(log, event.turn);
        let stays: Vec<Stays> = events.iter().map(stays).collect();
        let (mut taken, whole) = (self.taken(bridged, &stays)?, self.whole());
        let summaries: Vec<String> = events.iter().map(|event| summary(&event.after)).collect();
        let mut invented = self.invented(bridged, &sources, &summaries)?;
        let (mut all, mut clears) = (Vec::new(), Vec::new());
        for (i, event) in events.iter().enumerate() {
            let Some(at) = self.decision(event.turn).map(|at| self.fallen(at)) else { continue };
            let (shorter, is_billed) = self.shorter(at);
            let (steps, told) = (&log.trajectory.steps, self.told(self.step(event.turn)));
            let mut change = self.change(at, &shorter, shorter.cached_without, is_billed);
            change.time = steps[told as usize].time.or(change.time);
            if is_of_user(steps, told) {
                clears.push(change);
                continue;
            }
            let turn = change.turn;
            let from = self.step(turn);
            let until = events.get(i + 1).map_or(log.n_steps() as u32, |next| self.step(next.turn));
            let before = i.checked_sub(1).map(|before| (self.step(events[before].turn), &stays[before]));
            let is_gone = |step: u32| stays[i].leave(log, step);
            // What an earlier compaction had taken out does not go again.
            let goes = |step: u32| {
                is_gone(step) && before.is_none_or(|(since, stood)| step >= since || stood.has(step))
            };
            let (n_named, invented) = std::mem::take(&mut invented[i]);
            let Taken { lost, names_alone } = std::mem::take(&mut taken[i]);
            let lost_of = |need: &Need| lost_of(&bridged.log, need);
            let is_sure = |need: &Need| self.is_sure(&whole, (turn, true), need.turn);
            let lost = lost.into_iter().filter(|(need, _)| need.turn >= turn);
            let (sure, perhaps): (Vec<_>, Vec<_>) = lost.partition(|(need, _)| is_sure(need));
            let n_steps = (0..from).filter(|&step| goes(step)).count();
            let shown = self.shown(at);
            // What was said before the log begins is not known.
            let is_of_middle = i == 0 && self.unseen.is_of_middle;
            let n_summary = tokenizer.count(&summaries[i]) as u32;
            let logged_cost = self.logged_cost(event.turn);
            let summary_cost = logged_cost.or_else(|| self.summary_cost(at, &shorter, n_summary));
            all.push(Compaction {
                summary_tokens: n_summary,
                kept_tokens: stays[i].tokens(log, tokenizer),
                summary_cost,
                is_summary_cost_logged: logged_cost.is_some(),
                paid_with_summary: self.paid(at, &shorter, summary_cost.unwrap_or(0.0), is_billed),
                names_alone: names_alone
                    .into_iter()
                    .filter(|(need, _)| need.turn >= turn && self.is_sure(&whole, (turn, false), need.turn))
                    .map(|(need, step)| NameAlone { lost: lost_of(need), named: log.turn_of(step) })
                    .collect(),
                unlogged: self.unseen.more(log, &self.sent.decisions[at]),
                is_prompt_known: self.unseen.is_known(log, &self.sent.decisions[at]),
                shown,
                is_shown: !is_of_middle && n_steps > 0 && shown.is_none_or(|share| share >= 0.5),
                invented,
                n_named,
                words: typed.gone(0..from, until, (&goes, &is_gone), &summaries[i]),
                change: Change {
                    n_steps,
                    lost: sure.into_iter().map(|(need, _)| lost_of(need)).collect(),
                    perhaps: perhaps
                        .into_iter()
                        .map(|(need, is_of_file)| Perhaps { lost: lost_of(need), is_of_file })
                        .collect(),
                    again: self.reads.again(log, from..until, &is_gone),
                    ..change
                },
            });
        }
        Ok((all, clears))
    }

    /// Beside each compaction how many things its summary names, and which of them stand nowhere before it.
    fn invented(
        &self,
        bridged: &Bridged,
        sources: &Runs,
        summaries: &[String],
    ) -> anyhow::Result<Vec<(usize, Vec<String>)>> {
        let mut all = Vec::new();
        for (event, summary) in bridged.run.events.iter().zip(summaries) {
            let told = self.told(self.step(event.turn));
            let stood = |words: &[u64]| sources.hold_before(words, told as usize);
            let known = known_atoms(&bridged.log, &written(summary), told, &stood);
            let unknown = known.iter().filter(|(_, is_known)| !is_known).map(|(atom, _)| atom.clone());
            all.push((known.len(), unknown.collect::<Vec<_>>()));
        }
        let places = Places::of(self.log, all.iter().flat_map(|(_, unknown)| unknown.clone()).collect())?;
        for ((_, unknown), event) in all.iter_mut().zip(&bridged.run.events) {
            let told = self.told(self.step(event.turn));
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
    fn told(&self, step: u32) -> u32 {
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

    /// What the call that wrote the summary before a turn cost, if the log tells what was counted for it.
    fn logged_cost(&self, turn: u32) -> Option<f64> {
        let summary = &self.log.trajectory.steps[self.told(self.step(turn)) as usize];
        let usage = summary.usage.as_ref().filter(|_| summary.kind == Kind::Compaction)?;
        Some(1e6 * usage.cost.filter(|cost| *cost > 0.0).or_else(|| of_call(self.tariff.at(turn), usage))?)
    }

    /// What the call that wrote a summary cost, which many logs do not show, if it read the whole prompt anew: the cache may serve
    /// that, and some products send a part.
    fn summary_cost(&self, at: usize, shorter: &Shorter, n_summary: u32) -> Option<f64> {
        let turn = self.sent.decisions[at].turn;
        let (prices, [prompt, _]) = (self.tariff.at(turn), shorter.billed);
        let written = self.log.rate(turn).map_or(1.0, |rate| rate.counted(1)) * f64::from(n_summary);
        let written = prices.output * prices.times(prompt).1 * written;
        (n_summary > 0).then(|| prices.uncached(prompt) + written)
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
        let debt = shorter.debt(self.alive[at], self.tariff.at(turn));
        shorter.pays(debt + more / self.of_provider(turn, is_billed), self.tariff.at(turn))
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

/// Whether a log says that its product compacted it: not where the user had the context cleared.
pub fn is_compacted(trajectory: &Trajectory) -> bool {
    let steps = &trajectory.steps;
    (0..).zip(steps).any(|(at, step)| step.kind == Kind::Compaction && !is_of_user(steps, at))
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

/// How Claude Code begins what it says behind a summary: that is not the model's.
const BEHIND: &str = "\nIf you need specific details from before compaction";

/// What the model wrote of a summary, without a tag around it, which is a form that it was asked for.
fn written(summary: &str) -> String {
    let text = summary.split_once(BEHIND).map_or(summary, |(text, _)| text).trim_start();
    let tag = text.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let parted = tag.and_then(|(tag, rest)| rest.split_once(&format!("</{tag}>")));
    parted.map_or_else(|| text.to_owned(), |(inside, behind)| format!("{inside}{behind}"))
}

/// The text that stands in the place of a scope.
fn summary(after: &[Block]) -> String {
    let generated = after.iter().filter_map(|block| match &block.content {
        Content::Generated { text } => Some(text.as_str()),
        _ => None,
    });
    generated.collect::<Vec<_>>().join("\n")
}
