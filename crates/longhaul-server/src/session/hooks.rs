//! What a host is told, and asked, around a compaction.

use std::fmt::Write as _;

use longhaul_engine::checkpoint::Section;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Outcome, Report};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::{Content, Redacted, Redactor, Rules, SessionKey};
use longhaul_engine::{Rewrite, Transcript};

/// So much of what a host hands in is kept, in characters.
pub const MOST_KEPT: usize = 2_000;

/// Before the last line of a checkpoint.
const END: &str = "\n[End of the checkpoint";
/// Where quoted lines come from.
const SOURCE: &str = "handed in by the program that runs the session";

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

/// What a host handed in, as it may be kept: without secrets, bounded, each line a quotation.
fn quoted(text: &str, rules: &Rules, key: Option<&SessionKey>) -> Option<Redacted> {
    let mut redactor = match key {
        Some(key) => Redactor::keyed(rules.clone(), key.clone()),
        None => Redactor::numbered(rules.clone()),
    };
    let text = redactor.redact(text.trim(), Content::Text).text.without_blank_lines().clipped(MOST_KEPT);
    let lines = text.lines().map(|line| Redacted::own("> ").and(&line).and_own("\n"));
    lines.reduce(|all, line| all.and(&line))
}

/// A compaction whose checkpoint quotes what the host handed in; none where there is no checkpoint to quote it, or nothing to quote.
///
/// It stands at the end of the last section. The session's mark is for the words as the engine wrote them, so a checkpoint that quotes
/// something is known again by the ledger and by the store, and no longer by the key alone.
pub(super) fn with_kept(
    outcome: &Outcome,
    text: &str,
    (transcript, policy): (&Transcript<'_>, &Policy),
    rules: &Rules,
    key: Option<&SessionKey>,
) -> Option<Outcome> {
    let quoted = quoted(text, rules, key)?;
    let words = outcome.ledger.checkpoint()?;
    let (inside, end) = words.split_at(words.rfind(END)? + 1);
    let title = Section::CriticalContext.title();
    let heading =
        if inside.contains(&format!("\n## {title}\n")) { String::new() } else { format!("\n## {title}\n") };
    let words = format!("{}\n{heading}### {SOURCE}\n{quoted}\n{end}", inside.trim_end());
    let mut ledger = serde_json::to_value(&outcome.ledger).ok()?;
    *ledger.pointer_mut("/checkpoint/text")? = words.into();
    let ledger: Ledger = serde_json::from_value(ledger).ok()?;
    let rewrite = Rewrite::new(transcript, ledger.edits(transcript)).ok()?;
    let body = rewrite.apply(transcript.body);
    let mut report = outcome.report.clone();
    let more = policy.model.counter().count(quoted.as_str());
    report.tokens.after += more;
    if let Some(checkpoint) = &mut report.checkpoint {
        checkpoint.tokens += more;
    }
    report.bytes.after = body.len();
    report.notes.push(format!("the checkpoint quotes {more} tokens that the host handed in"));
    let originals = outcome.originals.clone();
    Some(Outcome { rewrite, body, ledger, report, originals })
}
