//! `SQLite` databases of agents, read from a copy: opening one in place writes beside it, and may even change it.
//!
//! ```text
//! original + its -wal or -journal ──copy──▶ a folder of ours that nobody else can enter ──open──▶ rows
//! ```
//!
//! The copy holds what was committed when it was made. The database is copied before its log, so a log that grows meanwhile
//! does no harm: what is not committed in it is not seen. A database that changes itself is copied again.

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

use super::folder::{entries, name};
use super::{Moment, Unread, lines};

/// How often a database that changes under the copy is copied again.
const TRIES: usize = 5;

/// More than a tick of the clock that files are stamped by.
const TICK: Duration = Duration::from_millis(20);

/// The part of a log that another round of it begins with another one of.
const LOG_HEAD: u64 = 32;

/// What stands beside a database and belongs to it: the log of what is not in it yet, the journal of what must come out again.
const BESIDE: [&str; 2] = ["-wal", "-journal"];

/// A copy of a database.
pub(super) struct Database {
    connection: Mutex<Connection>,
    /// The original's path, for words about it.
    path: PathBuf,
    /// Removed after the connection, which is why it stands behind it.
    _folder: Folder,
}

/// What a file was when it was looked at; another stamp is another state of it.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// Whether it would be another one, had the file been written to since: clocks of file systems tick slowly.
    fn is_older_than(&self, moment: SystemTime) -> bool {
        self.modified.is_none_or(|modified| moment.duration_since(modified).is_ok_and(|age| age > TICK))
    }
}

/// A path, and the stamps of the database and of what stands beside it.
type State = (PathBuf, [Option<Stamp>; 3]);

/// So many copies are kept: one for each agent that has a database, and one to spare.
const KEPT: usize = 4;

/// The databases that were opened last. A list of sessions asks for all of them, of several agents by turns and on several
/// threads, and one copy serves them all.
static OPEN: Mutex<Vec<(State, Arc<Database>)>> = Mutex::new(Vec::new());

/// Opens a copy of the database at `path`, packed or not; the copy that is there, where nothing was written since.
pub(super) fn open(path: &Path) -> Result<Arc<Database>, Unread> {
    // Held while a copy is made, so that nobody makes a second one meanwhile.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let state = state(path);
    if let Some((_, database)) = open.iter().find(|(known, _)| *known == state) {
        return Ok(Arc::clone(database));
    }
    // An old copy goes before a new one is made: both may be more than the disk has room for.
    open.retain(|((known, _), _)| known != path);
    open.truncate(KEPT - 1);
    let database = Arc::new(Database::copy(path)?);
    open.insert(0, (state, Arc::clone(&database)));
    Ok(database)
}

impl Database {
    fn copy(path: &Path) -> Result<Self, Unread> {
        let folder = Folder::new().map_err(|error| no_room(path, &error))?;
        let to = folder.0.join("copy.db");
        for _ in 0..TRIES {
            let (started, before) = (SystemTime::now(), stamp(path));
            copy_all(path, &to)?;
            let is_old = before.as_ref().is_some_and(|stamp| stamp.is_older_than(started));
            if is_old && before == stamp(path) && same_log(path, &to) {
                break;
            }
            std::thread::sleep(TICK);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&to, flags).map_err(|error| unreadable(path, &error))?;
        // Takes the log in, so that the copy is one file, which can go while it is open.
        connection
            .pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
            .and_then(|()| connection.pragma_update(None, "temp_store", "MEMORY"))
            .and_then(|()| connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())))
            .map_err(|error| unreadable(path, &error))?;
        folder.forget_early();
        Ok(Self { connection: Mutex::new(connection), path: path.to_owned(), _folder: folder })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The columns of a table; none, where there is no such table.
    pub(super) fn columns(&self, table: &str) -> Result<BTreeSet<String>, Unread> {
        let read = || -> rusqlite::Result<_> {
            let connection = self.connection();
            let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
            let names = statement.query_map([table], |row| row.get(0))?;
            names.collect()
        };
        read().map_err(|error| unreadable(&self.path, &error))
    }

    /// Rows of a table with those columns that it has; `rest` is what follows the table's name. Older schemas lack columns,
    /// which are then empty; a table that is not there has no rows.
    pub(super) fn rows(
        &self,
        table: &str,
        columns: &'static [&'static str],
        rest: &str,
        parameters: &[&dyn ToSql],
    ) -> Result<Vec<Row>, Unread> {
        let there = self.columns(table)?;
        if there.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: Vec<String> = columns
            .iter()
            .map(|name| if there.contains(*name) { format!("\"{name}\"") } else { "NULL".to_owned() })
            .collect();
        let read = || -> rusqlite::Result<_> {
            let query = format!("SELECT {} FROM \"{table}\" {rest}", wanted.join(", "));
            let connection = self.connection();
            let mut statement = connection.prepare(&query)?;
            let rows = statement.query_map(parameters, |row| {
                let cells =
                    (0..columns.len()).map(|at| row.get_ref(at).map(cell)).collect::<Result<_, _>>()?;
                Ok(Row { columns, cells })
            })?;
            rows.collect()
        };
        read().map_err(|error| unreadable(&self.path, &error))
    }

    /// Why the session that was asked for is not there.
    pub(super) fn lacks(&self, id: Option<&str>) -> Unread {
        let path = self.path.display();
        Unread::Wrong(match id {
            Some(id) => {
                format!("{path} has no session `{id}`; `longhaul sessions` lists those that are there")
            }
            None => format!("{path} has no sessions yet"),
        })
    }
}

/// One row, by the names of its columns.
pub(super) struct Row {
    columns: &'static [&'static str],
    cells: Vec<Cell>,
}

impl Row {
    fn cell(&self, name: &str) -> Option<&Cell> {
        self.columns.iter().position(|column| *column == name).map(|at| &self.cells[at])
    }

    /// A text that is there, empty or not.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.cell(name) {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A text that says something.
    pub(super) fn words(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A whole number.
    pub(super) fn whole(&self, name: &str) -> Option<i64> {
        match self.cell(name) {
            Some(Cell::Integer(number)) => Some(*number),
            Some(Cell::Real(number)) => Some(*number as i64),
            _ => None,
        }
    }

    /// A number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.cell(name) {
            Some(Cell::Integer(number)) => Some(*number as f64),
            Some(Cell::Real(number)) => Some(*number),
            _ => None,
        }
    }

    /// What a column holds as JSON.
    pub(super) fn json(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.text(name)?).ok()
    }

    /// A moment: seconds since 1970, or a date.
    pub(super) fn moment(&self, name: &str) -> Option<Moment> {
        match self.text(name) {
            Some(text) => Moment::parse(text),
            None => self.number(name).map(Moment::of_seconds),
        }
    }
}

/// Text that is no UTF-8 is read as far as it goes.
fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        other => other.try_into().unwrap_or(Cell::Null),
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    Some(Stamp { length: data.len(), modified: data.modified().ok() })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn state(path: &Path) -> State {
    let [log, journal] = BESIDE.map(|ending| stamp(&beside(path, ending)));
    (path.to_owned(), [stamp(path), log, journal])
}

/// Copies the database, then what stands beside it; in this order what the log says is never older than the database.
fn copy_all(from: &Path, to: &Path) -> Result<(), Unread> {
    for ending in BESIDE {
        fs::remove_file(beside(to, ending)).or_else(may_be_absent).map_err(|error| no_room(from, &error))?;
    }
    if is_packed(from)? {
        return fs::write(to, lines::whole(from)?).map_err(|error| no_room(from, &error));
    }
    let mut opened = File::open(from).map_err(|error| lines::unreadable(from, &error))?;
    copy_one(from, &mut opened, to)?;
    for ending in BESIDE {
        let path = beside(from, ending);
        match File::open(&path) {
            Ok(mut opened) => copy_one(&path, &mut opened, &beside(to, ending))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(lines::unreadable(&path, &error)),
        }
    }
    Ok(())
}

/// Copies the bytes and not the mode: the copy of a file that may only be read has to be writable, or its log cannot be
/// taken in.
fn copy_one(path: &Path, from: &mut File, to: &Path) -> Result<(), Unread> {
    let mut file = File::create(to).map_err(|error| no_room(path, &error))?;
    match io::copy(from, &mut file) {
        Ok(_) => Ok(()),
        // Windows refuses bytes that another program has locked.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(locked(path)),
        Err(error) => Err(Unread::World(format!("cannot copy {} to read it: {error}", path.display()))),
    }
}

/// Whether the log is still the one that was copied. Once all of it is in the database it is written anew from its beginning,
/// and a copy of half the old one would take the database back.
fn same_log(from: &Path, to: &Path) -> bool {
    let [now, copied] = [from, to].map(|path| head(&beside(path, BESIDE[0]), LOG_HEAD).ok());
    now == copied
}

fn head(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(length).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether a file is gzip or zstd.
fn is_packed(path: &Path) -> Result<bool, Unread> {
    let head = head(path, 4).map_err(|error| lines::unreadable(path, &error))?;
    Ok(head.starts_with(&[0x1f, 0x8b]) || head == [0x28, 0xb5, 0x2f, 0xfd])
}

fn may_be_absent(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn no_room(path: &Path, error: &io::Error) -> Unread {
    let folder = std::env::temp_dir();
    let (path, folder) = (path.display(), folder.display());
    Unread::World(format!(
        "cannot copy {path} into {folder} to read it: {error}; set TMPDIR to a folder with room"
    ))
}

fn locked(path: &Path) -> Unread {
    Unread::World(format!("{} is locked by another program; close it and try again", path.display()))
}

fn unreadable(path: &Path, error: &rusqlite::Error) -> Unread {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => locked(path),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Unread::Wrong(format!("{} is damaged ({error}); take a backup of it", path.display()))
        }
        _ => Unread::World(format!("cannot read the database {}: {error}", path.display())),
    }
}

/// How many folders were made: their names differ by it.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder of ours in the folder for temporary files, which only its owner can enter.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        if !cfg!(unix) {
            sweep();
        }
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("longhaul-{}-{count}", std::process::id()));
            match private(&path) {
                // Left there by a process that had our number before.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(path)),
            }
        }
    }

    /// Where an open file can lose its name, the copy loses it at once: then nothing stays behind however the program ends.
    fn forget_early(&self) {
        if cfg!(unix) {
            self.remove();
        }
    }

    fn remove(&self) {
        // What cannot be removed is in a private folder that the system clears; there is nobody to tell.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes what earlier runs left where an open file keeps its name. What is still open cannot be removed there, and what is
/// young may not be open yet.
fn sweep() {
    let is_old = |path: &Path| {
        let made = fs::metadata(path).and_then(|data| data.modified()).ok();
        made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > YOUNG)
    };
    let left = entries(&std::env::temp_dir()).into_iter().filter(|path| is_ours(name(path)) && is_old(path));
    left.for_each(|path| Folder(path).remove());
}

/// A folder of this age belongs to nobody who is still about to open what is in it.
const YOUNG: Duration = Duration::from_mins(10);

/// `longhaul-<process>-<number>`.
fn is_ours(name: &str) -> bool {
    let mut parts = name.split('-');
    parts.next() == Some("longhaul")
        && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(unix)]
fn private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    DirBuilder::new().mode(0o700).create(path)
}

/// The folder for temporary files is the user's own elsewhere.
#[cfg(not(unix))]
fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)
}
