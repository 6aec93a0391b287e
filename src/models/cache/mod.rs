//! Answers kept on disk: a call that was answered once is not computed again, whoever asks.
//!
//! The key is a hash of all that an answer depends on ([`Card::identity`] and the call). The store is SQLite with
//! a write-ahead log: a `kill -9` loses at most the answers of the last moment, and any number of processes may
//! share it. Only answers are kept; an error is asked again.

mod store;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::{Call, CallError, Card, Model, Outcome};
pub use store::Store;

/// Raised when the form of keys or answers changes: older entries are then never found, and leave by age.
const VERSION: u32 = 1;
/// Names a call by all that its answer depends on.
type Key = [u8; 32];

/// Answers are written after so many calls, so that a killed run keeps what it paid for.
const GROUP: usize = 64;
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    flights: Mutex<HashSet<Key>>,
    landed: Condvar,
    /// Calls that timed out since the last answer.
    silent: AtomicU32,
}

/// So many calls in a row without an answer in time: the model counts as gone, though it may still greet.
const MOST_SILENT: u32 = 8;

/// Calls that one thread computes; whatever happens to it, they do not stay claimed.
struct Claims<'a>(&'a Cached, Vec<Key>);

impl Claims<'_> {
    /// Gives up the first so many.
    fn land(&mut self, n: usize) {
        let mut flights = lock(&self.0.flights);
        for key in self.1.drain(..n) {
            flights.remove(&key);
        }
        self.0.landed.notify_all();
    }

    /// Gives up all but these.
    fn keep(&mut self, wanted: impl Fn(&Key) -> bool) {
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
    fn claim<'a, T: Copy>(&'a self, asked: &mut Vec<(Key, T)>) -> (Vec<(Key, T)>, Claims<'a>) {
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
    fn wait<T>(&self, others: &[(Key, T)]) {
        let flights = lock(&self.flights);
        let busy = |flights: &mut HashSet<Key>| others.iter().any(|(key, _)| flights.contains(key));
        drop(self.landed.wait_while(flights, busy).unwrap_or_else(PoisonError::into_inner));
    }

    pub fn tally(&self) -> Tally {
        *lock(&self.tally)
    }

    /// Why the last call without an answer had none.
    pub fn last_error(&self) -> Option<CallError> {
        lock(&self.last_error).clone()
    }

    /// Adds the answers that the store knows.
    fn look(&self, keys: &[Key], outcomes: &mut HashMap<Key, Outcome>, tally: &mut Tally) {
        let Some(store) = &self.store else { return };
        for (key, found) in keys.iter().zip(store.find(keys)) {
            if let Some((answer, seconds)) = found {
                tally.hits += 1;
                tally.seconds_saved += seconds;
                outcomes.insert(*key, Ok(answer));
            }
        }
    }

    /// Asks the model, and keeps its answers.
    fn compute(&self, group: &[(Key, &Call)], tally: &mut Tally) -> Vec<Outcome> {
        let calls: Vec<Call> = group.iter().map(|(_, call)| (*call).clone()).collect();
        let before = lock(&self.clock).turn(|at_work| at_work + group.len());
        let answers = self.inner.answer(&calls);
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
            let entry = |((key, _), outcome): (&(Key, &Call), &Outcome)| {
                Some((*key, postcard::to_stdvec(outcome.as_ref().ok()?).ok()?))
            };
            store.keep(group.iter().zip(&answers).filter_map(entry).collect(), seconds);
        }
        answers
    }

    fn key(&self, call: &Call) -> Option<Key> {
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
        let keys: Vec<Key> = match calls.iter().map(|call| self.key(call)).collect() {
            Some(keys) => keys,
            // Only a call that cannot be written down has no key; there is none.
            None => return self.inner.answer(calls),
        };
        let mut tally = Tally::default();
        let mut outcomes: HashMap<Key, Outcome> = HashMap::new();
        self.look(&keys, &mut outcomes, &mut tally);
        // Each missing call once, in the order in which it was asked first.
        let mut asked: Vec<(Key, &Call)> = Vec::new();
        let mut listed = HashSet::new();
        for (key, call) in keys.iter().zip(calls) {
            if !outcomes.contains_key(key) && listed.insert(*key) {
                asked.push((*key, call));
            }
        }
        let (mut mine, mut claims) = self.claim(&mut asked);
        // Another thread may have computed some of them between the look and the claim.
        if self.store.is_some() && !mine.is_empty() {
            let keys: Vec<Key> = mine.iter().map(|(key, _)| *key).collect();
            self.look(&keys, &mut outcomes, &mut tally);
            mine.retain(|(key, _)| !outcomes.contains_key(key));
            claims.keep(|key| !outcomes.contains_key(key));
        }
        for group in mine.chunks(GROUP) {
            let answers = self.compute(group, &mut tally);
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
