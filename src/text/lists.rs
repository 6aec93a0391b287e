//! Lists of words and phrases that are data: the files of `src/data/words`, compiled in, each read once by the module that
//! uses it.
//!
//! A file of natural language ends in `.en.toml` (English) and is lower case, since lower case text is matched with it; the
//! others hold what programs print, as they print it. No entry means anything by its place in a list.

use std::collections::BTreeMap;

use regex::Regex;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Reads a file of `src/data` that is compiled in.
pub(crate) fn read<T: DeserializeOwned>(toml: &str) -> T {
    toml::from_str(toml).unwrap_or_else(|error| panic!("a list that is compiled in: {error}"))
}

/// Words that are matched whole.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct WordSet(FxHashSet<String>);

impl FromIterator<String> for WordSet {
    fn from_iter<I: IntoIterator<Item = String>>(words: I) -> Self {
        WordSet(words.into_iter().collect())
    }
}

impl WordSet {
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }
}

/// Words with a value each: a table of lists by value.
#[derive(Deserialize)]
#[serde(from = "BTreeMap<T, Vec<String>>", bound(deserialize = "T: Deserialize<'de> + Copy + Ord"))]
pub(crate) struct Names<T>(FxHashMap<String, T>);

impl<T: Copy> From<BTreeMap<T, Vec<String>>> for Names<T> {
    fn from(lists: BTreeMap<T, Vec<String>>) -> Self {
        let mut names = FxHashMap::default();
        for (name, value) in
            lists.into_iter().flat_map(|(value, list)| list.into_iter().map(move |name| (name, value)))
        {
            assert!(names.insert(name, value).is_none(), "a name has two values");
        }
        Names(names)
    }
}

impl<T: Copy> Names<T> {
    pub(crate) fn of(&self, word: &str) -> Option<T> {
        self.0.get(word).copied()
    }
}

/// Signs of a line or text, `…` standing for anything: `Traceback …`, `…: command not found`, `make[…]: *** …`.
#[derive(Deserialize)]
#[serde(from = "Vec<String>")]
pub(crate) struct Signs(Regex);

impl From<Vec<String>> for Signs {
    fn from(signs: Vec<String>) -> Self {
        Signs::from_iter(signs)
    }
}

impl FromIterator<String> for Signs {
    fn from_iter<I: IntoIterator<Item = String>>(signs: I) -> Self {
        let pattern = |sign: String| {
            let pattern = format!(r"\A{}\z", regex::escape(&sign).replace('…', ".*"));
            // What may begin or end with anything is looked for anywhere.
            let open = pattern.strip_prefix(r"\A.*").unwrap_or(&pattern);
            open.strip_suffix(r".*\z").unwrap_or(open).to_owned()
        };
        let all: Vec<String> = signs.into_iter().map(pattern).collect();
        Signs(Regex::new(&format!("(?s:{})", all.join("|"))).expect("signs are escaped"))
    }
}

impl Signs {
    /// Whether the text is one of the signs.
    pub(crate) fn fit(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// All lists of a value, with where they stand.
    fn lists(at: String, value: &toml::Value, found: &mut Vec<(String, Vec<String>)>) {
        match value {
            toml::Value::Table(table) => {
                table.iter().for_each(|(key, value)| lists(format!("{at}.{key}"), value, found));
                found.push((at, table.keys().cloned().collect()));
            }
            toml::Value::Array(entries) => {
                assert!(!entries.is_empty(), "{at}: no entries");
                let words = entries.iter().filter_map(toml::Value::as_str).map(str::to_owned);
                found.push((at.clone(), words.collect()));
                entries.iter().for_each(|entry| lists(at.clone(), entry, found));
            }
            _ => {}
        }
    }

    #[test]
    fn lists_are_in_order() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/data");
        let files = walkdir::WalkDir::new(data).into_iter().map(|entry| entry.unwrap().into_path());
        let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
        assert!(!files.is_empty());
        for path in files {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let value: toml::Value = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let mut found = Vec::new();
            lists(name.clone(), &value, &mut found);
            assert!(found.len() > 1, "{name}: no lists");
            for (at, words) in found {
                let distinct: BTreeSet<&String> = words.iter().collect();
                assert_eq!(distinct.len(), words.len(), "{at}: twice in {words:?}");
                for word in words {
                    assert!(!word.trim().is_empty() && word != "…", "{at}: empty");
                    assert!(!name.ends_with(".en.toml") || word == word.to_lowercase(), "{at}: {word:?}");
                }
            }
        }
    }

    #[test]
    fn signs_stand_where_they_say() {
        let signs = Signs::from(["a.b…", "…c…", "…d", "e[…]f…", "g…h", "whole"].map(str::to_owned).to_vec());
        for text in ["a.b", "a.b, and so on", "a c\nb", "and d", "e[1]f", "e[]f: more", "g, h", "whole"] {
            assert!(signs.fit(text), "{text}");
        }
        for text in ["", "axb", "so a.b", "d!", "ef", "x e[1]f", "g", "h g", "whole!", "the whole"] {
            assert!(!signs.fit(text), "{text}");
        }
    }
}
