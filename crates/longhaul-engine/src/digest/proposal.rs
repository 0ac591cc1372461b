//! Collects what a kind proposes to keep, and selects from it by value per token, within the budget.
//!
//! A digest has one line of ours about the whole output, then lists of ours, then lines of the source in
//! their order. Our own lines are in square brackets. Every other line is a line of the source, or its start
//! followed by `…`.

use super::parsed_output::{ParsedOutput, is_wrapper_line, strip_line_number};
use super::weights::{self, Edges, FactValues, MAX_ERROR_LINE_CHARS, MAX_ERROR_LINES, OVERHEAD_TOKENS};
use crate::facts::{Fact, FactKind};
use crate::lines::Line;
use crate::texts::DigestHead;
use crate::tokens::budget::{BudgetItem, PricedForm, fill_budget};
use crate::tokens::{Tokens, estimate, group_digits};
use crate::truncate;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

/// The candidates for a digest that a kind proposes.
#[derive(Default)]
pub(super) struct DigestProposal<'a> {
    /// Facts about the whole output, for the first line.
    pub(super) head_facts: Vec<String>,
    lists: Vec<NamedList<'a>>,
    quotes: Vec<Quote<'a>>,
}

/// A list with a label. The digest shows as many items as the budget allows, and counts the rest.
pub(super) struct NamedList<'a> {
    label: String,
    items: Vec<(Cow<'a, str>, f64)>,
    /// The number of all items, including those that are not in `items`.
    total: usize,
}

/// A piece of the source that may be quoted.
#[derive(Clone)]
struct Quote<'a> {
    at: usize,
    /// The index of its line among the lines that are not blank.
    line: usize,
    text: &'a str,
    value: f64,
    times: usize,
    /// The characters that are shown if the budget allows more than the usual width; 0 for no more.
    max_chars: usize,
}

impl<'a> DigestProposal<'a> {
    /// Proposes a list. The value of items decreases with their rank, so that a long list leaves room for
    /// other candidates.
    pub(super) fn add_list(
        &mut self,
        label: impl Into<String>,
        value: f64,
        items: impl IntoIterator<Item = impl Into<Cow<'a, str>>>,
    ) {
        let items: Vec<_> = items
            .into_iter()
            .enumerate()
            .map(|(rank, item)| (item.into(), decay(value, rank, weights::DECAY)))
            .collect();
        let of = items.len();
        self.add_partial_list(label, items, of);
    }

    /// Proposes a list of `of` items, of which only `items` are known by name.
    pub(super) fn add_partial_list(&mut self, label: impl Into<String>, items: Vec<(Cow<'a, str>, f64)>, of: usize) {
        if !items.is_empty() {
            self.lists.push(NamedList { label: label.into(), items, total: of });
        }
    }

    /// Proposes a piece of the source.
    pub(super) fn add_quote(&mut self, line: Line<'a>, value: f64) {
        self.quotes.push(Quote { at: line.offset, line: 0, text: line.text.trim_end(), value, times: 1, max_chars: 0 });
    }

    /// Proposes a line that is of little use if it is cut early.
    pub(super) fn add_long_quote(&mut self, line: Line<'a>, value: f64) {
        self.add_quote(line, value);
        if let Some(quote) = self.quotes.last_mut() {
            quote.max_chars = MAX_ERROR_LINE_CHARS;
        }
    }

    /// Proposes a line that represents `times` similar lines.
    pub(super) fn add_repeated_quote(&mut self, line: Line<'a>, value: f64, times: usize) {
        self.quotes.push(Quote { at: line.offset, line: 0, text: line.text, value, times, max_chars: 0 });
    }

    /// Proposes the facts that every kind has: errors, warnings, totals and stack frames.
    pub(super) fn add_facts(&mut self, output: &ParsedOutput<'a>, worth: FactValues) {
        for (kind, value) in
            [(FactKind::Error, worth.error), (FactKind::Warning, worth.warning), (FactKind::StackFrame, worth.frame)]
        {
            for (rank, fact) in output.facts.of_kind(kind).take(weights::MAX_CANDIDATES).enumerate() {
                if let Some(text) = source_text(output, fact) {
                    let value = if fact.is_specific() { value } else { value * weights::UNSPECIFIC_FACTOR };
                    // The first errors are quoted further, as in the one-line form.
                    let is_first = kind == FactKind::Error && rank < MAX_ERROR_LINES;
                    self.quotes.push(Quote {
                        at: fact.at,
                        line: 0,
                        text,
                        value: decay(value, rank, weights::DECAY),
                        times: fact.count,
                        max_chars: if is_first { MAX_ERROR_LINE_CHARS } else { 0 },
                    });
                }
            }
        }
        for (label, kind) in [("totals", FactKind::Total), ("exit statuses named", FactKind::ExitStatus)] {
            let own_status = output.exit_status().map(|status| status.to_string());
            let named = output
                .facts
                .of_kind(kind)
                .map(|fact| fact.text.clone())
                .filter(|text| own_status.as_deref() != Some(text));
            self.add_list(label, worth.total, named.collect::<Vec<_>>());
        }
    }

    /// Proposes the first and the last lines.
    pub(super) fn add_edges(&mut self, output: &ParsedOutput<'a>, edges: &Edges) {
        let nonblank = output.lines().filter(|line| !strip_line_number(line.text).trim().is_empty()).map(Line::trimmed);
        for (rank, line) in nonblank.take(edges.first_lines).enumerate() {
            self.add_quote(line, decay(edges.value, 2 * rank, weights::DECAY));
        }
        for (rank, line) in output.last_lines(edges.last_lines).into_iter().enumerate() {
            self.add_quote(line, decay(edges.value * weights::LAST_LINES_FACTOR, 2 * rank, weights::DECAY));
        }
    }

    /// Proposes the lines that contain words of the focus.
    pub(super) fn add_focus_lines(&mut self, output: &ParsedOutput<'a>) {
        if output.focus.is_none() {
            return;
        }
        let mut found = 0;
        for line in output.lines() {
            let hits = output.focus.count_hits(line.text);
            if hits > 0 {
                let further = hits.min(weights::MAX_FOCUS_WORDS) as f64 - 1.0;
                let value = weights::FOCUS_VALUE + weights::FURTHER_FOCUS_WORD_VALUE * further;
                self.add_quote(line.trimmed(), decay(value, found, weights::DECAY));
                found += 1;
                if found == weights::MAX_CANDIDATES {
                    return;
                }
            }
        }
    }

    /// Selects candidates and renders the digest in at most `budget` tokens.
    pub(super) fn render_within(
        mut self,
        output: &ParsedOutput<'a>,
        head: &HeadParts<'_>,
        budget: Tokens,
    ) -> RenderedDigest {
        let ((times, over), (min, max)) = (weights::WIDTH_PER_TOKEN, weights::WIDTH_CHARS);
        let width = (budget.0 as usize * times / over).clamp(min, max);
        self.merge_quotes(width);
        self.locate_quotes(output);
        let lead = estimate(&head.render(&self.head_facts, output.facts.nonblank_lines()));
        let items = self.budget_items(width);
        let labels = self.lists.iter().map(|list| estimate(&list.label).0 + weights::LIST_TOKENS);
        let mut openings: Vec<u64> = labels.chain([0]).collect();
        let mut choice = fill_budget(&items, &mut openings, &mut (budget - lead).0, |_| true);
        loop {
            let mut forms = choice.chosen_forms(items.len());
            forms.reverse();
            for gaps in [GapStyle::Counted, GapStyle::Uncounted] {
                let settled = self.render(output, head, &forms, width, gaps);
                if estimate(&settled.text) <= budget || choice.is_empty() {
                    return settled;
                }
            }
            choice.release_share(weights::DROP_DIVISOR);
        }
    }

    /// Sorts the quotes by position, and merges those that overlap in what is shown of them. A later part of
    /// a long line stays a quote of its own.
    fn merge_quotes(&mut self, width: usize) {
        self.quotes.sort_by(|a, b| a.at.cmp(&b.at).then(b.value.total_cmp(&a.value)));
        let mut kept: Vec<Quote<'a>> = Vec::with_capacity(self.quotes.len());
        let mut seen = HashSet::new();
        for quote in self.quotes.drain(..).filter(|quote| has_words(quote.text) && !is_wrapper_line(quote.text)) {
            match kept.last_mut() {
                Some(last) if quote.at < last.at + truncate::first_chars(last.text, width).len() => {
                    last.value = last.value.max(quote.value);
                    last.times = last.times.max(quote.times);
                    last.max_chars = last.max_chars.max(quote.max_chars);
                }
                // A repeated line adds nothing.
                _ if seen.insert(quote.text) => kept.push(quote),
                _ => {}
            }
        }
        self.quotes = kept;
    }

    /// Sets the line index of each quote, in one pass over the output.
    fn locate_quotes(&mut self, output: &ParsedOutput<'a>) {
        let mut quotes = self.quotes.iter_mut().peekable();
        let mut line_index = 0;
        for line in output.lines() {
            let end = line.offset + line.text.len();
            while let Some(quote) = quotes.next_if(|quote| quote.at <= end) {
                quote.line = line_index;
            }
            if quotes.peek().is_none() {
                return;
            }
            line_index += usize::from(!line.is_blank());
        }
    }

    /// Returns the list items and the quotes from the last to the first, because the later of two items with
    /// equal values is selected. A quote that may be long has a second form.
    fn budget_items(&self, width: usize) -> Vec<BudgetItem> {
        let form =
            |value: f64, tokens: u64| PricedForm { tokens, value_per_token: value / (tokens as f64 + OVERHEAD_TOKENS) };
        let listed =
            self.lists.iter().enumerate().flat_map(|(group, list)| list.items.iter().map(move |item| (group, item)));
        let items = listed.map(|(group, (text, value))| BudgetItem {
            group,
            forms: vec![form(*value, estimate(text).0 + weights::ITEM_TOKENS)],
        });
        let quotes = self.quotes.iter().map(|quote| {
            let tokens = |width: usize| estimate(truncate::first_chars(quote.text, width)).0 + weights::QUOTE_TOKENS;
            let (short, long) = (tokens(width), tokens(width.max(quote.max_chars)));
            let mut forms = vec![form(quote.value, short)];
            if long > short {
                forms.push(form(weights::QUOTE_REST_FACTOR * quote.value, long));
            }
            BudgetItem { group: self.lists.len(), forms }
        });
        let mut all: Vec<BudgetItem> = items.chain(quotes).collect();
        all.reverse();
        all
    }

    /// Renders the selected list items and quotes. `forms` has the list items first.
    fn render(
        &self,
        output: &ParsedOutput<'a>,
        head: &HeadParts<'_>,
        forms: &[Option<usize>],
        width: usize,
        gaps: GapStyle,
    ) -> RenderedDigest {
        let mut body = String::new();
        let mut forms = forms.iter().copied();
        for list in &self.lists {
            let chosen = forms.by_ref().take(list.items.len()).enumerate();
            list.write(&chosen.filter_map(|(item, form)| form.map(|_| item)).collect::<Vec<_>>(), &mut body);
        }
        // The line of the last quote; one line can have several quotes.
        let mut last: Option<usize> = None;
        let mut shown = 0;
        for (quote, form) in self.quotes.iter().zip(forms) {
            let Some(form) = form else { continue };
            let gap = last.map_or(quote.line, |last| quote.line.saturating_sub(last + 1));
            if last.is_some() || matches!(gaps, GapStyle::Counted) {
                write_gap(gap, gaps, &mut body);
            }
            let width = if form > 0 { width.max(quote.max_chars) } else { width };
            quote.write(width, &mut body);
            shown += usize::from(last != Some(quote.line));
            last = Some(quote.line);
        }
        let nonblank_lines = output.facts.nonblank_lines();
        if let (Some(last), GapStyle::Counted) = (last, gaps) {
            write_gap(nonblank_lines.saturating_sub(last + 1), gaps, &mut body);
        }
        let left_out = nonblank_lines.saturating_sub(shown);
        let text = format!("{}\n{body}", head.render(&self.head_facts, left_out));
        RenderedDigest { text: text.trim_end().to_owned(), left_out }
    }
}

/// A finished digest.
pub(super) struct RenderedDigest {
    pub(super) text: String,
    /// The number of lines, without blank ones, that are not quoted.
    pub(super) left_out: usize,
}

#[derive(Clone, Copy)]
enum GapStyle {
    /// Each gap gives the number of lines left out.
    Counted,
    /// Each gap is only a `…`; the first line gives the total.
    Uncounted,
}

/// Writes the line for a gap.
fn write_gap(lines: usize, gaps: GapStyle, out: &mut String) {
    let _ = match gaps {
        _ if lines == 0 => Ok(()),
        GapStyle::Counted => writeln!(out, "[… {}]", count_with_noun(lines, "line")),
        GapStyle::Uncounted => writeln!(out, "…"),
    };
}

impl NamedList<'_> {
    fn write(&self, chosen: &[usize], out: &mut String) {
        if chosen.is_empty() {
            return;
        }
        let _ = write!(out, "[{}: ", self.label);
        for (position, item) in chosen.iter().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            let _ = write!(out, "{comma}{}", self.items[*item].0);
        }
        let more = self.total.saturating_sub(chosen.len());
        let _ = match more {
            0 => writeln!(out, "]"),
            more => writeln!(out, ", and {} more]", format_count(more)),
        };
    }
}

impl Quote<'_> {
    fn write(&self, width: usize, out: &mut String) {
        out.push_str(&truncate::truncate_with_ellipsis(self.text, width));
        if self.times > 1 {
            let _ = write!(out, " [×{}]", format_count(self.times));
        }
        out.push('\n');
    }
}

/// The parts of the first line, except for those that the kind adds.
pub(super) struct HeadParts<'a> {
    pub(super) kind: &'a str,
    /// The known facts about the outcome, in words.
    pub(super) outcome: Vec<String>,
    /// The size in words: lines, and also characters if there are few lines.
    pub(super) size: String,
    pub(super) recall_id: Option<&'a str>,
}

impl HeadParts<'_> {
    fn render(&self, lead: &[String], left_out: usize) -> String {
        let size = std::iter::once(&self.size);
        let head = DigestHead {
            kind: self.kind.to_owned(),
            facts: size.chain(&self.outcome).chain(lead).cloned().collect(),
            omitted_lines: (left_out > 0).then(|| format_count(left_out)),
            recall_id: self.recall_id.map(str::to_owned),
        };
        head.to_string()
    }
}

/// Returns the source text of a fact, or `None` if the fact is not in the source.
fn source_text<'a>(output: &ParsedOutput<'a>, fact: &Fact<'_>) -> Option<&'a str> {
    let text = output.text.get(fact.at..fact.at + fact.text.len())?;
    (!text.is_empty()).then_some(text)
}

/// Returns whether a line has at least two letters or digits, so that it is more than brackets or a
/// separator.
fn has_words(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).nth(1).is_some()
}

/// Returns the value of a candidate by its rank among those of its kind.
pub(super) fn decay(value: f64, rank: usize, decay: f64) -> f64 {
    value / (1.0 + rank as f64 * decay)
}

/// Formats a count with separators: `12,345`.
pub(crate) fn format_count(count: usize) -> String {
    group_digits(count as u64)
}

/// Formats a count with its noun, in the plural unless the count is 1.
pub(super) fn count_with_noun(count: usize, noun: &str) -> String {
    let plural = match (count, noun) {
        (1, _) => noun.to_owned(),
        (_, "match") => "matches".to_owned(),
        (_, noun) if noun.ends_with("ry") => format!("{}ies", &noun[..noun.len() - 1]),
        (_, noun) => format!("{noun}s"),
    };
    format!("{} {plural}", format_count(count))
}
