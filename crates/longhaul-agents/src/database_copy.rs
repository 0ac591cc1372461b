//! Reads agents' `SQLite` databases from a copy: `SQLite` writes files beside a database that it opens in
//! place, and can even change the database.
//!
//! ```text
//! original + its -wal or -journal ──copy──▶ private temporary folder ──open──▶ rows
//! ```
//!
//! The copy contains everything that was committed when it was made. The database is copied before its
//! write-ahead log (WAL), so a log that grows during the copy does no harm: uncommitted entries are ignored.
//! If the database itself changes during the copy, it is copied again.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};
use serde_json::Value;

use super::folder::{file_name, sorted_entries};
use super::{SessionReadError, Timestamp, file_reader};

/// The number of attempts to copy a database that changes during the copy. Chosen by hand.
const MAX_COPY_ATTEMPTS: usize = 5;

/// A duration longer than one tick of the clock that sets file times, so that a later write must change the
/// time. Chosen by hand.
const MAX_CLOCK_TICK: Duration = Duration::from_millis(20);

/// The size in bytes of a WAL file's header. `SQLite` writes a new header when it restarts the log.
const WAL_HEADER_BYTES: u64 = 32;

/// The suffixes of the files beside a database that belong to it: the WAL with changes not yet in the
/// database, and the rollback journal.
const SIDE_FILE_SUFFIXES: [&str; 2] = ["-wal", "-journal"];

/// A private copy of an agent's database.
pub(super) struct DatabaseCopy {
    connection: Mutex<Connection>,
    /// The original's path, for error messages.
    path: PathBuf,
    /// The folder of the copy. It must be declared after the connection, because fields are dropped in order
    /// and the folder is removed last.
    _folder: TempFolder,
}

/// The length and modification time of a file. Two different stamps mean that the file changed.
#[derive(Clone, PartialEq, Eq)]
struct FileStamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl FileStamp {
    /// Returns whether a write at or after `time` would give the file a different stamp. File systems'
    /// clocks tick slowly, so a stamp that is too recent can hide a write.
    fn is_older_than(&self, time: SystemTime) -> bool {
        self.modified.is_none_or(|modified| time.duration_since(modified).is_ok_and(|age| age > MAX_CLOCK_TICK))
    }
}

/// A database's path, and the stamps of the database, its WAL and its journal.
type DatabaseState = (PathBuf, [Option<FileStamp>; 3]);

/// The maximum number of copies that are kept open: one for each of the three agents with a database, and a
/// spare one.
const MAX_CACHED_COPIES: usize = 4;

/// The copies that were opened last, newest first. Listing sessions opens the databases of several agents
/// alternately and on several threads, and they share one copy of each.
static CACHED_COPIES: Mutex<Vec<(DatabaseState, Arc<DatabaseCopy>)>> = Mutex::new(Vec::new());

/// Opens a copy of the database at `path`, compressed or not. Reuses an existing copy if the original has not
/// changed since.
pub(super) fn open_copy(path: &Path) -> Result<Arc<DatabaseCopy>, SessionReadError> {
    // The lock is held during the copy, so that no other thread makes a second copy.
    let mut open = CACHED_COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let state = database_state(path);
    if let Some((_, database)) = open.iter().find(|(copied, _)| *copied == state) {
        return Ok(Arc::clone(database));
    }
    // The old copy is removed before the new one is made, since the disk may not have space for both.
    open.retain(|((copied, _), _)| copied != path);
    open.truncate(MAX_CACHED_COPIES - 1);
    let database = Arc::new(DatabaseCopy::create(path)?);
    open.insert(0, (state, Arc::clone(&database)));
    Ok(database)
}

impl DatabaseCopy {
    fn create(path: &Path) -> Result<Self, SessionReadError> {
        let folder = TempFolder::new().map_err(|error| copy_error(path, &error))?;
        let to = folder.0.join("copy.db");
        for _ in 0..MAX_COPY_ATTEMPTS {
            let (started, before) = (SystemTime::now(), file_stamp(path));
            copy_database(path, &to)?;
            let is_old = before.as_ref().is_some_and(|stamp| stamp.is_older_than(started));
            if is_old && before == file_stamp(path) && is_wal_unchanged(path, &to) {
                break;
            }
            std::thread::sleep(MAX_CLOCK_TICK);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&to, flags).map_err(|error| sqlite_error(path, &error))?;
        // Merges the WAL into the copy, so that the copy is a single file, which can be unlinked while it is
        // open.
        connection
            .pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
            .and_then(|()| connection.pragma_update(None, "temp_store", "MEMORY"))
            .and_then(|()| connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())))
            .map_err(|error| sqlite_error(path, &error))?;
        folder.unlink_if_possible();
        Ok(Self { connection: Mutex::new(connection), path: path.to_owned(), _folder: folder })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the columns of a table, or an empty set if the table does not exist.
    pub(super) fn columns(&self, table: &str) -> Result<BTreeSet<String>, SessionReadError> {
        let read = || -> rusqlite::Result<_> {
            let connection = self.connection();
            let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
            let names = statement.query_map([table], |row| row.get(0))?;
            names.collect()
        };
        read().map_err(|error| sqlite_error(&self.path, &error))
    }

    /// Selects columns of a table; `rest` is the SQL after the table's name. Columns that an older schema
    /// lacks are NULL, and a missing table has no rows.
    pub(super) fn select(
        &self,
        table: &str,
        columns: &'static [&'static str],
        rest: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Row>, SessionReadError> {
        let existing = self.columns(table)?;
        if existing.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<String> = columns
            .iter()
            .map(|name| if existing.contains(*name) { format!("\"{name}\"") } else { "NULL".to_owned() })
            .collect();
        let read = || -> rusqlite::Result<_> {
            let query = format!("SELECT {} FROM \"{table}\" {rest}", wanted.join(", "));
            let connection = self.connection();
            let mut statement = connection.prepare(&query)?;
            let rows = statement.query_map(parameters, |row| {
                let cells = (0..columns.len()).map(|at| row.get_ref(at).map(to_cell)).collect::<Result<_, _>>()?;
                Ok(Row { columns, cells })
            })?;
            rows.collect()
        };
        read().map_err(|error| sqlite_error(&self.path, &error))
    }

    /// Returns the error for a session that the database does not contain.
    pub(super) fn missing_session(&self, id: Option<&str>) -> SessionReadError {
        let path = self.path.display();
        SessionReadError::Invalid(match id {
            Some(id) => {
                format!("{path} has no session `{id}`; `longhaul sessions` lists the existing ones")
            }
            None => format!("{path} has no sessions yet"),
        })
    }
}

/// One row of a query. Cells are read by column name.
pub(super) struct Row {
    columns: &'static [&'static str],
    cells: Vec<Cell>,
}

impl Row {
    fn cell(&self, name: &str) -> Option<&Cell> {
        self.columns.iter().position(|column| *column == name).map(|at| &self.cells[at])
    }

    /// Returns a text, which can be empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.cell(name) {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a text that is not empty.
    pub(super) fn nonempty_text(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Returns a number as an integer, truncated.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match self.cell(name) {
            Some(Cell::Integer(number)) => Some(*number),
            Some(Cell::Real(number)) => Some(*number as i64),
            _ => None,
        }
    }

    /// Returns a number as a float.
    pub(super) fn float(&self, name: &str) -> Option<f64> {
        match self.cell(name) {
            Some(Cell::Integer(number)) => Some(*number as f64),
            Some(Cell::Real(number)) => Some(*number),
            _ => None,
        }
    }

    /// Parses a text column as JSON.
    pub(super) fn json(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.text(name)?).ok()
    }

    /// Returns a timestamp, stored as seconds since 1970 or as a date.
    pub(super) fn timestamp(&self, name: &str) -> Option<Timestamp> {
        match self.text(name) {
            Some(text) => Timestamp::parse(text),
            None => self.float(name).map(Timestamp::from_seconds),
        }
    }
}

/// Converts a cell. Replaces invalid UTF-8 in texts.
fn to_cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        other => other.try_into().unwrap_or(Cell::Null),
    }
}

fn file_stamp(path: &Path) -> Option<FileStamp> {
    let data = fs::metadata(path).ok()?;
    Some(FileStamp { length: data.len(), modified: data.modified().ok() })
}

fn side_file(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn database_state(path: &Path) -> DatabaseState {
    let [log, journal] = SIDE_FILE_SUFFIXES.map(|ending| file_stamp(&side_file(path, ending)));
    (path.to_owned(), [file_stamp(path), log, journal])
}

/// Copies the database, then the files beside it. In this order the WAL is never older than the database.
fn copy_database(from: &Path, to: &Path) -> Result<(), SessionReadError> {
    for ending in SIDE_FILE_SUFFIXES {
        fs::remove_file(side_file(to, ending)).or_else(ignore_not_found).map_err(|error| copy_error(from, &error))?;
    }
    if is_compressed(from)? {
        return fs::write(to, file_reader::read_all(from)?).map_err(|error| copy_error(from, &error));
    }
    let mut opened = File::open(from).map_err(|error| file_reader::read_error(from, &error))?;
    copy_file(from, &mut opened, to)?;
    for ending in SIDE_FILE_SUFFIXES {
        let path = side_file(from, ending);
        match File::open(&path) {
            Ok(mut opened) => copy_file(&path, &mut opened, &side_file(to, ending))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(file_reader::read_error(&path, &error)),
        }
    }
    Ok(())
}

/// Copies the bytes but not the permissions: the copy of a read-only file must be writable, or its WAL could
/// not be merged.
fn copy_file(path: &Path, from: &mut File, to: &Path) -> Result<(), SessionReadError> {
    let mut file = File::create(to).map_err(|error| copy_error(path, &error))?;
    match io::copy(from, &mut file) {
        Ok(_) => Ok(()),
        // Windows refuses to read bytes that another program has locked.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(locked_error(path)),
        Err(error) => Err(SessionReadError::Io(format!("cannot copy {} to read it: {error}", path.display()))),
    }
}

/// Returns whether the WAL is still the one that was copied. After a checkpoint `SQLite` overwrites the WAL
/// from the beginning; a partial copy of the old WAL would revert the database.
fn is_wal_unchanged(from: &Path, to: &Path) -> bool {
    let [now, copied] =
        [from, to].map(|path| read_prefix(&side_file(path, SIDE_FILE_SUFFIXES[0]), WAL_HEADER_BYTES).ok());
    now == copied
}

fn read_prefix(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(length).read_to_end(&mut head)?;
    Ok(head)
}

/// Returns whether a file is compressed with gzip or zstd.
fn is_compressed(path: &Path) -> Result<bool, SessionReadError> {
    let head = read_prefix(path, 4).map_err(|error| file_reader::read_error(path, &error))?;
    Ok(head.starts_with(&[0x1f, 0x8b]) || head == [0x28, 0xb5, 0x2f, 0xfd])
}

fn ignore_not_found(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn copy_error(path: &Path, error: &io::Error) -> SessionReadError {
    let folder = std::env::temp_dir();
    let (path, folder) = (path.display(), folder.display());
    SessionReadError::Io(format!(
        "cannot copy {path} into {folder} to read it: {error}; set TMPDIR to a folder with enough space"
    ))
}

fn locked_error(path: &Path) -> SessionReadError {
    SessionReadError::Io(format!("{} is locked by another program; close it and try again", path.display()))
}

fn sqlite_error(path: &Path, error: &rusqlite::Error) -> SessionReadError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => locked_error(path),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            SessionReadError::Invalid(format!("{} is damaged ({error}); restore it from a backup", path.display()))
        }
        _ => SessionReadError::Io(format!("cannot read the database {}: {error}", path.display())),
    }
}

/// The number of temporary folders made by this process, which makes their names unique.
static FOLDER_COUNTER: AtomicU32 = AtomicU32::new(0);

/// A temporary folder that only its owner can enter. It is removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> io::Result<Self> {
        if !cfg!(unix) {
            remove_stale_folders();
        }
        loop {
            let count = FOLDER_COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("longhaul-{}-{count}", std::process::id()));
            match create_private_folder(&path) {
                // An earlier process with the same ID left it behind.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(path)),
            }
        }
    }

    /// Removes the folder at once on systems where an open file can be unlinked, so that nothing remains
    /// however the process ends.
    fn unlink_if_possible(&self) {
        if cfg!(unix) {
            self.remove();
        }
    }

    fn remove(&self) {
        // Errors are ignored: what remains is in a private folder that the system clears, and the caller
        // could do nothing.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes folders that earlier processes left behind on systems where open files cannot be unlinked. There,
/// files in use cannot be removed; recent folders are skipped because their files may not be open yet.
fn remove_stale_folders() {
    let is_old = |path: &Path| {
        let made = fs::metadata(path).and_then(|data| data.modified()).ok();
        made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > STALE_FOLDER_AGE)
    };
    let left = sorted_entries(&std::env::temp_dir())
        .into_iter()
        .filter(|path| is_temp_folder_name(file_name(path)) && is_old(path));
    left.for_each(|path| TempFolder(path).remove());
}

/// The age from which a left-over folder is removed. Chosen by hand: a process opens its copy much sooner.
const STALE_FOLDER_AGE: Duration = Duration::from_mins(10);

/// Returns whether a folder name has the form `longhaul-<process>-<number>`.
fn is_temp_folder_name(name: &str) -> bool {
    let mut parts = name.split('-');
    parts.next() == Some("longhaul") && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(unix)]
fn create_private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    DirBuilder::new().mode(0o700).create(path)
}

/// Creates the folder. On these systems the temporary folder belongs to the user already.
#[cfg(not(unix))]
fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)
}
