//! Tests of `lines`.

use super::super::load::Population;
use super::*;
use crate::report::statistics::synthetic::{BUDGETS, write_run};
use crate::scores::registry::Set;

/// Scores are kept under canonical strata: another order of the same keys would find nothing.
#[test]
fn strata_of_measures_are_canonical() {
    for measure in crate::report::tables::measures() {
        if let Set::Stratum(stratum) = measure.set {
            assert_eq!(crate::report::load::Stratum::parse(stratum).to_string(), stratum);
        }
    }
}

#[test]
fn seeds_are_one_line_and_failed_cells_are_known() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &BUDGETS, 24, 12);
    let run = Run::open(dir.path(), Population::Other).unwrap();
    let mut gathered = Gathered::with(crate::report::tables::measures(), None);
    run.scores(|batch| {
        gathered.take(&run, &batch);
        Ok(())
    })
    .unwrap();
    let lines = Lines::new(&run, gathered, Resampling { seed: 1, resamples: 200 });
    assert_eq!(lines.all.len(), BUDGETS.len() - 2);
    let sampled = lines.all.iter().find(|l| l.strategy == "summary").unwrap();
    assert_eq!(
        (sampled.label.as_str(), &sampled.seeds[..]),
        ("summary(style=short) @ turns(n=20)", &[0, 2, 3][..])
    );
    let of_seeds: Vec<f64> = (0..3).map(|s| lines.of_seed(sampled, s, "need_retention").unwrap()).collect();
    let pooled = lines.series(sampled, "need_retention", None).pooled.value.unwrap();
    // Every seed answers the same questions, so that pooling is a mean.
    assert!((of_seeds.iter().sum::<f64>() / 3.0 - pooled).abs() < 1e-12);
    // The fourth variant failed on the second trajectory.
    let side = lines.side_by_side(lines.main());
    assert_eq!((side.n_trajectories, side.only[1], side.left_out.len()), (23, false, 0));
}

#[test]
fn medians_by_hand() {
    let of = |values: &[(f64, f64)]| middle(values.iter().copied());
    assert_eq!(of(&[(1.0, 1.0), (2.0, 1.0), (4.0, 1.0)]), Some(2.0));
    assert_eq!(of(&[(1.0, 2.0), (2.0, 0.0), (4.0, 1.0)]), Some(1.0));
    assert_eq!(of(&[(1.0, 0.0), (2.0, 1.0), (4.0, 1.0)]), Some(3.0));
    // Of a sample: the second stands for as many as the others together.
    assert_eq!(of(&[(1.0, 0.7), (2.0, 1.9), (4.0, 1.2), (5.0, 0.1)]), Some(2.0));
    assert_eq!((of(&[]), of(&[(1.0, 0.0)])), (None, None));
    let line = Line::by_hand(
        "a @ t",
        &[("likelihood_retention", &[(4.0, 1.0), (1.0, 9.0), (2.0, 1.0), (2.0, 1.0), (2.0, 1.0)])],
    );
    let mut lines = Lines::by_hand(vec![line], 5);
    lines.draws = Draws::fixed(&[vec![0, 3, 0, 1, 1], vec![3, 0, 0, 1, 1], vec![1; 5], vec![1, 2, 0, 1, 1]]);
    let median = lines.median(&lines.all[0], "likelihood_retention");
    assert_eq!((median.value, median.n_trajectories, median.n_clusters), (Some(2.0), 5, 5));
    let (lo, hi) = median.interval.unwrap();
    assert!((1.0..=2.0).contains(&lo) && (2.0..=4.0).contains(&hi), "{lo} {hi}");
}

#[test]
fn a_line_that_mostly_failed_does_not_empty_the_rest() {
    let line = |label: &str| Line::by_hand(label, &[("need_retention", &[(1.0, 1.0); 4])]);
    let failed = line("b @ t").without(0).without(1).without(2);
    let lines = Lines::by_hand(vec![line("a @ t"), failed, line("c @ t").without(3)], 4);
    let side = lines.side_by_side(lines.main());
    assert_eq!(side.only, [true, true, true, false]);
    assert!(side.remark().ends_with("trajectories: b @ t."), "{}", side.remark());
}

#[test]
fn a_label_is_taken_apart() {
    let row = |label: &str, model: Option<&str>, seed| VariantRow {
        variant: String::new(),
        label: label.to_owned(),
        strategy: "summary".to_owned(),
        strategy_params: "{}".to_owned(),
        trigger: "turns".to_owned(),
        trigger_params: "{}".to_owned(),
        model: model.map(str::to_owned),
        control: false,
        seed,
    };
    let both = |label, model, seed| names(&row(label, model, seed));
    let whole = both("summary(a=1) @ turns(n=2) [m] #3", Some("m"), 3);
    assert_eq!(whole, ("summary(a=1) @ turns(n=2) [m]".to_owned(), "turns(n=2)".to_owned()));
    let plain = both("mask @ turns", None, 1);
    assert_eq!(plain, ("mask @ turns".to_owned(), "turns".to_owned()));
}
