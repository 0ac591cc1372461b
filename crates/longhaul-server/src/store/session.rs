//! The rows of sessions: all that the store knows of a session apart from its messages and compactions.

use std::str::FromStr;

use longhaul_engine::ApiFormat;
use longhaul_engine::redact::SessionKey;

use super::compactions::CompactionId;
use super::error::{Result, StoreError};
use super::sql::{Row, Sql};
use super::tenant::Tenant;
use super::{Store, in_transaction};
use longhaul_engine::Timestamp;

/// The row ID of a session in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(super) i64);

/// The event that started a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOrigin {
    /// The first message was new.
    New,
    /// The client changed an earlier message of its parent.
    Fork,
    /// Its parent no longer fitted into the context window and was archived.
    Restart,
    /// The client continued from a request body that a compaction of its parent had produced.
    Continued,
}

impl SessionOrigin {
    const ALL: [Self; 4] = [Self::New, Self::Fork, Self::Restart, Self::Continued];

    /// Returns the word that the store and `--json` use.
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

/// The stage of a session's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// It may receive more messages.
    Live,
    /// It ended, and a restarted session continues it.
    Archived,
    /// It was deleted, but another session still shares its first messages.
    Deleted,
}

impl SessionStatus {
    const ALL: [Self; 3] = [Self::Live, Self::Archived, Self::Deleted];

    /// Returns the word that the store and `--json` use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
        }
    }
}

/// A session as the store has it.
#[derive(Debug, Clone)]
pub struct StoredSession {
    /// The row ID.
    pub id: SessionId,
    /// The name that people type: ten random letters and digits.
    pub name: String,
    /// The row ID of the oldest ancestor. All sessions of a family share their key and their recall IDs.
    pub(super) family: i64,
    /// The secret key that makes recall IDs and checkpoint markers unforgeable.
    pub key: SessionKey,
    /// The session whose first messages it shares, or whose compaction it continues.
    pub parent: Option<SessionId>,
    /// The position of its first own message: it shares all messages before this position with its parent.
    pub first_own_message: usize,
    /// The event that started it.
    pub origin: SessionOrigin,
    /// The stage of its life.
    pub status: SessionStatus,
    /// The API format of its requests.
    pub api_format: ApiFormat,
    /// The model that the newest request named.
    pub model: Option<String>,
    /// The beginning of the first user message, as a title for people.
    pub title: Option<String>,
    /// The number of messages on its path, without the messages of the system prompt.
    pub path_length: usize,
    /// The number of system prompt messages in its newest request. The index of a message in a request body
    /// is its position on the path plus this number.
    pub system_message_count: usize,
    /// The active compaction, or `None` if the history applies as the client sent it.
    pub head: Option<CompactionId>,
    /// Whether the newest change of the head was an undo. Longhaul then compacts only what does not fit
    /// otherwise.
    pub is_undone: bool,
    /// The time when it was created.
    pub created: Timestamp,
    /// The time when it was last written.
    pub updated: Timestamp,
}

pub(super) const SELECT_SESSION: &str = "SELECT id, name, family, key, parent, begins, reason, state, dialect, model, title, length, head, held, created, updated, lead \
                       FROM sessions";

impl StoredSession {
    /// Returns the number of messages in its newest request body, including those of the system prompt.
    #[must_use]
    pub fn body_message_count(&self) -> usize {
        self.system_message_count + self.path_length
    }

    pub(super) fn from_row(row: &Row) -> Result<Self> {
        let unknown =
            |what: &str, word: &str| StoreError::Damaged(format!("a session has the unknown {what} '{word}'"));
        let (origin, status, api_format) = (row.text(6)?, row.text(7)?, row.text(8)?);
        Ok(Self {
            id: SessionId(row.int(0)?),
            name: row.text(1)?,
            family: row.int(2)?,
            key: SessionKey::new(row.key_bytes(3)?),
            parent: row.maybe_int(4)?.map(SessionId),
            first_own_message: row.count(5)?,
            origin: SessionOrigin::ALL
                .into_iter()
                .find(|r| r.name() == origin)
                .ok_or_else(|| unknown("reason", &origin))?,
            status: SessionStatus::ALL
                .into_iter()
                .find(|s| s.name() == status)
                .ok_or_else(|| unknown("state", &status))?,
            api_format: ApiFormat::from_str(&api_format).map_err(|_| unknown("dialect", &api_format))?,
            model: row.maybe_text(9)?,
            title: row.maybe_text(10)?,
            path_length: row.count(11)?,
            head: row.maybe_int(12)?.map(CompactionId),
            is_undone: row.int(13)? != 0,
            created: Timestamp(row.int(14)?),
            updated: Timestamp(row.int(15)?),
            system_message_count: row.count(16)?,
        })
    }
}

/// The ancestors and the children of a session.
#[derive(Debug, Clone)]
pub struct Lineage {
    /// The ancestors, from the parent to the oldest.
    pub ancestors: Vec<StoredSession>,
    /// The sessions whose parent it is.
    pub children: Vec<StoredSession>,
}

pub(super) async fn find_session(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId) -> Result<Option<StoredSession>> {
    let find = format!("{SELECT_SESSION} WHERE id = $1 AND tenant = $2");
    sql.row(&find, &[id.0.into(), tenant.id.into()]).await?.map(|row| StoredSession::from_row(&row)).transpose()
}

/// Reads a session and locks its row until the transaction ends. Fails if the session does not exist.
pub(super) async fn lock_session(sql: &mut dyn Sql, tenant: &Tenant, id: SessionId) -> Result<StoredSession> {
    let find = format!("{SELECT_SESSION} WHERE id = $1 AND tenant = $2{}", sql.dialect().for_update);
    let row = sql.row(&find, &[id.0.into(), tenant.id.into()]).await?;
    row.map(|row| StoredSession::from_row(&row))
        .transpose()?
        .ok_or_else(|| StoreError::NotFound("the session was deleted".to_owned()))
}

/// A session that is about to be stored.
pub(super) struct NewSession<'n> {
    pub(super) parent: Option<&'n StoredSession>,
    pub(super) first_own_message: usize,
    pub(super) origin: SessionOrigin,
    pub(super) head: Option<CompactionId>,
    pub(super) name: &'n str,
    pub(super) key: &'n SessionKey,
    pub(super) api_format: ApiFormat,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) created: Timestamp,
}

pub(super) async fn insert_session(sql: &mut dyn Sql, tenant: &Tenant, new: &NewSession<'_>) -> Result<StoredSession> {
    let insert = "INSERT INTO sessions (tenant, name, family, key, parent, begins, reason, state, dialect, model, title, lead, length, head, held, \
                fence, beat, created, updated) VALUES ($1, $2, $3, $4, $5, $6, $7, 'live', $8, $9, $10, $14, $11, $12, 0, 0, 0, $13, $13) RETURNING id";
    let values = [
        tenant.id.into(),
        new.name.into(),
        new.parent.map_or(0, |parent| parent.family).into(),
        new.key.bytes().as_slice().into(),
        new.parent.map(|parent| parent.id.0).into(),
        new.first_own_message.into(),
        new.origin.name().into(),
        new.api_format.name().into(),
        new.model.clone().into(),
        new.title.clone().into(),
        new.first_own_message.into(),
        new.head.map(|CompactionId(head)| head).into(),
        new.created.0.into(),
        new.parent.map_or(0, |parent| parent.system_message_count).into(),
    ];
    let row = sql.row(insert, &values).await?;
    let id = row.map_or_else(
        || Err(StoreError::Failed("internal error: a session was not stored".to_owned())),
        |row| row.int(0),
    )?;
    if new.parent.is_none() {
        let set_family = "UPDATE sessions SET family = id WHERE id = $1 AND tenant = $2";
        sql.run(set_family, &[id.into(), tenant.id.into()]).await?;
    }
    find_session(sql, tenant, SessionId(id))
        .await?
        .ok_or_else(|| StoreError::Failed("internal error: a session was not stored".to_owned()))
}

async fn find_by_name_or_prefix(sql: &mut dyn Sql, tenant: &Tenant, name: &str) -> Result<StoredSession> {
    let unknown =
        || StoreError::NotFound(format!("the store has no session {name}; run longhaul sessions to list them"));
    if name == "latest" {
        let newest =
            format!("{SELECT_SESSION} WHERE tenant = $1 AND state <> 'deleted' ORDER BY updated DESC, id DESC LIMIT 1");
        let row = sql.row(&newest, &[tenant.id.into()]).await?;
        return row.map(|row| StoredSession::from_row(&row)).transpose()?.ok_or_else(unknown);
    }
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(unknown());
    }
    let find =
        format!("{SELECT_SESSION} WHERE tenant = $1 AND name LIKE $2 AND state <> 'deleted' ORDER BY name LIMIT 3");
    let rows = sql.rows(&find, &[tenant.id.into(), format!("{name}%").into()]).await?;
    let mut sessions = rows.iter().map(StoredSession::from_row).collect::<Result<Vec<_>>>()?;
    match sessions.iter().position(|session| session.name == name) {
        Some(exact) => Ok(sessions.swap_remove(exact)),
        None if sessions.len() > 1 => {
            Err(StoreError::InvalidInput(format!("several sessions begin with {name}; type more of the name")))
        }
        None => sessions.pop().ok_or_else(unknown),
    }
}

async fn list_newest(sql: &mut dyn Sql, tenant: &Tenant, max_sessions: usize) -> Result<Vec<StoredSession>> {
    let list =
        format!("{SELECT_SESSION} WHERE tenant = $1 AND state <> 'deleted' ORDER BY updated DESC, id DESC LIMIT $2");
    let rows = sql.rows(&list, &[tenant.id.into(), max_sessions.into()]).await?;
    rows.iter().map(StoredSession::from_row).collect()
}

async fn read_lineage(sql: &mut dyn Sql, tenant: &Tenant, session: &StoredSession) -> Result<Lineage> {
    let (mut ancestors, mut at) = (Vec::new(), session.parent);
    while let Some(id) = at {
        let Some(parent) = self::find_session(sql, tenant, id).await? else { break };
        at = parent.parent;
        ancestors.push(parent);
    }
    let list_children =
        format!("{SELECT_SESSION} WHERE parent = $1 AND tenant = $2 AND state <> 'deleted' ORDER BY id");
    let rows = sql.rows(&list_children, &[session.id.0.into(), tenant.id.into()]).await?;
    Ok(Lineage { ancestors, children: rows.iter().map(StoredSession::from_row).collect::<Result<_>>()? })
}

impl Store {
    /// Finds a session by its name, or by a prefix that only one name has. `latest` finds the session that
    /// was written last.
    pub async fn session_by_name(&self, tenant: &Tenant, name: &str) -> Result<StoredSession> {
        let arguments = (tenant.clone(), name.to_owned());
        self.read(in_transaction(arguments, |sql, (tenant, name)| Box::pin(find_by_name_or_prefix(sql, tenant, name))))
            .await
    }

    /// Reads a session by its row ID; `None` if there is no such row. A deleted session whose messages others share
    /// still has one, with the status [`SessionStatus::Deleted`].
    pub async fn session_by_id(&self, tenant: &Tenant, id: SessionId) -> Result<Option<StoredSession>> {
        self.read(in_transaction((tenant.clone(), id), |sql, (tenant, id)| Box::pin(find_session(sql, tenant, *id))))
            .await
    }

    /// Lists the sessions that were written last, newest first, at most `max_sessions`.
    pub async fn sessions(&self, tenant: &Tenant, max_sessions: usize) -> Result<Vec<StoredSession>> {
        self.read(in_transaction((tenant.clone(), max_sessions), |sql, (tenant, max_sessions)| {
            Box::pin(list_newest(sql, tenant, *max_sessions))
        }))
        .await
    }

    /// Reads the ancestors and the children of a session.
    pub async fn lineage(&self, tenant: &Tenant, session: &StoredSession) -> Result<Lineage> {
        let arguments = (tenant.clone(), session.clone());
        self.read(in_transaction(arguments, |sql, (tenant, session)| Box::pin(read_lineage(sql, tenant, session))))
            .await
    }
}
