//! What a test stands on: an empty place for a store in one of the databases, and a way to look at its tables from outside.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_server::store::{Durability, Store, StoreLocation, Tenant};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use super::server::Server;

/// A temporary folder that goes with its last owner.
#[derive(Clone)]
pub(crate) struct Folder(Arc<TempDir>);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(Arc::new(TempDir::new().unwrap()))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

impl Database {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// An empty place for a store, and a folder beside it.
pub(crate) struct Ground {
    pub(crate) database: Database,
    pub(crate) place: StoreLocation,
    pub(crate) folder: Folder,
}

impl Ground {
    pub(crate) fn new(database: Database) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let folder = Folder::new();
        let place = match database {
            Database::Sqlite => StoreLocation::File(folder.path().join("store.db")),
            Database::Postgres => {
                let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
                let shared = Server::shared();
                let server = shared.as_ref().unwrap();
                let make = format!("CREATE DATABASE {name}");
                wait_for(ask(&server.url("postgres"), &make));
                StoreLocation::Postgres(server.url(&name))
            }
        };
        Self { database, place, folder }
    }

    /// The store in this place; each call opens it anew.
    pub(crate) async fn open(&self) -> Store {
        Store::open(&self.place, Durability::Normal).await.unwrap()
    }

    /// The store, and a tenant of it.
    pub(crate) async fn opened(&self) -> (Store, Tenant) {
        let store = self.open().await;
        let tenant = store.get_or_create_tenant("local").await.unwrap();
        (store, tenant)
    }

    /// The file of the store.
    pub(crate) fn file(&self) -> &Path {
        match &self.place {
            StoreLocation::File(path) => path,
            other => panic!("{other} is no file"),
        }
    }

    /// What a statement gives that is asked past the store: one line a row.
    pub(crate) async fn ask(&self, statement: &str) -> Vec<String> {
        match &self.place {
            StoreLocation::Postgres(url) => ask(url, statement).await,
            _ => look(self.file(), statement),
        }
    }

    /// One number that a statement gives.
    pub(crate) async fn number(&self, statement: &str) -> usize {
        self.ask(statement).await[0].parse().unwrap()
    }

    /// All tables that the store has made, by the database's own word; not those that the database keeps for itself.
    async fn tables(&self) -> Vec<String> {
        let question = match self.database {
            Database::Sqlite => {
                "SELECT name FROM pragma_table_list WHERE type IN ('table', 'virtual') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            }
            Database::Postgres => "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
        };
        let mut tables = self.ask(question).await;
        tables.sort_unstable();
        assert!(!tables.is_empty(), "there is no store yet");
        tables
    }

    /// How many rows each table has.
    pub(crate) async fn rows(&self) -> Vec<(String, usize)> {
        let mut rows = Vec::new();
        for table in self.tables().await {
            let count = self.number(&format!("SELECT count(*) FROM {table}")).await;
            rows.push((table, count));
        }
        rows
    }

    /// Everything that the store has written anywhere, as bytes.
    pub(crate) async fn bytes(&self) -> Vec<u8> {
        if self.database == Database::Postgres {
            let mut all = String::new();
            for table in self.tables().await {
                for row in self.ask(&format!("SELECT t::text FROM {table} t")).await {
                    writeln!(all, "{row}").unwrap();
                }
            }
            return all.into_bytes();
        }
        let mut all = Vec::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && path.to_string_lossy().contains("store.db") {
                all.extend(std::fs::read(path).unwrap());
            }
        }
        all
    }
}

/// Runs a statement on a PostgreSQL database, past the store.
pub(crate) async fn ask(url: &str, statement: &str) -> Vec<String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let rows = client.simple_query(statement).await.unwrap();
    let mut lines = Vec::new();
    for row in rows {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = row {
            let cells: Vec<&str> = (0..row.len()).map(|cell| row.get(cell).unwrap_or("")).collect();
            lines.push(cells.join("|"));
        }
    }
    drop(client);
    let _ = connection.await;
    lines
}

/// The same for a SQLite file.
pub(crate) fn look(file: &Path, statement: &str) -> Vec<String> {
    use rusqlite::types::ValueRef;
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    let mut statement = connection.prepare(statement).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cell = |column| match row.get_ref(column).unwrap() {
            ValueRef::Null => String::new(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        lines.push((0..columns).map(cell).collect::<Vec<_>>().join("|"));
    }
    lines
}

/// Runs a test's work to its end, on threads of its own.
pub(crate) fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work)
}

/// Numbers that look random and are the same on every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below another.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }
}
