//! What is deleted is gone: from every table, every index and every byte; and what another session needs stays.

use longhaul_engine::ApiFormat;
use longhaul_engine::Timestamp;
use longhaul_server::store::{
    HistoryPoint, RetentionLimits, SearchScope, SessionStatus, Store, StoreError, StoredSession, Tenant,
};

use super::ground::{Database, Ground};
use super::speech::{
    DIALECTS, NOON, Turn, around, bash, body, compact, keep, long_session, record, recorded, reply, restarting, steps,
    too_much, user,
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

fn planted(api_format: ApiFormat) -> String {
    let mut turns = vec![user(&format!("{} {}", PLANTED[6], PLANTED[2]))];
    turns.push(Turn::Thought(PLANTED[7].to_owned()));
    turns.push(bash(PLANTED[3], &format!("{}\n{}", PLANTED[4], "noise in a line\n".repeat(200))));
    turns.extend(steps(0, 10, 40));
    turns.extend([reply(PLANTED[5]), user("go on")]);
    let long = "a sentence that makes it long. ".repeat(20);
    around(api_format, &format!("{} {long}", PLANTED[0]), &format!("{} {long}", PLANTED[1]), &turns).to_string()
}

async fn of_what_is_deleted_no_row_is_left(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let empty = ground.rows().await;
    let stays = record(&store, &tenant, &body(ApiFormat::Chat, &long_session())).await.session;
    let before = ground.rows().await;
    for api_format in DIALECTS {
        let (session, _) = compact(&store, &tenant, &planted(api_format), 2_000).await;
        assert_ne!(ground.rows().await, before);
        store.delete_session(&tenant, session.id).await.unwrap();
        assert_eq!(ground.rows().await, before, "{api_format:?}");
        let gone = |error: StoreError| assert!(matches!(error, StoreError::NotFound(_)), "{error}");
        gone(store.session_by_name(&tenant, &session.name).await.unwrap_err());
        gone(store.delete_session(&tenant, session.id).await.unwrap_err());
        gone(store.undo(&tenant, session.id).await.unwrap_err());
        assert!(store.search(&tenant, &session, SearchScope::Family, PLANTED[4], 5).await.unwrap().is_empty());
    }
    store.delete_session(&tenant, stays.id).await.unwrap();
    assert_eq!(ground.rows().await, empty);
}

async fn a_shared_beginning_stays_until_its_last_user_goes(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let empty = ground.rows().await;
    let mut turns = long_session();
    let (parent, outcome) = compact(&store, &tenant, &body(ApiFormat::Chat, &turns), 2_000).await;
    turns.push(reply("parent's kakapo"));
    record(&store, &tenant, &body(ApiFormat::Chat, &turns)).await;
    *turns.last_mut().unwrap() = reply("fork's axolotl");
    let sent = body(ApiFormat::Chat, &turns);
    let fork = record(&store, &tenant, &sent).await.session;
    assert_eq!(fork.head, parent.head);
    store.delete_session(&tenant, parent.id).await.unwrap();
    assert!(!String::from_utf8_lossy(&vacuumed(&ground, &store).await).contains("kakapo"));
    assert_eq!(store.body_at(&tenant, &fork, HistoryPoint::Original).await.unwrap(), sent);
    assert_eq!(
        store.body_at(&tenant, &fork, HistoryPoint::Now).await.unwrap().find("recall "),
        outcome.body.find("recall ")
    );
    for original in &outcome.originals {
        store.recall(&tenant, Some(&fork), &original.recall_id).await.unwrap();
    }
    assert!(store.check_integrity().await.unwrap().is_empty(), "{:?}", store.check_integrity().await);
    let listed: Vec<String> = store.sessions(&tenant, 10).await.unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(listed, [fork.name.clone()]);
    assert_eq!(record(&store, &tenant, &sent).await.new_messages, 0);
    store.delete_session(&tenant, fork.id).await.unwrap();
    assert_eq!(ground.rows().await, empty);
}

async fn what_was_deleted_begins_anew_when_it_is_sent_again(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(ApiFormat::Chat, &long_session());
    let first = record(&store, &tenant, &sent).await.session;
    store.delete_session(&tenant, first.id).await.unwrap();
    let second = record(&store, &tenant, &sent).await;
    assert_eq!(second.new_messages, second.session.path_length);
    assert_ne!(second.session.id, first.id, "a number is never given twice");
    assert_ne!(second.session.key, first.key);
}

async fn a_history_whose_session_is_gone_is_one_session_however_often_it_is_sent(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut turns = long_session();
    let shared = body(ApiFormat::Chat, &turns);
    turns.push(reply("parent"));
    let parent = record(&store, &tenant, &body(ApiFormat::Chat, &turns)).await.session;
    *turns.last_mut().unwrap() = reply("fork");
    let fork = record(&store, &tenant, &body(ApiFormat::Chat, &turns)).await.session;
    store.delete_session(&tenant, parent.id).await.unwrap();
    // Only what both shared: the fork has more.
    let mut ids = Vec::new();
    for _ in 0..3 {
        let recorded = record(&store, &tenant, &shared).await;
        assert_eq!((recorded.new_messages, recorded.session.path_length), (0, fork.first_own_message));
        ids.push(recorded.session.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "the same history is the same session");
    let grown = record(&store, &tenant, &body(ApiFormat::Chat, &[long_session(), vec![reply("third")]].concat())).await;
    assert_eq!((grown.session.id, grown.new_messages), (ids[0], 1));
    assert!(store.check_integrity().await.unwrap().is_empty());
}

async fn aged(store: &Store, tenant: &Tenant, n: usize, at: Timestamp) -> StoredSession {
    let turns = [vec![user(&format!("Task {n}."))], steps(n * 20, 4, 100)].concat();
    recorded(store, tenant, &body(ApiFormat::Messages, &turns), at).await.unwrap().session
}

async fn what_is_old_goes_and_nothing_else(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let other = store.get_or_create_tenant("other").await.unwrap();
    aged(&store, &other, 0, Timestamp(NOON.0 - 1_000)).await;
    let mut sessions = Vec::new();
    for n in 0..5 {
        sessions.push(aged(&store, &tenant, n, Timestamp(NOON.0 + 1_000 * n as i64)).await.name);
    }
    let swept = store
        .enforce_retention(
            &[tenant.clone()],
            RetentionLimits { updated_before: Some(Timestamp(NOON.0 + 2_000)), max_bytes: None },
        )
        .await
        .unwrap();
    assert_eq!(swept.deleted_sessions, sessions[..2]);
    assert!(swept.bytes_after < swept.bytes_before, "{swept:?}");
    let left: Vec<String> = store.sessions(&tenant, 10).await.unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(left, sessions[2..].iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(store.sessions(&other, 10).await.unwrap().len(), 1, "another tenant's are not swept");
    assert!(store.check_integrity().await.unwrap().is_empty());
}

async fn what_is_too_much_goes_the_oldest_first(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let mut sessions = Vec::new();
    for n in 0..40 {
        sessions.push(aged(&store, &tenant, n, Timestamp(NOON.0 + 1_000 * n as i64)).await.name);
    }
    let none = RetentionLimits::default();
    let swept = store.enforce_retention(&[tenant.clone()], none).await.unwrap();
    assert!(swept.deleted_sessions.is_empty());
    let most = swept.bytes_after / 2;
    let swept =
        store.enforce_retention(&[tenant.clone()], RetentionLimits { max_bytes: Some(most), ..none }).await.unwrap();
    assert!(swept.bytes_after <= most || store.sessions(&tenant, 50).await.unwrap().is_empty(), "{swept:?}");
    assert!(
        !swept.deleted_sessions.is_empty() && swept.deleted_sessions.len() < 40,
        "{}",
        swept.deleted_sessions.len()
    );
    assert_eq!(swept.deleted_sessions, sessions[..swept.deleted_sessions.len()]);
    assert_eq!(store.size_bytes().await.unwrap(), swept.bytes_after);
}

async fn of_several_tenants_the_oldest_go_first_whosever_they_are(ground: Ground) {
    let store = ground.open().await;
    let tenants = [store.get_or_create_tenant("one").await.unwrap(), store.get_or_create_tenant("two").await.unwrap()];
    let mut sessions = Vec::new();
    for n in 0..20 {
        sessions.push(aged(&store, &tenants[n % 2], n, Timestamp(NOON.0 + 1_000 * n as i64)).await.name);
    }
    let old = RetentionLimits { updated_before: Some(Timestamp(NOON.0 + 3_000)), max_bytes: None };
    assert_eq!(store.enforce_retention(&tenants, old).await.unwrap().deleted_sessions, sessions[..3]);
    let most = store.size_bytes().await.unwrap() * 3 / 4;
    let swept = store
        .enforce_retention(&tenants, RetentionLimits { updated_before: None, max_bytes: Some(most) })
        .await
        .unwrap();
    assert!(!swept.deleted_sessions.is_empty());
    assert_eq!(swept.deleted_sessions, sessions[3..3 + swept.deleted_sessions.len()]);
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
    let stays = record(&store, &tenant, &body(ApiFormat::Chat, &[user("The platypus stays.")])).await.session;
    for api_format in DIALECTS {
        let (session, _) = compact(&store, &tenant, &planted(api_format), 2_000).await;
        let bytes = ground.bytes().await;
        for word in PLANTED {
            // Reasoning is no message's text in every dialect.
            assert!(holds(&bytes, word) || word == PLANTED[7], "{api_format:?}: {word} was never there");
        }
        store.delete_session(&tenant, session.id).await.unwrap();
        let bytes = vacuumed(&ground, &store).await;
        for word in PLANTED.into_iter().chain([session.name.as_str()]) {
            assert!(!holds(&bytes, word), "{api_format:?}: {word} is still there");
        }
        assert!(holds(&bytes, "platypus"));
    }
    assert!(store.check_integrity().await.unwrap().is_empty());
    let hits = store.search(&tenant, &stays, SearchScope::Session, "platypus", 1).await.unwrap();
    assert_eq!(hits.len(), 1);
    if ground.database == Database::Sqlite {
        let log = ground.folder.path().join("store.db-wal");
        assert!(std::fs::metadata(log).map_or(0, |log| log.len()) == 0, "the log is empty");
    }
}

async fn a_vacuum_that_cannot_clear_the_log_says_so(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let (session, _) = compact(&store, &tenant, &planted(ApiFormat::Chat), 2_000).await;
    let reader = rusqlite::Connection::open(ground.file()).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let _: i64 = reader.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
    store.delete_session(&tenant, session.id).await.unwrap();
    let error = store.vacuum().await.expect_err("somebody still reads what was deleted");
    assert!(matches!(error, StoreError::Busy(_)), "{error}");
    reader.execute_batch("COMMIT").unwrap();
    let bytes = vacuumed(&ground, &store).await;
    assert!(PLANTED.iter().all(|word| !holds(&bytes, word)));
}

async fn an_archived_parent_goes_with_its_child(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let empty = ground.rows().await;
    let sent = body(ApiFormat::Chat, &too_much(&[]));
    let first = record(&store, &tenant, &sent).await;
    keep(&store, &tenant, &first, &sent, &restarting(&first, &sent)).await.unwrap();
    let child = record(&store, &tenant, &sent).await.session;
    store.delete_session(&tenant, first.session.id).await.unwrap();
    assert_eq!(store.sessions(&tenant, 10).await.unwrap().len(), 1);
    assert_eq!(store.lineage(&tenant, &child).await.unwrap().ancestors[0].status, SessionStatus::Deleted);
    assert_eq!(store.body_at(&tenant, &child, HistoryPoint::Original).await.unwrap(), sent);
    store.delete_session(&tenant, child.id).await.unwrap();
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
        session = Some(compact(&store, &tenant, &body(ApiFormat::Messages, &turns), 1_500).await.0);
    }
    let quoted = ground.number("SELECT count(*) FROM remains WHERE text LIKE '%platypus%'").await;
    assert!(quoted > 0, "a checkpoint that was folded in turn quotes it");
    let mut fork: Vec<Turn> = long_session()[..2].to_vec();
    fork.push(user("Something else."));
    let fork = record(&store, &tenant, &body(ApiFormat::Messages, &fork)).await.session;
    assert!(fork.first_own_message > 0);
    store.delete_session(&tenant, session.unwrap().id).await.unwrap();
    let left = ground.number("SELECT count(*) FROM remains").await;
    assert_eq!(left, 0);
}
