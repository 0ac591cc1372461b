//! The checkpoint: the message that replaces the turns that a compaction summarized.
//!
//! ```text
//! evidence, previous checkpoint ──collect──▶ drafts ──word──▶ forms ──select──▶ Checkpoint ──render──▶ Markdown
//!                  a model's summary ─────────────────────────────────────────▶    ▲───────parse────────┘
//! ```
//!
//! Code quotes the user's and the agent's own words in order of time, with each change and its outcome. It
//! claims nothing beyond them. A model's summary stays one piece; code adds what happened after it was written,
//! and the few facts that it lacks.
//!
//! Invariants:
//! - `parse(render(x)) == x`, whatever the content is.
//! - The rendering never exceeds the budget, unless the two marker lines alone already do.
//! - All content has passed a [`Redactor`](crate::redact::Redactor).
//! - The first characters of a line (`## `, `### `, `- `, `1. `) define the structure, so content never starts a
//!   line with them: further lines of a list item are indented, and a quoted line that looks like structure gets
//!   a backslash.
//!
//! It may use `evidence`, `texts` and the modules below them.

mod candidates;
mod earlier_work;
mod excerpt;
mod exchanges;
mod findings;
mod forms;
mod input;
mod net_changes;
mod notes;
mod notes_index;
mod parse;
mod paths;
mod rarity;
mod render;
mod repeated_lines;
mod row_order;
mod state;
mod topic;
mod weights;
mod write;

pub(crate) use earlier_work::{EarlierWork, RecallPage};
pub use input::{CheckpointInput, SummaryNotes, WrittenCheckpoint};
pub use notes::Notes;
pub(crate) use notes::{NotesPart, NotesPartKind, NotesTopic};
pub use topic::Topic;
pub use weights::Weights;
pub(crate) use write::write;

use std::collections::HashSet;

use crate::redact::Redacted;
use crate::texts::{ActionEntry, CheckpointMarker, EarlierWorkNode};
use crate::tokens::{TokenCounter, Tokens};

/// The content of a checkpoint message: requests, actions and the current state, by section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    lists: [Vec<Redacted>; Section::ALL.len()],
    earlier_work: Vec<EarlierWorkNode>,
    completed: Vec<CompletedAction>,
    quoted: Vec<QuotedLines>,
    summary: Option<QuotedSummary>,
}

/// A summary by a model or a plug-in, quoted as one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedSummary {
    /// The name of the author, on one line.
    pub author: Redacted,
    /// The Markdown of the summary.
    pub text: Redacted,
    /// Whether turns between the summary and the messages below the checkpoint are told nowhere.
    pub leaves_gap: bool,
}

/// The sections of a checkpoint, in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// The present: the request, what was changed and checked, values and open problems.
    State,
    /// The user's requests that are not done, in the user's words. Our own code fills neither this section nor the ones
    /// for the goal, the active state, ongoing work, errors, decisions, pending and remaining work: it only carries them
    /// on from a checkpoint that has them.
    ActiveTask,
    /// The messages of people, in order.
    Goal,
    /// The permanent rules of the user, word for word.
    Constraints,
    /// The work before the numbered actions, one node for each span, with the recall ID of its page.
    EarlierWork,
    /// The actions and conclusions, numbered, in order.
    CompletedActions,
    /// The newest test run, and whether a file was changed since.
    ActiveState,
    /// The tasks that the agent was working on.
    InProgress,
    /// The unresolved errors.
    Blocked,
    /// The decisions with their reasons.
    KeyDecisions,
    /// The questions with their answers.
    ResolvedQuestions,
    /// The user's requests besides the active task, and unanswered questions.
    PendingUserAsks,
    /// The files with what happened to each.
    RelevantFiles,
    /// The open tasks of the agent's own list.
    RemainingWork,
    /// The lines that are quoted word for word, by source.
    CriticalContext,
    /// The facts that a model's summary lacks.
    NotInSummary,
}

impl Section {
    /// All sections, in order.
    pub const ALL: [Self; 16] = [
        Self::State,
        Self::ActiveTask,
        Self::Goal,
        Self::Constraints,
        Self::EarlierWork,
        Self::CompletedActions,
        Self::ActiveState,
        Self::InProgress,
        Self::Blocked,
        Self::KeyDecisions,
        Self::ResolvedQuestions,
        Self::PendingUserAsks,
        Self::RelevantFiles,
        Self::RemainingWork,
        Self::CriticalContext,
        Self::NotInSummary,
    ];

    /// Returns the text of the section's heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::State => "State Before the Messages Below",
            Self::ActiveTask => "Active Task",
            Self::Goal => "Goal",
            Self::Constraints => "Constraints & Preferences",
            Self::EarlierWork => "Earlier Work",
            Self::CompletedActions => "Completed Actions",
            Self::ActiveState => "Active State",
            Self::InProgress => "In Progress",
            Self::Blocked => "Blocked",
            Self::KeyDecisions => "Key Decisions",
            Self::ResolvedQuestions => "Resolved Questions",
            Self::PendingUserAsks => "Pending User Asks",
            Self::RelevantFiles => "Relevant Files",
            Self::RemainingWork => "Remaining Work",
            Self::CriticalContext => "Critical Context",
            Self::NotInSummary => "Not in the Summary",
        }
    }
}

/// An action or conclusion with its number. The numbers continue from checkpoint to checkpoint, so a gap
/// shows that something is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedAction {
    /// The number of the action.
    pub number: u32,
    /// The action and its outcome.
    pub entry: ActionEntry,
}

/// Lines that are quoted word for word from one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedLines {
    /// The name of the source, on one line.
    source: Redacted,
    /// The quoted lines. None of them contains a line break.
    lines: Vec<Redacted>,
}

impl Checkpoint {
    /// Returns the list items of a section. The nodes of Earlier Work, the numbered actions and the quoted
    /// lines have their own methods.
    #[must_use]
    pub fn list(&self, section: Section) -> &[Redacted] {
        &self.lists[section as usize]
    }

    /// Returns the nodes of the section Earlier Work, oldest first.
    #[must_use]
    pub fn earlier_work(&self) -> &[EarlierWorkNode] {
        &self.earlier_work
    }

    /// Returns the numbered actions.
    #[must_use]
    pub fn completed(&self) -> &[CompletedAction] {
        &self.completed
    }

    /// Returns the quoted lines of the section Critical Context.
    #[must_use]
    pub fn quoted(&self) -> &[QuotedLines] {
        &self.quoted
    }

    /// Returns the summary by a model or a plug-in.
    #[must_use]
    pub fn summary(&self) -> Option<&QuotedSummary> {
        self.summary.as_ref()
    }

    /// Returns whether a section has no content.
    #[must_use]
    pub fn is_empty(&self, section: Section) -> bool {
        match section {
            Section::EarlierWork => self.earlier_work.is_empty(),
            Section::CompletedActions => self.completed.is_empty(),
            _ if section == self.section_of_quotes() => self.list(section).is_empty() && self.quoted.is_empty(),
            _ => self.list(section).is_empty(),
        }
    }

    /// Returns the section of the quoted lines: behind a model's summary there is only one for all that it lacks.
    fn section_of_quotes(&self) -> Section {
        if self.summary.is_some() { Section::NotInSummary } else { Section::CriticalContext }
    }

    /// Builds a checkpoint from somebody else's summary. It also has the user's rules, both those of the
    /// previous checkpoint and new ones, because such a summary is not trusted to repeat them, and the note of the host.
    pub(crate) fn from_summary(
        before: &Self,
        rules: &[Redacted],
        summary: QuotedSummary,
        host_note: Option<QuotedLines>,
    ) -> Self {
        let earlier_work = before.earlier_work.clone();
        let mut checkpoint =
            Self { earlier_work, quoted: host_note.into_iter().collect(), summary: Some(summary), ..Self::default() };
        let carried = [Section::ActiveTask, Section::Constraints, Section::NotInSummary].map(|list| before.list(list));
        for rule in carried.into_iter().flatten().chain(rules) {
            if !checkpoint.list(Section::NotInSummary).contains(rule) {
                checkpoint.push(Section::NotInSummary, rule.clone());
            }
        }
        checkpoint
    }

    /// Counts the sections that have content.
    #[must_use]
    pub fn section_count(&self) -> usize {
        Section::ALL.into_iter().filter(|section| !self.is_empty(*section)).count()
    }

    /// Renders a checkpoint without content. Every checkpoint costs at least as much as this text.
    #[must_use]
    pub fn render_empty(marker: &CheckpointMarker) -> String {
        Self::default().render(marker)
    }

    /// Counts the tokens of the rendering.
    #[must_use]
    pub fn tokens(&self, counter: TokenCounter, marker: &CheckpointMarker) -> Tokens {
        counter.count(&self.render(marker))
    }

    /// Returns the number of the last action, in Completed Actions or Earlier Work, or 0.
    pub(crate) fn last_action(&self) -> u32 {
        let listed = self.completed.last().map(|last| last.number);
        let before = self.earlier_work.iter().filter_map(EarlierWorkNode::actions).map(|(_, last)| last).max();
        listed.max(before).unwrap_or(0)
    }

    /// Returns the checkpoint without its actions and its earlier work.
    pub(crate) fn without_actions(&self) -> Self {
        Self { earlier_work: Vec::new(), completed: Vec::new(), ..self.clone() }
    }

    /// With a model's summary, puts `moved` and then all list items except those of the state into the section of what
    /// the summary lacks.
    fn move_behind_summary(&mut self, moved: &[Redacted]) {
        let others = self.lists.iter_mut().skip(Section::State as usize + 1);
        let items: Vec<Redacted> = others.flat_map(std::mem::take).collect();
        let mut seen = HashSet::new();
        let is_new = |item: &Redacted| seen.insert(parse::without_unverified_prefix(item.as_str()).to_owned());
        self.lists[Section::NotInSummary as usize] = moved.iter().cloned().chain(items).filter(is_new).collect();
    }

    fn push(&mut self, section: Section, text: Redacted) {
        self.lists[section as usize].push(text);
    }
}

impl QuotedLines {
    /// Quotes lines of a source; `None` if there are no lines.
    pub(crate) fn new(source: Redacted, lines: Vec<Redacted>) -> Option<Self> {
        (!lines.is_empty()).then_some(Self { source, lines })
    }

    /// Returns the name of the source.
    #[must_use]
    pub fn source(&self) -> &str {
        self.source.as_str()
    }

    /// Returns the quoted lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(Redacted::as_str)
    }
}
