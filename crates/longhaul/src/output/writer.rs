//! Writes a file atomically: the target is replaced only when the content is complete. Links are followed,
//! and permissions are kept.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use super::append::FileAccess;
use crate::failure::Failure;

/// The output of a command that writes piece by piece.
pub(crate) struct OutputWriter<'p> {
    /// The path as the user gave it, or `None` for standard output.
    file: Option<&'p Path>,
    /// The temporary file and its target, or `None` for standard output, devices and pipes.
    pending: Option<PendingFile>,
    /// The open output, or `None` once the reader has closed the pipe.
    out: Option<Box<dyn Write>>,
}

/// A temporary file beside its target. It is renamed when it is complete, because the target may also be the
/// input of this command, and the disk may be full.
struct PendingFile {
    part: PathBuf,
    target: PathBuf,
}

impl<'p> OutputWriter<'p> {
    pub(crate) fn open(file: Option<&'p Path>) -> Result<Self, Failure> {
        Self::open_with_access(file, FileAccess::Default)
    }

    /// Opens the output. The file gets this access, even if more people could read it before.
    pub(crate) fn open_with_access(file: Option<&'p Path>, readers: FileAccess) -> Result<Self, Failure> {
        let Some(path) = file else {
            return Ok(Self { file, pending: None, out: Some(Box::new(stdout().lock())) });
        };
        let failed = |error: std::io::Error| write_failure(path, &error);
        let metadata = fs::metadata(path).ok();
        if metadata.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(failed(ErrorKind::IsADirectory.into()));
        }
        // Devices and pipes are written directly. A link to one, such as /dev/stdout, may not have a path as
        // its target.
        if metadata.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            let to = OpenOptions::new().write(true).open(path).map_err(failed)?;
            return Ok(Self { file, pending: None, out: Some(Box::new(to)) });
        }
        let target = follow_links(path).map_err(failed)?;
        crate::agent_session::refuse_agent_files(&target)?;
        let part = part_path(&target);
        let to = match readers {
            FileAccess::Default => create_with_permissions(&part, metadata.map(|metadata| metadata.permissions())),
            FileAccess::OwnerOnly => create_owner_only(&part),
        };
        let to = to.map_err(failed)?;
        Ok(Self { file, pending: Some(PendingFile { part, target }), out: Some(Box::new(to)) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(to) = &mut self.out else { return Ok(()) };
        let done = to.write_all(bytes);
        self.check(done)
    }

    /// Whether the reader has closed the pipe, so that more output is useless.
    pub(crate) fn is_reader_gone(&self) -> bool {
        self.out.is_none()
    }

    pub(crate) fn close(mut self) -> Result<(), Failure> {
        let Some(to) = &mut self.out else { return Ok(()) };
        let done = to.flush();
        self.check(done)?;
        self.out = None;
        let Some(PendingFile { part, target }) = self.pending.take() else { return Ok(()) };
        let done = fs::rename(&part, &target);
        if done.is_err() {
            let _ = fs::remove_file(&part);
        }
        self.check(done)
    }

    fn check(&mut self, done: std::io::Result<()>) -> Result<(), Failure> {
        match (done, self.file) {
            (Ok(()), _) => Ok(()),
            (Err(error), None) if error.kind() == ErrorKind::BrokenPipe => {
                self.out = None;
                Ok(())
            }
            (Err(error), None) => Err(Failure::System(format!("cannot write to standard output: {error}"))),
            (Err(error), Some(file)) => Err(write_failure(file, &error)),
        }
    }
}

/// Removes the temporary file if the writer was not closed.
impl Drop for OutputWriter<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            let _ = fs::remove_file(pending.part);
        }
    }
}

/// Explains in one line why a file cannot be written.
pub(crate) fn write_failure(file: &Path, error: &std::io::Error) -> Failure {
    let shown = file.display();
    match error.kind() {
        ErrorKind::IsADirectory => Failure::InvalidInput(format!("{shown} is a directory; name a file in it")),
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Failure::InvalidInput(format!("the directory of {shown} does not exist; create it first"))
        }
        ErrorKind::InvalidFilename | ErrorKind::InvalidInput => {
            Failure::InvalidInput(format!("{shown} is not a file name; check the path"))
        }
        _ => Failure::System(format!("cannot write {shown}: {error}")),
    }
}

/// The maximum number of links to follow, as on Linux (`MAXSYMLINKS`). More are taken for a loop.
const MAX_LINKS: usize = 40;

/// Returns the file that a path leads to, which need not exist. Links are followed, so that writing changes
/// their target and not the link.
fn follow_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            // A relative link is relative to its own folder.
            Ok(to) => path = path.parent().map_or(to.clone(), |folder| folder.join(&to)),
            Err(_) => return Ok(path),
        }
    }
    Err(std::io::Error::other("too many links in a row"))
}

/// Returns the path of the temporary file beside a file. It contains the process ID.
fn part_path(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    file.with_file_name(name)
}

/// Creates the temporary file with the permissions of the file that it will replace. It is never more widely
/// readable, not even for a moment.
fn create_with_permissions(part: &Path, rights: Option<Permissions>) -> std::io::Result<File> {
    let Some(rights) = rights else { return File::create(part) };
    let file = create_owner_only(part)?;
    file.set_permissions(rights)?;
    Ok(file)
}

/// Creates a file that only its owner may read.
fn create_owner_only(part: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    set_owner_only(&mut options);
    options.open(part)
}

/// Makes files that are created with these options readable only by their owner.
#[cfg(unix)]
pub(super) fn set_owner_only(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
pub(super) fn set_owner_only(_: &mut OpenOptions) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_cannot_be_written_is_a_wrong_call() {
        for path in [&std::env::temp_dir(), Path::new("no/such/folder/x")] {
            assert_eq!(OutputWriter::open(Some(path)).err().map(|failure| failure.exit_code()), Some(2));
        }
    }
}
