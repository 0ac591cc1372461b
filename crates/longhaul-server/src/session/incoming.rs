//! A request as it came: what it says, and what its messages are known by.

use longhaul_engine::identity::Identity;
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
}
