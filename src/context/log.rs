//! A trajectory prepared for replay: its steps, spans and atoms as indices, made once and shared
//! by all variants.
//!
//! Atoms are numbered per trajectory (see [`Atoms`]). A path that is a suffix of exactly one longer path goes by it,
//! which also takes care of the workspace root.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::OnceLock;

use anyhow::Context as _;

pub use crate::context::atoms::AtomId;
use crate::context::atoms::{Atom, Atoms};
use crate::store::FeatureRow;
use crate::text::atoms::{self, AtomKind};
pub use crate::text::atoms::{BODY, BOUND, DERIVED};
use crate::text::spans::n_lines;
use crate::text::spellings::Spellings;
use crate::trajectory::pairs::Pairs;
use crate::trajectory::usage::{LongestPrompt, Rate};
use crate::trajectory::{Kind, Role, Step, Trajectory, Usage};
use crate::turns::actions::ActionKind;
use crate::turns::{self, Turns};

mod bridge;
#[cfg(test)]
mod testing;

/// A line, or a piece of a long line: the unit of copying.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub step: u32,
    /// Byte range in the step's text.
    pub start: u32,
    pub end: u32,
    pub tokens: u32,
}

/// One mention of an atom in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mention {
    pub span: u32,
    /// What it goes by in the whole log, where the spellings of a path are one atom. Scores look at it.
    pub atom: AtomId,
    /// What it went by when it was logged, by the spellings so far, which later turns do not change. Strategies and
    /// triggers look at it.
    pub so_far: AtomId,
    pub flags: u8,
}

/// A turn, as ranges over steps.
#[derive(Debug, Clone)]
pub struct Turn {
    pub segment: u32,
    /// All steps of the turn.
    pub steps: Range<u32>,
    /// The first step that the agent wrote; the decision stands before it. None: no model call.
    pub decision: Option<u32>,
    /// Observations in the turns of its segment before it.
    pub n_observations: u32,
}

/// One row of features a step, in order.
pub type Features<'a> = Box<dyn Iterator<Item = anyhow::Result<FeatureRow>> + 'a>;

/// A trajectory with its features as indices.
pub struct Log {
    pub trajectory: Trajectory,
    /// Tokens of each step.
    pub tokens: Vec<u32>,
    /// Lines of each step.
    pub lines: Vec<u32>,
    /// Action kind of each step.
    pub action_kinds: Vec<Option<ActionKind>>,
    /// Steps that read or edit a file, in order, with it: see [`Log::path_of`].
    paths: Vec<(u32, Box<str>)>,
    pub spans: Vec<Span>,
    /// Spans of step i: `span_of[i]..span_of[i + 1]`.
    span_of: Vec<u32>,
    pub mentions: Vec<Mention>,
    /// Mentions of span i: `mention_of[i]..mention_of[i + 1]`.
    mention_of: Vec<u32>,
    pub atoms: Atoms,
    /// Turns 0..; turn 0 is the head and may be empty.
    pub turns: Vec<Turn>,
    pub n_segments: u32,
    /// Of a log made by [`Log::bridged`]: the product's own summaries, by the turn whose decision came next.
    pub summaries: BTreeMap<u32, String>,
    /// Of sessions that were linked: the turn at which each but the first begins.
    pub links: Vec<u32>,
    /// The action that each step answers, if it is a result: see [`Log::call_of`].
    calls: Vec<u32>,
    /// Calls with their results.
    pub pairs: Pairs,
    /// Steps behind the head that stand in every prompt once they were logged, in order: see [`Log::is_pinned`].
    pinned: Vec<u32>,
    /// Steps that a logged compaction kept, in order.
    kept: Vec<u32>,
    /// Mentions in the order of their atoms, and where each atom's begin.
    by_atom: Vec<u32>,
    atom_start: Vec<u32>,
    facts: OnceLock<Turns>,
    longest_prompt: OnceLock<u64>,
    /// What is known of the provider's count, by turns in order; empty where no usage is.
    pub rates: Vec<Rate>,
}

impl Log {
    /// Joins a trajectory with its features, which must be those of its steps, in order.
    pub fn new(trajectory: Trajectory, features: Vec<FeatureRow>) -> anyhow::Result<Self> {
        Log::join(trajectory, Box::new(features.into_iter().map(Ok)))
    }

    /// The same with features that are read as they are asked for.
    pub fn join(trajectory: Trajectory, features: Features<'_>) -> anyhow::Result<Self> {
        let n_steps = trajectory.steps.len();
        // A vector that grows leaves what it had: in a long log that adds up.
        let starts = || {
            let mut starts = Vec::with_capacity(n_steps + 1);
            starts.push(0);
            starts
        };
        let mut log = Log {
            tokens: Vec::with_capacity(n_steps),
            lines: trajectory.steps.iter().map(|s| n_lines(&s.text) as u32).collect(),
            action_kinds: Vec::with_capacity(n_steps),
            paths: Vec::new(),
            spans: Vec::with_capacity(n_steps),
            span_of: starts(),
            mentions: Vec::new(),
            mention_of: starts(),
            atoms: Atoms::default(),
            turns: turns_of(&trajectory),
            n_segments: trajectory.steps.last().map_or(1, |s| s.segment + 1),
            summaries: BTreeMap::new(),
            links: Vec::new(),
            calls: calls_of(&trajectory.steps),
            pairs: Pairs::of(&trajectory.steps),
            pinned: pinned(&trajectory),
            kept: kept(&trajectory),
            by_atom: Vec::new(),
            atom_start: Vec::new(),
            facts: OnceLock::new(),
            longest_prompt: OnceLock::new(),
            rates: Vec::new(),
            trajectory,
        };
        let mut spellings = Spellings::default();
        // What each atom went by when it first stood there.
        let mut went_by = Vec::new();
        let mut n_rows = 0;
        for row in features {
            let row = row?;
            n_rows += 1;
            if n_rows > n_steps {
                continue;
            }
            log.add_step(n_rows as u32 - 1, row)?;
            for id in went_by.len() as AtomId..log.atoms.len() as AtomId {
                let atom = log.atom(id);
                went_by.push(if atom.kind == AtomKind::Path { spellings.file(atom.text, id) } else { id });
            }
        }
        anyhow::ensure!(
            n_rows == n_steps,
            "trajectory {} has {n_steps} steps and {n_rows} feature rows\nhint: run `trajpress annotate` again",
            log.trajectory.id
        );
        for mention in &mut log.mentions {
            mention.so_far = went_by[mention.atom as usize];
        }
        let merged = log.atoms.merge_path_suffixes();
        for mention in log.mentions.iter_mut().filter(|_| !merged.is_empty()) {
            mention.atom = merged.get(&mention.atom).copied().unwrap_or(mention.atom);
        }
        log.shrink();
        log.index_by_atom();
        Ok(log)
    }

    /// Gives back what was reserved for more.
    fn shrink(&mut self) {
        self.spans.shrink_to_fit();
        self.mentions.shrink_to_fit();
        self.mention_of.shrink_to_fit();
        self.turns.shrink_to_fit();
        self.atoms.shrink();
    }

    /// Counting sort of the mentions by atom.
    fn index_by_atom(&mut self) {
        let mut start = vec![0u32; self.atoms.len() + 1];
        for m in &self.mentions {
            start[m.atom as usize + 1] += 1;
        }
        for i in 1..start.len() {
            start[i] += start[i - 1];
        }
        let mut next = start.clone();
        self.by_atom = vec![0; self.mentions.len()];
        for (i, m) in self.mentions.iter().enumerate() {
            self.by_atom[next[m.atom as usize] as usize] = i as u32;
            next[m.atom as usize] += 1;
        }
        self.atom_start = start;
    }

    /// All mentions of an atom, in order.
    pub fn mentions_of_atom(&self, atom: AtomId) -> impl DoubleEndedIterator<Item = &Mention> {
        let range = self.atom_start[atom as usize] as usize..self.atom_start[atom as usize + 1] as usize;
        self.by_atom[range].iter().map(|&i| &self.mentions[i as usize])
    }

    fn add_step(&mut self, step: u32, row: FeatureRow) -> anyhow::Result<()> {
        let text_len = self.trajectory.steps[step as usize].text.len();
        let sound = row.span_end.len() == row.span_tokens.len()
            && row.span_end.last().is_none_or(|&end| end as usize == text_len)
            && row.atom.len() == row.atom_kind.len()
            && row.atom.len() == row.atom_span.len()
            && row.atom.len() == row.atom_flags.len()
            && row.atom_span.is_sorted();
        anyhow::ensure!(
            sound,
            "features of trajectory {} step {step} do not fit its text\nhint: run `trajpress annotate` again",
            self.trajectory.id
        );
        self.tokens.push(row.tokens);
        let again = |what: &str| format!("unknown {what}\nhint: run `trajpress annotate` again");
        let kind = row.action_kind.as_deref();
        self.action_kinds.push(kind.map(|k| ActionKind::parse(k).with_context(|| again(k))).transpose()?);
        self.paths.extend(row.path.map(|path| (step, path.into_boxed_str())));
        let mut atoms =
            row.atom.into_iter().zip(row.atom_kind).zip(row.atom_span).zip(row.atom_flags).peekable();
        let mut start = 0;
        for (i, (end, tokens)) in row.span_end.into_iter().zip(row.span_tokens).enumerate() {
            let span = self.spans.len() as u32;
            self.spans.push(Span { step, start, end, tokens });
            start = end;
            while let Some((((text, kind), _), flags)) = atoms.next_if(|a| a.0.1 as usize == i) {
                let kind = AtomKind::ALL
                    .get(usize::from(kind))
                    .with_context(|| again(&format!("atom kind {kind}")))?;
                let atom = self.atoms.intern(&text, *kind)?;
                self.mentions.push(Mention { span, atom, so_far: atom, flags });
            }
            self.mention_of.push(self.mentions.len() as u32);
        }
        self.span_of.push(self.spans.len() as u32);
        Ok(())
    }

    /// What happened in each turn; read when it is first asked for.
    pub fn facts(&self) -> &Turns {
        self.facts.get_or_init(|| turns::read(&self.trajectory.steps))
    }

    /// Tokens of the longest prompt, see [`LongestPrompt`].
    pub fn longest_prompt(&self) -> u64 {
        *self.longest_prompt.get_or_init(|| {
            let mut longest = LongestPrompt::default();
            for (turn, of) in (0..).zip(&self.turns) {
                for step in of.steps.clone() {
                    let usage = self.usage_of(step).map(|usage| usage.input).filter(|input| *input > 0);
                    longest.add(turn, of.segment, self.tokens[step as usize], usage);
                }
            }
            longest.tokens()
        })
    }

    pub fn id(&self) -> &str {
        &self.trajectory.id
    }

    pub fn n_steps(&self) -> usize {
        self.trajectory.steps.len()
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        let text: usize = self.trajectory.steps.iter().map(|s| s.text.len() + std::mem::size_of_val(s)).sum();
        text + self.atoms.bytes() + self.spans.len() * 20 + self.mentions.len() * 16
    }

    /// Spans of a step.
    pub fn spans_of(&self, step: u32) -> Range<u32> {
        self.span_of[step as usize]..self.span_of[step as usize + 1]
    }

    /// Mentions in a span.
    pub fn mentions_in(&self, span: u32) -> &[Mention] {
        &self.mentions[self.mention_of[span as usize] as usize..self.mention_of[span as usize + 1] as usize]
    }

    /// Mentions in a step.
    pub fn mentions_of_step(&self, step: u32) -> &[Mention] {
        let spans = self.spans_of(step);
        &self.mentions
            [self.mention_of[spans.start as usize] as usize..self.mention_of[spans.end as usize] as usize]
    }

    /// How the provider counts the prompt of a turn, where known.
    pub fn rate(&self, turn: u32) -> Option<&Rate> {
        let at = self.rates.partition_point(|rate| rate.turns.end <= turn);
        self.rates.get(at).filter(|rate| rate.turns.contains(&turn))
    }

    /// What was logged of the usage of a turn's reply.
    pub fn usage(&self, turn: u32) -> Option<Usage> {
        self.turns[turn as usize].steps.clone().find_map(|step| self.usage_of(step)).copied()
    }

    /// The same where it stands on a step of the agent: on a compaction it is that of the call that wrote it.
    fn usage_of(&self, step: u32) -> Option<&Usage> {
        let step = &self.trajectory.steps[step as usize];
        step.usage.as_deref().filter(|_| step.is_agent())
    }

    /// When a turn's reply was logged, in microseconds since 1970.
    pub fn decided_at(&self, turn: u32) -> Option<i64> {
        self.trajectory.steps[self.turns[turn as usize].decision? as usize].time
    }

    /// The text of a span.
    pub fn span_text(&self, span: u32) -> &str {
        let s = self.spans[span as usize];
        &self.trajectory.steps[s.step as usize].text[s.start as usize..s.end as usize]
    }

    pub fn kind(&self, step: u32) -> Kind {
        self.trajectory.steps[step as usize].kind
    }

    pub fn turn_of(&self, step: u32) -> u32 {
        self.trajectory.steps[step as usize].turn
    }

    /// Whether a step stands in every prompt once it was logged, whatever a strategy does: the task (the first message of
    /// the user), and what the system says later, where they stand behind the head.
    pub fn is_pinned(&self, step: u32) -> bool {
        self.pinned.binary_search(&step).is_ok()
    }

    /// Whether any step behind the head is pinned.
    pub fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// Pinned steps of the segments before this one, in order: they stand behind the head there.
    pub fn pinned_before(&self, segment: u32) -> impl Iterator<Item = u32> {
        let of = |step: u32| self.trajectory.steps[step as usize].segment;
        self.pinned.iter().copied().take_while(move |&step| of(step) < segment)
    }

    /// Steps of the segments before this one that a logged compaction kept in it, in order: they stand behind the summary.
    pub fn kept_in(&self, segment: u32) -> impl Iterator<Item = u32> {
        self.kept.iter().copied().filter(move |&step| {
            let kept = &self.trajectory.steps[step as usize];
            kept.segment < segment && kept.kept_to >= Some(segment) && !self.is_pinned(step)
        })
    }

    /// The action that an observation answers: by its call id, else the last one before it in its turn.
    pub fn call_of(&self, observation: u32) -> Option<u32> {
        Some(self.calls[observation as usize]).filter(|&call| call != NO_CALL)
    }

    /// The file that an action reads or edits, normalised like an atom.
    pub fn path_of(&self, step: u32) -> Option<&str> {
        let at = self.paths.binary_search_by_key(&step, |(of, _)| *of).ok()?;
        Some(&self.paths[at].1)
    }

    /// Whether an observation can be had again by calling again: not that of an edit or a submission.
    pub fn is_rerunnable(&self, observation: u32) -> bool {
        let kind = self.call_of(observation).and_then(|call| self.action_kinds[call as usize]);
        kind.is_some_and(|kind| !matches!(kind, ActionKind::EditFile | ActionKind::Submit))
    }

    /// Tokens to get an observation again: its call and itself.
    pub fn tokens_again(&self, observation: u32) -> u64 {
        let call = self.call_of(observation).map_or(0, |s| u64::from(self.tokens[s as usize]));
        call + u64::from(self.tokens[observation as usize])
    }

    /// The atom of this trajectory with this normal form.
    pub fn find_atom(&self, text: &str) -> Option<AtomId> {
        self.atoms.find(text)
    }

    pub fn atom(&self, id: AtomId) -> Atom<'_> {
        self.atoms.get(id)
    }

    /// Calls `see` with each mention of this trajectory's atoms in a text that is not one of its steps, and its cues.
    pub fn mentions_in_text(&self, text: &str, see: impl FnMut(AtomId, &[u32])) {
        atoms::known(text, |norm| self.find_atom(norm), see);
    }
}

/// In [`Log::calls`]: no action stands before it in its turn.
const NO_CALL: u32 = u32::MAX;

/// For each step the newest action before it in its turn with its call id, else the newest action there.
fn calls_of(steps: &[Step]) -> Vec<u32> {
    let mut calls = Vec::with_capacity(steps.len());
    let mut by_id: HashMap<&str, u32> = HashMap::new();
    let (mut newest, mut turn) = (NO_CALL, None);
    for (at, step) in (0..).zip(steps) {
        if turn.replace(step.turn) != Some(step.turn) {
            by_id.clear();
            newest = NO_CALL;
        }
        let id = step.call_id.as_deref();
        calls.push(id.and_then(|id| by_id.get(id)).copied().unwrap_or(newest));
        if step.kind == Kind::Action {
            newest = at;
            id.map(|id| by_id.insert(id, at));
        }
    }
    calls
}

fn pinned(trajectory: &Trajectory) -> Vec<u32> {
    let is_task = |step: &Step| step.kind == Kind::Message && step.role == Role::User;
    let task = trajectory.steps.iter().position(is_task);
    let is_fixed = |step: &Step| matches!(step.kind, Kind::System | Kind::Tools | Kind::Demonstration);
    let steps = trajectory.steps.iter().enumerate();
    let pinned = steps.filter(|(i, step)| step.turn > 0 && (task == Some(*i) || is_fixed(step)));
    pinned.map(|(i, _)| i as u32).collect()
}

fn kept(trajectory: &Trajectory) -> Vec<u32> {
    let steps = trajectory.steps.iter().enumerate();
    let kept = steps.filter(|(_, s)| s.turn > 0 && s.kept_to > Some(s.segment) && s.kind != Kind::Compaction);
    kept.map(|(i, _)| i as u32).collect()
}

fn turns_of(trajectory: &Trajectory) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    // Of the last segment that had any, observations so far.
    let mut observed = (0, 0);
    for (i, step) in trajectory.steps.iter().enumerate() {
        let i = i as u32;
        while turns.len() <= step.turn as usize {
            let n_observations = if observed.0 == step.segment { observed.1 } else { 0 };
            turns.push(Turn { segment: step.segment, steps: i..i, decision: None, n_observations });
        }
        if step.kind == Kind::Observation {
            observed = (step.segment, if observed.0 == step.segment { observed.1 + 1 } else { 1 });
        }
        let turn = &mut turns[step.turn as usize];
        turn.segment = step.segment;
        turn.steps.end = i + 1;
        if step.is_agent() && turn.decision.is_none() {
            turn.decision = Some(i);
        }
    }
    turns
}

#[cfg(test)]
mod tests;
