//! A PostgreSQL server of the tests' own: in a temporary folder, on a port that was free, gone when they are.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ground::Folder;

/// The folder with `initdb` and `pg_ctl`, where the environment names one.
pub(crate) fn programs() -> Option<PathBuf> {
    std::env::var_os("LONGHAUL_POSTGRES_BIN").map(PathBuf::from)
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    folder: Folder,
    port: u16,
}

static SHARED: Mutex<Option<Server>> = Mutex::new(None);

impl Server {
    /// The one that most tests share, each with a database of its own.
    pub(crate) fn shared() -> MutexGuard<'static, Option<Server>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody cuts its power.
        shared.get_or_insert_with(|| Self::start("fsync=off"));
        shared
    }

    /// Ends the shared one, if it ever began.
    pub(crate) fn stop_shared() {
        drop(SHARED.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// One with a setting of its own.
    pub(crate) fn start(setting: &str) -> Self {
        let folder = Folder::new();
        if is_root() {
            let owned = Command::new("chown").arg("postgres").arg(folder.path()).status().unwrap();
            assert!(owned.success(), "the user postgres gets no folder");
        }
        // The port may be taken again before the server has it; the next one is as good.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let server = Self { folder: folder.clone(), port };
            let data = folder.path().join("data");
            if !data.exists() {
                let made = server.run("initdb", &["--no-sync", "-A", "trust", "-U", "tests", "-E", "UTF8", "-D"]);
                assert!(made, "initdb failed in {}", data.display());
            }
            let socket = folder.path().display();
            let set = format!(
                "-p {port} -k {socket} -c listen_addresses=127.0.0.1 -c max_connections=300 -c {setting} -c shared_buffers=64MB"
            );
            if server.run("pg_ctl", &["-w", "-s", "-l", "/dev/null", "-o", &set, "start", "-D"]) {
                return server;
            }
            std::mem::forget(server);
        }
        panic!("no PostgreSQL server could be started");
    }

    /// Stops it as a power cut would, and starts it again.
    pub(crate) fn crash(&self) {
        assert!(self.run("pg_ctl", &["-w", "-s", "stop", "-m", "immediate", "-D"]));
        self.start_again();
    }

    /// Stops it, and what was connected is cut off.
    pub(crate) fn stop(&self) {
        assert!(self.run("pg_ctl", &["-w", "-s", "stop", "-m", "fast", "-D"]));
    }

    /// Starts it again where it was.
    pub(crate) fn start_again(&self) {
        let set = std::fs::read_to_string(self.folder.path().join("data/postmaster.opts")).unwrap();
        let set: Vec<&str> = set.split('"').skip(1).step_by(2).collect();
        assert!(self.run("pg_ctl", &["-w", "-s", "-l", "/dev/null", "-o", &set.join(" "), "start", "-D"]));
    }

    /// The URL of one of its databases.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://tests@127.0.0.1:{}/{database}", self.port)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let data = self.folder.path().join("data");
        let program = programs().unwrap().join(program);
        let mut command = as_postgres(&program);
        command.args(arguments).arg(data).stdout(Stdio::null()).stderr(Stdio::null());
        command.current_dir("/").status().is_ok_and(|status| status.success())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-w", "-s", "stop", "-m", "immediate", "-D"]);
    }
}

/// The server's programs refuse to run as root.
fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program);
    command
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
