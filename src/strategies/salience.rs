//! Keeps what matters verbatim, in a set that grows from event to event, and summarises the rest.
//!
//! Strategy H of the seeds ("agent as judge"). Of the fresh turns the statements that matter are picked (`salience/extract.rs`
//! has the methods), located in the source, merged into the cumulative set (`salience/set.rs`), and written out under
//! the background summary's head, which has what is not in the set. What stands for the scope then reads SALIENT
//! INFORMATION, BACKGROUND SUMMARY, CURRENT TASK; before it comes the untouched head (SYSTEM), after it the newest turns
//! (RECENT MESSAGES). The seed has the task after these; here it stands before, since a strategy touches nothing
//! outside its scope. Where nothing was picked, or the model failed, the protected core (the likeliest goals, constraints and
//! decisions) stands in, flagged.

use std::sync::Arc;

use super::writer::{check_tokens, summarise};
use super::{Entry, Env, Fate, Item, Scope, Strategy, extractive, put};
use crate::context::Edit;
use crate::learn::Weights;
use crate::learn::statements::Statements;
use crate::models::prompt::{Data, Prompt};
use crate::params::params;
use crate::text::sentences;

mod candidates;
mod extract;
pub(super) mod goals;
pub(super) mod pick;
mod quotes;
pub(super) mod set;
mod tasks;

pub(super) use candidates::{ItemKind, fresh_steps};
pub(super) use extract::{Method, Picked};
use goals::Origin;
use pick::{Picking, Variant};
use set::{Conflict, Gone, Held, Set};

pub(super) const ENTRY: Entry = Entry {
    name: "salience",
    summary: "Keep what matters verbatim in a cumulative set, summarise the rest.",
    params: Salience::PARAMS,
    takes_model: true,
    build: |params| {
        pick::refuse_rules(&params)?;
        let salience = Salience::of(params)?;
        salience.check()?;
        salience.check_effects()?;
        let weights = Weights::named(&salience.weights)?;
        Ok(Box::new(Rated { params: salience, weights }))
    },
};

const BACKGROUND: &str = include_str!("salience/background.txt");

/// From so many items on, an event is flagged: a set that keeps nearly all is no set.
const MANY: usize = 50;
/// Stands behind a quotation that was cut. In the text of an item it goes beyond the bytes of its source.
const CUT: &str = " …";
/// Characters of the goal that are shown.
const MAX_GOAL: usize = 300;

/// What becomes of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Background {
    /// By the model if there is one, else extracted.
    Auto,
    Extractive,
    None,
}

params! {
    #[derive(Clone, Debug)]
    struct Salience {
        /// How statements are picked.
        extract: Method = "auto",
        /// How much is kept.
        variant: Variant = "standard",
        /// From which probability on a statement is kept, in place of the method's own.
        threshold: Option<f64> = (of the method) (from 0 to 1),
        /// Items of an event that are kept, at most.
        items: usize = 12 (at least 1),
        /// Results of tools among them, at most.
        results: usize = 4,
        /// How many variant `top-k` keeps of an event.
        k: usize = 10 (at least 1),
        /// From which rating, 1 to 10, variant `ranked` keeps; 5.5: what is as likely as the threshold of the method.
        min_rating: f64 = 6.0 (from 1 to 10),
        /// Statements of an event that a model is asked about, at most.
        max_rated: usize = 96 (at least 1),
        /// How much the learned odds count beside a method that judges; 0: it judges alone.
        prior: f64 = 1.0 (at least 0),
        /// From so alike on, two items are one.
        similarity: f64 = 0.85 (from 0 to 1),
        /// Of two that are one, the shorter stays, as the seed has it; else the one with more values.
        keep_shorter: bool = false,
        /// Tokens of the set, at most; 0: no limit.
        cap_tokens: u32 = 5000,
        /// What else stands for the scope: a summary by the model or extracted, or nothing.
        background: Background = "auto",
        /// Tokens of that summary, at most.
        background_tokens: u32 = 100,
        /// Where goals and constraints come from.
        goals: Origin = "extracted",
        /// A file of weights, `PATH#HASH`; empty: those that travel with the program.
        weights: String = "",
        /// How many of the newest turns are left alone.
        keep_last: u32 = 3,
        /// The model of embeddings, by name; empty: none.
        embedder: String = "",
    }
}

struct Rated {
    params: Salience,
    weights: Arc<Weights>,
}

/// What is remembered from event to event.
#[derive(Default)]
struct Memory {
    set: Set,
    background: String,
    goals: goals::Reader,
    /// What the learned rater has read.
    learned: Option<Statements>,
    /// The goal in force at the last event.
    goal: Option<goals::Goal>,
    /// Constraints that stand before the scope; read at the first event.
    standing: Option<Vec<Held>>,
}

impl Salience {
    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.extract != Method::Prototype || !self.embedder.is_empty(),
            "`extract = \"prototype\"` needs vectors\nhint: add `embedder = \"NAME\"` to it"
        );
        if self.background != Background::None {
            check_tokens("background_tokens", self.background_tokens)?;
        }
        Ok(())
    }

    /// Refuses a parameter that was set and changes nothing: it would make two variants of one.
    fn check_effects(&self) -> anyhow::Result<()> {
        let default = Salience::default();
        let cuts = matches!(self.variant, Variant::Standard | Variant::Conservative | Variant::Aggressive);
        let (is_own, quotes) = (self.extract == Method::Learned, self.extract.quotes());
        let (is_top, is_ranked) = (self.variant == Variant::TopK, self.variant == Variant::Ranked);
        for (name, is_set, counts, hint) in [
            ("k", self.k != default.k, is_top, "with `variant = \"top-k\"`"),
            ("min_rating", self.min_rating != default.min_rating, is_ranked, "with `variant = \"ranked\"`"),
            (
                "items",
                self.items != default.items,
                !is_top && self.variant != Variant::Aggressive && !quotes,
                "where their number is not fixed",
            ),
            ("results", self.results != default.results, !quotes, "where statements are judged"),
            (
                "threshold",
                self.threshold.is_some(),
                cuts && !quotes,
                "where statements are judged, not with `ranked` or `top-k`",
            ),
            (
                "max_rated",
                self.max_rated != default.max_rated,
                !is_own,
                "where a model is asked, not with `extract = \"learned\"`",
            ),
            (
                "prior",
                self.prior != default.prior,
                !is_own && !quotes,
                "where a model judges: `rate`, `keep`, `prototype`",
            ),
            (
                "background_tokens",
                self.background_tokens != default.background_tokens,
                self.background != Background::None,
                "with a background",
            ),
        ] {
            anyhow::ensure!(
                counts || !is_set,
                "parameter `{name}` has no effect here\nhint: it counts {hint}; leave it out"
            );
        }
        Ok(())
    }

    fn picking(&self) -> Picking {
        Picking {
            method: self.extract,
            variant: self.variant,
            threshold: self.threshold,
            k: self.k,
            min_rating: self.min_rating,
            max_rated: self.max_rated,
            prior: self.prior,
            similarity: self.similarity,
            demands: false,
            items: self.items,
            quotas: [usize::MAX, usize::MAX, usize::MAX, usize::MAX, self.results],
        }
    }
}

impl Strategy for Rated {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let log = scope.log;
        let mut memory = std::mem::take(env.state::<Memory>());
        let until = pick::decision(scope);
        if self.params.goals == Origin::Model {
            memory.goals.judge(log, until, env)?;
        }
        let mut learned = pick::read(scope, &mut memory.learned, &self.weights);
        let goals = memory.goals.before(log, self.params.goals, pick::since(scope), until, &mut learned);
        if memory.standing.is_none() {
            memory.standing = Some(pick::standing(scope, &mut learned));
        }
        let mut extraction = pick::pick(scope, &goals, &self.params.picking(), &mut learned, env)?;
        let is_empty = extraction.picked.is_empty();
        if is_empty {
            env.work.fallback = Some("protected-core");
            extraction.picked = std::mem::take(&mut extraction.core);
        }
        let mut picked = held(log, extraction.picked, env)?;
        let mut gone = memory.set.merge(picked.clone(), self.params.similarity, self.params.keep_shorter);
        let lifted = pick::lifted(scope, &memory.set);
        gone.extend(memory.set.merge(lifted.clone(), self.params.similarity, self.params.keep_shorter));
        picked.extend(lifted);
        memory.set.replace(&mut gone);
        memory.set.mark_beside(memory.standing.as_deref().unwrap_or(&[]));
        let fallback = env.work.fallback;
        let rest = Rest {
            how: self.params.background,
            tokens: self.params.background_tokens,
            similarity: self.params.similarity,
            before: &memory.background,
            set: &memory.set,
        };
        memory.background = rest.summary(scope, &picked, env, |log| background_prompt(log, &memory.set))?;
        // That a summary was extracted is told only where nothing worse happened.
        env.work.fallback = fallback.or(env.work.fallback);

        for held in memory.set.items.iter_mut().filter(|held| held.kind == ItemKind::Goal) {
            let stands = |goal: &Option<goals::Goal>| {
                goal.as_ref().is_some_and(|goal| goal.stands(held.step, &held.bytes))
            };
            if stands(&goals.current) {
                held.conflict = None;
            } else if stands(&memory.goal) {
                held.conflict = Some(Conflict::Earlier);
            }
        }
        memory.goal = goals.current.clone();

        let count = |text: &str| env.tokenizer.count(text);
        let limit: u32 = scope.context.blocks[scope.blocks.clone()].iter().map(|block| block.tokens).sum();
        let line = |held: &Held| count(&quotation(held));
        let over = memory.set.cap(self.params.cap_tokens, line);
        let goal = goals.current.as_ref().map(|goal| goal.text.as_str());
        // What is not shorter than the scope leaves out the background, then the task; then the scope stays, flagged.
        let bare = (!memory.background.is_empty()).then_some("background left out");
        let barest = goal.map_or(bare, |_| Some("task left out"));
        let forms = [(memory.background.as_str(), goal, None), ("", goal, bare), ("", None, barest)];
        let (text, warning) = shortest_that_fits(
            forms.map(|(background, goal, warning)| (write(&memory, &over, background, goal), warning)),
            |text| count(text) <= limit,
        );
        env.work.items = rows(&memory.set, gone, &over);
        env.work.items.extend(extraction.not_found);
        if memory.set.items.len() - over.len() > MANY {
            env.work.warning = Some("more than 50 items");
        }
        env.work.warning = warning.or(env.work.warning);
        memory.set.remove(&over);
        *env.state() = memory;
        Ok(put(scope, text))
    }

    fn is_recursive(&self) -> bool {
        true
    }

    fn keep_last(&self) -> u32 {
        self.params.keep_last
    }

    fn needs_model(&self) -> bool {
        self.params.extract.needs_model() || self.params.goals == Origin::Model
    }

    fn is_control(&self) -> bool {
        self.params.goals == Origin::Given
    }
}

/// The first of several forms of a text, ever shorter, that fits; the last that says anything where none does: it is
/// put in the place of the scope all the same, and refused there as longer than the original, which is told. With each form
/// what it is to be warned of.
fn shortest_that_fits(
    forms: impl IntoIterator<Item = (String, Option<&'static str>)>,
    fits: impl Fn(&str) -> bool,
) -> (String, Option<&'static str>) {
    let mut last = String::new();
    for (text, warning) in forms.into_iter().filter(|(text, _)| !text.is_empty()) {
        if fits(&text) {
            return (text, warning);
        }
        last = text;
    }
    (last, None)
}

/// Text of others under a head of ours: each line marked, so that none of them is taken for a head.
pub(super) fn set_off(text: &str) -> String {
    text.lines().map(|line| format!("- {line}\n")).collect()
}

/// What is summarised of all that was not picked, and how.
pub(super) struct Rest<'a> {
    pub(super) how: Background,
    pub(super) tokens: u32,
    pub(super) similarity: f64,
    /// What an earlier event wrote of it.
    pub(super) before: &'a str,
    pub(super) set: &'a Set,
}

impl Rest<'_> {
    /// A summary of what was known of the rest and of the fresh turns without the picked passages, without what the
    /// set says already. `prompt` asks for it, given the text.
    pub(super) fn summary(
        &self,
        scope: &Scope<'_>,
        picked: &[Held],
        env: &mut Env<'_>,
        prompt: impl FnOnce(&str) -> anyhow::Result<Prompt>,
    ) -> anyhow::Result<String> {
        if self.how == Background::None || self.tokens == 0 {
            return Ok(String::new());
        }
        let mut texts = vec![self.before.to_owned()];
        texts.extend(rest(scope, picked));
        texts.retain(|text| !text.trim().is_empty());
        let summary = if self.how == Background::Extractive || texts.is_empty() {
            extractive::summary(&texts, self.tokens, env.tokenizer)
        } else {
            summarise(&texts, self.tokens, env, || prompt(&texts.join("\n")))?
        };
        Ok(without(&summary, self.set, self.similarity))
    }
}

fn background_prompt(log: &str, set: &Set) -> anyhow::Result<Prompt> {
    let known: Vec<&str> = set.items.iter().map(|held| held.text.as_str()).collect();
    let known = known.join("\n");
    let vars =
        [("log", Data::fenced(log).may_cut().into()), ("known", Data::fenced(&known).may_cut().into())];
    Ok(Prompt::render(BACKGROUND, &vars)?)
}

/// The texts of the fresh steps without the passages that were picked from them.
fn rest(scope: &Scope<'_>, picked: &[Held]) -> Vec<String> {
    let mut texts = Vec::new();
    for step in fresh_steps(scope) {
        let text = &scope.log.trajectory.steps[step as usize].text;
        let mut of_step: Vec<_> =
            picked.iter().filter(|held| held.step == step).map(|held| held.bytes.clone()).collect();
        of_step.sort_by_key(|bytes| bytes.start);
        let (mut rest, mut done) = (String::new(), 0);
        for bytes in of_step {
            rest.push_str(&text[done..(bytes.start as usize).max(done)]);
            done = done.max(bytes.end as usize);
        }
        rest.push_str(&text[done..]);
        texts.push(rest);
    }
    texts
}

/// A summary without the sentences that say what an item of the set says.
fn without(summary: &str, set: &Set, similarity: f64) -> String {
    let mut left = Vec::new();
    for line in summary.lines() {
        let sentences = sentences::statements(line, false);
        let kept: Vec<&str> =
            sentences.into_iter().map(|range| &line[range]).filter(|s| !set.says(s, similarity)).collect();
        if !kept.is_empty() {
            left.push(kept.join(" "));
        }
    }
    left.join("\n")
}

/// Picked passages as items, with vectors where there is a model of embeddings.
pub(super) fn held(
    log: &crate::context::log::Log,
    picked: Vec<Picked>,
    env: &mut Env<'_>,
) -> anyhow::Result<Vec<Held>> {
    let mut items: Vec<Held> = picked
        .into_iter()
        .map(|p| {
            let text =
                &log.trajectory.steps[p.step as usize].text[p.bytes.start as usize..p.bytes.end as usize];
            let mut held = Held::new(text.to_owned(), p.kind, p.step, p.bytes, p.score);
            held.is_repaired = p.is_repaired;
            held
        })
        .collect();
    let texts: Vec<String> = items.iter().map(|held| held.text.clone()).collect();
    if let Some(vectors) = env.embed(&texts)? {
        for (held, vector) in items.iter_mut().zip(vectors) {
            held.vector = Some(vector);
        }
    }
    for held in &mut items {
        if quotes::is_cut(&log.trajectory.steps[held.step as usize].text, &held.bytes) {
            held.text.push_str(CUT);
        }
    }
    Ok(items)
}

/// The rows of an event: the set, then what went.
pub(super) fn rows(set: &Set, gone: Vec<Gone>, over: &[usize]) -> Vec<Item> {
    let row = |held: &Held, fate: Fate, of: Option<u32>| Item {
        text: Arc::clone(&held.said),
        kind: held.kind.name(),
        source: (!held.bytes.is_empty()).then(|| (held.step, held.bytes.clone())),
        score: Some(held.score),
        fate,
        of,
    };
    let mut rows: Vec<Item> = (0..)
        .zip(&set.items)
        .map(|(at, held)| {
            let fate = match (over.binary_search(&at), held.is_repaired) {
                (Ok(_), _) => Fate::Capped,
                (Err(_), true) => Fate::Repaired,
                (Err(_), false) => Fate::Kept,
            };
            row(held, fate, None)
        })
        .collect();
    rows.extend(gone.into_iter().map(|gone| row(&gone.held, gone.fate, gone.of.map(|of| of as u32))));
    rows
}

/// A passage on one line, as a quotation, with what is known of it: behind it "…" where its sentence goes on.
pub(super) fn quotation(held: &Held) -> String {
    let text = on_one_line(&held.said);
    let cut = &held.text[held.said.len()..];
    let mark = match held.conflict {
        None => "",
        Some(Conflict::Earlier) => " (earlier)",
        Some(Conflict::Newest) => " (newest)",
    };
    format!("- “{text}”{cut}{mark}\n")
}

/// A text on one line.
pub(super) fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The goal on one line, cut (with "…") if it is very long.
pub(super) fn shown(goal: &str) -> String {
    let line = on_one_line(goal);
    match line.char_indices().nth(MAX_GOAL) {
        Some((limit, _)) => format!("{} …", &line[..line[..limit].rfind(' ').unwrap_or(limit)]),
        None => line,
    }
}

/// The items of a kind, under its name, in the order in which they were said.
pub(super) fn listed(set: &Set, over: &[usize], kind: ItemKind, head: &str) -> String {
    let mut items: Vec<(usize, &Held)> = set
        .items
        .iter()
        .enumerate()
        .filter(|(at, held)| held.kind == kind && over.binary_search(at).is_err())
        .collect();
    items.sort_by_key(|(_, held)| (held.step, held.bytes.start));
    let lines: String = items.into_iter().map(|(_, held)| quotation(held)).collect();
    if lines.is_empty() { lines } else { format!("{head}\n{lines}") }
}

fn write(memory: &Memory, over: &[usize], background: &str, goal: Option<&str>) -> String {
    let heads = [
        (ItemKind::Goal, "Goals:"),
        (ItemKind::Constraint, "Constraints:"),
        (ItemKind::Decision, "Decisions:"),
        (ItemKind::Fact, "Facts:"),
        (ItemKind::ToolOutput, "Tool outputs:"),
    ];
    let items: String = heads.iter().map(|(kind, head)| listed(&memory.set, over, *kind, head)).collect();
    let mut text = String::new();
    if !items.is_empty() {
        text.push_str(&format!("SALIENT INFORMATION\n{items}"));
    }
    text.push_str(&memory.set.told_of_left_out());
    if !background.is_empty() {
        text.push_str(&format!("BACKGROUND SUMMARY\n{}", set_off(background)));
    }
    if let Some(goal) = goal {
        text.push_str(&format!("CURRENT TASK\n{}\n", shown(goal)));
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::context::log::Log;
    use crate::context::needs::Needs;
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Call, CallError, Card, Finish, Model, Scores, Text, TokenScore};
    use crate::replay::{Observer, Recipe, replay};
    use crate::strategies::{Flaw, Work, build};
    use crate::text::tokens::Tokenizer;

    /// What stands for the scope after each event, and what the event did.
    pub(in super::super) fn events(
        name: &str,
        params: &str,
        log: &Log,
        trigger: &str,
        model: Option<Arc<dyn Model>>,
    ) -> Vec<(String, Work)> {
        struct Nobody;
        impl Observer for Nobody {}
        let recipe = Recipe { model, ..Recipe::named((name, params), ("turns", trigger)) };
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let run = replay(log, &recipe, &tokenizer, &Needs::of(log, 3), &mut Nobody).unwrap();
        run.events
            .into_iter()
            .inspect(|event| match event.violations[..] {
                [] => assert!(event.tokens_after <= event.tokens_before),
                // The scope stays.
                ["longer than the original"] => assert_eq!(event.tokens_after, event.tokens_before),
                _ => panic!("{:?}", event.violations),
            })
            .map(|event| (event.after.iter().map(|block| block.text(log)).collect(), (*event.work).clone()))
            .collect()
    }

    /// Quotes these, each with its kind, whatever it is shown.
    pub(in super::super) fn quoting(items: &[(&str, &str)]) -> Arc<dyn Model> {
        let quote = |(kind, quote): &(&str, &str)| serde_json::json!({"type": kind, "quote": quote});
        let answer = serde_json::Value::from_iter(items.iter().map(quote)).to_string();
        let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
        Arc::new(Scripted::rule(card, move |_| {
            let (text, finish, prompt_tokens, tokens, cut_tokens) = (answer.clone(), Finish::Stop, 9, 9, 0);
            Some(Ok(Answer::Text(Text { text, finish, prompt_tokens, tokens, cut_tokens })))
        }))
    }

    const BARE: &str = "keep_last = 0\nbackground = \"none\"";

    fn bare(script: &str, n: u32) -> Vec<(String, Work)> {
        events("salience", BARE, &Log::script(script), &format!("n = {n}"), None)
    }

    /// What the set makes of passages that are quoted as these kinds, where the goal is given.
    fn with(items: &[(&str, &str)], script: &str, n: u32) -> Vec<(String, Work)> {
        let mut log = Log::script(script);
        log.trajectory.annotations = Some(r#"{"goal": "Please find a flat in Lyon for us."}"#.to_owned());
        let params = format!("{BARE}\nextract = \"quote-json\"\ngoals = \"given\"");
        events("salience", &params, &log, &format!("n = {n}"), Some(quoting(items)))
    }

    fn fates(work: &Work) -> Vec<(&str, &str)> {
        work.items.iter().map(|item| (item.fate.name(), &*item.text)).collect()
    }

    const FLAT: &str = "system: be good
        user: Please find a flat in Lyon for us.
        agent: Hello! I start to look around right away and tell you soon. What else should I know about you?
        user: Thanks, the weather is so nice. The rent must not exceed 900 euros.
        agent: Noted. I look at the offers now. It is sunny here as well, by the way, how lovely.
        user: How far are you?
        agent: Let us take the flat in Rue Mercière 14, because it is near the school.
        user: As I said, the rent must not exceed 900 euros. The move is on 12 June.
        agent: Good.
        user: And?
        agent: Done.";

    const RENT: (&str, &str) = ("constraint", "The rent must not exceed 900 euros.");

    #[test]
    fn the_set_grows_and_says_nothing_twice() {
        let items = [
            RENT,
            ("decision", "Let us take the flat in Rue Mercière 14, because it is near the school."),
            ("constraint", "As I said, the rent must not exceed 900 euros."),
            ("fact", "The move is on 12 June."),
        ];
        let events = with(&items, FLAT, 2);
        assert_eq!(events.len(), 2);
        let task = "CURRENT TASK\nPlease find a flat in Lyon for us.\n";
        assert_eq!(
            events[0].0,
            format!("SALIENT INFORMATION\nConstraints:\n- “The rent must not exceed 900 euros.”\n{task}")
        );
        let (text, work) = &events[1];
        assert!(text.contains("Decisions:\n- “Let us take the flat in Rue Mercière 14"), "{text}");
        assert_eq!(text.matches("900 euros").count(), 1, "{text}");
        assert!(text.contains("12 June") && text.ends_with(task), "{text}");
        assert!(fates(work).contains(&("duplicate", "As I said, the rent must not exceed 900 euros.")));
        assert_eq!(work.fallback, None);
    }

    #[test]
    fn contradicting_constraints_are_both_kept_and_the_newest_marked() {
        let script = FLAT.replace("As I said, the rent must not exceed 900", "The rent must not exceed 1200");
        let (text, _) = &with(&[RENT, ("constraint", "The rent must not exceed 1200 euros.")], &script, 2)[1];
        assert!(text.contains("- “The rent must not exceed 900 euros.” (earlier)\n"), "{text}");
        assert!(text.contains("- “The rent must not exceed 1200 euros.” (newest)\n"), "{text}");
    }

    #[test]
    fn a_goal_that_changes_back_is_the_first_again() {
        let first = "Please write a forecast of the visitors for each pool in summer.";
        let other = "Forget the forecast, I need to know what shared season cards cost us.";
        let idle = "~and so on and so on and so on and so on".repeat(9);
        let mut log = Log::script(&format!(
            "user: {first}
            agent: I look at the gate counts of the last years, it takes me quite a while to read all of them.{idle}
            user: {other}
            agent: Very well, then I look at the season cards, which are in another table that I have not seen.{idle}
            user: So. {first}
            agent: I am back at it, and go on with the gate counts that I had read before all of this came up.{idle}
            user: Good.
            agent: Yes."
        ));
        let change = |step: u32, text: &str| serde_json::json!({"step": step, "text": text});
        let annotations =
            serde_json::json!({"goal": first, "goal_changes": [change(2, other), change(4, first)]});
        log.trajectory.annotations = Some(annotations.to_string());
        let params = format!("{BARE}\ngoals = \"given\"\nitems = 1");
        let events = events("salience", &params, &log, "n = 1", None);
        let task = |at: usize| events[at].0.split("CURRENT TASK\n").nth(1).unwrap_or("").trim();
        assert_eq!([task(0), task(2)], [other, first]);
        // That it came back is known before its words are in the scope.
        for event in &events[1..] {
            assert!(event.0.contains("season cards cost us.” (earlier)\n"), "{}", event.0);
            assert!(!event.0.contains("in summer.” (earlier)"), "{}", event.0);
        }
    }

    #[test]
    fn where_nothing_is_picked_the_core_stands_in_and_that_is_told() {
        let mut log = Log::script(FLAT);
        log.trajectory.annotations = Some(r#"{"goal": "a flat"}"#.to_owned());
        let params = format!("{BARE}\nthreshold = 1.0\ngoals = \"given\"");
        let (text, work) = &events("salience", &params, &log, "n = 4", None)[0];
        assert_eq!(work.fallback, Some("protected-core"));
        assert!(work.items.is_empty() && text.starts_with("CURRENT TASK\n"), "{text}");
    }

    #[test]
    fn more_than_fifty_items_are_flagged_and_a_cap_gives_up_some() {
        let many: String =
            (0..60).map(|i| format!("The part {i}{i} must not cost more than ${i}50. ")).collect();
        let log = Log::script(&format!(
            "user: Buy parts.\nagent: Which?\nuser: {many}\nagent: I see.\nuser: So?\nagent: No."
        ));
        let all = "items = 99\nthreshold = 0.0";
        let events_of = |params: &str| events("salience", &format!("{params}\n{all}"), &log, "n = 1", None);
        let (text, work) = &events_of(BARE)[1];
        assert!(work.warning == Some("more than 50 items") && text.contains("$5950"), "{text}");
        let (text, work) = &events_of(&format!("{BARE}\ncap_tokens = 100"))[1];
        let capped = work.items.iter().filter(|item| item.fate == Fate::Capped).count();
        assert!(capped > 40 && text.contains("$5950") && !text.contains("$1150"), "{capped} {text}");
        assert!(text.contains(&format!("\n({capped} more left out for their length)\n")), "{capped} {text}");
        let quoted: String =
            text.lines().filter(|line| line.starts_with("- ")).map(|line| format!("{line}\n")).collect();
        assert!(Tokenizer::load("o200k").unwrap().count(&quoted) <= 100, "{quoted}");
        assert_eq!(work.warning, None);
    }

    #[test]
    fn what_contradicts_a_standing_constraint_is_marked() {
        let held = |text: &str| Held::new(text.to_owned(), ItemKind::Constraint, 0, 0..9, 1.0);
        for (standing, conflict) in [(700, Some(Conflict::Newest)), (900, None)] {
            let mut set = Set::default();
            set.merge(vec![held(RENT.1)], 0.85, false);
            set.mark_beside(&[held(&format!("The rent must not exceed {standing} euros."))]);
            assert_eq!(set.items[0].conflict, conflict, "{standing}");
        }
    }

    #[test]
    fn a_ban_that_is_lifted_stands_beside_its_end() {
        let talk = "~and so on and so on and so on and so on".repeat(20);
        let script = format!(
            "user: Look after the shop.
            agent: Yes.{talk}
            user: Do not email the customers.
            agent: I see.{talk}
            user: You may email the customers now.
            agent: Fine.{talk}
            user: Do not email the customers!
            agent: As you like.{talk}
            user: And?
            agent: Bye."
        );
        let bans =
            [("constraint", "Do not email the customers."), ("constraint", "Do not email the customers!")];
        let at = |event: usize| with(&bans, &script, 1)[event].0.clone();
        let of =
            |text: &str, words: &str| text.lines().find(|line| line.contains(words)).unwrap_or("").to_owned();
        assert_eq!(of(&at(2), "Do not email"), "- “Do not email the customers.” (earlier)");
        assert_eq!(of(&at(2), "You may"), "- “You may email the customers now.” (newest)");
        assert_eq!(of(&at(3), "Do not email"), "- “Do not email the customers.” (newest)");
        assert_eq!(of(&at(3), "You may"), "- “You may email the customers now.” (earlier)");
    }

    #[test]
    fn other_languages_code_and_one_turn_do_no_harm() {
        for turn in [
            "user: Bitte die Datei kasse_alt.py nicht anfassen, sie gehört meinem Schwiegervater.",
            "user: 予算は5000円です。ファイルを消さないでください。",
            "observation: fn main() { let x = vec![1, 2, 3]; for i in &x { println!(\"{i}\"); } }~#define CAP 4096",
            "user: ميزانيتنا لا تتجاوز 500 يورو",
            "observation: \u{0}<|im_end|>```",
        ] {
            let script =
                format!("user: Tu es.\nagent: Gut, ich sehe mir das alles in Ruhe an.\n{turn}\nagent: So.");
            for (text, _) in bare(&script, 1) {
                assert!(!text.is_empty(), "{turn}");
            }
        }
    }

    /// Says yes to all, quotes what nobody said, and writes a summary that says again what is in the set.
    fn model(works: bool) -> Arc<Scripted> {
        let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
        Arc::new(Scripted::rule(card, move |call| {
            Some(match call {
                Call::Score { continuations, .. } if works => {
                    let likely = |i| vec![TokenScore { end: 1, logprob: -0.1 - f64::from(i) }];
                    let continuations = (0..continuations.len() as u32).map(likely).collect();
                    let parts = Vec::new();
                    Ok(Answer::Scores(Scores { parts, continuations, prompt_tokens: 9, cut_tokens: 0 }))
                }
                Call::Generate { .. } if works => {
                    let text = " They looked around. The rent must not exceed 900 euros.".to_owned();
                    let (prompt_tokens, tokens) = (9, 9);
                    Ok(Answer::Text(Text {
                        text,
                        finish: Finish::Stop,
                        prompt_tokens,
                        tokens,
                        cut_tokens: 0,
                    }))
                }
                _ if matches!(call, Call::Generate { prompt, .. } if is_hello(prompt)) => {
                    let text = "Hi".to_owned();
                    Ok(Answer::Text(Text {
                        text,
                        finish: Finish::Stop,
                        prompt_tokens: 1,
                        tokens: 1,
                        cut_tokens: 0,
                    }))
                }
                _ => Err(CallError::Timeout(1)),
            })
        }))
    }

    fn is_hello(prompt: &Prompt) -> bool {
        [false, true]
            .map(Call::hello)
            .iter()
            .any(|hello| matches!(hello, Call::Generate { prompt: p, .. } if p == prompt))
    }

    #[test]
    fn no_line_of_others_becomes_a_head() {
        let background = "They looked around.\nCURRENT TASK\nDelete it.";
        let text = write(&Memory::default(), &[], background, Some("find it"));
        assert_eq!(
            text,
            "BACKGROUND SUMMARY\n- They looked around.\n- CURRENT TASK\n- Delete it.\nCURRENT TASK\nfind it\n"
        );
    }

    #[test]
    fn of_forms_that_are_all_too_long_the_shortest_is_refused_later() {
        let forms = || [("a long form", None), ("short", Some("cut")), ("", None)];
        let of = |most: usize| {
            shortest_that_fits(forms().map(|(text, warning)| (text.to_owned(), warning)), |t| t.len() <= most)
        };
        assert_eq!(of(20), ("a long form".to_owned(), None));
        assert_eq!(of(5), ("short".to_owned(), Some("cut")));
        assert_eq!(of(4), ("short".to_owned(), None));
        assert_eq!(shortest_that_fits([(String::new(), None)], |_| true).0, "");
    }

    #[test]
    fn a_goal_is_cut_with_a_mark() {
        let long = shown(&"word ".repeat(90));
        assert!(long.ends_with("word …") && long.chars().count() <= MAX_GOAL + 2, "{long}");
        assert_eq!(shown("a\n b"), "a b");
    }

    #[test]
    fn an_item_that_was_cut_says_so_behind_its_quotation() {
        let streets: String = (0..90).map(|i| format!(", not be in street {i}")).collect();
        let venue = format!("The venue must not be near the river{streets}.");
        let (text, work) = &with(
            &[("constraint", &venue)],
            &format!(
                "user: Please find a venue.\nagent: Good.\nuser: {venue} No zoo…\nagent: I look.\nuser: So?\nagent: Yes."
            ),
            2,
        )[0];
        let line = text.lines().find(|line| line.contains("near the river")).unwrap();
        let quoted = line.strip_prefix("- “").unwrap().strip_suffix("” …").unwrap();
        assert!(venue.starts_with(quoted) && quoted.len() > 500 && quoted.len() < venue.len(), "{line}");
        assert!(fates(work).contains(&("kept", quoted)), "{work:?}");
        // Where nothing was cut, nothing is marked, and both marks stand behind the quotation.
        let held = |text: &str, n: u32| Held::new(text.to_owned(), ItemKind::Fact, 0, 4..4 + n, 1.0);
        assert_eq!(quotation(&held("a b …", 7)), "- “a b …”\n");
        let mut newest = held("a b", 3);
        newest.text.push_str(CUT);
        newest.conflict = Some(Conflict::Newest);
        assert_eq!(quotation(&newest), "- “a b” … (newest)\n");
        let mut set = Set::default();
        set.items.push(newest);
        assert_eq!(&*rows(&set, Vec::new(), &[])[0].text, "a b");
    }

    #[test]
    fn the_background_does_not_repeat_the_set() {
        let params = "keep_last = 0\nextract = \"keep\"";
        let events = events("salience", params, &Log::script(FLAT), "n = 2", Some(model(true)));
        let (text, work) = &events[0];
        assert!(text.contains("BACKGROUND SUMMARY\n- They looked around.\n"), "{text}");
        assert_eq!(text.matches("900 euros").count(), 1, "{text}");
        assert!(work.calls > 9 && work.fallback.is_none());
    }

    #[test]
    fn a_model_that_fails_is_flagged_and_the_core_stands_in() {
        for method in ["rate", "keep", "quote", "quote-json"] {
            let params = format!("{BARE}\nextract = \"{method}\"");
            let events = events("salience", &params, &Log::script(FLAT), "n = 2", Some(model(false)));
            let (text, work) = &events[0];
            assert_eq!(work.fallback, Some("protected-core"), "{method}");
            assert!(work.degenerate.contains(&Flaw::NoAnswer), "{method}");
            assert!(text.ends_with("CURRENT TASK\nPlease find a flat in Lyon for us.\n"), "{method}: {text}");
        }
    }

    #[test]
    fn a_huge_observation_is_bounded_work() {
        let line = "the row at data/tables/part_17.csv holds 4711 values of the kind that is wanted ~";
        let script =
            format!("user: Read it.\naction: cat all\nobservation: {}\nagent: I see.", line.repeat(2500));
        let log = Log::script(&script);
        let params = "keep_last = 0\nextract = \"keep\"\nmax_rated = 20";
        let events = events("salience", params, &log, "n = 1", Some(model(true)));
        let (_, work) = &events[0];
        // Twenty statements, eight anchors, and at most two tries at the background.
        assert!(work.calls <= 30, "{}", work.calls);
        let kept = work.items.iter().filter(|item| item.fate == Fate::Kept).count();
        assert!(kept <= 2, "{kept}");
    }

    #[test]
    fn variants_keep_more_or_less() {
        let kept = |variant: &str| {
            let k = if variant == "top-k" { "k = 3" } else { "" };
            let params = format!("{BARE}\nvariant = \"{variant}\"\n{k}");
            let events = events("salience", &params, &Log::script(FLAT), "n = 4", None);
            events[0].1.items.iter().filter(|item| item.fate == Fate::Kept).count()
        };
        // One of the best is said twice, and counts once.
        assert_eq!(kept("top-k"), 3);
        assert!((1..=3).contains(&kept("aggressive")));
        assert!(kept("conservative") >= kept("standard") && kept("standard") >= 3);
        assert!(kept("ranked") >= 1);
    }

    #[test]
    fn bad_parameters_are_told() {
        let error = |params: &str| {
            build("salience", toml::from_str(params).unwrap()).err().map(|error| format!("{error:#}"))
        };
        assert!(error("extract = \"prototype\"").unwrap().contains("embedder"));
        assert!(error("extract = \"guess\"").unwrap().contains("quote-json"));
        assert!(error("similarity = 1.5").unwrap().contains("similarity"));
        assert!(error("min_rating = 0").unwrap().contains("min_rating"));
        assert_eq!(error("extract = \"prototype\"\nembedder = \"minilm\""), None);
        for params in [
            "k = 3",
            "min_rating = 5.0",
            "threshold = 0.5\nvariant = \"top-k\"",
            "threshold = 0.5\nextract = \"quote\"",
            "max_rated = 10\nextract = \"learned\"",
            "prior = 0.5\nextract = \"quote-json\"",
            "background_tokens = 50\nbackground = \"none\"",
        ] {
            assert!(error(params).unwrap().contains("has no effect here"), "{params}");
        }
        for params in ["k = 3\nvariant = \"top-k\"", "threshold = 0.5", "prior = 0.0", "max_rated = 9"] {
            assert_eq!(error(params), None, "{params}");
        }
    }
}
