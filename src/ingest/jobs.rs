//! Reading in parallel with results in order: files are jobs, big JSONL files are cut into jobs of
//! some lines. At most a fixed number of jobs is ahead of what was written.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};

use crate::formats::reading::draft::Losses;
use crate::formats::reading::fields::{FieldCounts, take_counts};
use crate::formats::{self, Detected, Entry, Layout, Reading, Sink, Source};
use crate::store::{StepRow, TrajectoryRow, step_rows};

use super::input::{self, Input};

/// How much of a file is looked at first, to tell its format.
const HEAD_BYTES: usize = 64 << 10;
/// Files of lines that are stored in more than this are cut into batches.
const BIG_FILE_BYTES: u64 = 4 << 20;
/// Size of a batch of lines.
const BATCH_BYTES: usize = 4 << 20;
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
    let first = Queue {
        next_input: 0,
        open: None,
        n_given: 0,
        n_written: 0,
        is_stopped: false,
    };
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
                    if sender
                        .send((number, read_job(job, inputs, forced)))
                        .is_err()
                    {
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
        if input.n_bytes > BIG_FILE_BYTES {
            if let Some(open) = open_lines(i, input, forced) {
                return Some(self.batch(open));
            }
        }
        Some(Job::File(i))
    }

    /// Cuts the next batch of whole lines off an open file.
    fn batch(&mut self, mut open: OpenLines) -> Job {
        let mut bytes = Vec::with_capacity(BATCH_BYTES + (64 << 10));
        let mut error = None;
        let mut is_last = false;
        match open
            .reader
            .by_ref()
            .take(BATCH_BYTES as u64)
            .read_to_end(&mut bytes)
        {
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
        Job::Lines {
            input,
            entry,
            bytes,
            line,
            offset,
            error,
            is_last,
        }
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
            Some(OpenLines {
                input: i,
                entry,
                reader,
                line: 1,
                offset: 0,
            })
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
            let is_session = matches!(entry.reading, Reading::Session(_));
            let layout = if is_session {
                Layout::Lines
            } else {
                formats::layout_of(head, is_whole)
            };
            return Ok((Detected::Log(entry, layout), is_whole));
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
    match job {
        Job::File(_) => {
            if let Err(error) = read_file(&inputs[input], forced, &mut part) {
                part.reject(None, part.n_bytes, format!("cannot read on: {error}"));
            }
        }
        Job::Lines {
            entry,
            bytes,
            line,
            offset,
            error,
            is_last,
            ..
        } => {
            part.is_last = is_last;
            part.found = Found::Log(entry.name);
            let source = Source::new(&inputs[input].name, entry.name);
            let mut reader = bytes.as_slice();
            // Reading from memory cannot fail.
            let _ = part.read_lines(&mut reader, entry, &source, line, offset);
            if let Some(error) = error {
                part.reject(
                    None,
                    offset + part.n_bytes,
                    format!("cannot read on: {error}"),
                );
            }
        }
    }
    part.fields = take_counts();
    part
}

/// Reads a file of any kind.
fn read_file(
    input: &Input,
    forced: Option<&'static Entry>,
    part: &mut Part,
) -> std::io::Result<()> {
    let mut reader = input::open(&input.path)?;
    let mut head = Vec::new();
    let (found, is_whole) = detect(&mut *reader, &mut head, forced, usize::MAX)?;
    match found {
        Detected::Log(entry, layout) => {
            part.found = Found::Log(entry.name);
            let source = Source::new(&input.name, entry.name);
            if layout == Layout::Lines {
                let mut reader = std::io::Cursor::new(head).chain(reader);
                return part.read_lines(&mut reader, entry, &source, 1, 0);
            }
            let mut bytes = head;
            if !is_whole {
                reader.read_to_end(&mut bytes)?;
            }
            part.read_document(&bytes, entry, &source);
        }
        Detected::NotRead(name) => part.found = Found::NotRead(name),
        Detected::Label(name) => {
            let mut bytes = head;
            if !is_whole {
                reader.read_to_end(&mut bytes)?;
            }
            part.found = Found::Label(name, bytes);
        }
        // What was given by name is meant to be a log.
        Detected::NoLog(what) if input.is_named => {
            part.reject(
                None,
                0,
                format!("{what}\nhint: --format NAME reads it as that format"),
            );
        }
        Detected::NoLog(what) => part.found = Found::NoLog(what),
        Detected::Bad(reason) => part.reject(None, 0, reason.to_owned()),
        Detected::More => part.reject(None, 0, "JSON of no known format".to_owned()),
    }
    Ok(())
}

impl Part {
    fn reject(&mut self, line: Option<u64>, offset: u64, reason: String) {
        self.rejects.push(Rejected {
            line,
            offset,
            reason,
        });
    }

    /// Takes over what a sink has; its rejects lie in a value that begins at `offset`.
    fn take(&mut self, sink: &mut Sink<'_>, line: Option<u64>, offset: u64) {
        for (at, reason) in sink.rejects.drain(..) {
            // The parser sees one value, so its line is always 1 for a file of lines.
            let reason = if line.is_some() {
                reason.replace("line 1 column", "column")
            } else {
                reason
            };
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
        first_line: u64,
        first_offset: u64,
    ) -> std::io::Result<()> {
        let mut sink = Sink::new(source);
        let mut session = match entry.reading {
            Reading::Session(open) => Some(open()),
            Reading::Values(_) => None,
        };
        let (mut line, mut offset) = (first_line, first_offset);
        let mut buffer = Vec::new();
        let result = loop {
            buffer.clear();
            let n = match reader.read_until(b'\n', &mut buffer) {
                Ok(0) => break Ok(()),
                Ok(n) => n,
                Err(error) => break Err(error),
            };
            let text = if offset == 0 {
                formats::without_mark(&buffer)
            } else {
                &buffer
            };
            let text = text.trim_ascii();
            if !text.is_empty() {
                match (&mut session, entry.reading) {
                    (Some(session), _) => {
                        formats::read_repaired(text, &mut sink, |value, _| session.value(value));
                    }
                    (None, Reading::Values(read)) => formats::read_repaired(text, &mut sink, read),
                    (None, Reading::Session(_)) => {}
                }
                self.take(&mut sink, Some(line), offset);
            }
            line += 1;
            offset += n as u64;
            self.n_bytes += n as u64;
        };
        if let Some(session) = session {
            session.finish(&mut sink);
            self.take(&mut sink, None, first_offset);
        }
        self.losses.merge(&sink.losses);
        result
    }
}
