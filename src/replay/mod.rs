//! Replays one trajectory under one variant: decision by decision, in the order of the log.
//!
//! For each decision: append the steps logged since the last one; ask the trigger; if it fires, ask
//! the strategy for edits and apply them; ask it what to recall; the context with that at its end is what would have been
//! sent. Work is linear in the number of steps: an event touches only the turns that became its scope, and, where the
//! strategy is recursive, what it left of those before.

mod provider;
mod recipe;
pub mod sent;
pub mod shadow;
pub mod trace;
pub mod watch;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use crate::context::counter::Counter;
use crate::context::log::Log;
use crate::context::messages::{LastCall, Messages};
use crate::context::needs::Needs;
use crate::context::{Applied, Block, Content, Context};
use crate::models::{Asked, Metered, Model};
use crate::scopes::{Prompt, Rule};
use crate::strategies::{self, Env, Scope, State, Strategy, Work};
use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;
use crate::triggers::{Detector, Firing, Moment};

use provider::Provider;
pub use recipe::{Frame, Head, Recipe, Scaled, Stage};

/// Violation: what was recalled would have made the prompt longer than the uncompressed one.
pub const OVERFULL: &str = "recalled more than was taken away";

/// All steps: see [`Event::takes`].
pub const ALL: u32 = u32::MAX;

/// What one decision was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub turn: u32,
    /// Events so far.
    pub n_events: u32,
    pub tokens_full: u64,
    pub tokens_sent: u64,
    /// What the provider would count of it, of a policy's prompt where the log has usage: single calls are off the fit.
    pub billed: Option<u64>,
    /// Longest prefix shared with the previous prompt, in whole blocks.
    pub cached_full: u64,
    pub cached_sent: u64,
    pub output_tokens: u64,
    /// Tokens of the prompt that stand for removable blocks of compressed scopes.
    pub kept_tokens: u64,
    /// Tokens of the prompt that were recalled for it alone; never in a cache.
    pub recalled_tokens: u64,
}

/// What was recalled for a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Recall {
    /// Index of the decision.
    pub decision: u32,
    /// The step of the decision: those before it had been logged.
    pub until: u32,
    /// What stands at the end of its prompt.
    pub blocks: Vec<Block>,
    /// Beside the blocks, what else the strategy knows of each, JSON.
    pub details: Vec<Option<String>>,
    /// What was asked of a model for it.
    pub work: Work,
}

/// One compression.
#[derive(Clone, Debug)]
pub struct Event {
    /// Number of the stage that made it.
    pub stage: u32,
    pub segment: u32,
    pub turn: u32,
    /// Index of the decision that followed.
    pub decision: u32,
    pub kind: &'static str,
    pub confidence: f64,
    /// What the trigger says of its decision, JSON.
    pub details: String,
    /// Turns of the scope; where it has gaps, from the first to the last of its blocks.
    pub turns: Range<u32>,
    /// The last of them, from this turn on, are compressed for the first time: all, unless the strategy is recursive.
    pub fresh: u32,
    /// The fresh steps of the scope, where it is not made of whole turns: the trigger named them, or some steps of the turns
    /// are pinned, wait for their results, or stand in no prompt of the segment.
    pub only: Option<Vec<u32>>,
    /// Whether the trigger named single steps, and so cut the history nowhere.
    pub names_steps: bool,
    /// What the events before it in its segment left of the steps before this one is in its scope, too, and it takes its
    /// place: 0 for nothing, [`ALL`] for all, where the strategy is recursive.
    pub takes: u32,
    /// The blocks that events before it left and that are in its scope, by [`Block::left`].
    pub taken: Vec<Range<u32>>,
    pub tokens_before: u64,
    pub tokens_after: u64,
    /// Prefix that the prompt shared with the previous one before the event.
    pub cached_before: u64,
    /// Tokens of the fresh blocks of the scope before.
    pub fresh_tokens: u64,
    /// Fresh steps that the strategy may remove, in order.
    pub removable: Vec<u32>,
    /// Tokens of all blocks of the scope that it may remove.
    pub removable_tokens: u64,
    /// The blocks that stand for the scope after.
    pub after: Vec<Block>,
    /// Tokens of those of them that stand for removable blocks.
    pub kept_tokens: u64,
    pub generated_tokens: u64,
    pub violations: Vec<&'static str>,
    /// What was asked of the model.
    pub work: Asking,
}

/// The work of an event, which as a rule is none: a long run has many.
#[derive(Clone, Default)]
pub struct Asking(Option<Box<Work>>);

impl std::fmt::Debug for Asking {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Work::fmt(self, to)
    }
}

impl From<Work> for Asking {
    fn from(work: Work) -> Self {
        Asking((work != Work::default()).then(|| Box::new(work)))
    }
}

impl std::ops::Deref for Asking {
    type Target = Work;

    fn deref(&self) -> &Work {
        static NONE: LazyLock<Work> = LazyLock::new(Work::default);
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl std::ops::DerefMut for Asking {
    fn deref_mut(&mut self) -> &mut Work {
        self.0.get_or_insert_default()
    }
}

impl Event {
    /// Whether a block of the scope stands for removable ones.
    pub fn is_kept(log: &Log, strategy: &dyn Strategy, block: &Block) -> bool {
        block.kind(log).is_none_or(|kind| strategy.may_remove(kind))
    }

    /// Tokens of a span of the scope that were copied; all, some or none.
    pub fn copied_tokens(&self, log: &Log, span: u32) -> u32 {
        let step = log.spans[span as usize].step;
        let turn = log.turn_of(step);
        let start = self.after.partition_point(|b| b.turn < turn);
        let of_turn = self.after[start..].iter().take_while(|b| b.turn == turn);
        // A logged summary may stand at the start.
        let summary = self.after.first().filter(|_| log.kind(step) == Kind::Compaction);
        of_turn
            .chain(summary)
            .find_map(|b| match &b.content {
                Content::Step(s) if *s == step => Some(log.spans[span as usize].tokens),
                Content::Excerpt { step: s, pieces, .. } if *s == step => {
                    pieces.binary_search_by_key(&span, |p| p.span).ok().map(|i| pieces[i].tokens)
                }
                _ => None,
            })
            .unwrap_or(0)
    }
}

/// What a scorer sees of a replay while it runs.
pub trait Observer {
    /// The context begins anew.
    fn reset(&mut self) {}
    /// A step was appended whole.
    fn appended(&mut self, _step: u32) {}
    /// An event replaced `before` by what [`Event::after`] holds; `until` is the next step to come.
    fn compressed(&mut self, _before: &[Block], _event: &Event, _until: u32) {}
    /// These blocks stand at the end of the prompt of the coming decision, and of no other.
    fn recalled(&mut self, _blocks: &[Block], _until: u32) {}
    /// The context stands for the decision of this turn.
    fn decided(&mut self, _decision: u32, _turn: u32) {}
    /// The whole prompt, without what is recalled, before the coming decision.
    fn standing(&mut self, _context: &Context) {}
    /// The same when a segment ends, and no decision comes.
    fn ended(&mut self, _context: &Context) {}
}

/// The schedule of a replay: data that its shadows replay.
#[derive(Default)]
pub struct Run {
    pub decisions: Vec<Decision>,
    pub events: Vec<Event>,
    /// Only of decisions for which something was recalled, or a model asked.
    pub recalls: Vec<Recall>,
    /// What the trigger asked its model, and what the stages of a policy asked for nothing: no event tells it.
    pub trigger_asked: Asked,
    /// What the strategy remembers at the end of each segment, with the number of decisions and of events until then.
    pub left: Vec<(u32, u32, State)>,
}

impl Run {
    /// What was recalled for a decision, if anything was.
    pub fn recalled_for(&self, decision: u32) -> Option<&Recall> {
        let at = self.recalls.binary_search_by_key(&decision, |recall| recall.decision).ok()?;
        self.recalls.get(at)
    }
}

/// Numbers as ranges, in their order.
fn ranges(numbers: impl IntoIterator<Item = u32>) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

/// Seeds a generator by what it is for, so that no draw depends on the order of work.
pub fn rng(seed: u64, purpose: &str, trajectory: &str, event: u64, replicate: u64) -> ChaCha8Rng {
    let mut hash = blake3::Hasher::new();
    hash.update(purpose.as_bytes());
    hash.update(trajectory.as_bytes());
    for n in [seed, event, replicate] {
        hash.update(&n.to_le_bytes());
    }
    ChaCha8Rng::from_seed(*hash.finalize().as_bytes())
}

/// Replays the log. `needs` is passed on to strategies that say that they see the future.
pub fn replay(
    log: &Log,
    recipe: &Recipe,
    tokenizer: &Tokenizer,
    needs: &Needs,
    observer: &mut dyn Observer,
) -> anyhow::Result<Run> {
    if let Some(scaled) = &recipe.scaled {
        let recipe = scaled(log.longest_prompt())?;
        return replay(log, &recipe, tokenizer, needs, observer);
    }
    let no_needs = Needs::default();
    let needs = if recipe.sees_future() { needs } else { &no_needs };
    let mut replayer = Replayer {
        log,
        recipe,
        tokenizer,
        needs,
        observer,
        // Room that is not filled takes no memory; a vector that grows leaves what it had.
        run: Run { decisions: Vec::with_capacity(log.turns.len()), ..Run::default() },
        context: Context::new(recipe.may_grow()).parting_pairs(recipe.parts_pairs()),
        messages: recipe.reads_messages().then(|| new_messages(recipe)),
        lengths: new_lengths(recipe),
        provider: Provider::default(),
    };
    replayer.context.blocks.reserve(log.n_steps());
    let mut turn = 1;
    while (turn as usize) < log.turns.len() {
        let segment = log.turns[turn as usize].segment;
        let end = log.turns[turn as usize..].partition_point(|t| t.segment == segment) as u32 + turn;
        replayer.segment(turn..end)?;
        turn = end;
    }
    Ok(replayer.run)
}

struct Replayer<'a> {
    log: &'a Log,
    recipe: &'a Recipe,
    tokenizer: &'a Tokenizer,
    needs: &'a Needs,
    observer: &'a mut dyn Observer,
    run: Run,
    context: Context,
    /// The context as messages, where something asks for them.
    messages: Option<Messages>,
    /// The same as its policy counts single messages, where that is otherwise.
    lengths: Option<Messages>,
    /// What the provider counts, for policies.
    provider: Provider,
}

fn new_messages(recipe: &Recipe) -> Messages {
    let Some(frame) = recipe.frame else { return Messages::new(Counter::default(), true, false) };
    messages_by(frame.counter, &frame)
}

fn new_lengths(recipe: &Recipe) -> Option<Messages> {
    let frame = recipe.frame?;
    Some(messages_by(frame.lengths?, &frame))
}

fn messages_by(counter: Counter, frame: &Frame) -> Messages {
    let mut messages = Messages::new(counter, frame.head == Head::Task, frame.joins_results);
    messages.made_by = frame.made_by;
    messages.drops_system = frame.head == Head::None;
    messages
}

/// What goes on through a segment.
struct Carry {
    /// First turn after the head.
    begin: u32,
    kept_tokens: u64,
    /// The blocks whose tokens these are, by their numbers.
    counted: HashSet<u32>,
    /// Whether the segment begins with turns that a logged compaction kept.
    has_kept: bool,
    /// Whether an event took single steps, or there are several stages: then scopes have gaps.
    has_gaps: bool,
    /// Where the last event left its blocks.
    left_at: Vec<usize>,
    stages: Vec<Standing>,
}

impl Carry {
    /// Counts the tokens that stand for removable blocks anew after an event. What one stage may remove another may not: so each block
    /// that was counted is known by its number.
    fn count_kept(&mut self, before: &[Block], after: &[Block], is_kept: impl Fn(&Block) -> bool) {
        for block in before.iter().filter(|block| self.counted.remove(&block.left)) {
            self.kept_tokens -= u64::from(block.tokens);
        }
        for block in after.iter().filter(|block| is_kept(block)) {
            self.counted.insert(block.left);
            self.kept_tokens += u64::from(block.tokens);
        }
    }
}

/// What goes on through a segment for one stage.
struct Standing {
    detector: Box<dyn Detector>,
    compressed_until: u32,
    /// What the strategy remembers.
    state: State,
    /// Steps that the trigger named and the strategy still leaves alone: they join the next scope of single steps.
    waiting: Vec<u32>,
    /// Steps that were in a scope and stand as they were: a rule that never retakes passes by them.
    passed: HashSet<u32>,
    /// Events in a row that made the prompt no shorter.
    n_vain: u32,
}

/// What an event compresses.
struct Pick {
    turns: Range<u32>,
    fresh: u32,
    /// Indices of blocks, ascending.
    blocks: Vec<usize>,
    only: Option<Vec<u32>>,
    names_steps: bool,
    /// See [`Event::takes`].
    takes: u32,
}

impl Pick {
    /// The blocks as a range, if nothing stands between them.
    fn range(&self) -> Option<Range<usize>> {
        let (first, last) = (*self.blocks.first()?, *self.blocks.last()?);
        (last - first + 1 == self.blocks.len()).then_some(first..last + 1)
    }
}

impl<'a> Replayer<'a> {
    /// What the strategy may use, with what it remembers of the segment.
    fn env(&self, rng: ChaCha8Rng, standing: &mut Standing) -> Env<'a> {
        let recipe = self.recipe;
        Env {
            embedder: recipe.embedder.as_deref(),
            state: std::mem::take(&mut standing.state),
            ..Env::new(self.tokenizer, rng, recipe.model.as_deref())
        }
    }

    fn append(&mut self, step: u32) {
        self.context.push_step(self.log, step);
        for messages in [&mut self.messages, &mut self.lengths].into_iter().flatten() {
            messages.append(self.log, &self.context);
        }
        if self.is_policy() {
            self.provider.append(self.log, self.tokenizer, step);
        }
        self.observer.appended(step);
        // A result that comes late may stand without its call.
        if let Some(event) = self.run.events.last_mut() {
            for violation in self.context.violations() {
                if !event.violations.contains(&violation) {
                    event.violations.push(violation);
                }
            }
        }
    }

    /// The messages as the policy counts single ones.
    fn single(&self) -> Option<&Messages> {
        self.lengths.as_ref().or(self.messages.as_ref())
    }

    /// Reads the context as messages from a block on.
    fn read_messages(&mut self, from: usize) {
        for messages in [&mut self.messages, &mut self.lengths].into_iter().flatten() {
            messages.read(self.log, &self.context, from);
        }
    }

    /// Appends what stands in every prompt of a segment before its own steps; returns the tokens.
    fn append_head(&mut self, segment: u32) -> u64 {
        let log = self.log;
        for step in log.turns[0].steps.clone().chain(log.pinned_before(segment)) {
            self.append(step);
        }
        let goes = |kind: Kind| match self.recipe.frame.map(|frame| frame.head) {
            Some(Head::System) => kind == Kind::Message,
            Some(Head::None) => kind != Kind::Tools,
            _ => false,
        };
        let blocks = &self.context.blocks;
        let first = blocks.iter().position(|block| block.kind(log).is_some_and(goes));
        self.context.n_head = first.unwrap_or(blocks.len());
        self.read_messages(self.context.blocks.len());
        self.context.tokens
    }

    /// Appends a step before the decision of its turn; returns the tokens that came with it. A logged compaction belongs
    /// to the head, and behind it stands what it kept; one without a text (the context was cleared) leaves nothing.
    fn append_before(&mut self, step: u32) -> u64 {
        let (log, before) = (self.log, self.context.tokens);
        if log.kind(step) != Kind::Compaction {
            self.append(step);
        } else {
            if !log.trajectory.steps[step as usize].text.is_empty() {
                self.append(step);
            }
            match self.recipe.frame.map(|frame| frame.head) {
                // The product summarises its old summary with the rest. It stands before what was kept of the turns before it.
                Some(Head::System | Head::None) => {
                    let summary = self.context.blocks.last_mut();
                    summary
                        .filter(|block| block.kind(log) == Some(Kind::Compaction))
                        .into_iter()
                        .for_each(|block| block.turn = 0);
                }
                _ => self.context.n_head = self.context.blocks.len(),
            }
            self.read_messages(self.context.blocks.len().saturating_sub(1));
            log.kept_in(log.trajectory.steps[step as usize].segment).for_each(|kept| self.append(kept));
        }
        self.context.tokens - before
    }

    /// Replays the turns of one segment.
    fn segment(&mut self, turns: Range<u32>) -> anyhow::Result<()> {
        let log = self.log;
        self.context.clear();
        self.messages = self.messages.take().map(|_| new_messages(self.recipe));
        self.lengths = new_lengths(self.recipe);
        self.provider = Provider::default();
        self.observer.reset();
        let segment = log.turns[turns.start as usize].segment;
        let mut full = self.append_head(segment);
        let begin = log.kept_in(segment).next().map(|step| log.turn_of(step));
        // The head of a later segment is that of the one before, and so still in the cache.
        let cached_head = if turns.start > 1 { log.turns[0].steps.clone() } else { 0..0 };
        let cached_head: u64 = cached_head.map(|step| u64::from(log.tokens[step as usize])).sum();
        let begin_turn = begin.unwrap_or(turns.start);
        let mut carry = Carry {
            begin: begin_turn,
            kept_tokens: 0,
            counted: HashSet::new(),
            has_kept: begin.is_some(),
            has_gaps: self.recipe.stages.len() > 1,
            left_at: Vec::new(),
            stages: self.open(&turns, begin_turn)?,
        };
        let mut previous_sent = cached_head;
        let mut previous_full = cached_head;
        for turn in turns {
            let steps = log.turns[turn as usize].steps.clone();
            let decision = log.turns[turn as usize].decision.unwrap_or(steps.end);
            for step in steps.start..decision {
                full += self.append_before(step);
            }
            if decision == steps.end {
                continue;
            }
            let mut cached = previous_sent;
            self.provider.decide(turn);
            for _ in 0..self.recipe.rounds {
                let before = self.context.tokens;
                for stage in 0..carry.stages.len() {
                    cached = self.stage((stage, turn, decision), cached, &mut carry)?;
                }
                if self.context.tokens >= before {
                    break;
                }
            }
            let recalled =
                self.recall((turn, decision), full.saturating_sub(self.context.tokens), &mut carry)?;
            self.observer.standing(&self.context);
            self.observer.decided(self.run.decisions.len() as u32, turn);
            let output = (decision..steps.end).filter(|&s| log.trajectory.steps[s as usize].is_agent());
            self.run.decisions.push(Decision {
                turn,
                n_events: self.run.events.len() as u32,
                tokens_full: full,
                tokens_sent: self.context.tokens + recalled,
                billed: self
                    .is_policy()
                    .then(|| self.provider.count(log, turn, self.context.tokens + recalled))
                    .flatten(),
                cached_full: previous_full,
                cached_sent: cached,
                output_tokens: output.map(|s| u64::from(log.tokens[s as usize])).sum(),
                kept_tokens: carry.kept_tokens,
                recalled_tokens: recalled,
            });
            previous_full = full;
            previous_sent = self.context.tokens;
            self.see_call(turn);
            for step in decision..steps.end {
                full += u64::from(log.tokens[step as usize]);
                self.append(step);
            }
        }
        self.observer.ended(&self.context);
        let state = carry.stages.swap_remove(self.recipe.store()).state;
        self.run.left.push((self.run.decisions.len() as u32, self.run.events.len() as u32, state));
        Ok(())
    }

    /// Asks one stage before a decision, again where it repeats, as long as that shortens the prompt; returns the tokens of
    /// the prefix that the prompt still shares with the previous one.
    fn stage(
        &mut self,
        (stage, turn, decision): (usize, u32, u32),
        mut cached: u64,
        carry: &mut Carry,
    ) -> anyhow::Result<u64> {
        let window = self.recipe.frame.map_or(0, |frame| frame.window) as f64;
        for number in 0..self.recipe.stages[stage].repeat {
            self.count_full(turn);
            let (log, messages, context_tokens) = (self.log, self.messages.as_ref(), self.counted(turn));
            let is_anew = self.recipe.stages[stage].anew;
            let freed = messages.filter(|_| is_anew).map_or(0, Messages::freed);
            let context_tokens = context_tokens + freed;
            let moment = Moment { log, turn, context_tokens, messages };
            let firing = match self.recipe.stages[stage].down_to.filter(|_| number > 0) {
                Some(share) => {
                    (context_tokens as f64 > share * window).then(|| Firing::new("again", turn, 1.0))
                }
                None => carry.stages[stage].detector.advance(&moment),
            };
            let give_up = self.recipe.stages[stage].give_up;
            let has_given_up = give_up > 0 && carry.stages[stage].n_vain >= give_up;
            let (firing, pick) = match firing.filter(|_| !has_given_up) {
                Some(firing) => {
                    let pick = self.pick((stage, turn), &firing, carry);
                    (firing, pick)
                }
                None if freed > 0 => (Firing::new("whole again", turn, 1.0), self.pick_rewritten(stage)),
                None => break,
            };
            let Some(pick) = pick else { break };
            let before = self.context.tokens;
            let prefix = self.event((stage, turn, decision), pick, firing, cached, carry)?;
            cached = cached.min(prefix.unwrap_or(cached));
            if self.context.tokens >= before {
                carry.stages[stage].n_vain += 1;
                break;
            }
            carry.stages[stage].n_vain = 0;
        }
        Ok(cached)
    }

    /// Tokens of the prompt at a decision, as the policy counts: by the provider where its count is known, else by its own. A
    /// variant of the grid goes by the fit alone.
    fn counted(&self, turn: u32) -> u64 {
        match (&self.messages, self.recipe.frame) {
            (Some(messages), Some(_)) if !messages.by_usage() => messages.tokens(),
            _ => {
                let counted = match self.goes_by_usage() {
                    true => self.provider.count(self.log, turn, self.context.tokens),
                    false => self.log.rate(turn).map(|rate| rate.billed(self.context.tokens) as u64),
                };
                counted.unwrap_or(self.context.tokens)
            }
        }
    }

    /// Whether it is a policy that goes by what the provider counted.
    fn goes_by_usage(&self) -> bool {
        self.messages.as_ref().is_some_and(Messages::by_usage) && self.is_policy()
    }

    /// Whether it is a policy whose prompts the provider's count can tell of. In a bridged log that is of others.
    fn is_policy(&self) -> bool {
        self.recipe.frame.is_some() && !self.recipe.bridges()
    }

    /// Tells the messages what the provider would count of all that was logged.
    fn count_full(&mut self, turn: u32) {
        let full = self.goes_by_usage().then(|| self.provider.count_full(self.log, turn)).flatten();
        if let Some(messages) = &mut self.messages {
            messages.counted_full = full;
        }
    }

    /// What went before a decision is off what the last call had, too.
    fn see_gone(&mut self, turn: u32, tokens_before: u64) {
        let gone = tokens_before as f64 - self.context.tokens as f64;
        let gone = (self.provider.factor(self.log, turn) * gone).max(0.0) as u64;
        if let Some(call) = self.messages.as_mut().and_then(|messages| messages.last_call.as_mut()) {
            call.prompt = call.prompt.saturating_sub(gone);
        }
    }

    /// Tells the messages what the provider counted of the call that was made.
    fn see_call(&mut self, turn: u32) {
        let log = self.log;
        let usage = log.usage(turn).filter(|usage| usage.input > 0 && self.goes_by_usage());
        let steps = || {
            log.turns[turn as usize].steps.clone().filter(|&s| log.trajectory.steps[s as usize].is_agent())
        };
        let said = || steps().map(|step| u64::from(log.tokens[step as usize])).sum::<u64>();
        let call = usage.zip(log.rate(turn)).map(|(usage, rate)| LastCall {
            prompt: self.counted(turn),
            reply: usage.output.unwrap_or_else(|| rate.counted(said()) as u64),
        });
        if let Some(messages) = &mut self.messages {
            messages.last_call = call;
        }
    }

    /// The stages at the beginning of a segment of these turns, whose scopes begin at a turn.
    fn open(&mut self, turns: &Range<u32>, begin: u32) -> anyhow::Result<Vec<Standing>> {
        let model = self.recipe.trigger_model.as_deref().map(Metered::new);
        let asked = model.as_ref().map(|model| model as &dyn Model);
        let open = |stage: &Stage| {
            Ok(Standing {
                detector: stage.trigger.open(self.log, turns.clone(), asked)?,
                compressed_until: begin,
                state: State::default(),
                waiting: Vec::new(),
                passed: HashSet::new(),
                n_vain: 0,
            })
        };
        let stages = self.recipe.stages.iter().map(open).collect::<anyhow::Result<_>>()?;
        if let Some(model) = model {
            self.run.trigger_asked.add(model.asked());
        }
        Ok(stages)
    }

    /// What a firing makes the scope; none if nothing in it is new.
    ///
    /// Whole turns begin where the last event over whole turns ended. A recursive strategy has all in its scope that was
    /// compressed before, too. A pair enters a scope as a whole, with its last result: a call that waits for one stays
    /// out, and comes in with it.
    fn pick(&self, (stage, turn): (usize, u32), firing: &Firing, carry: &mut Carry) -> Option<Pick> {
        if let Some(rule) = &self.recipe.stages[stage].scope {
            return self.pick_messages((stage, &**rule), turn, &carry.stages[stage].passed);
        }
        let newest = self.recipe.stages[stage].strategy.newest(self.log, turn);
        match &firing.only {
            Some(named) => {
                // A trigger may name a step of the turn at hand that stands before the decision.
                let at = &self.log.turns[newest as usize];
                let until = if newest == turn { at.decision.unwrap_or(at.steps.end) } else { at.steps.start };
                self.pick_named(stage, (named, until), carry)
            }
            None => self.pick_turns(stage, firing.scope_end.min(newest), carry),
        }
    }

    /// The messages that a rule names, but for what is pinned or waits for its result; none if nothing in it is new.
    fn pick_messages(
        &self,
        (stage, rule): (usize, &dyn Rule),
        turn: u32,
        passed: &HashSet<u32>,
    ) -> Option<Pick> {
        let messages = self.single()?;
        let window = self.recipe.frame.map_or(0, |frame| frame.window);
        let (n_head, tokens) = (messages.n_head(), self.counted(turn));
        let counter = messages.counter();
        let prompt =
            Prompt { log: self.log, messages: &messages.list, n_head, tokens, window, counter, passed };
        let named = rule.pick(&prompt).into_iter().filter(|&at| !messages.list[at].is_pinned);
        let mut blocks: Vec<usize> = named.flat_map(|at| messages.list[at].blocks.clone()).collect();
        if self.log.pairs.has_late() && !self.recipe.parts_pairs() {
            blocks.retain(|&i| !self.waits(i, turn));
        }
        let of = |i: &usize| &self.context.blocks[*i];
        if !rule.retakes() {
            blocks.retain(|i| of(i).message().is_none_or(|step| !passed.contains(&step)));
        }
        let first = *blocks.first()?;
        let only: Vec<u32> = blocks.iter().filter(|i| of(i).fresh).filter_map(|i| of(i).message()).collect();
        let fresh = match only.iter().map(|&step| self.log.turn_of(step)).min() {
            // What another stage left as it was is new to this one; and what only leaves out is done where nothing is new, too.
            None if !rule.retakes()
                || rule.merges()
                || !self.recipe.stages[stage].strategy.is_recursive() =>
            {
                of(&first).turn
            }
            fresh => fresh?,
        };
        let is_whole = blocks.last()? - first + 1 == blocks.len();
        let last = only.iter().max().copied().unwrap_or(0);
        let is_all =
            self.context.blocks[self.context.n_head.min(first)..first].iter().all(|block| block.fresh);
        let takes = if rule.retakes() && is_whole && is_all && !only.is_empty() { last + 1 } else { 0 };
        Some(Pick {
            turns: self.turns(&blocks),
            fresh,
            blocks,
            only: Some(only),
            names_steps: !is_whole,
            takes,
        })
    }

    /// What the stage rewrote.
    fn pick_rewritten(&self, stage: usize) -> Option<Pick> {
        let (all, strategy) = (&self.context.blocks, &*self.recipe.stages[stage].strategy);
        let is_it = |block: &Block| {
            matches!(block.content, Content::Placeholder { .. }) && Event::is_kept(self.log, strategy, block)
        };
        let blocks: Vec<usize> = (self.context.n_head..all.len()).filter(|&i| is_it(&all[i])).collect();
        let (turns, fresh) = (self.turns(&blocks), all[*blocks.first()?].turn);
        Some(Pick { turns, fresh, blocks, only: Some(Vec::new()), names_steps: true, takes: 0 })
    }

    fn pick_named(&self, stage: usize, (named, until): (&[u32], u32), carry: &mut Carry) -> Option<Pick> {
        let log = self.log;
        let last = |step: u32| log.pairs.with(step).and_then(|pair| pair.last().copied()).unwrap_or(step);
        let (steps, wait): (Vec<u32>, Vec<u32>) =
            // What is pinned stays as it stands, like the head.
            carry.stages[stage].waiting.iter().chain(named).filter(|&&s| !log.is_pinned(s)).partition(|&&s| last(s) < until);
        carry.stages[stage].waiting = wait;
        let mut only: Vec<(u32, usize)> = Vec::new();
        for step in steps {
            let Some(place) = self.fresh_place(step) else { continue };
            only.push((step, place));
            only.extend(self.rest_of_pair(step));
        }
        only.sort_unstable();
        only.dedup();
        let blocks = &self.context.blocks;
        let fresh = only.iter().map(|(_, i)| blocks[*i].turn).min()?;
        let mut picked: Vec<usize> = only.iter().map(|(_, i)| *i).collect();
        if self.recipe.stages[stage].strategy.is_recursive() {
            picked.extend(self.left(carry));
        }
        picked.sort_unstable();
        let only = Some(only.into_iter().map(|(step, _)| step).collect());
        carry.has_gaps = true;
        let takes = self.takes(stage);
        Some(Pick { turns: self.turns(&picked), fresh, blocks: picked, only, names_steps: true, takes })
    }

    fn pick_turns(&self, stage: usize, end: u32, carry: &mut Carry) -> Option<Pick> {
        let mut fresh = carry.stages[stage].compressed_until;
        if end <= fresh {
            return None;
        }
        let recursive = self.recipe.stages[stage].strategy.is_recursive();
        let mut turns = if recursive { carry.begin } else { fresh }..end;
        let range = self.context.range(turns.clone());
        let blocks = &self.context.blocks;
        let is_fresh = |i: usize| blocks[i].fresh;
        let mut picked: Vec<usize> = match (carry.has_gaps, recursive) {
            (false, _) => range.clone().collect(),
            (true, false) => range.clone().filter(|&i| is_fresh(i)).collect(),
            (true, true) => {
                let left = self.left(carry).into_iter().filter(|i| !range.contains(i));
                let mut all: Vec<usize> = range.clone().chain(left).collect();
                all.sort_unstable();
                all
            }
        };
        carry.stages[stage].compressed_until = end;
        let n_all = picked.len();
        if self.log.has_pinned() {
            picked.retain(|&i| blocks[i].message().is_none_or(|step| !self.log.is_pinned(step)));
        }
        let mut joined: Vec<usize> = Vec::new();
        if self.log.pairs.has_late() {
            picked.retain(|&i| !self.waits(i, end));
            let messages = picked.iter().filter_map(|&i| blocks[i].message());
            let late = messages.filter(|&step| self.began_before(step, fresh));
            joined = late.flat_map(|step| self.rest_of_pair(step)).map(|(_, i)| i).collect();
        }
        let is_apart = picked.len() < n_all;
        let n = picked.len();
        picked.extend(joined);
        picked.sort_unstable();
        picked.dedup();
        let has_joined = picked.len() > n;
        let mut new = picked.iter().filter(|&&i| is_fresh(i)).peekable();
        let first = blocks[**new.peek()?].turn;
        let steps = (is_apart || has_joined || carry.has_kept || carry.has_gaps)
            .then(|| new.filter_map(|&i| blocks[i].message()).collect());
        if has_joined {
            (fresh, turns.start) = (fresh.min(first), turns.start.min(first));
        }
        let takes = self.takes(stage);
        Some(Pick { turns, fresh, blocks: picked, only: steps, names_steps: false, takes })
    }

    /// What an event of a stage without a scope of its own takes of those before it.
    fn takes(&self, stage: usize) -> u32 {
        if self.recipe.stages[stage].strategy.is_recursive() { ALL } else { 0 }
    }

    /// Where events have left something.
    fn left(&self, carry: &Carry) -> Vec<usize> {
        match self.recipe.stages.len() {
            1 => carry.left_at.clone(),
            _ => (self.context.n_head..self.context.blocks.len())
                .filter(|&i| !self.context.blocks[i].fresh)
                .collect(),
        }
    }

    /// Where a step stands whole, if no event has had it.
    fn fresh_place(&self, step: u32) -> Option<usize> {
        let (turn, blocks) = (self.log.turn_of(step), &self.context.blocks);
        let is_it =
            |i: &usize| blocks[*i].fresh && matches!(blocks[*i].content, Content::Step(s) if s == step);
        self.context.range(turn..turn + 1).find(is_it)
    }

    /// The other steps of a pair, with their places, as far as no event has had them.
    fn rest_of_pair(&self, step: u32) -> impl Iterator<Item = (u32, usize)> {
        let pair = self.log.pairs.with(step).unwrap_or_default().iter().copied();
        pair.filter(move |&other| other != step).filter_map(|other| Some((other, self.fresh_place(other)?)))
    }

    /// Whether a step belongs to a pair whose first call came before a turn.
    fn began_before(&self, step: u32, turn: u32) -> bool {
        let first = self.log.pairs.with(step).and_then(|pair| pair.first());
        first.is_some_and(|&first| self.log.turn_of(first) < turn)
    }

    /// Whether a block belongs to a pair whose last result comes at a turn or after it.
    fn waits(&self, block: usize, turn: u32) -> bool {
        let pair = self.context.blocks[block].message().and_then(|step| self.log.pairs.with(step));
        pair.and_then(|pair| pair.last()).is_some_and(|&last| self.log.turn_of(last) >= turn)
    }

    /// The turns from the first to the last of these blocks.
    fn turns(&self, blocks: &[usize]) -> Range<u32> {
        let turns = || blocks.iter().map(|&i| self.context.blocks[i].turn);
        turns().min().unwrap_or(0)..turns().max().map_or(0, |last| last + 1)
    }

    /// Asks the strategy what to bring back for this decision; returns its tokens. What no longer fits `room`, and would
    /// make the prompt longer than the uncompressed one, is left out, and that is a violation of the last event.
    fn recall(&mut self, (turn, until): (u32, u32), room: u64, carry: &mut Carry) -> anyhow::Result<u64> {
        let stage = self.recipe.store();
        let strategy = &*self.recipe.stages[stage].strategy;
        let has_store = carry.has_gaps || carry.stages.iter().any(|s| s.compressed_until > carry.begin);
        if !strategy.recalls() || !has_store {
            return Ok(0);
        }
        let standing = &mut carry.stages[stage];
        let decision = self.run.decisions.len() as u32;
        let rng = rng(self.recipe.seed, "recall", self.log.id(), u64::from(decision), 0);
        let mut env = self.env(rng, standing);
        let moment = strategies::Moment { log: self.log, context: &self.context, turn, until, room };
        let recalled = strategy.recall(&moment, &mut env)?;
        standing.state = env.state;
        let (mut blocks, mut details, mut tokens) = (Vec::new(), Vec::new(), 0);
        for (at, recalled) in recalled.into_iter().enumerate() {
            let Some(block) = recalled.block(self.log, self.tokenizer, turn, until)? else { continue };
            if tokens + u64::from(block.tokens) <= room {
                tokens += u64::from(block.tokens);
                blocks.push(block);
                details.push(env.work.recalled.get(at).map(serde_json::Value::to_string));
            } else if let Some(event) = self.run.events.last_mut()
                && !event.violations.contains(&OVERFULL)
            {
                event.violations.push(OVERFULL);
            }
        }
        if !blocks.is_empty() {
            self.observer.recalled(&blocks, until);
        }
        if !blocks.is_empty() || env.work.calls + env.work.embeddings > 0 {
            self.run.recalls.push(Recall { decision, until, blocks, details, work: env.work });
        }
        Ok(tokens)
    }

    /// Remembers what a stage that looks at each step once has looked at.
    fn pass_by(&self, stage: usize, blocks: &[Block], carry: &mut Carry) {
        if self.recipe.stages[stage].passes_by() {
            carry.stages[stage].passed.extend(blocks.iter().filter_map(Block::step));
        }
    }

    /// Takes back what changed nothing: to a policy that is no event. What was asked of a model for it is paid all the same.
    fn in_vain(&mut self, stage: usize, applied: &Applied, work: &Work, carry: &mut Carry) -> Option<u64> {
        self.context.take_back(applied);
        self.pass_by(stage, &applied.before, carry);
        let Work { calls, tokens_in, tokens_out, .. } = *work;
        self.run.trigger_asked.add(Asked { calls, tokens_in, tokens_out });
        None
    }

    /// Compresses what was picked; returns the tokens before the first change, if anything changed.
    fn event(
        &mut self,
        (stage, turn, until): (usize, u32, u32),
        pick: Pick,
        firing: Firing,
        cached_before: u64,
        carry: &mut Carry,
    ) -> anyhow::Result<Option<u64>> {
        let log = self.log;
        let strategy = &*self.recipe.stages[stage].strategy;
        let tokens_before = self.context.tokens;
        let rng = rng(self.recipe.seed, "strategy", log.id(), self.run.events.len() as u64, 0);
        let mut env = self.env(rng, &mut carry.stages[stage]);
        // A scope of single steps or with gaps is shown as if nothing stood between.
        let whole = pick.range().filter(|_| !pick.names_steps);
        let view = whole.is_none().then(|| self.context.only(&pick.blocks));
        let context = view.as_ref().unwrap_or(&self.context);
        let blocks = whole.clone().unwrap_or(context.n_head..context.blocks.len());
        let scope = Scope {
            log,
            context,
            blocks,
            prompt: &self.context,
            turns: pick.turns.clone(),
            fresh: pick.fresh,
            turn,
            needs: self.needs,
            counter: self.single().map(Messages::counter).unwrap_or_default(),
            counted: firing.counted,
            n_messages: self.single().map_or(pick.blocks.len(), |messages| messages.among(&pick.blocks)),
        };
        let edits = strategy.compress(&scope, &mut env)?;
        carry.stages[stage].state = env.state;
        let applied = match whole {
            Some(range) => self.context.apply(log, self.tokenizer, range, edits)?,
            None => self.context.apply_picked(log, self.tokenizer, &pick.blocks, edits)?,
        };
        if self.recipe.frame.is_some() && applied.unchanged_prefix.is_none() {
            return Ok(self.in_vain(stage, &applied, &env.work, carry));
        }
        self.pass_by(stage, &applied.after, carry);
        carry.left_at = applied.places;
        self.read_messages(pick.blocks.first().copied().unwrap_or(0));
        self.see_gone(turn, tokens_before);
        let after = applied.after;
        let removable = |b: &&Block| Event::is_kept(log, strategy, b);
        let sum = |blocks: &mut dyn Iterator<Item = &Block>| blocks.map(|b| u64::from(b.tokens)).sum::<u64>();
        let new = applied.before.iter().filter(|b| b.fresh && removable(b));
        let event = Event {
            stage: stage as u32,
            segment: log.turns[turn as usize].segment,
            turn,
            decision: self.run.decisions.len() as u32,
            kind: firing.kind,
            confidence: firing.confidence,
            details: firing.details,
            turns: pick.turns,
            fresh: pick.fresh,
            only: pick.only,
            names_steps: pick.names_steps,
            taken: ranges(applied.before.iter().map(|b| b.left).filter(|&left| left > 0)),
            takes: pick.takes,
            tokens_before,
            tokens_after: self.context.tokens,
            cached_before,
            fresh_tokens: sum(&mut applied.before.iter().filter(|b| b.fresh)),
            removable: new.filter_map(Block::step).collect(),
            removable_tokens: sum(&mut applied.before.iter().filter(removable)),
            kept_tokens: sum(&mut after.iter().filter(removable)),
            generated_tokens: after.iter().map(|b| u64::from(b.generated_tokens())).sum(),
            work: env.work.into(),
            after,
            violations: applied.violations,
        };
        self.observer.compressed(&applied.before, &event, until);
        carry.count_kept(&applied.before, &event.after, |block| Event::is_kept(log, strategy, block));
        self.run.events.push(event);
        Ok(applied.unchanged_prefix)
    }
}

#[cfg(test)]
impl Event {
    /// An event before the decision of `turn` that left nothing of these turns.
    pub(crate) fn test(turn: u32, turns: Range<u32>) -> Self {
        Event {
            stage: 0,
            segment: 0,
            turn,
            decision: turn - 1,
            kind: "test",
            confidence: 1.0,
            details: String::new(),
            fresh: turns.start,
            turns,
            only: None,
            names_steps: false,
            takes: 0,
            taken: Vec::new(),
            tokens_before: 0,
            tokens_after: 0,
            cached_before: 0,
            fresh_tokens: 0,
            removable: Vec::new(),
            removable_tokens: 0,
            after: Vec::new(),
            kept_tokens: 0,
            generated_tokens: 0,
            violations: Vec::new(),
            work: Asking::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use crate::trajectory::LoggedEdit;
    use crate::{strategies, triggers};

    fn log(n: u32) -> Log {
        let mut script = String::from("system: be good\nuser: the task");
        for i in 0..n {
            script.push_str(&format!(
                "\naction: cat file{i}\nobservation: alpha beta gamma delta~epsilon zeta eta theta~iota {i}"
            ));
        }
        Log::script(&script)
    }

    fn run(log: &Log, strategy: (&str, &str), trigger: (&str, &str)) -> Run {
        struct Nobody;
        impl Observer for Nobody {}
        run_seen(log, strategy, trigger, &mut Nobody)
    }

    fn run_seen(
        log: &Log,
        strategy: (&str, &str),
        trigger: (&str, &str),
        observer: &mut dyn Observer,
    ) -> Run {
        let recipe = Recipe::named(strategy, trigger);
        let tokenizer = Tokenizer::load("o200k").unwrap();
        replay(log, &recipe, &tokenizer, &Needs::of(log, 3), observer).unwrap()
    }

    /// Six known turns and those of the log are judged, seven tokens each.
    #[test]
    fn what_a_trigger_asks_is_counted() {
        use crate::models::scripted::Scripted;
        use crate::models::{Answer, Call, Card, Scores, TokenScore};
        let log = log(4);
        let card = Card { name: "m".to_owned(), identity: "test".to_owned(), window: 999 };
        let model = Scripted::rule(card, |call| {
            let Call::Score { continuations, .. } = call else { return None };
            let continuations =
                continuations.iter().map(|_| vec![TokenScore { end: 1, logprob: -1.0 }]).collect();
            Some(Ok(Answer::Scores(Scores { parts: vec![], continuations, prompt_tokens: 7, cut_tokens: 0 })))
        });
        let recipe = Recipe {
            trigger_model: Some(Arc::new(model)),
            ..Recipe::named(("mask", ""), ("intent", "model = 'm'"))
        };
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let run = replay(&log, &recipe, &tokenizer, &Needs::default(), &mut Auditor::of(&recipe)).unwrap();
        assert_eq!(run.trigger_asked, Asked { calls: 6 + 4, tokens_in: 70, tokens_out: 0 });
        assert_eq!(run.decisions.len(), 4);
    }

    #[test]
    fn full_sends_all_and_caches_all_but_the_new() {
        let log = log(4);
        let run = run(&log, ("full", ""), ("never", ""));
        let sent: Vec<u64> = run.decisions.iter().map(|d| d.tokens_sent).collect();
        let head = u64::from(log.tokens[0] + log.tokens[1]);
        let turn = |i: usize| u64::from(log.tokens[2 + 2 * i] + log.tokens[3 + 2 * i]);
        assert_eq!(
            sent,
            [head, head + turn(0), head + turn(0) + turn(1), head + turn(0) + turn(1) + turn(2)]
        );
        for d in &run.decisions {
            assert_eq!((d.tokens_sent, d.cached_sent), (d.tokens_full, d.cached_full));
        }
        assert_eq!(run.decisions[2].cached_full, sent[1]);
    }

    #[test]
    fn a_rolling_mask_leaves_the_last_turns_alone() {
        let log = log(6);
        let run = run(&log, ("mask", "keep_last = 2"), ("turns", "n = 1"));
        // Deciding turn 4 is the first with a turn older than the last two.
        let turns: Vec<(u32, Range<u32>)> = run.events.iter().map(|e| (e.turn, e.turns.clone())).collect();
        assert_eq!(turns, [(4, 1..2), (5, 2..3), (6, 3..4)]);
        assert!(run.events.iter().all(|e| e.violations.is_empty() && e.removable.len() == 1));
        let last = run.decisions.last().unwrap();
        let saved: u64 = run.events.iter().map(|e| e.removable_tokens - e.kept_tokens).sum();
        assert_eq!(last.tokens_full - last.tokens_sent, saved);
        // The prefix ends before the newly masked observation.
        let before_change: u64 = (0..3).map(|s| u64::from(log.tokens[s])).sum();
        assert_eq!(run.decisions[3].cached_sent, before_change);
    }

    #[test]
    fn n_and_m_drop_the_first_and_keep_the_last() {
        let log = log(9);
        let run = run(&log, ("drop-all", ""), ("turns", "n = 3\nkeep = 2"));
        let turns: Vec<(u32, Range<u32>)> = run.events.iter().map(|e| (e.turn, e.turns.clone())).collect();
        assert_eq!(turns, [(6, 1..4), (9, 4..7)]);
        let head = u64::from(log.tokens[0] + log.tokens[1]);
        let kept: u64 = (2 + 6 * 2..2 + 8 * 2).map(|s| u64::from(log.tokens[s])).sum();
        assert_eq!(run.decisions[8].tokens_sent, head + kept);
    }

    /// Observations go stale when they are 2 turns old; the actions beside them stay.
    #[test]
    fn single_steps_leave_the_rest_of_their_turns() {
        let log = log(4);
        let rule = "recent = 1\nmax_age = 2\nthreshold = 0.6\nbatch = 1";
        let taken = |run: &Run| -> Vec<(u32, Option<Vec<u32>>)> {
            run.events.iter().map(|e| (e.turn, e.only.clone())).collect()
        };
        let dropped = run(&log, ("drop-all", ""), ("staleness", rule));
        assert_eq!(taken(&dropped), [(3, Some(vec![3])), (4, Some(vec![5]))]);
        assert!(dropped.events.iter().all(|e| e.violations.is_empty() && e.removable.len() == 1));
        let gone = u64::from(log.tokens[3] + log.tokens[5]);
        let last = dropped.decisions.last().unwrap();
        assert_eq!(last.tokens_full - last.tokens_sent, gone);
        // The prompt before turn 4 is the same up to the observation that goes.
        assert_eq!(
            last.cached_sent,
            [0, 1, 2, 4].iter().map(|&s: &usize| u64::from(log.tokens[s])).sum::<u64>()
        );
        // What the strategy leaves alone waits for the next firing.
        let kept = run(&log, ("truncate", "keep_last = 2"), ("staleness", rule));
        assert_eq!(taken(&kept), [(4, Some(vec![3]))]);
        // A recursive strategy takes what it left before with it.
        let summed = run(&log, ("summary", ""), ("staleness", rule));
        assert!(summed.events.iter().all(|e| e.takes == ALL) && summed.events.len() == 2);
    }

    /// The texts of what stands in the prompt of each decision, without order, and whether a pair is parted there.
    struct Prompts<'a> {
        log: &'a Log,
        logged: Vec<u32>,
        blocks: Vec<Block>,
        prompts: Vec<Vec<String>>,
        is_parted: Vec<bool>,
    }

    impl<'a> Prompts<'a> {
        fn new(log: &'a Log) -> Self {
            Prompts { log, logged: vec![], blocks: vec![], prompts: vec![], is_parted: vec![] }
        }

        /// Whether of some id calls and results were logged, and only calls or only results stand as messages.
        fn parts(&self) -> bool {
            let mut found: HashMap<&str, [[bool; 2]; 2]> = HashMap::new();
            let standing = self.blocks.iter().filter_map(Block::message);
            for (set, step) in self.logged.iter().map(|&s| (0, s)).chain(standing.map(|s| (1, s))) {
                let step = &self.log.trajectory.steps[step as usize];
                if let Some(id) = step.call_id.as_deref() {
                    found.entry(id).or_default()[set][usize::from(step.kind == Kind::Action)] = true;
                }
            }
            found.values().any(|[logged, standing]| *logged == [true, true] && standing[0] != standing[1])
        }
    }

    impl Observer for Prompts<'_> {
        fn reset(&mut self) {
            self.logged.clear();
            self.blocks.clear();
        }
        fn appended(&mut self, step: u32) {
            self.logged.push(step);
            let (turn, tokens) = (self.log.turn_of(step), self.log.tokens[step as usize]);
            self.blocks.push(Block { turn, tokens, content: Content::Step(step), fresh: true, left: 0 });
        }
        fn compressed(&mut self, before: &[Block], event: &Event, _: u32) {
            for gone in before {
                let at = self.blocks.iter().position(|b| b.content == gone.content);
                self.blocks.remove(at.expect("what an event takes stands there"));
            }
            self.blocks.extend(event.after.iter().cloned());
        }
        fn decided(&mut self, _: u32, _: u32) {
            self.prompts.push(self.blocks.iter().map(|b| b.text(self.log)).collect());
            self.is_parted.push(self.parts());
        }
    }

    fn prompts(log: &Log, strategy: (&str, &str), trigger: (&str, &str)) -> (Run, Vec<Vec<String>>) {
        let mut seen = Prompts::new(log);
        let run = run_seen(log, strategy, trigger, &mut seen);
        assert!(seen.is_parted.iter().all(|parted| !parted));
        (run, seen.prompts)
    }

    /// Each observation that goes stale takes its call along, and nothing else.
    #[test]
    fn a_stale_result_goes_with_its_call() {
        let turn =
            |i: u32| format!("\nthought: so {i}\naction#c{i}: look {i}\nobservation#c{i}: seen {i} and more");
        let log = Log::script(&format!("user: go{}", (0..4).map(turn).collect::<String>()));
        let rule = ("staleness", "recent = 1\nmax_age = 2\nthreshold = 0.6\nbatch = 1");
        let (run, seen) = prompts(&log, ("drop-all", ""), rule);
        let only: Vec<Option<Vec<u32>>> = run.events.iter().map(|e| e.only.clone()).collect();
        assert_eq!(only, [Some(vec![2, 3]), Some(vec![5, 6])]);
        assert_eq!(seen[3], ["go", "so 0", "so 1", "so 2", "look 2", "seen 2 and more"]);
        for strategy in ["truncate", "random", "summary", "mask", "tool-log", "codex"] {
            let params = if strategy == "truncate" || strategy == "mask" { "keep_last = 1" } else { "" };
            let (run, _) = prompts(&log, (strategy, params), rule);
            let told: Vec<&str> = run.events.iter().flat_map(|e| e.violations.clone()).collect();
            assert!(told.iter().all(|v| *v == "longer than the original"), "{strategy}: {told:?}");
        }
    }

    /// The result of `a` comes two turns after its call: the call stays for it, and both go together.
    #[test]
    fn a_call_waits_for_its_result() {
        const SCRIPT: &str = "user: go
            thought: one
            action#a: slow
            thought: two
            action#b: quick
            observation#b: quickly done
            thought: three
            observation#a: slowly done
            thought: four
            agent: end";
        let log = Log::script(SCRIPT);
        let (run, seen) = prompts(&log, ("drop-all", ""), ("turns", "n = 1"));
        assert_eq!(seen[1], ["go", "slow"]);
        assert_eq!(seen[2], ["go", "slow"]);
        assert_eq!(seen[3], ["go"]);
        assert!(run.events.iter().all(|e| e.violations.is_empty()));
        let turns: Vec<_> = run.events.iter().map(|e| (e.turns.clone(), e.fresh, e.only.clone())).collect();
        let late = [(1..2, 1, Some(vec![1])), (2..3, 2, None), (1..4, 1, Some(vec![2, 6, 7]))];
        assert_eq!(turns[..3], late);
        // One that never gets a result waits for none.
        let script = SCRIPT.replace("observation#a", "observation#c");
        let (_, seen) = prompts(&Log::script(&script), ("drop-all", ""), ("turns", "n = 1"));
        assert_eq!(seen[1], ["go"]);
        // What a strategy keeps of the one it keeps of the other.
        prompts(&log, ("truncate", "keep_last = 0\nkeep_first = 1"), ("turns", "n = 3"));
        prompts(&log, ("summary", ""), ("turns", "n = 1"));
    }

    #[test]
    fn the_task_and_the_system_stand_whatever_goes() {
        let log = Log::script(
            "system: be good
             agent: Hello!
             user: move booking QX7
             agent: I look.
             system: no refunds
             user: and?
             agent: Nothing.
             summary: looked
             agent: Well.
             agent: End.",
        );
        let (run, seen) = prompts(&log, ("drop-all", ""), ("turns", "n = 1"));
        assert_eq!(seen[2], ["be good", "move booking QX7", "no refunds", "and?"]);
        assert_eq!(seen[3], ["be good", "move booking QX7", "no refunds", "looked"]);
        assert_eq!(seen[4], ["be good", "move booking QX7", "no refunds", "looked"]);
        let only: Vec<_> = run.events.iter().map(|e| (e.turns.clone(), e.only.clone())).collect();
        assert_eq!(only, [(1..2, None), (2..3, Some(vec![3])), (4..5, None)]);
        assert!(run.events.iter().all(|e| e.removable.iter().all(|&step| !log.is_pinned(step))));
        let full = |steps: &[usize]| steps.iter().map(|&s| u64::from(log.tokens[s])).sum::<u64>();
        assert_eq!(run.decisions[3].tokens_full, full(&[0, 2, 4, 7]));
        // The summary of a recursive strategy stands once, and the task beside it.
        let (_, seen) = prompts(&log, ("summary", ""), ("turns", "n = 1"));
        assert!(seen.iter().skip(1).all(|prompt| prompt.contains(&"move booking QX7".to_owned())));
    }

    /// Turns 2 and 3 stand in the second segment, too, and turn 2 in the third.
    #[test]
    fn what_a_compaction_kept_stands_behind_its_summary() {
        const SCRIPT: &str = "user: go
            action#a: ls
            observation#a: nothing
            action#b: cat notes
            observation#b: a b c d
            agent: I read them.
            summary: what was done
            agent: Well.
            agent: End.
            summary: all of it
            agent: Good.";
        let log = Log::kept(SCRIPT, &[(3, 2), (4, 2), (5, 1)]);
        let (run, seen) = prompts(&log, ("full", ""), ("never", ""));
        assert_eq!(seen[3], ["go", "what was done", "cat notes", "a b c d", "I read them."]);
        assert_eq!(seen[5], ["go", "all of it", "cat notes", "a b c d"]);
        let tokens = |steps: &[usize]| steps.iter().map(|&s| u64::from(log.tokens[s])).sum::<u64>();
        let d = &run.decisions[3];
        assert_eq!((d.tokens_full, d.tokens_sent), (tokens(&[0, 6, 3, 4, 5]), tokens(&[0, 6, 3, 4, 5])));
        assert_eq!(run.decisions[4].tokens_full, tokens(&[0, 6, 3, 4, 5, 7]));
        // They are compressed like any turn of the segment: as its first ones.
        let (run, seen) = prompts(&log, ("drop-all", ""), ("turns", "n = 1"));
        assert_eq!(seen[4], ["go", "what was done"]);
        let last = run.events.iter().rfind(|e| e.segment == 1).unwrap();
        assert_eq!((last.turns.clone(), &last.only), (2..5, &Some(vec![3, 4, 5, 7])));
        assert!(run.events.iter().all(|e| e.violations.is_empty()));
    }

    /// A cleared context is a segment that begins with nothing but the head.
    #[test]
    fn a_cleared_context_has_no_summary() {
        let log =
            Log::script("system: s\nuser: task\nagent: one\nsummary: \nuser: next\nagent: two\nagent: end");
        let (run, seen) = prompts(&log, ("drop-all", ""), ("turns", "n = 1"));
        assert_eq!(seen[1], ["s", "task", "next"]);
        assert_eq!(run.decisions[1].tokens_full, run.decisions[1].tokens_sent);
        assert_eq!(seen[2], ["s", "task"]);
    }

    #[test]
    fn a_logged_compaction_begins_anew_and_a_bridge_goes_over_it() {
        const SCRIPT: &str = "user: task\naction: ls\nobservation: a b c d e f g h i j\nsummary: short\nagent: more\nagent: end";
        let log = Log::script(SCRIPT);
        let plain = run(&log, ("full", ""), ("never", ""));
        let head = u64::from(log.tokens[0]);
        let summary = u64::from(log.tokens[3]);
        assert_eq!(plain.decisions[1].tokens_sent, head + summary);
        assert!(run(&log, ("drop-all", ""), ("logged", "")).events.is_empty());
        let log = Log::script_bridged(SCRIPT);
        let past = u64::from(log.tokens[1] + log.tokens[2]);
        for (strategy, left) in [("drop-all", 0), ("logged", summary)] {
            let bridged = run(&log, (strategy, ""), ("logged", ""));
            assert_eq!(bridged.events.len(), 1);
            assert_eq!(bridged.events[0].turns, 1..2);
            assert_eq!(bridged.decisions[1].tokens_sent, head + left);
            assert_eq!(bridged.decisions[1].tokens_full, head + past);
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_lines() {
        let log = log(9);
        let decisions = || run(&log, ("random", "kept_share = 0.3"), ("turns", "n = 3")).decisions;
        assert_eq!(decisions(), decisions());
    }

    #[test]
    fn what_is_recalled_stands_in_one_prompt_alone() {
        let log = Log::script(
            "system: be good
             user: the task
             action: cat a.py
             observation: the parser of the report lives in src/parser.py beside its lexer, and so on
             action: ls
             observation: the parser is broken
             action: pwd
             observation: nothing else
             agent: done",
        );
        let run = run(&log, ("notes", "keep_last = 1"), ("turns", "n = 1"));
        let recalled: Vec<u64> = run.decisions.iter().map(|d| d.recalled_tokens).collect();
        assert!(recalled[2] > 0 && recalled[0] == 0 && recalled[1] == 0, "{recalled:?}");
        let blocks: u64 = run.recalls[0].blocks.iter().map(|b| u64::from(b.tokens)).sum();
        assert_eq!((run.recalls[0].decision, blocks), (2, recalled[2]));
        let tokens = |steps: &[usize]| steps.iter().map(|&s| u64::from(log.tokens[s])).sum::<u64>();
        // The third prompt: head, the second turn, what is recalled of the first.
        assert_eq!(run.decisions[2].tokens_sent, tokens(&[0, 1, 4, 5]) + recalled[2]);
        // The fourth shares only the head: the second turn is gone; what was recalled is in no cache.
        assert_eq!(run.decisions[3].cached_sent, tokens(&[0, 1]));
        assert_eq!(run.decisions[3].tokens_sent, tokens(&[0, 1, 6, 7]) + recalled[3]);
    }

    /// Checks what must hold at every event, whatever the strategy.
    struct Auditor {
        may_grow: bool,
    }

    impl Auditor {
        fn of(recipe: &Recipe) -> Self {
            Auditor { may_grow: recipe.is_record() }
        }
    }

    impl Observer for Auditor {
        fn recalled(&mut self, blocks: &[Block], until: u32) {
            for block in blocks {
                assert!(block.tokens > 0);
                if let Content::Excerpt { step, .. } = block.content {
                    assert!(step < until, "the future is recalled");
                }
            }
        }

        fn compressed(&mut self, before: &[Block], event: &Event, until: u32) {
            let sum = |blocks: &[Block]| blocks.iter().map(|b| u64::from(b.tokens)).sum::<u64>();
            let is_shorter = sum(&event.after) <= sum(before) && event.kept_tokens <= event.removable_tokens;
            assert!(is_shorter || self.may_grow, "an event made its scope longer");
            assert_eq!(event.tokens_before + sum(&event.after), event.tokens_after + sum(before));
            // Single steps can be of the turn at hand.
            assert!(event.turns.end <= event.turn + u32::from(event.only.is_some()));
            for block in before {
                // What was compressed before may lie behind a scope of whole turns, if single steps were taken there.
                assert!(
                    event.turns.contains(&block.turn) || !block.fresh,
                    "a block of turn {} in scope {:?}",
                    block.turn,
                    event.turns
                );
                if let Content::Step(step) = block.content {
                    assert!(step < until, "the future is in the scope");
                }
            }
        }
    }

    use proptest::prelude::*;

    fn any_script(with_ids: bool) -> impl Strategy_<Value = String> {
        let text = prop_oneof![
            6 => "[a-z]{1,6}( [a-z]{1,6}| (src/)?[a-c]{1,2}\\.py|~| timeout=[0-9]{1,2}){0,12}",
            // What triggers look for.
            4 => prop::sample::select(vec![
                "cat src/a.py", "sed -i s/a/b/ src/b.py", "pytest tests/a.py", "1 passed in 0.1s", "1 failed in 0.1s",
                "all tests pass", "now i'll fix it",
            ])
            .prop_map(str::to_owned),
        ];
        let role = prop_oneof![
            4 => Just("action"), 4 => Just("observation"), 2 => Just("thought"), 2 => Just("agent"),
            1 => Just("user"), 1 => Just("summary"), 1 => Just("system"), 1 => Just("answer"), 1 => Just("harness"),
        ];
        // Half of the logs have ids: a result answers one of the last calls, or none.
        (prop::collection::vec((role, text, 0usize..4), 0..60), any::<bool>(), any::<bool>()).prop_map(
            move |(lines, has_ids, greets)| {
                let has_ids = has_ids && with_ids;
                let mut script =
                    format!("system: be good{}\nuser: the task", if greets { "\nagent: Hi!" } else { "" });
                let mut n_calls = 0;
                for (role, text, back) in lines {
                    n_calls += usize::from(role == "action");
                    let id = match role {
                        "action" if has_ids => format!("#{n_calls}"),
                        "observation" | "answer" if has_ids && back < 3 => {
                            format!("#{}", n_calls.saturating_sub(back))
                        }
                        _ => String::new(),
                    };
                    script.push_str(&format!("\n{role}{id}: {text}"));
                }
                script
            },
        )
    }

    /// A model that answers some calls, fails at some, and loops at some.
    fn fickle() -> Arc<dyn Model> {
        use crate::models::scripted::Scripted;
        use crate::models::{Answer, Call, CallError, Card, Finish, Text};
        let card = Card { name: "fickle".to_owned(), identity: "test".to_owned(), window: 4096 };
        Arc::new(Scripted::rule(card, |call| {
            let Call::Generate { prompt, .. } = call else { return None };
            let length: usize = prompt.parts.iter().map(|part| part.text.len()).sum();
            let (text, finish) = match length % 4 {
                0 => return Some(Err(CallError::Timeout(1))),
                1 => ("again again again", Finish::Loop),
                2 => (" ", Finish::Stop),
                _ => ("It went on.", Finish::Stop),
            };
            let text = text.to_owned();
            Some(Ok(Answer::Text(Text { text, finish, prompt_tokens: 9, tokens: 3, cut_tokens: 0 })))
        }))
    }

    use proptest::strategy::Strategy as Strategy_;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// In a log that ends earlier the same is left by every event, and the same recalled, until there. (Without ids: which
        /// calls wait for a result is told by the log.)
        #[test]
        fn no_strategy_sees_the_future(
            script in any_script(false),
            cut in 2usize..60,
            passed in prop::collection::vec(prop_oneof![Just(1i64), Just(10), Just(1000)], 62),
        ) {
            let tokenizer = Tokenizer::load("o200k").unwrap();
            let shorter = script.lines().take(cut).collect::<Vec<_>>().join("\n");
            let (mut whole, mut part) = (Log::script(&script), Log::script(&shorter));
            for log in [&mut whole, &mut part] {
                let mut now = 0;
                for (step, passed) in log.trajectory.steps.iter_mut().zip(&passed) {
                    now += passed;
                    step.time = Some(now);
                }
            }
            // What is drawn at random is drawn by the name.
            part.trajectory.id.clone_from(&whole.trajectory.id);
            let recency = "hot_tokens = 0\nwarm_tokens = 20\ncold_tokens = 8\nfloor = 0.0\ndecay = 0.3\nw_recency = 9.0";
            for entry in strategies::ALL {
                // So that what is there to come back hangs on the time, too.
                let params = if entry.name == "tiered" { recency } else { "" };
                let seen = |log: &Log| {
                    let recipe = Recipe::named((entry.name, params), ("turns", "n = 2"));
                    if recipe.sees_future() {
                        return (0, Vec::new());
                    }
                    let run = replay(log, &recipe, &tokenizer, &Needs::of(log, 3), &mut Auditor::of(&recipe)).unwrap();
                    let text = |blocks: &[Block]| blocks.iter().map(|b| b.text(log)).collect::<Vec<_>>();
                    let left = run.events.iter().map(|e| (e.decision, "left", text(&e.after)));
                    let recalled = run.recalls.iter().map(|r| (r.decision, "recalled", text(&r.blocks)));
                    (run.decisions.len() as u32, left.chain(recalled).collect())
                };
                let (n, part) = seen(&part);
                let (_, mut whole) = seen(&whole);
                whole.retain(|(decision, ..)| *decision < n);
                prop_assert_eq!(whole, part, "{}", entry.name);
            }
        }

        /// Every strategy under every trigger, over generated histories.
        #[test]
        fn all_strategies_keep_the_invariants(
            script in any_script(true),
            kept in prop::collection::vec((0usize..60, 1u32..4), 0..5),
        ) {
            let n_steps = script.lines().count();
            let kept: Vec<(usize, u32)> = kept.into_iter().filter(|(step, _)| *step < n_steps).collect();
            let mut log = Log::kept(&script, &kept);
            for (i, step) in log.trajectory.steps.iter_mut().enumerate().step_by(3) {
                let text = ["", "gone", "and these words were sent in the place of it"][i % 5 % 3].to_owned();
                step.edit = Some(Box::new(LoggedEdit { from: step.turn + i as u32 % 4, text }));
            }
            let tokenizer = Tokenizer::load("o200k").unwrap();
            let bridged = Log::script_bridged(&script);
            let (needs, bridged_needs) = (Needs::of(&log, 3), Needs::of(&bridged, 3));
            for entry in strategies::ALL {
                for (trigger, params) in triggers::tests::eager().chain([("turns", "n = 1")]) {
                    let recipe = Recipe {
                        model: entry.takes_model.then(fickle),
                        ..Recipe::named((entry.name, ""), (trigger, params))
                    };
                    let (log, needs) = if trigger == "logged" { (&bridged, &bridged_needs) } else { (&log, &needs) };
                    let run = replay(log, &recipe, &tokenizer, needs, &mut Auditor::of(&recipe)).unwrap();
                    let n = log.turns.iter().skip(1).filter(|t| t.decision.is_some()).count();
                    prop_assert_eq!(run.decisions.len(), n);
                    for d in &run.decisions {
                        // What was sent may have been longer.
                        let is_short = d.tokens_sent <= d.tokens_full || recipe.is_record();
                        prop_assert!(is_short, "{} {}", entry.name, trigger);
                        prop_assert!(d.cached_sent <= d.tokens_sent && d.cached_full <= d.tokens_full);
                        prop_assert!(d.kept_tokens + d.recalled_tokens <= d.tokens_sent);
                        prop_assert!(d.cached_sent + d.recalled_tokens <= d.tokens_sent);
                    }
                    if entry.name == "full" {
                        prop_assert!(run.decisions.iter().all(|d| d.tokens_sent == d.tokens_full));
                    }
                    let mut seen = Prompts::new(log);
                    let again = replay(log, &recipe, &tokenizer, needs, &mut seen).unwrap();
                    prop_assert!(seen.is_parted.iter().all(|parted| !parted), "{} {}", entry.name, trigger);
                    let violations = run.events.iter().flat_map(|e| &e.violations);
                    prop_assert!(!violations.into_iter().any(|v| v.contains("without")), "{} {}", entry.name, trigger);
                    let pinned = (0..log.n_steps() as u32).filter(|&step| log.is_pinned(step));
                    for step in pinned {
                        let text = &log.trajectory.steps[step as usize].text;
                        let stand = seen.prompts.iter().zip(&run.decisions).filter(|(_, d)| {
                            log.turns[d.turn as usize].decision.is_some_and(|decision| step < decision)
                        });
                        prop_assert!(stand.into_iter().all(|(prompt, _)| prompt.contains(text)));
                    }
                    prop_assert_eq!(run.decisions, again.decisions);
                }
            }
        }
    }
}
