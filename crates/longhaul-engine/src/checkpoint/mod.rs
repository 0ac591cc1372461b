//! What stands in place of the units that a compaction folded: a handover in thirteen sections.
//!
//! ```text
//! evidence, the checkpoint before, quotes ──gather──▶ pieces ──fill──▶ Checkpoint ──render──▶ Markdown
//!                                                                         ▲──────parse───────────┘
//! ```
//!
//! What must hold: `parse(render(x)) == x` whatever text is inside; the rendering is never over the budget; what goes in has
//! passed a [`Redactor`](crate::redact::Redactor); nothing is said that the evidence does not say. Structure is told by the first
//! characters of a line (`## `, `### `, `- `, `1. `), and content never begins a line with them: list items are indented, and a
//! quoted line that looks like structure gets a backslash.

mod actions;
mod audit;
mod clip;
mod files;
mod fill;
mod gather;
mod marker;
mod parse;
mod quotes;
mod render;
mod targets;
mod tasks;
#[cfg(test)]
mod tests;
mod topic;

pub(crate) use audit::Sought;
pub use audit::{Audit, Cited, audit};
pub use fill::Draft;
pub(crate) use fill::Sections;
pub use topic::Topic;

use crate::redact::Redacted;
use crate::tokens::{Counter, Tokens};

/// A handover: what was asked, what was done, how things stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    lists: [Vec<Redacted>; Section::ALL.len()],
    completed: Vec<Completed>,
    quoted: Vec<Quoted>,
    empty: EmptySections,
}

/// The sections, in the order in which they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// What the user asked for and is not done, in the user's words.
    ActiveTask,
    /// What it is all for: the first request.
    Goal,
    /// Standing rules of the user, word for word.
    Constraints,
    /// What was done, numbered.
    CompletedActions,
    /// Directory, branch, tests, processes, environment.
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
    /// What was announced and not seen done.
    RemainingWork,
    /// Lines worth having word for word, by where they came from.
    CriticalContext,
}

impl Section {
    /// Every section, in order.
    pub const ALL: [Self; 13] = [
        Self::ActiveTask,
        Self::Goal,
        Self::Constraints,
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

/// One or several actions, under the number of the last of them: numbers go on from checkpoint to checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The number.
    pub number: u32,
    /// `ACTION target — outcome [tool: name]`.
    pub text: Redacted,
}

/// Lines of one source, word for word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    /// Where they came from, on one line.
    source: Redacted,
    /// The lines; none of them has a line end in it.
    lines: Vec<Redacted>,
}

/// What is written where a section has nothing in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EmptySections {
    /// Its heading and `None.`
    #[default]
    Said,
    /// Nothing: every token counts.
    LeftOut,
}

/// Where the request is that the agent works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// In the newest user message, below the checkpoint.
    RequestFollows,
    /// In a user message above the checkpoint.
    RequestAbove,
}

/// Whose words the checkpoint stands as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// The user's: an end mark tells it from the message below.
    User,
    /// The assistant's.
    Assistant,
}

/// Lines of a source worth quoting under Critical Context, picked elsewhere by the values they carry.
#[derive(Debug, Clone, PartialEq)]
pub struct Quote {
    /// The unit it is from.
    pub unit: usize,
    /// What it is from: `read src/a.rs`.
    pub source: String,
    /// The lines, in their order. They are redacted here, but a line out of the middle of a private key shows nothing by which it
    /// could be told: pick from text that was redacted as a whole.
    pub lines: Vec<String>,
    /// Value per token, on the scale on which an open request is 100, a file that was edited 10, a line of an old listing 0.1.
    pub weight: f64,
}

impl Checkpoint {
    /// What a section lists. Completed Actions and the quoted lines of Critical Context have their own forms.
    #[must_use]
    pub fn list(&self, section: Section) -> &[Redacted] {
        &self.lists[section as usize]
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
            Section::CompletedActions => self.completed.is_empty(),
            Section::CriticalContext => self.list(section).is_empty() && self.quoted.is_empty(),
            _ => self.list(section).is_empty(),
        }
    }

    /// The text of a checkpoint that says nothing: what any costs at least.
    #[must_use]
    pub fn least(closing: Closing, voice: Voice) -> String {
        Self { empty: EmptySections::LeftOut, ..Self::default() }.render(closing, voice)
    }

    /// The tokens of its rendering.
    #[must_use]
    pub fn tokens(&self, counter: Counter, closing: Closing, voice: Voice) -> Tokens {
        counter.count(&self.render(closing, voice))
    }

    /// Where every section has something, there is nothing to leave out: one value for one text.
    fn settle(mut self) -> Self {
        if !Section::ALL.into_iter().any(|section| self.is_empty(section)) {
            self.empty = EmptySections::Said;
        }
        self
    }

    fn push(&mut self, section: Section, text: Redacted) {
        self.lists[section as usize].push(text);
    }
}

impl Quoted {
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
