//! What became of the annotated constraints: preserved, paraphrased, weakened, mutated, contradicted or dropped.
//!
//! [`super::constraints`] has the rules. Here they are asked of each context of a point. Copied text can only keep a
//! constraint or lose it: a copied statement that the rules take for another version of it stood in the log like that
//! and is no doing of the compressor. Generated text can do all six. Conflicting copies take the worst. A constraint
//! counts while it is in force and if it was stated in a scope compressed so far.

use std::collections::BTreeMap;

use super::constraints::{self, Constraint, Outcome, Prepared};
use super::truth::{Ground, Tally, Truth};
use super::{Entry, Rows};
use crate::context::{Block, Content};
use crate::log::Log;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "constraint_retention",
        summary: "Share of annotated constraints that the context still holds, in their words or others",
        formula: "constraints preserved or paraphrased / constraints in force that were stated in compressed scopes",
    },
    Entry {
        name: "constraint_outcome",
        summary: "Share of annotated constraints with each outcome, by rules over anchors",
        formula: "constraints with this outcome / constraints in force that were stated in compressed scopes",
    },
];

/// A constraint, and the steps that hold it.
pub(super) struct Known {
    pub(super) rules: Constraint,
    /// With how: preserved or paraphrased.
    steps: Vec<(u32, Outcome)>,
}

impl Known {
    /// The constraints of a trajectory; reads each step once.
    pub(super) fn all(log: &Log, annotated: &[crate::annotations::Constraint]) -> Vec<Known> {
        let rules = annotated.iter().map(|c| Constraint::new(&c.text, &c.category));
        let mut known: Vec<Known> = rules.map(|rules| Known { rules, steps: Vec::new() }).collect();
        if known.is_empty() {
            return known;
        }
        for (step, text) in (0..).zip(&log.trajectory.steps).map(|(i, s)| (i, s.text.as_str())) {
            let prepared = Prepared::new([text]);
            for constraint in &mut known {
                let outcome = copied(&constraint.rules, &prepared);
                if outcome.held() {
                    constraint.steps.push((step, outcome));
                }
            }
        }
        known
    }

    /// Its outcome in copied steps, which are sorted.
    fn in_steps(&self, steps: &[u32]) -> Outcome {
        let held = self.steps.iter().filter(|(step, _)| steps.binary_search(step).is_ok());
        held.map(|(_, outcome)| *outcome).min().unwrap_or(Outcome::Dropped)
    }
}

/// The outcome in copied text.
fn copied(constraint: &Constraint, text: &Prepared<'_>) -> Outcome {
    let outcome = constraints::outcome(constraint, text).outcome;
    if outcome.held() { outcome } else { Outcome::Dropped }
}

/// The constraints that are asked for at a point: in force, and stated in a scope compressed so far.
pub(super) fn asked<'a>(
    truth: &'a Truth,
    ground: &'a Ground<'_>,
) -> impl Iterator<Item = (&'a crate::annotations::Constraint, &'a Known)> {
    let in_force = |c: &crate::annotations::Constraint| {
        ground.in_scope(c.step) && c.until.is_none_or(|until| until >= ground.point.until)
    };
    truth
        .annotations
        .constraints
        .iter()
        .zip(&truth.constraints)
        .filter(move |(annotated, _)| in_force(annotated))
}

/// The outcome of each in the contexts of a tally.
pub(super) fn by_rules(
    ground: &Ground<'_>,
    asked: &[(&crate::annotations::Constraint, &Known)],
) -> Vec<[Outcome; 4]> {
    let log = ground.log;
    let whole: Vec<u32> = ground.point.kept.iter().filter_map(|block| whole(block)).collect();
    let texts = |is_copy: bool| -> Vec<String> {
        let blocks = ground.point.kept.iter().filter(|block| match block.content {
            Content::Step(_) => false,
            Content::Excerpt { .. } => is_copy,
            Content::Placeholder { .. } | Content::Generated { .. } => !is_copy,
        });
        blocks.map(|block| block.text(log)).collect()
    };
    let (excerpts, generated) = (texts(true), texts(false));
    let excerpts = Prepared::new(excerpts.iter().map(String::as_str));
    let generated = Prepared::new(generated.iter().map(String::as_str));
    let shuffled = Prepared::new([ground.shuffled.as_str()]);
    let of = |known: &Known| {
        let base = known.in_steps(&ground.point.base);
        let by_rules = |text| constraints::outcome(&known.rules, text).outcome;
        let between = [
            known.in_steps(&whole).min(copied(&known.rules, &excerpts)).min(by_rules(&generated)),
            known.in_steps(&ground.point.scope),
            Outcome::Dropped,
            by_rules(&shuffled),
        ];
        between.map(|outcome| outcome.min(base))
    };
    asked.iter().map(|(_, known)| of(known)).collect()
}

pub(super) fn score(truth: &Truth, ground: &Ground<'_>, rows: &mut Rows) {
    let asked: Vec<_> = asked(truth, ground).collect();
    if asked.is_empty() {
        return;
    }
    let mut outcomes: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut held = Tally::default();
    let mut by_category: BTreeMap<&str, Tally> = BTreeMap::new();
    for ((annotated, _), each) in asked.iter().zip(by_rules(ground, &asked)) {
        for outcome in Outcome::ALL {
            outcomes.entry(outcome.name()).or_default().add(each.map(|o| o == outcome));
        }
        let is_held = each.map(Outcome::held);
        held.add(is_held);
        by_category.entry(&annotated.category).or_default().add(is_held);
    }
    held.push("constraint_retention", ground.stratum(None), rows);
    for (outcome, tally) in outcomes {
        tally.push("constraint_outcome", ground.stratum(Some(("outcome", outcome))), rows);
    }
    if ground.is_end() {
        for (category, tally) in by_category {
            tally.push("constraint_retention", ground.stratum(Some(("category", category))), rows);
        }
    }
}

/// The step that a block copies whole.
fn whole(block: &Block) -> Option<u32> {
    match block.content {
        Content::Step(step) => Some(step),
        _ => None,
    }
}
