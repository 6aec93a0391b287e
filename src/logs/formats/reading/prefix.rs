//! What a program writes before each record that it logs, as in `2026-01-01 INFO {...}`.

use super::repair::without_padding;
use super::scan::{Scanned, scan};

/// No more than this stands before a record.
const LONGEST: usize = 256;
/// So many lines tell whether they all have something there.
const LINES_LOOKED_AT: usize = 20;

/// So many objects in a line may be the record.
const MOST_TRIED: usize = 4;

/// How many bytes stand before the one object of a line, if they can be no part of JSON.
pub(crate) fn prefix(line: &[u8]) -> Option<usize> {
    let end = line.trim_ascii_end().len();
    words(line).find(|at| scan(line, *at) == Scanned::Ended(end))
}

/// The same of an object that is torn.
pub(crate) fn prefix_of_torn(line: &[u8]) -> Option<usize> {
    words(line).next()
}

/// Where an object begins behind words.
fn words(line: &[u8]) -> impl Iterator<Item = usize> {
    let begins = memchr::memchr_iter(b'{', &line[..line.len().min(LONGEST)]);
    let is_object = |at: &usize| line[at + 1..].trim_ascii_start().starts_with(b"\"");
    let is_behind_words = |at: &usize| {
        let words = &line[..*at];
        words.last().is_some_and(u8::is_ascii_whitespace)
            && words.iter().any(|b| !b",[]{}".contains(b) && !b.is_ascii_whitespace())
            && is_closed(words)
            && memchr::memmem::find(words, b"\":").is_none()
    };
    begins.filter(is_object).filter(is_behind_words).take(MOST_TRIED)
}

/// Whether all braces in it are closed.
fn is_closed(words: &[u8]) -> bool {
    let mut open = 0usize;
    let is_ok = words.iter().all(|b| match b {
        b'{' => {
            open += 1;
            true
        }
        b'}' => match open.checked_sub(1) {
            Some(fewer) => {
                open = fewer;
                true
            }
            None => false,
        },
        _ => true,
    });
    is_ok && open == 0
}

/// The lines of a log without their prefixes, if nearly all of the first ones have one.
pub(crate) fn without_prefixes(head: &[u8], is_all: bool) -> Option<Vec<u8>> {
    let end = if is_all { head.len() } else { memchr::memrchr(b'\n', head)? };
    let lines = || head[..end].split(|b| *b == b'\n').map(without_padding).filter(|line| !line.is_empty());
    if lines().next()?.starts_with(b"{") {
        return None;
    }
    let is_one: Vec<bool> =
        lines().take(LINES_LOOKED_AT).map(|line| prefix_of_torn(line).is_some()).collect();
    let n = is_one.iter().filter(|is| **is).count();
    if 4 * n < 3 * is_one.len() || !lines().take(LINES_LOOKED_AT).any(|line| prefix(line).is_some()) {
        return None;
    }
    let begin = |line| prefix(line).or_else(|| prefix_of_torn(line)).unwrap_or(0);
    let bare: Vec<&[u8]> = lines().map(|line| &line[begin(line)..]).collect();
    Some([bare.join(&b'\n'), b"\n".to_vec()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_before_an_object_are_told_from_parts_of_json() {
        for line in [
            r#"2026-01-01 INFO {"a":1}"#,
            r#"[2026-01-01 10:00:00] {"a":"}{"} "#,
            r#"time="now" level=info { "a": {"b": []}}"#,
            "17 {\"a\":1}\r",
        ] {
            assert_eq!(prefix(line.as_bytes()), line.find('{'), "{line}");
        }
        // What is in braces may be part of the words.
        for words in ["INFO {} ", "[{x=1}] {{}} INFO: ", "INFO {\"ctx\"} "] {
            assert_eq!(prefix(format!("{words}{{\"a\":{{}}}}").as_bytes()), Some(words.len()), "{words}");
        }
        assert_eq!(prefix_of_torn(br#"INFO {} {"a":1,"b"#), Some(8));
        assert_eq!(prefix_of_torn(br#"end","b":{} {"a":1,"b"#), None);
        for line in [
            r#"{"a":1}"#,
            r#" [ {"a":1}"#,
            r#"x{"a":1}"#,
            r#""k": {"a":1}"#,
            r#"end of a value"} {"a":1}"#,
            r#"INFO {"a":1}, and more"#,
            r#"INFO {"a":1"#,
            "INFO {}",
            "INFO",
            "",
        ] {
            assert_eq!(prefix(line.as_bytes()), None, "{line}");
        }
        let long = format!("{} {{\"a\":1}}", "x".repeat(LONGEST));
        assert_eq!(prefix(long.as_bytes()), None);
    }

    #[test]
    fn nearly_all_lines_have_one() {
        let bare =
            |text: &str| without_prefixes(text.as_bytes(), true).map(|b| String::from_utf8(b).unwrap());
        let told = "{\"a\":1}\n{\"a\":1}\nstarted\n{\"a\":2}\n".to_owned();
        assert_eq!(bare("I {\"a\":1}\n\nI {\"a\":1}\nstarted\nI {\"a\":2}"), Some(told));
        assert_eq!(bare("I {\"a\":1}\nstarted\n"), None);
        // Torn records are behind words, too.
        let torn = "{\"a\":1\n{\"a\":2}\n{\"a\":\n".to_owned();
        assert_eq!(bare("I {\"a\":1\nI {\"a\":2}\nI {\"a\":"), Some(torn));
        assert_eq!(bare("I {\"a\":1\nI {\"a\":2"), None);
        assert_eq!(bare("{\"a\":1}\nI {\"a\":1}\nI {\"a\":1}\nI {\"a\":1}\n"), None);
        // A line that goes on behind the head tells nothing.
        assert_eq!(without_prefixes(b"I {\"a\":1}", false), None);
    }
}
