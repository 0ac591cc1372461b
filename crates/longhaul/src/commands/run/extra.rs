//! Files of ours that an agent reads while it runs, in a folder that nobody else can write to.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A folder with files, which is removed when this is dropped.
pub(super) struct Extra {
    folder: PathBuf,
}

impl Extra {
    /// Writes the files, by their path in it, into a new folder below this one.
    pub(super) fn write(below: &Path, files: &[(&str, String)]) -> Result<Self, Failure> {
        let random = getrandom::u64()
            .map_err(|error| Failure::World(format!("the system gives no random bytes: {error}")))?;
        let folder = below.join(format!("longhaul-{random:016x}"));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let failed = |error| Failure::World(format!("cannot write to {}: {error}", folder.display()));
        builder.create(&folder).map_err(failed)?;
        let extra = Self { folder: folder.clone() };
        files.iter().try_for_each(|(path, text)| extra.add(path, text)).map_err(failed)?;
        Ok(extra)
    }

    fn add(&self, path: &str, text: &str) -> io::Result<()> {
        let file = self.folder.join(path);
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&file, text)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Extra {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
