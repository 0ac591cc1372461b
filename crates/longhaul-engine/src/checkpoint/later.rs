//! What people said again: a line that stands in another message that is shown rather than this one is not said twice.

use std::collections::HashMap;

use super::write::Draft;
use crate::action::mark;
use crate::redact::Redacted;

/// A line of fewer bytes is cheaper than to say that it is left out.
const SHORT: usize = 24;

/// The lines that people said, each with the newest message that has it.
pub(super) struct Later {
    newest: HashMap<u32, usize>,
}

impl Later {
    pub(super) fn of(draft: &Draft<'_>) -> Self {
        let mut newest: HashMap<u32, usize> = HashMap::new();
        for said in draft.evidence.said.iter().filter(|said| said.by_user) {
            // What is in sight is as good as said last.
            let rank = if (draft.folded)(said.unit) { said.unit } else { usize::MAX };
            for line in said.words().lines().filter(|line| line.len() >= SHORT) {
                let newest = newest.entry(mark(line)).or_default();
                *newest = rank.max(*newest);
            }
        }
        Self { newest }
    }

    /// The message of a unit without the lines that are said elsewhere.
    pub(super) fn new_in(&self, words: &Redacted, unit: usize) -> Redacted {
        let is_said = |line: &str| {
            line.len() >= SHORT && self.newest.get(&mark(line)).is_some_and(|newest| *newest > unit)
        };
        if !words.as_str().lines().any(is_said) {
            return words.clone();
        }
        let mut kept = Redacted::own("");
        let mut left_out = 0;
        for line in words.lines() {
            let is_blank = line.as_str().trim().is_empty();
            if is_said(line.as_str()) || left_out > 0 && is_blank {
                left_out += usize::from(!is_blank);
                continue;
            }
            kept = said_elsewhere(kept, std::mem::take(&mut left_out)).and(&line).and_own("\n");
        }
        said_elsewhere(kept, left_out).trimmed()
    }
}

fn said_elsewhere(kept: Redacted, lines: usize) -> Redacted {
    match lines {
        0 => kept,
        1 => kept.and_own("[… a line that stands in another message]\n"),
        lines => kept.and_own("[… ").and_number(lines).and_own(" lines that stand in another message]\n"),
    }
}
