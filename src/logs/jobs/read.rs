//! Reads what was found in a file, or a batch of it, into a part.

use std::io::{self, BufRead, Cursor, Read as _};

use crate::logs::detect::{self, Detected, Layout};
use crate::logs::formats::reading::list::{self, Content, Items, Piece};
use crate::logs::formats::reading::repair::padding;
use crate::logs::formats::reading::scan::count_objects;
use crate::logs::formats::{self, Entry, File, Reading, Sink, Source};
use crate::logs::input::{self, Input, Room};
use crate::logs::lines::Lines;
use crate::logs::part::{Found, Part};
use crate::logs::sessions::Beginning;
use crate::logs::strangers::{self, Aside, Others, Place};
use crate::logs::table;

use super::documents::{n_steps, read_torn, shared_around};
use super::skip::skip_line;
use super::told::{self, other_format};

/// A head and what comes after it.
pub(super) fn all(
    mut head: Vec<u8>,
    rest: Option<Box<dyn BufRead + Send>>,
    room: Room<'_>,
) -> std::io::Result<Vec<u8>> {
    if let Some(mut rest) = rest {
        room.read(&mut *rest, &mut head, u64::MAX)?;
    }
    Ok(head)
}

impl Part {
    /// A reject, if the start of a file gave nothing in the format that was given.
    pub(super) fn check_format(&mut self, input: &Input, forced: Option<&'static Entry>) {
        if let Some(entry) =
            forced.filter(|_| self.number == 0 && self.runs.is_empty() && self.rejects.is_empty())
            && let Some(other) = other_format(input, entry)
        {
            let reason = format!(
                "not of the format {} (looks like: {other})\nhint: without --format the format of each file is told",
                entry.name
            );
            self.reject(None, 0, reason);
        }
    }

    /// Takes what is known of the session in this file.
    pub(super) fn tell_beginning(&mut self, beginning: Option<&Beginning>) {
        self.beginning = beginning.copied();
    }

    /// Reads what was found: `head`, and what the reader still has.
    pub(super) fn read_found(
        &mut self,
        found: Detected,
        head: Vec<u8>,
        rest: Option<Box<dyn BufRead + Send>>,
        input: &Input,
        room: Room<'_>,
    ) -> std::io::Result<()> {
        match found {
            Detected::Log(entry, layout) => {
                self.found = Found::Log(entry.name);
                let source = room.source(input, entry.name);
                if matches!(entry.reading, Reading::Sessions { .. }) && !input.parts.is_empty() {
                    let bytes = all(head, rest, room)?;
                    return self.read_session_files(bytes, entry, &source, input, room);
                }
                match (layout, rest) {
                    (Layout::Lines, None) => self.read_lines_of(&head, entry, &source, 1, 0),
                    (Layout::Lines, Some(rest)) => {
                        let mut reader = Cursor::new(head).chain(rest);
                        return self.read_lines(&mut reader, entry, &source, room);
                    }
                    (Layout::Items, rest) => {
                        let head = Cursor::new(head);
                        let reader: Box<dyn BufRead + Send> = match rest {
                            Some(rest) => Box::new(head.chain(rest)),
                            None => Box::new(head),
                        };
                        let mut items = Items::new(reader, room.value);
                        self.read_items(items.by_ref(), Lines::new(entry, &source, 1, 0), 0);
                        self.n_bytes = items.place();
                    }
                    (Layout::Document | Layout::Archive, rest) => {
                        let mut bytes = all(head, rest, room)?;
                        let others = strangers::take_out(&mut bytes, entry, &source);
                        match entry.reading {
                            Reading::Files { read, .. } => {
                                self.read_files(bytes, read, &source, input, room)?
                            }
                            _ => self.read_document(&bytes, entry, &source),
                        }
                        self.read_others(others, &source);
                    }
                }
            }
            Detected::NotRead(name) => self.found = Found::NotRead(name),
            Detected::Label(name) => self.found = Found::Label(name, all(head, rest, room)?),
            Detected::NoLog(_) if let Some(told) = told::envelope(&head, rest.is_none()) => {
                self.reject(None, 0, told);
            }
            // What was given by name is meant to be a log.
            Detected::NoLog(what) if input.is_named => {
                self.reject(None, 0, format!("{what}\nhint: --format NAME reads it as that format"));
            }
            Detected::NoLog(what) => self.found = Found::NoLog(what),
            // Where all of it is damaged as it is packed, that was told.
            Detected::Bad(_) if !self.rejects.is_empty() => {}
            Detected::Bad(reason) => self.reject(None, 0, reason.to_owned()),
            Detected::Table => self.reject(None, 0, table::PACKED.to_owned()),
            Detected::More | Detected::Database => {
                self.reject(None, 0, detect::UNKNOWN.to_owned());
            }
        }
        Ok(())
    }

    /// A reject for what an error of reading leaves out.
    pub(super) fn cannot_read(&mut self, offset: u64, what: &str, error: &io::Error) {
        self.is_unread |= list::is_passing(error);
        self.reject(None, offset, format!("{what}: {error}"));
    }

    fn read_document(&mut self, bytes: &[u8], entry: &'static Entry, source: &Source) {
        self.n_bytes += bytes.len() as u64;
        let offset = padding(bytes);
        let (text, offset) = (&bytes[offset..], offset as u64);
        let mut sink = Sink::new(source);
        match entry.reading {
            Reading::Document { list, first, .. } => {
                return self.read_runs(text, offset, entry, source, list, first);
            }
            Reading::Archive { .. } => sink.rejects.push((0, "no zip archive".to_owned())),
            Reading::Values(read) | Reading::Database { read, .. } => {
                formats::read_repaired(text, &mut sink, read);
                if !sink.rejects.is_empty()
                    && let Some(torn) = read_torn(text, source, read)
                    && n_steps(&torn) > n_steps(&sink)
                {
                    sink = torn;
                }
            }
            Reading::Files { read, .. } => {
                read(&[File { name: source.path.clone(), bytes: text.to_vec() }], &mut sink)
            }
            Reading::Text(read) => formats::read_text(text, &mut sink, read),
            Reading::Session { open, .. } | Reading::Sessions { open, .. } => {
                let mut session = open();
                formats::read_repaired(text, &mut sink, |value, _| session.value(value));
                session.finish(&mut sink);
            }
        }
        self.take(&mut sink, None, offset);
        self.losses.merge(&sink.losses);
    }

    /// Reads files that are one run; `bytes` are those of the first one.
    fn read_files(
        &mut self,
        bytes: Vec<u8>,
        read: fn(&[File], &mut Sink<'_>),
        source: &Source,
        input: &Input,
        room: Room<'_>,
    ) -> std::io::Result<()> {
        let (mut n_bytes, mut n_objects) = (bytes.len() as u64, count_objects(&bytes));
        let mut files = vec![File { name: input.name.clone(), bytes }];
        for part in &input.parts {
            let bytes = self.read_part(part, room)?;
            n_bytes += bytes.len() as u64;
            n_objects += count_objects(&bytes);
            files.push(File { name: part.name.clone(), bytes });
            if n_bytes > room.value {
                return Err(room.too_large());
            }
        }
        if n_objects > room.objects() {
            return Err(room.too_many(room.objects()));
        }
        self.n_bytes += n_bytes;
        let mut sink = Sink::new(source);
        read(&files, &mut sink);
        self.take(&mut sink, None, 0);
        self.losses.merge(&sink.losses);
        Ok(())
    }

    /// All bytes of a file that is read with others.
    fn read_part(&mut self, part: &Input, room: Room<'_>) -> std::io::Result<Vec<u8>> {
        let name = &part.name;
        let mut bytes = Vec::new();
        match input::open_checked(&part.path, room.file).map(|small| (small.rest, small.gaps)) {
            Ok((Some(mut rest), gaps)) => {
                for gap in gaps {
                    self.reject(None, gap.offset, format!("{name}: {}", gap.reason));
                }
                room.read(&mut *rest, &mut bytes, u64::MAX)?;
            }
            Ok((None, _)) => {}
            Err(error) => self.cannot_read(0, &format!("{name}: cannot be read"), &error),
        }
        Ok(bytes)
    }

    /// Reads files whose values are one session, one after the other; `bytes` are those of the first one.
    fn read_session_files(
        &mut self,
        mut bytes: Vec<u8>,
        entry: &'static Entry,
        source: &Source,
        input: &Input,
        room: Room<'_>,
    ) -> std::io::Result<()> {
        let mut lines = Lines::new(entry, source, 1, 0);
        let (mut n_held, mut n_objects) = (0, 0);
        let mut result = Ok(());
        for (i, name) in [&input.name].into_iter().chain(input.parts.iter().map(|p| &p.name)).enumerate() {
            if i > 0 {
                bytes = self.read_part(&input.parts[i - 1], room)?;
            }
            n_held += bytes.len() as u64;
            n_objects += count_objects(&bytes);
            if n_held > room.value || n_objects > room.objects() {
                result =
                    Err(if n_held > room.value { room.too_large() } else { room.too_many(room.objects()) });
                break;
            }
            let n_told = self.rejects.len();
            (lines.line, lines.offset) = (1, 0);
            match detect::layout_of(&bytes, true) {
                Some(Layout::Lines) => {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
                        lines.read(&rest[..end], self);
                        rest = &rest[end..];
                    }
                }
                _ => {
                    let start = padding(&bytes);
                    lines.value(
                        &bytes[start..],
                        Place { line: None, offset: start as u64, index: None },
                        self,
                    );
                    self.n_bytes += bytes.len() as u64;
                }
            }
            for told in &mut self.rejects[n_told..] {
                told.reason = format!("{name}: {}", told.reason);
            }
        }
        self.finish(lines);
        result
    }

    /// Reads documents that hold lists of runs, one after the other.
    fn read_runs(
        &mut self,
        mut text: &[u8],
        mut offset: u64,
        entry: &'static Entry,
        source: &Source,
        list: &str,
        first: &str,
    ) {
        while let Some((shared, start)) = shared_around(text, list, first) {
            let values = Lines::of_document(entry, source, Some(&shared), self);
            let reader = Box::new(Cursor::new(text[start..].to_vec()));
            let mut items = Items::of_field(reader, start as u64, u64::MAX);
            let pieces = items.by_ref().map(|piece| Piece { offset: offset + piece.offset, ..piece });
            self.read_items(pieces, values, 0);
            let end = items.place() as usize;
            offset += end as u64;
            text = &text[end..];
        }
        if padding(text) < text.len() {
            self.reject(None, offset, format!("broken or cut-off JSON: no list `{list}`"));
        }
    }

    /// Reads values line by line; holds one line at a time, and what a session keeps of them.
    fn read_lines(
        &mut self,
        reader: &mut dyn BufRead,
        entry: &'static Entry,
        source: &Source,
        room: Room<'_>,
    ) -> std::io::Result<()> {
        let mut lines = Lines::new(entry, source, 1, 0);
        let (mut buffer, mut n_held) = (Vec::new(), 0);
        let (mut n_objects, mut is_large) = (0, false);
        let result = loop {
            buffer.clear();
            match (&mut *reader).take(room.value + 1).read_until(b'\n', &mut buffer) {
                Ok(0) => break Ok(()),
                Ok(n) if n as u64 > room.value && buffer.last() != Some(&b'\n') => {
                    let size = match skip_line(reader) {
                        Ok(rest) => n as u64 + rest,
                        Err(error) => break Err(error),
                    };
                    self.reject(Some(lines.line), lines.offset, input::too_long("a line", size));
                    lines.leave_out(size, self);
                }
                Ok(n) if n_held + n as u64 > room.value => break Err(room.too_large()),
                Ok(n) => {
                    lines.read(&buffer, self);
                    n_held += n as u64;
                }
                Err(error) => break Err(error),
            }
            n_objects += count_objects(&buffer);
            if n_objects > room.objects() {
                break Err(room.too_many(room.objects()));
            }
            if n_held > room.small && !is_large {
                (room.turn)();
                is_large = true;
            }
        };
        self.finish(lines);
        result
    }

    /// Reads the pieces of a list, of which the first item has the number `index`.
    pub(super) fn read_items(
        &mut self,
        pieces: impl Iterator<Item = Piece>,
        mut values: Lines<'_>,
        mut index: usize,
    ) {
        for piece in pieces {
            match piece.content {
                Content::Item(bytes) => {
                    let place = Place { line: None, offset: piece.offset, index: Some(index) };
                    values.value(&bytes, place, self);
                    index += 1;
                }
                Content::Damage(reason) => self.reject(None, piece.offset, reason),
                Content::Unread(reason) => {
                    self.is_unread = true;
                    self.reject(None, piece.offset, reason);
                }
            }
        }
        self.finish(values);
    }

    /// Ends the reading of lines or items, and reads what was put aside.
    fn finish(&mut self, lines: Lines<'_>) {
        let source = lines.sink.source;
        let others = lines.finish(self);
        self.read_others(others, source);
    }

    /// Reads records of other formats that were put aside; `source` is that of the file.
    fn read_others(&mut self, others: Others, source: &Source) {
        for (entry, records) in others.0 {
            let Some(first) = records.first().map(|(place, _)| *place) else { continue };
            let (name, own, n) = (entry.name, source.format, records.len());
            let (n_runs, n_rejects) = (self.runs.len(), self.rejects.len());
            let source = Source { format: name, is_forced: true, ..source.clone() };
            self.read_as(entry, records, &source);
            self.losses.add_n(&format!("record of {name} in a file of {own}, read as such"), n as u64);
            if self.runs.len() == n_runs && self.rejects.len() == n_rejects {
                let reason = format!(
                    "records of {name} in a file of {own}, {n} of them from here on, are no run\nhint: put them into a file of their own"
                );
                self.reject(first.line, first.offset, reason);
            }
        }
    }

    fn read_as(&mut self, entry: &'static Entry, records: Aside, source: &Source) {
        match entry.reading {
            Reading::Values(_) | Reading::Session { .. } | Reading::Sessions { .. } => {
                let mut lines = Lines::new(entry, source, 1, 0);
                records.iter().for_each(|(place, text)| lines.value(text, *place, self));
                self.finish(lines);
            }
            _ => {
                let (n_bytes, n_rejects) = (self.n_bytes, self.rejects.len());
                let places: Vec<Place> = records.iter().map(|(place, _)| *place).collect();
                let texts: Vec<Vec<u8>> = records.into_iter().map(|(_, text)| text).collect();
                self.read_document(&texts.join(&b'\n'), entry, source);
                self.n_bytes = n_bytes;
                // Their places are those among the records.
                let mut end = 0;
                let ends: Vec<usize> = texts
                    .iter()
                    .map(|text| {
                        end += text.len() + 1;
                        end
                    })
                    .collect();
                for told in &mut self.rejects[n_rejects..] {
                    let i = ends.partition_point(|end| *end <= told.offset as usize).min(places.len() - 1);
                    (told.line, told.offset) = (places[i].line, places[i].offset);
                }
            }
        }
    }

    /// The same for lines in memory.
    pub(super) fn read_lines_of(
        &mut self,
        mut bytes: &[u8],
        entry: &'static Entry,
        source: &Source,
        line: u64,
        offset: u64,
    ) {
        let mut lines = Lines::new(entry, source, line, offset);
        if self.is_whole() && memchr::memchr(b'\n', bytes.trim_ascii_end()).is_none() {
            lines.all_are_own();
        }
        while !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |i| i + 1);
            lines.read(&bytes[..end], self);
            bytes = &bytes[end..];
        }
        self.finish(lines);
    }
}
