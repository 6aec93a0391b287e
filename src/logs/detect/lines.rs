//! The lines by which a file is told, and the format that they tell.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::logs::formats::reading::scan::{self, Scanned, scan};
use crate::logs::formats::reading::shape::Shape;
use crate::logs::formats::reading::{alike, repair};

use super::shapes::by_shape;
use super::{Detected, Layout, UNKNOWN, no_json};

/// How many lines of a file are looked at.
pub(crate) const LINES_LOOKED_AT: usize = 20;

/// So many kinds of lines are told apart.
pub(crate) const MOST_KINDS: usize = 10_000;

/// How much of a file is looked through for the first line with a value, where it does not begin with one.
pub(crate) const NOISE_LOOKED_THROUGH: usize = 4 << 20;

pub(super) fn shape_of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Shape {
    let mut shape = Shape::default();
    for line in lines {
        shape.add(line, 0);
    }
    shape
}

/// The format of lines, of which the first ones have this shape. A torn one among them has keys where they do not belong; so
/// where the first one alone does not tell the same, whole ones tell it. Any number of strange ones may stand before.
pub(super) fn by_lines(lines: &Beginning<'_>, shape: &Shape, head: &[u8], whole: bool) -> Detected {
    let of = |shape: &Shape| by_shape(shape, head, Layout::Lines);
    let name = |found: &Detected| match found {
        Detected::Log(entry, _) => Some(entry.name),
        _ => None,
    };
    let all = of(shape);
    // A value with something behind it may be the end of a torn one.
    let first = lines.whole.first().filter(|line| line.is_sound());
    // Of a line that is alone all is known.
    let is_alone = first.is_some() && lines.all().count() == 1;
    if name(&all).is_some()
        && (is_alone || name(&all) == name(&of(&shape_of(first.iter().map(|line| line.text)))))
    {
        return all;
    }
    let known = |found: Detected| (!matches!(found, Detected::NoLog(_))).then_some(found);
    let sound = || lines.whole.iter().filter(|line| line.is_sound()).map(|line| line.text);
    let found = known(of(&shape_of(sound().chain(lines.cut.filter(|line| is_json(line))))))
        .or_else(|| known(all))
        .or_else(|| by_later_lines(head, whole))
        .unwrap_or(Detected::NoLog(UNKNOWN));
    first_of_several(&found, sound()).unwrap_or(found)
}

/// The format of the first lines, where the lines together look like another one: logs of several formats may have been joined.
/// A line that is alone may be damaged.
pub(super) fn first_of_several<'a>(
    found: &Detected,
    lines: impl Iterator<Item = &'a [u8]>,
) -> Option<Detected> {
    let Detected::Log(entry, _) = found else { return None };
    let told = lines.filter_map(|line| match by_shape(&shape_of([line].into_iter()), line, Layout::Lines) {
        told @ Detected::Log(other, _) => {
            Some((told, other.name, alike::is_one(entry.name, other.name, line)))
        }
        _ => None,
    });
    let told: Vec<(Detected, &str, bool)> = told.collect();
    let (_, first, is_one) = told.first()?;
    let n = told.iter().filter(|(_, name, _)| name == first).count();
    let is_first = !is_one && (n > 1 || !told.iter().any(|(.., is_one)| *is_one));
    told.into_iter().next().filter(|_| is_first).map(|(told, ..)| told)
}

/// How many records of each kind were looked at: of those that begin alike the first ones are enough.
#[derive(Default)]
pub(super) struct Kinds(HashMap<u64, usize>);

impl Kinds {
    pub(super) fn is_looked_at(&mut self, record: &[u8]) -> bool {
        let (kind, is_full) = (scan::kind(record), self.0.len() >= MOST_KINDS);
        match self.0.get_mut(&kind) {
            Some(n) => {
                *n += 1;
                *n <= LINES_LOOKED_AT
            }
            None => is_full || self.0.insert(kind, 1).is_none(),
        }
    }
}

/// The same of all lines, a few at a time.
fn by_later_lines(head: &[u8], whole: bool) -> Option<Detected> {
    let end = if whole { head.len() } else { memchr::memrchr(b'\n', head)? };
    let mut kinds = Kinds::default();
    let lines = head[..end].split(|b| *b == b'\n').map(repair::without_padding);
    let mut lines = lines.filter(|line| kinds.is_looked_at(line) && is_object(line));
    loop {
        let some: Vec<&[u8]> = lines.by_ref().take(LINES_LOOKED_AT).collect();
        if some.is_empty() {
            return None;
        }
        if let found @ Detected::Log(..) = by_shape(&shape_of(some.into_iter()), head, Layout::Lines) {
            return Some(found);
        }
    }
}

pub(crate) fn is_json(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'{' | b'['))
}

/// Whether a line begins with a whole object or list.
pub(super) fn is_value(line: &[u8]) -> bool {
    is_json(line) && matches!(scan(line, 0), Scanned::Ended(_))
}

/// Whether a line begins with a whole object.
pub(crate) fn is_object(line: &[u8]) -> bool {
    line.starts_with(b"{\"") && is_value(line)
}

/// Whether a line is part of a value that goes over several.
fn is_part(line: &[u8]) -> bool {
    matches!(line.last(), Some(b',' | b'[' | b'{' | b':'))
        || matches!(line.first(), Some(b',' | b']' | b'}' | b'"'))
}

/// A line of the beginning, which is scanned once.
pub(super) struct Line<'a> {
    text: &'a [u8],
    scanned: OnceCell<Scanned>,
}

impl<'a> Line<'a> {
    fn of(text: &'a [u8]) -> Self {
        Line { text, scanned: OnceCell::new() }
    }

    fn scanned(&self) -> Scanned {
        *self.scanned.get_or_init(|| scan(self.text, 0))
    }

    /// Whether it begins with a whole object.
    pub(super) fn is_object(&self) -> bool {
        self.text.starts_with(b"{\"") && matches!(self.scanned(), Scanned::Ended(_))
    }

    /// Whether it is one whole value: one with something behind it may be the end of a torn one.
    fn is_sound(&self) -> bool {
        is_json(self.text) && self.scanned() == Scanned::Ended(self.text.len())
    }
}

/// The lines by which a file is told: its first ones, and where these are all broken, or text of no known
/// kind, those from the first object on.
pub(super) struct Beginning<'a> {
    /// Those that end in the head.
    pub(super) whole: Vec<Line<'a>>,
    /// The one in which the head ends, if it is looked at.
    cut: Option<&'a [u8]>,
}

impl<'a> Beginning<'a> {
    pub(super) fn of(head: &'a [u8], is_all: bool) -> Self {
        let end = if is_all { head.len() } else { memchr::memrchr(b'\n', head).map_or(0, |at| at + 1) };
        let (head, cut) = head.split_at(end);
        // Blocks that a file system lost are lines of NULs, or stand before a line.
        let mut rest = head.split(|b| *b == b'\n').map(repair::without_padding).filter(|l| !l.is_empty());
        let mut whole: Vec<Line<'_>> = rest.by_ref().take(LINES_LOOKED_AT + 1).map(Line::of).collect();
        let may_come =
            whole.first().is_some_and(|l| is_json(l.text) || matches!(no_json(head), Detected::NoLog(_)));
        if may_come && !whole.iter().any(Line::is_object) {
            whole.extend(rest.by_ref().map(Line::of).find(Line::is_object));
            whole.extend(rest.take(LINES_LOOKED_AT).map(Line::of));
        }
        let cut = repair::without_padding(cut);
        Beginning { cut: (whole.len() <= LINES_LOOKED_AT && !cut.is_empty()).then_some(cut), whole }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &'a [u8]> {
        self.whole.iter().map(|line| line.text).chain(self.cut)
    }
}

/// One value a line, if the first line is a whole value and more follows, or if the first value is broken and more
/// lines are objects than parts of a larger value; none if a longer head is needed to tell.
pub(super) fn layout(lines: &Beginning<'_>, head: &[u8], is_all: bool) -> Option<Layout> {
    let Some((first, others)) = lines.whole.split_first() else {
        return match lines.cut {
            // One line longer than the head: as a document it would be held whole, as a line too.
            Some([b'{', ..]) => Some(Layout::Lines),
            Some([b'[', ..]) => Some(Layout::Document),
            Some(_) if head.len() < NOISE_LOOKED_THROUGH => None,
            Some(_) => Some(Layout::Document),
            None => Some(Layout::Lines),
        };
    };
    if is_json(first.text)
        && let Scanned::Ended(end) = first.scanned()
    {
        let ends = end == first.text.len();
        let is_lines = lines.all().count() > 1 || !ends || first.text[0] == b'{';
        return Some(if is_lines { Layout::Lines } else { Layout::Document });
    }
    let n_objects = others.iter().filter(|l| l.is_object()).count();
    let may_come = !is_all && head.len() < NOISE_LOOKED_THROUGH;
    if !is_json(first.text) {
        return match n_objects {
            0 if may_come => None,
            0 => Some(Layout::Document),
            _ => Some(Layout::Lines),
        };
    }
    let n_alone = others.iter().filter(|l| l.is_object() && l.text.ends_with(b"}")).count();
    let n_parts = others.iter().filter(|l| is_part(l.text)).count();
    if n_parts > 0 && n_alone <= n_parts {
        return Some(Layout::Document);
    }
    match scan(head, 0) {
        Scanned::Ended(_) => Some(Layout::Document),
        _ if n_alone > n_parts => Some(Layout::Lines),
        Scanned::Open if is_all || first.text[0] == b'[' => Some(Layout::Document),
        // The value may yet turn out to be broken.
        Scanned::Open => None,
        Scanned::Broken(_) if may_come => None,
        Scanned::Broken(_) => Some(Layout::Document),
    }
}
