//! What holds of every database: it is read from a copy, while it is written to, and nothing is written beside it. Also what
//! tests of sessions in databases share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use longhaul_agents::{
    Agent, AgentSession, Extent, MessagePart, Origin, ReadOptions, RecordedMessage, Role, SessionLocation,
    SessionReadError, UserEnvironment,
};
use longhaul_engine::check::{Severity, Violation, check};
use longhaul_engine::models;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{self, Folder};

tests! {
    always: [
        nothing_is_written_beside_a_database,
        what_another_program_has_not_committed_is_not_read,
        what_another_program_has_committed_is_read_from_its_log,
        a_database_that_is_written_to_all_the_time_is_read_whole,
        a_copy_is_made_again_when_the_database_has_changed,
        no_copy_stays_behind,
        a_database_that_may_only_be_read_is_read,
        a_damaged_database_is_one_clear_line,
        a_database_cut_short_is_one_clear_line,
        a_database_of_something_else_is_no_session,
        an_empty_database_has_no_sessions,
        a_session_that_is_not_there_is_said,
        a_packed_database_is_read,
        where_nothing_was_found_is_said_once,
        copies_of_several_databases_serve_a_list_of_all,
    ],
    real: [],
}

/// A database that a few statements make.
pub(crate) fn made(folder: &Folder, name: &str, statements: &str) -> PathBuf {
    let path = folder.0.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    Connection::open(&path).unwrap().execute_batch(statements).unwrap();
    path
}

/// The whole session, as if nothing had been compacted.
pub(crate) fn whole() -> ReadOptions {
    ReadOptions { extent: Extent::FullHistory, ..ReadOptions::default() }
}

/// A session, which must be there.
pub(crate) fn session(path: &Path, asked: &ReadOptions) -> AgentSession {
    support::read(path, asked).unwrap_or_else(|unread| panic!("{}: {unread}", path.display()))
}

/// One of several sessions.
pub(crate) fn named(agent: Agent, path: &Path, id: &str) -> AgentSession {
    let place = SessionLocation { agent, path: path.to_owned(), id: Some(id.to_owned()), modified: None };
    longhaul_agents::read(&place, &ReadOptions::default()).unwrap_or_else(|unread| panic!("{id}: {unread}"))
}

/// The body as JSON. With the next prompt no provider would refuse it, but for tools that a file does not hold (A10).
pub(crate) fn body(session: &AgentSession) -> Value {
    let mut next = session.clone();
    let prompt = (MessagePart::Text("Go on.".to_owned()), Origin::Synthetic);
    next.messages.push(RecordedMessage { role: Role::User, parts: vec![prompt], time: None });
    let target = models::find(session.model.as_deref().unwrap_or_default()).target(session.api_format);
    let refused = |v: &Violation| v.severity == Severity::Error && (v.rule != "A10" || session.tools.is_some());
    let found = check(&longhaul_agents::request_body(&next), session.api_format, &target);
    let wrong: Vec<Violation> = found.into_iter().filter(refused).collect();
    assert!(wrong.is_empty(), "{}: {wrong:?}", session.id);
    serde_json::from_str(&longhaul_agents::request_body(session)).unwrap()
}

/// A machine with a home and these variables.
pub(crate) fn machine(home: &Path, variables: &[(&str, &Path)]) -> UserEnvironment {
    let environment: BTreeMap<String, String> =
        variables.iter().map(|(name, path)| ((*name).to_owned(), path.display().to_string())).collect();
    UserEnvironment { home: home.to_owned(), current_dir: home.to_owned(), variables: environment }
}

/// Ids of the sessions of an agent that are found on a machine, the newest first.
pub(crate) fn found(machine: &UserEnvironment, agent: Agent) -> Vec<String> {
    longhaul_agents::list_sessions(machine, Some(agent)).into_iter().map(|place| place.id.unwrap()).collect()
}

/// A database of Goose: the smallest there is.
const GOOSE: &str = "
    CREATE TABLE sessions (id TEXT, working_dir TEXT, updated_at TEXT);
    CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER);
    INSERT INTO sessions VALUES ('one', '/garden', '2026-05-01 10:00:00');
    INSERT INTO messages VALUES (1, 'one', 'user', '[{\"type\":\"text\",\"text\":\"Water the beans.\"}]', 1);";

const SECOND: &str =
    "INSERT INTO messages VALUES (2, 'one', 'assistant', '[{\"type\":\"text\",\"text\":\"Done.\"}]', 2);";

fn turns(path: &Path) -> usize {
    session(path, &ReadOptions::default()).messages.len()
}

/// Names, sizes and contents of a folder.
fn listing(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn nothing_is_written_beside_a_database() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", &format!("PRAGMA journal_mode=WAL; {GOOSE}"));
    let open = Connection::open(&path).unwrap();
    open.execute_batch(SECOND).unwrap();
    let before = listing(&folder.0);
    assert!(before.iter().any(|(path, bytes)| path.ends_with("sessions.db-wal") && !bytes.is_empty()));
    assert_eq!(turns(&path), 2);
    assert_eq!(listing(&folder.0), before);
    drop(open);
    let before = listing(&folder.0);
    assert_eq!(turns(&path), 2);
    assert_eq!(listing(&folder.0), before);
}

fn what_another_program_has_not_committed_is_not_read() {
    for mode in ["WAL", "DELETE"] {
        let folder = Folder::new();
        let path = made(&folder, "sessions.db", &format!("PRAGMA journal_mode={mode}; {GOOSE}"));
        let other = Connection::open(&path).unwrap();
        // Small enough a cache that what is not committed reaches the disk.
        other.execute_batch("PRAGMA cache_size=1; PRAGMA cache_spill=1; BEGIN IMMEDIATE;").unwrap();
        for number in 10..200 {
            let filler = "leaf ".repeat(400);
            let row = format!(
                "INSERT INTO messages VALUES ({number}, 'one', 'user', '[{{\"type\":\"text\",\"text\":\"{filler}\"}}]', 2)"
            );
            other.execute_batch(&row).unwrap();
        }
        assert_eq!(support::shown(&session(&path, &ReadOptions::default())), "user: row 1 text", "{mode}");
        other.execute_batch("ROLLBACK").unwrap();
    }
}

fn what_another_program_has_committed_is_read_from_its_log() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", &format!("PRAGMA journal_mode=WAL; {GOOSE}"));
    let other = Connection::open(&path).unwrap();
    other.execute_batch(&format!("PRAGMA wal_autocheckpoint=0; {SECOND} BEGIN IMMEDIATE;")).unwrap();
    assert_eq!(turns(&path), 2);
}

/// A prompt and its reply are committed together, so there is never one without the other.
fn a_database_that_is_written_to_all_the_time_is_read_whole() {
    for mode in ["WAL", "DELETE"] {
        let folder = Folder::new();
        let path = made(&folder, "sessions.db", &format!("PRAGMA journal_mode={mode}; {GOOSE} {SECOND}"));
        let (other, until) = (path.clone(), Instant::now() + Duration::from_millis(1500));
        let writer = std::thread::spawn(move || {
            let connection = Connection::open(other).unwrap();
            connection.execute_batch("PRAGMA wal_autocheckpoint=10; PRAGMA synchronous=OFF").unwrap();
            for pair in 2.. {
                let said = json!([{"type": "text", "text": "leaf ".repeat(300)}]);
                let row = |id: i64, role: &str| {
                    format!("INSERT INTO messages VALUES ({id}, 'one', '{role}', '{said}', {id});")
                };
                let (prompt, reply) = (row(2 * pair - 1, "user"), row(2 * pair, "assistant"));
                connection.execute_batch(&format!("BEGIN; {prompt} {reply} COMMIT")).unwrap();
                if Instant::now() > until {
                    return pair * 2;
                }
                std::thread::sleep(Duration::from_millis(3));
            }
            unreachable!()
        });
        let mut seen = 0;
        while !writer.is_finished() {
            let now = turns(&path);
            assert!(now.is_multiple_of(2) && now >= seen, "{mode}: {now} after {seen}");
            seen = now;
        }
        assert_eq!(i64::try_from(turns(&path)), Ok(writer.join().unwrap()), "{mode}");
    }
}

fn a_copy_is_made_again_when_the_database_has_changed() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", GOOSE);
    assert_eq!(turns(&path), 1);
    Connection::open(&path).unwrap().execute_batch(SECOND).unwrap();
    assert_eq!(turns(&path), 2);
}

fn no_copy_stays_behind() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", GOOSE);
    assert_eq!(turns(&path), 1);
    let ours = format!("longhaul-{}-", std::process::id());
    let left = || {
        let names = std::fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with(&ours)).count()
    };
    // Other tests run meanwhile, and copies are made one after the other.
    if cfg!(unix) {
        assert!(left() <= 1, "{} copies", left());
    }
}

fn a_database_that_may_only_be_read_is_read() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", &format!("PRAGMA journal_mode=WAL; {GOOSE}"));
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    std::fs::set_permissions(&path, mode).unwrap();
    assert_eq!(turns(&path), 1);
}

/// One line that names the file.
fn wrong(path: &Path) -> String {
    let unread = support::read(path, &ReadOptions::default()).err().unwrap();
    assert!(matches!(unread, SessionReadError::Invalid(_)), "{unread:?}");
    let line = unread.to_string();
    assert!(!line.contains('\n') && line.contains(path.to_str().unwrap()), "{line}");
    line
}

fn a_damaged_database_is_one_clear_line() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", GOOSE);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..].fill(0xa5);
    let path = folder.file("damaged.db", bytes);
    assert!(wrong(&path).contains("is damaged"), "{}", wrong(&path));
}

fn a_database_cut_short_is_one_clear_line() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", GOOSE);
    let bytes = std::fs::read(&path).unwrap();
    let path = folder.file("cut.db", &bytes[..bytes.len() / 2]);
    assert!(wrong(&path).contains("is damaged"), "{}", wrong(&path));
}

fn a_database_of_something_else_is_no_session() {
    let folder = Folder::new();
    let path = made(&folder, "beds.db", "CREATE TABLE beds (id INTEGER); INSERT INTO beds VALUES (1);");
    assert_eq!(longhaul_agents::recognize_path(&path).unwrap(), None);
}

fn an_empty_database_has_no_sessions() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", &format!("{GOOSE} DELETE FROM sessions; DELETE FROM messages;"));
    assert!(wrong(&path).contains("has no sessions yet"));
}

fn a_session_that_is_not_there_is_said() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", GOOSE);
    let place = SessionLocation { agent: Agent::Goose, path, id: Some("two".to_owned()), modified: None };
    let unread = longhaul_agents::read(&place, &ReadOptions::default()).err().unwrap();
    assert!(unread.to_string().contains("has no session `two`"), "{unread}");
}

fn a_packed_database_is_read() {
    let folder = Folder::new();
    let path = made(&folder, "sessions.db", GOOSE);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &std::fs::read(&path).unwrap()).unwrap();
    let path = folder.file("sessions.db.gz", packed.finish().unwrap());
    assert_eq!(turns(&path), 1);
}

fn where_nothing_was_found_is_said_once() {
    let folder = Folder::new();
    let home = machine(&folder.0, &[]);
    for (name, place) in
        [("opencode", ".local/share/opencode"), ("goose", ".local/share/goose/sessions"), ("hermes", ".hermes")]
    {
        let unread = longhaul_agents::find_session(&home, &format!("{name}:latest")).err().unwrap().to_string();
        assert_eq!(unread.matches(folder.0.join(place).to_str().unwrap()).count(), 1, "{unread}");
    }
}

/// Sessions are read by turns, as a list of the newest does.
fn copies_of_several_databases_serve_a_list_of_all() {
    let folder = Folder::new();
    let paths: Vec<PathBuf> = (0..6).map(|number| made(&folder, &format!("{number}/sessions.db"), GOOSE)).collect();
    for path in paths.iter().chain(&paths) {
        assert_eq!(turns(path), 1);
    }
    Connection::open(&paths[5]).unwrap().execute_batch(SECOND).unwrap();
    assert_eq!((turns(&paths[5]), turns(&paths[0])), (2, 1));
}
