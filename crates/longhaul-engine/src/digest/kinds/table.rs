//! Tables: the columns, how many rows, the first and last of them, and what the numbers range over.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, counted};
use crate::lines::Line;
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

/// Columns whose numbers are summed up.
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

/// The values of one column, as long as they are few.
#[derive(Default)]
struct Values<'a> {
    /// Each with how often it came.
    seen: Vec<(&'a str, usize)>,
    many: bool,
}

impl<'a> Values<'a> {
    /// A column with more values than this is no column of states.
    const MOST: usize = 8;

    fn add(&mut self, cell: &'a str) {
        if self.many {
            return;
        }
        if let Some((_, times)) = self.seen.iter_mut().find(|(value, _)| *value == cell) {
            *times += 1;
        } else if self.seen.len() < Self::MOST {
            self.seen.push((cell, 1));
        } else {
            self.many = true;
        }
    }

    /// Whether a value is rare in a column that nearly always says the same.
    fn is_rare(&self, cell: &str, rows: usize) -> bool {
        let most = self.seen.iter().map(|(_, times)| *times).max().unwrap_or_default();
        let times = self.seen.iter().find(|(value, _)| *value == cell).map_or(0, |(_, times)| *times);
        !self.many && rows >= 10 && most * 5 >= rows * 4 && times * 20 <= rows.max(40)
    }
}

/// Rows that are proposed for being unlike the others.
const MOST_UNLIKE: usize = 12;

/// Proposes the rows that say something that others do not, or have other cells than the rest.
fn unlike<'a>(
    page: &Page<'a>,
    layout: Layout,
    values: &[Values<'a>],
    rows: usize,
    proposal: &mut Proposal<'a>,
) {
    let full = page.lines().filter(|line| !line.text.trim().is_empty() && !is_rule(line.text));
    let unlike = full.skip(1).filter(|line| {
        let cells = cells(line.text, layout);
        // One that lacks a cell cannot be read column by column.
        let ragged = cells.len() > 1 && cells.len() != values.len() && values.len() < MOST_COLUMNS;
        ragged || cells.iter().zip(values).any(|(cell, values)| values.is_rare(cell, rows))
    });
    for (rank, line) in unlike.take(MOST_UNLIKE).enumerate() {
        proposal.quote_long(line.trimmed(), 7.0 / (1.0 + rank as f64 * 0.1));
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
    let mut values: Vec<Values<'a>> = Vec::new();
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
                values = ranges.iter().map(|_| Values::default()).collect();
                proposal.quote(line.trimmed(), 5.0);
            }
            continue;
        }
        if cells.len() != columns.len() {
            continue;
        }
        rows += 1;
        cells.iter().zip(&mut values).for_each(|(cell, values)| values.add(cell));
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
    unlike(page, layout, &values, rows, proposal);
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

fn span(name: &str, range: Range) -> String {
    let mean = range.sum / range.numbers as f64;
    format!("{name} {} to {}, mean {}", range.least, range.most, (mean * 100.0).round() / 100.0)
}
