//! The strata of needs: which needs each of them has, and the rows that it makes of them.

use std::sync::Arc;

use super::ledger::State;
use super::questions::sorted;
use super::{LEVELS, NEED_COVERAGE, SOFT_MISS_SHARE};
use crate::context::needs::{Class, Group, Need};
use crate::scores::{Rows, ratio};
use crate::text::atoms;

/// Weight of a trajectory's needs in the capped strata.
pub(super) const WEIGHT_CAP: f64 = 20.0;

/// A need with the answers of the variant and of all that it is compared with, per level.
pub(super) struct Tested<'a> {
    pub(super) need: &'a Need,
    pub(super) state: State,
    pub(super) weights: &'a [[f64; 2]],
    pub(super) served: [f64; 2],
    pub(super) random: [f64; 2],
    pub(super) oracle: [f64; 2],
    pub(super) atom_bag: [f64; 2],
    pub(super) random_local: [f64; 2],
    pub(super) oracle_local: [f64; 2],
    pub(super) atom_bag_local: [f64; 2],
    /// Per kind of partner; none where there are no such partners.
    pub(super) chance: Vec<Option<[f64; 2]>>,
}

/// A selection of needs, named by its keys.
pub(super) struct Stratum {
    name: Arc<str>,
    tail: usize,
    exposed: bool,
    pub(super) of: Of,
    /// Rows are written even where there is no need.
    always: bool,
}

pub(super) enum Of {
    Headline,
    Local,
    Capped,
    /// The headline, with chance by another kind of partner.
    Partners(usize),
    Class(Class),
    Body,
    Kind(&'static str),
    Horizon(u32),
    Point(u32),
    /// What the headline would say of needs whose atom was never sent.
    Unsupported,
    /// Of linked sessions: what a tool showed again that an earlier session knew.
    FoundAgain,
}

/// Horizons in turns since the last event, and compression points that get strata.
const HORIZONS: [u32; 3] = [1, 5, 20];
const POINTS: u32 = 3;

/// All selections of an experiment: made once for all its cells.
pub struct Strata {
    pub(super) list: Vec<Stratum>,
    pub(super) n_partner_kinds: usize,
}

impl Strata {
    pub fn new(tails: &[u32], partners: &[String]) -> Self {
        let mut list = Vec::new();
        for (tail, turns) in sorted(tails).into_iter().enumerate() {
            for exposed in [false, true] {
                let set = format!("set={} tail={turns}", if exposed { "exposed" } else { "common" });
                let mut add = |suffix: String, of: Of, always: bool| {
                    list.push(Stratum { name: format!("{set}{suffix}").into(), tail, exposed, of, always });
                };
                add(String::new(), Of::Headline, true);
                for (kind, name) in partners.iter().enumerate().skip(1) {
                    add(format!(" partners={name}"), Of::Partners(kind), false);
                }
                for class in [Class::Observed, Class::User, Class::System, Class::Authored] {
                    add(format!(" class={}", class.name()), Of::Class(class), false);
                }
                add(" body=1".to_owned(), Of::Body, false);
                add(" unsupported=1".to_owned(), Of::Unsupported, false);
                if exposed {
                    add(" found=again".to_owned(), Of::FoundAgain, false);
                    add(" cap=20".to_owned(), Of::Capped, true);
                    add(" shadow=local".to_owned(), Of::Local, false);
                    for kind in atoms::NAMES {
                        add(format!(" kind={kind}"), Of::Kind(kind), false);
                    }
                    for horizon in HORIZONS {
                        add(format!(" horizon={horizon}"), Of::Horizon(horizon), false);
                    }
                    for point in 1..=POINTS {
                        add(format!(" point={point}"), Of::Point(point), false);
                    }
                }
            }
        }
        Strata { list, n_partner_kinds: partners.len() }
    }
}

impl Stratum {
    fn holds(&self, t: &Tested<'_>) -> bool {
        let headline = t.need.group == Group::Headline;
        (!self.exposed || t.state.exposed)
            && t.need.supported != matches!(self.of, Of::Unsupported)
            && match self.of {
                Of::Headline | Of::Local | Of::Capped | Of::Partners(_) | Of::Unsupported => headline,
                Of::FoundAgain => headline && t.need.found_again,
                Of::Class(Class::Authored) => t.need.group == Group::Authored,
                Of::Class(Class::System) => t.need.group == Group::System,
                Of::Class(class) => headline && t.need.class == class,
                Of::Body => t.need.group == Group::Body,
                Of::Kind(kind) => headline && t.need.kind.name() == kind,
                Of::Horizon(turns) => headline && t.state.n_events > 0 && t.state.since_event <= turns,
                Of::Point(point) => headline && t.state.n_events == point,
            }
    }

    pub(super) fn score(&self, tested: &[Tested<'_>], rows: &mut Rows) {
        let local = matches!(self.of, Of::Local);
        let partners = if let Of::Partners(kind) = self.of { kind } else { 0 };
        let mut soft = (0.0, 0.0, 0u64);
        let mut covered = [0.0; 2];
        let mut n_all = 0;
        for (level, (score, _)) in LEVELS.iter().enumerate() {
            let (mut n, mut n_kept, mut weight) = (0u64, 0, 0.0);
            // Served, floor, ceiling, atom-bag, chance.
            let mut sums = [0.0; 5];
            let mut has_chance = true;
            for t in tested.iter().filter(|t| self.holds(t)) {
                let w = t.weights[self.tail][level];
                if w == 0.0 {
                    continue;
                }
                n += 1;
                n_kept += u64::from(t.served[level] > 0.0);
                weight += w;
                covered[level] += f64::from(u8::from(t.need.bound || level == 0));
                let [floor, ceiling, bag] = if local {
                    [t.random_local[level], t.oracle_local[level], t.atom_bag_local[level]]
                } else {
                    [t.random[level], t.oracle[level], t.atom_bag[level]]
                };
                let chance = t.chance.get(partners).copied().flatten();
                has_chance &= chance.is_some();
                let chance = chance.map_or(0.0, |c| c[level]);
                for (sum, x) in sums.iter_mut().zip([t.served[level], floor, ceiling, bag, chance]) {
                    *sum += w * x;
                }
                if level == 1 && t.served[1] == 0.0 {
                    soft.1 += w;
                    soft.0 += if t.state.reobserved { w } else { 0.0 };
                    soft.2 += 1;
                }
            }
            if level == 0 {
                n_all = n;
            }
            if n == 0 && !self.always {
                continue;
            }
            let mean = |sum: f64| ratio(sum, weight);
            let scale = if matches!(self.of, Of::Capped) {
                (WEIGHT_CAP / weight.max(WEIGHT_CAP)).min(1.0)
            } else {
                1.0
            };
            let row = rows.push(score, Arc::clone(&self.name), mean(sums[0]), weight * scale, n);
            row.n_kept = Some(n_kept);
            row.floor = mean(sums[1]);
            row.ceiling = mean(sums[2]);
            row.atom_bag = mean(sums[3]);
            row.chance = mean(sums[4]).filter(|_| has_chance);
        }
        if matches!(self.of, Of::Headline) {
            let coverage = ratio(covered[1], n_all as f64);
            rows.push(&NEED_COVERAGE, Arc::clone(&self.name), coverage, n_all as f64, n_all);
            if self.exposed {
                rows.push(&SOFT_MISS_SHARE, Arc::clone(&self.name), ratio(soft.0, soft.1), soft.1, soft.2);
            }
        }
    }
}
