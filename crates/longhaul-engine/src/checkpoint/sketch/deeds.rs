//! What was run and called: of each command its last outcome, and earlier ones that ended otherwise.

use std::collections::{HashMap, HashSet};

use super::{PLACES, Sketches, WORTH, What};
use crate::action::{Outcome, Verb};
use crate::evidence::{Did, Read};
use crate::tools::{changes_surroundings, looks_up};

/// How many look-ups are told together.
const MOST_ALIKE: usize = 40;

/// An answer of no more bytes says the same for all that got it.
const SHORT_ANSWER: usize = 60;

impl<'d> Sketches<'_, 'd> {
    pub(super) fn deeds(&mut self) {
        let deeds = &self.brief.evidence.deeds;
        let mut seen = Seen::default();
        let handed_in = self.handed_in();
        for read in deeds.iter().rev() {
            let Some(did) = read.did() else { continue };
            let runs = seen.runs(did);
            seen.edited.extend(did.changed().iter().map(|change| change.path.as_str()));
            if !(self.brief.folded)(read.at.unit) {
                continue;
            }
            let first = (read.at.unit, read.at.block * PLACES);
            match () {
                () if did.question.is_some() => self.add(What::Question(read), first, WORTH.question),
                () if did.finishes => self.add(What::Answer(read, None), first, WORTH.answer),
                () if read.at.unit < handed_in => {}
                () if did.is_refused => {
                    if let Some(rate) = seen.refused(did) {
                        self.add(What::Refused(read), first, rate);
                    }
                }
                () => self.ran(read, did, runs, &mut seen),
            }
        }
    }

    /// What a call did besides.
    fn ran(&mut self, read: &'d Read, did: &'d Did, runs: Runs<'d>, seen: &mut Seen<'d>) {
        let action = &did.action;
        let wrote = !did.changed().is_empty();
        let last = (read.at.unit, read.at.block * PLACES + PLACES - 1);
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
                } else if let Some(What::Run(newest, times)) =
                    seen.told.get(did.same.as_str()).map(|told| &mut self.list[*told].what)
                    && newest.did().is_some_and(|newest| newest.verdict.whole == did.verdict.whole)
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
    pub(super) fn tests(&mut self) {
        let deeds = &self.brief.evidence.deeds;
        let tested = deeds.iter().rposition(|read| read.did().is_some_and(|did| did.action.tests.is_some()));
        if let Some(at) = tested.filter(|at| (self.brief.folded)(deeds[*at].at.unit)) {
            let since = deeds[at + 1..].iter().filter_map(Read::did).any(|did| !did.changed().is_empty());
            self.add(What::Tests(&deeds[at], since), (deeds[at].at.unit, 0), WORTH.tests);
        }
    }
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
