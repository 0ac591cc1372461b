//! Whose sessions a call may see, and which of them it is about.

use super::Server;
use crate::recall::arguments::told;
use crate::store::{Owned, StoreError, Tenant, Whose};

/// The word for the session written last.
const LATEST: &str = "latest";
/// What is said where there is none.
pub(super) const NONE: &str =
    "there are no sessions yet: they come with longhaul serve, run, import and compress --store";

/// Who may see what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever reaches the server sees everybody's sessions: only for one that nobody else can reach.
    All,
    /// Who has a key of the store sees the sessions that it leads to.
    Keys,
}

impl Server {
    pub(super) async fn tenants(&self, whose: &Whose) -> Result<Vec<Tenant>, String> {
        match whose {
            Whose::Everybody => self.store.tenants().await.map_err(|error| error.to_string()),
            Whose::One(tenant) => Ok(vec![tenant.clone()]),
        }
    }

    /// The session of that name; without one the session that the server is for, else the one written last.
    pub(super) async fn find(&self, whose: &Whose, named: Option<&str>) -> Result<Owned, String> {
        let name = named.or(self.settings.session.as_deref()).unwrap_or(LATEST);
        let name = name.strip_prefix("store:").unwrap_or(name);
        let mut found = Vec::new();
        for tenant in self.tenants(whose).await? {
            match self.store.session(&tenant, name).await {
                Ok(session) => found.push(Owned { tenant, session }),
                Err(StoreError::Unknown(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if name == LATEST {
            found.sort_by_key(|owned| (owned.session.updated, owned.session.id));
        } else if let Some(exact) = found.iter().position(|owned| owned.session.name == name) {
            return Ok(found.swap_remove(exact));
        } else if found.len() > 1 {
            return Err(format!("several sessions begin with '{}'; give more of the id", told(name)));
        }
        found.pop().ok_or_else(|| match name {
            LATEST => NONE.to_owned(),
            name => format!("there is no session '{}'; status lists them", told(name)),
        })
    }
}
