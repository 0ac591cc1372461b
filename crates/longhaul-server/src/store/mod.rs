//! The store: an append-only log of the messages of sessions, and the views that compactions made of them.
//!
//! ```text
//! body ──record──▶ messages by identity ──▶ the session that they belong to, a fork of one, or a new one
//!                  secrets taken out         │
//!        engine ──▶ commit: one epoch (ledger, report); the head moves if nobody moved it meanwhile
//!                                            │
//!        recall, search, export, undo ◀──────┘   originals are never changed, and a view is never copied over them
//! ```
//!
//! - A row of the log is one message as it was sent, without its secrets. Its identity is a keyed hash of what it says and of all
//!   that stands before it ([`longhaul_engine::identity`]), so a history that is sent again writes only what is new and finds its
//!   own session; an edited one forks it.
//! - Order is a place in a path, never a time. Times are told to people, and nothing is decided by them but what is old.
//! - A lease keeps two from doing the same work; who is paused past it finds its fence passed and cannot commit ([`epochs`]).
//! - Every question is asked for one [`Tenant`], and sees nothing of another. The keys of a gateway lead to tenants.
//!
//! The same statements run on SQLite (embedded, no set-up) and on PostgreSQL (shared by several gateways): `sql.rs` is the trait,
//! `sqlite.rs` and `postgres.rs` implement it, and one suite of tests runs over both.

mod course;
mod envelope;
mod epochs;
mod error;
mod export;
mod guard;
mod hidden;
mod keys;
mod log;
mod message;
mod overview;
mod postgres;
mod recall;
mod record;
mod retention;
mod schema;
mod search;
mod secret;
mod session;
mod sql;
mod sqlite;
mod standing;
mod tenant;
mod terms;
mod threads;
mod traffic;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

pub use course::{Compaction, Course, CourseStep};
pub use epochs::{Commit, Committed, Epoch, EpochId, Lease, Leased, Moved, Seen};
pub use error::{Result, StoreError};
pub use export::{Example, Moment as At, Trace, Words};
pub use guard::STORE_TIMEOUT;
pub use hidden::HiddenTurn;
pub use keys::{Day, Granted, KeyId, KeyRow, Limits, Used};
pub use log::{Appended, Batch, Request};
pub use message::{BlockRow, Entry};
pub use overview::{Overview, Owned, Standing, Stretch, Whose};
pub use recall::{Neighbour, Recalled};
pub use record::{Keeping, Recorded, View};
pub(crate) use record::{Recording, fresh_key};
pub use retention::{Expiry, Swept};
pub use search::{Hit, Scope, StepBlock};
pub use secret::Secret;
pub use session::{Lineage, Reason, Session, SessionId, State};
pub use sqlite::Sync;
pub use tenant::{LOCAL_TENANT, Tenant};
pub use terms::of_message as terms_of;
pub use traffic::{Action, Totals, Traffic};

use guard::{Access, Guard};
use postgres::Postgres;
use sql::Sql;
use sqlite::Sqlite;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: it ends with the program.
    Memory,
    /// A file.
    File(PathBuf),
    /// A PostgreSQL server, by its URL.
    Postgres(String),
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    /// `memory`, the URL of a PostgreSQL server, or else a file.
    fn from_str(typed: &str) -> std::result::Result<Self, Self::Err> {
        Ok(match typed {
            "memory" => Self::Memory,
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Self::Postgres(url.to_owned())
            }
            path => Self::File(PathBuf::from(path)),
        })
    }
}

impl Place {
    /// The file in the user's data folder, which is given.
    #[must_use]
    pub fn usual(data: &Path) -> Self {
        Self::File(data.join("longhaul").join("store.db"))
    }
}

/// A place as it may be shown: the password of a URL is nobody's business.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => f.write_str(&postgres::shown(url)),
        }
    }
}

/// Work under way.
type Running<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Work on one transaction; it may be done again from the start where another was faster.
type Work<T> = Arc<dyn for<'a> Fn(&'a mut dyn Sql) -> Running<'a, T> + Send + std::marker::Sync>;

/// Work with what it needs.
fn work<A, T>(with: A, run: for<'a> fn(&'a mut dyn Sql, &'a A) -> Running<'a, T>) -> Work<T>
where
    A: Send + std::marker::Sync + 'static,
    T: 'static,
{
    let with = Arc::new(with);
    Arc::new(move |sql| {
        let with = with.clone();
        Box::pin(async move { run(sql, &with).await })
    })
}

/// A store of sessions. Clones are of the same one.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    guard: Option<Arc<Guard>>,
}

#[derive(Clone)]
enum Backend {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// A file that must not grow any more is a full store, and not the end of the process: whoever listens to the signal that the system
/// sends for it gets an error from the write instead. It needs a runtime to be entered, and holds for the rest of the process.
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    if tokio::runtime::Handle::try_current().is_ok() {
        let signal = rustix::process::Signal::XFSZ.as_raw();
        if let Err(error) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(signal)) {
            tracing::warn!("a limit on the size of files would end the process: {error}");
        }
    }
}

impl Backend {
    async fn read<T: Send + 'static>(&self, work: Work<T>) -> Result<T> {
        match self {
            Self::Sqlite(sqlite) => sqlite.read(work).await,
            Self::Postgres(postgres) => postgres.read(work).await,
        }
    }

    async fn write<T: Send + 'static>(&self, work: Work<T>) -> Result<T> {
        match self {
            Self::Sqlite(sqlite) => sqlite.write(work).await,
            Self::Postgres(postgres) => postgres.write(work).await,
        }
    }

    /// Whether it can be written: it takes the lock that a writer takes, and changes nothing.
    async fn probe(&self) -> Result<()> {
        let touch = work("UPDATE tenants SET name = name WHERE id < 0", |sql, touch| {
            Box::pin(async move { sql.run(touch, &[]).await.map(drop) })
        });
        self.write(touch).await
    }
}

impl Store {
    /// Opens a store, and makes it if it is not there.
    ///
    /// # Errors
    /// A place that cannot be reached or written, or holds something else.
    pub async fn open(place: &Place, sync: Sync) -> Result<Self> {
        survive_file_size_limit();
        let backend = match place {
            Place::Memory => Backend::Sqlite(Sqlite::memory()?),
            Place::File(path) => Backend::Sqlite(Sqlite::file(path, sync)?),
            Place::Postgres(url) => Backend::Postgres(Postgres::connect(url, sync).await?),
        };
        Ok(Self { backend, guard: None })
    }

    /// The same store for a caller that must not wait: after the first time-out every question is refused at once, until the store
    /// answers again.
    #[must_use]
    pub fn guarded(self) -> Self {
        Self { guard: Some(self.guard.unwrap_or_default()), ..self }
    }

    /// Why a [`guarded`](Self::guarded) store cannot be relied on at the moment.
    #[must_use]
    pub fn trouble(&self) -> Option<StoreError> {
        self.guard.as_ref().and_then(|guard| guard.trouble())
    }

    async fn read<T: Send + 'static>(&self, work: Work<T>) -> Result<T> {
        let reading = self.backend.read(work);
        match &self.guard {
            Some(guard) => guard.run(&self.backend, Access::Read, reading).await,
            None => reading.await,
        }
    }

    async fn write<T: Send + 'static>(&self, work: Work<T>) -> Result<T> {
        let writing = self.backend.write(work);
        match &self.guard {
            Some(guard) => guard.run(&self.backend, Access::Write, writing).await,
            None => writing.await,
        }
    }

    /// Leaves nothing of what was deleted, and gives back the room.
    pub async fn vacuum(&self) -> Result<()> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.vacuum().await,
            Backend::Postgres(postgres) => postgres.vacuum().await,
        }
    }

    /// What is wrong with what is stored, if anything is: the database's own check, and ours of the log.
    pub async fn faults(&self) -> Result<Vec<String>> {
        let mut faults = match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.faults().await?,
            Backend::Postgres(_) => Vec::new(),
        };
        faults.extend(self.gaps().await?);
        Ok(faults)
    }

    /// How many bytes it takes.
    pub async fn size(&self) -> Result<u64> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.size().await,
            Backend::Postgres(postgres) => postgres.size().await,
        }
    }
}
