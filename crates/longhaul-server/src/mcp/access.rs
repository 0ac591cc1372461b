//! Decides which sessions a call may see, and finds the one that it names.

use super::McpServer;
use crate::recall::arguments::quote_input;
use crate::store::{StoreError, Tenant, TenantScope, TenantSession};

/// The name that stands for the session written last.
const LATEST: &str = "latest";
/// The error if the store has no sessions.
pub(super) const NO_SESSIONS: &str =
    "there are no sessions yet: longhaul serve, run, import and compress --store create them";

/// The clients that may use the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpAccess {
    /// Every client sees the sessions of all tenants. Use it only if nobody else can reach the server.
    All,
    /// A client needs a key of the store and sees the sessions of its tenant.
    Keys,
}

impl McpServer {
    pub(super) async fn list_tenants(&self, scope: &TenantScope) -> Result<Vec<Tenant>, String> {
        match scope {
            TenantScope::All => self.store.tenants().await.map_err(|error| error.to_string()),
            TenantScope::One(tenant) => Ok(vec![tenant.clone()]),
        }
    }

    /// Finds a session by its name or the beginning of it. Without a name it returns the server's default
    /// session, or else the session written last.
    pub(super) async fn find_session(
        &self,
        scope: &TenantScope,
        requested: Option<&str>,
    ) -> Result<TenantSession, String> {
        let name = requested.or(self.settings.default_session.as_deref()).unwrap_or(LATEST);
        let name = name.strip_prefix("store:").unwrap_or(name);
        let mut found = Vec::new();
        for tenant in self.list_tenants(scope).await? {
            match self.store.session_by_name(&tenant, name).await {
                Ok(session) => found.push(TenantSession { tenant, session }),
                Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if name == LATEST {
            found.sort_by_key(|candidate| (candidate.session.updated, candidate.session.id));
        } else if let Some(exact) = found.iter().position(|candidate| candidate.session.name == name) {
            return Ok(found.swap_remove(exact));
        } else if found.len() > 1 {
            return Err(format!("several sessions begin with '{}'; give more of the ID", quote_input(name)));
        }
        found.pop().ok_or_else(|| match name {
            LATEST => NO_SESSIONS.to_owned(),
            name => format!("there is no session '{}'; status lists them", quote_input(name)),
        })
    }
}
