//! The configuration files that the user has read and allowed, by place and content.
//!
//! A record is a file in the user's data folder, named by a hash of the place; it has the hash of the content and the place. A file
//! that is edited, or copied to another folder, has no record that fits.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::find;
use crate::agents;
use crate::failure::Failure;
use crate::output;

/// The folder of the records, in Longhaul's part of the data folder.
const FOLDER: &str = "trusted";

/// All records of a user.
pub(crate) struct Records {
    folder: PathBuf,
}

/// One record.
pub(crate) struct Record {
    /// The trusted file.
    pub(crate) file: PathBuf,
    /// The hash of the content that was trusted.
    pub(crate) hash: String,
}

impl Records {
    /// The records of the user whose environment this is; none where there is no data folder.
    pub(crate) fn open(environment: &[(String, String)]) -> Option<Self> {
        let folder = find::data_folder(environment)?.join("longhaul").join(FOLDER);
        Some(Self { folder })
    }

    /// Whether a file is trusted with this content.
    pub(crate) fn contain(&self, file: &Path, text: &str) -> bool {
        let record = place(file).and_then(|place| read(&self.path(&place)));
        record.is_some_and(|record| record.hash == hash(text.as_bytes()))
    }

    /// Trusts a file with this content, and with no other that it had before.
    pub(crate) fn add(&self, file: &Path, text: &str) -> Result<Record, Failure> {
        let file = place(file).ok_or_else(|| missing(file))?;
        let record = Record { hash: hash(text.as_bytes()), file };
        output::make_directory(&self.folder)?;
        let lines = format!("{}\n{}\n", record.hash, record.file.display());
        output::write(Some(&self.path(&record.file)), lines.as_bytes())?;
        Ok(record)
    }

    /// Ends the trust in a file, which need not exist any more; nothing where it was not trusted.
    pub(crate) fn revoke(&self, file: &Path) -> Result<Option<Record>, Failure> {
        let gone = || std::path::absolute(file).ok();
        let Some(path) = place(file).or_else(gone).map(|place| self.path(&place)) else { return Ok(None) };
        let record = read(&path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(output::unwritable(&path, &error)),
            _ => Ok(record),
        }
    }

    /// Every record, sorted by file.
    pub(crate) fn list(&self) -> Vec<Record> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut records: Vec<Record> = entries.filter_map(|entry| read(&entry.path())).collect();
        records.sort_by(|a, b| a.file.cmp(&b.file));
        records
    }

    fn path(&self, place: &Path) -> PathBuf {
        self.folder.join(hash(place.as_os_str().as_encoded_bytes()))
    }
}

/// The hash by which a content is trusted.
pub(crate) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The command that trusts a file.
pub(crate) fn remedy(file: &str) -> String {
    format!("longhaul trust {}", agents::quoted(file))
}

/// The folder of a file without links, and its name there. A link in another folder to a trusted file is not trusted.
fn place(file: &Path) -> Option<PathBuf> {
    let file = std::path::absolute(file).ok()?;
    Some(fs::canonicalize(file.parent()?).ok()?.join(file.file_name()?))
}

fn read(path: &Path) -> Option<Record> {
    let text = fs::read_to_string(path).ok()?;
    let (hash, file) = text.trim_end_matches('\n').split_once('\n')?;
    Some(Record { hash: hash.to_owned(), file: file.into() })
}

fn missing(file: &Path) -> Failure {
    Failure::Wrong(format!("{} does not exist; check the path", file.display()))
}
