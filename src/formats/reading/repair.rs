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
}
