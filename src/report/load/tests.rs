//! Tests of `load`.

use super::*;
use crate::report::statistics::synthetic;
use crate::store::{SampleRow, TimelineRow};

#[test]
fn strata_have_one_spelling() {
    let stratum = Stratum::parse("  zeta=1 tail=10 set=common alpha ");
    assert_eq!(stratum.to_string(), "set=common tail=10 alpha zeta=1");
    assert_eq!(stratum.get("tail"), Some("10"));
    assert_eq!(stratum.get("kind"), None);
    assert_eq!(Stratum::parse("").to_string(), "");
}

/// 24 runs of 12 tasks in 3 repositories: few repositories stay the clusters, and are strata of the tasks.
#[test]
fn the_population_decides_what_a_cluster_is() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::write_run(dir.path(), &synthetic::TINY, 24, 3);
    let of = |population| Run::open(dir.path(), population).unwrap();
    let clusters = |run: &Run| run.trajectories.iter().map(|t| t.cluster).collect::<BTreeSet<_>>().len();
    let other = of(Population::Other);
    assert_eq!((clusters(&other), &other.drawn[..]), (3, &[DrawnFrom::from(0); 3][..]));
    let these = of(Population::These);
    assert_eq!(clusters(&these), 12);
    for stratum in 0..3 {
        assert_eq!(these.drawn.iter().filter(|of| of.stratum == stratum).count(), 4);
    }
    assert_eq!(these.trajectories[0].cluster, these.trajectories[1].cluster, "two runs of one task");
    assert!(other.variants.iter().any(|v| v.control) && other.variants.iter().any(|v| !v.control));
}

/// Of 12 runs all were drawn, of 120 others 12: each of these stands for ten.
#[test]
fn a_session_of_a_sample_counts_for_those_it_stands_for() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::write_run(dir.path(), &synthetic::TINY, 24, 3);
    let told = |run: &Run| {
        let (mut weights, mut events) = (BTreeMap::new(), 0.0);
        run.scores(|batch| {
            for score in batch.iter().flat_map(|(_, scores)| scores.values().flatten()) {
                *weights.entry(score.trajectory).or_insert(0.0) += score.weight;
            }
            Ok(())
        })
        .unwrap();
        run.events.iter().flatten().for_each(|event| events += event.weight);
        (weights, events, run.spent().unwrap())
    };
    let plain = Run::open(dir.path(), Population::Other).unwrap();
    let refused = Run::open(dir.path(), Population::Corpus).err().unwrap().to_string();
    assert!(refused.contains("is no sample of a corpus"), "{refused}");
    let row = |(i, trajectory): (usize, &Trajectory)| SampleRow {
        trajectory: trajectory.id.clone(),
        stratum: String::new(),
        number: (i / 12) as u32,
        of: if i < 12 { 12 } else { 120 },
        drawn: 12,
    };
    let rows: Vec<SampleRow> = plain.trajectories.iter().enumerate().map(row).collect();
    let mut writer = store::TableWriter::create(&file::<SampleRow>(dir.path()), 1 << 20).unwrap();
    writer.push(rows).unwrap();
    writer.finish().unwrap();
    let run = Run::open(dir.path(), Population::Corpus).unwrap();
    assert_eq!(run.corpus, Some(Corpus { n_sessions: 132, n_strata: 2 }));
    assert_eq!(run.drawn.iter().map(|of| of.stratum).collect::<BTreeSet<_>>().len(), 2);
    for (i, (trajectory, of)) in run.trajectories.iter().zip(&run.drawn).enumerate() {
        let (weight, undrawn) = if i < 12 { (1.0, 0.0) } else { (10.0, 0.9) };
        assert_eq!((trajectory.cluster, trajectory.weight), (i as u32, weight));
        assert!((of.undrawn - undrawn).abs() < 1e-12);
    }
    let ((before, n_events, spent), (after, n_weighted, all)) = (told(&plain), told(&run));
    for (trajectory, weight) in &after {
        let times = if *trajectory < 12 { 1.0 } else { 10.0 };
        assert!((weight - times * before[trajectory]).abs() < 1e-6 * weight);
    }
    assert!(
        n_weighted > 5.0 * n_events && all[0].full > 5 * spent[0].full && all[0].full < 10 * spent[0].full
    );
    let other = Run::open(dir.path(), Population::Other).unwrap();
    assert!(other.drawn.iter().all(|of| !of.is_of_corpus()) && other.trajectories[23].weight == 10.0);
}

/// Prompts of 100 and 200 tokens, each 2 by the provider's count, beside 50 and 70 that the log does not show: 250 and 470, and 10
/// written. Of the second the cache serves what stood in the first, unless it is gone.
#[test]
fn prompts_are_paid_by_the_providers_count() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::write_run(dir.path(), &synthetic::TINY, 1, 1);
    let run = Run::open(dir.path(), Population::Other).unwrap();
    let prices = run.prices.as_ref().unwrap();
    let paid = |cache_expired: bool| {
        let row = |decision: u32| TimelineRow {
            variant: run.variants[0].variant.as_str().into(),
            trajectory: run.trajectories[0].id.as_str().into(),
            decision,
            tokens_full: 100 + 100 * u64::from(decision),
            cached_full: 100 * u64::from(decision),
            output_tokens: 10,
            unseen_tokens: Some(50 + 20 * u64::from(decision)).into(),
            token_factor: Some(2.0).into(),
            cache_expired: cache_expired && decision > 0,
            ..TimelineRow::default()
        };
        let mut writer = store::TableWriter::create(&file::<TimelineRow>(dir.path()), 1 << 20).unwrap();
        writer.push([row(0), row(1)]).unwrap();
        writer.finish().unwrap();
        run.spent().unwrap()[0].paid_full
    };
    let of = |read: f64, written: f64| {
        [prices.cache_read * read, prices.cache_write * written, prices.output * 40.0]
    };
    assert_eq!(paid(false), of(250.0, 250.0 + 220.0));
    assert_eq!(paid(true), of(0.0, 250.0 + 470.0));
}
