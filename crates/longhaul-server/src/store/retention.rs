//! Deletion: of single sessions, of old ones, and of the oldest ones when the store is too large.
//!
//! Messages that another session shares stay until that session is deleted too. All others are deleted from
//! every table and index, and [`Store::vacuum`] erases them from the free pages of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::envelope;
use super::error::Result;
use super::message::{self, BlockRow};
use super::schema::{MAX_SESSION_MESSAGES, message_id};
use super::session::{self, SessionId, SessionStatus, StoredSession};
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, in_transaction};
use longhaul_engine::Timestamp;

/// The rounds of deleting and measuring after which a sweep stops, even if the store is still too large.
/// Chosen by hand: the size to free is an estimate, so one round may not be enough.
const MAX_SWEEP_ROUNDS: usize = 8;

/// The limits on the age and the size of what the store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionLimits {
    /// Sessions that were last written before this time are deleted.
    pub updated_before: Option<Timestamp>,
    /// The size of the store in bytes above which the oldest sessions are deleted.
    pub max_bytes: Option<u64>,
}

/// The result of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// The names of the deleted sessions.
    pub deleted_sessions: Vec<String>,
    /// The size of the store in bytes before the sweep.
    pub bytes_before: u64,
    /// The size of the store in bytes after the sweep.
    pub bytes_after: u64,
}

async fn delete_session(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId) -> Result<()> {
    if let Some(lock) = sql.dialect().exclusive_lock {
        sql.run(lock, &[tenant.deletion_lock_id().into()]).await?;
    }
    let mut at = Some(session::lock_session(sql, tenant, id).await?);
    while let Some(session) = at {
        delete_unshared(sql, tenant, &session).await?;
        // A deleted parent was kept only for the messages that this session shares: now more of it can be
        // deleted.
        at = match session.parent {
            Some(parent) => session::find_session(sql, tenant, parent)
                .await?
                .filter(|parent| parent.status == SessionStatus::Deleted),
            None => None,
        };
    }
    envelope::delete_unused(sql, tenant).await
}

/// Deletes everything of a session that no other session shares.
async fn delete_unshared(sql: &mut dyn Sql, tenant: &Tenant, session: &StoredSession) -> Result<()> {
    let (id, ids) = (session.id.0, [session.id.0.into(), tenant.id.into()]);
    let count_children = "SELECT count(*), coalesce(max(begins), 0) FROM sessions WHERE parent = $1 AND tenant = $2";
    let row = sql.row(count_children, &ids).await?;
    let (children, shared_length) = row.map_or(Ok((0, 0)), |row| Ok((row.int(0)?, row.count(1)?)))?;
    let first = shared_length.max(session.first_own_message);
    let (first, last) = (message_id(id, first), message_id(id, MAX_SESSION_MESSAGES));
    let find_blocks = "SELECT blocks FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3";
    let mut unlinked_ids = BTreeSet::new();
    for row in sql.rows(find_blocks, &[first.into(), last.into(), tenant.id.into()]).await? {
        for block in BlockRow::parse_lines(&row.text(0)?) {
            let delete = "DELETE FROM blocks WHERE family = $1 AND handle = $2 AND message BETWEEN $3 AND $4";
            let values = [session.family.into(), block.recall_id.as_str().into(), first.into(), last.into()];
            if sql.run(delete, &values).await? > 0 {
                unlinked_ids.insert(block.recall_id);
            }
        }
    }
    sql.run(sql.dialect().delete_terms, &[first.into(), last.into()]).await?;
    let delete_messages = "DELETE FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3";
    sql.run(delete_messages, &[first.into(), last.into(), tenant.id.into()]).await?;
    relink_recall_ids(sql, tenant, session.family, &unlinked_ids).await?;
    for delete in [
        "DELETE FROM states WHERE session = $1 AND tenant = $2",
        "DELETE FROM traffic WHERE session = $1 AND tenant = $2",
        "DELETE FROM hidden_turns WHERE session = $1 AND tenant = $2",
    ] {
        sql.run(delete, &ids).await?;
    }
    if children == 0 {
        for delete in [
            "DELETE FROM requests WHERE session = $1 AND tenant = $2",
            "DELETE FROM epochs WHERE session = $1 AND tenant = $2",
            "DELETE FROM sessions WHERE id = $1 AND tenant = $2",
        ] {
            sql.run(delete, &ids).await?;
        }
        sql.run("DELETE FROM remains WHERE session = $1", &[id.into()]).await?;
        return Ok(());
    }
    let arguments = [session.id.0.into(), tenant.id.into(), shared_length.into()];
    sql.run("DELETE FROM requests WHERE session = $1 AND tenant = $2 AND length > $3", &arguments).await?;
    sql.run("DELETE FROM epochs WHERE session = $1 AND tenant = $2 AND reach > $3", &arguments).await?;
    delete_unreferenced_originals(sql, tenant, session).await?;
    let mark_deleted = "UPDATE sessions SET state = 'deleted', title = NULL, model = NULL, head = NULL, length = $1 WHERE id = $2 AND tenant = $3";
    sql.run(mark_deleted, &[shared_length.max(session.first_own_message).into(), id.into(), tenant.id.into()]).await?;
    Ok(())
}

/// Links recall IDs to other messages with the same text. A recall ID belongs to a text and is linked to the
/// first message of its family that has it; if that message was deleted, another one may have it.
async fn relink_recall_ids(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    family: i64,
    recall_ids: &BTreeSet<String>,
) -> Result<()> {
    if recall_ids.is_empty() {
        return Ok(());
    }
    let list_family = "SELECT id FROM sessions WHERE family = $1 AND tenant = $2 ORDER BY id";
    for row in sql.rows(list_family, &[family.into(), tenant.id.into()]).await? {
        let (first, last) = (message_id(row.int(0)?, 0), message_id(row.int(0)?, MAX_SESSION_MESSAGES));
        let blocks = "SELECT id, blocks FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3 ORDER BY id";
        for message in sql.rows(blocks, &[first.into(), last.into(), tenant.id.into()]).await? {
            let blocks = BlockRow::parse_lines(&message.text(1)?);
            for (position, block) in
                blocks.iter().enumerate().filter(|(_, block)| recall_ids.contains(&block.recall_id))
            {
                message::link_recall_id(sql, family, &block.recall_id, message.int(0)?, position).await?;
            }
        }
    }
    Ok(())
}

/// Deletes the originals of a session that nothing names any more: no ledger of the family, and no other original
/// that is kept.
async fn delete_unreferenced_originals(sql: &mut dyn Sql, tenant: &Tenant, session: &StoredSession) -> Result<()> {
    let list_originals = "SELECT handle, text FROM remains WHERE session = $1";
    let mut unreferenced: BTreeMap<String, String> = BTreeMap::new();
    let mut kept_texts: Vec<String> = Vec::new();
    for row in sql.rows(list_originals, &[session.id.0.into()]).await? {
        let (recall_id, text) = (row.text(0)?, row.text(1)?);
        let find_reference = "SELECT e.id FROM epochs e JOIN sessions s ON s.id = e.session \
                     WHERE s.family = $1 AND e.tenant = $2 AND e.ledger LIKE $3 \
                     UNION ALL SELECT r.session FROM remains r \
                     WHERE r.family = $1 AND r.session <> $4 AND r.text LIKE $3 LIMIT 1";
        let pattern = format!("%{recall_id}%");
        let values = [session.family.into(), tenant.id.into(), pattern.into(), session.id.0.into()];
        match sql.row(find_reference, &values).await? {
            Some(_) => kept_texts.push(text),
            None => drop(unreferenced.insert(recall_id, text)),
        }
    }
    while let Some(page) = kept_texts.pop() {
        let words = page.split(|c: char| !c.is_ascii_alphanumeric());
        kept_texts.extend(words.filter_map(|word| unreferenced.remove(word)));
    }
    for recall_id in unreferenced.into_keys() {
        let delete = "DELETE FROM remains WHERE family = $1 AND handle = $2";
        sql.run(delete, &[session.family.into(), recall_id.into()]).await?;
    }
    Ok(())
}

/// Counts the bytes of a session's own messages.
async fn read_session_text_bytes(sql: &mut dyn Sql, tenant: &Tenant, session: &StoredSession) -> Result<u64> {
    let (first, last) = (message_id(session.id.0, 0), message_id(session.id.0, MAX_SESSION_MESSAGES));
    let sum = "SELECT coalesce(sum(length(text)), 0) FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3";
    let row = sql.row(sum, &[first.into(), last.into(), tenant.id.into()]).await?;
    row.map_or(Ok(0), |row| row.count(0)).map(|bytes| bytes as u64)
}

impl Store {
    /// Deletes a session and everything that no other session shares. [`Store::vacuum`] then returns the
    /// space and erases the data from the file.
    pub async fn delete_session(&self, tenant: &Tenant, session: SessionId) -> Result<()> {
        self.write(in_transaction((tenant.clone(), session), |sql, (tenant, id)| {
            Box::pin(delete_session(sql, tenant, *id))
        }))
        .await
    }

    /// Deletes the sessions of these tenants that exceed the limits, oldest first whatever their tenant, and
    /// returns the freed space.
    pub async fn enforce_retention(&self, tenants: &[Tenant], limits: RetentionLimits) -> Result<SweepReport> {
        let mut report = SweepReport { bytes_before: self.size_bytes().await?, ..SweepReport::default() };
        if let Some(before) = limits.updated_before {
            let old = self.sessions_oldest_first(tenants).await?;
            for (tenant, session) in old.iter().take_while(|(_, session)| session.updated < before) {
                self.delete_session(tenant, session.id).await?;
                report.deleted_sessions.push(session.name.clone());
            }
        }
        self.vacuum().await?;
        for _ in 0..MAX_SWEEP_ROUNDS {
            report.bytes_after = self.size_bytes().await?;
            let Some(excess) = limits
                .max_bytes
                .and_then(|max_bytes| report.bytes_after.checked_sub(max_bytes))
                .filter(|excess| *excess > 0)
            else {
                break;
            };
            // A message takes more space than its text: also its share of the indexes and of the envelopes.
            let bytes_per_text_byte = report.bytes_after as f64 / self.total_text_bytes().await?.max(1) as f64;
            let mut freed = 0.0;
            for (tenant, session) in self.sessions_oldest_first(tenants).await? {
                if freed >= excess as f64 {
                    break;
                }
                freed += self.session_text_bytes(tenant, &session).await? as f64 * bytes_per_text_byte;
                self.delete_session(tenant, session.id).await?;
                report.deleted_sessions.push(session.name.clone());
            }
            self.vacuum().await?;
        }
        report.bytes_after = self.size_bytes().await?;
        Ok(report)
    }

    /// Lists all sessions with their tenants, those written longest ago first.
    async fn sessions_oldest_first<'t>(&self, tenants: &'t [Tenant]) -> Result<Vec<(&'t Tenant, StoredSession)>> {
        let mut all = Vec::new();
        for tenant in tenants {
            let sessions = self.sessions(tenant, usize::MAX >> 1).await?;
            all.extend(sessions.into_iter().map(|session| (tenant, session)));
        }
        all.sort_by_key(|(_, session)| (session.updated, session.id));
        Ok(all)
    }

    /// Counts the bytes of all messages of all tenants.
    async fn total_text_bytes(&self) -> Result<u64> {
        self.read(Arc::new(|sql| {
            Box::pin(async move {
                let row = sql.row("SELECT coalesce(sum(length(text)), 0) FROM messages", &[]).await?;
                row.map_or(Ok(0), |row| row.count(0)).map(|bytes| bytes as u64)
            })
        }))
        .await
    }

    async fn session_text_bytes(&self, tenant: &Tenant, session: &StoredSession) -> Result<u64> {
        let arguments = (tenant.clone(), session.clone());
        self.read(in_transaction(arguments, |sql, (tenant, session)| {
            Box::pin(read_session_text_bytes(sql, tenant, session))
        }))
        .await
    }
}
