//! Stores, and all that can be wrong with them.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul_server::store::{Store, StoreLocation};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::ground::Folder;
use crate::open;
use crate::postgres::ground::ask;
use crate::postgres::server::Server;

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is none but in memory, as in a run that cannot open its own.
    Absent,
    /// No file may grow any more.
    Full,
    /// What is written is refused.
    ReadOnly,
    /// Somebody else writes, and does not end.
    Locked,
    /// The server is not there any more.
    Stopped,
    /// The file is gone.
    Deleted,
    /// Somebody else writes most of the time; the server says nothing.
    Slow,
}

impl Fault {
    pub(crate) const OF_A_FILE: [Self; 6] =
        [Self::Absent, Self::Full, Self::ReadOnly, Self::Locked, Self::Deleted, Self::Slow];
    pub(crate) const OF_A_SERVER: [Self; 3] = [Self::ReadOnly, Self::Stopped, Self::Slow];

    /// Whether a store gets well again by itself once the fault is over.
    pub(crate) fn heals(self) -> bool {
        !matches!(self, Self::Deleted | Self::Absent)
    }
}

/// A store that gets sick.
pub(crate) enum Patient {
    File(Folder),
    Server { server: Server, url: String, proxy: Proxy },
}

/// What makes it well again.
pub(crate) enum Sick<'p> {
    Nothing,
    Limit(Rlimit),
    Triggers(Vec<String>),
    Lock(rusqlite::Connection),
    Spells(Arc<AtomicBool>),
    Server(&'p Server),
    Rights(&'p str),
    Proxy(&'p Proxy),
}

pub(crate) struct Healing<'p> {
    patient: &'p Patient,
    sick: Sick<'p>,
}

impl Patient {
    pub(crate) fn file() -> Self {
        Self::File(Folder::new())
    }

    pub(crate) async fn server((server, url): (Server, String)) -> Self {
        let proxy = Proxy::start(&url).await;
        Self::Server { server, url, proxy }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::File(_) => "SQLite",
            Self::Server { .. } => "PostgreSQL",
        }
    }

    pub(crate) async fn store(&self) -> Store {
        match self {
            Self::File(folder) => open(&StoreLocation::File(folder.path().join("store.db"))).await,
            Self::Server { proxy, .. } => open(&StoreLocation::Postgres(proxy.url.clone())).await,
        }
    }

    fn database(&self) -> rusqlite::Connection {
        let Self::File(folder) = self else { panic!("only a file is opened like this") };
        let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
        database.busy_timeout(Duration::from_secs(30)).unwrap();
        database
    }

    /// Makes it sick.
    pub(crate) async fn strike(&self, fault: Fault) -> Healing<'_> {
        let sick = match (fault, self) {
            (Fault::Absent, _) => Sick::Nothing,
            (Fault::Full, Self::File(folder)) => {
                let size = fs::metadata(folder.path().join("store.db-wal")).map_or(0, |file| file.len());
                let before = getrlimit(Resource::Fsize);
                // What is there may be written over; nothing may grow.
                let limit = Rlimit { current: Some(size.max(32 * 1024)), ..before };
                setrlimit(Resource::Fsize, limit).unwrap();
                Sick::Limit(before)
            }
            (Fault::ReadOnly, Self::File(_)) => Sick::Triggers(refuse_all(&self.database())),
            (Fault::Locked, Self::File(folder)) => {
                if !folder.path().join("store.db").exists() {
                    drop(self.store().await);
                }
                let other = self.database();
                other.execute_batch("BEGIN IMMEDIATE").unwrap();
                Sick::Lock(other)
            }
            (Fault::Deleted, Self::File(folder)) => {
                for entry in fs::read_dir(folder.path()).unwrap() {
                    fs::remove_file(entry.unwrap().path()).unwrap();
                }
                Sick::Nothing
            }
            (Fault::Slow, Self::File(_)) => {
                let (over, other) = (Arc::new(AtomicBool::new(false)), self.database());
                let ends = Arc::clone(&over);
                std::thread::spawn(move || {
                    while !ends.load(Ordering::SeqCst) {
                        other.execute_batch("BEGIN IMMEDIATE").unwrap();
                        std::thread::sleep(Duration::from_millis(400));
                        other.execute_batch("COMMIT").unwrap();
                        std::thread::sleep(Duration::from_millis(50));
                    }
                });
                Sick::Spells(over)
            }
            (Fault::Stopped, Self::Server { server, .. }) => {
                server.stop();
                Sick::Server(server)
            }
            (Fault::ReadOnly, Self::Server { url, .. }) => {
                ask(url, "ALTER DATABASE shared SET default_transaction_read_only = on").await;
                disconnect(url).await;
                Sick::Rights(url)
            }
            (Fault::Slow, Self::Server { proxy, .. }) => {
                proxy.is_stuck.store(true, Ordering::SeqCst);
                Sick::Proxy(proxy)
            }
            (fault, _) => panic!("{fault:?} is nothing that {} can have", self.name()),
        };
        Healing { patient: self, sick }
    }
}

impl Healing<'_> {
    pub(crate) async fn heal(self) {
        match self.sick {
            Sick::Nothing => {}
            Sick::Limit(before) => setrlimit(Resource::Fsize, before).unwrap(),
            Sick::Triggers(names) => {
                let database = self.patient.database();
                for name in names {
                    database.execute_batch(&format!("DROP TRIGGER \"{name}\"")).unwrap();
                }
            }
            Sick::Lock(other) => other.execute_batch("ROLLBACK").unwrap(),
            Sick::Spells(over) => over.store(true, Ordering::SeqCst),
            Sick::Server(server) => server.start_again(),
            Sick::Rights(url) => {
                let back = "BEGIN READ WRITE; ALTER DATABASE shared SET default_transaction_read_only = off; COMMIT";
                ask(url, back).await;
                disconnect(url).await;
            }
            Sick::Proxy(proxy) => proxy.is_stuck.store(false, Ordering::SeqCst),
        }
    }
}

/// Lets nobody change a row. A file that may not be written is one for root all the same, so that permissions would test nothing.
fn refuse_all(database: &rusqlite::Connection) -> Vec<String> {
    let mut names = Vec::new();
    for table in ["tenants", "sessions", "messages", "requests", "epochs", "states", "traffic"] {
        for change in ["INSERT", "UPDATE"] {
            let name = format!("refuse_{table}_{change}");
            let refuse = format!(
                "CREATE TRIGGER \"{name}\" BEFORE {change} ON {table} BEGIN SELECT RAISE(ABORT, 'read-only'); END"
            );
            database.execute_batch(&refuse).unwrap();
            names.push(name);
        }
    }
    names
}

/// Ends all connections but the one that asks, so that the next have what holds now.
async fn disconnect(url: &str) {
    let others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                  WHERE datname = 'shared' AND pid <> pg_backend_pid()";
    ask(url, others).await;
}

/// What lies between a gateway and its server, and can keep everything to itself.
pub(crate) struct Proxy {
    url: String,
    is_stuck: Arc<AtomicBool>,
}

impl Proxy {
    async fn start(url: &str) -> Self {
        let (user, rest) = url.rsplit_once('@').unwrap_or(("postgres://postgres", url));
        let (address, path) = rest.split_once('/').unwrap();
        let server: SocketAddr = address.replace("localhost", "127.0.0.1").parse().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("{user}@{}/{path}", listener.local_addr().unwrap());
        let is_stuck = Arc::new(AtomicBool::new(false));
        let stuck = Arc::clone(&is_stuck);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let stuck = Arc::clone(&stuck);
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(server).await else { return };
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::join!(pass(from_client, to_server, &stuck), pass(from_server, to_client, &stuck));
                });
            }
        });
        Self { url, is_stuck }
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    is_stuck: &AtomicBool,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read) = from.read(&mut bytes).await {
        while is_stuck.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(20)).await;
        }
        if read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
}
