//! A drawing of lines over the requests of a session, as SVG that takes its colours from the page around it.

use std::fmt::Write;

/// One line, and the requests at which something happened on it.
pub(super) struct Line {
    /// Which of the page's colours it has.
    pub(super) color: usize,
    /// The value of each request, from the first on.
    pub(super) values: Vec<f64>,
    /// Places in `values` that get a dot.
    pub(super) dots: Vec<usize>,
}

/// What is drawn.
pub(super) struct Chart<'c> {
    /// What stands along the upright axis.
    pub(super) unit: &'c str,
    pub(super) lines: &'c [Line],
    /// The highest value that is shown; what is larger is cut off.
    pub(super) top: f64,
    /// A limit, drawn across.
    pub(super) limit: Option<(f64, &'c str)>,
    pub(super) label: &'c dyn Fn(f64) -> String,
    /// When each request was sent, in words.
    pub(super) when: &'c dyn Fn(usize) -> String,
}

/// For which width it is drawn: one drawing cannot be read on a desk and in a hand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Wide,
    Narrow,
}

impl Width {
    fn size(self) -> (f64, f64) {
        match self {
            Self::Wide => (960.0, 300.0),
            Self::Narrow => (360.0, 260.0),
        }
    }

    fn labels(self) -> f64 {
        match self {
            Self::Wide => 8.0,
            Self::Narrow => 3.0,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

const LEFT: f64 = 64.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;

impl Chart<'_> {
    pub(super) fn svg(&self, width: Width) -> String {
        let (w, h) = width.size();
        let mut svg = format!("<svg class=\"{}\" viewBox=\"0 0 {w} {h}\" role=\"img\">\n", width.class());
        let frame = Frame { w, h, count: self.count(), top: self.top.max(f64::MIN_POSITIVE) };
        let _ = writeln!(svg, "<text class=\"unit\" x=\"4\" y=\"14\">{}</text>", self.unit);
        for value in ticks(frame.top, 5.0) {
            let (y, label) = (frame.y(value), (self.label)(value));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                w - RIGHT,
                LEFT - 6.0,
                y + 4.0
            );
        }
        self.requests(&mut svg, &frame, width);
        if let Some((limit, name)) = self.limit.filter(|(limit, _)| *limit <= self.top) {
            let y = frame.y(limit);
            let _ = writeln!(
                svg,
                "<path class=\"limit\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"limit\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                w - RIGHT,
                w - RIGHT,
                y - 5.0
            );
        }
        for line in self.lines {
            let path = line.path(&frame);
            let _ = writeln!(svg, "<path class=\"line c{}\" d=\"{path}\"/>", line.color);
        }
        for line in self.lines {
            for at in &line.dots {
                let Some(value) = line.values.get(*at) else { continue };
                let (x, y) = (frame.x(*at), frame.y(value.min(frame.top)));
                let _ = writeln!(
                    svg,
                    "<circle class=\"dot c{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>",
                    line.color
                );
            }
        }
        svg + "</svg>\n"
    }

    fn count(&self) -> usize {
        self.lines.iter().map(|line| line.values.len()).max().unwrap_or(0)
    }

    /// The axis below: the request, and under it when it was sent.
    fn requests(&self, svg: &mut String, frame: &Frame, width: Width) {
        let mut at: Vec<f64> = ticks(frame.count as f64, width.labels());
        at.retain(|request| *request >= 1.0 && request.fract() == 0.0);
        if at.first() != Some(&1.0) {
            at.insert(0, 1.0);
        }
        // The first two would run into each other.
        if at.len() > 2 && frame.x(at[1] as usize - 1) - frame.x(0) < 44.0 {
            at.remove(1);
        }
        for request in at {
            let (x, y) = (frame.x(request as usize - 1), frame.h - BOTTOM);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {y:.1}v5\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{request}</text>\
                 <text class=\"time\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y + 18.0,
                y + 33.0,
                (self.when)(request as usize - 1)
            );
        }
        let y = frame.h - BOTTOM + 18.0;
        let _ = writeln!(svg, "<text class=\"tick\" x=\"4\" y=\"{y:.1}\">request</text>");
        let _ = writeln!(svg, "<text class=\"time\" x=\"4\" y=\"{:.1}\">after</text>", y + 15.0);
    }
}

/// From values to places on the drawing.
struct Frame {
    w: f64,
    h: f64,
    count: usize,
    top: f64,
}

impl Frame {
    fn x(&self, at: usize) -> f64 {
        let share = at as f64 / (self.count.saturating_sub(1)).max(1) as f64;
        LEFT + share * (self.w - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (1.0 - value / self.top) * (self.h - TOP - BOTTOM)
    }
}

impl Line {
    /// The line as a path. Where several requests share a place to draw, the lowest and the highest are drawn: a session of
    /// thousands of requests makes no page of megabytes.
    fn path(&self, frame: &Frame) -> String {
        let most = (frame.w - LEFT - RIGHT) as usize;
        let each = self.values.len().div_ceil(most.max(1)).max(1);
        let mut path = String::new();
        for (bucket, values) in self.values.chunks(each).enumerate() {
            let by_value = |a: &(usize, &f64), b: &(usize, &f64)| a.1.total_cmp(b.1);
            let least = values.iter().enumerate().min_by(by_value).map(|(at, _)| at);
            let highest = values.iter().enumerate().max_by(by_value).map(|(at, _)| at);
            let mut at: Vec<usize> = least.into_iter().chain(highest).collect();
            at.sort_unstable();
            at.dedup();
            for at in at {
                let (x, y) = (frame.x(bucket * each + at), frame.y(values[at].min(frame.top)));
                let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { 'M' } else { 'L' });
            }
        }
        // One request alone is a point, which would not be seen.
        if self.values.len() == 1 {
            path.push_str("h6");
        }
        path
    }
}

/// Round values from 0 to the top, about so many.
fn ticks(top: f64, about: f64) -> Vec<f64> {
    let rough = top / about;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power).find(|step| *step >= rough);
    let Some(step) = step.filter(|step| step.is_finite() && *step > 0.0) else { return vec![0.0] };
    let count = (top * 1.000_001 / step) as u32;
    (0..=count).map(|n| f64::from(n) * step).collect()
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
    fn a_long_session_makes_no_long_page() {
        let values: Vec<f64> = (0..100_000).map(|n| f64::from(n % 977)).collect();
        let line = Line { color: 0, values, dots: vec![3] };
        let (label, when) = (|value: f64| value.to_string(), |at: usize| at.to_string());
        let chart =
            Chart { unit: "u", lines: &[line], top: 1_000.0, limit: None, label: &label, when: &when };
        assert!(chart.svg(Width::Wide).len() < 60_000);
        let empty = Chart { lines: &[], top: 0.0, ..chart };
        assert!(empty.svg(Width::Narrow).ends_with("</svg>\n") && !empty.svg(Width::Narrow).contains("NaN"));
    }
}
