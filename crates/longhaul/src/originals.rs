//! The file in which `compress --originals` keeps what it removed, one JSON object a line, and `recall` finds it again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use longhaul_engine::plan::Original;
use longhaul_engine::redact::{Content, Redactor, Rules};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// One removed block.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) handle: String,
    pub(crate) at: usize,
    pub(crate) what: String,
    pub(crate) tool: Option<String>,
    /// BLAKE3 of the original, so that one who still has it can prove it.
    pub(crate) hash: String,
    /// Whether secrets were taken out of the text.
    pub(crate) redacted: bool,
    pub(crate) text: String,
}

/// Whether secrets are taken out of what is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    Out,
    AsTheyWere,
}

/// The originals as lines of the file.
pub(crate) fn rows(originals: Vec<Original>, secrets: Secrets, rules: Rules) -> Result<String, Failure> {
    let mut redactor = Redactor::numbered(rules);
    let mut lines = String::new();
    for original in originals {
        let hash = blake3::hash(original.text.as_bytes()).to_hex().to_string();
        let text = match secrets {
            Secrets::AsTheyWere => original.text,
            Secrets::Out => redactor.redact(&original.text, Content::Text).text.into_string(),
        };
        let what = serde_json::to_value(original.what).ok().and_then(|w| w.as_str().map(str::to_owned));
        let (handle, at, tool) = (original.handle, original.at, original.tool);
        let redacted = secrets == Secrets::Out;
        let row = Row { handle, at, what: what.unwrap_or_default(), tool, hash, redacted, text };
        let line = serde_json::to_string(&row)
            .map_err(|e| Failure::World(format!("cannot write an original: {e}")))?;
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(lines)
}

/// Appends rows to a file. With secrets in it, only its owner may read it.
pub(crate) fn append(file: &Path, rows: &str, secrets: Secrets) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    if secrets == Secrets::AsTheyWere {
        private(&mut options);
    }
    let write = |options: &OpenOptions| {
        let mut to = options.open(file)?;
        if secrets == Secrets::AsTheyWere {
            make_private(&to)?;
        }
        to.write_all(rows.as_bytes())
    };
    write(&options).map_err(|error| Failure::World(format!("cannot write {}: {error}", file.display())))
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}

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

/// The newest row with this handle: the same text has the same handle, so any would do. A line that is no row, such as one cut
/// off by a full disk, keeps nobody from the others.
pub(crate) fn find(text: &str, handle: &str) -> Option<Row> {
    let rows = text.lines().rev().filter(|line| line.contains(handle));
    rows.filter_map(|line| serde_json::from_str::<Row>(line).ok()).find(|row| row.handle == handle)
}
