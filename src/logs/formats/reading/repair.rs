//! Repair of JSON bytes that a strict parser refuses: invalid UTF-8 and lone surrogate escapes
//! become U+FFFD, `NaN` and `Infinity` become null, and several values written on one line are told apart.
//!
//! Only used after a parse failed, so that clean logs pay nothing.

use std::ops::Range;

/// How often something was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repairs {
    pub(crate) invalid_utf8: u64,
    pub(crate) lone_surrogates: u64,
    pub(crate) not_finite: u64,
}

/// Returns the repaired bytes, or nothing when there was nothing to repair.
pub(crate) fn repair(bytes: &[u8]) -> Option<(Vec<u8>, Repairs)> {
    let mut repairs = Repairs::default();
    let mut out = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.to_vec(),
        Err(_) => {
            let mut out = Vec::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                out.extend_from_slice(chunk.valid().as_bytes());
                if !chunk.invalid().is_empty() {
                    out.extend_from_slice("\u{fffd}".as_bytes());
                    repairs.invalid_utf8 += 1;
                }
            }
            out
        }
    };
    repairs.lone_surrogates = replace_lone_surrogates(&mut out);
    if let Some((text, n)) = replace_not_finite(&out) {
        out = text;
        repairs.not_finite = n;
    }
    (repairs != Repairs::default()).then_some((out, repairs))
}

/// Overwrites each `\ud800`..`\udfff` that has no other half with `\ufffd`, in place.
fn replace_lone_surrogates(bytes: &mut [u8]) -> u64 {
    let mut replaced = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let start = at + found;
        match escape(bytes, start) {
            Some(0xd800..=0xdbff) if matches!(escape(bytes, start + 6), Some(0xdc00..=0xdfff)) => {
                at = start + 12;
            }
            Some(0xd800..=0xdfff) => {
                bytes[start..start + 6].copy_from_slice(b"\\ufffd");
                replaced += 1;
                at = start + 6;
            }
            _ => at = (start + 2).min(bytes.len()),
        }
    }
    replaced
}

/// Puts `null` for each `NaN`, `Infinity` and `-Infinity` outside of strings.
fn replace_not_finite(bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
    const WORDS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    if WORDS.iter().all(|w| memchr::memmem::find(bytes, w).is_none()) {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let (mut at, mut copied, mut n) = (0, 0, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at).unwrap_or(bytes.len()),
            b'N' | b'I' | b'-' => {
                // Other words and numbers are no concern of this.
                let end = value_end(bytes, at).unwrap_or(bytes.len());
                let is_start = at == 0 || b" \t\r\n,:[".contains(&bytes[at - 1]);
                if is_start && WORDS.contains(&&bytes[at..end]) {
                    out.extend_from_slice(&bytes[copied..at]);
                    out.extend_from_slice(b"null");
                    copied = end;
                    n += 1;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    (n > 0).then_some((out, n))
}

/// The code of a `\uXXXX` escape that begins at `start`.
fn escape(bytes: &[u8], start: usize) -> Option<u32> {
    let part = bytes.get(start..start + 6)?;
    if !part.starts_with(b"\\u") {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(&part[2..]).ok()?, 16).ok()
}

/// The end of the string that begins (with its quote) at `start`; none if it is cut off.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[found] == b'"' {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// The end of the JSON value that begins at `start`; none if it is cut off. Iterative, so that
/// deep nesting costs nothing.
pub(crate) fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => string_end(bytes, start),
        b'{' | b'[' => {
            let mut depth = 0usize;
            let mut at = start;
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = string_end(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        _ => {
            let rest = &bytes[start..];
            let stop = rest.iter().position(|b| b" \t\r\n,:{}[]\"".contains(b));
            Some(start + stop.unwrap_or(rest.len()).max(1))
        }
    }
}

/// The objects and arrays that stand one after the other in `bytes`; a cut last one runs to the end.
pub(crate) fn values(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'{', b'[', bytes.get(at..).unwrap_or_default()) {
        let start = at + found;
        let end = value_end(bytes, start).unwrap_or(bytes.len());
        out.push(start..end);
        at = end;
    }
    out
}

/// A byte order mark.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// How many bytes at the beginning say nothing: white space, byte order marks (also those of files that were joined), and
/// NULs of blocks that were never written.
pub(crate) fn padding(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match bytes.get(at) {
            Some(b) if *b == 0 || b.is_ascii_whitespace() => at += 1,
            Some(_) if bytes[at..].starts_with(MARK) => at += MARK.len(),
            _ => return at,
        }
    }
}

/// The bytes without padding at their beginning and end.
pub(crate) fn without_padding(bytes: &[u8]) -> &[u8] {
    let mut bytes = &bytes[padding(bytes)..];
    loop {
        match bytes.last() {
            Some(b) if *b == 0 || b.is_ascii_whitespace() => bytes = &bytes[..bytes.len() - 1],
            Some(_) if bytes.ends_with(MARK) => bytes = &bytes[..bytes.len() - MARK.len()],
            _ => return bytes,
        }
    }
}

/// So many bytes are looked through for whole values behind a torn one, or so many times their own length.
const MAX_LOOKED_THROUGH: usize = 256 << 20;

/// Torn and whole objects that stand one after the other, from the first whole one on; all of it as one part where
/// there is none. A whole object inside of the torn one is not meant: something other than an object follows it, or it
/// stands where a value may stand and begins with another key.
pub(crate) fn torn_and_whole(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut torn, mut at) = (0, 1);
    let mut budget = MAX_LOOKED_THROUGH.max(bytes.len().saturating_mul(4));
    while let Some(found) = memchr::memmem::find(bytes.get(at..).unwrap_or_default(), b"{\"") {
        let start = at + found;
        at = start + 1;
        let end = value_end(bytes, start);
        budget = match budget.checked_sub(end.unwrap_or(bytes.len()) - start) {
            Some(budget) => budget,
            None => break,
        };
        let Some(end) = end.filter(|end| without_padding(&bytes[*end..]).first().is_none_or(|b| *b == b'{'))
        else {
            continue;
        };
        let is_inner = bytes[..start].trim_ascii_end().last().is_some_and(|b| b"[,:".contains(b));
        if is_inner && first_key(&bytes[torn..]) != first_key(&bytes[start..]) {
            continue;
        }
        if serde_json::from_slice::<serde::de::IgnoredAny>(&bytes[start..end]).is_ok() {
            if !is_blank(&bytes[torn..start]) {
                parts.push(torn..start);
            }
            parts.push(start..end);
            (torn, at) = (end, end);
        }
    }
    if !is_blank(&bytes[torn..]) {
        parts.push(torn..bytes.len());
    }
    parts
}

fn is_blank(bytes: &[u8]) -> bool {
    padding(bytes) == bytes.len()
}

/// The first key of an object, with its quotes.
fn first_key(bytes: &[u8]) -> Option<&[u8]> {
    let start = memchr::memchr(b'"', bytes)?;
    Some(&bytes[start..string_end(bytes, start)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_stay() {
        let (fixed, repairs) = repair(br#"{"a":"\ud83d x \ud83d\ude00 \\ud83d \ude00"}"#).unwrap();
        assert_eq!(fixed, br#"{"a":"\ufffd x \ud83d\ude00 \\ud83d \ufffd"}"#);
        assert_eq!(repairs, Repairs { lone_surrogates: 2, ..Repairs::default() });
        assert!(repair(br#"{"a":"\n"}"#).is_none());
        assert!(repair(br#"{"a":"\"#).is_none());
    }

    #[test]
    fn numbers_that_are_not_finite_become_null_outside_of_strings() {
        let (fixed, repairs) =
            repair(br#"{"a":NaN,"b":[-Infinity, Infinity],"c":"NaN \" NaN","d":-1}"#).unwrap();
        assert_eq!(fixed, br#"{"a":null,"b":[null, null],"c":"NaN \" NaN","d":-1}"#);
        assert_eq!(repairs.not_finite, 3);
        assert!(repair(br#"{"a":"NaN"}"#).is_none() && repair(br#"{"a":NaNa}"#).is_none());
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let (fixed, repairs) = repair(b"{\"a\":\"\xff\xfe\"}").unwrap();
        assert_eq!(fixed, "{\"a\":\"\u{fffd}\u{fffd}\"}".as_bytes());
        assert_eq!(repairs.invalid_utf8, 2);
    }

    #[test]
    fn values_on_one_line_are_told_apart() {
        let text = br#"{"a":"}{"}[1,{"b":2}] {"cut":"#;
        let parts: Vec<&[u8]> = values(text).into_iter().map(|r| &text[r]).collect();
        assert_eq!(parts, [&br#"{"a":"}{"}"#[..], br#"[1,{"b":2}]"#, br#"{"cut":"#]);
        assert_eq!(value_end(b"[[[[", 0), None);
        assert_eq!(value_end(b"true, 1", 0), Some(4));
    }

    #[test]
    fn a_whole_value_behind_a_torn_one_is_told() {
        let parts = |text: &'static str| -> Vec<&str> {
            torn_and_whole(text.as_bytes()).into_iter().map(|r| &text[r]).collect()
        };
        // The torn text ends inside of a string, so that all quotes behind it seem to be the other way round.
        let torn = r#"{"a":{"x":[{"t":"q"},{"t":"cut { "#;
        let whole = r#"{"a":{"x":[{"t":"}{"}]},"b":1}"#;
        let both: &'static str = Box::leak(format!("{torn}{whole}").into_boxed_str());
        assert_eq!(parts(both), [torn, whole]);
        let three: &'static str = Box::leak(format!("{torn}{whole}\0{whole}{torn}").into_boxed_str());
        assert_eq!(parts(three), [torn, whole, whole, torn]);
        assert_eq!(parts(r#"{"a":{"b":1},"c"#), [r#"{"a":{"b":1},"c"#]);
        assert_eq!(parts(r#"{"a":[{"b":1}"#), [r#"{"a":[{"b":1}"#]);
        assert_eq!(parts(r#"{"a":[{"a":1}"#), [r#"{"a":["#, r#"{"a":1}"#]);
    }

    #[test]
    fn padding_around_a_value() {
        let told = |text: &'static str| (padding(text.as_bytes()), without_padding(text.as_bytes()));
        assert_eq!(told("\0\0 {} \0"), (3, &b"{}"[..]));
        assert_eq!(told(" {} "), (1, &b"{}"[..]));
        assert_eq!(told("\u{feff}\0\r\n\u{feff}{\0}\u{feff}\n"), (9, &b"{\0}"[..]));
        assert_eq!(told("\0\0"), (2, &b""[..]));
        assert_eq!(padding(b"\xef\xbb{"), 0);
    }
}
