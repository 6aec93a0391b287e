//! Repair of JSON bytes that a strict parser refuses: invalid UTF-8 and lone surrogate escapes
//! become U+FFFD, `NaN` and `Infinity` become null, escapes that are none and bare control characters are taken as they stand,
//! and several values written on one line are told apart.
//!
//! Only used after a parse failed, so that clean logs pay nothing.

use std::ops::Range;

/// How often something was replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repairs {
    pub(crate) invalid_utf8: u64,
    pub(crate) lone_surrogates: u64,
    pub(crate) not_finite: u64,
    pub(crate) bare: u64,
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
    // Of torn text nobody knows where its strings are.
    if let Some((text, n)) = escape_bare(&out).filter(|(text, _)| is_json(text)) {
        out = text;
        repairs.bare = n;
    }
    (repairs != Repairs::default()).then_some((out, repairs))
}

/// A value that ends early, closed behind the last of its members that is whole; and where that is. Nothing of a value that is
/// whole, or that has no whole member.
pub(crate) fn closed(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut open, mut at) = (Vec::new(), 0);
    // Where the last whole member ends, and how many brackets are open there.
    let mut whole: Option<(usize, usize)> = None;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            // An open string is the end.
            b'"' => match string_end(bytes, at) {
                Some(end) => at = end - 1,
                None => break,
            },
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                if open.pop() != Some(byte) || open.is_empty() {
                    return None;
                }
                whole = Some((at + 1, open.len()));
            }
            b',' => whole = Some((at, open.len())),
            _ => {}
        }
        at += 1;
    }
    let (end, n_open) = whole.filter(|(_, n_open)| *n_open > 0)?;
    let mut closed = bytes[..end].to_vec();
    closed.extend(open.get(..n_open)?.iter().rev());
    Some((closed, end))
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

/// Escapes what cannot stand in a string: control characters, and backslashes that begin no escape. Who takes secrets out of a
/// file as text leaves such: of `\nme@example.com` the backslash alone stays.
fn escape_bare(bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let (mut copied, mut at, mut n, mut is_string) = (0, 0, 0, false);
    while let Some(&byte) = bytes.get(at) {
        let escaped = match byte {
            b'"' => {
                is_string = !is_string;
                None
            }
            b'\\' if is_string => match bytes.get(at + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                    at += 1;
                    None
                }
                Some(b'u') if escape(bytes, at).is_some() => None,
                _ => Some("\\\\".to_owned()),
            },
            0..0x20 if is_string => Some(format!("\\u{byte:04x}")),
            _ => None,
        };
        if let Some(escaped) = escaped {
            out.extend_from_slice(&bytes[copied..at]);
            out.extend_from_slice(escaped.as_bytes());
            copied = at + 1;
            n += 1;
        }
        at += 1;
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

/// The whole values that a text begins with, each alone, and what stands behind them.
pub(crate) fn documents(text: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut at) = (Vec::new(), padding(text));
    while let Some(end) = value_end(text, at).filter(|end| is_json(&text[at..*end])) {
        found.push(&text[at..end]);
        at = end + padding(&text[end..]);
    }
    found.extend((at < text.len()).then(|| &text[at..]));
    found
}

/// Whether a text begins with a whole value: what stands behind it is another one, and no damage of it.
pub(crate) fn begins_whole(text: &[u8]) -> bool {
    let start = padding(text);
    value_end(text, start).is_some_and(|end| is_json(&text[start..end]))
}

/// The name of the field in which a stream of events has its data.
const DATA: &[u8] = b"data:";
/// A piece of padding is not longer.
pub(crate) const LONGEST_PADDING: usize = DATA.len();
/// A record separator of JSON text sequences (RFC 7464).
const SEPARATOR: u8 = 0x1e;

/// How many bytes at the beginning say nothing: white space of any alphabet, byte order marks (also those of files that
/// were joined), NULs of blocks that were never written, and what marks a record in sequences and streams.
pub(crate) fn padding(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match blank(&bytes[at..]) {
            0 if bytes[at..].starts_with(DATA) => at += DATA.len(),
            0 => return at,
            n => at += n,
        }
    }
}

/// The length of the blank character at the beginning; 0 if there is none.
fn blank(bytes: &[u8]) -> usize {
    let n = match bytes.first() {
        Some(0 | 0x0b | &SEPARATOR) => return 1,
        Some(b) if b.is_ascii_whitespace() => return 1,
        Some(0xc2) => 2,
        Some(0xe1..=0xe3 | 0xef) => 3,
        _ => return 0,
    };
    let char = bytes.get(..n).and_then(|char| std::str::from_utf8(char).ok()).and_then(|s| s.chars().next());
    // White space, white space without width, and the byte order mark.
    let is_blank = |c: char| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}');
    if char.is_some_and(is_blank) { n } else { 0 }
}

/// The bytes without padding at their beginning and end.
pub(crate) fn without_padding(bytes: &[u8]) -> &[u8] {
    let mut bytes = &bytes[padding(bytes)..];
    while let Some(n) = (1..=bytes.len().min(3)).find(|n| blank(&bytes[bytes.len() - n..]) == *n) {
        bytes = &bytes[..bytes.len() - n];
    }
    bytes
}

/// How many bytes at the beginning hold values without any content: `{}`, `[]`, `null`, numbers and texts, one behind the
/// other. None of the last value, if nothing comes behind it.
pub(crate) fn empty_values(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(end) = empty_value(bytes, at) {
        let next = end + padding(&bytes[end..]);
        // Keys and items go on like that; a letter right behind a text says that its first quote is one too many.
        let is_word = bytes[end - 1] == b'"' && bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
        if is_word || bytes.get(next).is_none_or(|b| b":,]}".contains(b)) {
            break;
        }
        at = next;
    }
    at
}

fn empty_value(bytes: &[u8], start: usize) -> Option<usize> {
    let end = match bytes.get(start)? {
        b'{' | b'[' => {
            let brackets = bytes[start..].iter().take_while(|b| b"{}[], \t\r\n".contains(b)).count();
            value_end(&bytes[..start + brackets], start)?
        }
        _ => value_end(bytes, start)?,
    };
    is_json(&bytes[start..end]).then_some(end)
}

/// For whole values behind a torn one so many bytes are looked through, and so many more for each byte of the text.
const LEAST_LOOKED_THROUGH: usize = 1 << 20;
const LOOKED_THROUGH_A_BYTE: usize = 8;

/// A piece of a text in which not one value stands alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) range: Range<usize>,
    /// It is an object or a list; else what stands before, between or behind those: text, or a torn value.
    pub(crate) is_whole: bool,
}

/// So many bytes before a value may be stray ones, without more to say for it.
const MAX_STRAY: usize = 16;

/// Cuts a text into whole objects and lists and what else stands there, padding aside. `is_record` tells by an object alone
/// whether it is a record of the log.
pub(crate) fn parts(text: &[u8], is_record: impl Fn(&[u8]) -> bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut torn, mut at) = (0, 0);
    let mut behind = behind_empty(text, 0);
    let mut budget = LEAST_LOOKED_THROUGH.saturating_add(text.len().saturating_mul(LOOKED_THROUGH_A_BYTE));
    while let Some(found) = memchr::memchr2(b'{', b'[', text.get(at..).unwrap_or_default()) {
        let start = at + found;
        at = start + 1;
        let between = &text[torn..start];
        let is_alone = behind >= start || is_separator(between);
        // Behind a few stray bytes, without a quote that may be open, a list is looked at too.
        let is_near = between.len() <= MAX_STRAY && memchr::memchr(b'"', between).is_none();
        if !is_alone && !is_near && !begins_with_key(&text[start..]) {
            continue;
        }
        let end = value_end(text, start);
        budget = match budget.checked_sub(end.unwrap_or(text.len()) - start) {
            Some(budget) => budget,
            None => break,
        };
        let Some(end) = end else {
            continue;
        };
        if (is_alone || stands_behind_torn(text, torn, start..end, &is_record)) && is_json(&text[start..end])
        {
            parts.push(Part { range: torn..start, is_whole: false });
            parts.push(Part { range: start..end, is_whole: true });
            (torn, at, behind) = (end, end, behind_empty(text, end));
        }
    }
    parts.push(Part { range: torn..text.len(), is_whole: false });
    parts.retain(|part| part.is_whole || !is_blank(&text[part.range.clone()]));
    parts
}

/// Whether a whole object that stands behind torn text, or inside of a torn value, is one of its own. One inside is
/// followed by other things than an object, or stands where a value may stand and begins with another key.
fn stands_behind_torn(
    text: &[u8],
    torn: usize,
    object: Range<usize>,
    is_record: impl Fn(&[u8]) -> bool,
) -> bool {
    let is_open = text[torn..object.start].iter().any(|b| b"{[\"".contains(b));
    let before = text[..object.start].trim_ascii_end().last().filter(|_| is_open);
    let behind = without_padding(&text[object.end..]).first();
    match behind {
        None if text[object.start] == b'[' => is_record(&text[object]),
        _ if text[object.start] == b'[' => false,
        None | Some(b'{') => {
            !before.is_some_and(|b| b"[,:".contains(b))
                || first_key(&text[torn..]) == first_key(&text[object.start..])
                || is_record(&text[object])
        }
        Some(b',' | b']') => before.is_some_and(|b| b"[,".contains(b)) && is_record(&text[object]),
        Some(_) => !before.is_some_and(|b| b"[,:".contains(b)) && is_record(&text[object]),
    }
}

/// Whether this is one whole value.
pub(crate) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// What another log leaves before the first session of a file of Markdown.
pub(crate) const JSON_BEFORE: &str = "line of JSON before the first session: another log stands in the file";

/// How many lines are objects of JSON.
pub(crate) fn n_json(lines: &[&str]) -> u64 {
    let is_object = |line: &&&str| line.trim_start().starts_with('{') && is_json(line.as_bytes());
    lines.iter().filter(is_object).count() as u64
}

/// Whether nothing but what may stand between two values stands there.
fn is_separator(text: &[u8]) -> bool {
    text.iter().all(|b| b",]".contains(b) || b.is_ascii_whitespace() || *b == 0) || is_blank(text)
}

/// Where values without content end that stand here.
fn behind_empty(text: &[u8], at: usize) -> usize {
    let at = at + padding(&text[at..]);
    at + empty_values(&text[at..])
}

fn begins_with_key(text: &[u8]) -> bool {
    text[0] == b'{' && text[1..].trim_ascii_start().first() == Some(&b'"')
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
mod tests;
