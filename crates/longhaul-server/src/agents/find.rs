//! The sessions of the agents on a machine, and the one that a name means.

use std::path::Path;

/// A file's name without one of these endings, packed or not.
pub(super) fn bare_name<'p>(path: &'p Path, endings: &[&str]) -> Option<&'p str> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    endings.iter().find_map(|ending| name.strip_suffix(ending)).filter(|bare| !bare.is_empty())
}
