//! Logs: keeps the number of lines of each level, the first and last time, errors, and repeated messages.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, decay, format_count};
use super::super::weights::{self as all, log as weights};
use super::NameCounts;
use crate::block_cache::ContentMap;
use crate::facts::{key_without_digits, log_level, log_time};
use crate::lines::Line;
use std::borrow::Cow;

pub(in super::super) fn recognizes(_: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    let timed = sample.share(|line| log_time(line).is_some());
    let levelled = sample.share(|line| log_level(line).is_some());
    // The warnings of a build have a level too, but only logs have lines at the level info or below.
    let calm = sample.any(|line| matches!(log_level(line), Some("info" | "debug" | "trace")));
    timed >= weights::MIN_SHARE
        || (levelled >= weights::MIN_SHARE && calm)
        || (timed >= weights::MIN_BOTH_SHARE && levelled >= weights::MIN_BOTH_SHARE)
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let mut levels: NameCounts<'static> = NameCounts::default();
    let mut messages = MessageCounts::default();
    let (mut first, mut last, mut fatal) = (None, None, 0);
    for line in output.lines().filter(|line| !line.text.is_empty()) {
        if let Some(level) = log_level(line.text) {
            levels.add(level);
            // A fatal line need not contain a word for an error, so it is proposed here.
            if level == "fatal" && fatal < weights::MAX_FATAL_LINES {
                proposal.add_quote(line.trimmed(), weights::FATAL_VALUE);
                fatal += 1;
            }
        }
        if first.is_none() {
            first = log_time(line.text);
        }
        messages.add(line);
    }
    for line in output.last_lines(weights::LAST_TIME_LINES) {
        last = last.or_else(|| log_time(line.text));
    }
    if let (Some(first), Some(last)) = (first, last) {
        proposal.add_list("from, to", weights::TIMES_VALUE, [Cow::Borrowed(first), Cow::Borrowed(last)]);
    }
    proposal.add_list(
        "levels",
        weights::LEVELS_VALUE,
        levels
            .most_frequent_first()
            .iter()
            .map(|(level, count)| Cow::Owned::<str>(format!("{} {level}", format_count(*count)))),
    );
    proposal.add_facts(output, all::RUN_FACTS);
    for (rank, (line, times)) in
        messages.most_frequent_first().into_iter().take(weights::MAX_REPEATED_LINES).enumerate()
    {
        let value = decay(weights::REPEATED_VALUE, rank, weights::REPEATED_DECAY);
        proposal.add_repeated_quote(line.trimmed(), value, times);
    }
    proposal.add_edges(output, &weights::EDGES);
}

/// The counts of lines that are equal except for their digits.
#[derive(Default)]
struct MessageCounts<'a> {
    by_key: ContentMap<(Line<'a>, usize)>,
}

impl<'a> MessageCounts<'a> {
    fn add(&mut self, line: Line<'a>) {
        let key = key_without_digits(&line.text.as_bytes()[..line.text.len().min(weights::MESSAGE_BYTES)]);
        if self.by_key.len() < weights::MAX_DISTINCT_MESSAGES {
            self.by_key.entry(key).or_insert((line, 0)).1 += 1;
        } else if let Some(entry) = self.by_key.get_mut(&key) {
            entry.1 += 1;
        }
    }

    fn most_frequent_first(self) -> Vec<(Line<'a>, usize)> {
        let mut messages: Vec<_> =
            self.by_key.into_values().filter(|(_, times)| *times >= weights::MIN_REPEATED_TIMES).collect();
        messages.sort_by_key(|(line, times)| (std::cmp::Reverse(*times), line.offset));
        messages
    }
}
