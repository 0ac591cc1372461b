//! The page of a replay: one file with the answer, the drawings, the table, and why the scheduler did what it did.

use std::fmt::Write;

use longhaul_engine::cost::{Course, Turn};
use longhaul_server::pages::chart::{Along, Chart, Limit, Line, key};
use longhaul_server::pages::{self, PreEscaped, Theme, clock};

use super::table::{HEAD, basis, cheapest, rows_of};
use super::words::{GLOSSARY, counted};
use super::{Answer, Compaction, Row};
use crate::output::printable;

/// The courses that are drawn; more lines would hide each other.
const DRAWN: [Course; 6] = [
    Course::Marks,
    Course::Compressor(0.3),
    Course::Compressor(0.5),
    Course::Compressor(0.9),
    Course::SacredZone,
    Course::Scheduler,
];

/// One drawing: what is drawn of each request, given what all before it came to.
struct Drawing {
    title: &'static str,
    unit: &'static str,
    says: &'static str,
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
        title: "Dollars spent so far",
        unit: "dollars",
        says: "Flat is cheap. A compaction (○) costs a step now, and makes the line flatter after it.",
        value: |before, turn| before + turn.paid().0,
        label: pages::dollar_tick,
        scale: Scale::Lines,
    },
    Drawing {
        title: "Tokens sent with each request",
        unit: "tokens",
        says: "A request above the window would be refused; what is more than a quarter above it is cut off. A compaction (○) makes the next request smaller.",
        value: |_, turn| turn.tokens.number() as f64,
        label: pages::short,
        scale: Scale::Window,
    },
    Drawing {
        title: "Cached tokens of each request",
        unit: "tokens",
        says: "What of a request was read from the provider's cache. Down to the bottom: the cache had lapsed, or a compaction \
               changed what it knew.",
        value: |_, turn| turn.traffic.read.number() as f64,
        label: pages::short,
        scale: Scale::Window,
    },
];

/// The whole page.
pub(super) fn page(answer: &Answer, shown: &str) -> String {
    let title = format!("The cost of {shown}");
    let lines = drawn(answer);
    let mut page = format!("<main><h1>{}</h1>\n", escape(&title));
    for (at, sentence) in answer.summary.iter().enumerate() {
        let class = if at == 0 { " class=\"lead\"" } else { "" };
        let _ = writeln!(page, "<p{class}>{}</p>", escape(sentence));
    }
    legend(&mut page, &lines);
    for drawing in &DRAWINGS {
        let _ = writeln!(page, "<figure><h2>{}</h2>{}", drawing.title, draw(answer, &lines, drawing));
        let _ = writeln!(page, "<figcaption>{}</figcaption></figure>", drawing.says);
    }
    table(&mut page, answer);
    schedule(&mut page, answer);
    glossary(&mut page);
    page.push_str("<h2>What it rests on</h2><ul>");
    for line in basis(answer).iter().chain(&answer.notes) {
        let _ = write!(page, "<li>{}</li>", escape(line));
    }
    page.push_str("</ul></main>\n");
    pages::document(&title, Theme::System, &pages::inline_style(), &PreEscaped(page))
}

/// The rows that are drawn, those that are the same in every request as one line.
fn drawn(answer: &Answer) -> Vec<Vec<&Row>> {
    let first = |course: Course| answer.policies.iter().find(move |row| row.course == course);
    let mut lines: Vec<Vec<&Row>> = Vec::new();
    for row in DRAWN.into_iter().filter_map(first) {
        match lines.iter_mut().find(|same| same[0].turns == row.turns) {
            Some(same) => same.push(row),
            None => lines.push(vec![row]),
        }
    }
    lines
}

/// Which line is whose. It stands once, above all drawings, and says which policies share a line.
fn legend(page: &mut String, lines: &[Vec<&Row>]) {
    page.push_str("<ul class=\"legend\">");
    for (color, rows) in lines.iter().enumerate() {
        let names: Vec<String> = rows.iter().map(|row| escape(&row.name)).collect();
        let (row, same) = (rows[0], if rows.len() > 1 { " (the same line)" } else { "" });
        let compactions = counted(row.compactions, "compaction");
        let _ = write!(
            page,
            "<li>{}<b>{}</b>{same}: {}, {compactions}</li>",
            key(color).into_string(),
            names.join(", "),
            row.usd,
        );
    }
    page.push_str("<li class=\"soft\">○ a compaction. Where lines run together, the later in this list hides the earlier.</li></ul>\n");
}

fn draw(answer: &Answer, rows: &[Vec<&Row>], drawing: &Drawing) -> String {
    let line = |(color, rows): (usize, &Vec<&Row>)| {
        let compacted = rows[0].compacted.iter().map(|done| done.request - 1);
        Line::of_requests(color, values(rows[0], drawing)).with_dots(compacted)
    };
    let lines: Vec<Line> = rows.iter().enumerate().map(line).collect();
    let highest = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    let highest = if highest > 0.0 { highest } else { 4.0 };
    let window = answer.window.number() as f64;
    let (top, limit) = match drawing.scale {
        // Far below the window its line would only press the others down.
        Scale::Window if highest < 0.5 * window => (1.05 * highest, None),
        Scale::Window => {
            ((1.05 * highest).clamp(1.05 * window, 1.25 * window), Some(Limit { at: window, name: "window" }))
        }
        Scale::Lines => (1.05 * highest, None),
    };
    let turns = rows.first().map_or(&[][..], |rows| &rows[0].turns);
    let when = |at: usize| turns.get(at).map_or(String::new(), |turn| clock(turn.at.as_secs_f64() / 60.0));
    let chart = Chart {
        title: drawing.title,
        says: drawing.says,
        unit: drawing.unit,
        lines: &lines,
        top,
        limits: limit.as_slice(),
        label: &drawing.label,
        along: Along::Requests(&when),
    };
    chart.draw().into_string()
}

/// What is drawn of each request of a row.
fn values(row: &Row, drawing: &Drawing) -> Vec<f64> {
    let value = |before: &mut f64, turn: &Turn| {
        *before = (drawing.value)(*before, turn);
        Some(*before)
    };
    row.turns.iter().scan(0.0, value).collect()
}

fn table(page: &mut String, answer: &Answer) {
    let cells = |tag: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        cells.collect::<String>()
    };
    let best = cheapest(answer);
    page.push_str("<h2>Every policy</h2><div class=\"scroll\"><table>");
    let _ = writeln!(page, "<tr>{}</tr>", cells("th", &HEAD.map(str::to_owned)));
    for (at, texts) in rows_of(answer).into_iter().enumerate() {
        let class = if best == Some(at) { " class=\"best\"" } else { "" };
        let _ = writeln!(page, "<tr{class}>{}</tr>", cells("td", &texts));
    }
    page.push_str("</table></div>\n");
}

/// The scheduler's compactions with the terms of each.
fn schedule(page: &mut String, answer: &Answer) {
    let scheduled = answer.policies.iter().find(|row| row.course == Course::Scheduler);
    let Some(row) = scheduled.filter(|row| !row.compacted.is_empty()) else { return };
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
    let head = "request|time|tokens before|after|this request, $|each later one, $|requests|fetched again, $|gain, $|why";
    let _ = write!(
        page,
        "<h2>Why the scheduler compacted</h2><p>What this request costs more (−) or less (+), plus what each later request saves, \
         times the requests that it counts for, less what has to be fetched again, is the gain.</p>\
         <div class=\"scroll\"><table><tr><th>{}</th></tr>\n{}</table></div>\n",
        head.replace('|', "</th><th>"),
        row.compacted.iter().map(line).collect::<String>()
    );
}

fn glossary(page: &mut String) {
    page.push_str("<h2>Words</h2><dl>");
    for (word, meaning) in GLOSSARY {
        let _ = write!(page, "<dt>{word}</dt><dd>{meaning}</dd>");
    }
    page.push_str("</dl>\n");
}

/// A text that is somebody else's, as HTML shows it.
fn escape(text: &str) -> String {
    printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
