//! A file as it is written: whole or not at all, where its link points, as private as it was.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use super::append::Readers;
use crate::failure::Failure;

/// Where a command writes piece by piece.
pub(crate) struct Sink<'p> {
    /// How the caller names the file; none is standard output.
    file: Option<&'p Path>,
    /// What is renamed to what at the end; nothing for standard output, devices and pipes.
    whole: Option<Whole>,
    /// Nothing once the reader has gone away.
    to: Option<Box<dyn Write>>,
}

/// A file that is written beside its target until it is whole: a reader of the target may be its writer's input, and a disk may
/// be full.
struct Whole {
    part: PathBuf,
    target: PathBuf,
}

impl<'p> Sink<'p> {
    pub(crate) fn open(file: Option<&'p Path>) -> Result<Self, Failure> {
        Self::open_for(file, Readers::Usual)
    }

    /// The same for these readers, whoever could read the file before.
    pub(crate) fn open_for(file: Option<&'p Path>, readers: Readers) -> Result<Self, Failure> {
        let Some(path) = file else {
            return Ok(Self { file, whole: None, to: Some(Box::new(stdout().lock())) });
        };
        let failed = |error: std::io::Error| unwritable(path, &error);
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(failed(ErrorKind::IsADirectory.into()));
        }
        // Devices and pipes are written as they are; the links to them, as /dev/stdout is one, lead to no path.
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let to = OpenOptions::new().write(true).open(path).map_err(failed)?;
            return Ok(Self { file, whole: None, to: Some(Box::new(to)) });
        }
        let target = behind_links(path).map_err(failed)?;
        crate::session::refuse_home(&target)?;
        let part = beside(&target);
        let to = match readers {
            Readers::Usual => create(&part, there.map(|there| there.permissions())),
            Readers::Owner => for_owner(&part),
        };
        let to = to.map_err(failed)?;
        Ok(Self { file, whole: Some(Whole { part, target }), to: Some(Box::new(to)) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        let done = to.write_all(bytes);
        self.check(done)
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_deserted(&self) -> bool {
        self.to.is_none()
    }

    pub(crate) fn close(mut self) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        let done = to.flush();
        self.check(done)?;
        self.to = None;
        let Some(Whole { part, target }) = self.whole.take() else { return Ok(()) };
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
                self.to = None;
                Ok(())
            }
            (Err(error), None) => Err(Failure::World(format!("cannot write to standard output: {error}"))),
            (Err(error), Some(file)) => Err(unwritable(file, &error)),
        }
    }
}

/// What was not closed is not wanted.
impl Drop for Sink<'_> {
    fn drop(&mut self) {
        if let Some(whole) = self.whole.take() {
            let _ = fs::remove_file(whole.part);
        }
    }
}

/// Why a file cannot be written, in one line.
pub(crate) fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    let shown = file.display();
    match error.kind() {
        ErrorKind::IsADirectory => Failure::Wrong(format!("{shown} is a directory; name a file in it")),
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Failure::Wrong(format!("{shown} is in no existing directory; make it first"))
        }
        ErrorKind::InvalidFilename | ErrorKind::InvalidInput => {
            Failure::Wrong(format!("{shown} is not a file name; check the path"))
        }
        _ => Failure::World(format!("cannot write {shown}: {error}")),
    }
}

/// So many links one after the other are a circle.
const MOST_LINKS: usize = 40;

/// The file that a path means, there or not: a link is followed, so that writing changes what it points to and not the link.
fn behind_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            // A relative link is meant from its own folder.
            Ok(to) => path = path.parent().map_or(to.clone(), |folder| folder.join(&to)),
            Err(_) => return Ok(path),
        }
    }
    Err(std::io::Error::other("too many links, one behind the other"))
}

/// The file beside another in which it is written.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    file.with_file_name(name)
}

/// A new file, with the rights of the one that it will replace: never wider, not even for a moment.
fn create(part: &Path, rights: Option<Permissions>) -> std::io::Result<File> {
    let Some(rights) = rights else { return File::create(part) };
    let file = for_owner(part)?;
    file.set_permissions(rights)?;
    Ok(file)
}

/// A new file that its owner alone may read.
fn for_owner(part: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    private(&mut options);
    options.open(part)
}

/// What is made this way is for its owner alone.
#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
pub(super) fn private(_: &mut OpenOptions) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_cannot_be_written_is_a_wrong_call() {
        for place in [&std::env::temp_dir(), Path::new("no/such/folder/x")] {
            assert_eq!(Sink::open(Some(place)).err().map(|failure| failure.exit_code()), Some(2));
        }
    }
}
