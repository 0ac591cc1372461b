//! What can be configured beyond the engine: the store, a model's summaries, the gateway.

use longhaul_engine::Dialect;
use longhaul_engine::policy::Invalid;
use longhaul_engine::redact::{Content, Redactor, Rules};
use longhaul_server::upstream::{Feature, Provider};
use serde::{Deserialize, Serialize};

use super::gateway::Gateway;

/// The keys that the engine never reads. They are accepted and checked, so that one file serves every version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Shell {
    pub(crate) compression: Compression,
    pub(crate) context: Context,
    pub(crate) redaction: Redaction,
    pub(crate) auxiliary: Auxiliary,
    pub(crate) upstreams: Upstreams,
    pub(crate) store: Store,
    pub(crate) gateway: Gateway,
}

/// When to compact without being asked, and what to keep beyond the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Compression {
    /// Whether anything is compacted without being forced.
    pub(crate) enabled: bool,
    /// The share of the window at which the gateway steps in before anything else.
    pub(crate) hygiene_threshold: f64,
    /// How long a turn may wait for a model's summary.
    pub(crate) max_wait_seconds: u64,
    /// Whether a one-time note at the end of the system prompt says that turns were compacted.
    system_note: bool,
}

impl Default for Compression {
    fn default() -> Self {
        Self { enabled: true, hygiene_threshold: 0.85, max_wait_seconds: 0, system_note: false }
    }
}

/// Engines from outside.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Context {
    /// A folder of plug-ins beside the usual ones.
    pub(crate) plugins: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Redaction {
    /// Whether our own log on this machine is redacted too.
    pub(crate) logs: bool,
}

impl Default for Redaction {
    fn default() -> Self {
        Self { logs: true }
    }
}

/// The provider that nobody has to name.
pub(crate) const AUTO: &str = "auto";

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
    /// Who serves it; [`AUTO`]: whoever the address or the name gives away.
    pub(crate) provider: String,
    /// Where, if not at the provider's usual address.
    pub(crate) base_url: Option<String>,
    /// The environment variable that holds its key.
    pub(crate) api_key_env: Option<String>,
    /// When to give up on it.
    pub(crate) timeout_seconds: u64,
}

impl Default for AuxiliaryModel {
    fn default() -> Self {
        Self {
            model: None,
            provider: AUTO.to_owned(),
            base_url: None,
            api_key_env: None,
            timeout_seconds: 120,
        }
    }
}

/// Where the models of sessions are, by dialect: the gateway sends requests there, and one is asked for a summary where the model
/// that is meant for it fails.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Upstreams {
    chat: Upstream,
    messages: Upstream,
    responses: Upstream,
}

impl Upstreams {
    /// Where requests of this dialect go.
    pub(crate) fn of(&self, dialect: Dialect) -> &Upstream {
        match dialect {
            Dialect::Chat => &self.chat,
            Dialect::Messages => &self.messages,
            Dialect::Responses => &self.responses,
        }
    }
}

/// One place to send requests to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Upstream {
    pub(crate) base_url: Option<String>,
    /// The environment variable that holds its key.
    pub(crate) api_key_env: Option<String>,
    /// What it has itself of what the gateway serves otherwise; by default what its provider is known to have at its own address.
    pub(crate) native: Option<Vec<Feature>>,
}

/// Where sessions are kept, a file or a database, and for how long.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    /// A file.
    pub(crate) path: Option<String>,
    /// The URL of a database server.
    pub(crate) url: Option<String>,
    /// What a commit outlives.
    pub(crate) sync: Sync,
    /// Sessions that were not written for so many days are what `vacuum` deletes.
    pub(crate) keep_days: Option<u32>,
    /// `vacuum` deletes the oldest until the store takes no more than this.
    pub(crate) max_bytes: Option<u64>,
}

/// What a commit outlives: the process, or the power as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sync {
    #[default]
    Normal,
    Full,
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
        let provider = &self.auxiliary.compression.provider;
        if provider != AUTO && Provider::named(provider).is_none() {
            let known: Vec<&str> = Provider::all().map(Provider::name).collect();
            let problem = format!("no provider is called {provider}; there are {AUTO}, {}", known.join(", "));
            return refused("auxiliary.compression.provider", problem);
        }
        if let Some((key, _)) = self.key_variables().find(|(_, name)| !is_variable(name)) {
            let problem = "expected the name of the environment variable that holds the key, not the key";
            return refused(key, problem.to_owned());
        }
        if let (Some(path), Some(_)) = (&self.store.path, &self.store.url) {
            return refused("store.url", format!("store.path is {path} as well; a store is in one place"));
        }
        self.gateway.check()
    }

    /// The variables that hold keys, by the key of the configuration that names them.
    fn key_variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let upstreams = &self.upstreams;
        let named = [
            ("auxiliary.compression.api_key_env", &self.auxiliary.compression.api_key_env),
            ("upstreams.chat.api_key_env", &upstreams.chat.api_key_env),
            ("upstreams.messages.api_key_env", &upstreams.messages.api_key_env),
            ("upstreams.responses.api_key_env", &upstreams.responses.api_key_env),
        ];
        named.into_iter().filter_map(|(key, name)| Some((key, name.as_deref()?)))
    }
}

/// Whether a text can be the name of a variable. A key that was typed in its place is none, so that nobody prints it as a name.
fn is_variable(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.chars().all(is_word) && name.starts_with(|c: char| is_word(c) && !c.is_ascii_digit());
    is_name && Redactor::numbered(Rules::default()).redact(name, Content::Text).found.is_empty()
}
