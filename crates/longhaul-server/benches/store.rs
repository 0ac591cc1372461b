//! What the embedded store costs, beside the bare `rusqlite` doing the same writes in the same run.
//!
//!     cargo bench -p longhaul-server --bench store               # everything, some minutes
//!     cargo bench -p longhaul-server --bench store -- append     # one of: append turns find resend search size
//!
//! `size` reads the real bodies that `LONGHAUL_SHARED` names. What it gave is in `bench/store/README.md`.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a measurement, run by hand")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use longhaul_engine::Timestamp;
use longhaul_engine::redact::Rules;
use longhaul_engine::wire;
use longhaul_server::store::{Durability, SearchScope, Store, StoreLocation, Tenant, index_terms};
use rusqlite::Connection;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("longhaul-bench-{}-{}", std::process::id(), nanos()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("store.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn nanos() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
}

const WORDS: [&str; 40] = [
    "the",
    "parser",
    "reads",
    "config_value",
    "from",
    "src/main.rs",
    "and",
    "fails",
    "with",
    "E0308",
    "expected",
    "found",
    "line",
    "build",
    "tests",
    "passed",
    "in",
    "router",
    "session",
    "listenPort",
    "of",
    "a",
    "result",
    "cargo",
    "warning",
    "unused",
    "variable",
    "store",
    "commit",
    "epoch",
    "ledger",
    "handle",
    "is",
    "not",
    "at",
    "by",
    "index",
    "writer",
    "cache",
    "done",
];

/// Words that differ from message to message, as a program's output does.
fn words(seed: usize, bytes: usize) -> String {
    let (mut text, mut at) = (String::new(), seed.wrapping_mul(2_654_435_761));
    while text.len() < bytes {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = WORDS[(at >> 33) % WORDS.len()];
        if (at >> 40).is_multiple_of(9) {
            let _ = write!(text, "{word}_{} ", (at >> 20) % 100_000);
        } else {
            let _ = write!(text, "{word} ");
        }
    }
    text
}

/// The body of a session of so many messages: replies with a call, and its results.
fn body(session: usize, messages: usize, bytes: usize) -> String {
    let mut list = vec![format!(r#"{{"role":"user","content":"session {session}: {}"}}"#, words(session, bytes))];
    for at in 1..messages {
        let seed = session * 100_003 + at;
        list.push(if at % 2 == 1 {
            format!(r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{at}","type":"function","function":{{"name":"bash","arguments":"{{\"cmd\":\"cat part_{seed}.txt\"}}"}}}}]}}"#)
        } else {
            format!(r#"{{"role":"tool","tool_call_id":"c{}","content":"{}"}}"#, at - 1, words(seed, bytes))
        });
    }
    format!(r#"{{"model":"gpt-5","messages":[{}]}}"#, list.join(","))
}

async fn open(file: &Path, sync: Durability) -> (Store, Tenant) {
    let store = Store::open(&StoreLocation::File(file.to_owned()), sync).await.unwrap();
    let tenant = store.get_or_create_tenant("bench").await.unwrap();
    (store, tenant)
}

async fn record(store: &Store, tenant: &Tenant, body: &str) {
    let (transcript, _) = wire::parse(None, body).unwrap();
    store.record(tenant, &transcript, &Rules::default(), Timestamp(0)).await.unwrap();
}

fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// A row of the log.
type Message = (i64, i64, i64, Vec<u8>, String, String, i64);

/// The rows of a store written once more by nothing but `rusqlite`, so many messages a transaction.
fn bare(from: &Path, to: &Path, a_transaction: usize) -> (usize, Duration) {
    let source = Connection::open(from).unwrap();
    let mut schema = source.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'terms\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'").unwrap();
    let schema: Vec<String> = schema.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let connection = Connection::open(to).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL").unwrap();
    connection.execute_batch(&schema.join(";")).unwrap();
    let mut all =
        source.prepare("SELECT id, tenant, step, identity, text, blocks, redacted FROM messages ORDER BY id").unwrap();
    let messages: Vec<Message> = all
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?, r.get(5)?, r.get(6)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let terms: Vec<String> = messages.iter().map(|message| index_terms(&message.4)).collect();
    let start = Instant::now();
    for (messages, terms) in messages.chunks(a_transaction).zip(terms.chunks(a_transaction)) {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for (message, terms) in messages.iter().zip(terms) {
            let mut insert = connection.prepare_cached("INSERT INTO messages (id, tenant, step, identity, text, blocks, redacted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)").unwrap();
            insert.execute((message.0, message.1, message.2, &message.3, &message.4, &message.5, message.6)).unwrap();
            for (place, line) in (0_i64..).zip(message.5.lines()) {
                let mut insert = connection.prepare_cached("INSERT INTO blocks (family, handle, message, place) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (family, handle) DO NOTHING").unwrap();
                insert.execute((message.0 >> 24, line.split(' ').next(), message.0, place)).unwrap();
            }
            let mut insert = connection.prepare_cached("INSERT INTO terms (rowid, held) VALUES (?1, ?2)").unwrap();
            insert.execute((message.0, terms)).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
    }
    (messages.len(), start.elapsed())
}

/// Sessions of a hundred messages, each in one batch: one after another, and four at a time, as a gateway has them.
async fn append() {
    const SESSIONS: usize = 200;
    for at_once in [1, 4] {
        let (ours, theirs) = (Folder::new(), Folder::new());
        let bodies: Vec<String> = (0..SESSIONS).map(|session| body(session, 100, 600)).collect();
        let (store, tenant) = open(&ours.file(), Durability::Normal).await;
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for body in bodies {
            if tasks.len() == at_once {
                tasks.join_next().await;
            }
            let (store, tenant) = (store.clone(), tenant.clone());
            tasks.spawn(async move { record(&store, &tenant, &body).await });
        }
        while tasks.join_next().await.is_some() {}
        let time = start.elapsed();
        drop(store);
        let (count, bare) = bare(&ours.file(), &theirs.file(), 100);
        println!(
            "append    {:.0} messages/s of 100 a batch, {at_once} at a time, {:.0} by the bare rusqlite: {:.2} of its speed",
            rate(count, time),
            rate(count, bare),
            bare.as_secs_f64() / time.as_secs_f64()
        );
    }
}

/// Sessions of 200 messages that grow by a call and its result each turn, each turn acknowledged before the next is sent: one
/// session after another, and four side by side.
async fn turns() {
    for (at_once, sync) in [(1, Durability::Normal), (4, Durability::Normal), (4, Durability::Full)] {
        let folder = Folder::new();
        let (store, tenant) = open(&folder.file(), sync).await;
        let mut tasks = tokio::task::JoinSet::new();
        let start = Instant::now();
        for session in 0..20 {
            if tasks.len() == at_once {
                tasks.join_next().await;
            }
            let (store, tenant) = (store.clone(), tenant.clone());
            tasks.spawn(async move {
                let whole = body(session, 200, 600);
                let (transcript, _) = wire::parse(None, &whole).unwrap();
                for length in (3..=200).step_by(2) {
                    record(&store, &tenant, &transcript.body_with_first_messages(length)).await;
                }
            });
        }
        while tasks.join_next().await.is_some() {}
        let time = start.elapsed();
        drop(store);
        let theirs = Folder::new();
        let (messages, bare) = bare(&folder.file(), &theirs.file(), 2);
        println!(
            "turns     {:.0} acknowledged turns/s, {at_once} at a time, {sync:?}, parsing and hashing of whole bodies included; \
             {:.0} by the bare rusqlite",
            rate(messages / 2, time),
            rate(messages / 2, bare)
        );
    }
}

/// The session of a body of a thousand messages among ever more sessions.
async fn find() {
    let folder = Folder::new();
    let (store, tenant) = open(&folder.file(), Durability::Normal).await;
    let mut made = 0;
    for sessions in [1_000, 10_000, 100_000] {
        while made < sessions {
            record(&store, &tenant, &body(made, 2, 60)).await;
            made += 1;
        }
        let long = body(1_000_000 + sessions, 1_000, 200);
        record(&store, &tenant, &long).await;
        let (transcript, _) = wire::parse(None, &long).unwrap();
        let chain = Instant::now();
        let identities = tenant.hasher().hash_chain(&transcript);
        let chain = chain.elapsed();
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..50 {
            let start = Instant::now();
            assert!(store.known_message_count(&tenant, &identities).await.unwrap() == 1_000);
            times.push(start.elapsed());
        }
        times.sort_unstable();
        println!(
            "find      among {sessions:6} sessions {:.3} ms (median); its identities {:.3} ms",
            ms(times[25]),
            ms(chain)
        );
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A session sent again with one message more, at several lengths: what the store adds to reading the body.
async fn resend() {
    let folder = Folder::new();
    let (store, tenant) = open(&folder.file(), Durability::Normal).await;
    let whole = body(7, 3_002, 600);
    let (transcript, _) = wire::parse(None, &whole).unwrap();
    for length in [30, 100, 300, 1_000, 3_000] {
        record(&store, &tenant, &transcript.body_with_first_messages(length - 1)).await;
        let body = transcript.body_with_first_messages(length);
        let start = Instant::now();
        let (read, _) = wire::parse(None, &body).unwrap();
        let identities = tenant.hasher().hash_chain(&read);
        let reading = start.elapsed();
        drop(identities);
        let start = Instant::now();
        record(&store, &tenant, &body).await;
        let all = start.elapsed();
        let own = ms(all) - ms(reading);
        println!(
            "resend    {length:5} messages: {:.2} ms, of which reading and hashing {:.2}; the store's own {own:.2}",
            ms(all),
            ms(reading)
        );
    }
}

/// A search in a million messages, of one session and of many.
async fn search() {
    let folder = Folder::new();
    let (store, tenant) = open(&folder.file(), Durability::Normal).await;
    let queries = [
        "cat part_4200017.txt",
        "the parser fails with E0308",
        "config_value_4711 expected found",
        "listenPort unused variable router session epoch",
    ];
    for session in 0..500 {
        record(&store, &tenant, &body(session, 1_000, 150)).await;
    }
    let mut long = String::new();
    for length in (100_000..=500_000).step_by(100_000) {
        long = body(42, length, 150);
        record(&store, &tenant, &long).await;
    }
    drop(long);
    for (name, what) in [("latest", "one session of 500,000"), ("", "one of 500 sessions of 1,000")] {
        let sessions = store.sessions(&tenant, 1_000).await.unwrap();
        let session = if name.is_empty() {
            sessions.iter().find(|s| s.path_length == 1_000).unwrap().clone()
        } else {
            sessions.iter().find(|s| s.path_length == 500_000).unwrap().clone()
        };
        for query in queries {
            let mut times = Vec::new();
            let mut found = 0;
            for _ in 0..9 {
                let start = Instant::now();
                found = store.search(&tenant, &session, SearchScope::Session, query, 5).await.unwrap().len();
                times.push(start.elapsed());
            }
            times.sort_unstable();
            println!("search    1,000,000 messages, {what}: {:.1} ms, {found} hits for `{query}`", ms(times[4]));
        }
    }
}

/// The file beside the distinct text in it, with real bodies.
async fn size() {
    let Some(shared) = std::env::var_os("LONGHAUL_SHARED") else {
        println!("size      LONGHAUL_SHARED is not set: no real bodies to measure with");
        return;
    };
    let folder = Folder::new();
    let (store, tenant) = open(&folder.file(), Durability::Normal).await;
    for file in std::fs::read_dir(Path::new(&shared).join("corpus")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let text = std::fs::read_to_string(path).unwrap();
            let (transcript, _) = wire::parse(None, &text).unwrap();
            if transcript.message_count() > 0 {
                record(&store, &tenant, &text).await;
            }
        }
    }
    store.vacuum().await.unwrap();
    drop(store);
    let file = std::fs::metadata(folder.file()).unwrap().len();
    let connection = Connection::open(folder.file()).unwrap();
    let sum = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let text = sum("SELECT sum(length(CAST(text AS BLOB))) FROM messages")
        + sum("SELECT sum(length(CAST(text AS BLOB))) FROM chunks")
        + sum("SELECT sum(length(CAST(template AS BLOB))) FROM envelopes");
    println!("size      {file} bytes for {text} of distinct text: {:.2} times", file as f64 / text as f64);
    let mut parts = connection.prepare("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 8");
    if let Ok(parts) = &mut parts {
        let rows = parts.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))).unwrap();
        for (name, bytes) in rows.map(Result::unwrap) {
            println!("          {name:24} {:.3}", bytes as f64 / text as f64);
        }
    }
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wants = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if wants("append") {
            append().await;
        }
        if wants("turns") {
            turns().await;
        }
        if wants("find") {
            find().await;
        }
        if wants("resend") {
            resend().await;
        }
        if wants("size") {
            size().await;
        }
        if wants("search") {
            search().await;
        }
    });
}
