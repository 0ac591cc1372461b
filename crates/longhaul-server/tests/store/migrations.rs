//! How a store comes to be, and which it leaves alone.

use std::time::Duration;

use longhaul_engine::ApiFormat;
use longhaul_engine::redact::Redacted;
use longhaul_server::store::{Durability, Store, StoreError, StoreLocation};

use super::ground::{Ground, look};
use super::speech::{body, record, user};
use super::worker;

tests! {
    Both: [
        a_store_is_opened_by_many_at_once,
        a_newer_store_is_refused,
        a_store_of_any_version_before_is_brought_up_to_date,
    ],
    Sqlite: [
        a_newer_file_is_left_byte_for_byte,
        a_database_of_another_program_is_left_byte_for_byte,
        what_is_no_database_is_left_byte_for_byte,
        an_empty_file_becomes_a_store,
        a_file_whose_first_opening_was_killed_opens,
        only_its_owner_may_read_it,
        what_is_in_memory_leaves_no_file,
    ],
}

async fn a_store_is_opened_by_many_at_once(ground: Ground) {
    let mut openings = tokio::task::JoinSet::new();
    for n in 0..8 {
        let place = ground.place.clone();
        openings.spawn(async move {
            let store = Store::open(&place, Durability::Normal).await.unwrap();
            let tenant = store.get_or_create_tenant("local").await.unwrap();
            record(&store, &tenant, &body(ApiFormat::Chat, &[user(&format!("Task {n}."))])).await;
        });
    }
    openings.join_all().await;
    let (store, tenant) = ground.opened().await;
    assert_eq!(store.sessions(&tenant, 20).await.unwrap().len(), 8);
    assert_eq!(ground.number("SELECT count(*) FROM tenants").await, 1);
    assert!(store.check_integrity().await.unwrap().is_empty());
}

/// Says that a store's tables are of another version.
async fn stamp(ground: &Ground, version: usize) {
    match &ground.place {
        StoreLocation::Postgres(_) => {
            drop(ground.ask(&format!("UPDATE longhaul_version SET version = {version}")).await);
        }
        _ => drop(look(ground.file(), &format!("PRAGMA user_version = {version}"))),
    }
}

/// The tables that each version added to those of the first, so that the later ones can be taken away.
const ADDED: [&[&str]; 3] = [&["states", "models"], &["uses", "keys", "traffic"], &["hidden_turns"]];

async fn a_store_of_any_version_before_is_brought_up_to_date(ground: Ground) {
    let said = body(ApiFormat::Chat, &[user("Hello.")]);
    for version in 1..=ADDED.len() {
        let (store, tenant) = ground.opened().await;
        let session = record(&store, &tenant, &said).await.session;
        drop(store);
        for table in ADDED[version - 1..].iter().copied().flatten() {
            ground.ask(&format!("DROP TABLE {table}")).await;
        }
        stamp(&ground, version).await;
        let (store, tenant) = ground.opened().await;
        assert!(ground.rows().await.iter().all(|(_, rows)| *rows < 2), "every table is there again");
        assert!(store.save_session_state(&tenant, session.id, Redacted::literal("{}")).await.unwrap());
        assert!(!store.has_keys().await.unwrap());
        assert!(store.traffic(&tenant, session.id).await.unwrap().is_empty());
        assert_eq!(record(&store, &tenant, &said).await.new_messages, 0, "what was there is still there");
    }
}

async fn a_newer_store_is_refused(ground: Ground) {
    drop(ground.opened().await);
    stamp(&ground, 99).await;
    let error = Store::open(&ground.place, Durability::Normal).await.err().unwrap();
    assert!(matches!(error, StoreError::TooNew(_)), "{error}");
    assert!(error.message().contains("99") && !error.message().contains('\n'), "{error}");
}

async fn a_newer_file_is_left_byte_for_byte(ground: Ground) {
    drop(ground.opened().await);
    look(ground.file(), "PRAGMA user_version = 99");
    let before = std::fs::read(ground.file()).unwrap();
    assert!(Store::open(&ground.place, Durability::Normal).await.is_err());
    assert_eq!(std::fs::read(ground.file()).unwrap(), before);
    assert_eq!(beside(&ground), Vec::<String>::new());
}

/// The files beside the store's.
fn beside(ground: &Ground) -> Vec<String> {
    let entries = std::fs::read_dir(ground.folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "store.db").collect()
}

async fn a_database_of_another_program_is_left_byte_for_byte(ground: Ground) {
    for journal in ["delete", "wal"] {
        let _ = std::fs::remove_file(ground.file());
        let other = rusqlite::Connection::open(ground.file()).unwrap();
        let _: String = other.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |row| row.get(0)).unwrap();
        other.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
        drop(other);
        let before = std::fs::read(ground.file()).unwrap();
        let error = Store::open(&ground.place, Durability::Normal).await.err().unwrap();
        assert!(matches!(error, StoreError::Damaged(_)) && !error.message().contains('\n'), "{error}");
        assert_eq!(std::fs::read(ground.file()).unwrap(), before, "{journal}");
        assert_eq!(beside(&ground), Vec::<String>::new(), "{journal}");
    }
}

async fn what_is_no_database_is_left_byte_for_byte(ground: Ground) {
    for content in ["not a database\n".repeat(500), "x".to_owned(), "SQLite format 3\0garbage".repeat(300)] {
        std::fs::write(ground.file(), &content).unwrap();
        let error = Store::open(&ground.place, Durability::Normal).await.err().unwrap();
        assert!(matches!(error, StoreError::Damaged(_)) && !error.message().contains('\n'), "{error}");
        assert_eq!(std::fs::read_to_string(ground.file()).unwrap(), content);
    }
}

async fn an_empty_file_becomes_a_store(ground: Ground) {
    std::fs::write(ground.file(), "").unwrap();
    let (store, tenant) = ground.opened().await;
    record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await;
    assert!(store.check_integrity().await.unwrap().is_empty());
}

async fn a_file_whose_first_opening_was_killed_opens(ground: Ground) {
    let mut made = 0;
    for round in 0..50 {
        let file = ground.folder.path().join(format!("{round}.db"));
        let mut opening = worker::start("open", &file);
        tokio::time::sleep(Duration::from_micros(round * 400)).await;
        opening.kill().unwrap();
        opening.wait().unwrap();
        if file.exists() {
            // Either nothing of a migration is there or all of it.
            let version = look(&file, "PRAGMA user_version")[0].clone();
            let tables = look(&file, "SELECT count(*) FROM sqlite_schema")[0].clone();
            let application = look(&file, "PRAGMA application_id")[0].clone();
            assert_eq!(version == "0", tables == "0", "{round}");
            assert_eq!(version == "0", application == "0", "{round}");
            made += 1;
        }
        let store = Store::open(&StoreLocation::File(file), Durability::Normal).await.unwrap();
        let tenant = store.get_or_create_tenant("local").await.unwrap();
        record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await;
        assert!(store.check_integrity().await.unwrap().is_empty());
    }
    assert!(made > 0, "no opening got anywhere");
}

async fn only_its_owner_may_read_it(ground: Ground) {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let place = StoreLocation::default_in(&ground.folder.path().join("data"));
    let store = Store::open(&place, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("local").await.unwrap();
    record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await;
    let folder = ground.folder.path().join("data/longhaul");
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 1, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

async fn what_is_in_memory_leaves_no_file(ground: Ground) {
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("local").await.unwrap();
    let sent = body(ApiFormat::Chat, &super::speech::long_session());
    let (session, _) = super::speech::compact(&store, &tenant, &sent, 2_000).await;
    assert!(store.check_integrity().await.unwrap().is_empty());
    store.delete_session(&tenant, session.id).await.unwrap();
    store.vacuum().await.unwrap();
    assert!(store.size_bytes().await.unwrap() > 0);
    assert!(std::fs::read_dir(ground.folder.path()).unwrap().next().is_none());
    assert!(!std::path::Path::new("memory").exists() && !std::path::Path::new(":memory:").exists());
    let other = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let tenant = other.get_or_create_tenant("local").await.unwrap();
    assert!(other.sessions(&tenant, 9).await.unwrap().is_empty(), "no two are the same one");
}
