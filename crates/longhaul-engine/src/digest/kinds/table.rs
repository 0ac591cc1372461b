//! Tables: keeps the columns, the number of rows, the first and last rows, unusual rows, and the ranges of
//! numbers.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, count_with_noun, decay};
use super::super::weights::{self as all, table as weights};
use crate::lines::Line;
use crate::shape::ShapeNode;
use std::borrow::Cow;

/// The way in which the cells of a row are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Cells are separated by a character: comma, tab, semicolon or bar.
    Separated(u8),
    /// Cells are separated by bars and the head by a line, as in Markdown and SQL clients.
    Bars,
    /// Cells are separated by two or more spaces.
    Aligned,
}

fn split_cells(line: &str, layout: Layout) -> Vec<&str> {
    match layout {
        Layout::Separated(separator) if line.contains('"') => quoted_cells(line, separator),
        Layout::Separated(separator) => line.split(separator as char).map(str::trim).collect(),
        Layout::Bars => {
            let inner = line.trim();
            let inner = inner.strip_prefix('|').unwrap_or(inner);
            inner.strip_suffix('|').unwrap_or(inner).split(['|', '│']).map(str::trim).collect()
        }
        Layout::Aligned => line.trim().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect(),
    }
}

fn quoted_cells(line: &str, separator: u8) -> Vec<&str> {
    let (mut cells, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'"' => inside = !inside,
            byte if byte == separator && !inside => {
                cells.push(line[start..at].trim().trim_matches('"'));
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.push(line[start..].trim().trim_matches('"'));
    cells
}

/// Returns whether a line separates rows: `---+---`, `|:--|--:|`, `+----+`, `=====  ====`.
fn is_separator_line(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 3
        && line.contains(['-', '=', '─'])
        && line.chars().all(|c| matches!(c, '-' | '+' | '|' | ':' | '=' | ' ' | '─' | '┼' | '│' | '├' | '┤'))
}

fn detect_layout(sample: &Sample<'_>) -> Option<Layout> {
    let mut lines = sample.lines().filter(|line| !is_separator_line(line));
    let head = lines.next()?;
    let rest: Vec<_> = lines.collect();
    let alike = |layout: Layout| {
        let of_head = split_cells(head, layout).len();
        let same = rest.iter().filter(|line| split_cells(line, layout).len() == of_head).count();
        of_head >= 2 && !rest.is_empty() && same * 10 >= rest.len() * 8
    };
    let ruled = sample.head.iter().take(4).any(|line| is_separator_line(line));
    if ruled && (head.contains('|') || head.contains('│')) && alike(Layout::Bars) {
        return Some(Layout::Bars);
    }
    for separator in [b'\t', b',', b';', b'|'] {
        let layout = Layout::Separated(separator);
        if rest.len() >= weights::MIN_ROWS
            && split_cells(head, layout).len() >= weights::MIN_COLUMNS
            && alike(layout)
            && are_column_names(&split_cells(head, layout))
        {
            return Some(layout);
        }
    }
    let aligned = rest.len() >= weights::MIN_ROWS
        && split_cells(head, Layout::Aligned).len() >= weights::MIN_COLUMNS
        && alike(Layout::Aligned)
        && !head.starts_with(' ');
    (aligned && are_column_names(&split_cells(head, Layout::Aligned))).then_some(Layout::Aligned)
}

/// Returns whether cells could be the names of columns: short, and not code or a sentence.
fn are_column_names(cells: &[&str]) -> bool {
    cells.iter().all(|cell| {
        cell.len() <= weights::MAX_COLUMN_NAME_BYTES
            && cell.split(' ').count() <= weights::MAX_COLUMN_NAME_WORDS
            && !cell.ends_with(['{', ';', '('])
    })
}

pub(in super::super) fn recognizes(_: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    detect_layout(sample).is_some()
}

#[derive(Default, Clone, Copy)]
struct ColumnRange {
    count: usize,
    min: f64,
    max: f64,
    sum: f64,
}

impl ColumnRange {
    fn add(&mut self, number: f64) {
        self.min = if self.count == 0 { number } else { self.min.min(number) };
        self.max = if self.count == 0 { number } else { self.max.max(number) };
        self.sum += number;
        self.count += 1;
    }
}

/// Returns whether a line separates records whose cells are printed one below the other: `-[ RECORD 3 ]----`.
fn is_record_separator(line: &str) -> bool {
    line.starts_with("-[ RECORD ") || line.starts_with("***************************")
}

fn propose_records<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let records = output.lines().filter(|line| is_record_separator(line.text)).count();
    proposal.head_facts.push(count_with_noun(records, "record"));
    let first = output.lines().skip(1).take_while(|line| !is_record_separator(line.text)).take(weights::MAX_COLUMNS);
    let names = first.filter_map(|line| line.text.split(['|', ':']).next()).map(str::trim);
    let names: Vec<Cow<'a, str>> = names.filter(|name| !name.is_empty()).map(Cow::Borrowed).collect();
    proposal.add_list("columns", weights::COLUMNS_VALUE, names);
    proposal.add_facts(output, all::READ_FACTS);
    proposal.add_edges(output, &weights::RECORD_EDGES);
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    if output.lines().next().is_some_and(|line| is_record_separator(line.text)) {
        return propose_records(output, proposal);
    }
    let layout = detect_layout(&output.sample()).unwrap_or(Layout::Aligned);
    let mut rows = 0usize;
    let mut columns: Vec<&'a str> = Vec::new();
    let mut ranges: Vec<ColumnRange> = Vec::new();
    let mut last: Vec<Line<'a>> = Vec::new();
    for line in output.lines() {
        if line.text.trim().is_empty() || is_separator_line(line.text) {
            continue;
        }
        let cells = split_cells(line.text, layout);
        if columns.is_empty() {
            if cells.len() >= 2 {
                columns = cells;
                ranges = vec![ColumnRange::default(); columns.len().min(weights::MAX_COLUMNS)];
                proposal.add_quote(line.trimmed(), weights::HEAD_VALUE);
            }
            continue;
        }
        if cells.len() != columns.len() {
            continue;
        }
        rows += 1;
        for (cell, range) in cells.iter().zip(&mut ranges) {
            if cell.as_bytes().first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
                && let Ok(number) = cell.parse::<f64>()
            {
                range.add(number);
            }
        }
        if rows <= weights::MAX_FIRST_ROWS {
            let value = weights::FIRST_ROW_VALUE - rows as f64 * weights::FIRST_ROW_STEP_VALUE;
            proposal.add_quote(line.trimmed(), value);
        } else {
            if last.len() == weights::MAX_LAST_ROWS {
                last.remove(0);
            }
            last.push(line);
        }
    }
    for line in last {
        proposal.add_quote(line.trimmed(), weights::LAST_ROW_VALUE);
    }
    propose_unusual_rows(output, layout, columns.len(), proposal);
    proposal.head_facts.push(format!(
        "{} of {}",
        count_with_noun(rows, "row"),
        count_with_noun(columns.len(), "column")
    ));
    let spans = columns.iter().zip(&ranges).filter(|(_, range)| range.count > 1 && range.count * 10 >= rows * 9);
    let spans: Vec<Cow<'a, str>> = spans.map(|(name, range)| Cow::Owned(describe_range(name, *range))).collect();
    proposal.add_list(
        "columns",
        weights::COLUMNS_VALUE,
        columns.iter().filter(|name| !name.is_empty()).map(|name| Cow::Borrowed(*name)),
    );
    proposal.add_list("ranges", weights::RANGES_VALUE, spans);
    proposal.add_facts(output, all::READ_FACTS);
}

/// Proposes the rows in which a cell differs from the value that at least four of five rows have, and rows
/// with another number of cells. If more than every fifth row is like that, proposes none.
fn propose_unusual_rows<'a>(
    output: &ParsedOutput<'a>,
    layout: Layout,
    columns: usize,
    proposal: &mut DigestProposal<'a>,
) {
    let rows = || {
        let full = output.lines().filter(|line| !line.text.trim().is_empty() && !is_separator_line(line.text));
        let rows = full.map(move |line| (line, split_cells(line.text, layout)));
        rows.skip_while(move |(_, cells)| cells.len() != columns).skip(1)
    };
    let mut values: Vec<ShapeNode<'a>> = vec![ShapeNode::default(); columns.min(weights::MAX_COLUMNS)];
    for (_, cells) in rows().filter(|(_, cells)| cells.len() == columns) {
        for (cell, values) in cells.into_iter().zip(&mut values) {
            values.add_value(cell);
        }
    }
    let usual: Vec<Option<&str>> = values.iter().map(ShapeNode::usual_value).collect();
    let is_odd = |cells: &[&str]| {
        // A row with another number of cells cannot be compared by column. A single cell is a remark about
        // the table.
        cells.len() != columns
            || cells.iter().zip(&usual).any(|(cell, usual)| usual.is_some_and(|usual| usual != *cell))
    };
    let seen = values.first().map_or(0, |values| values.occurrences);
    let odd: Vec<Line<'a>> = rows()
        .filter(|(_, cells)| cells.len() > 1 && is_odd(cells))
        .map(|(line, _)| line)
        .take(seen / weights::UNUSUAL_DIVISOR + 1)
        .collect();
    if odd.len() <= seen / weights::UNUSUAL_DIVISOR {
        for (rank, line) in odd.into_iter().take(weights::MAX_UNUSUAL_ROWS).enumerate() {
            proposal
                .add_long_quote(line.trimmed(), decay(weights::UNUSUAL_ROW_VALUE, rank, weights::UNUSUAL_ROW_DECAY));
        }
    }
}

fn describe_range(name: &str, range: ColumnRange) -> String {
    let mean = range.sum / range.count as f64;
    format!("{name} {} to {}, mean {}", range.min, range.max, (mean * 100.0).round() / 100.0)
}
