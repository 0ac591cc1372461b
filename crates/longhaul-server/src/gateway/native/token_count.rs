//! Token counts with edits: the reply to a count also gives the tokens before the edits.

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::{ApiFormat, Tokens, models, wire};
use serde_json::{Value, json};

use super::reply_notes::set_field;
use super::{CONTEXT_MANAGEMENT, ServedRequest};

/// Counts the tokens of a request with the engine's own counter; zero if it cannot be parsed.
pub(super) fn count_request(api_format: ApiFormat, text: &str) -> Tokens {
    let Ok((transcript, _)) = wire::parse(api_format, text) else { return Tokens::ZERO };
    let model = models::find(transcript.model.as_deref().unwrap_or_default());
    Meter::for_model(&model).breakdown(&mut BlockCache::default(), &transcript).total()
}

/// The tokens that edits and compactions removed from a request before the provider counted it.
pub(in crate::gateway) struct CountAnnotation {
    removed_tokens: Tokens,
}

impl CountAnnotation {
    /// Compares a served request with the one that is sent for counting, if that is another one. Returns
    /// nothing if the request asks for no edits.
    pub(in crate::gateway) fn new(served: &ServedRequest, sent: Option<&str>) -> Option<Self> {
        served.reply_notes.as_ref()?;
        let body = std::str::from_utf8(&served.body).unwrap_or_default();
        let compacted_tokens = sent.map_or(Tokens::ZERO, |sent| {
            count_request(ApiFormat::Messages, body) - count_request(ApiFormat::Messages, sent)
        });
        Some(Self { removed_tokens: served.cleared_tokens + compacted_tokens })
    }

    /// Adds the original tokens to the provider's reply; nothing if the reply has no count.
    pub(in crate::gateway) fn annotate(&self, counted: &str) -> Option<String> {
        let value: Value = serde_json::from_str(counted).ok()?;
        let original = Tokens(value["input_tokens"].as_u64()?) + self.removed_tokens;
        set_field(counted, CONTEXT_MANAGEMENT, &json!({"original_input_tokens": original.number()}).to_string())
    }
}
