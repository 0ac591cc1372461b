//! What a handle leads to: one block as it was before it was removed, with what stood around it.

use longhaul_engine::redact::Redacted;
use longhaul_engine::{Dialect, wire};

use super::error::{Result, StoreError};
use super::message::{self, BlockRow, Stored};
use super::schema::session_and_place;
use super::session::{self, Session, SessionId};
use super::sql::Sql;
use super::tenant::Tenant;
use super::{Store, work};

/// How much of a neighbour is shown.
const EXCERPT: usize = 160;

/// A block that was fetched again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    /// What fetched it.
    pub handle: String,
    /// The session that it is of.
    pub session: String,
    /// The place of its message; nothing for what a compaction had written itself.
    pub at: Option<usize>,
    /// What it is.
    pub what: String,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// Its text, word for word but for secrets.
    pub text: Redacted,
    /// Whether secrets were taken out of its message.
    pub redacted: bool,
    /// The block before it,
    pub before: Option<Neighbour>,
    /// and the one behind it.
    pub behind: Option<Neighbour>,
}

/// A block beside another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// What fetches it.
    pub handle: String,
    /// What it is.
    pub what: String,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// How it begins.
    pub excerpt: Redacted,
}

/// The texts of a stored message's blocks, in the order of its list of blocks.
pub(super) fn texts(dialect: Dialect, stored: &Stored) -> Vec<String> {
    let list = format!("[{}]", stored.text);
    let texts = wire::parse(dialect, &list).ok().and_then(|(transcript, _)| {
        let parts = transcript.parts_by_message(0..1).pop()?;
        let text = |block: &longhaul_engine::transcript::Block<'_>| match block.text {
            Some(_) => block.text().into_owned(),
            None => block.raw().to_owned(),
        };
        Some(parts.iter().map(|part| text(part.block)).collect::<Vec<_>>())
    });
    // A message that reads otherwise by itself than in its place is given whole.
    texts
        .filter(|texts| texts.len() == stored.blocks.len())
        .unwrap_or_else(|| vec![stored.text.to_string(); stored.blocks.len()])
}

async fn recall(
    sql: &mut dyn Sql,
    tenant: &Tenant,
    within: Option<&Session>,
    handle: &str,
) -> Result<Recalled> {
    let unknown = || {
        let whose =
            within.map_or_else(|| "the store".to_owned(), |session| format!("session {}", session.name));
        StoreError::Unknown(format!(
            "{whose} has no block {handle}; handles stand in digests, checkpoints and search results"
        ))
    };
    if !handle.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(unknown());
    }
    let family = within.map_or(0, |session| session.family);
    let of_family = if within.is_some() { " AND b.family = $3" } else { " AND CAST($3 AS BIGINT) = 0" };
    // Families are named after their first session, so a family is the tenant's if that one is.
    let find = format!(
        "SELECT b.message, b.place FROM blocks b JOIN sessions s ON s.id = b.family WHERE b.handle = $1 AND s.tenant = $2{of_family} LIMIT 1"
    );
    let values = [handle.into(), tenant.id.into(), family.into()];
    if let Some(row) = sql.row(&find, &values).await? {
        let (owner, at) = session_and_place(row.int(0)?);
        let owner = session::session(sql, tenant, SessionId(owner)).await?.ok_or_else(unknown)?;
        let place = row.count(1)?;
        let around = message::messages(sql, tenant, &owner, at.saturating_sub(1)..at + 2).await?;
        return in_message(&owner, &around, at, place).ok_or_else(unknown);
    }
    let remains = format!(
        "SELECT b.what, b.text, b.session FROM remains b JOIN sessions s ON s.id = b.family \
         WHERE b.handle = $1 AND s.tenant = $2{of_family} LIMIT 1"
    );
    let row = sql.row(&remains, &values).await?.ok_or_else(unknown)?;
    let session = session::session(sql, tenant, SessionId(row.int(2)?)).await?.ok_or_else(unknown)?;
    Ok(Recalled {
        handle: handle.to_owned(),
        session: session.name,
        at: None,
        what: row.text(0)?,
        tool: None,
        redacted: row.text(1)?.contains("[REDACTED:"),
        text: Redacted::from_store(row.text(1)?),
        before: None,
        behind: None,
    })
}

fn in_message(session: &Session, around: &[Stored], at: usize, place: usize) -> Option<Recalled> {
    let mut blocks: Vec<(usize, usize, &BlockRow, String)> = Vec::new();
    for stored in around {
        let texts = texts(session.dialect, stored);
        let rows = stored.blocks.iter().zip(texts).enumerate();
        blocks.extend(rows.map(|(place, (row, text))| (stored.place, place, row, text)));
    }
    let found = blocks.iter().position(|(message, block, ..)| (*message, *block) == (at, place))?;
    let neighbour = |(_, _, row, text): &(usize, usize, &BlockRow, String)| Neighbour {
        handle: row.handle.clone(),
        what: row.what.clone(),
        tool: row.tool.clone(),
        excerpt: Redacted::from_store(text.clone()).on_one_line(EXCERPT),
    };
    let (_, _, row, text) = &blocks[found];
    Some(Recalled {
        handle: row.handle.clone(),
        session: session.name.clone(),
        at: Some(at + session.lead),
        what: row.what.clone(),
        tool: row.tool.clone(),
        text: Redacted::from_store(text.clone()),
        redacted: around.iter().any(|stored| stored.place == at && stored.redacted),
        before: found.checked_sub(1).map(|before| neighbour(&blocks[before])),
        behind: blocks.get(found + 1).map(neighbour),
    })
}

impl Store {
    /// The block that a handle leads to, of one session's family or of all that the tenant has.
    pub async fn recall(&self, tenant: &Tenant, within: Option<&Session>, handle: &str) -> Result<Recalled> {
        let with = (tenant.clone(), within.cloned(), handle.to_owned());
        self.read(work(with, |sql, (tenant, within, handle)| {
            Box::pin(recall(sql, tenant, within.as_ref(), handle))
        }))
        .await
    }
}
