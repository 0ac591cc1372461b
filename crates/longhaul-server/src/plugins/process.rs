//! One running program: its limits, its pipes, and lines in both directions. Dropping it kills the program
//! and everything that it started.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use longhaul_engine::redact::{RedactionMode, Redactor, Rules};

use super::manifest::Manifest;

/// The maximum length of a line that is read, in bytes. Chosen by hand, like all limits here.
const MAX_LINE_BYTES: u64 = 8 * 1024 * 1024;
/// The number of output lines that may wait for us; then the program has to wait.
const MAX_UNREAD_OUTPUT_LINES: usize = 4;
/// The number of input lines that may wait for the program; then sending fails.
const MAX_UNSENT_INPUT_LINES: usize = 8;
/// The maximum number of standard error lines that are logged between two calls.
const MAX_LOGGED_LINES: usize = 50;
/// The maximum length of a logged line, in bytes.
const MAX_LOGGED_LINE_BYTES: u64 = 1_000;
/// The maximum size of standard error between two calls, in bytes. After that it is closed.
const MAX_STDERR_BYTES: usize = 1024 * 1024;
/// The time in which a program that closed its output should exit by itself.
const EXIT_TIMEOUT: Duration = Duration::from_millis(100);
/// The environment variables that every program gets.
const INHERITED_VARIABLES: [&str; 8] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SYSTEMROOT"];

/// A running program.
pub(super) struct Process {
    child: Child,
    output: Receiver<OutputLine>,
    input: SyncSender<String>,
    /// The bytes on standard error since the last call.
    stderr_bytes: Arc<AtomicUsize>,
}

/// A line on the program's standard output, or why it cannot be used.
pub(super) enum OutputLine {
    Line(String),
    TooLong,
    NotUtf8,
}

impl Process {
    /// Starts the program of a manifest, with its limits and three threads for its pipes.
    pub(super) fn start(manifest: &Manifest, environment: &[(String, String)], rules: &Rules) -> Result<Self, String> {
        let (name, arguments) = manifest.command.split_first().ok_or("it has no command")?;
        let program = if name.contains('/') { manifest.folder.join(name) } else { name.into() };
        let is_allowed = |variable: &str| {
            INHERITED_VARIABLES.contains(&variable) || manifest.environment.iter().any(|allowed| allowed == variable)
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&manifest.folder)
            .env_clear()
            .envs(environment.iter().filter(|(variable, _)| is_allowed(variable)).cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        limits::group(&mut command);
        let failed = |error: std::io::Error| format!("{name} could not be started: {error}");
        let mut child = command.spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err("it has no pipes".into()) };
        let (input_sender, input_receiver) = sync_channel(MAX_UNSENT_INPUT_LINES);
        let (line_sender, output_receiver) = sync_channel(MAX_UNREAD_OUTPUT_LINES);
        let stderr_bytes = Arc::new(AtomicUsize::new(0));
        let process =
            Self { child, output: output_receiver, input: input_sender, stderr_bytes: Arc::clone(&stderr_bytes) };
        limits::memory(&process.child, manifest.memory_limit_bytes()).map_err(failed)?;
        let log =
            StderrLog { plugin: manifest.name.clone(), stderr_bytes, redactor: Redactor::numbered(rules.clone()) };
        thread::spawn(move || write_lines(stdin, &input_receiver));
        thread::spawn(move || read_lines(stdout, &line_sender));
        thread::spawn(move || log.run(stderr));
        Ok(process)
    }

    /// Sends a line without waiting; fails if too many lines wait already.
    pub(super) fn send_line(&self, line: String) -> Result<(), String> {
        self.input.try_send(line).map_err(|_| "does not read its standard input".to_owned())
    }

    /// Waits for the next line until the deadline.
    pub(super) fn receive_line(&mut self, deadline: Instant) -> Result<String, ProcessError> {
        self.stderr_bytes.store(0, Ordering::Relaxed);
        match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(OutputLine::Line(line)) => Ok(line),
            Ok(OutputLine::TooLong) => {
                Err(ProcessError::Failed(format!("wrote a line of more than {MAX_LINE_BYTES} bytes")))
            }
            Ok(OutputLine::NotUtf8) => Err(ProcessError::Failed("wrote text that is not UTF-8".to_owned())),
            Err(RecvTimeoutError::Timeout) => Err(ProcessError::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Err(ProcessError::Failed(self.describe_exit())),
        }
    }

    /// Describes how the program ended, in words that can follow its name.
    fn describe_exit(&mut self) -> String {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("exited ({status})"),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                Ok(None) | Err(_) => return "closed its standard output".to_owned(),
            }
        }
    }
}

/// The reason why there is no line.
pub(super) enum ProcessError {
    /// The deadline passed.
    TimedOut,
    /// The program failed. The reason is in words that can follow its name, with a colon between them or without.
    Failed(String),
}

impl Drop for Process {
    fn drop(&mut self) {
        limits::end(&mut self.child);
        let _ = self.child.wait();
    }
}

/// Writes lines to the program until it is gone.
fn write_lines(mut stdin: ChildStdin, lines: &Receiver<String>) {
    while let Ok(line) = lines.recv() {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Reads lines until the program ends, a line is unusable, or nobody wants them any more.
fn read_lines(stdout: ChildStdout, line_sender: &SyncSender<OutputLine>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let Some(line) = read_line(&mut stdout, MAX_LINE_BYTES) else { return };
        let is_long = line.len() as u64 > MAX_LINE_BYTES;
        let line = match String::from_utf8(line) {
            _ if is_long => OutputLine::TooLong,
            Ok(line) => OutputLine::Line(line),
            Err(_) => OutputLine::NotUtf8,
        };
        let is_usable = matches!(line, OutputLine::Line(_));
        if line_sender.send(line).is_err() || !is_usable {
            return;
        }
    }
}

/// Reads the next line, or `longest + 1` bytes of a longer one; returns `None` at the end.
fn read_line<R: Read>(from: &mut BufReader<R>, max_bytes: u64) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    from.take(max_bytes + 1).read_until(b'\n', &mut line).ok().filter(|read| *read > 0)?;
    Some(line)
}

/// Logs the program's standard error, redacted.
struct StderrLog {
    plugin: String,
    stderr_bytes: Arc<AtomicUsize>,
    redactor: Redactor,
}

impl StderrLog {
    fn run(mut self, stderr: ChildStderr) {
        let mut stderr = BufReader::new(stderr);
        let mut lines = 0;
        while let Some(line) = read_line(&mut stderr, MAX_LOGGED_LINE_BYTES) {
            let bytes_before = self.stderr_bytes.fetch_add(line.len(), Ordering::Relaxed);
            lines = if bytes_before == 0 { 0 } else { lines + 1 };
            if bytes_before + line.len() > MAX_STDERR_BYTES {
                tracing::warn!(plugin = self.plugin, "standard error closed: too much output");
                return;
            }
            if lines < MAX_LOGGED_LINES {
                let text = String::from_utf8_lossy(&line);
                let text = self.redactor.redact(text.trim_end(), RedactionMode::Text).text.one_line(1_000);
                tracing::info!(plugin = self.plugin, "{text}");
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

    /// Puts the program into a process group of its own, so that everything it starts is killed with it.
    pub(super) fn group(command: &mut Command) {
        command.process_group(0);
    }

    fn pid(child: &Child) -> Option<Pid> {
        i32::try_from(child.id()).ok().and_then(Pid::from_raw)
    }

    /// Limits the address space of the running process.
    #[cfg(target_os = "linux")]
    pub(super) fn memory(child: &Child, bytes: u64) -> io::Result<()> {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        match prlimit(pid(child), Resource::As, limit) {
            // A process that is gone needs no limit; the next call notices that it is gone.
            Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does nothing: only Linux can limit a process from outside.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn memory(_: &Child, _: u64) -> io::Result<()> {
        Ok(())
    }

    /// Kills the process group.
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
