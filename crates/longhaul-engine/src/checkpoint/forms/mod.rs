//! Words candidates in forms from short to long, each with its price in tokens.

mod exchanges;
mod files;
mod messages;
mod state;
mod tool_uses;

use std::collections::HashSet;
use std::rc::Rc;

use self::exchanges::ExchangeText;
use super::candidates::{CandidateSource, DraftCandidate};
use super::excerpt::ExcerptBuilder;
use super::input::CheckpointInput;
use super::paths::{ListedPaths, path_of_note, short_path};
use super::rarity::WordRarity;
use super::repeated_lines::RepeatedLines;
use super::row_order::NameUses;
use super::state::{StateLabel, StateLine};
use super::weights::{
    CARRIED_ITEM_CHARS, CARRIED_OUTCOME_CHARS, ITEM_MARKER_TOKENS, MAX_PATH_CHARS, MAX_REPORT_CHARS, MAX_RULE_CHARS,
    MAX_SOURCE_CHARS,
};
use super::{Section, Topic};
use crate::evidence::EvidenceItem;
use crate::redact::{Redacted, RedactionMode, Redactor};
use crate::texts::{ActionEntry, EntryKind};
use crate::tokens::budget::{BudgetItem, PricedForm};
use crate::tokens::estimate;

/// A candidate in its forms from short to long, each with its price.
pub(super) struct WordedCandidate {
    pub(super) section: Section,
    /// The number of the action; 0 if the candidate is no action.
    pub(super) action_number: u32,
    /// The full path of the file that the texts name by its end. It replaces the short path if Relevant Files
    /// does not list the file.
    pub(super) full_path: Option<Redacted>,
    pub(super) forms: Vec<(CandidateText, PricedForm)>,
}

#[derive(Clone, PartialEq)]
pub(super) enum CandidateText {
    Item(Redacted),
    /// A request with its answer, and the number of pieces that are told.
    Exchange(Rc<ExchangeText>, usize),
    /// A numbered action. The number is set only for actions of the previous checkpoint.
    Action(Option<u32>, ActionEntry),
    /// The source of a quoted line, and the line.
    QuotedLine(Redacted, Redacted),
}

impl CandidateText {
    fn text(&self) -> String {
        match self {
            Self::Item(text) => text.as_str().to_owned(),
            Self::Exchange(exchange, pieces) => exchange.entry(*pieces).to_string(),
            Self::Action(_, entry) => entry.to_string(),
            Self::QuotedLine(source, line) => format!("{source}\n{line}"),
        }
    }

    /// Returns the numbered entry that the text makes, with its number if it is set.
    pub(super) fn to_entry(&self) -> Option<(Option<u32>, ActionEntry)> {
        match self {
            Self::Exchange(exchange, pieces) => Some((None, exchange.entry(*pieces))),
            Self::Action(number, entry) => Some((*number, entry.clone())),
            Self::Item(_) | Self::QuotedLine(..) => None,
        }
    }

    /// Returns the text on one line, for reports.
    pub(super) fn one_line(&self) -> Redacted {
        Redacted::assume_redacted(self.text()).one_line(MAX_REPORT_CHARS)
    }

    /// Returns the text whose tokens are counted. The source of a quoted line is written once for all of its
    /// lines, so it is not counted.
    fn counted_text(&self) -> String {
        match self {
            Self::QuotedLine(_, line) => line.as_str().to_owned(),
            piece => piece.text(),
        }
    }
}

impl WordedCandidate {
    pub(super) fn to_budget_item(&self) -> BudgetItem {
        BudgetItem { group: self.section as usize, forms: self.forms.iter().map(|(_, form)| *form).collect() }
    }

    /// Returns whether no later entry or quoted line has the same words, and adds the words of this one.
    pub(super) fn is_new_beside(&self, later: &mut HashSet<String>) -> bool {
        let words = self.forms.last().and_then(|(text, _)| match text {
            CandidateText::QuotedLine(..) => Some(text.text()),
            _ => text.to_entry().map(|(_, entry)| entry.with_recall_id(None).to_string()),
        });
        words.is_none_or(|words| later.insert(words))
    }

    /// Returns the candidate as a list item of a section, without a number.
    pub(super) fn into_item_of(mut self, section: Section) -> Self {
        self.section = section;
        for (text, _) in &mut self.forms {
            *text = CandidateText::Item(Redacted::assume_redacted(text.text()));
        }
        self
    }

    /// Returns the text of the shortest form.
    pub(super) fn shortest_text(&self) -> String {
        self.forms.first().map(|(piece, _)| piece.text()).unwrap_or_default()
    }

    /// Returns the path of the file if the candidate is an item of Relevant Files.
    pub(super) fn listed_path(&self) -> Option<String> {
        match self.forms.first() {
            Some((CandidateText::Item(note), _)) if self.section == Section::RelevantFiles => Some(path_of_note(note)),
            _ => None,
        }
    }

    /// Returns whether the candidate is a request or a rule of a person.
    pub(super) fn is_from_people(&self) -> bool {
        let entry = self.forms.first().and_then(|(text, _)| text.to_entry());
        self.section == Section::Constraints || entry.is_some_and(|(_, entry)| entry.kind() == EntryKind::UserRequest)
    }

    pub(super) fn is_on_topic(&self, topic: &Topic) -> bool {
        self.forms.last().is_some_and(|(piece, _)| topic.matches(&piece.text()))
    }
}

/// Words candidates. Every text is redacted before it is cut, because half a secret may no longer be
/// recognized.
pub(super) struct FormWriter<'w, 'd> {
    input: &'w CheckpointInput<'d>,
    redactor: &'w mut Redactor,
    rarity: &'w WordRarity,
    repeated_lines: RepeatedLines,
    /// The paths that Relevant Files could list.
    listed_paths: ListedPaths,
    /// The data fields that earlier calls returned.
    seen_fields: HashSet<String>,
    name_uses: NameUses<'d>,
}

impl<'w, 'd> FormWriter<'w, 'd> {
    pub(super) fn new(
        input: &'w CheckpointInput<'d>,
        redactor: &'w mut Redactor,
        rarity: &'w WordRarity,
        drafts: &[DraftCandidate<'_>],
    ) -> Self {
        let (repeated_lines, name_uses) = (RepeatedLines::new(input), NameUses::scan(&input.evidence.tool_uses));
        let mut writer = Self {
            input,
            redactor,
            rarity,
            repeated_lines,
            name_uses,
            listed_paths: ListedPaths::default(),
            seen_fields: HashSet::new(),
        };
        let listed: Vec<String> = drafts.iter().filter_map(|draft| writer.path_to_list(&draft.source)).collect();
        writer.listed_paths = ListedPaths::new(listed.into_iter());
        writer
    }

    fn redact(&mut self, text: &str) -> Redacted {
        self.redactor.redact(text, RedactionMode::Text).text
    }

    /// Redacts a text and puts it on one line of at most `most` characters.
    fn redact_line(&mut self, text: &str, most: usize) -> Redacted {
        self.redact(text).one_line(most)
    }

    fn recall_id(&self, item: &EvidenceItem) -> Option<String> {
        (self.input.recall_id)(item.at)
    }

    /// Returns the path that a candidate would list under Relevant Files.
    fn path_to_list(&mut self, source: &CandidateSource<'_>) -> Option<String> {
        match source {
            CandidateSource::FileSummary(file, _) if file.is_changed() => {
                Some(self.redact_line(&file.path, MAX_PATH_CHARS).as_str().to_owned())
            }
            CandidateSource::CarriedItem(Section::RelevantFiles, note) => Some(path_of_note(note)),
            _ => None,
        }
    }

    /// Returns the path as an entry names the file: by its end if Relevant Files could list the full path.
    fn display_path(&mut self, path: &str) -> Redacted {
        let path = self.redact_line(path, MAX_PATH_CHARS);
        match self.listed_paths.find(path.as_str()) {
            Some(_) => Redacted::assume_redacted(short_path(path.as_str()).to_owned()),
            None => path,
        }
    }

    /// Returns the full path under which Relevant Files could list the file of an entry.
    fn full_path(&mut self, source: &CandidateSource<'_>) -> Option<Redacted> {
        const FILES: [EntryKind; 4] = [EntryKind::Create, EntryKind::Edit, EntryKind::Delete, EntryKind::Restore];
        let path = match source {
            CandidateSource::FileChange(_, file, _) => &file.path,
            CandidateSource::RefusedEdit(item) => &item.tool_use()?.changes.first()?.path,
            CandidateSource::CarriedAction(done) if FILES.contains(&done.entry.kind()) => done.entry.target(),
            _ => return None,
        };
        let path = self.redact_line(path, MAX_PATH_CHARS);
        self.listed_paths.find(path.as_str()).map(|listed| Redacted::assume_redacted(listed.to_owned()))
    }

    /// Words a candidate; `None` if no form has any text.
    pub(super) fn word_candidate(&mut self, draft: &DraftCandidate<'_>) -> Option<WordedCandidate> {
        let (section, pieces) = match &draft.source {
            CandidateSource::State(line) => (Section::State, self.state_forms(line)),
            CandidateSource::Exchange(exchange, part) => return self.word_exchange(draft, exchange, *part),
            CandidateSource::UserRule(rule) => {
                (Section::Constraints, vec![CandidateText::Item(self.redact_line(rule, MAX_RULE_CHARS))])
            }
            CandidateSource::PossibleUserMessage(item) => {
                (Section::CompletedActions, self.possible_user_message_forms(item))
            }
            CandidateSource::RelayedMessage(item) => (Section::CompletedActions, self.relayed_message_forms(item)),
            CandidateSource::AssistantNotes(item, places) => (Section::CompletedActions, self.note_forms(item, places)),
            CandidateSource::FileChange(item, file, size) => {
                (Section::CompletedActions, self.file_change_forms(item, file, *size))
            }
            CandidateSource::BulkChange(item) => (Section::CompletedActions, self.bulk_change_forms(item)),
            CandidateSource::RefusedEdit(item) => (Section::CompletedActions, self.refused_edit_forms(item)),
            CandidateSource::Command(item, times, earlier) => {
                (Section::CompletedActions, self.command_forms(item, *times, earlier))
            }
            CandidateSource::OtherCalls(items) => (Section::CompletedActions, self.call_forms(items)),
            CandidateSource::Question(item) => (Section::ResolvedQuestions, self.question_forms(item)),
            CandidateSource::FileSummary(file, before) => {
                (Section::RelevantFiles, self.file_summary_forms(file, *before))
            }
            CandidateSource::CarriedItem(section, text) => {
                let forms = CARRIED_ITEM_CHARS.map(|most| CandidateText::Item(text.truncated(most)));
                (*section, forms.into_iter().chain([CandidateText::Item((*text).clone())]).collect())
            }
            CandidateSource::CarriedRequest(line) => {
                let words = line.as_str().trim_start_matches(StateLabel::Request.words());
                let words = Redacted::assume_redacted(words.to_owned());
                let entry = ActionEntry::new(EntryKind::UserRequest, &Redacted::literal(""), &words);
                let forms =
                    CARRIED_ITEM_CHARS.map(|most| CandidateText::Action(None, entry.with_clipped_outcome(most)));
                (Section::CompletedActions, forms.into())
            }
            CandidateSource::CarriedAction(completed) => {
                let (number, entry) = (Some(completed.number), &completed.entry);
                let forms = [entry.with_clipped_outcome(CARRIED_OUTCOME_CHARS), entry.clone()];
                (Section::CompletedActions, forms.map(|entry| CandidateText::Action(number, entry)).into())
            }
            CandidateSource::FoundLine(source, line) => {
                let source = self.redact_line(source, MAX_SOURCE_CHARS);
                let line = self.redact_line(&line.text, usize::MAX);
                (Section::CriticalContext, vec![CandidateText::QuotedLine(source, line)])
            }
            CandidateSource::QuotedLine(quoted, line) => {
                let piece = CandidateText::QuotedLine(quoted.source.clone(), quoted.lines[*line].clone());
                (Section::CriticalContext, vec![piece])
            }
        };
        let path = self.full_path(&draft.source);
        let mut forms: Vec<(CandidateText, PricedForm)> = Vec::with_capacity(pieces.len());
        let is_speech = matches!(draft.source, CandidateSource::State(StateLine::Request(_) | StateLine::Tasks(_)));
        let form = &self.input.weights.form;
        let longer: &[f64] = if is_speech { &form.request } else { &form.entry };
        for (piece, longer) in pieces.into_iter().zip(longer) {
            let text = piece.counted_text();
            if text.trim().is_empty() || forms.last().is_some_and(|(last, _)| *last == piece) {
                continue;
            }
            let tokens = self.input.counter.factor.apply(estimate(&text)).number() + ITEM_MARKER_TOKENS;
            let least = forms.last().map_or(0, |(_, form)| form.tokens);
            forms.push((
                piece,
                PricedForm { tokens: tokens.max(least), value_per_token: draft.value_per_token * *longer },
            ));
        }
        (!forms.is_empty()).then_some(WordedCandidate {
            section,
            action_number: draft.action_number,
            full_path: path,
            forms,
        })
    }
}
