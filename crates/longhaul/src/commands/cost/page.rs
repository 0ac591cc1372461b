//! The page of a replay: one file with the drawing, the table, and why the scheduler did what it did.

use std::fmt::Write;

use longhaul_engine::cost::{Course, Turn};
use plotters::prelude::{
    ChartBuilder, Circle, Color, DrawingAreaErrorKind, IntoDrawingArea, IntoFont, LineSeries, PathElement,
    RGBColor, SVGBackend, SeriesLabelPosition, WHITE,
};

use super::{Answer, Compaction, Row, table};
use crate::failure::Failure;
use crate::output::grouped;

const SIZE: (u32, u32) = (1_000, 320);

/// The courses that are drawn, and how; more lines would hide each other.
const DRAWN: [(Course, RGBColor); 6] = [
    (Course::Marks, RGBColor(120, 120, 130)),
    (Course::Compressor(0.3), RGBColor(154, 205, 120)),
    (Course::Compressor(0.5), RGBColor(46, 139, 87)),
    (Course::Compressor(0.9), RGBColor(20, 80, 50)),
    (Course::SacredZone, RGBColor(218, 140, 40)),
    (Course::Scheduler, RGBColor(30, 90, 200)),
];

/// One drawing: what is drawn of each request, given what all before it came to.
struct Drawing {
    title: &'static str,
    value: fn(f64, &Turn) -> f64,
    label: fn(f64) -> String,
    scale: Scale,
}

/// How high a drawing is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// The window and a little more, with the window drawn: what is larger than any request may be would hide the rest.
    Window,
    /// As high as its highest line.
    Lines,
}

const DRAWINGS: [Drawing; 3] = [
    Drawing {
        title: "Tokens sent with each request, up to the window (red) and a little beyond; a dot is a compaction",
        value: |_, turn| turn.tokens.number() as f64,
        label: |tokens| grouped(tokens as u64),
        scale: Scale::Window,
    },
    Drawing {
        title: "Tokens of it that were read from the cache",
        value: |_, turn| turn.traffic.read.number() as f64,
        label: |tokens| grouped(tokens as u64),
        scale: Scale::Window,
    },
    Drawing {
        title: "Dollars spent so far",
        value: |before, turn| before + turn.bill.total().0,
        label: |dollars| format!("${dollars:.2}"),
        scale: Scale::Lines,
    },
];

/// The whole page.
pub(super) fn page(answer: &Answer, shown: &str) -> Result<String, Failure> {
    let mut drawings = String::new();
    for drawing in DRAWINGS {
        let svg = draw(answer, &drawing)
            .map_err(|error| Failure::World(format!("cannot draw \"{}\": {error}", drawing.title)))?;
        let _ = writeln!(drawings, "<figure>{svg}<figcaption>{}</figcaption></figure>", drawing.title);
    }
    let nothing = answer.policies.first().map_or(String::new(), |row| {
        format!("<p>Not drawn: <b>nothing</b>, which would have cost {}.</p>", row.usd)
    });
    let notes: String =
        answer.notes.iter().fold(String::new(), |list, note| list + "<li>" + &escape(note) + "</li>");
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style></head>\n\
         <body><main><h1>{title}</h1>\n{drawings}{nothing}<h2>Every policy</h2><pre>{table}</pre>\n{schedule}<ul>{notes}</ul>\
         </main></body></html>\n",
        title = escape(&format!("The cost of {shown}")),
        table = escape(&table(answer)),
        schedule = schedule(answer),
    ))
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:0;background:#f6f6f4;color:#222}\
main{max-width:1040px;margin:0 auto;padding:24px}figure{background:#fff;border:1px solid #ddd;border-radius:6px;margin:0 0 16px;padding:8px}\
svg{max-width:100%;height:auto}figcaption{color:#555;padding:0 8px}\
pre,table{background:#fff;border:1px solid #ddd;border-radius:6px;padding:12px;overflow-x:auto;display:block;font-size:12px}\
td,th{padding:2px 14px 2px 0;text-align:right;white-space:nowrap}td:last-child,th:last-child{text-align:left}\
@media(prefers-color-scheme:dark){body{background:#1c1c1e;color:#ddd}pre,table{background:#262629;border-color:#444}\
figcaption{color:#666}}";

type Drawn<T> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

fn draw(answer: &Answer, drawing: &Drawing) -> Drawn<String> {
    let first = |course: Course| answer.policies.iter().find(move |row| row.course == course);
    let rows: Vec<(&Row, RGBColor)> =
        DRAWN.iter().filter_map(|(course, color)| Some((first(*course)?, *color))).collect();
    let lines: Vec<Vec<(f64, f64)>> = rows.iter().map(|(row, _)| points(row, drawing)).collect();
    let highest = lines.iter().flatten().map(|(_, y)| *y).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let window = answer.window.number() as f64;
    let top = match drawing.scale {
        Scale::Window => (1.05 * highest).min(1.25 * window),
        Scale::Lines => 1.05 * highest,
    };
    let minutes: Vec<f64> = rows
        .first()
        .map_or(Vec::new(), |(row, _)| row.turns.iter().map(|t| t.at.as_secs_f64() / 60.0).collect());
    let when = |request: &f64| {
        let at = minutes.get((*request as usize).saturating_sub(1)).copied().unwrap_or_default();
        format!("{request:.0} ({})", clock(at))
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let last = answer.requests.max(2) as f64;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(40)
            .x_label_area_size(34)
            .y_label_area_size(72)
            .build_cartesian_2d(1.0..last, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .disable_x_mesh()
            .x_labels(8)
            .x_label_formatter(&when)
            .x_desc("request (time since the first)")
            .y_label_formatter(&|y| (drawing.label)(*y))
            .label_style(("sans-serif", 12).into_font())
            .draw()?;
        if drawing.scale == Scale::Window && window < top {
            let style = RGBColor(200, 40, 40).stroke_width(1);
            chart.draw_series(LineSeries::new([(1.0, window), (last, window)], style))?;
        }
        for ((row, color), line) in rows.iter().zip(&lines) {
            let color = *color;
            let line: Vec<(f64, f64)> = line.iter().map(|(x, y)| (*x, y.min(top))).collect();
            chart
                .draw_series(LineSeries::new(line.iter().copied(), color.stroke_width(2)))?
                .label(row.name.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
            let dots = row.compacted.iter().filter_map(|done| line.get(done.request - 1));
            chart.draw_series(dots.map(|dot| Circle::new(*dot, 3, color.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(220, 220, 220))
            .label_font(("sans-serif", 12).into_font())
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

/// What is drawn of each request of a row.
fn points(row: &Row, drawing: &Drawing) -> Vec<(f64, f64)> {
    let value = |before: &mut f64, (at, turn): (usize, &Turn)| {
        *before = (drawing.value)(*before, turn);
        Some((at as f64 + 1.0, *before))
    };
    row.turns.iter().enumerate().scan(0.0, value).collect()
}

/// `12 min`, `3 h 05`.
fn clock(minutes: f64) -> String {
    let whole = minutes.round() as u64;
    if whole < 120 { format!("{whole} min") } else { format!("{} h {:02}", whole / 60, whole % 60) }
}

/// The scheduler's compactions with the terms of each.
fn schedule(answer: &Answer) -> String {
    let scheduled = answer.policies.iter().find(|row| row.course == Course::Scheduler);
    let Some(row) = scheduled.filter(|row| !row.compacted.is_empty()) else { return String::new() };
    let line = |done: &Compaction| {
        let terms = done.verdict.map(|verdict| verdict.terms);
        let money = |value: Option<f64>| value.map_or(String::new(), |usd| format!("{usd:+.4}"));
        let cells = [
            done.request.to_string(),
            clock(done.minute),
            done.before.to_string(),
            done.after.to_string(),
            money(terms.map(|terms| -terms.now.0)),
            money(terms.map(|terms| terms.saved_per_turn.0)),
            terms.map_or(String::new(), |terms| format!("{:.0}", terms.turns)),
            money(terms.map(|terms| -terms.lost.0)),
            money(terms.map(|terms| terms.gain.0)),
            escape(&done.reason),
        ];
        format!("<tr><td>{}</td></tr>\n", cells.join("</td><td>"))
    };
    let head = "request|at|tokens before|after|this request, $|each later turn, $|turns|fetched again, $|gain, $|why";
    format!(
        "<h2>Why the scheduler compacted</h2><table><tr><th>{}</th></tr>\n{}</table>\n",
        head.replace('|', "</th><th>"),
        row.compacted.iter().map(line).collect::<String>()
    )
}

/// A text that is somebody else's, as HTML shows it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
