//! The log: which session a history belongs to, and what of it is new.
//!
//! ```text
//! session 1   m0 ── m1 ── m2 ── m3 ── m4            its own messages: 0 to 4
//! session 2               └──── m3'── m4'           a fork: begins at 3, and shares 0 to 2
//! ```
//!
//! A path is a session's own messages behind the beginning that it shares with its parent, and that one's with its own. Fork or
//! not, a message is stored once; what is stored is never changed.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use longhaul_engine::Dialect;
use longhaul_engine::identity::{Identities, Identity};
use longhaul_engine::redact::{Redacted, SessionKey};

use super::Store;
use super::envelope::{self, Envelope};
use super::epochs::EpochId;
use super::error::{Result, StoreError};
use super::schema::{MOST_MESSAGES, number, session_and_place};
use super::sql::{Row, Sql};
use crate::agents::Moment;

/// Whose sessions these are. There is no way to ask for anything without one, and none to make one but by its name.
#[derive(Clone)]
pub struct Tenant {
    pub(super) id: i64,
    key: [u8; 32],
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({})", self.id)
    }
}

impl Tenant {
    /// What the tenant's messages are known by: nobody else's are known by the same.
    #[must_use]
    pub fn identities(&self) -> Identities {
        Identities::new(self.key)
    }

    /// The number under which whoever writes to the tenant's sessions and whoever deletes some agree on an order.
    pub(super) fn lock(&self) -> i64 {
        lock_number(&self.identities().of(&[b"what is deleted"]))
    }

    /// The key under which secrets are marked in what the tenant's sessions share.
    pub(super) fn shared_key(&self) -> SessionKey {
        SessionKey::new(self.identities().of(&[b"marks in what sessions share"]).0)
    }
}

fn lock_number(identity: &Identity) -> i64 {
    i64::from_le_bytes(identity.0[..8].try_into().unwrap_or_default())
}

/// The number of a session in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(super) i64);

/// How a session came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its first message was new.
    New,
    /// The client changed something that was said before.
    Fork,
    /// Its parent no longer fitted the window and was archived.
    Restart,
    /// The client went on from a body that a compaction had made of its parent.
    Continued,
}

impl Reason {
    const ALL: [Self; 4] = [Self::New, Self::Fork, Self::Restart, Self::Continued];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Fork => "fork",
            Self::Restart => "restart",
            Self::Continued => "continued",
        }
    }
}

/// What is going on with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Live,
    /// It ended in a new one.
    Archived,
    /// It is deleted, but another shares its beginning.
    Deleted,
}

impl State {
    const ALL: [Self; 3] = [Self::Live, Self::Archived, Self::Deleted];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
        }
    }
}

/// A session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// What people call it by.
    pub name: String,
    /// The first of those it descends from: they share keys and handles.
    pub(super) family: i64,
    /// What makes its handles and the marks of its checkpoints unforgeable.
    pub key: SessionKey,
    /// Whose beginning it shares, and how many messages that are.
    pub parent: Option<SessionId>,
    /// Where its own messages begin.
    pub begins: usize,
    /// Why it was made.
    pub reason: Reason,
    /// Whether it goes on.
    pub state: State,
    /// How its bodies are written.
    pub dialect: Dialect,
    /// The model that the newest request named.
    pub model: Option<String>,
    /// The beginning of what was said first.
    pub title: Option<String>,
    /// How many messages its path has, without those of the system prompt,
    pub length: usize,
    /// and how many those are in its newest request: so much later a message stands in a body than on the path.
    pub lead: usize,
    /// The view in force.
    pub head: Option<EpochId>,
    /// Whether somebody moved the head by hand: then nothing is compacted that need not be.
    pub held: bool,
    /// When it was made.
    pub created: Moment,
    /// When it was last written.
    pub updated: Moment,
}

const SESSION: &str = "SELECT id, name, family, key, parent, begins, reason, state, dialect, model, title, length, head, held, created, updated, lead \
                       FROM sessions";

impl Session {
    fn of(row: &Row) -> Result<Self> {
        let unknown =
            |what: &str, word: &str| StoreError::Damaged(format!("a session has the {what} '{word}'"));
        let (reason, state, dialect) = (row.text(6)?, row.text(7)?, row.text(8)?);
        Ok(Self {
            id: SessionId(row.int(0)?),
            name: row.text(1)?,
            family: row.int(2)?,
            key: SessionKey::new(row.key(3)?),
            parent: row.maybe_int(4)?.map(SessionId),
            begins: row.count(5)?,
            reason: Reason::ALL
                .into_iter()
                .find(|r| r.name() == reason)
                .ok_or_else(|| unknown("reason", &reason))?,
            state: State::ALL
                .into_iter()
                .find(|s| s.name() == state)
                .ok_or_else(|| unknown("state", &state))?,
            dialect: Dialect::from_str(&dialect).map_err(|_| unknown("dialect", &dialect))?,
            model: row.maybe_text(9)?,
            title: row.maybe_text(10)?,
            length: row.count(11)?,
            head: row.maybe_int(12)?.map(EpochId),
            held: row.int(13)? != 0,
            created: Moment(row.int(14)?),
            updated: Moment(row.int(15)?),
            lead: row.count(16)?,
        })
    }
}

/// One message on its way into the log.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As it was sent, secrets taken out.
    pub text: Redacted,
    /// Whether any were.
    pub redacted: bool,
    /// The place of the message that its step begins with: the reply whose results it holds, or itself.
    pub step: usize,
    /// Its blocks, in the order in which they stand in it.
    pub blocks: Vec<BlockRow>,
    /// What it can be found by.
    pub(super) terms: String,
}

/// What is known of a block without reading its message: its handle, what it is, and the tool that it has to do with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRow {
    /// What fetches it.
    pub handle: String,
    /// What it is: `prompt`, `reply`, `call`, `result`, ….
    pub what: String,
    /// The tool, where there is one.
    pub tool: Option<String>,
}

impl BlockRow {
    fn line(&self) -> String {
        // A tool's name is one word, or it would be two blocks.
        let word = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
        let tool: Option<String> = self.tool.as_ref().map(|tool| tool.chars().map(word).collect());
        [Some(self.handle.as_str()), Some(self.what.as_str()), tool.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The blocks of a message, as the log keeps them.
    pub(super) fn read(lines: &str) -> Vec<Self> {
        let block = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let (handle, what) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            Self { handle, what, tool: words.next() }
        };
        lines.lines().map(block).collect()
    }
}

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

/// What became of a batch.
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

/// The sessions that one descends from, and those that descend from it.
#[derive(Debug, Clone)]
pub struct Lineage {
    /// From its parent up to the first.
    pub ancestors: Vec<Session>,
    /// Those that begin with it, one generation down.
    pub children: Vec<Session>,
}

/// A part of a path that is one session's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) session: i64,
    pub(super) places: Range<usize>,
}

impl Stretch {
    /// The numbers of its messages, both ends included.
    pub(super) fn numbers(&self) -> Option<(i64, i64)> {
        let last = self.places.end.checked_sub(1).filter(|last| *last >= self.places.start)?;
        Some((number(self.session, self.places.start), number(self.session, last)))
    }
}

/// A message of the log.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) number: i64,
    pub(super) place: usize,
    pub(super) step: i64,
    pub(super) text: Redacted,
    pub(super) blocks: Vec<BlockRow>,
    pub(super) redacted: bool,
}

pub(super) async fn tenant(sql: &mut dyn Sql, name: &str, fresh: [u8; 32]) -> Result<Tenant> {
    let make = "INSERT INTO tenants (name, key) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    sql.run(make, &[name.into(), fresh.as_slice().into()]).await?;
    let tenant = known_tenant(sql, name).await?;
    tenant.ok_or_else(|| StoreError::Failed(format!("the tenant {name} was not kept")))
}

async fn known_tenant(sql: &mut dyn Sql, name: &str) -> Result<Option<Tenant>> {
    let row = sql.row("SELECT id, key FROM tenants WHERE name = $1", &[name.into()]).await?;
    row.map(|row| Ok(Tenant { id: row.int(0)?, key: row.key(1)? })).transpose()
}

pub(super) async fn session(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId) -> Result<Option<Session>> {
    let find = format!("{SESSION} WHERE id = $1 AND tenant = $2");
    sql.row(&find, &[id.0.into(), tenant.id.into()]).await?.map(|row| Session::of(&row)).transpose()
}

/// The same, where it must be there, and so that nobody else changes it before the transaction ends.
pub(super) async fn held_session(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId) -> Result<Session> {
    let find = format!("{SESSION} WHERE id = $1 AND tenant = $2{}", sql.flavour().for_update);
    let row = sql.row(&find, &[id.0.into(), tenant.id.into()]).await?;
    row.map(|row| Session::of(&row))
        .transpose()?
        .ok_or_else(|| StoreError::Unknown("the session is gone".to_owned()))
}

/// The stretches of a session's path, first to last, as far as `length` messages.
pub(super) async fn path(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    length: usize,
) -> Result<Vec<Stretch>> {
    let mut stretches = Vec::new();
    let mut end = length;
    let mut at = Some(session.clone());
    while let Some(session) = at {
        if session.begins < end {
            stretches.push(Stretch { session: session.id.0, places: session.begins..end });
        }
        end = end.min(session.begins);
        at = match session.parent.filter(|_| end > 0) {
            Some(parent) => self::session(sql, tenant, parent).await?,
            None => None,
        };
    }
    stretches.reverse();
    Ok(stretches)
}

/// The messages of some places of a path.
pub(super) async fn messages(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    places: Range<usize>,
) -> Result<Vec<Stored>> {
    let mut stored = Vec::new();
    for stretch in path(sql, tenant, session, places.end.min(session.length)).await? {
        let own = stretch.places.start.max(places.start)..stretch.places.end;
        if let Some((first, last)) = (Stretch { places: own, ..stretch }).numbers() {
            let find = format!("{MESSAGE} WHERE id BETWEEN $1 AND $2 AND tenant = $3 ORDER BY id");
            let rows = sql.rows(&find, &[first.into(), last.into(), tenant.id.into()]).await?;
            stored.extend(rows.iter().map(stored_message).collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(stored)
}

/// What [`stored_message`] reads.
pub(super) const MESSAGE: &str = "SELECT id, step, text, blocks, redacted FROM messages";

pub(super) fn stored_message(row: &Row) -> Result<Stored> {
    let number = row.int(0)?;
    Ok(Stored {
        number,
        place: session_and_place(number).1,
        step: row.int(1)?,
        text: Redacted::from_store(row.text(2)?),
        blocks: BlockRow::read(&row.text(3)?),
        redacted: row.int(4)? != 0,
    })
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
    let Some(mut session) = session(sql, tenant, SessionId(owner)).await? else { return Ok(None) };
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

/// Writes what is new of a request.
async fn append(sql: &mut dyn Sql, tenant: &Tenant, batch: &Batch) -> Result<Appended> {
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
    let located = locate(sql, tenant, &batch.chain).await?;
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
    let length = batch.chain.len();
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
    for (place, entry) in (batch.known..length).zip(&batch.entries).filter(|(place, _)| *place >= known) {
        // A step that began in what is shared keeps the number that it has there.
        let step = match entry.step < session.begins {
            true => number_of(sql, tenant, &batch.chain[entry.step]).await?,
            false => None,
        };
        let step = step.unwrap_or_else(|| number(session.id.0, entry.step));
        enter(sql, tenant, &session, place, step, &batch.chain[place], entry).await?;
    }
    let count = "SELECT coalesce(max(number), 0) FROM requests WHERE session = $1 AND tenant = $2";
    let row = sql.row(count, &[session.id.0.into(), tenant.id.into()]).await?;
    let request = row.map_or(Ok(0), |row| row.int(0))? + 1;
    let made = "INSERT INTO requests (session, number, tenant, length, envelope, at) VALUES ($1, $2, $3, $4, $5, $6)";
    let values = [
        session.id.0.into(),
        request.into(),
        tenant.id.into(),
        length.into(),
        envelope.into(),
        batch.at.0.into(),
    ];
    sql.run(made, &values).await?;
    let model = batch.model.as_ref().map(Redacted::as_str);
    let update =
        "UPDATE sessions SET length = $1, model = $2, updated = $3, lead = $4 WHERE id = $5 AND tenant = $6";
    let lead = batch.lead;
    let values =
        [length.into(), model.into(), batch.at.0.into(), lead.into(), session.id.0.into(), tenant.id.into()];
    sql.run(update, &values).await?;
    let (model, updated) = (model.map(str::to_owned), batch.at);
    Ok(Appended::Done { session: Session { length, lead, model, updated, ..session }, new: length - known })
}

/// A session of its own.
async fn begin(sql: &mut dyn Sql, tenant: &Tenant, batch: &Batch) -> Result<Session> {
    let continued = match batch.continues {
        Some(parent) => self::session(sql, tenant, parent).await?,
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

/// How a session comes to be.
pub(super) struct Birth<'p> {
    pub(super) parent: Option<&'p Session>,
    pub(super) begins: usize,
    pub(super) reason: Reason,
    pub(super) head: Option<EpochId>,
}

async fn make(sql: &mut dyn Sql, tenant: &Tenant, birth: &Birth<'_>, batch: &Batch) -> Result<Session> {
    let title = batch.title.as_ref().map(|title| title.as_str().to_owned());
    let model = batch.model.as_ref().map(|model| model.as_str().to_owned());
    born(
        sql,
        tenant,
        birth,
        &Newborn { name: &batch.name, key: &batch.key, dialect: batch.dialect, title, model, at: batch.at },
    )
    .await
}

/// What a new session is like.
pub(super) struct Newborn<'n> {
    pub(super) name: &'n str,
    pub(super) key: &'n SessionKey,
    pub(super) dialect: Dialect,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) at: Moment,
}

pub(super) async fn born(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    birth: &Birth<'_>,
    newborn: &Newborn<'_>,
) -> Result<Session> {
    let make = "INSERT INTO sessions (tenant, name, family, key, parent, begins, reason, state, dialect, model, title, lead, length, head, held, \
                fence, beat, created, updated) VALUES ($1, $2, $3, $4, $5, $6, $7, 'live', $8, $9, $10, $14, $11, $12, 0, 0, 0, $13, $13) RETURNING id";
    let values = [
        tenant.id.into(),
        newborn.name.into(),
        birth.parent.map_or(0, |parent| parent.family).into(),
        newborn.key.bytes().as_slice().into(),
        birth.parent.map(|parent| parent.id.0).into(),
        birth.begins.into(),
        birth.reason.name().into(),
        newborn.dialect.name().into(),
        newborn.model.clone().into(),
        newborn.title.clone().into(),
        birth.begins.into(),
        birth.head.map(|EpochId(head)| head).into(),
        newborn.at.0.into(),
        birth.parent.map_or(0, |parent| parent.lead).into(),
    ];
    let row = sql.row(make, &values).await?;
    let id =
        row.map_or_else(|| Err(StoreError::Failed("a session was not kept".to_owned())), |row| row.int(0))?;
    if birth.parent.is_none() {
        let own = "UPDATE sessions SET family = id WHERE id = $1 AND tenant = $2";
        sql.run(own, &[id.into(), tenant.id.into()]).await?;
    }
    let made = session(sql, tenant, SessionId(id)).await?;
    made.ok_or_else(|| StoreError::Failed("a session was not kept".to_owned()))
}

async fn enter(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    session: &Session,
    place: usize,
    step: i64,
    identity: &Identity,
    entry: &Entry,
) -> Result<()> {
    let number = number(session.id.0, place);
    let blocks: Vec<String> = entry.blocks.iter().map(BlockRow::line).collect();
    let make = "INSERT INTO messages (id, tenant, step, identity, text, blocks, redacted) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let values = [
        number.into(),
        tenant.id.into(),
        step.into(),
        identity.0.as_slice().into(),
        entry.text.as_str().into(),
        blocks.join("\n").into(),
        entry.redacted.into(),
    ];
    sql.run(make, &values).await?;
    for (at, block) in entry.blocks.iter().enumerate() {
        lead(sql, session.family, &block.handle, number, at).await?;
    }
    if !entry.terms.is_empty() {
        sql.run(sql.flavour().enter_terms, &[number.into(), entry.terms.as_str().into()]).await?;
    }
    Ok(())
}

/// Says where a handle leads, if it leads nowhere yet.
pub(super) async fn lead(
    sql: &mut dyn Sql,
    family: i64,
    handle: &str,
    message: i64,
    place: usize,
) -> Result<()> {
    let lead = "INSERT INTO blocks (family, handle, message, place) VALUES ($1, $2, $3, $4) ON CONFLICT (family, handle) DO NOTHING";
    sql.run(lead, &[family.into(), handle.into(), message.into(), place.into()]).await.map(drop)
}

impl Store {
    /// The tenant of that name; one that is new gets a key of its own.
    pub async fn tenant(&self, name: &str) -> Result<Tenant> {
        let (name, fresh) = (name.to_owned(), random()?);
        // Who only reads writes nothing, not even this again.
        let wanted = name.clone();
        let known = self.read(Arc::new(move |sql| {
            let name = wanted.clone();
            Box::pin(async move { known_tenant(sql, &name).await })
        }));
        if let Some(tenant) = known.await? {
            return Ok(tenant);
        }
        self.write(Arc::new(move |sql| {
            let name = name.clone();
            Box::pin(async move { tenant(sql, &name, fresh).await })
        }))
        .await
    }

    /// Writes what is new of a request.
    pub async fn append(&self, tenant: &Tenant, batch: Batch) -> Result<Appended> {
        let shared = Arc::new((tenant.clone(), batch));
        self.write(Arc::new(move |sql| {
            let shared = shared.clone();
            Box::pin(async move { append(sql, &shared.0, &shared.1).await })
        }))
        .await
    }

    /// The session that a history goes on from, and how many of its messages are known.
    pub(super) async fn locate(&self, tenant: &Tenant, chain: &[Identity]) -> Result<Option<Located>> {
        let shared = Arc::new((tenant.clone(), chain.to_owned()));
        self.read(Arc::new(move |sql| {
            let shared = shared.clone();
            Box::pin(async move { locate(sql, &shared.0, &shared.1).await })
        }))
        .await
    }

    /// The same, and whether the store has the envelope of the request, too.
    pub(super) async fn look(
        &self,
        tenant: &Tenant,
        chain: &[Identity],
        envelope: &Envelope,
    ) -> Result<(Option<Located>, bool)> {
        let shared = Arc::new((tenant.clone(), chain.to_owned(), envelope.identity));
        self.read(Arc::new(move |sql| {
            let shared = shared.clone();
            Box::pin(async move {
                let (tenant, chain, envelope) = &*shared;
                let known = envelope::number(sql, tenant, envelope).await?.is_some();
                Ok((locate(sql, tenant, chain).await?, known))
            })
        }))
        .await
    }

    /// How many messages of a history the log has.
    pub async fn knows(&self, tenant: &Tenant, chain: &[Identity]) -> Result<usize> {
        Ok(self.locate(tenant, chain).await?.map_or(0, |located| located.known))
    }

    /// The session of that name, or whose name begins so if there is one only; `latest` is the one written last.
    pub async fn session(&self, tenant: &Tenant, name: &str) -> Result<Session> {
        let shared = Arc::new((tenant.clone(), name.to_owned()));
        self.read(Arc::new(move |sql| {
            let shared = shared.clone();
            Box::pin(async move { named(sql, &shared.0, &shared.1).await })
        }))
        .await
    }

    /// The sessions written last, newest first.
    pub async fn sessions(&self, tenant: &Tenant, most: usize) -> Result<Vec<Session>> {
        let tenant = tenant.clone();
        self.read(Arc::new(move |sql| {
            let tenant = tenant.clone();
            Box::pin(async move {
                let list = format!("{SESSION} WHERE tenant = $1 AND state <> 'deleted' ORDER BY updated DESC, id DESC LIMIT $2");
                let rows = sql.rows(&list, &[tenant.id.into(), most.into()]).await?;
                rows.iter().map(Session::of).collect()
            })
        }))
        .await
    }

    /// The sessions that one descends from, and those that descend from it.
    pub async fn lineage(&self, tenant: &Tenant, session: &Session) -> Result<Lineage> {
        let shared = Arc::new((tenant.clone(), session.clone()));
        self.read(Arc::new(move |sql| {
            let shared = shared.clone();
            Box::pin(async move {
                let (tenant, session) = &*shared;
                let mut ancestors = Vec::new();
                let mut at = session.parent;
                while let Some(id) = at {
                    let Some(parent) = self::session(sql, tenant, id).await? else { break };
                    at = parent.parent;
                    ancestors.push(parent);
                }
                let below =
                    format!("{SESSION} WHERE parent = $1 AND tenant = $2 AND state <> 'deleted' ORDER BY id");
                let rows = sql.rows(&below, &[session.id.0.into(), tenant.id.into()]).await?;
                Ok(Lineage { ancestors, children: rows.iter().map(Session::of).collect::<Result<_>>()? })
            })
        }))
        .await
    }

    /// The requests of a session that brought something new, oldest first.
    pub async fn requests(&self, tenant: &Tenant, session: &Session) -> Result<Vec<Request>> {
        let shared = Arc::new((tenant.id, session.id));
        self.read(Arc::new(move |sql| {
            let (tenant, SessionId(session)) = *shared;
            Box::pin(async move {
                let list = "SELECT number, length, envelope, at FROM requests WHERE session = $1 AND tenant = $2 ORDER BY number";
                let rows = sql.rows(list, &[session.into(), tenant.into()]).await?;
                rows.iter().map(request).collect()
            })
        }))
        .await
    }

    /// Whether every path of the log is whole: what is missing in it, in words.
    pub(super) async fn gaps(&self) -> Result<Vec<String>> {
        self.read(Arc::new(|sql| Box::pin(gaps(sql)))).await
    }
}

pub(super) fn request(row: &Row) -> Result<Request> {
    Ok(Request {
        number: row.count(0)?,
        length: row.count(1)?,
        envelope: row.int(2)?,
        at: Moment(row.int(3)?),
    })
}

async fn named(sql: &mut dyn Sql, tenant: &Tenant, name: &str) -> Result<Session> {
    let unknown =
        || StoreError::Unknown(format!("the store has no session {name}; longhaul sessions lists them"));
    if name == "latest" {
        let newest = format!(
            "{SESSION} WHERE tenant = $1 AND state <> 'deleted' ORDER BY updated DESC, id DESC LIMIT 1"
        );
        let row = sql.row(&newest, &[tenant.id.into()]).await?;
        return row.map(|row| Session::of(&row)).transpose()?.ok_or_else(unknown);
    }
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(unknown());
    }
    let find =
        format!("{SESSION} WHERE tenant = $1 AND name LIKE $2 AND state <> 'deleted' ORDER BY name LIMIT 3");
    let rows = sql.rows(&find, &[tenant.id.into(), format!("{name}%").into()]).await?;
    let mut sessions = rows.iter().map(Session::of).collect::<Result<Vec<_>>>()?;
    match sessions.iter().position(|session| session.name == name) {
        Some(exact) => Ok(sessions.swap_remove(exact)),
        None if sessions.len() > 1 => {
            Err(StoreError::Wrong(format!("several sessions begin with {name}; type more of the name")))
        }
        None => sessions.pop().ok_or_else(unknown),
    }
}

async fn gaps(sql: &mut dyn Sql) -> Result<Vec<String>> {
    let mut gaps = Vec::new();
    let list = "SELECT s.name, s.begins, s.length, s.id, s.state FROM sessions s ORDER BY s.id";
    for row in sql.rows(list, &[]).await? {
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

/// Random bytes of the system.
pub(super) fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Failed(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// A name for a new session: ten letters and digits.
pub(super) fn random_name() -> Result<String> {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    Ok(random()?.iter().take(10).map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

/// Values for a list of places in a statement.
pub(super) fn placeholders(first: usize, count: usize) -> String {
    (first..first + count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}
