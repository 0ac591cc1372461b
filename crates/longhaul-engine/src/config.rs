//! The configuration of the engine: every key with its type and its default. Ranges and facts about models
//! are checked by [`Policy::new`](crate::policy::Policy::new), not here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Tokens;
use crate::models::ModelFacts;

/// The configuration of the engine. Defaults apply to every key that is not set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// When to compact and what to keep.
    pub compression: CompressionConfig,
    /// The engine that compacts.
    pub context: ContextConfig,
    /// Cache breakpoints.
    pub prompt_caching: PromptCachingConfig,
    /// Redaction of secrets.
    pub redaction: RedactionConfig,
    /// The `sacred-zone` engine, which only shortens tool outputs.
    pub sacred_zone: SacredZoneConfig,
    /// Settings that override the model table, by a pattern for the model's name.
    pub models: BTreeMap<String, ModelOverride>,
}

/// When to compact and what to keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompressionConfig {
    /// The share of the context window at which a compaction is triggered.
    pub threshold: f64,
    /// The upper limit of the threshold, in tokens.
    pub threshold_tokens: Option<Tokens>,
    /// The lower limit of the threshold, in tokens.
    pub threshold_floor: Option<Tokens>,
    /// The size of the protected tail, as a share of the threshold.
    pub target_ratio: f64,
    /// The number of messages that are kept at the start, after the system prompt.
    pub protect_first_n: usize,
    /// The number of recent messages that are kept even if they exceed the tail's budget, up to the tail's
    /// ceiling.
    pub protect_last_n: usize,
    /// The tools whose results are never shortened. In a name, `*` matches any characters and `?` matches
    /// one.
    pub keep_tools: Vec<String>,
    /// The number of newest user messages that stay unchanged, whatever the budget is.
    pub keep_last_users: usize,
    /// Instructions for every checkpoint, like a focus that applies to one compaction.
    pub instructions: Option<String>,
}

impl Default for CompressionConfig {
    fn default() -> Self {
        CompressionConfig {
            threshold: 0.50,
            threshold_tokens: None,
            threshold_floor: None,
            target_ratio: 0.20,
            protect_first_n: 3,
            protect_last_n: 20,
            keep_tools: Vec::new(),
            keep_last_users: 0,
            instructions: None,
        }
    }
}

/// The engine that compacts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextConfig {
    /// The name of the engine.
    pub engine: EngineName,
}

/// The name of an engine: a built-in one, or one that the host program registers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineName(Cow<'static, str>);

impl EngineName {
    /// The engine that shortens old turns and summarizes them into a checkpoint.
    pub const COMPRESSOR: Self = Self(Cow::Borrowed("compressor"));
    /// The engine that only shortens tool outputs, the largest first.
    pub const SACRED_ZONE: Self = Self(Cow::Borrowed("sacred-zone"));
    /// The engine that summarizes like the compressor and adds an overview of all earlier work as a tree of
    /// pages.
    pub const LOSSLESS: Self = Self(Cow::Borrowed("lossless"));

    /// Returns the name as the configuration and reports write it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Default for EngineName {
    fn default() -> Self {
        Self::COMPRESSOR
    }
}

impl From<String> for EngineName {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Cache breakpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptCachingConfig {
    /// Whether cache breakpoints are set if the provider supports them.
    pub enabled: bool,
    /// How long a cached prefix should be kept.
    pub cache_ttl: CacheTtl,
    /// Where cache breakpoints are set.
    pub strategy: CacheStrategy,
}

impl Default for PromptCachingConfig {
    fn default() -> Self {
        PromptCachingConfig { enabled: true, cache_ttl: CacheTtl::FiveMinutes, strategy: CacheStrategy::SystemAndThree }
    }
}

/// How long a cached prefix should be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheTtl {
    /// Five minutes after its last use.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour after its last use. Cache writes cost more.
    #[serde(rename = "1h")]
    OneHour,
    /// A lifetime that is chosen by the pace of the session.
    #[serde(rename = "auto")]
    Auto,
}

impl CacheTtl {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::FiveMinutes, Self::OneHour, Self::Auto];

    /// Returns the name as the configuration writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FiveMinutes => "5m",
            Self::OneHour => "1h",
            Self::Auto => "auto",
        }
    }
}

/// Where cache breakpoints are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheStrategy {
    /// On the system prompt and on the last three other messages that accept a breakpoint.
    #[serde(rename = "system_and_3")]
    SystemAndThree,
    /// On the last tool, the stable part of the system prompt, the newest checkpoint and the newest turn.
    #[serde(rename = "prefix")]
    Prefix,
}

impl CacheStrategy {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::SystemAndThree, Self::Prefix];

    /// Returns the name as the configuration writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SystemAndThree => "system_and_3",
            Self::Prefix => "prefix",
        }
    }
}

/// Redaction of secrets. Secrets are always redacted before text reaches a summarizer, a plug-in, the store
/// or an export.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedactionConfig {
    /// Additional rules that describe secrets.
    pub rules: Vec<RedactionRule>,
    /// Regular expressions. A value that one of them matches completely is not a secret.
    pub allow: Vec<String>,
}

/// A rule of the user that describes a kind of secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactionRule {
    /// The name of the kind, which the placeholder for a redacted secret shows.
    pub name: String,
    /// A regular expression that matches the secret.
    pub pattern: String,
}

/// The `sacred-zone` engine, which only shortens tool outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SacredZoneConfig {
    /// The share of the context window at which the engine starts.
    pub trigger: f64,
    /// The share of the context window at which the engine stops.
    pub target: f64,
    /// The number of newest tokens that are never changed.
    pub recent_tokens: Tokens,
    /// Whether `recent_tokens` is adapted to the session.
    pub adaptive: bool,
    /// The minimum size of an output that is shortened, in tokens.
    pub min_tokens: Tokens,
    /// The size of the short form of an output, in tokens.
    pub digest_tokens: Tokens,
}

impl Default for SacredZoneConfig {
    fn default() -> Self {
        SacredZoneConfig {
            trigger: 0.75,
            target: 0.50,
            recent_tokens: Tokens(20_000),
            adaptive: true,
            min_tokens: Tokens(500),
            digest_tokens: Tokens(150),
        }
    }
}

/// Settings of the user for models whose name matches a pattern. They override the model table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOverride {
    /// The context window in tokens.
    pub context_length: Option<Tokens>,
    /// The value of `compression.threshold` for this model.
    pub threshold: Option<f64>,
    /// The value of `compression.threshold_tokens` for this model.
    pub threshold_tokens: Option<Tokens>,
    /// The prices of the model's tokens.
    pub prices: StatedPrices,
    /// Facts of the model table, by their field names.
    pub capabilities: Map<String, Value>,
}

/// Prices that the user states, in US dollars per million tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatedPrices {
    /// Input tokens that are not cached.
    pub input: Option<f64>,
    /// Output tokens.
    pub output: Option<f64>,
    /// Input tokens that are read from the cache.
    pub cache_read: Option<f64>,
    /// Input tokens that are written to the cache for five minutes.
    pub cache_write: Option<f64>,
    /// Input tokens that are written to the cache for one hour.
    pub cache_write_1h: Option<f64>,
}

impl Config {
    /// Returns every key as a tree with the default values; the key `*` stands for any name. The
    /// configuration reader uses it to find unknown keys.
    #[must_use]
    pub fn key_tree() -> Value {
        let mut keys = json!(Config::default());
        let mut any_model = json!(ModelOverride::default());
        any_model["capabilities"] = json!(ModelFacts::default());
        keys["models"] = json!({ "*": any_model });
        keys
    }
}
