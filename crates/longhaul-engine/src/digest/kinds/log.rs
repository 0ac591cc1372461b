//! Logs: how many lines of each level, from when to when, what is wrong, and what repeats.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, number};
use super::Tally;
use crate::facts::{key_without_digits, level, time};
use crate::known::ByContent;
use crate::lines::Line;
use std::borrow::Cow;

/// So many lines of the worst level are proposed.
const MOST_FATAL: usize = 40;
/// Different messages beyond this are no longer told apart.
const MOST_MESSAGES: usize = 4096;

pub(in super::super) fn shows(_: &Page<'_>, sample: &Sample<'_>) -> bool {
    let timed = sample.share(|line| time(line).is_some());
    let levelled = sample.share(|line| level(line).is_some());
    // A build's warnings have a level too; only logs report that all is well.
    let calm = sample.any(|line| matches!(level(line), Some("info" | "debug" | "trace")));
    timed >= 0.5 || (levelled >= 0.5 && calm) || (timed >= 0.25 && levelled >= 0.25)
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let mut levels: Tally<'static> = Tally::default();
    let mut messages = Messages::default();
    let (mut first, mut last, mut fatal) = (None, None, 0);
    for line in page.lines().filter(|line| !line.text.is_empty()) {
        if let Some(level) = level(line.text) {
            levels.add(level);
            // No word of failing need stand in it.
            if level == "fatal" && fatal < MOST_FATAL {
                proposal.quote(line.trimmed(), 12.0);
                fatal += 1;
            }
        }
        if first.is_none() {
            first = time(line.text);
        }
        messages.add(line);
    }
    for line in page.last_lines(20) {
        last = last.or_else(|| time(line.text));
    }
    if let (Some(first), Some(last)) = (first, last) {
        proposal.note("from, to", 7.0, [Cow::Borrowed(first), Cow::Borrowed(last)]);
    }
    proposal.note(
        "levels",
        12.0,
        levels
            .most_first()
            .iter()
            .map(|(level, count)| Cow::Owned::<str>(format!("{} {level}", number(*count)))),
    );
    proposal.facts(page, Worth::RUN);
    for (rank, (line, times)) in messages.most_first().into_iter().take(12).enumerate() {
        proposal.quote_repeated(line.trimmed(), 3.0 / (1.0 + rank as f64 * 0.1), times);
    }
    proposal.edges(page, 3, 5, 3.0);
}

/// Lines that are the same up to their digits, counted.
#[derive(Default)]
struct Messages<'a> {
    by_key: ByContent<(Line<'a>, usize)>,
}

impl<'a> Messages<'a> {
    fn add(&mut self, line: Line<'a>) {
        let key = key_without_digits(&line.text.as_bytes()[..line.text.len().min(100)]);
        if self.by_key.len() < MOST_MESSAGES {
            self.by_key.entry(key).or_insert((line, 0)).1 += 1;
        } else if let Some(known) = self.by_key.get_mut(&key) {
            known.1 += 1;
        }
    }

    fn most_first(self) -> Vec<(Line<'a>, usize)> {
        let mut messages: Vec<_> = self.by_key.into_values().filter(|(_, times)| *times > 2).collect();
        messages.sort_by_key(|(line, times)| (std::cmp::Reverse(*times), line.at));
        messages
    }
}
