//! Tests of `pooled`.

use super::*;
use crate::scores::discard::{NEEDED_REMOVED_SHARE, NEEDED_SCOPE_SHARE};
use crate::scores::money::TOKEN_SAVINGS;

const REMOVED: &str = NEEDED_REMOVED_SHARE.name;
const SCOPE: &str = NEEDED_SCOPE_SHARE.name;

const COMMON: &str = "set=common tail=10";
const EXPOSED: &str = "set=exposed tail=10";
const EXPOSED_CAPPED: &str = "set=exposed tail=10 cap=20";
const RESAMPLING: Resampling = Resampling { seed: 1, resamples: 400 };

impl Scores<'_> {
    fn corrected(&self, metric: &str, stratum: &str) -> Estimate {
        self.pool(metric, stratum).corrected()
    }

    fn efficiency(&self, metric: &str, stratum: &str) -> Estimate {
        self.pool(metric, stratum).efficiency()
    }
}

fn score(trajectory: u32, value: f64, floor: f64, ceiling: f64, weight: f64) -> Score {
    Score {
        trajectory,
        value: Some(value),
        floor: Some(floor),
        ceiling: Some(ceiling),
        atom_bag: None,
        chance: Some(0.2),
        weight,
        n: weight as u64,
        n_kept: None,
    }
}

fn with<T>(rows: Vec<(&str, &str, Vec<Score>)>, read: impl FnOnce(&Scores) -> T) -> T {
    let rows: VariantScores = rows
        .into_iter()
        .map(|(metric, stratum, rows)| ((metric.to_owned(), stratum.to_owned()), rows))
        .collect();
    let clusters: Vec<u32> = (0..40).collect();
    read(&Scores {
        sets: &Sets::of(&rows),
        rows: &rows,
        drawn: &[DrawnFrom::from(0); 40],
        weights: &[1.0; 40],
        clusters: &clusters,
        only: None,
        resampling: RESAMPLING,
        memo: &Memo::default(),
    })
}

fn close(value: Option<f64>, expected: f64) {
    let value = value.expect("a value");
    assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
}

/// Trajectories 0 to 7 in turn with two scores: 1 and 3 needs each.
fn uneven(times: f64) -> Vec<Score> {
    let of = |t: u32| {
        if t.is_multiple_of(2) { (0.5, 1.0) } else { (0.9, 3.0) }
    };
    (0..8).map(|t| score(t, of(t).0, 0.1, 0.9, times * of(t).1)).collect()
}

#[test]
fn pooling_is_weighted_and_skips_what_is_undefined() {
    let undefined = Score { value: None, ..score(8, 0.0, 0.0, 0.0, 9.0) };
    let weightless = score(9, 0.9, 0.0, 0.0, 0.0);
    let rows = [uneven(4.0), vec![undefined, weightless]].concat();
    with(vec![(NEED_RETENTION.name, COMMON, rows)], |s| {
        let e = s.pooled(NEED_RETENTION.name, &s.sets.common, Field::Value);
        // (0.5 * 1 + 0.9 * 3) / 4
        close(e.value, 0.8);
        assert_eq!((e.n_trajectories, e.n_clusters, e.n_items), (8, 8, 64));
        // (4 * 1 + 4 * 3)^2 / (4 * 1 + 4 * 9)
        close(e.n_eff, 6.4);
        // (0.8 - 0.2) / (1 - 0.2)
        close(s.corrected(NEED_RETENTION.name, &s.sets.common).value, 0.75);
        assert_eq!(
            s.pooled(NEED_RETENTION.name, &s.sets.exposed, Field::Value).reason.as_deref(),
            Some("no rows")
        );
        assert_eq!(
            s.pooled(NEED_RETENTION.name, &s.sets.common, Field::AtomBag).reason.as_deref(),
            Some("no data")
        );
    });
}

/// Half of the weight of three sessions is lost, in 3 of 30 needs: the count is that of the needs.
#[test]
fn needs_that_share_a_weight_are_counted_one_by_one() {
    let of = |t: u32, kept: u64| Score { n: 10, n_kept: Some(kept), ..score(t, 0.5, 0.4, 0.6, 2.0) };
    with(vec![(NEED_RETENTION.name, COMMON, vec![of(0, 10), of(1, 9), of(2, 8)])], |s| {
        let e = s.pooled(NEED_RETENTION.name, &s.sets.common, Field::Value);
        let counted = e.counted.unwrap();
        assert_eq!((counted.kept, counted.n, e.n_lost()), (27, 30, Some(3)));
        let floor = s.pooled(NEED_RETENTION.name, &s.sets.common, Field::Floor);
        assert_eq!((floor.counted, floor.n_lost()), (None, None), "random lines are no count");
        assert_eq!(s.lost_of(NEED_RETENTION.name, COMMON), (3.0, 30.0));
        let worst = s.worst(NEED_RETENTION.name, COMMON);
        assert_eq!(worst, Some(Worst { trajectory: 2, lost: 2, is_counted: true }));
        close(s.lost(NEED_RETENTION.name, COMMON).value, 3.0 / 40.0);
    });
    // Where nobody counted there is none.
    let of = |t| Score { n: 10, ..score(t, 0.5, 0.4, 0.6, 2.0) };
    with(vec![(NEED_RETENTION.name, COMMON, (0..3).map(of).collect())], |s| {
        assert_eq!(s.pooled(NEED_RETENTION.name, &s.sets.common, Field::Value).counted, None);
        assert_eq!(s.lost_of(NEED_RETENTION.name, COMMON), (3.0, 6.0));
    });
}

/// Null is not zero, and a weight is no count: half of a weight of 3 is at least two needs.
#[test]
fn the_worst_session_may_have_lost_nothing_or_nobody_counted() {
    let worst = |rows: Vec<Score>| {
        let mut found = None;
        with(vec![(NEED_RETENTION.name, COMMON, rows)], |s| found = s.worst(NEED_RETENTION.name, COMMON));
        found
    };
    let of = |t: u32, value: f64| Score { n: 10, ..score(t, value, 0.4, 0.6, 3.0) };
    let told = |lost: u64, is_counted: bool| Some(Worst { trajectory: 0, lost, is_counted });
    assert_eq!(worst(vec![of(0, 0.5), of(1, 0.9)]), told(2, false));
    assert_eq!(worst(vec![of(0, 1.0), of(1, 1.0)]), told(0, false));
    assert_eq!(worst(vec![Score { n_kept: Some(10), ..of(0, 1.0) }]), told(0, true));
    assert_eq!(worst(vec![Score { value: None, ..of(0, 1.0) }]), None, "no need was asked for");
}

/// 16 needs, all of which were kept.
#[test]
fn below_the_minimum_needs_are_counted() {
    let whole = uneven(1.0).into_iter().map(|row| Score { n_kept: Some(row.n), ..row }).collect();
    with(vec![(NEED_RETENTION.name, COMMON, whole)], |s| {
        let e = s.pooled(NEED_RETENTION.name, &s.sets.common, Field::Value);
        assert_eq!((e.value, e.interval), (None, None));
        assert_eq!(e.reason.as_deref(), Some("16 items, fewer than 30"));
        let counted = e.counted.unwrap();
        assert_eq!((counted.kept, counted.n), (16, 16));
        assert!(s.corrected(NEED_RETENTION.name, &s.sets.common).value.is_none());
    });
    // 0 of 3, in 3 clusters: Wilson's interval.
    let none = (0..3).map(|t| score(t, 0.0, 0.0, 0.0, 1.0)).collect();
    with(vec![(NEED_RETENTION.name, COMMON, none)], |s| {
        let counted = s.pooled(NEED_RETENTION.name, &s.sets.common, Field::Value).counted.unwrap();
        assert_eq!((counted.kept, counted.n, counted.interval.0), (0, 3, 0.0));
        close(Some((counted.interval.1 * 1e4).round()), 5_615.0);
    });
}

#[test]
fn a_part_of_the_trajectories_can_be_pooled_alone() {
    with(vec![(TOKEN_SAVINGS.name, "", uneven(9.0))], |s| {
        let mut only = vec![false; 40];
        only[1] = true;
        assert_eq!(s.pooled(TOKEN_SAVINGS.name, "", Field::Value).n_trajectories, 8);
        let memo = Memo::default();
        let part = s.part(&only, &memo);
        // Tokens stand without an interval.
        let e = part.pooled(TOKEN_SAVINGS.name, "", Field::Value);
        close(e.value, 0.9);
        assert_eq!((e.n_trajectories, e.interval), (1, None));
        assert_eq!(e.reason.as_deref(), Some("n_eff is 1.00, under 4"));
    });
}

#[test]
fn efficiency_is_a_ratio_of_sums_and_is_not_clipped() {
    // Needs 3 each; half the trajectories at floor .2, x .5, ceiling .8, half at .4, 1.0, .8.
    let rows = |n: u32| -> Vec<Score> {
        let odd = |t: u32| {
            if t.is_multiple_of(2) { (0.5, 0.2, 0.8) } else { (1.0, 0.4, 0.8) }
        };
        (0..n).map(|t| score(t, odd(t).0, odd(t).1, odd(t).2, 3.0)).collect()
    };
    with(vec![(NEED_RETENTION.name, EXPOSED, rows(12))], |s| {
        let e = s.efficiency(NEED_RETENTION.name, &s.sets.exposed);
        // ((.3 + .6) * 3 * 6) / ((.6 + .4) * 3 * 6)
        close(e.value, 0.9);
        // (6 * .6 + 6 * .4)^2 / (6 * .36 + 6 * .16)
        close(e.n_eff, 36.0 / 3.12);
        assert_eq!(s.efficiency_stratum(), EXPOSED);
    });
    let beyond: Vec<Score> = (0..12).map(|t| score(t, 1.0, 0.5, 0.75, 3.0)).collect();
    with(vec![(NEED_RETENTION.name, EXPOSED_CAPPED, beyond)], |s| {
        assert_eq!(s.efficiency_stratum(), EXPOSED_CAPPED);
        close(s.efficiency(NEED_RETENTION.name, EXPOSED_CAPPED).value, 2.0);
    });
}

#[test]
fn efficiency_is_withheld_where_it_would_mean_nothing() {
    let reason = |rows: Vec<Score>| {
        with(vec![(NEED_RETENTION.name, EXPOSED, rows)], |s| {
            let e = s.efficiency(NEED_RETENTION.name, &s.sets.exposed);
            assert_eq!((e.value, e.interval), (None, None));
            e.reason.unwrap()
        })
    };
    let few_needs = (0..12).map(|t| score(t, 0.5, 0.2, 0.8, 2.0)).collect();
    assert_eq!(reason(few_needs), "24 items, fewer than 30");
    let few_clusters = (0..3).map(|t| score(t, 0.5, 0.2, 0.8, 12.0)).collect();
    assert_eq!(reason(few_clusters), "n_eff is 3.00, under 4");
    // Many clusters, and nearly all in one of them.
    let one = |t: u32| score(t, 0.5, 0.2, 0.8, if t == 0 { 300.0 } else { 3.0 });
    assert_eq!(reason((0..32).map(one).collect()), "n_eff is 1.71, under 4");
    let no_room =
        (0..20).map(|t| score(t, 0.5, 0.5, if t.is_multiple_of(2) { 0.8 } else { 0.2 }, 3.0)).collect();
    assert_eq!(reason(no_room), "the interval of oracle - random holds 0");
    let equal = (0..20).map(|t| score(t, 0.5, 0.5, 0.5, 3.0)).collect();
    assert_eq!(reason(equal), "oracle - random is under 0.05");
    // Sure of its sign, yet so small that the quotient is noise over nearly nothing.
    let narrow = (0..20).map(|t| score(t, 0.4, 0.5, 0.54, 3.0)).collect();
    assert_eq!(reason(narrow), "oracle - random is under 0.05");
    let below_zero = (0..20).map(|t| score(t, 0.5, 0.8, 0.2, 3.0)).collect();
    assert_eq!(reason(below_zero), "oracle - random is under 0.05");
    // All room in few clusters, so that it is those of the ratio: 3 of 20 at .9, the rest at a hair over 0.
    let few = |t: u32| score(t, 0.1, 0.1, 0.1 + if t < 3 { 0.9 } else { 1e-6 }, 9.0);
    assert!(reason((0..20).map(few).collect()).starts_with("the interval of oracle - random holds 0"));
}

#[test]
fn discard_lift_compares_pooled_shares() {
    let four = |of: fn(u32) -> f64, weight| -> Vec<Score> {
        (0..4).map(|t| score(t, of(t), 0.0, 0.0, weight)).collect()
    };
    let removed = four(|t| if t.is_multiple_of(2) { 0.1 } else { 0.0 }, 100.0);
    let scope = four(|_| 0.2, 200.0);
    let rows = vec![(REMOVED, "", removed), (SCOPE, "", scope.clone())];
    // 1 - (20 / 400) / (160 / 800)
    with(rows, |s| close(s.lift(REMOVED, SCOPE).value, 0.75));
    let nothing = vec![Score { value: None, ..score(0, 0.0, 0.0, 0.0, 0.0) }];
    let rows = vec![(REMOVED, "", nothing), (SCOPE, "", scope)];
    with(rows, |s| {
        assert_eq!(s.lift(REMOVED, SCOPE).reason.as_deref(), Some("nothing was removed"));
    });
    let one = |value| vec![score(0, value, 0.0, 0.0, 10.0)];
    let rows = vec![(REMOVED, "", one(0.0)), (SCOPE, "", one(0.0))];
    with(rows, |s| {
        assert_eq!(s.lift(REMOVED, SCOPE).reason.as_deref(), Some("nothing in scope was needed"));
    });
}

#[test]
fn the_headline_is_at_ten_turns_or_at_the_longest_tail_there_is() {
    let tail = |tails: &[u32]| {
        let rows = |t: &u32| ((NEED_RETENTION.name.to_owned(), format!("set=common tail={t}")), vec![]);
        Sets::of(&tails.iter().map(rows).collect()).tail
    };
    assert_eq!(tail(&[3, 10, 20]), "10");
    assert_eq!(tail(&[3, 5]), "5");
    assert_eq!(tail(&[]), "10");
}
