//! One program while it runs: its limits, its pipes, and lines in both directions. Whoever drops it ends it, with all that it started.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use longhaul_engine::redact::{Content, Redactor, Rules};

use super::manifest::Manifest;

/// The longest line that is read.
const LONGEST_LINE: u64 = 8 * 1024 * 1024;
/// Lines that a program may be ahead of us; then it waits.
const AHEAD: usize = 4;
/// Lines that we may be ahead of a program.
const BEHIND: usize = 8;
/// Of standard error so many lines are logged between two calls,
const LOGGED: usize = 50;
/// each up to so many bytes,
const LOGGED_BYTES: u64 = 1_000;
/// and so many bytes are read; then it is closed.
const LARGEST_STDERR: usize = 1024 * 1024;
/// How long a program that closed its output has to come to its end by itself.
const LAST: Duration = Duration::from_millis(100);
/// Variables that every program sees.
const SEEN: [&str; 8] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SYSTEMROOT"];

/// A program that runs.
pub(super) struct Process {
    child: Child,
    lines: Receiver<Heard>,
    to: SyncSender<String>,
    /// Bytes of standard error since the last call.
    noise: Arc<AtomicUsize>,
}

/// What came of a program.
pub(super) enum Heard {
    Line(String),
    TooLong,
    NotText,
}

impl Process {
    /// Starts a program.
    pub(super) fn start(
        manifest: &Manifest,
        environment: &[(String, String)],
        rules: &Rules,
    ) -> Result<Self, String> {
        let (name, arguments) = manifest.command.split_first().ok_or("it has no command")?;
        let program = if name.contains('/') { manifest.folder.join(name) } else { name.into() };
        let sees = |variable: &str| {
            SEEN.contains(&variable) || manifest.environment.iter().any(|named| named == variable)
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&manifest.folder)
            .env_clear()
            .envs(environment.iter().filter(|(variable, _)| sees(variable)).cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        limits::group(&mut command);
        let failed = |error: std::io::Error| format!("{name} could not be started: {error}");
        let mut child = command.spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err("it has no pipes".into()) };
        let (to, from_us) = sync_channel(BEHIND);
        let (heard, lines) = sync_channel(AHEAD);
        let noise = Arc::new(AtomicUsize::new(0));
        let process = Self { child, lines, to, noise: Arc::clone(&noise) };
        limits::memory(&process.child, manifest.memory_limit()).map_err(failed)?;
        let log = Log { plugin: manifest.name.clone(), noise, redactor: Redactor::numbered(rules.clone()) };
        thread::spawn(move || write(stdin, &from_us));
        thread::spawn(move || read(stdout, &heard));
        thread::spawn(move || log.keep(stderr));
        Ok(process)
    }

    /// Hands it a line, if it reads what it is told.
    pub(super) fn tell(&self, line: String) -> Result<(), String> {
        self.to.try_send(line).map_err(|_| "does not read its standard input".to_owned())
    }

    /// Its next line.
    pub(super) fn hear(&mut self, deadline: Instant) -> Result<String, Silence> {
        self.noise.store(0, Ordering::Relaxed);
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Heard::Line(line)) => Ok(line),
            Ok(Heard::TooLong) => {
                Err(Silence::Wrong(format!("wrote a line of more than {LONGEST_LINE} bytes")))
            }
            Ok(Heard::NotText) => Err(Silence::Wrong("wrote what is not UTF-8".to_owned())),
            Err(RecvTimeoutError::Timeout) => Err(Silence::TimeOut),
            Err(RecvTimeoutError::Disconnected) => Err(Silence::Wrong(self.ended())),
        }
    }

    /// How it came to its end.
    fn ended(&mut self) -> String {
        let until = Instant::now() + LAST;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("ended by itself ({status})"),
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
                Ok(None) | Err(_) => return "closed its standard output".to_owned(),
            }
        }
    }
}

/// Why there is no line.
pub(super) enum Silence {
    /// The time is over.
    TimeOut,
    /// It came to something else, in words that can follow a colon.
    Wrong(String),
}

impl Drop for Process {
    fn drop(&mut self) {
        limits::end(&mut self.child);
        let _ = self.child.wait();
    }
}

/// Writes what it is told; a program that is gone is told nothing more.
fn write(mut stdin: ChildStdin, lines: &Receiver<String>) {
    while let Ok(line) = lines.recv() {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Reads lines, each up to a length, as long as somebody wants them.
fn read(stdout: ChildStdout, heard: &SyncSender<Heard>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let Some(line) = line(&mut stdout, LONGEST_LINE) else { return };
        let is_long = line.len() as u64 > LONGEST_LINE;
        let line = match String::from_utf8(line) {
            _ if is_long => Heard::TooLong,
            Ok(line) => Heard::Line(line),
            Err(_) => Heard::NotText,
        };
        let goes_on = matches!(line, Heard::Line(_));
        if heard.send(line).is_err() || !goes_on {
            return;
        }
    }
}

/// The next line, or a byte more of it than it may have; nothing at the end.
fn line<R: Read>(from: &mut BufReader<R>, longest: u64) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    from.take(longest + 1).read_until(b'\n', &mut line).ok().filter(|read| *read > 0)?;
    Some(line)
}

/// What a program says beside its answers.
struct Log {
    plugin: String,
    noise: Arc<AtomicUsize>,
    redactor: Redactor,
}

impl Log {
    fn keep(mut self, stderr: ChildStderr) {
        let mut stderr = BufReader::new(stderr);
        let mut lines = 0;
        while let Some(line) = line(&mut stderr, LOGGED_BYTES) {
            let before = self.noise.fetch_add(line.len(), Ordering::Relaxed);
            lines = if before == 0 { 0 } else { lines + 1 };
            if before + line.len() > LARGEST_STDERR {
                tracing::warn!(plugin = self.plugin, "its standard error is closed: it says too much");
                return;
            }
            if lines < LOGGED {
                let words = String::from_utf8_lossy(&line);
                let words = self.redactor.redact(words.trim_end(), Content::Text).text.on_one_line(1_000);
                tracing::info!(plugin = self.plugin, "{words}");
            }
        }
    }
}

#[cfg(unix)]
mod limits {
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    use rustix::process::{Pid, Signal, kill_process_group};

    /// In a group of its own, so that all that it starts ends with it.
    pub(super) fn group(command: &mut Command) {
        command.process_group(0);
    }

    fn pid(child: &Child) -> Option<Pid> {
        i32::try_from(child.id()).ok().and_then(Pid::from_raw)
    }

    /// Limits its address space from now on.
    #[cfg(target_os = "linux")]
    pub(super) fn memory(child: &Child, bytes: u64) -> io::Result<()> {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        match prlimit(pid(child), Resource::As, limit) {
            // One that is gone needs no limit: its end is noticed where it is spoken to.
            Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Only Linux limits a process from outside.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn memory(_: &Child, _: u64) -> io::Result<()> {
        Ok(())
    }

    /// Ends its group.
    pub(super) fn end(child: &mut Child) {
        if let Some(group) = pid(child) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill();
    }
}

#[cfg(not(unix))]
mod limits {
    use std::io;
    use std::process::{Child, Command};

    pub(super) fn group(_: &mut Command) {}

    pub(super) fn memory(_: &Child, _: u64) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn end(child: &mut Child) {
        let _ = child.kill();
    }
}
