//! The backup that `--in-place` makes of a file before it replaces it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// Copies a file to `FILE.bak` and returns the path of the copy. If that name is taken, it uses the first
/// free one of `FILE.bak.1`, `FILE.bak.2`, and so on: an older backup may be the only complete request that
/// is left.
pub(super) fn create_backup(file: &Path) -> Result<PathBuf, Failure> {
    crate::agent_session::refuse_agent_files(file)?;
    for number in 0_u32.. {
        let mut name = OsString::from(file);
        name.push(if number == 0 { ".bak".to_owned() } else { format!(".bak.{number}") });
        let backup = PathBuf::from(name);
        match File::create_new(&backup) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(output::write_failure(&backup, &error)),
            Ok(_) => {
                // `fs::copy` also copies the permissions.
                return match fs::copy(file, &backup) {
                    Ok(_) => Ok(backup),
                    Err(error) => {
                        let _ = fs::remove_file(&backup);
                        Err(output::write_failure(&backup, &error))
                    }
                };
            }
        }
    }
    Err(Failure::System(format!("{} has too many backups; remove some", file.display())))
}
