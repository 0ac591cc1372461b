//! From values to places on the drawing.

use std::fmt::Write;

use super::{Along, Chart, Point};

pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 18.0;
const TOP: f64 = 26.0;
pub(super) const BOTTOM: f64 = 46.0;

/// Which values the edges of the drawing have.
pub(super) struct Frame {
    w: f64,
    pub(super) h: f64,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) top: f64,
}

impl Frame {
    pub(super) fn new((w, h): (f64, f64), chart: &Chart<'_>) -> Self {
        let xs = || chart.lines.iter().flat_map(|line| &line.points).map(|point| point.x);
        let last = xs().fold(f64::MIN, f64::max);
        let from = match chart.along {
            Along::Requests(_) => 0.0,
            Along::Time => xs().fold(last, f64::min),
        };
        let to = if last > from { last } else { from };
        let edges = if from.is_finite() && from > f64::MIN { (from, to) } else { (0.0, 0.0) };
        Self { w, h, from: edges.0, to: edges.1, top: chart.top.max(f64::MIN_POSITIVE) }
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        let width = self.to - self.from;
        let share = if width > 0.0 { (value - self.from) / width } else { 0.0 };
        LEFT + share * (self.w - LEFT - RIGHT)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        TOP + (1.0 - value / self.top) * (self.h - TOP - BOTTOM)
    }

    /// A line as a path. Where several points share a place to draw, the lowest and the highest are drawn: a session of
    /// thousands of requests makes no page of megabytes.
    pub(super) fn path(&self, points: &[Point]) -> String {
        let column = |point: &Point| self.x(point.x) as i64;
        let mut path = String::new();
        for together in points.chunk_by(|a, b| column(a) == column(b)) {
            let by_value = |a: &(usize, &Point), b: &(usize, &Point)| a.1.y.total_cmp(&b.1.y);
            let least = together.iter().enumerate().min_by(by_value).map(|(at, _)| at);
            let highest = together.iter().enumerate().max_by(by_value).map(|(at, _)| at);
            let mut at: Vec<usize> = least.into_iter().chain(highest).collect();
            at.sort_unstable();
            at.dedup();
            for point in at.into_iter().map(|at| together[at]) {
                let (x, y) = (place(self.x(point.x)), place(self.y(point.y.min(self.top))));
                let _ = write!(path, "{}{x} {y}", if path.is_empty() { 'M' } else { 'L' });
            }
        }
        // One request alone is a point, which would not be seen.
        if points.len() == 1 {
            path.push_str("h6");
        }
        path
    }
}

/// A place as it is written: a tenth of a dot is more than is seen.
pub(super) fn place(value: f64) -> String {
    format!("{value:.1}")
}
