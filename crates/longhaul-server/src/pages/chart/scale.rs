//! Converts values to coordinates of the drawing.

use std::fmt::Write;

use super::{Chart, Point, XAxis};

pub(super) const LEFT_MARGIN: f64 = 64.0;
pub(super) const RIGHT_MARGIN: f64 = 18.0;
const TOP_MARGIN: f64 = 26.0;
pub(super) const BOTTOM_MARGIN: f64 = 46.0;

/// The size of the drawing, and the values at its edges.
pub(super) struct ChartScale {
    width: f64,
    pub(super) height: f64,
    pub(super) min_x: f64,
    pub(super) max_x: f64,
    pub(super) max_y: f64,
}

impl ChartScale {
    pub(super) fn new((w, h): (f64, f64), chart: &Chart<'_>) -> Self {
        let xs = || chart.lines.iter().flat_map(|line| &line.points).map(|point| point.x);
        let last = xs().fold(f64::MIN, f64::max);
        let from = match chart.x_axis {
            XAxis::Requests(_) => 0.0,
            XAxis::Time => xs().fold(last, f64::min),
        };
        let to = if last > from { last } else { from };
        let edges = if from.is_finite() && from > f64::MIN { (from, to) } else { (0.0, 0.0) };
        Self { width: w, height: h, min_x: edges.0, max_x: edges.1, max_y: chart.max_value.max(f64::MIN_POSITIVE) }
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        let width = self.max_x - self.min_x;
        let share = if width > 0.0 { (value - self.min_x) / width } else { 0.0 };
        LEFT_MARGIN + share * (self.width - LEFT_MARGIN - RIGHT_MARGIN)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        TOP_MARGIN + (1.0 - value / self.max_y) * (self.height - TOP_MARGIN - BOTTOM_MARGIN)
    }

    /// Returns a line as an SVG path. Of several points in the same column it draws only the lowest and the
    /// highest, so that a session of thousands of requests does not make a page of megabytes.
    pub(super) fn path(&self, points: &[Point]) -> String {
        let column = |point: &Point| self.x(point.x) as i64;
        let mut path = String::new();
        for together in points.chunk_by(|a, b| column(a) == column(b)) {
            let by_value = |a: &(usize, &Point), b: &(usize, &Point)| a.1.y.total_cmp(&b.1.y);
            let lowest = together.iter().enumerate().min_by(by_value).map(|(at, _)| at);
            let highest = together.iter().enumerate().max_by(by_value).map(|(at, _)| at);
            let mut at: Vec<usize> = lowest.into_iter().chain(highest).collect();
            at.sort_unstable();
            at.dedup();
            for point in at.into_iter().map(|at| together[at]) {
                let (x, y) = (format_coordinate(self.x(point.x)), format_coordinate(self.y(point.y.min(self.max_y))));
                let _ = write!(path, "{}{x} {y}", if path.is_empty() { 'M' } else { 'L' });
            }
        }
        // A single request would be an invisible point.
        if points.len() == 1 {
            path.push_str("h6");
        }
        path
    }
}

/// Formats a coordinate with one decimal; smaller differences are invisible.
pub(super) fn format_coordinate(value: f64) -> String {
    format!("{value:.1}")
}
