//! What could stand in a checkpoint, and what each is worth per token: sketched from the evidence first, so that only what could
//! be bought is redacted and written.

use std::collections::{HashMap, HashSet};

use super::names::short;
use super::net::{File, Files};
use super::write::Draft;
use super::{Completed, Quoted, Section};
use crate::action::{Change, Outcome, Touched, Verb};
use crate::evidence::{Did, Evidence, Item, Read, Sense, TaskState, asks, denies, weigh_said};
use crate::redact::Redacted;
use crate::tools::{changes_surroundings, looks_up};

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

impl What<'_> {
    /// Whether it is something that was done or concluded now.
    pub(super) fn is_action(&self) -> bool {
        match self {
            Self::Heard(_)
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
    quoted: f64,
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
    quoted: 0.6,
};

/// A message of more bytes may be cut.
const LONG_MESSAGE: usize = 160;

/// Words of a person shorter than this, without a word that makes them a rule, are small talk.
const SMALL_TALK: usize = 40;

/// A file that was made and changed more often than this is the work itself.
const MADE_ONCE: usize = 2;

/// Files that were only read, of which so many are named.
const MOST_READ: usize = 8;

/// Places of one block among the actions, and how many look-ups are told together.
const PLACES: usize = 64;
const MOST_ALIKE: usize = 40;

/// An answer of no more bytes says the same for all that got it.
const SHORT_ANSWER: usize = 60;

/// More changes than this in one call are told together.
const SEVERAL: usize = 3;

/// What was said again among so many newer sentences is said once, in its newest words.
const RECENT: usize = 40;

pub(super) fn sketch<'d>(draft: &Draft<'d>) -> Vec<Sketch<'d>> {
    let mut sketches = Sketches { draft, list: Vec::new(), units: units(draft) };
    sketches.said();
    sketches.told();
    let files = sketches.changes();
    sketches.deeds();
    sketches.tests();
    sketches.tasks();
    sketches.files(files);
    sketches.carried();
    sketches.quotes();
    sketches.list
}

fn units(draft: &Draft<'_>) -> usize {
    let lists = [&draft.evidence.said, &draft.evidence.told, &draft.evidence.deeds];
    lists.iter().filter_map(|list| list.last()).map(|last| last.unit + 1).max().unwrap_or(1)
}

struct Sketches<'s, 'd> {
    draft: &'s Draft<'d>,
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
        let folded = self.draft.folded;
        list.iter().filter(move |read| folded(read.unit))
    }

    fn said(&mut self) {
        let all = &self.draft.evidence.said;
        let last: HashMap<&str, usize> = all.iter().map(|said| (said.words(), said.unit)).collect();
        for said in self.folded(all) {
            let words = said.words();
            let rate = match () {
                // What is said again is said once.
                () if words.is_empty() || last.get(words) != Some(&said.unit) => continue,
                () if !said.by_user => WORTH.heard,
                () if words.chars().count() < SMALL_TALK && weigh_said(words) < 2.0 => WORTH.small_talk,
                () => WORTH.said,
            };
            let stands = match said.by_user {
                true if self.is_handed_in(said.unit) => Stands::HandedIn,
                true if self.is_answered(said.unit) => Stands::Answered,
                _ => Stands::Open,
            };
            let handed_in = stands == Stands::HandedIn;
            let rate = if handed_in { WORTH.small_talk } else { rate };
            let what = if said.by_user { What::Said(said, stands) } else { What::Heard(said) };
            let rules = if said.by_user && !handed_in { said.rules() } else { Vec::new() };
            // A rule is as good as on the day it was given.
            let holds =
                |what, place| Sketch { what, at: (said.unit + 1, place), number: 0, rate: WORTH.rule };
            if words.len() <= LONG_MESSAGE && !rules.is_empty() {
                self.list.push(holds(what, said.block));
                continue;
            }
            self.add(what, (said.unit, said.block), rate);
            // Of a long message, the rules stand for themselves, so that they stay where it is cut.
            self.list
                .extend(rules.into_iter().enumerate().map(|(place, rule)| holds(What::Rule(rule), place)));
        }
    }

    /// Whether the work that a message asked for was handed in, before anybody said something else.
    fn is_handed_in(&self, unit: usize) -> bool {
        let evidence = self.draft.evidence;
        let next = evidence.said.get(evidence.said.partition_point(|said| said.unit <= unit));
        let Some(end) = next.map(|next| next.unit) else { return false };
        let until = |list: &'d [Read]| {
            let first = list.partition_point(|read| read.unit <= unit);
            list[first..].iter().take_while(move |read| read.unit < end)
        };
        until(&evidence.deeds).any(|read| read.did().is_some_and(|did| did.finishes))
            || until(&evidence.told).any(|read| read.told().is_some_and(|told| told.hands_in))
    }

    /// Whether the turn of a message ended with closing words before the next one.
    fn is_answered(&self, unit: usize) -> bool {
        let Evidence { said, told, .. } = self.draft.evidence;
        let next = said.get(said.partition_point(|said| said.unit <= unit)).map(|next| next.unit);
        let closing = told[..told.partition_point(|told| next.is_none_or(|next| told.unit < next))].last();
        next.is_some() && closing.is_some_and(|told| told.unit > unit && told.closes)
    }

    /// The last unit of the tasks that were handed in before somebody said something else: of these, what was changed and
    /// answered is enough.
    fn handed_in(&self) -> usize {
        let said = self.draft.evidence.said.iter().filter(|said| said.by_user);
        let ended = said.clone().zip(said.skip(1)).filter(|(said, _)| self.is_handed_in(said.unit));
        ended.last().map_or(0, |(_, next)| next.unit)
    }

    /// Closing words whole, of all else the sentences that tell; of two that say the same, the newer one.
    fn told(&mut self) {
        let told = &self.draft.evidence.told;
        let mut newer: Vec<&Sense> = Vec::new();
        let handed_in = self.handed_in();
        for read in self.folded(told).rev() {
            let Some(said) = read.told() else { continue };
            let people = &self.draft.evidence.said;
            let next = people.partition_point(|said| said.unit < read.unit);
            let request = next.checked_sub(1).map(|at| &people[at]);
            let is_first =
                request.is_some_and(|request| request.unit + 1 == read.unit && asks(request.words()));
            if read.visible && (read.closes || is_first && !said.notes.is_empty()) && !said.text.is_empty() {
                let denied = people.get(next).is_some_and(|said| denies(said.words()));
                let rate = match denied {
                    // What is being replied to is told like what people say.
                    _ if self.draft.answer == Some(read.unit) => WORTH.said,
                    true => WORTH.denied,
                    false => WORTH.answer,
                };
                self.add(What::Answer(read, request), (read.unit, read.block), rate);
                continue;
            }
            if read.unit < handed_in {
                continue;
            }
            let mut places = Vec::new();
            for (place, note) in said.notes.iter().enumerate().rev() {
                let recent = newer.len().saturating_sub(RECENT);
                if !note.claims_success && !newer[recent..].iter().any(|other| note.sense.is_in(other)) {
                    newer.push(&note.sense);
                    places.push(place);
                }
            }
            places.sort_by(|a, b| said.notes[*b].weight.total_cmp(&said.notes[*a].weight));
            if let Some(best) = places.first() {
                let rate = WORTH.note * f64::from(said.notes[*best].weight.min(3.0));
                self.add(What::Notes(read, places), (read.unit, read.block), rate);
            }
        }
    }

    fn deeds(&mut self) {
        let deeds = &self.draft.evidence.deeds;
        let mut seen = Seen::default();
        let handed_in = self.handed_in();
        for read in deeds.iter().rev() {
            let Some(did) = read.did() else { continue };
            let runs = seen.runs(did);
            seen.edited.extend(did.changed().iter().map(|change| change.path.as_str()));
            if !(self.draft.folded)(read.unit) {
                continue;
            }
            let first = (read.unit, read.block * PLACES);
            match () {
                () if did.question.is_some() => self.add(What::Question(read), first, WORTH.question),
                () if did.finishes => self.add(What::Answer(read, None), first, WORTH.answer),
                () if read.unit < handed_in => {}
                () if did.is_refused => {
                    if let Some(rate) = seen.refused(did) {
                        self.add(What::Refused(read), first, rate);
                    }
                }
                () => self.ran(read, did, runs, &mut seen),
            }
        }
    }

    /// What was done to files: told once for each file and turn, before each commit and each run that tells something new. Gives
    /// what became of all.
    fn changes(&mut self) -> Files {
        let deeds = &self.draft.evidence.deeds;
        let fate = Fate::of(deeds);
        let mut people = self.draft.evidence.said.iter().filter(|said| said.by_user).peekable();
        let (mut all, mut turn) = (Files::default(), Files::default());
        let mut outcomes: HashMap<&str, &Vec<String>> = HashMap::new();
        for (deed, read) in deeds.iter().enumerate() {
            let Some(did) = read.did() else { continue };
            if !(self.draft.folded)(read.unit) {
                // What is in sight is not told, but what became of a file is what became of it in the end.
                for (place, change) in did.changed().iter().enumerate() {
                    if all.knows(&change.path) {
                        all.change((deed, place), change, true);
                    }
                }
                continue;
            }
            let mut is_new_turn = false;
            while people.next_if(|said| said.unit < read.unit).is_some() {
                is_new_turn = true;
            }
            // What was done before a run that ended otherwise than the one before it stands before it.
            let ended = outcomes.insert(&did.same, &did.verdict.lines);
            let differs = ended.is_some_and(|before| *before != did.verdict.lines);
            let tells = did.action.verb == Verb::Run && (differs || did.action.tests.is_some());
            if is_new_turn || tells {
                self.changed(std::mem::take(&mut turn), &fate);
            }
            did.read().for_each(|path| all.read(deed, path));
            let together = did.changed().len() > SEVERAL;
            if together {
                self.add(What::Changes(read), (read.unit, read.block * PLACES), WORTH.change);
            }
            for (place, change) in did.changed().iter().enumerate() {
                let known = all.knows(&change.path);
                all.change((deed, place), change, known);
                if !together && !is_told_by_run(change, did) {
                    turn.change((deed, place), change, known);
                    let says_so = || did.verdict.lines.first().is_some_and(|line| line.contains(" passed"));
                    if did.action.tests.is_some() || says_so() {
                        turn.tested(deed, &change.path);
                    }
                }
            }
            if did.action.verb == Verb::Run && did.action.outcome != Outcome::Failed {
                all.run(deed, &did.same);
            }
            if did.same.contains("git commit") {
                self.changed(std::mem::take(&mut turn), &fate);
            }
        }
        self.changed(turn, &fate);
        all
    }

    fn changed(&mut self, turn: Files, fate: &Fate<'_>) {
        for file in turn.into_list() {
            let read = &self.draft.evidence.deeds[file.deed];
            let Some(change) = read.did().and_then(|did| did.changes.get(file.place)) else { continue };
            let rate =
                if file.created && file.deleted { WORTH.undone } else { fate.worth(change, file.deed) };
            let at = (read.unit, read.block * PLACES + file.place);
            let size = if rate < WORTH.change { Size::Scratch } else { Size::Work };
            self.add(What::Change(read, file, size), at, rate);
        }
    }

    /// What a call did besides.
    fn ran(&mut self, read: &'d Read, did: &'d Did, runs: Runs<'d>, seen: &mut Seen<'d>) {
        let action = &did.action;
        let wrote = !did.changed().is_empty();
        let last = (read.unit, read.block * PLACES + PLACES - 1);
        match action.verb {
            _ if did.is_edit && wrote => {}
            _ if action.looks || did.asked.is_empty() && did.verdict.lines.is_empty() => {}
            // What only writes files is told by what became of them.
            Verb::Run if wrote && action.tries.as_deref().is_none_or(str::is_empty) => {}
            Verb::Run if did.verdict.lines.is_empty() && did.same.starts_with("mkdir ") => {}
            Verb::Run => {
                if let Some(rate) = runs.worth(did) {
                    seen.told.insert(&did.same, self.list.len());
                    self.add(What::Run(read, 1), last, rate);
                } else if let Some(What::Run(_, times)) =
                    seen.told.get(did.same.as_str()).map(|told| &mut self.list[*told].what)
                {
                    *times += 1;
                }
            }
            _ if !looks_up(&action.tool) => self.add(What::Call(vec![read]), last, WORTH.change),
            _ => {
                // Many look-ups with one short answer are told together.
                if let Some(place) = seen.alike(did, self.list.len())
                    && let What::Call(reads) = &mut self.list[place].what
                {
                    if reads.len() < MOST_ALIKE {
                        reads.insert(0, read);
                    }
                    return;
                }
                let rate = WORTH.call / seen.times(did).sqrt();
                self.add(What::Call(vec![read]), last, rate);
            }
        }
    }

    /// The newest test run of all, if it is not in sight.
    fn tests(&mut self) {
        let deeds = &self.draft.evidence.deeds;
        let tested = deeds.iter().rposition(|read| read.did().is_some_and(|did| did.action.tests.is_some()));
        if let Some(at) = tested.filter(|at| (self.draft.folded)(deeds[*at].unit)) {
            let since = deeds[at + 1..].iter().filter_map(Read::did).any(|did| !did.changed().is_empty());
            self.add(What::Tests(&deeds[at], since), (deeds[at].unit, 0), WORTH.tests);
        }
    }

    /// The agent's list of tasks as it stood last, if that is not in sight.
    fn tasks(&mut self) {
        let evidence = self.draft.evidence;
        let lists = evidence.told.iter().chain(&evidence.deeds).filter(|read| !read.tasks().is_empty());
        let Some(newest) = lists.max_by_key(|read| read.unit).filter(|read| (self.draft.folded)(read.unit))
        else {
            return;
        };
        for (place, task) in newest.tasks().iter().enumerate() {
            let rate = if task.kind == TaskState::Done { WORTH.file } else { WORTH.task };
            self.add(What::Task(task), (newest.unit, place), rate);
        }
    }

    /// What became of each file: the work itself first, then what was made beside it, then what was only read.
    fn files(&mut self, files: Files) {
        let deeds = &self.draft.evidence.deeds;
        let before = self.draft.previous.map_or(&[][..], |before| before.list(Section::RelevantFiles));
        let noted: HashMap<String, &Redacted> =
            before.iter().map(|note| (super::write::path_of(note), note)).collect();
        // Of what was only read, the newest is enough.
        let mut list = files.into_list();
        list.sort_by_key(|file| (file.is_changed(), file.deed));
        let read = list.iter().filter(|file| !file.is_changed()).count();
        list.drain(..read.saturating_sub(MOST_READ));
        for file in list {
            let (class, rate) = match &file {
                file if !file.is_changed() && file.reads > 1 => (3, WORTH.file_made),
                file if !file.is_changed() => (3, WORTH.file_read),
                file if file.deleted || file.restored => (2, WORTH.file_made),
                file if file.created && file.reads == 0 && file.changes <= MADE_ONCE => (1, WORTH.file_made),
                // What an entry says already, with the whole path.
                file if file.changes == 1 && short(&file.path) == file.path => (0, WORTH.file_made),
                _ => (0, WORTH.file),
            };
            let before = noted.get(&file.path).copied();
            let age = self.age(deeds[file.deed].unit);
            let at = (class, file.deed);
            self.list.push(Sketch { what: What::File(file, before), at, number: 0, rate: rate * age });
        }
    }

    /// What the checkpoint before said, as far as nothing newer takes its place: older than all else, and worth less each time.
    fn carried(&mut self) {
        let Some(before) = self.draft.previous else { return };
        let evidence = self.draft.evidence;
        let has_tasks = self.list.iter().any(|sketch| matches!(sketch.what, What::Task(_)))
            || evidence.told.iter().chain(&evidence.deeds).any(|read| !read.tasks().is_empty());
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
            for (place, item) in before.list(section).iter().enumerate().filter(|(_, item)| !is_read(item)) {
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

    fn quotes(&mut self) {
        let before = self.draft.previous.map_or(&[][..], |before| before.quoted());
        for (source, quoted) in before.iter().chain(self.draft.quotes).enumerate() {
            for line in 0..quoted.lines.len() {
                let what = What::Quote(quoted, line);
                self.list.push(Sketch {
                    what,
                    at: (source, line),
                    number: 0,
                    rate: WORTH.quoted * (1.0 + source as f64 / 100.0),
                });
            }
        }
    }
}

/// What became of files later.
struct Fate<'d> {
    /// Paths that were deleted or put back, with the last exchange that did so.
    deleted: HashMap<&'d str, usize>,
    /// Files that were looked at or edited: the work itself; others are scratch.
    touched: HashSet<&'d str>,
}

/// What newer calls say of an older one.
#[derive(Default)]
struct Seen<'d> {
    /// How each command ended in later runs: the oldest of them, and how many outcomes there were.
    later: HashMap<&'d str, (&'d [String], usize)>,
    /// Where the newest run of a command is told.
    told: HashMap<&'d str, usize>,
    /// Files that were changed, and edits that were refused, with the reason.
    edited: HashSet<&'d str>,
    refusals: HashSet<(&'d str, &'d str)>,
    /// How often each tool was called.
    called: HashMap<&'d str, usize>,
    /// Where the look-ups of one tool with one short answer are told.
    alike: HashMap<(&'d str, &'d str), usize>,
}

/// How newer runs of the same command ended.
#[derive(Clone, Copy)]
struct Runs<'d> {
    newer: Option<&'d [String]>,
    outcomes: usize,
}

impl Runs<'_> {
    /// What a run is worth; nothing where the newer one tells the same.
    fn worth(self, did: &Did) -> Option<f64> {
        let failed = did.action.outcome == Outcome::Failed;
        match self.newer {
            Some(newer) if *newer == *did.verdict.lines => None,
            Some(_) => {
                Some(WORTH.run_before * if failed { 1.6 } else { 0.8 } / (self.outcomes as f64).sqrt())
            }
            None if failed || did.action.tests.is_some() => Some(WORTH.run_failed),
            None if changes_surroundings(&did.same) => Some(WORTH.change),
            None => Some(WORTH.run),
        }
    }
}

impl<'d> Seen<'d> {
    /// How newer runs of a command ended; this one is the newest from now on.
    fn runs(&mut self, did: &'d Did) -> Runs<'d> {
        if did.action.verb != Verb::Run {
            return Runs { newer: None, outcomes: 0 };
        }
        let newer = self.later.get(did.same.as_str()).copied();
        let outcomes = newer.map_or(0, |(_, outcomes)| outcomes);
        let is_other = newer.is_none_or(|(verdict, _)| *verdict != *did.verdict.lines);
        self.later.insert(&did.same, (&did.verdict.lines, outcomes + usize::from(is_other)));
        Runs { newer: newer.map(|(verdict, _)| verdict), outcomes }
    }

    /// What an edit is worth that was not applied: little where the file was edited after it, nothing where it was refused again
    /// for the same reason.
    fn refused(&mut self, did: &'d Did) -> Option<f64> {
        let path = did.changes.first().map_or("", |change| change.path.as_str());
        let why = did.verdict.lines.first().map_or("", String::as_str);
        let is_new = self.refusals.insert((path, why));
        is_new.then_some(if self.edited.contains(path) { WORTH.refused / 2.0 } else { WORTH.refused })
    }

    /// Where a look-up with the same short answer is told already; else it will be told at this place.
    fn alike(&mut self, did: &'d Did, next: usize) -> Option<usize> {
        let answer = match did.verdict.lines.as_slice() {
            [] => "",
            [answer] if answer.len() <= SHORT_ANSWER => answer,
            _ => return None,
        };
        let key = (did.action.tool.as_str(), answer);
        let told = self.alike.get(&key).copied();
        self.alike.entry(key).or_insert(next);
        told
    }

    fn times(&mut self, did: &'d Did) -> f64 {
        let times = self.called.entry(&did.action.tool).or_default();
        *times += 1;
        *times as f64
    }
}

impl<'d> Fate<'d> {
    fn of(deeds: &'d [Read]) -> Self {
        let edited = |did: &'d Did| {
            did.changes.iter().filter(|change| change.how.is_none()).map(|change| change.path.as_str())
        };
        let touched = deeds.iter().filter_map(Read::did).flat_map(|did| did.read().chain(edited(did)));
        Self { deleted: deleted_later(deeds), touched: touched.collect() }
    }

    /// What a change is worth that this exchange made.
    fn worth(&self, change: &Change, index: usize) -> f64 {
        let is_gone = |path: &str| self.deleted.get(path).is_some_and(|last| *last > index);
        let folders = change.path.match_indices('/').map(|(at, _)| &change.path[..at]);
        let gone = is_gone(&change.path) || is_gone(".") || folders.into_iter().any(is_gone);
        let is_scratch =
            change.writes.is_empty() && change.from.is_none() && !self.touched.contains(change.path.as_str());
        match change.how {
            _ if gone => WORTH.undone,
            Some(Touched::Created) if is_scratch => WORTH.created,
            Some(Touched::Deleted) => WORTH.undone,
            _ => WORTH.change,
        }
    }
}

/// Whether a script is written and run at once: then it is told by its run, unless it is there to change something else.
fn is_told_by_run(change: &Change, did: &Did) -> bool {
    let name = change.path.rsplit('/').next().unwrap_or(&change.path);
    let is_run = |at: usize| {
        did.same[..at].ends_with(['/', ' '])
            && did.same[at + name.len()..].trim_start_matches([';', ' ']).is_empty()
    };
    change.how == Some(Touched::Created)
        && change.writes.is_empty()
        && did.same.find(name).is_some_and(is_run)
}

/// For each path that was deleted or put back, the last exchange that did so.
fn deleted_later(deeds: &[Read]) -> HashMap<&str, usize> {
    let mut last = HashMap::new();
    for (index, did) in deeds.iter().enumerate().filter_map(|(index, read)| Some((index, read.did()?))) {
        let gone =
            did.changed().iter().filter(|c| matches!(c.how, Some(Touched::Deleted | Touched::Restored)));
        last.extend(gone.map(|change| (change.path.as_str(), index)));
    }
    last
}
