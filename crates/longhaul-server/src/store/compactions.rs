//! The compactions of a session.
//!
//! ```text
//! (none) ◀── compaction 1 ◀── compaction 2 ◀── compaction 3     undo moves the head one to the left,
//!                                  ▲ head                       redo to the newest one made from the head
//! ```
//!
//! A commit is one transaction: it writes the compaction, and moves the head to it if the head still is where
//! the compaction began. Otherwise the caller gets [`CommitOutcome::Conflict`] and nothing is stored.
//!
//! The tables and columns in SQL call a compaction `epoch`.

use std::ops::RangeInclusive;

use longhaul_engine::ledger::Ledger;
use longhaul_engine::redact::Redacted;
use serde_json::Value as Json;

use super::error::{Result, StoreError};
use super::session::{self, NewSession, SessionId, SessionOrigin, StoredSession};
use super::sql::{Row, Sql, Value};
use super::tenant::Tenant;
use super::{Store, in_transaction};
use longhaul_engine::Timestamp;

/// The row ID of a compaction in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompactionId(pub(super) i64);

/// One stored compaction: recorded decisions that turn a history into a shorter one.
#[derive(Debug, Clone)]
pub struct Compaction {
    /// The row ID.
    pub id: CompactionId,
    /// The compaction that was active before it.
    pub parent: Option<CompactionId>,
    /// The number within its session, from 1. People and `--json` use this number.
    pub number: usize,
    /// The number of messages on the session's path when it was made.
    pub path_length: usize,
    /// The recorded decisions, which are replayed on every later request.
    pub ledger: Ledger,
    /// The compaction's report, as the JSON of [`longhaul_engine::plan::CompactionReport`].
    pub report: Json,
    /// The time when it was made.
    pub at: Timestamp,
    /// The positions of the messages that it left unchanged.
    pub(super) unchanged_ranges: Vec<RangeInclusive<usize>>,
}

impl Compaction {
    /// Returns whether the model sees a message as the client sent it: the compaction left it unchanged, or
    /// the message is newer.
    pub(super) fn shows_unchanged(&self, position: usize) -> bool {
        position >= self.path_length || self.unchanged_ranges.iter().any(|range| range.contains(&position))
    }
}

/// A compaction that is ready to be stored.
#[derive(Debug, Clone)]
pub struct NewCompaction {
    /// The head of the session when the compaction began.
    pub base: Option<CompactionId>,
    /// The number of messages on the session's path.
    pub path_length: usize,
    /// The recorded decisions as JSON, without secrets.
    pub ledger: Redacted,
    /// The report as JSON, without secrets.
    pub report: Redacted,
    /// The number of messages, from the start of the path, that the decisions cover.
    pub(super) covered_messages: usize,
    /// For each message of the path, whether the compaction left it unchanged.
    pub(super) unchanged: Vec<bool>,
    /// The keyed hash of the checkpoint that it wrote, by which a later request is recognized.
    pub(super) checkpoint_hash: Option<[u8; 32]>,
    /// The removed texts that Longhaul itself wrote, such as earlier checkpoints: recall ID, kind and text of
    /// each. The log has only the client's messages.
    pub(super) originals: Vec<(String, &'static str, Redacted)>,
    /// The name of the new session, if the compaction archives the old session and starts a new one.
    pub(super) restart_name: Option<String>,
    /// The time when it was made.
    pub at: Timestamp,
}

/// The outcome of a commit.
#[expect(clippy::large_enum_variant, reason = "only one exists at a time")]
#[derive(Debug, Clone)]
pub enum CommitOutcome {
    /// The compaction is stored and active.
    Done {
        /// The session that it belongs to: a new one, if the old one was archived.
        session: StoredSession,
        /// The compaction's number within the session.
        number: usize,
    },
    /// Another process moved the head meanwhile, or the session is no longer live. Nothing was stored.
    Conflict,
    /// The session has more messages than the compacted request, so no later request would use the
    /// compaction. Nothing was stored.
    Outdated,
}

/// The outcome of an undo or redo.
#[expect(clippy::large_enum_variant, reason = "only one exists at a time")]
#[derive(Debug, Clone)]
pub enum HeadMove {
    /// The head moved to this compaction; `None` is the history as the client sent it.
    To(Option<Compaction>),
    /// There is no compaction to undo or redo, so the head did not move.
    NoTarget,
}

const SELECT_COMPACTION: &str = "SELECT id, parent, number, length, ledger, report, at, kept FROM epochs";

/// Formats the positions of unchanged messages for the column `kept`: `0-3 17 40-52`.
fn format_ranges(unchanged: &[bool]) -> String {
    let unchanged: Vec<usize> =
        unchanged.iter().enumerate().filter(|(_, is_unchanged)| **is_unchanged).map(|(position, _)| position).collect();
    let runs = unchanged.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// Parses the ranges that [`format_ranges`] wrote.
fn parse_ranges(places: &str) -> Vec<RangeInclusive<usize>> {
    let range = |run: &str| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    places.split(' ').filter_map(range).collect()
}

impl Compaction {
    fn from_row(row: &Row) -> Result<Self> {
        let damaged = |what: &str, error: serde_json::Error| {
            StoreError::Damaged(format!("cannot read the {what} of a compaction: {error}"))
        };
        Ok(Self {
            id: CompactionId(row.int(0)?),
            parent: row.maybe_int(1)?.map(CompactionId),
            number: row.count(2)?,
            path_length: row.count(3)?,
            ledger: serde_json::from_str(&row.text(4)?).map_err(|error| damaged("ledger", error))?,
            report: serde_json::from_str(&row.text(5)?).map_err(|error| damaged("report", error))?,
            at: Timestamp(row.int(6)?),
            unchanged_ranges: parse_ranges(&row.text(7)?),
        })
    }
}

pub(super) async fn find_compaction(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    id: CompactionId,
) -> Result<Option<Compaction>> {
    let find = format!("{SELECT_COMPACTION} WHERE id = $1 AND tenant = $2");
    sql.row(&find, &[id.0.into(), tenant.id.into()]).await?.map(|row| Compaction::from_row(&row)).transpose()
}

/// Lists the compactions of a session, and those of its ancestors to which an undo could return; oldest
/// first.
pub(super) async fn list_compactions(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
) -> Result<Vec<Compaction>> {
    let select = format!("{SELECT_COMPACTION} WHERE session = $1 AND tenant = $2 ORDER BY id DESC");
    let rows = sql.rows(&select, &[session.id.0.into(), tenant.id.into()]).await?;
    let mut compactions = rows.iter().map(Compaction::from_row).collect::<Result<Vec<_>>>()?;
    let oldest = compactions.last().map_or(session.head, |compaction| compaction.parent);
    let mut at = oldest;
    while let Some(id) = at {
        let Some(compaction) = self::find_compaction(sql, tenant, id).await? else { break };
        at = compaction.parent;
        compactions.push(compaction);
    }
    compactions.sort_by_key(|compaction| compaction.id);
    Ok(compactions)
}

async fn insert_compaction(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    id: SessionId,
    commit: &NewCompaction,
) -> Result<CommitOutcome> {
    let session = session::lock_session(sql, tenant, id).await?;
    if session.head != commit.base || session.status != session::SessionStatus::Live {
        return Ok(CommitOutcome::Conflict);
    }
    if commit.path_length > session.path_length {
        return Err(StoreError::InvalidInput("the compaction covers messages that are not in the log".to_owned()));
    }
    let session = match &commit.restart_name {
        None => session,
        Some(name) => {
            let archive = "UPDATE sessions SET state = 'archived' WHERE id = $1 AND tenant = $2";
            sql.run(archive, &[session.id.0.into(), tenant.id.into()]).await?;
            let new = NewSession {
                parent: Some(&session),
                first_own_message: session.path_length,
                origin: SessionOrigin::Restart,
                head: session.head,
                name,
                key: &session.key,
                api_format: session.api_format,
                title: session.title.clone(),
                model: session.model.clone(),
                created: commit.at,
            };
            session::insert_session(sql, tenant, &new).await?
        }
    };
    let last = match commit.base {
        Some(base) => find_compaction(sql, tenant, base).await?.map_or(0, |base| base.number),
        None => 0,
    };
    let newest = "SELECT coalesce(max(number), 0) FROM epochs WHERE session = $1 AND tenant = $2";
    let row = sql.row(newest, &[session.id.0.into(), tenant.id.into()]).await?;
    let number = last.max(row.map_or(Ok(0), |row| row.count(0))?) + 1;
    let insert = "INSERT INTO epochs (tenant, session, parent, number, length, reach, mark, kept, ledger, report, at) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id";
    let values = [
        tenant.id.into(),
        session.id.0.into(),
        commit.base.map(|CompactionId(base)| base).into(),
        number.into(),
        commit.path_length.into(),
        commit.covered_messages.into(),
        commit.checkpoint_hash.as_ref().map(<[u8; 32]>::as_slice).into(),
        format_ranges(&commit.unchanged).into(),
        commit.ledger.as_str().into(),
        commit.report.as_str().into(),
        commit.at.0.into(),
    ];
    let row = sql.row(insert, &values).await?;
    let id = row.ok_or_else(|| StoreError::Failed("internal error: a compaction was not stored".to_owned()))?.int(0)?;
    let insert_original = "INSERT INTO remains (family, handle, session, what, text) VALUES ($1, $2, $3, $4, $5) \
                ON CONFLICT (family, handle) DO NOTHING";
    let row = |(recall_id, what, text): &(String, &'static str, Redacted)| -> Vec<Value> {
        let (family, session) = (session.family, session.id.0);
        vec![family.into(), recall_id.as_str().into(), session.into(), (*what).into(), text.as_str().into()]
    };
    let rows: Vec<Vec<Value>> = commit.originals.iter().map(row).collect();
    sql.run_each(insert_original, &rows).await?;
    let head = "UPDATE sessions SET head = $1, held = 0, updated = $2 WHERE id = $3 AND tenant = $4";
    sql.run(head, &[id.into(), commit.at.0.into(), session.id.0.into(), tenant.id.into()]).await?;
    let session = StoredSession { head: Some(CompactionId(id)), is_undone: false, updated: commit.at, ..session };
    Ok(CommitOutcome::Done { session, number })
}

/// The direction in which the head moves.
#[derive(Debug, Clone, Copy)]
enum MoveDirection {
    Undo,
    Redo,
}

async fn move_head(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId, direction: MoveDirection) -> Result<HeadMove> {
    let session = session::lock_session(sql, tenant, id).await?;
    let to = match (direction, session.head) {
        (MoveDirection::Undo, None) => return Ok(HeadMove::NoTarget),
        (MoveDirection::Undo, Some(head)) => {
            match find_compaction(sql, tenant, head).await?.and_then(|compaction| compaction.parent) {
                Some(parent) => find_compaction(sql, tenant, parent).await?,
                None => None,
            }
        }
        (MoveDirection::Redo, head) => match find_redo_target(sql, tenant, &session, head).await? {
            Some(next) => Some(next),
            None => return Ok(HeadMove::NoTarget),
        },
    };
    let head = to.as_ref().map(|compaction| compaction.id.0);
    let is_undo = matches!(direction, MoveDirection::Undo);
    let update = "UPDATE sessions SET head = $1, held = $2 WHERE id = $3 AND tenant = $4";
    sql.run(update, &[head.into(), is_undo.into(), id.0.into(), tenant.id.into()]).await?;
    Ok(HeadMove::To(to))
}

/// Undoes a compaction if it is the active one.
async fn undo_if_active(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId, expected: CompactionId) -> Result<HeadMove> {
    if session::lock_session(sql, tenant, id).await?.head != Some(expected) {
        return Ok(HeadMove::NoTarget);
    }
    move_head(sql, tenant, id, MoveDirection::Undo).await
}

/// Finds the newest compaction that was made from `from`, or from the original history if `from` is `None`.
/// It looks in the session itself, then in its ancestors, where the compaction must cover only messages that
/// the session shares.
async fn find_redo_target(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    from: Option<CompactionId>,
) -> Result<Option<Compaction>> {
    let (mut at, mut length) = (Some(session.clone()), session.path_length);
    while let Some(session) = at {
        let select = format!(
            "{SELECT_COMPACTION} WHERE session = $1 AND tenant = $2 AND reach <= $3 AND coalesce(parent, 0) = $4 ORDER BY id DESC LIMIT 1"
        );
        let from = from.map_or(0, |CompactionId(from)| from);
        let values = [session.id.0.into(), tenant.id.into(), length.into(), from.into()];
        if let Some(row) = sql.row(&select, &values).await? {
            return Compaction::from_row(&row).map(Some);
        }
        length = length.min(session.first_own_message);
        at = match session.parent.filter(|_| length > 0) {
            Some(parent) => session::find_session(sql, tenant, parent).await?,
            None => None,
        };
    }
    Ok(None)
}

impl Store {
    /// Stores a compaction and makes it the active one, if the head is where the compaction began.
    pub async fn insert_compaction(
        &self,
        tenant: &Tenant,
        session: SessionId,
        new: NewCompaction,
    ) -> Result<CommitOutcome> {
        let arguments = (tenant.clone(), new, session);
        self.write(in_transaction(arguments, |sql, (tenant, new, session)| {
            Box::pin(insert_compaction(sql, tenant, *session, new))
        }))
        .await
    }

    /// Reads one compaction.
    pub async fn compaction(&self, tenant: &Tenant, id: CompactionId) -> Result<Option<Compaction>> {
        self.read(in_transaction((tenant.clone(), id), |sql, (tenant, id)| Box::pin(find_compaction(sql, tenant, *id))))
            .await
    }

    /// Lists the compactions of a session, and those of its ancestors to which an undo could return; oldest first.
    pub async fn compactions(&self, tenant: &Tenant, session: &StoredSession) -> Result<Vec<Compaction>> {
        let arguments = (tenant.clone(), session.clone());
        self.read(in_transaction(arguments, |sql, (tenant, session)| Box::pin(list_compactions(sql, tenant, session))))
            .await
    }

    /// Undoes the active compaction: the one before it becomes active.
    pub async fn undo(&self, tenant: &Tenant, session: SessionId) -> Result<HeadMove> {
        self.move_head(tenant, session, MoveDirection::Undo).await
    }

    /// Undoes a compaction that a provider refused, unless the head has moved since.
    pub async fn undo_if_active(
        &self,
        tenant: &Tenant,
        session: SessionId,
        expected: CompactionId,
    ) -> Result<HeadMove> {
        let arguments = (tenant.clone(), session, expected);
        self.write(in_transaction(arguments, |sql, (tenant, session, expected)| {
            Box::pin(undo_if_active(sql, tenant, *session, *expected))
        }))
        .await
    }

    /// Redoes a compaction: the newest one that was made from the active one becomes active.
    pub async fn redo(&self, tenant: &Tenant, session: SessionId) -> Result<HeadMove> {
        self.move_head(tenant, session, MoveDirection::Redo).await
    }

    async fn move_head(&self, tenant: &Tenant, session: SessionId, direction: MoveDirection) -> Result<HeadMove> {
        let arguments = (tenant.clone(), session, direction);
        self.write(in_transaction(arguments, |sql, (tenant, session, direction)| {
            Box::pin(move_head(sql, tenant, *session, *direction))
        }))
        .await
    }
}
