//! What programs have answered: the same request has the same answer, and is asked once as long as that is remembered.
//!
//! A live conversation is replayed at each of its calls, and the events that a run shows are replayed after it.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::Value;

/// Bytes of answers; where there are more, all are forgotten.
const MOST: usize = 16 << 20;

/// By request: the number that it had, and the answer.
#[derive(Default)]
struct Known {
    answers: HashMap<blake3::Hash, (u64, String)>,
    bytes: usize,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Of a request without its number to a program of this name and hash; none where nobody knows which program it is.
pub fn key(program: &str, command: &[String], request: &Value) -> Option<blake3::Hash> {
    let all = || format!("{program}\n{command:?}\n{request}");
    (!program.is_empty()).then(|| blake3::hash(all().as_bytes()))
}

pub fn known(key: &blake3::Hash) -> Option<(u64, String)> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).answers.get(key).cloned()
}

pub fn note(key: blake3::Hash, number: u64, line: &str) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.bytes + line.len() > MOST {
        *known = Known::default();
    }
    if line.len() <= MOST && known.answers.insert(key, (number, line.to_owned())).is_none() {
        known.bytes += line.len() + 100;
    }
}
