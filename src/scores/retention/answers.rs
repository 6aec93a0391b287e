//! Whether each need was served where it came up, and what that gives.

use crate::context::needs::Need;
use crate::replay::Run;
use crate::replay::shadow::{Caster, Kept, OpenNeed, OpenNeeds, Shadows, Store, Wanted, holds};
use crate::scores::chance::Partner;
use crate::scores::retention::strata::{Of, Strata, Tested};
use crate::scores::{Rows, ratio};

use super::ledger::{Ledger, State};
use super::questions::{MINOR_WEIGHT, Questions};
use super::{AT_RISK_SHARE, LEVELS, RANDOM_WON_SHARE, UNSUPPORTED_SHARE};

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
    /// Events before it came up.
    pub n_events: u32,
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
            fates.push(Fate { exposed: state.exposed, lost: !is_served, n_events: state.n_events });
        }
    }
    fates
}

/// The needs with all answers, and per level whether a random shadow beat the oracle in some segment; none where no
/// shadow was cast.
pub(super) fn test<'a>(
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
pub(super) fn open_needs(
    questions: &Questions,
    ledger: &Ledger<'_>,
    needs: std::ops::Range<usize>,
) -> OpenNeeds {
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
