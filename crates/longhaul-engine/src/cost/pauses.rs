//! How long people and tools let a model wait, where nobody wrote it down.

use std::time::Duration;

use super::session::Sent;

/// A pause before each request, drawn so that equal seeds give equal sessions.
///
/// A tool answers within seconds. People's pauses are spread log-normally around a minute and a half, so that 27 in 100 are
/// longer than five minutes and 3 in 100 longer than an hour.
#[must_use]
pub fn pauses(requests: &[Sent], seed: u64) -> Vec<Duration> {
    const MEDIAN_SECONDS: f64 = 90.0;
    const SPREAD: f64 = 1.965;
    const LONGEST_SECONDS: f64 = 8.0 * 3_600.0;
    let mut state = seed;
    let pause = |sent: &Sent| {
        let normal = normal(&mut state);
        let seconds =
            if sent.asked { MEDIAN_SECONDS * (SPREAD * normal).exp() } else { 8.0 * normal.exp().min(15.0) };
        Duration::from_secs_f64(seconds.min(LONGEST_SECONDS))
    };
    requests.iter().map(pause).collect()
}

/// A draw from the normal distribution: twelve even draws, whose sum has nearly its shape.
fn normal(state: &mut u64) -> f64 {
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
