//! `longhaul stats`: a log of compactions, summed.

use serde::{Deserialize, Serialize};

use crate::cli::StatsArgs;
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Line, Page, STRONG};

/// A row that `compress --log` appended. What else a row says is kept as it is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) engine: String,
    pub(crate) reason: String,
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    pub(crate) messages_before: usize,
    pub(crate) messages_after: usize,
    /// Saved over before.
    pub(crate) ratio: f64,
}

/// No request becomes a million times as large.
const LARGEST_GROWTH: f64 = 1e6;

#[derive(Serialize)]
struct Answer {
    total_compactions: usize,
    /// Negative where compactions made things larger.
    total_tokens_saved: i64,
    average_ratio: f64,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &StatsArgs) -> Result<(), Failure> {
    let to = args.answer.to();
    output::refuse_inputs(to, [args.log.as_path()])?;
    let shown = input::shown(&args.log);
    let text = input::read_text(&args.log)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    for (at, line) in lines {
        match read(line) {
            Ok(row) => rows.push(row),
            Err(why) => bad.push(format!("{shown}, line {}: not a row of compress --log ({why})", at + 1)),
        }
    }
    // A line that was cut off keeps nobody from the others; a file without any row is no log.
    if let Some(first) = bad.first() {
        if rows.is_empty() {
            return Err(Failure::Wrong(first.clone()));
        }
        let more =
            if bad.len() > 1 { format!(", and {} more such lines", bad.len() - 1) } else { String::new() };
        output::say(&format!("{first}{more}; left out of the sums"));
    }
    let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let saved =
        |sum: i64, row: &Row| sum.saturating_add(signed(row.tokens_before) - signed(row.tokens_after));
    let answer = Answer {
        total_compactions: rows.len(),
        total_tokens_saved: rows.iter().fold(0, saved),
        average_ratio: rows.iter().map(|row| row.ratio).sum::<f64>() / rows.len().max(1) as f64,
        rows,
    };
    if args.answer.json {
        return output::write_json(to, &answer);
    }
    let mut page = Page::default();
    if answer.rows.is_empty() {
        page.line(format!("no compactions in {shown}"));
        return output::give(to, &page);
    }
    let mut rows =
        vec![["engine", "tokens", "messages", "saved"].map(|name| Line::default().styled(STRONG, name))];
    rows.extend(answer.rows.iter().map(|row| {
        let tokens =
            format!("{} → {}", output::grouped(row.tokens_before), output::grouped(row.tokens_after));
        let messages = format!("{} → {}", row.messages_before, row.messages_after);
        [row.engine.clone(), tokens, messages, format!("{:.1} %", 100.0 * row.ratio)].map(Line::from)
    }));
    page.table(rows);
    page.line(format!(
        "{} compactions, {} tokens saved, {:.1} % of each request on average",
        answer.total_compactions,
        with_sign(answer.total_tokens_saved),
        100.0 * answer.average_ratio
    ));
    output::give(to, &page)
}

/// A row, or why it is none.
fn read(line: &str) -> Result<Row, String> {
    let row = serde_json::from_str::<Row>(line).map_err(|error| error.to_string())?;
    let is_share = (-LARGEST_GROWTH..=1.0).contains(&row.ratio);
    if is_share { Ok(row) } else { Err(format!("a ratio of {} is no share", row.ratio)) }
}

fn with_sign(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", output::grouped(number.unsigned_abs()))
}
