//! How far a long command is: a bar on a terminal, a line now and then elsewhere, or events as JSON.
//!
//! An event is a line on stderr that begins with `{`: `{"event":"progress","stage":"replay","done":1200,"total":5000,
//! "unit":"step-variants","seconds":3.1,"seconds_left":9.8}`. A stage has one when it begins and one when it ends, and between
//! them one a second at most.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{DecimalBytes, HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde_json::json;

use crate::text::escape;

/// How progress is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Words = 0,
    Events = 1,
    Quiet = 2,
}

static HOW: AtomicU8 = AtomicU8::new(How::Words as u8);

/// Says how all of the process tells it.
pub fn tell(how: How) {
    HOW.store(how as u8, Ordering::Relaxed);
}

fn how() -> How {
    [How::Words, How::Events, How::Quiet][usize::from(HOW.load(Ordering::Relaxed)).min(2)]
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    StepVariants,
    Variants,
    Calls,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::StepVariants => "step-variants",
            Unit::Variants => "variants",
            Unit::Calls => "calls",
        }
    }

    /// What stands behind a number of it.
    fn behind(self) -> &'static str {
        match self {
            Unit::Bytes => "",
            Unit::StepVariants => " step-variants",
            Unit::Variants => " variants",
            Unit::Calls => " calls",
        }
    }

    fn shown(self, n: u64) -> String {
        match self {
            Unit::Bytes => DecimalBytes(n).to_string(),
            Unit::StepVariants | Unit::Variants | Unit::Calls => HumanCount(n).to_string(),
        }
    }
}

/// A stage of a command.
pub struct Meter {
    stage: &'static str,
    unit: Unit,
    how: How,
    total: AtomicU64,
    done: AtomicU64,
    start: Instant,
    /// Milliseconds after the start of what was told last.
    told: AtomicU64,
    bar: Option<ProgressBar>,
}

impl Meter {
    pub fn new(stage: &'static str, unit: Unit, total: u64, quiet: bool) -> Self {
        let how = if quiet { How::Quiet } else { how() };
        let bar = (how == How::Words && io::stderr().is_terminal()).then(|| bar(stage, unit, total));
        let zero = || AtomicU64::new(0);
        let meter =
            Meter { stage, unit, how, total: zero(), done: zero(), start: Instant::now(), told: zero(), bar };
        meter.total.store(total, Ordering::Relaxed);
        meter.event();
        meter
    }

    pub fn add(&self, n: u64) {
        self.done.fetch_add(n, Ordering::Relaxed);
        self.show(|| String::new());
    }

    /// What was counted is done again.
    pub fn take_back(&self, n: u64) {
        self.done.fetch_sub(n, Ordering::Relaxed);
    }

    /// So much is done of a whole that may grow; `doing` says of what.
    pub fn set(&self, done: u64, total: u64, doing: impl FnOnce() -> String) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.show(doing);
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.event();
    }

    fn show(&self, doing: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_length(self.total.load(Ordering::Relaxed));
            bar.set_position(self.done.load(Ordering::Relaxed));
            let doing = doing();
            if !doing.is_empty() {
                bar.set_message(doing);
            }
            return;
        }
        let pause = match self.how {
            How::Words => 10_000,
            How::Events => 1_000,
            How::Quiet => return,
        };
        let (now, last) = (self.start.elapsed().as_millis() as u64, self.told.load(Ordering::Relaxed));
        // One thread tells, the others go on.
        let is_mine = || self.told.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if now < last + pause || !is_mine() {
            return;
        }
        match self.how {
            How::Events => self.event(),
            _ => self.line(&doing()),
        }
    }

    /// Seconds since it began, and left.
    fn seconds(&self) -> (f64, f64) {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let passed = self.start.elapsed().as_secs_f64();
        (passed, total.saturating_sub(done) as f64 * passed / (done as f64).max(1.0))
    }

    fn line(&self, doing: &str) {
        let (passed, left) = self.seconds();
        let [done, total] = [&self.done, &self.total].map(|n| self.unit.shown(n.load(Ordering::Relaxed)));
        let rate = pace(self.unit, self.done.load(Ordering::Relaxed) as f64 / passed);
        let doing = if doing.is_empty() { self.stage } else { doing };
        let left = HumanDuration(Duration::from_secs_f64(left.min(1e9)));
        let unit = self.unit.behind();
        tracing::info!("{doing}: {done} of {total}{unit}, {rate}, {left} left");
    }

    fn event(&self) {
        if self.how != How::Events {
            return;
        }
        let rounded = |x: f64| (x * 10.0).round() / 10.0;
        let (passed, left) = self.seconds();
        let done = self.done.load(Ordering::Relaxed);
        let event = json!({
            "event": "progress", "stage": self.stage, "done": done, "total": self.total.load(Ordering::Relaxed),
            "unit": self.unit.name(), "seconds": rounded(passed), "seconds_left": (done > 0).then(|| rounded(left)),
        });
        // That nobody reads it is no failure.
        if let Ok(line) = escape::json_line(&event) {
            let _ = io::stderr().write_all((line.trim_end().to_owned() + "\n").as_bytes());
        }
    }
}

/// `5/s`; what is slower by the minute, since 0/s would say that nothing happens.
fn pace(unit: Unit, per_second: f64) -> String {
    match per_second < 1.0 {
        true => format!("{}/min", unit.shown((60.0 * per_second) as u64)),
        false => format!("{}/s", unit.shown(per_second as u64)),
    }
}

fn bar(stage: &str, unit: Unit, total: u64) -> ProgressBar {
    let shown = move |out: &mut dyn std::fmt::Write, n: u64| {
        // Nothing goes wrong in writing to a terminal's line.
        let _ = write!(out, "{}", unit.shown(n));
    };
    let style = ProgressStyle::with_template(&format!(
        "{{msg}} {{wide_bar}} {{at}}/{{of}}{}, {{rate}}, {{eta}} left",
        unit.behind()
    ))
    .expect("the template holds known keys only")
    .with_key("at", move |state: &ProgressState, out: &mut dyn std::fmt::Write| shown(out, state.pos()))
    .with_key("of", move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        shown(out, state.len().unwrap_or(0))
    })
    .with_key("rate", move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = write!(out, "{}", pace(unit, state.per_sec()));
    });
    let bar = ProgressBar::new(total).with_style(style).with_message(stage.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_is_told_by_the_minute() {
        let told = [0.1, 0.9, 1.0, 5.2].map(|rate| pace(Unit::Variants, rate));
        assert_eq!(told, ["6/min", "54/min", "1/s", "5/s"]);
    }
}
