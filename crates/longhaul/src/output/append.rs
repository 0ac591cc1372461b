//! Files that grow by lines: originals and logs.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::sink::{private, unwritable};
use crate::failure::Failure;

/// Who may read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Whoever may read new files.
    Usual,
    /// Its owner alone, also if the file was there before.
    Owner,
}

/// Appends whole lines. A last line that was only half written, by a program that was stopped or a disk that was full, is ended
/// first and said: glued to it, the next one would be lost as well.
pub(crate) fn append(file: &Path, lines: &str, readers: Readers) -> Result<(), Failure> {
    let write = || {
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        if readers == Readers::Owner {
            private(&mut options);
        }
        let mut to = options.open(file)?;
        if readers == Readers::Owner {
            make_private(&to)?;
        }
        let cut = ends_half_written(&mut to)?;
        let lines = if cut { format!("\n{lines}") } else { lines.to_owned() };
        to.write_all(lines.as_bytes())?;
        Ok(cut)
    };
    crate::session::refuse_home(file)?;
    let cut = write().map_err(|error| unwritable(file, &error))?;
    if cut {
        let shown = file.display();
        super::say(&format!("{shown}: its last line was only half written and is lost; a new line is begun"));
    }
    Ok(())
}

/// Devices and pipes have no end to look at.
fn ends_half_written(file: &mut File) -> std::io::Result<bool> {
    if !file.metadata()?.is_file() || file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// A file that was there before keeps its mode when it is opened, so it is set again.
#[cfg(unix)]
fn make_private(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_: &File) -> std::io::Result<()> {
    Ok(())
}
