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

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use serde_json::json;

use super::extractive::{Term, named_terms};
use super::newest::{Newest, given};
use super::salience::fresh_steps;
use super::tiered::segment::cosine;
use super::{Entry, Env, Held, HeldForm, Moment, Scope, State, Strategy, put, transcript, writer};
use crate::context::log::Log;
use crate::context::{Block, Content, Edit, Piece, Recalled};
use crate::models::prompt::{Data, Prompt};
use crate::params::params;
use crate::trajectory::{Kind, Role};
use crate::turns::actions::ActionKind;

pub(super) mod index;

use index::{Bag, Index};

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

/// A note: lines of a turn.
struct Note {
    /// Per step, in order.
    parts: Vec<Vec<Piece>>,
    tokens: u32,
    /// A sentence on the turn, by a model; the first note of a turn has it.
    sentence: Option<(String, u32)>,
    vector: Option<Vec<f32>>,
    links: Vec<u32>,
}

impl Note {
    /// Tokens of what comes back of it.
    fn price(&self) -> u32 {
        self.tokens + self.sentence.as_ref().map_or(0, |(_, tokens)| *tokens)
    }

    /// Its lines, steps on lines of their own.
    fn text(&self, log: &Log) -> String {
        let part = |pieces: &Vec<Piece>| pieces.iter().map(|piece| piece.text(log)).collect::<String>();
        self.parts.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    fn steps(&self, log: &Log) -> impl Iterator<Item = u32> {
        self.parts.iter().flat_map(|pieces| pieces.first()).map(|piece| log.spans[piece.span as usize].step)
    }
}

/// What is remembered: notes by number, with the index that finds them.
#[derive(Default)]
pub(super) struct Store {
    notes: VecDeque<Note>,
    index: Index,
    /// Terms of the steps that stand in the prompt, by step; of what else stands there; and how often each does.
    present: BTreeMap<u32, Vec<Term>>,
    written: Vec<Term>,
    counts: HashMap<Term, u32>,
    /// Steps that events meant to take out since the prompt was read; none where it was not edited.
    taken: Option<BTreeSet<u32>>,
    /// The newest values, by the lines that were taken out.
    newest: Newest,
}

impl Store {
    fn first(&self) -> u32 {
        self.index.next() - self.notes.len() as u32
    }

    /// Reads what of the prompt was not read yet: a step once, what else stands there once after each event.
    fn read(&mut self, moment: &Moment<'_>) {
        if let Some(mut gone) = self.taken.take() {
            let blocks = &moment.context.blocks;
            let step = |block: &Block| match block.content {
                Content::Step(step) => Some(step),
                _ => None,
            };
            // An event that was refused leaves its steps where they stood.
            blocks.iter().filter_map(step).for_each(|standing| _ = gone.remove(&standing));
            for step in gone {
                let terms = self.present.remove(&step).unwrap_or_default();
                self.forget(&terms);
            }
            let written = std::mem::take(&mut self.written);
            self.forget(&written);
            let texts = blocks.iter().filter(|block| step(block).is_none()).map(|b| b.text(moment.log));
            self.written = texts.flat_map(|text| index::bag_of(&text)).map(|entry| entry.0).collect();
            self.written.iter().for_each(|term| *self.counts.entry(*term).or_default() += 1);
        }
        let newest = self.present.last_key_value().map(|(step, _)| *step);
        for block in moment.context.blocks.iter().rev() {
            let Content::Step(step) = block.content else { continue };
            if newest.is_some_and(|newest| step <= newest) {
                break;
            }
            let bag = index::bag_of(&moment.log.trajectory.steps[step as usize].text);
            let terms: Vec<Term> = bag.into_iter().map(|entry| entry.0).collect();
            terms.iter().for_each(|term| *self.counts.entry(*term).or_default() += 1);
            self.present.insert(step, terms);
        }
    }

    /// Forgets that these terms stand in the prompt, once each.
    fn forget(&mut self, terms: &[Term]) {
        for term in terms {
            if let Some(count) = self.counts.get_mut(term) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(term);
                }
            }
        }
    }

    /// All notes, oldest first; tags are those of the note's turn.
    pub(super) fn held(&self, log: &Log) -> Vec<Held> {
        let texts: Vec<String> = self.notes.iter().map(|note| note.text(log)).collect();
        let sentences =
            self.notes.iter().flat_map(|note| note.sentence.as_ref().map(|(text, _)| text.as_str()));
        let names: HashMap<Term, String> = texts
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
    fn holding(&self, note: &Note, log: &Log) -> impl Iterator<Item = Vec<Piece>> {
        let holds = |piece: &&Piece| !self.newest.replaces(&given(piece.text(log)), (piece.span, 0));
        let part = move |pieces: &Vec<Piece>| pieces.iter().filter(holds).copied().collect::<Vec<Piece>>();
        note.parts.iter().map(part).filter(|pieces| !pieces.is_empty())
    }

    fn at(&self, number: u32) -> Option<usize> {
        number.checked_sub(self.first()).map(|at| at as usize).filter(|&at| at < self.notes.len())
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
        let standing = scope.context.blocks[scope.blocks.clone()].iter();
        store.taken.get_or_insert_default().extend(standing.filter_map(|block| match block.content {
            Content::Step(step) => Some(step),
            _ => None,
        }));
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
        let mut said: HashSet<Term> = HashSet::new();
        let gain = |at: usize, said: &HashSet<Term>| {
            let is_known = |term: Term| store.counts.contains_key(&term) || said.contains(&term);
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
        store.read(moment);
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
            if note.steps(log).all(|step| store.present.contains_key(&step)) {
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
fn tags(log: &Log, steps: &[u32]) -> Vec<Term> {
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
fn sentence(scope: &Scope<'_>, steps: &[u32], env: &mut Env<'_>) -> anyhow::Result<Option<String>> {
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
mod tests {
    use super::super::tests::run;
    use super::*;

    const SHOP: &str = "user: Mend the shop.
        action: cat src/basket.py
        observation: def total(basket): sum of prices with discount
        action: cat src/login.py
        observation: def login(user): check password against ldap server
        action: cat src/search.py
        observation: def find(words): query the catalogue
        user: And now the password of the login?
        agent: I look at the ldap server.";

    fn recalled(params: &str, script: &str, trigger: &str) -> Vec<(u32, String)> {
        let log = Log::script(script);
        let run = run(("notes", params), ("turns", trigger), &log);
        for recall in &run.recalls {
            let tokens: u64 = recall.blocks.iter().map(|block| u64::from(block.tokens)).sum();
            assert_eq!(run.decisions[recall.decision as usize].recalled_tokens, tokens);
        }
        let text = |recall: &crate::replay::Recall| {
            recall.blocks.iter().map(|block| block.text(&log)).collect::<Vec<_>>().join("|")
        };
        run.recalls.iter().map(|recall| (recall.decision, text(recall))).collect()
    }

    #[test]
    fn the_note_that_fits_the_question_comes_back() {
        let found = recalled("keep_last = 1\nk = 1", SHOP, "n = 1");
        let (decision, text) = found.last().unwrap();
        assert_eq!(*decision, 3);
        assert!(text.contains("check password against ldap") && text.contains("cat src/login.py"), "{text}");
        assert!(!text.contains("catalogue"), "{text}");
    }

    /// Both notes fit the question; of the older one the line with the value that holds no more stays away, its other line comes.
    #[test]
    fn a_line_with_an_old_value_does_not_come_back() {
        let script = "user: Go.
            action: cat a
            observation: the gateway listens on port=8042~the gateway is named after Hansen
            action: cat b
            observation: the gateway listens on port=9000
            user: What is the port of the gateway?
            agent: So.";
        let found = recalled("keep_last = 0\nnovelty = false", script, "n = 1");
        let (_, text) = found.last().unwrap();
        assert!(text.contains("port=9000") && text.contains("named after Hansen"), "{text}");
        assert!(!text.contains("port=8042"), "{text}");
        // While nothing newer is known, it does.
        let older = script.replace("port=9000", "nothing");
        let found = recalled("keep_last = 0\nnovelty = false", &older, "n = 1");
        assert!(found.last().unwrap().1.contains("port=8042"), "{found:?}");
    }

    #[test]
    fn a_question_that_nothing_fits_brings_nothing() {
        let script = "user: Go.\nagent: alpha bravo charlie\nuser: delta echo\nagent: foxtrot\nuser: golf hotel\nagent: x";
        assert!(recalled("keep_last = 0", script, "n = 1").is_empty());
        assert!(recalled("keep_last = 1\nrecall_tokens = 0", SHOP, "n = 1").is_empty());
        assert!(recalled("keep_last = 1\nk = 0", SHOP, "n = 1").is_empty());
    }

    #[test]
    fn a_link_brings_what_the_question_does_not_name() {
        // The second note shares words with the first; the question names the second alone.
        let script = "user: Go.
            agent: The green crate of bolts stands in hall seven beside the ramp.
            agent: The green crate of bolts was sold to Hansen beside the ramp.
            agent: Lunch is at noon, soup again.
            user: What of Hansen?
            agent: Sold.";
        let last = |links: u32| {
            let params = format!("keep_last = 0\nlinks = {links}");
            recalled(&params, script, "n = 1").pop().unwrap().1
        };
        assert_eq!(last(0), "The green crate of bolts was sold to Hansen beside the ramp.");
        let text = last(3);
        assert!(text.contains("was sold") && text.contains("hall seven") && !text.contains("soup"), "{text}");
    }

    #[test]
    fn what_the_prompt_says_already_is_no_news() {
        // The first note is word for word what the newest turn says, the second holds more.
        let script = "user: Go.
            agent: The ldap server stands in hall seven.
            agent: The ldap server answers to port=8042 for Hansen.
            agent: Lunch is at noon.
            user: The ldap server stands in hall seven.
            agent: Fine.";
        let first = |novelty: bool| {
            let params = format!("keep_last = 0\nlinks = 0\nk = 1\nnovelty = {novelty}");
            recalled(&params, script, "n = 1").pop().unwrap().1
        };
        assert_eq!(first(false), "The ldap server stands in hall seven.");
        assert_eq!(first(true), "The ldap server answers to port=8042 for Hansen.");
    }

    /// Tags and lent terms are in no text, and so never new.
    #[test]
    fn what_is_repeated_word_for_word_does_not_come_back() {
        for who in ["user", "agent"] {
            let script = format!(
                "user: Go.
                agent: Hello.
                {who}: The ldap server stands in hall seven.
                agent: hall seven
                agent: The ldap server stands beside the quarry.
                user: The ldap server stands in hall seven.
                agent: Fine."
            );
            let found = recalled("keep_last = 0\nlinks = 3", &script, "n = 1");
            let text = &found.last().unwrap().1;
            assert!(text.contains("quarry") && !text.contains("hall seven"), "{who}: {text}");
        }
    }

    /// Five notes say word for word what the question says, and fit it best; the sixth says more, though `k` is one.
    #[test]
    fn repeated_notes_do_not_hide_the_one_that_says_more() {
        let same = "agent: The ldap server stands in hall seven.\n".repeat(5);
        let script = format!(
            "user: Go.
            agent: The ldap answers on port 8042.
            {same}
            user: The ldap server stands in hall seven.
            agent: Fine."
        );
        let found = recalled("keep_last = 0\nlinks = 0\nk = 1", &script, "n = 1");
        assert_eq!(found.last().unwrap().1, "The ldap answers on port 8042.");
    }

    #[test]
    fn what_a_note_is_known_by_can_be_read() {
        let log = Log::script(SHOP);
        let run = run(("notes", "keep_last = 1"), ("turns", "n = 1"), &log);
        let notes = Notes::new(Params::default());
        let held = notes.held(&log, &run.left[0].2);
        let login = held.iter().find(|held| held.text.contains("ldap")).unwrap();
        assert_eq!(login.details["tags"], json!(["read_file"]));
        let keywords = login.details["keywords"].as_array().unwrap();
        assert!(
            keywords.len() == 2 && keywords.iter().all(|word| login.text.contains(word.as_str().unwrap()))
        );
        // What came back names its note.
        let details: Vec<&String> =
            run.recalls.iter().flat_map(|recall| recall.details.iter().flatten()).collect();
        assert!(
            !details.is_empty() && details.iter().all(|text| text.starts_with("{\"note\":")),
            "{details:?}"
        );
    }

    #[test]
    fn a_note_that_does_not_fit_takes_no_place() {
        let script = "user: Go.
            agent: ldap hansen hall seven port ramp bolts crate green jacket
            agent: hansen bolts jacket
            user: ldap hansen hall seven port ramp bolts crate green jacket ?
            agent: Fine.";
        for novelty in [true, false] {
            for k in [1, 10] {
                let params =
                    format!("keep_last = 0\nlinks = 0\nrecall_tokens = 9\nk = {k}\nnovelty = {novelty}");
                let found = recalled(&params, script, "n = 1");
                match novelty {
                    // All of it stands in the question.
                    true => assert!(found.is_empty(), "{found:?}"),
                    false => assert_eq!(found.last().unwrap().1, "hansen bolts jacket"),
                }
            }
        }
    }

    /// A model that knows two topics, ships and the rest, by words that share no letters with each other.
    fn sailor() -> std::sync::Arc<dyn crate::models::Model> {
        use crate::models::scripted::Scripted;
        use crate::models::{Answer, Call, Card};
        let card = Card { name: "sailor".to_owned(), identity: "test".to_owned(), window: 512 };
        std::sync::Arc::new(Scripted::rule(card, |call| {
            let Call::Embed { text } = call else { return None };
            let is_ship = ["hull", "keel", "vessel"].iter().any(|word| text.contains(word));
            let values = if is_ship { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
            Some(Ok(Answer::Vector { values, cut_tokens: 0 }))
        }))
    }

    /// The question shares no word with the note on the keel; where vectors count, it comes back all the same, and the two
    /// notes on ships are linked, whose words differ.
    #[test]
    fn vectors_find_and_link_what_words_do_not() {
        let script = "user: Go.
            agent: The hull was painted green.
            agent: Lunch comes at noon.
            agent: Its keel needs new bolts.
            user: which vessel?
            agent: Ours.";
        let log = Log::script(script);
        let replayed = |embedder: &str, links: u32| {
            let params = format!("keep_last = 0\nlinks = {links}\nembedder = \"{embedder}\"");
            let model = (!embedder.is_empty()).then(sailor);
            super::super::tests::replayed(("notes", &params), ("turns", "n = 1"), &log, None, model)
        };
        let last = |run: &crate::replay::Run| -> Vec<String> {
            let recall = run.recalls.iter().find(|recall| recall.decision == 3 && !recall.blocks.is_empty());
            recall.map_or_else(Vec::new, |r| r.blocks.iter().map(|block| block.text(&log)).collect())
        };
        assert!(last(&replayed("", 3)).is_empty());
        let run = replayed("sailor", 3);
        let found = last(&run);
        assert!(
            found.len() == 2 && found.iter().all(|text| text.contains("hull") || text.contains("keel")),
            "{found:?}"
        );
        // A text a note; questions are asked apart.
        let embedded: u32 = run.events.iter().map(|event| event.work.embeddings).sum();
        assert_eq!(embedded, 3);
        let notes = Notes::new(Params { keep_last: 0, ..Params::default() });
        let links = |run: &crate::replay::Run| -> Vec<serde_json::Value> {
            let held = notes.held(&log, &run.left[0].2);
            held.into_iter().map(|held| held.details["links"].clone()).collect()
        };
        assert_eq!(links(&run), [serde_json::json!([2]), serde_json::json!([]), serde_json::json!([0])]);
        assert!(links(&replayed("sailor", 0)).iter().all(|links| *links == serde_json::json!([])));
    }

    #[test]
    fn notes_are_cut_at_lines_and_the_store_is_bounded() {
        let line = "one more line of the long table with value_";
        let table: String = (0..50).map(|i| format!("{line}{i}~")).collect();
        let log =
            Log::script(&format!("user: go\naction: cat table\nobservation: {table}\nagent: x\nagent: y"));
        let notes = cut(&log, &[1, 2], 40);
        let total: u32 = notes.iter().map(|note| note.tokens).sum();
        assert_eq!(total, log.tokens[1] + log.tokens[2]);
        assert!(notes.len() > 5 && notes.iter().all(|note| note.tokens <= 40));
        assert_eq!(notes[0].parts.len(), 2);
        assert_eq!(cut(&log, &[2], 1).len(), log.spans_of(2).len());
        let found = recalled("keep_last = 0\nmax_notes = 1\nnote_tokens = 40", SHOP, "n = 1");
        assert!(found.iter().all(|(_, text)| text.matches("def ").count() <= 1), "{found:?}");
        // The newest note is the one that is left.
        let script = "user: Go.
            agent: The ldap server stands in hall seven.
            agent: The ldap server belongs to Hansen.
            user: What of the ldap server?
            agent: Fine.";
        let found = recalled("keep_last = 0\nmax_notes = 1", script, "n = 1");
        assert_eq!(found.last().unwrap().1, "The ldap server belongs to Hansen.");
    }

    #[test]
    fn hostile_logs_do_no_harm() {
        for script in [
            "user: \u{0}\u{1}\naction: ~~~\nobservation: \u{0}\nagent: ~\nagent: ",
            "user: a\nagent: b",
            "user: {\"a\": [\naction: {{{{\nobservation: }}}}\naction: \"\nobservation: \\\\\nagent: x",
        ] {
            let script = script.replace("agent: \n", "agent: x\n");
            recalled("keep_last = 0", script.trim_end_matches("\nagent: "), "n = 1");
        }
    }
}
