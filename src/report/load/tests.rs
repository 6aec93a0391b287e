//! Tests of `load`.

use super::*;
use crate::report::statistics::synthetic;

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
    assert_eq!((clusters(&other), &other.strata[..]), (3, &[0, 0, 0][..]));
    let these = of(Population::These);
    assert_eq!(clusters(&these), 12);
    for stratum in 0..3 {
        assert_eq!(these.strata.iter().filter(|s| **s == stratum).count(), 4);
    }
    assert_eq!(these.trajectories[0].cluster, these.trajectories[1].cluster, "two runs of one task");
    assert!(other.variants.iter().any(|v| v.control) && other.variants.iter().any(|v| !v.control));
}
