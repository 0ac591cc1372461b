//! What can be configured beyond the engine: the gateway, the store and a model's summaries, which hardly anything reads yet.

use longhaul_engine::policy::Invalid;
use serde::{Deserialize, Serialize};

/// The keys that the engine never reads. They are accepted and checked, so that one file serves every version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Shell {
    pub(crate) compression: Compression,
    redaction: Redaction,
    pub(crate) auxiliary: Auxiliary,
    upstreams: Upstreams,
    pub(crate) store: Store,
}

/// When to compact without being asked, and what to keep beyond the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Compression {
    /// Whether anything is compacted without being forced.
    pub(crate) enabled: bool,
    /// The share of the window at which the gateway steps in before anything else.
    hygiene_threshold: f64,
    /// How long a turn may wait for a model's summary.
    max_wait_seconds: u64,
    /// Whether a one-time note at the end of the system prompt says that turns were compacted.
    system_note: bool,
}

impl Default for Compression {
    fn default() -> Self {
        Self { enabled: true, hygiene_threshold: 0.85, max_wait_seconds: 0, system_note: false }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Redaction {
    /// Whether our own log on this machine is redacted too.
    logs: bool,
}

impl Default for Redaction {
    fn default() -> Self {
        Self { logs: true }
    }
}

/// Models that help, beside the one that does the work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Auxiliary {
    /// The one that writes summaries.
    pub(crate) compression: AuxiliaryModel,
}

/// A model that helps, and how to reach it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuxiliaryModel {
    /// Its name; none: the code writes the summaries.
    pub(crate) model: Option<String>,
    /// Who serves it.
    provider: String,
    /// Where, if not at the provider's usual address.
    base_url: Option<String>,
    /// The environment variable that holds its key.
    api_key_env: Option<String>,
    /// When to give up on it.
    timeout_seconds: u64,
}

impl Default for AuxiliaryModel {
    fn default() -> Self {
        Self {
            model: None,
            provider: "auto".to_owned(),
            base_url: None,
            api_key_env: None,
            timeout_seconds: 120,
        }
    }
}

/// Where the gateway sends requests, by dialect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Upstreams {
    chat: Upstream,
    messages: Upstream,
    responses: Upstream,
}

/// One place to send requests to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Upstream {
    base_url: Option<String>,
    /// The environment variable that holds its key.
    api_key_env: Option<String>,
}

/// Where sessions are kept: a file or a database.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    path: Option<String>,
    pub(crate) url: Option<String>,
}

impl Shell {
    /// Refuses the first value that is out of range.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let refused = |key: &str, problem: String| Err(Invalid { key: key.to_owned(), problem });
        let hygiene = self.compression.hygiene_threshold;
        if !(hygiene > 0.0 && hygiene <= 1.0) {
            let problem = format!("{hygiene} must be over 0 and at most 1");
            return refused("compression.hygiene_threshold", problem);
        }
        if self.auxiliary.compression.timeout_seconds == 0 {
            return refused("auxiliary.compression.timeout_seconds", "must be at least 1".to_owned());
        }
        Ok(())
    }
}
