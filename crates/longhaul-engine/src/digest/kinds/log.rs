//! Logs: how many lines of each level, from when to when, what is wrong, and what repeats.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, number};
use super::Tally;
use crate::clip;
use crate::facts::key_without_digits;
use crate::known::ByContent;
use crate::lines::Line;
use std::borrow::Cow;

/// Levels in all their spellings.
const LEVELS: [(&str, &str); 18] = [
    ("error", "error"),
    ("err", "error"),
    ("fatal", "fatal"),
    ("critical", "fatal"),
    ("crit", "fatal"),
    ("alert", "fatal"),
    ("emerg", "fatal"),
    ("emergency", "fatal"),
    ("panic", "fatal"),
    ("severe", "error"),
    ("warn", "warn"),
    ("warning", "warn"),
    ("info", "info"),
    ("notice", "info"),
    ("debug", "debug"),
    ("trace", "trace"),
    ("verbose", "debug"),
    ("fine", "trace"),
];
/// So many lines of the worst level are proposed.
const MOST_FATAL: usize = 40;
/// Different messages beyond this are no longer told apart.
const MOST_MESSAGES: usize = 4096;

/// The level of a line, which stands near its beginning, in capitals or between marks.
fn level(line: &str) -> Option<&'static str> {
    let head = clip::start(line, 100);
    let bytes = head.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        if !bytes[start].is_ascii_alphabetic() {
            start += 1;
            continue;
        }
        let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let word = &bytes[start..start + length];
        if (3..=9).contains(&length)
            && let Some((_, level)) =
                LEVELS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word))
        {
            let before = start.checked_sub(1).map(|at| bytes[at]);
            let after = bytes.get(start + length).copied();
            let marked = matches!(
                (before, after),
                (Some(b'['), Some(b']'))
                    | (Some(b'=' | b'"'), _)
                    | (_, Some(b':'))
                    | (Some(b'<'), Some(b'>'))
            );
            if marked || word.iter().all(u8::is_ascii_uppercase) {
                return Some(level);
            }
        }
        start += length;
    }
    None
}

/// The time of a line, as it is written: it stands near the beginning and has `hh:mm` in it.
fn time(line: &str) -> Option<&str> {
    let bytes = &line.as_bytes()[..line.len().min(48)];
    let at = bytes
        .windows(5)
        .position(|w| w[2] == b':' && [w[0], w[1], w[3], w[4]].iter().all(u8::is_ascii_digit))?;
    let from = bytes[..at]
        .iter()
        .rposition(|byte| matches!(byte, b'[' | b'(' | b'"' | b'\t' | b'|' | b'='))
        .map_or(0, |at| at + 1);
    let length = line.as_bytes()[at..]
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'9' | b':' | b'.' | b',' | b'Z' | b'+'))
        .count();
    let from = if at - from > 24 { at } else { from };
    line.get(from..at + length).map(|time| time.trim().trim_end_matches([':', '.', ',']))
}

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
