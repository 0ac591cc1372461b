//! What code adds to a model's summary: what happened after it was written, and the few facts that it lacks.

use super::Section;
use super::candidates::{CandidateSource, DraftCandidate};
use super::forms::WordedCandidate;
use super::input::SummaryNotes;
use super::paths::file_name;
use super::weights::MIN_COVERED_RULE_SHARE;
use crate::evidence::{WordBag, is_lasting_rule};

/// Where a candidate stands beside a model's summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotesPlace {
    /// It happened after the summary was written.
    SinceThen,
    /// It is how something ended that the summary reported wrongly.
    Correction,
    /// The summary is about the turn of the candidate, but lacks it.
    Lacking,
}

/// A model's summary, prepared for comparison with candidates.
pub(super) struct NotesIndex<'d> {
    summary: SummaryNotes<'d>,
    /// The words of each part.
    parts: Vec<WordBag>,
    /// The whole text, in lower case.
    text: String,
}

impl<'d> NotesIndex<'d> {
    pub(super) fn new(summary: SummaryNotes<'d>) -> Self {
        let parts = summary.notes.parts().iter().map(|part| WordBag::new(summary.notes.text_of(part))).collect();
        Self { summary, parts, text: summary.notes.text().as_str().to_lowercase() }
    }

    /// Returns where a candidate stands; `None` if it belongs to the summary's own story.
    pub(super) fn place(&self, draft: &DraftCandidate<'_>, candidate: &WordedCandidate) -> Option<NotesPlace> {
        if matches!(draft.source, CandidateSource::QuotedLine(..)) {
            return Some(NotesPlace::SinceThen);
        }
        let is_newer = |turn: usize| self.summary.turns.last().is_some_and(|last| turn > *last);
        if !matches!(draft.source, CandidateSource::FileSummary(..)) && draft.turn.is_some_and(is_newer) {
            return Some(NotesPlace::SinceThen);
        }
        if draft.block().is_some_and(|at| self.summary.misreported.contains(&at)) {
            return Some(NotesPlace::Correction);
        }
        let is_lacking = match &draft.source {
            CandidateSource::UserRule(_)
            | CandidateSource::CarriedItem(Section::Constraints | Section::NotInSummary, _) => {
                let item = candidate.shortest_text();
                let rule = quoted_words(&item);
                is_lasting_rule(rule) && self.lacks_rule(rule)
            }
            CandidateSource::FileSummary(file, None) => {
                let is_told = self.text.contains(&file_name(&file.path).to_lowercase());
                if !is_told && draft.turn.is_some_and(is_newer) {
                    return Some(NotesPlace::SinceThen);
                }
                file.is_work() && !is_told
            }
            _ => false,
        };
        is_lacking.then_some(NotesPlace::Lacking)
    }

    /// Returns whether no part of the summary has the words of a rule, with those that allow, forbid or limit something.
    fn lacks_rule(&self, rule: &str) -> bool {
        let rule = WordBag::new(rule);
        !self.parts.iter().any(|part| {
            rule.share_in(part) >= MIN_COVERED_RULE_SHARE && rule.limiting_words().is_subset(part.limiting_words())
        })
    }
}

/// Returns the words of a quotation that ends an item, as the audit words it; the whole item if there is none.
fn quoted_words(item: &str) -> &str {
    let inside = item.strip_suffix('\u{201d}').and_then(|item| item.split_once(": \u{201c}"));
    inside.map_or(item, |(_, words)| words)
}
