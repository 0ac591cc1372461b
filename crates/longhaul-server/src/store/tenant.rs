//! Whose sessions they are: a tenant's questions see a tenant's rows, and nothing names a row without one.

use std::fmt;
use std::sync::Arc;

use longhaul_engine::identity::{Identities, Identity};
use longhaul_engine::redact::SessionKey;

use super::error::{Result, StoreError};
use super::sql::{Row, Sql};
use super::{Store, work};
use crate::pool::Owner;

/// The name of the tenant that this machine's user is: on the command line, in `longhaul run`, and at a gateway without keys.
pub const LOCAL_TENANT: &str = "local";

/// Whose sessions these are. There is no way to ask for anything without one, and none to make one but by its name, by a key that
/// the gateway handed out, or by owning the whole store.
#[derive(Clone)]
pub struct Tenant {
    pub(super) id: i64,
    name: Arc<str>,
    key: [u8; 32],
    /// What its messages were known by while the store did not answer.
    interim: Option<[u8; 32]>,
}

/// The number of tenants that the store has not numbered: no row has it.
const UNNUMBERED: i64 = -1;

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({})", self.id)
    }
}

impl Tenant {
    /// Of a row that has its number, its name and its key from a column on.
    pub(super) fn of(row: &Row, column: usize) -> Result<Self> {
        let (id, name, key) = (row.int(column)?, row.text(column + 1)?.into(), row.key(column + 2)?);
        Ok(Self { id, name, key, interim: None })
    }

    /// A tenant while the store does not answer, by a key that only this process can make: nothing in the store is theirs, and nobody
    /// else's messages are known by the same.
    pub(crate) fn interim(key: [u8; 32]) -> Self {
        Self { id: UNNUMBERED, name: "".into(), key, interim: None }
    }

    /// The same tenant, who was known by this key while the store did not answer.
    pub(crate) fn known_as(self, interim: [u8; 32]) -> Self {
        Self { interim: Some(interim), ..self }
    }

    /// The tenant as they were known while the store did not answer, where that has happened.
    pub(crate) fn as_interim(&self) -> Option<Self> {
        self.interim.map(Self::interim)
    }

    /// What people call it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose work it is where tenants share threads.
    pub(crate) fn owner(&self) -> Owner {
        Owner(if self.id == UNNUMBERED { lock_number(&Identity(self.key)) } else { self.id })
    }

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

pub(super) fn lock_number(identity: &Identity) -> i64 {
    i64::from_le_bytes(identity.0[..8].try_into().unwrap_or_default())
}

pub(super) async fn tenant(sql: &mut dyn Sql, name: &str, fresh: [u8; 32]) -> Result<Tenant> {
    let make = "INSERT INTO tenants (name, key) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    sql.run(make, &[name.into(), fresh.as_slice().into()]).await?;
    let tenant = known_tenant(sql, name).await?;
    tenant.ok_or_else(|| StoreError::Failed(format!("the tenant {name} was not kept")))
}

async fn known_tenant(sql: &mut dyn Sql, name: &str) -> Result<Option<Tenant>> {
    let row = sql.row("SELECT id, name, key FROM tenants WHERE name = $1", &[name.into()]).await?;
    row.map(|row| Tenant::of(&row, 0)).transpose()
}

async fn tenants(sql: &mut dyn Sql) -> Result<Vec<Tenant>> {
    let rows = sql.rows("SELECT id, name, key FROM tenants ORDER BY id", &[]).await?;
    rows.iter().map(|row| Tenant::of(row, 0)).collect()
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

impl Store {
    /// Everybody who has anything in the store, for who owns all of it.
    pub async fn tenants(&self) -> Result<Vec<Tenant>> {
        self.read(work((), |sql, ()| Box::pin(tenants(sql)))).await
    }

    /// The tenant of that name; one that is new gets a key of its own.
    pub async fn tenant(&self, name: &str) -> Result<Tenant> {
        // Who only reads writes nothing, not even this again.
        let known = self.read(work(name.to_owned(), |sql, name| Box::pin(known_tenant(sql, name))));
        if let Some(tenant) = known.await? {
            return Ok(tenant);
        }
        let with = (name.to_owned(), random()?);
        self.write(work(with, |sql, (name, fresh)| Box::pin(tenant(sql, name, *fresh)))).await
    }
}
