//! What a host is told, and asked, around a compaction.

use std::fmt::Write as _;

use longhaul_engine::Transcript;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::Report;
use longhaul_engine::redact::{Content, Redacted, Redactor, Rules, SessionKey};

/// So much of what a host hands in is kept, in characters.
pub const MOST_KEPT: usize = 2_000;

/// Whoever runs a session. All of it is optional but the marks, since nothing here is random.
pub trait Host: Send + Sync {
    /// Sixteen letters or more that nobody could guess, anew each time; nothing where the system has none, and then no model is
    /// asked.
    fn mark(&self) -> Option<String>;

    /// A line for people, when it comes up: a turn may still wait afterwards. The turn has it too.
    fn say(&self, _line: &str) {}

    /// Shows what is about to go. Text that comes back is kept: as a quotation, cut to [`MOST_KEPT`] characters, without secrets.
    fn going(&self, _going: &Going<'_>) -> Option<String> {
        None
    }

    /// A compaction is in force.
    fn compacted(&self, _event: &Compacted) {}
}

/// A host that has no wishes, with the system's random bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Host for Quiet {
    fn mark(&self) -> Option<String> {
        let mut bytes = [0_u8; 12];
        getrandom::fill(&mut bytes).ok()?;
        Some(bytes.iter().fold(String::new(), |mut mark, byte| {
            let _ = write!(mark, "{byte:02x}");
            mark
        }))
    }
}

/// What is about to go or to be made shorter.
#[derive(Debug, Clone)]
pub struct Going<'b> {
    /// The messages, as they were sent, each with its index in the request.
    pub messages: Vec<(usize, &'b str)>,
}

impl<'b> Going<'b> {
    /// What the new decisions change that the old ones left alone.
    pub(super) fn between(old: &Ledger, new: &Ledger, transcript: &Transcript<'b>) -> Self {
        let before = if old.matches(transcript) { old.untouched(transcript) } else { Vec::new() };
        let after = new.untouched(transcript);
        let goes = |at: usize| before.get(at).copied().unwrap_or(true) && !after[at];
        let messages = (0..after.len()).filter(|at| goes(*at));
        Self { messages: messages.filter_map(|at| Some((at, transcript.message(at)?))).collect() }
    }
}

/// A compaction that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The session's name in the store, where there is one.
    pub session: Option<String>,
    /// Which compaction of the session it is, from 1.
    pub epoch: usize,
    /// What fetches what was removed, where originals are kept.
    pub handles: Vec<String>,
}

impl Compacted {
    pub(super) fn new(session: Option<String>, epoch: usize, report: &Report) -> Self {
        let handles = report.blocks.iter().filter_map(|block| block.handle.clone()).collect();
        Self { session, epoch, handles }
    }
}

/// What a host handed in, as it may be kept: without secrets, and bounded. Nothing where nothing is left of it.
pub(super) fn kept(text: &str, rules: &Rules, key: Option<&SessionKey>) -> Option<Redacted> {
    let mut redactor = match key {
        Some(key) => Redactor::keyed(rules.clone(), key.clone()),
        None => Redactor::numbered(rules.clone()),
    };
    let text = redactor.redact(text.trim(), Content::Text).text.without_blank_lines().clipped(MOST_KEPT);
    Some(text).filter(|text| !text.as_str().is_empty())
}
