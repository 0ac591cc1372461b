//! Round values along an axis.

use super::scale::ChartScale;
use longhaul_engine::Timestamp;

/// A label of the horizontal axis, with up to two lines of text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) label: String,
    pub(super) second_line: String,
}

/// Returns round values from 0 to `top`, about as many as asked for.
pub(super) fn round_values(top: f64, about: f64) -> Vec<f64> {
    let rough = top / about;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power).find(|step| *step >= rough);
    let Some(step) = step.filter(|step| step.is_finite() && *step > 0.0) else { return vec![0.0] };
    let count = (top * 1.000_001 / step) as u32;
    (0..=count).map(|n| f64::from(n) * step).collect()
}

/// Returns the labels of the first request and of round request numbers, which count from 1.
pub(super) fn request_ticks(frame: &ChartScale, about: f64, when: &dyn Fn(usize) -> String) -> Vec<Tick> {
    let mut at: Vec<f64> = round_values(frame.max_x + 1.0, about);
    at.retain(|request| *request >= 1.0 && request.fract() == 0.0);
    if at.first() != Some(&1.0) {
        at.insert(0, 1.0);
    }
    // The labels of the first two would overlap.
    if at.len() > 2 && frame.x(at[1] - 1.0) - frame.x(0.0) < 44.0 {
        at.remove(1);
    }
    let tick =
        |request: f64| Tick { x: request - 1.0, label: request.to_string(), second_line: when(request as usize - 1) };
    at.into_iter().map(tick).collect()
}

/// The distances between labels on a time axis, in seconds: round times of a clock and a calendar.
const TIME_STEPS_SECONDS: [i64; 17] =
    [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000];

/// Returns the labels of round times, at most about as many as asked for. The first label of each day has the
/// date below it. If fewer than two round times fit, the ends of the axis get the labels.
pub(super) fn time_ticks(from: f64, to: f64, about: f64) -> Vec<Tick> {
    let rough = (to - from) / about;
    let step = TIME_STEPS_SECONDS.into_iter().find(|step| *step as f64 >= rough).unwrap_or((rough as i64).max(1));
    let first = (from / step as f64).ceil() as i64 * step;
    let round = (0..=about as i64).map(|n| first + n * step).take_while(|at| *at as f64 <= to);
    let mut times: Vec<i64> = round.collect();
    let ends = [from.ceil() as i64, to.floor() as i64];
    if times.len() < 2 && ends[0] < ends[1] {
        // The axis has no two round times, so its ends get the labels.
        times = ends.to_vec();
    }
    let mut day = String::new();
    let mut ticks = Vec::new();
    for at in times {
        let text = Timestamp(at.saturating_mul(1000)).to_string();
        let (date, clock) = text.split_once('T').unwrap_or((&text, ""));
        let clock = clock.trim_end_matches('Z');
        let label = if step < 60 { clock } else { clock.get(..5).unwrap_or(clock) };
        let below = if date == day { String::new() } else { date.to_owned() };
        date.clone_into(&mut day);
        let (label, below) = if step >= 86_400 { (date.to_owned(), String::new()) } else { (label.to_owned(), below) };
        ticks.push(Tick { x: at as f64, label, second_line: below });
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(round_values(1.05, 5.0), [0.0, 0.5, 1.0]);
        assert_eq!(round_values(200_000.0, 5.0), [0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0]);
        assert_eq!(round_values(0.0, 5.0), [0.0]);
        assert_eq!(round_values(f64::INFINITY, 5.0), [0.0]);
        assert!(round_values(0.003, 5.0).len() > 2);
    }

    #[test]
    fn times_are_those_of_a_clock_and_days_are_said_once() {
        let labels = |from: f64, to: f64| -> Vec<(String, String)> {
            time_ticks(from, to, 8.0).into_iter().map(|tick| (tick.label, tick.second_line)).collect()
        };
        let pair = |label: &str, below: &str| (label.to_owned(), below.to_owned());
        let start = 1_777_936_777.0; // 2026-05-04T23:19:37Z
        assert_eq!(
            labels(start, start + 7_000.0)[..3],
            [pair("23:30", "2026-05-04"), pair("23:45", ""), pair("00:00", "2026-05-05")]
        );
        assert_eq!(labels(start, start + 5.0)[0].0, "23:19:37");
        assert_eq!(labels(start, start + 600_000.0)[0], pair("2026-05-05", ""));
        for length in [0.0, 1.0, 60.0, 86_400.0, 1e9] {
            assert!(time_ticks(start, start + length, 8.0).len() <= 9, "{length}");
        }
    }
}
