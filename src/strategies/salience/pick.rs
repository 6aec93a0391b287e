//! From the fresh steps of an event to the passages that are kept: extraction by a method, cut off by a variant.

use std::collections::HashMap;

use super::candidates::{Candidate, ItemKind, Rating, Source, candidates, fresh_steps};
use super::extract::{self, Judged, Method, Picked};
use super::goals::Goals;
use super::quotes::Texts;
use super::set::{Conflict, Held, Set};
use crate::context::Content;
use crate::learn::statements::{self, Reading, Statements};
use crate::learn::{Weights, probability};
use crate::strategies::{Env, Fate, Flaw, Item, Scope};

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    /// What lies above the threshold.
    #[default]
    Standard,
    /// What lies above a lower one.
    Conservative,
    /// The best one to three of an event.
    Aggressive,
    /// What is rated at least so many of 1 to 10.
    Ranked,
    /// The best k of an event.
    TopK,
}

/// The best of an event that `aggressive` keeps.
const AGGRESSIVE: usize = 3;
/// By how much `conservative` lowers the threshold, in logits.
const LOWER: f64 = 1.0;

/// The parameters of extraction.
#[derive(Clone, Debug)]
pub(crate) struct Picking {
    pub(crate) method: Method,
    pub(crate) variant: Variant,
    /// In place of the method's own.
    pub(crate) threshold: Option<f64>,
    pub(crate) k: usize,
    pub(crate) min_rating: f64,
    pub(crate) max_rated: usize,
    /// Tokens of an answer that quotes, at most.
    pub(crate) answer_tokens: u32,
    /// How much the learned odds count beside a method that judges.
    pub(crate) prior: f64,
    pub(crate) similarity: f64,
    /// What a model is told of the constraints that hold: see [`limits`].
    pub(crate) limits: String,
    /// Whether what users say is no fact, but a constraint. (reports/hindsight: chosen on other folds in nine of ten.)
    pub(crate) demands: bool,
    /// Items of an event, at most.
    pub(crate) items: usize,
    /// So too of each kind.
    pub(crate) quotas: [usize; ItemKind::ALL.len()],
}

/// What an event gave.
#[derive(Debug, Default)]
pub(crate) struct Extraction {
    pub(crate) picked: Vec<Picked>,
    /// Rows of quotations that stand nowhere.
    pub(crate) not_found: Vec<Item>,
    /// Goals, constraints and decisions by the learned odds, for where another method gives nothing.
    pub(crate) core: Vec<Picked>,
}

/// Refuses what an older version did, and names what took its place.
pub(crate) fn refuse_rules(params: &toml::Table) -> anyhow::Result<()> {
    let is_old = params.get("extract").and_then(toml::Value::as_str) == Some("rules");
    anyhow::ensure!(
        !is_old,
        "`extract = \"rules\"`: a learned rater took the place of the rules\nhint: leave `extract` out, or name `learned`"
    );
    Ok(())
}

/// What was read of the segment that a scope stands in.
pub(crate) fn read<'a>(
    scope: &Scope<'_>,
    learned: &'a mut Option<Statements>,
    weights: &'a Weights,
) -> Reading<'a> {
    let segment = scope.log.turns[scope.turn as usize].segment;
    let statements = learned.get_or_insert_with(|| Statements::of_segment(scope.log, segment));
    Reading { statements, weights }
}

/// Words of the user that lift a ban of the set: "You may email the customers now." after "Do not email the customers."
pub(crate) fn lifted(scope: &Scope<'_>, set: &Set) -> Vec<Held> {
    let said = candidates(scope.log, &fresh_steps(scope)).into_iter().filter(|c| c.source == Source::User);
    let held = said.map(|c| Held::new(c.text.to_owned(), ItemKind::Constraint, c.step, c.bytes, 1.0));
    held.filter(|held| set.is_lifted_by(held)).collect()
}

/// Constraints of the user in messages before the scope, which nothing compresses.
pub(crate) fn standing(scope: &Scope<'_>, learned: &mut Reading<'_>) -> Vec<Held> {
    let head = scope.context.blocks[..scope.blocks.start].iter();
    let steps: Vec<u32> = head
        .filter_map(|block| match block.content {
            Content::Step(step) => Some(step),
            _ => None,
        })
        .collect();
    let mut all = candidates(scope.log, &steps);
    all.retain(|candidate| candidate.source == Source::User);
    let ratings = by_odds(scope, &all, learned);
    let binds = |rating: &Rating| rating.kind == ItemKind::Constraint && rating.score >= LEAST;
    let bound = all.iter().zip(ratings).filter(|(_, rating)| binds(rating));
    bound
        .map(|(c, r)| Held::new(c.text.to_owned(), ItemKind::Constraint, c.step, c.bytes.clone(), r.score))
        .collect()
}

/// Bytes of the constraints that a model is told.
const LIMITS: usize = 300;

/// Constraints that hold, one after the other, of many the newest; "none" of none.
pub(crate) fn limits<'a>(all: impl DoubleEndedIterator<Item = &'a Held>) -> String {
    let holds = |held: &&Held| held.kind == ItemKind::Constraint && held.conflict != Some(Conflict::Earlier);
    let (mut told, mut left) = (Vec::new(), LIMITS);
    for held in all.rev().filter(holds) {
        let line = extract::one_line(&held.text);
        let Some(rest) = left.checked_sub(line.len()) else { break };
        left = rest;
        told.push(line);
    }
    told.reverse();
    if told.is_empty() { "none".to_owned() } else { told.join(" ") }
}

/// From this probability on a statement is kept. (reports/hindsight; from 0.05 on odds are calibrated.)
pub(crate) const LEAST: f64 = 0.05;
/// The same where a method judges alone: above the mean of the event.
const ABOVE_MEAN: f64 = 0.5;

/// Quotas of the core: no facts and no results.
pub(crate) const CORE: [usize; ItemKind::ALL.len()] = [usize::MAX, usize::MAX, usize::MAX, 0, 0];

/// Picks from the fresh turns of a scope.
pub(crate) fn pick(
    scope: &Scope<'_>,
    goals: &Goals,
    picking: &Picking,
    learned: &mut Reading<'_>,
    env: &mut Env<'_>,
) -> anyhow::Result<Extraction> {
    let log = scope.log;
    let steps = fresh_steps(scope);
    let all = candidates(log, &steps);
    let goal = goals.current.as_ref().map_or("", |goal| goal.text.as_str());
    let task = extract::Task { goal, limits: &picking.limits };
    let method = picking.method.resolved(env);
    let mut ratings = by_odds(scope, &all, learned);
    for (candidate, rating) in all.iter().zip(&mut ratings) {
        if goals.is_in_force(candidate.step, &candidate.bytes) {
            (rating.score, rating.kind) = (1.0, ItemKind::Goal);
        } else if goals.stated.iter().any(|goal| goal.stands(candidate.step, &candidate.bytes)) {
            // A goal that was given up is no constraint, whatever its words.
            rating.kind = ItemKind::Goal;
        } else if picking.demands && candidate.source == Source::User && rating.kind == ItemKind::Fact {
            rating.kind = ItemKind::Constraint;
        }
    }
    let own = |picking: &Picking| {
        let judged: Vec<(usize, f64)> =
            ratings.iter().enumerate().map(|(at, rating)| (at, logit(rating.score))).collect();
        kept(&all, &ratings, goals, picking, (&judged, LEAST))
    };
    if method == Method::Learned {
        return Ok(Extraction { picked: own(picking), ..Extraction::default() });
    }
    let core = Picking { variant: Variant::Standard, quotas: CORE, ..picking.clone() };
    let mut extraction = Extraction { core: own(&core), ..Extraction::default() };
    let shortlist = extract::shortlist(&ratings, picking.max_rated);
    let listed: Vec<&Candidate<'_>> = shortlist.iter().map(|&at| &all[at]).collect();
    let quote = |method: Method, mut extraction: Extraction, env: &mut Env<'_>| {
        let texts = steps.iter().map(|&step| (step, log.trajectory.steps[step as usize].text.as_str()));
        let mut texts = Texts::new(texts.collect(), &all);
        let how = (method == Method::QuoteJson, picking.answer_tokens);
        if let Some(quoted) = extract::quote(how, &task, &listed, &mut texts, env)? {
            extraction.not_found = quoted.not_found.into_iter().map(not_found).collect();
            extraction.picked = quoted.picked;
            rank_quotations(&mut extraction.picked, &all, &ratings);
            cut_off(&mut extraction.picked, picking);
        }
        Ok(extraction)
    };
    if method.quotes() {
        return quote(method, extraction, env);
    }
    let judged = match method {
        Method::Prototype => {
            extract::by_prototypes(goal, &listed, env)?.map_or(Judged::Failed, Judged::Scores)
        }
        _ => extract::judge(method, &task, &listed, env)?,
    };
    let scores = match judged {
        Judged::Scores(scores) => scores,
        Judged::Cannot if picking.method == Method::Auto => return quote(Method::Quote, extraction, env),
        _ => {
            if method != Method::Prototype {
                env.work.degenerate.push(Flaw::NoAnswer);
            }
            return Ok(extraction);
        }
    };
    // Standardised scores count as logits: a deviation multiplies the odds by e.
    let sum = |(at, score): (usize, f64)| (at, picking.prior * logit(ratings[at].score) + score);
    let judged: Vec<(usize, f64)> = shortlist.into_iter().zip(scores).map(sum).collect();
    let least = if picking.prior > 0.0 { LEAST } else { ABOVE_MEAN };
    extraction.picked = kept(&all, &ratings, goals, picking, (&judged, least));
    Ok(extraction)
}

/// What a variant keeps of the judged statements (in logits, with the method's threshold), and the goals in force; in order.
fn kept(
    all: &[Candidate<'_>],
    ratings: &[Rating],
    goals: &Goals,
    picking: &Picking,
    (judged, own): (&[(usize, f64)], f64),
) -> Vec<Picked> {
    let mut kept = choose(judged, own, picking, room(all, ratings, picking));
    for goal in (0..all.len()).filter(|&at| goals.is_in_force(all[at].step, &all[at].bytes)) {
        if !kept.iter().any(|(at, _)| *at == goal) {
            kept.push((goal, logit(1.0)));
        }
    }
    kept.sort_by_key(|(at, _)| *at);
    let picked = |(at, score): (usize, f64)| Picked {
        step: all[at].step,
        bytes: all[at].bytes.clone(),
        kind: ratings[at].kind,
        score: probability(score),
        is_repaired: false,
    };
    kept.into_iter().map(picked).collect()
}

fn not_found((text, kind): (String, ItemKind)) -> Item {
    let (source, score, of) = (None, None, None);
    Item { text: text.into(), kind: kind.name(), source, score, fate: Fate::NotFound, of }
}

/// What was learned of statements, as ratings. What was cut otherwise has none, and what a user pasted is a result.
fn by_odds(scope: &Scope<'_>, all: &[Candidate<'_>], learned: &mut Reading<'_>) -> Vec<Rating> {
    let mut steps: Vec<u32> = all.iter().map(|candidate| candidate.step).collect();
    steps.dedup();
    let rated = learned.statements.rate(scope.log, &steps, decision(scope));
    let weights = learned.weights;
    let places: HashMap<(u32, u32), &statements::Rated> =
        rated.iter().map(|rated| ((rated.step, rated.bytes.start), rated)).collect();
    let rating = |candidate: &Candidate<'_>| {
        let rated = places.get(&(candidate.step, candidate.bytes.start));
        let kind = match candidate.source {
            Source::Tool => ItemKind::ToolOutput,
            _ => rated.map_or(ItemKind::Fact, |rated| ItemKind::ALL[weights.kind(rated)]),
        };
        Rating { score: rated.map_or(0.0, |rated| probability(weights.statements.odds(rated))), kind }
    };
    all.iter().map(rating).collect()
}

/// The first step of the fresh turns.
pub(crate) fn since(scope: &Scope<'_>) -> u32 {
    scope.log.turns[scope.fresh as usize].steps.start
}

/// The step of the decision that is about to be made; what was logged before it is known.
pub(crate) fn decision(scope: &Scope<'_>) -> u32 {
    let turn = &scope.log.turns[scope.turn as usize];
    turn.decision.unwrap_or(turn.steps.end)
}

pub(crate) fn logit(p: f64) -> f64 {
    let p = p.clamp(1e-6, 1.0 - 1e-6);
    libm::log(p / (1.0 - p))
}

/// Whether a statement says what none before it said, and its kind has room.
fn room<'a>(
    all: &'a [Candidate<'a>],
    ratings: &'a [Rating],
    picking: &'a Picking,
) -> impl FnMut(usize) -> bool + 'a {
    let (mut seen, mut left) = (Set::default(), picking.quotas);
    move |at| {
        let (c, kind) = (&all[at], ratings[at].kind);
        let left = &mut left[kind as usize];
        if *left == 0 {
            return false;
        }
        let held = Held::new(c.text.to_owned(), kind, c.step, c.bytes.clone(), 0.0);
        let is_new = seen.merge(vec![held], picking.similarity, false).is_empty();
        *left -= usize::from(is_new);
        is_new
    }
}

/// Which of the judged statements a variant keeps; of equal scores the first. What says the same as a better one, or is over
/// the quota of its kind (`fits` says no), does not count. `own`: the method's threshold.
fn choose(
    judged: &[(usize, f64)],
    own: f64,
    picking: &Picking,
    mut fits: impl FnMut(usize) -> bool,
) -> Vec<(usize, f64)> {
    let mut best = judged.to_vec();
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let threshold = logit(picking.threshold.unwrap_or(own));
    let (least, most) = match picking.variant {
        Variant::Standard => (threshold, picking.items),
        Variant::Conservative => (threshold - LOWER, picking.items),
        // One there is, however unlikely.
        Variant::Aggressive => (threshold.min(best.first().map_or(threshold, |best| best.1)), AGGRESSIVE),
        Variant::TopK => (f64::NEG_INFINITY, picking.k),
        // What is as likely as the method's threshold rates between 5 and 6.
        Variant::Ranked => (logit((picking.min_rating - 1.0) / 9.0) + logit(own), picking.items),
    };
    best.into_iter().take_while(|(_, score)| *score >= least).filter(|(at, _)| fits(*at)).take(most).collect()
}

/// Gives quotations the rating of the statement in which they stand.
fn rank_quotations(picked: &mut [Picked], all: &[Candidate<'_>], ratings: &[Rating]) {
    for quote in picked {
        let holds = |c: &Candidate<'_>| c.step == quote.step && c.bytes.end > quote.bytes.start;
        if let Some((_, rating)) = all.iter().zip(ratings).find(|(c, _)| holds(c)) {
            quote.score = rating.score;
            if quote.kind == ItemKind::Fact {
                quote.kind = rating.kind;
            }
        }
    }
}

/// Where quotations are ranked, the best of them.
fn cut_off(picked: &mut Vec<Picked>, picking: &Picking) {
    let most = match picking.variant {
        Variant::Aggressive => AGGRESSIVE,
        Variant::TopK => picking.k,
        Variant::Ranked => {
            let least = logit((picking.min_rating - 1.0) / 9.0) + logit(LEAST);
            picked.retain(|quote| logit(quote.score) >= least);
            return;
        }
        Variant::Standard | Variant::Conservative => return,
    };
    picked.sort_by(|a, b| b.score.total_cmp(&a.score));
    picked.truncate(most);
    picked.sort_by_key(|quote| (quote.step, quote.bytes.start));
}

#[cfg(test)]
mod tests;
