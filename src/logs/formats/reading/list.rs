//! Cuts a list of runs into its items, one after the other, so that no more than one of them is held.
//!
//! Items are objects. One that is damaged costs itself alone: what comes after it is looked through for the next
//! whole object that looks like an item, so that neither a lost quote, nor a bracket too many, nor the missing end of a
//! list takes other items with it. All that is no item is told, with its place.

use std::io::BufRead;

use serde::de::DeserializeOwned;

use super::repair::{LONGEST_PADDING, padding, value_end};
use super::scan::{Scanned, Scanner, keys, scan};
use crate::logs::formats::{Sink, list_start, read_repaired};

/// So much is read at a time.
const CHUNK: usize = 256 << 10;
/// The keys of so many items are remembered, to know an item behind damage.
const ITEMS_REMEMBERED: usize = 20;
/// So much is looked at where the first item is damaged.
const LOOKED_AHEAD: usize = 8 << 20;
/// In a whole file so many bytes are looked through in vain for items behind damage, and so many more for each byte read.
const LEAST_LOOKED_THROUGH: usize = 1 << 20;
const LOOKED_THROUGH_A_BYTE: usize = 4;

/// A piece of the list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where it begins, in the file.
    pub(crate) offset: u64,
    pub(crate) content: Content,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A whole object.
    Item(Vec<u8>),
    /// Something else: what is wrong with it.
    Damage(String),
    /// What the machine could not read this time: why.
    Unread(String),
}

impl Content {
    /// What an error of reading leaves out.
    pub(crate) fn unread(what: &str, error: &std::io::Error) -> Self {
        let reason = format!("{what}: {error}");
        if is_passing(error) { Content::Unread(reason) } else { Content::Damage(reason) }
    }
}

/// Whether the machine or another process is at fault, and not what stands in a file: the next try may go well.
pub(crate) fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{OutOfMemory, ResourceBusy};
    error.raw_os_error().is_some() || matches!(error.kind(), OutOfMemory | ResourceBusy)
}

/// Reads the items of a list in memory one by one, each repaired where that is needed. Damage costs itself alone.
pub(crate) fn each_item(
    bytes: &[u8],
    sink: &mut Sink<'_>,
    mut read: impl FnMut(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
) {
    each_of(&mut Items::new(Box::new(std::io::Cursor::new(bytes.to_vec())), u64::MAX), sink, &mut read);
}

/// The same for the list that is this field of a document. Returns the document with an empty list in its place.
fn each_item_of(
    bytes: &[u8],
    field: &str,
    sink: &mut Sink<'_>,
    mut read: impl FnMut(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
) -> Vec<u8> {
    let Some(start) = list_start(bytes, field) else {
        return bytes.to_vec();
    };
    let (before, list) = bytes.split_at(start);
    match value_end(bytes, start - 1) {
        Some(end) => {
            each_item(&bytes[start - 1..end], sink, read);
            [before, b"]", &bytes[end..]].concat()
        }
        None => {
            let mut items =
                Items::of_field(Box::new(std::io::Cursor::new(list.to_vec())), start as u64, u64::MAX);
            each_of(&mut items, sink, &mut read);
            [before, b"]}"].concat()
        }
    }
}

/// Reads a damaged document: what stands around the list that is this field of it, and all items of that which are whole.
pub(crate) fn read_around<D: DeserializeOwned + Default, I: DeserializeOwned>(
    bytes: &[u8],
    field: &str,
    sink: &mut Sink<'_>,
) -> (D, Vec<I>) {
    let (mut document, mut items) = (D::default(), Vec::new());
    let around = each_item_of(bytes, field, sink, |item, _| {
        items.push(serde_json::from_slice(item)?);
        Ok(())
    });
    read_repaired(&around, sink, |bytes, _| {
        document = serde_json::from_slice(bytes)?;
        Ok(())
    });
    (document, items)
}

fn each_of(
    items: &mut Items,
    sink: &mut Sink<'_>,
    read: &mut impl FnMut(&[u8], &mut Sink<'_>) -> anyhow::Result<()>,
) {
    for piece in items {
        match piece.content {
            Content::Item(item) => read_repaired(&item, sink, &mut *read),
            Content::Damage(reason) | Content::Unread(reason) => {
                sink.rejects.push((piece.offset as usize, reason));
            }
        }
    }
}

/// A list that is read.
pub(crate) struct Items {
    reader: Box<dyn BufRead + Send>,
    /// What was read and not forgotten; what is before `at` is done.
    buffer: Vec<u8>,
    at: usize,
    /// Where the buffer begins in the file.
    offset: u64,
    /// Items may not be longer.
    max: usize,
    /// The list has begun, and not ended.
    is_inside: bool,
    /// It is a field of a document.
    is_field: bool,
    is_end: bool,
    error: Option<Content>,
    /// Keys of the first items.
    keys: Vec<Vec<u8>>,
    n_remembered: usize,
    budget: usize,
    /// Nothing but blanks came since the last item.
    is_behind_item: bool,
    #[cfg(test)]
    n_scanned: usize,
}

impl Items {
    /// `max` is the length of the longest item that is held.
    pub(crate) fn new(reader: Box<dyn BufRead + Send>, max: u64) -> Self {
        Items {
            reader,
            buffer: Vec::new(),
            at: 0,
            offset: 0,
            max: usize::try_from(max).unwrap_or(usize::MAX),
            is_inside: false,
            is_field: false,
            is_end: false,
            error: None,
            keys: Vec::new(),
            n_remembered: 0,
            budget: LEAST_LOOKED_THROUGH,
            is_behind_item: false,
            #[cfg(test)]
            n_scanned: 0,
        }
    }

    /// The same for a list that is a field of a document; the reader stands behind its bracket, at `offset` in the file.
    /// It ends where the document ends.
    pub(crate) fn of_field(reader: Box<dyn BufRead + Send>, offset: u64, max: u64) -> Self {
        Items { offset, is_inside: true, is_field: true, ..Items::new(reader, max) }
    }

    /// The same where the reader begins so far behind the beginning of the file.
    pub(crate) fn behind(self, n: u64) -> Self {
        Items { offset: self.offset + n, ..self }
    }

    /// How far it is in the file.
    pub(crate) fn place(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Reads some more; says whether there was more.
    fn fill(&mut self) -> bool {
        let before = self.buffer.len();
        while !self.is_end && self.buffer.len() < before + CHUNK {
            match self.reader.fill_buf() {
                Ok([]) => self.is_end = true,
                Ok(bytes) => {
                    let n = bytes.len();
                    self.buffer.extend_from_slice(bytes);
                    self.reader.consume(n);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(Content::unread("cannot read on", &error));
                    self.is_end = true;
                }
            }
        }
        let n = self.buffer.len() - before;
        self.budget = self.budget.saturating_add(n.saturating_mul(LOOKED_THROUGH_A_BYTE));
        n > 0
    }

    fn forget(&mut self, n: usize) {
        self.buffer.drain(..n);
        self.offset += n as u64;
        self.at -= n;
    }

    /// The next byte that is not blank, and where in the buffer it stands.
    fn peek(&mut self, mut at: usize) -> Option<(usize, u8)> {
        loop {
            at += padding(&self.buffer[at..]);
            // A mark of several bytes may be cut.
            if self.buffer.len() - at < LONGEST_PADDING && self.fill() {
                continue;
            }
            return self.buffer.get(at).map(|byte| (at, *byte));
        }
    }

    /// The end of the object at `start` of the buffer; where it is broken or too long, that, and the scan so far.
    fn object(&mut self, start: usize) -> Object {
        self.follow(Scanner::default(), start)
    }

    fn follow(&mut self, mut scanner: Scanner, start: usize) -> Object {
        let mut at = start;
        loop {
            let scanned = scanner.scan(&self.buffer[at..]);
            #[cfg(test)]
            {
                self.n_scanned += match scanned {
                    Scanned::Ended(n) | Scanned::Broken(n) => n,
                    Scanned::Open => self.buffer.len() - at,
                };
            }
            match scanned {
                Scanned::Ended(n) => return Object::Whole(at + n),
                Scanned::Broken(n) => return Object::Broken(at + n),
                Scanned::Open => at = self.buffer.len(),
            }
            if at - start > self.max {
                return Object::TooLong(scanner);
            }
            if !self.fill() {
                return Object::Broken(at);
            }
        }
    }

    /// Whether fields of a document come here, and its end; goes there then.
    fn ends_document(&mut self, at: usize) -> bool {
        let Object::Whole(end) = self.follow(Scanner::behind_field(), at) else {
            return false;
        };
        self.at = end;
        self.is_inside = false;
        true
    }

    fn item(&mut self) -> Piece {
        let start = self.at;
        match self.object(start) {
            Object::Whole(end) => {
                let bytes = self.buffer[start..end].to_vec();
                self.remember(&bytes);
                self.at = end;
                Piece { offset: self.offset + start as u64, content: Content::Item(bytes) }
            }
            Object::Broken(end) => self.damage(end),
            Object::TooLong(scanner) => self.skip(scanner),
        }
    }

    fn remember(&mut self, item: &[u8]) {
        let keys = keys(item);
        if self.n_remembered < ITEMS_REMEMBERED && !keys.is_empty() {
            self.n_remembered += 1;
            for key in keys {
                if !self.keys.iter().any(|known| known == key) {
                    self.keys.push(key.to_owned());
                }
            }
        }
    }

    /// Goes to the end of an object that is too long to be held, of which all that was read is scanned.
    fn skip(&mut self, mut scanner: Scanner) -> Piece {
        let offset = self.place();
        loop {
            self.at = self.buffer.len();
            self.forget(self.at);
            if !self.fill() {
                break;
            }
            if let Scanned::Ended(n) | Scanned::Broken(n) = scanner.scan(&self.buffer) {
                self.at = n;
                break;
            }
        }
        let size = indicatif::BinaryBytes(self.place() - offset);
        let reason =
            format!("an item of {size}, too long\nhint: --max-memory allows an eighth of it to an item");
        Piece { offset, content: Content::Damage(reason) }
    }

    /// What is wrong from here on, up to the next item or the end; `broken` is where that shows.
    fn damage(&mut self, broken: usize) -> Piece {
        let offset = self.place();
        let reason = reason(&self.buffer[self.at..broken], broken == self.buffer.len());
        if self.keys.is_empty() {
            self.learn();
        }
        let mut at = self.at + 1;
        loop {
            at += memchr::memchr(b'{', &self.buffer[at..]).unwrap_or(self.buffer.len() - at);
            if at == self.buffer.len() {
                if at - self.at > self.max {
                    self.at = at;
                    self.forget(at);
                    at = 0;
                }
                if !self.fill() {
                    break;
                }
            } else if self.is_item(at) {
                break;
            } else {
                at += 1;
            }
        }
        self.at = at;
        // That the list has no end is told once.
        self.is_inside &= at < self.buffer.len();
        Piece { offset, content: Content::Damage(reason) }
    }

    /// Without an item to compare with: the largest whole object that comes is one, since what stands inside of a damaged
    /// item is smaller.
    fn learn(&mut self) {
        while self.buffer.len() - self.at < LOOKED_AHEAD && self.fill() {}
        let (mut at, mut largest) = (self.at + 1, 0..0);
        while let Some(found) = self.buffer.get(at..).and_then(|rest| memchr::memchr(b'{', rest)) {
            at += found;
            let end = match scan(&self.buffer, at) {
                Scanned::Ended(end) if end - at > largest.len() => {
                    largest = at..end;
                    end
                }
                Scanned::Ended(end) => end,
                Scanned::Broken(end) if self.spend(end - at) => at + 1,
                Scanned::Open if self.spend(self.buffer.len() - at) => at + 1,
                _ => break,
            };
            at = end;
        }
        let largest = self.buffer[largest].to_vec();
        self.remember(&largest);
    }

    /// Whether so many bytes may be looked through for nothing.
    fn spend(&mut self, n: usize) -> bool {
        self.budget = self.budget.saturating_sub(n);
        self.budget > 0
    }

    /// Whether a whole object stands here that looks like the items before, and may be followed by what comes then.
    fn is_item(&mut self, at: usize) -> bool {
        if !self.spend(1) {
            return false;
        }
        let end = match self.object(at) {
            Object::Whole(end) => end,
            Object::Broken(end) => {
                self.spend(end - at);
                return false;
            }
            Object::TooLong(_) => {
                self.spend(self.buffer.len() - at);
                return false;
            }
        };
        let keys = keys(&self.buffer[at..end]);
        let n_known = keys.iter().filter(|key| self.keys.iter().any(|known| known == *key)).count();
        let is_alike = n_known > 0 && 2 * n_known >= keys.len();
        let is_item =
            is_alike && self.peek(end).is_none_or(|(_, byte)| matches!(byte, b',' | b']' | b'{' | b'['));
        is_item || {
            self.spend(end - at);
            false
        }
    }
}

enum Object {
    /// It ends before this place of the buffer.
    Whole(usize),
    /// It is broken there, or the file ends.
    Broken(usize),
    TooLong(Scanner),
}

/// What is wrong with text that is no item.
fn reason(text: &[u8], is_end: bool) -> String {
    if text.first() != Some(&b'{') {
        return "text that is no object between the items of a list".to_owned();
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(text) {
        Err(error) if is_end => format!("an item of a list, cut off: {error}"),
        _ => format!("an item of a list, broken after {} bytes", text.len()),
    }
}

impl Iterator for Items {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.at >= CHUNK {
            self.forget(self.at);
        }
        loop {
            let Some((at, byte)) = self.peek(self.at) else {
                self.at = self.buffer.len();
                let cut = self.is_inside.then(|| {
                    Content::Damage("a list without its end: what came after is missing".to_owned())
                });
                self.is_inside = false;
                let content = self.error.take().or(cut)?;
                return Some(Piece { offset: self.place(), content });
            };
            self.at = at;
            let is_behind_item = std::mem::take(&mut self.is_behind_item);
            match byte {
                b'{' => {
                    self.is_inside = true;
                    let piece = self.item();
                    self.is_behind_item = matches!(piece.content, Content::Item(_));
                    return Some(piece);
                }
                b'[' if !self.is_inside => self.is_inside = true,
                // A list behind other values: what stands in it may be unlike them.
                b'[' if is_behind_item => {
                    self.keys.clear();
                    self.n_remembered = 0;
                }
                b']' if self.is_field && self.ends_document(at + 1) => return None,
                b']' => self.is_inside = false,
                b',' => {}
                _ => return Some(self.damage(at)),
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests;
