//! Chooses partner trajectories, in whose contexts chance is measured.
//!
//! A partner has the same format, another task, and (as `other_repository`) another repository or
//! (as `same_repository`) the same. It should have at least as many tokens, so that a prompt of any
//! length meets one as long; be at most twice the size, which is what it costs; and stand near in the
//! data, so that a run which goes through the data in order still has it in memory. So of the
//! neighbours that can be partners, the nearest of such a size come first, then the smallest of the
//! larger ones, then the largest of the smaller ones. Linear: a fixed number of neighbours is looked
//! at, and a run of those that cannot be partners is skipped by one jump.
//!
//! Who has partners keeps them when data come: free places alone are filled, so that what was computed with them stays true.

use std::collections::{BTreeMap, HashMap};

use crate::store::PartnerRow;

/// Partners of each kind.
pub const N_PARTNERS: usize = 5;
/// From how many neighbours on either side the partners are chosen.
const N_NEIGHBOURS: usize = 32;

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

/// The partners of all trajectories, in the order of `candidates`, which is that of the data. `before`: those that some have,
/// in any order; also how many trajectories have more than they had.
pub fn partners(candidates: &[Candidate], before: &[PartnerRow]) -> (Vec<PartnerRow>, u64) {
    let known: Vec<usize> = (0..candidates.len()).filter(|&i| candidates[i].repository.is_some()).collect();
    let other = choose(candidates, &known, |c| c.format, |c| c.repository);
    let same = choose(candidates, &known, |c| (c.format, c.repository), |c| Some(c.task));
    let mut rows = Vec::new();
    let mut kept = Kept::new(candidates, before);
    let mut n_grown = 0;
    for (i, candidate) in candidates.iter().enumerate() {
        let mut is_grown = false;
        for (kind, chosen) in [(OTHER, &other[i]), (SAME, &same[i])] {
            let (chosen, has_grown) = kept.filled(i, kind, chosen);
            is_grown |= has_grown;
            rows.extend(chosen.iter().enumerate().map(|(rank, &partner)| PartnerRow {
                trajectory: candidate.id.clone(),
                kind: kind.to_owned(),
                rank: rank as u32,
                partner: candidates[partner].id.clone(),
            }));
        }
        n_grown += u64::from(is_grown);
    }
    (rows, n_grown)
}

const OTHER: &str = "other_repository";
const SAME: &str = "same_repository";

/// Partners of before, by trajectory and kind.
struct Kept {
    of: HashMap<(usize, &'static str), Vec<(u32, usize)>>,
}

impl Kept {
    /// Those that are still there, and still can be partners.
    fn new(all: &[Candidate], before: &[PartnerRow]) -> Self {
        let places: HashMap<&str, usize> = all.iter().enumerate().map(|(i, c)| (c.id.as_str(), i)).collect();
        let place = |id: &str| places.get(id).copied();
        let mut of: HashMap<_, Vec<(u32, usize)>> = HashMap::new();
        for row in before {
            let (Some(me), Some(partner)) = (place(&row.trajectory), place(&row.partner)) else { continue };
            let kind = if row.kind == OTHER { OTHER } else { SAME };
            if can_be(kind, &all[me], &all[partner]) {
                of.entry((me, kind)).or_default().push((row.rank, partner));
            }
        }
        Kept { of }
    }

    /// The partners of one: those that it has, then others until all places are taken; and whether it had some and has more.
    fn filled(&mut self, me: usize, kind: &'static str, chosen: &[usize]) -> (Vec<usize>, bool) {
        let Some(mut kept) = self.of.remove(&(me, kind)) else { return (chosen.to_vec(), false) };
        kept.sort_unstable();
        let mut filled: Vec<usize> = kept.into_iter().map(|(_, partner)| partner).collect();
        let n = filled.len();
        let is_new = |i: &usize| !filled.contains(i);
        let more: Vec<usize> =
            chosen.iter().copied().filter(is_new).take(N_PARTNERS.saturating_sub(n)).collect();
        filled.extend(more);
        (filled.clone(), filled.len() > n)
    }
}

fn can_be(kind: &str, me: &Candidate, partner: &Candidate) -> bool {
    let is_same_repository = me.repository == partner.repository;
    me.format == partner.format
        && me.task != partner.task
        && me.repository.is_some()
        && partner.repository.is_some()
        && is_same_repository == (kind == SAME)
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
    for members in pools.into_values() {
        let keys: Vec<Option<u32>> = members.iter().map(|&i| avoid(&all[i])).collect();
        let (before, after) = jumps(&keys);
        for (at, &member) in members.iter().enumerate() {
            let before = neighbours(at, &keys, &before, usize::MAX);
            let after = neighbours(at, &keys, &after, 1);
            let places = after.enumerate().chain(before.enumerate());
            chosen[member] = choose_one(all, member, places.map(|(distance, at)| (distance, members[at])));
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

/// The nearest places to one side of `at` with another key; `step` is the way to the next place, modulo 2^64.
fn neighbours<'a>(
    at: usize,
    keys: &'a [Option<u32>],
    jump: &'a [usize],
    step: usize,
) -> impl Iterator<Item = usize> + 'a {
    let skip = move |place: usize| match keys.get(place) {
        Some(key) if *key == keys[at] => jump[place],
        _ => place,
    };
    let first = Some(skip(at));
    std::iter::successors(first, move |&place| Some(skip(place.wrapping_add(step))))
        .take_while(|&place| place < keys.len())
        .take(N_NEIGHBOURS)
}

/// Chooses among neighbours, given with their distance.
fn choose_one(all: &[Candidate], me: usize, neighbours: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let me = &all[me];
    let rank = |distance: usize, tokens: u64| match tokens {
        _ if tokens < me.tokens => (2, u64::MAX - tokens),
        _ if tokens > me.tokens.saturating_mul(2) => (1, tokens),
        _ => (0, distance as u64),
    };
    let mut fitting: Vec<((u8, u64), usize)> = neighbours
        .filter(|&(_, i)| all[i].task != me.task && all[i].id != me.id)
        .map(|(distance, i)| (rank(distance, all[i].tokens), i))
        .collect();
    fitting.sort_by_key(|&(rank, _)| rank);
    let mut chosen = distinct_tasks_first(all, fitting.into_iter().map(|(_, i)| i).collect());
    chosen.truncate(N_PARTNERS);
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
        let rows = partners(&all, &[]).0;
        for n in 1..=19u64 {
            for (kind, same) in [("other_repository", false), ("same_repository", true)] {
                let chosen = of(&rows, n, kind);
                assert_eq!(chosen.len(), N_PARTNERS);
                for partner in chosen {
                    let p = u64::from_str_radix(partner, 16).unwrap();
                    assert!(p > n && (p % 2 == n % 2) == same && p / 4 != n / 4, "{n} {p}");
                }
            }
        }
        // The largest has only smaller ones to choose from: the nearest in size, of five tasks.
        assert_eq!(of(&rows, 40, "other_repository"), ["27", "23", "1f", "1b", "17"]);
        assert_eq!(rows, partners(&all, &[]).0);
    }

    #[test]
    fn partners_stay_when_data_come() {
        let all: Vec<Candidate> = (1..=30).map(|n| candidate(n, Some(n as u32 % 2), n as u32)).collect();
        let (first, n_grown) = partners(&all[..8], &[]);
        assert_eq!((first.len(), n_grown), (8 * 4 + 8 * 3, 0));
        let (more, n_grown) = partners(&all, &first);
        assert_eq!(n_grown, 8);
        for row in &first {
            assert!(more.contains(row), "{row:?}");
        }
        assert!((1..=30).all(|n| [OTHER, SAME].iter().all(|kind| of(&more, n, kind).len() == N_PARTNERS)));
        assert_eq!(partners(&all, &more), (more.clone(), 0), "full ones never change");
        // One that is gone makes room.
        let (fewer, n_grown) = partners(&all[1..], &more);
        assert!(n_grown > 0 && n_grown < 12, "{n_grown}");
        assert!(fewer.iter().all(|row| row.partner != all[0].id));
        assert!(of(&fewer, 2, OTHER).len() == N_PARTNERS);
    }

    #[test]
    fn near_ones_of_similar_size_come_first() {
        // Two repositories, one after the other.
        let sizes = [100, 900, 150, 90, 100, 250, 120, 130, 101, 102];
        let all: Vec<Candidate> = sizes
            .iter()
            .enumerate()
            .map(|(i, &tokens)| Candidate { tokens, ..candidate(i as u64, Some(u32::from(i > 4)), i as u32) })
            .collect();
        let rows = partners(&all, &[]).0;
        // Of at least 100 and at most 200 tokens by distance, then the larger one.
        assert_eq!(of(&rows, 0, "other_repository"), ["6", "7", "8", "9", "5"]);
        // At least 130, at most 260; then the larger; then the smaller, the largest first.
        assert_eq!(of(&rows, 7, "other_repository"), ["2", "1", "4", "", "3"]);
    }

    #[test]
    fn none_without_a_known_repository() {
        let all: Vec<Candidate> = (1..=9).map(|n| candidate(n, None, n as u32)).collect();
        assert!(partners(&all, &[]).0.is_empty());
    }

    #[test]
    fn one_repository_is_linear() {
        let all: Vec<Candidate> =
            (1..=100_000).map(|n| candidate(n, Some(u32::from(n == 50_000)), n as u32)).collect();
        let rows = partners(&all, &[]).0;
        assert_eq!(of(&rows, 7, "other_repository"), ["c350"]);
    }
}
