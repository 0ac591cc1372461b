//! The records of configuration files that the user trusts, by path and content.
//!
//! A record is a file in the user's data folder. Its name is a hash of the trusted path; it contains the hash
//! of the trusted content and the path. A file that is edited, or copied to another folder, has no matching
//! record.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::files;
use crate::agent_setup;
use crate::failure::Failure;
use crate::output;

/// The folder of the records, within Longhaul's part of the data folder.
const RECORDS_FOLDER: &str = "trusted";

/// All trust records of a user.
pub(crate) struct TrustRecords {
    folder: PathBuf,
}

/// The record of one trusted file.
pub(crate) struct TrustRecord {
    /// The path of the trusted file.
    pub(crate) file: PathBuf,
    /// The hash of the trusted content.
    pub(crate) hash: String,
}

impl TrustRecords {
    /// Returns the records of the user whose environment this is, or `None` without a data folder.
    pub(crate) fn open(environment: &[(String, String)]) -> Option<Self> {
        let folder = files::data_folder(environment)?.join("longhaul").join(RECORDS_FOLDER);
        Some(Self { folder })
    }

    /// Whether the user trusts a file with this content.
    pub(crate) fn contains(&self, file: &Path, text: &str) -> bool {
        let record = resolve_path(file).and_then(|path| read_record(&self.record_path(&path)));
        record.is_some_and(|record| record.hash == content_hash(text.as_bytes()))
    }

    /// Trusts a file with this content, which replaces any content that was trusted before.
    pub(crate) fn add(&self, file: &Path, text: &str) -> Result<TrustRecord, Failure> {
        let file = resolve_path(file).ok_or_else(|| missing_file_failure(file))?;
        let record = TrustRecord { hash: content_hash(text.as_bytes()), file };
        output::create_directory(&self.folder)?;
        let lines = format!("{}\n{}\n", record.hash, record.file.display());
        output::write(Some(&self.record_path(&record.file)), lines.as_bytes())?;
        Ok(record)
    }

    /// Removes the record of a file, which need not exist any more. Returns `None` if the file was not
    /// trusted.
    pub(crate) fn revoke(&self, file: &Path) -> Result<Option<TrustRecord>, Failure> {
        let absolute_path = || std::path::absolute(file).ok();
        let Some(path) = resolve_path(file).or_else(absolute_path).map(|path| self.record_path(&path)) else {
            return Ok(None);
        };
        let record = read_record(&path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(output::write_failure(&path, &error)),
            _ => Ok(record),
        }
    }

    /// Returns all records, sorted by path.
    pub(crate) fn list(&self) -> Vec<TrustRecord> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut records: Vec<TrustRecord> = entries.filter_map(|entry| read_record(&entry.path())).collect();
        records.sort_by(|a, b| a.file.cmp(&b.file));
        records
    }

    fn record_path(&self, path: &Path) -> PathBuf {
        self.folder.join(content_hash(path.as_os_str().as_encoded_bytes()))
    }
}

/// Returns the hash that identifies a trusted content.
pub(crate) fn content_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Returns the command that trusts a file.
pub(crate) fn trust_command(file: &str) -> String {
    format!("longhaul trust {}", agent_setup::shell_quote(file))
}

/// Returns the path of a file with all links in its folder resolved, but not a link that is the file itself.
/// So a link in another folder to a trusted file is not trusted.
fn resolve_path(file: &Path) -> Option<PathBuf> {
    let file = std::path::absolute(file).ok()?;
    Some(fs::canonicalize(file.parent()?).ok()?.join(file.file_name()?))
}

fn read_record(path: &Path) -> Option<TrustRecord> {
    let text = fs::read_to_string(path).ok()?;
    let (hash, file) = text.trim_end_matches('\n').split_once('\n')?;
    Some(TrustRecord { hash: hash.to_owned(), file: file.into() })
}

fn missing_file_failure(file: &Path) -> Failure {
    Failure::InvalidInput(format!("{} does not exist; check the path", file.display()))
}
