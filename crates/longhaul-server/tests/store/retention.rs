//! What is deleted is gone: from every table, every index and every byte; and what another session needs stays.

use longhaul_engine::Dialect;
use longhaul_server::agents::Moment;
use longhaul_server::store::{At, Expiry, Scope, Session, State, Store, StoreError, Tenant};

use super::ground::{Database, Ground};
use super::speech::{
    DIALECTS, NOON, Turn, around, bash, body, compact, keep, long_session, record, recorded, reply,
    restarting, steps, too_much, user,
};

tests! {
    Both: [
        of_what_is_deleted_no_row_is_left,
        a_shared_beginning_stays_until_its_last_user_goes,
        what_was_deleted_begins_anew_when_it_is_sent_again,
        a_history_whose_session_is_gone_is_one_session_however_often_it_is_sent,
        what_is_old_goes_and_nothing_else,
        what_is_too_much_goes_the_oldest_first,
        of_several_tenants_the_oldest_go_first_whosever_they_are,
        after_a_vacuum_no_byte_of_it_is_left,
        an_archived_parent_goes_with_its_child,
        what_a_deleted_session_had_folded_goes_though_a_fork_stays,
    ],
    Sqlite: [
        a_vacuum_that_cannot_clear_the_log_says_so,
    ],
}

/// Words of which each stands in another part of a body.
const PLANTED: [&str; 8] = [
    "quokka1system",
    "wombat2tool",
    "bilby3prompt",
    "numbat4call",
    "kakapo5output",
    "tuatara6reply",
    "axolotl7title",
    "pangolin8thought",
];

fn planted(dialect: Dialect) -> String {
    let mut turns = vec![user(&format!("{} {}", PLANTED[6], PLANTED[2]))];
    turns.push(Turn::Thought(PLANTED[7].to_owned()));
    turns.push(bash(PLANTED[3], &format!("{}\n{}", PLANTED[4], "noise in a line\n".repeat(200))));
    turns.extend(steps(0, 10, 40));
    turns.extend([reply(PLANTED[5]), user("go on")]);
    let long = "a sentence that makes it long. ".repeat(20);
    around(dialect, &format!("{} {long}", PLANTED[0]), &format!("{} {long}", PLANTED[1]), &turns).to_string()
}

async fn of_what_is_deleted_no_row_is_left(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let empty = ground.rows().await;
    let stays = record(&store, &tenant, &body(Dialect::Chat, &long_session())).await.session;
    let before = ground.rows().await;
    for dialect in DIALECTS {
        let (session, _) = compact(&store, &tenant, &planted(dialect), 2_000).await;
        assert_ne!(ground.rows().await, before);
        store.delete(&tenant, session.id).await.unwrap();
        assert_eq!(ground.rows().await, before, "{dialect:?}");
        let gone = |error: StoreError| assert!(matches!(error, StoreError::Unknown(_)), "{error}");
        gone(store.session(&tenant, &session.name).await.unwrap_err());
        gone(store.delete(&tenant, session.id).await.unwrap_err());
        gone(store.undo(&tenant, session.id).await.unwrap_err());
        gone(store.lease(&tenant, session.id, "me").await.unwrap_err());
        assert!(store.search(&tenant, &session, Scope::Family, PLANTED[4], 5).await.unwrap().is_empty());
    }
    store.delete(&tenant, stays.id).await.unwrap();
    assert_eq!(ground.rows().await, empty);
}

async fn a_shared_beginning_stays_until_its_last_user_goes(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let empty = ground.rows().await;
    let mut turns = long_session();
    let (parent, outcome) = compact(&store, &tenant, &body(Dialect::Chat, &turns), 2_000).await;
    turns.push(reply("parent's kakapo"));
    record(&store, &tenant, &body(Dialect::Chat, &turns)).await;
    *turns.last_mut().unwrap() = reply("fork's axolotl");
    let sent = body(Dialect::Chat, &turns);
    let fork = record(&store, &tenant, &sent).await.session;
    assert_eq!(fork.head, parent.head);
    store.delete(&tenant, parent.id).await.unwrap();
    assert!(!String::from_utf8_lossy(&vacuumed(&ground, &store).await).contains("kakapo"));
    assert_eq!(store.body(&tenant, &fork, At::Original).await.unwrap(), sent);
    assert_eq!(
        store.body(&tenant, &fork, At::Now).await.unwrap().find("recall "),
        outcome.body.find("recall ")
    );
    for original in &outcome.originals {
        store.recall(&tenant, Some(&fork), &original.handle).await.unwrap();
    }
    assert!(store.faults().await.unwrap().is_empty(), "{:?}", store.faults().await);
    let listed: Vec<String> =
        store.sessions(&tenant, 10).await.unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(listed, [fork.name.clone()]);
    assert_eq!(record(&store, &tenant, &sent).await.new, 0);
    store.delete(&tenant, fork.id).await.unwrap();
    assert_eq!(ground.rows().await, empty);
}

async fn what_was_deleted_begins_anew_when_it_is_sent_again(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(Dialect::Chat, &long_session());
    let first = record(&store, &tenant, &sent).await.session;
    store.delete(&tenant, first.id).await.unwrap();
    let second = record(&store, &tenant, &sent).await;
    assert_eq!(second.new, second.session.length);
    assert_ne!(second.session.id, first.id, "a number is never given twice");
    assert_ne!(second.session.key, first.key);
}

async fn a_history_whose_session_is_gone_is_one_session_however_often_it_is_sent(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let shared = body(Dialect::Chat, &turns);
    turns.push(reply("parent"));
    let parent = record(&store, &tenant, &body(Dialect::Chat, &turns)).await.session;
    *turns.last_mut().unwrap() = reply("fork");
    let fork = record(&store, &tenant, &body(Dialect::Chat, &turns)).await.session;
    store.delete(&tenant, parent.id).await.unwrap();
    // Only what both shared: the fork has more.
    let mut ids = Vec::new();
    for _ in 0..3 {
        let recorded = record(&store, &tenant, &shared).await;
        assert_eq!((recorded.new, recorded.session.length), (0, fork.begins));
        ids.push(recorded.session.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "the same history is the same session");
    let grown =
        record(&store, &tenant, &body(Dialect::Chat, &[long_session(), vec![reply("third")]].concat())).await;
    assert_eq!((grown.session.id, grown.new), (ids[0], 1));
    assert!(store.faults().await.unwrap().is_empty());
}

async fn aged(store: &Store, tenant: &Tenant, n: usize, at: Moment) -> Session {
    let turns = [vec![user(&format!("Task {n}."))], steps(n * 20, 4, 100)].concat();
    recorded(store, tenant, &body(Dialect::Messages, &turns), at).await.unwrap().session
}

async fn what_is_old_goes_and_nothing_else(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.tenant("other").await.unwrap();
    aged(&store, &other, 0, Moment(NOON.0 - 1_000)).await;
    let mut sessions = Vec::new();
    for n in 0..5 {
        sessions.push(aged(&store, &tenant, n, Moment(NOON.0 + 1_000 * n as i64)).await.name);
    }
    let swept = store
        .sweep(&[tenant.clone()], Expiry { before: Some(Moment(NOON.0 + 2_000)), most_bytes: None })
        .await
        .unwrap();
    assert_eq!(swept.sessions, sessions[..2]);
    assert!(swept.after < swept.before, "{swept:?}");
    let left: Vec<String> = store.sessions(&tenant, 10).await.unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(left, sessions[2..].iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(store.sessions(&other, 10).await.unwrap().len(), 1, "another tenant's are not swept");
    assert!(store.faults().await.unwrap().is_empty());
}

async fn what_is_too_much_goes_the_oldest_first(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut sessions = Vec::new();
    for n in 0..40 {
        sessions.push(aged(&store, &tenant, n, Moment(NOON.0 + 1_000 * n as i64)).await.name);
    }
    let none = Expiry::default();
    let swept = store.sweep(&[tenant.clone()], none).await.unwrap();
    assert!(swept.sessions.is_empty());
    let most = swept.after / 2;
    let swept = store.sweep(&[tenant.clone()], Expiry { most_bytes: Some(most), ..none }).await.unwrap();
    assert!(swept.after <= most || store.sessions(&tenant, 50).await.unwrap().is_empty(), "{swept:?}");
    assert!(!swept.sessions.is_empty() && swept.sessions.len() < 40, "{}", swept.sessions.len());
    assert_eq!(swept.sessions, sessions[..swept.sessions.len()]);
    assert_eq!(store.size().await.unwrap(), swept.after);
}

async fn of_several_tenants_the_oldest_go_first_whosever_they_are(ground: Ground) {
    let store = ground.open().await;
    let tenants = [store.tenant("one").await.unwrap(), store.tenant("two").await.unwrap()];
    let mut sessions = Vec::new();
    for n in 0..20 {
        sessions.push(aged(&store, &tenants[n % 2], n, Moment(NOON.0 + 1_000 * n as i64)).await.name);
    }
    let old = Expiry { before: Some(Moment(NOON.0 + 3_000)), most_bytes: None };
    assert_eq!(store.sweep(&tenants, old).await.unwrap().sessions, sessions[..3]);
    let most = store.size().await.unwrap() * 3 / 4;
    let swept = store.sweep(&tenants, Expiry { before: None, most_bytes: Some(most) }).await.unwrap();
    assert!(!swept.sessions.is_empty());
    assert_eq!(swept.sessions, sessions[3..3 + swept.sessions.len()]);
}

async fn vacuumed(ground: &Ground, store: &Store) -> Vec<u8> {
    store.vacuum().await.unwrap();
    ground.bytes().await
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

async fn after_a_vacuum_no_byte_of_it_is_left(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let stays = record(&store, &tenant, &body(Dialect::Chat, &[user("The platypus stays.")])).await.session;
    for dialect in DIALECTS {
        let (session, _) = compact(&store, &tenant, &planted(dialect), 2_000).await;
        let bytes = ground.bytes().await;
        for word in PLANTED {
            // Reasoning is no message's text in every dialect.
            assert!(holds(&bytes, word) || word == PLANTED[7], "{dialect:?}: {word} was never there");
        }
        store.delete(&tenant, session.id).await.unwrap();
        let bytes = vacuumed(&ground, &store).await;
        for word in PLANTED.into_iter().chain([session.name.as_str()]) {
            assert!(!holds(&bytes, word), "{dialect:?}: {word} is still there");
        }
        assert!(holds(&bytes, "platypus"));
    }
    assert!(store.faults().await.unwrap().is_empty());
    let hits = store.search(&tenant, &stays, Scope::Session, "platypus", 1).await.unwrap();
    assert_eq!(hits.len(), 1);
    if ground.database == Database::Sqlite {
        let log = ground.folder.path().join("store.db-wal");
        assert!(std::fs::metadata(log).map_or(0, |log| log.len()) == 0, "the log is empty");
    }
}

async fn a_vacuum_that_cannot_clear_the_log_says_so(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let (session, _) = compact(&store, &tenant, &planted(Dialect::Chat), 2_000).await;
    let reader = rusqlite::Connection::open(ground.file()).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let _: i64 = reader.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
    store.delete(&tenant, session.id).await.unwrap();
    let error = store.vacuum().await.expect_err("somebody still reads what was deleted");
    assert!(matches!(error, StoreError::Busy(_)), "{error}");
    reader.execute_batch("COMMIT").unwrap();
    let bytes = vacuumed(&ground, &store).await;
    assert!(PLANTED.iter().all(|word| !holds(&bytes, word)));
}

async fn an_archived_parent_goes_with_its_child(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let empty = ground.rows().await;
    let sent = body(Dialect::Chat, &too_much(&[]));
    let first = record(&store, &tenant, &sent).await;
    keep(&store, &tenant, &first, &sent, &restarting(&first, &sent)).await.unwrap();
    let child = record(&store, &tenant, &sent).await.session;
    store.delete(&tenant, first.session.id).await.unwrap();
    assert_eq!(store.sessions(&tenant, 10).await.unwrap().len(), 1);
    assert_eq!(store.lineage(&tenant, &child).await.unwrap().ancestors[0].state, State::Deleted);
    assert_eq!(store.body(&tenant, &child, At::Original).await.unwrap(), sent);
    store.delete(&tenant, child.id).await.unwrap();
    assert_eq!(ground.rows().await, empty);
}

/// A checkpoint quotes what was said behind the place where another session parts, and goes with the session that it is of.
async fn what_a_deleted_session_had_folded_goes_though_a_fork_stays(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    turns.push(user("The platypus is the mascot, remember that."));
    let mut session = None;
    for round in 0..3 {
        turns.extend(steps(20 * (round + 1), 12, 40));
        turns.push(user("And on."));
        session = Some(compact(&store, &tenant, &body(Dialect::Messages, &turns), 1_500).await.0);
    }
    let quoted = ground.number("SELECT count(*) FROM remains WHERE text LIKE '%platypus%'").await;
    assert!(quoted > 0, "a checkpoint that was folded in turn quotes it");
    let mut fork: Vec<Turn> = long_session()[..2].to_vec();
    fork.push(user("Something else."));
    let fork = record(&store, &tenant, &body(Dialect::Messages, &fork)).await.session;
    assert!(fork.begins > 0);
    store.delete(&tenant, session.unwrap().id).await.unwrap();
    let left = ground.number("SELECT count(*) FROM remains").await;
    assert_eq!(left, 0);
}
