//! The atoms of a trajectory by number: each text stands once, one behind the other, and is found through its hash.
//!
//! A path that is a suffix of exactly one longer path seen in the same trajectory goes by that path (see [`Atoms::merged`]).

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use crate::text::atoms::AtomKind;

/// Number of an atom in [`Atoms`].
pub type AtomId = u32;

/// An atom of the trajectory.
#[derive(Debug, Clone, Copy)]
pub struct Atom<'a> {
    /// Normal form.
    pub text: &'a str,
    pub kind: AtomKind,
}

#[derive(Debug, Default)]
pub struct Atoms {
    texts: String,
    /// Where each text ends, and its kind.
    ends: Vec<(u32, AtomKind)>,
    ids: HashTable<AtomId>,
    hashes: RandomState,
    /// Paths that go by another one.
    merged: BTreeMap<AtomId, AtomId>,
}

impl Atoms {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, id: AtomId) -> Atom<'_> {
        let at = id as usize;
        Atom { text: text(&self.texts, &self.ends, at), kind: self.ends[at].1 }
    }

    /// The number of an atom; a new one if it is not known.
    pub(super) fn intern(&mut self, text: &str, kind: AtomKind) -> anyhow::Result<AtomId> {
        if let Some(id) = self.number(text) {
            return Ok(id);
        }
        let end = u32::try_from(self.texts.len() + text.len());
        let end = end.map_err(|_| anyhow::anyhow!("its atoms have more than 4 GiB of text"))?;
        self.texts.push_str(text);
        self.ends.push((end, kind));
        let (id, hash) = (self.len() as AtomId - 1, self.hashes.hash_one(text));
        let hash_of = |&id: &AtomId| self.hashes.hash_one(self::text(&self.texts, &self.ends, id as usize));
        self.ids.insert_unique(hash, id, hash_of);
        Ok(id)
    }

    fn number(&self, text: &str) -> Option<AtomId> {
        let is_it = |&id: &AtomId| self::text(&self.texts, &self.ends, id as usize) == text;
        self.ids.find(self.hashes.hash_one(text), is_it).copied()
    }

    /// The atom that a normal form goes by.
    pub(super) fn find(&self, text: &str) -> Option<AtomId> {
        let id = self.number(text)?;
        Some(self.merged.get(&id).copied().unwrap_or(id))
    }

    /// Finds the paths that go by another one: `a.py` by `src/a.py` if nothing else ends so.
    pub(super) fn merge_path_suffixes(&mut self) -> &BTreeMap<AtomId, AtomId> {
        let mut merged = BTreeMap::new();
        let mut paths: Vec<AtomId> =
            (0..self.len() as AtomId).filter(|&id| self.get(id).kind == AtomKind::Path).collect();
        let depth = |text: &str| text.split('/').filter(|c| !c.is_empty()).count();
        paths.sort_by_key(|&id| (std::cmp::Reverse(depth(self.get(id).text)), id));
        // Suffix -> the one path that ends so, or None when several do.
        let mut holders: HashMap<&str, Option<AtomId>> = HashMap::new();
        // Spelling without slashes at its ends -> the atom that it goes by.
        let mut known: HashMap<&str, AtomId> = HashMap::new();
        for &path in &paths {
            let text = self.get(path).text.trim_matches('/');
            let same = known.get(text).copied().or_else(|| holders.get(text).copied().flatten());
            if let Some(same) = same {
                merged.insert(path, same);
                continue;
            }
            known.insert(text, path);
            for (at, _) in text.match_indices('/') {
                holders.entry(&text[at + 1..]).and_modify(|h| *h = None).or_insert(Some(path));
            }
        }
        self.merged = merged;
        &self.merged
    }

    /// Gives back what was reserved for more.
    pub(super) fn shrink(&mut self) {
        self.texts.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Approximate bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.texts.len() + 16 * self.ends.len()
    }
}

fn text<'a>(texts: &'a str, ends: &[(u32, AtomKind)], at: usize) -> &'a str {
    let start = if at == 0 { 0 } else { ends[at - 1].0 };
    &texts[start as usize..ends[at].0 as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough of them that the table grows several times.
    #[test]
    fn each_text_has_one_number() {
        let mut atoms = Atoms::default();
        for round in 0..2 {
            for i in 0..1000 {
                assert_eq!(atoms.intern(&format!("n{i}"), AtomKind::Path).unwrap(), i, "{round}");
            }
        }
        assert_eq!((atoms.len(), atoms.get(999).text, atoms.find("n7")), (1000, "n999", Some(7)));
        assert_eq!((atoms.find("n"), atoms.intern("", AtomKind::Error).unwrap()), (None, 1000));
        assert_eq!((atoms.get(1000).text, atoms.get(1000).kind), ("", AtomKind::Error));
    }
}
