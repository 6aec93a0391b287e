//! How to compress: one file per way.
//!
//! A strategy sees the context and the scope of an event and proposes edits. It never sees the
//! future; only `oracle` does, through [`Scope::needs`], and says so.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anyhow::Context as _;
use rand_chacha::ChaCha8Rng;

use crate::context::counter::Counter;
use crate::context::log::Log;
use crate::context::needs::Needs;
use crate::context::{Content, Context, Edit, Piece, Recalled};
use crate::models::{self, Answer, Call, Model, Outcome};
use crate::params::{Param, params};
use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;

mod anchored;
mod as_sent;
pub mod atom_bag;
mod chatter;
mod clear;
mod clip_arguments;
mod codex;
mod codex_tail;
mod command;
mod core_notes;
mod cue_bag;
mod digest;
mod drop_all;
mod echo;
mod extractive;
mod full;
mod hierarchical;
mod hindsight;
mod hindsight_mask;
mod logged;
mod mask;
mod mask_summary;
mod newest;
mod notes;
mod omit;
pub mod oracle;
mod protected_core;
mod prune_importance;
pub mod random;
mod salience;
mod shuffle;
mod summarise;
mod summary;
mod tiered;
mod tool_log;
mod tri_level;
mod truncate;
mod writer;

/// What is to be compressed.
pub struct Scope<'a> {
    pub log: &'a Log,
    pub context: &'a Context,
    /// Indices of the blocks in scope.
    pub blocks: Range<usize>,
    /// The prompt as it stands; `context` is a part of it where the scope is not one range of blocks.
    pub prompt: &'a Context,
    /// Turns of the scope.
    pub turns: Range<u32>,
    /// The last of them, from this turn on, are compressed for the first time: all, unless the strategy is recursive.
    pub fresh: u32,
    /// The turn about to be decided.
    pub turn: u32,
    /// What the agent will need: for `oracle` alone.
    pub needs: &'a Needs,
    /// How the policy counts single messages.
    pub counter: Counter,
    /// Tokens of the prompt, as the limit counted them that fired.
    pub counted: u64,
    /// Messages of the scope, as the policy counts them; without one, its blocks.
    pub n_messages: usize,
}

/// What is known when a strategy is asked what to bring back.
pub struct Moment<'a> {
    pub log: &'a Log,
    /// The prompt as it stands; its newest blocks are the query.
    pub context: &'a Context,
    /// The turn about to be decided.
    pub turn: u32,
    /// The step of the decision: those before it have been logged.
    pub until: u32,
    /// Tokens that may come back, at most: with more the prompt would be longer than the uncompressed one.
    pub room: u64,
}

/// What a strategy may use.
pub struct Env<'a> {
    pub tokenizer: &'a Tokenizer,
    /// Seeded by variant, trajectory and event.
    pub rng: ChaCha8Rng,
    /// The variant's model; none if it has none.
    pub model: Option<&'a dyn Model>,
    /// The model that says what matters, where it is another one.
    pub extractor: Option<&'a dyn Model>,
    /// The variant's model of embeddings; none if it has none.
    pub embedder: Option<&'a dyn Model>,
    /// What the strategy remembers of the segment.
    pub state: State,
    /// What the event has asked of the model so far.
    pub work: Work,
}

/// What a strategy remembers from event to event; it begins anew with each cell and each segment.
pub struct State(Box<dyn Any + Send>);

impl Default for State {
    fn default() -> Self {
        State(Box::new(()))
    }
}

/// What an event asked of a model, and how that went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Calls but those for vectors.
    pub calls: u32,
    /// Texts embedded.
    pub embeddings: u32,
    pub tokens_in: u64,
    pub tokens_out: u64,
    /// Tokens of prompts that were cut to fit the model's window.
    pub tokens_cut: u64,
    /// What stood in for the model, if it had to.
    pub fallback: Option<&'static str>,
    /// Of each answer that could not be used, why.
    pub degenerate: Vec<Flaw>,
    /// What looks wrong and need not be.
    pub warning: Option<&'static str>,
    /// The text is the logged product's: no call of ours, and judged like a model's all the same.
    pub is_logged: bool,
    /// What was picked out of the scope, and what became of it.
    pub items: Vec<Item>,
    /// What each level of compression made of how much, where a strategy has levels.
    pub ratios: BTreeMap<&'static str, Compressed>,
    /// Of what was recalled, in its order, what else is known: JSON objects, or none at all.
    pub recalled: Vec<serde_json::Value>,
}

/// Why an answer of a model cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    NoAnswer,
    Empty,
    Loop,
    /// Than the input.
    Longer,
    Refusal,
    /// To the user of the log.
    Reply,
    NotInForm,
}

impl Flaw {
    pub fn name(self) -> &'static str {
        match self {
            Flaw::NoAnswer => "no answer",
            Flaw::Empty => "empty",
            Flaw::Loop => "loop",
            Flaw::Longer => "longer than the input",
            Flaw::Refusal => "refusal",
            Flaw::Reply => "reply",
            Flaw::NotInForm => "not in form",
        }
    }
}

/// What a level of compression made of some segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compressed {
    /// Tokens before.
    pub before: u64,
    /// Tokens after.
    pub after: u64,
    pub n: u64,
    /// Of these, those whose ratio lies in the band that is asked for.
    pub n_in_band: u64,
}

/// What a strategy holds beside the context when a segment ends: a row of table `contexts`.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub form: HeldForm,
    /// The last turn that it stands for.
    pub turn: u32,
    /// The first step that it stands for.
    pub step: u32,
    /// As it would come back, or as it is held.
    pub text: String,
    /// What else is known of it, a JSON object.
    pub details: serde_json::Value,
}

/// What a strategy holds: a segment of a tier of memory, or a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldForm {
    Warm,
    Cold,
    Note,
}

impl HeldForm {
    pub fn name(self) -> &'static str {
        match self {
            HeldForm::Warm => "warm",
            HeldForm::Cold => "cold",
            HeldForm::Note => "note",
        }
    }
}

/// A passage that a strategy picked out of the scope: a row of table `items`.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Shared by the events that list it.
    pub text: Arc<str>,
    /// What it is taken for: goal, constraint, decision, fact, tool_output.
    pub kind: &'static str,
    /// Where it stands, if it was found: step, and bytes of its text.
    pub source: Option<(u32, Range<u32>)>,
    pub score: Option<f64>,
    pub fate: Fate,
    /// The item of the event that it repeats, by its number.
    pub of: Option<u32>,
}

/// What became of a passage that was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Kept,
    Repaired,
    Duplicate,
    /// By later values of its keys.
    Replaced,
    NotFound,
    Capped,
    /// It was picked to go.
    Dropped,
    /// It went to this tier of memory, or out of memory.
    Warm,
    Cold,
    Evicted,
    /// It came back: of recalls alone, which have no rows in `items`.
    Recalled,
}

impl Fate {
    pub fn name(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Repaired => "repaired",
            Fate::Duplicate => "duplicate",
            Fate::Replaced => "replaced",
            Fate::NotFound => "not_found",
            Fate::Capped => "capped",
            Fate::Dropped => "dropped",
            Fate::Warm => "warm",
            Fate::Cold => "cold",
            Fate::Evicted => "evicted",
            Fate::Recalled => "recalled",
        }
    }

    /// Whether the passage stands in the prompt.
    pub fn is_kept(self) -> bool {
        matches!(self, Fate::Kept | Fate::Repaired)
    }

    /// Whether the passage was picked to stay.
    pub fn is_of_picked(self) -> bool {
        !matches!(self, Fate::Dropped | Fate::Warm | Fate::Cold | Fate::Evicted | Fate::Recalled)
    }
}

impl State {
    /// What a strategy remembers, if it remembers anything.
    fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl<'a> Env<'a> {
    pub fn new(tokenizer: &'a Tokenizer, rng: ChaCha8Rng, model: Option<&'a dyn Model>) -> Self {
        let (state, work) = (State::default(), Work::default());
        Env { tokenizer, rng, model, extractor: None, embedder: None, state, work }
    }

    /// What the strategy remembers, as it left it at the last event of the segment; its default at the first.
    fn state<T: Any + Default + Send>(&mut self) -> &mut T {
        if !self.state.0.is::<T>() {
            self.state = State(Box::new(T::default()));
        }
        self.state.0.downcast_mut().expect("it was made a T above")
    }

    /// Does something with the model that says what matters in the place of the variant's.
    fn extracting<T>(&mut self, does: impl FnOnce(&mut Self) -> T) -> T {
        let writer = self.model;
        self.model = self.extractor.or(writer);
        let done = does(self);
        self.model = writer;
        done
    }

    /// Asks the variant's model, and keeps count. Outcomes are in the order of the calls.
    ///
    /// # Errors
    /// The variant has no model, or one that answers nothing any more ([`Outage`]). That a model cannot answer a
    /// call is no error but an outcome.
    fn ask(&mut self, calls: &[Call]) -> anyhow::Result<Vec<Outcome>> {
        let model = self.model.context("this strategy needs a model\nhint: add `model = \"NAME\"` to it")?;
        self.work.ask(model, calls)
    }

    /// The unit vectors of these texts; none where the variant has no model of embeddings, or it cannot read one of them.
    ///
    /// # Errors
    /// As [`Env::ask`].
    fn embed(&mut self, texts: &[String]) -> anyhow::Result<Option<Vec<Vec<f32>>>> {
        if self.embedder.is_none() {
            return Ok(None);
        }
        Ok(self.embed_each(texts)?.into_iter().collect())
    }

    /// The unit vector of each text; none for those that the model of embeddings cannot read, or where there is no model.
    ///
    /// # Errors
    /// As [`Env::ask`].
    fn embed_each(&mut self, texts: &[String]) -> anyhow::Result<Vec<Option<Vec<f32>>>> {
        let Some(model) = self.embedder else { return Ok(vec![None; texts.len()]) };
        let calls: Vec<Call> = texts.iter().map(|text| Call::Embed { text: text.clone() }).collect();
        let vector = |outcome| match outcome {
            Ok(Answer::Vector { values, .. }) => Some(values),
            _ => None,
        };
        Ok(self.work.ask(model, &calls)?.into_iter().map(vector).collect())
    }
}

impl Work {
    fn ask(&mut self, model: &dyn Model, calls: &[Call]) -> anyhow::Result<Vec<Outcome>> {
        let outcomes = models::ask(model, calls)?;
        for (call, outcome) in calls.iter().zip(&outcomes) {
            match call {
                Call::Embed { .. } => self.embeddings += 1,
                _ => self.calls += 1,
            }
            let (read, written, cut) = outcome.as_ref().map_or((0, 0, 0), Answer::tokens);
            self.tokens_in += read;
            self.tokens_out += written;
            self.tokens_cut += cut;
        }
        Ok(outcomes)
    }
}

/// A way to compress, with its parameters.
pub trait Strategy: Send + Sync {
    /// Proposes edits of the blocks in scope, sorted by block.
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>>;

    /// Whether it brings something back, and is to be asked at every decision after its first event.
    fn recalls(&self) -> bool {
        false
    }

    /// What stands in the prompt of this decision alone, best first. Its query is made of what stood before it.
    fn recall(&self, _moment: &Moment<'_>, _env: &mut Env<'_>) -> anyhow::Result<Vec<Recalled>> {
        Ok(Vec::new())
    }

    /// What it holds beside the context, by what it remembers, oldest first: what may come back.
    fn held(&self, _log: &Log, _state: &State) -> Vec<Held> {
        Vec::new()
    }

    /// Whether its scope is all that its segment holds, with what it left there before, and not the fresh turns alone.
    fn is_recursive(&self) -> bool {
        false
    }

    /// How many of the newest turns the strategy leaves alone, whatever the trigger says.
    fn keep_last(&self) -> u32 {
        0
    }

    /// The turn that its scope at the decision of `turn` ends before at the latest. It never goes back within a segment.
    fn newest(&self, _log: &Log, turn: u32) -> u32 {
        turn.saturating_sub(self.keep_last())
    }

    /// Whether the strategy may remove blocks of this kind: budgets of its shadows cover only these.
    fn may_remove(&self, _kind: Kind) -> bool {
        true
    }

    /// Whether these parameters make one that does nothing without a model.
    fn needs_model(&self) -> bool {
        false
    }

    /// Whether it looks at the needs, and so at the future.
    fn sees_future(&self) -> bool {
        false
    }

    /// Whether it puts what the log records, and proposes nothing: that stands as it is, even if it is longer than the original.
    fn is_record(&self) -> bool {
        false
    }

    /// Whether it is there to be compared with, and nobody would run it: it stands on no frontier.
    fn is_control(&self) -> bool {
        false
    }
}

/// A strategy in the catalogue.
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    pub params: &'static [Param],
    /// Whether it works with a model; it does without one, too.
    pub takes_model: bool,
    pub build: fn(toml::Table) -> anyhow::Result<Box<dyn Strategy>>,
}

/// All strategies, by name.
pub static ALL: &[Entry] = &[
    anchored::ENTRY,
    as_sent::ENTRY,
    atom_bag::ENTRY,
    chatter::ENTRY,
    clear::ENTRY,
    clip_arguments::ENTRY,
    codex::ENTRY,
    codex_tail::ENTRY,
    command::ENTRY,
    core_notes::ENTRY,
    cue_bag::ENTRY,
    digest::ENTRY,
    drop_all::ENTRY,
    echo::ENTRY,
    full::ENTRY,
    hierarchical::ENTRY,
    hindsight::ENTRY,
    hindsight_mask::ENTRY,
    logged::ENTRY,
    mask::ENTRY,
    mask_summary::ENTRY,
    notes::ENTRY,
    omit::ENTRY,
    oracle::ENTRY,
    protected_core::ENTRY,
    prune_importance::ENTRY,
    random::ENTRY,
    salience::ENTRY,
    shuffle::ENTRY,
    summarise::ENTRY,
    summary::ENTRY,
    tiered::ENTRY,
    tool_log::ENTRY,
    tri_level::ENTRY,
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

/// Notes in the parameters of a strategy what it depends on beside them: what a program of one's own says of itself.
///
/// # Errors
/// The program does not start.
pub fn pin(name: &str, params: &mut toml::Table) -> anyhow::Result<()> {
    if name == command::NAME { command::pin(params) } else { Ok(()) }
}

params! {
    /// Parameter of the controls.
    #[derive(Clone, Copy)]
    struct Budget {
        /// Share of the scope's tokens to keep.
        kept_share: f64 = 0.1 (from 0 to 1),
    }
}

impl Budget {
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

/// Blocks of the scope as a model reads them: each under a word for who speaks; a text that the strategy left there
/// itself has none.
fn transcript(scope: &Scope<'_>, blocks: Range<usize>) -> String {
    scope.context.blocks[blocks].iter().map(|block| block.said(scope.log)).collect()
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
        if let Content::Step(step) = block.content {
            spans.extend(scope.log.spans_of(step));
        }
    }
    spans
}

/// Edits that keep these pieces (sorted by span) of steps and of what was copied before, and drop the rest of the scope.
fn keep_pieces(scope: &Scope<'_>, pieces: &[Piece]) -> Vec<Edit> {
    let mut pieces = pieces.iter().copied().peekable();
    scope
        .blocks
        .clone()
        .filter_map(|block| {
            let (Content::Step(step) | Content::Excerpt { step, .. }) = scope.context.blocks[block].content
            else {
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

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::replay::{Event, Observer, Recipe, Run, replay};

    mod edge_cases;

    /// A replay without a model.
    pub(crate) fn run(strategy: (&str, &str), trigger: (&str, &str), log: &Log) -> Run {
        replayed(strategy, trigger, log, None, None)
    }

    /// A replay with these models.
    pub(super) fn replayed(
        strategy: (&str, &str),
        trigger: (&str, &str),
        log: &Log,
        model: Option<Arc<dyn Model>>,
        embedder: Option<Arc<dyn Model>>,
    ) -> Run {
        struct Nobody;
        impl Observer for Nobody {}
        let recipe = Recipe { model, embedder, ..Recipe::named(strategy, trigger) };
        let tokenizer = Tokenizer::load("o200k").unwrap();
        replay(log, &recipe, &tokenizer, &Needs::of(log, 3), &mut Nobody).unwrap()
    }

    /// What stands for the scope after each event of a replay without a model.
    pub(super) fn after_events(strategy: (&str, &str), trigger: (&str, &str), script: &str) -> Vec<String> {
        let log = Log::script(script);
        run(strategy, trigger, &log)
            .events
            .iter()
            .inspect(|event| assert_eq!(event.violations, [""; 0]))
            .map(|event| event.after.iter().map(|block| block.text(&log)).collect())
            .collect()
    }
}
