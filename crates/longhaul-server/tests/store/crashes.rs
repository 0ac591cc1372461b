//! What was acknowledged survives: a killed process on SQLite, a server that stops at once on PostgreSQL.
//!
//! A worker appends and compacts and says so; it is killed at some moment, and everything that it had said must be there, in
//! order, and nothing half. The suite kills 500 times; ten thousand times takes twenty minutes:
//!
//! ```text
//! LONGHAUL_KILL_ROUNDS=10000 cargo test -p longhaul-server --test store sqlite::crashes
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use longhaul_engine::ApiFormat;
use longhaul_server::store::{Durability, HistoryPoint, Store, StoreError, StoreLocation, Tenant};

use super::ground::{Dice, Ground, ask};
use super::server::Server;
use super::speech::{body, record, said, user};
use super::worker::{self, TURNS};

tests! {
    Sqlite: [
        what_was_acknowledged_survives_a_killed_process,
    ],
    Postgres: [
        what_was_acknowledged_survives_a_crashed_server,
        a_store_outlives_its_server,
    ],
}

/// So many rounds are written to one file before the next is begun.
const ROUNDS_PER_FILE: usize = 50;

/// What a worker has said: for each session how many messages are in the log, and which view was kept last.
#[derive(Default)]
struct Acknowledged(BTreeMap<usize, (usize, usize)>);

impl Acknowledged {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, session, number] = words[..] else { return };
        // The last line may be cut off.
        let (Ok(session), Ok(number)) = (session.parse(), number.parse::<usize>()) else { return };
        let cache = self.0.entry(session).or_default();
        match what {
            "record" => cache.0 = cache.0.max(number),
            _ => cache.1 = cache.1.max(number),
        }
    }
}

fn worker(place: &str, first: usize) -> (Child, BufReader<ChildStdout>) {
    let mut command = worker::command("turns", place);
    command.env("LONGHAUL_STORE_FIRST", first.to_string()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// Waits for the first acknowledgement and a little longer, ends the worker's world, and hears what it had said.
fn live(
    child: &mut Child,
    mut out: BufReader<ChildStdout>,
    longer: Duration,
    end: impl FnOnce(&mut Child),
) -> Acknowledged {
    let mut heard = Acknowledged::default();
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    heard.hear(first.trim_end());
    std::thread::sleep(longer);
    end(child);
    for line in out.lines() {
        heard.hear(&line.unwrap());
    }
    child.wait().unwrap();
    heard
}

/// Holds what is in the store against what was acknowledged.
async fn judge(store: &Store, tenant: &Tenant, heard: &Acknowledged, round: usize) {
    let sessions = store.sessions(tenant, heard.0.len() + 8).await.unwrap();
    for (number, (messages, view)) in &heard.0 {
        let title = format!("session {number} asks 0");
        let mut named = sessions.iter().filter(|session| session.title.as_deref() == Some(&title));
        let session = named.next().unwrap_or_else(|| panic!("round {round}: session {number} is gone"));
        assert!(named.next().is_none(), "round {round}: session {number} is there twice");
        assert!(
            session.path_length >= *messages,
            "round {round}: {messages} acknowledged, {} there",
            session.path_length
        );
        let given = store.body_at(tenant, session, HistoryPoint::Original).await.unwrap();
        let sent = (1..=TURNS).map(|turns| body(ApiFormat::Messages, &worker::session(*number, turns)));
        let sent = sent.into_iter().find(|sent| said(sent) == session.path_length);
        assert_eq!(Some(given), sent, "round {round}: session {number}");
        let compactions = store.compactions(tenant, session).await.unwrap();
        let newest = compactions.iter().map(|compaction| compaction.number).max().unwrap_or(0);
        assert!(newest == *view || newest == view + 1, "round {round}: view {view} acknowledged, {newest} there");
        assert_eq!(
            compactions.last().map(|compaction| compaction.id),
            session.head,
            "round {round}: the head is the newest view"
        );
        store.body_at(tenant, session, HistoryPoint::Now).await.unwrap();
    }
}

async fn what_was_acknowledged_survives_a_killed_process(ground: Ground) {
    let rounds = std::env::var("LONGHAUL_KILL_ROUNDS").ok().and_then(|typed| typed.parse().ok()).unwrap_or(500);
    let mut dice = Dice::new(500);
    let mut acknowledged = 0;
    let (mut first, mut before) = (0, None);
    for round in 0..rounds {
        let file = ground.folder.path().join(format!("{}.db", round / ROUNDS_PER_FILE));
        if round % ROUNDS_PER_FILE == 0 {
            (first, before) = (0, None);
            let _ = std::fs::remove_file(
                ground.folder.path().join(format!("{}.db", (round / ROUNDS_PER_FILE).wrapping_sub(1))),
            );
        }
        let (mut child, out) = worker(&file.display().to_string(), first);
        let longer = Duration::from_micros(5_000 + dice.below(25_000) as u64);
        let mut heard = live(&mut child, out, longer, |child| child.kill().unwrap());
        let store = Store::open(&StoreLocation::File(file), Durability::Normal).await.unwrap();
        let tenant = store.get_or_create_tenant("local").await.unwrap();
        // Of the session that it went on with it counts the views on from those that were there, acknowledged or not.
        let view = heard.0.get(&first).map_or(0, |(_, view)| *view);
        if let Some(before) = before.take().filter(|before| *before > view) {
            heard.0.entry(first).and_modify(|cache| cache.1 = before);
        }
        judge(&store, &tenant, &heard, round).await;
        if round % 25 == 24 {
            let faults = store.check_integrity().await.unwrap();
            assert!(faults.is_empty(), "round {round}: {faults:?}");
        }
        acknowledged += heard.0.values().map(|(messages, _)| messages).sum::<usize>();
        // The next worker goes on with the session in which this one was killed.
        first = heard.0.keys().max().copied().unwrap_or(first);
        let title = format!("session {first} asks 0");
        let sessions = store.sessions(&tenant, 20).await.unwrap();
        let session = sessions.iter().find(|session| session.title.as_deref() == Some(&title)).unwrap();
        let views = store.compactions(&tenant, session).await.unwrap();
        before = views.iter().map(|view| view.number).max();
    }
    assert!(acknowledged > rounds, "{acknowledged} messages in {rounds} rounds");
}

async fn what_was_acknowledged_survives_a_crashed_server(ground: Ground) {
    let server = Server::start("fsync=on");
    ask(&server.url("postgres"), "CREATE DATABASE crashes").await;
    let url = server.url("crashes");
    let place = StoreLocation::Postgres(url.clone());
    drop(Store::open(&place, Durability::Full).await.unwrap());
    let mut dice = Dice::new(20);
    let mut acknowledged = 0;
    for round in 0..20 {
        let (mut child, out) = worker(&url, round * 1_000);
        let longer = Duration::from_millis(20 + dice.below(150) as u64);
        let heard = live(&mut child, out, longer, |child| {
            server.crash();
            // It has most likely ended by itself, since it takes a failure for the end.
            let _ = child.kill();
        });
        let store = Store::open(&place, Durability::Full).await.unwrap();
        let tenant = store.get_or_create_tenant("local").await.unwrap();
        judge(&store, &tenant, &heard, round).await;
        assert!(store.check_integrity().await.unwrap().is_empty());
        acknowledged += heard.0.values().map(|(messages, _)| messages).sum::<usize>();
    }
    assert!(acknowledged > 40, "{acknowledged}");
    drop(ground);
}

async fn a_store_outlives_its_server(ground: Ground) {
    let server = Server::start("fsync=off");
    ask(&server.url("postgres"), "CREATE DATABASE outlives").await;
    let place = StoreLocation::Postgres(server.url("outlives"));
    let store = Store::open(&place, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("local").await.unwrap();
    let first = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Before.")])).await;
    server.stop();
    for _ in 0..10 {
        let error = store.sessions(&tenant, 9).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)) && !error.message().contains('\n'), "{error:?}");
    }
    let error = Store::open(&place, Durability::Normal).await.err().unwrap();
    assert!(matches!(error, StoreError::Unreachable(_)) && !error.message().contains('\n'), "{error:?}");
    server.start_again();
    let again = record(&store, &tenant, &body(ApiFormat::Chat, &[user("Before.")])).await;
    assert_eq!((again.session.id, again.new_messages), (first.session.id, 0));
    drop(ground);
}
