//! A session: what is known of it beside its messages and its views.

use std::str::FromStr;

use longhaul_engine::Dialect;
use longhaul_engine::redact::SessionKey;

use super::epochs::EpochId;
use super::error::{Result, StoreError};
use super::sql::{Row, Sql};
use super::tenant::Tenant;
use super::{Store, work};
use crate::agents::Moment;

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

pub(super) const SESSION: &str = "SELECT id, name, family, key, parent, begins, reason, state, dialect, model, title, length, head, held, created, updated, lead \
                       FROM sessions";

impl Session {
    /// How many messages its newest body has, the system prompt's among them.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.lead + self.length
    }

    pub(super) fn of(row: &Row) -> Result<Self> {
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

/// The sessions that one descends from, and those that descend from it.
#[derive(Debug, Clone)]
pub struct Lineage {
    /// From its parent up to the first.
    pub ancestors: Vec<Session>,
    /// Those that begin with it, one generation down.
    pub children: Vec<Session>,
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

/// How a session comes to be.
pub(super) struct Birth<'p> {
    pub(super) parent: Option<&'p Session>,
    pub(super) begins: usize,
    pub(super) reason: Reason,
    pub(super) head: Option<EpochId>,
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
    session(sql, tenant, SessionId(id))
        .await?
        .ok_or_else(|| StoreError::Failed("a session was not kept".to_owned()))
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

async fn newest(sql: &mut dyn Sql, tenant: &Tenant, most: usize) -> Result<Vec<Session>> {
    let list =
        format!("{SESSION} WHERE tenant = $1 AND state <> 'deleted' ORDER BY updated DESC, id DESC LIMIT $2");
    let rows = sql.rows(&list, &[tenant.id.into(), most.into()]).await?;
    rows.iter().map(Session::of).collect()
}

async fn lineage(sql: &mut dyn Sql, tenant: &Tenant, session: &Session) -> Result<Lineage> {
    let (mut ancestors, mut at) = (Vec::new(), session.parent);
    while let Some(id) = at {
        let Some(parent) = self::session(sql, tenant, id).await? else { break };
        at = parent.parent;
        ancestors.push(parent);
    }
    let below = format!("{SESSION} WHERE parent = $1 AND tenant = $2 AND state <> 'deleted' ORDER BY id");
    let rows = sql.rows(&below, &[session.id.0.into(), tenant.id.into()]).await?;
    Ok(Lineage { ancestors, children: rows.iter().map(Session::of).collect::<Result<_>>()? })
}

impl Store {
    /// The session of that name, or whose name begins so if there is one only; `latest` is the one written last.
    pub async fn session(&self, tenant: &Tenant, name: &str) -> Result<Session> {
        let with = (tenant.clone(), name.to_owned());
        self.read(work(with, |sql, (tenant, name)| Box::pin(named(sql, tenant, name)))).await
    }

    /// A session as it stands now; nothing where it is gone.
    pub async fn session_now(&self, tenant: &Tenant, id: SessionId) -> Result<Option<Session>> {
        self.read(work((tenant.clone(), id), |sql, (tenant, id)| Box::pin(session(sql, tenant, *id)))).await
    }

    /// The sessions written last, newest first.
    pub async fn sessions(&self, tenant: &Tenant, most: usize) -> Result<Vec<Session>> {
        self.read(work((tenant.clone(), most), |sql, (tenant, most)| Box::pin(newest(sql, tenant, *most))))
            .await
    }

    /// The sessions that one descends from, and those that descend from it.
    pub async fn lineage(&self, tenant: &Tenant, session: &Session) -> Result<Lineage> {
        let with = (tenant.clone(), session.clone());
        self.read(work(with, |sql, (tenant, session)| Box::pin(lineage(sql, tenant, session)))).await
    }
}
