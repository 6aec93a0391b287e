//! `need_retention` and `surface_retention`: what the agent had to remember and still could read.
//!
//! Per trajectory: sum of the weights of needs whose atom stands in the prompt sent, over the sum
//! of weights. *Surface*: the atom stands anywhere. *Bound*, the headline: it stands within 15 words
//! of at least two cues of one of its source spans; defined where a source span has two cues. A bag
//! of atoms without prose reaches 0.9 of surface and next to nothing of bound.
//!
//! Strata: the *common* set (at risk, a property of the log: every variant answers the same
//! questions) and the *exposed* set (no mention survives outside compressed scopes: a property of
//! log and trigger). Where the log records what was sent, a need whose atom did not stand there on the surface is no
//! fault of a compression: such needs are in the stratum `unsupported=1` and in no other. Source: DESIGN section 8, ours.

mod strata;

use std::collections::{HashMap, HashSet};

use super::chance::Partner;
use super::registry::{Better, Column, Entry, Field, ORACLE, Pooled, RANDOM, Set};
use super::{Rows, ratio};
use crate::context::log::Log;
use crate::context::needs::{Group, Need, Needs};
use crate::replay::sent::Sent;
use crate::replay::shadow::{Caster, Kept, OpenNeed, OpenNeeds, Shadows, Store, Wanted, holds};
use crate::replay::trace::{Change, Move, Trace};
use crate::replay::watch::{Counts, Watch};
use crate::replay::{Event, Recipe, Run};
use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;
use strata::Of;
pub use strata::Strata;

/// Keys of the strata of needs.
const STRATA: &[&str] =
    &["set", "tail", "class", "kind", "horizon", "point", "body", "unsupported", "shadow", "cap", "partners"];

pub const NEED_RETENTION: Entry = Entry {
    name: "need_retention",
    summary: "Share of needs whose atom stands in the prompt near the words that gave it meaning",
    formula: "sum of weights of needs served, bound / sum of weights of needs with a binding source",
    strata: STRATA,
    floor: RANDOM,
    ceiling: ORACLE,
    retention: Some(10),
    columns: &[
        Column::headline(
            90,
            "need_retention_common",
            Set::Common,
            Field::Value,
            "bound need retention on the common set (needs from tool output or the user, last mentioned before the reference tail, 10 turns by default; the same questions for every variant)",
        ),
        Column::headline(
            100,
            "random_common",
            Set::Common,
            Field::Floor,
            "the same for the matched random shadow: the floor",
        ),
        Column::headline(
            110,
            "oracle_common",
            Set::Common,
            Field::Ceiling,
            "the same for the matched oracle shadow: the ceiling",
        ),
        Column::new(
            120,
            "atom_bag_common",
            Set::Common,
            Field::AtomBag,
            "the same for the matched list of atoms without prose",
        ),
        Column::new(
            130,
            "chance_common",
            Set::Common,
            Field::Chance,
            "the same needs looked for in the contexts of other trajectories",
        ),
        Column::new(
            140,
            "corrected_common",
            Set::Common,
            Field::Corrected,
            "(need_retention_common - c) / (1 - c), c = chance_common",
        ),
        Column::headline(
            150,
            "need_retention_exposed",
            Set::Exposed,
            Field::Value,
            "bound need retention on the exposed set: of the common set, the needs with no mention outside what the trigger gave away; differs between triggers",
        ),
        Column::headline(
            160,
            "random_exposed",
            Set::Exposed,
            Field::Floor,
            "the same for the matched random shadow: the floor",
        ),
        Column::headline(
            170,
            "oracle_exposed",
            Set::Exposed,
            Field::Ceiling,
            "the same for the matched oracle shadow: the ceiling",
        ),
        Column::new(
            180,
            "atom_bag_exposed",
            Set::Exposed,
            Field::AtomBag,
            "the same for the matched list of atoms without prose",
        ),
        Column::new(
            190,
            "chance_exposed",
            Set::Exposed,
            Field::Chance,
            "the same needs looked for in the contexts of other trajectories",
        ),
        Column::new(
            200,
            "corrected_exposed",
            Set::Exposed,
            Field::Corrected,
            "(need_retention_exposed - c) / (1 - c), c = chance_exposed",
        ),
        Column::headline(
            230,
            "efficiency",
            Set::Capped,
            Field::Efficiency,
            "sum w (x - random) / sum w (oracle - random) over exposed needs, each trajectory capped at 20 needs' weight where such rows exist (see efficiency_rows); 0 is random, 1 the oracle, never clipped; null below the minimum (30 exposed needs, n_eff 4), and where oracle - random is under 0.05 or its interval holds 0",
        ),
        Column::new(240, "efficiency_uncapped", Set::Exposed, Field::Efficiency, "the same without the cap"),
    ],
    ..Entry::SHARE
};

pub const SURFACE_RETENTION: Entry = Entry {
    name: "surface_retention",
    summary: "Share of needs whose atom stands anywhere in the prompt; gameable",
    formula: "sum of weights of needs served / sum of weights of needs",
    strata: STRATA,
    floor: RANDOM,
    ceiling: ORACLE,
    retention: Some(20),
    columns: &[
        Column::new(
            210,
            "surface_retention_common",
            Set::Common,
            Field::Value,
            "share of the common set whose atom stands anywhere in the context; gameable by a list of atoms",
        ),
        Column::new(
            220,
            "surface_retention_exposed",
            Set::Exposed,
            Field::Value,
            "the same on the exposed set",
        ),
    ],
    ..Entry::SHARE
};

pub const NEED_COVERAGE: Entry = Entry {
    name: "need_coverage",
    summary: "Share of needs for which bound retention is defined",
    formula: "needs with a binding source / needs",
    better: Better::Neither,
    strata: &["set", "tail"],
    columns: &[Column::new(
        250,
        "",
        Set::Whole,
        Field::Value,
        "share of the needs of the common set for which bound retention is defined",
    )],
    ..Entry::SHARE
};

pub const SOFT_MISS_SHARE: Entry = Entry {
    name: "soft_miss_share",
    summary: "Share of bound misses whose atom the agent had observed again since it was first lost",
    formula: "weight of soft misses / weight of misses, exposed needs",
    better: Better::Neither,
    strata: &["set", "tail"],
    columns: &[Column::new(
        260,
        "",
        Set::Exposed,
        Field::Value,
        "share of the misses on the exposed set that the agent had observed again before it used them",
    )],
    ..Entry::SHARE
};

pub const AT_RISK_SHARE: Entry = Entry {
    name: "at_risk_share",
    summary: "Share of all needs whose last mention is older than the reference tail (rows of `full` only)",
    formula: "needs at risk / needs whose atoms do not stand in the head",
    better: Better::Neither,
    strata: &["tail", "class"],
    ..Entry::SHARE
};

pub const UNSUPPORTED_SHARE: Entry = Entry {
    name: "unsupported_share",
    summary: "Share of the needs at risk whose atom was not in the prompt that the log says was sent (rows of `full` only)",
    formula: "needs at risk whose atom did not stand there / needs at risk; 0 where the log records no edits",
    better: Better::Neither,
    strata: &["tail", "class"],
    ..Entry::SHARE
};

pub const RANDOM_WON_SHARE: Entry = Entry {
    name: "random_won_share",
    summary: "Share of cells in which a random shadow served more than the greedy oracle, and is the ceiling",
    formula: "1 where in a segment a random chain (or, where something is recalled, a random draw) served more, else 0",
    better: Better::Neither,
    strata: &["level"],
    pooled: Pooled::Mean,
    columns: &[Column::new(
        290,
        "",
        Set::Stratum("level=bound"),
        Field::Value,
        "share of the cells in which a random shadow served more than the greedy oracle and is the ceiling, bound; null where no shadow was cast",
    )],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[
    NEED_RETENTION,
    SURFACE_RETENTION,
    NEED_COVERAGE,
    SOFT_MISS_SHARE,
    AT_RISK_SHARE,
    UNSUPPORTED_SHARE,
    RANDOM_WON_SHARE,
];

/// Weight of a trajectory's needs in the capped strata.
const WEIGHT_CAP: f64 = 20.0;
/// Weight, in the oracle's eyes, of needs outside the headline: served when nothing better is left.
const MINOR_WEIGHT: f64 = 0.01;
/// Levels of retention: surface, bound.
const LEVELS: [(Entry, bool); 2] = [(SURFACE_RETENTION, false), (NEED_RETENTION, true)];

/// The questions that a log asks of every variant: its needs with their weights.
pub struct Questions {
    pub needs: Needs,
    /// Tokens of all prompts that the log says were sent.
    pub tokens_as_sent: u64,
    /// Reference tails in turns, ascending.
    tails: Vec<u32>,
    /// Per need, per tail, per level.
    weights: Vec<Vec<[f64; 2]>>,
}

impl Questions {
    /// # Errors
    /// The log cannot be replayed as it was sent.
    pub fn of(log: &Log, tails: &[u32], tokenizer: &Tokenizer) -> anyhow::Result<Self> {
        let tails = sorted(tails);
        let mut needs = Needs::of(log, tails.first().copied().unwrap_or(0));
        let sent = Sent::of(log, &needs, tokenizer)?;
        for (need, supported) in needs.list.iter_mut().zip(sent.supported) {
            need.supported = supported;
        }
        let mut shares: HashMap<(u32, Group, bool, usize, usize), f64> = HashMap::new();
        let eligible = |need: &Need, tail: u32, level: usize| need.gap > tail && (level == 0 || need.bound);
        for need in &needs.list {
            for (t, &tail) in tails.iter().enumerate() {
                for level in 0..2 {
                    if eligible(need, tail, level) {
                        let those = (need.turn, need.group, need.supported, t, level);
                        *shares.entry(those).or_default() += 1.0;
                    }
                }
            }
        }
        let weight = |need: &Need, t: usize, tail: u32, level: usize| {
            let those = (need.turn, need.group, need.supported, t, level);
            if eligible(need, tail, level) { 1.0 / shares[&those] } else { 0.0 }
        };
        let weights = needs
            .list
            .iter()
            .map(|need| {
                tails
                    .iter()
                    .enumerate()
                    .map(|(t, &tail)| [weight(need, t, tail, 0), weight(need, t, tail, 1)])
                    .collect()
            })
            .collect();
        Ok(Questions { needs, tokens_as_sent: sent.tokens, tails, weights })
    }
}

impl Questions {
    /// The needs of the headline that bound retention asks for, by place in the list, with their weights for the shortest tail.
    pub fn headline(&self) -> impl Iterator<Item = (usize, f64)> {
        let weight = |i: usize| self.weights[i].first().map_or(0.0, |tail| tail[1]);
        let all = (0..self.needs.list.len()).filter(|&i| self.needs.list[i].is_headline());
        all.map(move |i| (i, weight(i))).filter(|(_, weight)| *weight > 0.0)
    }
}

/// Reference tails are counted in ascending order.
fn sorted(tails: &[u32]) -> Vec<u32> {
    let mut tails = tails.to_vec();
    tails.sort_unstable();
    tails
}

/// What was so when a need arose.
#[derive(Clone, Copy, Debug)]
struct State {
    decision: u32,
    n_events: u32,
    /// Turns since the last event.
    since_event: u32,
    exposed: bool,
    /// Whether text outside the strategy's reach serves it: surface, bound.
    base: [bool; 2],
    /// Whether what was recalled for its decision serves it: surface, bound.
    recalled: [bool; 2],
    /// Observed again after a compression took its last uncompressed mention.
    reobserved: bool,
}

/// Follows the needs through a replay.
pub struct Ledger<'a> {
    log: &'a Log,
    watch: &'a Watch<'a>,
    needs: &'a [Need],
    /// Mentions outside compressed scopes, and in blocks of them that the strategy may not remove.
    outside: Counts,
    fixed: Counts,
    /// The blocks of the trace that it is in.
    fixed_blocks: HashSet<u32>,
    lost: Vec<bool>,
    reobserved: Vec<bool>,
    n_events: u32,
    last_event_turn: u32,
    /// What is seen in what was recalled for the coming decision.
    recalled: Vec<(u32, bool)>,
    states: Vec<State>,
}

impl<'a> Ledger<'a> {
    /// Reads the trace of a replay of the log, which `run` tells of.
    pub fn of(
        log: &'a Log,
        watch: &'a Watch<'a>,
        questions: &'a Questions,
        recipe: &Recipe,
        (run, trace): (&Run, &Trace),
    ) -> Self {
        let n = watch.len();
        let mut ledger = Ledger {
            log,
            watch,
            needs: &questions.needs.list,
            outside: Counts::new(n),
            fixed: Counts::new(n),
            fixed_blocks: HashSet::new(),
            lost: vec![false; n],
            reobserved: vec![false; n],
            n_events: 0,
            last_event_turn: 0,
            recalled: Vec::new(),
            states: Vec::with_capacity(questions.needs.list.len()),
        };
        let mut decisions = (0..).zip(&run.decisions);
        for next in &trace.moves {
            match next {
                Move::Reset => ledger.reset(),
                Move::Appended(steps) => steps.clone().for_each(|step| ledger.appended(step)),
                Move::Compressed => {
                    let number = ledger.n_events as usize;
                    ledger.compressed(recipe, trace, &trace.changes[number], &run.events[number]);
                }
                Move::Recalled(blocks) => {
                    watch.in_trace(trace, blocks.clone(), &mut |w, b| ledger.recalled.push((w, b)));
                }
                Move::Decided => {
                    decisions.next().into_iter().for_each(|(number, d)| ledger.decided(number, d.turn));
                }
            }
        }
        ledger
    }

    fn reset(&mut self) {
        self.outside.clear();
        self.fixed.clear();
        self.fixed_blocks.clear();
        self.lost.fill(false);
        self.reobserved.fill(false);
    }

    fn appended(&mut self, step: u32) {
        let observation = self.log.kind(step) == Kind::Observation;
        for s in self.watch.in_step(step) {
            self.outside.add(s.watched, s.bound);
            self.reobserved[s.watched as usize] |= observation && self.lost[s.watched as usize];
        }
    }

    fn compressed(&mut self, recipe: &Recipe, trace: &Trace, change: &Change, event: &Event) {
        self.watch.in_trace(trace, change.gone.clone(), &mut |w, b| {
            self.outside.remove(w, b);
            self.lost[w as usize] |= !self.outside.has(w, false);
        });
        let taken = change.taken.iter().cloned().flatten();
        for number in taken.filter(|number| self.fixed_blocks.remove(number)) {
            self.watch.in_trace(trace, number..number + 1, &mut |w, b| self.fixed.remove(w, b));
        }
        for (block, number) in event.after.iter().zip(change.left.clone()) {
            if !Event::is_kept(self.log, recipe.strategy(event), block) {
                self.fixed_blocks.insert(number);
                self.watch.in_trace(trace, number..number + 1, &mut |w, b| self.fixed.add(w, b));
            }
        }
        self.n_events += 1;
        self.last_event_turn = event.turn;
    }

    fn decided(&mut self, decision: u32, turn: u32) {
        while let Some(need) = self.needs.get(self.states.len()).filter(|n| n.turn <= turn) {
            let w = self.watch.index(need.atom).expect("the atoms of all needs are watched");
            self.states.push(State {
                decision,
                n_events: self.n_events,
                since_event: turn - self.last_event_turn,
                exposed: !self.outside.has(w, false),
                base: [false, true].map(|b| self.outside.has(w, b) || self.fixed.has(w, b)),
                recalled: [false, true].map(|b| holds(&self.recalled, w, b)),
                reobserved: self.reobserved[w as usize],
            });
        }
        self.recalled.clear();
    }
}

/// A need with the answers of the variant and of all that it is compared with, per level.
struct Tested<'a> {
    need: &'a Need,
    state: State,
    weights: &'a [[f64; 2]],
    served: [f64; 2],
    random: [f64; 2],
    oracle: [f64; 2],
    atom_bag: [f64; 2],
    random_local: [f64; 2],
    oracle_local: [f64; 2],
    atom_bag_local: [f64; 2],
    /// Per kind of partner; none where there are no such partners.
    chance: Vec<Option<[f64; 2]>>,
}

/// What other scores need to know of the misses.
#[derive(Default)]
pub struct Misses {
    /// (cheapest source span, turn) of each exposed headline need.
    pub needed: Vec<(u32, u32)>,
    /// (cheapest observation that holds it, events so far) of each hard miss that a call brings back.
    pub hard: Vec<(u32, u32)>,
    /// Places in the list of needs: headline, bound, and not served.
    pub lost: Vec<usize>,
}

/// Scores a replay against its shadows and partners.
pub fn score(
    caster: &Caster<'_>,
    questions: &Questions,
    ledger: Ledger<'_>,
    run: &Run,
    partners: &[Partner<'_>],
    strata: &Strata,
    rows: &mut Rows,
) -> Misses {
    let (tested, random_won) = test(caster, questions, &ledger, run, (strata.n_partner_kinds, partners));
    let mut misses = Misses::default();
    for (i, t) in tested.iter().enumerate() {
        if t.need.is_headline() && t.need.bound && t.served[1] == 0.0 {
            misses.lost.push(i);
        }
        if t.state.exposed && t.need.is_headline() {
            misses.needed.push((t.need.cheapest, t.need.turn));
            let missed = t.need.bound && t.served[1] == 0.0;
            if let Some(source) = t.need.source.filter(|_| missed && !t.state.reobserved) {
                misses.hard.push((source, t.state.n_events));
            }
        }
    }
    let no_local = caster.recipe.is_recursive() || caster.recipe.recalls();
    for stratum in strata.list.iter().filter(|stratum| !(no_local && matches!(stratum.of, Of::Local))) {
        stratum.score(&tested, rows);
    }
    for ((_, bound), won) in LEVELS.iter().zip(random_won.into_iter().flatten()) {
        let level = if *bound { "level=bound" } else { "level=surface" };
        rows.push(&RANDOM_WON_SHARE, level, Some(f64::from(u8::from(won))), 1.0, 1);
    }
    misses
}

/// What became of a need under a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    pub exposed: bool,
    /// Bound, it did not stand in its prompt.
    pub lost: bool,
}

/// What became of each of the needs, without a shadow or a partner: a tenth of the work of [`score`].
pub fn fates(caster: &Caster<'_>, questions: &Questions, ledger: &Ledger<'_>, run: &Run) -> Vec<Fate> {
    let list = &questions.needs.list[..ledger.states.len()];
    let mut fates = Vec::with_capacity(list.len());
    for needs in list.chunk_by(|a, b| a.segment == b.segment) {
        let segment = needs[0].segment;
        let first = run.events.partition_point(|e| e.segment < segment);
        let last = run.events.partition_point(|e| e.segment <= segment);
        let kept = caster.kept(run, first..last);
        for need in needs {
            let state = &ledger.states[fates.len()];
            let w = ledger.watch.index(need.atom).expect("the atoms of all needs are watched");
            let is_served = state.base[1] || state.recalled[1] || kept.by(state.n_events, w, true);
            fates.push(Fate { exposed: state.exposed, lost: !is_served });
        }
    }
    fates
}

/// The needs with all answers, and per level whether a random shadow beat the oracle in some segment; none where no
/// shadow was cast.
fn test<'a>(
    caster: &Caster<'_>,
    questions: &'a Questions,
    ledger: &Ledger<'_>,
    run: &Run,
    partners: (usize, &[Partner<'_>]),
) -> (Vec<Tested<'a>>, Option<[bool; 2]>) {
    let list = &questions.needs.list;
    let mut tested = Vec::with_capacity(list.len());
    let mut random_won: Option<[bool; 2]> = None;
    let mut won = |now: [bool; 2]| {
        let before = random_won.unwrap_or_default();
        random_won = Some([before[0] || now[0], before[1] || now[1]]);
    };
    let mut start = 0;
    while start < ledger.states.len() {
        let segment = list[start].segment;
        let end = start + list[start..ledger.states.len()].partition_point(|n| n.segment == segment);
        let first_event = run.events.partition_point(|e| e.segment < segment);
        let last_event = run.events.partition_point(|e| e.segment <= segment);
        let open = open_needs(questions, ledger, start..end);
        let shadows = (!open.is_empty() && last_event > first_event)
            .then(|| caster.cast(run, first_event..last_event, &open));
        shadows.iter().for_each(|shadows| won(shadows.random_won));
        let recalls = shadows.as_ref().filter(|_| !run.recalls.is_empty());
        let mut archive = recalls.map(|shadows| (shadows, caster.archive(run, first_event..last_event)));
        let mut store: Option<(u32, Store)> = None;
        for i in start..end {
            let need = &list[i];
            let state = ledger.states[i];
            let w = ledger.watch.index(need.atom).expect("the atoms of all needs are watched");
            let decision = &run.decisions[state.decision as usize];
            if let Some((shadows, archive)) = &mut archive
                && store.as_ref().is_none_or(|(decision, _)| *decision != state.decision)
            {
                let budget = u32::try_from(decision.recalled_tokens).unwrap_or(u32::MAX);
                let wanted = wanted(questions, ledger, shadows, i..end);
                let cast = match budget > 0 && !wanted.is_empty() {
                    true => caster.store(archive, (decision.turn, state.n_events), &wanted, budget),
                    false => Store::default(),
                };
                won(cast.random_won);
                store = Some((state.decision, cast));
            }
            let store = store.as_ref().map(|(_, store)| store);
            let context = (partners, decision.tokens_sent);
            tested.push(answer(need, state, &questions.weights[i], w, (shadows.as_ref(), store), context));
        }
        start = end;
    }
    (tested, random_won)
}

/// The needs of the decision of the first of these that the rest of the prompt does not serve; those that the oracle's
/// chain serves weigh nothing.
fn wanted(
    questions: &Questions,
    ledger: &Ledger<'_>,
    shadows: &Shadows,
    needs: std::ops::Range<usize>,
) -> Vec<Wanted> {
    let decision = ledger.states[needs.start].decision;
    let mut wanted = Vec::new();
    for i in needs {
        let (need, state) = (&questions.needs.list[i], &ledger.states[i]);
        if state.decision != decision {
            break;
        }
        let w = ledger.watch.index(need.atom).expect("the atoms of all needs are watched");
        let weight = |level: usize| {
            let served = state.base[level] || shadows.oracle[level].by(state.n_events, w, level == 1);
            let weight = questions.weights[i].first().map_or(0.0, |tail| tail[level]);
            match (served, need.is_headline()) {
                (true, _) => 0.0,
                (false, true) => weight,
                (false, false) => weight * MINOR_WEIGHT,
            }
        };
        if state.base != [true, true] {
            wanted.push(Wanted { atom: need.atom, weights: [weight(0), weight(1)] });
        }
    }
    wanted
}

/// Needs that only kept text can serve, with the weights that the oracle goes by.
fn open_needs(questions: &Questions, ledger: &Ledger<'_>, needs: std::ops::Range<usize>) -> OpenNeeds {
    let mut open = OpenNeeds::new(ledger.watch.len());
    for i in needs.rev() {
        let (need, state) = (&questions.needs.list[i], &ledger.states[i]);
        let w = ledger.watch.index(need.atom).expect("the atoms of all needs are watched");
        for (level, &base) in state.base.iter().enumerate() {
            let weight = questions.weights[i].first().map_or(0.0, |tail| tail[level]);
            let weight = if need.is_headline() { weight } else { weight * MINOR_WEIGHT };
            if !base && weight > 0.0 {
                let open_need = OpenNeed { watched: w, turn: need.turn, n_events: state.n_events, weight };
                open.push_earlier(level == 1, open_need);
            }
        }
    }
    open
}

fn answer<'a>(
    need: &'a Need,
    state: State,
    weights: &'a [[f64; 2]],
    w: u32,
    (shadows, store): (Option<&Shadows>, Option<&Store>),
    (partners, tokens): ((usize, &[Partner<'_>]), u64),
) -> Tested<'a> {
    let base = state.base.map(|b| f64::from(u8::from(b)));
    let mut t = Tested {
        need,
        state,
        weights,
        served: base,
        random: base,
        oracle: base,
        atom_bag: base,
        random_local: base,
        oracle_local: base,
        atom_bag_local: base,
        chance: Vec::with_capacity(partners.0),
    };
    for kind in 0..partners.0 {
        let (mut n, mut met) = (0, [0.0; 2]);
        for partner in partners.1.iter().filter(|p| p.kind == kind) {
            let (surface, bound) = partner.meets(w, tokens);
            met[0] += f64::from(u8::from(surface));
            met[1] += f64::from(u8::from(bound));
            n += 1;
        }
        t.chance.push((n > 0).then(|| met.map(|m| m / f64::from(n))));
    }
    let Some(s) = shadows else { return t };
    let n = state.n_events;
    for level in 0..2 {
        if state.base[level] {
            continue;
        }
        let bound = level == 1;
        let truth = |b: bool| f64::from(u8::from(b));
        let own_before = n > 0 && s.variant.by(n - 1, w, bound);
        let local = |kept: &Kept| truth(n > 0 && (own_before || kept.at(n - 1, w, bound)));
        let mean = |f: &dyn Fn(usize, &Kept) -> f64| {
            let sum: f64 = s.random.iter().enumerate().map(|(replicate, kept)| f(replicate, kept)).sum();
            sum / s.random.len().max(1) as f64
        };
        let stored = |seen: &dyn Fn(&Store) -> Option<bool>| store.and_then(seen).unwrap_or(false);
        let drawn = |replicate: usize| stored(&|store| Some(holds(store.random.get(replicate)?, w, bound)));
        t.served[level] = truth(state.recalled[level] || s.variant.by(n, w, bound));
        t.random[level] = mean(&|replicate, k| truth(k.by(n, w, bound) || drawn(replicate)));
        let chosen = stored(&|store| Some(holds(&store.oracle[level], w, bound)));
        t.oracle[level] = truth(chosen || s.oracle[level].by(n, w, bound));
        let bagged = stored(&|store| Some(holds(&store.atom_bag, w, bound)));
        t.atom_bag[level] = truth(bagged || s.atom_bag.by(n, w, bound));
        t.random_local[level] = mean(&|_, k| local(k));
        t.oracle_local[level] = local(&s.oracle_local[level]);
        t.atom_bag_local[level] = local(&s.atom_bag);
    }
    t
}

/// How many needs there are in all, how many of them are at risk, and how many of these the agent met without having
/// been sent their atom: the same for every variant.
pub fn census(questions: &Questions, rows: &mut Rows) {
    for (class, &all) in &questions.needs.census.all {
        for &tail in &questions.tails {
            let needs = || questions.needs.list.iter().filter(|n| n.class.name() == *class && n.gap > tail);
            let (at_risk, unsupported) = (needs().count(), needs().filter(|n| !n.supported).count());
            let stratum = format!("tail={tail} class={class}");
            let share = ratio(at_risk as f64, all as f64);
            rows.push(&AT_RISK_SHARE, stratum.clone(), share, all as f64, all);
            let share = ratio(unsupported as f64, at_risk as f64);
            rows.push(&UNSUPPORTED_SHARE, stratum, share, at_risk as f64, at_risk as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::trace::traced;

    const LINES: [&str; 6] = [
        "FILE",
        "the broken parser lives in FILE beside its lexer",
        "so many words before anybody comes to say a word of FILE and its lexer",
        "broken parser FILE and then words upon words that nobody will ever ask for again",
        "nothing of note",
        "the parser of FILE calls the lexer of FILE2, and that is all there is to say of both of them today",
    ];

    /// Turns that show some lines about files, and name a file. A fifth of them is masked two turns later.
    fn script(turns: &[(Vec<(usize, u32)>, u32)], is_edited: bool) -> String {
        let mut script = "user: the task".to_owned();
        for (i, (lines, named)) in turns.iter().enumerate() {
            let line = |(line, file): &(usize, u32)| {
                let text = LINES[line % LINES.len()].replace("FILE2", &format!("src/b{file}.py"));
                text.replace("FILE", &format!("src/a{file}.py"))
            };
            let shown: Vec<String> = lines.iter().map(line).collect();
            script += &format!("\naction: cat src/a{named}.py\nobservation: {}", shown.join("~"));
            if is_edited && i % 5 < 2 {
                script += &format!(" => {} src/a{named}.py was here", i + 3);
            }
        }
        script
    }

    /// The log under a variant: its shadows, by segment, and what the oracle is after.
    fn cast(log: &Log, strategy: (&str, &str), trigger: (&str, &str)) -> Option<(Shadows, OpenNeeds)> {
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let questions = Questions::of(log, &[1], &tokenizer).unwrap();
        let watch = Watch::own(log, &questions.needs.atoms);
        let recipe = Recipe::named(strategy, trigger);
        let (run, trace) = traced(log, &recipe, &tokenizer, &questions.needs).unwrap();
        let recipe = &recipe;
        let ledger = Ledger::of(log, &watch, &questions, recipe, (&run, &trace));
        let open = open_needs(&questions, &ledger, 0..ledger.states.len());
        let (watch, trace, tokenizer) = (&watch, &trace, &tokenizer);
        let caster = Caster { log, watch, trace, recipe, tokenizer, seed: 1, n_random: 8 };
        (!open.is_empty()).then(|| (caster.cast(&run, 0..run.events.len(), &open), open))
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

        /// Of what the oracle is after it serves no less than any random shadow.
        #[test]
        fn no_random_shadow_serves_more_than_the_oracle(
            turns in proptest::collection::vec(
                (proptest::collection::vec((0..6usize, 0..5u32), 1..5), 0..5u32), 4..14),
            variant in 0..6usize,
        ) {
            let log = Log::script(&script(&turns, false));
            let (strategy, trigger) = [
                (("mask", "keep_last = 1"), ("turns", "n = 1")),
                (("random", "kept_share = 0.2"), ("turns", "n = 3")),
                (("oracle", "kept_share = 0.1"), ("turns", "n = 2")),
                (("truncate", "keep_last = 2"), ("turns", "n = 1")),
                (("summary", ""), ("turns", "n = 2")),
                (("atom-bag", "kept_share = 0.3"), ("turns", "n = 4")),
            ][variant];
            if let Some((shadows, open)) = cast(&log, strategy, trigger) {
                for bound in [false, true] {
                    let oracle = open.served(bound, &shadows.oracle[usize::from(bound)]);
                    for random in &shadows.random {
                        let random = open.served(bound, random);
                        proptest::prop_assert!(oracle >= random - 1e-9, "{oracle} < {random}");
                    }
                }
            }
        }

        /// By construction all that counts in the headline stood in what was sent.
        #[test]
        fn what_was_sent_serves_all_of_the_headline(
            turns in proptest::collection::vec(
                (proptest::collection::vec((0..6usize, 0..5u32), 1..5), 0..5u32), 4..14),
        ) {
            let log = Log::script(&script(&turns, true));
            let tokenizer = Tokenizer::load("o200k").unwrap();
            let questions = Questions::of(&log, &[1], &tokenizer).unwrap();
            let watch = Watch::own(&log, &questions.needs.atoms);
            let recipe = Recipe::named(("as-sent", ""), ("logged-edits", ""));
            let (run, trace) = traced(&log, &recipe, &tokenizer, &questions.needs).unwrap();
            let ledger = Ledger::of(&log, &watch, &questions, &recipe, (&run, &trace));
            proptest::prop_assert_eq!(
                questions.tokens_as_sent, run.decisions.iter().map(|d| d.tokens_sent).sum::<u64>());
            let caster = Caster {
                log: &log,
                watch: &watch,
                trace: &trace,
                recipe: &recipe,
                tokenizer: &tokenizer,
                seed: 1,
                n_random: 1,
            };
            let (tested, _) = test(&caster, &questions, &ledger, &run, (0, &[]));
            proptest::prop_assert_eq!(tested.len(), questions.needs.list.len());
            for t in tested {
                proptest::prop_assert_eq!(t.served[0] == 1.0, t.need.supported);
            }
        }
    }
}
