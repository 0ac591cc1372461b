//! Builds request bodies from a stored session: as the client sent it, as a compaction shows it, or as
//! training examples.

use longhaul_engine::ledger::{Ledger, OwnBlock};
use longhaul_engine::transcript::TurnKind;
use longhaul_engine::{ApiFormat, Rewrite, Transcript, cache, wire};
use serde::Serialize;
use serde_json::value::RawValue;

use super::compactions::{self, Compaction};
use super::envelope;
use super::error::{Result, StoreError};
use super::message;
use super::message_log::{self, LoggedRequest};
use super::session::{self, StoredSession};
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, in_transaction};

/// A point in the history of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryPoint {
    /// The whole history with the active compaction: the next request that would be sent.
    Now,
    /// The whole history as the client sent it.
    Original,
    /// The history right after a compaction, by the compaction's number.
    Compaction(usize),
    /// A request, by its number, with the newest compaction that is still active and was made by then.
    Request(usize),
}

/// A training example: the history that a model saw between two compactions.
#[derive(Debug, Serialize)]
pub struct TrainingExample {
    /// The name of the session.
    pub session: String,
    /// The number of the compaction that applied, or `None` before the first one.
    #[serde(rename = "epoch")]
    pub compaction: Option<usize>,
    /// The API format of the messages.
    pub dialect: ApiFormat,
    /// The messages, as the model saw them.
    pub messages: Vec<Box<RawValue>>,
    /// The positions of the blocks that Longhaul wrote.
    #[serde(rename = "ours", skip_serializing_if = "Vec::is_empty")]
    pub own_blocks: Vec<OwnBlockPosition>,
}

/// The position of a block that Longhaul wrote.
#[derive(Debug, Serialize)]
pub struct OwnBlockPosition {
    /// The index of its message.
    pub message: usize,
    /// The index of the block within that message.
    pub block: usize,
    /// The kind of block.
    pub kind: OwnBlock,
}

/// Builds the request body of a session's first `length` messages, with the envelope of the newest request
/// that was no longer.
pub(super) async fn original_body(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    length: usize,
) -> Result<String> {
    let stored = message::read_messages(sql, tenant, session, 0..length).await?;
    let texts: Vec<&str> = stored.iter().map(|message| message.text.as_str()).collect();
    let request = find_request(sql, tenant, session, length).await?;
    envelope::fill_envelope(sql, tenant, request.envelope, &texts).await
}

/// Finds the newest request with at most `length` messages, or else the first longer one, in the session or
/// in an ancestor.
async fn find_request(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    length: usize,
) -> Result<LoggedRequest> {
    let mut at = Some(session.clone());
    while let Some(session) = at {
        for (test, order) in [("length <= $3", "DESC"), ("length > $3", "ASC")] {
            let find = format!(
                "SELECT number, length, envelope, at FROM requests WHERE session = $1 AND tenant = $2 AND {test} \
                 ORDER BY number {order} LIMIT 1"
            );
            let values = [session.id.0.into(), tenant.id.into(), length.into()];
            if let Some(row) = sql.row(&find, &values).await? {
                return message_log::request_from_row(&row);
            }
        }
        at = match session.parent {
            Some(parent) => session::find_session(sql, tenant, parent).await?,
            None => None,
        };
    }
    Err(StoreError::Damaged(format!("session {} has no request", session.name)))
}

/// Applies a ledger to a request body. Without a ledger, it only removes the cache breakpoints that exceed
/// the provider's limit: a history has those of all its requests.
pub(super) fn apply_ledger(api_format: ApiFormat, body: &str, ledger: Option<&Ledger>) -> Result<String> {
    let damaged = |what: &dyn std::fmt::Display| StoreError::Damaged(format!("cannot rebuild the session: {what}"));
    let (transcript, _) = wire::parse(api_format, body).map_err(|error| damaged(&error))?;
    let edits = match ledger {
        Some(ledger) if ledger.covers() > transcript.turns.len() => {
            return Err(damaged(&"the compaction covers more turns than the session has"));
        }
        Some(ledger) => ledger.edits(&transcript),
        None => cache::surplus_breakpoints(&wire::prompt_order(&transcript))
            .iter()
            .map(cache::remove_breakpoint_edit)
            .collect(),
    };
    let rewrite = Rewrite::new(&transcript, edits).map_err(|error| damaged(&error))?;
    Ok(rewrite.apply(body))
}

/// Fails if the tenant has no such session.
async fn require_session(sql: &mut dyn Sql, tenant: &Tenant, session: &StoredSession) -> Result<()> {
    let unknown = || StoreError::NotFound(format!("the store has no session {}", session.name));
    session::find_session(sql, tenant, session.id).await?.map(drop).ok_or_else(unknown)
}

async fn read_body(sql: &mut dyn Sql, tenant: &Tenant, session: &StoredSession, point: HistoryPoint) -> Result<String> {
    require_session(sql, tenant, session).await?;
    let name = &session.name;
    let (length, compaction): (usize, Option<Compaction>) = match point {
        HistoryPoint::Original => (session.path_length, None),
        HistoryPoint::Now => match session.head {
            Some(head) => (session.path_length, compactions::find_compaction(sql, tenant, head).await?),
            None => (session.path_length, None),
        },
        HistoryPoint::Compaction(number) => {
            let compactions = compactions::list_compactions(sql, tenant, session).await?;
            let last = compactions.iter().map(|compaction| compaction.number).max().unwrap_or(0);
            let found = compactions.into_iter().rev().find(|compaction| compaction.number == number);
            let compaction = found.ok_or_else(|| {
                StoreError::NotFound(format!("session {name} has no compaction {number}; the last one is {last}"))
            })?;
            (compaction.path_length, Some(compaction))
        }
        HistoryPoint::Request(number) => {
            let find =
                "SELECT number, length, envelope, at FROM requests WHERE session = $1 AND tenant = $2 AND number = $3";
            let row = sql.row(find, &[session.id.0.into(), tenant.id.into(), number.into()]).await?;
            let row = row.ok_or_else(|| StoreError::NotFound(format!("session {name} has no request {number}")))?;
            let request = message_log::request_from_row(&row)?;
            // A compaction that was undone since is not shown for earlier requests either.
            let compactions = active_compactions(sql, tenant, session).await?;
            (
                request.path_length,
                compactions.into_iter().rev().find(|compaction| compaction.path_length <= request.path_length),
            )
        }
    };
    let body = original_body(sql, tenant, session, length).await?;
    apply_ledger(session.api_format, &body, compaction.as_ref().map(|compaction| &compaction.ledger))
}

/// Builds one example for each part of the history between two compactions, as the model saw it at the end of
/// that part.
async fn examples_as_shown(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
) -> Result<Vec<TrainingExample>> {
    let mut views = vec![None];
    let compactions = active_compactions(sql, tenant, session).await?;
    views.extend(compactions.into_iter().map(Some));
    let mut examples = Vec::with_capacity(views.len());
    for (at, compaction) in views.iter().enumerate() {
        let end = views.get(at + 1).and_then(Option::as_ref).map_or(session.path_length, |next| next.path_length);
        let body = original_body(sql, tenant, session, end).await?;
        let ledger = compaction.as_ref().map(|compaction| &compaction.ledger);
        let view = apply_ledger(session.api_format, &body, ledger)?;
        let parse = |body| wire::parse(session.api_format, body).map(|(transcript, _)| transcript);
        let damaged = |_| StoreError::Damaged("the compacted session is not valid JSON".to_owned());
        let (before, after) = (parse(&body).map_err(damaged)?, parse(&view).map_err(damaged)?);
        let own_blocks = ledger.map_or_else(Vec::new, |ledger| own_block_positions(ledger, &after, &before));
        let own_blocks = if ledger.is_some() { own_blocks } else { client_checkpoints(&after) };
        let number = compaction.as_ref().map(|compaction| compaction.number);
        examples.push(build_example(session, number, &after, own_blocks, &[])?);
    }
    Ok(examples)
}

/// Builds one example of the whole original history, without any text that Longhaul wrote.
async fn original_example(sql: &mut dyn Sql, tenant: &Tenant, session: &StoredSession) -> Result<Vec<TrainingExample>> {
    let body = original_body(sql, tenant, session, session.path_length).await?;
    let body = apply_ledger(session.api_format, &body, None)?;
    let parsed = wire::parse(session.api_format, &body);
    let (transcript, _) = parsed.map_err(|error| StoreError::Damaged(error.to_string()))?;
    let skipped_messages: Vec<usize> = client_checkpoints(&transcript).iter().map(|trace| trace.message).collect();
    Ok(vec![build_example(session, None, &transcript, Vec::new(), &skipped_messages)?])
}

/// Returns the compactions from the first to the active one.
pub(super) async fn active_compactions(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
) -> Result<Vec<Compaction>> {
    let (mut chain, mut at) = (Vec::new(), session.head);
    while let Some(id) = at {
        let Some(compaction) = compactions::find_compaction(sql, tenant, id).await? else { break };
        at = compaction.parent;
        chain.push(compaction);
    }
    chain.reverse();
    Ok(chain)
}

fn own_block_positions(ledger: &Ledger, view: &Transcript<'_>, original: &Transcript<'_>) -> Vec<OwnBlockPosition> {
    let Some(own_blocks) = ledger.own_blocks(view, original) else { return Vec::new() };
    let mut traces = Vec::new();
    for (message, parts) in view.blocks_by_message(0..view.message_count()).iter().enumerate() {
        for (block, part) in parts.iter().enumerate() {
            traces.extend(own_blocks.get(&part.position).map(|kind| OwnBlockPosition { message, block, kind: *kind }));
        }
    }
    traces
}

/// Finds checkpoints that the client itself sent, because it continued from a compacted request.
fn client_checkpoints(transcript: &Transcript<'_>) -> Vec<OwnBlockPosition> {
    let mut traces = Vec::new();
    for (message, parts) in transcript.blocks_by_message(0..transcript.message_count()).iter().enumerate() {
        for (block, part) in parts.iter().enumerate() {
            if matches!(transcript.turns[part.position.unit].kind, TurnKind::Checkpoint(_)) {
                traces.push(OwnBlockPosition { message, block, kind: OwnBlock::Checkpoint });
            }
        }
    }
    traces
}

fn build_example(
    session: &StoredSession,
    compaction: Option<usize>,
    transcript: &Transcript<'_>,
    own_blocks: Vec<OwnBlockPosition>,
    skipped_messages: &[usize],
) -> Result<TrainingExample> {
    let included = (0..transcript.message_count()).filter(|index| !skipped_messages.contains(index));
    let messages = included.filter_map(|index| transcript.message_json(index));
    let messages = messages
        // An example is one line. In JSON, line breaks occur only between values, so they can become spaces.
        .map(|message| RawValue::from_string(message.replace(['\n', '\r'], " ")))
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| StoreError::Damaged(format!("a message is not valid JSON: {error}")))?;
    Ok(TrainingExample { session: session.name.clone(), compaction, dialect: session.api_format, messages, own_blocks })
}

/// The content of training examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExampleContent {
    /// The history as the model saw it, with the positions of the blocks that Longhaul wrote.
    AsShown,
    /// The original history, without any text that Longhaul wrote.
    Original,
}

async fn read_examples(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    content: ExampleContent,
) -> Result<Vec<TrainingExample>> {
    require_session(sql, tenant, session).await?;
    match content {
        ExampleContent::AsShown => examples_as_shown(sql, tenant, session).await,
        ExampleContent::Original => original_example(sql, tenant, session).await,
    }
}

impl Store {
    /// Builds the request body of a session at a point of its history.
    pub async fn body_at(&self, tenant: &Tenant, session: &StoredSession, point: HistoryPoint) -> Result<String> {
        let arguments = (tenant.clone(), session.clone(), point);
        self.read(in_transaction(arguments, |sql, (tenant, session, point)| {
            Box::pin(read_body(sql, tenant, session, *point))
        }))
        .await
    }

    /// Builds training examples from a session.
    pub async fn examples(
        &self,
        tenant: &Tenant,
        session: &StoredSession,
        content: ExampleContent,
    ) -> Result<Vec<TrainingExample>> {
        let arguments = (tenant.clone(), session.clone(), content);
        self.read(in_transaction(arguments, |sql, (tenant, session, content)| {
            Box::pin(read_examples(sql, tenant, session, *content))
        }))
        .await
    }
}
