//! Answers kept on disk: a call that was answered once is not computed again, whoever asks.
//!
//! The key is a hash of all that an answer depends on ([`Card::identity`] and the call). The store is SQLite with
//! a write-ahead log: a `kill -9` loses at most the answers of the last moment, and any number of processes may
//! share it. Only answers are kept; an error is asked again.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use serde::Serialize;

use super::{Answer, Call, CallError, Card, Model, Outcome};

/// Raised when the form of keys or answers changes: older entries are then never found, and leave by age.
const VERSION: u32 = 1;
/// Answers are written after so many calls, so that a killed run keeps what it paid for.
const GROUP: usize = 64;
/// An entry's last use is written down again after so many seconds: reading stays reading.
const AGE: i64 = 3600;

/// What a cache did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    pub hits: u64,
    pub misses: u64,
    /// Of the misses, those that the model could not answer.
    pub failed: u64,
    /// Seconds that the answers found had cost when they were computed, and that the others cost now, as [`Clock`]
    /// counts them: all calls together, those of other threads included, cost the time in which the model was at work.
    pub seconds_saved: f64,
    pub seconds_spent: f64,
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            failed: self.failed + other.failed,
            seconds_saved: self.seconds_saved + other.seconds_saved,
            seconds_spent: self.seconds_spent + other.seconds_spent,
        }
    }
}

/// The file with the answers.
pub struct Store {
    connection: Mutex<Connection>,
    path: PathBuf,
    /// Bytes of answers that are kept at most.
    cap: i64,
    /// What `path` named when it was opened.
    file: Option<(u64, u64)>,
    /// Said once, when the store stops working in mid-run.
    failed: Mutex<Option<String>>,
}

/// Shares out the time in which a model is at work: at each moment evenly among the calls that it is asked then,
/// whoever asks.
#[derive(Default)]
struct Clock {
    at_work: usize,
    /// When that number last changed.
    since: Option<Instant>,
    /// Seconds that a call would have had that was there from the beginning.
    share: f64,
}

impl Clock {
    /// Lets the time pass until now, then changes the number of calls at work; what `share` is now.
    fn turn(&mut self, change: impl FnOnce(usize) -> usize) -> f64 {
        let now = Instant::now();
        if let (Some(since), 1..) = (self.since, self.at_work) {
            self.share += (now - since).as_secs_f64() / self.at_work as f64;
        }
        self.since = Some(now);
        self.at_work = change(self.at_work);
        self.share
    }
}

/// Which file a path names: its device and its number there.
#[cfg(unix)]
fn file_at(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn file_at(path: &Path) -> Option<(u64, u64)> {
    path.exists().then_some((0, 0))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds since 1970, as SQLite counts them: signed.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

impl Store {
    /// Opens the store, or makes it. `cap` is in bytes of the file, without the log that SQLite writes beside it.
    pub fn open(path: &Path, cap: u64) -> anyhow::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the cache's folder {}\nhint: name another file by --cache, or run with --no-cache", folder.display()))?;
        }
        let connection = Self::prepare(path).map_err(|error| {
            anyhow::anyhow!(
                "cannot use the call cache {}: {error}\nhint: name another file by --cache, or run with --no-cache",
                path.display()
            )
        })?;
        Ok(Self {
            connection: Mutex::new(connection),
            path: path.to_owned(),
            file: file_at(path),
            cap: cap.min(i64::MAX as u64) as i64,
            failed: Mutex::new(None),
        })
    }

    fn prepare(path: &Path) -> rusqlite::Result<Connection> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS answers (
                 key BLOB PRIMARY KEY, answer BLOB NOT NULL, seconds REAL NOT NULL, used INTEGER NOT NULL
             ) WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used);
             CREATE TABLE IF NOT EXISTS size (one INTEGER PRIMARY KEY CHECK (one = 1), bytes INTEGER NOT NULL);
             INSERT OR IGNORE INTO size VALUES (1, 0);",
        )?;
        seal_all(&mut connection)?;
        Ok(connection)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the answers kept now.
    pub fn bytes(&self) -> anyhow::Result<i64> {
        let connection = lock(&self.connection);
        Ok(connection.query_row("SELECT bytes FROM size", [], |row| row.get(0))?)
    }

    /// Why the store stopped working during the run, if it did: answers were then computed without it.
    pub fn failure(&self) -> Option<String> {
        lock(&self.failed).clone()
    }

    fn usable<T>(&self, result: rusqlite::Result<T>) -> Option<T> {
        // SQLite goes on in a file that has no name any more, and nobody would find the answers again.
        if file_at(&self.path) != self.file {
            self.tell(
                "it was deleted or replaced during the run; what is computed now is not kept for another",
            );
        }
        result.map_err(|error| self.tell(&format!("{error}; going on without it"))).ok()
    }

    fn tell(&self, what: &str) {
        lock(&self.failed).get_or_insert_with(|| {
            let said = format!("call cache {}: {what}", self.path.display());
            tracing::warn!("{said}");
            said
        });
    }

    /// The answers known, with the seconds that they cost.
    fn find(&self, keys: &[[u8; 32]]) -> Vec<Option<(Answer, f64)>> {
        let mut connection = lock(&self.connection);
        let found = (|| {
            let mut found = Vec::with_capacity(keys.len());
            let mut old = Vec::new();
            let now = now();
            {
                let mut select =
                    connection.prepare_cached("SELECT answer, seconds, used FROM answers WHERE key = ?")?;
                for key in keys {
                    let row: Option<(Vec<u8>, f64, i64)> = select
                        .query_row(params![key.as_slice()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                        .optional()?;
                    found.push(row.and_then(|(bytes, seconds, used)| {
                        if used + AGE < now {
                            old.push(*key);
                        }
                        // What is damaged is computed again.
                        let Some(bytes) = unsealed(key, &bytes) else {
                            self.tell("it holds an answer that is damaged, which is asked again");
                            return None;
                        };
                        postcard::from_bytes(bytes).ok().map(|answer| (answer, seconds))
                    }));
                }
            }
            if !old.is_empty() {
                let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                for key in old {
                    write
                        .execute("UPDATE answers SET used = ? WHERE key = ?", params![now, key.as_slice()])?;
                }
                write.commit()?;
            }
            Ok(found)
        })();
        self.usable(found).unwrap_or_else(|| keys.iter().map(|_| None).collect())
    }

    fn keep(&self, entries: &[([u8; 32], Vec<u8>)], seconds: f64) {
        let mut connection = lock(&self.connection);
        let kept = (|| {
            let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut added = 0i64;
            for (key, bytes) in entries {
                let before: Option<i64> = write
                    .query_row(
                        "SELECT length(answer) FROM answers WHERE key = ?",
                        params![key.as_slice()],
                        |row| row.get(0),
                    )
                    .optional()?;
                write.execute(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)",
                    params![key.as_slice(), bytes, seconds, now()],
                )?;
                added += bytes.len() as i64 - before.unwrap_or(0);
            }
            write.execute("UPDATE size SET bytes = bytes + ?", params![added])?;
            let bytes: i64 = write.query_row("SELECT bytes FROM size", [], |row| row.get(0))?;
            // Pages hold more than the answers, of short ones several times as much.
            let used = used(&write)?;
            let counted = if used > self.cap.max(SMALLEST) { used } else { bytes };
            if counted > self.cap {
                let room = i128::from(bytes) * i128::from(self.cap / 10 * 9) / i128::from(counted);
                evict(&write, bytes, room as i64)?;
            }
            write.commit()?;
            if counted > self.cap {
                // Each step gives one page back.
                let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
                let mut steps = vacuum.query([])?;
                while steps.next()?.is_some() {}
            }
            Ok(())
        })();
        self.usable(kept);
    }
}

/// A file of fewer bytes is never too large: that is what SQLite needs for little more than itself.
const SMALLEST: i64 = 1 << 20;

/// Bytes of the pages in use.
fn used(connection: &Connection) -> rusqlite::Result<i64> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Deletes what was used longest ago until `room` bytes are left.
fn evict(write: &Connection, mut bytes: i64, room: i64) -> rusqlite::Result<()> {
    let mut oldest = Vec::new();
    {
        let mut select = write.prepare("SELECT key, length(answer) FROM answers ORDER BY used, key")?;
        let mut rows = select.query([])?;
        while bytes > room {
            let Some(row) = rows.next()? else { break };
            oldest.push(row.get::<_, Vec<u8>>(0)?);
            bytes -= row.get::<_, i64>(1)?;
        }
    }
    for key in oldest {
        write.execute("DELETE FROM answers WHERE key = ?", params![key])?;
    }
    write.execute("UPDATE size SET bytes = ?", params![bytes])?;
    Ok(())
}

/// Bytes of the hash at the end of an answer.
const SEAL: usize = 16;

/// The hash of an answer together with the call that it belongs to: an answer in another's place is damaged, too.
fn seal(key: &[u8], answer: &[u8]) -> [u8; SEAL] {
    let hash = blake3::Hasher::new().update(key).update(answer).finalize();
    std::array::from_fn(|i| hash.as_bytes()[i])
}

fn sealed(key: &[u8], mut answer: Vec<u8>) -> Vec<u8> {
    let seal = seal(key, &answer);
    answer.extend(seal);
    answer
}

/// The answer without its hash; none if the two do not fit.
fn unsealed<'a>(key: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (answer, end) = bytes.split_last_chunk::<SEAL>()?;
    (*end == seal(key, answer)).then_some(answer)
}

/// In a file of this version each answer ends in its hash.
const SEALED: i64 = 1;

/// Gives the answers of an older file their hashes, once.
fn seal_all(connection: &mut Connection) -> rusqlite::Result<()> {
    let version = |c: &Connection| c.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    if version(connection)? >= SEALED {
        return Ok(());
    }
    let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it meanwhile.
    if version(&write)? < SEALED {
        let keys: Vec<Vec<u8>> = {
            let mut select = write.prepare("SELECT key FROM answers")?;
            select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        for key in &keys {
            let of = "SELECT answer FROM answers WHERE key = ?";
            let answer: Vec<u8> = write.query_row(of, params![key], |row| row.get(0))?;
            let sealed = sealed(key, answer);
            write.execute("UPDATE answers SET answer = ? WHERE key = ?", params![sealed, key])?;
        }
        write.execute("UPDATE size SET bytes = bytes + ?", params![(keys.len() * SEAL) as i64])?;
        write.pragma_update(None, "user_version", SEALED)?;
    }
    write.commit()
}

/// A model with a cache before it; without a store it only counts.
pub struct Cached {
    inner: Box<dyn Model>,
    store: Option<Arc<Store>>,
    tally: Mutex<Tally>,
    clock: Mutex<Clock>,
    /// Why the last call without an answer had none.
    last_error: Mutex<Option<CallError>>,
    /// Calls that are being computed, and are not asked again meanwhile.
    flights: Mutex<HashSet<[u8; 32]>>,
    landed: Condvar,
    /// Calls that timed out since the last answer.
    silent: AtomicU32,
}

/// So many calls in a row without an answer in time: the model counts as gone, though it may still greet.
const MOST_SILENT: u32 = 8;

/// Calls that one thread computes; whatever happens to it, they do not stay claimed.
struct Claims<'a>(&'a Cached, Vec<[u8; 32]>);

impl Claims<'_> {
    /// Gives up the first so many.
    fn land(&mut self, n: usize) {
        let mut flights = lock(&self.0.flights);
        for key in self.1.drain(..n) {
            flights.remove(&key);
        }
        self.0.landed.notify_all();
    }
}

impl Claims<'_> {
    /// Gives up all but these.
    fn keep(&mut self, wanted: impl Fn(&[u8; 32]) -> bool) {
        let mut flights = lock(&self.0.flights);
        self.1.retain(|key| wanted(key) || !flights.remove(key));
        self.0.landed.notify_all();
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        self.land(self.1.len());
    }
}

impl Cached {
    pub fn new(inner: Box<dyn Model>, store: Option<Arc<Store>>) -> Self {
        Self {
            inner,
            store,
            tally: Mutex::default(),
            clock: Mutex::default(),
            last_error: Mutex::default(),
            flights: Mutex::default(),
            landed: Condvar::new(),
            silent: AtomicU32::new(0),
        }
    }

    /// Claims the calls that nobody computes at the moment; the others are left in `asked`. Without a store there is
    /// nowhere to look for what another computed, and all are claimed.
    fn claim<'a, T: Copy>(&'a self, asked: &mut Vec<([u8; 32], T)>) -> (Vec<([u8; 32], T)>, Claims<'a>) {
        let mine = if self.store.is_none() {
            std::mem::take(asked)
        } else {
            let mut flights = lock(&self.flights);
            asked.extract_if(.., |(key, _)| flights.insert(*key)).collect()
        };
        let keys = mine.iter().map(|(key, _)| *key).collect();
        (mine, Claims(self, keys))
    }

    /// Waits until nobody computes any of these calls.
    fn wait<T>(&self, others: &[([u8; 32], T)]) {
        let flights = lock(&self.flights);
        let busy = |flights: &mut HashSet<[u8; 32]>| others.iter().any(|(key, _)| flights.contains(key));
        drop(self.landed.wait_while(flights, busy).unwrap_or_else(PoisonError::into_inner));
    }

    pub fn tally(&self) -> Tally {
        *lock(&self.tally)
    }

    /// Why the last call without an answer had none.
    pub fn last_error(&self) -> Option<CallError> {
        lock(&self.last_error).clone()
    }

    fn key(&self, call: &Call) -> Option<[u8; 32]> {
        let call = postcard::to_stdvec(call).ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&VERSION.to_le_bytes());
        let identity = self.inner.card().identity.as_bytes();
        hasher.update(&(identity.len() as u64).to_le_bytes()).update(identity);
        Some(hasher.update(&call).finalize().into())
    }
}

impl Model for Cached {
    fn card(&self) -> &Card {
        self.inner.card()
    }

    fn is_alive(&self, kind: &Call) -> bool {
        self.silent.load(Ordering::Relaxed) < MOST_SILENT && self.inner.is_alive(kind)
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        let keys: Vec<[u8; 32]> = match calls.iter().map(|call| self.key(call)).collect() {
            Some(keys) => keys,
            // Only a call that cannot be written down has no key; there is none.
            None => return self.inner.answer(calls),
        };
        let known = match &self.store {
            Some(store) => store.find(&keys),
            None => calls.iter().map(|_| None).collect(),
        };
        let mut tally = Tally::default();
        let mut outcomes: HashMap<[u8; 32], Outcome> = HashMap::new();
        for (key, found) in keys.iter().zip(known) {
            if let Some((answer, seconds)) = found {
                tally.hits += 1;
                tally.seconds_saved += seconds;
                outcomes.insert(*key, Ok(answer));
            }
        }
        // Each missing call once, in the order in which it was asked first.
        let mut asked: Vec<([u8; 32], &Call)> = Vec::new();
        let mut listed = HashSet::new();
        for (key, call) in keys.iter().zip(calls) {
            if !outcomes.contains_key(key) && listed.insert(*key) {
                asked.push((*key, call));
            }
        }
        let (mut mine, mut claims) = self.claim(&mut asked);
        // Another thread may have computed some of them between the look and the claim.
        if let Some(store) = self.store.as_ref().filter(|_| !mine.is_empty()) {
            let keys: Vec<[u8; 32]> = mine.iter().map(|(key, _)| *key).collect();
            for (key, found) in keys.iter().zip(store.find(&keys)) {
                if let Some((answer, seconds)) = found {
                    tally.hits += 1;
                    tally.seconds_saved += seconds;
                    outcomes.insert(*key, Ok(answer));
                }
            }
            mine.retain(|(key, _)| !outcomes.contains_key(key));
            claims.keep(|key| !outcomes.contains_key(key));
        }
        for group in mine.chunks(GROUP) {
            let group_calls: Vec<Call> = group.iter().map(|(_, call)| (*call).clone()).collect();
            let before = lock(&self.clock).turn(|at_work| at_work + group.len());
            let answers = self.inner.answer(&group_calls);
            let seconds = lock(&self.clock).turn(|at_work| at_work - group.len()) - before;
            tally.misses += group.len() as u64;
            tally.failed += answers.iter().filter(|answer| answer.is_err()).count() as u64;
            if let Some(Err(error)) = answers.iter().rfind(|answer| answer.is_err()) {
                *lock(&self.last_error) = Some(error.clone());
            }
            tally.seconds_spent += seconds * group.len() as f64;
            for answer in &answers {
                match answer {
                    Ok(_) => self.silent.store(0, Ordering::Relaxed),
                    Err(CallError::Timeout(_)) => drop(self.silent.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => {}
                }
            }
            if let Some(store) = &self.store {
                let entries: Vec<_> = group
                    .iter()
                    .zip(&answers)
                    .filter_map(|((key, _), outcome)| {
                        let answer = outcome.as_ref().ok()?;
                        Some((*key, sealed(key, postcard::to_stdvec(answer).ok()?)))
                    })
                    .collect();
                store.keep(&entries, seconds);
            }
            outcomes.extend(group.iter().map(|(key, _)| *key).zip(answers));
            claims.land(group.len());
        }
        {
            let mut all = lock(&self.tally);
            *all = *all + tally;
        }
        // What another thread computed is in the store now; what it could not is asked again.
        if !asked.is_empty() {
            drop(claims);
            self.wait(&asked);
            let calls: Vec<Call> = asked.iter().map(|(_, call)| (*call).clone()).collect();
            outcomes.extend(asked.iter().map(|(key, _)| *key).zip(self.answer(&calls)));
        }
        keys.iter().map(|key| outcomes[key].clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{CallError, Finish, Text};
    use std::sync::atomic::AtomicU64;

    /// Answers with the text's own vector of lengths, and counts.
    struct Counting {
        card: Card,
        asked: Arc<AtomicU64>,
    }

    impl Model for Counting {
        fn card(&self) -> &Card {
            &self.card
        }

        fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
            self.asked.fetch_add(calls.len() as u64, Ordering::Relaxed);
            calls
                .iter()
                .map(|call| match call {
                    Call::Embed { text } if text == "bad" => Err(CallError::Failed("bad".into())),
                    Call::Embed { text } => {
                        Ok(Answer::Vector { values: vec![text.len() as f32; 100], cut_tokens: 0 })
                    }
                    _ => Ok(Answer::Text(Text {
                        text: "t".into(),
                        finish: Finish::Stop,
                        prompt_tokens: 1,
                        tokens: 1,
                        cut_tokens: 0,
                    })),
                })
                .collect()
        }
    }

    fn model(identity: &str, store: Option<&Arc<Store>>) -> (Cached, Arc<AtomicU64>) {
        let asked = Arc::new(AtomicU64::new(0));
        let card = Card { name: "m".into(), identity: identity.into(), window: 10 };
        let inner = Counting { card, asked: Arc::clone(&asked) };
        (Cached::new(Box::new(inner), store.cloned()), asked)
    }

    fn embed(text: &str) -> Call {
        Call::Embed { text: text.to_owned() }
    }

    #[test]
    fn an_answer_is_computed_once_a_model() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&folder.path().join("a/calls.sqlite"), 1 << 20).unwrap());
        let (first, asked) = model("one", Some(&store));
        let calls = [embed("a"), embed("bb"), embed("a"), embed("bad")];
        let answers = first.answer(&calls);
        assert_eq!(asked.load(Ordering::Relaxed), 3, "equal calls of one batch are asked once");
        assert_eq!(answers[0], answers[2]);
        assert!(answers[3].is_err());
        assert_eq!(first.answer(&calls), answers);
        assert_eq!(asked.load(Ordering::Relaxed), 4, "an error is asked again");
        let tally = first.tally();
        assert_eq!((tally.hits, tally.misses, tally.failed), (3, 4, 2));

        let (same, asked) = model("one", Some(&store));
        same.answer(&calls[..2]);
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        let (other, asked) = model("two", Some(&store));
        other.answer(&calls[..2]);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    /// Takes 200 milliseconds for whatever it is asked.
    struct Slow(Counting);

    impl Model for Slow {
        fn card(&self) -> &Card {
            self.0.card()
        }

        fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
            std::thread::sleep(Duration::from_millis(200));
            self.0.answer(calls)
        }
    }

    #[test]
    fn seconds_are_those_of_the_model_whoever_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&folder.path().join("calls.sqlite"), 1 << 20).unwrap());
        let card = Card { name: "m".into(), identity: "slow".into(), window: 10 };
        let slow = || Box::new(Slow(Counting { card: card.clone(), asked: Arc::default() }));
        let ask = |cached: &Cached| {
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    scope.spawn(move || {
                        cached.answer(&[embed(&"a".repeat(thread)), embed(&"b".repeat(thread + 1))])
                    });
                }
            });
            cached.tally()
        };
        let begun = Instant::now();
        let spent = ask(&Cached::new(slow(), Some(Arc::clone(&store))));
        let seconds = begun.elapsed().as_secs_f64();
        assert!(0.2 <= spent.seconds_spent && spent.seconds_spent <= seconds, "{spent:?} in {seconds} s");
        let saved = ask(&Cached::new(slow(), Some(store)));
        assert_eq!((saved.misses, saved.seconds_spent), (0, 0.0));
        assert!((saved.seconds_saved - spent.seconds_spent).abs() < 1e-6, "{saved:?} {spent:?}");
        // One after the other, all of it.
        let cached = Cached::new(slow(), None);
        (0..3).for_each(|n| drop(cached.answer(&[embed(&"c".repeat(n))])));
        assert!(cached.tally().seconds_spent >= 0.6);
    }

    #[test]
    fn a_file_deleted_in_mid_run_is_told_and_the_run_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.sqlite");
        let store = Arc::new(Store::open(&path, 1 << 20).unwrap());
        let (cached, _) = model("one", Some(&store));
        let expected = cached.answer(&[embed("a"), embed("bb")]);
        assert_eq!(store.failure(), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(cached.answer(&[embed("a"), embed("bb")]), expected);
        let told = store.failure().unwrap();
        assert!(told.contains("it was deleted or replaced during the run"), "{told}");
        // Another file of that name is not the one that was opened.
        Store::open(&path, 1 << 20).unwrap();
        assert!(cached.answer(&[embed("ccc")])[0].is_ok());
        assert_eq!(store.failure(), Some(told), "once");
    }

    /// Greets, and answers nothing else in time.
    struct Polite(Card);

    impl Model for Polite {
        fn card(&self) -> &Card {
            &self.0
        }

        fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
            let greets = |call: &Call| [Call::hello(true), Call::hello(false)].contains(call);
            let greeting =
                Text { text: "Hi".into(), finish: Finish::Stop, prompt_tokens: 1, tokens: 1, cut_tokens: 0 };
            let answer = |call| {
                if greets(call) { Ok(Answer::Text(greeting.clone())) } else { Err(CallError::Timeout(3)) }
            };
            calls.iter().map(answer).collect()
        }
    }

    #[test]
    fn a_model_that_only_greets_is_gone_after_some_calls() {
        let card = Card { name: "polite".to_owned(), identity: "polite".to_owned(), window: 99 };
        let cached = Cached::new(Box::new(Polite(card)), None);
        let Call::Generate { prompt, .. } = Call::hello(true) else { unreachable!() };
        let call = Call::Generate { prompt, max_tokens: 9, grammar: None, stop: Vec::new(), sampling: None };
        for _ in 1..MOST_SILENT {
            assert!(crate::models::ask(&cached, std::slice::from_ref(&call)).is_ok());
        }
        assert!(crate::models::ask(&cached, std::slice::from_ref(&call)).is_err());
    }

    #[test]
    fn a_call_asked_by_two_at_once_is_computed_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&folder.path().join("calls.sqlite"), 1 << 20).unwrap());
        let asked = Arc::new(AtomicU64::new(0));
        let card = Card { name: "slow".to_owned(), identity: "slow".to_owned(), window: 99 };
        let slow = Slow(Counting { card, asked: Arc::clone(&asked) });
        let cached = Cached::new(Box::new(slow), Some(store));
        // What fails is asked again by whoever waited for it.
        let calls = |texts: &[&str]| texts.iter().map(|text| embed(text)).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            for texts in [["a", "bb", "bad"], ["bb", "ccc", "bad"], ["ccc", "a", "bad"]] {
                let cached = &cached;
                scope.spawn(move || {
                    let outcomes = cached.answer(&calls(&texts));
                    for (text, outcome) in texts.iter().zip(&outcomes) {
                        match outcome {
                            Ok(Answer::Vector { values, .. }) => assert_eq!(values[0], text.len() as f32),
                            other => assert!(*text == "bad" && other.is_err()),
                        }
                    }
                });
            }
        });
        assert_eq!(asked.load(Ordering::Relaxed), 3 + 3);
        assert_eq!((cached.tally().misses, cached.tally().hits), (6, 3));
        assert!(lock(&cached.flights).is_empty());
    }

    #[test]
    fn without_a_store_all_is_computed() {
        let (cached, asked) = model("one", None);
        cached.answer(&[embed("a")]);
        cached.answer(&[embed("a")]);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_was_not_used_for_long_leaves_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.sqlite");
        let store = Arc::new(Store::open(&path, 5_000).unwrap());
        let (cached, asked) = model("one", Some(&store));
        let calls: Vec<Call> = (0..10).map(|n| embed(&"x".repeat(n))).collect();
        cached.answer(&calls);
        lock(&store.connection).execute("UPDATE answers SET used = used - 100", []).unwrap();
        let bytes = store.bytes().unwrap();
        assert!(bytes < 5_000, "{bytes}");
        // Each vector is some 400 bytes: two more would be over the cap.
        let more: Vec<Call> = (20..23).map(|n| embed(&"x".repeat(n))).collect();
        cached.answer(&more);
        let bytes = store.bytes().unwrap();
        assert!(bytes <= 4_500, "{bytes}");
        let asked_before = asked.load(Ordering::Relaxed);
        cached.answer(&more);
        assert_eq!(asked.load(Ordering::Relaxed), asked_before, "the newest have stayed");
        let counted: i64 = lock(&store.connection)
            .query_row("SELECT sum(length(answer)) FROM answers", [], |row| row.get(0))
            .unwrap();
        assert_eq!(counted, bytes);
    }

    #[test]
    fn two_stores_share_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.sqlite");
        let stores: Vec<_> = (0..2).map(|_| Arc::new(Store::open(&path, 1 << 30).unwrap())).collect();
        std::thread::scope(|scope| {
            for store in &stores {
                scope.spawn(move || {
                    let (cached, _) = model("one", Some(store));
                    for n in 0..200 {
                        cached.answer(&[embed(&"y".repeat(n))]);
                    }
                    assert_eq!(store.failure(), None);
                });
            }
        });
        let (cached, asked) = model("one", Some(&stores[0]));
        cached.answer(&(0..200).map(|n| embed(&"y".repeat(n))).collect::<Vec<_>>());
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }

    const CHILD: &str = "TRAJPRESS_TEST_CACHE";

    /// Calls that a child makes, group by group.
    fn calls_of_a_child() -> impl Iterator<Item = Vec<Call>> {
        (0..400).map(|group| (0..10).map(|n| embed(&"z".repeat(group * 10 + n))).collect())
    }

    /// The other process of the next test, which starts it; without that, nothing.
    #[test]
    #[ignore = "run by `processes_share_a_file_and_survive_a_kill`"]
    fn child() {
        let store = Arc::new(Store::open(Path::new(&std::env::var_os(CHILD).unwrap()), 1 << 30).unwrap());
        let (cached, _) = model("one", Some(&store));
        for calls in calls_of_a_child() {
            cached.answer(&calls);
        }
        assert_eq!(store.failure(), None);
    }

    #[test]
    fn processes_share_a_file_and_survive_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.sqlite");
        let start = || {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["models::cache::tests::child", "--exact", "--ignored"])
                .env(CHILD, &path)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        };
        let store = Arc::new(Store::open(&path, 1 << 30).unwrap());
        let rows = |store: &Store| -> i64 {
            lock(&store.connection).query_row("SELECT count(*) FROM answers", [], |row| row.get(0)).unwrap()
        };
        // Alone and killed while it writes, three times; then two at once, to their ends.
        for at in [20, 500, 1_000] {
            let mut killed = start();
            while rows(&store) < at {
                assert_eq!(killed.try_wait().unwrap(), None, "it writes more than that");
                std::thread::yield_now();
            }
            killed.kill().unwrap();
            killed.wait().unwrap();
        }
        let mut two = [start(), start()];
        assert!(two.iter_mut().all(|child| child.wait().unwrap().success()));

        let connection = lock(&store.connection);
        let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        let counted: i64 =
            connection.query_row("SELECT sum(length(answer)) FROM answers", [], |row| row.get(0)).unwrap();
        drop(connection);
        assert_eq!(counted, store.bytes().unwrap(), "the size goes with the answers, killed or not");
        let (cached, _) = model("one", Some(&store));
        let (fresh, _) = model("one", None);
        for calls in calls_of_a_child() {
            assert_eq!(cached.answer(&calls), fresh.answer(&calls));
        }
        assert_eq!(cached.tally().misses, 0);
    }

    #[test]
    fn the_file_is_no_larger_than_its_cap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.sqlite");
        let cap = 2 << 20;
        let store = Store::open(&path, cap).unwrap();
        // Short answers take several times their bytes.
        for n in 0..60u32 {
            let entries: Vec<_> = (0..500u32)
                .map(|k| (*blake3::hash(&(n * 500 + k).to_le_bytes()).as_bytes(), vec![7; 20]))
                .collect();
            store.keep(&entries, 0.1);
        }
        let checkpoint = |connection: &Connection| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        };
        checkpoint(&lock(&store.connection));
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!((cap / 2..=cap).contains(&bytes), "{bytes}");
        assert!(store.bytes().unwrap() > 0);
    }

    /// Each bit of the answer and of its hash, one at a time: another answer never comes out.
    #[test]
    fn a_damaged_answer_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&folder.path().join("calls.sqlite"), 1 << 20).unwrap());
        let (cached, asked) = model("one", Some(&store));
        let calls = [embed("a"), embed("bb")];
        let answers = cached.answer(&calls);
        let key = cached.key(&calls[0]).unwrap();
        let read = || -> Vec<u8> {
            let select = "SELECT answer FROM answers WHERE key = ?";
            lock(&store.connection).query_row(select, params![key.as_slice()], |row| row.get(0)).unwrap()
        };
        let write = |answer: &[u8]| {
            let update = "UPDATE answers SET answer = ? WHERE key = ?";
            lock(&store.connection).execute(update, params![answer, key.as_slice()]).unwrap();
        };
        let good = read();
        for bit in (0..8 * good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            write(&bad);
            let before = asked.load(Ordering::Relaxed);
            assert_eq!(cached.answer(&calls), answers, "bit {bit}");
            assert_eq!(asked.load(Ordering::Relaxed), before + 1);
            assert_eq!(read(), good);
        }
        // The answer to another call, with its own hash.
        let other = cached.key(&calls[1]).unwrap();
        let copy = "UPDATE answers SET answer = (SELECT answer FROM answers WHERE key = ?) WHERE key = ?";
        lock(&store.connection).execute(copy, params![other.as_slice(), key.as_slice()]).unwrap();
        assert_eq!(cached.answer(&calls), answers);
    }

    #[test]
    fn answers_of_an_older_file_get_their_hashes_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.sqlite");
        let store = Arc::new(Store::open(&path, 1 << 20).unwrap());
        let (cached, _) = model("one", Some(&store));
        let calls: Vec<Call> = (0..20).map(|n| embed(&"x".repeat(n))).collect();
        let answers = cached.answer(&calls);
        let bytes = store.bytes().unwrap();
        lock(&store.connection)
            .execute_batch(
                "UPDATE answers SET answer = substr(answer, 1, length(answer) - 16);
                 UPDATE size SET bytes = bytes - 20 * 16; PRAGMA user_version = 0;",
            )
            .unwrap();
        drop((cached, store));
        for _ in 0..2 {
            let store = Arc::new(Store::open(&path, 1 << 20).unwrap());
            let (cached, asked) = model("one", Some(&store));
            assert_eq!(cached.answer(&calls), answers);
            assert_eq!((asked.load(Ordering::Relaxed), store.bytes().unwrap()), (0, bytes));
        }
    }

    #[test]
    fn a_file_that_is_no_store_is_told_with_its_cure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.sqlite");
        std::fs::write(&path, "not a database, but long enough to be taken for one".repeat(100)).unwrap();
        let error = format!("{:#}", Store::open(&path, 1).err().unwrap());
        assert!(error.ends_with("hint: name another file by --cache, or run with --no-cache"), "{error}");
    }
}
