//! The store: an append-only log of the messages of sessions, and the compactions of these sessions.
//!
//! ```text
//! request ──record──▶ messages by keyed hash ──▶ the session that they belong to, a fork of one, or a new one
//!                     without secrets            │
//!  engine ──▶ commit: one compaction (ledger, report); it becomes the active one (head) if no other did meanwhile
//!                                                │
//!  recall, search, export, undo ◀────────────────┘   originals are never changed or overwritten
//! ```
//!
//! - A row of the log is one message as the client sent it, without its secrets. Its keyed hash covers its content
//!   and all messages before it ([`longhaul_engine::keyed_hash`]). So a history that is sent again finds its own
//!   session and adds only its new messages, and an edited history forks the session.
//! - The order of messages is their position on a session's path, never a time. Times are shown to people; the only
//!   decision that uses them is which sessions are too old to keep.
//! - A ledger is the list of recorded decisions of a compaction, which is replayed on later requests. The head of a
//!   session is its active compaction. The view is the history as that compaction shows it to the model.
//! - A query about sessions is for one [`Tenant`] and sees no rows of another: it has a condition on the tenant, or
//!   uses the IDs that such a query returned. Exceptions are for the owner of the store: the overview of all
//!   tenants, the check of the log, and the size of all texts. The keys of a gateway identify tenants.
//!
//! The same statements run on SQLite (embedded, no set-up) and on PostgreSQL (shared by several gateways):
//! `sql.rs` has the trait, `sqlite.rs` and `postgres.rs` implement it, and one test suite runs on both.

mod circuit_breaker;
mod compactions;
mod envelope;
mod error;
mod export;
mod gateway_key;
mod hidden_turns;
mod keys;
mod message;
mod message_log;
mod overview;
mod postgres;
mod recall;
mod record;
mod retention;
mod saved_state;
mod schema;
mod search;
mod search_excerpt;
mod search_terms;
mod session;
mod sql;
mod sqlite;
mod tenant;
mod timeline;
mod traffic;
mod word_forms;
mod worker_threads;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

pub use circuit_breaker::STORE_TIMEOUT;
pub use compactions::{CommitOutcome, Compaction, CompactionId, HeadMove, NewCompaction};
pub use error::{Result, StoreError};
pub use export::{ExampleContent, HistoryPoint, OwnBlockPosition, TrainingExample};
pub use gateway_key::GatewayKey;
pub use hidden_turns::HiddenTurn;
pub use keys::{DailyKeyUsage, KeyGrant, KeyId, KeyInfo, KeyLimits, UtcDay};
pub use message::{BlockRow, MessageEntry};
pub use message_log::{AppendBatch, AppendOutcome, LoggedRequest};
pub use overview::{SessionOverview, StoreOverview, TenantScope, TenantSession, TimeBucket};
pub use recall::{AdjacentBlock, RecalledBlock};
pub use record::{CommitOptions, CurrentView, SessionMatch};
pub(crate) use record::{RecordOptions, random_session_key};
pub use retention::{RetentionLimits, SweepReport};
pub use search::{BlockSummary, SearchHit, SearchScope};
pub use search_terms::index_terms;
pub use session::{Lineage, SessionId, SessionOrigin, SessionStatus, StoredSession};
pub use sqlite::Durability;
pub use tenant::{LOCAL_TENANT, Tenant};
pub use timeline::{Timeline, TimelineCompaction, TimelineTurn};
pub use traffic::{TrafficAction, TrafficRecord, TrafficTotals};

use circuit_breaker::{AccessKind, CircuitBreaker};
use postgres::Postgres;
use sql::Sql;
use sqlite::Sqlite;

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// Memory: the store ends with the program.
    Memory,
    /// A SQLite file.
    File(PathBuf),
    /// A PostgreSQL server, by its URL.
    Postgres(String),
}

impl FromStr for StoreLocation {
    type Err = std::convert::Infallible;

    /// Parses `memory`, the URL of a PostgreSQL server, or else the path of a file.
    fn from_str(typed: &str) -> std::result::Result<Self, Self::Err> {
        Ok(match typed {
            "memory" => Self::Memory,
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => Self::Postgres(url.to_owned()),
            path => Self::File(PathBuf::from(path)),
        })
    }
}

impl StoreLocation {
    /// Returns the default store file inside `data`, the user's data folder.
    #[must_use]
    pub fn default_in(data: &Path) -> Self {
        Self::File(data.join("longhaul").join("store.db"))
    }
}

/// Shows the location without the password of a URL.
impl std::fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => f.write_str(&postgres::url_without_password(url)),
        }
    }
}

/// The future that a [`TransactionFn`] returns.
type TransactionFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Work inside one transaction. The database may run it again from the start after a lost race, so it must
/// have no effects outside the transaction.
type TransactionFn<T> = Arc<dyn for<'a> Fn(&'a mut dyn Sql) -> TransactionFuture<'a, T> + Send + std::marker::Sync>;

/// Makes a [`TransactionFn`] from a function and the owned values that it needs.
fn in_transaction<A, T>(
    arguments: A,
    run: for<'a> fn(&'a mut dyn Sql, &'a A) -> TransactionFuture<'a, T>,
) -> TransactionFn<T>
where
    A: Send + std::marker::Sync + 'static,
    T: 'static,
{
    let arguments = Arc::new(arguments);
    Arc::new(move |sql| {
        let arguments = arguments.clone();
        Box::pin(async move { run(sql, &arguments).await })
    })
}

/// A store of sessions. Clones share the same store.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    circuit_breaker: Option<Arc<CircuitBreaker>>,
}

#[derive(Clone)]
enum Backend {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// Makes a write past the file size limit of the process fail with an error instead of ending the process: it
/// installs a handler for SIGXFSZ. It needs an entered Tokio runtime and lasts for the rest of the process.
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    if tokio::runtime::Handle::try_current().is_ok() {
        let signal = rustix::process::Signal::XFSZ.as_raw();
        if let Err(error) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(signal)) {
            tracing::warn!("cannot handle SIGXFSZ, so a limit on file sizes would end the process: {error}");
        }
    }
}

impl Backend {
    async fn read<T: Send + 'static>(&self, work: TransactionFn<T>) -> Result<T> {
        match self {
            Self::Sqlite(sqlite) => sqlite.read(work).await,
            Self::Postgres(postgres) => postgres.read(work).await,
        }
    }

    async fn write<T: Send + 'static>(&self, work: TransactionFn<T>) -> Result<T> {
        match self {
            Self::Sqlite(sqlite) => sqlite.write(work).await,
            Self::Postgres(postgres) => postgres.write(work).await,
        }
    }

    /// Checks that the database can be written: it takes the lock that a writer takes, and changes nothing.
    async fn check_writable(&self) -> Result<()> {
        let touch = in_transaction("UPDATE tenants SET name = name WHERE id < 0", |sql, touch| {
            Box::pin(async move { sql.run(touch, &[]).await.map(drop) })
        });
        self.write(touch).await
    }
}

impl Store {
    /// Opens a store, and creates it if it does not exist.
    ///
    /// # Errors
    /// The location cannot be reached or written, or contains something other than a store.
    pub async fn open(location: &StoreLocation, durability: Durability) -> Result<Self> {
        survive_file_size_limit();
        let backend = match location {
            StoreLocation::Memory => Backend::Sqlite(Sqlite::open_memory()?),
            StoreLocation::File(path) => Backend::Sqlite(Sqlite::open_file(path, durability)?),
            StoreLocation::Postgres(url) => Backend::Postgres(Postgres::connect(url, durability).await?),
        };
        Ok(Self { backend, circuit_breaker: None })
    }

    /// Returns the same store for a caller that must not wait: after the first time-out every query fails at
    /// once, until the store answers again.
    #[must_use]
    pub fn with_circuit_breaker(self) -> Self {
        Self { circuit_breaker: Some(self.circuit_breaker.unwrap_or_default()), ..self }
    }

    /// Returns why a store [with a circuit breaker](Self::with_circuit_breaker) is failing or unavailable
    /// now, or `None` if it works.
    #[must_use]
    pub fn health_error(&self) -> Option<StoreError> {
        self.circuit_breaker.as_ref().and_then(|circuit_breaker| circuit_breaker.health_error())
    }

    async fn read<T: Send + 'static>(&self, work: TransactionFn<T>) -> Result<T> {
        let result = self.backend.read(work);
        match &self.circuit_breaker {
            Some(circuit_breaker) => circuit_breaker.run(&self.backend, AccessKind::Read, result).await,
            None => result.await,
        }
    }

    async fn write<T: Send + 'static>(&self, work: TransactionFn<T>) -> Result<T> {
        let writing = self.backend.write(work);
        match &self.circuit_breaker {
            Some(circuit_breaker) => circuit_breaker.run(&self.backend, AccessKind::Write, writing).await,
            None => writing.await,
        }
    }

    /// Erases all traces of deleted data from the database, and returns its free space to the file system.
    pub async fn vacuum(&self) -> Result<()> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.vacuum().await,
            Backend::Postgres(postgres) => postgres.vacuum().await,
        }
    }

    /// Checks the stored data with the database's own check and with our check of the log, and returns one
    /// line for each fault.
    pub async fn check_integrity(&self) -> Result<Vec<String>> {
        let mut faults = match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.check_integrity().await?,
            Backend::Postgres(_) => Vec::new(),
        };
        faults.extend(self.find_log_gaps().await?);
        Ok(faults)
    }

    /// Returns the size of the database in bytes.
    pub async fn size_bytes(&self) -> Result<u64> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.size_bytes().await,
            Backend::Postgres(postgres) => postgres.size_bytes().await,
        }
    }
}
