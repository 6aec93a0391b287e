//! Reads a value; where that fails, once more as far as it can be repaired, then without what does not fit.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::logs::detect::{Detected, detect};
use crate::logs::formats::reading::{self, fields, repair};
use crate::logs::formats::{MANY, Sink};

/// What stands before records in the logs of programs.
pub(crate) const WORDS: &str = "words of a log before a record left out";

/// Reads one value with `read`; if that fails, once more with the text repaired; then without the fields that do not fit,
/// if it is one value, else each of the parts that stand in the same place. What fails still is a reject of the sink.
pub(crate) fn read_repaired(
    bytes: &[u8],
    sink: &mut Sink<'_>,
    mut read: impl FnMut(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
) {
    // Each has two bytes at least: short values are not counted.
    let may_be_many = bytes.len() as u64 / 2 > sink.source.most_objects;
    let n_objects = if may_be_many { reading::scan::count_objects(bytes) } else { 0 };
    if n_objects > sink.source.most_objects {
        let size = bytes.len();
        sink.rejects
            .push((0, format!("{size} bytes with {n_objects} objects in one document or session{MANY}")));
        return;
    }
    let Err(first) = read(bytes, sink) else {
        return;
    };
    let start = repair::padding(bytes);
    let has_nul = bytes[..start].contains(&0);
    let n_all = bytes.len();
    let bytes = repair::without_padding(bytes);
    if bytes.is_empty() {
        sink.rejects.push((0, format!("NUL bytes ({start}) and nothing else")));
        return;
    }
    let repaired = repair::repair(bytes);
    let text = repaired.as_ref().map_or(bytes, |(text, _)| text.as_slice());
    let note = |sink: &mut Sink<'_>| {
        if has_nul {
            sink.losses.add("NUL bytes before a value left out");
        }
        if let Some((_, repairs)) = &repaired {
            sink.losses.add_n("invalid UTF-8 replaced by U+FFFD", repairs.invalid_utf8);
            sink.losses.add_n("lone surrogate replaced by U+FFFD", repairs.lone_surrogates);
            sink.losses.add_n("number that is not finite replaced by null", repairs.not_finite);
            sink.losses.add_n("bare backslash or control character taken as it stands", repairs.bare);
        }
    };
    if (repaired.is_some() || text.len() < n_all) && read(text, sink).is_ok() {
        note(sink);
        return;
    }
    if repair::is_json(text) {
        match read_leniently(sink, |sink| read(text, sink)) {
            Some(()) => note(sink),
            None => sink.rejects.push((start, reason(&first))),
        }
        return;
    }
    let format = sink.source.format;
    let is_record = |value: &[u8]| matches!(detect(value, true), Detected::Log(e, _) if e.name == format);
    let parts = repair::parts(text, is_record);
    if !parts.iter().any(|part| part.is_whole) {
        sink.rejects.push((start, reason(&first)));
        return;
    }
    note(sink);
    let mut n_values = 0;
    for (i, part) in parts.iter().enumerate() {
        if !part.is_whole && is_of_list(&text[part.range.clone()]) {
            sink.losses.add("comma or bracket of a list beside a value left out");
            continue;
        }
        let next = parts.get(i + 1).is_some_and(|next| next.is_whole);
        if !part.is_whole && next && is_words(&text[part.range.clone()]) {
            sink.losses.add(WORDS);
            continue;
        }
        n_values += 1;
        read_part(&text[part.range.clone()], start + part.range.start, sink, &mut read);
    }
    sink.losses.add_n("values not separated by a line end", n_values - 1);
}

/// Whether nothing but the punctuation of a list stands there.
fn is_of_list(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| b",[]".contains(b) || b.is_ascii_whitespace())
}

/// Whether they can be no part of JSON.
fn is_words(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_alphabetic) && !bytes.iter().any(|b| b"{}[]\"\\".contains(b))
}

/// Reads one of the values that stand in one place.
fn read_part(
    value: &[u8],
    offset: usize,
    sink: &mut Sink<'_>,
    read: &mut impl FnMut(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
) {
    if let Err(error) = read(value, sink)
        && read_leniently(sink, |sink| read(value, sink)).is_none()
    {
        sink.rejects.push((offset, reason(&error)));
    }
}

/// Reads without what does not fit; none if that leaves no run.
fn read_leniently<T>(
    sink: &mut Sink<'_>,
    read: impl FnOnce(&mut Sink<'_>) -> anyhow::Result<T>,
) -> Option<T> {
    let n_empty = |sink: &Sink<'_>| sink.losses.0.get(reading::draft::EMPTY_RUN).copied().unwrap_or(0);
    let before = (n_empty(sink), sink.trajectories.len());
    let (result, odd) = fields::leniently(|| read(sink));
    let value = result.ok().filter(|_| n_empty(sink) == before.0 || sink.trajectories.len() > before.1)?;
    sink.losses.merge(&odd);
    Some(value)
}

/// Reads an item of a list in a value; `offset` says where it stands, should it be a reject.
pub(crate) fn read_item<T: DeserializeOwned>(
    item: &RawValue,
    offset: usize,
    sink: &mut Sink<'_>,
    finish: impl FnOnce(T, &mut Sink<'_>),
) {
    let error = match serde_json::from_str(item.get()) {
        Ok(run) => return finish(run, sink),
        Err(error) => anyhow::Error::from(error),
    };
    let read = |sink: &mut Sink<'_>| {
        finish(serde_json::from_str(item.get())?, sink);
        Ok(())
    };
    if read_leniently(sink, read).is_none() {
        sink.rejects.push((offset, reason(&error)));
    }
}

fn reason(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    if text.contains("recursion limit exceeded") {
        return format!("nested deeper than 128 levels: {text}");
    }
    text
}
