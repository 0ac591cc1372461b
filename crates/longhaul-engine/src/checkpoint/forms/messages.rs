//! Forms of messages by unknown authors, and of the agent's notes.

use super::{CandidateText, FormWriter};
use crate::checkpoint::excerpt::ExcerptBuilder;
use crate::checkpoint::weights::{
    MAX_NOTE_SENTENCES, MAX_RELAYED_MESSAGE_BYTES, MESSAGE_BYTES, POSSIBLE_USER_MESSAGE_BYTES,
};
use crate::evidence::{AssistantText, EvidenceItem, score_user_text};
use crate::redact::Redacted;
use crate::texts::{ActionEntry, EntryKind};

impl FormWriter<'_, '_> {
    pub(super) fn possible_user_message_forms(&mut self, item: &EvidenceItem) -> Vec<CandidateText> {
        let words = self.redact(item.text());
        let excerpts = ExcerptBuilder::new(&words, score_user_text);
        let entry = |most| ActionEntry::new(EntryKind::Message, &Redacted::literal(""), &excerpts.shorten_to(most));
        POSSIBLE_USER_MESSAGE_BYTES
            .map(|most| CandidateText::Action(None, entry(most).with_recall_id(self.recall_id(item))))
            .into()
    }

    /// Words a message that a host passed on, with a note about its origin.
    pub(super) fn relayed_message_forms(&mut self, item: &EvidenceItem) -> Vec<CandidateText> {
        let words = self.redact(item.text());
        let excerpts = ExcerptBuilder::new(&words, score_user_text);
        let entry = |most| {
            ActionEntry::new(
                EntryKind::Message,
                &Redacted::literal("passed on by the host"),
                &excerpts.shorten_to(most),
            )
        };
        let forms = MESSAGE_BYTES.into_iter().filter(|most| *most <= MAX_RELAYED_MESSAGE_BYTES);
        forms.map(|most| CandidateText::Action(None, entry(most).with_recall_id(self.recall_id(item)))).collect()
    }

    /// Words the best sentence, the best two, and so on, each time in their original order.
    pub(super) fn note_forms(&mut self, item: &EvidenceItem, places: &[usize]) -> Vec<CandidateText> {
        let Some(AssistantText { key_sentences: notes, .. }) = item.assistant_text() else {
            return Vec::new();
        };
        let mut forms = Vec::new();
        for count in 1..=places.len().min(MAX_NOTE_SENTENCES) {
            let mut chosen = places[..count].to_vec();
            chosen.sort_unstable();
            let mut words = Redacted::literal("");
            let mut before = None;
            for place in chosen {
                // Show a gap between sentences that were not adjacent.
                let gap = match before {
                    None => "",
                    Some(at) if at + 1 == notes[place].index => " ",
                    Some(_) => " … ",
                };
                words = words.append_literal(gap).append(&self.redact_line(&notes[place].text, 420));
                before = Some(notes[place].index);
            }
            let entry =
                ActionEntry::new(EntryKind::Note, &Redacted::literal(""), &words).with_recall_id(self.recall_id(item));
            forms.push(CandidateText::Action(None, entry));
        }
        forms
    }

    pub(super) fn question_forms(&mut self, item: &EvidenceItem) -> Vec<CandidateText> {
        let Some((question, answer)) = item.tool_use().and_then(|tool_use| tool_use.question.as_ref()) else {
            return Vec::new();
        };
        let question = self.redact_line(question, 300);
        let answer = match answer {
            Some(answer) => Redacted::literal(" — Answer: ").append(&self.redact_line(answer, 400)),
            None => Redacted::literal(" — not answered yet"),
        };
        vec![CandidateText::Item(question.append(&answer).append_recall_id(self.recall_id(item).as_deref()))]
    }
}
