//! What goes: sessions that somebody deletes, that are old, or for which there is no more room.
//!
//! What another session shares stays until that one goes, too; all else goes from every table and index, and [`Store::vacuum`]
//! leaves nothing of it in free pages either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::envelope;
use super::error::Result;
use super::message::{self, BlockRow};
use super::schema::{MOST_MESSAGES, number};
use super::session::{self, Session, SessionId, State};
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, work};
use crate::agents::Moment;

/// So many times is looked whether enough has gone.
const ROUNDS: usize = 8;

/// What is too old, or too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expiry {
    /// Sessions that were not written since then go.
    pub before: Option<Moment>,
    /// The sessions written longest ago go until the store takes no more than this many bytes.
    pub most_bytes: Option<u64>,
}

/// What went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// The names of the sessions.
    pub sessions: Vec<String>,
    /// How many bytes the store took before,
    pub before: u64,
    /// and takes now.
    pub after: u64,
}

async fn delete(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId) -> Result<()> {
    if let Some(lock) = sql.flavour().lock {
        sql.run(lock, &[tenant.lock().into()]).await?;
    }
    let mut at = Some(session::held_session(sql, tenant, id).await?);
    while let Some(session) = at {
        trim(sql, tenant, &session).await?;
        // A deleted parent that was kept for this one may go now, or more of it.
        at = match session.parent {
            Some(parent) => {
                session::session(sql, tenant, parent).await?.filter(|parent| parent.state == State::Deleted)
            }
            None => None,
        };
    }
    envelope::sweep(sql, tenant).await
}

/// Takes away all of a session that no other shares.
async fn trim(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<()> {
    let (id, own) = (session.id.0, [session.id.0.into(), tenant.id.into()]);
    let shared = "SELECT count(*), coalesce(max(begins), 0) FROM sessions WHERE parent = $1 AND tenant = $2";
    let row = sql.row(shared, &own).await?;
    let (children, keep) = row.map_or(Ok((0, 0)), |row| Ok((row.int(0)?, row.count(1)?)))?;
    let first = keep.max(session.begins);
    let (first, last) = (number(id, first), number(id, MOST_MESSAGES));
    let going = "SELECT blocks FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3";
    let mut forgotten = BTreeSet::new();
    for row in sql.rows(going, &[first.into(), last.into(), tenant.id.into()]).await? {
        for block in BlockRow::read(&row.text(0)?) {
            let forget = "DELETE FROM blocks WHERE family = $1 AND handle = $2 AND message BETWEEN $3 AND $4";
            let values = [session.family.into(), block.handle.as_str().into(), first.into(), last.into()];
            if sql.run(forget, &values).await? > 0 {
                forgotten.insert(block.handle);
            }
        }
    }
    sql.run(sql.flavour().leave_terms, &[first.into(), last.into()]).await?;
    let messages = "DELETE FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3";
    sql.run(messages, &[first.into(), last.into(), tenant.id.into()]).await?;
    lead_elsewhere(sql, tenant, session.family, &forgotten).await?;
    for forget in [
        "DELETE FROM states WHERE session = $1 AND tenant = $2",
        "DELETE FROM traffic WHERE session = $1 AND tenant = $2",
        "DELETE FROM hidden_turns WHERE session = $1 AND tenant = $2",
    ] {
        sql.run(forget, &own).await?;
    }
    if children == 0 {
        for forget in [
            "DELETE FROM requests WHERE session = $1 AND tenant = $2",
            "DELETE FROM epochs WHERE session = $1 AND tenant = $2",
            "DELETE FROM sessions WHERE id = $1 AND tenant = $2",
        ] {
            sql.run(forget, &own).await?;
        }
        sql.run("DELETE FROM remains WHERE session = $1", &[id.into()]).await?;
        return Ok(());
    }
    let longer = [session.id.0.into(), tenant.id.into(), keep.into()];
    sql.run("DELETE FROM requests WHERE session = $1 AND tenant = $2 AND length > $3", &longer).await?;
    sql.run("DELETE FROM epochs WHERE session = $1 AND tenant = $2 AND reach > $3", &longer).await?;
    forget_remains(sql, tenant, session).await?;
    let hide = "UPDATE sessions SET state = 'deleted', title = NULL, model = NULL, head = NULL, length = $1 WHERE id = $2 AND tenant = $3";
    sql.run(hide, &[keep.max(session.begins).into(), id.into(), tenant.id.into()]).await?;
    Ok(())
}

/// A handle is of a text, and leads to the first message of its family that has it: where that one went, to another.
async fn lead_elsewhere(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    family: i64,
    handles: &BTreeSet<String>,
) -> Result<()> {
    if handles.is_empty() {
        return Ok(());
    }
    let relatives = "SELECT id FROM sessions WHERE family = $1 AND tenant = $2 ORDER BY id";
    for row in sql.rows(relatives, &[family.into(), tenant.id.into()]).await? {
        let (first, last) = (number(row.int(0)?, 0), number(row.int(0)?, MOST_MESSAGES));
        let blocks = "SELECT id, blocks FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3 ORDER BY id";
        for message in sql.rows(blocks, &[first.into(), last.into(), tenant.id.into()]).await? {
            let blocks = BlockRow::read(&message.text(1)?);
            for (place, block) in
                blocks.iter().enumerate().filter(|(_, block)| handles.contains(&block.handle))
            {
                message::lead(sql, family, &block.handle, message.int(0)?, place).await?;
            }
        }
    }
    Ok(())
}

/// Takes away what only views of a session showed that are gone: no ledger of its family names the handle any more, nor does a page
/// that a ledger leads to.
async fn forget_remains(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<()> {
    let own = "SELECT handle, text FROM remains WHERE session = $1";
    let mut unnamed: BTreeMap<String, String> = BTreeMap::new();
    let mut stays: Vec<String> = Vec::new();
    for row in sql.rows(own, &[session.id.0.into()]).await? {
        let (handle, text) = (row.text(0)?, row.text(1)?);
        let named = "SELECT e.id FROM epochs e JOIN sessions s ON s.id = e.session \
                     WHERE s.family = $1 AND e.tenant = $2 AND e.ledger LIKE $3 \
                     UNION ALL SELECT r.session FROM remains r \
                     WHERE r.family = $1 AND r.session <> $4 AND r.text LIKE $3 LIMIT 1";
        let like = format!("%{handle}%");
        let values = [session.family.into(), tenant.id.into(), like.into(), session.id.0.into()];
        match sql.row(named, &values).await? {
            Some(_) => stays.push(text),
            None => drop(unnamed.insert(handle, text)),
        }
    }
    while let Some(page) = stays.pop() {
        let words = page.split(|sign: char| !sign.is_ascii_alphanumeric());
        stays.extend(words.filter_map(|word| unnamed.remove(word)));
    }
    for handle in unnamed.into_keys() {
        let forget = "DELETE FROM remains WHERE family = $1 AND handle = $2";
        sql.run(forget, &[session.family.into(), handle.into()]).await?;
    }
    Ok(())
}

/// The bytes of a session's own messages.
async fn weight(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<u64> {
    let (first, last) = (number(session.id.0, 0), number(session.id.0, MOST_MESSAGES));
    let sum =
        "SELECT coalesce(sum(length(text)), 0) FROM messages WHERE id BETWEEN $1 AND $2 AND tenant = $3";
    let row = sql.row(sum, &[first.into(), last.into(), tenant.id.into()]).await?;
    row.map_or(Ok(0), |row| row.count(0)).map(|bytes| bytes as u64)
}

impl Store {
    /// Deletes a session. What only it had is gone; [`Store::vacuum`] gives back its room and leaves nothing of it in the file.
    pub async fn delete(&self, tenant: &Tenant, session: SessionId) -> Result<()> {
        self.write(work((tenant.clone(), session), |sql, (tenant, id)| Box::pin(delete(sql, tenant, *id))))
            .await
    }

    /// Deletes what of these tenants is too old or too much, and gives back its room. The oldest go first, whosever they are.
    pub async fn sweep(&self, tenants: &[Tenant], expiry: Expiry) -> Result<Swept> {
        let mut swept = Swept { before: self.size().await?, ..Swept::default() };
        if let Some(before) = expiry.before {
            let old = self.oldest(tenants).await?;
            for (tenant, session) in old.iter().take_while(|(_, session)| session.updated < before) {
                self.delete(tenant, session.id).await?;
                swept.sessions.push(session.name.clone());
            }
        }
        self.vacuum().await?;
        for _ in 0..ROUNDS {
            swept.after = self.size().await?;
            let Some(excess) =
                expiry.most_bytes.and_then(|most| swept.after.checked_sub(most)).filter(|more| *more > 0)
            else {
                break;
            };
            // A message takes more room than its text: its share of the indexes and of what stands around it.
            let room = swept.after as f64 / self.words().await?.max(1) as f64;
            let mut freed = 0.0;
            for (tenant, session) in self.oldest(tenants).await? {
                if freed >= excess as f64 {
                    break;
                }
                freed += self.weight(tenant, &session).await? as f64 * room;
                self.delete(tenant, session.id).await?;
                swept.sessions.push(session.name.clone());
            }
            self.vacuum().await?;
        }
        swept.after = self.size().await?;
        Ok(swept)
    }

    /// All sessions, those that were written longest ago first, and whose they are.
    async fn oldest<'t>(&self, tenants: &'t [Tenant]) -> Result<Vec<(&'t Tenant, Session)>> {
        let mut all = Vec::new();
        for tenant in tenants {
            let sessions = self.sessions(tenant, usize::MAX >> 1).await?;
            all.extend(sessions.into_iter().map(|session| (tenant, session)));
        }
        all.sort_by_key(|(_, session)| (session.updated, session.id));
        Ok(all)
    }

    /// The bytes of all messages, whosever they are.
    async fn words(&self) -> Result<u64> {
        self.read(Arc::new(|sql| {
            Box::pin(async move {
                let row = sql.row("SELECT coalesce(sum(length(text)), 0) FROM messages", &[]).await?;
                row.map_or(Ok(0), |row| row.count(0)).map(|bytes| bytes as u64)
            })
        }))
        .await
    }

    async fn weight(&self, tenant: &Tenant, session: &Session) -> Result<u64> {
        let with = (tenant.clone(), session.clone());
        self.read(work(with, |sql, (tenant, session)| Box::pin(weight(sql, tenant, session)))).await
    }
}
