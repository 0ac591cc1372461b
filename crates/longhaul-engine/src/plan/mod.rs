//! Whether and how a transcript is made smaller.
//!
//! ```text
//! transcript ──survey──▶ what stands where, in tokens ──engine──▶ a draft ──settle──▶ ledger, rewrite, report
//! ```
//!
//! A plan is a value: nothing is changed until its rewrite is applied, and the report says what that will have done.
//!
//! It may use `ledger`, `checkpoint` and what is below them.

mod ask;
mod bounds;
mod compressor;
mod draft;
mod engine;
mod engines;
mod fit;
mod fold;
mod keep;
mod ladder;
mod leaf;
mod look;
mod lossless;
mod ours;
mod proposal;
mod repair;
mod report;
mod sacred_zone;
mod settle;
mod shown;
mod survey;
mod work;

pub use report::{
    BlockReport, CheckpointReport, CostReport, EvidenceReport, Fate, Pair, Report, Restart, Rung,
    StateReport, Step, TokensReport, Trigger, UnitsReport, What, WrittenBy, ZoneReport,
};

pub use compressor::Compressor;
pub use engine::{Due, Engine, Load, Source};
pub use engines::Engines;
pub use lossless::Lossless;
pub use proposal::{Proposal, Shorter, by_proposal};
pub use sacred_zone::SacredZone;
pub use shown::{Message, Shown, ShownBlock};

use std::collections::BTreeMap;

use crate::known::Known;
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::redact::{Redacted, Rules, SessionKey};
use crate::summary::Answer;
use crate::texts::keyed;
use crate::transcript::{Block, Transcript};
use crate::{Refused, Rewrite, Stop, Tokens};

/// Whether what is removed is kept somewhere.
#[derive(Debug, Clone, Default)]
pub enum Keep {
    /// Nowhere: what is removed is lost, and said to be.
    #[default]
    Nothing,
    /// The caller keeps the originals under these handles.
    Originals(Handles),
}

impl Keep {
    /// The key of the handles, where there are any.
    fn key(&self) -> Option<&SessionKey> {
        match self {
            Self::Originals(handles) => Some(&handles.key),
            Self::Nothing => None,
        }
    }

    /// The handle of a text, where there is one.
    fn handle(&self, text: &str) -> Option<String> {
        match self {
            Self::Originals(handles) => Some(handles.of(text)),
            Self::Nothing => None,
        }
    }
}

/// What fetches the texts of a session again: the same text has the same handle, and nobody can make one without the key.
#[derive(Debug, Clone)]
pub struct Handles {
    key: SessionKey,
    /// Texts that an earlier compaction put in the place of others, with the handles of those.
    stand_for: BTreeMap<String, String>,
}

impl Handles {
    /// Those that this key gives.
    #[must_use]
    pub fn new(key: SessionKey) -> Self {
        Self { key, stand_for: BTreeMap::new() }
    }

    /// The handle of a text, or of the original in whose place it stands.
    #[must_use]
    pub fn of(&self, text: &str) -> String {
        self.stand_for.get(text).cloned().unwrap_or_else(|| keyed(&self.key, text))
    }

    /// The handle of a block: of its text, or where it has none, of all its bytes.
    #[must_use]
    pub fn of_block(&self, block: &Block<'_>) -> String {
        self.of(&if block.text.is_some() { block.text() } else { block.raw().into() })
    }

    /// Whether a text only stands for another, whose original was kept before.
    fn is_stand_in(&self, text: &str) -> bool {
        self.stand_for.contains_key(text)
    }

    /// The same for what a ledger leaves of a transcript: a shortened text that is shortened again, or folded, leads to its original.
    fn after(&self, ledger: &Ledger, transcript: &Transcript<'_>) -> Self {
        let texts = ledger
            .texts()
            .filter_map(|(at, text)| Some((text.to_owned(), self.of_block(transcript.block(at)?))));
        let stand_for = texts.chain(self.stand_for.clone()).collect();
        Self { key: self.key.clone(), stand_for }
    }
}

/// A block as it was before it was removed or shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// What fetches it.
    pub handle: String,
    /// The index of its message.
    pub at: usize,
    /// What it was.
    pub what: What,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// Its text, secrets included: redact it before it is kept.
    pub text: String,
}

/// Whether the facts of what was made shorter are counted for the report, which costs a reading of all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountFacts {
    /// They are.
    #[default]
    Yes,
    /// Nobody will look.
    No,
}

/// What is wanted of a compaction beyond the policy; the default asks for nothing.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// What set it off.
    pub trigger: Trigger,
    /// Whether to compact below the threshold too.
    pub force: bool,
    /// The largest result wanted, instead of the policy's target.
    pub to_tokens: Option<Tokens>,
    /// A topic that is to be kept before all else.
    pub focus: Option<String>,
    /// Whether originals are kept.
    pub keep: Keep,
    /// The session's name, recorded where a new one has to begin.
    pub session: Option<String>,
    /// Whether facts are counted.
    pub facts: CountFacts,
    /// What counts as a secret in what is written.
    pub rules: Rules,
    /// The key of the session: the checkpoint that is written carries its mark, and no other is taken for one of ours.
    pub key: Option<SessionKey>,
    /// Checkpoints that the session is known to have, word for word.
    pub checkpoints: Vec<String>,
    /// From which message on everything stays as it is; all before it may go.
    pub keep_from: Option<usize>,
    /// What the host wants kept of what goes: it is quoted in the checkpoint, word for word.
    pub kept: Option<Redacted>,
    /// What a model wrote about the units that go, or about the older of them.
    pub summary: Option<Answer>,
    /// Ends the plan early.
    pub stop: Stop,
}

impl Wish {
    /// Refuses to go on once the plan is stopped.
    fn go_on(&self) -> Result<(), Refused> {
        if self.stop.is_set() { Err(Refused::Stopped) } else { Ok(()) }
    }

    /// Whether somebody asked for a compaction, whatever the threshold.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.force || self.to_tokens.is_some() || self.keep_from.is_some()
    }

    /// The same for what a ledger leaves of a transcript.
    fn after(&self, ledger: &Ledger, transcript: &Transcript<'_>) -> Self {
        let own = ledger.checkpoint().map(str::to_owned);
        let checkpoints = self.checkpoints.iter().cloned().chain(own).collect();
        let keep = match &self.keep {
            Keep::Originals(handles) => Keep::Originals(handles.after(ledger, transcript)),
            Keep::Nothing => Keep::Nothing,
        };
        Self { keep, checkpoints, ..self.clone() }
    }
}

/// The tokens that no compaction of a request can remove: its system prompt, its tools and its newest turn.
#[must_use]
pub fn minimum_size(policy: &Policy, known: &mut Known, transcript: &Transcript<'_>) -> Tokens {
    let wish = Wish::default();
    let ours = ours::Ours::of(policy, &wish, transcript);
    let survey = survey::Survey::new(policy, &wish, known, &ours);
    survey.with_only(&survey.must_stay())
}

/// What is to be done with a transcript. There is one at a time, so its size does not matter.
#[expect(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Nothing; the report says why.
    Leave(Report),
    /// A rewrite.
    Ready(Outcome),
}

/// A settled plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What changes.
    pub rewrite: Rewrite,
    /// The body with it applied.
    pub body: String,
    /// The decisions, to be replayed when the same history is sent again.
    pub ledger: Ledger,
    /// What it did.
    pub report: Report,
    /// What was removed or shortened, where the caller keeps it.
    pub originals: Vec<Original>,
}
