//! The file in which `compress --originals` keeps what it removed, one JSON object a line, and `recall` finds it again.

use std::path::Path;

use longhaul_engine::plan::Original;
use longhaul_engine::redact::{Content, Redactor, Rules};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::{self, Readers};

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
    /// BLAKE3 of the text as it is kept, so that `recall` can tell whether it still is. Older files have none.
    #[serde(default)]
    pub(crate) text_hash: Option<String>,
    pub(crate) text: String,
}

impl Row {
    /// Whether the text is the one that was kept, as far as can be told.
    pub(crate) fn is_intact(&self) -> bool {
        let original = (!self.redacted).then_some(&self.hash);
        self.text_hash.as_ref().or(original).is_none_or(|hash| *hash == hash_of(&self.text))
    }
}

fn hash_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
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
        let hash = hash_of(&original.text);
        let text = match secrets {
            Secrets::AsTheyWere => original.text,
            Secrets::Out => redactor.redact(&original.text, Content::Text).text.into_string(),
        };
        let what = serde_json::to_value(original.what).ok().and_then(|w| w.as_str().map(str::to_owned));
        let (handle, at, tool) = (original.handle, original.at, original.tool);
        let redacted = secrets == Secrets::Out;
        let (what, text_hash) = (what.unwrap_or_default(), Some(hash_of(&text)));
        let row = Row { handle, at, what, tool, hash, redacted, text_hash, text };
        let line = serde_json::to_string(&row)
            .map_err(|e| Failure::World(format!("cannot write an original: {e}")))?;
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(lines)
}

/// Appends rows to a file. With secrets in it, only its owner may read it.
pub(crate) fn append(file: &Path, rows: &str, secrets: Secrets) -> Result<(), Failure> {
    let readers = match secrets {
        Secrets::Out => Readers::Usual,
        Secrets::AsTheyWere => Readers::Owner,
    };
    output::append(file, rows, readers)
}

/// The newest row with this handle that is intact, else the newest: the same text has the same handle, so any would do. A line
/// that is no row, such as one cut off by a full disk, keeps nobody from the others.
pub(crate) fn find(text: &str, handle: &str) -> Option<Row> {
    let rows = text.lines().rev().filter(|line| line.contains(handle));
    let mut rows = rows.filter_map(|line| serde_json::from_str::<Row>(line).ok());
    let mut rows = rows.by_ref().filter(|row| row.handle == handle);
    let newest = rows.next()?;
    if newest.is_intact() { Some(newest) } else { Some(rows.find(Row::is_intact).unwrap_or(newest)) }
}
