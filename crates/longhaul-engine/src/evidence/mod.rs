//! What a handover could cite, gathered from whole blocks before anything is pruned.
//!
//! ```text
//! prompts of users ──▶ requests (open, done, cancelled), rules, permissions for once, questions, reversals
//! replies          ──▶ answers, decisions with their reasons, what is next, in progress, done, blocked
//! exchanges        ──▶ deeds, files, problems and whether they were resolved, lists of tasks, the state of the work
//! ```
//!
//! Rules, requests and reversals come from the sentences that a user means, never from tool text, pasted text or a speaker who
//! may be a program. What is read from one block is kept in [`Known`] by content, so a body that grew costs what it grew by.

mod exchange;
mod gather;
mod names;
mod phrases;
mod problems;
mod prompt;
mod prose;
mod reading;
mod replaced;
mod reply;
mod state;
#[cfg(test)]
mod tests;
mod todo;
mod turns;

use std::sync::Arc;

use crate::action::{Action, Actions, Touched};
use crate::known::Known;
use crate::transcript::{BlockKind, Transcript};

use gather::Gathered;
use turns::Turns;

pub(crate) use names::Sense;
pub use names::Uses;
pub(crate) use reading::{Reader, Reading};
pub(crate) use replaced::replaces;
pub use state::State;

/// What a handover could cite. Every list is oldest first.
#[derive(Debug, Default)]
pub struct Evidence {
    /// What users asked for.
    pub requests: Vec<Request>,
    /// Standing rules of users, word for word.
    pub rules: Vec<Rule>,
    /// What users allowed or asked for once.
    pub once_only: Vec<OnceOnly>,
    /// What users took back.
    pub reversals: Vec<Reversal>,
    /// Sentences of users that put one thing in the place of another, which may be that of a rule.
    pub replacements: Vec<String>,
    /// Units whose reply closed all that was pending, also what an earlier checkpoint calls open.
    pub closings: Vec<usize>,
    /// Questions of users and of the assistant.
    pub questions: Vec<Question>,
    /// Every exchange.
    pub deeds: Vec<Deed>,
    /// Files by the newest touch.
    pub files: Vec<FileFact>,
    /// What went wrong.
    pub problems: Vec<Problem>,
    /// What was decided or found out.
    pub decisions: Vec<Decision>,
    /// Where the work stands.
    pub state: State,
    /// What the assistant says is next, in progress, done or blocked; of lists of tasks, the newest.
    pub said: Vec<Said>,
}

/// Something that a user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where it was said.
    pub unit: usize,
    /// The user's own words, cut in the middle where they are very long.
    pub text: String,
    /// The sentences of it that ask, for where all of it is too much. With an accepted offer, what was offered.
    pub gist: String,
    /// Whether it wants a deed or an answer.
    pub ask: Ask,
    /// What became of it.
    pub state: RequestState,
    /// The unit that shows so.
    pub settled: Option<usize>,
    /// Later turns that name what it names.
    pub uses: Uses,
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Something done.
    Task,
    /// Something explained: its questions are among the questions, too.
    Question,
    /// Both at once: an answer alone does not finish it.
    Both,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    /// Not finished.
    Open,
    /// Reported as finished, and the user did not say otherwise.
    Done,
    /// Taken back.
    Cancelled,
}

/// A standing rule of a user, word for word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Where it was said.
    pub unit: usize,
    /// The whole sentence.
    pub text: String,
    /// Later turns that name what it names.
    pub uses: Uses,
}

/// What a user allowed or asked for once; no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceOnly {
    /// Where it was said.
    pub unit: usize,
    /// The whole sentence.
    pub text: String,
    /// Later turns that name what it names.
    pub uses: Uses,
}

/// A user taking something back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reversal {
    /// Where it was said.
    pub unit: usize,
    /// The whole sentence.
    pub text: String,
    /// The unit of the request that it cancels; none where it is about a rule, a detail, or something older than the transcript.
    pub cancels: Option<usize>,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Where it was asked.
    pub unit: usize,
    /// Who asked.
    pub by: Asker,
    /// The question.
    pub text: String,
    /// The first sentences of what the other side answered.
    pub answer: Option<String>,
    /// Later turns that name what it names.
    pub uses: Uses,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The user.
    User,
    /// The assistant, of the user.
    Assistant,
}

/// One exchange.
#[derive(Debug, Clone)]
pub struct Deed {
    /// Its unit.
    pub unit: usize,
    /// Its place among the unit's exchanges.
    pub exchange: usize,
    /// What it did.
    pub action: Arc<Action>,
    /// Later turns that name the files it touched.
    pub uses: Uses,
}

/// What was done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFact {
    /// As it was first written.
    pub path: String,
    /// By unit, oldest first.
    pub touched: Vec<(usize, Touched)>,
    /// Turns that name it after the first touch.
    pub uses: Uses,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it showed.
    pub unit: usize,
    /// The tool.
    pub tool: String,
    /// What was tried.
    pub target: Option<String>,
    /// The lines that report it, as they stand in the result.
    pub text: String,
    /// The unit in which the same went well.
    pub resolved: Option<usize>,
    /// Later turns that name what it names.
    pub uses: Uses,
}

/// A decision or finding of the assistant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Where it was said.
    pub unit: usize,
    /// The whole sentence.
    pub text: String,
    /// The part of it that says why.
    pub reason: Option<String>,
    /// Later turns that name what it names.
    pub uses: Uses,
}

/// Something that the assistant said of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Where.
    pub unit: usize,
    /// The sentence, or the task of a list.
    pub text: String,
    /// How it stands.
    pub kind: SaidKind,
    /// Whether it is a marked task of a list, which is the stronger word.
    pub source: SaidIn,
    /// Later turns that name what it names.
    pub uses: Uses,
}

/// How a piece of work stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SaidKind {
    /// To be done.
    Next,
    /// Being done.
    Doing,
    /// Done.
    Done,
    /// Cannot go on.
    Blocked,
}

/// Where the assistant said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidIn {
    /// In a sentence.
    Text,
    /// In a list of tasks with marks.
    TaskList,
}

impl Evidence {
    /// What every exchange did, by unit.
    pub(crate) fn actions(&self) -> Actions {
        Actions::read_before(self.deeds.iter().map(|deed| (deed.unit, Arc::clone(&deed.action))))
    }

    /// What an exchange of a unit did.
    #[must_use]
    pub fn action(&self, unit: usize, exchange: usize) -> Option<&Action> {
        let first = self.deeds.partition_point(|deed| deed.unit < unit);
        let of_unit = self.deeds[first..].iter().take_while(|deed| deed.unit == unit);
        of_unit.into_iter().find(|deed| deed.exchange == exchange).map(|deed| &*deed.action)
    }

    /// Gathers the evidence of all units.
    #[must_use]
    pub fn of(known: &mut Known, transcript: &Transcript<'_>) -> Self {
        let readings =
            transcript.units.iter().map(|unit| reading::of_unit(known, &unit.kind)).collect::<Vec<_>>();
        let mut gathered = Gathered::default();
        for block in transcript.preamble.iter().filter(|block| block.kind == BlockKind::System) {
            gathered.note(&reading::of_note(known, block));
        }
        let mut turns = Turns::new();
        for (unit, (read, kind)) in
            readings.iter().zip(transcript.units.iter().map(|unit| &unit.kind)).enumerate()
        {
            gathered.unit(unit, kind, read, &mut turns);
        }
        turns.end();
        gathered.finish(turns, &readings)
    }
}
