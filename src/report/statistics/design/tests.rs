//! Tests of `design`.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::bootstrap::{Drawn, Resampling};
use super::super::estimate::ratio;
use super::super::inference::Resampled;
use super::super::pooled::{Memo, Scores, Sets};
use super::*;
use crate::experiment::stratified;
use crate::report::load::{Population, Run, Score, VariantScores};
use crate::scores::money::TOKEN_SAVINGS;
use crate::scores::registry::{Field, Scale};
use crate::scores::retention::NEED_RETENTION;
use crate::store::{self, TrajectoryTraits};

fn from(stratum: u32, undrawn: f64) -> DrawnFrom {
    DrawnFrom { stratum, undrawn }
}

/// Of 4 sessions two are drawn, with the values 1 and 3; of 10 two, with 10 and 14; of 2 both, with 0 and 100.
fn drawn() -> (Vec<[f64; 2]>, Vec<DrawnFrom>) {
    let strata = [(4.0, [1.0, 3.0]), (10.0, [10.0, 14.0]), (2.0, [0.0, 100.0])];
    let clusters = strata.iter().flat_map(|(of, values)| values.map(|y| [of / 2.0 * y, of / 2.0]));
    let of = (0..).zip(strata).flat_map(|(stratum, (of, _))| [from(stratum, 1.0 - 2.0 / of); 2]);
    (clusters.collect(), of.collect())
}

fn mean(sums: &[f64; 2]) -> Option<f64> {
    ratio(sums[0], sums[1])
}

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} is not within {tolerance} of {b}");
}

/// By hand, after Cochran 5.9: the mean is (4 x 2 + 10 x 12 + 2 x 50) / 16 = 14.25; its variance the sum over strata of
/// (N_h / N)^2 (1 - n_h / N_h) s_h^2 / n_h = 1/16 x 1/2 x 2/2 + 100/256 x 4/5 x 8/2 = 1.28125, to which the one that was taken
/// whole adds nothing.
#[test]
fn the_mean_of_a_sample_and_its_error_by_hand() {
    let (clusters, of) = drawn();
    let of: std::sync::Arc<[DrawnFrom]> = of.into();
    let pooled = Resampled::of(Scale::Score, &clusters, of.clone(), mean, |s| s[1]);
    assert_eq!(pooled.value, Some(14.25));
    // n_eff: weights 2, 2, 5, 5 of those that may be others; of 4 sessions in 2 strata 2 degrees of 3.
    let n_eff = 14.0 * 14.0 / 58.0;
    close(pooled.n_eff, n_eff, 1e-12);
    let pooled = Resampled { n_items: 1_000, n_eff: 6.0, ..pooled };
    let (lo, hi) = pooled.estimate().interval.unwrap();
    // t of (6 - 1) x 2 / 3 degrees of freedom.
    let half = super::super::distributions::t_half_width(10.0 / 3.0) * 1.281_25_f64.sqrt();
    close(lo, 14.25 - half, 1e-9);
    close(hi, 14.25 + half, 1e-9);
    // The same by resampling.
    let n_resamples = 40_000;
    let mut draws = Drawn::new(Resampling { seed: 5, resamples: n_resamples }, strata(&of, &[true; 6]));
    let (known, weights) = (draws.known(6), draws.weights(6));
    assert_eq!((known[4], weights[4]), (1.0, 0.0), "what was taken whole is always there, once");
    let weighted = |weights: &[f64]| -> Vec<[f64; 2]> {
        clusters.iter().zip(weights).map(|(sums, weight)| sums.map(|x| weight * x)).collect()
    };
    let common = weighted(&known).iter().fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
    let sums = draws.sums(&weighted(&weights), n_resamples);
    let values: Vec<f64> =
        sums.iter().map(|s| mean(&[s[0] + common[0], s[1] + common[1]]).unwrap()).collect();
    let middle = values.iter().sum::<f64>() / n_resamples as f64;
    let variance = values.iter().map(|x| (x - middle).powi(2)).sum::<f64>() / n_resamples as f64;
    close(middle, 14.25, 0.03);
    close(variance, 1.281_25, 0.04);
}

#[test]
fn a_corpus_that_was_taken_whole_is_known() {
    let (clusters, of) = drawn();
    let whole = of.into_iter().map(|of| DrawnFrom { undrawn: 0.0, ..of }).collect::<Vec<_>>();
    let pooled = Resampled::of(Scale::Score, &clusters, whole.into(), mean, |s| s[1]);
    let e = Resampled { n_items: 1_000, n_eff: 6.0, ..pooled }.estimate();
    assert_eq!((e.value, e.interval), (Some(14.25), Some((14.25, 14.25))));
}

#[test]
fn sessions_without_a_part_count_in_a_corpus_alone() {
    let counts = |undrawn| counting(&[from(0, undrawn); 3], |c| c == 1);
    assert_eq!((counts(1.0), counts(0.9)), (vec![false, true, false], vec![true; 3]));
    // A lone session of several has company; one that is all there is needs none.
    let told = |of: &[DrawnFrom]| -> Vec<(Vec<usize>, f64)> {
        strata(of, &vec![true; of.len()]).into_iter().map(|s| (s.clusters, s.undrawn)).collect()
    };
    let of = [from(0, 0.5), from(0, 0.5), from(1, 0.9), from(2, 0.0)];
    assert_eq!(told(&of), [(vec![0, 1, 2], 0.9), (vec![3], 0.0)]);
}

/// A corpus of real sessions whose rows are all known, and figures of one variant over it.
struct Known {
    sessions: Vec<TrajectoryTraits>,
    /// By session.
    rows: Vec<Score>,
    key: (String, String),
    truth: f64,
}

/// Of other formats hardly a session has a need, so that their samples have none to tell an interval from.
const FORMATS: [&str; 5] = ["claude-code", "mini-swe-agent", "sweagent", "tau-bench", "tau2-bench"];

fn known() -> Vec<Known> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/seeds/rows");
    let run = Run::open(&folder, Population::These).unwrap();
    let mut all: Vec<TrajectoryTraits> = store::read(&folder.join("trajectories.parquet")).unwrap();
    all.sort_by(|a, b| a.trajectory.cmp(&b.trajectory));
    let wanted_sessions: Vec<usize> =
        (0..all.len()).filter(|&i| FORMATS.contains(&all[i].format.as_str())).collect();
    let sessions: Vec<TrajectoryTraits> = wanted_sessions.iter().map(|&i| all[i].clone()).collect();
    let mut known = Vec::new();
    let wanted = ["codex @ turns(keep=10) [model-free]", "prune-importance @ turns(keep=10) [model-free]"];
    run.scores(|batch| {
        for (i, scores) in
            batch.into_iter().filter(|(i, _)| wanted.contains(&run.variants[*i].label.as_str()))
        {
            for (metric, stratum) in [(NEED_RETENTION.name, "set=exposed tail=3"), (TOKEN_SAVINGS.name, "")] {
                let key = (metric.to_owned(), stratum.to_owned());
                assert_eq!(scores[&key].len(), all.len(), "{} {metric}", run.variants[i].label);
                let rows: Vec<Score> = wanted_sessions.iter().map(|&i| scores[&key][i].clone()).collect();
                let sum =
                    |of: fn(&Score) -> f64| rows.iter().filter(|s| s.value.is_some()).map(of).sum::<f64>();
                let truth = sum(|s| s.value.unwrap_or(0.0) * s.weight) / sum(|s| s.weight);
                known.push(Known { sessions: sessions.clone(), rows, key, truth });
                if metric == TOKEN_SAVINGS.name {
                    known.extend(known.last().map(with_giants));
                }
            }
        }
        Ok(())
    })
    .unwrap();
    known
}

/// The same corpus where three sessions are a hundred times as long: they hold most of all tokens.
fn with_giants(of: &Known) -> Known {
    let (mut sessions, mut rows) = (of.sessions.clone(), of.rows.clone());
    let mut longest: Vec<usize> = (0..sessions.len()).filter(|&i| rows[i].value.is_some()).collect();
    longest.sort_by_key(|&i| std::cmp::Reverse(sessions[i].n_steps));
    for &i in &longest[..3] {
        sessions[i].n_steps *= 100;
        rows[i].weight *= 100.0;
    }
    let has = |s: &&Score| s.value.is_some();
    let sum = |of: fn(&Score) -> f64| rows.iter().filter(has).map(of).sum::<f64>();
    let truth = sum(|s| s.value.unwrap_or(0.0) * s.weight) / sum(|s| s.weight);
    Known { sessions, rows, key: of.key.clone(), truth }
}

/// The interval of a sample; `knows` says whether it is told how the sessions were drawn.
fn interval(of: &Known, seed: u64, n: usize, knows: bool) -> Option<(f64, f64)> {
    let place: BTreeMap<&str, usize> =
        of.sessions.iter().enumerate().map(|(i, session)| (session.trajectory.as_str(), i)).collect();
    let sample = stratified::draw(&of.sessions, seed, n);
    let weights: Vec<f64> =
        sample.iter().map(|row| if knows { row.of as f64 / row.drawn as f64 } else { 1.0 }).collect();
    let drawn: Vec<DrawnFrom> = sample
        .iter()
        .map(|row| if knows { from(row.number, 1.0 - row.drawn as f64 / row.of as f64) } else { 0.into() })
        .collect();
    let rows = (0..).zip(&sample).map(|(trajectory, row)| {
        let score = &of.rows[place[row.trajectory.as_str()]];
        Score { trajectory, weight: score.weight * weights[trajectory as usize], ..score.clone() }
    });
    let rows: VariantScores = [(of.key.clone(), rows.collect())].into();
    let clusters: Vec<u32> = (0..sample.len() as u32).collect();
    let scores = Scores {
        sets: &Sets::of(&rows),
        rows: &rows,
        clusters: &clusters,
        drawn: &drawn,
        weights: &weights,
        only: None,
        resampling: Resampling { seed: 1, resamples: 400 },
        memo: &Memo::default(),
    };
    scores.pooled(&of.key.0, &of.key.1, Field::Value).interval
}

/// Samples of 856 of the real logs of reports/seeds: the 95 % interval holds the value of all of them as often as it says (binomial
/// noise of 400 at 95 % is 2.2 points), and not where the design is forgotten.
#[test]
fn intervals_of_samples_hold_the_value_of_the_corpus() {
    const DRAWS: u64 = 400;
    for n in [60, 160] {
        for of in known() {
            let told = |knows| {
                let intervals: Vec<(f64, f64)> =
                    (0..DRAWS).filter_map(|seed| interval(&of, seed, n, knows)).collect();
                assert!(!knows || intervals.len() == DRAWS as usize, "a sample without an interval");
                let holds = intervals.iter().filter(|(lo, hi)| *lo <= of.truth && of.truth <= *hi).count();
                let width = intervals.iter().map(|(lo, hi)| hi - lo).sum::<f64>() / intervals.len() as f64;
                (holds as f64 / intervals.len() as f64, width)
            };
            let ((holds, width), (blind, wide)) = (told(true), told(false));
            println!(
                "{n} of {}, {} {}: {:.3}, covered {holds:.3} (width {width:.3}); without the design {blind:.3} ({wide:.3})",
                of.sessions.len(),
                of.key.0,
                of.key.1,
                of.truth
            );
            assert!(holds >= 0.90, "{} covers {holds}", of.key.0);
        }
    }
}
