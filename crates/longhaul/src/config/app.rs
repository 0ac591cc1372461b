//! The configuration that the engine does not read: the store, the model for summaries, upstreams and the
//! gateway.

use longhaul_engine::ApiFormat;
use longhaul_engine::policy::InvalidValue;
use longhaul_engine::redact::{RedactionMode, Redactor, Rules};
use longhaul_server::upstream::{NativeFeature, Provider};
use serde::{Deserialize, Serialize};

use super::gateway::GatewayConfig;

/// The keys that the engine never reads. Every command accepts and checks all of them, so that one file works
/// with every command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AppConfig {
    pub(crate) compression: AppCompressionConfig,
    pub(crate) context: AppContextConfig,
    pub(crate) redaction: AppRedactionConfig,
    pub(crate) auxiliary: AuxiliaryConfig,
    pub(crate) upstreams: UpstreamsConfig,
    pub(crate) store: StoreConfig,
    pub(crate) gateway: GatewayConfig,
}

/// The part of `compression` that is not the engine's: when to compact automatically.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AppCompressionConfig {
    /// Whether to change requests. With `false`, `compress` needs `--force`, and the gateway forwards every
    /// request unchanged.
    pub(crate) enabled: bool,
    /// The safety threshold: the share of the window from which the gateway compacts even if the threshold did
    /// not, and even after an undo.
    pub(crate) hygiene_threshold: f64,
    /// How long a request may wait for a model's summary, in seconds.
    pub(crate) max_wait_seconds: u64,
    /// Whether to add a note to the end of the system prompt, once, that turns were compacted.
    system_note: bool,
}

impl Default for AppCompressionConfig {
    fn default() -> Self {
        Self { enabled: true, hygiene_threshold: 0.85, max_wait_seconds: 0, system_note: false }
    }
}

/// The part of `context` that is not the engine's: plug-ins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AppContextConfig {
    /// A folder of plug-ins, besides the default folders.
    pub(crate) plugins: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AppRedactionConfig {
    /// Whether secrets are redacted in the gateway's own log.
    pub(crate) logs: bool,
}

impl Default for AppRedactionConfig {
    fn default() -> Self {
        Self { logs: true }
    }
}

/// The value of `provider` with which the address or the model name decides. Without a model, it is the session's
/// own.
pub(crate) const AUTO_PROVIDER: &str = "auto";
/// The value of `provider` for the session's own model.
pub(crate) const MAIN_PROVIDER: &str = "main";
/// The value of `provider` with which no model is asked.
pub(crate) const NO_PROVIDER: &str = "none";

/// The models that Longhaul itself calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuxiliaryConfig {
    /// The model that writes summaries.
    pub(crate) compression: AuxiliaryModelConfig,
}

/// A model that Longhaul itself calls, and how to reach it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuxiliaryModelConfig {
    /// The name of the model. Without one, the gateway asks the session's own model.
    pub(crate) model: Option<String>,
    /// The provider of the model. With `auto`, the address or the model name decides; `main` is the session's own
    /// model, and `none` asks no model.
    pub(crate) provider: String,
    /// The base URL, if it is not the provider's default.
    pub(crate) base_url: Option<String>,
    /// The environment variable that contains the API key.
    pub(crate) api_key_env: Option<String>,
    /// The maximum time for one request, in seconds.
    pub(crate) timeout_seconds: u64,
    /// The model that the gateway asks first if `model` is set: that model, or with `auto` the session's own model
    /// where a checkpoint by code would leave out most details.
    pub(crate) first: FirstModel,
    /// The most money that the gateway spends on summaries in a day, for models whose price is known.
    pub(crate) max_usd_per_day: f64,
    /// The largest share of what a compaction is expected to save that its summary may cost.
    pub(crate) max_share_of_saving: f64,
}

/// The model that is asked first for a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FirstModel {
    #[default]
    Auxiliary,
    Auto,
}

impl Default for AuxiliaryModelConfig {
    fn default() -> Self {
        Self {
            model: None,
            provider: AUTO_PROVIDER.to_owned(),
            base_url: None,
            api_key_env: None,
            timeout_seconds: 120,
            first: FirstModel::Auxiliary,
            max_usd_per_day: 2.0,
            max_share_of_saving: 0.25,
        }
    }
}

/// The upstreams of sessions, by API format. The gateway sends requests there. A summary is also requested
/// there, from the session's own model, if the model for summaries fails.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UpstreamsConfig {
    chat: UpstreamConfig,
    messages: UpstreamConfig,
    responses: UpstreamConfig,
}

impl UpstreamsConfig {
    /// Returns the upstream for requests in this API format.
    pub(crate) fn for_api_format(&self, api_format: ApiFormat) -> &UpstreamConfig {
        match api_format {
            ApiFormat::Chat => &self.chat,
            ApiFormat::Messages => &self.messages,
            ApiFormat::Responses => &self.responses,
        }
    }
}

/// One upstream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UpstreamConfig {
    /// The base URL, if it is not the one of the API format's provider.
    pub(crate) base_url: Option<String>,
    /// The environment variable that contains the API key.
    pub(crate) api_key_env: Option<String>,
    /// The native context features that the upstream has, so that the gateway does not emulate them. By
    /// default, those that its provider is known to have at its own address.
    pub(crate) native: Option<Vec<NativeFeature>>,
}

/// Where sessions are stored, in a file or a database, and for how long.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreConfig {
    /// The path of the store's file.
    pub(crate) path: Option<String>,
    /// The URL of a database server.
    pub(crate) url: Option<String>,
    /// The failures that a commit survives.
    pub(crate) sync: StoreSync,
    /// The number of days after which `vacuum` deletes a session that was not written.
    pub(crate) keep_days: Option<u32>,
    /// The maximum size of the store: `vacuum` deletes the oldest sessions until it is reached.
    pub(crate) max_bytes: Option<u64>,
}

/// The failures that a commit survives: a crash of the process (`Normal`), or also a power failure (`Full`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreSync {
    #[default]
    Normal,
    Full,
}

impl AppConfig {
    /// Refuses the first value that is out of range.
    pub(crate) fn check(&self) -> Result<(), InvalidValue> {
        let refused = |key: &str, problem: String| Err(InvalidValue { key: key.to_owned(), problem });
        let hygiene = self.compression.hygiene_threshold;
        if !(hygiene > 0.0 && hygiene <= 1.0) {
            let problem = format!("{hygiene} must be over 0 and at most 1");
            return refused("compression.hygiene_threshold", problem);
        }
        if self.auxiliary.compression.timeout_seconds == 0 {
            return refused("auxiliary.compression.timeout_seconds", "must be at least 1".to_owned());
        }
        let AuxiliaryModelConfig { provider, model, max_usd_per_day, max_share_of_saving, .. } =
            &self.auxiliary.compression;
        let special = [AUTO_PROVIDER, MAIN_PROVIDER, NO_PROVIDER];
        if !special.contains(&provider.as_str()) && Provider::named(provider).is_none() {
            let names: Vec<&str> = special.into_iter().chain(Provider::all().map(Provider::name)).collect();
            let problem = format!("unknown provider {provider}; use one of {}", names.join(", "));
            return refused("auxiliary.compression.provider", problem);
        }
        if let (MAIN_PROVIDER, Some(model)) = (provider.as_str(), model) {
            let problem =
                format!("{MAIN_PROVIDER} is the session's own model, but model is also set ({model}); remove one");
            return refused("auxiliary.compression.provider", problem);
        }
        if !(*max_usd_per_day >= 0.0 && max_usd_per_day.is_finite()) {
            let problem = format!("{max_usd_per_day} must be 0 or more");
            return refused("auxiliary.compression.max_usd_per_day", problem);
        }
        if !(0.0..=1.0).contains(max_share_of_saving) {
            let problem = format!("{max_share_of_saving} must be between 0 and 1");
            return refused("auxiliary.compression.max_share_of_saving", problem);
        }
        if let Some((key, _)) = self.key_variables().find(|(_, name)| !is_variable_name(name)) {
            let problem = "expected the name of the environment variable that contains the key, not the key itself";
            return refused(key, problem.to_owned());
        }
        if let (Some(path), Some(_)) = (&self.store.path, &self.store.url) {
            return refused("store.url", format!("store.path is also set ({path}); set only one of them"));
        }
        self.gateway.check()
    }

    /// Returns the names of the variables with API keys, each with the configuration key that names it.
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

/// Whether a text can be the name of a variable. An API key that was typed in its place is refused, so that
/// no message prints it as a name.
fn is_variable_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.chars().all(is_word) && name.starts_with(|c: char| is_word(c) && !c.is_ascii_digit());
    is_name && Redactor::numbered(Rules::default()).redact(name, RedactionMode::Text).found.is_empty()
}
