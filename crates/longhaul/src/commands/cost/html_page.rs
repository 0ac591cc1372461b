//! The HTML page of `longhaul cost`: one file with the summary, the charts, the table, and the scheduler's
//! reasons.

use std::fmt::Write;

use longhaul_engine::cost::{CostStrategy, ReplayedRequest};
use longhaul_server::pages::chart::{Chart, ChartLine, LimitLine, XAxis, legend_key};
use longhaul_server::pages::{self, PreEscaped, Theme, format_minutes};

use super::sentences::GLOSSARY;
use super::text_page::{COLUMNS, basis_lines, cheapest_row, table_cells};
use super::{CostCompaction, CostOutput, CostRow};
use crate::output::{escape_controls, pluralize};

/// The strategies in the charts. Chosen by hand: more lines would hide each other.
const CHARTED_STRATEGIES: [CostStrategy; 6] = [
    CostStrategy::BreakpointsOnly,
    CostStrategy::Compressor(0.3),
    CostStrategy::Compressor(0.5),
    CostStrategy::Compressor(0.9),
    CostStrategy::SacredZone,
    CostStrategy::Scheduler,
];

/// One chart. `value` computes the value of a request from the value of the request before it.
struct ChartSpec {
    title: &'static str,
    unit: &'static str,
    caption: &'static str,
    value: fn(f64, &ReplayedRequest) -> f64,
    label: fn(f64) -> String,
    height: ChartHeight,
}

/// The rule for the top of a chart's vertical axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChartHeight {
    /// Up to a little above the context window, which is drawn as a line. Larger requests are cut off,
    /// because they would flatten the rest.
    Window,
    /// Up to the highest line.
    HighestLine,
}

const CHARTS: [ChartSpec; 3] = [
    ChartSpec {
        title: "Dollars spent so far",
        unit: "dollars",
        caption: "Flat is cheap. A compaction (○) costs something at once, and makes the line flatter after it.",
        value: |before, turn| before + turn.total_cost().0,
        label: pages::dollar_tick,
        height: ChartHeight::HighestLine,
    },
    ChartSpec {
        title: "Tokens sent with each request",
        unit: "tokens",
        caption: "A request above the window would be refused; the chart ends a quarter above it. A compaction (○) makes the next request smaller.",
        value: |_, turn| turn.tokens.number() as f64,
        label: pages::short_count,
        height: ChartHeight::Window,
    },
    ChartSpec {
        title: "Cached tokens of each request",
        unit: "tokens",
        caption: "The part of each request that was read from the provider's cache. A drop to zero: the cache had expired, or a compaction changed the prefix.",
        value: |_, turn| turn.cache_usage.read.number() as f64,
        label: pages::short_count,
        height: ChartHeight::Window,
    },
];

/// Renders the whole page.
pub(super) fn render_html(output: &CostOutput, shown: &str) -> String {
    let title = format!("The cost of {shown}");
    let lines = chart_lines(output);
    let mut page = format!("<main><h1>{}</h1>\n", escape_html(&title));
    for (at, sentence) in output.summary.iter().enumerate() {
        let class = if at == 0 { " class=\"lead\"" } else { "" };
        let _ = writeln!(page, "<p{class}>{}</p>", escape_html(sentence));
    }
    add_legend(&mut page, &lines);
    for drawing in &CHARTS {
        let _ = writeln!(page, "<figure><h2>{}</h2>{}", drawing.title, draw_chart(output, &lines, drawing));
        let _ = writeln!(page, "<figcaption>{}</figcaption></figure>", drawing.caption);
    }
    add_table(&mut page, output);
    add_schedule(&mut page, output);
    add_glossary(&mut page);
    page.push_str("<h2>Basis of the figures</h2><ul>");
    for line in basis_lines(output).iter().chain(&output.notes) {
        let _ = write!(page, "<li>{}</li>", escape_html(line));
    }
    page.push_str("</ul></main>\n");
    pages::document(&title, Theme::System, &pages::inline_style(), &PreEscaped(page))
}

/// Returns the rows to draw. Rows with the same values in every request share one line.
fn chart_lines(output: &CostOutput) -> Vec<Vec<&CostRow>> {
    let first = |strategy: CostStrategy| output.policies.iter().find(move |row| row.cost_strategy == strategy);
    let mut lines: Vec<Vec<&CostRow>> = Vec::new();
    for row in CHARTED_STRATEGIES.into_iter().filter_map(first) {
        match lines.iter_mut().find(|same| same[0].replayed == row.replayed) {
            Some(same) => same.push(row),
            None => lines.push(vec![row]),
        }
    }
    lines
}

/// Adds the legend of all charts. It also shows which strategies share a line.
fn add_legend(page: &mut String, lines: &[Vec<&CostRow>]) {
    page.push_str("<ul class=\"legend\">");
    for (color, rows) in lines.iter().enumerate() {
        let names: Vec<String> = rows.iter().map(|row| escape_html(&row.name)).collect();
        let (row, same) = (rows[0], if rows.len() > 1 { " (the same line)" } else { "" });
        let compactions = pluralize(row.compactions, "compaction");
        let _ = write!(
            page,
            "<li>{}<b>{}</b>{same}: {}, {compactions}</li>",
            legend_key(color).into_string(),
            names.join(", "),
            row.usd,
        );
    }
    page.push_str("<li class=\"soft\">○ a compaction. Where lines run together, the later in this list hides the earlier.</li></ul>\n");
}

fn draw_chart(output: &CostOutput, rows: &[Vec<&CostRow>], drawing: &ChartSpec) -> String {
    let line = |(color, rows): (usize, &Vec<&CostRow>)| {
        let compacted = rows[0].compacted.iter().map(|done| done.request - 1);
        ChartLine::from_values(color, chart_values(rows[0], drawing)).with_dots(compacted)
    };
    let lines: Vec<ChartLine> = rows.iter().enumerate().map(line).collect();
    let highest = lines.iter().flat_map(|line| &line.points).map(|point| point.y).fold(0.0, f64::max);
    let highest = if highest > 0.0 { highest } else { 4.0 };
    let window = output.window.number() as f64;
    let (top, limit) = match drawing.height {
        // If all requests are far smaller than the window, its line would only flatten the others.
        ChartHeight::Window if highest < 0.5 * window => (1.05 * highest, None),
        ChartHeight::Window => {
            ((1.05 * highest).clamp(1.05 * window, 1.25 * window), Some(LimitLine { value: window, name: "window" }))
        }
        ChartHeight::HighestLine => (1.05 * highest, None),
    };
    let turns = rows.first().map_or(&[][..], |rows| &rows[0].replayed);
    let when = |at: usize| turns.get(at).map_or(String::new(), |turn| format_minutes(turn.at.as_secs_f64() / 60.0));
    let chart = Chart {
        title: drawing.title,
        description: drawing.caption,
        unit: drawing.unit,
        lines: &lines,
        max_value: top,
        limits: limit.as_slice(),
        format_value: &drawing.label,
        x_axis: XAxis::Requests(&when),
    };
    chart.draw().into_string()
}

/// Computes the values of a row for a chart, request by request.
fn chart_values(row: &CostRow, drawing: &ChartSpec) -> Vec<f64> {
    let value = |before: &mut f64, turn: &ReplayedRequest| {
        *before = (drawing.value)(*before, turn);
        Some(*before)
    };
    row.replayed.iter().scan(0.0, value).collect()
}

fn add_table(page: &mut String, output: &CostOutput) {
    let cells = |tag: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape_html(cell)));
        cells.collect::<String>()
    };
    let best = cheapest_row(output);
    page.push_str("<h2>Every policy</h2><div class=\"scroll\"><table>");
    let _ = writeln!(page, "<tr>{}</tr>", cells("th", &COLUMNS.map(str::to_owned)));
    for (at, texts) in table_cells(output).into_iter().enumerate() {
        let class = if best == Some(at) { " class=\"best\"" } else { "" };
        let _ = writeln!(page, "<tr{class}>{}</tr>", cells("td", &texts));
    }
    page.push_str("</table></div>\n");
}

/// Adds a table of the scheduler's compactions with the cost terms of each.
fn add_schedule(page: &mut String, output: &CostOutput) {
    let scheduled = output.policies.iter().find(|row| row.cost_strategy == CostStrategy::Scheduler);
    let Some(row) = scheduled.filter(|row| !row.compacted.is_empty()) else { return };
    let line = |done: &CostCompaction| {
        let terms = done.decision.map(|verdict| verdict.terms);
        let money = |value: Option<f64>| value.map_or(String::new(), |usd| format!("{usd:+.4}"));
        let cells = [
            done.request.to_string(),
            format_minutes(done.minute),
            done.before.to_string(),
            done.after.to_string(),
            money(terms.map(|terms| -terms.now.0)),
            money(terms.map(|terms| terms.saved_per_turn.0)),
            terms.map_or(String::new(), |terms| format!("{:.0}", terms.turns)),
            money(terms.map(|terms| -terms.lost.0)),
            money(terms.map(|terms| terms.gain.0)),
            escape_html(&done.reason),
        ];
        format!("<tr><td>{}</td></tr>\n", cells.join("</td><td>"))
    };
    let head =
        "request|time|tokens before|after|this request, $|each later one, $|requests|fetched again, $|gain, $|why";
    let _ = write!(
        page,
        "<h2>Why the scheduler compacted</h2><p>What this request costs more (−) or less (+), plus what each later request saves, \
         times the requests that it counts for, less what has to be fetched again, is the gain.</p>\
         <div class=\"scroll\"><table><tr><th>{}</th></tr>\n{}</table></div>\n",
        head.replace('|', "</th><th>"),
        row.compacted.iter().map(line).collect::<String>()
    );
}

fn add_glossary(page: &mut String) {
    page.push_str("<h2>Words</h2><dl>");
    for (word, meaning) in GLOSSARY {
        let _ = write!(page, "<dt>{word}</dt><dd>{meaning}</dd>");
    }
    page.push_str("</dl>\n");
}

/// Escapes text from outside for HTML.
fn escape_html(text: &str) -> String {
    escape_controls(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
