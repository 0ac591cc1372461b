//! A line chart over the requests of a session, or over time, as SVG.
//!
//! ```text
//! mod.rs     the content of a chart, and its SVG elements
//! scale.rs   from values to coordinates; a line as a path
//! axis.rs    round values along an axis, numbers and times
//! ```
//!
//! Colours are classes of the style sheet. A page contains each chart in two widths, and the style sheet
//! hides one of them.

mod axis;
mod scale;

use maud::{Markup, html};

use self::axis::{Tick, request_ticks, round_values, time_ticks};
use self::scale::{BOTTOM_MARGIN, ChartScale, LEFT_MARGIN, RIGHT_MARGIN, format_coordinate};
use super::formatting::sanitize_line;

/// One line of a chart, with its dots.
#[derive(Debug, Clone, Default)]
pub struct ChartLine {
    /// The colour: an index into the colours of the style sheet, from 0 to 7.
    pub color: usize,
    /// The points, from left to right.
    pub points: Vec<Point>,
    /// The dots on the line.
    pub dots: Vec<Dot>,
}

/// One point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The index of the request, or the seconds since 1970, depending on the chart's [`XAxis`].
    pub x: f64,
    /// The value.
    pub y: f64,
}

/// A dot on a line, for example for a compaction.
#[derive(Debug, Clone, Default)]
pub struct Dot {
    /// The index of its point in the line.
    pub point_index: usize,
    /// The text above the dot, such as the number of a compaction; none if empty.
    pub label: String,
    /// The tooltip of the dot; none if empty.
    pub tooltip: String,
    /// The address that the dot links to. It must not contain untrusted text.
    pub link: Option<String>,
}

/// A horizontal line at a fixed value, such as a threshold.
#[derive(Debug, Clone, Copy)]
pub struct LimitLine<'c> {
    /// The value.
    pub value: f64,
    /// The name above the line; empty if the caption gives it.
    pub name: &'c str,
}

/// The kind of the horizontal axis.
pub enum XAxis<'c> {
    /// The requests of a session. The function returns the second line of a label: when the request was sent.
    Requests(&'c dyn Fn(usize) -> String),
    /// Time, in seconds since 1970, UTC.
    Time,
}

/// The content of a line chart.
pub struct Chart<'c> {
    /// The title, for readers who cannot see the chart.
    pub title: &'c str,
    /// The description in a sentence or two, for readers who cannot see the chart.
    pub description: &'c str,
    /// The unit of the vertical axis.
    pub unit: &'c str,
    /// The lines; a later one covers an earlier one.
    pub lines: &'c [ChartLine],
    /// The highest value of the vertical axis; larger values are cut off.
    pub max_value: f64,
    /// The limit lines. One above `max_value` is left out.
    pub limits: &'c [LimitLine<'c>],
    /// The function that formats a value of the vertical axis.
    pub format_value: &'c dyn Fn(f64) -> String,
    /// The horizontal axis.
    pub x_axis: XAxis<'c>,
}

/// The width for which a chart is drawn, because one drawing is not readable on both a desktop and a phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartWidth {
    /// For a desktop screen: 960 by 300 units.
    Wide,
    /// For a phone: 360 by 260 units.
    Narrow,
}

impl ChartWidth {
    fn size(self) -> (f64, f64) {
        match self {
            Self::Wide => (960.0, 300.0),
            Self::Narrow => (360.0, 260.0),
        }
    }

    fn max_labels(self) -> f64 {
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

impl ChartLine {
    /// Makes a line with one value for each request, from the first request on.
    #[must_use]
    pub fn from_values(color: usize, values: impl IntoIterator<Item = f64>) -> Self {
        let points = values.into_iter().enumerate().map(|(at, y)| Point { x: at as f64, y });
        Self { color, points: points.collect(), dots: Vec::new() }
    }

    /// Adds dots without text at these points.
    #[must_use]
    pub fn with_dots(self, at: impl IntoIterator<Item = usize>) -> Self {
        let dots = at.into_iter().map(|at| Dot { point_index: at, ..Dot::default() }).collect();
        Self { dots, ..self }
    }
}

impl Chart<'_> {
    /// Draws the chart in both widths; the style sheet shows the one that fits.
    #[must_use]
    pub fn draw(&self) -> Markup {
        html! { (self.svg(ChartWidth::Wide)) (self.svg(ChartWidth::Narrow)) }
    }

    /// Draws the chart in one width.
    #[must_use]
    pub fn svg(&self, width: ChartWidth) -> Markup {
        let frame = ChartScale::new(width.size(), self);
        let (w, h) = width.size();
        html! {
            svg class=(width.class()) viewBox=(format!("0 0 {w} {h}")) role="img" {
                title { (sanitize_line(self.title)) }
                desc { (sanitize_line(self.description)) }
                text.unit x="4" y="14" { (sanitize_line(self.unit)) }
                @for value in round_values(frame.max_y, 5.0) {
                    (horizontal_line("grid", frame.y(value), w))
                    text.tick x=(format_coordinate(LEFT_MARGIN - 6.0)) y=(format_coordinate(frame.y(value) + 4.0)) text-anchor="end" { (sanitize_line(&(self.format_value)(value))) }
                }
                (self.x_axis_labels(&frame, width))
                @for limit in self.limits.iter().filter(|limit| limit.value <= self.max_value) {
                    (horizontal_line("limit", frame.y(limit.value), w))
                    @if !limit.name.is_empty() {
                        text.limit x=(format_coordinate(w - RIGHT_MARGIN)) y=(format_coordinate(frame.y(limit.value) - 5.0)) text-anchor="end" { (sanitize_line(limit.name)) }
                    }
                }
                @for line in self.lines {
                    path class={ "line c" (line.color) } d=(frame.path(&line.points)) {}
                }
                @for line in self.lines { (draw_dots(line, &frame)) }
            }
        }
    }

    /// Draws the labels of the horizontal axis: the request with the time below it, or the time with the date
    /// below it.
    fn x_axis_labels(&self, frame: &ChartScale, width: ChartWidth) -> Markup {
        let y = frame.height - BOTTOM_MARGIN;
        let (names, ticks): ([&str; 2], Vec<Tick>) = match self.x_axis {
            XAxis::Requests(when) => (["request", "after"], request_ticks(frame, width.max_labels(), when)),
            XAxis::Time => (["UTC", ""], time_ticks(frame.min_x, frame.max_x, width.max_labels())),
        };
        // A centred label at the right edge would be cut off.
        let edge = width.size().0 - 30.0;
        html! {
            @for tick in ticks {
                @let anchor = if frame.x(tick.x) > edge { "end" } else { "middle" };
                @let x = format_coordinate(frame.x(tick.x));
                path.grid d=(format!("M{x} {}v5", format_coordinate(y))) {}
                text.tick x=(x) y=(format_coordinate(y + 18.0)) text-anchor=(anchor) { (tick.label) }
                text.time x=(x) y=(format_coordinate(y + 33.0)) text-anchor=(anchor) { (sanitize_line(&tick.second_line)) }
            }
            text.tick x="4" y=(format_coordinate(y + 18.0)) { (names[0]) }
            text.time x="4" y=(format_coordinate(y + 33.0)) { (names[1]) }
        }
    }
}

/// Draws a horizontal line across the chart.
fn horizontal_line(class: &str, y: f64, w: f64) -> Markup {
    html! { path class=(class) d=(format!("M{LEFT_MARGIN} {}H{}", format_coordinate(y), format_coordinate(w - RIGHT_MARGIN))) {} }
}

/// Draws the dots of a line. A label that would overlap the one before it is left out.
fn draw_dots(line: &ChartLine, frame: &ChartScale) -> Markup {
    let mut next_free_x = f64::MIN;
    let mut numbered = |dot: &Dot, x: f64| {
        let label_width = 4.0 * dot.label.chars().count() as f64 + 4.0;
        let fits = !dot.label.is_empty() && x - label_width >= next_free_x;
        if fits {
            next_free_x = x + label_width;
        }
        fits
    };
    html! {
        @for dot in &line.dots {
            @if let Some(point) = line.points.get(dot.point_index) {
                @let (x, y) = (frame.x(point.x), frame.y(point.y.min(frame.max_y)));
                @let markup = html! {
                    circle class={ "dot c" (line.color) } cx=(format_coordinate(x)) cy=(format_coordinate(y)) r="3.5" {
                        @if !dot.tooltip.is_empty() { title { (sanitize_line(&dot.tooltip)) } }
                    }
                    @if numbered(dot, x) {
                        text.count x=(format_coordinate(x)) y=(format_coordinate(y - 8.0)) text-anchor="middle" { (sanitize_line(&dot.label)) }
                    }
                };
                @match &dot.link {
                    Some(to) => a href=(to) { (markup) },
                    None => (markup),
                }
            }
        }
    }
}

/// Draws a short line in a colour, for a legend.
#[must_use]
pub fn legend_key(color: usize) -> Markup {
    html! { svg.key viewBox="0 0 24 10" aria-hidden="true" { path class={ "line c" (color) } d="M0 5H24" {} } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart<'c>(lines: &'c [ChartLine], top: f64, along: XAxis<'c>) -> Chart<'c> {
        let limits = &[LimitLine { value: 500.0, name: "threshold <50%>" }];
        Chart {
            title: "t & u",
            description: "s",
            unit: "u",
            lines,
            max_value: top,
            limits,
            format_value: &|value| value.to_string(),
            x_axis: along,
        }
    }

    #[test]
    fn a_long_session_makes_no_long_page() {
        let line = ChartLine::from_values(0, (0..100_000).map(|n| f64::from(n % 977))).with_dots([3]);
        let when = |at: usize| at.to_string();
        let lines = [line];
        assert!(chart(&lines, 1_000.0, XAxis::Requests(&when)).svg(ChartWidth::Wide).into_string().len() < 60_000);
        for along in [XAxis::Requests(&when), XAxis::Time] {
            let empty = chart(&[], 0.0, along).draw().into_string();
            assert!(empty.ends_with("</svg>") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
        }
    }

    #[test]
    fn names_are_escaped_and_dots_have_links() {
        let points = [0.0, 3600.0, 7200.0].map(|x| Point { x: 1_777_936_777.0 + x, y: x / 10.0 });
        let dot = |at, number: &str| Dot {
            point_index: at,
            label: number.to_owned(),
            tooltip: "<b>".to_owned(),
            link: Some("/s/1".to_owned()),
        };
        let lines =
            [ChartLine { color: 2, points: points.to_vec(), dots: vec![dot(1, "1"), dot(1, "2"), dot(9, "3")] }];
        let svg = chart(&lines, 1_000.0, XAxis::Time).svg(ChartWidth::Wide).into_string();
        assert!(svg.contains("threshold &lt;50%&gt;") && svg.contains("<title>t &amp; u</title>"), "{svg}");
        assert_eq!(svg.matches("<a href=\"/s/1\">").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"count\"").count(), 1, "a number that has no room is left out: {svg}");
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("style="), "{svg}");
        assert!(svg.contains(">2026-05-05<"), "{svg}");
    }
}
