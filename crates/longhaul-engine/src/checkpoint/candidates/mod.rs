//! Collects the candidates for a checkpoint from the evidence, each with its value per token. They are not
//! worded yet, so that only affordable candidates are redacted and written.

mod carried;
mod files;
mod messages;
mod tool_uses;

use std::collections::HashSet;
use std::rc::Rc;

use super::exchanges::{Exchange, RequestStatus, collect_exchanges, first_open_turn};
use super::findings::{self, FoundLine};
use super::input::CheckpointInput;
use super::net_changes::NetFileChange;
use super::rarity::WordRarity;
use super::repeated_lines::RepeatedLines;
use super::state::{self, StateLine};
use super::weights;
use super::{CompletedAction, QuotedLines, Section};
use crate::evidence::EvidenceItem;
use crate::redact::Redacted;
use crate::transcript::BlockPosition;

/// A candidate before it is worded.
pub(super) struct DraftCandidate<'d> {
    pub(super) source: CandidateSource<'d>,
    /// The turn that the candidate is about; `None` for an item of the previous checkpoint.
    pub(super) turn: Option<usize>,
    /// The position by which the checkpoint is sorted: for most candidates the turn plus 1, then an order inside the
    /// turn. Items of the previous checkpoint have 0 or 1 and come first; lines of the state, lines that were read and
    /// quotes are in sections of their own, where only their order among each other counts.
    pub(super) position: (usize, usize),
    /// The number of the action; 0 until it is numbered.
    pub(super) action_number: u32,
    /// The value of one token of its shortest form.
    pub(super) value_per_token: f64,
}

impl DraftCandidate<'_> {
    /// Returns the block that the candidate is about, if it is about one tool use.
    pub(super) fn block(&self) -> Option<BlockPosition> {
        match &self.source {
            CandidateSource::FileChange(item, ..)
            | CandidateSource::BulkChange(item)
            | CandidateSource::RefusedEdit(item)
            | CandidateSource::Command(item, ..) => Some(item.at),
            CandidateSource::OtherCalls(items) => items.first().map(|item| item.at),
            _ => None,
        }
    }
}

impl CandidateSource<'_> {
    /// Returns whether the candidate is a new action or conclusion, which gets a number.
    pub(super) fn is_action(&self) -> bool {
        match self {
            Self::Exchange(..)
            | Self::PossibleUserMessage(_)
            | Self::RelayedMessage(_)
            | Self::AssistantNotes(..)
            | Self::FileChange(..)
            | Self::BulkChange(_)
            | Self::RefusedEdit(_)
            | Self::Command(..)
            | Self::OtherCalls(_)
            | Self::CarriedRequest(_) => true,
            Self::State(_)
            | Self::UserRule(_)
            | Self::Question(_)
            | Self::FileSummary(..)
            | Self::CarriedItem(..)
            | Self::CarriedAction(_)
            | Self::FoundLine(..)
            | Self::QuotedLine(..) => false,
        }
    }
}

/// The material that a candidate is made from.
pub(super) enum CandidateSource<'d> {
    /// A line of the state.
    State(StateLine<'d>),
    /// A request with its answer, as far as they do not stay in the request.
    Exchange(Exchange<'d>, ExchangePart),
    /// A rule from a long message.
    UserRule(String),
    /// A message that may be from a person.
    PossibleUserMessage(&'d EvidenceItem),
    /// A message that a host passed on inside another block. It is quoted like a person's, but it sets no
    /// rule and no goal.
    RelayedMessage(&'d EvidenceItem),
    /// Sentences of the assistant in the middle of its work, by their indices in the text, most important
    /// first.
    AssistantNotes(&'d EvidenceItem, Vec<usize>),
    /// The net change of a file in one turn, with the tool use that changed it last.
    FileChange(&'d EvidenceItem, NetFileChange, ChangeDetail),
    /// Changes of many files in one call.
    BulkChange(&'d EvidenceItem),
    /// An edit that was not applied.
    RefusedEdit(&'d EvidenceItem),
    /// The last run of a command, how many times its output was the same, and earlier runs with another outcome, oldest
    /// first.
    Command(&'d EvidenceItem, usize, Vec<&'d EvidenceItem>),
    /// A call of any other tool, or several calls with the same short answer.
    OtherCalls(Vec<&'d EvidenceItem>),
    /// A question to the user with the answer.
    Question(&'d EvidenceItem),
    /// The net effect on a file over all turns, and the note of the previous checkpoint about it.
    FileSummary(NetFileChange, Option<&'d Redacted>),
    /// A list item of the previous checkpoint.
    CarriedItem(Section, &'d Redacted),
    /// The request in the state of the previous checkpoint, after a newer one.
    CarriedRequest(&'d Redacted),
    /// A numbered action of the previous checkpoint.
    CarriedAction(&'d CompletedAction),
    /// A line of a result that was read: its source, and the line.
    FoundLine(Rc<str>, FoundLine),
    /// One line, by its index, of lines that the previous checkpoint quoted, that are about the topic, or
    /// that the host asked to keep.
    QuotedLine(&'d QuotedLines, usize),
}

/// The parts of an exchange that the checkpoint tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExchangePart {
    /// The request and the answer.
    Both,
    /// The request; its answer stays in the request body, or there is none.
    Request,
    /// The answer; the message with the request stays.
    Answer,
}

/// The amount of detail that a file change is described with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeDetail {
    /// All informative lines.
    Full,
    /// A few lines, because the file is not part of the actual work, or no longer exists.
    Brief,
}

/// The number of positions that one block has among the actions of its turn.
const POSITIONS_PER_BLOCK: usize = 64;

/// The candidates, and what their words depend on.
pub(super) struct Candidates<'d> {
    pub(super) drafts: Vec<DraftCandidate<'d>>,
    pub(super) rarity: WordRarity,
}

pub(super) fn collect_candidates<'d>(input: &CheckpointInput<'d>) -> Candidates<'d> {
    let rarity = WordRarity::new(input);
    let mut exchanges = collect_exchanges(input);
    mark_revisited(&mut exchanges, &rarity, &RepeatedLines::new(input));
    let mut collector = CandidateCollector {
        input,
        candidates: Vec::new(),
        turn_count: count_turns(input),
        told_uses: HashSet::new(),
        told_paths: Vec::new(),
        told_helpers: Vec::new(),
    };
    let history = collector.follow_file_changes();
    let newest_tasks = input.evidence.newest_task_list().filter(|item| (input.is_summarized)(item.at.unit));
    // A model's summary has its own state.
    if input.notes.is_none() {
        let tasks = newest_tasks.map(EvidenceItem::tasks);
        let state = state::compute(input, &exchanges, &history.all, &history.writer_runs, tasks);
        collector.told_uses.extend(state.told_uses);
        (collector.told_paths, collector.told_helpers) = (state.told_paths, state.told_helpers);
        for (place, line) in state.lines.into_iter().enumerate() {
            let value = input.weights.state.of(&line);
            collector.push(CandidateSource::State(line), None, (usize::MAX, place), value);
        }
    }
    let first_open = first_open_turn(&exchanges);
    collector.add_exchanges(&exchanges, &rarity);
    collector.add_other_messages();
    collector.add_assistant_notes(&exchanges);
    collector.add_file_changes(&history, first_open);
    collector.add_tool_uses(&exchanges);
    collector.add_file_summaries(history.all, first_open);
    collector.add_carried_items(&exchanges);
    collector.add_quotes();
    if input.notes.is_none() {
        collector.add_found_lines(first_open);
    }
    Candidates { drafts: collector.candidates, rarity }
}

/// Marks the exchanges whose subject one of the next requests takes up again. Lines that stand in several requests, such as those
/// of a form, are nobody's subject.
fn mark_revisited(exchanges: &mut [Exchange<'_>], rarity: &WordRarity, repeated: &RepeatedLines) {
    let mut later: Vec<HashSet<u64>> = Vec::new();
    for exchange in exchanges.iter_mut().rev() {
        let request = exchange.request.map_or_else(String::new, |request| repeated.without_shared(request.text()));
        let request = rarity.telling_words(&request);
        if let Some(answer) = exchange.answer.filter(|_| exchange.status == RequestStatus::Unknown) {
            let own: HashSet<u64> = request.union(&rarity.telling_words(answer.text())).copied().collect();
            let is_again = |later: &HashSet<u64>| later.intersection(&own).count() >= weights::MIN_REVISITED_WORDS;
            if later.iter().rev().take(weights::MAX_LATER_REQUESTS).any(is_again) {
                exchange.status = RequestStatus::Revisited;
            }
        }
        later.push(request);
    }
}

fn count_turns(input: &CheckpointInput<'_>) -> usize {
    let lists = [&input.evidence.user_messages, &input.evidence.assistant_texts, &input.evidence.tool_uses];
    lists.iter().filter_map(|list| list.last()).map(|last| last.at.unit + 1).max().unwrap_or(1)
}

struct CandidateCollector<'s, 'd> {
    input: &'s CheckpointInput<'d>,
    candidates: Vec<DraftCandidate<'d>>,
    turn_count: usize,
    /// The indices of the tool uses whose outcome the state tells.
    told_uses: HashSet<usize>,
    /// The paths of the files whose present content the state tells.
    told_paths: Vec<String>,
    /// The paths of the helper files that the state lists.
    told_helpers: Vec<String>,
}

impl<'d> CandidateCollector<'_, 'd> {
    /// Adds a candidate about a turn. The older the turn, the less it is worth.
    fn add(&mut self, source: CandidateSource<'d>, (turn, place): (usize, usize), value_per_token: f64) {
        self.push(source, Some(turn), (turn + 1, place), value_per_token * self.age_factor(turn));
    }

    /// Adds a candidate about a turn whose value does not depend on its age.
    fn add_ageless(&mut self, source: CandidateSource<'d>, (turn, place): (usize, usize), value_per_token: f64) {
        self.push(source, Some(turn), (turn + 1, place), value_per_token);
    }

    fn push(
        &mut self,
        source: CandidateSource<'d>,
        turn: Option<usize>,
        position: (usize, usize),
        value_per_token: f64,
    ) {
        self.candidates.push(DraftCandidate { source, turn, position, action_number: 0, value_per_token });
    }

    /// Returns a factor that favours newer turns. It is never 0, because the beginning of a session matters
    /// too.
    fn age_factor(&self, turn: usize) -> f64 {
        weights::age_factor(self.input.weights.age.turn, turn, self.turn_count)
    }

    fn summarized(&self, list: &'d [EvidenceItem]) -> impl DoubleEndedIterator<Item = &'d EvidenceItem> + use<'d> {
        let summarized = self.input.is_summarized;
        list.iter().filter(move |item| summarized(item.at.unit))
    }

    /// Adds the lines of read results that the work points at.
    fn add_found_lines(&mut self, first_open: usize) {
        for found in findings::find_lines(self.input, first_open) {
            let source: Rc<str> = found.source.into();
            for (place, (line, score)) in found.lines.into_iter().enumerate() {
                let value = self.input.weights.log.found_line * score * self.age_factor(found.turn);
                // Between the lines about a topic and those that the host asked to keep.
                let position = (usize::MAX - self.turn_count + found.turn, place);
                self.push(CandidateSource::FoundLine(Rc::clone(&source), line), Some(found.turn), position, value);
            }
        }
    }
}
