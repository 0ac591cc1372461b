//! Lines of the log on their way out: a thread takes the secrets out of each and writes it, and nobody waits for that.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use longhaul_engine::redact::{Content, Redactor};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use super::LogTo;
use crate::config::LogForm;
use crate::failure::Failure;

/// So many lines wait to be written; more are dropped.
const WAITING: usize = 4_096;

/// How long the end waits for the last lines: who reads them may have stopped.
const LAST: Duration = Duration::from_secs(2);

enum Message {
    Line(Vec<u8>),
    /// All lines before it are written once this is dropped.
    Flush(SyncSender<()>),
}

/// A log that is written.
pub(super) struct Log {
    sender: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Log {
    /// Opens the place; nothing where there is to be no log. With a redactor no secret stands in a line.
    pub(super) fn open(
        to: &LogTo,
        form: LogForm,
        redactor: Option<Redactor>,
    ) -> Result<Option<Self>, Failure> {
        let out: Box<dyn Write + Send> = match to {
            LogTo::Nowhere => return Ok(None),
            LogTo::StandardError => Box::new(io::stderr()),
            LogTo::File(path) => {
                let file = File::options().append(true).create(true).open(path);
                let shown = path.display();
                Box::new(file.map_err(|error| Failure::World(format!("cannot write to {shown}: {error}")))?)
            }
        };
        let (sender, receiver) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer { out, form, redactor, lost: lost.clone() };
        let begun = thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(&receiver));
        begun.map_err(|error| Failure::World(format!("cannot begin a log: {error}")))?;
        Ok(Some(Self { sender, lost }))
    }

    /// What writes lines to it.
    pub(super) fn pen(&self) -> Pen {
        Pen { sender: self.sender.clone(), lost: self.lost.clone() }
    }

    /// Waits until what was written so far is out.
    pub(super) fn flush(&self) {
        let (done, wait) = sync_channel(0);
        if self.sender.send(Message::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(LAST);
        }
    }
}

/// Writes lines to a log, each in one go.
#[derive(Clone)]
pub(super) struct Pen {
    sender: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Write for Pen {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.sender.try_send(Message::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Pen {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

struct Writer {
    out: Box<dyn Write + Send>,
    form: LogForm,
    redactor: Option<Redactor>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    /// That nobody reads a log is no reason to stop anything.
    fn run(mut self, lines: &Receiver<Message>) {
        while let Ok(message) = lines.recv() {
            match message {
                Message::Line(line) => {
                    let line = self.clean(&String::from_utf8_lossy(&line));
                    let _ = self.out.write_all(line.as_bytes());
                }
                Message::Flush(done) => {
                    let _ = self.out.flush();
                    drop(done);
                }
            }
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                let _ = self.out.write_all(self.loss(lost).as_bytes());
            }
        }
    }

    fn clean(&mut self, line: &str) -> String {
        let Some(redactor) = &mut self.redactor else { return line.to_owned() };
        let line = line.trim_end_matches('\n');
        let as_json = match self.form {
            LogForm::Json => redactor.redact_json(line).ok().filter(|clean| clean.sealed.is_empty()),
            LogForm::Text => None,
        };
        let clean = as_json.map_or_else(|| redactor.redact(line, Content::Text).text, |clean| clean.text);
        clean.into_string() + "\n"
    }

    fn loss(&self, lines: u64) -> String {
        let said = format!("{lines} lines of the log came too fast and are lost");
        match self.form {
            LogForm::Text => format!("WARN longhaul: {said}\n"),
            LogForm::Json => format!("{}\n", json!({"level": "WARN", "message": said, "target": "longhaul"})),
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

    /// A place that a test can read.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const SECRET: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";

    /// What the log holds after two events with a secret in them.
    fn logged(form: LogForm, redactor: Option<Redactor>) -> String {
        let shared = Shared::default();
        let lost = Arc::new(AtomicU64::new(0));
        let writer = Writer { out: Box::new(shared.clone()), form, redactor, lost: lost.clone() };
        let (sender, receiver) = sync_channel(WAITING);
        thread::spawn(move || writer.run(&receiver));
        let log = Log { sender, lost };
        let subscriber = tracing_subscriber::registry().with(super::super::lines(form, &log));
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
        for form in [LogForm::Json, LogForm::Text] {
            let text = logged(form, Some(redactor()));
            assert!(!text.contains(SECRET) && text.contains("REDACTED"), "{text}");
            assert_eq!(text.lines().count(), 2, "{text}");
        }
        let text = logged(LogForm::Json, Some(redactor()));
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["message"], &lines[0]["status"]), (&json!("no entry"), &json!(401)));
        assert_eq!(lines[1]["level"], "INFO");
    }

    #[test]
    fn a_log_that_is_not_to_be_redacted_is_not() {
        assert!(logged(LogForm::Text, None).contains(SECRET));
    }

    #[test]
    fn a_line_that_finds_no_room_is_counted_and_not_waited_for() {
        let (sender, receiver) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let mut pen = Pen { sender, lost: lost.clone() };
        for _ in 0..3 {
            pen.write_all(b"line\n").unwrap();
        }
        assert_eq!(lost.load(Ordering::Relaxed), 2);
        drop(pen);
        let shared = Shared::default();
        Writer { out: Box::new(shared.clone()), form: LogForm::Text, redactor: None, lost }.run(&receiver);
        let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "line\nWARN longhaul: 2 lines of the log came too fast and are lost\n");
    }
}
