//! How to compress: one file per way.
//!
//! A strategy sees the context and the scope of an event and proposes edits. It never sees the
//! future; only `oracle` does, through [`Scope::needs`], and says so.

use std::ops::Range;

use anyhow::Context as _;
use rand_chacha::ChaCha8Rng;

use crate::context::{Context, Edit};
use crate::features::tokens::Tokenizer;
use crate::log::Log;
use crate::models::{Answer, Call, CallError, Model, Outage, Outcome};
use crate::needs::Needs;
use crate::trajectory::Kind;

pub mod atom_bag;
mod drop_all;
mod echo;
mod full;
mod mask;
pub mod oracle;
pub mod random;
mod shuffle;
mod summary;
mod truncate;

/// What is to be compressed.
pub struct Scope<'a> {
    pub log: &'a Log,
    pub context: &'a Context,
    /// Indices of the blocks in scope.
    pub blocks: Range<usize>,
    /// Turns of the scope.
    pub turns: Range<u32>,
    /// The turn about to be decided.
    pub turn: u32,
    /// What the agent will need: for `oracle` alone.
    pub needs: &'a Needs,
}

/// What a strategy may use.
pub struct Env<'a> {
    pub tokenizer: &'a Tokenizer,
    /// Seeded by variant, trajectory and event.
    pub rng: ChaCha8Rng,
    /// The variant's model; none if it has none.
    pub model: Option<&'a dyn Model>,
    /// What the event has asked of the model so far.
    pub work: Work,
}

/// What an event asked of a model, and how that went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub calls: u32,
    pub tokens_in: u64,
    pub tokens_out: u64,
    /// Tokens of prompts that were cut to fit the model's window.
    pub tokens_cut: u64,
    /// What stood in for the model, if it had to.
    pub fallback: Option<&'static str>,
    /// One word for each answer that could not be used.
    pub degenerate: Vec<&'static str>,
}

impl<'a> Env<'a> {
    pub fn new(tokenizer: &'a Tokenizer, rng: ChaCha8Rng, model: Option<&'a dyn Model>) -> Self {
        Env { tokenizer, rng, model, work: Work::default() }
    }

    /// Asks the variant's model, and keeps count.
    ///
    /// # Errors
    /// The variant has no model, or one that answers nothing any more ([`Outage`]). That a model cannot answer this
    /// call is no error but an outcome.
    fn ask(&mut self, call: &Call) -> anyhow::Result<Outcome> {
        let model = self.model.context("this strategy needs a model\nhint: add `model = \"NAME\"` to it")?;
        let outcome = model.answer(std::slice::from_ref(call)).pop().context("the model gave no outcome")?;
        self.work.calls += 1;
        match &outcome {
            Ok(Answer::Text(text)) => {
                self.work.tokens_in += u64::from(text.prompt_tokens);
                self.work.tokens_out += u64::from(text.tokens);
                self.work.tokens_cut += u64::from(text.cut_tokens);
            }
            Ok(Answer::Scores(scores)) => {
                self.work.tokens_in += u64::from(scores.prompt_tokens);
                self.work.tokens_cut += u64::from(scores.cut_tokens);
            }
            Ok(Answer::Vector { cut_tokens, .. }) => self.work.tokens_cut += u64::from(*cut_tokens),
            Ok(Answer::Tokens(_)) | Err(CallError::TooLong { .. } | CallError::Grammar(_)) => {}
            Err(error) => {
                if !model.is_alive(call) {
                    let model = model.card().name.clone();
                    return Err(Outage { model, error: error.clone() }.into());
                }
            }
        }
        Ok(outcome)
    }
}

/// A way to compress, with its parameters.
pub trait Strategy: Send + Sync {
    /// Proposes edits of the blocks in scope, sorted by block.
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>>;

    /// How many of the newest turns the strategy leaves alone, whatever the trigger says.
    fn keep_last(&self) -> u32 {
        0
    }

    /// Whether the strategy may remove blocks of this kind: budgets of its shadows cover only these.
    fn may_remove(&self, _kind: Kind) -> bool {
        true
    }

    /// Whether it looks at the needs, and so at the future.
    fn sees_future(&self) -> bool {
        false
    }
}

/// A strategy in the catalogue.
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    /// Names of the parameters, with their defaults.
    pub params: &'static [(&'static str, &'static str)],
    /// Whether it cannot do without a model.
    pub needs_model: bool,
    pub build: fn(toml::Table) -> anyhow::Result<Box<dyn Strategy>>,
}

/// All strategies, by name.
pub static ALL: &[Entry] = &[
    atom_bag::ENTRY,
    drop_all::ENTRY,
    echo::ENTRY,
    full::ENTRY,
    mask::ENTRY,
    oracle::ENTRY,
    random::ENTRY,
    shuffle::ENTRY,
    summary::ENTRY,
    truncate::ENTRY,
];

/// Builds the strategy of this name.
pub fn build(name: &str, params: toml::Table) -> anyhow::Result<Box<dyn Strategy>> {
    let Some(entry) = ALL.iter().find(|e| e.name == name) else {
        let known: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        anyhow::bail!("unknown strategy `{name}` (known: {})", known.join(", "));
    };
    (entry.build)(params)
}

/// Parameter of the controls: the share of the scope's tokens that they keep.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Budget {
    /// Share of the scope's tokens to keep, 0 to 1.
    kept_share: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { kept_share: 0.1 }
    }
}

impl Budget {
    const PARAMS: &'static [(&'static str, &'static str)] = &[("kept_share", "0.1")];

    fn of(params: toml::Table) -> anyhow::Result<Self> {
        let budget: Budget = params.try_into()?;
        anyhow::ensure!(
            (0.0..=1.0).contains(&budget.kept_share),
            "parameter `kept_share` must be between 0 and 1"
        );
        Ok(budget)
    }

    /// Tokens to keep of this scope.
    fn tokens(&self, scope: &Scope<'_>) -> u32 {
        let all: u64 = scope.context.blocks[scope.blocks.clone()].iter().map(|b| u64::from(b.tokens)).sum();
        (all as f64 * self.kept_share).round() as u32
    }
}

/// The texts of the scope's blocks.
fn texts(scope: &Scope<'_>) -> Vec<String> {
    scope.context.blocks[scope.blocks.clone()].iter().map(|block| block.text(scope.log)).collect()
}

/// Edits that put one text in the place of the whole scope; none in the place if it is empty.
fn put(scope: &Scope<'_>, text: String) -> Vec<Edit> {
    let insert = (!text.is_empty()).then_some(Edit::Insert { before: scope.blocks.start, text });
    insert.into_iter().chain(scope.blocks.clone().map(|block| Edit::Drop { block })).collect()
}

/// Spans of the steps that stand whole in the scope: what can be copied from.
fn spans_in(scope: &Scope<'_>) -> Vec<u32> {
    let mut spans = Vec::new();
    for block in &scope.context.blocks[scope.blocks.clone()] {
        if let crate::context::Content::Step(step) = block.content {
            spans.extend(scope.log.spans_of(step));
        }
    }
    spans
}

/// Edits that keep these pieces (sorted by span) and drop the rest of the scope.
fn keep_pieces(scope: &Scope<'_>, pieces: &[crate::context::Piece]) -> Vec<Edit> {
    let mut pieces = pieces.iter().copied().peekable();
    scope
        .blocks
        .clone()
        .filter_map(|block| {
            let crate::context::Content::Step(step) = scope.context.blocks[block].content else {
                return None;
            };
            let end = scope.log.spans_of(step).end;
            let mut kept = Vec::new();
            while let Some(piece) = pieces.next_if(|p| p.span < end) {
                kept.push(piece);
            }
            Some(if kept.is_empty() { Edit::Drop { block } } else { Edit::Keep { block, pieces: kept } })
        })
        .collect()
}
