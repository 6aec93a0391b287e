//! What single events did to a prompt, block by block, and which needs each of them took: for people who read.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use super::super::dataset::Dataset;
use super::super::plan::{Plan, Variant};
use super::{Models, Prepared, recipe};
use crate::context::Block;
use crate::context::log::Log;
use crate::context::needs::Need;
use crate::replay::shadow::Caster;
use crate::replay::trace::{Trace, traced};
use crate::replay::watch::Watch;
use crate::replay::{Event, Observer, Recipe, Run, replay};
use crate::scores::retention::{Fate, Ledger, fates};
use crate::text::tokens::Tokenizer;

/// Which events of a replay are told.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    /// Those that took most of what was needed later, so many at most; none that took nothing.
    Worst(usize),
    /// The one of this number.
    Number(usize),
}

/// An event.
pub struct Account {
    pub number: usize,
    pub event: Event,
    /// The blocks of its scope as they were.
    pub before: Vec<Block>,
    /// Needs of the headline that found nothing in their prompts after this event had taken the last that served them.
    pub lost: Vec<Need>,
}

/// A replay, and some of its events.
pub struct Accounts<'a> {
    pub log: &'a Log,
    pub n_events: usize,
    pub events: Vec<Account>,
}

/// A trajectory that is replayed under several variants, to tell of their events.
pub struct Session<'a> {
    data: &'a Dataset,
    plan: &'a Plan,
    index: usize,
    own: Prepared,
    /// Over its own compactions, once a variant asks for it.
    bridged: OnceCell<Prepared>,
}

impl<'a> Session<'a> {
    /// # Errors
    /// The log cannot be read or replayed as it was sent.
    pub fn load(data: &'a Dataset, plan: &'a Plan, index: usize) -> anyhow::Result<Self> {
        let own = Prepared::load(data, plan, index, false)?;
        Ok(Session { data, plan, index, own, bridged: OnceCell::new() })
    }

    /// As the variant sees it.
    fn seen_by(&self, recipe: &Recipe) -> anyhow::Result<&Prepared> {
        if !recipe.bridges() || self.own.log.n_segments == 1 {
            return Ok(&self.own);
        }
        if self.bridged.get().is_none() {
            let _ = self.bridged.set(self.own.bridged(self.data, self.plan, self.index)?);
        }
        Ok(self.bridged.get().unwrap_or(&self.own))
    }

    /// Replays it under a variant, and tells of some events. Needs count that were last mentioned over `tail` turns before.
    ///
    /// # Errors
    /// The variant cannot be replayed.
    pub fn accounts(
        &self,
        variant: &Variant,
        models: &Models,
        (which, tail): (Which, u32),
    ) -> anyhow::Result<Accounts<'_>> {
        let tokenizer = Tokenizer::load(&self.plan.tokenizer)?;
        let recipe = recipe(variant, models)?;
        let Prepared { log, questions, .. } = self.seen_by(&recipe)?;
        let watch = Watch::own(log, &questions.needs.atoms);
        let (run, trace) = traced(log, &recipe, &tokenizer, &questions.needs)?;
        let ledger = Ledger::of(log, &watch, questions, &recipe, (&run, &trace));
        let caster = Caster {
            log,
            watch: &watch,
            trace: &trace,
            recipe: &recipe,
            tokenizer: &tokenizer,
            seed: self.plan.seed,
            n_random: 0,
        };
        let fates = fates(&caster, questions, &ledger, &run);
        let headline: HashSet<usize> = questions.headline().map(|(need, _)| need).collect();
        let needs = &questions.needs.list;
        let is_lost = |&i: &usize| fates[i].lost && headline.contains(&i) && needs[i].gap > tail;
        let lost: Vec<usize> = (0..fates.len()).filter(is_lost).collect();
        let by_event = takers(&run, &trace, &watch, needs, &fates, &lost);
        let mut chosen: Vec<usize> = match which {
            Which::Number(number) => (number < run.events.len()).then_some(number).into_iter().collect(),
            Which::Worst(_) => by_event.keys().copied().collect(),
        };
        let taken = |number: &usize| by_event.get(number).map_or(0, Vec::len);
        chosen.sort_unstable_by_key(|number| (std::cmp::Reverse(taken(number)), *number));
        if let Which::Worst(most) = which {
            chosen.truncate(most);
        }
        let mut camera = Camera { wanted: chosen.iter().copied().collect(), ..Camera::default() };
        if !chosen.is_empty() {
            replay(log, &recipe, &tokenizer, &questions.needs, &mut camera)?;
        }
        let lost_by = |number: usize| {
            let list = by_event.get(&number).map_or(&[][..], Vec::as_slice);
            list.iter().map(|&need| needs[need].clone()).collect()
        };
        let account = |number: usize| Account {
            number,
            event: run.events[number].clone(),
            before: camera.before.remove(&number).unwrap_or_default(),
            lost: lost_by(number),
        };
        let events = chosen.into_iter().map(account).collect();
        Ok(Accounts { log, n_events: run.events.len(), events })
    }
}

/// The lost needs by the event that took the last bound mention before they came up.
fn takers(
    run: &Run,
    trace: &Trace,
    watch: &Watch<'_>,
    needs: &[Need],
    fates: &[Fate],
    lost: &[usize],
) -> HashMap<usize, Vec<usize>> {
    let wanted: HashSet<u32> = lost.iter().filter_map(|&need| watch.index(needs[need].atom)).collect();
    // By atom, the events that took it, in their order.
    let mut taken: HashMap<u32, Vec<usize>> = HashMap::new();
    for (number, change) in trace.changes.iter().enumerate() {
        let seen = |blocks: &mut dyn Iterator<Item = std::ops::Range<u32>>| {
            let mut bound = HashSet::new();
            for blocks in blocks {
                watch.in_trace(trace, blocks, &mut |watched, is_bound| {
                    if is_bound && wanted.contains(&watched) {
                        bound.insert(watched);
                    }
                });
            }
            bound
        };
        let before = seen(&mut std::iter::once(change.gone.clone()).chain(change.taken.iter().cloned()));
        let after = seen(&mut std::iter::once(change.left.clone()));
        before.difference(&after).for_each(|&watched| taken.entry(watched).or_default().push(number));
    }
    let mut by_event: HashMap<usize, Vec<usize>> = HashMap::new();
    for &need in lost {
        let of_atom = watch.index(needs[need].atom).and_then(|watched| taken.get(&watched));
        let is_before = |&&number: &&usize| {
            number < fates[need].n_events as usize && run.events[number].segment == needs[need].segment
        };
        if let Some(&number) = of_atom.and_then(|numbers| numbers.iter().rfind(is_before)) {
            by_event.entry(number).or_default().push(need);
        }
    }
    by_event
}

/// Keeps the scopes of some events as they were.
#[derive(Default)]
struct Camera {
    wanted: HashSet<usize>,
    before: HashMap<usize, Vec<Block>>,
    n_events: usize,
}

impl Observer for Camera {
    fn compressed(&mut self, before: &[Block], _: &Event, _: u32) {
        if self.wanted.contains(&self.n_events) {
            self.before.insert(self.n_events, before.to_vec());
        }
        self.n_events += 1;
    }
}
