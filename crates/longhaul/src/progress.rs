//! A progress bar for long work on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The time after which the bar appears. Chosen by hand: shorter work needs no bar.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// The progress of some work. The bar appears only on a terminal, and only after [`SHOW_AFTER`].
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
    is_shown: bool,
}

impl Progress {
    /// Starts the progress of work on `count` things, or on an unknown number of them if they are read one by
    /// one.
    pub(crate) fn new(count: Option<usize>, things: &str) -> Self {
        let total = count.map(|count| count as u64);
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match count {
            Some(_) => format!("{{bar:30}} {{pos}} of {{len}} {things}, {{eta}} left"),
            None => format!("{{spinner}} {{pos}} {things}, {{per_sec}}"),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self { bar, start: Instant::now(), is_shown: false }
    }

    /// Returns a progress that is never shown, for `--quiet`.
    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), start: Instant::now(), is_shown: true }
    }

    /// Counts one more thing as done.
    pub(crate) fn step(&mut self) {
        self.bar.inc(1);
        if !self.is_shown && self.start.elapsed() > SHOW_AFTER {
            self.is_shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Hides the bar while `say` prints something.
    pub(crate) fn suspend(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }
}

/// Removes the bar.
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
