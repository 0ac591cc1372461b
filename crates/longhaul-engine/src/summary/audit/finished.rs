//! Finds parts of a summary about open work that is already finished.

use super::phrases::{TABLE, contains_any};
use crate::checkpoint::{Notes, NotesTopic};
use crate::evidence::{Evidence, TaskState, WordBag};

/// The share of an open statement's words from which a finished item is taken for the same work.
const MIN_SAME_SHARE: f32 = 0.8;
/// The minimum number of words of a statement. A shorter one matches too much.
const MIN_WORDS: usize = 3;

/// The finished work, from the summary's own words and from the agent's task list.
pub(super) struct FinishedWork {
    items: Vec<(WordBag, String)>,
}

impl FinishedWork {
    pub(super) fn collect(notes: &Notes, evidence: &Evidence) -> Self {
        let is_finished = |topic: NotesTopic| matches!(topic, NotesTopic::Actions | NotesTopic::Questions);
        let told =
            notes.parts().iter().filter(|part| is_finished(part.topic)).map(|part| notes.text_of(part).to_owned());
        let newest = evidence.newest_task_list().map_or(&[][..], |read| read.tasks());
        let done = newest.iter().filter(|task| task.state == TaskState::Done).map(|task| task.text.clone());
        Self { items: told.chain(done).map(|text| (WordBag::new(&text), text)).collect() }
    }

    /// Returns the finished item that is the same work as an open statement; `None` if there is none, or if
    /// the statement is about doing it again.
    pub(super) fn find_match(&self, statement: &str) -> Option<&str> {
        let bag = WordBag::new(statement);
        if bag.word_count() < MIN_WORDS || contains_any(&statement.to_lowercase(), &TABLE.again) {
            return None;
        }
        let best = self.items.iter().map(|(thing, text)| (bag.share_in(thing), text));
        let best = best.max_by(|one, other| one.0.total_cmp(&other.0));
        best.filter(|(share, _)| *share >= MIN_SAME_SHARE).map(|(_, text)| text.as_str())
    }
}
