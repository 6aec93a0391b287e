//! A log inside of a value of no known format: under keys, in lists, and as text in strings, as programs that collect logs
//! write them.

use crate::logs::formats::reading::{repair, scan};

use super::lines::{LINES_LOOKED_AT, is_json};
use super::{Detected, detect};

/// A log stands no deeper in it.
const MOST_LEVELS: usize = 4;

/// Where in a value a log stands, as `jq` says it, and the format: in the first line that tells.
pub(crate) fn envelope(head: &[u8], whole: bool) -> Option<(String, &'static str)> {
    let head = &head[repair::padding(head)..];
    match head.first()? {
        b'"' => inside(head, whole, MOST_LEVELS),
        _ => {
            let lines = head.split(|b| *b == b'\n').filter(|line| is_json(line)).take(LINES_LOOKED_AT);
            inside(head, whole, MOST_LEVELS)
                .or_else(|| lines.skip(1).find_map(|line| inside(line, whole, MOST_LEVELS)))
        }
    }
    .map(|(path, format)| (if path.starts_with('.') { path } else { format!(".{path}") }, format))
}

/// The same of one value that is no log itself. What stands nearer goes first.
fn inside(value: &[u8], whole: bool, levels: usize) -> Option<(String, &'static str)> {
    let levels = levels.checked_sub(1)?;
    let parts: Vec<(String, Vec<u8>, bool)> = match value.first()? {
        b'{' => {
            let fields = scan::fields(value).into_iter().take(LINES_LOOKED_AT);
            let fields = fields.filter(|(_, value)| matches!(value.first(), Some(b'{' | b'[' | b'"')));
            fields
                .map(|(key, value)| of(&format!(".{}", String::from_utf8_lossy(key)), value, whole))
                .collect()
        }
        b'[' => vec![of("[]", value[1..].trim_ascii_start(), whole)],
        b'"' => {
            let (text, is_whole) = unescaped(value, whole)?;
            vec![(" | fromjson".to_owned(), text, is_whole)]
        }
        _ => return None,
    };
    let log = |(path, value, whole): &(String, Vec<u8>, bool)| match is_json(value)
        .then(|| detect(value, *whole))
    {
        Some(Detected::Log(entry, _)) => Some((path.clone(), entry.name)),
        _ => None,
    };
    parts.iter().find_map(log).or_else(|| {
        let deeper = |(path, value, whole): &(String, Vec<u8>, bool)| {
            let (below, format) = inside(value, *whole, levels)?;
            Some((format!("{path}{below}"), format))
        };
        parts.iter().find_map(deeper)
    })
}

/// A value that begins here, and whether it ends.
fn of(path: &str, value: &[u8], whole: bool) -> (String, Vec<u8>, bool) {
    let end = repair::value_end(value, 0).filter(|end| *end <= value.len());
    (path.to_owned(), value[..end.unwrap_or(value.len())].to_vec(), whole || end.is_some())
}

/// What a string says that is JSON; of one that is cut what stands before the last escape.
fn unescaped(value: &[u8], whole: bool) -> Option<(Vec<u8>, bool)> {
    let end = repair::string_end(value, 0);
    let text = match end {
        Some(end) => value[..end].to_vec(),
        None => {
            let tail = value.len().saturating_sub(8);
            let cut = memchr::memrchr(b'\\', &value[tail..]).map_or(value.len(), |at| tail + at);
            let valid = value[..cut].utf8_chunks().next()?.valid().len();
            [&value[..valid], b"\""].concat()
        }
    };
    let begins = text.get(1..)?.trim_ascii_start();
    let begins = begins.strip_prefix(b"\\n").unwrap_or(begins);
    if !matches!(begins.first(), Some(b'{' | b'[')) {
        return None;
    }
    let text: String = serde_json::from_slice(&text).ok()?;
    Some((text.trim_start().as_bytes().to_vec(), whole || end.is_some()))
}
