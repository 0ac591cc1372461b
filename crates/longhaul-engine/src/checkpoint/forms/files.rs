//! Forms of what was done to files.

use super::runs::ended;
use super::{COMMAND, OUTCOME, PATH, Piece, Writer};
use crate::action::{Change, Outcome, Touched};
use crate::checkpoint::names::common_folder;
use crate::checkpoint::net::File;
use crate::checkpoint::sketch::Size;
use crate::evidence::{Did, Read};
use crate::redact::Redacted;
use crate::texts::{Act, Entry, FileNote};

/// Characters of a line that went out or came in, and how many of each.
const LINE: [usize; 3] = [90, 120, 150];
const LINES_OUT: [usize; 3] = [1, 2, 4];
const LINES_IN: [usize; 3] = [1, 3, 8];

impl Writer<'_, '_> {
    /// What a turn did to a file.
    pub(super) fn change(&mut self, read: &Read, file: &File, size: Size) -> Vec<Piece> {
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
        let from = change.from.as_ref().map(|from| Redacted::own("copied from ").and(&self.line(from, PATH)));
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
                && (file.created || change.how.is_none())
                && change.out.lines <= LINES_OUT[level].min(out.len())
                && change.into.lines <= LINES_IN[level].min(into.len());
            // What was there before is not new, though it is written whole.
            let is_anew = change.how == Some(Touched::Created) && !file.created;
            let counted = || match (file.changes, file.created) {
                (1, _) if is_anew => Redacted::own("written anew, ").and(&counts(change)),
                (1, _) => counts(change),
                (2, true) => Redacted::own("then changed"),
                (changes, true) => Redacted::own("then changed ").and_number(changes - 1).and_own(" times"),
                (changes, false) => Redacted::own("").and_number(changes).and_own(" edits"),
            };
            let mut outcome = match act {
                Act::Delete if file.created => Redacted::own("created in the same turn"),
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
        let tests = file.tested.and_then(|deed| self.brief.evidence.deeds.get(deed)?.did());
        if let Some(tests) = tests {
            let is_last = file.tested == Some(file.deed);
            let words = if is_last { "; tests then: " } else { "; tests after an earlier edit: " };
            return Redacted::own(words).and(&self.line(&first(tests), OUTCOME[0]));
        }
        if did.action.outcome != Outcome::Failed {
            return Redacted::own("");
        }
        let verdict = self.line(&first(did), OUTCOME[0]);
        Redacted::own("; then ").and(&ended(did, &verdict))
    }

    /// Changes of many files at once: how many, which, and the lines of the first.
    pub(super) fn changes(&mut self, read: &Read) -> Vec<Piece> {
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

    pub(super) fn refused(&mut self, read: &Read) -> Vec<Piece> {
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

    pub(super) fn file(&mut self, file: &File, before: Option<&Redacted>) -> Vec<Piece> {
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
            File { copied: Some(from), .. } => named("a copy of ", &self.line(from, PATH)),
            file if file.created || was_created => Redacted::own("created"),
            _ => Redacted::own("edited"),
        };
        let times = file.changes - usize::from(file.created);
        if times > 1 && matches!(what.as_str(), "created" | "edited") {
            let edited = if file.created { ", changed " } else { " " };
            what = what.and_own(edited).and_number(times).and_own(" times");
        }
        vec![Piece::Item(FileNote::new(&path, what).line())]
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
