//! Worlds in which things fail: one clear line about it, the process goes on, and nothing half is left behind.
//!
//! A worker process lives in each world and writes until it cannot; afterwards its file is opened in a good world, and holds
//! exactly what was acknowledged.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use longhaul_engine::ApiFormat;
use longhaul_server::store::{Durability, HistoryPoint, Store, StoreError, StoreLocation};

use super::ground::{Ground, ask};
use super::speech::{NOON, body, record, recorded, user};
use super::worker::{attempted, command};

tests! {
    Sqlite: [
        a_limit_on_the_size_of_files_is_told_as_no_room,
        a_full_disk_is_told_as_no_room,
        a_disk_that_is_full_from_the_start_is_told,
        a_file_system_that_is_read_only_is_told_as_forbidden,
        a_file_that_may_not_be_written_is_told_as_forbidden,
        a_file_system_without_locks_is_told,
        a_locked_database_is_told_after_a_while,
        a_damaged_file_is_told_as_damaged,
        a_folder_in_the_place_of_a_file_is_told,
    ],
    Postgres: [
        a_wrong_address_is_told_without_its_password,
        a_server_that_refuses_is_told_as_forbidden,
        a_server_with_no_connection_left_is_told,
    ],
}

/// What a worker said of its world.
struct Told {
    /// How many turns were kept.
    kept: usize,
    /// The variant and the words of its first failure.
    error: Option<(String, String)>,
    alive: bool,
}

fn told(command: &mut Command) -> Told {
    let out = command.stderr(Stdio::null()).output().unwrap();
    let mut told = Told { kept: 0, error: None, alive: false };
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        match line.split_once(' ') {
            Some(("ok", count)) => told.kept = count.parse().unwrap(),
            Some(("error", rest)) => {
                let (variant, words) = rest.split_once(' ').unwrap();
                told.error = Some((variant.to_owned(), words.to_owned()));
            }
            _ => told.alive |= line == "alive",
        }
    }
    assert!(told.alive && out.status.success(), "the process did not go on: {:?}", told.error);
    told
}

#[track_caller]
fn failed(told: &Told, variants: &[&str]) {
    let (variant, words) = told.error.as_ref().expect("nothing failed");
    assert!(variants.contains(&variant.as_str()), "{variant}: {words}");
    assert!(!words.contains("\\n") && words.len() < 400 && words.contains("store.db"), "{words}");
}

fn attempt(file: &Path, turns: usize) -> Command {
    let mut command = command("try", &file.display().to_string());
    command.env("LONGHAUL_STORE_TURNS", turns.to_string());
    command
}

/// In a good world the file is whole, and holds what was acknowledged and nothing else.
async fn judge(file: &Path, kept: usize) {
    let store = Store::open(&StoreLocation::File(file.to_owned()), Durability::Normal).await.unwrap();
    let faults = store.check_integrity().await.unwrap();
    assert!(faults.is_empty(), "{faults:?}");
    let tenant = store.get_or_create_tenant("local").await.unwrap();
    let sessions = store.sessions(&tenant, 9).await.unwrap();
    assert_eq!(sessions.len(), usize::from(kept > 0));
    if let [session] = &sessions[..] {
        let sent = body(ApiFormat::Chat, &attempted(kept));
        assert_eq!(store.body_at(&tenant, session, HistoryPoint::Original).await.unwrap(), sent);
    }
    let sent = body(ApiFormat::Chat, &attempted(kept + 1));
    assert!(recorded(&store, &tenant, &sent, NOON).await.unwrap().new_messages > 0, "and it goes on");
}

/// This world with a shim between the program and the file system.
fn shimmed(ground: &Ground, fail: &str, turns: usize) -> Command {
    let library = ground.folder.path().join("shim.so");
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/store/shim.c");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl").status();
    assert!(made.is_ok_and(|made| made.success()), "the shim could not be compiled");
    let mut command = attempt(ground.file(), turns);
    command.env("LD_PRELOAD", library).env("LONGHAUL_FAIL", fail);
    command
}

async fn a_limit_on_the_size_of_files_is_told_as_no_room(ground: Ground) {
    // In blocks of 512 or 1024 bytes, by the shell.
    for (world, blocks) in [600, 900, 2_000].into_iter().enumerate() {
        let file = ground.folder.path().join(format!("{world}.store.db"));
        let worker = attempt(&file, 400);
        let mut limited = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\"");
        limited.arg("-c").arg(script).arg(worker.get_program());
        limited.envs(worker.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let told = told(&mut limited);
        failed(&told, &["Full"]);
        assert!(told.kept > 0, "{blocks}");
        judge(&file, told.kept).await;
    }
}

async fn a_full_disk_is_told_as_no_room(ground: Ground) {
    for room in [300_000, 700_001, 1_234_567] {
        let told = told(shimmed(&ground, "full", 400).env("LONGHAUL_ROOM", room.to_string()));
        failed(&told, &["Full"]);
        assert!(told.kept > 0, "{room}");
        judge(ground.file(), told.kept).await;
        for name in ["store.db", "store.db-wal", "store.db-shm"] {
            let _ = std::fs::remove_file(ground.folder.path().join(name));
        }
    }
}

async fn a_disk_that_is_full_from_the_start_is_told(ground: Ground) {
    for room in [0, 100, 4_096, 20_000, 60_000] {
        let told = told(shimmed(&ground, "full", 400).env("LONGHAUL_ROOM", room.to_string()));
        failed(&told, &["Full"]);
        assert_eq!(told.kept, 0);
        judge(ground.file(), 0).await;
        for name in ["store.db", "store.db-wal", "store.db-shm"] {
            let _ = std::fs::remove_file(ground.folder.path().join(name));
        }
    }
}

async fn a_file_system_that_is_read_only_is_told_as_forbidden(ground: Ground) {
    // Where there is nothing yet, and where there is a store.
    failed(&told(&mut shimmed(&ground, "readonly", 2)), &["Forbidden"]);
    assert!(!ground.file().exists());
    let kept = told(&mut attempt(ground.file(), 2)).kept;
    failed(&told(&mut shimmed(&ground, "readonly", 4)), &["Forbidden"]);
    judge(ground.file(), kept).await;
}

async fn a_file_that_may_not_be_written_is_told_as_forbidden(ground: Ground) {
    use std::os::unix::fs::PermissionsExt;
    let kept = told(&mut attempt(ground.file(), 2)).kept;
    let set = |mode| std::fs::set_permissions(ground.file(), std::fs::Permissions::from_mode(mode)).unwrap();
    // Root may write everything, so it becomes somebody else.
    let mut worker = attempt(ground.file(), 4);
    if std::fs::File::open("/etc/shadow").is_ok() {
        use std::os::unix::process::CommandExt;
        worker.uid(65_534).gid(65_534);
        set(0o444);
    } else {
        set(0o400);
    }
    failed(&told(&mut worker), &["Forbidden"]);
    set(0o600);
    judge(ground.file(), kept).await;
}

async fn a_file_system_without_locks_is_told(ground: Ground) {
    let told = told(&mut shimmed(&ground, "lock", 2));
    failed(&told, &["Busy"]);
    assert!(told.error.unwrap().1.contains("without locks"));
    judge(ground.file(), 0).await;
}

async fn a_locked_database_is_told_after_a_while(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    let sent = body(ApiFormat::Chat, &attempted(1));
    record(&store, &tenant, &sent).await;
    let other = rusqlite::Connection::open(ground.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let began = Instant::now();
    let longer = body(ApiFormat::Chat, &attempted(2));
    let error = recorded(&store, &tenant, &longer, NOON).await.unwrap_err();
    let waited = began.elapsed();
    assert!(matches!(error, StoreError::Busy(_)) && !error.message().contains('\n'), "{error}");
    assert!((Duration::from_secs(4)..Duration::from_secs(12)).contains(&waited), "{waited:?}");
    // Who only reads is not kept waiting.
    assert_eq!(store.sessions(&tenant, 9).await.unwrap().len(), 1);
    other.execute_batch("ROLLBACK").unwrap();
    assert!(recorded(&store, &tenant, &longer, NOON).await.unwrap().new_messages > 0);
    assert!(store.check_integrity().await.unwrap().is_empty());
}

async fn a_damaged_file_is_told_as_damaged(ground: Ground) {
    let kept = told(&mut attempt(ground.file(), 30)).kept;
    let whole = std::fs::read(ground.file()).unwrap();
    let (mut opened, mut noticed) = (0, 0);
    for at in 1..12 {
        let mut damaged = whole.clone();
        let middle = damaged.len() * at / 12 / 4_096 * 4_096;
        damaged[middle..middle + 3_000].fill(0xa5);
        std::fs::write(ground.file(), &damaged).unwrap();
        let _ = std::fs::remove_file(ground.folder.path().join("store.db-wal"));
        let store = match Store::open(&ground.place, Durability::Normal).await {
            Ok(store) => store,
            // The list of tables may take more than the first page, and a store without it does not open.
            Err(error) => {
                assert!(matches!(error, StoreError::Damaged(_)), "page at {middle}: {error:?}");
                continue;
            }
        };
        opened += 1;
        let tenant = store.get_or_create_tenant("local").await.unwrap();
        let faults = store.check_integrity().await;
        let read = async {
            let session = store.session_by_name(&tenant, "latest").await?;
            store.body_at(&tenant, &session, HistoryPoint::Original).await
        };
        let told = match read.await {
            // What is given in spite of it is what was written.
            Ok(given) => {
                let same = given == body(ApiFormat::Chat, &attempted(kept));
                assert!(same, "page at {middle}: another body was given");
                false
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Damaged(_)), "{error:?}");
                assert!(!error.message().contains('\n'), "{error:?}");
                true
            }
        };
        let found = match faults {
            Ok(faults) => !faults.is_empty(),
            Err(error) => matches!(error, StoreError::Damaged(_)),
        };
        // What stands in an index is only missed by a check, what stands in the middle of a text only by whoever reads it.
        assert!(told || found, "page at {middle}");
        noticed += usize::from(told);
    }
    assert!(opened > 8 && noticed > 2, "{opened} opened, {noticed} noticed");
    std::fs::write(ground.file(), &whole).unwrap();
    let _ = std::fs::remove_file(ground.folder.path().join("store.db-wal"));
    judge(ground.file(), kept).await;
}

async fn a_folder_in_the_place_of_a_file_is_told(ground: Ground) {
    std::fs::create_dir(ground.file()).unwrap();
    failed(&told(&mut attempt(ground.file(), 1)), &["Forbidden"]);
    // And a file in the place of a folder.
    let under = ground.folder.path().join("file");
    std::fs::write(&under, "").unwrap();
    failed(&told(&mut attempt(&under.join("store.db"), 1)), &["Forbidden"]);
}

/// What opening a URL fails with.
async fn refused(url: &str) -> StoreError {
    let error = Store::open(&url.parse().unwrap(), Durability::Normal).await.err().expect("nothing failed");
    assert!(!error.message().contains('\n') && !error.message().contains("hunter2"), "{error}");
    error
}

async fn a_wrong_address_is_told_without_its_password(ground: Ground) {
    let StoreLocation::Postgres(url) = &ground.place else { panic!("no server") };
    let with_password = url.replace("tests@", "tests:hunter2@");
    let no_database = format!("{with_password}_none_such");
    let no_port = "postgres://tests:hunter2@127.0.0.1:1/x".to_owned();
    let no_host = "postgres://tests:hunter2@no-such-host.invalid/x".to_owned();
    for wrong in [no_database, no_port, no_host] {
        let error = refused(&wrong).await;
        assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    }
    for wrong in ["postgres://tests:hunter2@127.0.0.1:port/x", "postgres://t:hunter2@h/x?nonsense=1"] {
        let error = refused(wrong).await;
        assert!(matches!(error, StoreError::InvalidInput(_)), "{error:?}");
    }
    let refused_role = refused(&url.replace("tests@", "nobody_known:hunter2@")).await;
    assert!(matches!(refused_role, StoreError::Forbidden(_)), "{refused_role:?}");
}

async fn a_server_that_refuses_is_told_as_forbidden(ground: Ground) {
    let (store, tenant) = ground.opened().await;
    record(&store, &tenant, &body(ApiFormat::Chat, &[user("Hello.")])).await;
    let StoreLocation::Postgres(url) = &ground.place else { panic!("no server") };
    ask(url, "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$").await;
    ask(url, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader").await;
    let reader = url.replace("tests@", "reader@");
    match Store::open(&reader.parse().unwrap(), Durability::Normal).await {
        Ok(store) => {
            let error = store.get_or_create_tenant("new").await.unwrap_err();
            assert!(matches!(error, StoreError::Forbidden(_)), "{error:?}");
        }
        Err(error) => assert!(matches!(error, StoreError::Forbidden(_)), "{error:?}"),
    }
    let read_only = format!("{url}?options=-c%20default_transaction_read_only%3Don");
    match Store::open(&read_only.parse().unwrap(), Durability::Normal).await {
        Ok(store) => {
            let error = store.get_or_create_tenant("new").await.unwrap_err();
            assert!(matches!(error, StoreError::Forbidden(_)), "{error:?}");
        }
        Err(error) => assert!(matches!(error, StoreError::Forbidden(_)), "{error:?}"),
    }
    assert_eq!(store.sessions(&tenant, 9).await.unwrap().len(), 1);
}

async fn a_server_with_no_connection_left_is_told(ground: Ground) {
    let StoreLocation::Postgres(url) = &ground.place else { panic!("no server") };
    drop(ground.opened().await);
    let name = url.rsplit('/').next().unwrap();
    ask(
        url,
        "DO $$ BEGIN CREATE ROLE limited LOGIN CONNECTION LIMIT 0; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    )
    .await;
    ask(url, &format!("GRANT ALL ON DATABASE {name} TO limited")).await;
    let error = refused(&url.replace("tests@", "limited:hunter2@")).await;
    assert!(matches!(error, StoreError::Busy(_)), "{error:?}");
}
