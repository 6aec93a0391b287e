//! What single events did to a prompt, block by block, and which needs each of them took: for people who read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::dataset::Dataset;
use super::super::plan::{Plan, Variant};
use super::{Models, Prepared, Shelf, recipe};
use crate::context::Block;
use crate::context::log::Log;
use crate::context::needs::Need;
use crate::replay::shadow::Caster;
use crate::replay::trace::{Trace, traced_before};
use crate::replay::watch::Watch;
use crate::replay::{Event, Run};
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
pub struct Accounts {
    session: Arc<Prepared>,
    pub n_events: usize,
    /// How many needs of the headline each event took, by its number; and how many were lost in all.
    pub taken: Vec<usize>,
    pub n_lost: usize,
    pub events: Vec<Account>,
}

impl Accounts {
    /// The log as the variant saw it.
    pub fn log(&self) -> &Log {
        &self.session.log
    }
}

/// Blocks of scopes that are kept while it is not known yet whose event is told. Of what is beyond it the replay is done again.
const KEPT: usize = 100_000;

/// Replays a trajectory under a variant, and tells of some events. Needs count that were last mentioned over `tail` turns before.
///
/// # Errors
/// The variant cannot be replayed.
pub fn accounts(
    (data, plan, shelf): (&Dataset, &Plan, &Shelf),
    index: usize,
    variant: &Variant,
    models: &Models,
    (which, tail): (Which, u32),
) -> anyhow::Result<Accounts> {
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let recipe = recipe(variant, models)?;
    let mut session = shelf.get(data, plan, index)?;
    if recipe.bridges() && session.log.n_segments > 1 {
        session = Arc::new(session.bridged(data, plan, index)?);
    }
    let Prepared { log, questions, .. } = &*session;
    let (needs, watch) = (&questions.needs.list, Watch::own(log, &questions.needs.atoms));
    let (mut scopes, mut n_kept) = (Vec::new(), 0);
    let (run, trace) = traced_before(log, &recipe, &tokenizer, &questions.needs, &mut |before| {
        n_kept += before.len();
        scopes.push((n_kept <= KEPT).then(|| before.to_vec()));
    })?;
    let ledger = Ledger::of(log, &watch, questions, &recipe, (&run, &trace));
    let caster = Caster {
        log,
        watch: &watch,
        trace: &trace,
        recipe: &recipe,
        tokenizer: &tokenizer,
        seed: plan.seed,
        n_random: 0,
    };
    let fates = fates(&caster, questions, &ledger, &run);
    let headline: HashSet<usize> = questions.headline().map(|(need, _)| need).collect();
    let is_lost = |&i: &usize| fates[i].lost && headline.contains(&i) && needs[i].gap > tail;
    let lost: Vec<usize> = (0..fates.len()).filter(is_lost).collect();
    let by_event = takers(&run, &trace, &watch, needs, &fates, &lost);
    let mut chosen: Vec<usize> = match which {
        Which::Number(number) => (number < run.events.len()).then_some(number).into_iter().collect(),
        Which::Worst(_) => by_event.keys().copied().collect(),
    };
    let n_taken = |number: &usize| by_event.get(number).map_or(0, Vec::len);
    let taken = (0..run.events.len()).map(|number| n_taken(&number)).collect();
    chosen.sort_unstable_by_key(|number| (std::cmp::Reverse(n_taken(number)), *number));
    if let Which::Worst(most) = which {
        chosen.truncate(most);
    }
    if chosen.iter().any(|&number| scopes[number].is_none()) {
        let mut number = 0..;
        scopes.clear();
        traced_before(log, &recipe, &tokenizer, &questions.needs, &mut |before| {
            scopes.push(number.next().filter(|number| chosen.contains(number)).map(|_| before.to_vec()));
        })?;
    }
    let lost_by = |number: usize| {
        let list = by_event.get(&number).map_or(&[][..], Vec::as_slice);
        list.iter().map(|&need| needs[need].clone()).collect()
    };
    let account = |number: usize| Account {
        number,
        event: run.events[number].clone(),
        before: scopes[number].take().unwrap_or_default(),
        lost: lost_by(number),
    };
    let (events, n_events) = (chosen.into_iter().map(account).collect(), run.events.len());
    Ok(Accounts { session, n_events, taken, n_lost: lost.len(), events })
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
