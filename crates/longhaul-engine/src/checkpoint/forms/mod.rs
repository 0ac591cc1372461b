//! What a candidate reads like, in forms from short to long, each with its price.

mod files;
mod runs;
mod words;

use std::collections::HashSet;

use super::brief::Brief;
use super::fill::{Form, Offer};
use super::later::Later;
use super::names::{Names, path_of, short};
use super::rows::Named;
use super::sketch::{Sketch, What};
use super::{Section, Topic};
use crate::evidence::{Read, TaskState};
use crate::redact::{Content, Redacted, Redactor};
use crate::texts::{Act, Entry};
use crate::tokens::estimate;

/// Characters of a path.
const PATH: usize = 160;
/// Characters of a command and of what came of it, in a short and in a long form.
const COMMAND: [usize; 2] = [90, 260];
const OUTCOME: [usize; 2] = [150, 420];
/// What a longer form is worth beside the shorter one, per token: what people said comes before all else, as far as they said it
/// themselves and did not paste it.
const LONGER: [f64; 5] = [1.0, 0.5, 0.25, 0.12, 0.05];
const LONGER_SAID: [f64; 5] = [1.0, 0.8, 0.6, 0.25, 0.05];
/// A statement of more bytes may be had shorter.
const LONG_STATEMENT: usize = 1_200;
/// What the mark of an item costs.
const MARK: u64 = 3;

/// Something that could be said, in forms from short to long, each with its rate.
pub(super) struct Candidate {
    pub(super) section: Section,
    /// Its number, if it is an action of its own.
    pub(super) number: u32,
    /// The whole path of the file that it names by its end.
    pub(super) path: Option<Redacted>,
    pub(super) forms: Vec<(Piece, Form)>,
}

#[derive(Clone, PartialEq)]
pub(super) enum Piece {
    Item(Redacted),
    /// An action, with its number if it has one.
    Entry(Option<u32>, Entry),
    /// A quoted line and its source.
    Line(Redacted, Redacted),
}

impl Piece {
    fn text(&self) -> String {
        match self {
            Self::Item(text) => text.as_str().to_owned(),
            Self::Entry(_, entry) => entry.to_string(),
            Self::Line(source, line) => format!("{source}\n{line}"),
        }
    }

    /// What it says, on one line.
    pub(super) fn words(&self) -> Redacted {
        Redacted::from_store(self.text()).on_one_line(300)
    }

    /// What is counted: the source of a line stands once for all of its lines.
    fn counted(&self) -> String {
        match self {
            Self::Line(_, line) => line.as_str().to_owned(),
            piece => piece.text(),
        }
    }
}

impl Candidate {
    pub(super) fn offer(&self) -> Offer {
        Offer { group: self.section as usize, forms: self.forms.iter().map(|(_, form)| *form).collect() }
    }

    /// The words of its shortest form.
    pub(super) fn shortest(&self) -> String {
        self.forms.first().map(|(piece, _)| piece.text()).unwrap_or_default()
    }

    /// The same at another worth.
    pub(super) fn times(mut self, worth: f64) -> Self {
        self.forms.iter_mut().for_each(|(_, form)| form.rate *= worth);
        self
    }

    /// The file that it lists, where it stands under Relevant Files.
    pub(super) fn lists(&self) -> Option<String> {
        match self.forms.first() {
            Some((Piece::Item(note), _)) if self.section == Section::RelevantFiles => Some(path_of(note)),
            _ => None,
        }
    }

    pub(super) fn is_on(&self, topic: &Topic) -> bool {
        self.forms.last().is_some_and(|(piece, _)| topic.is_in(&piece.text()))
    }
}

/// Writes candidates in their forms, each redacted before it is cut.
pub(super) struct Writer<'w, 'd> {
    brief: &'w Brief<'d>,
    redactor: &'w mut Redactor,
    later: Later,
    /// The files that could be listed.
    names: Names,
    /// The fields that calls gave back, and the names in them.
    fields: HashSet<String>,
    named: Named<'d>,
}

impl<'w, 'd> Writer<'w, 'd> {
    pub(super) fn new(brief: &'w Brief<'d>, redactor: &'w mut Redactor, sketches: &[Sketch<'_>]) -> Self {
        let (later, named) = (Later::of(brief), Named::in_all(&brief.evidence.deeds));
        let mut writer =
            Self { brief, redactor, later, named, names: Names::default(), fields: HashSet::new() };
        let listed: Vec<String> = sketches.iter().filter_map(|sketch| writer.lists(&sketch.what)).collect();
        writer.names = Names::of(listed.into_iter());
        writer
    }

    fn redact(&mut self, text: &str) -> Redacted {
        self.redactor.redact(text, Content::Text).text
    }

    /// A text on one line, redacted before it is cut.
    fn line(&mut self, text: &str, most: usize) -> Redacted {
        self.redact(text).on_one_line(most)
    }

    fn handle(&self, read: &Read) -> Option<String> {
        (self.brief.handle)(read.at)
    }

    /// The path that a candidate would list under Relevant Files.
    fn lists(&mut self, what: &What<'_>) -> Option<String> {
        match what {
            What::File(file, _) if file.is_changed() => Some(self.line(&file.path, PATH).as_str().to_owned()),
            What::Carried(Section::RelevantFiles, note) => Some(path_of(note)),
            _ => None,
        }
    }

    /// How an entry names a file: by its end where the whole path could be listed.
    fn name(&mut self, path: &str) -> Redacted {
        let path = self.line(path, PATH);
        match self.names.listed(path.as_str()) {
            Some(_) => Redacted::from_store(short(path.as_str()).to_owned()),
            None => path,
        }
    }

    /// The path under which the file of an entry could be listed.
    fn path(&mut self, what: &What<'_>) -> Option<Redacted> {
        const FILES: [Act; 4] = [Act::Create, Act::Edit, Act::Delete, Act::Restore];
        let path = match what {
            What::Change(_, file, _) => &file.path,
            What::Refused(read) => &read.did()?.changes.first()?.path,
            What::CarriedEntry(done) if FILES.contains(&done.entry.act()) => done.entry.target(),
            _ => return None,
        };
        let path = self.line(path, PATH);
        self.names.listed(path.as_str()).map(|listed| Redacted::from_store(listed.to_owned()))
    }

    pub(super) fn candidate(&mut self, sketch: &Sketch<'_>) -> Option<Candidate> {
        let (section, pieces) = match &sketch.what {
            What::Said(read, stands) => (Section::Goal, self.said(read, *stands)),
            What::Rule(rule) => (Section::Constraints, vec![Piece::Item(self.line(rule, 600))]),
            What::Heard(read) => (Section::CompletedActions, self.heard(read)),
            What::Relayed(read) => (Section::CompletedActions, self.relayed(read)),
            What::Answer(read, request) => (Section::CompletedActions, self.answer(read, *request)),
            What::Notes(read, places) => (Section::CompletedActions, self.notes(read, places)),
            What::Change(read, file, size) => (Section::CompletedActions, self.change(read, file, *size)),
            What::Changes(read) => (Section::CompletedActions, self.changes(read)),
            What::Refused(read) => (Section::CompletedActions, self.refused(read)),
            What::Run(read, times) => (Section::CompletedActions, self.run(read, *times)),
            What::Call(reads) => (Section::CompletedActions, self.call(reads)),
            What::Question(read) => (Section::ResolvedQuestions, self.question(read)),
            What::Tests(read, since) => (Section::ActiveState, self.tests(read, *since)),
            What::File(file, before) => (Section::RelevantFiles, self.file(file, *before)),
            What::Task(task) => {
                let words = self.line(&task.text, 300);
                match task.kind {
                    TaskState::Done => {
                        (Section::RemainingWork, vec![Piece::Item(Redacted::own("done: ").and(&words))])
                    }
                    TaskState::Doing => (Section::InProgress, vec![Piece::Item(words)]),
                    TaskState::Open => (Section::RemainingWork, vec![Piece::Item(words)]),
                }
            }
            What::Carried(section, text) => {
                let forms = [160, 600].map(|most| Piece::Item(text.clipped(most)));
                (*section, forms.into_iter().chain([Piece::Item((*text).clone())]).collect())
            }
            What::CarriedEntry(completed) => {
                let (number, entry) = (Some(completed.number), &completed.entry);
                let forms = [entry.clipped(120), entry.clone()];
                (Section::CompletedActions, forms.map(|entry| Piece::Entry(number, entry)).into())
            }
            What::Told(statement) => {
                let text = &statement.text;
                let piece = |text: Redacted| match statement.section {
                    Section::CompletedActions => Piece::Entry(None, Entry::read(&text)),
                    _ => Piece::Item(text),
                };
                let shorter =
                    (text.as_str().len() > LONG_STATEMENT).then(|| piece(text.clipped(LONG_STATEMENT / 2)));
                (statement.section, shorter.into_iter().chain([piece(text.clone())]).collect())
            }
            What::Quote(quoted, line) => {
                let piece = Piece::Line(quoted.source.clone(), quoted.lines[*line].clone());
                (Section::CriticalContext, vec![piece])
            }
        };
        let path = self.path(&sketch.what);
        let mut forms: Vec<(Piece, Form)> = Vec::with_capacity(pieces.len());
        let longer = if section == Section::Goal { LONGER_SAID } else { LONGER };
        for (piece, longer) in pieces.into_iter().zip(longer) {
            let text = piece.counted();
            if text.trim().is_empty() || forms.last().is_some_and(|(last, _)| *last == piece) {
                continue;
            }
            let tokens = self.brief.counter.factor.times(estimate(&text)).number() + MARK;
            let least = forms.last().map_or(0, |(_, form)| form.tokens);
            forms.push((piece, Form { tokens: tokens.max(least), rate: sketch.rate * longer }));
        }
        (!forms.is_empty()).then_some(Candidate { section, number: sketch.number, path, forms })
    }
}
