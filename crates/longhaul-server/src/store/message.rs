//! The rows of messages, and the path of a session through them.
//!
//! ```text
//! session 1   m0 ── m1 ── m2 ── m3 ── m4            its own messages: positions 0 to 4
//! session 2               └──── m3'── m4'           a fork: its own messages start at 3, and it shares 0 to 2
//! ```
//!
//! The path of a session is the part of its parent's path that it shares, followed by its own messages. A
//! message is stored once, however many sessions share it, and a stored message never changes.

use std::ops::Range;

use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::redact::Redacted;

use super::error::{Result, StoreError};
use super::schema::{message_id, split_message_id};
use super::session::{self, StoredSession};
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;

/// A message that is ready for the log.
#[derive(Debug, Clone)]
pub struct MessageEntry {
    /// The message as the client sent it, without its secrets.
    pub text: Redacted,
    /// Whether any secrets were removed from it.
    pub is_redacted: bool,
    /// The position of the first message of its turn: the assistant message whose tool results it has, or
    /// itself.
    pub turn_start: usize,
    /// Its blocks, in the order in which they appear in it.
    pub blocks: Vec<BlockRow>,
    /// The terms for the search index, separated by spaces.
    pub(super) search_terms: String,
}

/// The recall ID, kind and tool of a block. They are stored beside the message, so that they can be listed
/// without parsing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRow {
    /// The ID that recalls the block.
    pub recall_id: String,
    /// The kind of content: `prompt`, `reply`, `call`, `result`, ….
    pub kind: String,
    /// The name of the tool, for a tool call or its result.
    pub tool: Option<String>,
}

impl BlockRow {
    fn to_line(&self) -> String {
        // A line has up to three words, so the name of a tool must not contain white space.
        let word = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
        let tool: Option<String> = self.tool.as_ref().map(|tool| tool.chars().map(word).collect());
        [Some(self.recall_id.as_str()), Some(self.kind.as_str()), tool.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Parses the column `blocks` of a message: one line for each block.
    pub(super) fn parse_lines(lines: &str) -> Vec<Self> {
        let block = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let (recall_id, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            Self { recall_id, kind, tool: words.next() }
        };
        lines.lines().map(block).collect()
    }
}

/// The part of a path that consists of one session's own messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathSegment {
    pub(super) session: i64,
    pub(super) positions: Range<usize>,
}

impl PathSegment {
    /// Returns the first and the last message ID, or `None` if the segment is empty.
    pub(super) fn message_ids(&self) -> Option<(i64, i64)> {
        let last = self.positions.end.checked_sub(1).filter(|last| *last >= self.positions.start)?;
        Some((message_id(self.session, self.positions.start), message_id(self.session, last)))
    }
}

/// A message that was read from the log.
#[derive(Debug, Clone)]
pub(super) struct StoredMessage {
    pub(super) id: i64,
    pub(super) position: usize,
    pub(super) turn_id: i64,
    pub(super) text: Redacted,
    pub(super) blocks: Vec<BlockRow>,
    pub(super) is_redacted: bool,
}

/// Returns the segments of a session's path, first to last, up to `length` messages.
pub(super) async fn path_segments(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    length: usize,
) -> Result<Vec<PathSegment>> {
    let mut segments = Vec::new();
    let mut end = length;
    let mut at = Some(session.clone());
    while let Some(session) = at {
        if session.first_own_message < end {
            segments.push(PathSegment { session: session.id.0, positions: session.first_own_message..end });
        }
        end = end.min(session.first_own_message);
        at = match session.parent.filter(|_| end > 0) {
            Some(parent) => session::find_session(sql, tenant, parent).await?,
            None => None,
        };
    }
    segments.reverse();
    Ok(segments)
}

/// Reads the messages at some positions of a session's path.
pub(super) async fn read_messages(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    positions: Range<usize>,
) -> Result<Vec<StoredMessage>> {
    let mut stored = Vec::new();
    for segment in path_segments(sql, tenant, session, positions.end.min(session.path_length)).await? {
        let own_positions = segment.positions.start.max(positions.start)..segment.positions.end;
        if let Some((first, last)) = (PathSegment { positions: own_positions, ..segment }).message_ids() {
            let find = format!("{SELECT_MESSAGE} WHERE id BETWEEN $1 AND $2 AND tenant = $3 ORDER BY id");
            let rows = sql.rows(&find, &[first.into(), last.into(), tenant.id.into()]).await?;
            let missing = ((last - first + 1) as usize).saturating_sub(rows.len());
            if missing > 0 {
                let name = &session.name;
                return Err(StoreError::Damaged(format!("{missing} messages of session {name} are missing")));
            }
            stored.extend(rows.iter().map(message_from_row).collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(stored)
}

/// Finds the position of the first message that lost secrets, among the first `length` messages of a path.
pub(super) async fn find_first_redacted(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    length: usize,
) -> Result<Option<usize>> {
    for segment in path_segments(sql, tenant, session, length).await? {
        let Some((first, last)) = segment.message_ids() else { continue };
        let find = "SELECT min(id) FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3 AND redacted <> 0";
        let row = sql.row(find, &[first.into(), last.into(), tenant.id.into()]).await?;
        if let Some(id) = row.map(|row| row.maybe_int(0)).transpose()?.flatten() {
            return Ok(Some(split_message_id(id).1));
        }
    }
    Ok(None)
}

/// Selects the columns that [`message_from_row`] reads.
pub(super) const SELECT_MESSAGE: &str = "SELECT id, step, text, blocks, redacted FROM messages";

pub(super) fn message_from_row(row: &Row) -> Result<StoredMessage> {
    let id = row.int(0)?;
    Ok(StoredMessage {
        id,
        position: split_message_id(id).1,
        turn_id: row.int(1)?,
        text: Redacted::assume_redacted(row.text(2)?),
        blocks: BlockRow::parse_lines(&row.text(3)?),
        is_redacted: row.int(4)? != 0,
    })
}

/// A message that is about to be inserted.
pub(super) struct NewMessage<'a> {
    /// The position on the session's path.
    pub(super) position: usize,
    /// The ID of the first message of its turn.
    pub(super) turn_id: i64,
    pub(super) hash: &'a KeyedHash,
    pub(super) entry: &'a MessageEntry,
}

/// Inserts new messages of a session, the recall IDs of their blocks, and their search terms.
pub(super) async fn insert_messages(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    messages: &[NewMessage<'_>],
) -> Result<()> {
    let insert =
        "INSERT INTO messages (id, tenant, step, identity, text, blocks, redacted) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let (mut rows, mut blocks, mut terms) = (Vec::new(), Vec::new(), Vec::new());
    for NewMessage { position, turn_id, hash, entry } in messages {
        let message_id = message_id(session.id.0, *position);
        let lines: Vec<String> = entry.blocks.iter().map(BlockRow::to_line).collect();
        rows.push(vec![
            message_id.into(),
            tenant.id.into(),
            (*turn_id).into(),
            hash.0.as_slice().into(),
            entry.text.as_str().into(),
            lines.join("\n").into(),
            entry.is_redacted.into(),
        ]);
        blocks.extend(
            entry
                .blocks
                .iter()
                .enumerate()
                .map(|(at, block)| block_values(session.family, &block.recall_id, message_id, at)),
        );
        if !entry.search_terms.is_empty() {
            terms.push(vec![message_id.into(), entry.search_terms.as_str().into()]);
        }
    }
    sql.run_each(insert, &rows).await?;
    sql.run_each(INSERT_BLOCK, &blocks).await?;
    sql.run_each(sql.dialect().insert_terms, &terms).await
}

/// Links a recall ID to a block, unless the ID is linked already.
const INSERT_BLOCK: &str = "INSERT INTO blocks (family, handle, message, place) VALUES ($1, $2, $3, $4) ON CONFLICT (family, handle) DO NOTHING";

fn block_values(family: i64, recall_id: &str, message: i64, place: usize) -> Vec<Value> {
    vec![family.into(), recall_id.into(), message.into(), place.into()]
}

/// Links a recall ID to a block, unless the ID is linked already.
pub(super) async fn link_recall_id(
    sql: &mut dyn Sql,
    family: i64,
    recall_id: &str,
    message: i64,
    place: usize,
) -> Result<()> {
    sql.run(INSERT_BLOCK, &block_values(family, recall_id, message, place)).await.map(drop)
}

/// Returns a list of `count` numbered SQL parameters: `$2, $3, $4`.
pub(super) fn parameter_list(first: usize, count: usize) -> String {
    (first..first + count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}
