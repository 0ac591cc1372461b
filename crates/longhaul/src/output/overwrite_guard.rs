//! Detects different paths to the same file, so that a command does not overwrite one of its inputs or
//! outputs.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::write_failure;
use crate::failure::Failure;

/// The identity of a file, which may not exist yet, however its path is spelled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FileIdentity {
    /// Device and inode number, so that all links to a file are equal.
    #[cfg(unix)]
    Inode(u64, u64),
    /// The absolute path, for a file that does not exist and on systems without inodes.
    Path(PathBuf),
}

impl FileIdentity {
    /// Returns `None` for standard input, devices and pipes, which several options may name at once.
    fn from_path(path: &Path) -> Option<Self> {
        match std::fs::metadata(path) {
            _ if path == Path::new("-") => None,
            Ok(metadata) if metadata.is_file() => Some(Self::from_metadata(path, &metadata)),
            Ok(metadata) if !metadata.is_dir() => None,
            _ => Some(Self::Path(resolve_path(path))),
        }
    }

    #[cfg(unix)]
    fn from_metadata(_: &Path, metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self::Inode(metadata.dev(), metadata.ino())
    }

    #[cfg(not(unix))]
    fn from_metadata(path: &Path, _: &Metadata) -> Self {
        Self::Path(resolve_path(path))
    }
}

fn resolve_path(path: &Path) -> PathBuf {
    let beside = || {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// The files that a call reads, and those that it will write.
pub(crate) struct OverwriteGuard {
    inputs: BTreeMap<FileIdentity, PathBuf>,
    outputs: BTreeMap<FileIdentity, String>,
}

impl OverwriteGuard {
    pub(crate) fn with_inputs<'p>(inputs: impl IntoIterator<Item = &'p Path>) -> Self {
        let read =
            inputs.into_iter().filter_map(|path| Some((FileIdentity::from_path(path)?, path.to_owned()))).collect();
        Self { inputs: read, outputs: BTreeMap::new() }
    }

    /// Records that an option writes a file, like [`Self::claim_output`]. Also refuses a file in a directory
    /// that does not exist, so that the command fails before it works.
    pub(crate) fn claim_new_file(&mut self, option: &str, path: &Path) -> Result<(), Failure> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if directory.is_some_and(|directory| !directory.is_dir()) {
            return Err(write_failure(path, &ErrorKind::NotFound.into()));
        }
        self.claim_output(option, path)
    }

    /// Records that an option writes a file. Refuses a file that is also read, or that another option writes.
    pub(crate) fn claim_output(&mut self, option: &str, path: &Path) -> Result<(), Failure> {
        let Some(identity) = FileIdentity::from_path(path) else { return Ok(()) };
        if let Some(input) = self.inputs.get(&identity) {
            let input = input.display();
            return Err(Failure::InvalidInput(format!(
                "{option} would overwrite the input {input}; give another file"
            )));
        }
        match self.outputs.insert(identity, option.to_owned()) {
            None => Ok(()),
            Some(other) => {
                Err(Failure::InvalidInput(format!("{other} and {option} name the same file; give each its own")))
            }
        }
    }
}

/// Refuses an output file that is also one of the inputs.
pub(crate) fn refuse_overwriting_inputs<'p>(
    output: Option<&Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    output.map_or(Ok(()), |output| OverwriteGuard::with_inputs(inputs).claim_new_file("-o", output))
}
