//! The log: which session a history belongs to, and what of it is new.

use std::sync::Arc;

use longhaul_engine::Dialect;
use longhaul_engine::identity::Identity;
use longhaul_engine::redact::{Redacted, SessionKey};

use super::envelope::{self, Envelope};
use super::epochs::EpochId;
use super::error::{Result, StoreError};
use super::message::{self, Entry, NewMessage};
use super::schema::{MOST_MESSAGES, number, session_and_place};
use super::session::{self, Birth, Newborn, Reason, SESSION, Session, SessionId, State};
use super::sql::{Row, Sql};
use super::tenant::{Tenant, lock_number};
use super::{Store, work};
use crate::agents::Moment;

/// A request on its way into the log: all its identities, and the messages that were not known.
#[derive(Debug, Clone)]
pub struct Batch {
    /// One for each message of the body behind the system prompt,
    pub chain: Vec<Identity>,
    /// of which so many messages stand before them.
    pub lead: usize,
    /// The messages from `known` on.
    pub entries: Vec<Entry>,
    /// How many were known when they were made ready.
    pub known: usize,
    /// What stands around the messages.
    pub envelope: Envelope,
    /// The key under which handles and marks were made.
    pub key: SessionKey,
    /// How the body is written.
    pub dialect: Dialect,
    /// The model that it names.
    pub model: Option<Redacted>,
    /// What a new session would be called.
    pub title: Option<Redacted>,
    /// The name of a new session, and how it came to be if it is not simply new.
    pub name: String,
    /// A session that it goes on from, though they share no beginning.
    pub continues: Option<SessionId>,
    /// When it came.
    pub at: Moment,
}

/// What became of a batch. There is one at a time, so its size does not matter.
#[expect(clippy::large_enum_variant)]
#[derive(Debug, Clone)]
pub enum Appended {
    /// It is in the log.
    Done {
        /// The session that it belongs to.
        session: Session,
        /// How many messages were new.
        new: usize,
    },
    /// Another was faster, and wrote under another key: make it ready again.
    Stale,
}

/// How many messages are written in one transaction: some tenths of a second on a slow disk, so that nobody takes the store for sick
/// because somebody else has a long history.
const MAX_MESSAGES_AT_ONCE: usize = 1_000;

/// The deepest message of a history that the log has.
#[derive(Debug, Clone)]
pub(super) struct Located {
    /// The session that goes on from there.
    pub(super) session: Session,
    /// How many of the messages are known.
    pub(super) known: usize,
}

/// A request as it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Which one.
    pub number: usize,
    /// How many messages it had.
    pub length: usize,
    pub(super) envelope: i64,
    /// When it came.
    pub at: Moment,
}

/// Finds the deepest message of a history that the log has, by asking for ever shorter beginnings of it: what is known has all
/// before it known, and of a history that is sent again nearly everything is.
pub(super) async fn locate(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    chain: &[Identity],
) -> Result<Option<Located>> {
    let (mut known, mut unknown) = (0, chain.len() + 1);
    let (mut step, mut found) = (1, None);
    while known + 1 < unknown {
        let probe = if step < unknown - known { unknown - step } else { known.midpoint(unknown) };
        // From the end in growing steps until one is known, then halves.
        let probe = if found.is_some() { known.midpoint(unknown) } else { probe };
        match number_of(sql, tenant, &chain[probe - 1]).await? {
            Some(number) => (known, found) = (probe, Some(number)),
            None => unknown = probe,
        }
        step *= 2;
    }
    let Some(number) = found else { return Ok(None) };
    let (owner, _) = session_and_place(number);
    let Some(mut session) = session::session(sql, tenant, SessionId(owner)).await? else { return Ok(None) };
    while let Some(next) = successor(sql, tenant, &session, known).await? {
        session = next;
    }
    Ok(Some(Located { session, known }))
}

/// Who goes on from the end of a session that does not: what began anew where it was archived, and where it is deleted but for a
/// beginning that others share, whoever has that beginning and nothing else yet.
async fn successor(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    known: usize,
) -> Result<Option<Session>> {
    let which = match session.state {
        State::Archived if known >= session.length => "reason = 'restart' AND $3 >= begins",
        State::Deleted => "begins = $3 AND length = $3",
        State::Archived | State::Live => return Ok(None),
    };
    let next = format!(
        "{SESSION} WHERE parent = $1 AND tenant = $2 AND state <> 'deleted' AND {which} \
         ORDER BY CASE reason WHEN 'restart' THEN 0 ELSE 1 END, id DESC LIMIT 1"
    );
    let row = sql.row(&next, &[session.id.0.into(), tenant.id.into(), known.into()]).await?;
    row.map(|row| Session::of(&row)).transpose()
}

async fn number_of(sql: &mut dyn Sql, tenant: &Tenant, identity: &Identity) -> Result<Option<i64>> {
    let find = "SELECT id FROM messages WHERE identity = $1 AND tenant = $2";
    let row = sql.row(find, &[identity.0.as_slice().into(), tenant.id.into()]).await?;
    row.map(|row| row.int(0)).transpose()
}

/// Writes what is new of a request, up to its first `length` messages. The request itself is noted with its last message.
async fn append(sql: &mut dyn Sql, tenant: &Tenant, batch: &Batch, length: usize) -> Result<Appended> {
    let Some(first) = batch.chain.first() else {
        return Err(StoreError::Wrong("a body without messages has no session".to_owned()));
    };
    if batch.chain.len() > MOST_MESSAGES {
        return Err(StoreError::Wrong(format!("a session may have {MOST_MESSAGES} messages at most")));
    }
    // Nobody takes away what stands around the messages while it is found to be there.
    if let Some(share) = sql.flavour().share {
        sql.run(share, &[tenant.lock().into()]).await?;
    }
    if let Some(lock) = sql.flavour().lock {
        sql.run(lock, &[lock_number(first).into()]).await?;
    }
    let located = locate(sql, tenant, &batch.chain[..length]).await?;
    let known = located.as_ref().map_or(0, |located| located.known);
    let is_ours = located.as_ref().is_none_or(|located| located.session.key == batch.key);
    if known < batch.known || !is_ours {
        return Ok(Appended::Stale);
    }
    // Whoever archives or deletes the session holds its row: what they did meanwhile is seen now, and nothing happens behind it.
    if let Some(located) = &located {
        let held = format!("{SESSION} WHERE id = $1 AND tenant = $2{}", sql.flavour().for_update);
        let row = sql.row(&held, &[located.session.id.0.into(), tenant.id.into()]).await?;
        let now = row.map(|row| Session::of(&row)).transpose()?;
        let is_same = |now: &Session| {
            (now.state, now.length, now.begins)
                == (located.session.state, located.session.length, located.session.begins)
        };
        if !now.as_ref().is_some_and(is_same) {
            return Ok(Appended::Stale);
        }
    }
    let is_whole = length == batch.chain.len();
    let located = match located {
        // All of it is known: the client asks again, or has gone back.
        Some(Located { session, .. }) if known == length && session.state != State::Deleted => {
            return Ok(Appended::Done { session, new: 0 });
        }
        located => located,
    };
    let Some(envelope) = envelope::keep(sql, tenant, &batch.envelope).await? else {
        return Ok(Appended::Stale);
    };
    let session = match located {
        Some(located) if located.session.state == State::Deleted => {
            fork(sql, tenant, &located.session, known, batch).await?
        }
        Some(located) if known == located.session.length => located.session,
        Some(located) => fork(sql, tenant, &located.session, known, batch).await?,
        None => begin(sql, tenant, batch).await?,
    };
    let mut messages = Vec::new();
    for (place, entry) in (batch.known..length).zip(&batch.entries).filter(|(place, _)| *place >= known) {
        // A step that began in what is shared keeps the number that it has there.
        let step = if entry.step < session.begins {
            number_of(sql, tenant, &batch.chain[entry.step]).await?
        } else {
            None
        };
        let step = step.unwrap_or_else(|| number(session.id.0, entry.step));
        messages.push(NewMessage { place, step, identity: &batch.chain[place], entry });
    }
    message::enter(sql, tenant, &session, &messages).await?;
    if is_whole {
        note_request(sql, tenant, &session, batch, envelope).await?;
    }
    let model = batch.model.as_ref().map(Redacted::as_str);
    let update =
        "UPDATE sessions SET length = $1, model = $2, updated = $3, lead = $4 WHERE id = $5 AND tenant = $6";
    let lead = batch.lead;
    let values =
        [length.into(), model.into(), batch.at.0.into(), lead.into(), session.id.0.into(), tenant.id.into()];
    sql.run(update, &values).await?;
    let (model, updated) = (model.map(str::to_owned), batch.at);
    Ok(Appended::Done { session: Session { model, length, lead, updated, ..session }, new: length - known })
}

/// Notes that a request came, with what stood around its messages.
async fn note_request(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    batch: &Batch,
    envelope: i64,
) -> Result<()> {
    let count = "SELECT coalesce(max(number), 0) FROM requests WHERE session = $1 AND tenant = $2";
    let row = sql.row(count, &[session.id.0.into(), tenant.id.into()]).await?;
    let request = row.map_or(Ok(0), |row| row.int(0))? + 1;
    let made = "INSERT INTO requests (session, number, tenant, length, envelope, at) VALUES ($1, $2, $3, $4, $5, $6)";
    let values = [
        session.id.0.into(),
        request.into(),
        tenant.id.into(),
        batch.chain.len().into(),
        envelope.into(),
        batch.at.0.into(),
    ];
    sql.run(made, &values).await.map(drop)
}

/// A session of its own.
async fn begin(sql: &mut dyn Sql, tenant: &Tenant, batch: &Batch) -> Result<Session> {
    let continued = match batch.continues {
        Some(parent) => session::session(sql, tenant, parent).await?,
        None => None,
    };
    let reason = if continued.is_some() { Reason::Continued } else { Reason::New };
    make(sql, tenant, &Birth { parent: continued.as_ref(), begins: 0, reason, head: None }, batch).await
}

/// A session that shares the beginning of another. It takes over the newest view that is of this beginning alone.
async fn fork(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    parent: &Session,
    begins: usize,
    batch: &Batch,
) -> Result<Session> {
    let mut head = parent.head;
    while let Some(EpochId(epoch)) = head {
        let find = "SELECT parent, reach FROM epochs WHERE id = $1 AND tenant = $2";
        let Some(row) = sql.row(find, &[epoch.into(), tenant.id.into()]).await? else { break };
        if row.count(1)? <= begins {
            break;
        }
        head = row.maybe_int(0)?.map(EpochId);
    }
    let reason = if batch.continues.is_some() { Reason::Continued } else { Reason::Fork };
    let head = head.filter(|_| reason == Reason::Fork);
    make(sql, tenant, &Birth { parent: Some(parent), begins, reason, head }, batch).await
}

async fn make(sql: &mut dyn Sql, tenant: &Tenant, birth: &Birth<'_>, batch: &Batch) -> Result<Session> {
    // One that was to go on with a session, and found another there, is called as that one is.
    let title = batch.title.as_ref().map(|title| title.as_str().to_owned());
    let title = title.or_else(|| birth.parent.and_then(|parent| parent.title.clone()));
    let model = batch.model.as_ref().map(|model| model.as_str().to_owned());
    session::born(
        sql,
        tenant,
        birth,
        &Newborn { name: &batch.name, key: &batch.key, dialect: batch.dialect, title, model, at: batch.at },
    )
    .await
}

pub(super) fn request(row: &Row) -> Result<Request> {
    Ok(Request {
        number: row.count(0)?,
        length: row.count(1)?,
        envelope: row.int(2)?,
        at: Moment(row.int(3)?),
    })
}

async fn gaps(sql: &mut dyn Sql) -> Result<Vec<String>> {
    let mut gaps = Vec::new();
    let all = "SELECT s.name, s.begins, s.length, s.id, s.state FROM sessions s ORDER BY s.id";
    for row in sql.rows(all, &[]).await? {
        let (name, begins, length, id) = (row.text(0)?, row.count(1)?, row.count(2)?, row.int(3)?);
        let (first, last) = (number(id, 0), number(id, MOST_MESSAGES));
        let count = "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM messages WHERE id BETWEEN $1 AND $2";
        let Some(counted) = sql.row(count, &[first.into(), last.into()]).await? else { continue };
        let own = length - begins;
        let whole = counted.count(0)? == own
            && (own == 0
                || (counted.int(1)? == number(id, begins) && counted.int(2)? == number(id, length - 1)));
        if !whole && row.text(4)? != State::Deleted.name() {
            gaps.push(format!(
                "session {name} should have {own} messages of its own, and has {}",
                counted.count(0)?
            ));
        }
    }
    let heads = "SELECT s.name FROM sessions s WHERE s.head IS NOT NULL AND NOT EXISTS (SELECT 1 FROM epochs e WHERE e.id = s.head)";
    for row in sql.rows(heads, &[]).await? {
        gaps.push(format!("the view of session {} is missing", row.text(0)?));
    }
    let lost =
        "SELECT count(*) FROM blocks b WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = b.message)";
    if let Some(row) = sql.row(lost, &[]).await?.filter(|row| row.int(0) != Ok(0)) {
        gaps.push(format!("{} handles lead nowhere", row.int(0)?));
    }
    Ok(gaps)
}

async fn requests(sql: &mut dyn Sql, tenant: &Tenant, SessionId(session): SessionId) -> Result<Vec<Request>> {
    let list = "SELECT number, length, envelope, at FROM requests WHERE session = $1 AND tenant = $2 ORDER BY number";
    let rows = sql.rows(list, &[session.into(), tenant.id.into()]).await?;
    rows.iter().map(request).collect()
}

impl Store {
    /// Writes what is new of a request. A long history is written in parts, between which others have their turn.
    pub async fn append(&self, tenant: &Tenant, batch: Batch) -> Result<Appended> {
        let whole = batch.chain.len();
        let batch = Arc::new(batch);
        let (mut length, mut added) = (batch.known, 0);
        loop {
            length = whole.min(length + MAX_MESSAGES_AT_ONCE);
            let with = (tenant.clone(), Arc::clone(&batch), length);
            let part =
                work(with, |sql, (tenant, batch, length)| Box::pin(append(sql, tenant, batch, *length)));
            match self.write(part).await? {
                Appended::Done { session, new } if length == whole => {
                    return Ok(Appended::Done { session, new: added + new });
                }
                Appended::Done { new, .. } => added += new,
                Appended::Stale => return Ok(Appended::Stale),
            }
        }
    }

    /// The session that a history goes on from, and how many of its messages are known.
    pub(super) async fn locate(&self, tenant: &Tenant, chain: &[Identity]) -> Result<Option<Located>> {
        let with = (tenant.clone(), chain.to_owned());
        self.read(work(with, |sql, (tenant, chain)| Box::pin(locate(sql, tenant, chain)))).await
    }

    /// The same, and whether the store has the envelope of the request, too.
    pub(super) async fn look(
        &self,
        tenant: &Tenant,
        chain: &[Identity],
        envelope: &Envelope,
    ) -> Result<(Option<Located>, bool)> {
        let with = (tenant.clone(), chain.to_owned(), envelope.identity);
        let look = work(with, |sql, (tenant, chain, envelope)| {
            Box::pin(async move {
                let known = envelope::number(sql, tenant, envelope).await?.is_some();
                Ok((locate(sql, tenant, chain).await?, known))
            })
        });
        self.read(look).await
    }

    /// How many messages of a history the log has.
    pub async fn knows(&self, tenant: &Tenant, chain: &[Identity]) -> Result<usize> {
        Ok(self.locate(tenant, chain).await?.map_or(0, |located| located.known))
    }

    /// The requests of a session that brought something new, oldest first.
    pub async fn requests(&self, tenant: &Tenant, session: &Session) -> Result<Vec<Request>> {
        self.read(work((tenant.clone(), session.id), |sql, (tenant, id)| {
            Box::pin(requests(sql, tenant, *id))
        }))
        .await
    }

    /// Whether every path of the log is whole: what is missing in it, in words.
    pub(super) async fn gaps(&self) -> Result<Vec<String>> {
        self.read(work((), |sql, ()| Box::pin(gaps(sql)))).await
    }
}
