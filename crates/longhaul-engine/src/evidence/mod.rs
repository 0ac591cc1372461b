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
mod names;
mod phrases;
mod problems;
mod prompt;
mod prose;
mod reply;
mod state;
#[cfg(test)]
mod tests;
mod todo;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::{Action, Actions, Outcome, Touched, Verb};
use crate::known::{ContentKey, Known};
use crate::transcript::{Block, BlockKind, Exchange, Speaker, Transcript, UnitKind};

use exchange::Did;
use names::Index;
use prompt::Spoken;
use reply::Told;
use turns::Turns;

pub use names::Uses;
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

/// What is known of one block or exchange by its content alone.
#[derive(Debug)]
pub(crate) enum Reading {
    Spoken(Spoken),
    Told(Told),
    Did(Did),
    /// A note of the program around the model.
    Note(Option<state::Sign>),
}

impl Reading {
    /// The bytes that it takes, about.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Spoken(spoken) => spoken.size(),
            Self::Told(told) => told.size(),
            Self::Did(did) => did.size(),
            Self::Note(_) => 64,
        }
    }
}

/// How a block is read: the same words mean something else in another mouth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reader {
    Prompt,
    Reply,
    Exchange,
    Note,
}

/// How much of a note is looked at.
const NOTE_GLANCE: usize = 4_000;

/// A decision that is among so many newest is not said again.
const RECENT: usize = 32;

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
        let readings = transcript.units.iter().map(|unit| read_unit(known, &unit.kind)).collect::<Vec<_>>();
        let mut gathered = Gathered::default();
        for block in transcript.preamble.iter().filter(|block| block.kind == BlockKind::System) {
            gathered.note(&note(known, block));
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

type Readings = Vec<Arc<Reading>>;

fn read_unit(known: &mut Known, kind: &UnitKind<'_>) -> Readings {
    match kind {
        UnitKind::Prompt { by: Speaker::User, blocks } => words(blocks)
            .map(|block| read_block(known, Reader::Prompt, block, |text| Reading::Spoken(Spoken::of(text))))
            .collect(),
        UnitKind::Prompt { by: Speaker::Host, blocks } => {
            words(blocks).map(|block| note(known, block)).collect()
        }
        UnitKind::Step { reply, exchanges } => {
            let told = words(reply)
                .map(|block| read_block(known, Reader::Reply, block, |text| Reading::Told(Told::of(text))));
            let mut readings: Readings = told.collect();
            readings.extend(exchanges.iter().map(|exchange| read_exchange(known, exchange)));
            readings
        }
        UnitKind::Prompt { by: Speaker::Unsure, .. } | UnitKind::Checkpoint(_) | UnitKind::Opaque(_) => {
            Vec::new()
        }
    }
}

fn words<'t, 'b>(blocks: &'t [Block<'b>]) -> impl Iterator<Item = &'t Block<'b>> {
    blocks.iter().filter(|block| block.kind == BlockKind::Text)
}

fn note(known: &mut Known, block: &Block<'_>) -> Arc<Reading> {
    let read = || {
        Reading::Note(
            state::of_note(&block.opening(NOTE_GLANCE))
                .or_else(|| state::of_note(&block.ending(NOTE_GLANCE))),
        )
    };
    known.reading((ContentKey::of(0, block.raw().as_bytes()), Reader::Note), read)
}

fn read_block(
    known: &mut Known,
    reader: Reader,
    block: &Block<'_>,
    read: impl FnOnce(&str) -> Reading,
) -> Arc<Reading> {
    let form = block.text.map_or(0, |text| text.form as u8);
    known.reading((ContentKey::of(form, block.raw().as_bytes()), reader), || read(&block.text()))
}

fn read_exchange(known: &mut Known, exchange: &Exchange<'_>) -> Arc<Reading> {
    let blocks = exchange.call.iter().chain(&exchange.results).map(|block| block.raw().as_bytes());
    let ended =
        [exchange.status as u8, exchange.failed.map_or(2, u8::from), u8::from(exchange.answers.is_empty())];
    let parts = [exchange.tool.as_bytes(), &ended].into_iter().chain(blocks);
    known.reading((ContentKey::of_parts(parts), Reader::Exchange), || Reading::Did(Did::of(exchange)))
}

/// Evidence on its way: items beside the names by which later turns may refer to them.
#[derive(Default)]
struct Gathered {
    evidence: Evidence,
    files: BTreeMap<String, FileFact>,
    tracker: problems::Tracker,
    problem_names: Vec<Arc<Reading>>,
    decision_names: Vec<(Arc<Reading>, usize)>,
    said_names: Vec<Option<(Arc<Reading>, usize)>>,
}

impl Gathered {
    fn note(&mut self, reading: &Reading) {
        if let Reading::Note(Some(sign)) = reading {
            self.evidence.state.take(sign);
        }
    }

    fn unit(&mut self, unit: usize, kind: &UnitKind<'_>, readings: &Readings, turns: &mut Turns) {
        let spoken: Vec<&Spoken> = readings.iter().filter_map(|reading| reading.spoken()).collect();
        if !spoken.is_empty() {
            turns.prompt(unit, &spoken);
        }
        readings.iter().for_each(|reading| self.note(reading));
        if !matches!(kind, UnitKind::Step { .. }) {
            return;
        }
        let told: Vec<&Told> = readings.iter().filter_map(|reading| reading.told()).collect();
        let did: Vec<&Did> = readings.iter().filter_map(|reading| reading.did()).collect();
        turns.step(unit, &told, &did);
        for reading in readings {
            match &**reading {
                Reading::Told(told) => self.told(unit, reading, told, did.is_empty()),
                Reading::Did(did) => self.did(unit, reading, did),
                Reading::Spoken(_) | Reading::Note(_) => {}
            }
        }
    }

    fn told(&mut self, unit: usize, reading: &Arc<Reading>, told: &Told, ends_turn: bool) {
        for (at, made) in told.decisions.iter().enumerate() {
            if self.evidence.decisions.iter().rev().take(RECENT).any(|other| other.text == made.text) {
                continue;
            }
            let (text, reason) = (made.text.clone(), made.reason.clone());
            self.evidence.decisions.push(Decision { unit, text, reason, uses: Uses::default() });
            self.decision_names.push((Arc::clone(reading), at));
        }
        for (at, said) in told.said.iter().enumerate() {
            // What is announced at the end of a turn is not being done.
            let kind = if said.kind == SaidKind::Doing && ends_turn { SaidKind::Next } else { said.kind };
            let text = said.text.clone();
            self.evidence.said.push(Said { unit, text, kind, source: SaidIn::Text, uses: Uses::default() });
            self.said_names.push(Some((Arc::clone(reading), at)));
        }
        self.tasks(unit, &told.todo);
    }

    /// A list of tasks takes the place of the one before.
    fn tasks(&mut self, unit: usize, items: &[todo::Item]) {
        if items.is_empty() {
            return;
        }
        let mut keep = self.evidence.said.iter().map(|said| said.source == SaidIn::Text);
        self.said_names.retain(|_| keep.next().unwrap_or(true));
        self.evidence.said.retain(|said| said.source == SaidIn::Text);
        for item in items {
            let (text, kind) = (item.text.clone(), item.kind);
            self.evidence.said.push(Said {
                unit,
                text,
                kind,
                source: SaidIn::TaskList,
                uses: Uses::default(),
            });
            self.said_names.push(None);
        }
    }

    fn did(&mut self, unit: usize, reading: &Arc<Reading>, did: &Did) {
        let exchange = self.evidence.deeds.iter().rev().take_while(|deed| deed.unit == unit).count();
        let action = Arc::clone(&did.action);
        let uses = Uses { times: 0, last: unit };
        self.tasks(unit, &did.todo);
        self.touch(unit, &action);
        if let Some(tests) = action.tests {
            self.evidence.state.tests = Some(tests);
            self.evidence.state.tested = Some(unit);
        }
        did.signs.iter().for_each(|sign| self.evidence.state.take(sign));
        self.tracker.settle(unit, &action, &mut self.evidence.problems);
        if !did.errors.is_empty() {
            let (tool, target) = (action.tool.clone(), action.target.clone());
            self.tracker.open(self.evidence.problems.len(), &action);
            self.evidence.problems.push(Problem {
                unit,
                tool,
                target,
                text: did.errors.join("\n"),
                resolved: None,
                uses,
            });
            self.problem_names.push(Arc::clone(reading));
        }
        self.evidence.deeds.push(Deed { unit, exchange, action, uses });
    }

    fn touch(&mut self, unit: usize, action: &Action) {
        // A script that fails at its end may have written before; a tool for files that fails has not.
        let happened = match action.outcome {
            Outcome::Failed => action.verb == Verb::Run,
            Outcome::Unanswered => false,
            Outcome::Succeeded | Outcome::Unknown => true,
        };
        if !happened {
            return;
        }
        for touch in &action.files {
            let key = state::below(self.evidence.state.directory.as_deref(), &touch.path);
            let path = || touch.path.clone();
            let file = self.files.entry(key).or_insert_with(|| FileFact {
                path: path(),
                touched: Vec::new(),
                uses: Uses::default(),
            });
            if file.touched.last() != Some(&(unit, touch.how)) {
                file.touched.push((unit, touch.how));
            }
        }
    }

    fn finish(mut self, turns: Turns, readings: &[Readings]) -> Evidence {
        let mut evidence = self.evidence;
        let Turns { requests, rules, once_only, questions, reversals, closings, .. } = turns;
        evidence = Evidence { requests, rules, once_only, questions, reversals, closings, ..evidence };
        evidence.files = std::mem::take(&mut self.files).into_values().collect();
        evidence.files.sort_by_key(|file| file.touched.last().copied());
        let files: Vec<[u64; 2]> =
            evidence.files.iter().map(|file| names::names_of_path(&file.path)).collect();
        let own = |unit: usize| {
            readings[unit]
                .iter()
                .filter_map(|reading| reading.spoken())
                .flat_map(|spoken| spoken.names.iter().copied())
        };
        let asked = files.iter().flatten().copied();
        let asked = asked.chain(
            self.problem_names
                .iter()
                .filter_map(|reading| reading.did())
                .flat_map(|did| did.error_names.iter().copied()),
        );
        let asked = asked.chain(evidence.requests.iter().flat_map(|request| own(request.unit)));
        let asked = asked.chain(
            self.decision_names
                .iter()
                .filter_map(|(reading, at)| Some(&reading.told()?.decisions[*at].names))
                .flatten()
                .copied(),
        );
        let asked = asked.chain(
            self.said_names
                .iter()
                .flatten()
                .filter_map(|(reading, at)| Some(&reading.told()?.said[*at].names))
                .flatten()
                .copied(),
        );
        let mut index = Index::of(asked);
        for (unit, readings) in readings.iter().enumerate() {
            readings.iter().for_each(|reading| index.note(unit, reading.names()));
        }
        for (file, names) in evidence.files.iter_mut().zip(&files) {
            file.uses = index.uses(file.touched.first().map_or(0, |(unit, _)| *unit), names);
        }
        for (problem, reading) in evidence.problems.iter_mut().zip(&self.problem_names) {
            problem.uses = index.uses(problem.unit, reading.did().map_or(&[], |did| &did.error_names));
        }
        for (decision, (reading, at)) in evidence.decisions.iter_mut().zip(&self.decision_names) {
            decision.uses =
                index.uses(decision.unit, reading.told().map_or(&[], |told| &told.decisions[*at].names));
        }
        for (said, source) in evidence.said.iter_mut().zip(&self.said_names) {
            let names =
                source.as_ref().and_then(|(reading, at)| Some(reading.told()?.said[*at].names.as_slice()));
            said.uses = index.uses(said.unit, names.unwrap_or_default());
        }
        for deed in &mut evidence.deeds {
            let paths: Vec<u64> = deed
                .action
                .files
                .iter()
                .take(4)
                .flat_map(|touch| names::names_of_path(&touch.path))
                .collect();
            deed.uses = index.uses(deed.unit, &paths);
        }
        let of_prompt = |unit: usize| index.uses(unit, &own(unit).collect::<Vec<_>>());
        evidence.requests.iter_mut().for_each(|request| request.uses = of_prompt(request.unit));
        evidence.rules.iter_mut().for_each(|rule| rule.uses = of_prompt(rule.unit));
        evidence.once_only.iter_mut().for_each(|once| once.uses = of_prompt(once.unit));
        evidence.questions.iter_mut().for_each(|question| question.uses = of_prompt(question.unit));
        evidence
    }
}

impl Reading {
    fn spoken(&self) -> Option<&Spoken> {
        match self {
            Self::Spoken(spoken) => Some(spoken),
            _ => None,
        }
    }

    fn told(&self) -> Option<&Told> {
        match self {
            Self::Told(told) => Some(told),
            _ => None,
        }
    }

    fn did(&self) -> Option<&Did> {
        match self {
            Self::Did(did) => Some(did),
            _ => None,
        }
    }

    fn names(&self) -> &[u64] {
        match self {
            Self::Spoken(spoken) => &spoken.names,
            Self::Told(told) => &told.names,
            Self::Did(did) => &did.names,
            Self::Note(_) => &[],
        }
    }
}
