//! Makes a run folder with invented rows, to test and look at reports without a run.

use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::scores::discard::{NEEDED_REMOVED_SHARE, NEEDED_SCOPE_SHARE};
use crate::scores::money::{
    COST_SAVINGS, COST_SAVINGS_UNCACHED, NET_SAVINGS, PEAK_SAVINGS, PEAK_TOKENS, TOKEN_SAVINGS,
    TOKEN_SAVINGS_BILLED,
};
use crate::scores::retention::{
    NEED_COVERAGE, NEED_RETENTION, RANDOM_WON_SHARE, SURFACE_RETENTION, UNSUPPORTED_SHARE,
};
use crate::store::{CellRow, EventRow, Row, ScoreRow, TableWriter, TimelineRow, TrajectoryRow, VariantRow};

/// Strategy, its setting (`key=value`, and ` #2` for seed 2), trigger, share of tokens saved while it acts,
/// and how good it is between floor (0) and ceiling (1).
pub(crate) type Spec = (&'static str, &'static str, &'static str, f64, f64);

pub(crate) const TINY: [Spec; 4] = [
    ("full", "", "never", 0.0, 1.0),
    ("mask", "keep_last=10", "turns(n=10)", 0.5, 0.6),
    ("random", "b=0.2", "turns(n=10)", 0.6, 0.0),
    ("truncate", "last=5", "turns(n=10)", 0.7, 0.2),
];

pub(crate) const GRID: [Spec; 24] = [
    ("full", "", "never", 0.0, 1.0),
    ("drop-all", "", "turns(n=20)", 0.66, -0.3),
    ("drop-all", "", "tokens(fraction=0.5)", 0.45, -0.3),
    ("random", "b=0.1", "turns(n=20)", 0.60, 0.0),
    ("random", "b=0.4", "turns(n=20)", 0.40, 0.02),
    ("oracle", "b=0.1", "turns(n=20)", 0.60, 1.0),
    ("atom-bag", "b=0.1", "turns(n=20)", 0.60, 0.12),
    ("truncate", "last=3", "turns(n=20)", 0.64, -0.1),
    ("truncate", "last=5", "turns(n=20)", 0.58, 0.05),
    ("truncate", "last=10", "turns(n=20)", 0.44, 0.15),
    ("truncate", "head+tail", "turns(n=20)", 0.50, 0.22),
    ("truncate", "last=5", "tokens(fraction=0.5)", 0.40, 0.05),
    ("mask", "keep_last=3", "turns(n=20)", 0.55, 0.45),
    ("mask", "keep_last=5", "turns(n=20)", 0.50, 0.52),
    ("mask", "keep_last=10", "turns(n=20)", 0.41, 0.60),
    ("mask", "keep_last=20", "turns(n=20)", 0.28, 0.66),
    ("mask", "keep_last=10", "tokens(fraction=0.5)", 0.30, 0.58),
    ("summary", "extractive", "turns(n=20)", 0.57, 0.30),
    ("summary", "extractive", "tokens(fraction=0.5)", 0.38, 0.33),
    ("hierarchical", "c=5", "turns(n=20)", 0.53, 0.28),
    ("protected-core", "", "turns(n=20)", 0.49, 0.41),
    ("salience", "ranked", "turns(n=20)", 0.52, 0.58),
    ("salience", "top-k", "turns(n=20)", 0.56, 0.50),
    ("tiered", "2k/4k/4k", "turns(n=20)", 0.47, 0.44),
];

/// Five budgets of two strategies, and a sampled strategy under three seeds.
pub(crate) const BUDGETS: [Spec; 16] = [
    ("full", "", "never", 0.0, 1.0),
    ("drop-all", "", "turns(n=20)", 0.66, -0.3),
    ("mask", "keep_last=10", "turns(n=20)", 0.41, 0.60),
    ("random", "kept_share=0.02", "turns(n=20)", 0.65, 0.0),
    ("random", "kept_share=0.05", "turns(n=20)", 0.63, 0.0),
    ("random", "kept_share=0.1", "turns(n=20)", 0.60, 0.0),
    ("random", "kept_share=0.2", "turns(n=20)", 0.53, 0.0),
    ("random", "kept_share=0.4", "turns(n=20)", 0.40, 0.0),
    ("salience", "kept_share=0.02", "turns(n=20)", 0.65, 0.3),
    ("salience", "kept_share=0.05", "turns(n=20)", 0.63, 0.4),
    ("salience", "kept_share=0.1", "turns(n=20)", 0.60, 0.5),
    ("salience", "kept_share=0.2", "turns(n=20)", 0.53, 0.6),
    ("salience", "kept_share=0.4", "turns(n=20)", 0.40, 0.7),
    ("summary", "style=short", "turns(n=20)", 0.55, 0.30),
    ("summary", "style=short #2", "turns(n=20)", 0.54, 0.35),
    ("summary", "style=short #3", "turns(n=20)", 0.56, 0.40),
];

/// Strategies that nobody would run.
const CONTROLS: [&str; 5] = ["full", "drop-all", "random", "oracle", "atom-bag"];

/// Writes a run of these variants over `n_trajectories`; the fourth variant fails on one of them.
pub(crate) fn write_run(folder: &Path, specs: &[Spec], n_trajectories: usize, n_repositories: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut uniform = move || f64::from(rng.next_u32()) / 4_294_967_296.0;
    let trajectories: Vec<TrajectoryRow> = (0..n_trajectories)
        .map(|t| TrajectoryRow {
            trajectory: id(t),
            source: format!("{t}.traj"),
            format: ["mini-swe-agent", "swe-agent", "tau-bench"][t % 3].to_owned(),
            task_id: Some(format!("task-{}", t / 2)),
            repository: Some(format!("owner/repo-{}", t / 2 % n_repositories)),
            resolved: Some(t.is_multiple_of(3)),
            n_steps: 60,
            n_turns: 30,
            n_segments: 1,
            n_bytes: 90_000,
            source_key: format!("session {t}"),
            content: id(t),
            ..TrajectoryRow::default()
        })
        .collect();
    let (mut cells, mut events, mut scores, mut timeline) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for t in 0..n_trajectories {
        let (needs, exposure) = (4 + (uniform() * 16.0) as u64, 0.3 + 0.5 * uniform());
        let (luck, scale) = (uniform() - 0.5, 0.6 + 0.8 * uniform());
        let full = 20_000.0 + 180_000.0 * uniform();
        for (v, &(strategy, _, _, saved, quality)) in specs.iter().enumerate() {
            let failed = v == 3 && t == 1;
            let saved = (saved * scale).min(0.95);
            cells.push(CellRow {
                variant: variant(v).into(),
                trajectory: id(t).into(),
                status: if failed { "error" } else { "ok" }.to_owned(),
                error: failed.then(|| "step 7: no such block".to_owned()),
                n_decisions: 30,
                n_events: u32::from(strategy != "full"),
                n_violations: 0,
                tokens_full: full as u64,
                tokens_sent: (full * (1.0 - saved)) as u64,
                ..CellRow::default()
            });
            if failed {
                continue;
            }
            timeline.extend(decisions(v, t, full, saved));
            let mut score = |metric: &str, stratum: &str, value: [Option<f64>; 5], weight: f64, n: u64| {
                scores.push(ScoreRow {
                    variant: variant(v).into(),
                    trajectory: id(t).into(),
                    event: None,
                    metric: metric.to_owned().into(),
                    stratum: stratum.into(),
                    value: value[0],
                    floor: value[1],
                    ceiling: value[2],
                    atom_bag: value[3],
                    chance: value[4],
                    weight,
                    n,
                    n_kept: kept(metric, value[0], n),
                });
            };
            let log = Log { t, needs, exposure, luck, full };
            log.scores(v, (strategy, saved, quality), &mut score);
            let kept = 1.0 - (saved / 0.95).min(1.0);
            for event in 0..u32::from(strategy != "full") * 2 {
                let break_even_turns = (uniform() < 0.6).then(|| 2 + (uniform() * 9.0) as u32);
                events.push(event_row(v, t, event, (8_000.0 * kept) as u64, break_even_turns));
            }
        }
    }
    write_prices(folder);
    table(folder, trajectories);
    table(folder, variants(specs));
    table(folder, cells);
    table(folder, events);
    table(folder, scores);
    table(folder, timeline);
}

/// Of needs those that were kept.
fn kept(metric: &str, value: Option<f64>, n: u64) -> Option<u64> {
    value.filter(|_| metric.ends_with("_retention")).map(|x| (x * n as f64).round() as u64)
}

/// The row of each variant.
fn variants(specs: &[Spec]) -> Vec<VariantRow> {
    specs
        .iter()
        .enumerate()
        .map(|(v, (strategy, setting, trigger, ..))| {
            let (setting, seed) = setting.split_once(" #").unwrap_or((setting, "0"));
            let mut label = match setting {
                "" => format!("{strategy} @ {trigger}"),
                _ => format!("{strategy}({setting}) @ {trigger}"),
            };
            if seed != "0" {
                label += &format!(" #{seed}");
            }
            VariantRow {
                variant: variant(v),
                label,
                strategy: (*strategy).to_owned(),
                strategy_params: params(setting),
                trigger: trigger.split('(').next().unwrap_or_default().to_owned(),
                trigger_params: params(
                    trigger.split_once('(').map_or("", |(_, of)| of.trim_end_matches(')')),
                ),
                model: None,
                control: CONTROLS.contains(strategy) || setting.contains("=given"),
                seed: seed.parse().unwrap(),
            }
        })
        .collect()
}

/// `key=value` as JSON; what is no such pair is a setting by itself.
fn params(setting: &str) -> String {
    match setting.split_once('=') {
        None => format!("{{\"setting\":\"{setting}\"}}"),
        Some((key, value)) if value.parse::<f64>().is_ok() => format!("{{\"{key}\":{value}}}"),
        Some((key, value)) => format!("{{\"{key}\":\"{value}\"}}"),
    }
}

/// Thirty decisions, of which the eleventh and the twenty-first stand behind a compression.
fn decisions(v: usize, t: usize, full: f64, saved: f64) -> impl Iterator<Item = TimelineRow> {
    let full = full / 465.0;
    (0..30).map(move |decision| {
        let n_events = if saved > 0.0 { decision / 10 } else { 0 };
        let tokens_full = (full * f64::from(decision + 1)) as u64;
        let kept = 1.0 - saved * f64::from(u8::from(n_events > 0));
        let tokens_sent =
            (full * (f64::from(n_events * 10) * kept + f64::from(decision + 1 - n_events * 10))) as u64;
        let cached = |tokens: u64| tokens.saturating_sub(full as u64);
        let is_new = saved > 0.0 && decision > 0 && decision % 10 == 0;
        TimelineRow {
            variant: variant(v).into(),
            trajectory: id(t).into(),
            decision,
            turn: decision + 1,
            n_events,
            tokens_full,
            tokens_sent,
            cached_full: cached(tokens_full),
            cached_sent: if is_new { 0 } else { cached(tokens_sent) },
            output_tokens: 40,
            ..TimelineRow::default()
        }
    })
}

fn event_row(v: usize, t: usize, event: u32, kept_tokens: u64, break_even_turns: Option<u32>) -> EventRow {
    EventRow {
        variant: variant(v).into(),
        trajectory: id(t).into(),
        event,
        turn: 10 * (event + 1),
        trigger_kind: "turns".into(),
        confidence: 1.0,
        details: None,
        scope_start: 1,
        scope_end: 10,
        tokens_before: 9_000,
        tokens_after: 4_000,
        removable_tokens: 8_000,
        kept_tokens,
        generated_tokens: 0,
        model_calls: 0,
        embeddings: 0,
        model_tokens_in: 0,
        model_tokens_out: 0,
        model_tokens_cut: 0,
        fallback: None,
        degenerate: vec![],
        warning: None,
        violations: vec![],
        break_even_turns,
        decisions_left: 20 - 10 * event,
    }
}

fn id(t: usize) -> String {
    format!("{t:032x}")
}

fn variant(v: usize) -> String {
    format!("{v:016x}")
}

/// What decides the scores of a trajectory.
struct Log {
    t: usize,
    needs: u64,
    exposure: f64,
    luck: f64,
    full: f64,
}

/// Takes a score: metric, stratum, values, weight, n.
type Score<'a> = &'a mut dyn FnMut(&str, &str, [Option<f64>; 5], f64, u64);

impl Log {
    fn scores(&self, v: usize, (strategy, saved, quality): (&str, f64, f64), score: Score<'_>) {
        let &Log { t, needs, exposure, luck, full } = self;
        let plain = |value: f64| [Some(value), Some(0.0), None, None, None];
        score(TOKEN_SAVINGS.name, "", plain(saved), full, 30);
        score(
            COST_SAVINGS.name,
            "",
            plain(saved * 0.7 - 0.1 * f64::from(u8::from(saved > 0.0))),
            full / 1e6,
            30,
        );
        score(COST_SAVINGS_UNCACHED.name, "", plain(saved * 0.9), full / 1e6, 30);
        score(NET_SAVINGS.name, "", plain(saved * 0.9), full, 30);
        // Usage is logged in one format of three.
        if t % 3 == 0 {
            score(TOKEN_SAVINGS_BILLED.name, "", plain(saved * 0.5), full * 2.0, 30);
        }
        score(PEAK_SAVINGS.name, "", plain(saved * 1.1), full / 20.0, 1);
        score(PEAK_TOKENS.name, "", plain(full / 20.0 * (1.0 - saved)), 1.0, 1);
        let kept = 1.0 - (saved / 0.95).min(1.0);
        let exposed = |quality: f64| {
            let floor = 0.1 + 0.5 * kept;
            let ceiling = 0.75 + 0.25 * kept;
            (floor + quality * (ceiling - floor)).clamp(0.0, 1.0)
        };
        let noisy = |x: f64| (x + 0.25 * luck).clamp(0.0, 1.0);
        let mut retention = |metric: &str, extra: &str, lift: f64, share: f64| {
            for (set, part, at_risk) in [("common", 1.0, exposure), ("exposed", exposure, 1.0)] {
                for tail in [3, 10] {
                    let n = ((needs as f64 * part * share) as u64).max(1);
                    let whole = |x: f64| {
                        if strategy == "full" { 1.0 } else { 1.0 - at_risk * (1.0 - x) }
                    };
                    let values = [
                        Some(whole(noisy(exposed(quality) + lift))),
                        Some(whole(noisy(exposed(0.0)))),
                        Some(whole(exposed(1.0))),
                        Some(whole(noisy(exposed(0.1)))),
                        Some(0.05),
                    ];
                    let stratum = format!("set={set} tail={tail}{extra}");
                    score(metric, &stratum, values, n as f64, n);
                }
            }
        };
        retention(NEED_RETENTION.name, "", 0.0, 1.0);
        retention(SURFACE_RETENTION.name, "", 0.15, 1.0);
        retention(NEED_RETENTION.name, " class=authored", 0.2, 0.5);
        retention(NEED_RETENTION.name, " kind=path", -0.05, 0.3);
        retention(NEED_RETENTION.name, " horizon=5", 0.05, 0.4);
        retention(NEED_RETENTION.name, " horizon=20", 0.02, 0.8);
        retention(NEED_RETENTION.name, " point=1", 0.04, 0.6);
        retention(NEED_RETENTION.name, " point=2", -0.08, 0.4);
        retention(NEED_RETENTION.name, " cap=20", 0.0, 1.0);
        score(NEED_COVERAGE.name, "set=common tail=10", plain(0.7), needs as f64, needs);
        if strategy == "full" {
            score(UNSUPPORTED_SHARE.name, "tail=10 class=observed", plain(0.25), 4.0, 4);
            score(UNSUPPORTED_SHARE.name, "tail=10 class=authored", plain(1.0), 9.0, 9);
            score(UNSUPPORTED_SHARE.name, "tail=10 class=system", plain(1.0), 2.0, 2);
        } else {
            let won = f64::from(u8::from((v, t) == (1, 0)));
            score(RANDOM_WON_SHARE.name, "level=bound", plain(won), 1.0, 1);
            let scope = full * 0.2;
            score(NEEDED_SCOPE_SHARE.name, "", plain(0.08), scope, 50);
            score(
                NEEDED_REMOVED_SHARE.name,
                "",
                plain(0.08 * (1.0 - quality.max(0.0) * 0.8)),
                scope * 0.8,
                40,
            );
        }
    }
}

fn write_prices(folder: &Path) {
    let prices =
        r#"{"name":"toy","fresh":1,"cache_write":1.25,"cache_read":0.1,"output":5,"cache_lifetime":300}"#;
    std::fs::write(folder.join("_manifest.json"), format!(r#"{{"plan":{{"prices":{prices}}}}}"#)).unwrap();
}

fn table<R: Row>(folder: &Path, rows: Vec<R>) {
    let path = folder.join(format!("{}.parquet", R::TABLE));
    let mut writer = TableWriter::create(&path, 1 << 20).unwrap();
    writer.push(rows).unwrap();
    writer.finish().unwrap();
}
