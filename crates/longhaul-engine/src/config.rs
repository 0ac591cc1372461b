//! What a user can type about the engine's work: every key, its type and its default. Nothing here knows a model or checks a range; that is
//! [`Policy::new`](crate::policy::Policy::new)'s work.
//!
//! It may use `models`, `tokens` and what is below them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Tokens;
use crate::models::ModelFacts;

/// All that the engine goes by. The default of each part is what is in force when nothing was typed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// When to compact and what to keep.
    pub compression: Compression,
    /// Which engine compacts.
    pub context: Context,
    /// Cache marks.
    pub prompt_caching: PromptCaching,
    /// Secrets.
    pub redaction: Redaction,
    /// The engine that digests tool outputs only.
    pub sacred_zone: SacredZone,
    /// What the user knows better than the model table, by name pattern.
    pub models: BTreeMap<String, ModelOverride>,
}

/// When to compact and what to keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compression {
    /// The share of the window at which compaction is due.
    pub threshold: f64,
    /// The most tokens that the threshold may be.
    pub threshold_tokens: Option<Tokens>,
    /// The fewest tokens that the threshold may be.
    pub threshold_floor: Option<Tokens>,
    /// The protected tail, as a share of the threshold.
    pub target_ratio: f64,
    /// Messages kept at the head, beyond the system prompt.
    pub protect_first_n: usize,
    /// Recent messages that stay even past the tail's budget, up to its ceiling.
    pub protect_last_n: usize,
    /// Results of these tools are never shortened: names, in which `*` stands for any characters and `?` for one.
    pub keep_tools: Vec<String>,
    /// So many newest messages of the user stay where they are, whatever the budget.
    pub keep_last_users: usize,
    /// Standing wishes for every handover, as a focus is for one.
    pub instructions: Option<String>,
}

impl Default for Compression {
    fn default() -> Self {
        Compression {
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

/// Which engine compacts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Context {
    /// Its name.
    pub engine: EngineName,
}

/// What an engine is called: one that is built in, or any that a host knows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineName(Cow<'static, str>);

impl EngineName {
    /// Prunes what is old and folds it into a checkpoint.
    pub const COMPRESSOR: Self = Self(Cow::Borrowed("compressor"));
    /// Digests tool outputs alone, the largest first.
    pub const SACRED_ZONE: Self = Self(Cow::Borrowed("sacred-zone"));
    /// Folds like the compressor, with an overview of all that went before in a tree of pages.
    pub const LOSSLESS: Self = Self(Cow::Borrowed("lossless"));

    /// How the configuration and reports call it.
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

/// Cache marks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptCaching {
    /// Whether marks are set where the provider takes them.
    pub enabled: bool,
    /// How long a marked prefix is to live.
    pub cache_ttl: CacheTtl,
    /// Where the marks go.
    pub strategy: CacheStrategy,
}

impl Default for PromptCaching {
    fn default() -> Self {
        PromptCaching {
            enabled: true,
            cache_ttl: CacheTtl::FiveMinutes,
            strategy: CacheStrategy::SystemAndThree,
        }
    }
}

/// How long a marked prefix is to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheTtl {
    /// Five minutes from its last use.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour from its last use, at a higher price to write.
    #[serde(rename = "1h")]
    OneHour,
    /// Chosen from the pace of the session.
    #[serde(rename = "auto")]
    Auto,
}

impl CacheTtl {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::FiveMinutes, Self::OneHour, Self::Auto];

    /// How the configuration calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FiveMinutes => "5m",
            Self::OneHour => "1h",
            Self::Auto => "auto",
        }
    }
}

/// Where the marks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheStrategy {
    /// On the system prompt and the last three other messages that can carry one.
    #[serde(rename = "system_and_3")]
    SystemAndThree,
    /// On the last tool, the stable part of the system prompt, the newest checkpoint and the newest turn.
    #[serde(rename = "prefix")]
    Prefix,
}

impl CacheStrategy {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::SystemAndThree, Self::Prefix];

    /// How the configuration calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SystemAndThree => "system_and_3",
            Self::Prefix => "prefix",
        }
    }
}

/// Secrets. Redaction before a summarizer, a plug-in, the store or an export cannot be turned off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redaction {
    /// Further shapes of secrets.
    pub rules: Vec<RedactionRule>,
    /// Regular expressions: a value that one of them matches in full is no secret.
    pub allow: Vec<String>,
}

/// A shape of secret that the user adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactionRule {
    /// What the mark calls it.
    pub name: String,
    /// A regular expression.
    pub pattern: String,
}

/// The engine that digests tool outputs only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SacredZone {
    /// The share of the window at which it starts.
    pub trigger: f64,
    /// The share of the window at which it is content.
    pub target: f64,
    /// How many of the newest tokens are not touched.
    pub recent_tokens: Tokens,
    /// Whether that number follows the session.
    pub adaptive: bool,
    /// Outputs of fewer tokens are left alone.
    pub min_tokens: Tokens,
    /// What an output is digested to.
    pub digest_tokens: Tokens,
}

impl Default for SacredZone {
    fn default() -> Self {
        SacredZone {
            trigger: 0.75,
            target: 0.50,
            recent_tokens: Tokens(20_000),
            adaptive: true,
            min_tokens: Tokens(500),
            digest_tokens: Tokens(150),
        }
    }
}

/// What the user knows better than the model table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOverride {
    /// The window, in tokens.
    pub context_length: Option<Tokens>,
    /// `compression.threshold` for this model.
    pub threshold: Option<f64>,
    /// `compression.threshold_tokens` for this model.
    pub threshold_tokens: Option<Tokens>,
    /// What its tokens cost.
    pub prices: Prices,
    /// Facts of the model table, by their names there.
    pub capabilities: Map<String, Value>,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// Read by the model for the first time.
    pub input: Option<f64>,
    /// Written by the model.
    pub output: Option<f64>,
    /// Read from the cache.
    pub cache_read: Option<f64>,
    /// Put into the cache for five minutes.
    pub cache_write: Option<f64>,
    /// Put into the cache for one hour.
    pub cache_write_1h: Option<f64>,
}

impl Config {
    /// Every key there is, as a tree of the defaults; the key `*` stands for any name. What a reader of configuration
    /// needs to tell a wrong key from a right one.
    #[must_use]
    pub fn keys() -> Value {
        let mut keys = json!(Config::default());
        let mut any_model = json!(ModelOverride::default());
        any_model["capabilities"] = json!(ModelFacts::default());
        keys["models"] = json!({ "*": any_model });
        keys
    }
}
