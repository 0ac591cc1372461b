//! Decides whether and how the prefix of a request is cached, from the rows of the model and the provider.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::models::Model;
use crate::policy::{CachePolicy, CacheStrategy, CacheTtl};
use crate::{ApiFormat, Tokens};

/// A service that accepts requests for a model: a row of `providers.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheProvider {
    name: &'static str,
    row: &'static ProviderRow,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderRow {
    title: Option<String>,
    #[serde(default)]
    messages: bool,
    chat: Option<BreakpointCarrier>,
    usual: Option<String>,
    #[serde(default)]
    key: bool,
    #[serde(rename = "source")]
    _source: String,
}

/// The part of a Chat Completions request that can carry a cache breakpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BreakpointCarrier {
    /// Only the blocks of a message's content.
    Content,
    /// The blocks, and the message itself if its content cannot carry one.
    Message,
}

/// How the prefix of a request gets into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachingMode {
    /// By cache breakpoints.
    Breakpoints {
        /// The part of a Chat Completions request that carries them.
        carrier: BreakpointCarrier,
        /// The strategy that chooses their positions.
        strategy: CacheStrategy,
        /// How long the prefixes stay cached.
        ttl: CacheTtl,
        /// The smallest prefix in tokens that gets a breakpoint.
        minimum: Tokens,
    },
    /// By the provider itself, which groups requests with the same `prompt_cache_key`.
    CacheKey,
    /// By the provider itself.
    Automatic,
    /// Not at all, for this reason.
    Off(&'static str),
}

impl CacheProvider {
    /// Finds a provider by name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        PROVIDERS.get_key_value(name).map(|(name, row)| Self { name, row })
    }

    /// Returns all providers, by name.
    pub fn all() -> impl Iterator<Item = Self> {
        PROVIDERS.iter().map(|(name, row)| Self { name, row })
    }

    /// Returns the model that is assumed for a request without a model name, if the table has one.
    #[must_use]
    pub fn default_model(self) -> Option<&'static str> {
        self.row.usual.as_deref()
    }

    /// Returns the name of the row.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl CachingMode {
    /// Decides how a request in this API format is cached. Without a provider, the one in the model's row is
    /// assumed.
    #[must_use]
    pub fn new(policy: &CachePolicy, model: &Model, provider: Option<CacheProvider>, api_format: ApiFormat) -> Self {
        let is_named = provider.is_some();
        let provider = provider.or_else(|| CacheProvider::find(&model.facts.host));
        let (ttl, strategy, minimum) = match *policy {
            CachePolicy::Off(reason) => return Self::Off(reason),
            CachePolicy::Automatic if provider.is_some_and(|p| p.row.key) && api_format != ApiFormat::Messages => {
                return Self::CacheKey;
            }
            CachePolicy::Automatic => return Self::Automatic,
            CachePolicy::Breakpoints { ttl, strategy, minimum } => (ttl, strategy, minimum),
        };
        let breakpoints = |carrier| Self::Breakpoints { carrier, strategy, ttl, minimum };
        match (provider, api_format) {
            (None, _) => Self::Off("it is not known whether the provider accepts cache breakpoints; set the provider"),
            (_, ApiFormat::Responses) => Self::Off("Responses requests cannot carry cache breakpoints"),
            (Some(provider), ApiFormat::Messages) if provider.row.messages => breakpoints(BreakpointCarrier::Content),
            // The vendor itself takes no Chat Completions requests, so an unnamed service translates them.
            // All such services understand breakpoints in the content.
            (Some(provider), ApiFormat::Chat) if !is_named && provider.row.title.is_none() => {
                breakpoints(BreakpointCarrier::Content)
            }
            (Some(CacheProvider { row: ProviderRow { chat: Some(carrier), .. }, .. }), ApiFormat::Chat) => {
                breakpoints(*carrier)
            }
            _ => Self::Off("the provider takes no cache breakpoints in requests of this API format"),
        }
    }

    /// Returns the status line that hosts print at startup.
    #[must_use]
    pub fn status_line(&self, model: &Model, provider: Option<CacheProvider>) -> String {
        let family = display_name(&model.facts.family);
        let via = provider.or_else(|| CacheProvider::find(&model.facts.host)).and_then(|p| p.row.title.as_deref());
        let name = via.map_or(family.clone(), |via| format!("{family} via {via}"));
        match self {
            Self::Breakpoints { ttl, .. } => format!("Prompt caching: on ({name}, {})", ttl.name()),
            Self::CacheKey => format!("Prompt caching: on ({name}, by itself, with a prompt_cache_key)"),
            Self::Automatic => format!("Prompt caching: on ({name}, by itself)"),
            Self::Off(reason) => format!("Prompt caching: off ({reason})"),
        }
    }
}

/// Returns the usual spelling of a model family: up to three letters are an abbreviation.
fn display_name(family: &str) -> String {
    if family.len() <= 3 {
        return family.to_uppercase();
    }
    let mut letters = family.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

table! {
    static PROVIDERS: BTreeMap<String, ProviderRow> = "providers.toml";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;
    use crate::policy::{Config, Policy};

    #[test]
    fn whether_and_how_is_what_the_rows_say() {
        let cases = [
            ("claude-sonnet-4-5", None, ApiFormat::Messages, "on (Claude, 5m)"),
            ("openrouter/anthropic/claude-sonnet-4.5", None, ApiFormat::Chat, "on (Claude via OpenRouter, 5m)"),
            ("claude-sonnet-4-5", Some("openrouter"), ApiFormat::Chat, "on (Claude via OpenRouter, 5m)"),
            ("gpt-5", None, ApiFormat::Responses, "on (GPT, by itself, with a prompt_cache_key)"),
            ("deepseek-chat", None, ApiFormat::Chat, "on (Deepseek, by itself)"),
            (
                "claude-sonnet-4-5",
                Some("openai"),
                ApiFormat::Chat,
                "off (the provider takes no cache breakpoints in requests of this API format)",
            ),
            (
                "claude-sonnet-4-5",
                None,
                ApiFormat::Responses,
                "off (Responses requests cannot carry cache breakpoints)",
            ),
            ("llama-3-70b", None, ApiFormat::Chat, "off (no cache is known for this model)"),
        ];
        for (name, provider, api_format, wanted) in cases {
            let model = models::find(name);
            let (policy, _) = Policy::new(&Config::default(), &model).unwrap();
            let provider = provider.map(|name| CacheProvider::find(name).unwrap());
            let route = CachingMode::new(&policy.caching, &model, provider, api_format);
            assert_eq!(route.status_line(&model, provider), format!("Prompt caching: {wanted}"), "{name} {api_format}");
        }
    }
}
