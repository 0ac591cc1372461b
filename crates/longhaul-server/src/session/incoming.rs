//! A request as it came: what it says, and what its messages are known by.

use std::sync::{Mutex, PoisonError};

use longhaul_engine::identity::{Chains, Identity};
use longhaul_engine::{Dialect, Transcript, wire};

use crate::store::Tenant;

/// A request that was read. Who keeps many sessions finds the right one by its chain, and hands it over read.
pub struct Incoming<'b> {
    /// What it says.
    pub transcript: Transcript<'b>,
    /// What its messages are known by, one after the other; nothing where nobody keeps them.
    pub chain: Vec<Identity>,
}

impl<'b> Incoming<'b> {
    /// Reads a body; the dialect is found out where it is not known. The error is one line.
    pub fn read(
        dialect: impl Into<Option<Dialect>>,
        body: &'b str,
        tenant: Option<&Tenant>,
    ) -> Result<Self, String> {
        let (transcript, _) = wire::parse(dialect, body).map_err(|error| error.to_string())?;
        let chain = tenant.map(|tenant| tenant.identities().chain(&transcript)).unwrap_or_default();
        Ok(Self { transcript, chain })
    }

    /// Reads one of many, of which some came before: what is said within a scope is none of another's.
    pub fn read_within(
        dialect: Dialect,
        body: &'b str,
        (tenant, scope): (&Tenant, &[u8]),
        seen: &[Mutex<Chains>],
    ) -> Result<Self, String> {
        let (transcript, _) = wire::parse(dialect, body).map_err(|error| error.to_string())?;
        // All requests of a session begin alike, and so find the part in which their messages are remembered.
        let begins = transcript.message(transcript.lead()).map_or(0, str::len);
        let mut own = Chains::default();
        let mut part = seen
            .get(begins % seen.len().max(1))
            .map(|part| part.lock().unwrap_or_else(PoisonError::into_inner));
        let chain =
            tenant.identities().chain_within(scope, &transcript, part.as_deref_mut().unwrap_or(&mut own));
        Ok(Self { transcript, chain })
    }
}
