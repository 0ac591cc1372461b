//! A drawing of lines over the requests of a session, or over time, as SVG that takes its colours from the page around it.
//!
//! ```text
//! mod.rs     what is drawn, and how it becomes elements
//! frame.rs   from values to places on the drawing; a line as a path
//! axis.rs    round values along an axis, numbers and times
//! ```
//!
//! Colours are classes of the sheet alone. Who shows a drawing shows it for both widths, and the sheet hides one.

mod axis;
mod frame;

use maud::{Markup, html};

use self::axis::{Tick, moments, requests, ticks};
use self::frame::{BOTTOM, Frame, LEFT, RIGHT, place};
use super::words::shown;

/// One line, and the points at which something happened on it.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Which of the sheet's colours it has, from 0 to 7.
    pub color: usize,
    /// Its points from left to right.
    pub points: Vec<Point>,
    /// The points that get a dot.
    pub dots: Vec<Dot>,
}

/// One point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The request, counted from 0, or the seconds since 1970: as the chart's axis has it.
    pub x: f64,
    /// The value.
    pub y: f64,
}

/// A dot on a line.
#[derive(Debug, Clone, Default)]
pub struct Dot {
    /// Its place in the line's points.
    pub at: usize,
    /// What stands above it, such as the number of a compaction; nothing if empty.
    pub number: String,
    /// What is said of it to somebody who points at it; nothing if empty.
    pub says: String,
    /// Where it leads, as an address of our own making.
    pub link: Option<String>,
}

/// A value that is drawn across, such as a threshold.
#[derive(Debug, Clone, Copy)]
pub struct Limit<'c> {
    /// The value.
    pub at: f64,
    /// Its name, which stands above it; none where it is told elsewhere.
    pub name: &'c str,
}

/// What runs along the lower edge.
pub enum Along<'c> {
    /// The requests of a session, and below each when it was sent, in words.
    Requests(&'c dyn Fn(usize) -> String),
    /// Time, in seconds since 1970, UTC.
    Time,
}

/// What is drawn.
pub struct Chart<'c> {
    /// What the drawing shows, for somebody who does not see it, and what can be read from it.
    pub title: &'c str,
    /// The same in a sentence or two.
    pub says: &'c str,
    /// What stands along the upright axis.
    pub unit: &'c str,
    /// The lines; a later one hides an earlier one.
    pub lines: &'c [Line],
    /// The highest value that is shown; what is larger is cut off.
    pub top: f64,
    /// What is drawn across. One above the top is left out.
    pub limits: &'c [Limit<'c>],
    /// A value of the upright axis, in words.
    pub label: &'c dyn Fn(f64) -> String,
    /// The other axis.
    pub along: Along<'c>,
}

/// For which width it is drawn: one drawing cannot be read on a desk and in a hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// A desk.
    Wide,
    /// A hand.
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

impl Line {
    /// A line that has one value a request, from the first on.
    #[must_use]
    pub fn of_requests(color: usize, values: impl IntoIterator<Item = f64>) -> Self {
        let points = values.into_iter().enumerate().map(|(at, y)| Point { x: at as f64, y });
        Self { color, points: points.collect(), dots: Vec::new() }
    }

    /// The same line with plain dots at these points.
    #[must_use]
    pub fn with_dots(self, at: impl IntoIterator<Item = usize>) -> Self {
        let dots = at.into_iter().map(|at| Dot { at, ..Dot::default() }).collect();
        Self { dots, ..self }
    }
}

impl Chart<'_> {
    /// The drawing for both widths; the sheet shows the one that fits.
    #[must_use]
    pub fn draw(&self) -> Markup {
        html! { (self.svg(Width::Wide)) (self.svg(Width::Narrow)) }
    }

    /// The drawing for one width.
    #[must_use]
    pub fn svg(&self, width: Width) -> Markup {
        let frame = Frame::new(width.size(), self);
        let (w, h) = width.size();
        html! {
            svg class=(width.class()) viewBox=(format!("0 0 {w} {h}")) role="img" {
                title { (shown(self.title)) }
                desc { (shown(self.says)) }
                text.unit x="4" y="14" { (shown(self.unit)) }
                @for value in ticks(frame.top, 5.0) {
                    (across("grid", frame.y(value), w))
                    text.tick x=(place(LEFT - 6.0)) y=(place(frame.y(value) + 4.0)) text-anchor="end" { (shown(&(self.label)(value))) }
                }
                (self.below(&frame, width))
                @for limit in self.limits.iter().filter(|limit| limit.at <= self.top) {
                    (across("limit", frame.y(limit.at), w))
                    @if !limit.name.is_empty() {
                        text.limit x=(place(w - RIGHT)) y=(place(frame.y(limit.at) - 5.0)) text-anchor="end" { (shown(limit.name)) }
                    }
                }
                @for line in self.lines {
                    path class={ "line c" (line.color) } d=(frame.path(&line.points)) {}
                }
                @for line in self.lines { (dots(line, &frame)) }
            }
        }
    }

    /// The axis below: the request, and under it when it was sent; or the time, and under it the day.
    fn below(&self, frame: &Frame, width: Width) -> Markup {
        let y = frame.h - BOTTOM;
        let (names, ticks): ([&str; 2], Vec<Tick>) = match self.along {
            Along::Requests(when) => (["request", "after"], requests(frame, width.labels(), when)),
            Along::Time => (["UTC", ""], moments(frame.from, frame.to, width.labels())),
        };
        // What stands at the right edge would run over it.
        let edge = width.size().0 - 30.0;
        html! {
            @for tick in ticks {
                @let anchor = if frame.x(tick.x) > edge { "end" } else { "middle" };
                @let x = place(frame.x(tick.x));
                path.grid d=(format!("M{x} {}v5", place(y))) {}
                text.tick x=(x) y=(place(y + 18.0)) text-anchor=(anchor) { (tick.label) }
                text.time x=(x) y=(place(y + 33.0)) text-anchor=(anchor) { (shown(&tick.below)) }
            }
            text.tick x="4" y=(place(y + 18.0)) { (names[0]) }
            text.time x="4" y=(place(y + 33.0)) { (names[1]) }
        }
    }
}

/// A line from one side to the other.
fn across(class: &str, y: f64, w: f64) -> Markup {
    html! { path class=(class) d=(format!("M{LEFT} {}H{}", place(y), place(w - RIGHT))) {} }
}

/// The dots of a line. A number that would run into the one before it is left out; its dot is there.
fn dots(line: &Line, frame: &Frame) -> Markup {
    let mut free = f64::MIN;
    let mut numbered = |dot: &Dot, x: f64| {
        let room = 4.0 * dot.number.chars().count() as f64 + 4.0;
        let fits = !dot.number.is_empty() && x - room >= free;
        if fits {
            free = x + room;
        }
        fits
    };
    html! {
        @for dot in &line.dots {
            @if let Some(point) = line.points.get(dot.at) {
                @let (x, y) = (frame.x(point.x), frame.y(point.y.min(frame.top)));
                @let drawn = html! {
                    circle class={ "dot c" (line.color) } cx=(place(x)) cy=(place(y)) r="3.5" {
                        @if !dot.says.is_empty() { title { (shown(&dot.says)) } }
                    }
                    @if numbered(dot, x) {
                        text.count x=(place(x)) y=(place(y - 8.0)) text-anchor="middle" { (shown(&dot.number)) }
                    }
                };
                @match &dot.link {
                    Some(to) => a href=(to) { (drawn) },
                    None => (drawn),
                }
            }
        }
    }
}

/// The line of a colour, for a legend.
#[must_use]
pub fn key(color: usize) -> Markup {
    html! { svg.key viewBox="0 0 24 10" aria-hidden="true" { path class={ "line c" (color) } d="M0 5H24" {} } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart<'c>(lines: &'c [Line], top: f64, along: Along<'c>) -> Chart<'c> {
        let limits = &[Limit { at: 500.0, name: "threshold <50%>" }];
        Chart {
            title: "t & u",
            says: "s",
            unit: "u",
            lines,
            top,
            limits,
            label: &|value| value.to_string(),
            along,
        }
    }

    #[test]
    fn a_long_session_makes_no_long_page() {
        let line = Line::of_requests(0, (0..100_000).map(|n| f64::from(n % 977))).with_dots([3]);
        let when = |at: usize| at.to_string();
        let lines = [line];
        assert!(chart(&lines, 1_000.0, Along::Requests(&when)).svg(Width::Wide).into_string().len() < 60_000);
        for along in [Along::Requests(&when), Along::Time] {
            let empty = chart(&[], 0.0, along).draw().into_string();
            assert!(empty.ends_with("</svg>") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
        }
    }

    #[test]
    fn names_are_text_and_dots_lead_somewhere() {
        let points = [0.0, 3600.0, 7200.0].map(|x| Point { x: 1_777_936_777.0 + x, y: x / 10.0 });
        let dot = |at, number: &str| Dot {
            at,
            number: number.to_owned(),
            says: "<b>".to_owned(),
            link: Some("/s/1".to_owned()),
        };
        let lines =
            [Line { color: 2, points: points.to_vec(), dots: vec![dot(1, "1"), dot(1, "2"), dot(9, "3")] }];
        let drawn = chart(&lines, 1_000.0, Along::Time).svg(Width::Wide).into_string();
        assert!(
            drawn.contains("threshold &lt;50%&gt;") && drawn.contains("<title>t &amp; u</title>"),
            "{drawn}"
        );
        assert_eq!(drawn.matches("<a href=\"/s/1\">").count(), 2, "{drawn}");
        assert_eq!(
            drawn.matches("class=\"count\"").count(),
            1,
            "a number that has no room is left out: {drawn}"
        );
        assert!(drawn.contains("&lt;b&gt;") && !drawn.contains("style="), "{drawn}");
        assert!(drawn.contains(">2026-05-05<"), "{drawn}");
    }
}
