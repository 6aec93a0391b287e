//! The annotated data, and what its scores say of compressors that understand nothing: none of them may win.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use trajpress::internals::store::{self, ScoreRow, VariantRow};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn trajpress(args: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_trajpress")).args(args).arg("--quiet").status().unwrap();
    assert!(status.success(), "trajpress {args:?}: {status}");
}

/// The rows of reports/golden, with their variants.
struct Run {
    scores: Vec<ScoreRow>,
    variants: Vec<VariantRow>,
    /// The report's table of the annotated truth, as csv.
    truth: String,
}

impl Run {
    /// Made once for all tests.
    fn get() -> &'static Self {
        static RUN: OnceLock<Run> = OnceLock::new();
        RUN.get_or_init(Run::new)
    }

    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let from = |name: &str| root().join(name).display().to_string();
        trajpress(&["ingest", &from("datasets/golden"), "--out", &at("data")]);
        trajpress(&["annotate", &at("data")]);
        let experiment = from("reports/golden/experiment.toml");
        trajpress(&["run", &experiment, "--data", &at("data"), "--out", &at("run")]);
        trajpress(&["report", &at("run"), "--out", &at("report")]);
        let run = dir.path().join("run");
        Run {
            truth: std::fs::read_to_string(dir.path().join("report/truth.csv")).unwrap(),
            scores: store::read(&run.join("scores.parquet")).unwrap(),
            variants: store::read(&run.join("variants.parquet")).unwrap(),
        }
    }

    fn rows<'a>(
        &'a self,
        strategy: &'a str,
        share: Option<f64>,
        metric: &'a str,
        stratum: &'a str,
    ) -> impl Iterator<Item = &'a ScoreRow> {
        let wanted = move |v: &&VariantRow| {
            let params: serde_json::Value = serde_json::from_str(&v.strategy_params).unwrap();
            v.strategy == strategy && share.is_none_or(|share| params["kept_share"] == share)
        };
        let mut variants = self.variants.iter().filter(wanted);
        let variant = variants.next().unwrap_or_else(|| panic!("no {strategy}"));
        assert!(variants.next().is_none(), "several {strategy}");
        self.scores.iter().filter(move |row| {
            *row.variant == *variant.variant && row.metric == metric && &*row.stratum == stratum
        })
    }

    /// Value, floor and ceiling, pooled.
    fn pooled(&self, strategy: &str, share: Option<f64>, metric: &str) -> [f64; 3] {
        let (mut sums, mut weights) = ([0.0; 3], 0.0);
        for row in self.rows(strategy, share, metric, "point=end").filter(|row| row.value.is_some()) {
            weights += row.weight;
            for (sum, value) in sums.iter_mut().zip([row.value, row.floor, row.ceiling]) {
                *sum += row.weight * value.unwrap();
            }
        }
        assert!(weights > 0.0, "{strategy} has no {metric}");
        sums.map(|sum| sum / weights)
    }

    /// Of the values that are stale where everything is dropped, the share that is not: full frees of all.
    fn freed_of_stale_values(&self, strategy: &str, share: Option<f64>) -> f64 {
        let stale = |strategy: &str, share: Option<f64>| self.pooled(strategy, share, "stale_value_share")[0];
        let most = stale("drop-all", None);
        assert!(most > 0.1, "values are superseded, {most}");
        1.0 - stale(strategy, share) / most
    }

    /// Pooled and placed between floor and ceiling.
    fn corrected(&self, strategy: &str, share: Option<f64>, metric: &str) -> f64 {
        let [value, floor, ceiling] = self.pooled(strategy, share, metric);
        assert!(ceiling - floor > 0.5, "{metric} has room: {floor} to {ceiling}");
        (value - floor) / (ceiling - floor)
    }
}

#[test]
fn what_understands_nothing_wins_nothing() {
    let run = Run::get();
    let shares = [0.02, 0.05, 0.1, 0.2, 0.4];
    for metric in ["salience_recall", "constraint_retention", "probe_support"] {
        assert_eq!(run.corrected("drop-all", None, metric), 0.0, "{metric}");
        for share in [0.1, 0.4] {
            let shuffled = run.corrected("shuffle", Some(share), metric);
            assert!(shuffled.abs() < 0.02, "{metric}: shuffled words reach {shuffled}");
        }
        let bags = shares.map(|share| run.corrected("atom-bag", Some(share), metric));
        assert!(bags.iter().all(|bag| *bag < 0.05), "{metric}: bags of atoms reach {bags:?}");
        // Lines that are really kept count, and more of them count more.
        let random = shares.map(|share| run.corrected("random", Some(share), metric));
        assert!(random.is_sorted() && random[4] > 0.2, "{metric}: random lines {random:?}");
    }
    // Fewer stale values are better: what states nothing leaves them as dropping everything does.
    for (strategy, share) in
        [("drop-all", None), ("shuffle", Some(0.4)), ("atom-bag", Some(0.4)), ("atom-bag", Some(0.1))]
    {
        let freed = run.freed_of_stale_values(strategy, share);
        assert!(freed < 0.1, "{strategy} {share:?}: {freed}");
    }
    assert!(run.freed_of_stale_values("echo", None) > 0.99);
    // Saying everything recalls all and is precise about nothing.
    let echo = |metric| run.pooled("echo", None, metric);
    assert!(run.corrected("echo", None, "salience_recall") > 0.99);
    let [precision, base, _] = echo("salience_precision");
    assert!((precision - base).abs() < 0.01, "{precision} is the share of the scope itself, {base}");
    assert!(echo("salience_f1")[0] < 0.3);
    for (strategy, share) in [("drop-all", None), ("shuffle", Some(0.4)), ("atom-bag", Some(0.4))] {
        assert!(run.pooled(strategy, share, "salience_f1")[0] < 0.05, "{strategy}");
    }
}

/// The report pools as the rows say: value, floor, ceiling, and the place between them.
#[test]
fn the_report_places_scores_between_floor_and_ceiling() {
    let run = Run::get();
    let mut lines = run.truth.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|c| *c == name).unwrap();
    let columns = ["value", "floor", "ceiling", "placed"].map(column);
    for (strategy, label) in
        [("echo", "echo @ marked"), ("mask", "mask @ marked"), ("drop-all", "drop-all @ marked")]
    {
        for metric in ["salience_recall", "constraint_retention", "probe_support", "stale_value_share"] {
            let line = run.truth.lines().find(|l| l.starts_with(&format!("{label},{metric},"))).unwrap();
            let cells: Vec<&str> = line.split(',').collect();
            let [value, floor, ceiling] = run.pooled(strategy, None, metric);
            let expected = [value, floor, ceiling, (value - floor) / (ceiling - floor)];
            for (at, expected) in columns.iter().zip(expected) {
                let got: f64 = cells[*at].parse().unwrap();
                assert!((got - expected).abs() < 1e-4, "{label} {metric}: {line}, expected {expected}");
            }
        }
    }
}

/// Sum of w (x - random) over sum of w (oracle - random), needs of a trajectory capped.
#[test]
fn a_bag_of_atoms_is_not_efficient() {
    let run = Run::get();
    for share in [0.02, 0.05, 0.1, 0.2, 0.4] {
        let (mut gained, mut room, mut n) = (0.0, 0.0, 0);
        for row in run.rows("atom-bag", Some(share), "need_retention", "set=exposed tail=10 cap=20") {
            if let (Some(value), Some(random), Some(oracle)) = (row.value, row.floor, row.ceiling) {
                gained += row.weight * (value - random);
                room += row.weight * (oracle - random);
                n += row.n;
            }
        }
        assert!(n > 300 && gained / room < 0.2, "efficiency {} at {share}, n {n}", gained / room);
    }
}

#[test]
fn the_data_are_what_their_generators_make() {
    let python = std::env::var("TRAJPRESS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let tests = [
        "golden/test_golden.py",
        "golden/by_hand/test_by_hand.py",
        "labels/test_agree.py",
        "labels/test_labels.py",
        "phases/test_phases.py",
        "memory/test_memory.py",
    ];
    for test in tests {
        let path = root().join("datasets").join(test);
        let folder: &Path = path.parent().unwrap();
        let mut command = Command::new(&python);
        // Compiled files beside the data would be read as logs.
        command.arg(&path).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{test}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
