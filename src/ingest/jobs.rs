//! Reading in parallel with results in order: files are jobs, big JSONL files are cut into jobs of
//! some lines. At most a fixed number of jobs is ahead of what was written.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

use crate::formats::reading::draft::Losses;
use crate::formats::reading::fields::{FieldCounts, take_counts};
use crate::formats::{self, Detected, Entry, Layout, Reading, Session, Sink, Source};
use crate::store::{StepRow, TrajectoryRow, step_rows};

use super::input::{self, Input};

/// How much of a file is looked at first, to tell its format.
const HEAD_BYTES: usize = 64 << 10;
/// Files of lines that are stored in more than this are cut into batches.
const BIG_FILE_BYTES: u64 = 4 << 20;
/// Size of a batch of lines.
const BATCH_BYTES: usize = 4 << 20;
/// A file that is larger than this when uncompressed is not read at once, however small it is stored.
const MAX_SMALL_BYTES: usize = 128 << 20;
/// A head is never made longer than this before a file's jobs are cut.
const MAX_HEAD_BYTES: usize = 64 << 20;

/// Something that could not be read.
pub(super) struct Rejected {
    pub(super) line: Option<u64>,
    pub(super) offset: u64,
    pub(super) reason: String,
}

/// What a file is.
pub(super) enum Found {
    Log(&'static str),
    NotRead(&'static str),
    /// Kind and content of a label file.
    Label(&'static str, Vec<u8>),
    NoLog(&'static str),
    Bad,
}

/// The result of a job: a file, or some lines of one.
pub(super) struct Part {
    pub(super) input: usize,
    /// The file ends here.
    pub(super) is_last: bool,
    pub(super) found: Found,
    pub(super) trajectories: Vec<(TrajectoryRow, Vec<StepRow>)>,
    pub(super) rejects: Vec<Rejected>,
    pub(super) losses: Losses,
    pub(super) fields: FieldCounts,
    /// Uncompressed bytes that were read.
    pub(super) n_bytes: u64,
}

enum Job {
    File(usize),
    Lines {
        input: usize,
        entry: &'static Entry,
        bytes: Vec<u8>,
        line: u64,
        offset: u64,
        error: Option<String>,
        is_last: bool,
    },
}

/// A big file of lines on its way into batches.
struct OpenLines {
    input: usize,
    entry: &'static Entry,
    reader: Box<dyn BufRead + Send>,
    line: u64,
    offset: u64,
}

struct Queue {
    next_input: usize,
    open: Option<OpenLines>,
    n_given: u64,
    n_written: u64,
    is_stopped: bool,
}

/// Reads all inputs and hands the parts over in order of inputs and positions.
pub(super) fn for_each_part(
    inputs: &[Input],
    forced: Option<&'static Entry>,
    threads: usize,
    mut each: impl FnMut(Part) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let window = 2 * threads as u64 + 2;
    let first = Queue { next_input: 0, open: None, n_given: 0, n_written: 0, is_stopped: false };
    let (queue, moved) = (Mutex::new(first), Condvar::new());
    // A worker that panicked has left no half state behind the lock: each field is set on its own.
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let next_job = || {
        let mut q = lock();
        while !q.is_stopped && q.n_given >= q.n_written + window {
            q = moved.wait(q).unwrap_or_else(PoisonError::into_inner);
        }
        if q.is_stopped {
            return None;
        }
        let job = q.next(inputs, forced)?;
        q.n_given += 1;
        Some((q.n_given - 1, job))
    };
    let (sender, receiver) = mpsc::sync_channel::<(u64, Part)>(window as usize);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next_job) = (sender.clone(), &next_job);
            scope.spawn(move || {
                while let Some((number, job)) = next_job() {
                    if sender.send((number, read_job(job, inputs, forced))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early: BTreeMap<u64, Part> = BTreeMap::new();
        let mut next = 0;
        let mut result = Ok(());
        'parts: for (number, part) in &receiver {
            early.insert(number, part);
            while let Some(part) = early.remove(&next) {
                next += 1;
                result = each(part);
                let mut q = lock();
                q.n_written = next;
                q.is_stopped |= result.is_err();
                drop(q);
                moved.notify_all();
                if result.is_err() {
                    break 'parts;
                }
            }
        }
        drop(receiver);
        result
    })
}

impl Queue {
    fn next(&mut self, inputs: &[Input], forced: Option<&'static Entry>) -> Option<Job> {
        if let Some(open) = self.open.take() {
            return Some(self.batch(open));
        }
        let i = self.next_input;
        let input = inputs.get(i)?;
        self.next_input += 1;
        if input.n_bytes > BIG_FILE_BYTES
            && let Some(open) = open_lines(i, input, forced)
        {
            return Some(self.batch(open));
        }
        Some(Job::File(i))
    }

    /// Cuts the next batch of whole lines off an open file.
    fn batch(&mut self, mut open: OpenLines) -> Job {
        let mut bytes = Vec::with_capacity(BATCH_BYTES + (64 << 10));
        let mut error = None;
        let mut is_last = false;
        match open.reader.by_ref().take(BATCH_BYTES as u64).read_to_end(&mut bytes) {
            Ok(n) if n < BATCH_BYTES => is_last = true,
            Ok(_) if bytes.last() == Some(&b'\n') => {}
            Ok(_) => match open.reader.read_until(b'\n', &mut bytes) {
                Ok(_) => is_last = bytes.last() != Some(&b'\n'),
                Err(e) => error = Some(e.to_string()),
            },
            Err(e) => error = Some(e.to_string()),
        }
        is_last |= error.is_some();
        let (input, entry, line, offset) = (open.input, open.entry, open.line, open.offset);
        open.line += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        open.offset += bytes.len() as u64;
        if !is_last {
            self.open = Some(open);
        }
        Job::Lines { input, entry, bytes, line, offset, error, is_last }
    }
}

/// Opens a big file if it can be cut at its line ends.
fn open_lines(i: usize, input: &Input, forced: Option<&'static Entry>) -> Option<OpenLines> {
    let mut reader = input::open(&input.path).ok()?;
    let mut head = Vec::new();
    let (found, _) = detect(&mut *reader, &mut head, forced, MAX_HEAD_BYTES).ok()?;
    match found {
        Detected::Log(entry, Layout::Lines) if matches!(entry.reading, Reading::Values(_)) => {
            let reader = Box::new(std::io::Cursor::new(head).chain(reader));
            Some(OpenLines { input: i, entry, reader, line: 1, offset: 0 })
        }
        _ => None,
    }
}

/// Reads as much of a file as is needed to tell its format; says whether that was all of it.
fn detect(
    reader: &mut dyn BufRead,
    head: &mut Vec<u8>,
    forced: Option<&'static Entry>,
    max: usize,
) -> std::io::Result<(Detected, bool)> {
    let mut n = HEAD_BYTES;
    loop {
        let is_whole = input::read_head(reader, head, n)?;
        if let Some(entry) = forced {
            return Ok((Detected::Log(entry, layout(entry, head, is_whole)), is_whole));
        }
        let found = formats::detect(head, is_whole);
        if !matches!(found, Detected::More) || n >= max {
            return Ok((found, is_whole));
        }
        n = n.saturating_mul(8);
    }
}

fn read_job(job: Job, inputs: &[Input], forced: Option<&'static Entry>) -> Part {
    take_counts();
    let input = match &job {
        Job::File(input) | Job::Lines { input, .. } => *input,
    };
    let mut part = Part {
        input,
        is_last: true,
        found: Found::Bad,
        trajectories: Vec::new(),
        rejects: Vec::new(),
        losses: Losses::default(),
        fields: FieldCounts::default(),
        n_bytes: 0,
    };
    let is_start = matches!(job, Job::File(_) | Job::Lines { offset: 0, .. });
    match job {
        Job::File(_) => {
            if let Some(problem) = &inputs[input].problem {
                part.reject(None, 0, problem.clone());
            } else if let Err(error) = read_file(&inputs[input], forced, &mut part) {
                part.reject(None, part.n_bytes, format!("cannot read on: {error}"));
            }
        }
        Job::Lines { entry, bytes, line, offset, error, is_last, .. } => {
            part.is_last = is_last;
            part.found = Found::Log(entry.name);
            let source = Source::new(&inputs[input].name, entry.name);
            part.read_lines_of(&bytes, entry, &source, line, offset);
            if let Some(error) = error {
                part.reject(None, offset + part.n_bytes, format!("cannot read on: {error}"));
            }
        }
    }
    if let Some(entry) =
        forced.filter(|_| is_start && part.trajectories.is_empty() && part.rejects.is_empty())
        && let Some(other) = other_format(&inputs[input], entry)
    {
        let reason = format!(
            "not of the format {} (looks like: {other})\nhint: without --format the format of each file is told",
            entry.name
        );
        part.reject(None, 0, reason);
    }
    part.fields = take_counts();
    part
}

/// What a file looks like, if that is not the format it was read as.
fn other_format(input: &Input, entry: &Entry) -> Option<&'static str> {
    let mut reader = input::open(&input.path).ok()?;
    let (found, _) = detect(&mut *reader, &mut Vec::new(), None, MAX_HEAD_BYTES).ok()?;
    match found {
        Detected::Log(found, _) => (found.name != entry.name).then_some(found.name),
        Detected::NotRead(what) | Detected::Label(what) | Detected::NoLog(what) | Detected::Bad(what) => {
            Some(what)
        }
        Detected::More => Some("JSON of no known format"),
    }
}

/// Reads a file of any kind. Small files are read at once, others line by line where they have lines.
fn read_file(input: &Input, forced: Option<&'static Entry>, part: &mut Part) -> std::io::Result<()> {
    if input.n_bytes <= BIG_FILE_BYTES {
        let (bytes, read) = input::read_small(&input.path, MAX_SMALL_BYTES)?;
        if bytes.len() < MAX_SMALL_BYTES {
            if bytes.is_empty() && read.is_err() {
                return read;
            }
            let found = match forced {
                Some(entry) => Detected::Log(entry, layout(entry, &bytes, true)),
                None => detect_in(&bytes),
            };
            part.read_found(found, bytes, None, input)?;
            return read;
        }
    }
    let mut reader = input::open(&input.path)?;
    let mut head = Vec::new();
    let (found, is_whole) = detect(&mut *reader, &mut head, forced, usize::MAX)?;
    part.read_found(found, head, (!is_whole).then_some(reader), input)
}

/// Tells the format of a file in memory, by its head if that is enough.
fn detect_in(bytes: &[u8]) -> Detected {
    if bytes.len() > HEAD_BYTES {
        let found = formats::detect(&bytes[..HEAD_BYTES], false);
        if !matches!(found, Detected::More) {
            return found;
        }
    }
    formats::detect(bytes, true)
}

/// How a file is cut into values when its format is given.
fn layout(entry: &Entry, head: &[u8], is_whole: bool) -> Layout {
    match entry.reading {
        Reading::Session(_) => Layout::Lines,
        Reading::Values(_) => formats::layout_of(head, is_whole),
    }
}

/// A head and what comes after it.
fn all(mut head: Vec<u8>, rest: Option<Box<dyn BufRead + Send>>) -> std::io::Result<Vec<u8>> {
    if let Some(mut rest) = rest {
        rest.read_to_end(&mut head)?;
    }
    Ok(head)
}

impl Part {
    /// Reads what was found: `head`, and what the reader still has.
    fn read_found(
        &mut self,
        found: Detected,
        head: Vec<u8>,
        rest: Option<Box<dyn BufRead + Send>>,
        input: &Input,
    ) -> std::io::Result<()> {
        match found {
            Detected::Log(entry, layout) => {
                self.found = Found::Log(entry.name);
                let source = Source::new(&input.name, entry.name);
                match (layout, rest) {
                    (Layout::Lines, None) => self.read_lines_of(&head, entry, &source, 1, 0),
                    (Layout::Lines, Some(rest)) => {
                        let mut reader = std::io::Cursor::new(head).chain(rest);
                        return self.read_lines(&mut reader, entry, &source);
                    }
                    (Layout::Document, rest) => self.read_document(&all(head, rest)?, entry, &source),
                }
            }
            Detected::NotRead(name) => self.found = Found::NotRead(name),
            Detected::Label(name) => self.found = Found::Label(name, all(head, rest)?),
            // What was given by name is meant to be a log.
            Detected::NoLog(what) if input.is_named => {
                self.reject(None, 0, format!("{what}\nhint: --format NAME reads it as that format"));
            }
            Detected::NoLog(what) => self.found = Found::NoLog(what),
            Detected::Bad(reason) => self.reject(None, 0, reason.to_owned()),
            Detected::More => self.reject(None, 0, "JSON of no known format".to_owned()),
        }
        Ok(())
    }

    fn reject(&mut self, line: Option<u64>, offset: u64, reason: String) {
        self.rejects.push(Rejected { line, offset, reason });
    }

    /// Takes over what a sink has; its rejects lie in a value that begins at `offset`.
    fn take(&mut self, sink: &mut Sink<'_>, line: Option<u64>, offset: u64) {
        for (at, reason) in sink.rejects.drain(..) {
            // The parser sees one value, so its line is always 1 for a file of lines.
            let reason = if line.is_some() { reason.replace("line 1 column", "column") } else { reason };
            self.reject(line, offset + at as u64, reason);
        }
        for mut trajectory in sink.trajectories.drain(..) {
            let row = TrajectoryRow::from(&trajectory);
            let steps = step_rows(&trajectory.id, std::mem::take(&mut trajectory.steps));
            self.trajectories.push((row, steps));
        }
    }

    fn read_document(&mut self, bytes: &[u8], entry: &Entry, source: &Source) {
        self.n_bytes += bytes.len() as u64;
        let text = formats::without_mark(bytes);
        let offset = (bytes.len() - text.len()) as u64;
        let mut sink = Sink::new(source);
        match entry.reading {
            Reading::Values(read) => formats::read_repaired(text, &mut sink, read),
            Reading::Session(open) => {
                let mut session = open();
                formats::read_repaired(text, &mut sink, |value, _| session.value(value));
                session.finish(&mut sink);
            }
        }
        self.take(&mut sink, None, offset);
        self.losses.merge(&sink.losses);
    }

    /// Reads values line by line; holds one line at a time.
    fn read_lines(
        &mut self,
        reader: &mut dyn BufRead,
        entry: &Entry,
        source: &Source,
    ) -> std::io::Result<()> {
        let mut lines = Lines::new(entry, source, 1, 0);
        let mut buffer = Vec::new();
        let result = loop {
            buffer.clear();
            match reader.read_until(b'\n', &mut buffer) {
                Ok(0) => break Ok(()),
                Ok(_) => lines.read(&buffer, self),
                Err(error) => break Err(error),
            }
        };
        lines.finish(self);
        result
    }

    /// The same for lines in memory.
    fn read_lines_of(&mut self, mut bytes: &[u8], entry: &Entry, source: &Source, line: u64, offset: u64) {
        let mut lines = Lines::new(entry, source, line, offset);
        while !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |i| i + 1);
            lines.read(&bytes[..end], self);
            bytes = &bytes[end..];
        }
        lines.finish(self);
    }
}

/// Reads lines of a file into a part.
struct Lines<'a> {
    sink: Sink<'a>,
    reading: Reading,
    session: Option<Box<dyn Session>>,
    line: u64,
    offset: u64,
}

impl<'a> Lines<'a> {
    fn new(entry: &Entry, source: &'a Source, line: u64, offset: u64) -> Self {
        let session = match entry.reading {
            Reading::Session(open) => Some(open()),
            Reading::Values(_) => None,
        };
        Lines { sink: Sink::new(source), reading: entry.reading, session, line, offset }
    }

    fn read(&mut self, raw: &[u8], part: &mut Part) {
        let text = if self.offset == 0 { formats::without_mark(raw) } else { raw };
        let text = text.trim_ascii();
        if !text.is_empty() {
            match (&mut self.session, self.reading) {
                (Some(session), _) => {
                    formats::read_repaired(text, &mut self.sink, |value, _| session.value(value));
                }
                (None, Reading::Values(read)) => formats::read_repaired(text, &mut self.sink, read),
                (None, Reading::Session(_)) => {}
            }
            part.take(&mut self.sink, Some(self.line), self.offset);
        }
        self.line += 1;
        self.offset += raw.len() as u64;
        part.n_bytes += raw.len() as u64;
    }

    fn finish(mut self, part: &mut Part) {
        if let Some(session) = self.session.take() {
            session.finish(&mut self.sink);
            part.take(&mut self.sink, None, 0);
        }
        part.losses.merge(&self.sink.losses);
    }
}
