//! The notes of a run: how one is written, what it links to, and what goes.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use serde_json::json;

use crate::context::log::Log;
use crate::context::{Content, Piece};
use crate::models::prompt::{Data, Prompt};
use crate::strategies::extractive::{Term, named_terms};
use crate::strategies::newest::{Newest, given};
use crate::strategies::notes::index::Index;
use crate::strategies::{Env, Held, HeldForm, Scope, transcript, writer};
use crate::trajectory::{Kind, Role};
use crate::turns::actions::ActionKind;

use super::standing::Standing;
use super::{PASSED_ON, SENTENCE_TOKENS, TEMPLATE};

/// A note: lines of a turn.
pub(super) struct Note {
    /// Per step, in order.
    pub(super) parts: Vec<Vec<Piece>>,
    pub(super) tokens: u32,
    /// A sentence on the turn, by a model; the first note of a turn has it.
    pub(super) sentence: Option<(String, u32)>,
    pub(super) vector: Option<Vec<f32>>,
    pub(super) links: Vec<u32>,
}

impl Note {
    /// Tokens of what comes back of it.
    pub(super) fn price(&self) -> u32 {
        self.tokens + self.sentence.as_ref().map_or(0, |(_, tokens)| *tokens)
    }

    /// Its lines, steps on lines of their own.
    pub(super) fn text(&self, log: &Log) -> String {
        let part = |pieces: &Vec<Piece>| pieces.iter().map(|piece| piece.text(log)).collect::<String>();
        self.parts.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn steps(&self, log: &Log) -> impl Iterator<Item = u32> {
        self.parts.iter().flat_map(|pieces| pieces.first()).map(|piece| log.spans[piece.span as usize].step)
    }
}

/// What is remembered: notes by number, with the index that finds them.
#[derive(Default)]
pub struct Store {
    pub(super) notes: VecDeque<Note>,
    pub(super) index: Index,
    pub(super) standing: Standing,
    /// The newest values, by the lines that were taken out.
    pub(super) newest: Newest,
}

impl Store {
    pub(super) fn first(&self) -> u32 {
        self.index.next() - self.notes.len() as u32
    }

    /// All notes, oldest first; tags are those of the note's turn.
    pub fn held(&self, log: &Log) -> Vec<Held> {
        let texts: Vec<String> = self.notes.iter().map(|note| note.text(log)).collect();
        let sentences =
            self.notes.iter().flat_map(|note| note.sentence.as_ref().map(|(text, _)| text.as_str()));
        let names: FxHashMap<Term, String> = texts
            .iter()
            .map(String::as_str)
            .chain(sentences)
            .flat_map(named_terms)
            .map(|(term, name)| (term, name.into_owned()))
            .collect();
        let named = |terms: &mut dyn Iterator<Item = Term>| -> Vec<&String> {
            terms.filter_map(|term| names.get(&term)).collect()
        };
        let note = |(number, note): (u32, &Note)| {
            let steps: Vec<u32> = note.steps(log).collect();
            Held {
                form: HeldForm::Note,
                turn: steps.last().map_or(0, |&step| log.turn_of(step)),
                step: steps.first().copied().unwrap_or(0),
                text: note.text(log),
                details: json!({
                    "note": number,
                    "keywords": named(&mut self.index.keywords(number, PASSED_ON)),
                    "tags": steps.first().map(|&step| tag_names(log, log.turns[log.turn_of(step) as usize].steps.clone())),
                    "evolved": named(&mut self.index.lent(number)),
                    "links": note.links,
                    "context": note.sentence.as_ref().map(|(text, _)| text),
                    "has_vector": note.vector.is_some(),
                }),
            }
        };
        (self.first()..).zip(&self.notes).map(note).collect()
    }

    /// The parts of a note without the lines whose values later ones replaced.
    pub(super) fn holding(&self, note: &Note, log: &Log) -> impl Iterator<Item = Vec<Piece>> {
        let holds = |piece: &&Piece| !self.newest.replaces(&given(piece.text(log)), (piece.span, 0));
        let part = move |pieces: &Vec<Piece>| pieces.iter().filter(holds).copied().collect::<Vec<Piece>>();
        note.parts.iter().map(part).filter(|pieces| !pieces.is_empty())
    }

    pub(super) fn at(&self, number: u32) -> Option<usize> {
        number.checked_sub(self.first()).map(|at| at as usize).filter(|&at| at < self.notes.len())
    }
}

/// Tags: who spoke, and what was called.
fn tag_names(log: &Log, steps: impl Iterator<Item = u32>) -> Vec<&str> {
    let tag = |step: u32| {
        let logged = &log.trajectory.steps[step as usize];
        match (logged.kind, logged.role) {
            (Kind::Message | Kind::Observation, Role::User) => Some("by-the-user"),
            _ => log.action_kinds[step as usize].map(ActionKind::name),
        }
    };
    let mut tags: Vec<&str> = steps.filter_map(tag).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// The same as terms.
pub(super) fn tags(log: &Log, steps: &[u32]) -> Vec<Term> {
    let names = tag_names(log, steps.iter().copied());
    let mut tags: Vec<Term> = names.into_iter().map(|tag| (u64::from(number_of(tag)), true)).collect();
    tags.sort_unstable();
    tags
}

/// A number for a tag that no word or atom is known by: atoms are 64 bits of another input.
fn number_of(tag: &str) -> u32 {
    let hash = blake3::hash(format!("tag {tag}").as_bytes());
    u32::from_le_bytes(hash.as_bytes()[..4].try_into().expect("a hash has 32 bytes"))
}

/// A sentence on a turn by the model; none if it gave none, which is flagged.
pub(super) fn sentence(
    scope: &Scope<'_>,
    steps: &[u32],
    env: &mut Env<'_>,
) -> anyhow::Result<Option<String>> {
    let blocks = &scope.context.blocks;
    let is_of =
        |index: &usize| matches!(blocks[*index].content, Content::Step(step) if steps.contains(&step));
    let mut own = scope.blocks.clone().filter(is_of);
    let Some(first) = own.next() else { return Ok(None) };
    let log = transcript(scope, first..own.next_back().unwrap_or(first) + 1);
    let prompt = Prompt::render(TEMPLATE, &[("log", Data::fenced(&log).may_cut().into())])?;
    let text = writer::write(prompt, None, SENTENCE_TOKENS, u32::MAX, env)?;
    if text.is_none() {
        env.work.fallback = Some("no sentence");
    }
    Ok(text)
}
