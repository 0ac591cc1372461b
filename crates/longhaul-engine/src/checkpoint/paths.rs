//! Short paths: an entry names a file by its end if Relevant Files has the whole path.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use crate::redact::Redacted;
use crate::texts::FileNote;

/// The paths that Relevant Files could list, by file name. The value is `None` if several files share the
/// name.
#[derive(Debug, Default)]
pub(super) struct ListedPaths(HashMap<String, Option<String>>);

impl ListedPaths {
    pub(super) fn new(paths: impl Iterator<Item = String>) -> Self {
        let mut names: HashMap<String, Option<String>> = HashMap::new();
        for path in paths {
            match names.entry(file_name(&path).to_owned()) {
                Vacant(free) => drop(free.insert(Some(path))),
                Occupied(mut taken) if taken.get().as_deref() != Some(&path) => drop(taken.insert(None)),
                Occupied(_) => {}
            }
        }
        Self(names)
    }

    /// Returns the listed path that equals a path or shares its end; `None` if that is not certain.
    pub(super) fn find(&self, path: &str) -> Option<&str> {
        let listed = self.0.get(file_name(path))?.as_deref()?;
        is_same_file(listed, path).then_some(listed)
    }
}

/// Returns whether two paths are equal, or one is the end of the other.
pub(super) fn is_same_file(one: &str, other: &str) -> bool {
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
    one == other || ends(one, other) || ends(other, one)
}

/// Returns the last two parts of a path, because a file name alone often says little.
pub(super) fn short_path(path: &str) -> &str {
    let start =
        path.match_indices('/').rev().nth(1).filter(|(at, _)| *at > 0).map_or(0, |(at, slash)| at + slash.len());
    &path[start..]
}

/// Returns the folder that all paths have in common, with the slash at its end; empty if there is none.
pub(super) fn common_folder<'p>(paths: &[&'p str]) -> &'p str {
    let first = paths.first().copied().unwrap_or_default();
    let is_common = |end: &usize| paths.iter().all(|path| path.starts_with(&first[..*end]));
    let ends = first.match_indices('/').map(|(at, slash)| at + slash.len());
    &first[..ends.take_while(is_common).last().unwrap_or(0)]
}

/// Returns the path in an item of Relevant Files.
pub(super) fn path_of_note(note: &Redacted) -> String {
    let Ok(note) = note.as_str().parse::<FileNote>();
    note.path().to_owned()
}

/// Returns the last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_by_its_end_unless_two_files_share_the_name() {
        let names =
            ListedPaths::new(["/app/src/a.rs", "/app/mod.rs", "/app/src/mod.rs"].map(str::to_owned).into_iter());
        assert_eq!(names.find("a.rs"), Some("/app/src/a.rs"));
        assert_eq!(names.find("src/a.rs"), Some("/app/src/a.rs"));
        assert_eq!(names.find("lib/a.rs"), None);
        assert_eq!(names.find("/app/mod.rs"), None);
        assert_eq!(
            [short_path("/app/src/a.rs"), short_path("src/a.rs"), short_path("a.rs")],
            ["src/a.rs", "src/a.rs", "a.rs"]
        );
    }
}
