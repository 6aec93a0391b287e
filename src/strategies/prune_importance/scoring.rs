//! How important a message is, from 1 to 10: by odds that were learned from labels, by a list of rules, or by a model.
//!
//! By the learned odds a message is worth what its best statement is: 5.5 where that is as likely to matter as what `salience` keeps.
//! Rules are data: a start, a bonus for length, and patterns that add or take. The seed (selective-memory) has them
//! in code; its own are `seed_exact.toml`. A model is asked for a digit after a few examples, and the expected digit
//! counts, not the likeliest (small models know few digits). Some models rate everything high and others everything
//! low, so that ratings are drawn along a line on which fixed fillers rate [`LOW_MARK`] and fixed facts [`HIGH_MARK`]
//! on average. Where a model does not answer a message rates 5, as in the seed, and that is flagged.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::{RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;

use crate::context::log::Log;
use crate::learn::statements::{Reading, Statements};
use crate::learn::{Weights, probability};
use crate::models::prompt::{Data, Prompt, Var};
use crate::models::{Answer, Call, Outcome, labels};
use crate::params;
use crate::strategies::salience::extract::cannot;
use crate::strategies::salience::{fresh_steps, pick};
use crate::strategies::{Env, Flaw, Scope};
use crate::trajectory::{Kind, Role};

/// What a message rates of which nothing is known.
const UNKNOWN: f64 = 5.0;
const LEAST: f64 = 1.0;
const MOST: f64 = 10.0;

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Who {
    User,
    Agent,
    Tool,
}

impl Who {
    pub(crate) fn of(log: &Log, step: u32) -> Self {
        let step = &log.trajectory.steps[step as usize];
        match (step.kind, step.role) {
            (_, Role::Agent) => Who::Agent,
            (Kind::Message | Kind::Observation, Role::User) => Who::User,
            // A tool, or the harness.
            _ => Who::Tool,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::User => "user",
            Who::Agent => "agent",
            Who::Tool => "tool",
        }
    }
}

/// What the score of a pair (a user message and the reply), or of a turn, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pair {
    /// That of its least important message: the seed's rule.
    Least,
    /// That of its most important one.
    Most,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    start: i32,
    longer_than_words: usize,
    longer_adds: i32,
    pair: Pair,
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// What a message that the pattern is found in gains.
    add: i32,
    /// A regular expression, whatever the case.
    pattern: String,
    /// Whose messages it is looked for in; all, if absent.
    only: Option<Vec<Who>>,
}

/// The lists that come with the program.
const BUILT_IN: [(&str, &str); 2] =
    [("seed-exact", include_str!("seed_exact.toml")), ("support", include_str!("support.toml"))];

/// The name of the learned odds among those of lists.
const LEARNED: &str = "learned";

/// What rates where no model does.
pub(crate) enum Rater {
    Learned(Arc<Weights>),
    Rules(Rules),
}

/// A list of rules, ready to be used.
pub(crate) struct Rules {
    file: File,
    patterns: RegexSet,
}

impl Rater {
    /// The learned odds, a list by its name, or `PATH#HASH` for a file of one's own, whose hash makes it part of what a variant
    /// is known by.
    ///
    /// # Errors
    /// An unknown name; a file that cannot be read, has another hash, or is no list of rules.
    pub(crate) fn named(name: &str) -> anyhow::Result<Self> {
        if name == LEARNED {
            return Ok(Rater::Learned(Weights::named("")?));
        }
        anyhow::ensure!(
            name != "coding",
            "`rules = \"coding\"`: learned odds took the place of that list\nhint: leave `rules` out, or name `{LEARNED}`"
        );
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Ok(Rater::Rules(Rules::parse(name, text)?));
        }
        let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).chain([LEARNED]).collect();
        let (path, text) = params::own_file("rules", name, &format!("name one of {}, or", known.join(", ")))?;
        Ok(Rater::Rules(Rules::parse(path, &text)?))
    }

    pub(crate) fn pair(&self) -> Pair {
        match self {
            // Most messages beside one that matters do not.
            Rater::Learned(_) => Pair::Most,
            Rater::Rules(rules) => rules.file.pair,
        }
    }
}

impl Rules {
    fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text).map_err(|error| anyhow::anyhow!("rules `{name}`: {error}"))?;
        for (rule, number) in file.rule.iter().zip(1..) {
            let pattern = &rule.pattern;
            let built = RegexBuilder::new(pattern).case_insensitive(true).build();
            built.map_err(|error| {
                anyhow::anyhow!("rules `{name}`, rule {number}, pattern `{pattern}`: {error}")
            })?;
            anyhow::ensure!(
                rule.only.as_ref().is_none_or(|only| !only.is_empty()),
                "rules `{name}`, rule {number}: `only` names nobody\nhint: leave it out, and the rule is for all"
            );
        }
        let patterns = RegexSetBuilder::new(file.rule.iter().map(|rule| &rule.pattern))
            .case_insensitive(true)
            .build()
            .map_err(|error| anyhow::anyhow!("rules `{name}`: {error}"))?;
        Ok(Rules { file, patterns })
    }

    /// The rating of a message.
    pub(crate) fn rate(&self, who: Who, text: &str) -> f64 {
        let found = self.patterns.matches(text);
        let adds = found.iter().map(|at| &self.file.rule[at]);
        let adds = adds.filter(|rule| rule.only.as_ref().is_none_or(|only| only.contains(&who)));
        let mut score = f64::from(self.file.start) + adds.map(|rule| f64::from(rule.add)).sum::<f64>();
        let longer = self.file.longer_than_words;
        if text.split_whitespace().take(longer.saturating_add(1)).count() > longer {
            score += f64::from(self.file.longer_adds);
        }
        score.clamp(LEAST, MOST)
    }
}

/// Who rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// The variant's model, if it has one.
    #[default]
    Auto,
    Rules,
    Model,
}

/// Ratings of messages: each is rated once.
#[derive(Default)]
pub(crate) struct Ratings {
    by_step: BTreeMap<u32, f64>,
    /// What the learned odds have read.
    learned: Option<Statements>,
    /// What the fixed fillers and facts rate under the model, once it has been asked.
    marks: Option<(f64, f64)>,
}

impl Ratings {
    pub(crate) fn of(&self, step: u32) -> f64 {
        self.by_step.get(&step).copied().unwrap_or(UNKNOWN)
    }

    /// The rating of a message that goes.
    pub(crate) fn remove(&mut self, step: u32) -> f64 {
        self.by_step.remove(&step).unwrap_or(UNKNOWN)
    }
}

/// Rates the messages that are not rated yet.
///
/// # Errors
/// A model is asked for where there is none, or it answers nothing any more.
pub(crate) fn rate(
    rater: &Rater,
    by: By,
    scope: &Scope<'_>,
    ratings: &mut Ratings,
    env: &mut Env<'_>,
) -> anyhow::Result<()> {
    let (log, steps) = (scope.log, fresh_steps(scope));
    let text = |step: u32| log.trajectory.steps[step as usize].text.as_str();
    let new: Vec<u32> = steps.iter().copied().filter(|step| !ratings.by_step.contains_key(step)).collect();
    if by == By::Rules || (by == By::Auto && env.model.is_none()) {
        match rater {
            Rater::Learned(weights) => {
                let mut read = pick::read(scope, &mut ratings.learned, weights);
                ratings.by_step.extend(by_odds(&new, pick::decision(scope), log, &mut read));
            }
            Rater::Rules(rules) => {
                let rated = new.iter().map(|&step| (step, rules.rate(Who::of(log, step), text(step))));
                ratings.by_step.extend(rated);
            }
        }
        return Ok(());
    }
    let messages: Vec<(Who, &str)> = new.iter().map(|&step| (Who::of(log, step), text(step))).collect();
    let rated = by_model(&messages, &mut ratings.marks, env)?;
    ratings.by_step.extend(new.into_iter().zip(rated));
    Ok(())
}

/// What the likeliest statement of each of these messages makes it worth; the least where it has none, as a call.
fn by_odds(steps: &[u32], until: u32, log: &Log, read: &mut Reading<'_>) -> BTreeMap<u32, f64> {
    let mut rated: BTreeMap<u32, f64> = steps.iter().map(|&step| (step, LEAST)).collect();
    for one in read.statements.rate(log, steps, until) {
        let likely = probability(read.weights.statements.odds(&one) - pick::logit(pick::LEAST));
        let rating = rated.entry(one.step).or_insert(LEAST);
        *rating = rating.max(LEAST + (MOST - LEAST) * likely);
    }
    rated
}

const RATE: &str = include_str!("rate.txt");
/// What a digit and the words before it take.
const DIGIT_TOKENS: u32 = 8;
/// A message in a prompt is at most so long, in characters: the first two thirds of that and its end.
const MAX_CHARS: usize = 600;
/// What the fillers and the facts among the fixed messages rate on average.
const LOW_MARK: f64 = 2.0;
const HIGH_MARK: f64 = 8.0;

/// Messages that are rated with those of the first event: fillers, then facts.
const FILLERS: [(Who, &str); 3] = [
    (Who::User, "Great, thank you so much!"),
    (Who::Agent, "Sure, one moment please."),
    (Who::Tool, "connection accepted, queue empty"),
];
const FACTS: [(Who, &str); 3] = [
    (Who::User, "The total must stay below 3,000 euros."),
    (Who::Tool, "The nightly dump lies in /srv/dumps/orders.sql.gz."),
    (Who::Agent, "We cache at the proxy, since the database cannot take the load."),
];

fn by_model(
    messages: &[(Who, &str)],
    marks: &mut Option<(f64, f64)>,
    env: &mut Env<'_>,
) -> anyhow::Result<Vec<f64>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let fixed: Vec<(Who, &str)> = match marks {
        Some(_) => Vec::new(),
        None => FILLERS.into_iter().chain(FACTS).collect(),
    };
    let continuations: Vec<String> = labels::DIGITS.iter().map(|digit| format!(" {digit}")).collect();
    let mut calls = Vec::with_capacity(messages.len() + fixed.len());
    for &(who, text) in fixed.iter().chain(messages) {
        let message = shortened(text);
        let vars = [("source", Var::ours(who.name())), ("message", Data::bare(&message).into())];
        let prompt = Prompt::render(RATE, &vars)?;
        calls.push(Call::Score { prompt, continuations: continuations.clone() });
    }
    let mut outcomes = env.ask(&calls)?;
    if cannot(&outcomes) {
        // A server without likelihoods writes the digit.
        let written = |call: Call| match call {
            Call::Score { prompt, .. } => {
                let stop = vec!["\n".to_owned()];
                Call::Generate { prompt, max_tokens: DIGIT_TOKENS, grammar: None, stop, sampling: None }
            }
            other => other,
        };
        outcomes = env.ask(&calls.into_iter().map(written).collect::<Vec<_>>())?;
    }
    let ratings: Vec<Option<f64>> = outcomes.iter().map(expected).collect();
    if ratings.iter().any(Option::is_none) {
        env.work.degenerate.push(Flaw::NoAnswer);
        env.work.fallback = Some("rating 5");
    }
    let (fixed, ratings) = ratings.split_at(fixed.len());
    if marks.is_none() {
        let mean = |marks: &[Option<f64>]| {
            let known: Option<Vec<f64>> = marks.iter().copied().collect();
            known.map(|known| known.iter().sum::<f64>() / known.len() as f64)
        };
        // Asked again at the next event if one of them was not answered.
        *marks = mean(&fixed[..FILLERS.len()]).zip(mean(&fixed[FILLERS.len()..]));
    }
    let rating = |rating: f64| marks.map_or(rating, |(low, high)| drawn(rating, low, high));
    Ok(ratings.iter().map(|known| known.map_or(UNKNOWN, rating)).collect())
}

/// A rating on the line on which `low` is [`LOW_MARK`] and `high` is [`HIGH_MARK`]; itself where there is no such line.
fn drawn(rating: f64, low: f64, high: f64) -> f64 {
    let rating = match high - low > 1e-6 {
        true => LOW_MARK + (rating - low) * (HIGH_MARK - LOW_MARK) / (high - low),
        false => rating,
    };
    rating.clamp(LEAST, MOST)
}

/// One more than the expected digit, or than the one that was written.
fn expected(outcome: &Outcome) -> Option<f64> {
    let scores = match outcome {
        Ok(Answer::Scores(scores)) => scores,
        Ok(Answer::Text(text)) => {
            let mut numbers = text.text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
            return numbers.next()?.parse::<f64>().ok().map(|digit| 1.0 + digit.min(9.0));
        }
        _ => return None,
    };
    let sums: Vec<f64> =
        scores.continuations.iter().map(|tokens| tokens.iter().map(|token| token.logprob).sum()).collect();
    let shares = labels::normalise(&sums);
    Some(1.0 + shares.iter().enumerate().map(|(digit, share)| digit as f64 * share).sum::<f64>())
}

/// A message on one line, without its middle where it is long.
fn shortened(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let n = line.chars().count();
    if n <= MAX_CHARS {
        return line;
    }
    let at = |chars: usize| line.char_indices().nth(chars).map_or(line.len(), |(at, _)| at);
    format!("{} ... {}", &line[..at(MAX_CHARS * 2 / 3)], &line[at(n - MAX_CHARS / 3)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str) -> Rules {
        match Rater::named(name).unwrap() {
            Rater::Rules(rules) => rules,
            Rater::Learned(_) => panic!("{name} is no list"),
        }
    }

    fn of(name: &str, who: Who, text: &str) -> f64 {
        listed(name).rate(who, text)
    }

    /// Worked out with the seed's own function.
    #[test]
    fn the_seeds_rules_are_the_seeds() {
        for (text, rating) in [
            ("Thanks!", 3.0),
            ("OK", 3.0),
            ("ok\n", 3.0),
            ("OK, sure", 5.0),
            ("Sure, go ahead", 5.0),
            ("Hmm, let me think", 3.0),
            ("My account ID is ABC123", 7.0),
            ("I'm getting error code 500", 7.0),
            ("I need this resolved by Friday", 5.0),
            ("The deadline is urgent: ticket #42 has an error with my password and my email", 10.0),
            ("History of the hidden types", 3.0),
            ("1. Open the door", 7.0),
            ("", 5.0),
        ] {
            assert_eq!(of("seed-exact", Who::User, text), rating, "{text}");
        }
        assert_eq!(of("seed-exact", Who::User, &"word ".repeat(31)), 6.0);
        assert_eq!(of("seed-exact", Who::User, &"word ".repeat(30)), 5.0);
    }

    #[test]
    fn support_mends_what_the_seed_gets_wrong() {
        let user = |text: &str| of("support", Who::User, text);
        for filler in ["Thanks!", "OK", "OK, sure", "Sure, go ahead", "Hmm, let me think", "Hello there!"] {
            assert!(user(filler) <= 2.0, "{filler}: {}", user(filler));
        }
        for fact in
            ["My account ID is ABC123", "I'm getting error code 500", "I need this resolved by Friday"]
        {
            assert!(user(fact) >= 7.0, "{fact}: {}", user(fact));
        }
        assert!(user("The history of the hidden types") == 5.0);
        assert!(of("support", Who::Agent, "What is your account number?") < 5.0);
    }

    /// A sentence behind a filler is none, an answer in a word holds what was asked, and what a filler follows stays a fact.
    #[test]
    fn what_begins_or_ends_like_a_filler_need_not_be_one() {
        let user = |text: &str| of("support", Who::User, text);
        for (text, least) in [
            ("Yes, delete everything", 7.0),
            ("No, use PayPal", 7.0),
            ("OK, move it to the Berlin queue", 5.0),
            ("Great, but the invoice is wrong", 6.0),
            ("Hi, my parcel is lost and my card blocked", 5.0),
            ("Fine, then cancel the order", 6.0),
            ("My ID is X77", 7.0),
            ("My phone number is 555-0199", 7.0),
            ("My account ID is ABC123, one moment", 7.0),
            ("Please finish it by June 12", 7.0),
            ("Please finish it by this Friday", 7.0),
            ("It is due Friday", 7.0),
            ("by EOD", 7.0),
        ] {
            assert!(user(text) >= least, "{text}: {}", user(text));
        }
        // Counts of things are no numbers of theirs.
        assert_eq!((user("My order arrived 3 days late"), user("In that case I have 2 cats")), (5.0, 5.0));
        assert!(user("Yes") < user("Yes, delete everything"));
    }

    #[test]
    fn a_list_of_huge_numbers_does_not_overflow() {
        let text = "start = 2147483647\nlonger_than_words = 0\nlonger_adds = 2147483647\npair = \"most\"\nrule = [{ add = 2147483647, pattern = \"moon\" }]";
        assert_eq!(Rules::parse("mine", text).unwrap().rate(Who::User, "moon"), 10.0);
    }

    /// Of what a user says a task is worth more than thanks, and a call alone is worth nothing.
    #[test]
    fn learned_odds_tell_tasks_from_thanks() {
        let log = Log::script(
            "user: Please implement `export --once` in src/export.py so that each row of the table is written once.
            agent: Gladly.
            user: Thanks!
            action: ls src
            observation: export.py
            agent: so",
        );
        let (mut statements, weights) = (Statements::default(), Weights::named("").unwrap());
        let mut read = Reading { statements: &mut statements, weights: &weights };
        let rated = by_odds(&[0, 2, 3], 5, &log, &mut read);
        assert!(rated[&0] > rated[&2] + 2.0 && rated[&3] == LEAST, "{rated:?}");
        let error = Rater::named("coding").err().unwrap().to_string();
        assert!(error.contains("learned odds took the place of that list"), "{error}");
    }

    #[test]
    fn a_file_of_ones_own_is_named_with_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        let text = "start = 4\nlonger_than_words = 9\nlonger_adds = 0\npair = \"most\"\nrule = [{ add = 3, pattern = \"moon\" }]";
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let error = Rater::named(path).err().unwrap().to_string();
        let named = error.split('"').nth(1).unwrap().to_owned();
        let rules = listed(&named);
        assert_eq!((rules.rate(Who::Tool, "the MOON"), rules.rate(Who::Tool, "sun")), (7.0, 4.0));
        std::fs::write(path, text.replace("moon", "sun")).unwrap();
        assert!(Rater::named(&named).is_err());
        let wrong = |text: &str| Rules::parse("mine", text).err().unwrap().to_string();
        assert!(wrong(&text.replace("start", "begin")).contains("begin"));
        assert!(wrong(&text.replace("moon", "(")).contains("`mine`, rule 1, pattern `(`"));
        assert!(wrong(&text.replace("\"moon\"", "\"moon\", only = []")).contains("names nobody"));
        assert!(Rater::named("suport").err().unwrap().to_string().contains("support"));
    }

    #[test]
    fn model_ratings_are_drawn_along_a_line() {
        assert_eq!(drawn(4.0, 4.0, 6.0), 2.0);
        assert_eq!(drawn(6.0, 4.0, 6.0), 8.0);
        assert_eq!(drawn(5.0, 4.0, 6.0), 5.0);
        assert_eq!(drawn(9.0, 4.0, 6.0), 10.0);
        assert_eq!(drawn(9.0, 6.0, 4.0), 9.0);
        assert_eq!(shortened("a\n b"), "a b");
        let long = shortened(&"é".repeat(10_000));
        assert!(long.chars().count() == MAX_CHARS + 5 && long.contains(" ... "));
    }
}
