//! Chooses partner trajectories, in whose contexts chance is measured.
//!
//! A partner has the same format, another task, and (as `other_repository`) another repository or
//! (as `same_repository`) the same. It should have at least as many tokens, so that its context can
//! be cut to equal length, and be near in size. Near linear: each kind sorts once by size and looks
//! at a few neighbours; runs of neighbours that cannot be partners are skipped by one jump.

use std::collections::BTreeMap;

use crate::store::PartnerRow;

/// Partners of each kind.
pub const N_PARTNERS: usize = 5;
/// From how many neighbours of larger or equal size the partners are drawn.
const N_CANDIDATES: usize = 15;

/// What the choice depends on. Strings are interned by [`Interner`], so that memory is a few words a
/// trajectory.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub id: String,
    pub format: u32,
    /// Unknown is no repository to compare with.
    pub repository: Option<u32>,
    pub task: u32,
    pub tokens: u64,
}

/// Gives equal strings equal numbers.
#[derive(Default)]
pub struct Interner {
    numbers: BTreeMap<String, u32>,
}

impl Interner {
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// The partners of all trajectories, in the order of `candidates`, kinds apart.
pub fn partners(candidates: &[Candidate]) -> Vec<PartnerRow> {
    let known: Vec<usize> = (0..candidates.len()).filter(|&i| candidates[i].repository.is_some()).collect();
    let other = choose(candidates, &known, |c| c.format, |c| c.repository);
    let same = choose(candidates, &known, |c| (c.format, c.repository), |c| Some(c.task));
    let mut rows = Vec::new();
    for (i, candidate) in candidates.iter().enumerate() {
        for (kind, chosen) in [("other_repository", &other[i]), ("same_repository", &same[i])] {
            rows.extend(chosen.iter().enumerate().map(|(rank, &partner)| PartnerRow {
                trajectory: candidate.id.clone(),
                kind: kind.to_owned(),
                rank: rank as u32,
                partner: candidates[partner].id.clone(),
            }));
        }
    }
    rows
}

/// For each candidate, partners of the same `pool` that differ in `avoid` (and always in task).
fn choose<P: Ord>(
    all: &[Candidate],
    known: &[usize],
    pool: impl Fn(&Candidate) -> P,
    avoid: impl Fn(&Candidate) -> Option<u32>,
) -> Vec<Vec<usize>> {
    let mut chosen = vec![Vec::new(); all.len()];
    let mut pools: BTreeMap<P, Vec<usize>> = BTreeMap::new();
    for &i in known {
        pools.entry(pool(&all[i])).or_default().push(i);
    }
    for (_, mut members) in pools {
        members.sort_by(|&a, &b| (all[a].tokens, &all[a].id).cmp(&(all[b].tokens, &all[b].id)));
        let keys: Vec<Option<u32>> = members.iter().map(|&i| avoid(&all[i])).collect();
        let (before, after) = jumps(&keys);
        for at in 0..members.len() {
            chosen[members[at]] = choose_one(all, &members, &keys, at, &before, &after);
        }
    }
    chosen
}

/// For each place, the nearest place below and above where the key differs; a place outside is
/// `usize::MAX` below and `len` above.
fn jumps(keys: &[Option<u32>]) -> (Vec<usize>, Vec<usize>) {
    let n = keys.len();
    let mut before = vec![usize::MAX; n];
    let mut after = vec![n; n];
    for i in 1..n {
        before[i] = if keys[i] == keys[i - 1] { before[i - 1] } else { i - 1 };
    }
    for i in (0..n.saturating_sub(1)).rev() {
        after[i] = if keys[i] == keys[i + 1] { after[i + 1] } else { i + 1 };
    }
    (before, after)
}

fn choose_one(
    all: &[Candidate],
    members: &[usize],
    keys: &[Option<u32>],
    at: usize,
    before: &[usize],
    after: &[usize],
) -> Vec<usize> {
    let me = &all[members[at]];
    let fits = |place: usize| {
        let other = &all[members[place]];
        (other.task != me.task && other.id != me.id).then_some(members[place])
    };
    let mut larger = Vec::new();
    let mut place = after[at];
    while place < members.len() && larger.len() < N_CANDIDATES {
        if keys[place] == keys[at] {
            place = after[place];
            continue;
        }
        larger.extend(fits(place));
        place += 1;
    }
    let seed = |i: usize| *blake3::hash(format!("{} {}", me.id, all[i].id).as_bytes()).as_bytes();
    larger.sort_by_cached_key(|&i| seed(i));
    let mut chosen = distinct_tasks_first(all, larger);
    chosen.truncate(N_PARTNERS);
    let mut place = before[at];
    while place != usize::MAX && chosen.len() < N_PARTNERS {
        if keys[place] == keys[at] {
            place = before[place];
            continue;
        }
        chosen.extend(fits(place));
        place = place.wrapping_sub(1);
    }
    chosen
}

/// Several runs of one task are nearly one partner.
fn distinct_tasks_first(all: &[Candidate], candidates: Vec<usize>) -> Vec<usize> {
    let mut tasks = Vec::new();
    let is_new = |&i: &usize| {
        let new = !tasks.contains(&all[i].task);
        tasks.push(all[i].task);
        new
    };
    let (mut first, rest): (Vec<usize>, Vec<usize>) = candidates.into_iter().partition(is_new);
    first.extend(rest);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(n: u64, repository: Option<u32>, task: u32) -> Candidate {
        Candidate { id: format!("{n:032x}"), format: 0, repository, task, tokens: n }
    }

    fn of<'a>(rows: &'a [PartnerRow], n: u64, kind: &str) -> Vec<&'a str> {
        let id = format!("{n:032x}");
        rows.iter()
            .filter(|r| r.trajectory == id && r.kind == kind)
            .map(|r| r.partner.trim_start_matches('0'))
            .collect()
    }

    #[test]
    fn partners_differ_in_task_and_are_large_enough() {
        // Two repositories by turns, two runs of each task.
        let all: Vec<Candidate> = (1..=40).map(|n| candidate(n, Some(n as u32 % 2), n as u32 / 4)).collect();
        let rows = partners(&all);
        for n in 1..=20u64 {
            for (kind, same) in [("other_repository", false), ("same_repository", true)] {
                let chosen = of(&rows, n, kind);
                assert_eq!(chosen.len(), N_PARTNERS);
                for partner in chosen {
                    let p = u64::from_str_radix(partner, 16).unwrap();
                    assert!(p > n && (p % 2 == n % 2) == same && p / 4 != n / 4, "{n} {p}");
                }
            }
        }
        // The largest has only smaller ones to choose from: the nearest.
        assert_eq!(of(&rows, 40, "other_repository"), ["27", "25", "23", "21", "1f"]);
        assert_eq!(rows, partners(&all));
    }

    #[test]
    fn none_without_a_known_repository() {
        let all: Vec<Candidate> = (1..=9).map(|n| candidate(n, None, n as u32)).collect();
        assert!(partners(&all).is_empty());
    }

    #[test]
    fn one_repository_is_linear() {
        let all: Vec<Candidate> =
            (1..=100_000).map(|n| candidate(n, Some(u32::from(n == 50_000)), n as u32)).collect();
        let rows = partners(&all);
        assert_eq!(of(&rows, 7, "other_repository"), ["c350"]);
    }
}
