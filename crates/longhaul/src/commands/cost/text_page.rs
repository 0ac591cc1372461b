//! The output of `longhaul cost` for a terminal: the summary, the table, and the basis of the figures.

use anstyle::Style;
use longhaul_engine::cost::CostStrategy;
use longhaul_engine::policy::CacheStrategy;

use super::sentences::GLOSSARY;
use super::{CostOutput, CostRow};
use crate::output::{EMPHASIS_STYLE, Page, SECONDARY_STYLE, SUCCESS_STYLE, StyledLine, pluralize};

pub(super) const COLUMNS: [&str; 11] =
    ["policy", "compactions", "forgotten", "cached", "written", "uncached", "hit rate", "largest", "cost", "saved", ""];

/// Renders the whole output.
pub(super) fn page(output: &CostOutput) -> Page {
    let mut page = Page::default();
    for (at, sentence) in output.summary.iter().enumerate() {
        page.add_line(StyledLine::default().styled(if at == 0 { EMPHASIS_STYLE } else { Style::new() }, sentence));
    }
    page.add_blank();
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(table_cells(output));
    let widths: [usize; 11] = std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let cheapest = cheapest_row(output);
    page.add_table(rows.into_iter().enumerate().map(|(line, row)| {
        let is_cheapest = cheapest.is_some_and(|best| line == best + 1);
        let style = match line {
            0 => EMPHASIS_STYLE,
            _ if is_cheapest => SUCCESS_STYLE,
            _ => Style::new(),
        };
        let mut column = 0;
        row.map(|cell| {
            column += 1;
            // Align numbers with the right edge of their heading.
            let cell = match column {
                1 | 11 => cell,
                _ => format!("{cell:>0$}", widths[column - 1]),
            };
            StyledLine::default().styled(style, cell)
        })
    }));
    page.add_blank();
    for line in basis_lines(output) {
        page.add_line(line);
    }
    page.add_blank();
    page.add_table(
        GLOSSARY.map(|(word, meaning)| [word, meaning].map(|text| StyledLine::default().styled(SECONDARY_STYLE, text))),
    );
    page
}

/// Returns the cells of the table, row by row.
pub(super) fn table_cells(output: &CostOutput) -> Vec<[String; 11]> {
    let first = output.policies.iter().find_map(|row| row.cache_strategy);
    let several = output.policies.iter().filter_map(|row| row.cache_strategy).any(|s| Some(s) != first);
    let cheapest = cheapest_row(output);
    let row = |(at, row): (usize, &CostRow)| {
        let mut remarks = Vec::new();
        if let Some(strategy) = row.cache_strategy.filter(|_| several) {
            remarks.push(strategy.name().to_owned());
        }
        if row.over_window > 0 {
            remarks.push(format!("{} over the window", pluralize(row.over_window, "request")));
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
            row.uncached.to_string(),
            row.hit_rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", 100.0 * rate)),
            row.largest.to_string(),
            row.usd.to_string(),
            row.saved.map_or_else(|| "-".to_owned(), |saved| format!("{:.1} %", 100.0 * saved)),
            remarks.join(", "),
        ]
    };
    output.policies.iter().enumerate().map(row).collect()
}

/// Returns the index of the cheapest row, or nothing if all rows cost the same.
pub(super) fn cheapest_row(output: &CostOutput) -> Option<usize> {
    let prices = || output.policies.iter().map(|row| row.usd.0).enumerate();
    let (at, lowest) = prices().min_by(|a, b| a.1.total_cmp(&b.1))?;
    prices().any(|(_, price)| lowest < price).then_some(at)
}

/// Sets the savings of each row, compared with the row of the same cache strategy without compaction. That
/// row itself gets none.
pub(super) fn set_savings(policies: &mut [CostRow]) {
    let bases: Vec<(Option<CacheStrategy>, f64)> = policies
        .iter()
        .filter(|row| row.cost_strategy == CostStrategy::BreakpointsOnly)
        .map(|row| (row.cache_strategy, row.usd.0))
        .collect();
    for row in policies.iter_mut().filter(|row| row.cost_strategy != CostStrategy::BreakpointsOnly) {
        let base = bases.iter().find(|(strategy, _)| *strategy == row.cache_strategy).or(bases.first());
        row.saved = base.filter(|(_, usd)| *usd > 0.0).map(|(_, usd)| 1.0 - row.usd.0 / usd);
    }
}

/// Returns the lines about the basis of the figures: requests, pauses, window and prices.
pub(super) fn basis_lines(output: &CostOutput) -> [String; 2] {
    let pause_text = match output.pauses.seed {
        Some(seed) => format!("simulated with seed {seed}"),
        None => output.pauses.name.to_owned(),
    };
    let requests = pluralize(output.requests, "request");
    let over = output.pauses.over_five_minutes;
    [
        format!(
            "{requests} over {:.0} minutes (pauses {pause_text}; {over} over five minutes) for {}: window {}, threshold {}",
            output.minutes, output.model, output.window, output.threshold,
        ),
        format!(
            "{}; prices of {}, {} ({})",
            output.status,
            output.prices.row.as_deref().unwrap_or(&output.model),
            if output.prices.date.is_empty() { "undated" } else { &output.prices.date },
            output.prices.source
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
        assert!(COLUMNS.iter().filter(|name| !plain.contains(name)).all(|name| explained(name)));
    }
}
