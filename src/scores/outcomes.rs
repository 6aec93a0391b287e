//! What became of the annotated constraints: preserved, paraphrased, weakened, mutated, contradicted or dropped.
//!
//! [`super::constraints`] has the rules. Here they are asked of each context of a point. Copied text can only keep a
//! constraint or lose it: a copied statement that the rules take for another version of it stood in the log like that
//! and is no doing of the compressor. Generated text can do all six, but where it quotes the log word for word. Conflicting
//! statements take the worst. A constraint
//! counts while it is in force and if it was stated in a scope compressed so far.

use std::collections::BTreeMap;

use super::Rows;
use super::constraints::{self, Beside, Constraint, Outcome, Prepared};
use super::ground::{Ground, Known, Tally, Truth};
use super::registry::{Better, DROP_ALL, Entry};
use crate::context::{Block, Content};

pub const CONSTRAINT_RETENTION: Entry = Entry {
    name: "constraint_retention",
    summary: "Share of annotated constraints that the context still holds, in their words or others",
    formula: "constraints preserved or paraphrased / constraints in force that were stated in compressed scopes",
    strata: &["point", "category"],
    retention: Some(70),
    truth: Some((40, "Constraints held: preserved or paraphrased")),
    ..Entry::TRUTH
};

pub const CONSTRAINT_OUTCOME: Entry = Entry {
    name: "constraint_outcome",
    summary: "Share of annotated constraints with each outcome, by rules over anchors",
    formula: "constraints with this outcome / constraints in force that were stated in compressed scopes",
    better: Better::Neither,
    strata: &["point", "outcome"],
    floor: DROP_ALL,
    ceiling: "`full`",
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[CONSTRAINT_RETENTION, CONSTRAINT_OUTCOME];

/// The constraints that are asked for at a point: in force, and stated in a scope compressed so far.
pub(super) fn asked<'a>(
    truth: &'a Truth,
    ground: &'a Ground<'_>,
) -> impl Iterator<Item = (&'a crate::context::annotations::Constraint, &'a Known)> {
    in_force(truth, ground).filter(|(annotated, _)| ground.in_scope(annotated.step))
}

/// The constraints that are in force at a point, wherever they were stated.
fn in_force<'a>(
    truth: &'a Truth,
    ground: &'a Ground<'_>,
) -> impl Iterator<Item = (&'a crate::context::annotations::Constraint, &'a Known)> {
    let all = truth.annotations.constraints.iter().zip(&truth.constraints);
    let until = ground.point.until;
    all.filter(move |(c, _)| c.step < until && c.until.is_none_or(|end| end >= until))
}

/// The outcome of each in the contexts of a tally.
pub(super) fn by_rules(
    truth: &Truth,
    ground: &Ground<'_>,
    asked: &[(&crate::context::annotations::Constraint, &Known)],
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
    let quoted: Vec<&Constraint> = truth.constraints.iter().map(|known| &known.rules).collect();
    let in_force: Vec<&Constraint> = in_force(truth, ground).map(|(_, known)| &known.rules).collect();
    let beside = Beside { log: Some(&truth.said), quoted: &quoted, in_force: &in_force };
    let of = |known: &Known| {
        let base = known.in_steps(&ground.point.base);
        let by_rules = |text| constraints::outcome(&known.rules, text, &beside).outcome;
        let between = [
            known.in_steps(&whole).min(constraints::held(&known.rules, &excerpts)).min(by_rules(&generated)),
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
    for ((annotated, _), each) in asked.iter().zip(by_rules(truth, ground, &asked)) {
        for outcome in Outcome::ALL {
            outcomes.entry(outcome.name()).or_default().add(each.map(|o| o == outcome));
        }
        let is_held = each.map(Outcome::held);
        held.add(is_held);
        by_category.entry(&annotated.category).or_default().add(is_held);
    }
    held.push(&CONSTRAINT_RETENTION, ground.stratum(None), rows);
    for (outcome, tally) in outcomes {
        tally.push(&CONSTRAINT_OUTCOME, ground.stratum(Some(("outcome", outcome))), rows);
    }
    if ground.is_end() {
        for (category, tally) in by_category {
            tally.push(&CONSTRAINT_RETENTION, ground.stratum(Some(("category", category))), rows);
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
