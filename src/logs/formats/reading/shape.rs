//! The shape of a file: which keys stand where near its beginning. A format is told by its shape,
//! never by the name of the file.
//!
//! Paths are written `messages[].role`; of short strings under telling keys (`type`, `kind`,
//! `schema_version`, ...) the value is kept too, as `type=session_meta`. The scan is lenient and works on
//! a cut head, goes five levels deep and looks at the first elements of an array only.

use std::collections::BTreeSet;

use super::repair::{string_end, value_end};

const MAX_DEPTH: usize = 5;
const MAX_ELEMENTS: usize = 4;
const MAX_PATHS: usize = 600;
/// Keys whose short string values are kept.
const TELLING: [&str; 8] =
    ["type", "kind", "role", "schema_version", "trajectory_format", "record_type", "mini_version", "object"];

#[derive(Debug, Default)]
pub(crate) struct Shape {
    paths: BTreeSet<String>,
    /// The value ended inside of the bytes looked at.
    pub(crate) complete: bool,
}

impl Shape {
    /// Whether a key or value stands at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    pub(crate) fn has_all(&self, paths: &[&str]) -> bool {
        paths.iter().all(|p| self.has(p))
    }

    pub(crate) fn has_any(&self, paths: &[&str]) -> bool {
        paths.iter().any(|p| self.has(p))
    }

    /// Whether some path satisfies the test.
    pub(crate) fn any(&self, test: impl Fn(&str) -> bool) -> bool {
        self.paths.iter().any(|p| test(p))
    }

    /// Adds the shape of the value that begins at `start`; returns where it ends.
    pub(crate) fn add(&mut self, bytes: &[u8], start: usize) -> Option<usize> {
        let end = Scan { bytes, shape: self, path: String::new() }.value(start, 0);
        self.complete = end.is_some();
        end
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    shape: &'a mut Shape,
    path: String,
}

impl Scan<'_> {
    fn skip_space(&self, mut at: usize) -> usize {
        while self.bytes.get(at).is_some_and(|b| b" \t\r\n".contains(b)) {
            at += 1;
        }
        at
    }

    fn note(&mut self, path: &str) {
        if self.shape.paths.len() < MAX_PATHS && !self.shape.paths.contains(path) {
            self.shape.paths.insert(path.to_owned());
        }
    }

    fn value(&mut self, at: usize, depth: usize) -> Option<usize> {
        match self.bytes.get(at)? {
            b'{' if depth < MAX_DEPTH => self.object(at + 1, depth),
            b'[' if depth < MAX_DEPTH => self.array(at + 1, depth),
            b'"' => {
                let end = string_end(self.bytes, at)?;
                let key = self.path.rsplit(['.', ']']).next().unwrap_or("");
                if end - at < 50
                    && TELLING.contains(&key)
                    && let Ok(text) = std::str::from_utf8(&self.bytes[at + 1..end - 1])
                {
                    let path = format!("{}={text}", self.path);
                    self.note(&path);
                }
                Some(end)
            }
            _ => value_end(self.bytes, at),
        }
    }

    fn object(&mut self, mut at: usize, depth: usize) -> Option<usize> {
        loop {
            at = self.skip_space(at);
            match self.bytes.get(at)? {
                b'}' => return Some(at + 1),
                b',' => at += 1,
                b'"' => {
                    let end = string_end(self.bytes, at)?;
                    let length = self.path.len();
                    let key = std::str::from_utf8(&self.bytes[at + 1..end - 1]).unwrap_or("?");
                    if length > 0 {
                        self.path.push('.');
                    }
                    self.path.push_str(if key.len() > 60 { "?" } else { key });
                    let path = self.path.clone();
                    self.note(&path);
                    at = self.skip_space(end);
                    if self.bytes.get(at) == Some(&b':') {
                        at = self.skip_space(at + 1);
                    }
                    let end = self.value(at, depth + 1);
                    self.path.truncate(length);
                    at = end?;
                }
                _ => at = value_end(self.bytes, at)?,
            }
        }
    }

    fn array(&mut self, mut at: usize, depth: usize) -> Option<usize> {
        let length = self.path.len();
        self.path.push_str("[]");
        let mut n = 0;
        let end = loop {
            at = self.skip_space(at);
            let next = match self.bytes.get(at) {
                None => break None,
                Some(b']') => break Some(at + 1),
                Some(b',') => Some(at + 1),
                Some(_) if n < MAX_ELEMENTS => {
                    n += 1;
                    self.value(at, depth + 1)
                }
                Some(_) => value_end(self.bytes, at),
            };
            match next {
                Some(next) => at = next,
                None => break None,
            }
        };
        self.path.truncate(length);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_value_and_of_a_cut_value() {
        let text = br#"{"type":"x", "messages":[{"role":"user","content":[{"text":"}"}]}], "n":1}"#;
        let mut shape = Shape::default();
        assert_eq!(shape.add(text, 0), Some(text.len()));
        assert!(shape.has_all(&["type=x", "messages[].role", "messages[].content[].text", "n"]));
        let mut cut = Shape::default();
        assert_eq!(cut.add(&text[..50], 0), None);
        assert!(cut.has("messages[].content") && !cut.complete);
    }

    #[test]
    fn garbage_ends() {
        for text in [&b"{{{{"[..], b"{\"a\" \"b\" }", b"[[[[[[[[]", b"{:::}", b"{\"a\":}", b"]", b"", b"{]}"]
        {
            Shape::default().add(text, 0);
        }
    }
}
