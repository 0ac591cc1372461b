//! Whether something that is told as open was finished.

use super::words::{TABLE, has_any};
use crate::checkpoint::{Section, Statement};
use crate::evidence::{Bag, Evidence, TaskState};

/// So much of what is told as open is said of something finished, where it is the same thing.
const SAME: f32 = 0.54;
/// A statement of fewer words is about anything.
const LEAST: usize = 3;

/// What was finished, by the summary's own words and by the agent's list.
pub(super) struct Finished {
    things: Vec<(Bag, String)>,
}

impl Finished {
    pub(super) fn of(statements: &[Statement], evidence: &Evidence) -> Self {
        let told = statements
            .iter()
            .filter(|statement| {
                matches!(statement.section, Section::CompletedActions | Section::ResolvedQuestions)
            })
            .map(|statement| statement.text.as_str().to_owned());
        let newest = evidence.newest_tasks().map_or(&[][..], |read| read.tasks());
        let done = newest.iter().filter(|task| task.kind == TaskState::Done).map(|task| task.text.clone());
        Self { things: told.chain(done).map(|text| (Bag::of(&text), text)).collect() }
    }

    /// What shows that a statement under an open section is finished.
    pub(super) fn shows(&self, statement: &str) -> Option<&str> {
        let bag = Bag::of(statement);
        if bag.size() < LEAST || has_any(&statement.to_lowercase(), &TABLE.again) {
            return None;
        }
        let best = self.things.iter().map(|(thing, text)| (bag.share_in(thing), text));
        let best = best.max_by(|one, other| one.0.total_cmp(&other.0));
        best.filter(|(share, _)| *share >= SAME).map(|(_, text)| text.as_str())
    }
}
