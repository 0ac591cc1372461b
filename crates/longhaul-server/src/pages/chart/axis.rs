//! Round values along an axis.

use super::frame::Frame;
use crate::agents::Moment;

/// A place on the lower axis, and the two lines below it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) label: String,
    pub(super) below: String,
}

/// Round values from 0 to the top, about so many.
pub(super) fn ticks(top: f64, about: f64) -> Vec<f64> {
    let rough = top / about;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power).find(|step| *step >= rough);
    let Some(step) = step.filter(|step| step.is_finite() && *step > 0.0) else { return vec![0.0] };
    let count = (top * 1.000_001 / step) as u32;
    (0..=count).map(|n| f64::from(n) * step).collect()
}

/// The first request and round ones after it, counted from 1.
pub(super) fn requests(frame: &Frame, about: f64, when: &dyn Fn(usize) -> String) -> Vec<Tick> {
    let mut at: Vec<f64> = ticks(frame.to + 1.0, about);
    at.retain(|request| *request >= 1.0 && request.fract() == 0.0);
    if at.first() != Some(&1.0) {
        at.insert(0, 1.0);
    }
    // The first two would run into each other.
    if at.len() > 2 && frame.x(at[1] - 1.0) - frame.x(0.0) < 44.0 {
        at.remove(1);
    }
    let tick = |request: f64| Tick {
        x: request - 1.0,
        label: request.to_string(),
        below: when(request as usize - 1),
    };
    at.into_iter().map(tick).collect()
}

/// Steps that a clock and a calendar know, in seconds.
const STEPS: [i64; 17] = [
    1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
];

/// Round times between two, at most so many, with the day below the first of each; where there are too few, the two themselves.
pub(super) fn moments(from: f64, to: f64, about: f64) -> Vec<Tick> {
    let rough = (to - from) / about;
    let step = STEPS.into_iter().find(|step| *step as f64 >= rough).unwrap_or((rough as i64).max(1));
    let first = (from / step as f64).ceil() as i64 * step;
    let round = (0..=about as i64).map(|n| first + n * step).take_while(|at| *at as f64 <= to);
    let mut times: Vec<i64> = round.collect();
    let ends = [from.ceil() as i64, to.floor() as i64];
    if times.len() < 2 && ends[0] < ends[1] {
        // Between two round times there is still a beginning and an end.
        times = ends.to_vec();
    }
    let mut day = String::new();
    let mut ticks = Vec::new();
    for at in times {
        let text = Moment(at.saturating_mul(1000)).to_string();
        let (date, clock) = text.split_once('T').unwrap_or((&text, ""));
        let clock = clock.trim_end_matches('Z');
        let label = if step < 60 { clock } else { clock.get(..5).unwrap_or(clock) };
        let below = if date == day { String::new() } else { date.to_owned() };
        date.clone_into(&mut day);
        let (label, below) =
            if step >= 86_400 { (date.to_owned(), String::new()) } else { (label.to_owned(), below) };
        ticks.push(Tick { x: at as f64, label, below });
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(1.05, 5.0), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(200_000.0, 5.0), [0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0]);
        assert_eq!(ticks(0.0, 5.0), [0.0]);
        assert_eq!(ticks(f64::INFINITY, 5.0), [0.0]);
        assert!(ticks(0.003, 5.0).len() > 2);
    }

    #[test]
    fn times_are_those_of_a_clock_and_days_are_said_once() {
        let labels = |from: f64, to: f64| -> Vec<(String, String)> {
            moments(from, to, 8.0).into_iter().map(|tick| (tick.label, tick.below)).collect()
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
            assert!(moments(start, start + length, 8.0).len() <= 9, "{length}");
        }
    }
}
