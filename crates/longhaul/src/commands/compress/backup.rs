//! What `--in-place` keeps of a body that it is about to replace.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// Copies a file to `FILE.bak`, or to the first of `FILE.bak.1`, `FILE.bak.2`, … that is not there: an older backup may be the
/// only whole body that is left. Says where it is.
pub(super) fn keep(file: &Path) -> Result<PathBuf, Failure> {
    crate::session::refuse_home(file)?;
    for number in 0_u32.. {
        let mut name = OsString::from(file);
        name.push(if number == 0 { ".bak".to_owned() } else { format!(".bak.{number}") });
        let backup = PathBuf::from(name);
        match File::create_new(&backup) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(output::unwritable(&backup, &error)),
            Ok(_) => {
                // The copy has the rights of what it is a copy of.
                return match fs::copy(file, &backup) {
                    Ok(_) => Ok(backup),
                    Err(error) => {
                        let _ = fs::remove_file(&backup);
                        Err(output::unwritable(&backup, &error))
                    }
                };
            }
        }
    }
    Err(Failure::World(format!("{} has too many backups; remove some", file.display())))
}
