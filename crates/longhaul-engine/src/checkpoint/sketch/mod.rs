//! What could stand in a checkpoint, and what each is worth per token: sketched from the evidence first, so that only what could
//! be bought is redacted and written.

mod deeds;
mod files;
mod words;

use super::brief::Brief;
use super::net::File;
use super::statement::Statement;
use super::{Completed, Quoted, Section};
use crate::action::Outcome;
use crate::evidence::{Item, Read, TaskState, has_rule};
use crate::redact::Redacted;
use crate::transcript::BlockAt;

/// Something that could be said.
pub(super) struct Sketch<'d> {
    pub(super) what: What<'d>,
    /// Where it stands in time: what came first stands first. What an earlier checkpoint said comes before all.
    pub(super) at: (usize, usize),
    /// Its number, once it has one.
    pub(super) number: u32,
    /// What a token of it is worth.
    pub(super) rate: f64,
}

impl Sketch<'_> {
    /// The unit that it is about; none where it was said before all of them.
    pub(super) fn unit(&self) -> Option<usize> {
        self.at.0.checked_sub(1)
    }

    /// Whether it tells of something that did not work.
    pub(super) fn is_failure(&self) -> bool {
        match &self.what {
            What::Refused(_) => true,
            What::Run(read, _) => read.did().is_some_and(|did| did.action.outcome == Outcome::Failed),
            _ => false,
        }
    }

    /// The block that it is about, where it is about one deed.
    pub(super) fn block(&self) -> Option<BlockAt> {
        match &self.what {
            What::Change(read, ..)
            | What::Changes(read)
            | What::Refused(read)
            | What::Run(read, _)
            | What::Tests(read, _) => Some(read.at),
            What::Call(reads) => reads.first().map(|read| read.at),
            _ => None,
        }
    }
}

impl What<'_> {
    /// Whether it is something that was done or concluded now.
    pub(super) fn is_action(&self) -> bool {
        match self {
            Self::Heard(_)
            | Self::Relayed(_)
            | Self::Answer(..)
            | Self::Notes(..)
            | Self::Change(..)
            | Self::Changes(_)
            | Self::Refused(_)
            | Self::Run(..)
            | Self::Call(_) => true,
            Self::Said(..)
            | Self::Rule(_)
            | Self::Question(_)
            | Self::Tests(..)
            | Self::File(..)
            | Self::Task(_)
            | Self::Carried(..)
            | Self::CarriedEntry(_)
            | Self::Told(_)
            | Self::Quote(..) => false,
        }
    }
}

/// What a candidate is made from.
pub(super) enum What<'d> {
    /// A person's words, and what came of them.
    Said(&'d Read, Stands),
    /// A rule out of a long message.
    Rule(String),
    /// Words that may be a person's.
    Heard(&'d Read),
    /// Words that a host passed on inside another block: kept like a person's, but nothing is asked or ruled by them.
    Relayed(&'d Read),
    /// The closing words to a request.
    Answer(&'d Read, Option<&'d Read>),
    /// Sentences of a reply in the middle of its work: those with these places.
    Notes(&'d Read, Vec<usize>),
    /// What a turn did to a file, with what changed it last.
    Change(&'d Read, File, Size),
    /// Changes of many files at once.
    Changes(&'d Read),
    /// An edit that was not applied.
    Refused(&'d Read),
    /// A command that was run, and how often it ended like this.
    Run(&'d Read, usize),
    /// Another tool's call, or several with the same answer.
    Call(Vec<&'d Read>),
    /// A question to the user with its answer.
    Question(&'d Read),
    /// The newest test run, and whether files were changed since.
    Tests(&'d Read, bool),
    /// What became of a file, and what an earlier checkpoint says of it.
    File(File, Option<&'d Redacted>),
    /// A task of the agent's list.
    Task(&'d Item),
    /// What an earlier checkpoint listed.
    Carried(Section, &'d Redacted),
    /// What an earlier checkpoint counted among the actions.
    CarriedEntry(&'d Completed),
    /// What a model told.
    Told(&'d Statement),
    /// Lines that an earlier checkpoint quoted, or that are on the topic.
    Quote(&'d Quoted, usize),
}

/// What came of what a person said, as far as anything shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    Open,
    /// The turn ended with an answer, and something else was said since.
    Answered,
    /// The work was handed in by a tool.
    HandedIn,
}

/// How much of a change is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// All that tells something.
    Work,
    /// A few lines, for it was made beside the work, or is gone.
    Scratch,
}

/// What a token is worth, by what it says.
struct Worth {
    said: f64,
    rule: f64,
    small_talk: f64,
    heard: f64,
    answer: f64,
    /// An answer that the next message says is not so.
    denied: f64,
    note: f64,
    change: f64,
    created: f64,
    undone: f64,
    refused: f64,
    run_failed: f64,
    run: f64,
    run_before: f64,
    call: f64,
    question: f64,
    tests: f64,
    file: f64,
    /// A file that was made beside the work.
    file_made: f64,
    file_read: f64,
    task: f64,
    carried: f64,
    /// What people said in a stretch that has its page.
    paged: f64,
    quoted: f64,
    /// What a model told: of what is to be done or holds, of what was done, and of the rest.
    told_open: f64,
    told_done: f64,
    told: f64,
}

const WORTH: Worth = Worth {
    said: 10.0,
    rule: 14.0,
    small_talk: 3.0,
    heard: 1.5,
    answer: 4.5,
    denied: 1.0,
    note: 0.85,
    change: 3.0,
    created: 1.8,
    undone: 0.5,
    refused: 1.6,
    run_failed: 2.6,
    run: 1.9,
    run_before: 1.3,
    call: 1.2,
    question: 4.0,
    tests: 5.0,
    file: 3.0,
    file_made: 1.0,
    file_read: 0.35,
    task: 8.0,
    carried: 3.0,
    paged: 1.4,
    quoted: 0.6,
    told_open: 12.0,
    told_done: 9.0,
    told: 9.5,
};

/// Before a person's words that a turn ended with an answer to.
pub(super) const ANSWERED: &str = "(answered) ";

/// Places of one block among the actions.
const PLACES: usize = 64;
/// Behind every place of a unit.
const BEHIND: usize = usize::MAX / 2;

pub(super) fn sketch<'d>(brief: &Brief<'d>) -> Vec<Sketch<'d>> {
    let mut sketches = Sketches { brief, list: Vec::new(), units: units(brief) };
    sketches.said();
    sketches.told();
    let files = sketches.changes();
    sketches.deeds();
    sketches.tests();
    sketches.tasks();
    sketches.files(files);
    sketches.carried();
    sketches.told_by_a_model();
    sketches.quotes();
    sketches.list
}

fn units(brief: &Brief<'_>) -> usize {
    let lists = [&brief.evidence.said, &brief.evidence.told, &brief.evidence.deeds];
    lists.iter().filter_map(|list| list.last()).map(|last| last.at.unit + 1).max().unwrap_or(1)
}

struct Sketches<'s, 'd> {
    brief: &'s Brief<'d>,
    list: Vec<Sketch<'d>>,
    units: usize,
}

impl<'d> Sketches<'_, 'd> {
    fn add(&mut self, what: What<'d>, (unit, place): (usize, usize), rate: f64) {
        let rate = rate * self.age(unit);
        self.list.push(Sketch { what, at: (unit + 1, place), number: 0, rate });
    }

    /// What is newer is worth more, but never all: a session has a beginning, too.
    fn age(&self, unit: usize) -> f64 {
        0.45 + 0.55 * unit as f64 / self.units as f64
    }

    fn folded(&self, list: &'d [Read]) -> impl DoubleEndedIterator<Item = &'d Read> + use<'d> {
        let folded = self.brief.folded;
        list.iter().filter(move |read| folded(read.at.unit))
    }

    /// The agent's list of tasks as it stood last, if that is not in sight.
    fn tasks(&mut self) {
        let newest = self.brief.evidence.newest_tasks().filter(|read| (self.brief.folded)(read.at.unit));
        let Some(newest) = newest else { return };
        for (place, task) in newest.tasks().iter().enumerate() {
            let rate = if task.kind == TaskState::Done { WORTH.file } else { WORTH.task };
            self.add(What::Task(task), (newest.at.unit, place), rate);
        }
    }

    /// What the checkpoint before said, as far as nothing newer takes its place: older than all else, and worth less each time.
    fn carried(&mut self) {
        let Some(before) = self.brief.previous else { return };
        let evidence = self.brief.evidence;
        let has_tasks = self.list.iter().any(|sketch| matches!(sketch.what, What::Task(_)))
            || evidence.newest_tasks().is_some();
        // What is told by pages need not be told again; what is meant to hold does. That is never said to be answered.
        let is_told_by_pages = !self.brief.earlier.is_empty();
        let is_paged = |section: Section, item: &Redacted| {
            let holds = has_rule(item.as_str()) && !item.as_str().starts_with(ANSWERED);
            section == Section::Goal && is_told_by_pages && !holds
        };
        let has_tests = evidence.deeds.iter().filter_map(Read::did).any(|did| did.action.tests.is_some());
        for section in Section::ALL {
            let rate = match section {
                Section::RemainingWork | Section::InProgress if has_tasks => continue,
                Section::ActiveState if has_tests => continue,
                Section::ActiveTask | Section::Goal | Section::Constraints => WORTH.said * 0.6,
                Section::RelevantFiles => WORTH.file * 0.6,
                _ => WORTH.carried,
            };
            let is_read =
                |item: &&Redacted| section == Section::RelevantFiles && item.as_str().ends_with("— read");
            let items = before.list(section);
            for (place, item) in items.iter().enumerate().filter(|(_, item)| !is_read(item)) {
                // What is said again is said once.
                if is_told_by_pages && items[place + 1..].contains(item) {
                    continue;
                }
                let rate = if is_paged(section, item) { WORTH.paged } else { rate };
                self.list.push(Sketch {
                    what: What::Carried(section, item),
                    at: (0, place),
                    number: 0,
                    rate,
                });
            }
        }
        for (place, completed) in before.completed().iter().enumerate() {
            let rate = WORTH.carried * (0.35 + 0.25 * place as f64 / before.completed().len() as f64);
            self.list.push(Sketch { what: What::CarriedEntry(completed), at: (0, place), number: 0, rate });
        }
    }

    /// What a model told, behind all else that is about the units which it tells of: its last words are of how things stand, and what it
    /// lost happened before.
    fn told_by_a_model(&mut self) {
        let statements = self.brief.told.map_or(&[][..], |told| told.statements);
        let of_all = statements.len() as f64;
        let behind = self.brief.told.and_then(|told| told.covers.last()).map_or(0, |last| last + 1);
        for (place, statement) in statements.iter().enumerate() {
            let rate = match statement.section {
                Section::ActiveTask | Section::Goal | Section::Constraints | Section::RemainingWork => {
                    WORTH.told_open
                }
                Section::InProgress | Section::Blocked | Section::PendingUserAsks => WORTH.told_open,
                Section::CompletedActions => WORTH.told_done * (0.7 + 0.3 * place as f64 / of_all),
                _ => WORTH.told,
            };
            self.list.push(Sketch {
                what: What::Told(statement),
                at: (behind, BEHIND + place),
                number: 0,
                rate,
            });
        }
    }

    fn quotes(&mut self) {
        if let Some(kept) = self.brief.kept {
            let lines = (0..kept.lines.len()).map(|line| (What::Quote(kept, line), (usize::MAX, line)));
            self.list.extend(lines.map(|(what, at)| Sketch { what, at, number: 0, rate: WORTH.rule }));
        }
        // What a host handed in before gives way to what it hands in now.
        let is_older = |quoted: &&Quoted| self.brief.kept.is_some_and(|kept| kept.source == quoted.source);
        let before = self.brief.previous.map_or(&[][..], |before| before.quoted());
        let before = before.iter().filter(|quoted| !is_older(quoted));
        for (source, quoted) in before.chain(self.brief.quotes).enumerate() {
            let worth = if quoted.is_summary() { WORTH.carried } else { WORTH.quoted };
            for line in 0..quoted.lines.len() {
                let what = What::Quote(quoted, line);
                self.list.push(Sketch {
                    what,
                    at: (source, line),
                    number: 0,
                    rate: worth * (1.0 + source as f64 / 100.0),
                });
            }
        }
    }
}
