//! What a kind proposes, and the choice among it: by value per token, within the budget.
//!
//! A digest is one line of our own about the whole, notes of our own, and lines of the source in their order. Our own lines
//! stand in square brackets; every other line is a line of the source, or its beginning with `…` behind it.

use super::page::{Page, is_wrapper, unnumbered};
use crate::clip;
use crate::facts::{Fact, FactKind};
use crate::lines::Line;
use crate::texts::DigestHead;
use crate::tokens::{Tokens, estimate, grouped};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Error lines that are said to the end in every form, and how much of each that is.
pub(super) const ERROR_LINES: usize = 3;
pub(super) const ERROR_WIDTH: usize = 160;
/// So many tokens a candidate is taken to cost on top of its own: a bare `}` is no bargain for being short.
const OVERHEAD: f64 = 4.0;

/// What a kind proposes to keep.
#[derive(Default)]
pub(super) struct Proposal<'a> {
    /// Pieces about the whole, for the first line.
    pub(super) lead: Vec<String>,
    notes: Vec<Note<'a>>,
    quotes: Vec<Quote<'a>>,
}

/// A list with a name, of which as much is shown as the budget allows; the rest is counted.
pub(super) struct Note<'a> {
    label: String,
    items: Vec<(Cow<'a, str>, f64)>,
    /// Items that there are, listed or not.
    of: usize,
}

/// A piece of the source.
#[derive(Clone)]
struct Quote<'a> {
    at: usize,
    /// Which of the lines that are not blank it stands on.
    line: usize,
    text: &'a str,
    value: f64,
    times: usize,
    /// So much of it is shown where there is room.
    reach: usize,
}

/// What the classes of facts are worth in a kind.
#[derive(Clone, Copy)]
pub(super) struct Worth {
    pub(super) error: f64,
    pub(super) warning: f64,
    pub(super) total: f64,
    pub(super) frame: f64,
}

impl Worth {
    /// For what was run: its errors are what it is about.
    pub(super) const RUN: Self = Self { error: 10.0, warning: 5.0, total: 12.0, frame: 6.0 };
    /// For what was read: a line that mentions an error is one line among others, though often the one asked for.
    pub(super) const READ: Self = Self { error: 9.0, warning: 6.0, total: 8.0, frame: 3.0 };
}

impl<'a> Proposal<'a> {
    /// Proposes a list. Items lose a little value with their rank, so that a long list does not crowd out all else.
    pub(super) fn note(
        &mut self,
        label: impl Into<String>,
        value: f64,
        items: impl IntoIterator<Item = impl Into<Cow<'a, str>>>,
    ) {
        let items: Vec<_> =
            items.into_iter().enumerate().map(|(rank, item)| (item.into(), decayed(value, rank))).collect();
        let of = items.len();
        self.note_of(label, items, of);
    }

    /// Proposes a list of which only the first `items` are told apart.
    pub(super) fn note_of(&mut self, label: impl Into<String>, items: Vec<(Cow<'a, str>, f64)>, of: usize) {
        if !items.is_empty() {
            self.notes.push(Note { label: label.into(), items, of });
        }
    }

    /// Proposes a piece of the source.
    pub(super) fn quote(&mut self, line: Line<'a>, value: f64) {
        self.quotes.push(Quote {
            at: line.at,
            line: 0,
            text: line.text.trim_end(),
            value,
            times: 1,
            reach: 0,
        });
    }

    /// Proposes a line that says little if it is cut early.
    pub(super) fn quote_long(&mut self, line: Line<'a>, value: f64) {
        self.quote(line, value);
        if let Some(quote) = self.quotes.last_mut() {
            quote.reach = ERROR_WIDTH;
        }
    }

    /// Proposes a line that stands for others like it.
    pub(super) fn quote_repeated(&mut self, line: Line<'a>, value: f64, times: usize) {
        self.quotes.push(Quote { at: line.at, line: 0, text: line.text, value, times, reach: 0 });
    }

    /// Proposes the facts that any kind has: errors, warnings, totals, frames.
    pub(super) fn facts(&mut self, page: &Page<'a>, worth: Worth) {
        for (kind, value) in [
            (FactKind::Error, worth.error),
            (FactKind::Warning, worth.warning),
            (FactKind::Frame, worth.frame),
        ] {
            for (rank, fact) in page.facts.of_kind(kind).take(400).enumerate() {
                if let Some(text) = source_of(page, fact) {
                    let value = if fact.is_specific() { value } else { value * 0.5 };
                    // What went wrong is said to the end, as in the one-line form.
                    let is_first = kind == FactKind::Error && rank < ERROR_LINES;
                    self.quotes.push(Quote {
                        at: fact.at,
                        line: 0,
                        text,
                        value: decayed(value, rank),
                        times: fact.times,
                        reach: if is_first { ERROR_WIDTH } else { 0 },
                    });
                }
            }
        }
        for (label, kind) in [("totals", FactKind::Total), ("exit statuses named", FactKind::Exit)] {
            let told = page.status().map(|status| status.to_string());
            let named = page
                .facts
                .of_kind(kind)
                .map(|fact| fact.text.clone())
                .filter(|text| told.as_deref() != Some(text));
            self.note(label, worth.total, named.collect::<Vec<_>>());
        }
    }

    /// Proposes the first and the last lines.
    pub(super) fn edges(&mut self, page: &Page<'a>, first: usize, last: usize, value: f64) {
        let full = page.lines().filter(|line| !unnumbered(line.text).trim().is_empty()).map(Line::trimmed);
        for (rank, line) in full.take(first).enumerate() {
            self.quote(line, decayed(value, 2 * rank));
        }
        for (rank, line) in page.last_lines(last).into_iter().enumerate() {
            self.quote(line, decayed(value * 1.2, 2 * rank));
        }
    }

    /// Proposes the lines that the task is about.
    pub(super) fn focus(&mut self, page: &Page<'a>) {
        if page.focus.is_none() {
            return;
        }
        let mut found = 0;
        for line in page.lines() {
            let hits = page.focus.hits(line.text);
            if hits > 0 {
                let value = 14.0 + 4.0 * (hits.min(4) as f64 - 1.0);
                self.quote(line.trimmed(), decayed(value, found));
                found += 1;
                if found == 400 {
                    return;
                }
            }
        }
    }

    /// The digest, of at most this many tokens.
    pub(super) fn settle(mut self, page: &Page<'a>, head: &Head<'_>, budget: Tokens) -> Settled {
        let width = (budget.0 as usize * 2 / 5).clamp(64, 240);
        self.tidy(width);
        self.place(page);
        let mut choice =
            self.choose(width, budget - estimate(&head.line(&self.lead, page.facts.full_lines())));
        loop {
            for gaps in [Gaps::Counted, Gaps::Marked] {
                let settled = self.render(page, head, &choice, width, gaps);
                if estimate(&settled.text) <= budget || choice.is_empty() {
                    return settled;
                }
            }
            choice.truncate(choice.len() - choice.len().div_ceil(16));
        }
    }

    /// One quote a place, in the order of the source, the most valuable form of each. A quote takes up no more than is shown of
    /// it: what else of a long line is worth quoting stands for itself.
    fn tidy(&mut self, width: usize) {
        self.quotes.sort_by(|a, b| a.at.cmp(&b.at).then(b.value.total_cmp(&a.value)));
        let mut kept: Vec<Quote<'a>> = Vec::with_capacity(self.quotes.len());
        let mut known = HashSet::new();
        for quote in
            self.quotes.drain(..).filter(|quote| says_something(quote.text) && !is_wrapper(quote.text))
        {
            match kept.last_mut() {
                Some(last) if quote.at < last.at + clip::start(last.text, width).len() => {
                    last.value = last.value.max(quote.value);
                    last.times = last.times.max(quote.times);
                    last.reach = last.reach.max(quote.reach);
                }
                // The same words a second time tell nothing new.
                _ if known.insert(quote.text) => kept.push(quote),
                _ => {}
            }
        }
        self.quotes = kept;
    }

    /// Finds out on which line each quote stands, in one pass.
    fn place(&mut self, page: &Page<'a>) {
        let mut quotes = self.quotes.iter_mut().peekable();
        let mut full = 0;
        for line in page.lines() {
            let end = line.at + line.text.len();
            while let Some(quote) = quotes.next_if(|quote| quote.at <= end) {
                quote.line = full;
            }
            if quotes.peek().is_none() {
                return;
            }
            full += usize::from(!line.is_blank());
        }
    }

    /// The candidates that are worth most per token, as long as they fit; the best first.
    fn choose(&self, width: usize, Tokens(mut room): Tokens) -> Vec<Candidate> {
        let size = |text: &str| estimate(text).0;
        let mut candidates: Vec<(f64, u64, Candidate)> = Vec::new();
        for (note, Note { items, .. }) in self.notes.iter().enumerate() {
            for (item, (text, value)) in items.iter().enumerate() {
                let cost = size(text) + 1;
                candidates.push((value / (cost as f64 + OVERHEAD), cost, Candidate::Item { note, item }));
            }
        }
        for (index, quote) in self.quotes.iter().enumerate() {
            let cost = size(clip::start(quote.text, width)) + 3;
            candidates.push((quote.value / (cost as f64 + OVERHEAD), cost, Candidate::Quote(index)));
            let whole = size(clip::start(quote.text, width.max(quote.reach))) + 3;
            if whole > cost {
                // Worth less than the beginning, so that it comes behind it.
                let value = 0.6 * quote.value / (whole as f64 + OVERHEAD);
                candidates.push((value, whole - cost, Candidate::Rest(index)));
            }
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut opened = vec![false; self.notes.len()];
        let mut quoted = vec![false; self.quotes.len()];
        let mut chosen = Vec::new();
        for (_, mut cost, candidate) in candidates {
            if let Candidate::Item { note, .. } = candidate
                && !opened[note]
            {
                cost += size(&self.notes[note].label) + 6;
            }
            let has_start = !matches!(candidate, Candidate::Rest(index) if !quoted[index]);
            if cost <= room && has_start {
                room -= cost;
                if let Candidate::Quote(index) = candidate {
                    quoted[index] = true;
                }
                if let Candidate::Item { note, .. } = candidate {
                    opened[note] = true;
                }
                chosen.push(candidate);
            }
        }
        chosen
    }

    fn render(
        &self,
        page: &Page<'a>,
        head: &Head<'_>,
        choice: &[Candidate],
        width: usize,
        gaps: Gaps,
    ) -> Settled {
        let mut items = vec![Vec::new(); self.notes.len()];
        let (mut quotes, mut long) = (Vec::new(), Vec::new());
        for candidate in choice {
            match *candidate {
                Candidate::Item { note, item } => items[note].push(item),
                Candidate::Quote(index) => quotes.push(index),
                Candidate::Rest(index) => long.push(index),
            }
        }
        quotes.sort_unstable();
        let mut body = String::new();
        for (note, mut items) in self.notes.iter().zip(items) {
            items.sort_unstable();
            note.write(&items, &mut body);
        }
        // The line on which the last quote stands; several can stand on one.
        let mut last: Option<usize> = None;
        let mut shown = 0;
        for (index, quote) in quotes.iter().map(|index| (index, &self.quotes[*index])) {
            let gap = last.map_or(quote.line, |last| quote.line.saturating_sub(last + 1));
            if last.is_some() || matches!(gaps, Gaps::Counted) {
                write_gap(gap, gaps, &mut body);
            }
            let width = if long.contains(index) { width.max(quote.reach) } else { width };
            quote.write(width, &mut body);
            shown += usize::from(last != Some(quote.line));
            last = Some(quote.line);
        }
        let full = page.facts.full_lines();
        if let (Some(last), Gaps::Counted) = (last, gaps) {
            write_gap(full.saturating_sub(last + 1), gaps, &mut body);
        }
        let left_out = full.saturating_sub(shown);
        let text = format!("{}\n{body}", head.line(&self.lead, left_out));
        Settled { text: text.trim_end().to_owned(), left_out }
    }
}

/// A chosen digest.
pub(super) struct Settled {
    pub(super) text: String,
    /// Lines with something in them that are not quoted.
    pub(super) left_out: usize,
}

#[derive(Clone, Copy)]
enum Candidate {
    Item {
        note: usize,
        item: usize,
    },
    Quote(usize),
    /// What stands behind the beginning of a quote, up to the length that it should have.
    Rest(usize),
}

#[derive(Clone, Copy)]
enum Gaps {
    /// Each says how many lines are left out.
    Counted,
    /// Each is only marked; the first line has the sum.
    Marked,
}

/// Marks lines that are left out.
fn write_gap(lines: usize, gaps: Gaps, out: &mut String) {
    let _ = match gaps {
        _ if lines == 0 => Ok(()),
        Gaps::Counted => writeln!(out, "[… {}]", counted(lines, "line")),
        Gaps::Marked => writeln!(out, "…"),
    };
}

impl Note<'_> {
    fn write(&self, chosen: &[usize], out: &mut String) {
        if chosen.is_empty() {
            return;
        }
        let _ = write!(out, "[{}: ", self.label);
        for (position, item) in chosen.iter().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            let _ = write!(out, "{comma}{}", self.items[*item].0);
        }
        let more = self.of.saturating_sub(chosen.len());
        let _ = match more {
            0 => writeln!(out, "]"),
            more => writeln!(out, ", and {} more]", number(more)),
        };
    }
}

impl Quote<'_> {
    fn write(&self, width: usize, out: &mut String) {
        out.push_str(&clip::signed(self.text, width));
        if self.times > 1 {
            let _ = write!(out, " [×{}]", number(self.times));
        }
        out.push('\n');
    }
}

/// What the first line says besides what the kind adds.
pub(super) struct Head<'a> {
    pub(super) kind: &'a str,
    /// What is known of the outcome, in words.
    pub(super) outcome: Vec<String>,
    /// Sizes: lines, and characters where lines say little.
    pub(super) size: String,
    pub(super) handle: Option<&'a str>,
}

impl Head<'_> {
    fn line(&self, lead: &[String], left_out: usize) -> String {
        let size = std::iter::once(&self.size);
        let head = DigestHead {
            kind: self.kind.to_owned(),
            says: size.chain(&self.outcome).chain(lead).cloned().collect(),
            left_out: (left_out > 0).then(|| number(left_out)),
            handle: self.handle.map(str::to_owned),
        };
        head.to_string()
    }
}

/// The trimmed source line of a fact.
fn source_of<'a>(page: &Page<'a>, fact: &Fact<'_>) -> Option<&'a str> {
    let text = page.text.get(fact.at..fact.at + fact.text.len())?;
    (!text.is_empty()).then_some(text)
}

/// Whether a line has more in it than brackets and rules.
fn says_something(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).nth(1).is_some()
}

fn decayed(value: f64, rank: usize) -> f64 {
    value / (1.0 + rank as f64 * 0.04)
}

/// A count as people write it: `12,345`.
pub(crate) fn number(count: usize) -> String {
    grouped(count as u64)
}

/// A count with its noun, which takes an `s` unless there is one.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = match (count, noun) {
        (1, _) => noun.to_owned(),
        (_, "match") => "matches".to_owned(),
        (_, noun) if noun.ends_with("ry") => format!("{}ies", &noun[..noun.len() - 1]),
        (_, noun) => format!("{noun}s"),
    };
    format!("{} {plural}", number(count))
}
