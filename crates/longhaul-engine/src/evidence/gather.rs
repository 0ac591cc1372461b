//! The readings of all units, put together: each item beside the names by which later turns may refer to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::{Outcome, Touch, Verb};
use crate::transcript::UnitKind;

use super::exchange::Did;
use super::names::{self, Index, Sense};
use super::prompt::Spoken;
use super::reading::{Reading, Readings};
use super::reply::{Made, Told};
use super::turns::{self, Turns};
use super::{
    Decision, Deed, Evidence, FileFact, Problem, RequestState, Said, SaidIn, SaidKind, Uses, problems, state,
    todo,
};

/// A decision takes the place of one among so many newest that says the same.
const RECENT: usize = 32;

/// A deed is known by its first files.
const MOST_PATHS: usize = 4;

/// Evidence on its way: items beside the names by which later turns may refer to them.
#[derive(Default)]
pub(super) struct Gathered {
    evidence: Evidence,
    files: BTreeMap<String, FileFact>,
    tracker: problems::Tracker,
    problems: Vec<Part>,
    decisions: Vec<Part>,
    said: Vec<Part>,
}

/// The part of a reading that an item was taken from.
enum Part {
    Errors(Arc<Reading>),
    Decision(Arc<Reading>, usize),
    Said(Arc<Reading>, usize),
    /// A task of a list, which is not looked for.
    Task,
}

impl Part {
    /// The decision that it is.
    fn made(&self) -> Option<&Made> {
        match self {
            Self::Decision(reading, at) => reading.told().map(|told| &told.decisions[*at]),
            Self::Errors(_) | Self::Said(..) | Self::Task => None,
        }
    }

    /// What it names.
    fn names(&self) -> &[u64] {
        match self {
            Self::Errors(reading) => reading.did().map_or(&[], |did| &did.error_names),
            Self::Decision(..) => self.made().map_or(&[], |made| &made.names),
            Self::Said(reading, at) => reading.told().map_or(&[], |told| &told.said[*at].names),
            Self::Task => &[],
        }
    }
}

impl Gathered {
    pub(super) fn note(&mut self, reading: &Reading) {
        if let Reading::Note(Some(sign)) = reading {
            self.evidence.state.take(sign);
        }
    }

    pub(super) fn unit(&mut self, unit: usize, kind: &UnitKind<'_>, readings: &Readings, turns: &mut Turns) {
        let spoken: Vec<&Spoken> = readings.iter().filter_map(|reading| reading.spoken()).collect();
        if !spoken.is_empty() {
            turns.prompt(unit, &spoken);
        }
        for reading in readings {
            self.note(reading);
        }
        if matches!(kind, UnitKind::Checkpoint(_)) {
            turns.checkpoint();
        }
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
            self.drop_older(&made.sense);
            let (text, reason) = (made.text.clone(), made.reason.clone());
            self.evidence.decisions.push(Decision { unit, text, reason, uses: Uses::default() });
            self.decisions.push(Part::Decision(Arc::clone(reading), at));
        }
        for (at, said) in told.said.iter().enumerate() {
            // What is announced at the end of a turn is not being done.
            let kind = if said.kind == SaidKind::Doing && ends_turn { SaidKind::Next } else { said.kind };
            let text = said.text.clone();
            self.evidence.said.push(Said { unit, text, kind, source: SaidIn::Text, uses: Uses::default() });
            self.said.push(Part::Said(Arc::clone(reading), at));
        }
        self.tasks(unit, &told.todo);
    }

    /// What is said again is told once, in its newest words.
    fn drop_older(&mut self, sense: &Sense) {
        let recent = self.decisions.len().saturating_sub(RECENT);
        let same = |part: &Part| part.made().is_some_and(|made| made.sense.is_like(sense));
        if let Some(at) = self.decisions[recent..].iter().position(same) {
            self.decisions.remove(recent + at);
            self.evidence.decisions.remove(recent + at);
        }
    }

    /// A list of tasks takes the place of the one before.
    fn tasks(&mut self, unit: usize, items: &[todo::Item]) {
        if items.is_empty() {
            return;
        }
        let mut keep = self.evidence.said.iter().map(|said| said.source == SaidIn::Text);
        self.said.retain(|_| keep.next().unwrap_or(true));
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
            self.said.push(Part::Task);
        }
    }

    fn did(&mut self, unit: usize, reading: &Arc<Reading>, did: &Did) {
        let exchange = self.evidence.deeds.iter().rev().take_while(|deed| deed.unit == unit).count();
        let action = Arc::clone(&did.action);
        let uses = Uses { times: 0, last: unit };
        self.tasks(unit, &did.todo);
        self.touch(unit, did);
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
            self.problems.push(Part::Errors(Arc::clone(reading)));
        }
        self.evidence.deeds.push(Deed { unit, exchange, action, uses });
    }

    fn touch(&mut self, unit: usize, did: &Did) {
        let action = &did.action;
        // A script that fails at its end may have written before; a tool for files that fails has not.
        let happened = match action.outcome {
            Outcome::Failed => action.verb == Verb::Run || !did.is_refused,
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

    pub(super) fn finish(mut self, turns: Turns, readings: &[Readings]) -> Evidence {
        let Turns { requests, rules, once_only, questions, reversals, replacements, closings, .. } = turns;
        let files = &mut self.evidence.files;
        files.extend(std::mem::take(&mut self.files).into_values());
        files.sort_by_key(|file| file.touched.last().copied());
        let mut evidence = std::mem::take(&mut self.evidence);
        evidence =
            Evidence { requests, rules, once_only, reversals, replacements, closings, questions, ..evidence };
        self.drop_called_off(&mut evidence);
        self.count_uses(&mut evidence, readings);
        evidence
    }

    /// What was announced for a request that was taken back, or names what a reversal names, is not going to be done.
    fn drop_called_off(&mut self, evidence: &mut Evidence) {
        let Evidence { requests, reversals, said, .. } = evidence;
        let about: Vec<(usize, Vec<u64>)> =
            reversals.iter().map(|reversal| (reversal.unit, turns::about(&reversal.text))).collect();
        let is_for_cancelled = |unit: usize| {
            let newest = requests.partition_point(|request| request.unit < unit).checked_sub(1);
            newest.map(|at| &requests[at]).is_some_and(|request| {
                request.state == RequestState::Cancelled && request.settled.is_some_and(|end| unit < end)
            })
        };
        let is_named = |said: &Said| {
            let words = names::telling(&said.text);
            about.iter().filter(|(unit, _)| said.unit < *unit).any(|(_, about)| {
                let hits = names::shared(about, &words);
                hits > 0 && hits * 2 >= about.len()
            })
        };
        let is_called_off = |said: &Said| {
            matches!(said.kind, SaidKind::Next | SaidKind::Doing)
                && (is_for_cancelled(said.unit) || is_named(said))
        };
        let stays: Vec<bool> = said.iter().map(|said| !is_called_off(said)).collect();
        let mut keep = stays.iter();
        said.retain(|_| keep.next().is_none_or(|stays| *stays));
        let mut keep = stays.iter();
        self.said.retain(|_| keep.next().is_none_or(|stays| *stays));
    }

    /// Counts how later units use what each item names.
    fn count_uses(&self, evidence: &mut Evidence, readings: &[Readings]) {
        let files: Vec<[u64; 2]> =
            evidence.files.iter().map(|file| names::names_of_path(&file.path)).collect();
        let prompts: Vec<(usize, Vec<u64>)> =
            evidence.requests.iter().map(|request| prompt_names(request.unit, readings)).collect();
        let parts = self.problems.iter().chain(&self.decisions).chain(&self.said).flat_map(Part::names);
        let asked = files.iter().flatten().chain(prompts.iter().flat_map(|(_, names)| names)).chain(parts);
        let mut index = Index::of(asked.copied());
        for (unit, reading) in
            readings.iter().enumerate().flat_map(|(unit, all)| all.iter().map(move |one| (unit, one)))
        {
            index.note(unit, reading.names());
        }
        for (file, names) in evidence.files.iter_mut().zip(&files) {
            file.uses = index.uses(file.touched.first().map_or(0, |(unit, _)| *unit), names);
        }
        for (problem, part) in evidence.problems.iter_mut().zip(&self.problems) {
            problem.uses = index.uses(problem.unit, part.names());
        }
        for (decision, part) in evidence.decisions.iter_mut().zip(&self.decisions) {
            decision.uses = index.uses(decision.unit, part.names());
        }
        for (said, part) in evidence.said.iter_mut().zip(&self.said) {
            said.uses = index.uses(said.unit, part.names());
        }
        for deed in &mut evidence.deeds {
            let names = |touch: &Touch| names::names_of_path(&touch.path);
            let paths: Vec<u64> = deed.action.files.iter().take(MOST_PATHS).flat_map(names).collect();
            deed.uses = index.uses(deed.unit, &paths);
        }
        let of_prompt = |unit: usize| {
            let at = prompts.binary_search_by_key(&unit, |(unit, _)| *unit);
            at.map_or(Uses { times: 0, last: unit }, |at| index.uses(unit, &prompts[at].1))
        };
        evidence.requests.iter_mut().for_each(|request| request.uses = of_prompt(request.unit));
        evidence.rules.iter_mut().for_each(|rule| rule.uses = of_prompt(rule.unit));
        evidence.once_only.iter_mut().for_each(|once| once.uses = of_prompt(once.unit));
        evidence.questions.iter_mut().for_each(|question| question.uses = of_prompt(question.unit));
    }
}

/// What the prompt of this unit names.
fn prompt_names(unit: usize, readings: &[Readings]) -> (usize, Vec<u64>) {
    let spoken = readings[unit].iter().filter_map(|reading| reading.spoken());
    (unit, spoken.flat_map(|spoken| spoken.names.iter().copied()).collect())
}
