//! `longhaul stats`: adds up a log of compactions.

use serde::{Deserialize, Serialize};

use crate::cli::StatsArgs;
use crate::failure::Failure;
use crate::input;
use crate::output::{self, EMPHASIS_STYLE, Page, StyledLine};

/// A row that `compress --log` appends. Other fields in a row are ignored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StatsRow {
    pub(crate) engine: String,
    pub(crate) reason: String,
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    pub(crate) messages_before: usize,
    pub(crate) messages_after: usize,
    /// The share of the tokens that was saved: 0.25 is a quarter, and a negative share means that the request
    /// grew.
    pub(crate) ratio: f64,
}

/// The largest growth of a request that a row may report, as a factor. Chosen by hand: a larger one is a
/// damaged row.
const MAX_GROWTH_FACTOR: f64 = 1e6;

#[derive(Serialize)]
struct StatsOutput {
    total_compactions: usize,
    /// The tokens saved over all rows. It is negative if the compactions made the requests larger.
    total_tokens_saved: i64,
    average_ratio: f64,
    rows: Vec<StatsRow>,
}

pub(crate) fn run(args: &StatsArgs) -> Result<(), Failure> {
    let to = args.output.file();
    output::refuse_overwriting_inputs(to, [args.log.as_path()])?;
    let shown = input::label(&args.log);
    let text = input::read_text(&args.log)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    for (at, line) in lines {
        match parse_row(line) {
            Ok(row) => rows.push(row),
            Err(error) => bad.push(format!("{shown}, line {}: not a row of compress --log ({error})", at + 1)),
        }
    }
    // A truncated line is skipped, but a file without any valid row is not a log.
    if let Some(first) = bad.first() {
        if rows.is_empty() {
            return Err(Failure::InvalidInput(first.clone()));
        }
        let others = if bad.len() > 1 { format!(", and {} more such lines", bad.len() - 1) } else { String::new() };
        output::print_message(&format!("{first}{others}; skipped"));
    }
    let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let saved = |sum: i64, row: &StatsRow| sum.saturating_add(signed(row.tokens_before) - signed(row.tokens_after));
    let output = StatsOutput {
        total_compactions: rows.len(),
        total_tokens_saved: rows.iter().fold(0, saved),
        average_ratio: rows.iter().map(|row| row.ratio).sum::<f64>() / rows.len().max(1) as f64,
        rows,
    };
    if args.output.json {
        return output::write_json(to, &output);
    }
    let mut page = Page::default();
    if output.rows.is_empty() {
        page.add_line(format!("no compactions in {shown}"));
        return output::write_page(to, &page);
    }
    let mut rows =
        vec![["engine", "tokens", "messages", "saved"].map(|name| StyledLine::default().styled(EMPHASIS_STYLE, name))];
    rows.extend(output.rows.iter().map(|row| {
        let tokens =
            format!("{} → {}", output::group_digits(row.tokens_before), output::group_digits(row.tokens_after));
        let messages = format!("{} → {}", row.messages_before, row.messages_after);
        [row.engine.clone(), tokens, messages, format!("{:.1} %", 100.0 * row.ratio)].map(StyledLine::from)
    }));
    page.add_table(rows);
    page.add_line(format!(
        "{}, {} tokens saved, {:.1} % of each request on average",
        output::pluralize(output.total_compactions, "compaction"),
        format_signed(output.total_tokens_saved),
        100.0 * output.average_ratio
    ));
    output::write_page(to, &page)
}

/// Parses a row, or returns the reason why the line is not one.
fn parse_row(line: &str) -> Result<StatsRow, String> {
    let row = serde_json::from_str::<StatsRow>(line).map_err(|error| error.to_string())?;
    let is_share = (-MAX_GROWTH_FACTOR..=1.0).contains(&row.ratio);
    if is_share { Ok(row) } else { Err(format!("a ratio of {} is out of range", row.ratio)) }
}

fn format_signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", output::group_digits(number.unsigned_abs()))
}
