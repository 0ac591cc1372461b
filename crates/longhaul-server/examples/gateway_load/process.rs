//! The processes under test: started with their output in a file, watched through /proc, and ended by their own id.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::Outcome;

/// The kernel's clock of CPU time, as /proc shows it on Linux.
const TICKS_A_SECOND: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(20);

/// A process of ours; it ends when this is dropped.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn start(command: &mut Command, log: &Path) -> Outcome<Self> {
        let log = File::create(log)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{program} does not start: {error}"))?;
        Ok(Self { child })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    /// Asks first, because nginx takes its workers along only when it is asked.
    fn drop(&mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
        for _ in 0..100 {
            if asked.is_err() || !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until somebody listens there.
pub(crate) async fn listening(address: SocketAddr, log: &Path) -> Outcome<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
    let said = fs::read_to_string(log).unwrap_or_default();
    Err(format!("nobody listens on {address}: {}", said.lines().last().unwrap_or("no word")).into())
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Outcome<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whose CPU time counts as a process's.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    Itself,
    WithChildren,
}

/// CPU time of a process so far.
pub(crate) fn cpu(id: u32, family: Family) -> Duration {
    let children = match family {
        Family::Itself => String::new(),
        Family::WithChildren => fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default(),
    };
    let ticks = ticks(&id.to_string()) + children.split_whitespace().map(ticks).sum::<u64>();
    Duration::from_secs_f64(ticks as f64 / TICKS_A_SECOND)
}

fn ticks(id: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; what follows the last one are fields, the state first.
    let fields: Vec<_> = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    number(11) + number(12)
}

/// Resident memory of a process in MB: now, and at its highest.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) now: f64,
    pub(crate) peak: f64,
}

pub(crate) fn memory(id: u32) -> Memory {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kb| kb.parse::<f64>().ok());
        number.unwrap_or(0.0) * 1024.0 / 1e6
    };
    Memory { now: field("VmRSS:"), peak: field("VmHWM:") }
}
