//! Follows a set of atoms through the blocks of a context: which block mentions which, and bound or not.
//!
//! An atom is *bound* where it stands within 15 words of at least two cues of one of its source
//! spans. A whole copied span binds exactly the atoms that have two cues in it; generated or cut
//! text is read again and compared with the cues of the sources.

use std::cell::RefCell;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::context::log::{AtomId, BOUND, Log};
use crate::context::{Block, Content, Piece};
use crate::replay::trace::{Blocks, Mark, Trace};

/// Sources looked at when generated text is tested for an atom: the newest ones.
const MAX_SOURCES: usize = 64;

const UNWATCHED: u32 = u32::MAX;

/// One mention of a watched atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub span: u32,
    /// Index of the atom in the watched list.
    pub watched: u32,
    pub bound: bool,
}

/// What binds an atom: the cue sets of its source spans.
type CueSets = Vec<(u32, Vec<u32>)>;

/// Watched atoms of one log.
pub struct Watch<'a> {
    log: &'a Log,
    n: usize,
    sightings: Vec<Sighting>,
    /// Sightings of step i: `of_step[i]..of_step[i + 1]`.
    of_step: Vec<u32>,
    /// Per atom of the log: its index in the watched list, or [`UNWATCHED`].
    ids: Vec<u32>,
    /// Watched atoms that are one and the same atom here go by the first of them.
    alias: Vec<u32>,
    sources: RefCell<FxHashMap<u32, CueSets>>,
}

impl<'a> Watch<'a> {
    /// Watches these atoms of the log itself.
    pub fn own(log: &'a Log, atoms: &[AtomId]) -> Self {
        let mut ids = vec![UNWATCHED; log.atoms.len()];
        for (i, &atom) in atoms.iter().enumerate() {
            ids[atom as usize] = i as u32;
        }
        Self::new(log, atoms.len(), ids, |_, mention| mention.flags & BOUND != 0)
    }

    /// Watches atoms of *another* log in this one, bound by the other's cues: for chance.
    ///
    /// `cues(i)` gives the cue sets of the sources of atom i in the other log; it is asked only for
    /// atoms that this log mentions.
    pub fn foreign(log: &'a Log, atoms: &[&str], cues: &mut dyn FnMut(usize) -> Vec<Vec<u32>>) -> Self {
        let mut ids = vec![UNWATCHED; log.atoms.len()];
        let mut sources = FxHashMap::default();
        let mut alias: Vec<u32> = (0..atoms.len() as u32).collect();
        for (i, atom) in atoms.iter().enumerate() {
            if let Some(here) = log.find_atom(atom) {
                if ids[here as usize] != UNWATCHED {
                    alias[i] = ids[here as usize];
                    continue;
                }
                ids[here as usize] = i as u32;
                sources.insert(i as u32, cues(i).into_iter().map(|set| (0, set)).collect::<CueSets>());
            }
        }
        let mut watch = Self::new(log, atoms.len(), ids, |watched, mention| {
            mention.flags & BOUND != 0 && {
                let here = cues_of(log, mention.span, mention.atom);
                sources[&watched].iter().any(|(_, there)| binds(&here, there))
            }
        });
        watch.alias = alias;
        *watch.sources.borrow_mut() = sources;
        watch
    }

    fn new(
        log: &'a Log,
        n: usize,
        ids: Vec<u32>,
        bound: impl Fn(u32, &crate::context::log::Mention) -> bool,
    ) -> Self {
        let mut sightings = Vec::new();
        let mut of_step = vec![0];
        let any = ids.iter().any(|&i| i != UNWATCHED);
        for step in 0..log.n_steps() as u32 {
            if any {
                for mention in log.mentions_of_step(step) {
                    let watched = ids[mention.atom as usize];
                    if watched != UNWATCHED {
                        sightings.push(Sighting {
                            span: mention.span,
                            watched,
                            bound: bound(watched, mention),
                        });
                    }
                }
            }
            of_step.push(sightings.len() as u32);
        }
        Watch { log, n, sightings, of_step, ids, alias: Vec::new(), sources: RefCell::default() }
    }

    /// Number of watched atoms.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether nothing is watched, or nothing watched is ever mentioned.
    pub fn is_empty(&self) -> bool {
        self.sightings.is_empty()
    }

    /// Index of an atom of this log in the watched list.
    pub fn index(&self, atom: AtomId) -> Option<u32> {
        Some(self.ids[atom as usize]).filter(|&i| i != UNWATCHED)
    }

    /// The watched atom that sightings of this one go by.
    pub fn known_as(&self, watched: u32) -> u32 {
        self.alias.get(watched as usize).copied().unwrap_or(watched)
    }

    pub fn in_step(&self, step: u32) -> &[Sighting] {
        &self.sightings[self.of_step[step as usize] as usize..self.of_step[step as usize + 1] as usize]
    }

    /// Sightings of a span.
    pub fn in_span(&self, span: u32) -> &[Sighting] {
        self.in_spans(span, span + 1)
    }

    /// Sightings of the spans of a step from the first to before the last.
    fn in_spans(&self, first: u32, end: u32) -> &[Sighting] {
        let step = self.in_step(self.log.spans[first as usize].step);
        let start = step.partition_point(|s| s.span < first);
        let n = step[start..].partition_point(|s| s.span < end);
        &step[start..start + n]
    }

    /// Calls `see(watched, bound)` for each sighting in copied pieces.
    pub fn in_pieces(&self, pieces: &[Piece], see: &mut impl FnMut(u32, bool)) {
        for piece in pieces {
            let sightings = self.in_span(piece.span);
            if sightings.is_empty() {
                continue;
            }
            if piece.is_whole(self.log) {
                sightings.iter().for_each(|s| see(s.watched, s.bound));
            } else {
                self.in_text(piece.text(self.log), self.log.spans[piece.span as usize].step + 1, see);
            }
        }
    }

    /// Calls `see(watched, bound)` for each sighting in text that was generated from the steps
    /// before `until`.
    pub fn in_text(&self, text: &str, until: u32, see: &mut impl FnMut(u32, bool)) {
        if self.is_empty() {
            return;
        }
        self.log.mentions_in_text(text, |atom, cues| {
            if let Some(watched) = self.index(atom) {
                see(watched, cues.len() >= 2 && self.is_bound(atom, watched, cues, until));
            }
        });
    }

    /// Calls `see(watched, bound)` for each sighting in a block; `until` is the first step that the
    /// block cannot stand for.
    pub fn in_block(&self, block: &Block, until: u32, see: &mut impl FnMut(u32, bool)) {
        match &block.content {
            Content::Step(step) => self.in_step(*step).iter().for_each(|s| see(s.watched, s.bound)),
            Content::Excerpt { pieces, .. } => self.in_pieces(pieces, see),
            Content::Placeholder { text, .. } | Content::Generated { text } => self.in_text(text, until, see),
        }
    }

    /// Calls `see(watched, bound)` for each sighting in blocks of a trace of this log's replay.
    pub fn in_trace(&self, trace: &Trace, blocks: Blocks, see: &mut impl FnMut(u32, bool)) {
        if self.is_empty() {
            return;
        }
        for mark in trace.marks(blocks) {
            let (atom, cues, until) = match *mark {
                Mark::Step(step) => {
                    self.in_step(step).iter().for_each(|s| see(s.watched, s.bound));
                    continue;
                }
                Mark::Spans(first, end) => {
                    self.in_spans(first, end).iter().for_each(|s| see(s.watched, s.bound));
                    continue;
                }
                Mark::Cut { span, .. } if self.in_span(span).is_empty() => continue,
                Mark::Cut { atom, cues, span } => (atom, cues, self.log.spans[span as usize].step + 1),
                Mark::Text { atom, cues, until } => (atom, cues, until),
            };
            if let Some(watched) = self.index(atom) {
                let cues = trace.cues(cues);
                see(watched, cues.len() >= 2 && self.is_bound(atom, watched, cues, until));
            }
        }
    }

    fn is_bound(&self, atom: AtomId, watched: u32, cues: &[u32], until: u32) -> bool {
        let mut sources = self.sources.borrow_mut();
        let sets = sources.entry(watched).or_insert_with(|| source_cues(self.log, atom));
        // In order of steps: the sources to come are left out without a look at each.
        let known = sets.partition_point(|(step, _)| *step < until);
        sets[..known].iter().rev().take(MAX_SOURCES).any(|(_, set)| binds(cues, set))
    }
}

/// The cue sets of the newest sources of an atom, to be watched for in another log.
pub fn cue_sets(log: &Log, atom: AtomId) -> Vec<Vec<u32>> {
    let sets = source_cues(log, atom);
    let skip = sets.len().saturating_sub(MAX_SOURCES);
    sets.into_iter().skip(skip).map(|(_, cues)| cues).collect()
}

/// Whether two cue sets share at least two distinct cues.
fn binds(here: &[u32], there: &[u32]) -> bool {
    let mut first = None;
    for cue in here {
        if there.contains(cue) {
            match first {
                None => first = Some(cue),
                Some(f) if f != cue => return true,
                Some(_) => {}
            }
        }
    }
    false
}

/// Cues of an atom in a span (of all its mentions there).
fn cues_of(log: &Log, span: u32, atom: AtomId) -> Vec<u32> {
    let mut cues: Vec<u32> = Vec::new();
    log.mentions_in_text(log.span_text(span), |other, near| {
        if other == atom {
            cues.extend(near);
        }
    });
    cues.sort_unstable();
    cues.dedup();
    cues
}

/// The binding sources of an atom: (step, cues), in order of steps.
fn source_cues(log: &Log, atom: AtomId) -> CueSets {
    let mut sets = CueSets::new();
    let mut last = None;
    for m in log.mentions_of_atom(atom).filter(|m| m.flags & BOUND != 0) {
        if last != Some(m.span) {
            sets.push((log.spans[m.span as usize].step, cues_of(log, m.span, atom)));
            last = Some(m.span);
        }
    }
    sets
}

/// How often each watched atom stands somewhere, in all and bound.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    surface: Vec<u32>,
    bound: Vec<u32>,
}

impl Counts {
    pub fn new(n: usize) -> Self {
        Counts { surface: vec![0; n], bound: vec![0; n] }
    }

    pub fn add(&mut self, watched: u32, bound: bool) {
        self.surface[watched as usize] += 1;
        self.bound[watched as usize] += u32::from(bound);
    }

    pub fn remove(&mut self, watched: u32, bound: bool) {
        self.surface[watched as usize] -= 1;
        self.bound[watched as usize] -= u32::from(bound);
    }

    pub fn add_steps(&mut self, watch: &Watch<'_>, steps: Range<u32>) {
        for step in steps {
            watch.in_step(step).iter().for_each(|s| self.add(s.watched, s.bound));
        }
    }

    pub fn has(&self, watched: u32, bound: bool) -> bool {
        let counts = if bound { &self.bound } else { &self.surface };
        counts[watched as usize] > 0
    }

    pub fn clear(&mut self) {
        self.surface.fill(0);
        self.bound.fill(0);
    }
}
