//! A request with all that is known of it when something is decided.

use std::borrow::Cow;
use std::sync::Arc;

use longhaul_engine::identity::{Identities, Identity};
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Engine, Load};
use longhaul_engine::policy::Policy;
use longhaul_engine::transcript::{Speaker, Unit, UnitKind};
use longhaul_engine::{Refused, Rewrite, Tokens, Transcript, wire};

use super::command::Compress;
use super::gauge::{Count, Measured};
use super::turn::Sizes;
use crate::agents::Moment;

/// What a request is read for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It is about to be sent.
    Send,
    /// Nobody waits, and nothing is sent: what is compacted now is replayed later.
    Idle,
    /// Somebody asked for a compaction.
    Compress(Compress),
}

/// A request that was read.
pub(super) struct Request<'r, 'b> {
    /// As the client sent it,
    pub(super) transcript: &'r Transcript<'b>,
    /// and what its messages are known by.
    pub(super) chain: &'r [Identity],
    pub(super) policy: Policy,
    pub(super) engine: Arc<dyn Engine>,
    /// What the decisions so far make of it.
    pub(super) view: Cow<'b, str>,
    /// Whether the user has undone a compaction and asked for none since.
    pub(super) is_undone: bool,
}

impl Request<'_, '_> {
    /// Parses the view, where earlier decisions make it another text than the client's.
    pub(super) fn parsed_view(&self) -> Option<Transcript<'_>> {
        match &self.view {
            Cow::Borrowed(_) => None,
            Cow::Owned(view) => wire::parse(self.transcript.dialect, view).ok().map(|(view, _)| view),
        }
    }
}

/// What is known of its size.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) count: Count,
    pub(super) measured: Measured,
}

/// How our counts of a request become sizes such as its provider would report: all that is shown of one request goes by one measure.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    ratio: f64,
    /// What goes with it that the client does not send.
    beside: Tokens,
}

impl Size {
    /// The scale of a request with which so much goes that is not counted.
    pub(super) fn scale(&self, beside: Tokens) -> Scale {
        let own = (self.measured.tokens - beside).number() as f64;
        Scale { ratio: own / self.count.tokens.number().max(1) as f64, beside }
    }
}

impl Scale {
    /// The sizes of a request of which the whole and what is sent count so much.
    pub(super) fn sizes(&self, whole: Tokens, sent: Tokens) -> Sizes {
        Sizes { whole: whole.share(self.ratio), sent: self.sent(sent) }
    }

    /// The size of something that counts so much, as it is sent.
    pub(super) fn sent(&self, tokens: Tokens) -> Tokens {
        tokens.share(self.ratio) + self.beside
    }
}

/// A request with all that is known when something is decided about it.
#[derive(Clone, Copy)]
pub(super) struct Scene<'r, 'b> {
    pub(super) request: &'r Request<'r, 'b>,
    /// What the triggers go by.
    pub(super) load: Load,
    /// The threshold of this request, which gives way to its minimum size.
    pub(super) threshold: Tokens,
    /// The request as it would be sent: what the decisions so far leave of it.
    pub(super) seen: &'r Transcript<'r>,
    pub(super) size: Size,
    pub(super) now: Moment,
}

/// What decisions make of a request that they are about.
pub(super) fn replayed<'b>(ledger: &Ledger, transcript: &Transcript<'b>) -> Result<Cow<'b, str>, Refused> {
    Ok(applied(ledger.replay(transcript)?, transcript))
}

/// The same of a request that goes on from one that they were about.
pub(super) fn replayed_on<'b>(ledger: &Ledger, transcript: &Transcript<'b>) -> Result<Cow<'b, str>, Refused> {
    Ok(applied(ledger.replay_on(transcript)?, transcript))
}

fn applied<'b>(replay: Option<Rewrite>, transcript: &Transcript<'b>) -> Cow<'b, str> {
    replay.map_or(Cow::Borrowed(transcript.body), |replay| Cow::Owned(replay.apply(transcript.body)))
}

/// What decisions make of a request; nothing where that is the request itself.
#[must_use]
pub fn replay(ledger: &Ledger, transcript: &Transcript<'_>) -> Option<String> {
    match replayed(ledger, transcript) {
        Ok(Cow::Owned(view)) => Some(view),
        Ok(Cow::Borrowed(_)) | Err(_) => None,
    }
}

/// What people said, oldest first.
pub(super) fn prompts<'t, 'b>(
    transcript: &'t Transcript<'b>,
) -> impl DoubleEndedIterator<Item = &'t Unit<'b>> {
    let is_prompt = |kind: &UnitKind<'_>| matches!(kind, UnitKind::Prompt { by: Speaker::User, .. });
    transcript.units.iter().filter(move |unit| is_prompt(&unit.kind))
}

/// What a set of decisions is known by.
pub(super) fn hash(ledger: &Ledger) -> u64 {
    let words: Vec<&[u8]> = ledger.words().map(str::as_bytes).collect();
    let Identity(bytes) = Identities::new([0; 32]).of(&words);
    bytes.iter().take(8).fold(ledger.covers() as u64, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte))
}
