//! The timeline of a session: its turns, which of them the model still sees unchanged, and the compactions
//! between them.
//!
//! The kinds of a turn's blocks are known without parsing its messages. The messages are read only to show
//! how their blocks begin.

use std::collections::BTreeMap;
use std::ops::Range;

use longhaul_engine::redact::Redacted;

use super::error::{Result, StoreError};
use super::message::{self, BlockRow, PathSegment};
use super::recall;
use super::schema::split_message_id;
use super::search::BlockSummary;
use super::session::StoredSession;
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, export, in_transaction};

/// The characters that are shown of the beginning of a block. Chosen by hand.
const MAX_OPENING_CHARS: usize = 160;

/// The turns and compactions of a session, first to last.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// The turns: an assistant message with the results of its tool calls, or another message alone.
    pub turns: Vec<TimelineTurn>,
    /// The compactions from the first to the active one.
    pub compactions: Vec<TimelineCompaction>,
}

/// One turn of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineTurn {
    /// The indexes of its messages in the session's newest request.
    pub messages: Range<usize>,
    /// Its blocks.
    pub blocks: Vec<BlockSummary>,
    /// Whether the model still sees all of it unchanged.
    pub is_visible: bool,
}

/// A compaction in a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineCompaction {
    /// The number within the session, from 1.
    pub number: usize,
    /// The index of the first message that arrived after it, in the session's newest request.
    pub first_later_message: usize,
    /// The tokens of the request before and after it, if the report has them.
    pub tokens: Option<(u64, u64)>,
}

async fn read_timeline(sql: &mut dyn Sql, tenant: &Tenant, session: &StoredSession) -> Result<Timeline> {
    let compactions = export::active_compactions(sql, tenant, session).await?;
    let mut turns: Vec<(i64, TimelineTurn)> = Vec::new();
    for segment in message::path_segments(sql, tenant, session, session.path_length).await? {
        let Some((first, last)) = PathSegment::message_ids(&segment) else { continue };
        let find = "SELECT id, step, blocks FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3 ORDER BY id";
        for row in sql.rows(find, &[first.into(), last.into(), tenant.id.into()]).await? {
            let (_, position) = split_message_id(row.int(0)?);
            let (turn_id, at) = (row.int(1)?, position + session.system_message_count);
            let is_visible = compactions.last().is_none_or(|compaction| compaction.shows_unchanged(position));
            let summary = |block: BlockRow| BlockSummary {
                recall_id: block.recall_id,
                message: at,
                kind: block.kind,
                tool: block.tool,
            };
            let blocks = BlockRow::parse_lines(&row.text(2)?).into_iter().map(summary);
            if let Some((_, last)) = turns.last_mut().filter(|(last_id, _)| *last_id == turn_id) {
                last.messages.end = at + 1;
                last.blocks.extend(blocks);
                last.is_visible &= is_visible;
            } else {
                let messages = at..at + 1;
                turns.push((turn_id, TimelineTurn { messages, blocks: blocks.collect(), is_visible }));
            }
        }
    }
    let compaction = |view: &super::Compaction| {
        let tokens = |side: &str| view.report["tokens"][side].as_u64();
        let tokens = tokens("before").zip(tokens("after"));
        TimelineCompaction {
            number: view.number,
            first_later_message: session.system_message_count + view.path_length,
            tokens,
        }
    };
    Ok(Timeline {
        turns: turns.into_iter().map(|(_, turn)| turn).collect(),
        compactions: compactions.iter().map(compaction).collect(),
    })
}

async fn read_block_openings(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    messages: &[Range<usize>],
) -> Result<BTreeMap<String, Redacted>> {
    let mut openings = BTreeMap::new();
    for range in messages {
        let place = |at: usize| {
            at.checked_sub(session.system_message_count).ok_or_else(|| {
                StoreError::InvalidInput(format!("message {at} is not stored: it belongs to the system prompt"))
            })
        };
        for stored in message::read_messages(sql, tenant, session, place(range.start)?..place(range.end)?).await? {
            let texts = recall::block_texts(session.api_format, &stored);
            for (block, text) in stored.blocks.iter().zip(texts) {
                let opening = Redacted::assume_redacted(text).one_line(MAX_OPENING_CHARS);
                openings.insert(block.recall_id.clone(), opening);
            }
        }
    }
    Ok(openings)
}

impl Store {
    /// Reads the timeline of a session.
    pub async fn timeline(&self, tenant: &Tenant, session: &StoredSession) -> Result<Timeline> {
        let arguments = (tenant.clone(), session.clone());
        self.read(in_transaction(arguments, |sql, (tenant, session)| Box::pin(read_timeline(sql, tenant, session))))
            .await
    }

    /// Reads how the blocks of some messages begin, by recall ID. The ranges are indexes of messages in the
    /// session's newest request.
    pub async fn block_openings(
        &self,
        tenant: &Tenant,
        session: &StoredSession,
        messages: Vec<Range<usize>>,
    ) -> Result<BTreeMap<String, Redacted>> {
        let arguments = (tenant.clone(), session.clone(), messages);
        self.read(in_transaction(arguments, |sql, (tenant, session, messages)| {
            Box::pin(read_block_openings(sql, tenant, session, messages))
        }))
        .await
    }
}
