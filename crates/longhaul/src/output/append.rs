//! Appends lines to files: originals and logs.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::writer::{set_owner_only, write_failure};
use crate::failure::Failure;

/// The users who may read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// Everybody who may read new files of this user.
    Default,
    /// Only the owner, even if the file exists with wider permissions.
    OwnerOnly,
}

/// Appends whole lines to a file. If the last line has no end, because a program was stopped or the disk was
/// full, the function ends it first and reports that. Otherwise the next line would be joined to it and lost
/// as well.
pub(crate) fn append_lines(file: &Path, lines: &str, readers: FileAccess) -> Result<(), Failure> {
    let write = || {
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        if readers == FileAccess::OwnerOnly {
            set_owner_only(&mut options);
        }
        let mut to = options.open(file)?;
        if readers == FileAccess::OwnerOnly {
            make_private(&to)?;
        }
        let cut = ends_mid_line(&mut to)?;
        let lines = if cut { format!("\n{lines}") } else { lines.to_owned() };
        to.write_all(lines.as_bytes())?;
        Ok(cut)
    };
    crate::agent_session::refuse_agent_files(file)?;
    let cut = write().map_err(|error| write_failure(file, &error))?;
    if cut {
        let shown = file.display();
        super::print_message(&format!("{shown}: its last line was incomplete and is lost; a new line was started"));
    }
    Ok(())
}

/// Whether the last line of a file has no end. Devices and pipes have no end to read.
fn ends_mid_line(file: &mut File) -> std::io::Result<bool> {
    if !file.metadata()?.is_file() || file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Sets the mode of an open file, because a file that exists keeps its mode when it is opened.
#[cfg(unix)]
fn make_private(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_: &File) -> std::io::Result<()> {
    Ok(())
}
