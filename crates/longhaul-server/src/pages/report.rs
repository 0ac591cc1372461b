//! A page that stands alone: one compaction, and the course of the session that it belongs to.

use longhaul_engine::Tokens;
use longhaul_engine::cost::Turn;
use maud::{Markup, html};

use super::chart::{Along, Chart, Limit, Line, key};
use super::compaction::{Compaction, Reader, list, top};
use super::words::{clock, dollar_tick, dollars, short, shown};
use super::{Theme, document, grouped, inline_style};

/// Nothing but the sheet in the page itself: no script, no picture, no request to anybody, whatever the transcript holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// What the page is made of.
pub struct Report<'r> {
    /// What was compacted, as its owner names it.
    pub of: &'r str,
    /// What a reader has to know first.
    pub notices: &'r [String],
    /// The compaction.
    pub compaction: &'r Compaction,
    /// How the session came there, or why that is not drawn.
    pub story: Result<Story, String>,
}

/// A session replayed request by request, on several courses.
pub struct Story {
    /// The courses, in the order in which they are drawn.
    pub courses: Vec<Course>,
    /// What a request may hold.
    pub window: Tokens,
    /// From where on a compaction is due.
    pub threshold: Tokens,
    /// What the drawing rests on.
    pub says: String,
}

/// One course.
pub struct Course {
    /// What is done on it.
    pub name: String,
    /// Its requests.
    pub turns: Vec<Turn>,
}

/// The whole page.
#[must_use]
pub fn page(report: &Report<'_>) -> String {
    let title = format!("One compaction of {}", report.of);
    let head = html! {
        meta http-equiv="Content-Security-Policy" content=(POLICY);
        meta name="referrer" content="no-referrer";
        (inline_style())
    };
    let body = html! {
        main.broad {
            h1 { (shown(&title)) }
            @for notice in report.notices { p.notice { (shown(notice)) } }
            (top(report.compaction))
            @match &report.story {
                Ok(story) => (course(story)),
                Err(why) => section { h2 { "Tokens and money over the session" } p.soft { (shown(why)) } },
            }
            (list(report.compaction, Reader::default()))
        }
    };
    document(&title, Theme::System, &head, &body)
}

/// Tokens and money over the requests of the session.
fn course(story: &Story) -> Markup {
    html! {
        section #course {
            h2 { "Tokens and money over the session" }
            p.small.soft { (shown(&story.says)) }
            ul.legend {
                @for (color, course) in story.courses.iter().enumerate() {
                    li { (key(COLORS[color % COLORS.len()])) b { (shown(&course.name)) } ": " (sum(course)) }
                }
                li.soft { "○ a compaction" }
            }
            figure {
                h3 { "Tokens sent with each request" }
                (draw(story, "tokens", |_, turn| turn.tokens.number() as f64, &short))
            }
            figure {
                h3 { "Dollars spent so far" }
                (draw(story, "dollars", |before, turn| before + turn.paid().0, &dollar_tick))
            }
        }
    }
}

/// The colours of the courses.
const COLORS: [usize; 3] = [0, 5, 2];

fn sum(course: &Course) -> String {
    let usd: f64 = course.turns.iter().map(|turn| turn.paid().0).sum();
    let compactions = course.turns.iter().filter(|turn| turn.compacted.is_some()).count();
    let word = if compactions == 1 { "compaction" } else { "compactions" };
    format!("{}, {} {word}", dollars(usd), grouped(compactions as u64))
}

fn draw(story: &Story, unit: &str, value: fn(f64, &Turn) -> f64, label: &dyn Fn(f64) -> String) -> Markup {
    let line = |(at, course): (usize, &Course)| {
        let values = course.turns.iter().scan(0.0, |before, turn| {
            *before = value(*before, turn);
            Some(*before)
        });
        let dots = course.turns.iter().enumerate().filter(|(_, turn)| turn.compacted.is_some());
        Line::of_requests(COLORS[at % COLORS.len()], values).with_dots(dots.map(|(at, _)| at))
    };
    let lines: Vec<Line> = story.courses.iter().enumerate().map(line).collect();
    let highest = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    let limits = [
        Limit { at: story.window.number() as f64, name: "window" },
        Limit { at: story.threshold.number() as f64, name: "threshold" },
    ];
    let (top, limits) = if unit == "tokens" {
        let window = story.window.number() as f64;
        // Far above the window a line is only far above it.
        (if highest > window { (1.05 * highest).min(3.0 * window) } else { 1.1 * highest }, &limits[..])
    } else {
        (1.05 * highest, &[][..])
    };
    let first = story.courses.first().map_or(&[][..], |course| &course.turns);
    let when = |at: usize| first.get(at).map_or(String::new(), |turn| clock(turn.at.as_secs_f64() / 60.0));
    let says = "one line for each course, over the requests of the session";
    Chart { title: unit, says, unit, lines: &lines, top, limits, label, along: Along::Requests(&when) }.draw()
}
