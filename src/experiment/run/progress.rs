//! How far a run is: a bar on a terminal, lines of log elsewhere.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use super::super::units::Unit;

/// Time between two lines of progress where there is no terminal.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Tells how far the run is: a bar on a terminal, lines of log elsewhere.
pub(super) struct Progress {
    total: u64,
    done: AtomicU64,
    start: Instant,
    /// Milliseconds after the start of the last line.
    logged: AtomicU64,
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    pub(super) fn new(total: u64, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let style = "replay {wide_bar} {human_pos}/{human_len} step-variants, {rate}/s, {eta} left";
            let style = ProgressStyle::with_template(style).expect("the template holds known keys only");
            let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // Nothing goes wrong in writing to a terminal's line.
                let _ = write!(out, "{}", HumanCount(state.per_sec() as u64));
            };
            let style = style.with_key("rate", rate);
            let bar = ProgressBar::new(total).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress {
            total,
            done: AtomicU64::new(0),
            start: Instant::now(),
            logged: AtomicU64::new(0),
            bar,
            quiet,
        }
    }

    pub(super) fn unit(&self, unit: &Unit) -> Counted<'_> {
        Counted { progress: self, cost: unit.step_variants(), done: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, n: u64) {
        let done = self.done.fetch_add(n, Ordering::Relaxed) + n;
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        } else if !self.quiet {
            self.log(done);
        }
    }

    fn log(&self, done: u64) {
        let now = self.start.elapsed();
        let last = self.logged.load(Ordering::Relaxed);
        let now_ms = now.as_millis() as u64;
        if now_ms < last + LOG_EVERY.as_millis() as u64 {
            return;
        }
        // One thread logs, the others go on.
        if self.logged.compare_exchange(last, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let rate = done as f64 / now.as_secs_f64();
        let left = self.total.saturating_sub(done) as f64 / rate.max(1.0);
        tracing::info!(
            "{} of {} step-variants, {}/s, {} left",
            HumanCount(done),
            HumanCount(self.total),
            HumanCount(rate as u64),
            HumanDuration(Duration::from_secs_f64(left))
        );
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Progress of one unit: never counts more than its cost, whatever is tried again.
pub(super) struct Counted<'a> {
    progress: &'a Progress,
    cost: u64,
    done: AtomicU64,
}

impl Counted<'_> {
    pub(super) fn add(&self, n: u64) {
        let before = self.done.fetch_add(n, Ordering::Relaxed);
        let counts = n.min(self.cost.saturating_sub(before));
        if counts > 0 {
            self.progress.add(counts);
        }
    }

    /// What was counted is done again.
    pub(super) fn reset(&self) {
        let done = self.done.swap(0, Ordering::Relaxed).min(self.cost);
        self.progress.done.fetch_sub(done, Ordering::Relaxed);
    }

    pub(super) fn complete(&self) {
        self.add(self.cost.saturating_sub(self.done.load(Ordering::Relaxed)));
    }
}
