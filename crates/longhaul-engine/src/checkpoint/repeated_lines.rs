//! Repeated lines in the messages of people: a line that a later message repeats is quoted there only.

use std::collections::{HashMap, HashSet};

use super::input::CheckpointInput;
use super::weights::MIN_REPEATED_BYTES;
use crate::action::line_hash;
use crate::redact::Redacted;

/// The lines of people's messages, by their fingerprints.
pub(super) struct RepeatedLines {
    /// For each line the newest message that contains it.
    newest_turns: HashMap<u32, usize>,
    /// The lines that several messages contain.
    shared: HashSet<u32>,
}

impl RepeatedLines {
    pub(super) fn new(input: &CheckpointInput<'_>) -> Self {
        let mut newest: HashMap<u32, usize> = HashMap::new();
        let mut shared = HashSet::new();
        for message in input.evidence.user_messages.iter().filter(|message| message.by_user) {
            // A message that stays in the request counts as the newest.
            let rank = if (input.is_summarized)(message.at.unit) { message.at.unit } else { usize::MAX };
            for line in message.text().lines() {
                let hash = line_hash(line);
                let known = newest.insert(hash, rank.max(newest.get(&hash).copied().unwrap_or_default()));
                if known.is_some_and(|known| known != rank) {
                    shared.insert(hash);
                }
            }
        }
        Self { newest_turns: newest, shared }
    }

    /// Returns a message without the lines that another message contains too.
    pub(super) fn without_shared(&self, message: &str) -> String {
        message.lines().filter(|line| !self.shared.contains(&line_hash(line))).collect::<Vec<_>>().join("\n")
    }

    /// Returns a message of a turn without the passages that a newer message repeats. Each omitted passage
    /// has at least one line of [`MIN_REPEATED_BYTES`].
    pub(super) fn omit_repeated(&self, words: &Redacted, turn: usize) -> Redacted {
        let is_said = |line: &str| self.newest_turns.get(&line_hash(line)).is_some_and(|newest| *newest > turn);
        if !words.as_str().lines().any(|line| line.len() >= MIN_REPEATED_BYTES && is_said(line)) {
            return words.clone();
        }
        let mut kept = Redacted::literal("");
        let mut passage: Vec<Redacted> = Vec::new();
        for line in words.lines() {
            if line.as_str().trim().is_empty() || is_said(line.as_str()) {
                passage.push(line);
            } else {
                kept = append_passage(kept, &std::mem::take(&mut passage)).append(&line).append_literal("\n");
            }
        }
        append_passage(kept, &passage).trimmed()
    }
}

fn append_passage(kept: Redacted, passage: &[Redacted]) -> Redacted {
    let lines = passage.iter().filter(|line| !line.as_str().trim().is_empty()).count();
    match passage.iter().any(|line| line.as_str().len() >= MIN_REPEATED_BYTES) {
        false => passage.iter().fold(kept, |kept, line| kept.append(line).append_literal("\n")),
        true if lines == 1 => kept.append_literal("[… a line as in another message]\n"),
        true => kept.append_literal("[… ").append_number(lines).append_literal(" lines as in another message]\n"),
    }
}
