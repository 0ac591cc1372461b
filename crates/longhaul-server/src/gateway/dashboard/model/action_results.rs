//! The results of undo, redo and compress.

use longhaul_engine::ApiFormat;
use longhaul_engine::models::Model;
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// The result of an undo or redo.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct MoveResult {
    pub(in crate::gateway::dashboard) session: String,
    /// Whether the head moved; false if there was nothing to undo or redo.
    pub(in crate::gateway::dashboard) moved: bool,
    /// The number of the compaction that is now active; none if the history is sent as the client sends it.
    #[serde(rename = "epoch")]
    pub(in crate::gateway::dashboard) active_compaction: Option<usize>,
}

/// The result of a compress command or its preview.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct CompressResult {
    /// The session that continues: a new one if the old one was archived.
    pub(in crate::gateway::dashboard) session: String,
    /// The number of the new compaction, if one was made.
    #[serde(rename = "epoch")]
    pub(in crate::gateway::dashboard) compaction: Option<usize>,
    /// Whether only a preview was requested.
    pub(in crate::gateway::dashboard) preview: bool,
    /// Whether the compaction changes the request.
    pub(in crate::gateway::dashboard) changed: bool,
    /// The reason for the result, from the report.
    pub(in crate::gateway::dashboard) reason: Option<String>,
    /// In a preview, the reason why this compaction could not be stored.
    pub(in crate::gateway::dashboard) obstacle: Option<String>,
    pub(in crate::gateway::dashboard) dialect: ApiFormat,
    pub(in crate::gateway::dashboard) model: Option<String>,
    /// The model whose tokens are counted, with the corrections learned for it.
    #[serde(skip)]
    pub(in crate::gateway::dashboard) token_model: Option<Model>,
    pub(in crate::gateway::dashboard) report: Json,
    pub(in crate::gateway::dashboard) before: Box<RawValue>,
    pub(in crate::gateway::dashboard) after: Box<RawValue>,
}
