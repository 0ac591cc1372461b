//! Tables: the columns, how many rows, the first and last of them and those unlike the others, and what the numbers range over.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, counted};
use crate::lines::Line;
use crate::shape::Node;
use std::borrow::Cow;

/// How the cells of a row are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// By a character: comma, tab, semicolon.
    Separated(u8),
    /// By bars: Markdown and the SQL clients.
    Bars,
    /// By runs of spaces.
    Aligned,
}

/// Rows that are shown for being unlike the others.
const MOST_UNUSUAL: usize = 40;
/// Columns whose values are looked at.
const MOST_COLUMNS: usize = 40;

fn cells(line: &str, layout: Layout) -> Vec<&str> {
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

/// `---+---`, `|:--|--:|`, `+----+`, `=====  ====`
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 3
        && line.contains(['-', '=', '─'])
        && line.chars().all(|c| matches!(c, '-' | '+' | '|' | ':' | '=' | ' ' | '─' | '┼' | '│' | '├' | '┤'))
}

fn layout(sample: &Sample<'_>) -> Option<Layout> {
    let mut lines = sample.lines().filter(|line| !is_rule(line));
    let head = lines.next()?;
    let rest: Vec<_> = lines.collect();
    let alike = |layout: Layout| {
        let of_head = cells(head, layout).len();
        let same = rest.iter().filter(|line| cells(line, layout).len() == of_head).count();
        of_head >= 2 && !rest.is_empty() && same * 10 >= rest.len() * 8
    };
    let ruled = sample.head.iter().take(4).any(|line| is_rule(line));
    if ruled && (head.contains('|') || head.contains('│')) && alike(Layout::Bars) {
        return Some(Layout::Bars);
    }
    for separator in [b'\t', b',', b';', b'|'] {
        let layout = Layout::Separated(separator);
        if rest.len() >= 5 && cells(head, layout).len() >= 3 && alike(layout) && names(&cells(head, layout)) {
            return Some(layout);
        }
    }
    let aligned = rest.len() >= 5
        && cells(head, Layout::Aligned).len() >= 3
        && alike(Layout::Aligned)
        && !head.starts_with(' ');
    (aligned && names(&cells(head, Layout::Aligned))).then_some(Layout::Aligned)
}

/// Whether these could be the names of columns: short, and none of them code or a sentence.
fn names(cells: &[&str]) -> bool {
    cells
        .iter()
        .all(|cell| cell.len() <= 60 && cell.split(' ').count() <= 5 && !cell.ends_with(['{', ';', '(']))
}

pub(in super::super) fn shows(_: &Page<'_>, sample: &Sample<'_>) -> bool {
    layout(sample).is_some()
}

#[derive(Default, Clone, Copy)]
struct Range {
    numbers: usize,
    least: f64,
    most: f64,
    sum: f64,
}

impl Range {
    fn add(&mut self, number: f64) {
        self.least = if self.numbers == 0 { number } else { self.least.min(number) };
        self.most = if self.numbers == 0 { number } else { self.most.max(number) };
        self.sum += number;
        self.numbers += 1;
    }
}

/// `-[ RECORD 3 ]----`: rows that are shown one under another.
fn is_record(line: &str) -> bool {
    line.starts_with("-[ RECORD ") || line.starts_with("***************************")
}

fn propose_records<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let records = page.lines().filter(|line| is_record(line.text)).count();
    proposal.lead.push(counted(records, "record"));
    let first = page.lines().skip(1).take_while(|line| !is_record(line.text)).take(MOST_COLUMNS);
    let names = first.filter_map(|line| line.text.split(['|', ':']).next()).map(str::trim);
    proposal.note(
        "columns",
        12.0,
        names.filter(|name| !name.is_empty()).map(Cow::Borrowed).collect::<Vec<_>>(),
    );
    proposal.facts(page, Worth::READ);
    proposal.edges(page, 12, 6, 4.0);
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    if page.lines().next().is_some_and(|line| is_record(line.text)) {
        return propose_records(page, proposal);
    }
    let layout = layout(&page.sample()).unwrap_or(Layout::Aligned);
    let mut rows = 0usize;
    let mut columns: Vec<&'a str> = Vec::new();
    let mut ranges: Vec<Range> = Vec::new();
    let mut last: Vec<Line<'a>> = Vec::new();
    for line in page.lines() {
        if line.text.trim().is_empty() || is_rule(line.text) {
            continue;
        }
        let cells = cells(line.text, layout);
        if columns.is_empty() {
            if cells.len() >= 2 {
                columns = cells;
                ranges = vec![Range::default(); columns.len().min(MOST_COLUMNS)];
                proposal.quote(line.trimmed(), 5.0);
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
        if rows <= 5 {
            proposal.quote(line.trimmed(), 4.0 - rows as f64 * 0.3);
        } else {
            if last.len() == 3 {
                last.remove(0);
            }
            last.push(line);
        }
    }
    for line in last {
        proposal.quote(line.trimmed(), 2.8);
    }
    unusual(page, layout, columns.len(), proposal);
    proposal.lead.push(format!("{} of {}", counted(rows, "row"), counted(columns.len(), "column")));
    let spans =
        columns.iter().zip(&ranges).filter(|(_, range)| range.numbers > 1 && range.numbers * 10 >= rows * 9);
    let spans: Vec<Cow<'a, str>> = spans.map(|(name, range)| Cow::Owned(span(name, *range))).collect();
    proposal.note(
        "columns",
        12.0,
        columns.iter().filter(|name| !name.is_empty()).map(|name| Cow::Borrowed(*name)),
    );
    proposal.note("ranges", 5.0, spans);
    proposal.facts(page, Worth::READ);
}

/// Rows in which a cell does not have the value that its column has in four of five others, or that have other cells than the
/// rest. Where that is more than every fifth row, none stands out.
fn unusual<'a>(page: &Page<'a>, layout: Layout, columns: usize, proposal: &mut Proposal<'a>) {
    let rows = || {
        let full = page.lines().filter(|line| !line.text.trim().is_empty() && !is_rule(line.text));
        let rows = full.map(move |line| (line, cells(line.text, layout)));
        rows.skip_while(move |(_, cells)| cells.len() != columns).skip(1)
    };
    let mut values: Vec<Node<'a>> = vec![Node::default(); columns.min(MOST_COLUMNS)];
    for (_, cells) in rows().filter(|(_, cells)| cells.len() == columns) {
        for (cell, values) in cells.into_iter().zip(&mut values) {
            values.count(cell);
        }
    }
    let usual: Vec<Option<&str>> = values.iter().map(Node::usual).collect();
    let is_odd = |cells: &[&str]| {
        // One that lacks a cell cannot be read column by column; a single cell is a line about the table.
        let ragged = cells.len() > 1 && cells.len() != columns;
        ragged || cells.iter().zip(&usual).any(|(cell, usual)| usual.is_some_and(|usual| usual != *cell))
    };
    let seen = values.first().map_or(0, |values| values.seen);
    let odd: Vec<Line<'a>> = rows()
        .filter(|(_, cells)| cells.len() > 1 && is_odd(cells))
        .map(|(line, _)| line)
        .take(seen / 5 + 1)
        .collect();
    if odd.len() <= seen / 5 {
        for (rank, line) in odd.into_iter().take(MOST_UNUSUAL).enumerate() {
            proposal.quote_long(line.trimmed(), 10.0 / (1.0 + rank as f64 * 0.1));
        }
    }
}

fn span(name: &str, range: Range) -> String {
    let mean = range.sum / range.numbers as f64;
    format!("{name} {} to {}, mean {}", range.least, range.most, (mean * 100.0).round() / 100.0)
}
