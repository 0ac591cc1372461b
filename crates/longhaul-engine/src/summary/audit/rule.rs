//! A rule as a person gave it, and whether a statement turns it round.

use std::fmt;

use crate::clip::on_one_line;
use crate::evidence::Bag;

/// So much of a rule and of a statement is the same where they are about the same.
const SAME: f32 = 0.75;

/// So many characters of a rule say which one it is.
const SHOWN: usize = 160;

pub(super) struct Rule {
    text: String,
    about: Bag,
}

impl Rule {
    pub(super) fn of(text: &str) -> Self {
        Self { text: on_one_line(text, SHOWN), about: Bag::of(text) }
    }

    /// Whether a statement is about the same, but not what it allows or forbids, or for how long.
    pub(super) fn is_turned_by(&self, statement: &str) -> bool {
        let other = Bag::of(statement);
        let same = self.about.share_in(&other) >= SAME && other.share_in(&self.about) >= SAME;
        same && !self.about.limits().is_subset(other.limits())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
