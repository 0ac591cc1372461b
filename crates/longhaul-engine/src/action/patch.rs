//! Parses patches, both unified diffs and the `*** Begin Patch` format.

use super::file_change::FileChange;
use super::{FileOperation, TouchedFile};

/// Returns every file that a patch touches, in its order.
pub(super) fn touched_files(text: &str) -> Vec<TouchedFile> {
    let touch = |change: FileChange| TouchedFile {
        path: change.path,
        operation: change.operation.unwrap_or(FileOperation::Edited),
    };
    file_changes(text).into_iter().map(touch).collect()
}

/// Returns the changes of a patch, in its order.
pub(super) fn file_changes(text: &str) -> Vec<FileChange> {
    const NAMED: [(&str, FileOperation); 4] = [
        ("*** Update File: ", FileOperation::Edited),
        ("*** Add File: ", FileOperation::Created),
        ("*** Delete File: ", FileOperation::Deleted),
        ("*** Move to: ", FileOperation::Created),
    ];
    let mut found: Vec<FileChange> = Vec::new();
    let mut open = PatchedFile::default();
    let mut before = None;
    for line in text.lines() {
        let named = NAMED.iter().find_map(|(start, how)| Some((line.strip_prefix(start)?, *how)));
        if let Some((path, how)) = named {
            open.finish(&mut found);
            open.file = Some((path, how));
        } else if let Some(path) = line.strip_prefix("--- ") {
            open.finish(&mut found);
            before = Some(clean_path(path));
        } else if let (Some(path), Some(old)) = (line.strip_prefix("+++ "), before.take()) {
            open.file = Some(match (old, clean_path(path)) {
                ("/dev/null", new) => (new, FileOperation::Created),
                (old, "/dev/null") => (old, FileOperation::Deleted),
                (_, new) => (new, FileOperation::Edited),
            });
        } else if let Some(line) = line.strip_prefix('-') {
            open.old.push(line);
        } else if let Some(line) = line.strip_prefix('+') {
            open.new.push(line);
        }
    }
    open.finish(&mut found);
    found
}

/// The file of the patch whose lines are being read.
#[derive(Default)]
struct PatchedFile<'a> {
    file: Option<(&'a str, FileOperation)>,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

impl PatchedFile<'_> {
    fn finish(&mut self, found: &mut Vec<FileChange>) {
        let Self { file, old, new } = std::mem::take(self);
        let Some((path, how)) = file.map(|(path, how)| (path.trim(), how)) else { return };
        if !path.is_empty() && path != "/dev/null" {
            let how = Some(how).filter(|how| *how != FileOperation::Edited);
            found.push(FileChange { operation: how, ..FileChange::edited(path.to_owned(), &old, &new) });
        }
    }
}

/// Returns a path without the `a/` or `b/` before it and the time after it.
fn clean_path(path: &str) -> &str {
    let path = path.split('\t').next().unwrap_or(path).trim();
    path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path)
}
