//! What was done to files, turn by turn, and what became of each.

use std::collections::{HashMap, HashSet};

use super::{PLACES, Section, Size, Sketch, Sketches, WORTH, What};
use crate::action::{Change, Outcome, Touched, Verb};
use crate::checkpoint::names::{last_part, path_of, short};
use crate::checkpoint::net::Files;
use crate::evidence::{Did, Read};
use crate::redact::Redacted;

/// More changes than this in one call are told together.
const SEVERAL: usize = 3;

/// A file that was made and changed more often than this is the work itself.
const MADE_ONCE: usize = 2;

/// Files that were only read, of which so many are named.
const MOST_READ: usize = 8;

impl Sketches<'_, '_> {
    /// What was done to files: told once for each file and turn, before each commit and each run that tells something new. Gives
    /// what became of all.
    pub(super) fn changes(&mut self) -> Files {
        let deeds = &self.brief.evidence.deeds;
        let fate = Fate::of(deeds);
        let mut people = self.brief.evidence.said.iter().filter(|said| said.by_user).peekable();
        let (mut all, mut turn) = (Files::default(), Files::default());
        let mut outcomes: HashMap<&str, &Vec<String>> = HashMap::new();
        for (deed, read) in deeds.iter().enumerate() {
            let Some(did) = read.did() else { continue };
            if !(self.brief.folded)(read.at.unit) {
                // What is in sight is not told, but what became of a file is what became of it in the end.
                for (place, change) in did.changed().iter().enumerate() {
                    if all.knows(&change.path) {
                        all.change((deed, place), change, true);
                    }
                }
                continue;
            }
            let mut is_new_turn = false;
            while people.next_if(|said| said.at.unit < read.at.unit).is_some() {
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
                self.add(What::Changes(read), (read.at.unit, read.at.block * PLACES), WORTH.change);
            }
            for (place, change) in did.changed().iter().enumerate() {
                let known = all.knows(&change.path);
                all.change((deed, place), change, known);
                if !together && !is_told_by_run(change, did) {
                    turn.change((deed, place), change, known);
                    let says_so = || {
                        let mut told =
                            did.verdict.lines.first().into_iter().flat_map(|line| line.split(" | "));
                        told.any(|line| line.contains(" passed") && !is_listed(line))
                    };
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
            let read = &self.brief.evidence.deeds[file.deed];
            let Some(change) = read.did().and_then(|did| did.changes.get(file.place)) else { continue };
            let is_undone = file.created && file.deleted;
            let (size, rate) =
                if is_undone { (Size::Scratch, WORTH.undone) } else { fate.worth(change, file.deed) };
            let at = (read.at.unit, read.at.block * PLACES + file.place);
            self.add(What::Change(read, file, size), at, rate);
        }
    }

    /// What became of each file: what was there before first, then what was made, then what is gone, then what was only read.
    pub(super) fn files(&mut self, files: Files) {
        let deeds = &self.brief.evidence.deeds;
        let before = self.brief.previous.map_or(&[][..], |before| before.list(Section::RelevantFiles));
        let noted: HashMap<String, &Redacted> = before.iter().map(|note| (path_of(note), note)).collect();
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
                file if file.created && file.changes <= MADE_ONCE => (1, WORTH.file_made),
                file if file.created => (1, WORTH.file),
                // What an entry says already, with the whole path.
                file if file.changes == 1 && short(&file.path) == file.path => (0, WORTH.file_made),
                _ => (0, WORTH.file),
            };
            let before = noted.get(&file.path).copied();
            let age = self.age(deeds[file.deed].at.unit);
            let at = (class, file.deed);
            self.list.push(Sketch { what: What::File(file, before), at, number: 0, rate: rate * age });
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

impl<'d> Fate<'d> {
    fn of(deeds: &'d [Read]) -> Self {
        let edited = |did: &'d Did| {
            did.changes.iter().filter(|change| change.how.is_none()).map(|change| change.path.as_str())
        };
        let touched = deeds.iter().filter_map(Read::did).flat_map(|did| did.read().chain(edited(did)));
        Self { deleted: deleted_later(deeds), touched: touched.collect() }
    }

    /// How much is told of a change that this exchange made, and what it is worth.
    fn worth(&self, change: &Change, index: usize) -> (Size, f64) {
        let is_gone = |path: &str| self.deleted.get(path).is_some_and(|last| *last > index);
        let folders = change.path.match_indices('/').map(|(at, _)| &change.path[..at]);
        let gone = is_gone(&change.path) || is_gone(".") || folders.into_iter().any(is_gone);
        let is_scratch =
            change.writes.is_empty() && change.from.is_none() && !self.touched.contains(change.path.as_str());
        match change.how {
            _ if gone => (Size::Scratch, WORTH.undone),
            Some(Touched::Created) if is_scratch => (Size::Scratch, WORTH.created),
            Some(Touched::Deleted) => (Size::Scratch, WORTH.undone),
            _ => (Size::Work, WORTH.change),
        }
    }
}

/// Whether a script is written and run at once: then it is told by its run, unless it is there to change something else.
fn is_told_by_run(change: &Change, did: &Did) -> bool {
    let name = last_part(&change.path);
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

/// A line of a file that a tool shows with its number: what stands in it was not printed by a run.
fn is_listed(line: &str) -> bool {
    let line = line.trim_start();
    let behind = line.trim_start_matches(|c: char| c.is_ascii_digit());
    behind.len() < line.len() && behind.starts_with([':', '|', '→', '\t'])
}
