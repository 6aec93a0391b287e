//! Hot, warm and cold memory: the newest turns as they are, older ones compressed lightly, then heavily, then
//! evicted; what becomes relevant again comes back.
//!
//! Source: the seed tiered-memory. Its components are the files of this folder: the memory manager (`manager.rs`)
//! with its segments (`segment.rs`), the compressor module (`compressor.rs`, light and heavy), the relevance
//! evaluator (`relevance.rs`, six factors), the retrieval engine (`retrieval.rs`), segmentation (`segmentation.rs`)
//! and trajectory time (`clock.rs`). This file is the integration layer: at an event what is in the scope and no
//! longer hot becomes segments, and the manager keeps the limits; at a decision relevant segments come back. As in
//! the seed the prompt holds hot memory and what came back; with `visible` it also shows warm memory, or warm and
//! cold, as the manager holds them. What nobody asks for does not come back: of statements among long replies (the padded
//! talks of `prune-importance`) the seed's form keeps hardly one, and `visible` shows what is left of them.
//!
//! Explicit markers of the seed are phrases ("remember"), and the goals and constraints that users and agents state, told by the learned odds
//! of `salience`.
//!
//! What is asked is the newest turn with the open user message; the context that segments are compared with is the
//! newest three (`query_turns`, `context_turns`; in the seed the user's input alone, and all of hot memory: in the loop of an agent the
//! user says nothing for a hundred turns, and what it does now is what it needs something for). What is shown of a tier, and what came
//! back already word for word, does not come back once more. The newest turns of the scope count as hot while they and all after them have `hot_tokens` at most,
//! and stay in the prompt. Work at an event follows the turns that leave the hot tier, times the segments held; at a
//! decision, the segments held, whose number is bounded.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashSet;
use serde::Deserialize;

use super::notes::index::{self, Bag};
use super::notes::newest_steps;
use super::notes::standing::Standing;
use super::prune_importance::conversation;
use super::salience::pick;
use super::{Entry, Env, Held, HeldForm, Moment, Scope, State, Strategy};
use crate::context::log::Log;
use crate::context::{Block, Content, Edit, Recalled};
use crate::learn::statements::Statements;
use crate::learn::{TYPES, Weights, probability};
use crate::params::params;
use crate::text::lists::{self, WordSet};
use crate::text::tokens::Tokenizer;
use crate::trajectory::{Kind, Role};

mod clock;
mod compressor;
mod entities;
mod manager;
mod relevance;
mod retrieval;
pub(super) mod segment;
mod segmentation;

use clock::{Clock, Pace};
use entities::{Entity, named};
use manager::{Leaving, Limits, MAX_SEGMENTS, Memory};
use relevance::{Formula, Situation};
use retrieval::{Decompress, Recall};
use segment::Segment;
use segmentation::{By, Turn};

pub(super) const ENTRY: Entry = Entry {
    name: "tiered",
    summary: "Hot, warm and cold memory with eviction; what becomes relevant comes back.",
    params: Params::PARAMS,
    takes_model: true,
    build: |params| {
        let params = Params::of(params)?;
        params.check()?;
        Ok(Box::new(Tiered { params, weights: Weights::named("")? }))
    },
};

/// Which tiers stand in the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Visible {
    Hot,
    Warm,
    All,
}

params! {
    #[derive(Clone, Debug)]
    #[expect(dead_code, reason = "the plan alone reads `embedder`")]
    struct Params {
        /// Tokens of the newest turns that stay as they are.
        hot_tokens: u64 = 2000,
        /// Tokens of warm memory, at most.
        warm_tokens: u32 = 4000,
        /// Tokens of cold memory, at most.
        cold_tokens: u32 = 4000,
        /// Tokens before, over tokens after light compression; 3 to 5 in the seed.
        light_ratio: f64 = 4.0 (at least 1),
        /// Tokens before, over tokens after heavy compression; 8 to 15 in the seed.
        heavy_ratio: f64 = 11.0 (at least 1),
        /// By what share of itself `light_ratio` is less for the most important segment of warm memory, and more for the least.
        spread: f64 = 0.25 (from 0 to 1),
        /// What ends a segment, of the turns that leave hot memory at the same event: where they leave one by one, each is one.
        segment_by: By = "turns",
        /// Tokens of a segment, at most.
        segment_tokens: u32 = 400 (at least 1),
        /// How time passes: as logged, or by turns.
        time: Pace = "logged",
        /// What comes back is more relevant than this share of all that was compared so far.
        floor: f64 = 0.9 (from 0 to 1),
        /// Whether what comes back is chosen by what is new in it, too.
        novelty: bool = true,
        /// Segments that come back, at most.
        top_n: usize = 3,
        /// Tokens that come back for a decision, at most.
        recall_tokens: u32 = 1200,
        /// The newest turns that are the context which segments are compared with. (All of hot memory in the seed.)
        context_turns: u32 = 3 (at least 1),
        /// The newest turns that are, with the open user message, what is asked. (The user's input alone in the seed.)
        query_turns: u32 = 1 (at least 1),
        /// What comes back of a segment: its original lines, or what a model makes of it.
        decompress: Decompress = "stored",
        /// The tiers that the prompt shows: hot memory, with it warm, or all.
        visible: Visible = "hot",
        /// Weight of recency, as part of the sum of all weights.
        w_recency: f64 = 1.0 (from 0 to 1000000),
        /// Weight of how lately and often a segment came back.
        w_access: f64 = 1.0 (from 0 to 1000000),
        /// Weight of how alike it is to the context.
        w_semantic: f64 = 1.0 (from 0 to 1000000),
        /// Weight of the entities that it has in common with the context.
        w_entity: f64 = 1.0 (from 0 to 1000000),
        /// Weight of how unlike all other segments it is.
        w_uniqueness: f64 = 1.0 (from 0 to 1000000),
        /// Weight of how alike it is to what is asked.
        w_query: f64 = 1.0 (from 0 to 1000000),
        /// Recency lost a turn.
        decay: f64 = 0.05 (from 0 to 1000000),
        /// Recency of access lost a turn.
        access_decay: f64 = 0.05 (from 0 to 1000000),
        /// How fast accesses add up.
        access_factor: f64 = 0.5 (from 0 to 1000000),
        /// Share of recency in the access score.
        alpha: f64 = 0.5 (from 0 to 1),
        /// Share of overlap in the entity score.
        beta: f64 = 0.5 (from 0 to 1),
        /// What an explicit marker ("remember"; a goal, a constraint) multiplies importance by.
        marker: f64 = 1.5 (from 1 to 1000000),
        /// How many of the newest turns are left alone.
        keep_last: u32 = 1,
        /// The model of embeddings, by name; empty: none.
        embedder: String = "",
    }
}

impl Params {
    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.weights().iter().sum::<f64>() > 0.0,
            "one of the weights `w_recency` to `w_query` must be above 0"
        );
        anyhow::ensure!(
            self.heavy_ratio >= self.light_ratio,
            "parameter `heavy_ratio` must be at least `light_ratio`"
        );
        let recalls = self.top_n > 0 && self.recall_tokens > 0;
        anyhow::ensure!(
            !recalls || self.w_semantic + self.w_entity + self.w_query > 0.0,
            "nothing comes back: one of the weights `w_semantic`, `w_entity`, `w_query` must be above 0\nhint: or set `top_n` to 0"
        );
        anyhow::ensure!(
            !recalls || self.decompress == Decompress::Generated || self.segment_tokens <= self.recall_tokens,
            "parameter `segment_tokens` must be at most `recall_tokens`: a longer segment could not come back"
        );
        Ok(())
    }

    fn limits(&self) -> Limits {
        Limits {
            warm_tokens: self.warm_tokens,
            cold_tokens: self.cold_tokens,
            light_ratio: self.light_ratio,
            heavy_ratio: self.heavy_ratio,
            spread: self.spread,
        }
    }

    fn weights(&self) -> [f64; 6] {
        [self.w_recency, self.w_access, self.w_semantic, self.w_entity, self.w_uniqueness, self.w_query]
    }

    /// The formula, with weights that add up to 1.
    fn formula(&self) -> Formula {
        let sum: f64 = self.weights().iter().sum();
        Formula {
            recency: self.w_recency / sum,
            access: self.w_access / sum,
            semantic: self.w_semantic / sum,
            entity: self.w_entity / sum,
            uniqueness: self.w_uniqueness / sum,
            query: self.w_query / sum,
            decay: self.decay,
            access_decay: self.access_decay,
            access_factor: self.access_factor,
            alpha: self.alpha,
            beta: self.beta,
            marker: self.marker,
        }
    }
}

static WORDS: LazyLock<Words> = LazyLock::new(|| lists::read(include_str!("../data/words/markers.en.toml")));

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    markers: Vec<String>,
    denials: WordSet,
}

struct Tiered {
    params: Params,
    /// They tell goals and constraints.
    weights: Arc<Weights>,
}

/// A step of the current context: its terms and entities.
struct Read {
    step: u32,
    bag: Bag,
    entities: Vec<Entity>,
}

/// What is remembered from event to event, and from decision to decision.
#[derive(Default)]
struct Remembered {
    memory: Memory,
    clock: Clock,
    /// What was read of statements.
    learned: Option<Statements>,
    standing: Standing,
    /// The newest steps, so that each is read once.
    read: Vec<Read>,
    /// Segments that have no room in sight since the last event, by their numbers.
    left_out: FxHashSet<u32>,
}

impl Remembered {
    /// What segments are judged by before a decision.
    fn situation(
        &mut self,
        moment: &Moment<'_>,
        params: &Params,
        env: &mut Env<'_>,
    ) -> anyhow::Result<Situation> {
        let log = moment.log;
        let steps = newest_steps(moment, params.context_turns.max(params.query_turns));
        // Steps are in order, and so are those that were read.
        self.read.retain(|read| steps.binary_search(&read.step).is_ok());
        for &step in &steps {
            if self.read.binary_search_by_key(&step, |read| read.step).is_err() {
                let text = &log.trajectory.steps[step as usize].text;
                let bag = index::bag_of(text);
                let entities = entities::entities(text).iter().map(|name| named(name)).collect();
                self.read.push(Read { step, bag, entities });
            }
        }
        self.read.sort_by_key(|read| read.step);
        let asked = newest_steps(moment, params.query_turns);
        let near = newest_steps(moment, params.context_turns);
        let of = |read: &[Read], steps: &[u32]| {
            let bags = read.iter().rev().filter(|read| steps.binary_search(&read.step).is_ok());
            index::sum(bags.map(|read| &read.bag))
        };
        let mut context = self.memory.meaning(&of(&self.read, &near));
        let mut query = self.memory.meaning(&of(&self.read, &asked));
        let text = |steps: &[u32]| {
            // The newest first: a model of embeddings reads so far as its window goes.
            let texts = steps.iter().rev().map(|&step| log.trajectory.steps[step as usize].text.as_str());
            texts.collect::<Vec<_>>().join("\n")
        };
        if env.embedder.is_some() {
            let mut vectors = env.embed_each(&[text(&near), text(&asked)])?.into_iter();
            (context.vector, query.vector) = (vectors.next().flatten(), vectors.next().flatten());
        }
        let is_near = |read: &&Read| near.binary_search(&read.step).is_ok();
        let near = self.read.iter().filter(is_near);
        let entities: FxHashSet<Entity> = near.flat_map(|read| read.entities.iter().copied()).collect();
        let query = (!asked.is_empty()).then(|| self.memory.likeness(&query));
        let context = self.memory.likeness(&context);
        let time = self.clock.now(log, params.time, moment.turn, moment.until);
        Ok(Situation { time, context, entities, query })
    }
}

impl Tiered {
    /// The first block of the scope that is hot.
    fn hot_from(&self, scope: &Scope<'_>) -> usize {
        let blocks = &scope.context.blocks;
        let sum =
            |range: std::ops::Range<usize>| blocks[range].iter().map(|b| u64::from(b.tokens)).sum::<u64>();
        let mut tokens = conversation(scope) - sum(scope.blocks.clone());
        let mut hot = scope.blocks.end;
        while hot > scope.blocks.start {
            let turn = blocks[hot - 1].turn;
            let first = (scope.blocks.start..hot).rev().take_while(|&at| blocks[at].turn == turn).last();
            let Some(first) = first else { break };
            let is_whole = blocks[first..hot].iter().all(|block| matches!(block.content, Content::Step(_)));
            tokens += sum(first..hot);
            if !is_whole || tokens > self.params.hot_tokens {
                break;
            }
            hot = first;
        }
        hot
    }

    /// Where goals and constraints are stated in these blocks, in order.
    fn stated(
        &self,
        scope: &Scope<'_>,
        blocks: std::ops::Range<usize>,
        learned: &mut Option<Statements>,
    ) -> Vec<(u32, u32)> {
        let step = |block: &Block| match block.content {
            Content::Step(step) => Some(step),
            _ => None,
        };
        let steps: Vec<u32> = scope.context.blocks[blocks].iter().filter_map(step).collect();
        let read = pick::read(scope, learned, &self.weights);
        let rated = read.statements.rate(scope.log, &steps, pick::decision(scope));
        let binds = rated.iter().filter(|rated| {
            matches!(TYPES[self.weights.kind(rated)], "goal" | "constraint")
                && probability(self.weights.statements.odds(rated)) >= STATED
        });
        let mut stated: Vec<(u32, u32)> = binds.map(|rated| (rated.step, rated.bytes.start)).collect();
        stated.sort_unstable();
        stated
    }

    /// What the prompt shows of the tiers in so many tokens, and which segments had no room: those first that
    /// are no shorter than what they stand for, then the least important.
    fn shown(&self, memory: &Memory, limit: u32, tokenizer: &Tokenizer) -> (String, FxHashSet<u32>) {
        let cold: &[Segment] = if self.params.visible == Visible::All { &memory.cold } else { &[] };
        let warm: &[Segment] = if self.params.visible == Visible::Hot { &[] } else { &memory.warm };
        let mut order: Vec<&Segment> = cold.iter().chain(warm).collect();
        let saves = |s: &Segment| s.metadata.compressed_tokens + 1 < s.metadata.original_tokens;
        order.sort_by(|a, b| {
            let by_importance = a.importance.total_cmp(&b.importance).then(a.id.cmp(&b.id));
            saves(a).cmp(&saves(b)).then(by_importance)
        });
        let without = |n: usize| order[..n].iter().map(|segment| segment.id).collect::<FxHashSet<u32>>();
        let text = |n_left_out: usize| {
            let left_out = without(n_left_out);
            let list = |head: &str, tier: &[Segment]| {
                let tier = tier.iter().filter(|segment| !left_out.contains(&segment.id));
                let contents: Vec<&str> = tier.map(|segment| segment.content.as_str()).collect();
                if contents.is_empty() { String::new() } else { format!("{head}\n{}\n", contents.join("\n")) }
            };
            list("COLD MEMORY", cold) + &list("WARM MEMORY", warm)
        };
        // The fewest that must be left out.
        let (mut least, mut most) = (0, order.len());
        while least < most {
            let middle = (least + most) / 2;
            match tokenizer.count(&text(middle)) <= limit {
                true => most = middle,
                false => least = middle + 1,
            }
        }
        (text(least), without(least))
    }
}

/// Whether a text calls something important: a marker in words of their own, not denied by the word before.
fn has_marker(text: &str) -> bool {
    let text = text.to_lowercase();
    let is_marker = |(at, marker): (usize, &str)| {
        let (before, after) = (&text[..at], &text[at + marker.len()..]);
        let denied = before
            .split_whitespace()
            .next_back()
            .is_some_and(|word| WORDS.denials.has(word) || word.ends_with("n't"));
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric) && !denied
    };
    WORDS.markers.iter().any(|marker| text.match_indices(marker.as_str()).any(is_marker))
}

/// From this probability on a goal or a constraint is a marker.
const STATED: f64 = 0.5;

/// Whether one of these statements begins in a line.
fn holds(stated: &[(u32, u32)], log: &Log, span: u32) -> bool {
    let span = &log.spans[span as usize];
    let first = stated.partition_point(|at| *at < (span.step, span.start));
    stated.get(first).is_some_and(|at| *at < (span.step, span.end))
}

/// Whether the user or the agent says there that something is important; what it calls tools with does not count.
fn is_marked(log: &Log, spans: &[u32]) -> bool {
    let own = spans.iter().filter(|&&span| {
        let step = log.spans[span as usize].step;
        let is_theirs = matches!(log.trajectory.steps[step as usize].role, Role::User | Role::Agent);
        is_theirs && !matches!(log.kind(step), Kind::Action | Kind::Compaction)
    });
    own.into_iter().any(|&span| has_marker(log.span_text(span)))
}

impl Strategy for Tiered {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let (log, params) = (scope.log, &self.params);
        let mut state = std::mem::take(env.state::<Remembered>());
        let hot = self.hot_from(scope);
        let gone = scope.blocks.start..hot;
        let mut turns: Vec<(u32, Turn)> = Vec::new();
        for block in &scope.context.blocks[gone.clone()] {
            let Content::Step(step) = block.content else { continue };
            let time = state.clock.at(log, params.time, block.turn);
            match turns.last_mut().filter(|(turn, _)| *turn == block.turn) {
                Some((_, turn)) => turn.spans.extend(log.spans_of(step)),
                None => turns.push((block.turn, Turn { spans: log.spans_of(step).collect(), time })),
            }
        }
        let turns: Vec<Turn> = turns.into_iter().map(|(_, turn)| turn).collect();
        let segments = segmentation::segment(log, &turns, params.segment_by, params.segment_tokens, env)?;
        state.standing.take(scope);
        let stated = self.stated(scope, gone.clone(), &mut state.learned);
        let states = |spans: &[u32]| spans.iter().any(|&span| holds(&stated, log, span));
        let mut leaving = segments.into_iter().map(|(spans, time)| {
            let is_marked = is_marked(log, &spans) || states(&spans);
            Leaving { spans, time, is_marked }
        });
        let limits = params.limits();
        let until = log.turns[scope.turn as usize].decision.unwrap_or(0);
        let moment = Moment { log, context: scope.prompt, turn: scope.turn, until, room: 0 };
        // As many as a tier holds at once: each is compared with all that are held.
        loop {
            let batch: Vec<Leaving> = leaving.by_ref().take(MAX_SEGMENTS).collect();
            let is_last = batch.len() < MAX_SEGMENTS;
            state.memory.admit(log, batch, env)?;
            let situation = state.situation(&moment, params, env)?;
            state.memory.manage(log, &limits, &params.formula(), &situation, env)?;
            if is_last {
                break;
            }
        }
        env.work.ratios = std::mem::take(&mut state.memory.ratios);
        let limit: u32 = scope.context.blocks[gone.clone()].iter().map(|block| block.tokens).sum();
        let (text, left_out) = self.shown(&state.memory, limit, env.tokenizer);
        state.left_out = left_out;
        if !state.left_out.is_empty() {
            env.work.warning = Some("memory not shown whole");
        }
        *env.state() = state;
        let insert = (!text.is_empty()).then_some(Edit::Insert { before: scope.blocks.start, text });
        Ok(insert.into_iter().chain(gone.map(|block| Edit::Drop { block })).collect())
    }

    fn is_recursive(&self) -> bool {
        true
    }

    fn recalls(&self) -> bool {
        true
    }

    fn recall(&self, moment: &Moment<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Recalled>> {
        let params = &self.params;
        let mut state = std::mem::take(env.state::<Remembered>());
        let situation = state.situation(moment, params, env)?;
        state.standing.read(moment);
        let recall = Recall {
            floor: params.floor,
            standing: params.novelty.then_some(&state.standing),
            top_n: params.top_n,
            max_tokens: u64::from(params.recall_tokens).min(moment.room) as u32,
            decompress: params.decompress,
            shows: [params.visible != Visible::Hot, params.visible == Visible::All],
            left_out: &state.left_out,
        };
        let formula = params.formula();
        let found = retrieval::recall(moment.log, &mut state.memory, &situation, &formula, &recall, env);
        *env.state() = state;
        found
    }

    fn held(&self, log: &Log, state: &State) -> Vec<Held> {
        let memory = state.get::<Remembered>().map(|remembered| &remembered.memory);
        let tiers = memory
            .into_iter()
            .flat_map(|memory| [(HeldForm::Warm, &memory.warm), (HeldForm::Cold, &memory.cold)]);
        tiers.flat_map(|(form, tier)| tier.iter().map(move |segment| segment.held(log, form))).collect()
    }

    fn keep_last(&self) -> u32 {
        self.params.keep_last
    }
}

#[cfg(test)]
mod tests;
