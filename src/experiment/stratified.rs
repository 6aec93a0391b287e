//! A sample of a corpus by strata: sessions that are alike in reader, agent, length and outcome stand together, and of each
//! stratum as many are drawn as are worth their price.
//!
//! Most figures are ratios of sums over sessions, whose spread within a stratum grows with the length of its sessions, as
//! their price does. By Neyman's allocation with prices n_h ~ N_h S_h / sqrt(c_h), which is N_h sqrt(mean steps); no more than
//! there are, and of small strata, joined to their neighbours, at least two, so that their spread can be told. What is so long that a
//! sample without it says little is taken whatever comes: nobody knows from the others what it is like.
//!
//! Source: Cochran, "Sampling Techniques" (1977), 5.5 and 5A.12 (collapsed strata).

use std::collections::BTreeMap;

use crate::store::{SampleRow, TrajectoryTraits};

/// Which sessions are drawn of each stratum: a lot a session, by its id alone.
pub(super) fn lot(seed: u64, id: &str) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    hash.update(b"sample").update(&seed.to_le_bytes()).update(id.as_bytes());
    *hash.finalize().as_bytes()
}

/// What strata are made by, from what matters most to what is joined first: reader, agent, length, outcome.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    format: String,
    agent: String,
    /// Steps to the base of four.
    length: u32,
    resolved: Option<bool>,
}

impl Alike {
    fn of(session: &TrajectoryTraits) -> Self {
        Alike {
            format: session.format.clone(),
            agent: session.agent.clone().unwrap_or_default(),
            length: session.n_steps.max(1).ilog(4),
            resolved: session.resolved,
        }
    }
}

impl std::fmt::Display for Alike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let agent = if self.agent.is_empty() { "no agent" } else { &self.agent };
        let outcome = match self.resolved {
            Some(true) => "solved",
            Some(false) => "failed",
            None => "no outcome",
        };
        let from = 4_u64.pow(self.length);
        write!(f, "{}, {agent}, {from} to {} steps, {outcome}", self.format, 4 * from - 1)
    }
}

/// Strata are joined that have three traits in common, then two, one, none.
const LEVELS: usize = 4;

impl Alike {
    /// Whether the first traits are the same, so many of them.
    fn is_like(&self, other: &Alike, level: usize) -> bool {
        (level < 1 || self.format == other.format)
            && (level < 2 || self.agent == other.agent)
            && (level < 3 || self.length == other.length)
    }
}

/// A stratum before it is drawn from.
struct Stratum<'a> {
    /// The first and the last that were joined to it.
    first: Alike,
    last: Alike,
    sessions: Vec<&'a TrajectoryTraits>,
}

impl Stratum<'_> {
    fn name(&self) -> String {
        if self.first == self.last {
            self.first.to_string()
        } else {
            format!("{} ... {}", self.first, self.last)
        }
    }

    /// Sessions x square root of their mean steps.
    fn size(&self) -> f64 {
        let steps: u64 = self.sessions.iter().map(|session| u64::from(session.n_steps.max(1))).sum();
        (self.sessions.len() as f64 * steps as f64).sqrt()
    }
}

impl<'a> Stratum<'a> {
    /// Takes in the one that follows.
    fn join(&mut self, next: Stratum<'a>) {
        self.last = next.last;
        self.sessions.extend(next.sessions);
    }
}

/// Draws `n` of the sessions (all, where there are no more; else at least two). The same seed draws the same.
pub fn draw(sessions: &[TrajectoryTraits], seed: u64, n: usize) -> Vec<SampleRow> {
    let (long, others) = long(sessions, n);
    let (of, n) = (long.len() as u64, n - long.len());
    let strata = strata(&others, n);
    let number = strata.len() as u32;
    let wanted: Vec<(usize, f64)> = strata.iter().map(|s| (s.sessions.len(), s.size())).collect();
    let mut rows = Vec::new();
    for ((number, stratum), drawn) in (0..).zip(strata).zip(allocate(&wanted, n)) {
        let name = stratum.name();
        let mut sessions = stratum.sessions;
        let of = sessions.len() as u64;
        sessions.sort_by_cached_key(|session| lot(seed, &session.trajectory));
        rows.extend(sessions.into_iter().take(drawn).map(|session| SampleRow {
            trajectory: session.trajectory.clone(),
            stratum: name.clone(),
            number,
            of,
            drawn: drawn as u64,
        }));
    }
    let name = "the longest, taken whatever comes";
    rows.extend(long.into_iter().map(|session| SampleRow {
        trajectory: session.trajectory.clone(),
        stratum: name.to_owned(),
        number,
        of,
        drawn: of,
    }));
    rows
}

fn steps(session: &TrajectoryTraits) -> u64 {
    session.n_steps.max(1).into()
}

/// The sessions that are taken whatever comes, and the others: each has as many steps as are due to one session of the sample or more. They
/// are no more than half of it.
///
/// Source: Särndal, Swensson, Wretman, "Model Assisted Survey Sampling" (1992), 3.6.2 (units taken with certainty).
fn long(sessions: &[TrajectoryTraits], n: usize) -> (Vec<&TrajectoryTraits>, Vec<&TrajectoryTraits>) {
    let mut all: Vec<&TrajectoryTraits> = sessions.iter().collect();
    all.sort_by(|a, b| b.n_steps.cmp(&a.n_steps).then_with(|| a.trajectory.cmp(&b.trajectory)));
    let (mut taken, mut left) = (0, all.iter().map(|session| steps(session)).sum::<u64>());
    // Two at least are left for the others.
    while taken < n / 2
        && taken + 2 < n
        && all.get(taken).is_some_and(|next| steps(next) * (n - taken) as u64 >= left)
    {
        left -= steps(all[taken]);
        taken += 1;
    }
    let others = all.split_off(taken);
    (all, others)
}

/// Sessions that are alike. Those that are too few for two to be due to them are joined to others of the same length, else of the
/// same agent, else of the same reader.
fn strata<'a>(sessions: &[&'a TrajectoryTraits], n: usize) -> Vec<Stratum<'a>> {
    let mut alike: BTreeMap<Alike, Vec<&TrajectoryTraits>> = BTreeMap::new();
    for &session in sessions {
        alike.entry(Alike::of(session)).or_default().push(session);
    }
    let of = |(alike, sessions): (Alike, _)| Stratum { first: alike.clone(), last: alike, sessions };
    let mut strata: Vec<Stratum> = alike.into_iter().map(of).collect();
    let total: f64 = strata.iter().map(Stratum::size).sum();
    let is_small = |stratum: &Stratum| (n as f64 * stratum.size()) < 2.0 * total;
    for level in (0..LEVELS).rev() {
        let mut joined: Vec<Stratum> = Vec::new();
        // Where those of the same traits begin.
        let mut begin = 0;
        for stratum in strata {
            if joined.last().is_some_and(|last| !last.first.is_like(&stratum.first, level)) {
                join_last(&mut joined, begin, &is_small);
                begin = joined.len();
            }
            match joined.last_mut().filter(|last| last.first.is_like(&stratum.first, level)) {
                Some(last) if is_small(last) => last.join(stratum),
                _ => joined.push(stratum),
            }
        }
        join_last(&mut joined, begin, &is_small);
        strata = joined;
    }
    strata
}

/// Joins the last stratum to the one before, if it is too small and not the only one from `begin` on.
fn join_last<'a>(strata: &mut Vec<Stratum<'a>>, begin: usize, is_small: &impl Fn(&Stratum<'a>) -> bool) {
    if strata.len() > begin + 1
        && strata.last().is_some_and(is_small)
        && let Some(small) = strata.pop()
        && let Some(last) = strata.last_mut()
    {
        last.join(small);
    }
}

/// How many of `n` are due to strata of so many sessions and such sizes: by size, two or more, and no more than there are.
fn allocate(strata: &[(usize, f64)], n: usize) -> Vec<usize> {
    let least = |of: usize| of.min(2);
    let mut whole = vec![false; strata.len()];
    let mut due = vec![0.0; strata.len()];
    loop {
        let taken: usize =
            strata.iter().zip(&whole).filter(|(_, whole)| **whole).map(|((of, _), _)| of).sum();
        let sizes = strata.iter().zip(&whole).filter(|(_, whole)| !**whole).map(|((_, size), _)| size);
        let (left, size) = (n.saturating_sub(taken) as f64, sizes.sum::<f64>());
        let mut is_done = true;
        for (i, &(of, own)) in strata.iter().enumerate() {
            due[i] = if whole[i] { of as f64 } else { left * own / size };
            if !whole[i] && due[i] >= of as f64 {
                (whole[i], is_done) = (true, false);
            }
        }
        if is_done {
            break;
        }
    }
    let mut drawn: Vec<usize> =
        strata.iter().zip(&due).map(|((of, _), due)| (*due as usize).max(least(*of))).collect();
    // Two of each small one may be more than was asked for.
    for _ in n..drawn.iter().sum::<usize>() {
        let most =
            (0..strata.len()).filter(|&i| drawn[i] > least(strata[i].0)).max_by_key(|&i| (drawn[i], i));
        most.into_iter().for_each(|i| drawn[i] -= 1);
    }
    // What rounding left over goes to those that lost most by it.
    let mut by_rest: Vec<usize> = (0..strata.len()).filter(|&i| drawn[i] < strata[i].0).collect();
    by_rest
        .sort_by(|&a, &b| (due[b] - drawn[b] as f64).total_cmp(&(due[a] - drawn[a] as f64)).then(a.cmp(&b)));
    let left = n.saturating_sub(drawn.iter().sum());
    by_rest.into_iter().take(left).for_each(|i| drawn[i] += 1);
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: usize, format: &str, n_steps: u32, resolved: Option<bool>) -> TrajectoryTraits {
        TrajectoryTraits {
            trajectory: format!("{id:032x}"),
            format: format.to_owned(),
            n_steps,
            resolved,
            ..Default::default()
        }
    }

    /// Stratum, sessions in it, sessions drawn.
    fn told(rows: &[SampleRow]) -> Vec<(String, u64, u64)> {
        let mut told: Vec<_> = rows.iter().map(|row| (row.stratum.clone(), row.of, row.drawn)).collect();
        for (_, _, drawn) in &told {
            assert!(*drawn > 0);
        }
        told.dedup();
        told
    }

    /// 100 sessions of 16 steps and 100 of 256: sizes 400 and 1,600, so that of 50 they get 10 and 40.
    #[test]
    fn long_sessions_are_drawn_more_often() {
        let all: Vec<_> = (0..200).map(|i| session(i, "a", if i < 100 { 16 } else { 256 }, None)).collect();
        let drawn = draw(&all, 1, 50);
        let expected = [("16 to 63", 10), ("256 to 1023", 40)]
            .map(|(steps, drawn)| (format!("a, no agent, {steps} steps, no outcome"), 100, drawn));
        assert_eq!((drawn.len(), told(&drawn)), (50, expected.to_vec()));
        assert_eq!(draw(&all, 1, 50), drawn);
        assert_ne!(draw(&all, 2, 50), drawn);
        // A larger sample holds the smaller one.
        let more = draw(&all, 1, 60);
        assert!(drawn.iter().all(|row| more.iter().any(|other| other.trajectory == row.trajectory)));
    }

    #[test]
    fn small_strata_are_joined_and_long_ones_taken_whole() {
        // Each of three long ones has more than a twentieth of all steps, and none of the others has a 17th of theirs.
        let mut all: Vec<_> = (0..97).map(|i| session(i, "a", 1, Some(i == 7))).collect();
        all.extend((97..100).map(|i| session(i, "b", 4096, None)));
        let drawn = draw(&all, 1, 20);
        let expected = [
            ("a, no agent, 1 to 3 steps, failed ... a, no agent, 1 to 3 steps, solved".to_owned(), 97, 17),
            ("the longest, taken whatever comes".to_owned(), 3, 3),
        ];
        assert_eq!(told(&drawn), expected);
        for n in [100, 1000] {
            let all_of_it = draw(&all, 1, n);
            assert!(all_of_it.len() == 100 && all_of_it.iter().all(|row| row.of == row.drawn), "{n}");
        }
        assert_eq!(told(&draw(&all, 1, 2)).len(), 1);
    }

    /// Of 100 steps in all, 40 and then 20 of the 60 that are left are a third or more for one of 4 and of 3; but two are for the others.
    #[test]
    fn the_longest_are_taken_up_to_half_of_a_sample() {
        let lengths = [[40, 20, 20].to_vec(), vec![1; 20]].concat();
        let all: Vec<_> = lengths.into_iter().enumerate().map(|(i, n)| session(i, "a", n, None)).collect();
        let taken = |n| long(&all, n).0.iter().map(|session| session.n_steps).collect::<Vec<_>>();
        assert_eq!(
            (taken(2), taken(3), taken(4), taken(6)),
            (vec![], vec![40], vec![40, 20], vec![40, 20, 20])
        );
        assert_eq!(taken(12), [40, 20, 20]);
    }

    #[test]
    fn as_many_are_drawn_as_were_asked_for() {
        for n in 2..300 {
            let all: Vec<_> = (0..300)
                .map(|i| session(i, ["a", "b", "c"][i % 3], 1 + (i * i % 500) as u32, Some(i % 7 == 0)))
                .collect();
            let drawn = draw(&all, 3, n);
            assert_eq!(drawn.len(), n);
            let mut strata: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
            for row in &drawn {
                let (of, seen) = strata.entry(row.number).or_insert((row.of, 0));
                (*of, *seen) = (row.of, *seen + 1);
                assert!(row.drawn >= 2 || row.of == 1, "{row:?}");
            }
            assert_eq!(strata.values().map(|(of, _)| of).sum::<u64>(), 300);
            assert!(drawn.iter().all(|row| strata[&row.number].1 == row.drawn));
        }
    }
}
