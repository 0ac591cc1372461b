//! The thread that redacts and writes log lines, so that no request waits for the log.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use longhaul_engine::redact::{RedactionMode, Redactor};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use super::LogDestination;
use crate::config::LogFormat;
use crate::failure::Failure;

/// The maximum number of lines in the queue; more are dropped. Chosen by hand.
const MAX_QUEUED_LINES: usize = 4_096;

/// How long a shutdown waits for the last lines, because the reader of the log may have stopped. Chosen by
/// hand.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

enum LogMessage {
    Line(Vec<u8>),
    /// A request to flush. The sender is dropped when all earlier lines are written.
    Flush(SyncSender<()>),
}

/// A running log.
pub(super) struct Log {
    sender: SyncSender<LogMessage>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Opens the log, or returns `None` if there is to be none. With a redactor, lines contain no secrets.
    pub(super) fn open(
        to: &LogDestination,
        form: LogFormat,
        redactor: Option<Redactor>,
    ) -> Result<Option<Self>, Failure> {
        let out: Box<dyn Write + Send> = match to {
            LogDestination::Nowhere => return Ok(None),
            LogDestination::StandardError => Box::new(io::stderr()),
            LogDestination::File(path) => {
                let file = File::options().append(true).create(true).open(path);
                let shown = path.display();
                Box::new(file.map_err(|error| Failure::System(format!("cannot write to {shown}: {error}")))?)
            }
        };
        let (sender, receiver) = sync_channel(MAX_QUEUED_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = WriterThread { out, format: form, redactor, dropped: dropped.clone() };
        let spawned = thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(&receiver));
        spawned.map_err(|error| Failure::System(format!("cannot start the log: {error}")))?;
        Ok(Some(Self { sender, dropped }))
    }

    /// Returns a writer that sends lines to the log.
    pub(super) fn line_writer(&self) -> LineWriter {
        LineWriter { sender: self.sender.clone(), dropped: self.dropped.clone() }
    }

    /// Waits until all earlier lines are written, up to [`FLUSH_TIMEOUT`].
    pub(super) fn flush(&self) {
        let (done, wait) = sync_channel(0);
        if self.sender.send(LogMessage::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// A writer that queues each line for the log's thread. It never blocks: a line without space in the queue is
/// dropped and counted.
#[derive(Clone)]
pub(super) struct LineWriter {
    sender: SyncSender<LogMessage>,
    dropped: Arc<AtomicU64>,
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.sender.try_send(LogMessage::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LineWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

struct WriterThread {
    out: Box<dyn Write + Send>,
    format: LogFormat,
    redactor: Option<Redactor>,
    dropped: Arc<AtomicU64>,
}

impl WriterThread {
    /// Writes lines until all senders are gone. Write errors are ignored: a log that nobody reads must not
    /// stop the gateway.
    fn run(mut self, lines: &Receiver<LogMessage>) {
        while let Ok(message) = lines.recv() {
            match message {
                LogMessage::Line(line) => {
                    let line = self.redact(&String::from_utf8_lossy(&line));
                    let _ = self.out.write_all(line.as_bytes());
                }
                LogMessage::Flush(done) => {
                    let _ = self.out.flush();
                    drop(done);
                }
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                let _ = self.out.write_all(self.dropped_lines_message(dropped).as_bytes());
            }
        }
    }

    fn redact(&mut self, line: &str) -> String {
        let Some(redactor) = &mut self.redactor else { return line.to_owned() };
        let line = line.trim_end_matches('\n');
        let as_json = match self.format {
            LogFormat::Json => redactor.redact_json(line).ok().filter(|clean| clean.sealed.is_empty()),
            LogFormat::Text => None,
        };
        let clean = as_json.map_or_else(|| redactor.redact(line, RedactionMode::Text).text, |clean| clean.text);
        clean.into_string() + "\n"
    }

    fn dropped_lines_message(&self, lines: u64) -> String {
        let message = format!("dropped {lines} log lines because the queue was full");
        match self.format {
            LogFormat::Text => format!("WARN longhaul: {message}\n"),
            LogFormat::Json => {
                format!("{}\n", json!({"level": "WARN", "message": message, "target": "longhaul"}))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_engine::redact::{Rules, SessionKey};
    use serde_json::Value;
    use std::sync::Mutex;
    use tracing_subscriber::layer::SubscriberExt;

    /// An output that a test can read.
    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const SECRET: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";

    /// Returns the content of the log after two events with a secret.
    fn log_two_events(form: LogFormat, redactor: Option<Redactor>) -> String {
        let shared = SharedBuffer::default();
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = WriterThread { out: Box::new(shared.clone()), format: form, redactor, dropped: dropped.clone() };
        let (sender, receiver) = sync_channel(MAX_QUEUED_LINES);
        thread::spawn(move || writer.run(&receiver));
        let log = Log { sender, dropped };
        let subscriber = tracing_subscriber::registry().with(super::super::line_layer(form, &log));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(api_key = SECRET, status = 401, "no entry");
            tracing::info!("the key {SECRET} was sent");
        });
        log.flush();
        let bytes = shared.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn redactor() -> Redactor {
        Redactor::keyed(Rules::default(), SessionKey::new([7; 32]))
    }

    #[test]
    fn no_secret_stands_in_a_line_and_json_stays_json() {
        for form in [LogFormat::Json, LogFormat::Text] {
            let text = log_two_events(form, Some(redactor()));
            assert!(!text.contains(SECRET) && text.contains("REDACTED"), "{text}");
            assert_eq!(text.lines().count(), 2, "{text}");
        }
        let text = log_two_events(LogFormat::Json, Some(redactor()));
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["message"], &lines[0]["status"]), (&json!("no entry"), &json!(401)));
        assert_eq!(lines[1]["level"], "INFO");
    }

    #[test]
    fn a_log_that_is_not_to_be_redacted_is_not() {
        assert!(log_two_events(LogFormat::Text, None).contains(SECRET));
    }

    #[test]
    fn a_line_that_finds_no_room_is_counted_and_not_waited_for() {
        let (sender, receiver) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut writer = LineWriter { sender, dropped: dropped.clone() };
        for _ in 0..3 {
            writer.write_all(b"line\n").unwrap();
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        drop(writer);
        let shared = SharedBuffer::default();
        WriterThread { out: Box::new(shared.clone()), format: LogFormat::Text, redactor: None, dropped }.run(&receiver);
        let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "line\nWARN longhaul: dropped 2 log lines because the queue was full\n");
    }
}
