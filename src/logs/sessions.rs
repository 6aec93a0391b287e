//! Sessions that begin alike: one that was resumed or forked begins with copies of what was said in the old
//! one, and both files are there.
//!
//! A session that is wholly the beginning of another one would count its steps twice, whichever comes
//! first; so this is found out before the reading. The heads of the files tell which sessions share their
//! first line of conversation; only those few are read once more here, and of each step a hash is kept
//! until its family is done.

use std::cmp::Reverse;
use std::collections::HashMap;

use anyhow::Context as _;
use rayon::prelude::*;

use crate::logs::formats::reading::list::is_passing;
use crate::logs::formats::reading::repair::padding;
use crate::logs::formats::{self, Entry, Origin, Reading};
use crate::trajectory::Step;

use super::input::{self, Input};
use super::record::short;

/// The first line of conversation is looked for in so much of a file, or behind it where it begins there.
const HEAD_BYTES: usize = 64 << 10;
/// Lines longer than this are not read to their end.
const MAX_HEAD_BYTES: usize = 64 << 20;

/// What a session shares with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// All of it is the beginning of the session of this input.
    Whole(usize),
    /// They begin alike and go on differently.
    Shared,
    /// The machine could not read it to compare.
    Unread,
}

/// What each file has in common with copies of the session in it. One that the machine could not read loses its digest, so that
/// it is read again the next time.
pub(super) fn origins(
    inputs: &mut [Input],
    forced: Option<&'static Entry>,
    threads: usize,
) -> anyhow::Result<Vec<Option<u128>>> {
    let origins: Vec<OriginOf> = formats::ALL
        .iter()
        .filter(|e| forced.is_none_or(|f| f.name == e.name))
        .filter_map(|e| match e.reading {
            Reading::Session { origin, .. }
            | Reading::Sessions { origin, .. }
            | Reading::Files { origin, .. } => Some(origin),
            _ => formats::FORKED.iter().find(|(name, _)| *name == e.name).map(|(_, origin)| *origin),
        })
        .collect();
    if origins.is_empty() {
        return Ok(vec![None; inputs.len()]);
    }
    let told = |input: &mut Input| {
        origin(input, &origins).unwrap_or_else(|error| {
            input.digest.take_if(|_| is_passing(&error));
            None
        })
    };
    Ok(pool(threads)?.install(|| inputs.par_iter_mut().map(told).collect()))
}

/// What sessions share, by the numbers of their inputs; `heard` gives what is known of all sessions in one, or none if the
/// machine could not read it.
pub(super) fn beginnings(
    mut origins: Vec<(u128, usize)>,
    threads: usize,
    heard: impl Fn(usize) -> Option<Vec<Heard>> + Sync,
) -> anyhow::Result<HashMap<usize, Beginning>> {
    origins.sort_unstable();
    let families: Vec<&[(u128, usize)]> =
        origins.chunk_by(|a, b| a.0 == b.0).filter(|family| family.len() > 1).collect();
    Ok(pool(threads)?.install(|| {
        families
            .par_iter()
            .flat_map_iter(|family| {
                let (mut sessions, mut told) = (Vec::new(), Vec::new());
                for &(_, i) in *family {
                    match heard(i) {
                        Some(all) => sessions.extend(all.into_iter().map(|heard| (i, heard))),
                        None => told.push((i, Beginning::Unread)),
                    }
                }
                told.extend(compare(&sessions));
                told
            })
            .collect()
    }))
}

fn pool(threads: usize) -> anyhow::Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start threads")
}

type OriginOf = fn(&[u8], bool) -> Origin;

/// What the session in a file has in common with its copies, hashed.
fn origin(input: &Input, origins: &[OriginOf]) -> std::io::Result<Option<u128>> {
    if input.problem.is_some() {
        return Ok(None);
    }
    let mut reader = input::open_for(&input.path, 8 << 10)?;
    let (mut head, mut n) = (Vec::new(), HEAD_BYTES);
    while n <= MAX_HEAD_BYTES {
        let is_whole = input::read_head(&mut *reader, &mut head, n)?;
        let mut is_open = false;
        for origin in origins {
            match origin(&head[padding(&head)..], is_whole) {
                Origin::Uuid(uuid) => return Ok(Some(short(blake3::hash(uuid.as_bytes())))),
                Origin::More => is_open = true,
                Origin::None => {}
            }
        }
        if !is_open {
            return Ok(None);
        }
        n *= 8;
    }
    Ok(None)
}

/// For each step the hash of the session up to it.
#[derive(Default)]
pub(super) struct Hashes {
    hash: blake3::Hasher,
    pub(super) up_to: Vec<u128>,
}

impl Hashes {
    pub(super) fn add(&mut self, role: &str, kind: &str, text: &str, tool: Option<&str>) {
        for part in [role, kind, text, tool.unwrap_or("")] {
            self.hash.update(&(part.len() as u64).to_le_bytes());
            self.hash.update(part.as_bytes());
        }
        self.up_to.push(short(self.hash.finalize()));
    }
}

/// Formats whose sessions are not told by a file each. A copy keeps the times of what it copies.
const IN_ONE_FILE: [&str; 3] = ["opencode", "opencode-export", "opencode-events"];

/// Whether sessions of a format are told by the times of their steps.
pub(super) fn is_timed(format: &str) -> bool {
    IN_ONE_FILE.contains(&format)
}

/// The tool of a step with its time, where that tells the session.
pub(super) fn with_time(tool: Option<&str>, time: Option<i64>) -> String {
    tool.unwrap_or("").to_owned() + &time.map_or(String::new(), |time| time.to_string())
}

/// What is known of a session before it is read.
pub(super) struct Heard {
    /// For each of its steps the hash of the session up to it.
    pub(super) up_to: Vec<u128>,
    /// Whether its log has usage.
    pub(super) has_usage: bool,
}

/// A session that is known of a file that is not there any more.
pub(super) struct GoneSession {
    pub(super) origin: u128,
    /// The hashes of its steps.
    pub(super) up_to: Vec<u128>,
    pub(super) has_usage: bool,
    pub(super) source_key: String,
    /// It is told by the times of its steps.
    pub(super) is_timed: bool,
}

impl Heard {
    pub(super) fn of(steps: &[Step]) -> Self {
        let mut hashes = Hashes::default();
        for step in steps {
            hashes.add(step.role.name(), step.kind.name(), &step.text, step.tool.as_deref());
        }
        Heard { up_to: hashes.up_to, has_usage: steps.iter().any(|step| step.usage.is_some()) }
    }
}

/// Compares sessions, in the order of their inputs, which may hold several. Of several that begin with all of a session the
/// longest one is told; of equal ones that which has usage stays, then the first, and before both one that does not stand alone in
/// its input.
fn compare(sessions: &[(usize, Heard)]) -> Vec<(usize, Beginning)> {
    let mut n_in: HashMap<usize, usize> = HashMap::new();
    sessions.iter().for_each(|(i, _)| *n_in.entry(*i).or_default() += 1);
    let rank = |(i, heard): &(usize, Heard)| (Reverse(n_in[i]), !heard.has_usage, *i);
    let holder = |session: &(usize, Heard)| {
        let (i, Heard { up_to, .. }) = session;
        let last = up_to.last()?;
        let is_of = |other: &(usize, Heard)| {
            let of = &other.1.up_to;
            of.get(up_to.len() - 1) == Some(last) && (of.len() > up_to.len() || rank(other) < rank(session))
        };
        let found = sessions.iter().filter(|other| other.0 != *i && is_of(other));
        found.max_by_key(|other| (other.1.up_to.len(), Reverse(rank(other)))).map(|(j, _)| *j)
    };
    let told: Vec<_> = sessions.iter().map(|session| (session, holder(session))).collect();
    let is_shared = |i: usize, first: Option<&u128>| {
        let mut kept = told.iter().filter(|(_, holder)| holder.is_none());
        first.is_some() && kept.any(|((j, heard), _)| *j != i && heard.up_to.first() == first)
    };
    let of_input = |runs: &[(&(usize, Heard), Option<usize>)]| {
        let ((i, heard), holder) = runs.iter().find(|(_, holder)| holder.is_none()).unwrap_or(&runs[0]);
        match holder {
            Some(j) => Some((*i, Beginning::Whole(*j))),
            None => is_shared(*i, heard.up_to.first()).then_some((*i, Beginning::Shared)),
        }
    };
    told.chunk_by(|(a, _), (b, _)| a.0 == b.0).filter_map(of_input).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Kind, Role, step};

    /// `$`: a step with usage.
    fn heard(text: &str) -> Heard {
        let mut steps: Vec<Step> = Vec::new();
        for c in text.chars() {
            match c {
                '$' => steps.last_mut().unwrap().usage = Some(Box::default()),
                c => steps.push(step(Role::User, Kind::Message, c)),
            }
        }
        Heard::of(&steps)
    }

    fn told(sessions: &[&str]) -> Vec<(usize, Beginning)> {
        let sessions: Vec<_> = sessions.iter().enumerate().map(|(i, text)| (i, heard(text))).collect();
        compare(&sessions)
    }

    #[test]
    fn a_session_that_is_the_beginning_of_another_is_told() {
        use Beginning::{Shared, Whole};
        assert_eq!(told(&["ab", "abcd", "abc"]), [(0, Whole(1)), (2, Whole(1))]);
        assert_eq!(told(&["abcd", "ab"]), [(1, Whole(0))]);
        assert_eq!(told(&["ab", "ab", "ab"]), [(1, Whole(0)), (2, Whole(0))]);
        // What one of two equal ones has of usage stays; more of the session counts before it.
        assert_eq!(told(&["ab", "a$b"]), [(0, Whole(1))]);
        assert_eq!(told(&["abc", "a$b"]), [(1, Whole(0))]);
        // Two forks of one session: both stay, and what is part of either goes.
        assert_eq!(
            told(&["abx", "aby", "ab", "abyz"]),
            [(0, Shared), (1, Whole(3)), (2, Whole(3)), (3, Shared)]
        );
        assert_eq!(told(&["ab", "xy", ""]), []);
        // An input with two tries, of which another input has one.
        let input = |i: usize, text: &str| (i, heard(text));
        assert_eq!(compare(&[input(0, "aby"), input(1, "abx"), input(1, "aby")]), [(0, Whole(1))]);
        assert_eq!(compare(&[input(0, "abx"), input(0, "aby"), input(1, "aby")]), [(1, Whole(0))]);
    }
}
