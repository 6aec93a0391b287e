//! Keeps by a schema: original goal, current goal, hard constraints, and decisions with their reasons; the rest is
//! summarised.
//!
//! Strategy F of the seeds. The core is never compressed again: it is written out anew at each event, the first goal and
//! the current one included. Goal and constraints are extracted from the log with the methods of `salience`; with `source =
//! "model"` a model says which later messages change the goal. With `source = "given"` they are those of the annotations,
//! all that bind and no others: a control, which repeats what it is scored on. Decisions are always extracted. What was extracted has at most
//! `cap_tokens` tokens, as in `salience`: beyond them decisions go before constraints, of a kind what was said the longest ago, and the text
//! says how many went. Of `key=value` the later value replaces the earlier one. Where the scope has no room for all
//! of it the summary is shortened, then long goals are cut; what even then does not fit leaves the scope as it is. Each of
//! these is told by a warning, and so is a log without the annotations that were asked for.

use std::sync::Arc;

use super::salience::goals::{Goal, Goals, Origin, Reader};
use super::salience::pick::{self, Picking, Variant};
use super::salience::set::{Held, Set};
use super::salience::{
    Background, ItemKind, Method, Picked, Rest, held, listed, on_one_line, quotation, rows, set_off, shown,
};
use super::writer::check_tokens;
use super::{Entry, Env, Scope, Strategy, extractive, put};
use crate::context::Edit;
use crate::context::annotations::Constraint;
use crate::context::log::Log;
use crate::learn::Weights;
use crate::learn::statements::Statements;
use crate::models::prompt::{Data, Prompt};
use crate::params::params;
use crate::text::sentences::MAX_CHARS;
use crate::text::tokens::Tokenizer;

pub(super) const ENTRY: Entry = Entry {
    name: "protected-core",
    summary: "Keep goals, constraints and decisions verbatim, summarise the rest.",
    params: ProtectedCore::PARAMS,
    takes_model: true,
    build: |params| {
        pick::refuse_rules(&params)?;
        let core = ProtectedCore::of(params)?;
        anyhow::ensure!(
            core.extract != Method::Prototype || !core.embedder.is_empty(),
            "`extract = \"prototype\"` needs vectors\nhint: add `embedder = \"NAME\"` to it"
        );
        core.check_effects()?;
        let weights = Weights::named(&core.weights)?;
        Ok(Box::new(Rated { params: core, weights }))
    },
};

const TEMPLATE: &str = include_str!("protected_core.txt");

params! {
    #[derive(Clone, Debug)]
    pub(super) struct ProtectedCore {
        /// Where goals and constraints come from.
        source: Origin = "extracted",
        /// How statements are picked.
        extract: Method = "auto",
        /// From which probability on a statement is kept.
        threshold: f64 = 0.05 (from 0 to 1),
        /// Items of an event that are kept, at most.
        items: usize = 12 (at least 1),
        /// Statements of an event that a model is asked about, at most.
        max_rated: usize = 96 (at least 1),
        /// Tokens of an answer that quotes, at most.
        answer_tokens: u32 = 500 (at least 16),
        /// From so alike on, two items are one.
        similarity: f64 = 0.85 (from 0 to 1),
        /// Tokens of what was extracted, at most; 0: no limit.
        cap_tokens: u32 = 5000,
        /// What else stands for the scope: a summary by the model or extracted, or nothing.
        background: Background = "auto",
        /// Tokens of that summary, at most.
        background_tokens: u32 = 200,
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
    params: ProtectedCore,
    weights: Arc<Weights>,
}

impl ProtectedCore {
    /// Refuses a parameter that was set and changes nothing, as `salience` does, and a summary too short for any text.
    fn check_effects(&self) -> anyhow::Result<()> {
        let default = ProtectedCore::default();
        let has_background = self.background != Background::None;
        for (name, is_set, counts, hint) in [
            (
                "threshold",
                self.threshold != default.threshold,
                !self.extract.quotes(),
                "where statements are judged, not quoted",
            ),
            (
                "items",
                self.items != default.items,
                !self.extract.quotes(),
                "where statements are judged, not quoted",
            ),
            (
                "answer_tokens",
                self.answer_tokens != default.answer_tokens,
                self.extract.quotes() || self.extract == Method::Auto,
                "where a model quotes",
            ),
            (
                "max_rated",
                self.max_rated != default.max_rated,
                self.extract != Method::Learned,
                "where a model is asked, not with `extract = \"learned\"`",
            ),
            (
                "extraction_model",
                !self.extraction_model.is_empty(),
                self.extract != Method::Learned || self.source == Origin::Model,
                "where a model is asked, not with `extract = \"learned\"`",
            ),
            (
                "background_tokens",
                self.background_tokens != default.background_tokens,
                has_background,
                "with a background",
            ),
        ] {
            anyhow::ensure!(
                counts || !is_set,
                "parameter `{name}` has no effect here\nhint: it counts {hint}; leave it out"
            );
        }
        if has_background {
            check_tokens("background_tokens", self.background_tokens).map_err(|error| {
                anyhow::anyhow!("{error}; `background = \"none\"` leaves the summary out")
            })?;
        }
        Ok(())
    }
}

/// What is remembered from event to event.
#[derive(Default)]
struct Memory {
    set: Set,
    summary: String,
    goals: Reader,
    /// What the learned rater has read.
    learned: Option<Statements>,
}

impl Rated {
    fn picking(&self, limits: String) -> Picking {
        Picking {
            method: self.params.extract,
            variant: Variant::Standard,
            threshold: Some(self.params.threshold),
            k: 0,
            min_rating: 0.0,
            max_rated: self.params.max_rated,
            answer_tokens: self.params.answer_tokens,
            prior: 1.0,
            similarity: self.params.similarity,
            limits,
            demands: true,
            items: self.params.items,
            quotas: pick::CORE,
        }
    }
}

impl Strategy for Rated {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let log = scope.log;
        let until = pick::decision(scope);
        let mut memory = std::mem::take(env.state::<Memory>());
        if self.params.source == Origin::Model {
            env.extracting(|env| memory.goals.judge(log, until, env))?;
        }
        let mut learned = pick::read(scope, &mut memory.learned, &self.weights);
        let goals = memory.goals.before(log, self.params.source, pick::since(scope), until, &mut learned);
        let known = memory.goals.annotations(log);
        let annotated = known.map_or(&[][..], |known| &known.constraints);
        let knows_constraints = known.is_some_and(|known| known.knows_constraints);
        let knows_nothing = !knows_constraints && known.is_none_or(|known| known.goals.is_empty());
        let is_given = self.params.source == Origin::Given;
        let missing = (is_given && knows_nothing).then_some("no annotations");
        let in_force = annotated.iter().filter(|c| c.step < until && c.until.is_none_or(|u| u >= until));
        let given: Vec<Held> = in_force.filter(|_| is_given).map(|c| as_held(log, c)).collect();
        let picking = self.picking(pick::limits(memory.set.items.iter().chain(&given)));
        let (method, extraction) = env.extracting(|env| {
            (picking.method.resolved(env), pick::pick(scope, &goals, &picking, &mut learned, env))
        });
        let mut extraction = extraction?;
        if extraction.picked.is_empty() && method != Method::Learned {
            env.work.fallback = Some("learned");
            extraction.picked = std::mem::take(&mut extraction.core);
        }
        let is_core = |p: &Picked| match p.kind {
            ItemKind::Goal => goals.is_in_force(p.step, &p.bytes),
            ItemKind::Decision => true,
            ItemKind::Constraint => !is_given,
            ItemKind::Fact | ItemKind::ToolOutput => false,
        };
        extraction.picked.retain(is_core);

        let mut picked = held(log, extraction.picked, env)?;
        // What is given is no duplicate of what was picked: a decision that repeats a constraint is one all the same.
        if is_given {
            memory.set.items.retain(|held| held.kind != ItemKind::Constraint);
        }
        let mut gone = memory.set.merge(picked.clone(), self.params.similarity, false);
        if !is_given {
            let lifted = pick::lifted(scope, &memory.set);
            gone.extend(memory.set.merge(lifted.clone(), self.params.similarity, false));
            picked.extend(lifted);
        }
        memory.set.replace(&mut gone);
        let over = memory.set.cap(self.params.cap_tokens, |held| env.tokenizer.count(&quotation(held)));
        memory.set.items.extend(marked(given));
        let fallback = env.work.fallback;
        let rest = Rest {
            how: self.params.background,
            tokens: self.params.background_tokens,
            similarity: self.params.similarity,
            before: &memory.summary,
            set: &memory.set,
        };
        memory.summary = rest.summary(scope, &picked, env, |log| {
            Ok(Prompt::render(TEMPLATE, &[("log", Data::fenced(log).may_cut().into())])?)
        })?;
        env.work.fallback = fallback.or(env.work.fallback);

        let limit: u32 = scope.context.blocks[scope.blocks.clone()].iter().map(|block| block.tokens).sum();
        let core = Core { set: &memory.set, over: &over, goals: &goals, log };
        let (text, warning) = core.in_tokens(limit, &memory.summary, env.tokenizer);
        env.work.warning = missing.or(warning).or(env.work.warning);
        env.work.items = rows(&memory.set, gone, &over);
        env.work.items.extend(extraction.not_found);
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
            && (self.params.extract.needs_model() || self.params.source == Origin::Model)
    }

    fn is_control(&self) -> bool {
        self.params.source == Origin::Given
    }
}

/// A constraint that an annotation gives, and where its words stand.
fn as_held(log: &Log, constraint: &Constraint) -> Held {
    let text = &log.trajectory.steps[constraint.step as usize].text;
    let at = text.find(&constraint.text).map(|at| at as u32);
    let bytes = at.map_or(0..0, |at| at..at + constraint.text.len() as u32);
    Held::new(constraint.text.clone(), ItemKind::Constraint, constraint.step, bytes, 1.0)
}

/// Constraints that are given, those marked that contradict others. None goes, not even one that says the same again.
fn marked(given: Vec<Held>) -> Vec<Held> {
    let mut set = Set::default();
    // Nothing is as alike as that: the same words alone are one.
    let again = set.merge(given, f64::INFINITY, false);
    for mut gone in again {
        gone.held.conflict = gone.of.and_then(|of| set.items[of].conflict);
        set.items.push(gone.held);
    }
    set.items
}

/// What is never compressed.
struct Core<'a> {
    set: &'a Set,
    /// Items that are left out.
    over: &'a [usize],
    goals: &'a Goals,
    log: &'a Log,
}

impl Core<'_> {
    /// The core with as much of the summary as fits so many tokens, and what is to be warned of. A core that does not
    /// fit is longer than what it stands for: it is refused, and the scope stays.
    fn in_tokens(&self, limit: u32, summary: &str, tokenizer: &Tokenizer) -> (String, Option<&'static str>) {
        let fits = |text: &str| tokenizer.count(text) <= limit;
        let whole = self.write(summary, on_one_line);
        if fits(&whole) {
            return (whole, None);
        }
        for (is_cut, cut) in [(false, None), (true, Some("goal cut"))] {
            let shown = if is_cut { shown } else { on_one_line };
            let core = self.write("", shown);
            if !fits(&core) {
                continue;
            }
            if let Some(text) = self.with_part_of(summary, shown, limit, tokenizer) {
                return (text, cut.or(Some("summary shortened")));
            }
            // Nothing at all would be no summary: then the scope stays.
            let is_without = !summary.is_empty();
            let warning = cut.or(is_without.then_some("summary left out"));
            return (if core.is_empty() { whole } else { core }, warning);
        }
        (self.write("", shown), Some("goal and constraints do not fit"))
    }

    /// The core with an extract of the summary, as long as fits; none where none does.
    fn with_part_of(
        &self,
        summary: &str,
        shown: fn(&str) -> String,
        limit: u32,
        tokenizer: &Tokenizer,
    ) -> Option<String> {
        let source = [summary.to_owned()];
        let core = tokenizer.count(&self.write("", shown));
        let mut left = limit.saturating_sub(core).min(tokenizer.count(summary));
        while left > 0 {
            let shorter = extractive::summary(&source, left, tokenizer);
            if shorter.is_empty() {
                break;
            }
            let text = self.write(&shorter, shown);
            let tokens = tokenizer.count(&text);
            if tokens <= limit {
                return Some(text);
            }
            // The head and the marks of the lines take room, too.
            left = left.saturating_sub(tokens - limit);
        }
        None
    }

    fn write(&self, summary: &str, shown: fn(&str) -> String) -> String {
        let mut text = String::new();
        if let Some(goal) = &self.goals.original {
            text.push_str(&format!("ORIGINAL GOAL\n{}\n", self.told(goal, shown)));
        }
        if let Some(goal) = self.goals.current.as_ref().filter(|_| self.goals.has_changed()) {
            text.push_str(&format!("CURRENT GOAL\n{}\n", self.told(goal, shown)));
        }
        text.push_str(&listed(self.set, self.over, ItemKind::Constraint, "CONSTRAINTS"));
        text.push_str(&listed(self.set, self.over, ItemKind::Decision, "DECISIONS"));
        text.push_str(&self.set.told_of_left_out());
        if !summary.is_empty() {
            text.push_str(&format!("SUMMARY OF THE REST\n{}", set_off(summary)));
        }
        text
    }

    /// A goal; "…" at its end if more of it was said.
    fn told(&self, goal: &Goal, shown: fn(&str) -> String) -> String {
        let text = shown(&goal.text);
        let is_marked = text.ends_with('…') || !is_cut(self.log, goal);
        if is_marked { text } else { format!("{text} …") }
    }
}

/// Whether a goal ends where statements are cut for their length, and not where it ended in the log.
fn is_cut(log: &Log, goal: &Goal) -> bool {
    let trajectory = &log.trajectory;
    let source = match goal.start {
        Some(start) => trajectory.steps[goal.step as usize].text.get(start as usize..),
        // The goal that the log itself gives.
        None => trajectory.goal.as_deref().and_then(|text| text.get(text.find(&goal.text)?..)),
    };
    let Some(rest) = source.and_then(|source| source.strip_prefix(goal.text.as_str())) else { return false };
    // As far as one more piece would have gone: the next word, or of a list the next line.
    let upto = |piece: &str| {
        let end = piece.as_ptr() as usize - rest.as_ptr() as usize + piece.len();
        goal.text.chars().count() + rest[..end].chars().count()
    };
    let line = rest.lines().next().unwrap_or("");
    if let Some(word) = line.split_whitespace().next() {
        let closing = ['"', '”', '\'', ')', ']', '*'];
        let is_sentence = goal.text.trim_end_matches(closing).ends_with(['.', '!', '?', '。', '！', '？']);
        return !is_sentence && upto(word) >= MAX_CHARS;
    }
    let next = rest.lines().nth(1).unwrap_or("").trim_end();
    let number = next.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    let is_entry = number.len() < next.trim_start().len() && number.starts_with(['.', ')']);
    goal.text.contains('\n') && is_entry && upto(next) > MAX_CHARS
}

#[cfg(test)]
mod tests;
