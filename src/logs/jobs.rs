//! Reading in parallel with results in order: files are jobs, big files of lines or items are cut into jobs of
//! some of them. A file is big by its uncompressed size, which is known only when it is read: so the worker
//! that meets a big one opens it, and all go on with its lines. At most a fixed number of jobs is ahead of
//! what was written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufRead, Cursor, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};

use crate::logs::formats::mapping::Mapping;
use crate::logs::formats::reading::fields::take_counts;
use crate::logs::formats::reading::list::{self, Content, Items, Piece};
use crate::logs::formats::reading::repair::{closed, padding, value_end};
use crate::logs::formats::reading::scan::{Scanned, Scanner, count_objects};
use crate::logs::formats::{self, Detected, Entry, File, Layout, Reading, Sink, Source};
use crate::trajectory::Step;

use super::Limits;
use super::archive::Members;
use super::database::{self, Database};
use super::input::{self, Input, Measured, Room, Small};
use super::keep::GoneSession;
use super::lines::Lines;
use super::part::{Found, Part, Rejected, Run};
use super::sessions::{self, Beginning, Heard};
use super::strangers::{self, Aside, Others, Place, detect_in};
use super::table::{self, Table};

/// How much of a file is looked at first, to tell its format.
const HEAD_BYTES: usize = 64 << 10;
/// Files that are stored in more than this are not read at once.
const BIG_FILE_BYTES: u64 = 4 << 20;
/// The same of files when uncompressed. A file of lines that is bigger is cut into batches.
const BIG_BYTES: usize = 8 << 20;
/// Size of a batch of lines.
const BATCH_BYTES: usize = 4 << 20;
/// A head is never made longer than this to tell what a file looks like that could not be read.
const MAX_HEAD_BYTES: usize = 64 << 20;

enum Job {
    File(usize),
    Batch(Batch),
}

/// Some lines or items of a big file.
struct Batch {
    input: usize,
    entry: &'static Entry,
    number: u64,
    records: Records,
    offset: u64,
    gaps: Vec<Rejected>,
    error: Option<io::Error>,
    is_last: bool,
}

enum Records {
    Lines {
        bytes: Vec<u8>,
        /// Number of the first one.
        line: u64,
        /// A line after these that is too long: its size.
        long: Option<u64>,
    },
    Items {
        pieces: Vec<Piece>,
        shared: Option<Arc<[u8]>>,
        /// Number of the first item.
        index: usize,
        n_bytes: u64,
    },
}

/// A big file of lines or items on its way into batches.
pub(super) struct Open {
    input: usize,
    entry: &'static Entry,
    rest: Rest,
    number: u64,
    offset: u64,
    /// What is damaged where it is packed.
    gaps: Vec<Rejected>,
}

/// What a big file still holds.
enum Rest {
    Lines {
        reader: Box<dyn BufRead + Send>,
        line: u64,
    },
    /// `shared` is the document around the list, where there is one.
    Items {
        items: Pieces,
        shared: Option<Arc<[u8]>>,
        index: usize,
    },
    /// Runs of a database, or rows of a table.
    Runs {
        runs: mpsc::Receiver<Piece>,
        index: usize,
    },
}

/// Where the items come from.
enum Pieces {
    List(Items),
    Archive(Box<Members>),
}

impl Pieces {
    fn place(&self) -> u64 {
        match self {
            Pieces::List(items) => items.place(),
            Pieces::Archive(members) => members.place(),
        }
    }

    fn next(&mut self) -> Option<Piece> {
        match self {
            Pieces::List(items) => items.next(),
            Pieces::Archive(members) => members.next(),
        }
    }
}

/// What a worker makes of a file.
enum Outcome {
    Read(Part),
    Big(Open),
}

#[derive(Default)]
struct Queue {
    next_input: usize,
    /// Big files by input: their records come before other files.
    open: BTreeMap<usize, Open>,
    /// Files in reading that may turn out to be big.
    n_reading: usize,
    n_given: u64,
    n_written: u64,
    /// The part that is to be written next: its input and number.
    turn: (usize, u64),
    /// Large batches that are not written yet.
    large: BTreeSet<(usize, u64)>,
    is_stopped: bool,
}

/// So many jobs are ahead of what was written at most.
fn window(threads: usize) -> u64 {
    2 * threads as u64 + 2
}

/// How files are read.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// The format of all files, if that is given.
    pub(super) forced: Option<&'static Entry>,
    pub(super) threads: usize,
    pub(super) limits: Limits,
    /// Whether secrets and personal data become placeholders.
    pub(super) redacts: bool,
    /// Where things stand in files of a format that no reader knows.
    pub(super) mapping: Option<&'static Mapping>,
}

impl How {
    /// What a file may have.
    fn room(self) -> Room<'static> {
        let room = Room::new(self.limits, window(self.threads), BATCH_BYTES as u64, &|| {});
        Room { redacts: self.redacts, mapping: self.mapping, is_forced: self.forced.is_some(), ..room }
    }
}

/// What the sessions share, where nothing is known.
pub(super) fn all_beginnings(inputs: &mut [Input], how: How) -> anyhow::Result<Beginnings> {
    let origins = sessions::origins(inputs, how.forced, how.threads)?;
    Ok((beginnings(inputs, &origins, &HashMap::new(), how)?, origins))
}

/// What sessions share, by input, and the origin of each.
type Beginnings = (HashMap<usize, Beginning>, Vec<Option<u128>>);

/// What the sessions share, by input; a session that is known already has a number behind these.
pub(super) fn beginnings(
    inputs: &[Input],
    origins: &[Option<u128>],
    known: &HashMap<usize, GoneSession>,
    how: How,
) -> anyhow::Result<HashMap<usize, Beginning>> {
    let share = how.room();
    let read = origins.iter().enumerate().filter_map(|(i, origin)| Some(((*origin)?, i)));
    let all = read.chain(known.iter().map(|(i, session)| (session.origin, *i))).collect();
    sessions::beginnings(all, how.threads, |i| match known.get(&i) {
        Some(session) => Some(vec![Heard { up_to: session.up_to.clone(), has_usage: session.has_usage }]),
        None => {
            let runs = sessions_in(i, inputs, how.forced, share)?;
            Some(runs.iter().map(|steps| Heard::of(steps)).collect())
        }
    })
}

/// Reads all inputs and hands the parts over in order of inputs and positions.
pub(super) fn for_each_part(
    inputs: &[Input],
    how: How,
    beginnings: &HashMap<usize, Beginning>,
    mut each: impl FnMut(Part) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let How { forced, threads, .. } = how;
    let (window, share) = (window(threads), how.room());
    let (queue, moved) = (Mutex::new(Queue::default()), Condvar::new());
    // A worker that panicked has left no half state behind the lock: each field is set on its own.
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let next_job = || next_job(&queue, &moved, window, inputs.len(), share);
    let read = |job: Job| {
        let batch = match job {
            Job::Batch(batch) => batch,
            Job::File(i) => {
                let wait = || {
                    let is_mine = |q: &mut Queue| q.turn == (i, 0) || q.is_stopped;
                    drop(moved.wait_while(lock(), |q| !is_mine(q)).unwrap_or_else(PoisonError::into_inner));
                };
                let read = read_input(i, inputs, forced, Room { turn: &wait, ..share });
                let mut q = lock();
                q.n_reading -= 1;
                moved.notify_all();
                match read {
                    Outcome::Read(mut part) => {
                        part.tell_beginning(beginnings.get(&i));
                        return part;
                    }
                    Outcome::Big(open) => q.cut(open, share),
                }
            }
        };
        read_batch(batch, inputs, forced, share)
    };
    let (sender, receiver) = mpsc::sync_channel::<Part>(window as usize);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next_job, read) = (sender.clone(), &next_job, &read);
            let guard = StopAtPanic(&queue, &moved);
            scope.spawn(move || {
                let _guard = guard;
                while let Some(job) = next_job() {
                    if sender.send(read(job)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early: BTreeMap<(usize, u64), Part> = BTreeMap::new();
        let mut next = (0, 0);
        let mut result = Ok(());
        'parts: for part in &receiver {
            early.insert((part.input, part.number), part);
            while let Some(part) = early.remove(&next) {
                let this = next;
                next = if part.is_last { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
                result = each(part);
                let mut q = lock();
                q.n_written += 1;
                q.turn = next;
                q.large.remove(&this);
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

/// What a worker does next; it waits while too much is read ahead. None at the end.
fn next_job(
    queue: &Mutex<Queue>,
    moved: &Condvar,
    window: u64,
    n_inputs: usize,
    share: Room<'_>,
) -> Option<Job> {
    let mut q = queue.lock().unwrap_or_else(PoisonError::into_inner);
    while !q.is_stopped {
        if q.n_given < q.n_written + window && q.is_clear() {
            if let Some(job) = q.next(n_inputs, share) {
                q.n_given += 1;
                return Some(job);
            }
            if q.n_reading == 0 {
                return None;
            }
        }
        q = moved.wait(q).unwrap_or_else(PoisonError::into_inner);
    }
    None
}

/// Stops the queue when a worker panics: nobody waits for what it was to read.
struct StopAtPanic<'a>(&'a Mutex<Queue>, &'a Condvar);

impl Drop for StopAtPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).is_stopped = true;
            self.1.notify_all();
        }
    }
}

impl Queue {
    /// Whether what comes next stands before all large batches that are not written yet, or there are none.
    fn is_clear(&self) -> bool {
        let first = self.open.keys().next();
        self.large.first().is_none_or(|(input, _)| first.is_some_and(|first| first < input))
    }

    fn next(&mut self, n_inputs: usize, share: Room<'_>) -> Option<Job> {
        if let Some((_, open)) = self.open.pop_first() {
            return Some(Job::Batch(self.cut(open, share)));
        }
        if self.next_input == n_inputs {
            return None;
        }
        self.next_input += 1;
        self.n_reading += 1;
        Some(Job::File(self.next_input - 1))
    }

    /// Cuts the next batch of whole records off an open file.
    fn cut(&mut self, mut open: Open, share: Room<'_>) -> Batch {
        let (input, entry, number, offset) = (open.input, open.entry, open.number, open.offset);
        let (records, n_bytes, is_last, error) = match &mut open.rest {
            Rest::Lines { reader, line } => cut_lines(reader, line, share),
            Rest::Items { items, shared, index } => cut_items(items, shared, index),
            Rest::Runs { runs, index } => cut_runs(runs, index),
        };
        let gaps = std::mem::take(&mut open.gaps);
        open.number += 1;
        open.offset += n_bytes;
        if !is_last {
            self.open.insert(input, open);
        }
        // It has more than its share: nothing after it is begun before it is written.
        let n_held = match &records {
            Records::Lines { bytes, .. } => bytes.len() as u64,
            Records::Items { n_bytes, .. } => *n_bytes,
        };
        if n_held > share.small {
            self.large.insert((input, number));
        }
        Batch { input, entry, number, records, offset, gaps, error, is_last }
    }
}

/// Cuts off some lines; says their bytes in all, whether they are the last, and why, if not for the end.
fn cut_lines(
    reader: &mut Box<dyn BufRead + Send>,
    line: &mut u64,
    share: Room<'_>,
) -> (Records, u64, bool, Option<io::Error>) {
    let mut bytes = Vec::with_capacity(BATCH_BYTES + (64 << 10));
    let (mut error, mut long) = (None, None);
    let mut is_last = false;
    match reader.by_ref().take(BATCH_BYTES as u64).read_to_end(&mut bytes) {
        Ok(n) if n < BATCH_BYTES => is_last = true,
        Ok(_) if bytes.last() == Some(&b'\n') => {}
        Ok(_) => match end_line(reader, &mut bytes, share.value) {
            Ok((ends, over)) => (is_last, long) = (!ends, over),
            Err(e) => error = Some(e),
        },
        Err(e) => error = Some(e),
    }
    let first = *line;
    *line += memchr::memchr_iter(b'\n', &bytes).count() as u64 + u64::from(long.is_some());
    let n_bytes = bytes.len() as u64 + long.unwrap_or(0);
    (Records::Lines { bytes, line: first, long }, n_bytes, is_last || error.is_some(), error)
}

/// The same for items. What cannot be read is one of them.
fn cut_items(
    items: &mut Pieces,
    shared: &Option<Arc<[u8]>>,
    index: &mut usize,
) -> (Records, u64, bool, Option<io::Error>) {
    let (start, first) = (items.place(), *index);
    let mut pieces = Vec::new();
    let mut is_last = true;
    while let Some(piece) = items.next() {
        *index += usize::from(matches!(piece.content, Content::Item(_)));
        pieces.push(piece);
        if items.place() - start >= BATCH_BYTES as u64 {
            is_last = false;
            break;
        }
    }
    let n_bytes = items.place() - start;
    (Records::Items { pieces, shared: shared.clone(), index: first, n_bytes }, n_bytes, is_last, None)
}

/// The same for runs of a database.
fn cut_runs(runs: &mpsc::Receiver<Piece>, index: &mut usize) -> (Records, u64, bool, Option<io::Error>) {
    let (first, mut pieces, mut n_bytes) = (*index, Vec::new(), 0);
    let mut is_last = true;
    for piece in runs {
        if let Content::Item(run) = &piece.content {
            *index += 1;
            n_bytes += run.len() as u64;
        }
        pieces.push(piece);
        if n_bytes >= BATCH_BYTES as u64 {
            is_last = false;
            break;
        }
    }
    (Records::Items { pieces, shared: None, index: first, n_bytes }, n_bytes, is_last, None)
}

/// Reads the last line to its end. One that gets longer than `max` is taken out again and skipped: its size. Says whether
/// it has an end, too.
fn end_line(reader: &mut dyn BufRead, bytes: &mut Vec<u8>, max: u64) -> std::io::Result<(bool, Option<u64>)> {
    let start = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    let left = max.saturating_sub((bytes.len() - start) as u64);
    (&mut *reader).take(left).read_until(b'\n', bytes)?;
    let is_ended = bytes.last() == Some(&b'\n');
    if is_ended || reader.fill_buf()?.is_empty() {
        return Ok((is_ended, None));
    }
    let size = (bytes.len() - start) as u64;
    bytes.truncate(start);
    bytes.shrink_to_fit();
    let size = size + skip_line(reader)?;
    // Nobody needs to know whether it had an end if nothing comes behind it.
    Ok((!reader.fill_buf()?.is_empty(), Some(size)))
}

/// Reads as much of a file as is needed to tell its format; says whether that was all of it.
fn detect(
    reader: &mut dyn BufRead,
    head: &mut Vec<u8>,
    forced: Option<&'static Entry>,
    max: usize,
    room: Room<'_>,
) -> std::io::Result<(Detected, bool)> {
    let mut n = HEAD_BYTES.max(head.len());
    loop {
        // All that one value may have is looked at before it is called too large.
        let wanted = if (head.len() as u64) < room.value { (n as u64).min(room.value) } else { u64::MAX };
        let is_whole = room.read(reader, head, wanted)?;
        let found = match forced {
            Some(entry) => as_format(entry, head, is_whole),
            None => formats::detect(head, is_whole),
        };
        let found = or_mapped(found, head, is_whole, forced, room);
        if !matches!(found, Detected::More) || n >= max {
            return Ok((found, is_whole));
        }
        n = n.saturating_mul(8);
    }
}

/// What is of no known format is read by the mapping, if one is given.
fn or_mapped(
    found: Detected,
    head: &[u8],
    is_whole: bool,
    forced: Option<&'static Entry>,
    room: Room<'_>,
) -> Detected {
    match (room.mapping.filter(|_| forced.is_none()), &found) {
        (Some(mapping), Detected::NoLog(formats::UNKNOWN)) => as_format(mapping.entry(), head, is_whole),
        // Nothing tells what lines are that go on for so long.
        (Some(mapping), Detected::More) if head.len() >= MAX_HEAD_BYTES => {
            as_format(mapping.entry(), head, is_whole)
        }
        _ => found,
    }
}

/// Reads a file, or opens it if it is a big one of lines or items.
fn read_input(i: usize, inputs: &[Input], forced: Option<&'static Entry>, room: Room<'_>) -> Outcome {
    take_counts();
    let input = &inputs[i];
    let mut part = Part::new(i, 0);
    if let Some(problem) = &input.problem {
        part.reject(None, 0, problem.clone());
    } else {
        match read_file(i, input, forced, room, &mut part) {
            Ok(None) => {}
            Ok(Some(open)) => return Outcome::Big(open),
            Err(error) => {
                part.is_too_large = error.kind() == std::io::ErrorKind::FileTooLarge;
                part.cannot_read(part.n_bytes, "cannot read on", &error);
            }
        }
    }
    part.check_format(input, forced);
    part.fields = take_counts();
    Outcome::Read(part)
}

/// The steps of the sessions in a file: several where it was tried again, none in what is no session after all. Nothing if
/// the machine could not read it.
fn sessions_in(
    i: usize,
    inputs: &[Input],
    forced: Option<&'static Entry>,
    room: Room<'_>,
) -> Option<Vec<Vec<Step>>> {
    let Outcome::Read(part) = read_input(i, inputs, forced, room) else {
        return Some(Vec::new());
    };
    if part.is_unread {
        return None;
    }
    let is_session = |run: &Run| {
        let entry = formats::find(&run.row.format).map(|entry| entry.reading);
        // Runs that the session started are no part of it.
        run.row.parent.is_none()
            && matches!(entry, Ok(Reading::Session { .. } | Reading::Sessions { .. } | Reading::Files { .. }))
    };
    Some(part.runs.into_iter().filter(is_session).map(|run| run.steps).collect())
}

fn read_batch(batch: Batch, inputs: &[Input], forced: Option<&'static Entry>, room: Room<'_>) -> Part {
    take_counts();
    let input = &inputs[batch.input];
    let mut part = Part::new(batch.input, batch.number);
    part.is_last = batch.is_last;
    part.found = Found::Log(batch.entry.name);
    part.rejects = batch.gaps;
    if batch.number == 0 && matches!(batch.entry.reading, Reading::Database { .. }) {
        let n = input.parts.iter().filter(|file| !database::is_beside(&file.name)).count();
        part.losses.add_n("file of an older store that the database repeats", n as u64);
    }
    let source = room.source(input, batch.entry.name);
    match batch.records {
        Records::Lines { bytes, line, long } => {
            part.read_lines_of(&bytes, batch.entry, &source, line, batch.offset);
            if let Some(size) = long {
                let line = line + memchr::memchr_iter(b'\n', &bytes).count() as u64;
                part.reject(Some(line), batch.offset + part.n_bytes, input::too_long("a line", size));
                part.n_bytes += size;
            }
        }
        Records::Items { pieces, shared, index, n_bytes } => {
            let values = Lines::of_document(batch.entry, &source, shared.as_deref(), &mut part);
            part.read_items(pieces.into_iter(), values, index);
            part.n_bytes = n_bytes;
        }
    }
    if let Some(error) = batch.error {
        part.cannot_read(batch.offset + part.n_bytes, "cannot read on", &error);
    }
    part.check_format(input, forced);
    part.fields = take_counts();
    part
}

/// What a file looks like.
pub(super) fn detected(input: &Input) -> std::io::Result<Detected> {
    let mut reader = input::open(&input.path)?;
    let room = Room::new(Limits::default(), 1, BATCH_BYTES as u64, &|| {});
    Ok(detect(&mut *reader, &mut Vec::new(), None, MAX_HEAD_BYTES, room)?.0)
}

/// What a file looks like, if that is not the format it was read as.
fn other_format(input: &Input, entry: &Entry) -> Option<&'static str> {
    let found = detected(input).ok()?;
    match found {
        Detected::Log(found, _) => (found.name != entry.name).then_some(found.name),
        Detected::NotRead(what) | Detected::Label(what) | Detected::NoLog(what) | Detected::Bad(what) => {
            Some(what)
        }
        Detected::Database => Some("SQLite database"),
        Detected::Table => Some("Parquet table"),
        Detected::More => Some(formats::UNKNOWN),
    }
}

/// Reads a file of any kind. Small files are read at once, sessions line by line; big files of other lines
/// or items are only opened.
fn read_file(
    i: usize,
    input: &Input,
    forced: Option<&'static Entry>,
    room: Room<'_>,
    part: &mut Part,
) -> std::io::Result<Option<Open>> {
    let is_small = input.n_bytes <= BIG_FILE_BYTES && room.file >= BIG_BYTES as u64;
    if !is_small && input::begins_with(&input.path, table::MARK)? {
        return open_table(i, input, forced, room, part);
    }
    let Small { bytes: mut head, rest, gaps } = if is_small {
        input::read_small(&input.path, BIG_BYTES, room.file)?
    } else {
        input::open_checked(&input.path, room.file)?
    };
    for gap in gaps {
        part.reject(None, gap.offset, gap.reason);
    }
    let Some(reader) = rest else {
        let found = match forced {
            Some(entry) => as_format(entry, &head, true),
            None => or_mapped(detect_in(&head), &head, true, None, room),
        };
        if let Detected::Log(entry, Layout::Archive) = found {
            return open_archive(i, input, entry, (head, None), room, part).map(Some);
        }
        if let Detected::Database = found {
            return open_database(i, input, forced, Box::new(Cursor::new(head)), room, part);
        }
        if head.starts_with(table::MARK) {
            return open_table(i, input, forced, room, part);
        }
        part.read_found(found, head, None, input, room)?;
        return Ok(None);
    };
    let mut reader: Box<dyn BufRead + Send> =
        Box::new(Measured::new(reader, room.file, room.file, input.n_bytes));
    let mut skipped = Skipped::default();
    let (found, is_whole) = loop {
        match detect(&mut *reader, &mut head, forced, usize::MAX, room) {
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                if !skipped.skip(&mut *reader, &mut head, part)? {
                    return Err(error);
                }
            }
            told => break told?,
        }
    };
    let n_told = part.rejects.len();
    let result = match found {
        Detected::Log(entry, Layout::Archive) => {
            return open_archive(i, input, entry, (head, Some(reader)), room, part).map(Some);
        }
        Detected::Database => {
            return open_database(i, input, forced, Box::new(Cursor::new(head).chain(reader)), room, part);
        }
        Detected::Log(entry, layout) if !is_whole => {
            match in_batches(entry, layout, head, reader, room, &skipped) {
                Ok(rest) => {
                    let gaps = std::mem::take(&mut part.rejects);
                    let offset = skipped.n_bytes;
                    return Ok(Some(Open { input: i, entry, rest, number: 0, offset, gaps }));
                }
                Err((head, reader)) => part.read_found(found, head, Some(reader), input, room),
            }
        }
        _ => part.read_found(found, head, (!is_whole).then_some(reader), input, room),
    };
    skipped.move_behind(&mut part.rejects[n_told..]);
    part.n_bytes += skipped.n_bytes;
    result.map(|()| None)
}

/// Whether the machine or another process is at fault, and not what stands in a file.
fn is_passing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref().is_some_and(list::is_passing)
            || cause.downcast_ref().is_some_and(database::is_passing)
    })
}

/// Opens a database; `bytes` are those of the file, unpacked.
fn open_database(
    i: usize,
    input: &Input,
    forced: Option<&'static Entry>,
    mut bytes: Reader,
    room: Room<'_>,
    part: &mut Part,
) -> std::io::Result<Option<Open>> {
    if input.n_bytes > room.file {
        return Err(input::too_large(room.file, input.n_bytes));
    }
    let is_packed = !input::begins_with(&input.path, formats::SQLITE)?;
    let unpacked: Option<&mut dyn Read> = if is_packed { Some(&mut bytes) } else { None };
    let opened = Database::open(&input.path, unpacked, room.value).and_then(|db| Ok((db.tables()?, db)));
    let (tables, database) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            part.is_unread = is_passing(&error);
            part.reject(None, 0, format!("cannot open the database: {error:#}"));
            return Ok(None);
        }
    };
    let entry = forced.or_else(|| formats::of_tables(&tables));
    let Some((entry, Reading::Database { rows, .. })) = entry.map(|entry| (entry, entry.reading)) else {
        let found = Detected::NoLog("SQLite database of no known product");
        part.read_found(found, Vec::new(), None, input, room)?;
        return Ok(None);
    };
    let rest = Rest::Runs { runs: database.runs(rows, room.value), index: 0 };
    Ok(Some(Open { input: i, entry, rest, number: 0, offset: 0, gaps: std::mem::take(&mut part.rejects) }))
}

/// Opens a Parquet table, whose rows are read as lines of JSON would be.
fn open_table(
    i: usize,
    input: &Input,
    forced: Option<&'static Entry>,
    room: Room<'_>,
    part: &mut Part,
) -> std::io::Result<Option<Open>> {
    if input.n_bytes > room.file {
        return Err(input::too_large(room.file, input.n_bytes));
    }
    if !input::begins_with(&input.path, table::MARK)? {
        part.reject(None, 0, table::PACKED.to_owned());
        return Ok(None);
    }
    let (table, first) = match Table::open(&input.path) {
        Ok(opened) => opened,
        Err(error) => {
            part.is_unread = is_passing(&error);
            part.reject(None, 0, format!("cannot open the Parquet table: {error:#}"));
            return Ok(None);
        }
    };
    let found = match forced {
        Some(entry) => as_format(entry, &first, true),
        None => or_mapped(detect_in(&first), &first, true, None, room),
    };
    let entry = match found {
        Detected::Log(entry, _) if matches!(entry.reading, Reading::Values(_)) => entry,
        _ => {
            part.read_found(Detected::NotRead("parquet"), Vec::new(), None, input, room)?;
            return Ok(None);
        }
    };
    let rest = Rest::Runs { runs: table.rows(room.value), index: 0 };
    Ok(Some(Open { input: i, entry, rest, number: 0, offset: 0, gaps: std::mem::take(&mut part.rejects) }))
}

/// Lines or items at the beginning of a file that are too long to be held. The rest tells what the file is.
#[derive(Default)]
struct Skipped {
    n_bytes: u64,
    n_lines: u64,
}

impl Skipped {
    /// Skips the value of which only the beginning is held; says whether there is such a one, and something behind it.
    fn skip(
        &mut self,
        reader: &mut dyn BufRead,
        head: &mut Vec<u8>,
        part: &mut Part,
    ) -> std::io::Result<bool> {
        let start = padding(head);
        let is_line = head.get(start) == Some(&b'{') && memchr::memchr(b'\n', &head[start..]).is_none();
        let list = &head[start..];
        let item = match list.strip_prefix(b"[") {
            Some(items) if self.n_lines == 0 => start + 1 + padding(items),
            _ => head.len(),
        };
        let (n, what) = if is_line {
            (skip_line(reader)?, "a line")
        } else if head.get(item) == Some(&b'{') {
            (skip_item(reader, &head[item..])?, "an item")
        } else {
            return Ok(false);
        };
        let begin = if is_line { start } else { item };
        let size = (head.len() - begin) as u64 + n;
        if reader.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let line =
            is_line.then_some(1 + self.n_lines + memchr::memchr_iter(b'\n', &head[..start]).count() as u64);
        part.reject(line, self.n_bytes + begin as u64, input::too_long(what, size));
        self.n_lines = line.unwrap_or(0);
        self.n_bytes += begin as u64 + size;
        head.clear();
        if !is_line {
            // The rest is a list still.
            head.push(b'[');
            self.n_bytes -= 1;
        }
        Ok(true)
    }

    /// Places in what comes behind, as places in the file.
    fn move_behind(&self, rejects: &mut [Rejected]) {
        for reject in rejects {
            reject.offset += self.n_bytes;
            reject.line = reject.line.map(|line| line + self.n_lines);
        }
    }
}

/// Goes behind the end of a line; says how many bytes that were.
fn skip_line(reader: &mut dyn BufRead) -> std::io::Result<u64> {
    let mut size = 0;
    loop {
        let more = reader.fill_buf()?;
        let end = memchr::memchr(b'\n', more);
        let n = end.map_or(more.len(), |at| at + 1);
        reader.consume(n);
        size += n as u64;
        if end.is_some() || n == 0 {
            return Ok(size);
        }
    }
}

/// The same for an item of a list, and the comma behind it; of a broken one it is where that shows.
fn skip_item(reader: &mut dyn BufRead, begin: &[u8]) -> std::io::Result<u64> {
    let mut scanner = Scanner::default();
    let (mut size, mut is_open) = (0, scanner.scan(begin) == Scanned::Open);
    loop {
        let more = reader.fill_buf()?;
        let (n, is_end) = match is_open {
            true => match scanner.scan(more) {
                Scanned::Ended(n) | Scanned::Broken(n) => {
                    is_open = false;
                    (n, false)
                }
                Scanned::Open => (more.len(), more.is_empty()),
            },
            false => {
                let n = more.iter().take_while(|b| **b == b',' || b.is_ascii_whitespace()).count();
                (n, n < more.len() || more.is_empty())
            }
        };
        reader.consume(n);
        size += n as u64;
        if is_end {
            return Ok(size);
        }
    }
}

type Reader = Box<dyn BufRead + Send>;

/// A file that can be cut into batches, opened for that; else what was given.
fn in_batches(
    entry: &'static Entry,
    layout: Layout,
    mut head: Vec<u8>,
    reader: Reader,
    room: Room<'_>,
    skipped: &Skipped,
) -> Result<Rest, (Vec<u8>, Reader)> {
    match (entry.reading, layout) {
        (Reading::Values(_), Layout::Lines) => {
            Ok(Rest::Lines { reader: Box::new(Cursor::new(head).chain(reader)), line: 1 + skipped.n_lines })
        }
        (Reading::Values(_), Layout::Items) => {
            let reader = Box::new(Cursor::new(head).chain(reader));
            let items = Items::new(reader, room.value).behind(skipped.n_bytes);
            Ok(Rest::Items { items: Pieces::List(items), shared: None, index: 0 })
        }
        (Reading::Document { list, first, .. }, _) if skipped.n_bytes == 0 => {
            match shared_before(&head, list, first) {
                Some((shared, start)) => {
                    let rest = Box::new(Cursor::new(head.split_off(start)).chain(reader));
                    let items = Items::of_field(rest, start as u64, room.value);
                    Ok(Rest::Items { items: Pieces::List(items), shared: Some(shared.into()), index: 0 })
                }
                None => Err((head, reader)),
            }
        }
        _ => Err((head, reader)),
    }
}

/// An archive, opened to be read member by member. What was read of it is needed only if the file itself is packed.
fn open_archive(
    i: usize,
    input: &Input,
    entry: &'static Entry,
    (head, rest): (Vec<u8>, Option<Reader>),
    room: Room<'_>,
    part: &mut Part,
) -> std::io::Result<Open> {
    let Reading::Archive { shared, is_run, .. } = entry.reading else {
        return Err(std::io::Error::other("no archive"));
    };
    let mut members = Members::open(&input.path, || all(head, rest, room), is_run, room)?;
    let shared = members.shared(shared)?.unwrap_or_else(|| {
        part.reject(None, 0, "archive without a header that can be read".to_owned());
        b"{}".to_vec()
    });
    let items = Pieces::Archive(Box::new(members));
    let rest = Rest::Items { items, shared: Some(shared.into()), index: 0 };
    Ok(Open { input: i, entry, rest, number: 0, offset: 0, gaps: std::mem::take(&mut part.rejects) })
}

/// What stands before a list in a document, as a document, if that holds what its runs share; and where its items begin.
fn shared_before(text: &[u8], list: &str, first: &str) -> Option<(Vec<u8>, usize)> {
    let start = formats::list_start(text, list)?;
    let before = &text[..start];
    memchr::memmem::find(before, format!("\"{first}\"").as_bytes())?;
    Some(([&before[document_start(before)..], b"]}"].concat(), start))
}

/// What stands in a document before the place where it ends early.
fn read_torn<'a>(
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

fn n_steps(sink: &Sink<'_>) -> usize {
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
        Some(_) => formats::behind_stray(before).unwrap_or(0),
        None => 0,
    }
}

/// The document without its list, wherever that stands in it.
fn shared_around(text: &[u8], list: &str, first: &str) -> Option<(Vec<u8>, usize)> {
    let start = formats::list_start(text, list)?;
    let begin = document_start(&text[..start]);
    if let Some(end) = value_end(text, start - 1).filter(|_| shared_before(text, list, first).is_none()) {
        return Some(([&text[begin..start], b"]", &text[end..]].concat(), start));
    }
    Some(([&text[begin..start], b"]}"].concat(), start))
}

/// A file whose format is given: how it is cut into values.
fn as_format(entry: &'static Entry, head: &[u8], is_whole: bool) -> Detected {
    let layout = match entry.reading {
        Reading::Session { .. } | Reading::Sessions { .. } => Some(Layout::Lines),
        Reading::Document { .. } | Reading::Files { .. } | Reading::Text(_) => Some(Layout::Document),
        Reading::Archive { .. } => Some(Layout::Archive),
        Reading::Database { .. } if head.starts_with(formats::SQLITE) => return Detected::Database,
        Reading::Database { .. } => return Detected::Bad("no SQLite database"),
        Reading::Values(_) => formats::layout_of(head, is_whole),
    };
    layout.map_or(Detected::More, |layout| Detected::Log(entry, layout))
}

/// A head and what comes after it.
fn all(mut head: Vec<u8>, rest: Option<Box<dyn BufRead + Send>>, room: Room<'_>) -> std::io::Result<Vec<u8>> {
    if let Some(mut rest) = rest {
        room.read(&mut *rest, &mut head, u64::MAX)?;
    }
    Ok(head)
}

impl Part {
    /// A reject, if the start of a file gave nothing in the format that was given.
    fn check_format(&mut self, input: &Input, forced: Option<&'static Entry>) {
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
    fn tell_beginning(&mut self, beginning: Option<&Beginning>) {
        self.beginning = beginning.copied();
    }

    /// Reads what was found: `head`, and what the reader still has.
    fn read_found(
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
            Detected::NoLog(formats::UNKNOWN)
                if let Some((path, format)) = formats::envelope(&head, rest.is_none()) =>
            {
                let reason = format!(
                    "an envelope, which holds a log of {format} at {path}\nhint: take it out with `jq -c '{path}'`, or say where it stands with --mapping"
                );
                self.reject(None, 0, reason);
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
                self.reject(None, 0, formats::UNKNOWN.to_owned());
            }
        }
        Ok(())
    }

    /// A reject for what an error of reading leaves out.
    fn cannot_read(&mut self, offset: u64, what: &str, error: &io::Error) {
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
            match formats::layout_of(&bytes, true) {
                Some(Layout::Lines) => {
                    bytes.split_inclusive(|b| *b == b'\n').for_each(|line| lines.read(line, self));
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
    fn read_items(&mut self, pieces: impl Iterator<Item = Piece>, mut values: Lines<'_>, mut index: usize) {
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
    fn read_lines_of(
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
