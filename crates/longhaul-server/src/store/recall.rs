//! Recall: finds a block by its recall ID and returns its original text and the beginnings of the blocks
//! beside it.

use longhaul_engine::redact::Redacted;
use longhaul_engine::{ApiFormat, wire};

use super::error::{Result, StoreError};
use super::message::{self, BlockRow, StoredMessage};
use super::schema::split_message_id;
use super::session::{self, SessionId, StoredSession};
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, in_transaction};

/// The characters that are shown of an adjacent block. Chosen by hand.
const MAX_EXCERPT_CHARS: usize = 160;

/// A block that was found by its recall ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledBlock {
    /// The ID that recalls the block.
    pub recall_id: String,
    /// The name of the session that has the block.
    pub session_name: String,
    /// The index of its message in the session's newest request, or `None` for a text that a compaction
    /// wrote.
    pub message: Option<usize>,
    /// The kind of content: `prompt`, `reply`, `call`, `result`, ….
    pub kind: String,
    /// The name of the tool, for a tool call or its result.
    pub tool: Option<String>,
    /// The original text, without secrets.
    pub text: Redacted,
    /// Whether secrets were removed from its message.
    pub is_redacted: bool,
    /// The block before it.
    pub previous: Option<AdjacentBlock>,
    /// The block after it.
    pub next: Option<AdjacentBlock>,
}

/// A block beside a recalled one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdjacentBlock {
    /// The ID that recalls the block.
    pub recall_id: String,
    /// The kind of content: `prompt`, `reply`, `call`, `result`, ….
    pub kind: String,
    /// The name of the tool, for a tool call or its result.
    pub tool: Option<String>,
    /// The beginning of its text, on one line.
    pub excerpt: Redacted,
}

/// Returns the texts of a stored message's blocks, in the order of [`StoredMessage::blocks`].
pub(super) fn block_texts(api_format: ApiFormat, stored: &StoredMessage) -> Vec<String> {
    let list = format!("[{}]", stored.text);
    let texts = wire::parse(api_format, &list).ok().and_then(|(transcript, _)| {
        let parts = transcript.blocks_by_message(0..1).pop()?;
        let text = |block: &longhaul_engine::transcript::Block<'_>| match block.text {
            Some(_) => block.text().into_owned(),
            None => block.raw().to_owned(),
        };
        Some(parts.iter().map(|part| text(part.block)).collect::<Vec<_>>())
    });
    // A message may parse differently alone than in its request. Each block then gets the whole message as
    // its text.
    texts
        .filter(|texts| texts.len() == stored.blocks.len())
        .unwrap_or_else(|| vec![stored.text.to_string(); stored.blocks.len()])
}

async fn recall_block(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    within: Option<&StoredSession>,
    recall_id: &str,
) -> Result<RecalledBlock> {
    let unknown = || {
        let place_name = within.map_or_else(|| "the store".to_owned(), |session| format!("session {}", session.name));
        StoreError::NotFound(format!(
            "{place_name} has no recall ID {recall_id}; recall IDs are in shortened results, checkpoints and search results"
        ))
    };
    if !recall_id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(unknown());
    }
    let family = within.map_or(0, |session| session.family);
    let of_family = if within.is_some() { " AND b.family = $3" } else { " AND CAST($3 AS BIGINT) = 0" };
    // A family's ID is the ID of its first session, so the family belongs to the tenant if that session does.
    let find = format!(
        "SELECT b.message, b.place FROM blocks b JOIN sessions s ON s.id = b.family WHERE b.handle = $1 AND s.tenant = $2{of_family} LIMIT 1"
    );
    let values = [recall_id.into(), tenant.id.into(), family.into()];
    if let Some(row) = sql.row(&find, &values).await? {
        let (session_id, at) = split_message_id(row.int(0)?);
        let owner = session::find_session(sql, tenant, SessionId(session_id)).await?.ok_or_else(unknown)?;
        let place = row.count(1)?;
        let neighbours = message::read_messages(sql, tenant, &owner, at.saturating_sub(1)..at + 2).await?;
        return recalled_from_messages(&owner, &neighbours, at, place).ok_or_else(unknown);
    }
    let find_original = format!(
        "SELECT b.what, b.text, b.session FROM remains b JOIN sessions s ON s.id = b.family \
         WHERE b.handle = $1 AND s.tenant = $2{of_family} LIMIT 1"
    );
    let row = sql.row(&find_original, &values).await?.ok_or_else(unknown)?;
    let session = session::find_session(sql, tenant, SessionId(row.int(2)?)).await?.ok_or_else(unknown)?;
    Ok(RecalledBlock {
        recall_id: recall_id.to_owned(),
        session_name: session.name,
        message: None,
        kind: row.text(0)?,
        tool: None,
        is_redacted: row.text(1)?.contains("[REDACTED:"),
        text: Redacted::assume_redacted(row.text(1)?),
        previous: None,
        next: None,
    })
}

/// A block, its position in its message, and its text.
struct LocatedBlock<'r> {
    message: usize,
    place: usize,
    row: &'r BlockRow,
    text: String,
}

fn recalled_from_messages(
    session: &StoredSession,
    neighbours: &[StoredMessage],
    at: usize,
    place: usize,
) -> Option<RecalledBlock> {
    let mut blocks = Vec::new();
    for stored in neighbours {
        let texts = block_texts(session.api_format, stored);
        let rows = stored.blocks.iter().zip(texts).enumerate();
        blocks.extend(rows.map(|(place, (row, text))| LocatedBlock { message: stored.position, place, row, text }));
    }
    let index = blocks.iter().position(|block| (block.message, block.place) == (at, place))?;
    let neighbour = |LocatedBlock { row, text, .. }: &LocatedBlock<'_>| AdjacentBlock {
        recall_id: row.recall_id.clone(),
        kind: row.kind.clone(),
        tool: row.tool.clone(),
        excerpt: Redacted::assume_redacted(text.clone()).one_line(MAX_EXCERPT_CHARS),
    };
    let LocatedBlock { row, text, .. } = &blocks[index];
    Some(RecalledBlock {
        recall_id: row.recall_id.clone(),
        session_name: session.name.clone(),
        message: Some(at + session.system_message_count),
        kind: row.kind.clone(),
        tool: row.tool.clone(),
        text: Redacted::assume_redacted(text.clone()),
        is_redacted: neighbours.iter().any(|stored| stored.position == at && stored.is_redacted),
        previous: index.checked_sub(1).map(|previous| neighbour(&blocks[previous])),
        next: blocks.get(index + 1).map(neighbour),
    })
}

impl Store {
    /// Finds the block of a recall ID, in the family of the session `within`, or in all sessions of the
    /// tenant.
    pub async fn recall(
        &self,
        tenant: &Tenant,
        within: Option<&StoredSession>,
        recall_id: &str,
    ) -> Result<RecalledBlock> {
        let arguments = (tenant.clone(), within.cloned(), recall_id.to_owned());
        self.read(in_transaction(arguments, |sql, (tenant, within, recall_id)| {
            Box::pin(recall_block(sql, tenant, within.as_ref(), recall_id))
        }))
        .await
    }
}
