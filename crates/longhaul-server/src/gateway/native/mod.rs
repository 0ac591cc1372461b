//! Context features that one provider has and others lack, served by the gateway for upstreams that lack
//! them: `POST /v1/responses/compact` with its compaction items, and `context_management` of a Messages
//! request with its compaction blocks.
//!
//! ```text
//! request ──expand──▶ compactions replaced by their messages ──clear_history──▶ old results and thinking removed ──▶ session
//!                                                                               └─ compact: by the session ──sign──▶ item or block
//! reply ◀──reply_notes── the applied edits in the provider's format ◀── upstream
//! ```
//!
//! - `context_edits` parses `context_management`; it refuses an edit that the gateway cannot do, with a precise error.
//! - `signed_compaction` makes the text that a client keeps of a compaction: all its messages, signed with the
//!   tenant's key. Nothing is looked up later, so the text works as long as the client keeps it.
//! - `expand` replaces such a text by its messages when it comes back, before anything else reads the request.
//! - `clear_history` clears old tool results and thinking.
//! - `compact` lets the session make a compaction, and serves `/v1/responses/compact`.
//! - `reply_notes` adds the applied edits to a reply, and `token_count` adds them to a token count.
//!
//! Invariants: requests for a feature that the upstream has are forwarded unchanged. The changes to a history depend on
//! the history alone, so that each request repeats the bytes of the one before. A tool call and its result
//! stay together.

mod clear_history;
mod compact;
mod context_edits;
mod expand;
mod reply_notes;
mod signed_compaction;
mod token_count;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul_engine::{ApiFormat, Edit, Rewrite, Tokens, models, wire};
use memchr::memmem;

pub(super) use compact::{compact_history, compaction_reply};
pub(super) use reply_notes::{ReplyAnnotator, ReplyNotes};
pub(super) use signed_compaction::CompactionSigner;
pub(super) use token_count::CountAnnotation;

use super::Gateway;
use super::body::MAX_INLINE_BYTES;
use crate::pool::Owner;
use crate::upstream::NativeFeature;

/// The header that lists the beta features that a request uses.
const BETA_HEADER: HeaderName = HeaderName::from_static("anthropic-beta");
/// The beta features that the gateway serves.
const SERVED_BETAS: [&str; 2] = ["context-management-2025-06-27", "compact-2026-01-12"];
/// The field of a request that asks for edits, and of a reply that reports them.
const CONTEXT_MANAGEMENT: &str = "context_management";
/// The `type` of a compaction item or block.
const COMPACTION_TYPE: &str = "compaction";

/// A request after the gateway served the features that the upstream lacks.
pub(super) struct ServedRequest {
    /// The request body without those features, which is processed further.
    pub(super) body: Bytes,
    /// The notes for the reply; none if the request asks for no edits.
    pub(super) reply_notes: Option<ReplyNotes>,
    /// The compaction that the request asks for, if its history is large enough.
    pub(super) requested_compaction: Option<RequestedCompaction>,
    /// Whether the history continues from a compaction that the gateway handed to the client.
    pub(super) continues_client_compaction: bool,
    /// The tokens that the requested edits cleared.
    pub(super) cleared_tokens: Tokens,
    /// The names of the served features, for a response header.
    pub(super) served_features: Vec<&'static str>,
}

/// A compaction that a Messages request asks for.
pub(super) struct RequestedCompaction {
    pub(super) focus: Option<String>,
    /// The size that the history should have afterwards.
    pub(super) target_tokens: Tokens,
    /// Whether the client wants to see the compaction before the model is asked.
    pub(super) pause_after: bool,
}

/// Serves the features of a request that its upstream lacks, in the pool. Returns nothing if the request uses
/// none of them, or if the pool cannot run the job. Returns an error if the request asks for an edit that the
/// gateway cannot do.
pub(super) async fn serve_features(
    gateway: &Gateway,
    owner: Owner,
    signer: &CompactionSigner,
    api_format: ApiFormat,
    text: &Bytes,
) -> Result<Option<ServedRequest>, String> {
    let upstream = gateway.settings.upstreams.for_api_format(api_format);
    let is_lacking = NativeFeature::ALL
        .into_iter()
        .any(|feature| feature.api_format() == api_format && !upstream.has_native(feature));
    if !is_lacking || (text.len() <= MAX_INLINE_BYTES && !may_use_features(text)) {
        return Ok(None);
    }
    let (signer, text) = (signer.clone(), text.clone());
    let read = move || {
        if !may_use_features(&text) {
            return Ok(None);
        }
        apply_features(&signer, api_format, std::str::from_utf8(&text).unwrap_or_default())
    };
    gateway.pool.compute(owner, read).await.unwrap_or(Ok(None))
}

/// Returns whether a request may use one of the features. The check is a search for two words, so that most
/// requests are not parsed.
fn may_use_features(text: &[u8]) -> bool {
    let has = |word: &str| memmem::find(text, format!("\"{word}\"").as_bytes()).is_some();
    has(COMPACTION_TYPE) || has(CONTEXT_MANAGEMENT)
}

fn apply_features(
    signer: &CompactionSigner,
    api_format: ApiFormat,
    text: &str,
) -> Result<Option<ServedRequest>, String> {
    let expanded = expand::expand_compactions(api_format, text, signer);
    if expanded.unreadable_count > 0 {
        tracing::warn!("{} compactions were not made here and are passed through unchanged", expanded.unreadable_count);
    }
    let mut served_features = Vec::new();
    if expanded.body.is_some() {
        served_features.push(COMPACTION_TYPE);
    }
    let continues_client_compaction = expanded.body.is_some() && expanded.has_own_compaction;
    let text = expanded.body.as_deref().unwrap_or(text);
    let edits = if api_format == ApiFormat::Messages { context_edits::ContextEdits::parse(text)? } else { None };
    let Some(edits) = edits else {
        let expanded_request = |body: &String| ServedRequest {
            body: Bytes::from(body.clone()),
            reply_notes: None,
            requested_compaction: None,
            continues_client_compaction,
            cleared_tokens: Tokens::ZERO,
            served_features: served_features.clone(),
        };
        return Ok(expanded.body.as_ref().map(expanded_request));
    };
    let Ok((transcript, _)) = wire::parse(api_format, text) else { return Ok(None) };
    let model = models::find(transcript.model.as_deref().unwrap_or_default());
    let mut cleared = clear_history::clear_history(&edits, &transcript, &model);
    cleared.edits.push(Edit::Unset { object: transcript.root(), key: CONTEXT_MANAGEMENT });
    let Ok(rewrite) = Rewrite::new(&transcript, cleared.edits) else { return Ok(None) };
    served_features.push(CONTEXT_MANAGEMENT);
    let requested_compaction =
        edits.compact.filter(|compact| cleared.remaining_tokens >= compact.trigger).map(|compact| {
            RequestedCompaction {
                focus: compact.instructions,
                target_tokens: target_size(cleared.remaining_tokens),
                pause_after: compact.pause_after,
            }
        });
    Ok(Some(ServedRequest {
        body: Bytes::from(rewrite.apply(text)),
        reply_notes: Some(ReplyNotes { applied_edits: cleared.applied_edits, compaction_block: None }),
        requested_compaction,
        continues_client_compaction,
        cleared_tokens: cleared.cleared_tokens,
        served_features,
    }))
}

/// Returns the target size of a compaction that a client asks for: a quarter of the history.
fn target_size(history_tokens: Tokens) -> Tokens {
    Tokens(history_tokens.number() / 4)
}

/// Removes the names of the served beta features from the headers, because an upstream that lacks them may
/// refuse them.
pub(super) fn remove_served_betas(headers: &mut HeaderMap) {
    let values = headers.get_all(BETA_HEADER).iter().filter_map(|names| names.to_str().ok());
    let names = values.flat_map(|names| names.split(',')).map(str::trim);
    let others: Vec<&str> = names.filter(|name| !name.is_empty() && !SERVED_BETAS.contains(name)).collect();
    match HeaderValue::from_str(&others.join(",")) {
        Ok(others) if !others.is_empty() => drop(headers.insert(BETA_HEADER, others)),
        _ => drop(headers.remove(BETA_HEADER)),
    }
}
