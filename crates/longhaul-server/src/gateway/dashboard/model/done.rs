//! What was done with a session.

use longhaul_engine::Dialect;
use longhaul_engine::models::Model;
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// Where the head of a session is now.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct Shifted {
    pub(in crate::gateway::dashboard) session: String,
    /// Whether it was moved at all.
    pub(in crate::gateway::dashboard) moved: bool,
    /// The compaction in force; nothing means the history as the client sent it.
    pub(in crate::gateway::dashboard) epoch: Option<usize>,
}

/// What came of asking for a compaction.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct Squeezed {
    /// The session that goes on: a new one, where the old one was archived for it.
    pub(in crate::gateway::dashboard) session: String,
    /// The compaction, where it is in force now.
    pub(in crate::gateway::dashboard) epoch: Option<usize>,
    /// Whether it was only looked at.
    pub(in crate::gateway::dashboard) preview: bool,
    /// Whether anything changes at all.
    pub(in crate::gateway::dashboard) changed: bool,
    /// Why, or why not.
    pub(in crate::gateway::dashboard) reason: Option<String>,
    /// Why it could not be kept, where a preview finds that out.
    pub(in crate::gateway::dashboard) obstacle: Option<String>,
    pub(in crate::gateway::dashboard) dialect: Dialect,
    pub(in crate::gateway::dashboard) model: Option<String>,
    /// The same, as its tokens are counted.
    #[serde(skip)]
    pub(in crate::gateway::dashboard) counted: Option<Model>,
    pub(in crate::gateway::dashboard) report: Json,
    pub(in crate::gateway::dashboard) before: Box<RawValue>,
    pub(in crate::gateway::dashboard) after: Box<RawValue>,
}
