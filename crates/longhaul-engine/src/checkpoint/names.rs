//! Long paths once: where Relevant Files has the whole path of a file, an entry names it by its end.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use crate::redact::Redacted;
use crate::texts::FileNote;

/// The files that Relevant Files could list, by the last part of their paths; none where several share it.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, Option<String>>);

impl Names {
    pub(super) fn of(paths: impl Iterator<Item = String>) -> Self {
        let mut names: HashMap<String, Option<String>> = HashMap::new();
        for path in paths {
            match names.entry(last_part(&path).to_owned()) {
                Vacant(free) => drop(free.insert(Some(path))),
                Occupied(mut taken) if taken.get().as_deref() != Some(&path) => drop(taken.insert(None)),
                Occupied(_) => {}
            }
        }
        Self(names)
    }

    /// The path under which a file is listed, whatever part of it this is.
    pub(super) fn listed(&self, path: &str) -> Option<&str> {
        let listed = self.0.get(last_part(path))?.as_deref()?;
        let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
        (listed == path || ends(listed, path) || ends(path, listed)).then_some(listed)
    }
}

/// The last two parts of a path: a file's name alone often says little.
pub(super) fn short(path: &str) -> &str {
    let start = path
        .match_indices('/')
        .rev()
        .nth(1)
        .filter(|(at, _)| *at > 0)
        .map_or(0, |(at, sign)| at + sign.len());
    &path[start..]
}

/// The folder that all paths are in, with the sign behind it.
pub(super) fn common_folder<'p>(paths: &[&'p str]) -> &'p str {
    let first = paths.first().copied().unwrap_or_default();
    let is_common = |end: &usize| paths.iter().all(|path| path.starts_with(&first[..*end]));
    let ends = first.match_indices('/').map(|(at, sign)| at + sign.len());
    &first[..ends.take_while(is_common).last().unwrap_or(0)]
}

/// The path that an item of Relevant Files is about.
pub(super) fn path_of(note: &Redacted) -> String {
    let Ok(note) = note.as_str().parse::<FileNote>();
    note.path().to_owned()
}

/// The last part of a path.
pub(super) fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_the_last_part_of_its_path_unless_another_has_it_too() {
        let names =
            Names::of(["/app/src/a.rs", "/app/mod.rs", "/app/src/mod.rs"].map(str::to_owned).into_iter());
        assert_eq!(names.listed("a.rs"), Some("/app/src/a.rs"));
        assert_eq!(names.listed("src/a.rs"), Some("/app/src/a.rs"));
        assert_eq!(names.listed("lib/a.rs"), None);
        assert_eq!(names.listed("/app/mod.rs"), None);
        assert_eq!(
            [short("/app/src/a.rs"), short("src/a.rs"), short("a.rs")],
            ["src/a.rs", "src/a.rs", "a.rs"]
        );
    }
}
