//! The results of a search and of opening a recall ID.

use serde::Serialize;

use crate::store::{AdjacentBlock, BlockSummary, RecalledBlock, SearchHit};

/// The results of a search.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct SearchResults {
    pub(in crate::gateway::dashboard) session: String,
    pub(in crate::gateway::dashboard) query: String,
    pub(in crate::gateway::dashboard) hits: Vec<SearchResult>,
}

/// One result of a search.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct SearchResult {
    #[serde(rename = "handle")]
    pub(in crate::gateway::dashboard) recall_id: String,
    pub(in crate::gateway::dashboard) session: String,
    pub(in crate::gateway::dashboard) message: usize,
    #[serde(rename = "what")]
    pub(in crate::gateway::dashboard) kind: String,
    pub(in crate::gateway::dashboard) tool: Option<String>,
    pub(in crate::gateway::dashboard) excerpt: String,
    /// Whether the text is still in the requests that are sent now.
    #[serde(rename = "shown")]
    pub(in crate::gateway::dashboard) is_visible: bool,
    #[serde(rename = "step")]
    pub(in crate::gateway::dashboard) turn_blocks: Vec<BlockSummary>,
}

impl From<SearchHit> for SearchResult {
    fn from(hit: SearchHit) -> Self {
        Self {
            recall_id: hit.recall_id,
            session: hit.session_name,
            message: hit.message,
            kind: hit.kind,
            tool: hit.tool,
            excerpt: hit.excerpt.to_string(),
            is_visible: hit.is_visible,
            turn_blocks: hit.turn_blocks,
        }
    }
}

/// The original that a recall ID names.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct OpenedBlock {
    #[serde(rename = "handle")]
    pub(in crate::gateway::dashboard) recall_id: String,
    pub(in crate::gateway::dashboard) session: String,
    pub(in crate::gateway::dashboard) message: Option<usize>,
    #[serde(rename = "what")]
    pub(in crate::gateway::dashboard) kind: String,
    pub(in crate::gateway::dashboard) tool: Option<String>,
    /// The text word for word, except for redacted secrets.
    pub(in crate::gateway::dashboard) text: String,
    #[serde(rename = "redacted")]
    pub(in crate::gateway::dashboard) is_redacted: bool,
    #[serde(rename = "before")]
    pub(in crate::gateway::dashboard) previous: Option<AdjacentExcerpt>,
    #[serde(rename = "behind")]
    pub(in crate::gateway::dashboard) next: Option<AdjacentExcerpt>,
}

/// The block before or after an opened one.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct AdjacentExcerpt {
    #[serde(rename = "handle")]
    pub(in crate::gateway::dashboard) recall_id: String,
    #[serde(rename = "what")]
    pub(in crate::gateway::dashboard) kind: String,
    pub(in crate::gateway::dashboard) tool: Option<String>,
    pub(in crate::gateway::dashboard) excerpt: String,
}

impl From<AdjacentBlock> for AdjacentExcerpt {
    fn from(neighbour: AdjacentBlock) -> Self {
        let AdjacentBlock { recall_id, kind, tool, excerpt } = neighbour;
        Self { recall_id, kind, tool, excerpt: excerpt.to_string() }
    }
}

impl From<RecalledBlock> for OpenedBlock {
    fn from(recalled: RecalledBlock) -> Self {
        Self {
            recall_id: recalled.recall_id,
            session: recalled.session_name,
            message: recalled.message,
            kind: recalled.kind,
            tool: recalled.tool,
            text: recalled.text.to_string(),
            is_redacted: recalled.is_redacted,
            previous: recalled.previous.map(Into::into),
            next: recalled.next.map(Into::into),
        }
    }
}
