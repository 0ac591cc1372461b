//! The net effect of all edits on each file, instead of the history of edits.

use std::collections::{HashMap, HashSet, VecDeque};

use super::paths::{file_name, is_same_file};
use super::weights::{MAX_NAMESAKES, MAX_NET_LINES, MAX_SCRATCH_CHANGES, MAX_SCRIPTS};
use crate::action::{ChangedLines, FileChange, FileOperation, line_hash};

/// The net effect of all changes on one file.
#[derive(Debug, Clone, Default)]
pub(super) struct NetFileChange {
    pub(super) path: String,
    /// The index of the last tool use that touched the file.
    pub(super) last_use: usize,
    /// The index of the first tool use that changed the file.
    pub(super) first_change: usize,
    /// The index of the last tool use that changed the file.
    pub(super) last_change: usize,
    /// The index of the last change of the file among the changes of that tool use.
    pub(super) change_index: usize,
    /// The index of the last tool use that changed the file and ran tests.
    pub(super) tested_in: Option<usize>,
    /// The number of times that the file was read.
    pub(super) reads: usize,
    /// The number of times that the file was changed.
    pub(super) changes: usize,
    pub(super) created: bool,
    pub(super) deleted: bool,
    pub(super) restored: bool,
    /// The source of the copy, if the file was last written by copying.
    pub(super) copied_from: Option<String>,
    /// The script that changed the file last.
    pub(super) written_by: Option<WriterScript>,
    /// The lines that were removed and not restored.
    removed: Vec<NetLine>,
    /// The lines that were added and are still there.
    added: Vec<NetLine>,
}

/// A script that writes files when it is run.
#[derive(Debug, Clone)]
pub(super) struct WriterScript {
    pub(super) name: String,
    /// The most informative lines of the script, each with its index.
    pub(super) lines: Vec<(usize, String)>,
}

/// A line of the net effect.
#[derive(Debug, Clone)]
struct NetLine {
    text: String,
    fingerprint: u32,
    /// The number of the change that the line is from, and its index in that change.
    position: (usize, usize),
    /// The rank among the lines of its change; 0 is the most informative.
    rank: usize,
    /// The line number in the file, as long as it is known.
    line_number: Option<usize>,
}

impl NetFileChange {
    pub(super) fn is_changed(&self) -> bool {
        self.changes > 0
    }

    /// Returns whether the file is part of the actual work: it was changed, and it is not a new file that was written
    /// once and left.
    pub(super) fn is_work(&self) -> bool {
        self.is_changed() && !self.deleted && !self.restored && (!self.created || self.changes > MAX_SCRATCH_CHANGES)
    }

    /// Returns the removed and the added lines, the most informative first, each with its index in file
    /// order.
    pub(super) fn net_lines(&self) -> [Vec<(usize, String)>; 2] {
        [&self.removed, &self.added].map(|lines| {
            let mut ranked: Vec<(usize, &NetLine)> = lines.iter().enumerate().collect();
            ranked.sort_by_key(|(_, line)| (line.rank, std::cmp::Reverse(line.position)));
            ranked.into_iter().map(|(place, line)| (place, line.text.clone())).collect()
        })
    }

    fn record_change(&mut self, use_index: usize) {
        if self.changes == 0 {
            self.first_change = use_index;
        }
        (self.last_use, self.last_change) = (use_index, use_index);
    }

    fn apply(&mut self, change: &FileChange, existed: bool) {
        self.copied_from.clone_from(&change.copied_from);
        self.written_by = None;
        self.changes += 1;
        match change.operation {
            None | Some(FileOperation::Edited) => {
                (self.deleted, self.restored) = (false, false);
                self.apply_edit(change);
            }
            Some(FileOperation::Created) => {
                // Writing over a file that existed before does not create it.
                self.changes = if self.deleted { 1 } else { self.changes };
                (self.created, self.deleted, self.restored) = (self.created || !existed, false, false);
                self.removed.clear();
                self.added.clear();
                self.add_lines(&change.added, None, |file| &mut file.added);
            }
            Some(FileOperation::Deleted) => {
                self.deleted = true;
                self.added.clear();
            }
            Some(FileOperation::Restored) => {
                (self.restored, self.deleted) = (true, false);
                self.removed.clear();
                self.added.clear();
            }
            Some(FileOperation::Read) => self.changes -= 1,
        }
    }

    /// Applies an edit. A line that is removed after it was added leaves no trace, nor does one that is added
    /// after it was removed.
    fn apply_edit(&mut self, change: &FileChange) {
        let hashes = |side: &ChangedLines| side.hashes.iter().copied().collect::<HashSet<u32>>();
        let (removed, added) = (hashes(&change.removed), hashes(&change.added));
        self.renumber(change);
        let restored: HashSet<u32> =
            self.removed.iter().map(|line| line.fingerprint).filter(|hash| added.contains(hash)).collect();
        let removed_again: HashSet<u32> =
            self.added.iter().map(|line| line.fingerprint).filter(|hash| removed.contains(hash)).collect();
        self.added.retain(|line| !removed_again.contains(&line.fingerprint));
        self.removed.retain(|line| !restored.contains(&line.fingerprint));
        let without = |side: &ChangedLines, dropped: &HashSet<u32>| ChangedLines {
            sampled: side.sampled.iter().filter(|(_, line)| !dropped.contains(&line_hash(line))).cloned().collect(),
            ..ChangedLines::default()
        };
        self.add_lines(&without(&change.removed, &removed_again), None, |file| &mut file.removed);
        self.add_lines(&without(&change.added, &restored), change.replaced_range.map(|(from, _)| from), |file| {
            &mut file.added
        });
    }

    /// Adjusts the line numbers. If an edit gives the range that it replaces, the lines in that range are
    /// gone and those below it move. If it gives none, the numbers are unknown from then on.
    fn renumber(&mut self, change: &FileChange) {
        let Some((from, to)) = change.replaced_range else {
            return self.added.iter_mut().for_each(|line| line.line_number = None);
        };
        self.added.retain(|line| line.line_number.is_none_or(|number| !(from..=to).contains(&number)));
        for number in self.added.iter_mut().filter_map(|line| line.line_number.as_mut()).filter(|number| **number > to)
        {
            *number = *number + change.added.line_count - (to + 1 - from).min(*number);
        }
    }

    fn add_lines(&mut self, side: &ChangedLines, from: Option<usize>, list: impl Fn(&mut Self) -> &mut Vec<NetLine>) {
        let edit = self.changes;
        let lines = list(self);
        for (rank, (at, text)) in side.sampled.iter().enumerate() {
            let (hash, number) = (line_hash(text), from.map(|from| from + at));
            lines.push(NetLine {
                text: text.clone(),
                fingerprint: hash,
                position: (edit, *at),
                rank,
                line_number: number,
            });
        }
        lines.sort_by_key(|line| line.position);
        // Drop the oldest lines: the newest are the current state.
        let over = lines.len().saturating_sub(MAX_NET_LINES);
        lines.drain(..over);
    }
}

/// The files that were touched, in the order of the first touch.
#[derive(Debug, Default)]
pub(super) struct NetFileChanges {
    list: Vec<NetFileChange>,
    indices_by_name: HashMap<String, Vec<usize>>,
    /// The folders that contain a known file.
    folders: HashSet<String>,
    /// The newest scripts, each with a file that it writes when it is run.
    scripts: VecDeque<(WriterScript, String)>,
}

/// Returns whether a path is in a folder. Every relative path is in `.`.
fn is_in_folder(path: &str, folder: &str) -> bool {
    folder == "." && !path.starts_with('/') || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl NetFileChanges {
    /// Returns the files in the order of the first touch.
    pub(super) fn iter(&self) -> impl Iterator<Item = &NetFileChange> {
        self.list.iter()
    }

    /// Returns whether the file with this path was touched.
    pub(super) fn contains(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// Applies a change of a tool use. `existed` says whether the file existed before. Deleting or restoring a
    /// folder applies to all files in it.
    pub(super) fn apply(&mut self, (use_index, place): (usize, usize), change: &FileChange, existed: bool) {
        if matches!(change.operation, Some(FileOperation::Deleted | FileOperation::Restored)) {
            let folder = change.path.trim_end_matches('/');
            let below = |file: &&mut NetFileChange| is_in_folder(&file.path, folder) && file.path != change.path;
            let is_folder = folder == "." || self.folders.contains(folder);
            for file in self.list.iter_mut().filter(|_| is_folder).filter(below) {
                file.record_change(use_index);
                file.change_index = place;
                file.apply(change, true);
            }
            if folder == "." {
                return;
            }
        }
        let at = self.find_or_add(&change.path);
        let file = &mut self.list[at];
        file.record_change(use_index);
        file.change_index = place;
        file.apply(change, existed);
        for path in &change.script_writes {
            let script = WriterScript { name: file_name(&change.path).to_owned(), lines: change.added.sampled.clone() };
            self.scripts.push_back((script, path.clone()));
            if self.scripts.len() > MAX_SCRIPTS {
                self.scripts.pop_front();
            }
        }
    }

    /// Applies the writes of the scripts that a command runs. Returns whether there were any.
    pub(super) fn record_run(&mut self, use_index: usize, ran_scripts: &[String]) -> bool {
        let is_run = |script: &str| ran_scripts.iter().any(|ran| file_name(ran) == script);
        let written: Vec<(WriterScript, String)> =
            self.scripts.iter().filter(|(script, _)| is_run(&script.name)).cloned().collect();
        for (script, path) in &written {
            let at = self.find_or_add(path);
            let file = &mut self.list[at];
            file.record_change(use_index);
            (file.written_by, file.copied_from) = (Some(script.clone()), None);
            file.changes += 1;
        }
        !written.is_empty()
    }

    /// Records that the tool use which changed this file also ran tests.
    pub(super) fn record_test(&mut self, use_index: usize, path: &str) {
        if let Some(at) = self.find(path) {
            self.list[at].tested_in = Some(use_index);
        }
    }

    pub(super) fn record_read(&mut self, use_index: usize, path: &str) {
        let at = self.find_or_add(path);
        self.list[at].last_use = use_index;
        self.list[at].reads += 1;
    }

    fn find(&self, path: &str) -> Option<usize> {
        let path = path.trim_start_matches("./");
        let is_same = |at: &&usize| is_same_file(&self.list[**at].path, path);
        self.indices_by_name.get(file_name(path))?.iter().take(MAX_NAMESAKES).find(is_same).copied()
    }

    /// Returns the index of the file with this path, which may be given whole or by its end. Adds an unknown
    /// file.
    fn find_or_add(&mut self, path: &str) -> usize {
        self.find(path).unwrap_or_else(|| {
            let path = path.trim_start_matches("./");
            self.indices_by_name.entry(file_name(path).to_owned()).or_default().push(self.list.len());
            self.folders.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
            self.list.push(NetFileChange { path: path.to_owned(), ..NetFileChange::default() });
            self.list.len() - 1
        })
    }

    pub(super) fn into_list(self) -> Vec<NetFileChange> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(path: &str, out: &str, into: &str) -> FileChange {
        let side = |line: &str| ChangedLines {
            line_count: 1,
            sampled: vec![(0, line.to_owned())],
            hashes: vec![line_hash(line)],
        };
        FileChange { path: path.to_owned(), removed: side(out), added: side(into), ..FileChange::default() }
    }

    fn shown(file: &NetFileChange) -> [String; 2] {
        file.net_lines().map(|lines| lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn a_reverted_edit_leaves_no_net_change() {
        let mut files = NetFileChanges::default();
        files.apply((1, 0), &edit("/app/a.rs", "x = 1", "x = 2"), false);
        files.apply((2, 0), &edit("a.rs", "x = 2", "x = 3"), true);
        files.apply((3, 0), &edit("app/b.rs", "y = 1", "y = 2"), false);
        files.apply((4, 0), &edit("b.rs", "y = 2", "y = 1"), true);
        let files = files.into_list();
        assert_eq!(files.len(), 2);
        assert_eq!((files[0].path.as_str(), files[0].changes), ("/app/a.rs", 2));
        assert_eq!(shown(&files[0]), ["x = 1", "x = 3"]);
        assert_eq!(shown(&files[1]), ["", ""]);
    }

    #[test]
    fn an_edit_by_line_numbers_replaces_lines_that_have_moved() {
        let at = |range, into: &str| FileChange {
            replaced_range: Some(range),
            removed: ChangedLines::default(),
            ..edit("a.py", "", into)
        };
        let mut files = NetFileChanges::default();
        files.apply((1, 0), &at((10, 10), "old"), false);
        files.apply((2, 0), &at((3, 4), "import"), true);
        files.apply((3, 0), &at((9, 9), "new"), true);
        assert_eq!(shown(&files.into_list()[0])[1], "new|import");
    }
}
