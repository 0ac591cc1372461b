//! The log of messages: finds the session that a history belongs to, and appends the messages that are new.

use std::sync::Arc;

use longhaul_engine::ApiFormat;
use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::redact::{Redacted, SessionKey};

use super::compactions::CompactionId;
use super::envelope::{self, Envelope};
use super::error::{Result, StoreError};
use super::message::{self, MessageEntry, NewMessage};
use super::schema::{MAX_SESSION_MESSAGES, message_id, split_message_id};
use super::session::{self, NewSession, SELECT_SESSION, SessionId, SessionOrigin, SessionStatus, StoredSession};
use super::sql::{Row, Sql};
use super::tenant::{Tenant, lock_id};
use super::{Store, in_transaction};
use longhaul_engine::Timestamp;

/// A request that is ready for the log: the hashes of all its messages, and the messages that the log did not
/// have.
#[derive(Debug, Clone)]
pub struct AppendBatch {
    /// The keyed hash of each message of the request after the system prompt.
    pub hash_chain: Vec<KeyedHash>,
    /// The number of system prompt messages before them.
    pub system_message_count: usize,
    /// The messages from position `known_messages` on.
    pub new_messages: Vec<MessageEntry>,
    /// The number of messages that the log had when the batch was prepared.
    pub known_messages: usize,
    /// The envelope: everything around the messages.
    pub envelope: Envelope,
    /// The session key with which recall IDs and redaction tags were made.
    pub session_key: SessionKey,
    /// The API format of the request.
    pub api_format: ApiFormat,
    /// The model that the request names.
    pub model: Option<Redacted>,
    /// The title for a new session.
    pub title: Option<Redacted>,
    /// The name for a new session.
    pub session_name: String,
    /// The session whose compaction the client continued from, though the two histories share no messages.
    pub continued_session: Option<SessionId>,
    /// The time when the request arrived.
    pub at: Timestamp,
}

/// The outcome of appending a batch.
#[expect(clippy::large_enum_variant, reason = "only one exists at a time")]
#[derive(Debug, Clone)]
pub enum AppendOutcome {
    /// The log has all messages of the batch.
    Done {
        /// The session that the request belongs to.
        session: StoredSession,
        /// The number of messages that were new.
        new_messages: usize,
    },
    /// Another process changed the session meanwhile, so the batch must be prepared again.
    Stale,
}

/// The messages that one transaction writes at most. It then takes some tenths of a second on a slow disk, so
/// that a long history of one client does not make the store look unavailable to another.
const MAX_MESSAGES_PER_TRANSACTION: usize = 1_000;

/// The longest beginning of a history that the log has.
#[derive(Debug, Clone)]
pub(super) struct KnownPrefix {
    /// The session that continues from there.
    pub(super) session: StoredSession,
    /// The number of messages in that beginning.
    pub(super) known_messages: usize,
}

/// A request that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedRequest {
    /// The number within its session, from 1.
    pub number: usize,
    /// The number of its messages, without those of the system prompt.
    pub path_length: usize,
    pub(super) envelope: i64,
    /// The time when it arrived.
    pub at: Timestamp,
}

/// Finds the longest beginning of a history that the log has. If the log has a message, it has all messages
/// before it, so a binary search works. It starts at the end, because the log has nearly all of a history
/// that is sent again.
pub(super) async fn find_known_prefix(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    chain: &[KeyedHash],
) -> Result<Option<KnownPrefix>> {
    let (mut known_messages, mut first_unknown) = (0, chain.len() + 1);
    let (mut stride, mut found) = (1, None);
    while known_messages + 1 < first_unknown {
        let probe = if stride < first_unknown - known_messages {
            first_unknown - stride
        } else {
            known_messages.midpoint(first_unknown)
        };
        // From the end in doubling steps until a message is known, then by halves.
        let probe = if found.is_some() { known_messages.midpoint(first_unknown) } else { probe };
        match find_message_id(sql, tenant, &chain[probe - 1]).await? {
            Some(id) => (known_messages, found) = (probe, Some(id)),
            None => first_unknown = probe,
        }
        stride *= 2;
    }
    let Some(id) = found else { return Ok(None) };
    let (owner, _) = split_message_id(id);
    let Some(mut session) = session::find_session(sql, tenant, SessionId(owner)).await? else {
        return Ok(None);
    };
    while let Some(next) = find_successor(sql, tenant, &session, known_messages).await? {
        session = next;
    }
    Ok(Some(KnownPrefix { session, known_messages }))
}

/// Finds the session that continues one which accepts no more messages. For an archived session that is its
/// restart. For a deleted one that is a session which shares exactly the known messages and has none of its
/// own yet.
async fn find_successor(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    known_messages: usize,
) -> Result<Option<StoredSession>> {
    let condition = match session.status {
        SessionStatus::Archived if known_messages >= session.path_length => "reason = 'restart' AND $3 >= begins",
        SessionStatus::Deleted => "begins = $3 AND length = $3",
        SessionStatus::Archived | SessionStatus::Live => return Ok(None),
    };
    let next = format!(
        "{SELECT_SESSION} WHERE parent = $1 AND tenant = $2 AND state <> 'deleted' AND {condition} \
         ORDER BY CASE reason WHEN 'restart' THEN 0 ELSE 1 END, id DESC LIMIT 1"
    );
    let row = sql.row(&next, &[session.id.0.into(), tenant.id.into(), known_messages.into()]).await?;
    row.map(|row| StoredSession::from_row(&row)).transpose()
}

async fn find_message_id(sql: &mut dyn Sql, tenant: &Tenant, hash: &KeyedHash) -> Result<Option<i64>> {
    let find = "SELECT id FROM messages WHERE identity = $1 AND tenant = $2";
    let row = sql.row(find, &[hash.0.as_slice().into(), tenant.id.into()]).await?;
    row.map(|row| row.int(0)).transpose()
}

/// Writes the new messages among the first `length` messages of a request. The row of the request itself is
/// written with its last message.
async fn append_messages(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    batch: &AppendBatch,
    length: usize,
) -> Result<AppendOutcome> {
    let Some(first) = batch.hash_chain.first() else {
        return Err(StoreError::InvalidInput("a request without messages has no session".to_owned()));
    };
    if batch.hash_chain.len() > MAX_SESSION_MESSAGES {
        return Err(StoreError::InvalidInput(format!("a session can have at most {MAX_SESSION_MESSAGES} messages")));
    }
    // Keeps a deletion from removing the envelope between the check that it exists and the commit.
    if let Some(take_shared_lock) = sql.dialect().shared_lock {
        sql.run(take_shared_lock, &[tenant.deletion_lock_id().into()]).await?;
    }
    if let Some(lock) = sql.dialect().exclusive_lock {
        sql.run(lock, &[lock_id(first).into()]).await?;
    }
    let prefix = find_known_prefix(sql, tenant, &batch.hash_chain[..length]).await?;
    let known_messages = prefix.as_ref().map_or(0, |prefix| prefix.known_messages);
    let has_same_key = prefix.as_ref().is_none_or(|prefix| prefix.session.key == batch.session_key);
    if known_messages < batch.known_messages || !has_same_key {
        return Ok(AppendOutcome::Stale);
    }
    // A process that archives or deletes the session locks its row. Locking it here shows what such a process
    // did meanwhile, and keeps others out until the commit.
    if let Some(prefix) = &prefix {
        let lock_row = format!("{SELECT_SESSION} WHERE id = $1 AND tenant = $2{}", sql.dialect().for_update);
        let row = sql.row(&lock_row, &[prefix.session.id.0.into(), tenant.id.into()]).await?;
        let current = row.map(|row| StoredSession::from_row(&row)).transpose()?;
        let is_same = |current: &StoredSession| {
            (current.status, current.path_length, current.first_own_message)
                == (prefix.session.status, prefix.session.path_length, prefix.session.first_own_message)
        };
        if !current.as_ref().is_some_and(is_same) {
            return Ok(AppendOutcome::Stale);
        }
    }
    let is_complete = length == batch.hash_chain.len();
    let prefix = match prefix {
        // All messages are known: the client repeats a request, or went back in its history.
        Some(KnownPrefix { session, .. }) if known_messages == length && session.status != SessionStatus::Deleted => {
            return Ok(AppendOutcome::Done { session, new_messages: 0 });
        }
        prefix => prefix,
    };
    let Some(envelope) = envelope::insert_envelope(sql, tenant, &batch.envelope).await? else {
        return Ok(AppendOutcome::Stale);
    };
    let session = match prefix {
        Some(prefix) if prefix.session.status == SessionStatus::Deleted => {
            fork_session(sql, tenant, &prefix.session, known_messages, batch).await?
        }
        Some(prefix) if known_messages == prefix.session.path_length => prefix.session,
        Some(prefix) => fork_session(sql, tenant, &prefix.session, known_messages, batch).await?,
        None => start_session(sql, tenant, batch).await?,
    };
    let mut messages = Vec::new();
    for (position, entry) in
        (batch.known_messages..length).zip(&batch.new_messages).filter(|(position, _)| *position >= known_messages)
    {
        // A turn that began in the shared part of the path keeps the ID that it has there.
        let turn_id = if entry.turn_start < session.first_own_message {
            find_message_id(sql, tenant, &batch.hash_chain[entry.turn_start]).await?
        } else {
            None
        };
        let turn_id = turn_id.unwrap_or_else(|| message_id(session.id.0, entry.turn_start));
        messages.push(NewMessage { position, turn_id, hash: &batch.hash_chain[position], entry });
    }
    message::insert_messages(sql, tenant, &session, &messages).await?;
    if is_complete {
        insert_request(sql, tenant, &session, batch, envelope).await?;
    }
    let model = batch.model.as_ref().map(Redacted::as_str);
    let update = "UPDATE sessions SET length = $1, model = $2, updated = $3, lead = $4 WHERE id = $5 AND tenant = $6";
    let system_message_count = batch.system_message_count;
    let values = [
        length.into(),
        model.into(),
        batch.at.0.into(),
        system_message_count.into(),
        session.id.0.into(),
        tenant.id.into(),
    ];
    sql.run(update, &values).await?;
    let (model, updated) = (model.map(str::to_owned), batch.at);
    Ok(AppendOutcome::Done {
        session: StoredSession { model, path_length: length, system_message_count, updated, ..session },
        new_messages: length - known_messages,
    })
}

/// Inserts the row of a request, with its envelope.
async fn insert_request(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &StoredSession,
    batch: &AppendBatch,
    envelope: i64,
) -> Result<()> {
    let count = "SELECT coalesce(max(number), 0) FROM requests WHERE session = $1 AND tenant = $2";
    let row = sql.row(count, &[session.id.0.into(), tenant.id.into()]).await?;
    let request = row.map_or(Ok(0), |row| row.int(0))? + 1;
    let insert = "INSERT INTO requests (session, number, tenant, length, envelope, at) VALUES ($1, $2, $3, $4, $5, $6)";
    let values = [
        session.id.0.into(),
        request.into(),
        tenant.id.into(),
        batch.hash_chain.len().into(),
        envelope.into(),
        batch.at.0.into(),
    ];
    sql.run(insert, &values).await.map(drop)
}

/// Starts a session that shares no messages with another.
async fn start_session(sql: &mut dyn Sql, tenant: &Tenant, batch: &AppendBatch) -> Result<StoredSession> {
    let continued = match batch.continued_session {
        Some(parent) => session::find_session(sql, tenant, parent).await?,
        None => None,
    };
    let origin = if continued.is_some() { SessionOrigin::Continued } else { SessionOrigin::New };
    let new = NewSession { origin, ..new_session(batch, continued.as_ref()) };
    session::insert_session(sql, tenant, &new).await
}

/// Starts a session that shares the first messages of another. It inherits the newest compaction that covers
/// only shared messages.
async fn fork_session(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    parent: &StoredSession,
    shared_message_count: usize,
    batch: &AppendBatch,
) -> Result<StoredSession> {
    let mut head = parent.head;
    while let Some(CompactionId(compaction)) = head {
        let find = "SELECT parent, reach FROM epochs WHERE id = $1 AND tenant = $2";
        let Some(row) = sql.row(find, &[compaction.into(), tenant.id.into()]).await? else { break };
        if row.count(1)? <= shared_message_count {
            break;
        }
        head = row.maybe_int(0)?.map(CompactionId);
    }
    let origin = if batch.continued_session.is_some() { SessionOrigin::Continued } else { SessionOrigin::Fork };
    let head = head.filter(|_| origin == SessionOrigin::Fork);
    let new = NewSession { first_own_message: shared_message_count, origin, head, ..new_session(batch, Some(parent)) };
    session::insert_session(sql, tenant, &new).await
}

/// Returns the session that a batch starts, which shares no messages with its parent.
fn new_session<'b>(batch: &'b AppendBatch, parent: Option<&'b StoredSession>) -> NewSession<'b> {
    // A batch that was meant to continue a session has no title; if it forks the session instead, it takes
    // the parent's.
    let title = batch.title.as_ref().map(|title| title.as_str().to_owned());
    NewSession {
        parent,
        first_own_message: 0,
        origin: SessionOrigin::New,
        head: None,
        name: &batch.session_name,
        key: &batch.session_key,
        api_format: batch.api_format,
        title: title.or_else(|| parent.and_then(|parent| parent.title.clone())),
        model: batch.model.as_ref().map(|model| model.as_str().to_owned()),
        created: batch.at,
    }
}

pub(super) fn request_from_row(row: &Row) -> Result<LoggedRequest> {
    Ok(LoggedRequest {
        number: row.count(0)?,
        path_length: row.count(1)?,
        envelope: row.int(2)?,
        at: Timestamp(row.int(3)?),
    })
}

async fn find_gaps(sql: &mut dyn Sql) -> Result<Vec<String>> {
    let mut gaps = Vec::new();
    let all = "SELECT s.name, s.begins, s.length, s.id, s.state FROM sessions s ORDER BY s.id";
    for row in sql.rows(all, &[]).await? {
        let (name, first_own, length, id) = (row.text(0)?, row.count(1)?, row.count(2)?, row.int(3)?);
        let (first, last) = (message_id(id, 0), message_id(id, MAX_SESSION_MESSAGES));
        let count =
            "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM messages WHERE id BETWEEN $1 AND $2";
        let Some(counted) = sql.row(count, &[first.into(), last.into()]).await? else { continue };
        let own_count = length - first_own;
        let is_complete = counted.count(0)? == own_count
            && (own_count == 0
                || (counted.int(1)? == message_id(id, first_own) && counted.int(2)? == message_id(id, length - 1)));
        if !is_complete && row.text(4)? != SessionStatus::Deleted.name() {
            gaps.push(format!("session {name} has {} messages of its own instead of {own_count}", counted.count(0)?));
        }
    }
    let heads = "SELECT s.name FROM sessions s WHERE s.head IS NOT NULL AND NOT EXISTS (SELECT 1 FROM epochs e WHERE e.id = s.head)";
    for row in sql.rows(heads, &[]).await? {
        gaps.push(format!("the active compaction of session {} is missing", row.text(0)?));
    }
    let dangling = "SELECT count(*) FROM blocks b WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = b.message)";
    if let Some(row) = sql.row(dangling, &[]).await?.filter(|row| row.int(0) != Ok(0)) {
        gaps.push(format!("{} recall IDs point to missing messages", row.int(0)?));
    }
    Ok(gaps)
}

async fn list_requests(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    SessionId(session): SessionId,
) -> Result<Vec<LoggedRequest>> {
    let list = "SELECT number, length, envelope, at FROM requests WHERE session = $1 AND tenant = $2 ORDER BY number";
    let rows = sql.rows(list, &[session.into(), tenant.id.into()]).await?;
    rows.iter().map(request_from_row).collect()
}

impl Store {
    /// Writes the new messages of a request. A long history takes several transactions, so that other writers
    /// get their turn between them.
    pub async fn append(&self, tenant: &Tenant, batch: AppendBatch) -> Result<AppendOutcome> {
        let total = batch.hash_chain.len();
        let batch = Arc::new(batch);
        let (mut length, mut added) = (batch.known_messages, 0);
        loop {
            length = total.min(length + MAX_MESSAGES_PER_TRANSACTION);
            let arguments = (tenant.clone(), Arc::clone(&batch), length);
            let part = in_transaction(arguments, |sql, (tenant, batch, length)| {
                Box::pin(append_messages(sql, tenant, batch, *length))
            });
            match self.write(part).await? {
                AppendOutcome::Done { session, new_messages: new } if length == total => {
                    return Ok(AppendOutcome::Done { session, new_messages: added + new });
                }
                AppendOutcome::Done { new_messages: new, .. } => added += new,
                AppendOutcome::Stale => return Ok(AppendOutcome::Stale),
            }
        }
    }

    /// Finds the session that a history continues, and the number of its messages that the log has.
    pub(super) async fn find_known_prefix(&self, tenant: &Tenant, chain: &[KeyedHash]) -> Result<Option<KnownPrefix>> {
        let arguments = (tenant.clone(), chain.to_owned());
        self.read(in_transaction(arguments, |sql, (tenant, chain)| Box::pin(find_known_prefix(sql, tenant, chain))))
            .await
    }

    /// Finds the same as [`find_known_prefix`](Self::find_known_prefix), and whether the store has the
    /// envelope.
    pub(super) async fn find_known_prefix_and_envelope(
        &self,
        tenant: &Tenant,
        chain: &[KeyedHash],
        envelope: &Envelope,
    ) -> Result<(Option<KnownPrefix>, bool)> {
        let arguments = (tenant.clone(), chain.to_owned(), envelope.hash);
        let find_both = in_transaction(arguments, |sql, (tenant, chain, envelope)| {
            Box::pin(async move {
                let is_known = envelope::find_envelope(sql, tenant, envelope).await?.is_some();
                Ok((find_known_prefix(sql, tenant, chain).await?, is_known))
            })
        });
        self.read(find_both).await
    }

    /// Counts the messages of a history that the log has.
    pub async fn known_message_count(&self, tenant: &Tenant, chain: &[KeyedHash]) -> Result<usize> {
        Ok(self.find_known_prefix(tenant, chain).await?.map_or(0, |prefix| prefix.known_messages))
    }

    /// Lists the requests of a session that added messages, oldest first.
    pub async fn requests(&self, tenant: &Tenant, session: &StoredSession) -> Result<Vec<LoggedRequest>> {
        self.read(in_transaction((tenant.clone(), session.id), |sql, (tenant, id)| {
            Box::pin(list_requests(sql, tenant, *id))
        }))
        .await
    }

    /// Checks that no session lacks messages, compactions or recall targets, and returns one line for each
    /// gap.
    pub(super) async fn find_log_gaps(&self) -> Result<Vec<String>> {
        self.read(in_transaction((), |sql, ()| Box::pin(find_gaps(sql)))).await
    }
}
