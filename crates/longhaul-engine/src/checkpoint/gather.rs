//! From evidence, the checkpoint before and quotes to pieces: what could stand in a checkpoint, and what each is worth.

use std::collections::{BTreeMap, HashMap};

use super::actions::{self, Line, clip_line};
use super::clip::{clip, is_clipped_form_of};
use super::fill::Draft;
use super::{Checkpoint, Section};
use crate::action::{Outcome, Touched};
use crate::evidence::{Evidence, RequestState, Said, SaidKind, Uses};
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
/// Characters of a request whose full text stays in the transcript anyway.
const IN_PLACE: usize = 300;

/// Shorter lines than this may stand twice: a brace is not a repetition.
const TELLING: usize = 12;
/// Characters of the first request that Goal shows while its full text stands under Active Task or Pending User Asks.
const GOAL: usize = 160;

/// What the sections are worth, per token.
fn worth(section: Section) -> f64 {
    match section {
        Section::ActiveTask => 100.0,
        Section::Constraints => 90.0,
        Section::PendingUserAsks => 80.0,
        Section::Blocked => 60.0,
        Section::ActiveState => 50.0,
        Section::InProgress => 45.0,
        Section::Goal => 40.0,
        Section::KeyDecisions => 25.0,
        Section::RemainingWork => 20.0,
        Section::CompletedActions => 12.0,
        Section::RelevantFiles => 10.0,
        Section::ResolvedQuestions => 8.0,
        Section::CriticalContext => 1.0,
    }
}

/// A line of an earlier checkpoint's quotes: it was worth its tokens once, and was not named since.
const QUOTED_BEFORE: f64 = 0.5;

/// Everything that lists could hold, the actions before they are numbered, and what has to do with neither.
pub(super) struct Gathered {
    pub(super) pieces: Vec<Piece>,
    pub(super) lines: Vec<Line>,
    pub(super) last_number: u32,
}

/// Gathers all but the quotes.
pub(super) fn gather(draft: &Draft<'_>, redactor: &mut Redactor) -> Gathered {
    let nothing = Checkpoint::default();
    let before = draft.previous.unwrap_or(&nothing);
    let mut gather =
        Gather { draft, evidence: draft.evidence, before, redactor, pieces: Vec::new(), ended: Vec::new() };
    gather.tasks();
    gather.rules();
    gather.state();
    gather.under_way();
    gather.blocked();
    gather.decisions();
    gather.questions();
    gather.files();
    let lines = gather.actions();
    gather.pieces.extend(before.list(Section::CriticalContext).iter().map(|text| Piece {
        place: Place::List(Section::CriticalContext),
        text: text.clone(),
        weight: QUOTED_BEFORE,
        need: Need::Wanted,
    }));
    let last_number = before.completed().iter().map(|line| line.number).max().unwrap_or(0);
    Gathered { pieces: gather.pieces, lines, last_number }
}

struct Gather<'d> {
    draft: &'d Draft<'d>,
    evidence: &'d Evidence,
    before: &'d Checkpoint,
    redactor: &'d mut Redactor,
    pieces: Vec<Piece>,
    /// Tasks of the checkpoint before that came to their end since.
    ended: Vec<Line>,
}

impl Gather<'_> {
    fn redact(&mut self, text: &str) -> Redacted {
        self.redactor.redact(text, Content::Text).text
    }

    fn add(&mut self, section: Section, text: &str, need: Need, uses: Uses) {
        let clipped;
        let text = match need {
            Need::Must => text.trim_matches('\n'),
            Need::Wanted => {
                clipped = clip(text.trim_matches('\n'), WANTED);
                &clipped
            }
        };
        let text = self.redact(text);
        let place = Place::List(section);
        if text.as_str().trim().is_empty() || self.pieces.iter().any(|p| p.place == place && p.text == text) {
            return;
        }
        let weight = worth(section) * (1.0 + 0.1 * f64::from(uses.times.min(10)));
        self.pieces.push(Piece { place, text, weight, need });
    }

    /// Carries what the checkpoint before listed.
    fn carry(&mut self, section: Section, need: Need, stays: impl Fn(&str) -> bool) {
        let before = self.before;
        for item in before.list(section).iter().filter(|item| stays(item.as_str())) {
            self.add(section, item.as_str(), need, Uses::default());
        }
    }

    fn folded(&self, unit: usize) -> bool {
        (self.draft.folded)(unit)
    }

    /// The newest open request is the task; older ones are asks that wait. What the checkpoint before held open stays open until the
    /// evidence says otherwise.
    fn tasks(&mut self) {
        let evidence = self.evidence;
        let texts: Vec<String> =
            evidence.requests.iter().map(|request| self.redact(&request.text).into_string()).collect();
        let held = |section: &Section| self.before.list(*section).iter().map(Redacted::as_str);
        let held: Vec<&str> = [Section::PendingUserAsks, Section::ActiveTask].iter().flat_map(held).collect();
        let is_new = |text: &String| !held.iter().any(|item| is_clipped_form_of(item, text));
        let first_new = texts.iter().position(is_new).map_or(usize::MAX, |at| evidence.requests[at].unit);
        let finished = finished_before(evidence, first_new);
        let mut open: Vec<(String, Uses)> = Vec::new();
        for item in held {
            let told = texts.iter().position(|text| is_clipped_form_of(item, text));
            let state = told.map(|at| evidence.requests[at].state);
            let answered =
                evidence.questions.iter().any(|q| q.answer.is_some() && item.contains(q.text.trim()));
            let end = match state {
                Some(RequestState::Open) => continue,
                None if !finished && !answered => {
                    open.push((item.to_owned(), Uses::default()));
                    continue;
                }
                Some(RequestState::Cancelled) => "withdrawn by the user",
                Some(RequestState::Done) => "done",
                None => "reported as done",
            };
            self.end_goal(item, end);
            if told.is_none() && !answered {
                self.ended.push(Line::of_request("FINISH", item, end));
            }
        }
        let newest = evidence.requests.iter().rposition(|request| request.state == RequestState::Open);
        for (index, request) in evidence.requests.iter().enumerate() {
            if request.state == RequestState::Open && self.folded(request.unit) {
                open.push((request.text.clone(), request.uses));
            } else if Some(index) == newest {
                open.push((clip(&request.text, IN_PLACE), request.uses));
            }
        }
        if let Some((text, uses)) = open.pop() {
            self.add(Section::ActiveTask, &text, Need::Must, uses);
        }
        for (text, uses) in open {
            self.add(Section::PendingUserAsks, &text, Need::Must, uses);
        }
        self.goal();
    }

    /// The first request in full, once it stands nowhere else.
    fn end_goal(&mut self, request: &str, end: &str) {
        let goal = self.before.list(Section::Goal).first().map_or("", Redacted::as_str);
        if is_clipped_form_of(goal, request) {
            self.add(
                Section::Goal,
                &format!("The first request, {end}: {}", request.trim()),
                Need::Must,
                Uses::default(),
            );
        }
    }

    /// What it is all for: the first request, with what became of it.
    fn goal(&mut self) {
        let place = Place::List(Section::Goal);
        if self.pieces.iter().any(|piece| piece.place == place) {
            return;
        }
        if !self.before.list(Section::Goal).is_empty() {
            return self.carry(Section::Goal, Need::Must, |_| true);
        }
        let Some(first) = self.evidence.requests.first().filter(|first| self.folded(first.unit)) else {
            return;
        };
        let text = first.text.trim();
        match first.state {
            RequestState::Open => self.add(Section::Goal, &clip(text, GOAL), Need::Wanted, first.uses),
            RequestState::Done => {
                self.add(Section::Goal, &format!("The first request, done: {text}"), Need::Must, first.uses);
            }
            RequestState::Cancelled => {
                let text = format!("The first request, withdrawn by the user: {text}");
                self.add(Section::Goal, &text, Need::Must, first.uses);
            }
        }
    }

    fn rules(&mut self) {
        self.carry(Section::Constraints, Need::Must, |_| true);
        for rule in &self.evidence.rules {
            if self.folded(rule.unit) {
                self.add(Section::Constraints, &rule.text, Need::Must, rule.uses);
            }
        }
    }

    /// The newest of each; what nothing newer is known of stays.
    fn state(&mut self) {
        let state = &self.evidence.state;
        let tests =
            state.tests.map(|tests| format!("{} of {} passed", tests.passed, tests.passed + tests.failed));
        let changed = self
            .evidence
            .files
            .iter()
            .filter(|file| file.touched.iter().any(|(unit, how)| *how != Touched::Read && self.folded(*unit)))
            .count();
        let known: [(&str, Vec<String>); 6] = [
            ("Directory", state.directory.iter().cloned().collect()),
            ("Branch", state.branch.iter().cloned().collect()),
            (
                "Files changed",
                (changed > 0).then(|| format!("{changed}, see Relevant Files")).into_iter().collect(),
            ),
            ("Tests", tests.into_iter().collect()),
            ("Running", state.processes.clone()),
            ("Environment", state.environment.clone()),
        ];
        for (name, values) in known {
            if values.is_empty() {
                let of_name = |item: &str| item.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "));
                self.carry(Section::ActiveState, Need::Must, of_name);
            }
            for value in values {
                self.add(Section::ActiveState, &format!("{name}: {value}"), Need::Must, Uses::default());
            }
        }
    }

    /// What was being done last, and what was announced after it.
    fn under_way(&mut self) {
        let evidence = self.evidence;
        let folded: Vec<&Said> = evidence.said.iter().filter(|said| self.folded(said.unit)).collect();
        let done = folded.iter().rposition(|said| said.kind == SaidKind::Done).map_or(0, |at| at + 1);
        let since = &folded[done..];
        if let Some(doing) = since.iter().rfind(|said| said.kind == SaidKind::Doing) {
            self.add(Section::InProgress, &doing.text, Need::Wanted, doing.uses);
        } else if !self.went_on() {
            self.carry(Section::InProgress, Need::Wanted, |_| true);
        }
        let waiting = evidence.deeds.iter().filter(|deed| self.folded(deed.unit)).next_back();
        if let Some(deed) = waiting.filter(|deed| deed.action.outcome == Outcome::Unanswered) {
            let text = format!("No result yet: {}", Line::of(&deed.action, None).text());
            self.add(Section::InProgress, &text, Need::Wanted, deed.uses);
        }
        let next: Vec<&&Said> = since.iter().filter(|said| said.kind == SaidKind::Next).collect();
        for said in &next[next.len().saturating_sub(3)..] {
            let text = format!("Announced and not seen done: {}", said.text.trim());
            self.add(Section::RemainingWork, &text, Need::Wanted, said.uses);
        }
        if next.is_empty() && done == 0 {
            self.carry(Section::RemainingWork, Need::Wanted, |_| true);
        }
    }

    /// Whether anything was done since the checkpoint before.
    fn went_on(&self) -> bool {
        self.evidence.deeds.iter().any(|deed| self.folded(deed.unit))
    }

    /// Errors that nothing resolved, word for word.
    fn blocked(&mut self) {
        let evidence = self.evidence;
        let resolved = |item: &str| {
            let head = item.split(" [tool: ").next().unwrap_or(item);
            evidence.deeds.iter().any(|deed| {
                deed.action.outcome == Outcome::Succeeded
                    && deed.action.target.as_deref().is_some_and(|target| clip_line(target, 120) == head)
            })
        };
        self.carry(Section::Blocked, Need::Must, |item| !resolved(item));
        for problem in &evidence.problems {
            if problem.resolved.is_some() || !self.folded(problem.unit) {
                continue;
            }
            let of_it =
                |deed: &&crate::evidence::Deed| deed.unit == problem.unit && deed.action.tool == problem.tool;
            let target = evidence.deeds.iter().find(of_it).and_then(|deed| deed.action.target.as_deref());
            let target = target.map_or(String::new(), |target| format!("{} ", clip_line(target, 120)));
            let text = problem.text.trim_matches('\n');
            let gap = if text.contains('\n') { "\n" } else { " " };
            let item = format!("{target}[tool: {}] failed:{gap}{text}", problem.tool);
            self.add(Section::Blocked, &item, Need::Must, problem.uses);
        }
        let last = evidence.said.iter().filter(|said| self.folded(said.unit)).next_back();
        if let Some(said) = last.filter(|said| said.kind == SaidKind::Blocked) {
            self.add(Section::Blocked, &said.text, Need::Wanted, said.uses);
        }
    }

    fn decisions(&mut self) {
        self.carry(Section::KeyDecisions, Need::Wanted, |_| true);
        for decision in &self.evidence.decisions {
            if self.folded(decision.unit) {
                let text = decision.text.trim();
                let text = match &decision.reason {
                    Some(reason) if !text.contains(reason.trim()) => {
                        format!("{text} (reason: {})", reason.trim())
                    }
                    _ => text.to_owned(),
                };
                self.add(Section::KeyDecisions, &text, Need::Wanted, decision.uses);
            }
        }
    }

    fn questions(&mut self) {
        self.carry(Section::ResolvedQuestions, Need::Wanted, |_| true);
        for question in &self.evidence.questions {
            if !self.folded(question.unit) {
                continue;
            }
            let text = question.text.trim();
            if let Some(answer) = &question.answer {
                let text = format!("{text}\nAnswer: {}", answer.trim());
                self.add(Section::ResolvedQuestions, &text, Need::Wanted, question.uses);
            } else {
                let text = format!("Not answered yet: {text}");
                self.add(Section::PendingUserAsks, &text, Need::Wanted, question.uses);
            }
        }
    }

    /// Files with what was done to each over all checkpoints, the newest last.
    fn files(&mut self) {
        let mut files: Vec<(String, Touches, Uses)> = Vec::new();
        for item in self.before.list(Section::RelevantFiles) {
            let (path, words) = item.as_str().rsplit_once(" — ").unwrap_or((item.as_str(), ""));
            files.push((path.to_owned(), Touches::read(words), Uses::default()));
        }
        let mut places: BTreeMap<String, usize> =
            files.iter().enumerate().map(|(at, (path, ..))| (path.clone(), at)).collect();
        for file in &self.evidence.files {
            let mut touches = Touches::default();
            for (_, how) in file.touched.iter().filter(|(unit, _)| self.folded(*unit)) {
                touches.count(*how, 1);
            }
            if touches == Touches::default() {
                continue;
            }
            let path = self.redact(&clip_line(&file.path, 400)).into_string();
            if let Some(at) = places.insert(path.clone(), files.len()) {
                let old = std::mem::take(&mut files[at]);
                touches.add(&old.1);
            }
            files.push((path, touches, file.uses));
        }
        for (path, touches, uses) in files {
            if path.is_empty() {
                continue;
            }
            let text = format!("{path} — {}", touches.words());
            self.add(Section::RelevantFiles, &text, Need::Wanted, uses);
            if let Some(piece) = self.pieces.last_mut().filter(|_| touches.only_read()) {
                piece.weight *= 0.2;
            }
        }
    }

    /// The lines of Completed Actions: those before, what was in progress then, requests that came to their end, the deeds.
    fn actions(&mut self) -> Vec<Line> {
        let evidence = self.evidence;
        let before = self.before;
        let mut lines: Vec<Line> =
            before.completed().iter().map(|line| Line::written(line.number, line.text.as_str())).collect();
        let mut new: Vec<(usize, Line)> = Vec::new();
        if self.went_on() {
            for item in before.list(Section::InProgress) {
                new.push((
                    0,
                    Line::of_request("WORK ON", item.as_str(), "in progress at the checkpoint before"),
                ));
            }
        }
        new.extend(std::mem::take(&mut self.ended).into_iter().map(|line| (0, line)));
        for request in evidence.requests.iter().filter(|request| self.folded(request.unit)) {
            let (verb, outcome) = match request.state {
                RequestState::Open => continue,
                RequestState::Done => ("FINISH", "done"),
                RequestState::Cancelled => ("CANCEL", "withdrawn by the user"),
            };
            new.push((request.unit, Line::of_request(verb, &request.text, outcome)));
        }
        let errors: BTreeMap<usize, &str> =
            evidence.problems.iter().map(|problem| (problem.unit, first_line(&problem.text))).collect();
        for deed in evidence.deeds.iter().filter(|deed| self.folded(deed.unit)) {
            let failed = deed.action.outcome == Outcome::Failed;
            let error = errors.get(&deed.unit).copied().filter(|_| failed);
            new.push((deed.unit, Line::of(&deed.action, error)));
        }
        new.sort_by_key(|(unit, _)| *unit);
        lines.extend(new.into_iter().map(|(_, line)| line));
        actions::fold_runs(lines)
    }
}

/// Whether the last thing that the assistant said before this unit is that it is done.
fn finished_before(evidence: &Evidence, unit: usize) -> bool {
    evidence.said.iter().rfind(|said| said.unit < unit).is_some_and(|said| said.kind == SaidKind::Done)
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// How often what was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Touches([u32; 4]);

impl Touches {
    const WORDS: [(Touched, &'static str); 4] = [
        (Touched::Created, "created"),
        (Touched::Edited, "edited"),
        (Touched::Deleted, "deleted"),
        (Touched::Read, "read"),
    ];

    fn count(&mut self, how: Touched, times: u32) {
        if let Some(at) = Self::WORDS.iter().position(|(known, _)| *known == how) {
            self.0[at] = self.0[at].saturating_add(times);
        }
    }

    fn add(&mut self, other: &Self) {
        for ((how, _), times) in Self::WORDS.iter().zip(other.0) {
            self.count(*how, times);
        }
    }

    fn only_read(self) -> bool {
        self.0[..3].iter().all(|times| *times == 0)
    }

    fn words(self) -> String {
        let shown = Self::WORDS.iter().zip(self.0).filter(|(_, times)| *times > 0);
        let words = shown.map(|((_, word), times)| match times {
            1 => (*word).to_owned(),
            _ => format!("{word} {times}×"),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn read(words: &str) -> Self {
        let mut touches = Self::default();
        for part in words.split(", ") {
            let (word, times) = part.split_once(' ').unwrap_or((part, "1×"));
            if let Some((how, _)) = Self::WORDS.iter().find(|(_, known)| *known == word) {
                touches.count(*how, times.trim_end_matches('×').parse().unwrap_or(1));
            }
        }
        touches
    }
}

/// The quotes as lines with their sources, each line once: those of the checkpoint before, then the new ones, oldest first.
pub(super) fn quotes(draft: &Draft<'_>, redactor: &mut Redactor) -> (Vec<Redacted>, Vec<Piece>) {
    let mut sources: Vec<Redacted> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines: Vec<(usize, Redacted, f64)> = Vec::new();
    let mut place = |source: String| {
        *places.entry(source).or_insert_with_key(|source| {
            sources.push(Redacted::from_store(source.clone()));
            sources.len() - 1
        })
    };
    for quoted in draft.previous.iter().flat_map(|before| before.quoted()) {
        let at = place(quoted.source().to_owned());
        lines.extend(quoted.lines.iter().map(|line| (at, line.clone(), QUOTED_BEFORE)));
    }
    let mut order: Vec<&super::Quote> = draft.quotes.iter().collect();
    order.sort_by_key(|quote| quote.unit);
    for quote in order {
        let source = redactor.redact(&clip_line(&quote.source, 160), Content::Text).text.into_string();
        let at = place(source);
        let text = redactor.redact(&quote.lines.join("\n"), Content::Text).text;
        let new =
            text.as_str().split('\n').map(|line| (at, Redacted::from_store(line.to_owned()), quote.weight));
        lines.extend(new);
    }
    lines.sort_by_key(|(at, ..)| *at);
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut pieces: Vec<Piece> = Vec::with_capacity(lines.len());
    for (at, text, weight) in lines {
        let telling = Some(text.as_str().trim()).filter(|line| line.len() >= TELLING);
        if let Some(&first) = telling.and_then(|line| seen.get(line)) {
            let first: &mut Piece = &mut pieces[first];
            first.weight = first.weight.max(weight);
            continue;
        }
        seen.extend(telling.map(|line| (line.to_owned(), pieces.len())));
        pieces.push(Piece { place: Place::Line(at), text, weight, need: Need::Wanted });
    }
    (sources, pieces)
}
