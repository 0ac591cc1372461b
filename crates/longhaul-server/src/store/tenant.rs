//! Tenants: every query about sessions names one and sees only its rows.

use std::fmt;
use std::sync::Arc;

use longhaul_engine::keyed_hash::{KeyedHash, KeyedHasher};
use longhaul_engine::redact::SessionKey;

use super::error::{Result, StoreError};
use super::sql::{Row, Sql};
use super::{Store, in_transaction};
use crate::pool::Owner;

/// The name of the tenant for the user of this machine: on the command line, in `longhaul run`, and at a
/// gateway without keys.
pub const LOCAL_TENANT: &str = "local";

/// The owner of sessions. No query about sessions works without one. A caller gets one by name, by a gateway key,
/// or by listing all tenants as the owner of the store. While the store does not answer, the gateway makes a
/// temporary one, to which nothing in the store belongs.
#[derive(Clone)]
pub struct Tenant {
    pub(super) id: i64,
    name: Arc<str>,
    key: [u8; 32],
    /// The key that hashed its messages while the store did not answer.
    interim_key: Option<[u8; 32]>,
}

/// The ID of a tenant that the store does not know. No row has it.
const NO_TENANT_ID: i64 = -1;

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({})", self.id)
    }
}

impl Tenant {
    /// Reads a tenant from a row that has its ID, name and key, starting at a column.
    pub(super) fn from_row(row: &Row, column: usize) -> Result<Self> {
        let (id, name, key) = (row.int(column)?, row.text(column + 1)?.into(), row.key_bytes(column + 2)?);
        Ok(Self { id, name, key, interim_key: None })
    }

    /// Makes a temporary tenant while the store does not answer, with a random key that only this process knows.
    /// Nothing in the store belongs to it, and its message hashes equal nobody else's.
    pub(crate) fn new_interim(key: [u8; 32]) -> Self {
        Self { id: NO_TENANT_ID, name: "".into(), key, interim_key: None }
    }

    /// Returns the tenant with the key of the temporary tenant that replaced it while the store did not
    /// answer.
    pub(crate) fn with_interim_key(self, interim_key: [u8; 32]) -> Self {
        Self { interim_key: Some(interim_key), ..self }
    }

    /// Returns the temporary tenant that replaced this one while the store did not answer, if there was one.
    pub(crate) fn as_interim(&self) -> Option<Self> {
        self.interim_key.map(Self::new_interim)
    }

    /// Returns the name that people use.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the owner under which the pool shares its threads fairly among tenants.
    pub(crate) fn pool_owner(&self) -> Owner {
        Owner(if self.id == NO_TENANT_ID { lock_id(&KeyedHash(self.key)) } else { self.id })
    }

    /// Returns the hasher that identifies the tenant's messages. Its key is the tenant's own, so equal
    /// messages of two tenants have different hashes.
    #[must_use]
    pub fn hasher(&self) -> KeyedHasher {
        KeyedHasher::new(self.key)
    }

    /// Returns the ID of the lock that keeps deletions and writes of the tenant's sessions apart.
    pub(super) fn deletion_lock_id(&self) -> i64 {
        lock_id(&self.hasher().hash(&[b"what is deleted"]))
    }

    /// Returns the key of the redaction tags in data that the tenant's sessions share.
    pub(super) fn shared_redaction_key(&self) -> SessionKey {
        SessionKey::new(self.hasher().hash(&[b"marks in what sessions share"]).0)
    }
}

pub(super) fn lock_id(hash: &KeyedHash) -> i64 {
    i64::from_le_bytes(hash.0[..8].try_into().unwrap_or_default())
}

pub(super) async fn get_or_create_tenant(sql: &mut dyn Sql, name: &str, new_key: [u8; 32]) -> Result<Tenant> {
    let insert = "INSERT INTO tenants (name, key) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    sql.run(insert, &[name.into(), new_key.as_slice().into()]).await?;
    let tenant = find_tenant(sql, name).await?;
    tenant.ok_or_else(|| StoreError::Failed(format!("internal error: the tenant {name} was not stored")))
}

async fn find_tenant(sql: &mut dyn Sql, name: &str) -> Result<Option<Tenant>> {
    let row = sql.row("SELECT id, name, key FROM tenants WHERE name = $1", &[name.into()]).await?;
    row.map(|row| Tenant::from_row(&row, 0)).transpose()
}

async fn list_tenants(sql: &mut dyn Sql) -> Result<Vec<Tenant>> {
    let rows = sql.rows("SELECT id, name, key FROM tenants ORDER BY id", &[]).await?;
    rows.iter().map(|row| Tenant::from_row(row, 0)).collect()
}

/// Returns random bytes from the operating system.
pub(super) fn random_bytes() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Failed(format!("the system has no random bytes: {error}")))?;
    Ok(bytes)
}

/// Returns a random name for a session: ten letters and digits.
pub(super) fn random_session_name() -> Result<String> {
    const NAME_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    Ok(random_bytes()?.iter().take(10).map(|byte| char::from(NAME_ALPHABET[usize::from(byte % 32)])).collect())
}

impl Store {
    /// Lists all tenants, for the owner of the store.
    pub async fn tenants(&self) -> Result<Vec<Tenant>> {
        self.read(in_transaction((), |sql, ()| Box::pin(list_tenants(sql)))).await
    }

    /// Finds a tenant by its name, and creates it with a random key if it is new.
    pub async fn get_or_create_tenant(&self, name: &str) -> Result<Tenant> {
        // Reads first, so that a caller who only reads needs no write access.
        let existing = self.read(in_transaction(name.to_owned(), |sql, name| Box::pin(find_tenant(sql, name))));
        if let Some(tenant) = existing.await? {
            return Ok(tenant);
        }
        let arguments = (name.to_owned(), random_bytes()?);
        self.write(in_transaction(arguments, |sql, (name, new_key)| {
            Box::pin(get_or_create_tenant(sql, name, *new_key))
        }))
        .await
    }
}
