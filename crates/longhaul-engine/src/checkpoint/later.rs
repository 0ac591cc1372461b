//! What people said again: a line that stands in another message that is shown rather than this one is not said twice.

use std::collections::HashMap;

use super::brief::Brief;
use crate::action::mark;
use crate::redact::Redacted;

/// A line of fewer bytes is cheaper than to say that it is left out.
const SHORT: usize = 24;

/// The lines that people said, each with the newest message that has it.
pub(super) struct Later {
    newest: HashMap<u32, usize>,
}

impl Later {
    pub(super) fn of(brief: &Brief<'_>) -> Self {
        let mut newest: HashMap<u32, usize> = HashMap::new();
        for said in brief.evidence.said.iter().filter(|said| said.by_user) {
            // What is in sight is as good as said last.
            let rank = if (brief.folded)(said.at.unit) { said.at.unit } else { usize::MAX };
            for line in said.words().lines() {
                let newest = newest.entry(mark(line)).or_default();
                *newest = rank.max(*newest);
            }
        }
        Self { newest }
    }

    /// The message of a unit without the passages that are said elsewhere; a passage has at least one line that is not short.
    pub(super) fn new_in(&self, words: &Redacted, unit: usize) -> Redacted {
        let is_said = |line: &str| self.newest.get(&mark(line)).is_some_and(|newest| *newest > unit);
        if !words.as_str().lines().any(|line| line.len() >= SHORT && is_said(line)) {
            return words.clone();
        }
        let mut kept = Redacted::own("");
        let mut passage: Vec<Redacted> = Vec::new();
        for line in words.lines() {
            if line.as_str().trim().is_empty() || is_said(line.as_str()) {
                passage.push(line);
            } else {
                kept = said_elsewhere(kept, &std::mem::take(&mut passage)).and(&line).and_own("\n");
            }
        }
        said_elsewhere(kept, &passage).trimmed()
    }
}

fn said_elsewhere(kept: Redacted, passage: &[Redacted]) -> Redacted {
    let lines = passage.iter().filter(|line| !line.as_str().trim().is_empty()).count();
    match passage.iter().any(|line| line.as_str().len() >= SHORT) {
        false => passage.iter().fold(kept, |kept, line| kept.and(line).and_own("\n")),
        true if lines == 1 => kept.and_own("[… a line as in another message]\n"),
        true => kept.and_own("[… ").and_number(lines).and_own(" lines as in another message]\n"),
    }
}
