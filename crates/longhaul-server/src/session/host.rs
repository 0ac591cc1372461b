//! The interface to the program that runs a session, called the host: it receives notices, and may
//! add a note before text is removed.

use std::fmt::Write as _;

use longhaul_engine::Transcript;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::CompactionReport;
use longhaul_engine::redact::{Redacted, RedactionMode, Redactor, Rules, SessionKey};

/// The maximum length of a host's note in a checkpoint, in characters. Chosen by hand.
pub const MAX_HOST_NOTE_CHARS: usize = 2_000;

/// The program that runs a session. All methods are optional except [`random_tag`](Self::random_tag), because
/// the session itself generates nothing random.
pub trait Host: Send + Sync {
    /// Returns a new random tag of sixteen or more letters and digits that nobody can guess. It returns `None` if
    /// the system has no random bytes; then no model is asked.
    fn random_tag(&self) -> Option<String>;

    /// Receives a notice for people as soon as it arises, maybe before the request is ready. The prepared
    /// request contains it too.
    fn report(&self, _line: &str) {}

    /// Sees the messages that a compaction is about to remove or shorten. If it returns a text, the
    /// checkpoint quotes it: redacted, and cut to [`MAX_HOST_NOTE_CHARS`] characters.
    fn before_removal(&self, _going: &PendingRemoval<'_>) -> Option<String> {
        None
    }

    /// Is called after a compaction became active.
    fn after_compaction(&self, _event: &CompactionEvent) {}
}

/// A host that only provides random tags, and ignores everything else.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultHost;

impl Host for DefaultHost {
    fn random_tag(&self) -> Option<String> {
        let mut bytes = [0_u8; 12];
        getrandom::fill(&mut bytes).ok()?;
        Some(bytes.iter().fold(String::new(), |mut tag, byte| {
            let _ = write!(tag, "{byte:02x}");
            tag
        }))
    }
}

/// The messages that a compaction is about to remove or shorten.
#[derive(Debug, Clone)]
pub struct PendingRemoval<'b> {
    /// The messages as the client sent them, each with its index in the request.
    pub messages: Vec<(usize, &'b str)>,
}

impl<'b> PendingRemoval<'b> {
    /// Lists the messages that the new ledger changes and the old one did not.
    pub(super) fn between(old: &Ledger, new: &Ledger, transcript: &Transcript<'b>) -> Self {
        let before = if old.matches(transcript) { old.unchanged_messages(transcript) } else { Vec::new() };
        let after = new.unchanged_messages(transcript);
        let goes = |at: usize| before.get(at).copied().unwrap_or(true) && !after[at];
        let messages = (0..after.len()).filter(|at| goes(*at));
        Self { messages: messages.filter_map(|at| Some((at, transcript.message_json(at)?))).collect() }
    }
}

/// A compaction that became active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionEvent {
    /// The session's name in the store, if there is one.
    pub session: Option<String>,
    /// The number of the compaction within the session, from 1.
    pub number: usize,
    /// The recall IDs of the removed texts, if the originals are stored.
    pub recall_ids: Vec<String>,
}

impl CompactionEvent {
    pub(super) fn new(session: Option<String>, compaction: usize, report: &CompactionReport) -> Self {
        let recall_ids = report.blocks.iter().filter_map(|block| block.handle.clone()).collect();
        Self { session, number: compaction, recall_ids }
    }
}

/// Redacts a host's note and cuts it to its maximum length; returns `None` if nothing remains.
pub(super) fn redact_host_note(text: &str, rules: &Rules, key: Option<&SessionKey>) -> Option<Redacted> {
    let mut redactor = match key {
        Some(key) => Redactor::keyed(rules.clone(), key.clone()),
        None => Redactor::numbered(rules.clone()),
    };
    let text =
        redactor.redact(text.trim(), RedactionMode::Text).text.without_blank_lines().truncated(MAX_HOST_NOTE_CHARS);
    Some(text).filter(|text| !text.as_str().is_empty())
}
