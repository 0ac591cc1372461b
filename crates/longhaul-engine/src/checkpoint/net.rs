//! What became of each file over all that was done to it: the net effect, not the history.

use std::collections::HashMap;

use crate::action::{Change, Touched};

/// Lines of the net effect that are kept of each side.
const MOST: usize = 6;
/// Names under which a file may be known: more of the same name are not compared.
const NAMESAKES: usize = 8;

/// A file, and what became of it.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) path: String,
    /// The last unit that touched it.
    pub(super) unit: usize,
    pub(super) edits: usize,
    pub(super) created: bool,
    pub(super) deleted: bool,
    pub(super) restored: bool,
    /// What it was copied from, if that was the last that happened to it; the script that changed it last.
    pub(super) copied: Option<String>,
    pub(super) by: Option<String>,
    /// Lines that went out and did not come back; lines that came in and are still there.
    pub(super) out: Vec<String>,
    pub(super) into: Vec<String>,
}

impl File {
    pub(super) fn is_changed(&self) -> bool {
        self.edits > 0 || self.created || self.deleted || self.restored
    }

    fn change(&mut self, change: &Change, known: bool) {
        self.copied.clone_from(&change.from);
        match change.how {
            None | Some(Touched::Edited) => {
                self.edits += 1;
                self.restored = false;
                for (_, line) in &change.out.telling {
                    take_or_add(line, &mut self.into, &mut self.out);
                }
                for (_, line) in &change.into.telling {
                    take_or_add(line, &mut self.out, &mut self.into);
                }
            }
            Some(Touched::Created) => {
                // What was there before is written anew, not created.
                if self.deleted {
                    self.edits = 0;
                } else {
                    self.edits += usize::from(known && change.from.is_none());
                }
                (self.created, self.deleted, self.restored) = (self.created || !known, false, false);
                self.out.clear();
                self.into = change.into.telling.iter().take(MOST).map(|(_, line)| line.clone()).collect();
            }
            Some(Touched::Deleted) => {
                self.deleted = true;
                self.into.clear();
            }
            Some(Touched::Restored) => {
                (self.restored, self.deleted, self.edits) = (true, false, 0);
                self.out.clear();
                self.into.clear();
            }
            Some(Touched::Read) => {}
        }
    }
}

/// A line that was on the other side is back where it was.
fn take_or_add(line: &str, from: &mut Vec<String>, to: &mut Vec<String>) {
    if let Some(at) = from.iter().position(|other| other == line) {
        from.remove(at);
        return;
    }
    to.push(line.to_owned());
    // The newest are the ones that stand.
    let over = to.len().saturating_sub(MOST);
    to.drain(..over);
}

/// The files that were touched, in the order of their first touch.
#[derive(Debug, Default)]
pub(super) struct Files {
    list: Vec<File>,
    by_name: HashMap<String, Vec<usize>>,
    /// Scripts by name, each with a file that it writes when it is run.
    scripts: Vec<(String, String)>,
}

/// Whether a path is in a folder; all are in the one where the work is done.
fn is_below(path: &str, folder: &str) -> bool {
    folder == "." && !path.starts_with('/')
        || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Files {
    pub(super) fn change(&mut self, unit: usize, change: &Change) {
        if matches!(change.how, Some(Touched::Deleted | Touched::Restored)) {
            let folder = change.path.trim_end_matches('/');
            let below = |file: &&mut File| is_below(&file.path, folder) && file.path != change.path;
            for file in self.list.iter_mut().filter(below) {
                file.change(change, true);
            }
            if folder == "." {
                return;
            }
        }
        let before = self.list.len();
        let at = self.at(&change.path);
        self.list[at].unit = unit;
        self.list[at].change(change, at < before);
        for path in &change.writes {
            self.scripts.push((file_name(&change.path).to_owned(), path.clone()));
        }
    }

    /// What the scripts that a command runs do to files.
    pub(super) fn run(&mut self, unit: usize, command: &str) {
        let run: Vec<(String, String)> =
            self.scripts.iter().filter(|(script, _)| command.contains(script.as_str())).cloned().collect();
        for (script, path) in run {
            let at = self.at(&path);
            let file = &mut self.list[at];
            (file.unit, file.by, file.copied) = (unit, Some(script), None);
            file.edits += 1;
        }
    }

    pub(super) fn read(&mut self, unit: usize, path: &str) {
        let at = self.at(path);
        self.list[at].unit = unit;
    }

    /// The place of the file of this path, under whatever part of it it was named before.
    fn at(&mut self, path: &str) -> usize {
        let path = path.trim_start_matches("./");
        let namesakes = self.by_name.entry(file_name(path).to_owned()).or_default();
        let is_same = |at: &&usize| {
            let known = &self.list[**at].path;
            let ends =
                |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
            known == path || ends(known, path) || ends(path, known)
        };
        namesakes.iter().take(NAMESAKES).find(is_same).copied().unwrap_or_else(|| {
            namesakes.push(self.list.len());
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
    use crate::action::Side;

    fn edit(path: &str, out: &str, into: &str) -> Change {
        let side = |line: &str| Side { lines: 1, telling: vec![(0, line.to_owned())] };
        Change { path: path.to_owned(), out: side(out), into: side(into), ..Change::default() }
    }

    #[test]
    fn what_was_taken_back_is_no_change() {
        let mut files = Files::default();
        files.change(1, &edit("/app/a.rs", "x = 1", "x = 2"));
        files.change(2, &edit("a.rs", "x = 2", "x = 3"));
        files.change(3, &edit("app/b.rs", "y = 1", "y = 2"));
        files.change(4, &edit("b.rs", "y = 2", "y = 1"));
        let files = files.into_list();
        let shown: Vec<_> =
            files.iter().map(|file| (file.path.as_str(), file.edits, &*file.out, &*file.into)).collect();
        assert_eq!(shown.len(), 2);
        assert_eq!((shown[0].0, shown[0].1), ("/app/a.rs", 2));
        assert_eq!((shown[0].2, shown[0].3), (&["x = 1".to_owned()][..], &["x = 3".to_owned()][..]));
        assert!(shown[1].2.is_empty() && shown[1].3.is_empty());
    }
}
