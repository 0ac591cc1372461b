//! The temporary files that an agent reads during a run, in a folder that only the user can access.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A folder with files. It is removed when the value is dropped.
pub(super) struct TemporaryFolder {
    folder: PathBuf,
}

impl TemporaryFolder {
    /// Creates a folder with a random name and writes the files into it. Each file is given by its path in
    /// the folder.
    pub(super) fn write(below: &Path, files: &[(&str, String)]) -> Result<Self, Failure> {
        let random =
            getrandom::u64().map_err(|error| Failure::System(format!("the system has no random bytes: {error}")))?;
        let folder = below.join(format!("longhaul-{random:016x}"));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let failed = |error| Failure::System(format!("cannot write to {}: {error}", folder.display()));
        builder.create(&folder).map_err(failed)?;
        let temporary = Self { folder: folder.clone() };
        files.iter().try_for_each(|(path, text)| temporary.add(path, text)).map_err(failed)?;
        Ok(temporary)
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

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
