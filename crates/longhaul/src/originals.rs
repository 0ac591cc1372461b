//! The file in which `compress --originals` stores what it removed, one JSON object per line, and from which
//! `recall` reads it.

use std::path::Path;

use longhaul_engine::plan::Original;
use longhaul_engine::redact::{RedactionMode, Redactor, Rules};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::{self, FileAccess};

/// One removed or shortened block, as stored in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OriginalRow {
    /// The recall ID. This field and the next two are named as in the file.
    pub(crate) handle: String,
    /// The position of the message that contains the block.
    pub(crate) at: usize,
    /// The kind of the block.
    pub(crate) what: String,
    pub(crate) tool: Option<String>,
    /// The BLAKE3 hash of the original text, so that somebody who still has the text can prove that it is the
    /// one that was removed.
    pub(crate) hash: String,
    /// Whether secrets were redacted in the text.
    pub(crate) redacted: bool,
    /// The BLAKE3 hash of the stored text, so that `recall` can detect damage. Older files have none.
    #[serde(default)]
    pub(crate) text_hash: Option<String>,
    pub(crate) text: String,
}

impl OriginalRow {
    /// Whether the text matches its hash. A redacted text without a hash of the stored text counts as intact.
    pub(crate) fn is_intact(&self) -> bool {
        let original = (!self.redacted).then_some(&self.hash);
        self.text_hash.as_ref().or(original).is_none_or(|hash| *hash == hash_text(&self.text))
    }
}

fn hash_text(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Whether secrets are redacted before the originals are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretHandling {
    Redacted,
    Kept,
}

/// Returns the originals as lines of the file.
pub(crate) fn to_lines(originals: Vec<Original>, secrets: SecretHandling, rules: Rules) -> Result<String, Failure> {
    let mut redactor = Redactor::numbered(rules);
    let mut lines = String::new();
    for original in originals {
        let hash = hash_text(&original.text);
        let text = match secrets {
            SecretHandling::Kept => original.text,
            SecretHandling::Redacted => redactor.redact(&original.text, RedactionMode::Text).text.into_string(),
        };
        let what = serde_json::to_value(original.kind).ok().and_then(|w| w.as_str().map(str::to_owned));
        let (recall_id, at, tool) = (original.recall_id, original.message, original.tool);
        let redacted = secrets == SecretHandling::Redacted;
        let (what, text_hash) = (what.unwrap_or_default(), Some(hash_text(&text)));
        let row = OriginalRow { handle: recall_id, at, what, tool, hash, redacted, text_hash, text };
        let line =
            serde_json::to_string(&row).map_err(|e| Failure::System(format!("cannot write an original: {e}")))?;
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(lines)
}

/// Appends lines to a file. If the originals have their secrets, only the owner may read the file.
pub(crate) fn append_to_file(file: &Path, rows: &str, secrets: SecretHandling) -> Result<(), Failure> {
    let readers = match secrets {
        SecretHandling::Redacted => FileAccess::Default,
        SecretHandling::Kept => FileAccess::OwnerOnly,
    };
    output::append_lines(file, rows, readers)
}

/// Finds the newest intact row with this recall ID, or else the newest row. The same text has the same recall
/// ID, so any intact row will do. A line that is not a row, such as one cut off by a full disk, is skipped.
pub(crate) fn find_row(text: &str, recall_id: &str) -> Option<OriginalRow> {
    let rows = text.lines().rev().filter(|line| line.contains(recall_id));
    let mut rows = rows.filter_map(|line| serde_json::from_str::<OriginalRow>(line).ok());
    let mut rows = rows.by_ref().filter(|row| row.handle == recall_id);
    let newest = rows.next()?;
    if newest.is_intact() { Some(newest) } else { Some(rows.find(OriginalRow::is_intact).unwrap_or(newest)) }
}
