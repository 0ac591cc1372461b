//! From evidence to a checkpoint within a budget.

use std::collections::HashSet;

use super::candidates::{Size, Sketch, Stands, What, sketch};
use super::fill::{Bought, Form, Offer, fill};
use super::later::Later;
use super::names::{Names, common_folder, short};
use super::net::File;
use super::pieces::excerpt;
use super::render::heading;
use super::rows::Named;
use super::{Checkpoint, Completed, Quoted, Section, Topic};
use crate::action::{Change, Outcome, Touched, Verb};
use crate::evidence::{Did, Evidence, Read, TaskState, Told, Verdict, title, weigh, weigh_said};
use crate::redact::{Content, Redacted, Redactor};
use crate::texts::{Act, Entry, FileNote, Marker};
use crate::tokens::{Counter, Tokens, estimate};

/// What a checkpoint is made from.
pub struct Draft<'d> {
    /// What could be cited.
    pub evidence: &'d Evidence,
    /// Which units are folded.
    pub folded: &'d dyn Fn(usize) -> bool,
    /// The checkpoint that this one takes the place of.
    pub previous: Option<&'d Checkpoint>,
    /// Lines on the topic.
    pub quotes: &'d [Quoted],
    /// What fetches a block of a unit again, where originals are kept.
    pub handle: &'d dyn Fn(usize, usize) -> Option<String>,
    /// What it may cost.
    pub budget: Tokens,
    /// Whose tokens.
    pub counter: Counter,
    /// The unit with the answer that the newest message replies to.
    pub answer: Option<usize>,
    /// A topic that is to be kept before all else.
    pub focus: Option<&'d str>,
    /// The words around it.
    pub marker: &'d Marker,
}

/// A checkpoint as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Its text.
    pub text: String,
    /// What that costs.
    pub tokens: Tokens,
    /// How many things there were to say,
    pub found: usize,
    /// and how many of them are said.
    pub kept: usize,
}

/// Characters of the forms of a person's words, and of an answer.
const SAID: [usize; 5] = [160, 500, 1_500, 5_000, 20_000];
/// Of a request that was answered since, no more.
const SAID_BEFORE: usize = 1_500;
const ANSWER: [usize; 4] = [180, 500, 1_400, 4_000];
/// A field of no more characters is told wherever it stands.
const SHORT_FIELD: usize = 24;
/// Characters of a path.
const PATH: usize = 160;
/// Characters of a command and of what came of it, in a short and in a long form.
const COMMAND: [usize; 2] = [90, 260];
const OUTCOME: [usize; 2] = [150, 420];
const DATA: usize = 240;
/// Characters of a line that went out or came in, and how many of each.
const LINE: [usize; 3] = [90, 120, 150];
const LINES_OUT: [usize; 3] = [1, 2, 4];
const LINES_IN: [usize; 3] = [1, 3, 8];
/// What a longer form is worth beside the shorter one, per token: what people said comes before all else, as far as they said it
/// themselves and did not paste it.
const LONGER: [f64; 5] = [1.0, 0.5, 0.25, 0.12, 0.05];
const LONGER_SAID: [f64; 5] = [1.0, 0.8, 0.6, 0.25, 0.05];
/// The share of a budget for what is on the topic, where there is one; and what people said may take at least.
const ON_TOPIC: f64 = 0.66;
const PEOPLE: f64 = 0.4;
/// What the mark of an item costs.
const MARK: u64 = 3;
/// A candidate is worth writing only if so many tokens of the budget are there for each.
const LEAST: u64 = 8;

/// Writes the checkpoint of what is folded: never over the budget, but never less than its marker.
pub(crate) fn write(draft: &Draft<'_>, redactor: &mut Redactor) -> Written {
    let mut sketches = sketch(draft);
    let found = sketches.len();
    sketches.sort_by_key(|sketch| sketch.at);
    number(draft, &mut sketches);
    // Only what could be bought is written.
    let most = 16 + (draft.budget.number() / LEAST) as usize;
    if draft.focus.is_none() && sketches.len() > most {
        sketches.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        sketches.truncate(most);
    }
    sketches.sort_by_key(|sketch| sketch.at);
    let mut writer = Writer::new(draft, redactor);
    let listed: Vec<String> = sketches.iter().filter_map(|sketch| writer.lists(&sketch.what)).collect();
    writer.names = Names::of(listed.into_iter());
    let candidates: Vec<Candidate> = sketches.iter().filter_map(|sketch| writer.candidate(sketch)).collect();
    let offers: Vec<Offer> = candidates.iter().map(Candidate::offer).collect();
    let mut bought = choose(draft, &candidates, &offers);
    loop {
        let forms = bought.forms(offers.len());
        let checkpoint = assemble(&candidates, &forms);
        let text = checkpoint.render(draft.marker);
        let tokens = draft.counter.count(&text);
        let over = tokens.number().saturating_sub(draft.budget.number());
        if over == 0 || !bought.give_back(&offers, over) {
            let kept = forms.iter().flatten().count();
            return Written { checkpoint, text, tokens, found, kept };
        }
    }
}

/// Numbers what was done and concluded, in order, whether it will be listed or not: a gap says that something is left out.
fn number(draft: &Draft<'_>, sketches: &mut [Sketch<'_>]) {
    let before = draft.previous.and_then(|before| before.completed().last());
    let mut next = before.map_or(1, |last| last.number.saturating_add(1));
    for sketch in sketches.iter_mut().filter(|sketch| sketch.what.is_action()) {
        sketch.number = next;
        next = next.saturating_add(1);
    }
}

/// What the budget buys; with a topic, first what is on it.
fn choose(draft: &Draft<'_>, candidates: &[Candidate], offers: &[Offer]) -> Bought {
    let least = draft.counter.count(&Checkpoint::least(draft.marker));
    let factor = draft.counter.factor;
    let estimated = |text: &str| factor.times(estimate(text)).number();
    let mut openings: Vec<u64> =
        Section::ALL.iter().map(|section| estimated(&heading(*section)) + 1).collect();
    let mut budget = (draft.budget - least).number();
    let Some(topic) = draft.focus.and_then(Topic::on) else {
        return fill(offers, &mut openings, &mut budget, |_| true);
    };
    let on_topic: Vec<bool> = candidates.iter().map(|candidate| candidate.is_on(&topic)).collect();
    let of_all = |share: f64| (draft.budget.number() as f64 * share) as u64;
    // What people said is not the price of a topic, and their rules least of all.
    let is_said = |offer: usize| matches!(candidates[offer].section, Section::Goal | Section::Constraints);
    let mut people = (budget - of_all(ON_TOPIC).min(budget)).max(of_all(PEOPLE)).min(budget);
    budget -= people;
    let said = fill(offers, &mut openings, &mut people, is_said);
    budget += people;
    let mut share = of_all(ON_TOPIC).min(budget);
    budget -= share;
    let first = fill(offers, &mut openings, &mut share, |offer| on_topic[offer] && !is_said(offer));
    budget += share;
    let others = fill(offers, &mut openings, &mut budget, |offer| !on_topic[offer] && !is_said(offer));
    said.then(first).then(others)
}

/// Puts what was bought into its sections, in order of time.
fn assemble(candidates: &[Candidate], forms: &[Option<usize>]) -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    let bought = candidates.iter().zip(forms).filter(|(_, form)| form.is_some());
    let listed: HashSet<String> = bought.filter_map(|(candidate, _)| candidate.lists()).collect();
    for (candidate, form) in candidates.iter().zip(forms) {
        let Some(form) = form else { continue };
        match candidate.forms[*form].0.clone() {
            Piece::Item(text) => checkpoint.push(candidate.section, text),
            Piece::Entry(number, mut entry) => {
                if let Some(path) = candidate.path.as_ref().filter(|path| !listed.contains(path.as_str())) {
                    entry = entry.about(path);
                }
                let number = number.unwrap_or(candidate.number);
                checkpoint.completed.push(Completed { number, entry });
            }
            Piece::Line(source, line) => match checkpoint.quoted.last_mut() {
                Some(last) if last.source == source => last.lines.push(line),
                _ => checkpoint.quoted.push(Quoted { source, lines: vec![line] }),
            },
        }
    }
    // A rule stands once: not beside the message that says it.
    let bare = |text: &Redacted| text.as_str().split_whitespace().collect::<String>();
    let said: Vec<String> = checkpoint.list(Section::Goal).iter().map(bare).collect();
    let mut told = HashSet::new();
    let mut is_new = |rule: &Redacted| {
        let rule = bare(rule);
        !said.iter().any(|said| said.contains(&rule)) && told.insert(rule)
    };
    checkpoint.lists[Section::Constraints as usize].retain(&mut is_new);
    checkpoint
}

/// Something that could be said, in forms from short to long, each with its rate.
struct Candidate {
    section: Section,
    /// Its number, if it is an action of its own.
    number: u32,
    /// The whole path of the file that it names by its end.
    path: Option<Redacted>,
    forms: Vec<(Piece, Form)>,
}

#[derive(Clone, PartialEq)]
enum Piece {
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

    /// What is counted: the source of a line stands once for all of its lines.
    fn counted(&self) -> String {
        match self {
            Self::Line(_, line) => line.as_str().to_owned(),
            piece => piece.text(),
        }
    }
}

impl Candidate {
    fn offer(&self) -> Offer {
        Offer { group: self.section as usize, forms: self.forms.iter().map(|(_, form)| *form).collect() }
    }

    /// The file that it lists, where it stands under Relevant Files.
    fn lists(&self) -> Option<String> {
        match self.forms.first() {
            Some((Piece::Item(note), _)) if self.section == Section::RelevantFiles => Some(path_of(note)),
            _ => None,
        }
    }

    fn is_on(&self, topic: &Topic) -> bool {
        self.forms.last().is_some_and(|(piece, _)| topic.is_in(&piece.text()))
    }
}

/// The path that an item of Relevant Files is about.
pub(super) fn path_of(note: &Redacted) -> String {
    let Ok(note) = note.as_str().parse::<FileNote>();
    note.path().to_owned()
}

struct Writer<'w, 'd> {
    draft: &'w Draft<'d>,
    redactor: &'w mut Redactor,
    later: Later,
    /// The files that could be listed.
    names: Names,
    /// The fields that calls gave back, and the names in them.
    fields: HashSet<String>,
    named: Named<'d>,
}

impl<'w, 'd> Writer<'w, 'd> {
    fn new(draft: &'w Draft<'d>, redactor: &'w mut Redactor) -> Self {
        let (later, named) = (Later::of(draft), Named::in_all(&draft.evidence.deeds));
        Self { draft, redactor, later, named, names: Names::default(), fields: HashSet::new() }
    }

    fn redact(&mut self, text: &str) -> Redacted {
        self.redactor.redact(text, Content::Text).text
    }

    /// A text on one line, redacted before it is cut.
    fn line(&mut self, text: &str, most: usize) -> Redacted {
        self.redact(text).on_one_line(most)
    }

    fn handle(&self, read: &Read) -> Option<String> {
        (self.draft.handle)(read.unit, read.block)
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

    fn candidate(&mut self, sketch: &Sketch<'_>) -> Option<Candidate> {
        let (section, pieces) = match &sketch.what {
            What::Said(read, stands) => (Section::Goal, self.said(read, *stands)),
            What::Rule(rule) => (Section::Constraints, vec![Piece::Item(self.line(rule, 600))]),
            What::Heard(read) => (Section::CompletedActions, self.heard(read)),
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
            let tokens = self.draft.counter.factor.times(estimate(&text)).number() + MARK;
            let least = forms.last().map_or(0, |(_, form)| form.tokens);
            forms.push((piece, Form { tokens: tokens.max(least), rate: sketch.rate * longer }));
        }
        (!forms.is_empty()).then_some(Candidate { section, number: sketch.number, path, forms })
    }

    /// Forms of a person's words, with what fetches them where they are cut.
    fn said(&mut self, read: &Read, stands: Stands) -> Vec<Piece> {
        let handle = self.handle(read);
        // Of work that was handed in, its title is enough.
        if stands == Stands::HandedIn {
            let title = self.line(title(read.words()), SAID[0]);
            return vec![Piece::Item(title.and_own(" […] (submitted)").and_handle(handle.as_deref()))];
        }
        let whole = self.redact(read.words());
        let words = self.later.new_in(&whole, read.unit);
        let form = |most: usize| {
            let short = excerpt(&words, most, weigh_said).without_blank_runs();
            let cut = short != whole.without_blank_runs();
            Piece::Item(short.and_handle(handle.as_deref().filter(|_| cut)))
        };
        let longest = if stands == Stands::Open { usize::MAX } else { SAID_BEFORE };
        SAID.into_iter().filter(|most| *most <= longest).map(form).collect()
    }

    fn heard(&mut self, read: &Read) -> Vec<Piece> {
        let words = self.redact(read.words());
        let entry = |most| Entry::new(Act::Message, &Redacted::own(""), &excerpt(&words, most, weigh_said));
        [160, 500].map(|most| Piece::Entry(None, entry(most).kept_as(self.handle(read)))).into()
    }

    fn answer(&mut self, read: &Read, request: Option<&Read>) -> Vec<Piece> {
        let words = read.did().map_or_else(|| read.words().to_owned(), |did| did.verdict.lines.join("\n"));
        let words = self.redact(&words);
        let target = match request {
            Some(request) => Redacted::own("to “").and(&self.line(title(request.words()), 60)).and_own("”"),
            None => Redacted::own(""),
        };
        let weigh = |piece: &str| 1.0 + weigh(piece).0;
        let form = |most: usize| {
            let words = excerpt(&words, most, weigh).without_blank_lines();
            let entry = Entry::new(Act::Answer, &target, &words);
            Piece::Entry(None, entry.kept_as(self.handle(read)))
        };
        ANSWER.map(form).into()
    }

    /// The best sentence, the two best, and so on, each time in their order.
    fn notes(&mut self, read: &Read, places: &[usize]) -> Vec<Piece> {
        let Some(Told { notes, .. }) = read.told() else { return Vec::new() };
        let mut forms = Vec::new();
        for count in 1..=places.len().min(LONGER.len()) {
            let mut chosen = places[..count].to_vec();
            chosen.sort_unstable();
            let mut words = Redacted::own("");
            let mut before = None;
            for place in chosen {
                // Sentences that did not stand together do not read as if they had.
                let gap = match before {
                    None => "",
                    Some(at) if at + 1 == notes[place].at => " ",
                    Some(_) => " […] ",
                };
                words = words.and_own(gap).and(&self.line(&notes[place].text, 420));
                before = Some(notes[place].at);
            }
            let entry = Entry::new(Act::Noted, &Redacted::own(""), &words).kept_as(self.handle(read));
            forms.push(Piece::Entry(None, entry));
        }
        forms
    }

    /// What a turn did to a file.
    fn change(&mut self, read: &Read, file: &File, size: Size) -> Vec<Piece> {
        let Some((did, change)) = read.did().and_then(|did| Some((did, did.changes.get(file.place)?))) else {
            return Vec::new();
        };
        let act = match file {
            file if file.deleted => Act::Delete,
            file if file.restored => Act::Restore,
            file if file.created => Act::Create,
            _ => Act::Edit,
        };
        let path = self.name(&file.path);
        let from = change.from.as_ref().map(|from| Redacted::own("copied from ").and(&self.line(from, 160)));
        let then = self.then(file, did);
        let [out, into] = file.net();
        let mut forms = Vec::new();
        // Several edits are not told by one line.
        let longest = if size == Size::Scratch { LINE.len() - 1 } else { LINE.len() };
        for level in usize::from(file.changes > 1)..longest {
            let lines = self.lines(&out, &into, level);
            // Where all lines are shown, they need not be counted.
            let shown = file.changes == 1
                && change.range.is_none()
                && change.out.lines <= LINES_OUT[level].min(out.len())
                && change.into.lines <= LINES_IN[level].min(into.len());
            let counted = || match (file.changes, file.created) {
                (1, _) => counts(change),
                (2, true) => Redacted::own("then edited"),
                (changes, true) => Redacted::own("then edited ").and_number(changes - 1).and_own(" times"),
                (changes, false) => Redacted::own("").and_number(changes).and_own(" edits"),
            };
            let mut outcome = match act {
                Act::Delete if file.created => Redacted::own("made before"),
                Act::Delete | Act::Restore => Redacted::own(""),
                _ => match &from {
                    Some(from) => from.clone(),
                    None if shown => Redacted::own(""),
                    None => counted(),
                },
            };
            if !lines.as_str().is_empty() && act != Act::Delete {
                let colon = if outcome.as_str().is_empty() { "" } else { ": " };
                outcome = outcome.and_own(colon).and(&lines);
            }
            outcome = outcome.and(&then);
            forms.push(Piece::Entry(None, Entry::new(act, &path, &outcome).kept_as(self.handle(read))));
        }
        forms
    }

    /// What came with a change: what was changed stays changed, though that fails.
    fn then(&mut self, file: &File, did: &Did) -> Redacted {
        let first = |did: &Did| did.verdict.lines.first().cloned().unwrap_or_default();
        let tests = file.tested.and_then(|deed| self.draft.evidence.deeds.get(deed)?.did());
        if let Some(tests) = tests {
            let words = match file.tested == Some(file.deed) {
                true => "; tests then: ",
                false => "; tests after an earlier edit: ",
            };
            return Redacted::own(words).and(&self.line(&first(tests), OUTCOME[0]));
        }
        if did.action.outcome != Outcome::Failed {
            return Redacted::own("");
        }
        let verdict = self.line(&first(did), OUTCOME[0]);
        Redacted::own("; then ").and(&ended(did, &verdict))
    }

    /// Changes of many files at once: how many, which, and the lines of the first.
    fn changes(&mut self, read: &Read) -> Vec<Piece> {
        let Some(did) = read.did() else { return Vec::new() };
        let changes = did.changed();
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        let folder = common_folder(&paths);
        let names: Vec<&str> = paths.iter().map(|path| &path[folder.len()..]).collect();
        let first = changes.iter().find(|change| !change.into.telling.is_empty()).unwrap_or(&changes[0]);
        let mut forms = Vec::new();
        for (level, most) in [160, 400].into_iter().enumerate() {
            let target = Redacted::own("").and_number(paths.len()).and_own(" files");
            let target = match folder {
                "" => target,
                folder => target.and_own(" in ").and(&self.line(folder, PATH)),
            };
            let target = target.and_own(": ").and(&self.line(&names.join(", "), most));
            let lines = self.lines(&first.out.telling, &first.into.telling, level);
            let copied =
                first.from.as_ref().map(|from| Redacted::own("the first from ").and(&self.line(from, 120)));
            let outcome = copied.unwrap_or_else(|| Redacted::own("such as ").and(&lines));
            let outcome = if outcome.as_str() == "such as " { Redacted::own("") } else { outcome };
            forms.push(Piece::Entry(
                None,
                Entry::new(Act::Edit, &target, &outcome).kept_as(self.handle(read)),
            ));
        }
        forms
    }

    /// Telling lines of a change, each with its sign, in their order.
    fn lines(&mut self, out: &[(usize, String)], into: &[(usize, String)], level: usize) -> Redacted {
        let mut all = Redacted::own("");
        for (sign, lines, most) in [("−`", out, LINES_OUT[level]), ("+`", into, LINES_IN[level])] {
            let mut chosen: Vec<&(usize, String)> = lines.iter().take(most).collect();
            chosen.sort_by_key(|(at, _)| *at);
            for (_, line) in chosen {
                let blank = if all.as_str().is_empty() { "" } else { " " };
                all = all
                    .and_own(blank)
                    .and_own(sign)
                    .and(&self.line(line, LINE[level]).with("`", "'"))
                    .and_own("`");
            }
        }
        all
    }

    fn refused(&mut self, read: &Read) -> Vec<Piece> {
        let Some(did) = read.did() else { return Vec::new() };
        let target = match did.changes.first() {
            Some(change) => self.name(&change.path),
            None => self.line(&did.asked, COMMAND[0]),
        };
        let why = self.redact(&did.verdict.joined());
        let form = |most: usize| {
            let outcome = Redacted::own("not applied: ").and(&why.on_one_line(most));
            Piece::Entry(None, Entry::new(Act::Edit, &target, &outcome).kept_as(self.handle(read)))
        };
        OUTCOME.map(form).into()
    }

    fn run(&mut self, read: &Read, times: usize) -> Vec<Piece> {
        let Some(did) = read.did() else { return Vec::new() };
        let verdict = did.verdict.joined();
        let (command, verdict) = (self.redact(without_message(&did.same, &verdict)), self.redact(&verdict));
        let form = |(command_most, most): (usize, usize)| {
            let mut outcome = ended(did, &verdict.on_one_line(most));
            if times > 1 && !outcome.as_str().is_empty() {
                outcome = outcome.and_own(" (").and_number(times).and_own(" times the same)");
            }
            let entry = Entry::new(Act::Run, &command.on_one_line(command_most), &outcome);
            Piece::Entry(None, entry.kept_as(self.handle(read)))
        };
        [(COMMAND[0], OUTCOME[0]), (COMMAND[1], OUTCOME[0]), (COMMAND[1], OUTCOME[1])].map(form).into()
    }

    fn call(&mut self, reads: &[&Read]) -> Vec<Piece> {
        let Some((read, did)) = reads.last().and_then(|read| Some((read, read.did()?))) else {
            return Vec::new();
        };
        let act = match did.action.verb {
            Verb::Fetch | Verb::Browse => Act::Fetch,
            Verb::Delegate => Act::Delegate,
            _ => Act::Call,
        };
        let asked: Vec<&str> = reads.iter().filter_map(|read| Some(read.did()?.asked.as_str())).collect();
        // A call is known by its tool; pages and tasks speak for themselves.
        let tool = if act == Act::Call { did.action.tool.as_str() } else { "" };
        let asked = format!("{tool} {}", asked.join("; "));
        let (asked, verdict) = (self.redact(&asked), self.new_first(&did.verdict));
        let form = |(asked_most, most): (usize, usize)| {
            let entry =
                Entry::new(act, &asked.on_one_line(asked_most), &ended(did, &verdict.on_one_line(most)));
            Piece::Entry(None, entry.kept_as(self.handle(read)))
        };
        let least = if did.verdict.is_data { DATA } else { OUTCOME[0] };
        [(COMMAND[0], least), (COMMAND[1], OUTCOME[1]), (COMMAND[1] * 3, OUTCOME[1] * 2)].map(form).into()
    }

    /// The outcome of a call; of fields, those first that no call before gave back.
    fn new_first(&mut self, verdict: &Verdict) -> Redacted {
        if !verdict.is_data {
            return self.redact(&verdict.joined());
        }
        let is_new = |field: &&str| field.len() <= SHORT_FIELD || !self.fields.contains(*field);
        let rows = |field: &'_ String| self.named.rows(field).unwrap_or_else(|| field.clone());
        let told: Vec<String> = verdict.lines.iter().map(rows).collect();
        let (mut new, old): (Vec<&str>, Vec<&str>) = told.iter().map(String::as_str).partition(is_new);
        self.fields.extend(new.iter().map(|field| (*field).to_owned()));
        new.extend(old);
        self.redact(&new.join(", "))
    }

    fn question(&mut self, read: &Read) -> Vec<Piece> {
        let Some((question, answer)) = read.did().and_then(|did| did.question.as_ref()) else {
            return Vec::new();
        };
        let question = self.line(question, 300);
        let answer = match answer {
            Some(answer) => Redacted::own(" — Answer: ").and(&self.line(answer, 400)),
            None => Redacted::own(" — not answered yet"),
        };
        vec![Piece::Item(question.and(&answer).and_handle(self.handle(read).as_deref()))]
    }

    fn tests(&mut self, read: &Read, since: bool) -> Vec<Piece> {
        let Some(did) = read.did() else { return Vec::new() };
        let command = self.line(&did.same, COMMAND[0]);
        let outcome = ended(did, &Redacted::own(""));
        let since = if since { " (files were changed since)" } else { "" };
        vec![Piece::Item(
            Redacted::own("newest test run: ").and(&command).and_own(" — ").and(&outcome).and_own(since),
        )]
    }

    fn file(&mut self, file: &File, before: Option<&Redacted>) -> Vec<Piece> {
        let was: Option<FileNote> = before.and_then(|note| note.as_str().parse().ok());
        let was_created = was.as_ref().is_some_and(|note| note.what().starts_with("created"));
        if let (false, Some(_)) = (file.is_changed(), &was) {
            return Vec::new();
        }
        let path = self.line(&file.path, PATH);
        let named = |words: &'static str, name: &Redacted| Redacted::own(words).and(name);
        let mut what = match file {
            file if !file.is_changed() => Redacted::own("read"),
            file if file.deleted && (file.created || was_created) => {
                Redacted::own("created and deleted again")
            }
            file if file.deleted => Redacted::own("deleted"),
            file if file.restored => Redacted::own("put back as it was"),
            File { by: Some(script), .. } => named("written by ", &self.line(script, 80)),
            File { copied: Some(from), .. } => named("a copy of ", &self.line(from, 160)),
            file if file.created || was_created => Redacted::own("created"),
            _ => Redacted::own("edited"),
        };
        let times = file.changes - usize::from(file.created);
        if times > 1 && matches!(what.as_str(), "created" | "edited") {
            let edited = if file.created { ", edited " } else { " " };
            what = what.and_own(edited).and_number(times).and_own(" times");
        }
        vec![Piece::Item(FileNote::new(&path, what).line())]
    }
}

/// A commit without the message, where what it printed has it.
fn without_message<'c>(command: &'c str, printed: &str) -> &'c str {
    let message = command.find("git commit").and_then(|at| Some(at + command[at..].find(" -m ")?));
    match message.map(|at| (at, command[at + 4..].trim_start_matches(['"', '\'']))) {
        Some((at, words)) if printed.contains(&words[..words.floor_char_boundary(16)]) => &command[..at],
        _ => command,
    }
}

/// How many lines went out and came in.
fn counts(change: &Change) -> Redacted {
    let (out, into) = (change.out.lines, change.into.lines);
    if let Some((from, to)) = change.range {
        let range = Redacted::own("lines ").and_number(from).and_own(" to ").and_number(to);
        return range.and_own(" became ").and_number(into);
    }
    match (change.how, out, into) {
        (_, 0, 0) => Redacted::own(""),
        (Some(Touched::Created), _, lines) => Redacted::own("").and_number(lines).and_own(" lines"),
        (_, 0, into) => Redacted::own("+").and_number(into).and_own(" lines"),
        (_, out, 0) => Redacted::own("−").and_number(out).and_own(" lines"),
        (_, out, into) => Redacted::own("−").and_number(out).and_own(" +").and_number(into).and_own(" lines"),
    }
}

/// How something ended, with the lines that decided it.
fn ended(did: &Did, verdict: &Redacted) -> Redacted {
    let action = &did.action;
    let failed = action.outcome == Outcome::Failed;
    let mut words = Redacted::own("");
    if let Some(tests) = action.tests.filter(|_| !verdict.as_str().contains(" passed")) {
        words =
            words.and_number(tests.passed).and_own(" passed, ").and_number(tests.failed).and_own(" failed");
    } else if let Some(status) = action.exit.filter(|status| *status != 0) {
        words = Redacted::own("exit ").and_number(status.unsigned_abs() as usize);
    } else if failed {
        words = Redacted::own("failed");
    } else if action.outcome == Outcome::Unanswered {
        words = Redacted::own("no result");
    }
    match (words.as_str().is_empty(), verdict.as_str().is_empty()) {
        (true, true) if action.exit == Some(0) => Redacted::own("exit 0"),
        (true, true) => Redacted::own(""),
        (true, false) => verdict.clone(),
        (false, true) => words,
        (false, false) => words.and_own(": ").and(verdict),
    }
}
