//! What was found, and what a handle leads to.

use serde::Serialize;

use crate::store::{Hit, Neighbour, Recalled, StepBlock};

/// What a search found.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct Found {
    pub(in crate::gateway::dashboard) session: String,
    pub(in crate::gateway::dashboard) query: String,
    pub(in crate::gateway::dashboard) hits: Vec<FoundHit>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct FoundHit {
    pub(in crate::gateway::dashboard) handle: String,
    pub(in crate::gateway::dashboard) session: String,
    pub(in crate::gateway::dashboard) message: usize,
    pub(in crate::gateway::dashboard) what: String,
    pub(in crate::gateway::dashboard) tool: Option<String>,
    pub(in crate::gateway::dashboard) excerpt: String,
    /// Whether it still stands in what is sent.
    pub(in crate::gateway::dashboard) shown: bool,
    pub(in crate::gateway::dashboard) step: Vec<StepBlock>,
}

impl From<Hit> for FoundHit {
    fn from(hit: Hit) -> Self {
        Self {
            handle: hit.handle,
            session: hit.session,
            message: hit.at,
            what: hit.what,
            tool: hit.tool,
            excerpt: hit.excerpt.to_string(),
            shown: hit.shown,
            step: hit.step,
        }
    }
}

/// What a handle leads to.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct Opened {
    pub(in crate::gateway::dashboard) handle: String,
    pub(in crate::gateway::dashboard) session: String,
    pub(in crate::gateway::dashboard) message: Option<usize>,
    pub(in crate::gateway::dashboard) what: String,
    pub(in crate::gateway::dashboard) tool: Option<String>,
    /// Word for word, but for secrets.
    pub(in crate::gateway::dashboard) text: String,
    pub(in crate::gateway::dashboard) redacted: bool,
    pub(in crate::gateway::dashboard) before: Option<Beside>,
    pub(in crate::gateway::dashboard) behind: Option<Beside>,
}

/// What stands beside it.
#[derive(Debug, Serialize)]
pub(in crate::gateway::dashboard) struct Beside {
    pub(in crate::gateway::dashboard) handle: String,
    pub(in crate::gateway::dashboard) what: String,
    pub(in crate::gateway::dashboard) tool: Option<String>,
    pub(in crate::gateway::dashboard) excerpt: String,
}

impl From<Neighbour> for Beside {
    fn from(neighbour: Neighbour) -> Self {
        let Neighbour { handle, what, tool, excerpt } = neighbour;
        Self { handle, what, tool, excerpt: excerpt.to_string() }
    }
}

impl From<Recalled> for Opened {
    fn from(recalled: Recalled) -> Self {
        Self {
            handle: recalled.handle,
            session: recalled.session,
            message: recalled.at,
            what: recalled.what,
            tool: recalled.tool,
            text: recalled.text.to_string(),
            redacted: recalled.redacted,
            before: recalled.before.map(Into::into),
            behind: recalled.behind.map(Into::into),
        }
    }
}
