//! The statistics against values computed elsewhere: SciPy, statsmodels and NumPy, see
//! `tests/data/statistics/reference.py`.

use serde_json::Value;

use super::bootstrap::{self, Resampling};
use super::effects::holm;
use super::inference::Resampled;
use super::ranks::{Order, kendall_tau_b, rank_biserial, spearman};
use crate::report::series::{Draws, Series};
use crate::report::tables::agreement::rho;
use crate::report::tables::areas::weights;
use crate::report::tables::differences::compare;
use crate::report::tables::pareto::{frontier, memberships};

fn reference() -> Value {
    serde_json::from_str(include_str!("../../../tests/data/statistics/reference.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

fn close(value: f64, expected: &Value, tolerance: f64) {
    let expected = expected.as_f64().unwrap();
    assert!((value - expected).abs() <= tolerance, "{value} is not within {tolerance} of {expected}");
}

fn exact(value: Option<f64>, expected: &Value) {
    close(value.expect("a value"), expected, 1e-9);
}

/// Sums of clusters from a list of tops and one of bottoms.
fn sums(tops: &[f64], bottoms: &[f64]) -> Vec<[f64; 2]> {
    tops.iter().zip(bottoms).map(|(&top, &bottom)| [top, bottom]).collect()
}

/// The two variants of a case, with draws.
fn two(case: &Value) -> [Series; 2] {
    ["a", "b"].map(|side| {
        let side = rows(&case[side]);
        let clusters = sums(&side[0], &side[1]);
        let draws =
            Draws::new(Resampling { seed: 1, resamples: 50_000 }, vec![0.into(); clusters.len()].into());
        Series::of(&draws, crate::scores::registry::Scale::Share, vec![clusters], 1)
            .counting(100, (1_000, None))
    })
}

#[test]
fn bca_intervals_are_those_of_scipy() {
    for case in reference()["bca"].as_array().unwrap() {
        let [a, b] = two(case);
        let tolerance = case["tolerance"].as_f64().unwrap();
        let ends = |of: &Resampled, expected: &Value| {
            let (lo, hi) = bootstrap::interval(of.value.unwrap(), &of.draws, &of.jackknife).unwrap();
            close(lo, &expected[0], tolerance);
            close(hi, &expected[1], tolerance);
            (lo, hi)
        };
        exact(a.pooled.value, &case["value"]);
        ends(&a.pooled, &case["interval"]);
        let apart = a.pooled.minus(&b.pooled);
        exact(apart.value, &case["difference"]);
        let (lo, hi) = ends(&apart, &case["difference_interval"]);
        let p = bootstrap::p_value(apart.value.unwrap(), &apart.draws, &apart.jackknife).unwrap();
        close(p, &case["p"], case["tolerance_p"].as_f64().unwrap());
        assert_eq!(p < 0.05, lo > 0.0 || hi < 0.0);
    }
}

#[test]
fn intervals_with_few_clusters_are_those_of_students_t() {
    let reference = reference();
    let cases = reference["bca"].as_array().unwrap();
    for (case, expected) in cases.iter().zip(reference["jackknife"].as_array().unwrap()) {
        let [a, b] = two(case);
        let ends = |interval: Option<(f64, f64)>, expected: &Value| {
            let (lo, hi) = interval.unwrap();
            close(lo, &expected[0], 1e-9);
            close(hi, &expected[1], 1e-9);
            (lo, hi)
        };
        exact(a.estimate().n_eff, &expected["n_eff"]);
        ends(a.estimate().interval, &expected["interval"]);
        let found = compare(&a, &b);
        let (lo, hi) = ends(found.difference.interval, &expected["difference_interval"]);
        exact(found.p, &expected["p"]);
        assert_eq!(found.p.unwrap() < 0.05, lo > 0.0 || hi < 0.0);
        exact(found.g_z, &case["g_z"]);
        exact(found.better, &case["better"]);
        exact(found.worse, &case["worse"]);
    }
}

#[test]
fn holm_is_that_of_statsmodels() {
    for case in reference()["holm"].as_array().unwrap() {
        for (value, expected) in
            holm(&numbers(&case["p"])).into_iter().zip(case["adjusted"].as_array().unwrap())
        {
            exact(Some(value), expected);
        }
    }
}

#[test]
fn rank_correlations_are_those_of_scipy() {
    for case in reference()["ranks"].as_array().unwrap() {
        let [x, y, weights] = ["x", "y", "weights"].map(|name| numbers(&case[name]));
        let group: Vec<bool> =
            case["group"].as_array().unwrap().iter().map(|g| g.as_bool().unwrap()).collect();
        let (by_x, by_y, once) = (Order::of(&x), Order::of(&y), vec![1.0; x.len()]);
        exact(spearman(&by_x, &by_y, &once), &case["spearman"]);
        exact(spearman(&by_x, &by_y, &weights), &case["spearman_weighted"]);
        exact(kendall_tau_b(&x, &y), &case["kendall_tau_b"]);
        exact(rank_biserial(&by_x, &group, &once), &case["rank_biserial"]);
        exact(rank_biserial(&by_x, &group, &weights), &case["rank_biserial_weighted"]);
    }
}

#[test]
fn the_area_is_that_of_numpy() {
    let case = &reference()["area"];
    let weights = weights(&numbers(&case["budgets"])).unwrap();
    let area = weights.iter().zip(numbers(&case["retention"])).map(|(w, r)| w * r).sum();
    exact(Some(area), &case["area"]);
}

/// The draws of the reference, and the series of its variants.
fn fixed_draws(case: &Value) -> (Draws, impl Fn(&Value, &Value) -> Vec<Series>) {
    let counts: Vec<Vec<u16>> =
        rows(&case["counts"]).iter().map(|row| row.iter().map(|&n| n as u16).collect()).collect();
    let draws = Draws::fixed(&counts);
    let again = Draws::fixed(&counts);
    let series = move |tops: &Value, bottoms: &Value| -> Vec<Series> {
        let bottoms = numbers(bottoms);
        rows(tops)
            .iter()
            .map(|tops| {
                Series::of(&again, crate::scores::registry::Scale::Share, vec![sums(tops, &bottoms)], 1)
            })
            .collect()
    };
    (draws, series)
}

#[test]
fn frontiers_are_those_of_brute_force() {
    let case = &reference()["pareto"];
    let (draws, series) = fixed_draws(case);
    let savings = series(&case["saved"], &case["tokens"]);
    let retention = series(&case["hits"], &case["needs"]);
    let all: Vec<[Series; 2]> = savings.into_iter().zip(retention).map(|(s, r)| [s, r]).collect();
    let points: Vec<_> =
        all.iter().map(|[s, r]| Some([s.pooled.value.unwrap(), r.pooled.value.unwrap()])).collect();
    let on: Vec<Value> = frontier(&points).into_iter().map(Value::Bool).collect();
    assert_eq!(&on, case["on_frontier"].as_array().unwrap());
    for (found, expected) in
        memberships(&all, draws.n_resamples()).into_iter().zip(case["frequency"].as_array().unwrap())
    {
        assert_eq!(found.1, draws.n_resamples());
        exact(Some(found.0 as f64 / found.1 as f64), expected);
    }
}

#[test]
fn agreement_is_that_of_scipy_resample_by_resample() {
    let reference = reference();
    let (case, expected) = (&reference["pareto"], &reference["agreement"]);
    let (draws, series) = fixed_draws(case);
    let (a, b) = (series(&case["hits"], &case["needs"]), series(&expected["other"], &case["needs"]));
    let pairs: Vec<[&Series; 2]> = a.iter().zip(&b).map(|(a, b)| [a, b]).collect();
    let found = rho(&pairs, draws.n_resamples());
    exact(found.value, &expected["spearman"]);
    let (lo, hi) = found.interval.unwrap();
    close(lo, &expected["interval"][0], 1e-9);
    close(hi, &expected["interval"][1], 1e-9);
}
