//! The state of a replay: what stands in the prompt, what each stage remembers, and what an event does to them.

mod counted;
mod pick;

use std::collections::HashSet;
use std::ops::Range;

use rand_chacha::ChaCha8Rng;

use super::provider::Provider;
use super::recipe::{Head, Recipe, Stage};
use super::{Decision, Event, OVERFULL, Observer, Recall, Run, ranges, rng};
use crate::context::log::Log;
use crate::context::messages::Messages;
use crate::context::needs::Needs;
use crate::context::{Applied, Block, Context};
use crate::models::{Asked, Metered, Model};
use crate::strategies::{self, Env, Scope, State, Work};
use crate::text::tokens::Tokenizer;
use crate::trajectory::Kind;
use crate::triggers::{Detector, Firing, Moment};
use counted::{new_lengths, new_messages};
use pick::Pick;

pub(super) struct Replayer<'a> {
    log: &'a Log,
    recipe: &'a Recipe,
    tokenizer: &'a Tokenizer,
    needs: &'a Needs,
    observer: &'a mut dyn Observer,
    pub(super) run: Run,
    context: Context,
    /// The context as messages, where something asks for them.
    messages: Option<Messages>,
    /// The same as its policy counts single messages, where that is otherwise.
    lengths: Option<Messages>,
    /// What the provider counts, for policies.
    provider: Provider,
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

impl<'a> Replayer<'a> {
    pub(super) fn new(
        log: &'a Log,
        recipe: &'a Recipe,
        tokenizer: &'a Tokenizer,
        needs: &'a Needs,
        observer: &'a mut dyn Observer,
    ) -> Self {
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
        replayer
    }

    /// What the strategy may use, with what it remembers of the segment.
    fn env(&self, rng: ChaCha8Rng, standing: &mut Standing) -> Env<'a> {
        let recipe = self.recipe;
        Env {
            extractor: recipe.extractor.as_deref(),
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
    pub(super) fn segment(&mut self, turns: Range<u32>) -> anyhow::Result<()> {
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
