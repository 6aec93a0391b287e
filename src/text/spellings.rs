//! Which spellings name one file: told by those before, so that what comes later changes nothing.

use std::collections::HashMap;

/// Of the files with the same last part the newest so many are looked at, so that a spelling costs no more in a long log.
const MOST_ALIKE: usize = 32;

/// Files, each by a number.
#[derive(Default)]
pub struct Spellings {
    /// The files by the last part of their path, each with its longest spelling so far.
    files: HashMap<String, Vec<(u32, String)>>,
}

impl Spellings {
    /// The number of the file that a new spelling names: the one whose path it ends, or that ends it, if there is but one;
    /// else it is another file, with this number.
    pub fn file(&mut self, name: &str, number: u32) -> u32 {
        let path = name.trim_matches('/');
        let last = path.rsplit('/').next().unwrap_or(path);
        let alike = self.files.entry(last.to_owned()).or_default();
        let is_same = |known: &str| ends_with(known, path) || ends_with(path, known);
        let mut same = alike.iter_mut().rev().take(MOST_ALIKE).filter(|(_, known)| is_same(known));
        if let (Some((number, known)), None) = (same.next(), same.next()) {
            if path.len() > known.len() {
                path.clone_into(known);
            }
            return *number;
        }
        alike.push((number, path.to_owned()));
        number
    }
}

/// Whether a path ends with these whole parts.
fn ends_with(path: &str, parts: &str) -> bool {
    path.strip_suffix(parts).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spelling_is_the_one_file_that_ends_so() {
        let mut files = Spellings::default();
        let told =
            ["src/a.py", "a.py", "/repo/src/a.py", "lib/a.py", "a.py", "b.py", "x/b.py", "y/b.py", "b.py"];
        let numbers: Vec<u32> = told.iter().enumerate().map(|(i, name)| files.file(name, i as u32)).collect();
        // `lib/a.py` is another file; from then on `a.py` may be either, and is a third. `b.py` is `x/b.py`, so that
        // `y/b.py` is none of them.
        assert_eq!(numbers, [0, 0, 0, 3, 4, 5, 5, 7, 8]);
    }
}
