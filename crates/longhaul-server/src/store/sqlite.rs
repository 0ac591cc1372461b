//! The embedded store: one SQLite file, or a database in memory that ends with the program.
//!
//! One thread writes, and SQLite's own lock orders it among processes; other threads read at the same time
//! (write-ahead log). All work runs on these threads, which do nothing else (`worker_threads.rs`). A commit
//! survives a killed process, and with [`Durability::Full`] also a power loss.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, TransactionBehavior};

use super::TransactionFn;
use super::error::{Result, StoreError};
use super::schema::{MIGRATIONS, SCHEMA_VERSION};
use super::sql::{Row, Sql, SqlDialect, Value};
use super::worker_threads::WorkerThreads;

/// The first bytes of every SQLite file.
const FILE_MAGIC: &[u8] = b"SQLite format 3\0";

/// The `application_id` that marks a file as ours: "`LHst`".
const APPLICATION_ID: i64 = 0x4c48_7374;

/// The time to wait for another process's lock before giving up. Chosen by hand.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between two tries where SQLite does not wait by itself. Chosen by hand.
const SETUP_RETRY_PAUSE: Duration = Duration::from_millis(10);

/// The number of threads that read. Chosen by hand.
const READER_THREADS: usize = 4;

/// The failures that a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A commit survives a killed process, but perhaps not a power loss.
    #[default]
    Normal,
    /// A commit also survives a power loss: each one waits for the disk.
    Full,
}

/// A store in a file or in memory.
#[derive(Clone)]
pub(super) struct Sqlite {
    inner: Arc<Inner>,
}

struct Inner {
    /// The one thread that writes.
    writer: WorkerThreads<ThreadConnection>,
    /// The threads that read at the same time; `None` for a database in memory, which has only one
    /// connection.
    readers: Option<WorkerThreads<ThreadConnection>>,
    /// The file as it was when it was opened; `None` for a database in memory.
    file: Option<OpenFile>,
}

/// A file that is recognized by its device and inode numbers, whatever happens to its name.
struct OpenFile {
    path: PathBuf,
    file_number: Option<(u64, u64)>,
}

impl OpenFile {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file_number: file_number(path) }
    }

    /// Fails if the file was deleted or replaced: SQLite would go on writing to the deleted file.
    fn check_unmoved(&self) -> Result<()> {
        let now = file_number(&self.path);
        if now.is_some() && now == self.file_number {
            return Ok(());
        }
        Err(StoreError::Unreachable(format!(
            "{} was deleted or replaced while it was open; restore it, or restart longhaul to start a new store",
            self.path.display()
        )))
    }
}

#[cfg(unix)]
fn file_number(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Outside Unix an open file cannot be deleted, so its existence is enough.
#[cfg(not(unix))]
fn file_number(path: &Path) -> Option<(u64, u64)> {
    path.exists().then_some((0, 0))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SqliteLocation {
    Memory,
    File(PathBuf),
}

impl SqliteLocation {
    fn label(&self) -> String {
        match self {
            Self::Memory => "the store in memory".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

impl Inner {
    fn check_unmoved(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), OpenFile::check_unmoved)
    }
}

/// The connection of one thread, and the settings to open a new one.
struct ThreadConnection {
    location: SqliteLocation,
    durability: Durability,
    connection: Option<Connection>,
}

impl ThreadConnection {
    /// Returns the connection and its location, and opens the connection if there is none.
    fn connection(&mut self) -> Result<(&mut Connection, &SqliteLocation)> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.location, self.durability)?,
        };
        Ok((self.connection.insert(connection), &self.location))
    }

    /// Rolls back a transaction that a panic left open. For a file it closes the connection, which rolls
    /// back; a database in memory lives in its connection, so it rolls back there.
    fn recover(&mut self) {
        let is_open = |connection: &Connection| !connection.is_autocommit();
        if self.connection.as_ref().is_some_and(is_open) {
            match (&self.location, &self.connection) {
                (SqliteLocation::Memory, Some(connection)) => drop(connection.execute_batch("ROLLBACK")),
                _ => self.connection = None,
            }
        }
    }
}

/// A transaction. It rolls back if it is dropped before its commit, also by a panic.
struct Transaction<'c> {
    connection: &'c mut Connection,
    location: &'c SqliteLocation,
}

impl Sqlite {
    /// Opens a file or creates it, readable only by its owner, and creates its folder if necessary.
    pub(super) fn open_file(path: &Path, durability: Durability) -> Result<Self> {
        create_file(path)?;
        Self::open(&SqliteLocation::File(path.to_owned()), durability)
    }

    pub(super) fn open_memory() -> Result<Self> {
        Self::open(&SqliteLocation::Memory, Durability::Normal)
    }

    fn open(location: &SqliteLocation, durability: Durability) -> Result<Self> {
        refuse_foreign_file(location)?;
        let mut connection = connect(location, durability)?;
        migrate(&mut connection, location)?;
        let thread_connection = |connection| ThreadConnection { location: location.clone(), durability, connection };
        let writer = WorkerThreads::start(
            "longhaul-write",
            vec![thread_connection(Some(connection))],
            ThreadConnection::recover,
        )?;
        let readers = match &location {
            SqliteLocation::Memory => None,
            SqliteLocation::File(_) => {
                let connections = (0..READER_THREADS).map(|_| thread_connection(None)).collect();
                Some(WorkerThreads::start("longhaul-read", connections, ThreadConnection::recover)?)
            }
        };
        let file = match &location {
            SqliteLocation::Memory => None,
            SqliteLocation::File(path) => Some(OpenFile::new(path)),
        };
        Ok(Self { inner: Arc::new(Inner { writer, readers, file }) })
    }

    /// Runs work that changes something, all of it or nothing.
    pub(super) async fn write<T: Send + 'static>(&self, work: TransactionFn<T>) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        self.with_writer(move |connection, location| {
            inner.check_unmoved()?;
            run_transaction(connection, location, "BEGIN IMMEDIATE", &work)
        })
        .await
    }

    /// Runs work that changes nothing, on a snapshot of the database.
    pub(super) async fn read<T: Send + 'static>(&self, work: TransactionFn<T>) -> Result<T> {
        let Some(readers) = &self.inner.readers else { return self.write(work).await };
        let inner = Arc::clone(&self.inner);
        readers
            .run(move |thread_connection| {
                inner.check_unmoved()?;
                let (connection, location) = thread_connection.connection()?;
                run_transaction(connection, location, "BEGIN", &work)
            })
            .await
    }

    /// Returns free pages to the file system, erases deleted data from the file and its log, and optimizes
    /// the index.
    pub(super) async fn vacuum(&self) -> Result<()> {
        self.with_writer(|connection, location| {
            let steps = "INSERT INTO terms (terms) VALUES ('optimize'); VACUUM;";
            connection.execute_batch(steps).map_err(|e| store_error(location, &e))?;
            // This reports failure in a row: while another process reads, deleted data stays in the log.
            let clear = "PRAGMA wal_checkpoint(TRUNCATE)";
            let pages_left: i64 =
                connection.query_row(clear, [], |row| row.get(0)).map_err(|e| store_error(location, &e))?;
            if pages_left != 0 {
                return Err(StoreError::Busy(format!(
                    "another process reads {}, so deleted data is still in its log; try again",
                    location.label()
                )));
            }
            Ok(())
        })
        .await
    }

    /// Checks the file and its index, and returns one line for each fault.
    pub(super) async fn check_integrity(&self) -> Result<Vec<String>> {
        self.with_writer(|connection, location| {
            let mut transaction = Transaction { connection, location };
            let rows = poll_once(transaction.rows("PRAGMA integrity_check", &[]))?;
            drop(transaction);
            let index = connection.execute_batch("INSERT INTO terms (terms) VALUES ('integrity-check')");
            let mut faults = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<String>>>()?;
            faults.retain(|fault| fault != "ok");
            faults.extend(index.err().map(|error| format!("the index of terms: {error}")));
            Ok(faults)
        })
        .await
    }

    /// Returns the size of the database in bytes.
    pub(super) async fn size_bytes(&self) -> Result<u64> {
        self.with_writer(|connection, location| {
            let mut transaction = Transaction { connection, location };
            let pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
            let row = poll_once(transaction.row(pages, &[]))?;
            row.map_or(Ok(0), |row| row.count(0)).map(|bytes| bytes as u64)
        })
        .await
    }

    /// Runs a job on the thread that writes.
    async fn with_writer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &SqliteLocation) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.inner
            .writer
            .run(move |thread_connection| {
                let (connection, location) = thread_connection.connection()?;
                work(connection, location)
            })
            .await
    }
}

/// Creates the file before SQLite does, so that it is never readable by others.
fn create_file(path: &Path) -> Result<()> {
    let refused = |error: std::io::Error| {
        let shown = path.display();
        StoreError::Forbidden(format!("cannot create the store {shown}: {error}; choose another location with --store"))
    };
    if path.exists() {
        let shown = path.display();
        return if path.is_file() || path.is_dir() {
            Ok(())
        } else {
            Err(StoreError::Forbidden(format!("{shown} is not a file; choose another location with --store")))
        };
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        private_folder(folder).map_err(refused)?;
    }
    match private_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(refused),
    }
}

#[cfg(unix)]
fn private_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

#[cfg(unix)]
fn private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Outside Unix the data folder is already private to the user.
#[cfg(not(unix))]
fn private_file(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path).map(drop)
}

#[cfg(not(unix))]
fn private_folder(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path)
}

/// Fails if the file is not ours, before anything in it is set, so that a foreign file stays unchanged to the
/// byte.
fn refuse_foreign_file(location: &SqliteLocation) -> Result<()> {
    let SqliteLocation::File(path) = location else { return Ok(()) };
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_MAGIC.len() as u64).read_to_end(&mut start));
    // SQLite takes a file with a few bytes of anything for an empty database, and overwrites it.
    if read.is_ok() && !start.is_empty() && start != FILE_MAGIC {
        return Err(StoreError::Damaged(format!(
            "{} is not a store and was not changed; choose another location with --store",
            location.label()
        )));
    }
    let connection = open_connection(location)?;
    let header = connection.busy_timeout(BUSY_TIMEOUT).and_then(|()| DatabaseHeader::read(&connection));
    header.map_err(|e| store_error(location, &e))?.check_usable(location)
}

/// Opens a connection without changing any settings.
fn open_connection(location: &SqliteLocation) -> Result<Connection> {
    let connection = match location {
        SqliteLocation::Memory => Connection::open_in_memory(),
        SqliteLocation::File(path) => {
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        }
    };
    connection.map_err(|e| store_error(location, &e))
}

fn connect(location: &SqliteLocation, durability: Durability) -> Result<Connection> {
    let connection = open_connection(location)?;
    let synchronous = match durability {
        Durability::Normal => "NORMAL",
        Durability::Full => "FULL",
    };
    let set_up = || {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4096;"
        ))
    };
    // If several processes create the same file at once, SQLite itself does not wait for the one that turns
    // the write-ahead log on.
    let began = Instant::now();
    loop {
        let done = set_up().map_err(|e| store_error(location, &e));
        match done {
            Err(StoreError::Busy(_)) if began.elapsed() < BUSY_TIMEOUT => {
                std::thread::sleep(SETUP_RETRY_PAUSE);
            }
            done => return done.map(|()| connection),
        }
    }
}

/// The facts in a database's header that tell whether it is ours and which version it has.
struct DatabaseHeader {
    application_id: i64,
    schema_version: i64,
    table_count: i64,
}

impl DatabaseHeader {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
        let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok(Self {
            application_id: pragma("application_id")?,
            schema_version: pragma("user_version")?,
            table_count: tables,
        })
    }

    /// Fails if the database belongs to another program or to a newer version of Longhaul.
    fn check_usable(&self, location: &SqliteLocation) -> Result<()> {
        let (shown, version) = (location.label(), self.schema_version);
        if self.application_id != APPLICATION_ID && self.table_count > 0 {
            return Err(StoreError::Damaged(format!("{shown} is a database of another program and was not changed")));
        }
        if version > SCHEMA_VERSION {
            return Err(StoreError::TooNew(format!(
                "{shown} was written by a newer longhaul (schema version {version}; this one supports \
                 {SCHEMA_VERSION}); update longhaul"
            )));
        }
        Ok(())
    }
}

/// Runs the missing migrations, each in a transaction of its own: if the process is killed, the current one
/// is rolled back.
fn migrate(connection: &mut Connection, location: &SqliteLocation) -> Result<()> {
    loop {
        let header = DatabaseHeader::read(connection).map_err(|e| store_error(location, &e))?;
        header.check_usable(location)?;
        if header.schema_version == SCHEMA_VERSION {
            return Ok(());
        }
        run_next_migration(connection).map_err(|e| store_error(location, &e))?;
    }
}

fn run_next_migration(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have run this migration already.
    let DatabaseHeader { schema_version: version, .. } = DatabaseHeader::read(&transaction)?;
    if let Some(migration) = usize::try_from(version).ok().and_then(|done| MIGRATIONS.get(done)) {
        transaction.execute_batch(migration.sqlite)?;
        let version = version + 1;
        let stamp = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}");
        transaction.execute_batch(&stamp)?;
    }
    transaction.commit()
}

/// Runs work inside a transaction, and rolls back if it fails.
fn run_transaction<T>(
    connection: &mut Connection,
    location: &SqliteLocation,
    begin: &str,
    work: &TransactionFn<T>,
) -> Result<T> {
    let mut transaction = Transaction::begin(connection, location, begin)?;
    let done = poll_once(work(&mut transaction))?;
    transaction.batch("COMMIT")?;
    Ok(done)
}

/// Polls a future once and returns its result. Work on SQLite never waits, so the future is ready at once.
fn poll_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(StoreError::Failed("internal error: work on the store was suspended".to_owned())),
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl<'c> Transaction<'c> {
    fn begin(connection: &'c mut Connection, location: &'c SqliteLocation, begin: &str) -> Result<Self> {
        let transaction = Self { connection, location };
        transaction.batch(begin)?;
        Ok(transaction)
    }

    fn batch(&self, statements: &str) -> Result<()> {
        self.connection.execute_batch(statements).map_err(|e| store_error(self.location, &e))
    }

    fn prepare(&self, statement: &str) -> Result<rusqlite::CachedStatement<'_>> {
        // SQLite numbers its parameters `?1`, not `$1`.
        let statement = statement.replace('$', "?");
        self.connection.prepare_cached(&statement).map_err(|e| store_error(self.location, &e))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.connection.is_autocommit() {
            // If the rollback fails, closing the connection rolls back too.
            let _ = self.batch("ROLLBACK");
        }
    }
}

#[async_trait]
impl Sql for Transaction<'_> {
    async fn rows(&mut self, statement: &str, values: &[Value]) -> Result<Vec<Row>> {
        let mut statement = self.prepare(statement)?;
        read_rows(&mut statement, values).map_err(|e| store_error(self.location, &e))
    }

    async fn run(&mut self, statement: &str, values: &[Value]) -> Result<usize> {
        let mut statement = self.prepare(statement)?;
        statement.execute(rusqlite::params_from_iter(values)).map_err(|e| store_error(self.location, &e))
    }

    fn dialect(&self) -> &'static SqlDialect {
        &SQLITE_DIALECT
    }
}

fn read_rows(statement: &mut Statement<'_>, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let columns = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    let mut read = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Int(number),
                ValueRef::Real(number) => Value::Int(number as i64),
                // Only damaged text is not UTF-8. Replacing its invalid bytes would silently change a
                // message.
                ValueRef::Text(text) => Value::Text(std::str::from_utf8(text)?.to_owned()),
                ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
            })
        };
        read.push(Row((0..columns).map(value).collect::<rusqlite::Result<_>>()?));
    }
    Ok(read)
}

const SQLITE_DIALECT: SqlDialect = SqlDialect {
    for_update: "",
    exclusive_lock: None,
    shared_lock: None,
    insert_terms: "INSERT INTO terms (rowid, held) VALUES ($1, $2)",
    delete_terms: "DELETE FROM terms WHERE rowid BETWEEN $1 AND $2",
    find_any_term: "SELECT rowid FROM terms WHERE terms MATCH $1 AND rowid BETWEEN $2 AND $3 ORDER BY rowid DESC LIMIT $4",
    quote_terms: |terms| {
        let quoted: Vec<String> = terms.iter().map(|term| format!("\"{}\"", term.replace('"', "\"\""))).collect();
        quoted.join(" OR ")
    },
};

/// Converts an error of SQLite to an error for the caller, in one line.
fn store_error(location: &SqliteLocation, error: &rusqlite::Error) -> StoreError {
    let shown = location.label();
    if let rusqlite::Error::Utf8Error(..) = error {
        return StoreError::Damaged(format!(
            "{shown} is damaged ({error}); restore a copy, or choose another location with --store"
        ));
    }
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::Failed(format!("{shown}: {error}"));
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Busy(format!(
                "{shown} is locked by another process, or is on a file system without locks; try again, or choose \
                 another location with --store"
            ))
        }
        ErrorCode::DiskFull => StoreError::Full(format!(
            "no space is left for {shown}; free some, or choose another location with --store"
        )),
        ErrorCode::ReadOnly
        | ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied
        | ErrorCode::AuthorizationForStatementDenied => StoreError::Forbidden(format!(
            "{shown} cannot be opened for writing; correct its permissions, or choose another location with --store"
        )),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged(format!(
            "{shown} is damaged or not a store ({error}); restore a copy, or choose another location with --store"
        )),
        // A write beyond a file size limit fails with this code.
        ErrorCode::SystemIoFailure => {
            StoreError::Full(format!("{shown} cannot be read or written ({error}); is the disk full or broken?"))
        }
        _ => StoreError::Failed(format!("{shown}: {error}")),
    }
}

#[cfg(test)]
mod tests;
