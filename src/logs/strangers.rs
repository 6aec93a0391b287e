//! Records of other formats in a file, where logs of several programs were joined. Each record tells its format alone; one that
//! does not is of the format of those before it. Those of another format are put aside and read as a file of their own.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::de::IgnoredAny;

use crate::logs::detect::{self, Detected};
use crate::logs::formats::reading::prefix::prefix;
use crate::logs::formats::reading::{alike, repair, scan};
use crate::logs::formats::{Entry, Reading, Source, mapping};

/// Where a value stands in its file.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) line: Option<u64>,
    pub(super) offset: u64,
    /// Its number, where it is an item of a list.
    pub(super) index: Option<usize>,
}

/// Tells the formats of the records of a file.
pub(super) struct Strangers {
    /// Formats met so far, first the file's own.
    met: Vec<&'static Entry>,
    /// That of the newest record that is told.
    newest: &'static Entry,
    kinds: HashMap<u64, &'static Entry>,
    /// Records that tell nothing alone, of kinds that were not met before: they wait for one that does.
    records: Aside,
    waiting: HashSet<u64>,
}

/// Records with their places.
pub(super) type Aside = Vec<(Place, Vec<u8>)>;

/// More do not wait.
const MOST_WAITING: usize = 256;

impl Strangers {
    /// For a file of this format; none where all records are of it. Whoever asks for a format has all records read by it.
    pub(super) fn of(own: &'static Entry, source: &Source) -> Option<Self> {
        let is_mixed =
            matches!(own.reading, Reading::Values(_) | Reading::Session { .. } | Reading::Sessions { .. });
        // What a mapping reads is of no format that is known.
        (is_mixed && !source.is_forced && own.name != mapping::LINES.name).then(|| Self::new(own))
    }

    fn new(own: &'static Entry) -> Self {
        Strangers {
            met: vec![own],
            newest: own,
            kinds: HashMap::new(),
            records: Vec::new(),
            waiting: HashSet::new(),
        }
    }

    /// What to do with a record: its format, and those before it that waited and are of the same one; none if it has to wait
    /// itself for one that tells.
    pub(super) fn next(&mut self, record: &[u8], place: Place) -> Option<(&'static Entry, Aside)> {
        if self.tells(record) || self.records.len() >= MOST_WAITING {
            let (kinds, newest) = (std::mem::take(&mut self.waiting), self.newest);
            self.kinds.extend(kinds.into_iter().map(|kind| (kind, newest)));
            return Some((newest, self.rest()));
        }
        self.records.push((place, record.to_vec()));
        None
    }

    pub(super) fn newest(&self) -> &'static Entry {
        self.newest
    }

    /// Those that wait still.
    pub(super) fn rest(&mut self) -> Aside {
        std::mem::take(&mut self.records)
    }

    /// Whether the format of a record is known, which then is the newest.
    fn tells(&mut self, record: &[u8]) -> bool {
        let kind = scan::kind(record);
        if let Some(&known) = self.kinds.get(&kind) {
            self.follow(known, record);
            return true;
        }
        let is_full = self.kinds.len() + self.waiting.len() >= detect::MOST_KINDS;
        // A torn record may look like one of any format.
        if is_full || !self.waiting.contains(&kind) && !repair::is_json(record) {
            return self.waiting.is_empty();
        }
        if !self.waiting.contains(&kind)
            && let Detected::Log(alone, _) = detect::detect_in(record)
        {
            self.kinds.insert(kind, alone);
            self.follow(alone, record);
            return true;
        }
        self.waiting.insert(kind);
        false
    }

    /// Goes on with what looks like a record of this format.
    fn follow(&mut self, alone: &'static Entry, record: &[u8]) {
        let is_one = |entry: &Entry| alike::is_one(entry.name, alone.name, record);
        if !is_one(self.newest) {
            self.newest = self.met.iter().copied().find(|entry| is_one(entry)).unwrap_or(alone);
            if !self.met.iter().any(|entry| entry.name == self.newest.name) {
                self.met.push(self.newest);
            }
        }
    }
}

/// Records that were put aside, by format.
#[derive(Default)]
pub(super) struct Others(pub(super) Vec<(&'static Entry, Aside)>);

impl Others {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a record aside.
    pub(super) fn put(&mut self, entry: &'static Entry, text: &[u8], place: Place) {
        let at = match self.0.iter().position(|(other, _)| other.name == entry.name) {
            Some(at) => at,
            None => {
                self.0.push((entry, Vec::new()));
                self.0.len() - 1
            }
        };
        self.0[at].1.push((place, text.to_vec()));
    }
}

/// Where the records of a line stand: more than one where files were joined of which one had no end of its last line.
pub(super) fn documents(line: &[u8]) -> Vec<Range<usize>> {
    if memchr::memmem::find(line, b"}{").is_some() {
        let mut values = serde_json::Deserializer::from_slice(line).into_iter::<IgnoredAny>();
        let (mut all, mut start) = (Vec::new(), 0);
        while let Some(Ok(IgnoredAny)) = values.next() {
            all.push(start..values.byte_offset());
            start = values.byte_offset();
        }
        // Otherwise it is one that is damaged.
        if start == line.len() && all.len() > 1 {
            return all;
        }
    }
    vec![0..line.len()]
}

/// Takes the records of other formats out of documents, a line each or behind a document over several; blanks stay in their place.
pub(super) fn take_out(bytes: &mut [u8], own: &'static Entry, source: &Source) -> Others {
    let mut others = Others::default();
    if source.is_forced || matches!(own.reading, Reading::Text(_)) {
        return others;
    }
    let Some(start) = lines_start(bytes) else { return others };
    let (mut strangers, mut taken) = (Strangers::new(own), Vec::new());
    let (mut line, mut offset) =
        (1 + memchr::memchr_iter(b'\n', &bytes[..start]).count() as u64, start as u64);
    let mut take = |entry: &'static Entry, record: &[u8], place: Place| {
        if entry.name != own.name {
            others.put(entry, record, place);
            taken.push(place.offset as usize..place.offset as usize + record.len());
        }
    };
    for text in bytes[start..].split(|b| *b == b'\n') {
        let record = bare(text);
        let begin = offset + (record.as_ptr() as usize - text.as_ptr() as usize) as u64;
        for value in documents(record).into_iter().filter(|_| record.starts_with(b"{")) {
            let place = Place { line: Some(line), offset: begin + value.start as u64, index: None };
            let record = &record[value];
            if let Some((entry, waiting)) = strangers.next(record, place) {
                waiting.iter().for_each(|(place, record)| take(entry, record, *place));
                take(entry, record, place);
            }
        }
        (line, offset) = (line + 1, offset + text.len() as u64 + 1);
    }
    for (place, record) in strangers.rest() {
        take(strangers.newest, &record, place);
    }
    for Range { start, end } in taken {
        // With the words before it.
        let begin = bytes[..start].iter().rposition(|b| b"\n}".contains(b)).map_or(0, |at| at + 1);
        bytes[begin..end].fill(b' ');
    }
    others
}

/// A record without what stands around it.
fn bare(line: &[u8]) -> &[u8] {
    let line = repair::without_padding(line);
    &line[prefix(line).unwrap_or(0)..]
}

/// Where lines begin that hold a record each, with the first line or behind a document that ends; none if there is one alone.
fn lines_start(bytes: &[u8]) -> Option<usize> {
    let start = repair::padding(bytes);
    let end = memchr::memchr(b'\n', &bytes[start..]).map(|end| start + end)?;
    // A document over several lines ends in a line with a bracket.
    let is_behind = |end: usize| repair::padding(&bytes[end..]) < bytes.len() - end;
    if detect::is_object(bare(&bytes[start..end])) {
        return is_behind(end).then_some(start);
    }
    let last = repair::without_padding(&bytes[memchr::memrchr(b'\n', bytes.trim_ascii_end())?..]);
    let end = detect::is_object(last).then(|| repair::value_end(bytes, start))??;
    is_behind(end).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of a log that look like those of another one would be taken out of it.
    #[test]
    fn no_record_of_a_log_is_a_stranger_in_it() {
        let logs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/robust/logs");
        let (found, _) = crate::logs::input::look(&[logs]).unwrap();
        let (mut n, mut strangers) = (0, Vec::new());
        for input in found {
            let bytes = std::fs::read(&input.path).unwrap();
            let Detected::Log(own, _) = detect::detect(&bytes, true) else { continue };
            let mut told = Strangers::new(own);
            for line in bytes.split(|b| *b == b'\n').filter(|line| detect::is_object(line)) {
                n += 1;
                told.tells(line);
                if told.newest.name != own.name {
                    strangers.push(format!(
                        "{} in {}: {}",
                        told.newest.name,
                        input.name,
                        String::from_utf8_lossy(line)
                    ));
                    told.newest = own;
                }
            }
        }
        assert!(n > 200 && strangers.is_empty(), "{n}: {strangers:#?}");
    }
}
