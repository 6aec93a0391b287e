//! An inverted index whose work does not grow with what it holds: BM25, and the cosine of idf-weighted bags.
//!
//! Terms are content words and atoms (see `extractive`), with how many spans of a document hold them. A term
//! remembers the newest [`MAX_POSTINGS`] documents that hold it: one that more hold says little, and its older ones
//! are found by other terms or not at all. A query is its [`MAX_TERMS`] heaviest terms. So a search looks at 2,048
//! postings at most, whatever there is. Formulas: Robertson and Zaragoza, "The probabilistic relevance framework:
//! BM25 and beyond" (2009), with k1 = 1.2, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)); a bag's weights are (1
//! + ln count) idf, with the idf of the time when it was added.

use std::collections::{HashMap, VecDeque};

use crate::features::spans::span_ends;
use crate::strategies::extractive::{Term, terms};

const MAX_POSTINGS: usize = 64;
const MAX_TERMS: usize = 32;
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Distinct terms, sorted, with their counts.
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
    let mut all: Vec<Term> = spans.flat_map(terms).collect();
    all.sort_unstable();
    let mut bag: Bag = Vec::new();
    for term in all {
        match bag.last_mut() {
            Some(last) if last.0 == term => last.1 += 1.0,
            _ => bag.push((term, 1.0)),
        }
    }
    bag
}

/// Both together.
pub(crate) fn sum(a: &Bag, b: &Bag) -> Bag {
    let mut all: Bag = a.iter().chain(b).copied().collect();
    all.sort_by_key(|entry| entry.0);
    all.dedup_by(|next, entry| {
        let same = next.0 == entry.0;
        if same {
            entry.1 += next.1;
        }
        same
    });
    all
}

struct Document {
    bag: Bag,
    length: f64,
    /// Length of its vector of weights.
    norm: f64,
}

#[derive(Default)]
struct Postings {
    /// Documents that hold the term, of all that there are.
    frequency: u32,
    /// The newest of them, with their counts.
    newest: VecDeque<(u32, f64)>,
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
    postings: HashMap<Term, Postings>,
    documents: VecDeque<Document>,
    /// Number of the oldest that is still there.
    first: u32,
    length: f64,
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
        let (n, d) = (self.len() as f64, f64::from(frequency));
        libm::log1p((n - d + 0.5).max(0.0) / (d + 0.5))
    }

    /// How much a term says; as of one that nothing holds, if nothing does.
    pub(crate) fn weight(&self, term: Term) -> f64 {
        self.idf(self.postings.get(&term).map_or(0, |postings| postings.frequency))
    }

    /// Adds a document; returns its number.
    pub(crate) fn push(&mut self, bag: Bag) -> u32 {
        let number = self.next();
        for &(term, count) in &bag {
            self.post(number, term, count);
        }
        let length = bag.iter().map(|(_, count)| count).sum();
        self.length += length;
        self.documents.push_back(Document { bag: Vec::new(), length, norm: 0.0 });
        let squares = bag.iter().map(|&(term, count)| {
            let weight = weigh(count, self.weight(term));
            weight * weight
        });
        let norm = libm::sqrt(squares.sum());
        if let Some(document) = self.documents.back_mut() {
            (document.bag, document.norm) = (bag, norm);
        }
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

    /// Makes a document be found by one more term.
    pub(crate) fn extend(&mut self, number: u32, term: Term) {
        let Some(at) = number.checked_sub(self.first) else { return };
        let Some(document) = self.documents.get_mut(at as usize) else { return };
        if let Err(place) = document.bag.binary_search_by_key(&term, |entry| entry.0) {
            document.bag.insert(place, (term, 1.0));
            self.post(number, term, 1.0);
        }
    }

    /// Share of a document's weight that lies in terms that are not known, 0 to 1.
    pub(crate) fn novelty(&self, number: u32, is_known: impl Fn(Term) -> bool) -> f64 {
        let (mut all, mut new) = (0.0, 0.0);
        for &(term, count) in self.document(number).map_or(&[][..], |document| &document.bag) {
            let weight = weigh(count, self.weight(term));
            all += weight;
            new += if is_known(term) { 0.0 } else { weight };
        }
        if all > 0.0 { new / all } else { 0.0 }
    }

    /// The terms of a document.
    pub(crate) fn terms(&self, number: u32) -> impl Iterator<Item = Term> {
        self.document(number).into_iter().flat_map(|document| document.bag.iter().map(|entry| entry.0))
    }

    /// Whether a document holds a term.
    #[cfg(test)]
    fn has(&self, number: u32, term: Term) -> bool {
        self.document(number).is_some_and(|d| d.bag.binary_search_by_key(&term, |entry| entry.0).is_ok())
    }

    /// Forgets the oldest document.
    pub(crate) fn pop(&mut self) {
        let Some(document) = self.documents.pop_front() else { return };
        self.length -= document.length;
        for (term, _) in document.bag {
            let Some(postings) = self.postings.get_mut(&term) else { continue };
            postings.frequency = postings.frequency.saturating_sub(1);
            postings.newest.retain(|posting| posting.0 != self.first);
            if postings.frequency == 0 {
                self.postings.remove(&term);
            }
        }
        self.first += 1;
    }

    /// The heaviest terms of a bag with their weights, heaviest first.
    pub(crate) fn heaviest(&self, bag: &Bag, most: usize) -> Vec<(Term, f64)> {
        let mut weights: Vec<(Term, f64)> =
            bag.iter().map(|&(term, count)| (term, weigh(count, self.weight(term)))).collect();
        weights.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        weights.truncate(most);
        weights
    }

    /// The documents that hold a heavy term of the query, by number.
    pub(crate) fn search(&self, query: &Bag) -> Vec<Hit> {
        let known: Bag = query.iter().filter(|(term, _)| self.postings.contains_key(term)).copied().collect();
        let query = self.heaviest(&known, MAX_TERMS);
        let norm = libm::sqrt(query.iter().map(|(_, weight)| weight * weight).sum());
        let average = self.length / self.len().max(1) as f64;
        let mut found: HashMap<u32, (f64, f64)> = HashMap::new();
        for &(term, weight) in &query {
            let postings = &self.postings[&term];
            let idf = self.idf(postings.frequency);
            for &(number, count) in &postings.newest {
                let Some(document) = self.document(number) else { continue };
                let length = 1.0 - B + B * document.length / average;
                let hit = found.entry(number).or_default();
                hit.0 += idf * count * (K1 + 1.0) / (count + K1 * length);
                hit.1 += weight * weigh(count, idf);
            }
        }
        let mut hits: Vec<Hit> = found
            .into_iter()
            .filter_map(|(document, (bm25, dot))| {
                let norms = norm * self.document(document)?.norm;
                let cosine = if norms > 0.0 { (dot / norms).min(1.0) } else { 0.0 };
                Some(Hit { document, bm25, cosine })
            })
            .collect();
        hits.sort_by_key(|hit| hit.document);
        hits
    }
}

/// Weight of a term that stands in so many spans.
fn weigh(count: f64, idf: f64) -> f64 {
    (1.0 + libm::log(count.max(1.0))) * idf
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> Index {
        let mut index = Index::default();
        for text in texts {
            index.push(bag_of(text));
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
        index.push(bag_of("echo foxtrot"));
        let hits = index.search(&bag_of("echo foxtrot"));
        assert!(hits.len() == 1 && hits[0].document == 2 && (hits[0].cosine - 1.0).abs() < 1e-9, "{hits:?}");
    }

    #[test]
    fn the_oldest_goes_and_postings_are_bounded() {
        let mut index = Index::default();
        for i in 0..200 {
            index.push(bag_of(&format!("common word{i}x{i}")));
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
        assert_eq!(sum(&a, &b), bag_of("alpha bravo\nbravo\nbravo charlie"));
        assert_eq!(sum(&a, &Vec::new()), a);
    }
}
