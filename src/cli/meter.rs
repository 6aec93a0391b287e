//! How far a command is that reads bytes: a bar on a terminal, else a line now and then.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Meter {
    bar: Option<ProgressBar>,
    quiet: bool,
    start: Instant,
    last: Instant,
}

impl Meter {
    pub(super) fn new(quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let style =
                "{msg} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} eta {eta}";
            let style = ProgressStyle::with_template(style).expect("the template is fixed and valid");
            ProgressBar::new(0).with_style(style)
        });
        Meter { bar, quiet, start: Instant::now(), last: Instant::now() }
    }

    /// Shows that `done` of `total` bytes are read; `doing` says of what.
    pub(super) fn show(&mut self, doing: impl FnOnce() -> String, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(doing());
            return;
        }
        if self.quiet || self.last.elapsed() < PAUSE {
            return;
        }
        self.last = Instant::now();
        let rate = done as f64 / self.start.elapsed().as_secs_f64();
        let left = total.saturating_sub(done) as f64 / rate.max(1.0);
        super::tell(&format!(
            "{}, {}/{}, {:.1} MB/s, about {left:.0} s left",
            doing(),
            DecimalBytes(done),
            DecimalBytes(total),
            rate / 1e6
        ));
    }

    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
