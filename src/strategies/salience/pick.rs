//! From the fresh steps of an event to the passages that are kept: extraction by a method, cut off by a variant.

use std::collections::HashMap;
use std::ops::Range;

use super::candidates::{Candidate, Source, candidates, fresh_steps};
use super::extract::{self, Method, Picked};
use super::goals::Goals;
use super::quotes::Texts;
use super::rules::{self, Around, Features, ItemKind, Rating};
use super::set::{Held, Set};
use crate::context::Content;
use crate::context::log::Log;
use crate::learn::statements::{self, Statements};
use crate::learn::{Weights, probability};
use crate::strategies::{Env, Fate, Item, Scope};

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
    /// How much the rules count beside a method that judges.
    pub(crate) prior: f64,
    pub(crate) similarity: f64,
}

/// What an event gave.
#[derive(Debug, Default)]
pub(crate) struct Extraction {
    pub(crate) picked: Vec<Picked>,
    /// Rows of quotations that stand nowhere.
    pub(crate) not_found: Vec<Item>,
    /// Goals, constraints and decisions by the rules, for where the method gives nothing.
    pub(crate) core: Vec<Picked>,
}

/// Words of the user that lift a ban of the set: "You may email the customers now." after "Do not email the customers."
pub(crate) fn lifted(scope: &Scope<'_>, set: &Set) -> Vec<Held> {
    let said = candidates(scope.log, &fresh_steps(scope)).into_iter().filter(|c| c.source == Source::User);
    let held = said.map(|c| Held::new(c.text.to_owned(), ItemKind::Constraint, c.step, c.bytes, 1.0));
    held.filter(|held| set.is_lifted_by(held)).collect()
}

/// Constraints of the user, by the rules, in messages before the scope, which nothing compresses.
pub(crate) fn standing(scope: &Scope<'_>) -> Vec<Held> {
    let head = scope.context.blocks[..scope.blocks.start].iter();
    let steps: Vec<u32> = head
        .filter_map(|block| match block.content {
            Content::Step(step) => Some(step),
            _ => None,
        })
        .collect();
    let all = candidates(scope.log, &steps);
    let ratings = rules::rate(&all, &Around::default());
    let binds = |rating: &Rating| rating.kind == ItemKind::Constraint && rating.score >= LEAST;
    let bound = all.iter().zip(ratings).filter(|(c, rating)| c.source == Source::User && binds(rating));
    bound
        .map(|(c, r)| Held::new(c.text.to_owned(), ItemKind::Constraint, c.step, c.bytes.clone(), r.score))
        .collect()
}

/// From this probability on a statement is kept.
const LEAST: f64 = 0.3;
/// The same where a method judges alone: above the mean of the event.
const ABOVE_MEAN: f64 = 0.5;
/// The same by learned odds, of which no more than [`MOST_LEARNED`] are kept of an event.
const LEAST_LEARNED: f64 = 0.05;
const MOST_LEARNED: usize = 12;

/// Picks from the fresh turns of a scope.
pub(crate) fn pick(
    scope: &Scope<'_>,
    goals: &Goals,
    picking: &Picking,
    learned: &mut Option<Statements>,
    env: &mut Env<'_>,
) -> anyhow::Result<Extraction> {
    let log = scope.log;
    let steps = fresh_steps(scope);
    let Some(&first) = steps.first() else { return Ok(Extraction::default()) };
    let all = candidates(log, &steps);
    let goal = goals.current.as_ref().map_or("", |goal| goal.text.as_str());
    let until = decision(scope);
    let method = picking.method.resolved(env);
    let mut ratings = match method {
        Method::Learned => by_odds(scope, &all, &steps, learned)?,
        _ => rules::rate(&all, &around(log, goal, first..until)),
    };
    for (candidate, rating) in all.iter().zip(&mut ratings) {
        if goals.is_in_force(candidate.step, &candidate.bytes) {
            (rating.score, rating.kind) = (1.0, ItemKind::Goal);
        } else if goals.stated.iter().any(|goal| goal.stands(candidate.step, &candidate.bytes)) {
            // A goal that was given up is no constraint, whatever its words.
            rating.kind = ItemKind::Goal;
        }
    }
    let mut extraction = Extraction { core: core(&all, &ratings), ..Extraction::default() };
    let judged: Option<Vec<(usize, f64)>> = if method.is_own() {
        Some(ratings.iter().enumerate().map(|(at, rating)| (at, logit(rating.score))).collect())
    } else {
        let shortlist = extract::shortlist(&ratings, picking.max_rated);
        let listed: Vec<&Candidate<'_>> = shortlist.iter().map(|&at| &all[at]).collect();
        if method.quotes() {
            let texts = steps.iter().map(|&step| (step, log.trajectory.steps[step as usize].text.as_str()));
            let mut texts = Texts::new(texts.collect(), &all);
            if let Some(quoted) = extract::quote(method, goal, &listed, &mut texts, env)? {
                let row = |(text, kind): (String, ItemKind)| Item {
                    text: text.into(),
                    kind: kind.name(),
                    source: None,
                    score: None,
                    fate: Fate::NotFound,
                    of: None,
                };
                extraction.not_found = quoted.not_found.into_iter().map(row).collect();
                extraction.picked = quoted.picked;
                rank_quotations(&mut extraction.picked, &all, &ratings);
                cut_off(&mut extraction.picked, picking);
            }
            return Ok(extraction);
        }
        let scores = match method {
            Method::Prototype => extract::by_prototypes(goal, &listed, env)?,
            _ => extract::judge(method, goal, &listed, env)?,
        };
        // Standardised scores count as logits: a deviation multiplies the odds by e.
        let sum = |(at, score): (usize, f64)| (at, picking.prior * logit(ratings[at].score) + score);
        scores.map(|scores| shortlist.iter().copied().zip(scores).map(sum).collect())
    };
    let Some(judged) = judged else { return Ok(extraction) };
    let own = match method {
        Method::Learned => LEAST_LEARNED,
        _ if method == Method::Rules || picking.prior > 0.0 => LEAST,
        _ => ABOVE_MEAN,
    };
    let mut seen = Set::default();
    let is_new = |at: usize| {
        let (c, kind) = (&all[at], ratings[at].kind);
        let held = Held::new(c.text.to_owned(), kind, c.step, c.bytes.clone(), 0.0);
        seen.merge(vec![held], picking.similarity, false).is_empty()
    };
    let most = if method == Method::Learned { MOST_LEARNED } else { usize::MAX };
    let mut kept = choose(&judged, logit(picking.threshold.unwrap_or(own)), picking, most, is_new);
    for goal in (0..all.len()).filter(|&at| goals.is_in_force(all[at].step, &all[at].bytes)) {
        if !kept.iter().any(|(at, _)| *at == goal) {
            kept.push((goal, logit(1.0)));
        }
    }
    kept.sort_by_key(|(at, _)| *at);
    extraction.picked =
        kept.into_iter().map(|(at, score)| of(&all[at], &ratings[at], share(score))).collect();
    Ok(extraction)
}

/// What the rules look at beside the statements of these steps.
fn around(log: &Log, goal: &str, steps: Range<u32>) -> Around {
    let logged = &log.trajectory.steps;
    let agent = steps.filter(|&step| logged[step as usize].is_agent());
    Around::new(goal, agent.map(|step| (step, logged[step as usize].text.as_str())))
}

/// What was learned of statements, as ratings; what was cut otherwise has none.
fn by_odds(
    scope: &Scope<'_>,
    all: &[Candidate<'_>],
    steps: &[u32],
    learned: &mut Option<Statements>,
) -> anyhow::Result<Vec<Rating>> {
    let log = scope.log;
    let segment = log.turns[scope.turn as usize].segment;
    let read = learned.get_or_insert_with(|| Statements::of_segment(log, segment));
    let rated = read.rate(log, steps, decision(scope));
    let weights = Weights::named("")?;
    let places: HashMap<(u32, u32), &statements::Rated> =
        rated.iter().map(|rated| ((rated.step, rated.bytes.start), rated)).collect();
    let rating = |candidate: &Candidate<'_>| {
        let rated = places.get(&(candidate.step, candidate.bytes.start));
        let kind = rated.map_or(ItemKind::Fact, |rated| ItemKind::ALL[weights.kind(rated)]);
        let score = rated.map_or(0.0, |rated| probability(weights.statements.odds(rated)));
        Rating { score, kind, features: Features::default() }
    };
    Ok(all.iter().map(rating).collect())
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

fn of(candidate: &Candidate<'_>, rating: &Rating, score: f64) -> Picked {
    let (step, bytes) = (candidate.step, candidate.bytes.clone());
    Picked { step, bytes, kind: rating.kind, score, is_repaired: false }
}

/// Goals, constraints and decisions that the rules are sure enough of.
fn core(all: &[Candidate<'_>], ratings: &[Rating]) -> Vec<Picked> {
    let in_core = |rating: &Rating| rating.kind <= ItemKind::Decision && rating.score >= LEAST;
    all.iter().zip(ratings).filter(|(_, r)| in_core(r)).map(|(c, r)| of(c, r, r.score)).collect()
}

fn logit(p: f64) -> f64 {
    let p = p.clamp(1e-6, 1.0 - 1e-6);
    libm::log(p / (1.0 - p))
}

fn share(logit: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-logit))
}

/// Which of the judged statements a variant keeps; of equal scores the first. Where their number is fixed, what says the same as
/// a better one (is not new) does not count.
fn choose(
    judged: &[(usize, f64)],
    threshold: f64,
    picking: &Picking,
    most: usize,
    mut is_new: impl FnMut(usize) -> bool,
) -> Vec<(usize, f64)> {
    let mut best = judged.to_vec();
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let above = |best: Vec<(usize, f64)>, least: f64| -> Vec<(usize, f64)> {
        best.into_iter().filter(|(_, score)| *score >= least).collect()
    };
    match picking.variant {
        Variant::Standard | Variant::Conservative if most < best.len() => {
            let least = if picking.variant == Variant::Standard { threshold } else { threshold - LOWER };
            above(best, least).into_iter().filter(|(at, _)| is_new(*at)).take(most).collect()
        }
        Variant::Standard => above(best, threshold),
        Variant::Conservative => above(best, threshold - LOWER),
        Variant::Aggressive => {
            let sure = best.iter().filter(|(_, score)| *score >= threshold).count();
            best.truncate(sure.max(1));
            best.into_iter().filter(|(at, _)| is_new(*at)).take(AGGRESSIVE).collect()
        }
        Variant::TopK => best.into_iter().filter(|(at, _)| is_new(*at)).take(picking.k).collect(),
        Variant::Ranked => {
            best.into_iter().filter(|(_, score)| 1.0 + 9.0 * share(*score) >= picking.min_rating).collect()
        }
    }
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
            picked.retain(|quote| 1.0 + 9.0 * quote.score >= picking.min_rating);
            return;
        }
        Variant::Standard | Variant::Conservative => return,
    };
    picked.sort_by(|a, b| b.score.total_cmp(&a.score));
    picked.truncate(most);
    picked.sort_by_key(|quote| (quote.step, quote.bytes.start));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picking(variant: Variant) -> Picking {
        Picking {
            method: Method::Rules,
            variant,
            threshold: None,
            k: 2,
            min_rating: 6.0,
            max_rated: 9,
            prior: 1.0,
            similarity: 0.85,
        }
    }

    #[test]
    fn variants_cut_off_in_their_own_ways() {
        let judged = [(0, 0.2), (1, -0.5), (2, 1.5), (3, 0.2), (4, -3.0), (5, 0.9)];
        let kept = |variant| -> Vec<usize> {
            choose(&judged, 0.0, &picking(variant), usize::MAX, |_| true)
                .into_iter()
                .map(|(at, _)| at)
                .collect()
        };
        assert_eq!(kept(Variant::Standard), [2, 5, 0, 3]);
        assert_eq!(kept(Variant::Conservative), [2, 5, 0, 3, 1]);
        assert_eq!(kept(Variant::Aggressive), [2, 5, 0]);
        assert_eq!(kept(Variant::TopK), [2, 5]);
        // Ratings 8.4, 7.4, 5.95 (twice), 4.4, 1.4.
        assert_eq!(kept(Variant::Ranked), [2, 5]);
        let none = choose(&[(0, -2.0), (1, -3.0)], 0.0, &picking(Variant::Aggressive), usize::MAX, |_| true);
        assert_eq!(none, [(0, -2.0)]);
        assert!(choose(&[], 0.0, &picking(Variant::Aggressive), usize::MAX, |_| true).is_empty());
        // Where 5 says what 2 says, it does not count.
        let others = |variant| choose(&judged, 0.0, &picking(variant), usize::MAX, |at| at != 5);
        assert_eq!(others(Variant::TopK), [(2, 1.5), (0, 0.2)]);
        assert_eq!(others(Variant::Aggressive), [(2, 1.5), (0, 0.2), (3, 0.2)]);
        assert_eq!(others(Variant::Standard).len(), 4);
    }

    #[test]
    fn quotations_are_ranked_by_where_they_stand() {
        let quote = |step: u32, score: f64| Picked {
            step,
            bytes: 0..9,
            kind: ItemKind::Fact,
            score,
            is_repaired: false,
        };
        let kept = |variant| -> Vec<u32> {
            let mut picked = vec![quote(1, 0.2), quote(2, 0.5), quote(3, 0.6), quote(4, 0.9)];
            cut_off(&mut picked, &picking(variant));
            picked.into_iter().map(|quote| quote.step).collect()
        };
        assert_eq!(kept(Variant::Standard), [1, 2, 3, 4]);
        assert_eq!(kept(Variant::Conservative), [1, 2, 3, 4]);
        assert_eq!(kept(Variant::Aggressive), [2, 3, 4]);
        assert_eq!(kept(Variant::TopK), [3, 4]);
        // Ratings 2.8, 5.5, 6.4, 9.1.
        assert_eq!(kept(Variant::Ranked), [3, 4]);
    }

    /// Of forty rules of the user no more than twelve are kept, as they stand, and the goal.
    #[test]
    fn learned_odds_keep_no_more_than_twelve() {
        use crate::strategies::tests::run;
        let things = ["crane", "ledger", "tide", "cargo", "rope", "bolt", "lamp", "quay"];
        let rule =
            |n: usize| format!("The {}_{n} must never exceed {n}00 kg in port_{n}.py.~", things[n % 8]);
        let rules: String = (1..=40).map(rule).collect();
        let idle = "\naction: date\nobservation: morning".repeat(4);
        let log = Log::script(&format!("user: mend it\nagent: well\nuser: {rules}{idle}\nagent: so"));
        let params = "extract = 'learned'\nvariant = 'conservative'\nkeep_last = 0";
        let run = run(("salience", params), ("turns", "n = 4"), &log);
        let items = &run.events[0].work.items;
        let kept = items.iter().filter(|item| item.fate.is_kept()).count();
        assert!((12..=13).contains(&kept), "{kept} of {}", items.len());
        let stands = |item: &Item| log.trajectory.steps.iter().any(|step| step.text.contains(&*item.text));
        assert!(items.iter().all(stands), "{items:?}");
    }
}
