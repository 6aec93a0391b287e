//! What of its atoms stood in the contexts of a replay: enough to follow any of them through it, without its texts.
//!
//! A replay depends on log and variant alone, and what is watched in it on who asks. So a trace is recorded once, and the
//! trajectory itself and all that have it for a partner read it. Texts that the strategy made are lexed once for all of them.

use std::ops::Range;

use crate::context::log::{AtomId, Log};
use crate::context::needs::Needs;
use crate::context::{Block, Content, Piece};
use crate::replay::{Event, Observer, Recipe, Run, ranges, replay};
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
    /// Those that events before it left and that it had in its scope.
    pub taken: Vec<Blocks>,
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
            + self.changes.iter().map(|change| size_of_val(&change.taken[..])).sum::<usize>()
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
    traced_before(log, recipe, tokenizer, needs, &mut |_| ())
}

/// The same; shows the scope of each event as it was before it, in turn.
///
/// # Errors
/// As [`replay`].
pub fn traced_before(
    log: &Log,
    recipe: &Recipe,
    tokenizer: &Tokenizer,
    needs: &Needs,
    before: &mut dyn FnMut(&[Block]),
) -> anyhow::Result<(Run, Trace)> {
    let mut recorder = Recorder { log, trace: Trace::default(), left: Vec::new(), before };
    // A turn has two moves, as a rule.
    recorder.trace.moves.reserve(2 * log.turns.len());
    recorder.trace.ends.reserve(log.n_steps());
    let run = replay(log, recipe, tokenizer, needs, &mut recorder)?;
    let Recorder { mut trace, .. } = recorder;
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
    /// The block of the trace of each that an event left, by [`Block::left`] less 1.
    left: Vec<u32>,
    before: &'a mut dyn FnMut(&[Block]),
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
        self.log.mentions_in_text(text, |atom, cues| {
            let start = trace.cues.len() as u32;
            trace.cues.extend(cues);
            trace.marks.push(mark(atom, (start, trace.cues.len() as u32)));
        });
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

    fn compressed(&mut self, before: &[Block], event: &Event, until: u32) {
        (self.before)(before);
        let gone = self.blocks(before.iter().filter(|block| block.fresh), until);
        let taken = event.taken.iter().cloned().flatten().map(|left| self.left[left as usize - 1]);
        let taken = ranges(taken);
        let left = self.blocks(&event.after, until);
        self.left.extend(left.clone());
        self.trace.changes.push(Change { gone, taken, left });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::watch::Watch;
    use crate::strategies;

    /// What is seen in blocks: (watched, bound), in order.
    type Seen = Vec<(u32, bool)>;

    /// Reads the blocks themselves.
    struct Reader<'a> {
        watch: &'a Watch<'a>,
        changes: Vec<(Seen, Seen)>,
        recalled: Vec<Seen>,
        decided: Vec<u32>,
        appended: Vec<u32>,
    }

    impl Reader<'_> {
        fn seen<'b>(&self, blocks: impl Iterator<Item = &'b Block>, until: u32) -> Seen {
            let mut seen = Vec::new();
            blocks.for_each(|block| self.watch.in_block(block, until, &mut |w, b| seen.push((w, b))));
            seen
        }
    }

    impl Observer for Reader<'_> {
        fn appended(&mut self, step: u32) {
            self.appended.push(step);
        }
        fn compressed(&mut self, before: &[Block], event: &Event, until: u32) {
            let gone = self.seen(before.iter().filter(|block| block.fresh), until);
            let left = self.seen(event.after.iter(), until);
            self.changes.push((gone, left));
        }
        fn recalled(&mut self, blocks: &[Block], until: u32) {
            let recalled = self.seen(blocks.iter(), until);
            self.recalled.push(recalled);
        }
        fn decided(&mut self, decision: u32, _: u32) {
            self.decided.push(decision);
        }
    }

    fn log() -> Log {
        let mut script = "system: be good\nuser: mend the parser of src/part0.py".to_owned();
        for i in 0..24 {
            let more = "and so it goes on with many words that say nothing ".repeat(i % 4);
            script += &format!(
                "\nthought: the parser of src/part{}.py calls the lexer\naction: cat src/part{i}.py\nobservation: \
                 limit_{i}=3{i} {more}bounds the parser of src/part{i}.py~nothing of note~{more}the lexer of part{i}.py fails",
                i / 2
            );
            if i == 15 {
                script += "\nsummary: The parser of src/part7.py was mended, and limit_9=39.";
            }
        }
        Log::script(&script)
    }

    #[test]
    fn a_trace_shows_what_the_blocks_show() {
        let (log, tokenizer) = (log(), Tokenizer::load("o200k").unwrap());
        let atoms: Vec<AtomId> = (0..log.atoms.len() as u32).collect();
        let needs = Needs::of(&log, 1);
        let (mut n_left, mut n_recalled) = (0, 0);
        for entry in strategies::ALL {
            for params in ["n = 1", "n = 4\nkeep = 2"] {
                let recipe = Recipe::named((entry.name, ""), ("turns", params));
                let watch = Watch::own(&log, &atoms);
                let (run, trace) = traced(&log, &recipe, &tokenizer, &needs).unwrap();
                let (changes, recalled, decided, appended) = Default::default();
                let mut reader = Reader { watch: &watch, changes, recalled, decided, appended };
                replay(&log, &recipe, &tokenizer, &needs, &mut reader).unwrap();
                let seen = |blocks: &Blocks| {
                    let mut seen = Seen::new();
                    watch.in_trace(&trace, blocks.clone(), &mut |w, b| seen.push((w, b)));
                    seen
                };
                let changes: Vec<(Seen, Seen)> =
                    trace.changes.iter().map(|change| (seen(&change.gone), seen(&change.left))).collect();
                assert_eq!(changes, reader.changes, "{}", entry.name);
                let left = run.events.iter().map(|event| event.after.len());
                assert!(left.eq(trace.changes.iter().map(|change| change.left.len())), "{}", entry.name);
                let (mut recalled, mut appended, mut n_decided) = (Vec::new(), Vec::new(), 0);
                for next in &trace.moves {
                    match next {
                        Move::Recalled(blocks) => recalled.push(seen(blocks)),
                        Move::Appended(steps) => appended.extend(steps.clone()),
                        Move::Decided => n_decided += 1,
                        Move::Reset | Move::Compressed => {}
                    }
                }
                assert_eq!((&recalled, &appended), (&reader.recalled, &reader.appended), "{}", entry.name);
                assert_eq!((n_decided, trace.tokens_sent.len()), (reader.decided.len(), run.decisions.len()));
                n_left += changes.iter().map(|(_, left)| left.len()).sum::<usize>();
                n_recalled += recalled.iter().map(Vec::len).sum::<usize>();
            }
        }
        assert!(n_left > 1000 && n_recalled > 100, "{n_left} {n_recalled}");
    }
}
