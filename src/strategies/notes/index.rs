//! An inverted index whose work does not grow with what it holds: BM25, and the cosine of bags.
//!
//! Terms are content words and atoms (see `extractive`), with how many spans of a document hold them. A term
//! remembers the newest [`MAX_POSTINGS`] documents that hold it: one that more hold says little, and its older ones
//! are found by other terms or not at all. A query is its [`MAX_TERMS`] heaviest terms. So a search looks at 2,048
//! postings at most, whatever there is. Formulas: Robertson and Zaragoza, "The probabilistic relevance framework:
//! BM25 and beyond" (2009), with k1 = 1.2, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)). The cosine is lnc.ltc
//! (Manning, Raghavan and Schütze, "Introduction to information retrieval", 2008, 6.4.3): a document weighs its terms
//! by 1 + ln count, a query by (1 + ln count) idf, so that a document's length does not depend on what came after it.
//!
//! A document is also found by its tags and by up to [`MAX_EVOLVED`] terms that later ones lend it, of which the
//! newest stay. They are no part of what it says: neither of its length nor of its novelty.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::strategies::extractive::{Term, terms};
use crate::text::spans::span_ends;

const MAX_POSTINGS: usize = 64;
const MAX_TERMS: usize = 32;
const MAX_EVOLVED: usize = 8;
/// Entries that room is made for before they are counted.
const MOST_RESERVED: usize = 1024;
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Distinct terms in the order in which they first stand there, with their counts.
pub(crate) type Bag = Vec<(Term, f64)>;

/// The terms of a text, with the number of its spans that hold them.
pub(crate) fn bag_of(text: &str) -> Bag {
    let mut start = 0;
    let span = |end: u32| {
        let span = &text[start..end as usize];
        start = end as usize;
        span
    };
    collect(span_ends(text).into_iter().map(span))
}

/// The terms of some spans, with the number of those that hold them.
pub(crate) fn collect<'a>(spans: impl Iterator<Item = &'a str>) -> Bag {
    let spans: Vec<Rc<[Term]>> = spans.map(terms).collect();
    let n = spans.iter().map(|terms| terms.len()).sum();
    counted(n, spans.iter().flat_map(|terms| terms.iter()).map(|&term| (term, 1.0)))
}

/// The terms of all of them.
pub(crate) fn sum<'a>(bags: impl IntoIterator<Item = &'a Bag>) -> Bag {
    counted(0, bags.into_iter().flatten().copied())
}

/// The sum of about so many entries.
fn counted(n: usize, entries: impl Iterator<Item = (Term, f64)>) -> Bag {
    let mut bag = Bag::new();
    // A table that grows is hashed anew each time.
    let mut places: FxHashMap<Term, usize> = FxHashMap::default();
    places.reserve(n.min(MOST_RESERVED));
    for (term, count) in entries {
        match places.entry(term) {
            Entry::Occupied(place) => bag[*place.get()].1 += count,
            Entry::Vacant(place) => {
                place.insert(bag.len());
                bag.push((term, count));
            }
        }
    }
    bag
}

/// The heaviest entries, heaviest first: of equal ones atoms before words, then what comes first.
pub(crate) fn heaviest(weights: Bag, most: usize) -> Bag {
    let mut entries: Vec<(usize, (Term, f64))> = weights.into_iter().enumerate().collect();
    let order = |(i, a): &(usize, (Term, f64)), (j, b): &(usize, (Term, f64))| {
        b.1.total_cmp(&a.1).then(b.0.1.cmp(&a.0.1)).then(i.cmp(j))
    };
    if entries.len() > most {
        entries.select_nth_unstable_by(most, order);
        entries.truncate(most);
    }
    entries.sort_unstable_by(order);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

struct Document {
    bag: Bag,
    tags: Vec<Term>,
    /// Terms that later documents lent it, oldest first.
    evolved: VecDeque<Term>,
    /// Terms of its bag, with repetitions.
    length: f64,
    /// Square of the length of its vector of weights.
    squares: f64,
}

impl Document {
    fn has(&self, term: Term) -> bool {
        self.bag.iter().any(|entry| entry.0 == term)
            || self.tags.contains(&term)
            || self.evolved.contains(&term)
    }
}

#[derive(Default)]
struct Postings {
    /// Documents that hold the term, of all that there are.
    frequency: u32,
    /// The newest of them, with their counts.
    newest: VecDeque<(u32, f64)>,
}

/// What is made of how many documents there are and how many of them hold a term, where it was asked for: many terms stand
/// in as many documents, and a logarithm costs more than to look one up.
#[derive(Default)]
pub(crate) struct ByFrequency(RefCell<(u32, Vec<Option<f64>>)>);

impl ByFrequency {
    pub(crate) fn get(&self, n: u32, frequency: u32, make: impl FnOnce(f64, f64) -> f64) -> f64 {
        let (of, made) = &mut *self.0.borrow_mut();
        if *of != n {
            *of = n;
            made.clear();
        }
        let at = frequency as usize;
        if made.len() <= at {
            made.resize(at + 1, None);
        }
        *made[at].get_or_insert_with(|| make(f64::from(n), f64::from(frequency)))
    }
}

/// How well a document fits a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) document: u32,
    pub(crate) bm25: f64,
    /// 0 to 1.
    pub(crate) cosine: f64,
}

/// Documents by number, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Index {
    postings: FxHashMap<Term, Postings>,
    documents: VecDeque<Document>,
    /// Number of the oldest that is still there.
    first: u32,
    length: f64,
    idfs: ByFrequency,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }

    /// Number of the next document.
    pub(crate) fn next(&self) -> u32 {
        self.first + self.len() as u32
    }

    fn idf(&self, frequency: u32) -> f64 {
        let idf = |n: f64, d: f64| libm::log1p((n - d + 0.5).max(0.0) / (d + 0.5));
        self.idfs.get(self.len() as u32, frequency, idf)
    }

    /// How much a term says; as of one that nothing holds, if nothing does.
    pub(crate) fn weight(&self, term: Term) -> f64 {
        self.idf(self.postings.get(&term).map_or(0, |postings| postings.frequency))
    }

    /// Adds a document, which tags find too; returns its number.
    pub(crate) fn push(&mut self, bag: Bag, tags: &[Term]) -> u32 {
        let number = self.next();
        let tags: Vec<Term> = tags.iter().filter(|tag| bag.iter().all(|e| e.0 != **tag)).copied().collect();
        for (term, count) in bag.iter().copied().chain(tags.iter().map(|&tag| (tag, 1.0))) {
            self.post(number, term, count);
        }
        let length = bag.iter().map(|(_, count)| count).sum();
        let of_bag: f64 = bag.iter().map(|(_, count)| tf(*count) * tf(*count)).sum();
        let squares = of_bag + tags.len() as f64;
        self.length += length;
        self.documents.push_back(Document { bag, tags, evolved: VecDeque::new(), length, squares });
        number
    }

    fn post(&mut self, number: u32, term: Term, count: f64) {
        let postings = self.postings.entry(term).or_default();
        postings.frequency += 1;
        postings.newest.push_back((number, count));
        if postings.newest.len() > MAX_POSTINGS {
            postings.newest.pop_front();
        }
    }

    fn document(&self, number: u32) -> Option<&Document> {
        self.documents.get(number.checked_sub(self.first)? as usize)
    }

    fn unpost(&mut self, number: u32, term: Term) {
        let Some(postings) = self.postings.get_mut(&term) else { return };
        postings.frequency = postings.frequency.saturating_sub(1);
        postings.newest.retain(|posting| posting.0 != number);
        if postings.frequency == 0 {
            self.postings.remove(&term);
        }
    }

    /// Makes a document be found by one more term.
    pub(crate) fn extend(&mut self, number: u32, term: Term) {
        let Some(at) = number.checked_sub(self.first) else { return };
        let Some(document) = self.documents.get_mut(at as usize).filter(|d| !d.has(term)) else { return };
        document.evolved.push_back(term);
        let forgotten =
            (document.evolved.len() > MAX_EVOLVED).then(|| document.evolved.pop_front()).flatten();
        match forgotten {
            Some(forgotten) => self.unpost(number, forgotten),
            None => document.squares += 1.0,
        }
        self.post(number, term, 1.0);
    }

    /// Share of the weight of what a document says that lies in terms that are not known, 0 to 1.
    pub(crate) fn novelty(&self, number: u32, is_known: impl Fn(Term) -> bool) -> f64 {
        let (mut all, mut new) = (0.0, 0.0);
        for &(term, count) in self.document(number).map_or(&[][..], |document| &document.bag) {
            let weight = tf(count) * self.weight(term);
            all += weight;
            new += if is_known(term) { 0.0 } else { weight };
        }
        if all > 0.0 { new / all } else { 0.0 }
    }

    /// The heaviest terms of what a document says, by what is held now.
    pub(crate) fn keywords(&self, number: u32, most: usize) -> impl Iterator<Item = Term> {
        let bag = self.document(number).map(|document| self.heaviest(&document.bag, most));
        bag.into_iter().flatten().map(|entry| entry.0)
    }

    /// The terms that later documents lent a document.
    pub(crate) fn lent(&self, number: u32) -> impl Iterator<Item = Term> {
        self.document(number).into_iter().flat_map(|document| document.evolved.iter().copied())
    }

    /// The terms of what a document says.
    pub(crate) fn terms(&self, number: u32) -> impl Iterator<Item = Term> {
        self.document(number).into_iter().flat_map(|document| document.bag.iter().map(|entry| entry.0))
    }

    /// Whether a document holds a term.
    #[cfg(test)]
    fn has(&self, number: u32, term: Term) -> bool {
        self.document(number).is_some_and(|document| document.has(term))
    }

    /// Forgets the oldest document.
    pub(crate) fn pop(&mut self) {
        let Some(document) = self.documents.pop_front() else { return };
        self.length -= document.length;
        let own = document.bag.into_iter().map(|entry| entry.0);
        for term in own.chain(document.tags).chain(document.evolved) {
            self.unpost(self.first, term);
        }
        self.first += 1;
    }

    /// The heaviest terms of a bag with their weights, heaviest first.
    pub(crate) fn heaviest(&self, bag: &Bag, most: usize) -> Bag {
        heaviest(bag.iter().map(|&(term, count)| (term, tf(count) * self.weight(term))).collect(), most)
    }

    /// The documents that hold a heavy term of the query, by number.
    pub(crate) fn search(&self, query: &Bag) -> Vec<Hit> {
        let known: Bag = query.iter().filter(|(term, _)| self.postings.contains_key(term)).copied().collect();
        let query = self.heaviest(&known, MAX_TERMS);
        let norm = libm::sqrt(query.iter().map(|(_, weight)| weight * weight).sum());
        let average = self.length / self.len().max(1) as f64;
        // Of each document what its length counts, and the sums.
        let mut found: Vec<Option<(f64, f64, f64)>> = vec![None; self.len()];
        for &(term, weight) in &query {
            let postings = &self.postings[&term];
            let idf = self.idf(postings.frequency);
            for &(number, count) in &postings.newest {
                let Some(document) = self.document(number) else { continue };
                let (by_length, bm25, dot) = found[(number - self.first) as usize]
                    .get_or_insert_with(|| (K1 * (1.0 - B + B * document.length / average), 0.0, 0.0));
                *bm25 += idf * count * (K1 + 1.0) / (count + *by_length);
                *dot += weight * tf(count);
            }
        }
        let hit = |((document, of), found): ((u32, &Document), Option<(f64, f64, f64)>)| {
            let (_, bm25, dot) = found?;
            let norms = norm * libm::sqrt(of.squares);
            let cosine = if norms > 0.0 { dot / norms } else { 0.0 };
            Some(Hit { document, bm25, cosine })
        };
        (self.first..).zip(&self.documents).zip(found).filter_map(hit).collect()
    }
}

/// What it counts that a term stands in so many spans.
pub(crate) fn tf(count: f64) -> f64 {
    // Most counts are small.
    static SMALL: LazyLock<[f64; 64]> = LazyLock::new(|| std::array::from_fn(|count| by_count(count as f64)));
    let at = count as usize;
    SMALL.get(at).filter(|_| at as f64 == count).copied().unwrap_or_else(|| by_count(count))
}

fn by_count(count: f64) -> f64 {
    1.0 + libm::log(count.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> Index {
        let mut index = Index::default();
        for text in texts {
            index.push(bag_of(text), &[]);
        }
        index
    }

    /// Three documents of 2, 2 and 4 words, average 8/3; `parser` stands in two of them.
    #[test]
    fn bm25_by_hand() {
        let index = index(&["parser fails", "lexer works", "parser parser\nparser table broken"]);
        let hits = index.search(&bag_of("parser"));
        assert_eq!(hits.iter().map(|hit| hit.document).collect::<Vec<_>>(), [0, 2]);
        let idf = (1.0f64 + 1.5 / 2.5).ln();
        let bm25 =
            |count: f64, length: f64| idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length * 3.0 / 8.0));
        assert!((hits[0].bm25 - bm25(1.0, 2.0)).abs() < 1e-12, "{hits:?}");
        assert!((hits[1].bm25 - bm25(2.0, 4.0)).abs() < 1e-12, "{hits:?}");
        assert!(index.search(&bag_of("nothing of it stands there")).is_empty());
        assert!(index.search(&Vec::new()).is_empty());
        assert!(Index::default().search(&bag_of("parser")).is_empty());
    }

    #[test]
    fn the_same_words_have_cosine_one() {
        let mut index = index(&["alpha bravo", "charlie delta"]);
        index.push(bag_of("echo foxtrot"), &[]);
        let hits = index.search(&bag_of("echo foxtrot"));
        assert!(hits.len() == 1 && hits[0].document == 2 && (hits[0].cosine - 1.0).abs() < 1e-9, "{hits:?}");
    }

    /// The first document holds one of three words of the query, the second two, among ten words each; each word of the
    /// query stands in one document. Age in the index must not count.
    #[test]
    fn an_old_document_has_no_higher_cosine() {
        let words = |n: usize, own: &str| {
            let rest: String = (0..10 - own.split(' ').count()).map(|i| format!(" filler{n}x{i}")).collect();
            format!("{own}{rest}")
        };
        let mut texts: Vec<String> = (0..30).map(|n| words(n, "gravel")).collect();
        (texts[0], texts[15]) = (words(0, "lantern"), words(15, "harbour compass"));
        let mut index = index(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let hits = index.search(&bag_of("harbour compass lantern"));
        let by_hand = [1.0 / 30f64.sqrt(), 2.0 / 30f64.sqrt()];
        assert_eq!(hits.iter().map(|hit| hit.document).collect::<Vec<_>>(), [0, 15]);
        for (hit, by_hand) in hits.iter().zip(by_hand) {
            assert!((hit.cosine - by_hand).abs() < 1e-12, "{hit:?}");
        }
        // A term that is lent makes a vector longer: 1 / (sqrt 3 sqrt 11) for what it had. Terms say the same each.
        index.extend(0, bag_of("velvet")[0].0);
        let hits = index.search(&bag_of("harbour compass lantern"));
        assert!((hits[0].cosine - 1.0 / 33f64.sqrt()).abs() < 1e-12, "{hits:?}");
    }

    /// Forty words of equal weight: those that come first are the query, and the atom in any case.
    #[test]
    fn a_query_is_its_first_terms_if_all_weigh_the_same() {
        let words: Vec<String> =
            (0..40).map(|i| format!("wxy{}", "abcdefghij".repeat(1 + i / 10).split_at(i % 10).1)).collect();
        let mut texts: Vec<&str> = words.iter().map(String::as_str).collect();
        texts.push("src/wanted.py");
        let index = index(&texts);
        let found = |query: &[&str]| -> Vec<u32> {
            index.search(&bag_of(&query.join(" "))).iter().map(|hit| hit.document).collect()
        };
        let first: Vec<u32> = (0..31).chain([40]).collect();
        assert_eq!(found(&texts), first);
        texts[..40].reverse();
        let last: Vec<u32> = (9..41).collect();
        assert_eq!(found(&texts), last);
    }

    #[test]
    fn what_is_lent_is_bounded_and_says_nothing() {
        let tag = bag_of("tagged")[0].0;
        let mut index = Index::default();
        index.push(bag_of("alpha bravo"), &[tag]);
        let lent: Vec<Term> = (0..100).map(|i| bag_of(&format!("lent{i}x{i}"))[0].0).collect();
        lent.iter().for_each(|&term| index.extend(0, term));
        assert!(index.has(0, tag) && index.has(0, lent[99]) && !index.has(0, lent[91]));
        assert_eq!((index.documents[0].evolved.len(), index.postings.len()), (MAX_EVOLVED, 3 + MAX_EVOLVED));
        assert_eq!((index.documents[0].squares, index.documents[0].length), (11.0, 2.0));
        let own: Vec<Term> = index.terms(0).collect();
        assert_eq!(index.novelty(0, |term| own.contains(&term)), 0.0);
        assert_eq!(index.search(&vec![(tag, 1.0)]).len(), 1);
        index.pop();
        assert!(index.postings.is_empty());
    }

    #[test]
    fn the_oldest_goes_and_postings_are_bounded() {
        let mut index = Index::default();
        for i in 0..200 {
            index.push(bag_of(&format!("common word{i}x{i}")), &[]);
            if index.len() > 100 {
                index.pop();
            }
        }
        assert_eq!((index.len(), index.next()), (100, 200));
        let hits = index.search(&bag_of("common"));
        assert_eq!(hits.len(), MAX_POSTINGS);
        assert_eq!(hits.last().unwrap().document, 199);
        assert!(index.search(&bag_of("word7x7")).is_empty() && index.postings.len() <= 301);
        let term = bag_of("wanted")[0].0;
        index.extend(150, term);
        index.extend(150, term);
        assert!(index.has(150, term) && !index.has(151, term));
        assert_eq!(index.search(&bag_of("wanted")).len(), 1);
        index.extend(3, term);
        for _ in 0..100 {
            index.pop();
        }
        assert!(index.len() == 0 && index.postings.is_empty());
        index.pop();
    }

    /// Four words of equal weight, one of them known.
    #[test]
    fn novelty_by_hand() {
        let index = index(&["alpha bravo charlie delta", "echo"]);
        let known = bag_of("bravo")[0].0;
        assert!((index.novelty(0, |term| term == known) - 0.75).abs() < 1e-12);
        assert_eq!((index.novelty(1, |_| true), index.novelty(7, |_| false)), (0.0, 0.0));
        assert_eq!(index.terms(0).count(), 4);
    }

    #[test]
    fn bags_add_up() {
        let (a, b) = (bag_of("alpha bravo"), bag_of("bravo\nbravo charlie"));
        assert_eq!(sum([&a, &b]), bag_of("alpha bravo\nbravo\nbravo charlie"));
        assert_eq!(sum([&a, &Vec::new()]), a);
    }
}
