//! Documents that hold a list of runs: what these share, and where their list begins.

use crate::logs::detect;
use crate::logs::formats::reading::repair::{closed, padding, value_end};
use crate::logs::formats::{self, Sink, Source};

/// What stands before a list in a document, as a document, if that holds what its runs share; and where its items begin.
pub(super) fn shared_before(text: &[u8], list: &str, first: &str) -> Option<(Vec<u8>, usize)> {
    let start = formats::list_start(text, list)?;
    let before = &text[..start];
    memchr::memmem::find(before, format!("\"{first}\"").as_bytes())?;
    Some(([&before[document_start(before)..], b"]}"].concat(), start))
}

/// What stands in a document before the place where it ends early.
pub(super) fn read_torn<'a>(
    text: &[u8],
    source: &'a Source,
    read: fn(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
) -> Option<Sink<'a>> {
    let (closed, end) = closed(text)?;
    let mut sink = Sink::new(source);
    formats::read_repaired(&closed, &mut sink, read);
    sink.rejects.push((end, "the document ends early: what stands before this is read".to_owned()));
    Some(sink)
}

pub(super) fn n_steps(sink: &Sink<'_>) -> usize {
    sink.trajectories.iter().map(|of| of.steps.len()).sum()
}

/// Where the document begins that goes on behind a text, if other values stand before it.
fn document_start(before: &[u8]) -> usize {
    let mut at = padding(before);
    while let Some(end) = value_end(before, at).filter(|end| *end < before.len()) {
        at = end + padding(&before[end..]);
    }
    match before.get(at) {
        Some(b'{') => at,
        // A bracket too many, or a few other bytes.
        Some(_) => detect::behind_stray(before).unwrap_or(0),
        None => 0,
    }
}

/// The document without its list, wherever that stands in it.
pub(super) fn shared_around(text: &[u8], list: &str, first: &str) -> Option<(Vec<u8>, usize)> {
    let start = formats::list_start(text, list)?;
    let begin = document_start(&text[..start]);
    if let Some(end) = value_end(text, start - 1).filter(|_| shared_before(text, list, first).is_none()) {
        return Some(([&text[begin..start], b"]", &text[end..]].concat(), start));
    }
    Some(([&text[begin..start], b"]}"].concat(), start))
}
