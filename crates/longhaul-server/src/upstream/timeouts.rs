//! The timeouts of a call, and how often it is retried.

use std::time::Duration;

/// The timeouts of the parts of a call. They use the runtime's clock, which tests can stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The time until the first byte of the reply. For replies that do not stream, this is most of the time.
    pub first_byte: Duration,
    /// The time between two pieces of the reply.
    pub idle: Duration,
    /// The time from the first try to the last byte, including all waiting in between.
    pub total: Duration,
    /// The retries after a try that failed before any part of a reply arrived.
    pub retry_policy: RetryPolicy,
}

/// The number of retries, and the delays between them if the provider gives none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum number of retries after the first try.
    pub max_retries: u32,
    /// The first delay; each later one is twice as long.
    pub first_delay: Duration,
    /// The maximum delay. It does not limit the delay that a provider asks for.
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// No retries.
    pub const NONE: Self = Self { max_retries: 0, first_delay: Duration::ZERO, max_delay: Duration::ZERO };
}

impl Timeouts {
    /// Creates timeouts for a caller with this total time. Each part may use all of it, except that a pause
    /// in the middle of a reply may take at most a minute.
    #[must_use]
    pub fn with_total(total: Duration) -> Self {
        Self { first_byte: total, idle: total.min(Duration::from_mins(1)), total, retry_policy: RetryPolicy::default() }
    }
}

/// Two retries, after about half a second and a second.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_retries: 2, first_delay: Duration::from_millis(500), max_delay: Duration::from_secs(8) }
    }
}
