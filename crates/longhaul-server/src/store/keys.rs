//! The keys that the gateway gives to its clients. Each key signs its client in as a tenant, within limits.
//!
//! ```text
//! lh-mJ3v…  ──format──▶ hash ──one indexed read──▶ KeyGrant: the tenant, the key's ID, its limits
//! ```
//!
//! Only a hash of a key is stored, so nobody who reads the store can sign in with it. A key is looked up by
//! its hash, so the time of a look-up does not reveal how much of a guessed key is right. Texts without the
//! format of a key are refused before any query. The tokens of a key are counted by UTC day; the caller says
//! which day it is.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::keyed_hash::KeyedHash;

use super::error::{Result, StoreError};
use super::gateway_key::{GatewayKey, hash_key};
use super::sql::{MAX_TOKENS, Row, Sql};
use super::tenant::{self, Tenant};
use super::{Store, in_transaction};
use longhaul_engine::Timestamp;

/// The characters that the name of a key or of a tenant may have at most. Chosen by hand.
const MAX_NAME_CHARS: usize = 100;

/// The milliseconds of a day.
const MILLIS_PER_DAY: i64 = 86_400_000;

/// A UTC day, as the number of days since 1 January 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcDay(pub i64);

impl UtcDay {
    /// Returns the day that contains a time.
    #[must_use]
    pub fn containing(at: Timestamp) -> Self {
        Self(at.0.div_euclid(MILLIS_PER_DAY))
    }

    /// Returns the time at which the day begins.
    #[must_use]
    pub fn start(self) -> Timestamp {
        Timestamp(self.0.saturating_mul(MILLIS_PER_DAY))
    }

    /// Returns the time until the end of the day.
    #[must_use]
    pub fn time_left(self, at: Timestamp) -> Duration {
        let end = self.0.saturating_add(1).saturating_mul(MILLIS_PER_DAY);
        Duration::from_millis(u64::try_from(end.saturating_sub(at.0)).unwrap_or_default())
    }
}

/// Formats the day as `2026-05-04`.
impl fmt::Display for UtcDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = Timestamp(self.0.saturating_mul(MILLIS_PER_DAY)).to_string();
        f.write_str(time.split('T').next().unwrap_or_default())
    }
}

/// The row ID of a key in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(i64);

/// The limits of a key; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyLimits {
    /// The requests that are allowed in a minute.
    pub requests_per_minute: Option<u32>,
    /// The tokens that are allowed in a UTC day.
    pub tokens_per_day: Option<Tokens>,
}

impl KeyLimits {
    /// Reads both limits from a row, starting at a column.
    fn from_row(row: &Row, column: usize) -> Result<Self> {
        let requests = row.maybe_int(column)?.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Ok(Self { requests_per_minute: requests, tokens_per_day: row.maybe_tokens(column + 1)? })
    }
}

/// The permission that a valid key gives.
#[derive(Debug, Clone)]
pub struct KeyGrant {
    /// The tenant that the key signs in.
    pub tenant: Tenant,
    /// The row ID of the key.
    pub id: KeyId,
    /// The name of the key.
    pub name: String,
    /// The limits of the key.
    pub limits: KeyLimits,
}

/// A key in a list of keys, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// The row ID.
    pub id: KeyId,
    /// The name that people gave it.
    pub name: String,
    /// The first characters of the key, by which people recognize it.
    pub prefix: String,
    /// The name of the tenant that it signs in.
    pub tenant: String,
    /// Its limits.
    pub limits: KeyLimits,
    /// The time when it was created.
    pub created: Timestamp,
    /// Its usage on the last day on which it was used.
    pub last_usage: Option<DailyKeyUsage>,
    /// The time when it was revoked.
    pub revoked: Option<Timestamp>,
}

/// The tokens that a key used on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyKeyUsage {
    /// The UTC day.
    pub day: UtcDay,
    /// The tokens, including those that are reserved.
    pub tokens: Tokens,
}

/// The columns of a new key.
struct NewKey {
    tenant: String,
    /// The secret key for the tenant, if the tenant is new as well.
    new_tenant_key: [u8; 32],
    name: String,
    hash: KeyedHash,
    prefix: String,
    limits: KeyLimits,
    at: Timestamp,
}

fn check_name<'n>(what: &str, name: &'n str) -> Result<&'n str> {
    let is_invalid =
        name.trim().is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control);
    if is_invalid {
        let rule = format!("1 to {MAX_NAME_CHARS} characters, none of them a control character");
        return Err(StoreError::InvalidInput(format!("the name of a {what} must have {rule}")));
    }
    Ok(name.trim())
}

async fn insert_key(sql: &mut dyn Sql, new: &NewKey) -> Result<()> {
    let tenant = tenant::get_or_create_tenant(sql, &new.tenant, new.new_tenant_key).await?;
    let insert = "INSERT INTO keys (tenant, hash, prefix, name, requests_per_minute, tokens_per_day, created) \
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
    if sql.run(insert, &values).await? == 0 {
        let name = &new.name;
        return Err(StoreError::InvalidInput(format!(
            "an active key is already named {name}; revoke it first, or choose another name"
        )));
    }
    Ok(())
}

async fn find_grant(sql: &mut dyn Sql, hash: &KeyedHash) -> Result<Option<KeyGrant>> {
    let find = "SELECT t.id, t.name, t.key, k.id, k.name, k.requests_per_minute, k.tokens_per_day \
                FROM keys k JOIN tenants t ON t.id = k.tenant WHERE k.hash = $1 AND k.revoked IS NULL";
    let row = sql.row(find, &[hash.0.as_slice().into()]).await?;
    row.map(|row| {
        let (tenant, limits) = (Tenant::from_row(&row, 0)?, KeyLimits::from_row(&row, 5)?);
        Ok(KeyGrant { tenant, id: KeyId(row.int(3)?), name: row.text(4)?, limits })
    })
    .transpose()
}

async fn list_keys(sql: &mut dyn Sql) -> Result<Vec<KeyInfo>> {
    let list = "SELECT k.id, k.name, k.prefix, t.name, k.requests_per_minute, k.tokens_per_day, k.created, k.revoked, \
                u.day, u.tokens FROM keys k JOIN tenants t ON t.id = k.tenant \
                LEFT JOIN uses u ON u.key = k.id AND u.day = (SELECT max(day) FROM uses WHERE key = k.id) ORDER BY k.id";
    let row = |row: &Row| {
        let last_usage = match (row.maybe_int(8)?, row.maybe_tokens(9)?) {
            (Some(day), Some(tokens)) => Some(DailyKeyUsage { day: UtcDay(day), tokens }),
            _ => None,
        };
        Ok(KeyInfo {
            id: KeyId(row.int(0)?),
            name: row.text(1)?,
            prefix: row.text(2)?,
            tenant: row.text(3)?,
            limits: KeyLimits::from_row(row, 4)?,
            created: Timestamp(row.int(6)?),
            last_usage,
            revoked: row.maybe_int(7)?.map(Timestamp),
        })
    };
    sql.rows(list, &[]).await?.iter().map(row).collect()
}

async fn revoke_by_name(sql: &mut dyn Sql, name: &str, at: Timestamp) -> Result<()> {
    let revoke = "UPDATE keys SET revoked = $2 WHERE name = $1 AND revoked IS NULL";
    match sql.run(revoke, &[name.into(), at.0.into()]).await? {
        0 => Err(StoreError::NotFound(format!("no active key is named {name}; run longhaul keys list"))),
        _ => Ok(()),
    }
}

async fn has_any_key(sql: &mut dyn Sql) -> Result<bool> {
    Ok(sql.row("SELECT id FROM keys LIMIT 1", &[]).await?.is_some())
}

/// Adds tokens to a key's usage on a day (negative ones reduce it), and returns the new usage.
async fn add_usage(sql: &mut dyn Sql, id: KeyId, added: i64, day: UtcDay) -> Result<Tokens> {
    let upsert = "INSERT INTO uses (key, day, tokens) SELECT id, $2, $3 FROM keys WHERE id = $1 \
                ON CONFLICT (key, day) DO UPDATE SET tokens = uses.tokens + excluded.tokens RETURNING tokens";
    let row = sql.row(upsert, &[id.0.into(), day.0.into(), added.into()]).await?;
    row.map_or_else(|| Err(StoreError::NotFound("the key no longer exists".to_owned())), |row| row.tokens(0))
}

/// Adds tokens to a key's usage on a day, unless the usage has already reached the limit.
async fn reserve_tokens(sql: &mut dyn Sql, id: KeyId, tokens: Tokens, limit: Tokens, day: UtcDay) -> Result<bool> {
    let reserve = "INSERT INTO uses (key, day, tokens) SELECT id, $2, $3 FROM keys WHERE id = $1 \
                   ON CONFLICT (key, day) DO UPDATE SET tokens = uses.tokens + excluded.tokens \
                   WHERE uses.tokens < $4 RETURNING tokens";
    let values = [id.0.into(), day.0.into(), tokens.into(), limit.into()];
    Ok(limit > Tokens::ZERO && sql.row(reserve, &values).await?.is_some())
}

async fn read_usage(sql: &mut dyn Sql, id: KeyId, day: UtcDay) -> Result<Tokens> {
    let select = "SELECT tokens FROM uses WHERE key = $1 AND day = $2";
    let row = sql.row(select, &[id.0.into(), day.0.into()]).await?;
    row.map_or(Ok(Tokens::ZERO), |row| row.tokens(0))
}

/// Converts tokens to a signed number, capped so that sums do not overflow a column.
fn to_signed(tokens: Tokens) -> i64 {
    tokens.number().min(MAX_TOKENS).cast_signed()
}

impl Store {
    /// Creates a key that signs clients in as a tenant, and the tenant if it is new. Only the returned value
    /// has the key: the store has its hash.
    ///
    /// # Errors
    /// The name is invalid, or an active key has it already.
    pub async fn add_key(&self, tenant: &str, name: &str, limits: KeyLimits, at: Timestamp) -> Result<GatewayKey> {
        let (tenant, name) = (check_name("tenant", tenant)?.to_owned(), check_name("key", name)?.to_owned());
        let secret = GatewayKey::from_bits(tenant::random_bytes()?);
        let no_key = || StoreError::Failed("internal error: an invalid key was created".to_owned());
        let hash = hash_key(secret.reveal()).ok_or_else(no_key)?;
        let prefix = secret.prefix();
        let new = NewKey { tenant, new_tenant_key: tenant::random_bytes()?, name, hash, prefix, limits, at };
        self.write(in_transaction(new, |sql, new| Box::pin(insert_key(sql, new)))).await?;
        Ok(secret)
    }

    /// Finds the permission that a key gives; `None` if the key is unknown or revoked, or the text is not a
    /// key.
    pub async fn find_key(&self, key_text: &str) -> Result<Option<KeyGrant>> {
        let Some(hash) = hash_key(key_text) else { return Ok(None) };
        self.read(in_transaction(hash, |sql, hash| Box::pin(find_grant(sql, hash)))).await
    }

    /// Lists all keys, including revoked ones, in the order of their creation.
    pub async fn keys(&self) -> Result<Vec<KeyInfo>> {
        self.read(in_transaction((), |sql, ()| Box::pin(list_keys(sql)))).await
    }

    /// Revokes the active key with this name.
    ///
    /// # Errors
    /// No active key has the name.
    pub async fn revoke_key(&self, name: &str, at: Timestamp) -> Result<()> {
        let arguments = (name.trim().to_owned(), at);
        self.write(in_transaction(arguments, |sql, (name, at)| Box::pin(revoke_by_name(sql, name, *at)))).await
    }

    /// Returns whether a key was ever created. Revoked keys count, so that revoking the last key closes a
    /// gateway instead of opening it to everybody.
    pub async fn has_keys(&self) -> Result<bool> {
        self.read(in_transaction((), |sql, ()| Box::pin(has_any_key(sql)))).await
    }

    /// Adds tokens to a key's usage on a day, and returns the new usage.
    pub async fn add_key_usage(&self, id: KeyId, tokens: Tokens, day: UtcDay) -> Result<Tokens> {
        let arguments = (id, to_signed(tokens), day);
        self.write(in_transaction(arguments, |sql, (id, added, day)| Box::pin(add_usage(sql, *id, *added, *day)))).await
    }

    /// Returns the tokens that a key has used on a day, including those that are reserved.
    pub async fn key_usage(&self, id: KeyId, day: UtcDay) -> Result<Tokens> {
        self.read(in_transaction((id, day), |sql, (id, day)| Box::pin(read_usage(sql, *id, *day)))).await
    }

    /// Reserves tokens for a key, in one step with the check of its limit. Returns false if the usage had
    /// reached the limit before.
    pub async fn reserve_key_tokens(&self, id: KeyId, tokens: Tokens, limit: Tokens, day: UtcDay) -> Result<bool> {
        let arguments = (id, tokens, limit, day);
        self.write(in_transaction(arguments, |sql, (id, tokens, limit, day)| {
            Box::pin(reserve_tokens(sql, *id, *tokens, *limit, *day))
        }))
        .await
    }

    /// Replaces the tokens that were reserved for a key by those that it spent, and returns the new usage.
    pub async fn settle_key_tokens(&self, id: KeyId, reserved: Tokens, spent: Tokens, day: UtcDay) -> Result<Tokens> {
        let arguments = (id, to_signed(spent).saturating_sub(to_signed(reserved)), day);
        self.write(in_transaction(arguments, |sql, (id, added, day)| Box::pin(add_usage(sql, *id, *added, *day)))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let day = UtcDay::containing(Timestamp::parse("2026-05-04T23:59:59Z").unwrap());
        assert_eq!(day.to_string(), "2026-05-04");
        assert_eq!(UtcDay::containing(Timestamp::parse("2026-05-05T00:00:00Z").unwrap()), UtcDay(day.0 + 1));
        assert_eq!(day.time_left(Timestamp::parse("2026-05-04T23:00:00Z").unwrap()), Duration::from_hours(1));
    }
}
