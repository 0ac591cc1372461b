//! From evidence and the checkpoint before to pieces: what could stand in a checkpoint, and what each is worth.
//!
//! What is said of work is what the evidence says; where the newer says something else, the older goes.

use std::collections::{BTreeMap, HashSet};

use super::actions::{self, Line, TARGET, clip_line};
use super::clip::clip;
use super::fill::Draft;
use super::{Checkpoint, Section};
use crate::action::{Action, Outcome, Touched, Verb};
use crate::evidence::{
    Ask, Asker, Deed, Evidence, Request, RequestState, Said, SaidIn, SaidKind, Sense, Uses,
};
use crate::redact::{Content, Redacted, Redactor};

/// Something that could stand in a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) place: Place,
    pub(super) text: Redacted,
    /// Value per token.
    pub(super) weight: f64,
    pub(super) need: Need,
}

/// Where a piece stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// An item of a list.
    List(Section),
    /// A numbered action.
    Action(u32),
    /// A line of the source with this index.
    Line(usize),
}

/// Whether a piece may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Rather clipped than left out.
    Must,
    /// As its weight has it.
    Wanted,
}

/// Characters of a text that may be left out; what must stay is clipped only where the budget cannot hold it.
const WANTED: usize = 600;
/// Announcements of what comes next that are still of interest.
const ANNOUNCED: usize = 3;
/// A line of an earlier checkpoint's quotes: it was worth its tokens once, and nobody picked it again.
pub(super) const QUOTED_BEFORE: f64 = 0.5;

/// What the sections are worth, per token.
pub(super) const fn worth(section: Section) -> f64 {
    match section {
        Section::ActiveTask => 100.0,
        Section::Constraints => 90.0,
        Section::PendingUserAsks => 80.0,
        Section::Blocked => 60.0,
        Section::ActiveState => 50.0,
        Section::InProgress => 45.0,
        Section::Goal => 40.0,
        // They are folded to their part of the room first, and numbers without gaps read better.
        Section::CompletedActions => 30.0,
        Section::KeyDecisions => 25.0,
        Section::RemainingWork => 20.0,
        Section::RelevantFiles => 10.0,
        Section::ResolvedQuestions => 8.0,
        Section::CriticalContext => QUOTED_BEFORE,
    }
}

/// What the lists could hold, and the actions before they are folded and numbered.
pub(super) struct Gathered {
    pub(super) pieces: Vec<Piece>,
    pub(super) lines: Vec<Line>,
}

/// Gathers all but the quotes.
pub(super) fn gather(draft: &Draft<'_>, redactor: &mut Redactor) -> Gathered {
    let mut gather = Gather::new(draft, redactor);
    gather.tasks();
    gather.rules();
    gather.state();
    gather.under_way();
    gather.blocked();
    gather.decisions();
    gather.questions();
    gather.files();
    gather.carry(Section::CriticalContext, Need::Wanted, |_| true);
    let lines = gather.actions();
    diminish(&mut gather.pieces);
    Gathered { pieces: gather.pieces, lines }
}

/// The task alone, for the smallest checkpoint.
pub(super) fn task(draft: &Draft<'_>, redactor: &mut Redactor) -> Option<Redacted> {
    let mut gather = Gather::new(draft, redactor);
    gather.tasks();
    let mut pieces = gather.pieces.into_iter();
    pieces.find(|piece| piece.place == Place::List(Section::ActiveTask)).map(|piece| piece.text)
}

pub(super) struct Gather<'d> {
    draft: &'d Draft<'d>,
    pub(super) evidence: &'d Evidence,
    pub(super) before: &'d Checkpoint,
    redactor: &'d mut Redactor,
    pub(super) pieces: Vec<Piece>,
    /// What the sections have already.
    has: HashSet<(Section, Redacted)>,
    /// Tasks of the checkpoint before that came to their end since.
    pub(super) ended: Vec<Line>,
}

/// Before the first checkpoint there is none.
static NOTHING: std::sync::LazyLock<Checkpoint> = std::sync::LazyLock::new(Checkpoint::default);

impl<'d> Gather<'d> {
    fn new(draft: &'d Draft<'d>, redactor: &'d mut Redactor) -> Self {
        Self {
            draft,
            evidence: draft.evidence,
            before: draft.previous.unwrap_or(&NOTHING),
            redactor,
            pieces: Vec::new(),
            has: HashSet::new(),
            ended: Vec::new(),
        }
    }

    pub(super) fn redact(&mut self, text: &str) -> Redacted {
        self.redactor.redact(text, Content::Text).text
    }

    /// A text on one line of at most so many characters. It is redacted first, even where it fits: it may be cut later, beside
    /// others, and half a secret looks like none.
    pub(super) fn clipped(&mut self, text: &str, most: usize) -> String {
        clip_line(self.redact(text).as_str(), most)
    }

    /// An action with the first line of its error, if it had one.
    fn line(&mut self, action: &Action, error: Option<&str>) -> Line {
        let target = action.target.as_deref().map(|target| self.clipped(target, TARGET));
        let error = error.map(|error| self.clipped(error, TARGET));
        Line::of(action, target, error.as_deref())
    }

    pub(super) fn folded(&self, unit: usize) -> bool {
        (self.draft.folded)(unit)
    }

    pub(super) fn add(&mut self, section: Section, text: &str, need: Need, uses: Uses) {
        let text = text.trim_matches('\n');
        let text = match need {
            Need::Must => self.redact(text),
            Need::Wanted => Redacted::from_store(clip(self.redact(text).as_str(), WANTED)),
        };
        if text.as_str().trim().is_empty() || !self.has.insert((section, text.clone())) {
            return;
        }
        let weight = worth(section) * (1.0 + 0.1 * f64::from(uses.times.min(10)));
        self.pieces.push(Piece { place: Place::List(section), text, weight, need });
    }

    /// Carries what the checkpoint before listed.
    pub(super) fn carry(&mut self, section: Section, need: Need, stays: impl Fn(&str) -> bool) {
        for item in self.before.list(section).iter().filter(|item| stays(item.as_str())) {
            self.add(section, item.as_str(), need, Uses::default());
        }
    }

    /// Carries what the user did not take back since.
    pub(super) fn carry_what_stands(&mut self, section: Section) {
        let stays: Vec<Redacted> = self.before.list(section).to_vec();
        for item in
            stays.iter().filter(|item| !self.is_taken_back(item.as_str(), section)).collect::<Vec<_>>()
        {
            self.add(section, item.as_str(), Need::Wanted, Uses::default());
        }
    }

    /// Whether anything was done since the checkpoint before.
    fn went_on(&self) -> bool {
        self.evidence.deeds.iter().any(|deed| self.folded(deed.unit))
    }

    /// The newest of each; what nothing newer is known of stays.
    fn state(&mut self) {
        let state = &self.evidence.state;
        let tests =
            state.tests.map(|tests| format!("{} of {} passed", tests.passed, tests.passed + tests.failed));
        let changed = self.evidence.files.iter().filter_map(|file| {
            let last =
                file.touched.iter().rfind(|(unit, how)| *how != Touched::Read && self.folded(*unit))?;
            Some((last.0, file.path.clone()))
        });
        let changed = changed.max().map(|(_, path)| path);
        let known: [(&str, Vec<String>); 6] = [
            ("Directory", state.directory.iter().cloned().collect()),
            ("Branch", state.branch.iter().cloned().collect()),
            ("Tests", tests.into_iter().collect()),
            ("Running", state.processes.clone()),
            ("Environment", state.environment.clone()),
            ("Changed last", changed.into_iter().collect()),
        ];
        for (name, values) in known {
            if values.is_empty() {
                let of_name = |item: &str| item.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "));
                self.carry(Section::ActiveState, Need::Must, of_name);
            }
            for value in values {
                let need = if name == "Changed last" { Need::Wanted } else { Need::Must };
                self.add(Section::ActiveState, &format!("{name}: {value}"), need, Uses::default());
            }
        }
    }

    /// What was being done last, and what was announced after it: as it stands, not as an order.
    fn under_way(&mut self) {
        let evidence = self.evidence;
        let closed = evidence.closings.last().copied();
        let since = |said: &&Said| closed.is_none_or(|closed| said.unit > closed) && self.folded(said.unit);
        let folded: Vec<&Said> = evidence.said.iter().filter(since).collect();
        let (listed, told): (Vec<&Said>, Vec<&Said>) =
            folded.into_iter().partition(|said| said.source == SaidIn::TaskList);
        let done = told.iter().rposition(|said| said.kind == SaidKind::Done).map_or(0, |at| at + 1);
        let of = |said: &[&Said], kind: SaidKind| -> Vec<(String, Uses)> {
            said.iter().filter(|said| said.kind == kind).map(|said| (said.text.clone(), said.uses)).collect()
        };
        for (text, uses) in of(&listed, SaidKind::Doing) {
            self.add(Section::InProgress, &text, Need::Wanted, uses);
        }
        if let Some((text, uses)) = of(&told[done..], SaidKind::Doing).pop() {
            self.add(Section::InProgress, &text, Need::Wanted, uses);
        }
        if !self.went_on() {
            self.carry_what_stands(Section::InProgress);
        }
        let waiting = evidence.deeds.iter().rfind(|deed| self.folded(deed.unit));
        if let Some(deed) = waiting.filter(|deed| deed.action.outcome == Outcome::Unanswered) {
            let text = format!("No result yet: {}", self.line(&deed.action, None).text());
            self.add(Section::InProgress, &text, Need::Wanted, deed.uses);
        }
        let planned = of(&listed, SaidKind::Next);
        let announced = of(&told[done..], SaidKind::Next);
        if listed.is_empty() && announced.is_empty() && evidence.closings.is_empty() && done == 0 {
            self.carry_what_stands(Section::RemainingWork);
        }
        for (text, uses) in planned {
            self.add(Section::RemainingWork, &format!("On the task list, open: {text}"), Need::Wanted, uses);
        }
        for (text, uses) in &announced[announced.len().saturating_sub(ANNOUNCED)..] {
            let text = format!("Announced, not seen done: {}", text.trim());
            self.add(Section::RemainingWork, &text, Need::Wanted, *uses);
        }
    }

    /// Errors that nothing resolved, word for word.
    fn blocked(&mut self) {
        let evidence = self.evidence;
        let held = !self.before.list(Section::Blocked).is_empty();
        let fine = evidence.deeds.iter().filter(|deed| held && deed.action.outcome == Outcome::Succeeded);
        let fine: HashSet<String> =
            fine.filter_map(|deed| Some(self.clipped(deed.action.target.as_deref()?, TARGET))).collect();
        let resolved = |item: &str| fine.contains(item.split(" [tool: ").next().unwrap_or(item));
        self.carry(Section::Blocked, Need::Wanted, |item| !resolved(item));
        for problem in &evidence.problems {
            if problem.resolved.is_some() || !self.folded(problem.unit) {
                continue;
            }
            let target = problem.target.as_deref();
            let target = target.map_or(String::new(), |target| self.clipped(target, TARGET) + " ");
            let text = problem.text.trim_matches('\n');
            let gap = if text.contains('\n') { "\n" } else { " " };
            let item = format!("{target}[tool: {}] failed:{gap}{text}", problem.tool);
            self.add(Section::Blocked, &item, Need::Wanted, problem.uses);
        }
        if let Some(newest) =
            self.pieces.last_mut().filter(|last| last.place == Place::List(Section::Blocked))
        {
            newest.need = Need::Must;
        }
        let told = evidence.said.iter().rfind(|said| said.source == SaidIn::Text && self.folded(said.unit));
        if let Some(said) = told.filter(|said| said.kind == SaidKind::Blocked) {
            self.add(Section::Blocked, &said.text, Need::Wanted, said.uses);
        }
    }

    fn decisions(&mut self) {
        let carried = !self.before.list(Section::KeyDecisions).is_empty();
        let newer = self.evidence.decisions.iter().filter(|decision| carried && self.folded(decision.unit));
        let newer: Vec<Sense> = newer.map(|decision| Sense::of(&decision.text)).collect();
        let is_said_again = |item: &str| {
            let sense = Sense::of(item);
            newer.iter().any(|newer| newer.is_like(&sense))
        };
        self.carry(Section::KeyDecisions, Need::Wanted, |item| !is_said_again(item));
        for decision in &self.evidence.decisions {
            if self.folded(decision.unit) {
                let text = decision.text.trim();
                let reason =
                    decision.reason.as_deref().map(str::trim).filter(|reason| !text.contains(reason));
                let reason = reason.map_or(String::new(), |reason| format!(" (reason: {reason})"));
                self.add(Section::KeyDecisions, &format!("{text}{reason}"), Need::Wanted, decision.uses);
            }
        }
    }

    fn questions(&mut self) {
        self.carry(Section::ResolvedQuestions, Need::Wanted, |_| true);
        let evidence = self.evidence;
        for question in &evidence.questions {
            if !self.folded(question.unit) {
                continue;
            }
            let text = question.text.trim();
            match (&question.answer, question.by) {
                (Some(answer), _) => {
                    let text = format!("{text}\nAnswer: {}", answer.trim());
                    self.add(Section::ResolvedQuestions, &text, Need::Wanted, question.uses);
                }
                (None, Asker::Assistant) => {
                    let text = format!("Asked of the user, not answered yet: {text}");
                    self.add(Section::PendingUserAsks, &text, Need::Wanted, question.uses);
                }
                (None, Asker::User) => {
                    // One that is a request of its own stands among the requests.
                    let is_beside =
                        |request: &&Request| request.unit == question.unit && request.ask != Ask::Question;
                    let asked = evidence.requests.iter().find(is_beside);
                    if asked.is_some_and(|request| request.state == RequestState::Open) {
                        let text = format!("Asked by the user, not answered yet: {text}");
                        self.add(Section::PendingUserAsks, &text, Need::Wanted, question.uses);
                    }
                }
            }
        }
    }

    /// The lines of Completed Actions: those before, what was in progress then, requests that came to their end, the deeds.
    fn actions(&mut self) -> Vec<Line> {
        let evidence = self.evidence;
        let mut lines: Vec<Line> = self
            .before
            .completed()
            .iter()
            .map(|line| Line::written(line.number, line.text.as_str()))
            .collect();
        let mut new: Vec<(usize, Line)> = Vec::new();
        if self.went_on() {
            for item in self.before.list(Section::InProgress) {
                new.push((
                    0,
                    Line::of_request("BEGIN", item.as_str(), "in progress at the checkpoint before"),
                ));
            }
        }
        new.extend(std::mem::take(&mut self.ended).into_iter().map(|line| (0, line)));
        for (index, request) in evidence.requests.iter().enumerate() {
            // What became of the first request of all is told under Goal.
            if !self.folded(request.unit) || index == 0 && self.before.is_empty(Section::Goal) {
                continue;
            }
            let (verb, outcome) = match request.state {
                RequestState::Open => continue,
                RequestState::Done if request.ask == Ask::Question => ("ANSWER", "answered"),
                RequestState::Done => ("FINISH", "done"),
                RequestState::Cancelled => ("CANCEL", "withdrawn by the user"),
            };
            let settled = request.settled.unwrap_or(request.unit);
            new.push((settled, Line::of_request(verb, &self.clipped(&request.gist, TARGET), outcome)));
        }
        let errors: BTreeMap<usize, &str> =
            evidence.problems.iter().map(|problem| (problem.unit, first_line(&problem.text))).collect();
        // A list of tasks that was brought up to date is told by its newest state.
        // A result that nobody asked for tells of no deed.
        let told = |deed: &&Deed| {
            let action = &deed.action;
            action.target.is_some() || action.verb != Verb::Note && !action.tool.is_empty()
        };
        let folded = self.draft.folded;
        for deed in evidence.deeds.iter().filter(|deed| folded(deed.unit)).filter(told) {
            let failed = deed.action.outcome == Outcome::Failed;
            let error = errors.get(&deed.unit).copied().filter(|_| failed);
            new.push((deed.unit, self.line(&deed.action, error)));
        }
        new.sort_by_key(|(unit, _)| *unit);
        lines.extend(new.into_iter().map(|(_, line)| line));
        actions::fold_runs(lines)
    }
}

/// Makes each older item of some lists worth less than the one after it, so that no list takes what another needs more. Files
/// that were changed are not among them: a handover names them all while it can.
fn diminish(pieces: &mut [Piece]) {
    const LONG: [Section; 3] = [Section::Blocked, Section::KeyDecisions, Section::ResolvedQuestions];
    for section in LONG {
        let of_it = pieces.iter_mut().rev().filter(|piece| piece.place == Place::List(section));
        for (age, piece) in of_it.enumerate() {
            piece.weight /=
                if section == Section::Blocked { (1.0 + age as f64).powi(2) } else { 1.0 + age as f64 / 4.0 };
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}
