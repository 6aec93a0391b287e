//! What weights are worth in repositories that they have not seen, and beside the shipped ones where these have not seen them either.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::cli::count;
use crate::learn::intents;

const DRAWS: usize = 1000;

/// What is left out in turn.
pub(super) const REPOSITORY: &str = "repository";
pub(super) const SESSION: &str = "session";

/// What weights that have not seen a repository do in it.
#[derive(Default)]
pub(super) struct Served {
    /// Served by the own weights, and all.
    pub(super) own: [f64; 2],
    /// Where the shipped ones have not seen it either: served by the own weights, by the shipped ones, and all.
    pub(super) sums: [f64; 3],
    /// Of each unit that has a class the one that was read, and the one that the own weights tell.
    pub(super) told: Vec<[usize; 2]>,
}

pub(super) fn add<const N: usize>(sums: &mut [f64; N], more: [f64; N]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// How the weights do on repositories that they have not seen.
#[derive(serde::Serialize)]
pub(super) struct Verdict {
    /// What is left out in turn: a repository, or a session where all are of one.
    unit: &'static str,
    n: usize,
    /// None where nothing could be left out.
    own: Option<f64>,
    /// Beside the shipped ones, on repositories that neither has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Compared>,
    /// Cohen's kappa of classes with the reader's, and 95 % of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    kappa: Option<[f64; 3]>,
}

#[derive(serde::Serialize)]
struct Compared {
    unit: &'static str,
    n: usize,
    own: f64,
    shipped: f64,
    /// 95 % of the difference, repositories drawn with replacement.
    difference: [f64; 2],
}

impl Compared {
    /// Served by the own weights, and by the shipped ones.
    fn pooled(rows: &[&Served]) -> [f64; 2] {
        let mut sums = [0.0; 3];
        rows.iter().for_each(|row| add(&mut sums, row.sums));
        [sums[0], sums[1]].map(|part| if sums[2] > 0.0 { part / sums[2] } else { 0.0 })
    }

    fn told(&self) -> String {
        let [low, high] = self.difference;
        let word = match () {
            () if self.n < 2 => "one tells nothing of others",
            () if low > 0.0 => "they beat those that travel with the program",
            () if high < 0.0 => "those that travel with the program are better",
            () => "no difference can be told",
        };
        format!(
            "{} that the shipped weights have not seen either: {:.3}, by the shipped ones {:.3} (difference {low:+.3} to {high:+.3}): {word}",
            count(self.n as u64, self.unit),
            self.own,
            self.shipped
        )
    }
}

impl Verdict {
    pub(super) fn new(served: &[Served], unit: &'static str, seed: u64) -> Self {
        let kappa = |rows: &[&Served]| {
            let pairs: Vec<[usize; 2]> = rows.iter().flat_map(|row| &row.told).copied().collect();
            (!pairs.is_empty()).then(|| intents::kappa(&pairs)).flatten()
        };
        let all: Vec<&Served> = served.iter().collect();
        let fresh: Vec<&Served> = served.iter().filter(|row| row.sums[2] > 0.0).collect();
        let kappas = drawn(&all, seed, |rows| kappa(rows));
        let kappa = kappa(&all).zip(middle(kappas)).map(|(kappa, [low, high])| [kappa, low, high]);
        let differences = drawn(&fresh, seed, |rows| {
            let [own, shipped] = Compared::pooled(rows);
            Some(own - shipped)
        });
        let [own, shipped] = Compared::pooled(&fresh);
        let compared =
            middle(differences).map(|difference| Compared { unit, n: fresh.len(), own, shipped, difference });
        let mut sums = [0.0; 2];
        all.iter().for_each(|row| add(&mut sums, row.own));
        let own = (sums[1] > 0.0).then(|| sums[0] / sums[1]);
        Verdict { unit, n: served.len(), own, compared, kappa }
    }

    pub(super) fn told(&self, measure: &str) -> String {
        let Some(own) = self.own else {
            return format!("{measure}: unknown, since there is no other log to leave out");
        };
        let not_seen = match self.unit {
            SESSION => "in sessions not seen, all of one repository",
            _ => "in repositories not seen",
        };
        let compared = self.compared.as_ref().map_or_else(
            || "the shipped weights have seen all of these: nothing to compare with".to_owned(),
            Compared::told,
        );
        let kappa = self.kappa.map_or(String::new(), |[kappa, low, high]| {
            format!("\nkappa with the reader {not_seen}: {kappa:.2} [{low:.2}, {high:.2}]")
        });
        format!("{measure} {not_seen}: {own:.3}\n{compared}{kappa}")
    }
}

/// What draws of as many rows, with replacement, tell; none of no rows.
fn drawn(rows: &[&Served], seed: u64, of: impl Fn(&[&Served]) -> Option<f64>) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let n = rows.len();
    let draws = if n == 0 { 0 } else { DRAWS };
    (0..draws).filter_map(|_| of(&(0..n).map(|_| rows[rng.random_range(0..n)]).collect::<Vec<_>>())).collect()
}

/// The middle 95 % of draws.
fn middle(mut drawn: Vec<f64>) -> Option<[f64; 2]> {
    drawn.sort_by(f64::total_cmp);
    let cut = drawn.len() / 40;
    Some([*drawn.get(cut)?, drawn[drawn.len() - 1 - cut]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_interval_on_one_side() {
        let told = |sums: &[[f64; 3]]| {
            let served: Vec<Served> =
                sums.iter().map(|&sums| Served { own: [sums[0], sums[2]], sums, told: Vec::new() }).collect();
            Verdict::new(&served, REPOSITORY, 1).told("needs served")
        };
        let beaten = told(&[[3.0, 1.0, 4.0]; 6]);
        assert!(
            beaten.starts_with("needs served in repositories not seen: 0.750\n6 repositories"),
            "{beaten}"
        );
        assert!(beaten.contains("0.750, by the shipped ones 0.250 (difference +0.500 to +0.500): they beat"));
        assert!(told(&[[1.0, 2.0, 4.0]; 6]).ends_with("are better"));
        assert!(told(&[[3.0, 1.0, 4.0], [1.0, 3.0, 4.0]]).ends_with("no difference can be told"));
        assert!(told(&[[3.0, 1.0, 4.0]]).ends_with("nothing of others"));
        assert!(told(&[[0.0, 1.0, 0.0]; 2]).starts_with("needs served: unknown"));
    }

    #[test]
    fn what_the_shipped_weights_have_seen_is_not_compared() {
        // Three repositories with 3 of 4; the shipped weights have seen two, where they would win.
        let row = |sums| Served { own: [3.0, 4.0], sums, told: Vec::new() };
        let verdict = Verdict::new(&[row([0.0; 3]), row([0.0; 3]), row([3.0, 2.0, 4.0])], SESSION, 1);
        assert!(
            verdict
                .told("needs")
                .starts_with("needs in sessions not seen, all of one repository: 0.750\n1 session that")
        );
        let compared = verdict.compared.unwrap();
        assert_eq!((verdict.n, verdict.own), (3, Some(0.75)));
        assert_eq!((compared.n, compared.own, compared.shipped), (1, 0.75, 0.5));
    }
}
