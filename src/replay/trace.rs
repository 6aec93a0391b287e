//! What of its atoms stood in the contexts of a replay: enough to follow any of them through it, without its texts.
//!
//! A replay depends on log and variant alone, and what is watched in it on who asks. So a trace is recorded once, and the
//! trajectory itself and all that have it for a partner read it. Texts that the strategy made are lexed once for all of them.

use std::ops::Range;

use crate::context::log::{AtomId, Log};
use crate::context::needs::Needs;
use crate::context::{Block, Content, Piece};
use crate::replay::{Event, Observer, Recipe, Run, replay};
use crate::strategies::Strategy;
use crate::text::tokens::Tokenizer;

/// A change of the context, in the order of the replay.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// It begins anew.
    Reset,
    /// Steps came, whole.
    Appended(Range<u32>),
    /// The next event.
    Compressed,
    /// Blocks that stand at the end of the prompt of the coming decision alone.
    Recalled(Blocks),
    /// The next decision.
    Decided,
}

/// Blocks of a trace, by number.
pub type Blocks = Range<u32>;

/// What an event changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Those it had in its scope that no event had before.
    pub gone: Blocks,
    /// Those that stand for its scope: [`Event::after`], one by one.
    pub left: Blocks,
}

/// What a block shows of atoms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// A whole step.
    Step(u32),
    /// Whole spans of one step, from the first to before the last.
    Spans(u32, u32),
    /// An atom in a text that the steps before `until` went into.
    Text { atom: AtomId, cues: (u32, u32), until: u32 },
    /// An atom in the beginning of a span.
    Cut { atom: AtomId, cues: (u32, u32), span: u32 },
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub moves: Vec<Move>,
    /// By event.
    pub changes: Vec<Change>,
    /// By decision.
    pub tokens_sent: Vec<u64>,
    /// Whether each event takes the place of all before it in its segment.
    pub replaces: bool,
    marks: Vec<Mark>,
    /// Where the marks of each block end.
    ends: Vec<u32>,
    cues: Vec<u32>,
}

impl Trace {
    /// What these blocks show.
    pub fn marks(&self, blocks: Blocks) -> &[Mark] {
        let start = |block: u32| block.checked_sub(1).map_or(0, |before| self.ends[before as usize] as usize);
        &self.marks[start(blocks.start)..start(blocks.end)]
    }

    /// The cues that a mark names.
    pub fn cues(&self, (start, end): (u32, u32)) -> &[u32] {
        &self.cues[start as usize..end as usize]
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.moves[..])
            + size_of_val(&self.changes[..])
            + size_of_val(&self.tokens_sent[..])
            + size_of_val(&self.marks[..])
            + size_of_val(&self.ends[..])
            + size_of_val(&self.cues[..])
            + size_of::<Self>()
    }
}

/// Replays the log, and records its trace.
///
/// # Errors
/// As [`replay`].
pub fn traced(
    log: &Log,
    recipe: &Recipe,
    tokenizer: &Tokenizer,
    needs: &Needs,
) -> anyhow::Result<(Run, Trace)> {
    let trace = Trace { replaces: recipe.strategy.is_recursive(), ..Trace::default() };
    let mut recorder = Recorder { log, trace };
    let run = replay(log, recipe, tokenizer, needs, &mut recorder)?;
    let mut trace = recorder.trace;
    trace.tokens_sent = run.decisions.iter().map(|decision| decision.tokens_sent).collect();
    trace.moves.shrink_to_fit();
    trace.changes.shrink_to_fit();
    trace.marks.shrink_to_fit();
    trace.ends.shrink_to_fit();
    trace.cues.shrink_to_fit();
    Ok((run, trace))
}

struct Recorder<'a> {
    log: &'a Log,
    trace: Trace,
}

impl Recorder<'_> {
    fn blocks<'b>(&mut self, blocks: impl IntoIterator<Item = &'b Block>, until: u32) -> Blocks {
        let start = self.trace.ends.len() as u32;
        for block in blocks {
            match &block.content {
                Content::Step(step) if self.log.mentions_of_step(*step).is_empty() => {}
                Content::Step(step) => self.trace.marks.push(Mark::Step(*step)),
                Content::Excerpt { pieces, .. } => self.pieces(pieces),
                Content::Placeholder { text, .. } | Content::Generated { text } => {
                    self.text(text, |atom, cues| Mark::Text { atom, cues, until });
                }
            }
            self.trace.ends.push(self.trace.marks.len() as u32);
        }
        start..self.trace.ends.len() as u32
    }

    fn pieces(&mut self, pieces: &[Piece]) {
        let first = self.trace.marks.len();
        for piece in pieces.iter().filter(|piece| !self.log.mentions_in(piece.span).is_empty()) {
            let span = piece.span;
            if !piece.is_whole(self.log) {
                self.text(piece.text(self.log), |atom, cues| Mark::Cut { atom, cues, span });
                continue;
            }
            match self.trace.marks[first..].last_mut() {
                Some(Mark::Spans(_, end)) if *end == span => *end += 1,
                _ => self.trace.marks.push(Mark::Spans(span, span + 1)),
            }
        }
    }

    fn text(&mut self, text: &str, mark: impl Fn(AtomId, (u32, u32)) -> Mark) {
        let trace = &mut self.trace;
        for (atom, cues) in self.log.mentions_in_text(text) {
            let start = trace.cues.len() as u32;
            trace.cues.extend(cues);
            trace.marks.push(mark(atom, (start, trace.cues.len() as u32)));
        }
    }
}

impl Observer for Recorder<'_> {
    fn reset(&mut self) {
        self.trace.moves.push(Move::Reset);
    }

    fn appended(&mut self, step: u32) {
        match self.trace.moves.last_mut() {
            Some(Move::Appended(steps)) if steps.end == step => steps.end += 1,
            _ => self.trace.moves.push(Move::Appended(step..step + 1)),
        }
    }

    fn compressed(&mut self, _: &dyn Strategy, before: &[Block], event: &Event, until: u32) {
        let gone = self.blocks(before.iter().filter(|block| block.fresh), until);
        let left = self.blocks(&event.after, until);
        self.trace.changes.push(Change { gone, left });
        self.trace.moves.push(Move::Compressed);
    }

    fn recalled(&mut self, blocks: &[Block], until: u32) {
        let recalled = self.blocks(blocks, until);
        self.trace.moves.push(Move::Recalled(recalled));
    }

    fn decided(&mut self, _: u32, _: u32) {
        self.trace.moves.push(Move::Decided);
    }
}
