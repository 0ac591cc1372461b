//! Helpers for folders and file names.

use std::fs;
use std::path::{Path, PathBuf};

/// Lists the paths in a folder, sorted. Returns an empty list if the folder cannot be read.
pub(super) fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// Returns the name of a file or folder, or an empty string if it has no UTF-8 name.
pub(super) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
