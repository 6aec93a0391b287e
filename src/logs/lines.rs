//! Reads the lines or items of a file into a part, each by the reader of its own format.

use crate::logs::formats::reading::prefix::{prefix, prefix_of_torn};
use crate::logs::formats::reading::repair;
use crate::logs::formats::{self, Entry, Reading, Runs, Session, Sink, Source};

use super::part::Part;
use super::strangers::{Others, Place, Strangers, documents};

/// Whether a line is one of those that a stream of events has beside its data, or the mark of its end; no part of JSON is.
fn is_of_stream(line: &[u8]) -> bool {
    let is_field = [&b"event:"[..], b"id:", b"retry:", b":"].iter().any(|field| line.starts_with(field));
    is_field && !line.iter().any(|b| b"\"{}[]".contains(b)) || line == b"[DONE]"
}

/// Reads lines or items of a file into a part.
pub(super) struct Lines<'a> {
    pub(super) sink: Sink<'a>,
    entry: &'static Entry,
    /// Whether a value of the file's own format was met.
    is_begun: bool,
    session: Option<Box<dyn Session>>,
    /// The document in which the values are runs.
    document: Option<Box<dyn Runs>>,
    strangers: Option<Strangers>,
    others: Others,
    /// Whether words stand before records.
    has_words: bool,
    pub(super) line: u64,
    pub(super) offset: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(entry: &'static Entry, source: &'a Source, line: u64, offset: u64) -> Self {
        Lines {
            sink: Sink::new(source),
            entry,
            is_begun: false,
            session: open(entry),
            document: None,
            strangers: Strangers::of(entry, source),
            others: Others::default(),
            has_words: false,
            line,
            offset,
        }
    }

    /// For runs in a document; `shared` is the document without them.
    pub(super) fn of_document(
        entry: &'static Entry,
        source: &'a Source,
        shared: Option<&[u8]>,
        part: &mut Part,
    ) -> Self {
        let mut lines = Lines::new(entry, source, 1, 0);
        if let (Reading::Document { open, .. } | Reading::Archive { open, .. }, Some(shared)) =
            (entry.reading, shared)
        {
            let document = &mut lines.document;
            formats::read_repaired(shared, &mut lines.sink, |text, _| {
                *document = Some(open(text)?);
                Ok(())
            });
            part.take(&mut lines.sink, None, 0);
            if lines.document.is_none() {
                // What the runs share is damaged and told; they themselves are not.
                lines.document = open(b"{}").ok();
            }
        }
        lines
    }

    /// Spares the look at a value by which the format of its file was told.
    pub(super) fn all_are_own(&mut self) {
        self.strangers = None;
    }

    pub(super) fn read(&mut self, raw: &[u8], part: &mut Part) {
        // A mark may stand before each line: of tools that write it so, or of files that were joined. Of NULs it is told.
        let text = match raw.first() {
            Some(0) => raw.trim_ascii(),
            _ => repair::without_padding(raw),
        };
        if is_of_stream(text) {
            self.sink.losses.add("line of an event stream without a record left out");
        } else if !text.is_empty() {
            let mut words = if text.starts_with(b"{") { None } else { prefix(text) };
            self.has_words |= words.is_some();
            if self.has_words && words.is_none() && !text.starts_with(b"{") {
                words = prefix_of_torn(text);
            }
            self.sink.losses.add_n(formats::WORDS, u64::from(words.is_some()));
            let text = &text[words.unwrap_or(0)..];
            let offset = text.as_ptr() as usize - raw.as_ptr() as usize;
            for value in documents(text) {
                let offset = self.offset + (offset + value.start) as u64;
                self.value(&text[value], Place { line: Some(self.line), offset, index: None }, part);
            }
        }
        self.leave_out(raw.len() as u64, part);
    }

    /// Goes on behind a line of so many bytes.
    pub(super) fn leave_out(&mut self, n: u64, part: &mut Part) {
        self.line += 1;
        self.offset += n;
        part.n_bytes += n;
    }

    pub(super) fn value(&mut self, text: &[u8], place: Place, part: &mut Part) {
        let Some(strangers) = &mut self.strangers else { return self.own(text, place, part) };
        if let Some((entry, waiting)) = strangers.next(text, place) {
            waiting.into_iter().for_each(|(place, text)| self.value_of(entry, &text, place, part));
            self.value_of(entry, text, place, part);
        }
    }

    fn value_of(&mut self, entry: &'static Entry, text: &[u8], place: Place, part: &mut Part) {
        match entry.name == self.entry.name {
            true => self.own(text, place, part),
            // In one of several batches a session would be cut.
            false if !part.is_whole() && !matches!(entry.reading, Reading::Values(_)) => {
                let reason = format!(
                    "a record of {0} in a large file of {1}\nhint: put the records of {0} into a file of their own",
                    entry.name, self.entry.name
                );
                part.reject(place.line, place.offset, reason);
            }
            false => self.others.put(entry, text, place),
        }
    }

    /// A value of the file's own format.
    fn own(&mut self, text: &[u8], place: Place, part: &mut Part) {
        self.is_begun = true;
        self.sink.index = place.index;
        match (self.entry.reading, &self.document) {
            (Reading::Session { .. } | Reading::Sessions { .. }, _) => self.add(text),
            (Reading::Values(read) | Reading::Database { read, .. }, _) => {
                formats::read_repaired(text, &mut self.sink, read);
            }
            (_, Some(document)) => {
                formats::read_repaired(text, &mut self.sink, |value, sink| document.run(value, sink));
            }
            _ => {}
        }
        part.take(&mut self.sink, place.line, place.offset);
    }

    /// A value of a session.
    fn add(&mut self, text: &[u8]) {
        if self.session.as_ref().is_some_and(|session| session.is_another(text))
            && let Some(before) = std::mem::replace(&mut self.session, open(self.entry))
        {
            before.finish(&mut self.sink);
        }
        if let Some(session) = &mut self.session {
            formats::read_repaired(text, &mut self.sink, |value, _| session.value(value));
        }
    }

    /// Hands the session over; gives what was put aside.
    pub(super) fn finish(mut self, part: &mut Part) -> Others {
        if let Some(strangers) = &mut self.strangers {
            let (entry, rest) = (strangers.newest(), strangers.rest());
            rest.into_iter().for_each(|(place, text)| self.value_of(entry, &text, place, part));
        }
        // Of a file that holds nothing but other logs there is no session.
        let is_there = self.is_begun || self.others.is_empty();
        if let Some(session) = self.session.take().filter(|_| is_there) {
            session.finish(&mut self.sink);
            part.take(&mut self.sink, None, 0);
        }
        part.losses.merge(&self.sink.losses);
        self.others
    }
}

fn open(entry: &Entry) -> Option<Box<dyn Session>> {
    match entry.reading {
        Reading::Session { open, .. } | Reading::Sessions { open, .. } => Some(open()),
        _ => None,
    }
}
