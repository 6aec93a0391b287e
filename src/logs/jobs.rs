//! Reading in parallel with results in order: files are jobs, big files of lines or items are cut into jobs of
//! some of them. A file is big by its uncompressed size, which is known only when it is read: so the worker
//! that meets a big one opens it, and all go on with its lines. At most a fixed number of jobs is ahead of
//! what was written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use crate::logs::Limits;
use crate::logs::formats::Entry;
use crate::logs::formats::mapping::Mapping;
use crate::logs::input::{Input, Room};
use crate::logs::part::Part;
use crate::logs::sessions::{self, Beginning, GoneSession, Heard};

mod batches;
mod documents;
mod files;
mod read;
mod skip;
mod told;

pub(super) use batches::Open;
pub(super) use told::{detected, enveloped};

use batches::{BATCH_BYTES, Batch, Records, Rest, cut_items, cut_lines, cut_runs};
use files::{Outcome, read_batch, read_input, sessions_in};

enum Job {
    File(usize),
    Batch(Batch),
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

/// What the sessions share, where nothing is known, and the origin of each input.
pub(super) fn all_beginnings(
    inputs: &mut [Input],
    how: How,
) -> anyhow::Result<(Beginnings, Vec<Option<u128>>)> {
    let origins = sessions::origins(inputs, how.forced, how.threads)?;
    Ok((beginnings(inputs, &origins, &HashMap::new(), how)?, origins))
}

/// What sessions share, by input.
#[derive(Default)]
pub(super) struct Beginnings {
    pub(super) told: HashMap<usize, Beginning>,
    /// What was read to tell that.
    shelf: Mutex<Shelf>,
}

/// Files that were read already, as many as there is room for.
#[derive(Default)]
struct Shelf {
    parts: HashMap<usize, Part>,
    n_bytes: u64,
}

/// So many bytes of logs stand on the shelf at most, or so small a share of all memory.
const SHELF_BYTES: u64 = 32 << 20;
const SHELF_SHARE: u64 = 64;

impl Beginnings {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, part: Part, limits: Limits) {
        let mut shelf = self.shelf();
        if shelf.n_bytes + part.n_bytes <= SHELF_BYTES.min(limits.memory / SHELF_SHARE) {
            shelf.n_bytes += part.n_bytes;
            shelf.parts.insert(part.input, part);
        }
    }

    /// What was read of an input.
    fn take(&self, input: usize) -> Option<Part> {
        self.shelf().parts.remove(&input)
    }
}

/// What the sessions share, by input; a session that is known already has a number behind these.
pub(super) fn beginnings(
    inputs: &[Input],
    origins: &[Option<u128>],
    known: &HashMap<usize, GoneSession>,
    how: How,
) -> anyhow::Result<Beginnings> {
    let (share, mut found) = (how.room(), Beginnings::default());
    let read = origins.iter().enumerate().filter_map(|(i, origin)| Some(((*origin)?, i)));
    let all = read.chain(known.iter().map(|(i, session)| (session.origin, *i))).collect();
    found.told = sessions::beginnings(all, how.threads, |i| match known.get(&i) {
        Some(session) => Some(vec![Heard { up_to: session.up_to.clone(), has_usage: session.has_usage }]),
        None => {
            let (heard, part) = sessions_in(i, inputs, how.forced, share)?;
            part.into_iter().for_each(|part| found.put(part, how.limits));
            Some(heard)
        }
    })?;
    Ok(found)
}

/// Reads all inputs and hands the parts over in order of inputs and positions.
pub(super) fn for_each_part(
    inputs: &[Input],
    how: How,
    beginnings: &Beginnings,
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
                let read = beginnings.take(i).map(Outcome::Read);
                let read =
                    read.unwrap_or_else(|| read_input(i, inputs, forced, Room { turn: &wait, ..share }));
                let mut q = lock();
                q.n_reading -= 1;
                moved.notify_all();
                match read {
                    Outcome::Read(mut part) => {
                        part.tell_beginning(beginnings.told.get(&i));
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
