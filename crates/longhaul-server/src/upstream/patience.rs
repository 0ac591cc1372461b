//! How long somebody waits, and how often is tried again.

use std::time::Duration;

/// How long each part of a call may take. All of it is counted by the runtime's clock, which tests can stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until the head of the answer is there; for answers that do not stream, this is most of the time.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// From the first try to the last byte, with all waiting in between.
    pub whole: Duration,
    /// What is done where a try failed before anything of an answer came.
    pub retries: Retries,
}

/// How often is tried again, and how long is waited where the provider does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// So often after the first try.
    pub most: u32,
    /// The first pause; each later one is twice as long.
    pub first: Duration,
    /// No pause of our own is longer.
    pub longest: Duration,
}

impl Retries {
    /// One try is all.
    pub const NONE: Self = Self { most: 0, first: Duration::ZERO, longest: Duration::ZERO };
}

impl Patience {
    /// For a caller who has so long for the whole: any part of it may take all of that, but silence in the midst of an answer no
    /// longer than a minute.
    #[must_use]
    pub fn of(whole: Duration) -> Self {
        Self {
            first_byte: whole,
            idle: whole.min(Duration::from_mins(1)),
            whole,
            retries: Retries::default(),
        }
    }
}

/// Twice again, after half a second and a second.
impl Default for Retries {
    fn default() -> Self {
        Self { most: 2, first: Duration::from_millis(500), longest: Duration::from_secs(8) }
    }
}
