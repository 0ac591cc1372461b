//! A file of ours that an agent reads while it runs, in a folder that nobody else can write to.

use std::fs::{self, DirBuilder};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// What the file is called: agents go by the ending.
const NAME: &str = "longhaul.js";

/// A file as long as this is held.
pub(super) struct Extra {
    folder: PathBuf,
    file: PathBuf,
}

impl Extra {
    /// Writes it into a new folder below this one.
    pub(super) fn write(below: &Path, text: &str) -> Result<Self, Failure> {
        let random = getrandom::u64()
            .map_err(|error| Failure::World(format!("the system gives no random bytes: {error}")))?;
        let folder = below.join(format!("longhaul-{random:016x}"));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let shown = folder.display();
        let failed = |error| Failure::World(format!("cannot write to {shown}: {error}"));
        builder.create(&folder).map_err(failed)?;
        let extra = Self { file: folder.join(NAME), folder: folder.clone() };
        fs::write(&extra.file, text).map_err(failed)?;
        Ok(extra)
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }
}

impl Drop for Extra {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
