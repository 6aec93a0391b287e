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
//! What is asked is the newest turn with the open user message; the context that segments are compared with is the
//! newest three (`query_turns`, `context_turns`; in the seed the user's input alone, and all of hot memory: in the loop of an agent the
//! user says nothing for a hundred turns, and what it does now is what it needs something for). What is shown of a tier, and what came
//! back already word for word, does not come back once more. The newest turns of the scope count as hot while they and all after them have `hot_tokens` at most,
//! and stay in the prompt. Work at an event follows the turns that leave the hot tier, times the segments held; at a
//! decision, the segments held, whose number is bounded.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;
use serde::Deserialize;

use super::notes::index::{self, Bag};
use super::notes::newest_steps;
use super::prune_importance::conversation;
use super::{Entry, Env, Held, HeldForm, Moment, Scope, State, Strategy};
use crate::context::log::Log;
use crate::context::{Content, Edit, Recalled};
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
        Ok(Box::new(Tiered { params }))
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
        /// What ends a segment, of the turns that leave hot memory at the same event: where they leave one by one, each is one.
        segment_by: By = "turns",
        /// Tokens of a segment, at most.
        segment_tokens: u32 = 400 (at least 1),
        /// How time passes: as logged, or by turns.
        time: Pace = "logged",
        /// Segments above this importance come back, 0 to 1.
        threshold: f64 = 0.5 (from 0 to 1),
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
        /// What an explicit marker ("important", "remember") multiplies importance by.
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
        let mut leaving = segments.into_iter().map(|(spans, time)| {
            let is_marked = is_marked(log, &spans);
            Leaving { spans, time, is_marked }
        });
        let limits = params.limits();
        let until = log.turns[scope.turn as usize].decision.unwrap_or(0);
        let moment = Moment { log, context: scope.prompt, turn: scope.turn, until, room: 0 };
        // As many as a tier holds at once: each is compared with all that are held.
        loop {
            let batch: Vec<Leaving> = leaving.by_ref().take(MAX_SEGMENTS).collect();
            let is_last = batch.len() < MAX_SEGMENTS;
            state.memory.admit(log, batch, &limits, env)?;
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
        let recall = Recall {
            threshold: params.threshold,
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
mod tests {
    use std::sync::Arc;

    use super::super::build;
    use super::super::tests::run;
    use super::*;
    use crate::context::needs::Needs;
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Call, Card, Finish, Text};
    use crate::replay::{Observer, Recipe, Run, replay};

    fn tiered(params: &str, script: &str, trigger: &str) -> (Log, Run) {
        let log = Log::script(script);
        let run = run(("tiered", params), ("turns", trigger), &log);
        (log, run)
    }

    fn recalled(log: &Log, run: &Run) -> Vec<(u32, String)> {
        let text = |blocks: &[crate::context::Block]| {
            blocks.iter().map(|b| b.text(log)).collect::<Vec<_>>().concat()
        };
        run.recalls.iter().map(|recall| (recall.decision, text(&recall.blocks))).collect()
    }

    const HALL: &str = "user: Mend the shop.
        action: cat src/login.py
        observation: def login(user): check password against the ldap server of hall seven
        action: cat src/search.py
        observation: def find(words): query the catalogue of roses
        action: cat src/cart.py
        observation: def total(cart): sum of prices and discount
        user: Now look at the ldap server in src/login.py
        agent: Done.";

    /// Only what is asked for decides here: the query of the last decision names the first turn.
    const BY_QUERY: &str = "hot_tokens = 0\nw_recency = 0.0\nw_access = 0.0\nw_semantic = 0.0\nw_entity = 0.0\n\
                            w_uniqueness = 0.0\nw_query = 1.0\nthreshold = 0.2";

    #[test]
    fn the_stored_original_comes_back_when_it_is_asked_for() {
        let (log, run) = tiered(BY_QUERY, HALL, "n = 1");
        let found = recalled(&log, &run);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, 3);
        assert_eq!(
            found[0].1,
            "cat src/login.pydef login(user): check password against the ldap server of hall seven"
        );
        assert!(run.events.iter().all(|event| event.violations.is_empty()));
        let (log, run) = tiered(&format!("{BY_QUERY}\ntop_n = 0"), HALL, "n = 1");
        assert!(recalled(&log, &run).is_empty());
    }

    #[test]
    fn without_a_model_what_is_generated_is_the_content() {
        let (log, run) =
            tiered(&format!("{BY_QUERY}\ndecompress = \"generated\"\nlight_ratio = 2.0"), HALL, "n = 1");
        let found = recalled(&log, &run);
        assert!(found.len() == 1 && found[0].1.contains("src/login.py"), "{found:?}");
        assert!(found[0].1.len() < 60, "{found:?}");
        assert!(run.recalls[0].work.calls == 0);
    }

    #[test]
    fn a_model_compresses_and_expands_with_the_prompts_of_each_level() {
        let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
        let model = Arc::new(Scripted::rule(card, |call| {
            let Call::Generate { prompt, .. } = call else { return None };
            let asked: String = prompt.parts.iter().map(|part| part.text.as_str()).collect();
            let text = match () {
                () if asked.contains("Condense the content") => "Light.",
                () if asked.contains("heavily compressed representation") => "From heavy: src/none.py.",
                () if asked.contains("compressed summary") => "From light: src/none.py.",
                () => " a=1",
            };
            let text = text.to_owned();
            Some(Ok(Answer::Text(Text {
                text,
                finish: Finish::Stop,
                prompt_tokens: 9,
                tokens: 3,
                cut_tokens: 0,
            })))
        }));
        struct Nobody;
        impl Observer for Nobody {}
        let log = Log::script(HALL);
        let texts = |params: &str| {
            let params = format!(
                "{BY_QUERY}\nlight_ratio = 2.0\nheavy_ratio = 2.0\ndecompress = \"generated\"\n{params}"
            );
            let recipe = Recipe {
                model: Some(model.clone()),
                ..Recipe::named(("tiered", &params), ("turns", "n = 1"))
            };
            let tokenizer = Tokenizer::load("o200k").unwrap();
            let run = replay(&log, &recipe, &tokenizer, &Needs::of(&log, 3), &mut Nobody).unwrap();
            (recalled(&log, &run), run.recalls[0].work.calls)
        };
        assert_eq!(texts(""), (vec![(3, "From light: src/none.py.".to_owned())], 1));
        assert_eq!(texts("warm_tokens = 0"), (vec![(3, "From heavy: src/none.py.".to_owned())], 1));
    }

    #[test]
    fn hot_memory_stays_and_the_tiers_can_be_shown() {
        let line = "one two three four five six seven eight nine ten eleven twelve";
        let turns: String = (0..8)
            .map(|i| format!("\naction: cat part{i}.py\nobservation: {line} {i}~{line} again~"))
            .collect();
        let script = format!("user: go{turns}\nagent: end");
        let (log, run) = tiered(
            "hot_tokens = 100\nvisible = \"all\"\nwarm_tokens = 12\nheavy_ratio = 4.0\nthreshold = 1.0",
            &script,
            "n = 1",
        );
        let last = run.events.last().unwrap();
        let text: String = last.after.iter().map(|block| block.text(&log)).collect();
        assert!(text.starts_with("COLD MEMORY\n") && text.contains("WARM MEMORY\n"), "{text}");
        // The newest turn of the scope stands there as it was; the oldest is in cold memory by its name alone.
        assert!(text.contains(&format!("cat part6.py{line} 6")) && text.contains("part0.py"), "{text}");
        assert!(!text.contains(&format!("{line} 0")), "{text}");
        let hot: u64 = run.decisions.last().unwrap().tokens_sent;
        assert!(hot < 100 + 150, "{hot}");
        let (_, run) = tiered("hot_tokens = 100\nthreshold = 1.0", &script, "n = 1");
        assert!(run.decisions.last().unwrap().tokens_sent <= 100 + u64::from(log.tokens[0]));
    }

    /// Of every strategy that keeps a store, or takes single messages out of a context that grows.
    #[test]
    fn bad_input_does_no_harm() {
        let giant = "a line of the giant turn with value_1 and src/a.py~".repeat(3000);
        for script in [
            // One giant turn; no entities at all; identical turns; a query that matches nothing; control characters.
            format!("user: go\naction: cat\nobservation: {giant}\nagent: a\nagent: b"),
            format!("user: go\n{}", "agent: roses are red\n".repeat(20)),
            format!("user: go\n{}", "agent: src/a.py is mended\n".repeat(20)),
            "user: go\nagent: alpha bravo\nagent: charlie delta\nagent: echo foxtrot\nagent: golf".to_owned(),
            "user: \u{0}\nagent: \u{1}\u{2}~~~\u{3}\nagent: {{{\nagent: \u{1F600}\nagent: x".to_owned(),
            "user: go\nagent: only".to_owned(),
        ] {
            let log = Log::script(&script);
            for (way, params) in [
                ("tiered", "hot_tokens = 0\nkeep_last = 0\nthreshold = 0.0"),
                ("tiered", ""),
                ("tiered", "segment_by = \"entity\"\nhot_tokens = 0"),
                ("notes", "keep_last = 0"),
                ("core-notes", "keep_last = 0"),
                ("prune-importance", "max_tokens = 0"),
                ("prune-importance", "max_tokens = 20\nrules = \"support\""),
                ("tri-level", "keep_last = 1\nmax_tokens = 0"),
                ("tri-level", "keep_last = 1\nmax_tokens = 40"),
            ] {
                let run = run((way, params), ("turns", "n = 1"), &log);
                assert!(run.decisions.iter().all(|d| d.tokens_sent <= d.tokens_full), "{way}");
                let violations = run.events.iter().flat_map(|event| &event.violations);
                assert!(violations.into_iter().all(|told| *told == "longer than the original"), "{way}");
            }
        }
    }

    /// Of every strategy that keeps a store, or takes single messages out of a context that grows.
    #[test]
    fn ten_thousand_tiny_turns() {
        let script: String = (0..10_000).map(|i| format!("agent: part {} fails\n", i % 97)).collect();
        let log = Log::script(&format!("user: go\n{script}"));
        for (way, params) in [
            ("tiered", "hot_tokens = 50\nwarm_tokens = 100\ncold_tokens = 50\nthreshold = 0.3"),
            ("notes", ""),
            ("core-notes", ""),
            ("prune-importance", "max_tokens = 60"),
            ("tri-level", "max_tokens = 60"),
        ] {
            let run = run((way, params), ("turns", "n = 1"), &log);
            assert_eq!(run.decisions.len(), 10_000, "{way}");
            assert!(run.decisions.iter().all(|d| d.tokens_sent <= d.tokens_full), "{way}");
            let last = run.decisions.last().unwrap();
            assert!(last.tokens_sent < 1000 && last.tokens_full > 30_000, "{way} {last:?}");
            // A core of so little is longer than it, and told.
            let violations = run.events.iter().flat_map(|event| &event.violations);
            assert!(violations.into_iter().all(|told| *told == "longer than the original"), "{way}");
        }
    }

    #[test]
    fn markers_are_words_of_their_own() {
        for text in
            ["Important: keep port 8042", "please REMEMBER this.", "Don't forget the tests", "it is critical"]
        {
            assert!(has_marker(text), "{text}");
        }
        for text in [
            "this is unimportant",
            "noncritical",
            "he remembered it",
            "that is not important",
            "isn't critical",
            "",
        ] {
            assert!(!has_marker(text), "{text}");
        }
        let log = Log::script(
            "user: go\naction: grep important src\nobservation: important: yes\nagent: This is important.\nuser: Remember me",
        );
        let marked: Vec<bool> =
            (0..5).map(|step| is_marked(&log, &log.spans_of(step).collect::<Vec<_>>())).collect();
        assert_eq!(marked, [false, false, false, true, true]);
    }

    /// A turn of a token is longer as a line of memory: what was shown before it stays all the same.
    #[test]
    fn a_tiny_turn_does_not_take_memory_out_of_sight() {
        let line = "one two three four five six seven eight nine ten eleven twelve";
        let big: String =
            (0..6).map(|i| format!("\nagent: part{i}.py {line} {i}~{line} so~{line} too")).collect();
        let tiny: String = (0..9).map(|i| format!("\nagent: {i}")).collect();
        let (log, run) = tiered(
            "hot_tokens = 0\nvisible = \"all\"\nthreshold = 1.0",
            &format!("user: go{big}{tiny}"),
            "n = 1",
        );
        let shown = |event: &crate::replay::Event| {
            event.after.iter().map(|block| block.text(&log)).collect::<String>()
        };
        for event in &run.events[6..] {
            assert!((0..6).all(|i| shown(event).contains(&format!("part{i}.py"))), "{}", shown(event));
        }
        assert!(run.events.iter().any(|event| event.work.warning == Some("memory not shown whole")));
        assert!(run.events.iter().all(|event| event.violations.is_empty()));
    }

    /// When a result comes does not matter before it is there, whatever time the rest of its turn takes.
    #[test]
    fn what_a_call_will_take_is_not_known_before_it() {
        let recalled = |late: i64| {
            let script: String = (0..6)
                .map(|i| format!("\naction: cat part{i}.py\nobservation: what stands there {i}"))
                .collect();
            let mut log = Log::script(&format!("user: go{script}\nagent: end"));
            for (step, logged) in log.trajectory.steps.iter_mut().enumerate() {
                logged.time = Some(1_000_000 * (step as i64 + if step >= 8 { late } else { 0 }));
            }
            let params = "hot_tokens = 0\nw_access = 0.0\nw_semantic = 0.0\nw_entity = 0.0\nw_uniqueness = 0.0\nw_query = 0.0\ndecay = 0.3\nthreshold = 0.5";
            let run = run(("tiered", params), ("turns", "n = 1"), &log);
            let recalls = run.recalls.iter().map(|recall| (recall.decision, recall.blocks.len()));
            recalls.collect::<Vec<_>>()
        };
        let (soon, late) = (recalled(0), recalled(5000));
        // Step 8 is the result of the fourth turn, whose decision is number 3.
        let before = |recalls: &[(u32, usize)]| {
            recalls.iter().filter(|recall| recall.0 <= 3).copied().collect::<Vec<_>>()
        };
        assert!(!before(&soon).is_empty() && before(&soon) == before(&late), "{soon:?} {late:?}");
        assert_ne!(soon, late);
    }

    #[test]
    fn wrong_parameters_are_told() {
        let error =
            |params: &str| build("tiered", toml::from_str(params).unwrap()).err().unwrap().to_string();
        assert!(error("threshold = 2.0").contains("threshold"));
        assert!(error("w_query = -1.0").contains("w_query"));
        assert!(error("light_ratio = 0.5").contains("light_ratio"));
        assert!(error("segment_by = \"mood\"").contains("topic"));
        assert!(error("light_ratio = 12.0\nheavy_ratio = 2.0").contains("heavy_ratio"));
        assert!(error("marker = 0.0").contains("marker"));
        assert!(error("segment_tokens = 5000").contains("recall_tokens"));
        assert!(error("w_query = 1e308").contains("w_query"));
        let none = ["recency", "access", "semantic", "entity", "uniqueness", "query"]
            .map(|factor| format!("w_{factor} = 0.0"));
        assert!(error(&none.join("\n")).contains("w_recency"));
        assert!(build("tiered", toml::from_str("segment_tokens = 5000\ntop_n = 0").unwrap()).is_ok());
    }
}
