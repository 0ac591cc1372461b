//! A bar for long work, where a person is looking.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work needs no bar.
const LONG: Duration = Duration::from_secs(1);

/// How far the work is. The bar shows itself only on a terminal, and only once the work has taken long.
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: bool,
}

impl Progress {
    /// Of so many things; of unknown many where they are read one by one.
    pub(crate) fn of(count: Option<usize>, things: &str) -> Self {
        let total = count.map(|count| count as u64);
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match count {
            Some(_) => format!("{{bar:30}} {{pos}} of {{len}} {things}, {{eta}} left"),
            None => format!("{{spinner}} {{pos}} {things}, {{per_sec}}"),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self { bar, start: Instant::now(), shown: false }
    }

    /// For those who want to hear nothing.
    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), start: Instant::now(), shown: true }
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.bar.inc(1);
        if !self.shown && self.start.elapsed() > LONG {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Says something without tearing the bar.
    pub(crate) fn aside(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }
}

/// What is done needs no bar.
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
