//! What a patch does to files, in the two notations that agents write.

use super::change::Change;
use super::{Touch, Touched};

/// Every file that a patch changes, in its order.
pub(super) fn touches(text: &str) -> Vec<Touch> {
    let touch = |change: Change| Touch { path: change.path, how: change.how.unwrap_or(Touched::Edited) };
    changes(text).into_iter().map(touch).collect()
}

/// The changes of a patch, in its order.
pub(super) fn changes(text: &str) -> Vec<Change> {
    const NAMED: [(&str, Touched); 4] = [
        ("*** Update File: ", Touched::Edited),
        ("*** Add File: ", Touched::Created),
        ("*** Delete File: ", Touched::Deleted),
        ("*** Move to: ", Touched::Created),
    ];
    let mut found: Vec<Change> = Vec::new();
    let mut open = Open::default();
    let mut before = None;
    for line in text.lines() {
        let named = NAMED.iter().find_map(|(start, how)| Some((line.strip_prefix(start)?, *how)));
        if let Some((path, how)) = named {
            open.end(&mut found);
            open.file = Some((path, how));
        } else if let Some(path) = line.strip_prefix("--- ") {
            open.end(&mut found);
            before = Some(plain(path));
        } else if let (Some(path), Some(old)) = (line.strip_prefix("+++ "), before.take()) {
            open.file = Some(match (old, plain(path)) {
                ("/dev/null", new) => (new, Touched::Created),
                (old, "/dev/null") => (old, Touched::Deleted),
                (_, new) => (new, Touched::Edited),
            });
        } else if let Some(line) = line.strip_prefix('-') {
            open.old.push(line);
        } else if let Some(line) = line.strip_prefix('+') {
            open.new.push(line);
        }
    }
    open.end(&mut found);
    found
}

/// The file whose lines are being read.
#[derive(Default)]
struct Open<'a> {
    file: Option<(&'a str, Touched)>,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

impl Open<'_> {
    fn end(&mut self, found: &mut Vec<Change>) {
        let Self { file, old, new } = std::mem::take(self);
        let Some((path, how)) = file.map(|(path, how)| (path.trim(), how)) else { return };
        if !path.is_empty() && path != "/dev/null" {
            let how = Some(how).filter(|how| *how != Touched::Edited);
            found.push(Change { how, ..Change::edited(path.to_owned(), &old, &new) });
        }
    }
}

/// A path without the letter that diffs put before it and the time behind it.
fn plain(path: &str) -> &str {
    let path = path.split('\t').next().unwrap_or(path).trim();
    path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path)
}
