//! `longhaul stats`: a log of compactions, summed.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::cli::StatsArgs;
use crate::failure::Failure;
use crate::{input, output};

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
    let shown = input::shown(&args.log);
    let text = input::read_text(&args.log)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let row = |(at, line): (usize, &str)| {
        let wrong = |why: &dyn Display| {
            Failure::Wrong(format!("{shown}, line {}: not a row of compress --log ({why})", at + 1))
        };
        let row = serde_json::from_str::<Row>(line).map_err(|error| wrong(&error))?;
        let is_share = (-LARGEST_GROWTH..=1.0).contains(&row.ratio);
        if is_share { Ok(row) } else { Err(wrong(&format_args!("a ratio of {} is no share", row.ratio))) }
    };
    let rows = lines.map(row).collect::<Result<Vec<Row>, Failure>>()?;
    let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let saved =
        |sum: i64, row: &Row| sum.saturating_add(signed(row.tokens_before) - signed(row.tokens_after));
    let answer = Answer {
        total_compactions: rows.len(),
        total_tokens_saved: rows.iter().fold(0, saved),
        average_ratio: rows.iter().map(|row| row.ratio).sum::<f64>() / rows.len().max(1) as f64,
        rows,
    };
    let to = args.answer.output.as_deref();
    if args.answer.json {
        return output::write_json(to, &answer);
    }
    if answer.rows.is_empty() {
        return output::write(to, format!("no compactions in {shown}\n").as_bytes());
    }
    let mut page: Vec<[String; 4]> = vec![["engine", "tokens", "messages", "saved"].map(str::to_owned)];
    page.extend(answer.rows.iter().map(|row| {
        let tokens =
            format!("{} → {}", output::grouped(row.tokens_before), output::grouped(row.tokens_after));
        let messages = format!("{} → {}", row.messages_before, row.messages_after);
        [row.engine.clone(), tokens, messages, format!("{:.1} %", 100.0 * row.ratio)]
    }));
    let sum = format!(
        "{} compactions, {} tokens saved, {:.1} % on average\n",
        answer.total_compactions,
        answer.total_tokens_saved,
        100.0 * answer.average_ratio
    );
    output::write(to, (output::table(&page) + &sum).as_bytes())
}
