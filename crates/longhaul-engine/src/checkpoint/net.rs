//! What became of each file over all that was done to it: the net effect, not the history.

use std::collections::{HashMap, HashSet, VecDeque};

use super::names::last_part;
use crate::action::{Change, Side, Touched, mark};

/// Lines of the net effect that are kept of each side.
const MOST: usize = 24;
/// Names under which a file may be known: more of the same name are not compared.
const NAMESAKES: usize = 8;
/// Scripts whose runs are followed.
const SCRIPTS: usize = 64;

/// A file, and what became of it.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) path: String,
    /// The last deed that touched it,
    pub(super) deed: usize,
    /// and the place of its last change among those of its deed.
    pub(super) place: usize,
    /// The last deed that changed it and ran tests.
    pub(super) tested: Option<usize>,
    /// How often it was read,
    pub(super) reads: usize,
    /// and changed.
    pub(super) changes: usize,
    pub(super) created: bool,
    pub(super) deleted: bool,
    pub(super) restored: bool,
    /// What it was copied from, if that was the last that happened to it; the script that changed it last.
    pub(super) copied: Option<String>,
    pub(super) by: Option<String>,
    /// Lines that went out and did not come back; lines that came in and are still there.
    out: Vec<Line>,
    into: Vec<Line>,
}

/// A line of the net effect.
#[derive(Debug)]
struct Line {
    text: String,
    mark: u32,
    /// Which change it came by, and where in it.
    at: (usize, usize),
    /// How many lines of its change tell more.
    rank: usize,
    /// Its number in the file, as long as that is known.
    number: Option<usize>,
}

impl File {
    pub(super) fn is_changed(&self) -> bool {
        self.changes > 0
    }

    /// The lines that went out, and those that came in: those that tell most first, each with its place among all.
    pub(super) fn net(&self) -> [Vec<(usize, String)>; 2] {
        [&self.out, &self.into].map(|lines| {
            let mut ranked: Vec<(usize, &Line)> = lines.iter().enumerate().collect();
            ranked.sort_by_key(|(_, line)| (line.rank, std::cmp::Reverse(line.at)));
            ranked.into_iter().map(|(place, line)| (place, line.text.clone())).collect()
        })
    }

    fn change(&mut self, change: &Change, known: bool) {
        self.copied.clone_from(&change.from);
        self.by = None;
        self.changes += 1;
        match change.how {
            None | Some(Touched::Edited) => {
                (self.deleted, self.restored) = (false, false);
                self.edit(change);
            }
            Some(Touched::Created) => {
                // What was there before is written anew, not created.
                self.changes = if self.deleted { 1 } else { self.changes };
                (self.created, self.deleted, self.restored) = (self.created || !known, false, false);
                self.out.clear();
                self.into.clear();
                self.add(&change.into, None, |file| &mut file.into);
            }
            Some(Touched::Deleted) => {
                self.deleted = true;
                self.into.clear();
            }
            Some(Touched::Restored) => {
                (self.restored, self.deleted) = (true, false);
                self.out.clear();
                self.into.clear();
            }
            Some(Touched::Read) => self.changes -= 1,
        }
    }

    /// What goes out takes back what came in, and the other way round.
    fn edit(&mut self, change: &Change) {
        let marks = |side: &Side| side.marks.iter().copied().collect::<HashSet<u32>>();
        let (gone, came) = (marks(&change.out), marks(&change.into));
        self.renumber(change);
        let back: HashSet<u32> =
            self.out.iter().map(|line| line.mark).filter(|mark| came.contains(mark)).collect();
        let taken: HashSet<u32> =
            self.into.iter().map(|line| line.mark).filter(|mark| gone.contains(mark)).collect();
        self.into.retain(|line| !taken.contains(&line.mark));
        self.out.retain(|line| !back.contains(&line.mark));
        let without = |side: &Side, gone: &HashSet<u32>| Side {
            telling: side.telling.iter().filter(|(_, line)| !gone.contains(&mark(line))).cloned().collect(),
            ..Side::default()
        };
        self.add(&without(&change.out, &taken), None, |file| &mut file.out);
        self.add(&without(&change.into, &back), change.range.map(|(from, _)| from), |file| &mut file.into);
    }

    /// Where an edit names the lines whose place it takes, those went out, and those behind them have other numbers.
    fn renumber(&mut self, change: &Change) {
        let Some((from, to)) = change.range else {
            return self.into.iter_mut().for_each(|line| line.number = None);
        };
        self.into.retain(|line| line.number.is_none_or(|number| !(from..=to).contains(&number)));
        for number in
            self.into.iter_mut().filter_map(|line| line.number.as_mut()).filter(|number| **number > to)
        {
            *number = *number + change.into.lines - (to + 1 - from).min(*number);
        }
    }

    fn add(&mut self, side: &Side, from: Option<usize>, list: impl Fn(&mut Self) -> &mut Vec<Line>) {
        let edit = self.changes;
        let lines = list(self);
        for (rank, (at, text)) in side.telling.iter().enumerate() {
            let (mark, number) = (mark(text), from.map(|from| from + at));
            lines.push(Line { text: text.clone(), mark, at: (edit, *at), rank, number });
        }
        lines.sort_by_key(|line| line.at);
        // The newest are the ones that stand.
        let over = lines.len().saturating_sub(MOST);
        lines.drain(..over);
    }
}

/// The files that were touched, in the order of their first touch.
#[derive(Debug, Default)]
pub(super) struct Files {
    list: Vec<File>,
    by_name: HashMap<String, Vec<usize>>,
    /// The folders that files are in.
    folders: HashSet<String>,
    /// The newest scripts by name, each with a file that it writes when it is run.
    scripts: VecDeque<(String, String)>,
}

/// Whether a path is in a folder; all are in the one where the work is done.
fn is_below(path: &str, folder: &str) -> bool {
    folder == "." && !path.starts_with('/')
        || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl Files {
    /// Whether the file of this path was touched.
    pub(super) fn knows(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// A change, by its deed and its place in it; `known` is whether the file was there before.
    pub(super) fn change(&mut self, (deed, place): (usize, usize), change: &Change, known: bool) {
        if matches!(change.how, Some(Touched::Deleted | Touched::Restored)) {
            let folder = change.path.trim_end_matches('/');
            let below = |file: &&mut File| is_below(&file.path, folder) && file.path != change.path;
            let is_folder = folder == "." || self.folders.contains(folder);
            for file in self.list.iter_mut().filter(|_| is_folder).filter(below) {
                (file.deed, file.place) = (deed, place);
                file.change(change, true);
            }
            if folder == "." {
                return;
            }
        }
        let at = self.at(&change.path);
        let file = &mut self.list[at];
        (file.deed, file.place) = (deed, place);
        file.change(change, known);
        for path in &change.writes {
            self.scripts.push_back((last_part(&change.path).to_owned(), path.clone()));
            if self.scripts.len() > SCRIPTS {
                self.scripts.pop_front();
            }
        }
    }

    /// What the scripts that a command runs do to files.
    pub(super) fn run(&mut self, deed: usize, command: &str) {
        let run: Vec<(String, String)> =
            self.scripts.iter().filter(|(script, _)| command.contains(script.as_str())).cloned().collect();
        for (script, path) in run {
            let at = self.at(&path);
            let file = &mut self.list[at];
            (file.deed, file.by, file.copied) = (deed, Some(script), None);
            file.changes += 1;
        }
    }

    /// Tests were run with a change of this file.
    pub(super) fn tested(&mut self, deed: usize, path: &str) {
        if let Some(at) = self.find(path) {
            self.list[at].tested = Some(deed);
        }
    }

    pub(super) fn read(&mut self, deed: usize, path: &str) {
        let at = self.at(path);
        self.list[at].deed = deed;
        self.list[at].reads += 1;
    }

    fn find(&self, path: &str) -> Option<usize> {
        let path = path.trim_start_matches("./");
        let is_same = |at: &&usize| {
            let known = &self.list[**at].path;
            let ends =
                |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
            known == path || ends(known, path) || ends(path, known)
        };
        self.by_name.get(last_part(path))?.iter().take(NAMESAKES).find(is_same).copied()
    }

    /// The place of the file of this path, under whatever part of it it was named before.
    fn at(&mut self, path: &str) -> usize {
        self.find(path).unwrap_or_else(|| {
            let path = path.trim_start_matches("./");
            self.by_name.entry(last_part(path).to_owned()).or_default().push(self.list.len());
            self.folders.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
            self.list.push(File { path: path.to_owned(), ..File::default() });
            self.list.len() - 1
        })
    }

    pub(super) fn into_list(self) -> Vec<File> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(path: &str, out: &str, into: &str) -> Change {
        let side =
            |line: &str| Side { lines: 1, telling: vec![(0, line.to_owned())], marks: vec![mark(line)] };
        Change { path: path.to_owned(), out: side(out), into: side(into), ..Change::default() }
    }

    fn shown(file: &File) -> [String; 2] {
        file.net().map(|lines| lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn what_was_taken_back_is_no_change() {
        let mut files = Files::default();
        files.change((1, 0), &edit("/app/a.rs", "x = 1", "x = 2"), false);
        files.change((2, 0), &edit("a.rs", "x = 2", "x = 3"), true);
        files.change((3, 0), &edit("app/b.rs", "y = 1", "y = 2"), false);
        files.change((4, 0), &edit("b.rs", "y = 2", "y = 1"), true);
        let files = files.into_list();
        assert_eq!(files.len(), 2);
        assert_eq!((files[0].path.as_str(), files[0].changes), ("/app/a.rs", 2));
        assert_eq!(shown(&files[0]), ["x = 1", "x = 3"]);
        assert_eq!(shown(&files[1]), ["", ""]);
    }

    #[test]
    fn lines_whose_numbers_are_taken_again_are_gone_wherever_they_have_moved() {
        let at =
            |range, into: &str| Change { range: Some(range), out: Side::default(), ..edit("a.py", "", into) };
        let mut files = Files::default();
        files.change((1, 0), &at((10, 10), "old"), false);
        files.change((2, 0), &at((3, 4), "import"), true);
        files.change((3, 0), &at((9, 9), "new"), true);
        assert_eq!(shown(&files.into_list()[0])[1], "new|import");
    }
}
