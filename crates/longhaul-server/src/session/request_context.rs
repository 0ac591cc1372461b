//! A parsed request with everything that is known about it when the session decides whether to compact.

use std::borrow::Cow;
use std::sync::Arc;

use longhaul_engine::keyed_hash::{KeyedHash, KeyedHasher};
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Engine, RequestSize};
use longhaul_engine::policy::Policy;
use longhaul_engine::transcript::{Speaker, Turn, TurnKind};
use longhaul_engine::{Rewrite, RewriteError, Tokens, Transcript, wire};

use super::command::CompressRequest;
use super::prepared_request::RequestSizes;
use super::request_size::{MeasuredSize, TokenCount};
use longhaul_engine::Timestamp;

/// The purpose for which a request is processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The request is about to be sent.
    Send,
    /// Nobody waits and nothing is sent: a compaction made now is replayed later.
    Idle,
    /// A person asked for a compaction.
    Compress(CompressRequest),
}

/// A request that was parsed and recorded, with the ledger replayed.
pub(super) struct ParsedRequest<'r, 'b> {
    /// The client's request.
    pub(super) transcript: &'r Transcript<'b>,
    /// One hash per message, each over all messages up to it.
    pub(super) message_hashes: &'r [KeyedHash],
    pub(super) policy: Policy,
    pub(super) engine: Arc<dyn Engine>,
    /// The body after the ledger was replayed; borrowed if the ledger changes nothing.
    pub(super) view_body: Cow<'b, str>,
    /// Whether the newest change of the session's head was an undo, by the user or after a refusal.
    pub(super) is_undone: bool,
}

impl ParsedRequest<'_, '_> {
    /// Parses the view; returns `None` if it is the client's own body, which is parsed already.
    pub(super) fn parsed_view(&self) -> Option<Transcript<'_>> {
        match &self.view_body {
            Cow::Borrowed(_) => None,
            Cow::Owned(view_body) => wire::parse(self.transcript.api_format, view_body).ok().map(|(view, _)| view),
        }
    }
}

/// The size of a request: our count, and the measured size, which includes the expected extra tokens and
/// follows the provider's reports.
#[derive(Clone, Copy)]
pub(super) struct SizeEstimate {
    pub(super) count: TokenCount,
    pub(super) measured: MeasuredSize,
}

/// Converts our counts of one request to the sizes that the provider would report, so that all sizes shown
/// for it are comparable.
#[derive(Clone, Copy)]
pub(super) struct ProviderScale {
    ratio: f64,
    /// The tokens that are added to the client's request before it is sent.
    extra: Tokens,
}

impl SizeEstimate {
    /// Returns the scale of this request, to which `extra` tokens are added before it is sent.
    pub(super) fn scale(&self, extra: Tokens) -> ProviderScale {
        let own_tokens = (self.measured.tokens - extra).number() as f64;
        ProviderScale { ratio: own_tokens / self.count.tokens.number().max(1) as f64, extra }
    }
}

impl ProviderScale {
    /// Converts our counts of the client's request and of the sent one.
    pub(super) fn request_sizes(&self, original: Tokens, sent: Tokens) -> RequestSizes {
        RequestSizes { original: original.share(self.ratio), sent: self.sent_size(sent) }
    }

    /// Converts our count of a body to its size when it is sent.
    pub(super) fn sent_size(&self, tokens: Tokens) -> Tokens {
        tokens.share(self.ratio) + self.extra
    }
}

/// A request with everything that is known when the session decides about it.
#[derive(Clone, Copy)]
pub(super) struct RequestContext<'r, 'b> {
    pub(super) request: &'r ParsedRequest<'r, 'b>,
    /// The sizes that the triggers compare.
    pub(super) request_size: RequestSize,
    /// The threshold of this request. It rises with the request's minimum size.
    pub(super) threshold: Tokens,
    /// The request as it would be sent: the transcript after the ledger was replayed.
    pub(super) view: &'r Transcript<'r>,
    pub(super) size: SizeEstimate,
    pub(super) now: Timestamp,
}

/// Replays a ledger. It fails if the ledger does not match the request.
pub(super) fn replay_ledger<'b>(ledger: &Ledger, transcript: &Transcript<'b>) -> Result<Cow<'b, str>, RewriteError> {
    Ok(apply_rewrite(ledger.replay(transcript)?, transcript))
}

/// Replays a ledger on a request that continues one that it matches. The caller has checked that, so it is not
/// checked again.
pub(super) fn replay_continuation<'b>(
    ledger: &Ledger,
    transcript: &Transcript<'b>,
) -> Result<Cow<'b, str>, RewriteError> {
    Ok(apply_rewrite(ledger.replay_unchecked(transcript)?, transcript))
}

fn apply_rewrite<'b>(replay: Option<Rewrite>, transcript: &Transcript<'b>) -> Cow<'b, str> {
    replay.map_or(Cow::Borrowed(transcript.body), |replay| Cow::Owned(replay.apply(transcript.body)))
}

/// Replays a ledger; returns `None` if the result is the request itself, or the ledger does not apply.
#[must_use]
pub fn replay_if_changed(ledger: &Ledger, transcript: &Transcript<'_>) -> Option<String> {
    match replay_ledger(ledger, transcript) {
        Ok(Cow::Owned(view)) => Some(view),
        Ok(Cow::Borrowed(_)) | Err(_) => None,
    }
}

/// Returns the turns in which a person wrote, oldest first.
pub(super) fn user_prompts<'t, 'b>(transcript: &'t Transcript<'b>) -> impl DoubleEndedIterator<Item = &'t Turn<'b>> {
    let is_prompt = |kind: &TurnKind<'_>| matches!(kind, TurnKind::Prompt { speaker: Speaker::User, .. });
    transcript.turns.iter().filter(move |turn| is_prompt(&turn.kind))
}

/// Hashes a ledger, to recognize the same decisions later.
pub(super) fn hash_ledger(ledger: &Ledger) -> u64 {
    let texts: Vec<&[u8]> = ledger.inserted_texts().map(str::as_bytes).collect();
    let KeyedHash(bytes) = KeyedHasher::new([0; 32]).hash(&texts);
    bytes.iter().take(8).fold(ledger.covers() as u64, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte))
}
