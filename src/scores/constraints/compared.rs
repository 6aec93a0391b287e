//! A statement beside a constraint: whether it is about that, and what it makes of it.

use super::english::Bound;
use super::statement::{Force, Statement, is_prose};
use super::tokens::{CHANGE, Role, Token};
use super::values::{Dim, Value};
use super::{Constraint, Outcome, beside, stands_at};

pub(super) struct Finding {
    pub(super) outcome: Outcome,
    /// Whether enough words agree to know that it is the same constraint.
    pub(super) is_sure: bool,
}

/// What became of a value of the constraint.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Same(usize),
    Changed,
    Missing,
}

pub(super) struct Compared<'c, 's> {
    pub(super) constraint: &'c Constraint,
    statement: &'s Statement<'s>,
    /// Units that stand in both, as positions in constraint and statement.
    shared: Vec<(usize, usize)>,
    /// Units of the constraint that the statement lacks.
    missing: Vec<usize>,
    fates: Vec<Fate>,
    pub(super) force: Force,
}

impl<'c, 's> Compared<'c, 's> {
    /// None when they have nothing in common.
    pub(super) fn new(constraint: &'c Constraint, statement: &'s Statement<'s>) -> Option<Self> {
        let (ours, theirs) = (&constraint.tokens, &statement.tokens);
        let (mut shared, mut missing) = (Vec::new(), Vec::new());
        for &u in &constraint.units {
            match (0..theirs.len()).find(|&i| stands_at(&ours[u].stem, theirs, i)) {
                Some(i) => shared.push((u, i)),
                None => missing.push(u),
            }
        }
        let fates: Vec<Fate> = constraint.values.iter().map(|&v| fate(ours, v, theirs)).collect();
        let same = fates.iter().filter_map(|f| if let Fate::Same(i) = f { Some(*i) } else { None });
        let touched: Vec<usize> = shared.iter().map(|&(_, i)| i).chain(same).collect();
        let changed = || (0..theirs.len()).find(|&i| theirs[i].value().is_some());
        let first = touched.iter().min().copied().or_else(changed)?;
        let last = touched.iter().max().copied().unwrap_or(first);
        let mut force = Force::of(statement.around(first, last));
        force.is_directive |= theirs[0].is_command && touched.contains(&0);
        Some(Compared { constraint, statement, shared, missing, fates, force })
    }

    /// How many words, names and values stand in both.
    pub(super) fn n_shared(&self) -> usize {
        self.shared.len() + self.fates.iter().filter(|fate| matches!(fate, Fate::Same(_))).count()
    }

    /// Whether the statement shares more with this constraint than with another, of all that it and either of them say.
    pub(super) fn is_nearer(&self, other: &Compared<'_, '_>) -> bool {
        let all = |of: &Compared<'_, '_>| {
            of.constraint.units.len() + of.constraint.values.len() + self.statement.n_said()
        };
        self.n_shared() * all(other) > other.n_shared() * all(self)
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        if !self.is_about() || !is_prose(&self.statement.tokens) || !self.keeps_order() {
            return None;
        }
        Some(Finding { outcome: self.outcome()?, is_sure: self.is_sure() })
    }

    /// Whether the words agree that it is the same constraint; the noun that a number counts is no such
    /// word ("600 words").
    pub(super) fn is_sure(&self) -> bool {
        let tokens = &self.constraint.tokens;
        let is_counted = |&&u: &&usize| u > 0 && tokens[u - 1].value().is_some_and(|v| v.dim == Dim::Count);
        let n = self.constraint.units.len() - self.constraint.units.iter().filter(is_counted).count();
        n >= 2 || n == 1 && self.has_same_bound()
    }

    /// Whether the statement is about the constraint: enough shared words, or where there are few
    /// words, the same frame.
    fn is_about(&self) -> bool {
        let tokens = &self.constraint.tokens;
        let is_own = |u: usize| tokens[u].stem != CHANGE;
        let n = self.constraint.units.iter().filter(|&&u| is_own(u)).count();
        let m = self.shared.iter().filter(|&&(u, _)| is_own(u)).count() + usize::from(self.has_other_name());
        let is_equal = self.fates.iter().any(|f| matches!(f, Fate::Same(_)));
        let enough = if is_equal { 2 * m >= n } else { 3 * m >= 2 * n };
        let framed = match (n, self.constraint.values.len()) {
            (0, 0) => false,
            (1, 0) => {
                !self.is_narrowed()
                    && !self.force.is_report
                    && (self.force.is_directive
                        || self.force.only
                        || self.force.level == 1
                        || self.is_on_topic())
            }
            (0, _) => self.has_same_bound() || self.is_on_topic() && is_equal,
            (1, _) => {
                is_equal
                    || self.has_same_bound()
                    || self.is_on_topic()
                    || self.force.is_vague && self.force.level == 3
            }
            _ => true,
        };
        enough && framed
    }

    /// Whether less is forbidden: "no paid plug-ins" where the constraint says "no plug-ins".
    fn is_narrowed(&self) -> bool {
        let theirs = &self.statement.tokens;
        let is_new =
            |i: usize| theirs[i].is_unit() && theirs[i].is_negated && !self.shared.iter().any(|s| s.1 == i);
        self.shared.iter().any(|&(u, i)| self.constraint.tokens[u].is_negated && i > 0 && is_new(i - 1))
    }

    fn is_on_topic(&self) -> bool {
        let topic = &self.constraint.topic;
        !topic.is_empty() && self.statement.tokens.iter().any(|t| t.stem == *topic)
    }

    /// Whether some value is bounded as the first value of the constraint, or `only` stands in both.
    fn has_same_bound(&self) -> bool {
        let ours = self.constraint.values.first().and_then(|&v| self.constraint.tokens[v].value());
        let theirs = || self.statement.tokens.iter().filter_map(Token::value);
        self.constraint.force.only && self.force.only
            || ours.is_some_and(|o| {
                o.bound.is_some() && theirs().any(|t| t.dim.is_kin(o.dim) && t.bound == o.bound)
            })
    }

    /// Whether a third of the neighbouring words of the constraint stand near each other in order: a
    /// shuffled text has the words but seldom the pairs.
    fn keeps_order(&self) -> bool {
        let values = self.constraint.values.iter().zip(&self.fates);
        let values = values.filter_map(|(&v, f)| if let Fate::Same(i) = f { Some((v, *i)) } else { None });
        let mut all: Vec<(usize, usize)> = self.shared.iter().copied().chain(values).collect();
        all.sort_unstable();
        let near = |pair: &[(usize, usize)]| {
            pair[1].1 > pair[0].1 && pair[1].1 - pair[0].1 <= pair[1].0 - pair[0].0 + SLACK
        };
        all.len() < 3 || 3 * all.windows(2).filter(|pair| near(pair)).count() >= all.len() - 1
    }

    pub(super) fn outcome(&self) -> Option<Outcome> {
        let is_reported = self.force.is_report;
        if self.is_cancelled() || !is_reported && (self.is_inverted() || self.has_turned_bound()) {
            return Some(Outcome::Contradicted);
        }
        if !is_reported && (self.fates.contains(&Fate::Changed) || self.has_other_name()) {
            return Some(Outcome::Mutated);
        }
        let lost_value = self.fates.contains(&Fate::Missing);
        let is_soft = if lost_value { self.force.is_vague } else { self.is_softened() };
        if self.has_lost_only() && !self.force.is_directive && self.force.level == 3 {
            return None;
        }
        if is_soft && !self.has_lost_anchor() && !self.fates.contains(&Fate::Changed) {
            return Some(Outcome::Weakened);
        }
        let is_held = !lost_value && !self.has_lost_anchor() && !self.fates.contains(&Fate::Changed);
        (is_held && !self.has_flipped(0)).then_some(Outcome::Paraphrased)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.force.is_cancelled && !self.constraint.force.is_cancelled
    }

    /// Whether the statement directs the opposite.
    fn is_inverted(&self) -> bool {
        let is_same = self.fates.is_empty() || self.fates.iter().any(|f| matches!(f, Fate::Same(_)));
        self.force.is_directive && (is_same || self.shared.len() >= 2) && self.has_flipped(1)
    }

    /// Whether negation differs: in the verb of change if both have one, else in more than half of the
    /// shared words (`margin` 1), or in half of them (`margin` 0).
    fn has_flipped(&self, margin: usize) -> bool {
        let (ours, theirs) = (&self.constraint.tokens, &self.statement.tokens);
        let change = |tokens: &[Token]| tokens.iter().find(|t| t.stem == CHANGE).map(|t| t.is_negated);
        if let (Some(a), Some(b)) = (change(ours), change(theirs)) {
            return a != b;
        }
        let flips = self.shared.iter().filter(|&&(c, s)| ours[c].is_negated != theirs[s].is_negated).count();
        flips > 0 && 2 * flips >= self.shared.len() + margin
    }

    fn has_turned_bound(&self) -> bool {
        let turned = |(&v, fate): (&usize, &Fate)| {
            let Fate::Same(i) = *fate else { return false };
            let bound = |tokens: &[Token], i: usize| tokens[i].value().and_then(|v| v.bound);
            match (bound(&self.constraint.tokens, v), bound(&self.statement.tokens, i)) {
                (Some(a), Some(b)) => a != b && a != Bound::About && b != Bound::About,
                _ => false,
            }
        };
        self.constraint.values.iter().zip(&self.fates).any(turned)
    }

    fn is_softened(&self) -> bool {
        let (ours, theirs) = (&self.constraint.force, &self.force);
        let about = |(&v, fate): (&usize, &Fate)| {
            let is_about = |t: &Token| t.value().is_some_and(|v| v.bound == Some(Bound::About));
            matches!(fate, Fate::Same(i) if is_about(&self.statement.tokens[*i]))
                && !is_about(&self.constraint.tokens[v])
        };
        theirs.level < ours.level
            || self.has_lost_only()
            || self.constraint.values.iter().zip(&self.fates).any(about)
    }

    fn has_lost_only(&self) -> bool {
        self.constraint.force.only && !self.force.only && !self.force.all && !self.force.must
    }

    /// Whether a name, or a negated verb of change, is missing.
    fn has_lost_anchor(&self) -> bool {
        let is_anchor = |t: &Token| t.role == Role::Name || t.stem == CHANGE;
        self.missing.iter().any(|&u| is_anchor(&self.constraint.tokens[u]))
    }

    /// Whether another name stands where one of the constraint's stood: next to the same word, in a
    /// statement that shares two words with it.
    fn has_other_name(&self) -> bool {
        let (ours, theirs) = (&self.constraint.tokens, &self.statement.tokens);
        let is_other = |t: &Token| t.role == Role::Name && !ours.iter().any(|o| o.stem == t.stem);
        let is_file = |t: &Token| t.stem.contains(['/', '.', '_']);
        let in_place = |u: usize, i: usize| {
            let ((before, after), (b, a)) = (beside(ours, u), beside(theirs, i));
            is_file(&ours[u]) == is_file(&theirs[i])
                && (before.is_some() && before == b || after.is_some() && after == a)
        };
        let mut names = self.missing.iter().filter(|&&u| ours[u].role == Role::Name);
        let same = self.fates.iter().filter(|f| matches!(f, Fate::Same(_))).count();
        self.shared.len() + same >= 2
            && !self.has_flipped(1)
            && names.any(|&u| (0..theirs.len()).any(|i| is_other(&theirs[i]) && in_place(u, i)))
    }
}

/// What became of the value at a position of the constraint.
fn fate(ours: &[Token], v: usize, theirs: &[Token]) -> Fate {
    let Some(value) = ours[v].value() else { return Fate::Missing };
    let others = || theirs.iter().enumerate().filter_map(|(i, t)| Some((i, t.value()?)));
    if let Some((i, _)) = others().find(|(_, t)| t.is_same(value)) {
        return Fate::Same(i);
    }
    let (before, after) = noun_beside(ours, v);
    let is_changed = |i: usize, other: &Value| {
        let (b, a) = noun_beside(theirs, i);
        let same_noun = before.is_some() && before == b || after.is_some() && after == a;
        other.dim.is_kin(value.dim) && (value.dim != Dim::Count || same_noun)
    };
    if others().any(|(i, t)| is_changed(i, t)) { Fate::Changed } else { Fate::Missing }
}

/// The nearest words of meaning on both sides of a value: what a bare number counts.
fn noun_beside(tokens: &[Token], i: usize) -> (Option<&str>, Option<&str>) {
    let stem = |t: &Token| t.is_unit();
    let before = tokens[..i].iter().rev().take(6).find(|t| stem(t)).map(|t| t.stem.as_str());
    let after = tokens[i + 1..].iter().take(2).find(|t| stem(t)).map(|t| t.stem.as_str());
    (before, after)
}

/// How many words more than in the constraint may stand in a neighbouring pair.
const SLACK: usize = 3;
