//! Simulates the time between requests, for sessions that do not record it.

use std::time::Duration;

use super::recorded_session::RecordedRequest;

/// Simulates a pause before each request; the same seed gives the same pauses.
///
/// A tool answers within seconds. The pauses of people are log-normal with a median of 90 seconds: 27 of 100
/// are longer than five minutes and 3 of 100 longer than an hour.
#[must_use]
pub fn simulate_pauses(requests: &[RecordedRequest], seed: u64) -> Vec<Duration> {
    const MEDIAN_SECONDS: f64 = 90.0;
    const SPREAD: f64 = 1.965;
    const MAX_SECONDS: f64 = 8.0 * 3_600.0;
    let mut state = seed;
    let pause = |sent: &RecordedRequest| {
        let normal = sample_normal(&mut state);
        let seconds = if sent.after_user_message {
            MEDIAN_SECONDS * (SPREAD * normal).exp()
        } else {
            8.0 * normal.exp().min(15.0)
        };
        Duration::from_secs_f64(seconds.min(MAX_SECONDS))
    };
    requests.iter().map(pause).collect()
}

/// Samples the normal distribution, approximately: the sum of twelve uniform samples.
fn sample_normal(state: &mut u64) -> f64 {
    let mut even = || {
        // The increments and mixing steps of SplitMix64.
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    };
    (0..12).map(|_| even()).sum::<f64>() - 6.0
}
