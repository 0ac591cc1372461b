//! The keys that the gateway hands out: each lets somebody in as a tenant, within limits.
//!
//! ```text
//! lh-mJ3v…  ──shape──▶ hash ──one indexed read──▶ Granted: the tenant, the key's number, its limits
//! ```
//!
//! Only a hash of a key is kept, so whoever reads the store cannot come in by it. A key is found by its hash: nothing that is
//! compared takes longer the more of a key was guessed. What does not have the shape of a key is none, before anything is asked of
//! the database. How much a key used is counted by the day, and the days are the caller's.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::identity::Identity;

use super::error::{Result, StoreError};
use super::secret::{Secret, hash};
use super::sql::{MOST_TOKENS, Row, Sql};
use super::tenant::{self, Tenant};
use super::{Store, work};
use crate::agents::Moment;

/// The longest name of a key or of a tenant.
const LONGEST_NAME: usize = 100;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// A day, counted from the first one of 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

impl Day {
    /// The day of a moment.
    #[must_use]
    pub fn of(at: Moment) -> Self {
        Self(at.0.div_euclid(DAY))
    }

    /// How much of it is left at a moment of it.
    #[must_use]
    pub fn left(self, at: Moment) -> Duration {
        let end = self.0.saturating_add(1).saturating_mul(DAY);
        Duration::from_millis(u64::try_from(end.saturating_sub(at.0)).unwrap_or_default())
    }
}

/// `2026-05-04`.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = Moment(self.0.saturating_mul(DAY)).to_string();
        f.write_str(moment.split('T').next().unwrap_or_default())
    }
}

/// The number of a key in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(i64);

/// How much a key allows; what is nothing is without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// So many requests in a minute.
    pub requests_per_minute: Option<u32>,
    /// So many tokens in a day.
    pub tokens_per_day: Option<Tokens>,
}

impl Limits {
    /// Of a row that has both from a column on.
    fn of(row: &Row, column: usize) -> Result<Self> {
        let requests = row.maybe_int(column)?.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Ok(Self { requests_per_minute: requests, tokens_per_day: row.maybe_tokens(column + 1)? })
    }
}

/// Who a key lets in.
#[derive(Debug, Clone)]
pub struct Granted {
    /// As whom.
    pub tenant: Tenant,
    /// By which key.
    pub id: KeyId,
    /// What people call that key by.
    pub name: String,
    /// How much it allows.
    pub limits: Limits,
}

/// A key as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Its number.
    pub id: KeyId,
    /// What people call it by.
    pub name: String,
    /// How it begins.
    pub prefix: String,
    /// Whose sessions it leads to.
    pub tenant: String,
    /// How much it allows.
    pub limits: Limits,
    /// When it was made.
    pub created: Moment,
    /// When it was used last, and how much on that day.
    pub used: Option<Used>,
    /// When it was revoked.
    pub revoked: Option<Moment>,
}

/// How much a key used on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// The day.
    pub day: Day,
    /// The tokens.
    pub tokens: Tokens,
}

/// What a key is made of.
struct NewKey {
    tenant: String,
    /// The key of the tenant, if it is new, too.
    fresh: [u8; 32],
    name: String,
    hash: Identity,
    prefix: String,
    limits: Limits,
    at: Moment,
}

fn named<'n>(what: &str, name: &'n str) -> Result<&'n str> {
    let wrong =
        name.trim().is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control);
    if wrong {
        let rule = format!("1 to {LONGEST_NAME} characters, none of them a control character");
        return Err(StoreError::Wrong(format!("the name of a {what} has {rule}; choose another")));
    }
    Ok(name.trim())
}

async fn add(sql: &mut dyn Sql, new: &NewKey) -> Result<()> {
    let tenant = tenant::tenant(sql, &new.tenant, new.fresh).await?;
    let add = "INSERT INTO keys (tenant, hash, prefix, name, requests_per_minute, tokens_per_day, created) \
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
    let values = [
        tenant.id.into(),
        new.hash.0.as_slice().into(),
        new.prefix.as_str().into(),
        new.name.as_str().into(),
        new.limits.requests_per_minute.map(i64::from).into(),
        new.limits.tokens_per_day.into(),
        new.at.0.into(),
    ];
    if sql.run(add, &values).await? == 0 {
        let name = &new.name;
        return Err(StoreError::Wrong(format!(
            "there is a key {name} already; revoke it first, or choose another name"
        )));
    }
    Ok(())
}

async fn granted(sql: &mut dyn Sql, hash: &Identity) -> Result<Option<Granted>> {
    let find = "SELECT t.id, t.name, t.key, k.id, k.name, k.requests_per_minute, k.tokens_per_day \
                FROM keys k JOIN tenants t ON t.id = k.tenant WHERE k.hash = $1 AND k.revoked IS NULL";
    let row = sql.row(find, &[hash.0.as_slice().into()]).await?;
    row.map(|row| {
        let (tenant, limits) = (Tenant::of(&row, 0)?, Limits::of(&row, 5)?);
        Ok(Granted { tenant, id: KeyId(row.int(3)?), name: row.text(4)?, limits })
    })
    .transpose()
}

async fn list(sql: &mut dyn Sql) -> Result<Vec<KeyRow>> {
    let list = "SELECT k.id, k.name, k.prefix, t.name, k.requests_per_minute, k.tokens_per_day, k.created, k.revoked, \
                u.day, u.tokens FROM keys k JOIN tenants t ON t.id = k.tenant \
                LEFT JOIN uses u ON u.key = k.id AND u.day = (SELECT max(day) FROM uses WHERE key = k.id) ORDER BY k.id";
    let row = |row: &Row| {
        let used = match (row.maybe_int(8)?, row.maybe_tokens(9)?) {
            (Some(day), Some(tokens)) => Some(Used { day: Day(day), tokens }),
            _ => None,
        };
        Ok(KeyRow {
            id: KeyId(row.int(0)?),
            name: row.text(1)?,
            prefix: row.text(2)?,
            tenant: row.text(3)?,
            limits: Limits::of(row, 4)?,
            created: Moment(row.int(6)?),
            used,
            revoked: row.maybe_int(7)?.map(Moment),
        })
    };
    sql.rows(list, &[]).await?.iter().map(row).collect()
}

async fn revoke(sql: &mut dyn Sql, name: &str, at: Moment) -> Result<()> {
    let revoke = "UPDATE keys SET revoked = $2 WHERE name = $1 AND revoked IS NULL";
    match sql.run(revoke, &[name.into(), at.0.into()]).await? {
        0 => Err(StoreError::Unknown(format!(
            "there is no key {name} in force; longhaul keys list shows them"
        ))),
        _ => Ok(()),
    }
}

async fn any(sql: &mut dyn Sql) -> Result<bool> {
    Ok(sql.row("SELECT id FROM keys LIMIT 1", &[]).await?.is_some())
}

/// Adds tokens to what a key used on a day, or takes some off, and says how many that makes.
async fn add_use(sql: &mut dyn Sql, id: KeyId, more: i64, day: Day) -> Result<Tokens> {
    let used = "INSERT INTO uses (key, day, tokens) SELECT id, $2, $3 FROM keys WHERE id = $1 \
                ON CONFLICT (key, day) DO UPDATE SET tokens = uses.tokens + excluded.tokens RETURNING tokens";
    let row = sql.row(used, &[id.0.into(), day.0.into(), more.into()]).await?;
    row.map_or_else(|| Err(StoreError::Unknown("the key is gone".to_owned())), |row| row.tokens(0))
}

/// Adds tokens to what a key used on a day, unless that has reached a limit already.
async fn reserve(sql: &mut dyn Sql, id: KeyId, tokens: Tokens, most: Tokens, day: Day) -> Result<bool> {
    let reserve = "INSERT INTO uses (key, day, tokens) SELECT id, $2, $3 FROM keys WHERE id = $1 \
                   ON CONFLICT (key, day) DO UPDATE SET tokens = uses.tokens + excluded.tokens \
                   WHERE uses.tokens < $4 RETURNING tokens";
    let values = [id.0.into(), day.0.into(), tokens.into(), most.into()];
    Ok(most > Tokens::ZERO && sql.row(reserve, &values).await?.is_some())
}

async fn used(sql: &mut dyn Sql, id: KeyId, day: Day) -> Result<Tokens> {
    let used = "SELECT tokens FROM uses WHERE key = $1 AND day = $2";
    let row = sql.row(used, &[id.0.into(), day.0.into()]).await?;
    row.map_or(Ok(Tokens::ZERO), |row| row.tokens(0))
}

/// Tokens as a number that can be subtracted, and added up without overflowing a column.
fn signed(tokens: Tokens) -> i64 {
    tokens.number().min(MOST_TOKENS).cast_signed()
}

impl Store {
    /// Makes a key that lets somebody in as a tenant, and the tenant where it is new. The store does not keep what it gives.
    ///
    /// # Errors
    /// A name that a key in force has, or that is none.
    pub async fn add_key(&self, tenant: &str, name: &str, limits: Limits, at: Moment) -> Result<Secret> {
        let (tenant, name) = (named("tenant", tenant)?.to_owned(), named("key", name)?.to_owned());
        let secret = Secret::of(tenant::random()?);
        let no_key = || StoreError::Failed("a key was made that is none".to_owned());
        let hash = hash(secret.reveal()).ok_or_else(no_key)?;
        let prefix = secret.prefix();
        let new = NewKey { tenant, fresh: tenant::random()?, name, hash, prefix, limits, at };
        self.write(work(new, |sql, new| Box::pin(add(sql, new)))).await?;
        Ok(secret)
    }

    /// Who a key lets in; nobody, where it is unknown, revoked, or no key at all.
    pub async fn key(&self, typed: &str) -> Result<Option<Granted>> {
        let Some(hash) = hash(typed) else { return Ok(None) };
        self.read(work(hash, |sql, hash| Box::pin(granted(sql, hash)))).await
    }

    /// All keys, the revoked ones too, in the order in which they were made.
    pub async fn keys(&self) -> Result<Vec<KeyRow>> {
        self.read(work((), |sql, ()| Box::pin(list(sql)))).await
    }

    /// Lets nobody in any more by the key of that name.
    ///
    /// # Errors
    /// No key in force has the name.
    pub async fn revoke_key(&self, name: &str, at: Moment) -> Result<()> {
        let with = (name.trim().to_owned(), at);
        self.write(work(with, |sql, (name, at)| Box::pin(revoke(sql, name, *at)))).await
    }

    /// Whether any key was ever made. A revoked one counts, so that a gateway is closed, not open to all, when its last key goes.
    pub async fn has_keys(&self) -> Result<bool> {
        self.read(work((), |sql, ()| Box::pin(any(sql)))).await
    }

    /// Counts tokens that a key used on a day, and says how many it used on that day so far.
    pub async fn use_key(&self, id: KeyId, tokens: Tokens, day: Day) -> Result<Tokens> {
        let with = (id, signed(tokens), day);
        self.write(work(with, |sql, (id, more, day)| Box::pin(add_use(sql, *id, *more, *day)))).await
    }

    /// The tokens that a key used on a day so far, those that are reserved among them.
    pub async fn used_by_key(&self, id: KeyId, day: Day) -> Result<Tokens> {
        self.read(work((id, day), |sql, (id, day)| Box::pin(used(sql, *id, *day)))).await
    }

    /// Counts tokens that a key is about to use, in one step with the check of its limit: false if the limit was reached before them.
    pub async fn reserve_for_key(&self, id: KeyId, tokens: Tokens, most: Tokens, day: Day) -> Result<bool> {
        let with = (id, tokens, most, day);
        self.write(work(with, |sql, (id, tokens, most, day)| {
            Box::pin(reserve(sql, *id, *tokens, *most, *day))
        }))
        .await
    }

    /// Replaces tokens that were reserved for a key by those that it spent.
    pub async fn settle_key(&self, id: KeyId, reserved: Tokens, spent: Tokens, day: Day) -> Result<Tokens> {
        let with = (id, signed(spent).saturating_sub(signed(reserved)), day);
        self.write(work(with, |sql, (id, more, day)| Box::pin(add_use(sql, *id, *more, *day)))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let day = Day::of(Moment::parse("2026-05-04T23:59:59Z").unwrap());
        assert_eq!(day.to_string(), "2026-05-04");
        assert_eq!(Day::of(Moment::parse("2026-05-05T00:00:00Z").unwrap()), Day(day.0 + 1));
        assert_eq!(day.left(Moment::parse("2026-05-04T23:00:00Z").unwrap()), Duration::from_hours(1));
    }
}
