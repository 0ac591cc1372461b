//! Which names mean the same file, and which calls would write one over another.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file, however it is spelled and whether or not it is there yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// By the number that the system gives it: links to one file are the same place.
    #[cfg(unix)]
    Number(u64, u64),
    /// By its whole path.
    Path(PathBuf),
}

impl Place {
    /// Nothing for standard input, and for devices and pipes: several may read and write these at once.
    fn of(path: &Path) -> Option<Self> {
        match std::fs::metadata(path) {
            _ if path == Path::new("-") => None,
            Ok(there) if there.is_file() => Some(Self::there(path, &there)),
            Ok(there) if !there.is_dir() => None,
            _ => Some(Self::Path(real(path))),
        }
    }

    #[cfg(unix)]
    fn there(_: &Path, there: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self::Number(there.dev(), there.ino())
    }

    #[cfg(not(unix))]
    fn there(path: &Path, _: &Metadata) -> Self {
        Self::Path(real(path))
    }
}

fn real(path: &Path) -> PathBuf {
    let beside = || {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// The files that a call reads, and those that it has been found to write.
pub(crate) struct Places {
    read: BTreeMap<Place, PathBuf>,
    written: BTreeMap<Place, String>,
}

impl Places {
    pub(crate) fn reading<'p>(inputs: impl IntoIterator<Item = &'p Path>) -> Self {
        let read = inputs.into_iter().filter_map(|path| Some((Place::of(path)?, path.to_owned()))).collect();
        Self { read, written: BTreeMap::new() }
    }

    /// Takes note that an option writes a file; refuses one that is read, or that is written already.
    pub(crate) fn write(&mut self, option: &str, path: &Path) -> Result<(), Failure> {
        let Some(place) = Place::of(path) else { return Ok(()) };
        if let Some(input) = self.read.get(&place) {
            let input = input.display();
            return Err(Failure::Wrong(format!(
                "{option} would write over {input}, which is read; give another file"
            )));
        }
        match self.written.insert(place, option.to_owned()) {
            None => Ok(()),
            Some(other) => {
                Err(Failure::Wrong(format!("{other} and {option} name the same file; give each its own")))
            }
        }
    }
}

/// Refuses an output that is one of the inputs, by whatever name.
pub(crate) fn refuse_inputs<'p>(
    output: Option<&Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    output.map_or(Ok(()), |output| Places::reading(inputs).write("-o", output))
}
