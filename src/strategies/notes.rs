//! Takes what is compressed out of the prompt as atomic notes, and brings back those that fit the newest turn.
//!
//! Strategy D of the seeds, after A-MEM (Xu et al., "A-MEM: Agentic Memory for LLM Agents", arXiv 2502.12110). A note
//! is some consecutive lines of a turn, of `note_tokens` at most, verbatim, with tags
//! (who spoke, what was called; they count where notes are linked), links to the nearest older notes (by embeddings
//! where there is an embedder), and, where there is a model, a sentence on its turn. A new note makes its neighbours
//! evolve: they are found by its keywords, its heaviest terms, from then on. At a decision the newest turns, as far
//! as they stand in the prompt, are the query; a note's score is half its BM25 (as a share
//! of the best) and half its similarity, by embeddings where there is an embedder, else the cosine of bags of words
//! and atoms; a note that a good one links to scores at least half as much. The best `k` come back, up to
//! `recall_tokens`, best first; with `novelty` a score counts by the share of the note's terms that neither the
//! prompt, generated or not, nor a better note has (Carbonell and Goldstein 1998: a lexical search finds first what the prompt says
//! already). What still stands in the prompt does not come back, nor does a line that later ones with another value of its `key=value` replaced (see `newest.rs`). The store holds `max_notes`; then the oldest go.
//!
//! Deviations: A-MEM's model also writes keywords and tags and rewrites those of the neighbours; here these are
//! rules. Its notes are whole interactions, which for an agent are pages of output.

use rustc_hash::FxHashSet;
use serde_json::json;

use crate::context::log::Log;
use crate::context::{Content, Edit, Piece, Recalled};
use crate::params::params;
use crate::strategies::extractive::Term;
use crate::strategies::newest::given;
use crate::strategies::salience::fresh_steps;
use crate::strategies::tiered::segment::cosine;
use crate::strategies::{Entry, Env, Held, Moment, Scope, State, Strategy, put};

pub(super) mod index;
pub(super) mod standing;
mod store;

pub(super) use store::Store;

use index::Bag;
use store::{Note, sentence, tags};

pub(super) const ENTRY: Entry = Entry {
    name: "notes",
    summary: "Take the scope out as linked notes, and recall those that fit the newest turn.",
    params: Params::PARAMS,
    takes_model: true,
    build: |params| Ok(Box::new(Notes::new(Params::of(params)?))),
};

const TEMPLATE: &str = include_str!("notes/note.txt");
/// Tokens of a sentence on a turn, at most.
const SENTENCE_TOKENS: u32 = 60;

/// How much BM25 counts beside similarity.
const LEXICAL: f64 = 0.5;
/// What a link passes on of a score.
const BY_LINK: f64 = 0.5;
/// From so similar on, notes are linked: by their terms, and by their vectors.
const LINK_SIMILARITY: [f64; 2] = [0.2, 0.5];
/// Links of a note, at most: the newest.
const MAX_LINKS: usize = 6;
/// Keywords of a new note that its neighbours are found by.
const PASSED_ON: usize = 2;

params! {
    #[derive(Clone, Debug)]
    pub(super) struct Params {
        /// Notes that are recalled, at most.
        pub(super) k: usize = 10,
        /// Tokens of a note, at most; a line that is longer is one note.
        pub(super) note_tokens: u32 = 100 (at least 1),
        /// Tokens that are recalled for a decision, at most.
        pub(super) recall_tokens: u32 = 600,
        /// Turns before the decision that are its query, as far as they stand in the prompt.
        pub(super) query_turns: u32 = 1 (at least 1),
        /// Older notes that a new one is linked to, at most; 0: none, and nothing evolves.
        pub(super) links: usize = 3,
        /// Whether a score counts by what is new in a note.
        pub(super) novelty: bool = true,
        /// Notes of the store, at most.
        pub(super) max_notes: usize = 2000 (at least 1),
        /// How many of the newest turns are left alone.
        pub(super) keep_last: u32 = 3,
        /// The model of embeddings that likens notes by meaning; empty: words alone tell.
        pub(super) embedder: String = "",
    }
}

pub(super) struct Notes {
    params: Params,
}

impl Notes {
    pub(super) fn new(params: Params) -> Self {
        Notes { params }
    }

    /// Takes notes of the fresh turns of a scope.
    pub(super) fn take(&self, scope: &Scope<'_>, store: &mut Store, env: &mut Env<'_>) -> anyhow::Result<()> {
        let log = scope.log;
        let steps = fresh_steps(scope);
        // Also those before the fresh ones: an event that was refused left them to this one.
        store.standing.take(scope);
        for steps in steps.chunk_by(|&a, &b| log.turn_of(a) == log.turn_of(b)) {
            let mut notes = cut(log, steps, self.params.note_tokens);
            if let (Some(first), true) = (notes.first_mut(), env.model.is_some()) {
                first.sentence = sentence(scope, steps, env)?.map(|text| {
                    let tokens = env.tokenizer.count(&text);
                    (text, tokens)
                });
            }
            let texts: Vec<String> = notes.iter().map(|note| note.text(log)).collect();
            for (note, vector) in notes.iter_mut().zip(env.embed_each(&texts)?) {
                note.vector = vector;
            }
            for span in steps.iter().flat_map(|&step| log.spans_of(step)) {
                let given = given(log.span_text(span));
                store.newest.see(&given.values, &given.words, (span, 0));
            }
            let tags = tags(log, steps);
            for (note, text) in notes.into_iter().zip(texts) {
                let sentence = note.sentence.as_ref().map_or("", |(text, _)| text);
                let bag = index::sum(&[index::bag_of(&text), index::bag_of(sentence)]);
                self.add(note, bag, &tags, store);
            }
        }
        Ok(())
    }

    /// Adds a note, links it to the nearest ones, and lets these evolve.
    fn add(&self, mut note: Note, bag: Bag, tags: &[Term], store: &mut Store) {
        let first = store.first();
        let mut near: Vec<(f64, u32)> = match (self.params.links, &note.vector) {
            (0, _) => Vec::new(),
            (_, None) => {
                let tags: Bag = tags.iter().map(|&tag| (tag, 1.0)).collect();
                let hits = store.index.search(&index::sum([&bag, &tags]));
                hits.iter().map(|hit| (hit.cosine, hit.document)).collect()
            }
            (_, Some(own)) => {
                let similarity = |(at, note): (usize, &Note)| {
                    note.vector.as_ref().map(|vector| (cosine(own, vector), first + at as u32))
                };
                store.notes.iter().enumerate().filter_map(similarity).collect()
            }
        };
        let least = LINK_SIMILARITY[usize::from(note.vector.is_some())];
        near.retain(|(similarity, _)| *similarity >= least);
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        near.truncate(self.params.links);
        let number = store.index.next();
        let keywords = store.index.heaviest(&bag, PASSED_ON);
        for &(_, neighbour) in &near {
            let Some(at) = store.at(neighbour) else { continue };
            let links = &mut store.notes[at].links;
            links.push(number);
            if links.len() > MAX_LINKS {
                links.remove(0);
            }
            for &(keyword, _) in &keywords {
                store.index.extend(neighbour, keyword);
            }
        }
        note.links = near.into_iter().map(|(_, neighbour)| neighbour).collect();
        store.index.push(bag, tags);
        store.notes.push_back(note);
        if store.notes.len() > self.params.max_notes {
            store.index.pop();
            store.notes.pop_front();
        }
    }

    /// The places of the notes that come back, best first, of so many tokens at most together.
    fn choose(&self, scores: &[f64], tokens: u32, store: &Store) -> Vec<usize> {
        let mut room = tokens;
        let mut fits = |at: usize| {
            let left = room.checked_sub(store.notes[at].price());
            room = left.unwrap_or(room);
            left.is_some()
        };
        if !self.params.novelty {
            return best(scores, usize::MAX).into_iter().filter(|&at| fits(at)).take(self.params.k).collect();
        }
        let first = store.first();
        let mut said: FxHashSet<Term> = FxHashSet::default();
        let gain = |at: usize, said: &FxHashSet<Term>| {
            let is_known = |term: Term| store.standing.has(term) || said.contains(&term);
            scores[at] * store.index.novelty(first + at as u32, is_known)
        };
        let mut best = best(scores, usize::MAX).into_iter();
        let pool = self.params.k.saturating_mul(CHOSEN_FROM);
        let mut left: Vec<(f64, usize)> = best.by_ref().take(pool).map(|at| (gain(at, &said), at)).collect();
        let mut chosen = Vec::new();
        while chosen.len() < self.params.k {
            let gains = left.iter().enumerate().filter(|(_, (gain, _))| *gain > 0.0);
            // Of equal ones the first, whose score is the best.
            let top = gains.max_by(|a, b| a.1.0.total_cmp(&b.1.0).then(b.0.cmp(&a.0)));
            let Some((place, &(before, at))) = top else {
                // Nothing new among these at all: the next best. Else what is new comes back, and is enough.
                if chosen.is_empty() {
                    left = best.by_ref().take(pool).map(|at| (gain(at, &said), at)).collect();
                }
                if left.is_empty() || !chosen.is_empty() {
                    break;
                }
                continue;
            };
            // Gains only fall, so one that has not fallen is the best.
            let now = gain(at, &said);
            if now < before {
                left[place].0 = now;
                continue;
            }
            left.remove(place);
            if !fits(at) {
                continue;
            }
            said.extend(store.index.terms(first + at as u32));
            chosen.push(at);
        }
        chosen
    }

    /// What comes back for a decision.
    pub(super) fn find(
        &self,
        moment: &Moment<'_>,
        store: &mut Store,
        env: &mut Env<'_>,
    ) -> anyhow::Result<Vec<Recalled>> {
        let log = moment.log;
        store.standing.read(moment);
        // The newest first: it counts most where there is more than a query holds.
        let steps = newest_steps(moment, self.params.query_turns).into_iter().rev();
        let texts: Vec<&str> = steps.map(|step| log.trajectory.steps[step as usize].text.as_str()).collect();
        if texts.iter().all(|text| text.trim().is_empty()) {
            return Ok(Vec::new());
        }
        let query = index::sum(&texts.iter().map(|text| index::bag_of(text)).collect::<Vec<_>>());
        let hits = store.index.search(&query);
        let most = hits.iter().map(|hit| hit.bm25).fold(0.0, f64::max);
        let vector = match self.params.embedder.is_empty() || store.notes.is_empty() {
            true => None,
            false => env.embed_each(&[texts.join("\n")])?.pop().flatten(),
        };
        // By place in the store.
        let mut scores = vec![0.0; store.notes.len()];
        for hit in &hits {
            let Some(at) = store.at(hit.document) else { continue };
            let by_vector = vector.is_some() && store.notes[at].vector.is_some();
            let similarity = if by_vector { 0.0 } else { hit.cosine };
            scores[at] = LEXICAL * hit.bm25 / most.max(f64::MIN_POSITIVE) + (1.0 - LEXICAL) * similarity;
        }
        if let Some(query) = &vector {
            for (score, note) in scores.iter_mut().zip(&store.notes) {
                let Some(vector) = &note.vector else { continue };
                *score += (1.0 - LEXICAL) * cosine(vector, query);
            }
        }
        for at in best(&scores, self.params.k) {
            let passed_on = scores[at] * BY_LINK;
            for at in store.notes[at].links.iter().filter_map(|&link| store.at(link)) {
                scores[at] = scores[at].max(passed_on);
            }
        }
        for (score, note) in scores.iter_mut().zip(&store.notes).filter(|(score, _)| **score > 0.0) {
            if note.steps(log).all(|step| store.standing.has_step(step)) {
                *score = 0.0;
            }
        }
        let room = u64::from(self.params.recall_tokens).min(moment.room) as u32;
        let mut recalled = Vec::new();
        for at in self.choose(&scores, room, store) {
            let note = &store.notes[at];
            recalled.extend(note.sentence.iter().map(|(text, _)| Recalled::Generated(text.clone())));
            recalled.extend(store.holding(note, log).map(Recalled::Pieces));
            let details = json!({ "note": store.first() + at as u32, "score": scores[at] });
            env.work.recalled.resize(recalled.len(), details);
        }
        Ok(recalled)
    }
}

/// Of how many times `k` notes the new ones are chosen, and of as many more while none of them is new.
const CHOSEN_FROM: usize = 4;

/// The places of the best scores above 0, best first; of equal ones the newest.
fn best(scores: &[f64], k: usize) -> Vec<usize> {
    let mut best: Vec<usize> = (0..scores.len()).filter(|&at| scores[at] > 0.0).collect();
    best.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(b.cmp(&a)));
    best.truncate(k);
    best
}

/// The steps of the last turns before a decision, and of its own turn up to it, oldest first.
pub(super) fn newest_steps(moment: &Moment<'_>, turns: u32) -> Vec<u32> {
    let first = moment.turn.saturating_sub(turns);
    let head = moment.context.n_head;
    let blocks = moment.context.blocks[head..].iter().rev().take_while(|block| block.turn >= first);
    let mut steps: Vec<u32> = blocks
        .filter_map(|block| match block.content {
            Content::Step(step) => Some(step),
            _ => None,
        })
        .collect();
    steps.reverse();
    steps
}

/// Cuts the steps of a turn into notes.
fn cut(log: &Log, steps: &[u32], note_tokens: u32) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for &step in steps {
        for (at, span) in log.spans_of(step).enumerate() {
            let piece = Piece::whole(log, span);
            match notes.last_mut().filter(|note| note.tokens + piece.tokens <= note_tokens) {
                Some(note) => {
                    note.tokens += piece.tokens;
                    match note.parts.last_mut().filter(|_| at > 0) {
                        Some(part) => part.push(piece),
                        None => note.parts.push(vec![piece]),
                    }
                }
                None => notes.push(Note {
                    parts: vec![vec![piece]],
                    tokens: piece.tokens,
                    sentence: None,
                    vector: None,
                    links: Vec::new(),
                }),
            }
        }
    }
    notes
}

impl Strategy for Notes {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let mut store = std::mem::take(env.state::<Store>());
        let taken = self.take(scope, &mut store, env);
        *env.state() = store;
        taken?;
        Ok(put(scope, String::new()))
    }

    fn recalls(&self) -> bool {
        true
    }

    fn recall(&self, moment: &Moment<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Recalled>> {
        let mut store = std::mem::take(env.state::<Store>());
        let found = self.find(moment, &mut store, env);
        *env.state() = store;
        found
    }

    fn held(&self, log: &Log, state: &State) -> Vec<Held> {
        state.get::<Store>().map_or_else(Vec::new, |store| store.held(log))
    }

    fn keep_last(&self) -> u32 {
        self.params.keep_last
    }
}

#[cfg(test)]
mod tests;
