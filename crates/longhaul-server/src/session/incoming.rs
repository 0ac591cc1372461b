//! A request as it came: what it says, and what its messages are known by.

use std::sync::{Mutex, PoisonError};

use longhaul_engine::identity::{Chains, Identity};
use longhaul_engine::transcript::MAX_MESSAGES;
use longhaul_engine::{Dialect, Transcript, wire};

use crate::store::Tenant;

/// A request that was read. Who keeps many sessions finds the right one by its chain, and hands it over read.
pub struct Incoming<'b> {
    /// What it says.
    pub transcript: Transcript<'b>,
    /// What its messages are known by, one after the other; nothing where nobody keeps them.
    pub chain: Vec<Identity>,
    /// What the client calls its session by, if it does.
    pub(crate) scope: Vec<u8>,
}

impl<'b> Incoming<'b> {
    /// Reads a body; the dialect is found out where it is not known. The error is one line.
    pub fn read(
        dialect: impl Into<Option<Dialect>>,
        body: &'b str,
        tenant: Option<&Tenant>,
    ) -> Result<Self, String> {
        let transcript = parsed(dialect, body)?;
        let chain = tenant.map(|tenant| tenant.identities().chain(&transcript)).unwrap_or_default();
        Ok(Self { transcript, chain, scope: Vec::new() })
    }

    /// Reads one of many, of which some came before: what is said within a scope is none of another's.
    pub fn read_within(
        dialect: Dialect,
        body: &'b str,
        (tenant, scope): (&Tenant, &[u8]),
        seen: &[Mutex<Chains>],
    ) -> Result<Self, String> {
        let transcript = parsed(dialect, body)?;
        // All requests of a session begin alike, and so find the part in which their messages are remembered.
        let begins = transcript.message(transcript.lead()).map_or(0, str::len);
        let mut own = Chains::default();
        let mut part = seen
            .get(begins % seen.len().max(1))
            .map(|part| part.lock().unwrap_or_else(PoisonError::into_inner));
        let chain =
            tenant.identities().chain_within(scope, &transcript, part.as_deref_mut().unwrap_or(&mut own));
        Ok(Self { transcript, chain, scope: scope.to_owned() })
    }
}

/// What a body says; one line of why not where it is no JSON, or nobody's conversation.
fn parsed(dialect: impl Into<Option<Dialect>>, body: &str) -> Result<Transcript<'_>, String> {
    let (transcript, _) = wire::parse(dialect, body).map_err(|error| error.to_string())?;
    match transcript.message_count() {
        count if count > MAX_MESSAGES => {
            Err(format!("the request has {count} messages, more than the {MAX_MESSAGES} that are read"))
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
        assert!(Incoming::read(Dialect::Chat, &body(MAX_MESSAGES), None).is_ok());
        let refused = Incoming::read(Dialect::Chat, &body(MAX_MESSAGES + 1), None).err();
        assert_eq!(
            refused.as_deref(),
            Some("the request has 100001 messages, more than the 100000 that are read")
        );
    }
}
