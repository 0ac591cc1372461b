//! The embedded store: one SQLite file, or one in memory that nothing outlives.
//!
//! One thread writes, and SQLite's own lock orders it among processes; others read beside it (write-ahead log). All work is done on
//! these threads, which do nothing else ([`threads`](super::threads)). What was committed survives a killed process; with
//! [`Sync::Full`] a power loss, too.

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

use super::Work;
use super::error::{Result, StoreError};
use super::schema::{MIGRATIONS, VERSION};
use super::sql::{Flavour, Row, Sql, Value};
use super::threads::Threads;

/// How every file begins that may be one of ours.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Says that a file is ours: "`LHst`".
const APPLICATION: i64 = 0x4c48_7374;

/// How long to wait for another process before giving up on it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait between two tries, where the database does not wait by itself.
const PAUSE: Duration = Duration::from_millis(10);

/// So many threads read.
const READERS: usize = 4;

/// What a commit outlives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// The process.
    #[default]
    Normal,
    /// The power, too: each commit waits for the disk.
    Full,
}

/// The store in a file or in memory.
#[derive(Clone)]
pub(super) struct Sqlite {
    inner: Arc<Inner>,
}

struct Inner {
    /// The one thread that writes.
    writer: Threads<Desk>,
    /// The threads that read beside it; none where the store is in memory, which has one connection.
    readers: Option<Threads<Desk>>,
    /// The file as it was opened.
    file: Option<OpenFile>,
}

/// A file that is known again by its number on the disk, whatever happens to its name.
struct OpenFile {
    path: PathBuf,
    number: Option<(u64, u64)>,
}

impl OpenFile {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), number: file_number(path) }
    }

    /// Fails where the file was deleted, or another lies in its place: SQLite would write on into nothing.
    fn is_there(&self) -> Result<()> {
        let now = file_number(&self.path);
        if now.is_some() && now == self.number {
            return Ok(());
        }
        Err(StoreError::Unreachable(format!(
            "{} was deleted or replaced while it was open; put it back, or restart longhaul to begin a new store",
            self.path.display()
        )))
    }
}

#[cfg(unix)]
fn file_number(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// An open file cannot be deleted elsewhere.
#[cfg(not(unix))]
fn file_number(path: &Path) -> Option<(u64, u64)> {
    path.exists().then_some((0, 0))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Memory,
    File(PathBuf),
}

impl Place {
    fn shown(&self) -> String {
        match self {
            Self::Memory => "the store in memory".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

impl Inner {
    fn is_there(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), OpenFile::is_there)
    }
}

/// A thread's own connection, and how to get another.
struct Desk {
    place: Place,
    sync: Sync,
    connection: Option<Connection>,
}

impl Desk {
    /// The connection, made where there is none, and the place that it leads to.
    fn connection(&mut self) -> Result<(&mut Connection, &Place)> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.place, self.sync)?,
        };
        Ok((self.connection.insert(connection), &self.place))
    }

    /// Leaves a connection on which a transaction was left open, which takes the transaction back. What is in memory lives in its
    /// connection, so that it is taken back there.
    fn mend(&mut self) {
        let is_open = |connection: &Connection| !connection.is_autocommit();
        if self.connection.as_ref().is_some_and(is_open) {
            match (&self.place, &self.connection) {
                (Place::Memory, Some(connection)) => drop(connection.execute_batch("ROLLBACK")),
                _ => self.connection = None,
            }
        }
    }
}

/// The transaction of one piece of work. One that is dropped before it is committed is taken back, by a panic too.
struct Transaction<'c> {
    connection: &'c mut Connection,
    place: &'c Place,
}

impl Sqlite {
    /// Opens a file, or makes it: readable for its owner alone, in a folder that is made if need be.
    pub(super) fn file(path: &Path, sync: Sync) -> Result<Self> {
        make(path)?;
        Self::open(&Place::File(path.to_owned()), sync)
    }

    pub(super) fn memory() -> Result<Self> {
        Self::open(&Place::Memory, Sync::Normal)
    }

    fn open(place: &Place, sync: Sync) -> Result<Self> {
        refuse_others(place)?;
        let mut connection = connect(place, sync)?;
        migrate(&mut connection, place)?;
        let desk = |connection| Desk { place: place.clone(), sync, connection };
        let writer = Threads::start("longhaul-write", vec![desk(Some(connection))], Desk::mend)?;
        let readers = match &place {
            Place::Memory => None,
            Place::File(_) => {
                let desks = (0..READERS).map(|_| desk(None)).collect();
                Some(Threads::start("longhaul-read", desks, Desk::mend)?)
            }
        };
        let file = match &place {
            Place::Memory => None,
            Place::File(path) => Some(OpenFile::new(path)),
        };
        Ok(Self { inner: Arc::new(Inner { writer, readers, file }) })
    }

    /// Does work that changes something, all of it or none.
    pub(super) async fn write<T: Send + 'static>(&self, work: Work<T>) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        self.with_writer(move |connection, place| {
            inner.is_there()?;
            transact(connection, place, "BEGIN IMMEDIATE", &work)
        })
        .await
    }

    /// Does work that changes nothing, on the state of one moment.
    pub(super) async fn read<T: Send + 'static>(&self, work: Work<T>) -> Result<T> {
        let Some(readers) = &self.inner.readers else { return self.write(work).await };
        let inner = Arc::clone(&self.inner);
        readers
            .run(move |desk| {
                inner.is_there()?;
                let (connection, place) = desk.connection()?;
                transact(connection, place, "BEGIN", &work)
            })
            .await
    }

    /// Gives free pages back, leaves nothing of what was deleted in file or log, and keeps the index small.
    pub(super) async fn vacuum(&self) -> Result<()> {
        self.with_writer(|connection, place| {
            let steps = "INSERT INTO terms (terms) VALUES ('optimize'); VACUUM;";
            connection.execute_batch(steps).map_err(|e| failed(place, &e))?;
            // It fails by saying so in a row: while somebody reads, what was deleted stays in the log.
            let clear = "PRAGMA wal_checkpoint(TRUNCATE)";
            let kept: i64 =
                connection.query_row(clear, [], |row| row.get(0)).map_err(|e| failed(place, &e))?;
            if kept != 0 {
                return Err(StoreError::Busy(format!(
                    "somebody reads {}, so what was deleted is not gone from its log yet; try again",
                    place.shown()
                )));
            }
            Ok(())
        })
        .await
    }

    /// What is wrong with the file, if anything is.
    pub(super) async fn faults(&self) -> Result<Vec<String>> {
        self.with_writer(|connection, place| {
            let mut transaction = Transaction { connection, place };
            let rows = ready(transaction.rows("PRAGMA integrity_check", &[]))?;
            drop(transaction);
            let index = connection.execute_batch("INSERT INTO terms (terms) VALUES ('integrity-check')");
            let mut faults = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<String>>>()?;
            faults.retain(|fault| fault != "ok");
            faults.extend(index.err().map(|error| format!("the index of terms: {error}")));
            Ok(faults)
        })
        .await
    }

    /// How many bytes it takes.
    pub(super) async fn size(&self) -> Result<u64> {
        self.with_writer(|connection, place| {
            let mut transaction = Transaction { connection, place };
            let pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
            let row = ready(transaction.row(pages, &[]))?;
            row.map_or(Ok(0), |row| row.count(0)).map(|bytes| bytes as u64)
        })
        .await
    }

    /// Does something on the one thread that writes.
    async fn with_writer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &Place) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.inner
            .writer
            .run(move |desk| {
                let (connection, place) = desk.connection()?;
                work(connection, place)
            })
            .await
    }
}

/// Makes the file before SQLite does, so that it never was readable for others.
fn make(path: &Path) -> Result<()> {
    let refused = |error: std::io::Error| {
        let shown = path.display();
        StoreError::Forbidden(format!(
            "cannot make the store {shown}: {error}; name another place with --store"
        ))
    };
    if path.exists() {
        let shown = path.display();
        return if path.is_file() || path.is_dir() {
            Ok(())
        } else {
            Err(StoreError::Forbidden(format!("{shown} is no file; name another place with --store")))
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

/// The data folder is the user's own elsewhere.
#[cfg(not(unix))]
fn private_file(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path).map(drop)
}

#[cfg(not(unix))]
fn private_folder(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path)
}

/// Looks whose a file is before anything in it is set, so that what is not ours stays as it is to the byte.
fn refuse_others(place: &Place) -> Result<()> {
    let Place::File(path) = place else { return Ok(()) };
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start));
    // SQLite takes a few bytes of anything for an empty database, and writes over them.
    if read.is_ok() && !start.is_empty() && start != MAGIC {
        return Err(StoreError::Damaged(format!(
            "{} is no store, and is left as it is; name another place with --store",
            place.shown()
        )));
    }
    let connection = plain(place)?;
    let ours = connection.busy_timeout(PATIENCE).and_then(|()| Standing::of(&connection));
    ours.map_err(|e| failed(place, &e))?.refused(place)
}

/// A connection on which nothing is set.
fn plain(place: &Place) -> Result<Connection> {
    let connection = match place {
        Place::Memory => Connection::open_in_memory(),
        Place::File(path) => Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        ),
    };
    connection.map_err(|e| failed(place, &e))
}

fn connect(place: &Place, sync: Sync) -> Result<Connection> {
    let connection = plain(place)?;
    let synchronous = match sync {
        Sync::Normal => "NORMAL",
        Sync::Full => "FULL",
    };
    let set_up = || {
        connection.busy_timeout(PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4096;"
        ))
    };
    // Where several make the same file at once, SQLite itself does not wait for who is turning its log on.
    let began = Instant::now();
    loop {
        let done = set_up().map_err(|e| failed(place, &e));
        match done {
            Err(StoreError::Busy(_)) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            done => return done.map(|()| connection),
        }
    }
}

/// Whose a database is, and how far its tables are.
struct Standing {
    application: i64,
    version: i64,
    tables: i64,
}

impl Standing {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let ask = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
        let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok(Self { application: ask("application_id")?, version: ask("user_version")?, tables })
    }

    /// Why it is to be left alone, if it is.
    fn refused(&self, place: &Place) -> Result<()> {
        let (shown, version) = (place.shown(), self.version);
        if self.application != APPLICATION && self.tables > 0 {
            return Err(StoreError::Damaged(format!(
                "{shown} is a database of another program, and is left as it is"
            )));
        }
        if version > VERSION {
            return Err(StoreError::Newer(format!(
                "{shown} was written by a newer longhaul (its tables are of version {version}, this one knows {VERSION}); update longhaul"
            )));
        }
        Ok(())
    }
}

/// Brings the tables up to date, one step a transaction: who is killed half-way finds the step undone.
fn migrate(connection: &mut Connection, place: &Place) -> Result<()> {
    loop {
        let standing = Standing::of(connection).map_err(|e| failed(place, &e))?;
        standing.refused(place)?;
        if standing.version == VERSION {
            return Ok(());
        }
        step(connection).map_err(|e| failed(place, &e))?;
    }
}

fn step(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let Standing { version, .. } = Standing::of(&transaction)?;
    if let Some(migration) = usize::try_from(version).ok().and_then(|done| MIGRATIONS.get(done)) {
        transaction.execute_batch(migration.sqlite)?;
        let version = version + 1;
        let stamp = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version}");
        transaction.execute_batch(&stamp)?;
    }
    transaction.commit()
}

/// Does work between the beginning of a transaction and its end; what fails leaves nothing behind.
fn transact<T>(connection: &mut Connection, place: &Place, begin: &str, work: &Work<T>) -> Result<T> {
    let mut transaction = Transaction::begin(connection, place, begin)?;
    let done = ready(work(&mut transaction))?;
    transaction.batch("COMMIT")?;
    Ok(done)
}

/// What work on SQLite gives: it never makes anybody wait for a wake-up.
fn ready<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(StoreError::Failed("work on the store waited for something else".to_owned())),
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
    fn begin(connection: &'c mut Connection, place: &'c Place, begin: &str) -> Result<Self> {
        let transaction = Self { connection, place };
        transaction.batch(begin)?;
        Ok(transaction)
    }

    fn batch(&self, statements: &str) -> Result<()> {
        self.connection.execute_batch(statements).map_err(|e| failed(self.place, &e))
    }

    fn prepare(&self, statement: &str) -> Result<rusqlite::CachedStatement<'_>> {
        // The same numbers, with the sign that SQLite reads as numbers.
        let statement = statement.replace('$', "?");
        self.connection.prepare_cached(&statement).map_err(|e| failed(self.place, &e))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.connection.is_autocommit() {
            // Where even this fails, closing the connection does the same.
            let _ = self.batch("ROLLBACK");
        }
    }
}

#[async_trait]
impl Sql for Transaction<'_> {
    async fn rows(&mut self, statement: &str, values: &[Value]) -> Result<Vec<Row>> {
        let mut statement = self.prepare(statement)?;
        read(&mut statement, values).map_err(|e| failed(self.place, &e))
    }

    async fn run(&mut self, statement: &str, values: &[Value]) -> Result<usize> {
        let mut statement = self.prepare(statement)?;
        statement.execute(rusqlite::params_from_iter(values)).map_err(|e| failed(self.place, &e))
    }

    fn flavour(&self) -> &'static Flavour {
        &FLAVOUR
    }
}

fn read(statement: &mut Statement<'_>, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let columns = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    let mut read = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Int(number),
                ValueRef::Real(number) => Value::Int(number as i64),
                // Only what was damaged is no UTF-8, and a body with signs in the place of words would be another body.
                ValueRef::Text(text) => Value::Text(std::str::from_utf8(text)?.to_owned()),
                ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
            })
        };
        read.push(Row((0..columns).map(value).collect::<rusqlite::Result<_>>()?));
    }
    Ok(read)
}

const FLAVOUR: Flavour = Flavour {
    for_update: "",
    lock: None,
    share: None,
    enter_terms: "INSERT INTO terms (rowid, held) VALUES ($1, $2)",
    leave_terms: "DELETE FROM terms WHERE rowid BETWEEN $1 AND $2",
    having_term: "SELECT rowid FROM terms WHERE terms MATCH $1 AND rowid BETWEEN $2 AND $3 ORDER BY rowid DESC LIMIT $4",
    term: |term| format!("\"{}\"", term.replace('"', "\"\"")),
};

/// What a failure of SQLite means for the caller, in one line.
fn failed(place: &Place, error: &rusqlite::Error) -> StoreError {
    let shown = place.shown();
    if let rusqlite::Error::Utf8Error(..) = error {
        return StoreError::Damaged(format!(
            "{shown} is damaged ({error}); restore a copy, or name another place with --store"
        ));
    }
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::Failed(format!("{shown}: {error}"));
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Busy(format!(
                "{shown} is locked by another process, or lies on a file system without locks; try again, or name another place with --store"
            ))
        }
        ErrorCode::DiskFull => StoreError::Full(format!(
            "there is no room for {shown}; make some, or name another place with --store"
        )),
        ErrorCode::ReadOnly
        | ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied
        | ErrorCode::AuthorizationForStatementDenied => StoreError::Forbidden(format!(
            "{shown} cannot be opened for writing; mend its permissions, or name another place with --store"
        )),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Damaged(format!(
            "{shown} is damaged or no store ({error}); restore a copy, or name another place with --store"
        )),
        // A limit on the size of files is told as a failed write.
        ErrorCode::SystemIoFailure => StoreError::Full(format!(
            "{shown} cannot be read or written ({error}); is the disk full or broken?"
        )),
        _ => StoreError::Failed(format!("{shown}: {error}")),
    }
}

#[cfg(test)]
mod tests;
