//! What stands in place of the units that a compaction folded: a handover.
//!
//! ```text
//! evidence, the checkpoint before ──sketch──▶ what could be said ──forms──▶ short to long ──fill──▶ Checkpoint ──render──▶ Markdown
//!                                                                                                      ▲──────parse──────────┘
//! ```
//!
//! The user's and the agent's own words are the best summary there is: they are quoted in order of time, with what was changed
//! and how each thing ended, and nothing is claimed beyond them. What must hold: `parse(render(x)) == x` whatever text is inside;
//! the rendering is never over the budget; what goes in has passed a [`Redactor`](crate::redact::Redactor). Structure is told by the first
//! characters of a line (`## `, `### `, `- `, `1. `), and content never begins a line with them: list items are indented, and a
//! quoted line that looks like structure gets a backslash.
//!
//! It may use `evidence`, `texts` and what is below them.

mod brief;
mod earlier;
mod fill;
mod forms;
mod heard;
mod later;
mod names;
mod net;
mod parse;
mod pieces;
mod render;
mod rows;
mod sketch;
mod statement;
mod topic;
mod write;

pub use brief::{Brief, Written};
pub(crate) use earlier::{Earlier, Page};
pub use statement::{Statement, Tells, Told};
pub use topic::Topic;
pub(crate) use write::write;

use crate::redact::Redacted;
use crate::texts::{Entry, Marker, Node};
use crate::tokens::{Counter, Tokens};

/// A handover: what was asked, what was done, how things stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    lists: [Vec<Redacted>; Section::ALL.len()],
    earlier: Vec<Node>,
    completed: Vec<Completed>,
    quoted: Vec<Quoted>,
}

/// The sections, in the order in which they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// What the user asked for and is not done, in the user's words.
    ActiveTask,
    /// What people said, in order.
    Goal,
    /// Standing rules of the user, word for word.
    Constraints,
    /// What was done before that, by stretches, each with what fetches its page.
    EarlierWork,
    /// What was done and concluded, numbered, in order.
    CompletedActions,
    /// Tests, and whether something was edited since.
    ActiveState,
    /// What was under way.
    InProgress,
    /// Errors that nothing resolved yet.
    Blocked,
    /// What was decided, and why.
    KeyDecisions,
    /// Questions with their answers.
    ResolvedQuestions,
    /// What users asked for besides the active task, and questions without an answer.
    PendingUserAsks,
    /// Files with what was done to each.
    RelevantFiles,
    /// The open tasks of the agent's own list.
    RemainingWork,
    /// Lines worth having word for word, by where they came from.
    CriticalContext,
}

impl Section {
    /// Every section, in order.
    pub const ALL: [Self; 14] = [
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
    ];

    /// The words of its heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
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
        }
    }
}

/// Something that was done or concluded; numbers go on from checkpoint to checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The number.
    pub number: u32,
    /// What it was.
    pub entry: Entry,
}

/// Lines of one source, word for word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    /// Where they came from, on one line.
    source: Redacted,
    /// The lines; none of them has a line end in it.
    lines: Vec<Redacted>,
}

impl Checkpoint {
    /// What a section lists. Earlier Work, Completed Actions and the quoted lines of Critical Context have their own forms.
    #[must_use]
    pub fn list(&self, section: Section) -> &[Redacted] {
        &self.lists[section as usize]
    }

    /// What was done before the numbered actions, oldest first.
    #[must_use]
    pub fn earlier(&self) -> &[Node] {
        &self.earlier
    }

    /// The numbered actions.
    #[must_use]
    pub fn completed(&self) -> &[Completed] {
        &self.completed
    }

    /// The quoted lines of Critical Context.
    #[must_use]
    pub fn quoted(&self) -> &[Quoted] {
        &self.quoted
    }

    /// Whether a section has nothing in it.
    #[must_use]
    pub fn is_empty(&self, section: Section) -> bool {
        match section {
            Section::EarlierWork => self.earlier.is_empty(),
            Section::CompletedActions => self.completed.is_empty(),
            Section::CriticalContext => self.list(section).is_empty() && self.quoted.is_empty(),
            _ => self.list(section).is_empty(),
        }
    }

    /// A summary that somebody else wrote, with the rules of people that hold: those of the checkpoint before, and new ones.
    pub(crate) fn quoting(before: &Self, rules: &[Redacted], quoted: impl Iterator<Item = Quoted>) -> Self {
        let (quoted, earlier) = (quoted.collect(), before.earlier.clone());
        let mut checkpoint = Self { earlier, quoted, ..Self::default() };
        let tasks = before.list(Section::ActiveTask).iter().map(|task| (Section::ActiveTask, task));
        let rules = before.list(Section::Constraints).iter().chain(rules);
        for (section, text) in tasks.chain(rules.map(|rule| (Section::Constraints, rule))) {
            if !checkpoint.list(section).contains(text) {
                checkpoint.push(section, text.clone());
            }
        }
        checkpoint
    }

    /// How many of its sections say something.
    #[must_use]
    pub fn sections(&self) -> usize {
        Section::ALL.into_iter().filter(|section| !self.is_empty(*section)).count()
    }

    /// The text of a checkpoint that says nothing: what any costs at least.
    #[must_use]
    pub fn least(marker: &Marker) -> String {
        Self::default().render(marker)
    }

    /// The tokens of its rendering.
    #[must_use]
    pub fn tokens(&self, counter: Counter, marker: &Marker) -> Tokens {
        counter.count(&self.render(marker))
    }

    /// The number of the last action that it tells of.
    pub(crate) fn last_action(&self) -> u32 {
        let listed = self.completed.last().map(|last| last.number);
        let before = self.earlier.iter().filter_map(Node::actions).map(|(_, last)| last).max();
        listed.max(before).unwrap_or(0)
    }

    /// What holds whatever else is done: all but the actions.
    pub(crate) fn standing(&self) -> Self {
        Self { earlier: Vec::new(), completed: Vec::new(), ..self.clone() }
    }

    /// Numbers the actions as they stand: a model's numbers and ours count different things.
    fn number_anew(&mut self, first: u32) {
        (first..).zip(&mut self.completed).for_each(|(number, completed)| completed.number = number);
    }

    fn push(&mut self, section: Section, text: Redacted) {
        self.lists[section as usize].push(text);
    }
}

/// Before the name of who wrote a summary that is quoted whole.
const SUMMARY_BY: &str = "summary by ";

impl Quoted {
    /// A summary that somebody else wrote.
    pub(crate) fn summary(by: &Redacted, lines: Vec<Redacted>) -> Option<Self> {
        Self::of(Redacted::own(SUMMARY_BY).and(by), lines)
    }

    /// Whether it is such a summary.
    fn is_summary(&self) -> bool {
        self.source().starts_with(SUMMARY_BY)
    }

    /// Lines of a source; nothing without lines.
    pub(crate) fn of(source: Redacted, lines: Vec<Redacted>) -> Option<Self> {
        (!lines.is_empty()).then_some(Self { source, lines })
    }

    /// Where the lines came from.
    #[must_use]
    pub fn source(&self) -> &str {
        self.source.as_str()
    }

    /// The lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(Redacted::as_str)
    }
}
