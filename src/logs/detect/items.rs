//! The format of a list of values, or of a document that holds one; either may lack its beginning.

use crate::logs::formats::reading::list::{self, Items};
use crate::logs::formats::reading::scan::{Scanned, scan};
use crate::logs::formats::{ALL, Entry, Reading, list_start};

use super::lines::{Kinds, LINES_LOOKED_AT, first_of_several, is_value, shape_of};
use super::shapes::by_shape;
use super::{Detected, Layout, detect, no_json};

/// So many bytes without a blank before the first bracket are damage, and more are text.
const MAX_STRAY: usize = 16;

/// Whether the values of a format may stand one a line.
pub(super) fn is_of_lines(entry: &Entry) -> bool {
    matches!(entry.reading, Reading::Values(_) | Reading::Session { .. } | Reading::Sessions { .. })
}

/// Where a bracket stands behind a few stray bytes; of several the last one before a key or an item. No quote is stray but a
/// first byte.
pub(crate) fn behind_stray(head: &[u8]) -> Option<usize> {
    let stray = &head[..head.len().min(MAX_STRAY)];
    let n = stray.iter().skip(1).position(|b| *b == b'"').map_or(stray.len(), |at| at + 1);
    let is_begin = |at: &usize| {
        let next = head[at + 1..].trim_ascii_start();
        match stray[*at] {
            b'{' => next.starts_with(b"\""),
            b'[' => next.starts_with(b"{") && next[1..].trim_ascii_start().starts_with(b"\""),
            _ => false,
        }
    };
    (1..n).find(is_begin)
}

/// A log behind a few stray bytes in the same line.
fn log_behind_stray(head: &[u8], whole: bool) -> Option<Detected> {
    let line = head.split(|b| *b == b'\n').next().unwrap_or(head);
    let at = line.iter().take(MAX_STRAY + 1).position(|b| b"{[".contains(b)).filter(|at| *at > 0)?;
    if head[..at].iter().any(u8::is_ascii_whitespace) {
        return None;
    }
    match detect(&head[at..], whole) {
        found @ Detected::Log(..) => Some(found),
        _ => None,
    }
}

/// Whether the values of a file may stand in a list.
pub(super) fn may_be_items(layout: Layout, head: &[u8]) -> bool {
    let is_list = head.first() == Some(&b'[');
    match layout {
        Layout::Document => is_list || is_broken(head),
        _ => is_list && is_value(head.split(|b| *b == b'\n').next().unwrap_or(head)),
    }
}

pub(super) fn is_broken(head: &[u8]) -> bool {
    matches!(scan(head, 0), Scanned::Broken(_))
}

/// The format of a document that is broken before its list of runs begins, told by its keys alone.
pub(super) fn by_keys(head: &[u8]) -> Option<Detected> {
    by_list(head).filter(|_| head[0] == b'{')
}

/// The same of a text that may lack its beginning.
fn by_list(head: &[u8]) -> Option<Detected> {
    let is_it = |entry: &&Entry| match entry.reading {
        Reading::Document { list, first, .. } => {
            let first = format!("\"{first}\"");
            list_start(head, list).is_some() && memchr::memmem::find(head, first.as_bytes()).is_some()
        }
        _ => false,
    };
    ALL.iter().find(is_it).map(|entry| Detected::Log(entry, Layout::Document))
}

/// The format of a list of values, told by the first ones that have one; none if it is no list of runs.
pub(super) fn by_items(head: &[u8], whole: bool) -> Option<Detected> {
    // What stands in an item that goes on behind the head is no item.
    let first = memchr::memchr(b'{', head).filter(|_| !whole);
    if first.is_some_and(|at| scan(head, at) == Scanned::Open) {
        return first_item_is_cut(head);
    }
    let items = Items::new(Box::new(std::io::Cursor::new(head.to_vec())), u64::MAX);
    let items = items.filter_map(|piece| match piece.content {
        list::Content::Item(item) => Some(item),
        _ => None,
    });
    let (mut kinds, mut n_items) = (Kinds::default(), 0);
    let mut items = items.filter(|item| {
        n_items += 1;
        kinds.is_looked_at(item)
    });
    loop {
        let some: Vec<Vec<u8>> = items.by_ref().take(LINES_LOOKED_AT).collect();
        if some.is_empty() {
            break;
        }
        let some = || some.iter().map(Vec::as_slice);
        let found = by_shape(&shape_of(some()), head, Layout::Items);
        match first_of_several(&found, some()).unwrap_or(found) {
            Detected::Log(entry, Layout::Items) => return Some(Detected::Log(entry, Layout::Items)),
            // The records of a session, which elsewhere stand a line each.
            Detected::Log(entry, Layout::Lines) if is_of_lines(entry) => {
                return Some(Detected::Log(entry, Layout::Items));
            }
            _ => {}
        }
    }
    drop(items);
    if n_items == 0 && !whole { first_item_is_cut(head) } else { None }
}

/// The first item may be longer than the head; a list of lists is none of values.
fn first_item_is_cut(head: &[u8]) -> Option<Detected> {
    let first = head.strip_prefix(b"[").map(<[u8]>::trim_ascii_start)?.first();
    first.is_none_or(|b| *b == b'{').then_some(Detected::More)
}

/// A list or document whose beginning is damaged: text comes before the first whole item, in the same line, or over
/// lines that can only be JSON.
pub(super) fn text_before_items(head: &[u8], whole: bool) -> Detected {
    match no_json(head) {
        Detected::NoLog(what) => {
            let is_json = is_cut_json(head);
            let line = &head[..memchr::memchr(b'\n', head).unwrap_or(head.len())];
            let text = if is_json { head } else { line };
            let begins = is_json || memchr::memmem::find(text, b"{\"").is_some();
            match begins.then(|| by_list(text).or_else(|| by_items(text, whole))).flatten() {
                Some(log @ Detected::Log(..)) => log,
                Some(Detected::More) if is_json && !whole => Detected::More,
                _ => match log_behind_stray(head, whole) {
                    Some(found) => found,
                    None if is_json && whole => Detected::Bad("JSON whose beginning is missing"),
                    None if is_json => Detected::More,
                    None => Detected::NoLog(what),
                },
            }
        }
        known => known,
    }
}

/// Whether of the whole lines but the first three quarters and more can only be parts of JSON that goes over several: keys with
/// values, or brackets.
fn is_cut_json(head: &[u8]) -> bool {
    let is_key = |line: &[u8]| line.starts_with(b"\"") && memchr::memmem::find(line, b"\":").is_some();
    let is_one = |line: &[u8]| is_key(line) || line.iter().all(|b| b"{}[],".contains(b));
    let n_lines = memchr::memchr_iter(b'\n', head).count();
    let lines = head.split(|b| *b == b'\n').take(n_lines).skip(1).map(<[u8]>::trim_ascii);
    let (mut n, mut n_json) = (0, 0);
    for line in lines.filter(|line| !line.is_empty()).take(LINES_LOOKED_AT) {
        n += 1;
        n_json += usize::from(is_one(line));
    }
    n > 1 && 4 * n_json >= 3 * n
}
