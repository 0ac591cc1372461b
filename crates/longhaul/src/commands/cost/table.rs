//! The answer for people at a terminal: sentences, the table, what it rests on.

use anstyle::Style;
use longhaul_engine::cost::Course;
use longhaul_engine::policy::CacheStrategy;

use super::words::{GLOSSARY, counted};
use super::{Answer, Row};
use crate::output::{FAINT, GOOD, Line, Page, STRONG};

pub(super) const HEAD: [&str; 11] = [
    "policy",
    "compactions",
    "forgotten",
    "cached",
    "written",
    "uncached",
    "hit rate",
    "largest",
    "cost",
    "saved",
    "",
];

/// The whole of it.
pub(super) fn page(answer: &Answer) -> Page {
    let mut page = Page::default();
    for (at, sentence) in answer.summary.iter().enumerate() {
        page.line(Line::default().styled(if at == 0 { STRONG } else { Style::new() }, sentence));
    }
    page.blank();
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(rows_of(answer));
    let widths: [usize; 11] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let cheapest = cheapest(answer);
    page.table(rows.into_iter().enumerate().map(|(line, row)| {
        let is_cheapest = cheapest.is_some_and(|best| line == best + 1);
        let style = match line {
            0 => STRONG,
            _ if is_cheapest => GOOD,
            _ => Style::new(),
        };
        let mut column = 0;
        row.map(|cell| {
            column += 1;
            // Numbers stand under the ends of their names.
            let cell = match column {
                1 | 11 => cell,
                _ => format!("{cell:>0$}", widths[column - 1]),
            };
            Line::default().styled(style, cell)
        })
    }));
    page.blank();
    for line in basis(answer) {
        page.line(line);
    }
    page.blank();
    page.table(
        GLOSSARY.map(|(word, meaning)| [word, meaning].map(|text| Line::default().styled(FAINT, text))),
    );
    page
}

/// The rows of the table, cell by cell.
pub(super) fn rows_of(answer: &Answer) -> Vec<[String; 11]> {
    let first = answer.policies.iter().find_map(|row| row.strategy);
    let several = answer.policies.iter().filter_map(|row| row.strategy).any(|s| Some(s) != first);
    let cheapest = cheapest(answer);
    let row = |(at, row): (usize, &Row)| {
        let mut remarks = Vec::new();
        if let Some(strategy) = row.strategy.filter(|_| several) {
            remarks.push(strategy.name().to_owned());
        }
        if row.over_window > 0 {
            remarks.push(format!("{} over the window", counted(row.over_window, "request")));
        }
        if cheapest == Some(at) {
            remarks.push("cheapest".to_owned());
        }
        [
            row.name.clone(),
            row.compactions.to_string(),
            row.forgotten.to_string(),
            row.cached.to_string(),
            row.written.to_string(),
            row.fresh.to_string(),
            row.hit_rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", 100.0 * rate)),
            row.largest.to_string(),
            row.usd.to_string(),
            row.saved.map_or_else(|| "-".to_owned(), |saved| format!("{:.1} %", 100.0 * saved)),
            remarks.join(", "),
        ]
    };
    answer.policies.iter().enumerate().map(row).collect()
}

/// The row that is cheapest, where one is cheaper than another.
pub(super) fn cheapest(answer: &Answer) -> Option<usize> {
    let prices = || answer.policies.iter().map(|row| row.usd.0).enumerate();
    let (at, least) = prices().min_by(|a, b| a.1.total_cmp(&b.1))?;
    prices().any(|(_, price)| least < price).then_some(at)
}

/// What each row saves, measured against the row of its strategy without compaction. Of `marks` itself there is nothing to say.
pub(super) fn measure(policies: &mut [Row]) {
    let bases: Vec<(Option<CacheStrategy>, f64)> = policies
        .iter()
        .filter(|row| row.course == Course::Marks)
        .map(|row| (row.strategy, row.usd.0))
        .collect();
    for row in policies.iter_mut().filter(|row| row.course != Course::Marks) {
        let base = bases.iter().find(|(strategy, _)| *strategy == row.strategy).or(bases.first());
        row.saved = base.filter(|(_, usd)| *usd > 0.0).map(|(_, usd)| 1.0 - row.usd.0 / usd);
    }
}

/// What the figures rest on.
pub(super) fn basis(answer: &Answer) -> [String; 2] {
    let by = match answer.pauses.seed {
        Some(seed) => format!("drawn with seed {seed}"),
        None => answer.pauses.by.to_owned(),
    };
    let requests = counted(answer.requests, "request");
    let over = answer.pauses.over_five_minutes;
    [
        format!(
            "{requests} over {:.0} minutes (pauses {by}; {over} over five minutes) for {}: window {}, threshold {}",
            answer.minutes, answer.model, answer.window, answer.threshold,
        ),
        format!(
            "{}; prices of {}, {} ({})",
            answer.status,
            answer.prices.row.as_deref().unwrap_or(&answer.model),
            if answer.prices.date.is_empty() { "undated" } else { &answer.prices.date },
            answer.prices.source
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_the_table_is_explained() {
        let explained = |name: &str| GLOSSARY.iter().any(|(word, _)| *word == name);
        let plain = ["policy", "compactions", "cost", ""];
        assert!(HEAD.iter().filter(|name| !plain.contains(name)).all(|name| explained(name)));
    }
}
