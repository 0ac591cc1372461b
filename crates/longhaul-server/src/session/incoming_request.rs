//! A client's request: its transcript, and the hashes that recognize its messages.

use longhaul_engine::keyed_hash::{HashChainCache, KeyedHash};
use longhaul_engine::transcript::MAX_MESSAGES;
use longhaul_engine::{ApiFormat, Transcript, wire};
use parking_lot::Mutex;

use crate::store::Tenant;

/// A request that was parsed. A caller with many sessions finds the right one by the hashes, and then passes
/// the parsed request on.
pub struct IncomingRequest<'b> {
    /// The parsed request body.
    pub transcript: Transcript<'b>,
    /// One hash per message, each over all messages up to it. It is empty if no store keeps the messages.
    pub message_hashes: Vec<KeyedHash>,
    /// The client's own ID of its session; empty if it sends none.
    pub(crate) client_session_id: Vec<u8>,
}

impl<'b> IncomingRequest<'b> {
    /// Parses a body. If no API format is given, it is detected. The error is one line.
    pub fn parse(
        api_format: impl Into<Option<ApiFormat>>,
        body: &'b str,
        tenant: Option<&Tenant>,
    ) -> Result<Self, String> {
        let transcript = parse_transcript(api_format, body)?;
        let message_hashes = tenant.map(|tenant| tenant.hasher().hash_chain(&transcript)).unwrap_or_default();
        Ok(Self { transcript, message_hashes, client_session_id: Vec::new() })
    }

    /// Parses one of many requests, with a cache of the hashes of earlier ones. Messages with different
    /// scopes never have the same hash.
    pub fn parse_within(
        api_format: ApiFormat,
        body: &'b str,
        (tenant, client_session_id): (&Tenant, &[u8]),
        caches: &[Mutex<HashChainCache>],
    ) -> Result<Self, String> {
        let transcript = parse_transcript(api_format, body)?;
        // All requests of a session begin with the same message, so its length selects the same part of the
        // cache each time.
        let first_length = transcript.message_json(transcript.system_message_count()).map_or(0, str::len);
        let mut fallback = HashChainCache::default();
        let mut part = caches.get(first_length % caches.len().max(1)).map(|part| part.lock());
        let message_hashes = tenant.hasher().hash_chain_in_scope(
            client_session_id,
            &transcript,
            part.as_deref_mut().unwrap_or(&mut fallback),
        );
        Ok(Self { transcript, message_hashes, client_session_id: client_session_id.to_owned() })
    }
}

/// Parses a body. The error is one line: the body is not JSON, not a conversation, or has too many messages.
fn parse_transcript(api_format: impl Into<Option<ApiFormat>>, body: &str) -> Result<Transcript<'_>, String> {
    let (transcript, _) = wire::parse(api_format, body).map_err(|error| error.to_string())?;
    match transcript.message_count() {
        count if count > MAX_MESSAGES => {
            Err(format!("the request has {count} messages; the maximum is {MAX_MESSAGES}"))
        }
        _ => Ok(transcript),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_more_messages_than_any_conversation_has_is_not_read() {
        let body = |count: usize| format!(r#"{{"messages":[{}]}}"#, vec!["{}"; count].join(","));
        assert!(IncomingRequest::parse(ApiFormat::Chat, &body(MAX_MESSAGES), None).is_ok());
        let refused = IncomingRequest::parse(ApiFormat::Chat, &body(MAX_MESSAGES + 1), None).err();
        assert_eq!(refused.as_deref(), Some("the request has 100001 messages; the maximum is 100000"));
    }
}
