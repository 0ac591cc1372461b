//! Folders, looked at by name.

use std::fs;
use std::path::{Path, PathBuf};

/// What is in a folder, by name; nothing, where it cannot be looked into.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The name of a file or folder; empty, where it has none that is text.
pub(super) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
