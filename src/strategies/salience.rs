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

use crate::context::Edit;
use crate::learn::Weights;
use crate::learn::statements::Statements;
use crate::params::params;
use crate::strategies::writer::check_tokens;
use crate::strategies::{Entry, Env, Fate, Item, Scope, Strategy, put};

mod candidates;
pub(super) mod extract;
pub(super) mod goals;
pub(super) mod pick;
mod quotes;
mod rest;
pub(super) mod set;
mod tasks;

pub(super) use candidates::{ItemKind, fresh_steps};
pub(super) use extract::{Method, Picked};
pub(super) use rest::{Background, Rest};

use goals::Origin;
use pick::{Picking, Variant};
use rest::background_prompt;
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

/// From so many items on, an event is flagged: a set that keeps nearly all is no set.
const MANY: usize = 50;
/// Stands behind a quotation that was cut. In the text of an item it goes beyond the bytes of its source.
const CUT: &str = " …";
/// Characters of the goal that are shown.
const MAX_GOAL: usize = 300;

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
        /// Tokens of an answer that quotes, at most.
        answer_tokens: u32 = 500 (at least 16),
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
        /// The model that says what matters, by name; empty: the variant's, which then writes and judges.
        extraction_model: String = "",
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
                "answer_tokens",
                self.answer_tokens != default.answer_tokens,
                quotes || self.extract == Method::Auto,
                "where a model quotes",
            ),
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
                "extraction_model",
                !self.extraction_model.is_empty(),
                !is_own || self.goals == Origin::Model,
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
            answer_tokens: self.answer_tokens,
            prior: self.prior,
            similarity: self.similarity,
            limits: String::new(),
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
            env.extracting(|env| memory.goals.judge(log, until, env))?;
        }
        let mut learned = pick::read(scope, &mut memory.learned, &self.weights);
        let goals = memory.goals.before(log, self.params.goals, pick::since(scope), until, &mut learned);
        if memory.standing.is_none() {
            memory.standing = Some(pick::standing(scope, &mut learned));
        }
        let standing = memory.standing.iter().flatten();
        let limits = pick::limits(standing.chain(&memory.set.items));
        let picking = Picking { limits, ..self.params.picking() };
        let mut extraction = env.extracting(|env| pick::pick(scope, &goals, &picking, &mut learned, env))?;
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
        self.params.extraction_model.is_empty()
            && (self.params.extract.needs_model() || self.params.goals == Origin::Model)
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
pub(super) mod tests;
