//! Whether and how a body's prefix is cached on its way: what the model's row and the provider's row say.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::models::Model;
use crate::policy::{CachePolicy, CacheStrategy, CacheTtl};
use crate::{Dialect, Tokens};

/// What takes requests and sends them to a model: a row of `providers.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    name: &'static str,
    row: &'static Row,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    title: Option<String>,
    #[serde(default)]
    messages: bool,
    chat: Option<Carrier>,
    usual: Option<String>,
    #[serde(default)]
    key: bool,
    #[serde(rename = "source")]
    _source: String,
}

/// What carries a mark in a Chat body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// Blocks of the content only.
    Content,
    /// The message itself too, where its content cannot.
    Message,
}

/// How a body's prefix gets into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// By marks.
    Marks {
        /// What carries them.
        carrier: Carrier,
        /// Where they go.
        strategy: CacheStrategy,
        /// How long the prefix is to live.
        ttl: CacheTtl,
        /// Shorter prefixes are not marked.
        minimum: Tokens,
    },
    /// By the provider itself, which keeps together what has one `prompt_cache_key`.
    Key,
    /// By the provider itself.
    Automatic,
    /// Not, for this reason.
    Off(&'static str),
}

impl Provider {
    /// The provider of that name, if there is a row for it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TABLE.get_key_value(name).map(|(name, row)| Self { name, row })
    }

    /// Every provider there is a row for, by name.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(name, row)| Self { name, row })
    }

    /// The model that a request without a name is taken to be for, where that is known.
    #[must_use]
    pub fn usual_model(self) -> Option<&'static str> {
        self.row.usual.as_deref()
    }

    /// The name of the row.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl Route {
    /// The way of a body of this dialect, for a model with this policy. Without a provider, it is the one that the model's
    /// name or row gives away.
    #[must_use]
    pub fn new(policy: &CachePolicy, model: &Model, provider: Option<Provider>, dialect: Dialect) -> Self {
        let told = provider.is_some();
        let provider = provider.or_else(|| Provider::named(&model.facts.host));
        let (ttl, strategy, minimum) = match *policy {
            CachePolicy::Off(reason) => return Self::Off(reason),
            CachePolicy::Automatic if provider.is_some_and(|p| p.row.key) && dialect != Dialect::Messages => {
                return Self::Key;
            }
            CachePolicy::Automatic => return Self::Automatic,
            CachePolicy::Marks { ttl, strategy, minimum } => (ttl, strategy, minimum),
        };
        let marks = |carrier| Self::Marks { carrier, strategy, ttl, minimum };
        match (provider, dialect) {
            (None, _) => Self::Off("whether the provider takes cache breakpoints is not known; name it"),
            (_, Dialect::Responses) => Self::Off("Responses bodies have no place for cache breakpoints"),
            (Some(provider), Dialect::Messages) if provider.row.messages => marks(Carrier::Content),
            // A Chat body is not what the vendor itself takes, so who turns it into one is not known until it is told: marks
            // in the content are what all of them understand.
            (Some(provider), Dialect::Chat) if !told && provider.row.title.is_none() => {
                marks(Carrier::Content)
            }
            (Some(Provider { row: Row { chat: Some(carrier), .. }, .. }), Dialect::Chat) => marks(*carrier),
            _ => Self::Off("the provider takes no cache breakpoints in bodies of this dialect"),
        }
    }

    /// The line that hosts show at start.
    #[must_use]
    pub fn status(&self, model: &Model, provider: Option<Provider>) -> String {
        let family = title(&model.facts.family);
        let via =
            provider.or_else(|| Provider::named(&model.facts.host)).and_then(|p| p.row.title.as_deref());
        let name = via.map_or(family.clone(), |via| format!("{family} via {via}"));
        match self {
            Self::Marks { ttl, .. } => format!("Prompt caching: on ({name}, {})", ttl.name()),
            Self::Key => format!("Prompt caching: on ({name}, by itself, with a prompt_cache_key)"),
            Self::Automatic => format!("Prompt caching: on ({name}, by itself)"),
            Self::Off(reason) => format!("Prompt caching: off ({reason})"),
        }
    }
}

/// A family's name as people write it: three letters are an abbreviation.
fn title(family: &str) -> String {
    if family.len() <= 3 {
        return family.to_uppercase();
    }
    let mut letters = family.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

table! {
    static TABLE: BTreeMap<String, Row> = "providers.toml";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;
    use crate::policy::{Config, Policy};

    #[test]
    fn whether_and_how_is_what_the_rows_say() {
        let cases = [
            ("claude-sonnet-4-5", None, Dialect::Messages, "on (Claude, 5m)"),
            ("openrouter/anthropic/claude-sonnet-4.5", None, Dialect::Chat, "on (Claude via OpenRouter, 5m)"),
            ("claude-sonnet-4-5", Some("openrouter"), Dialect::Chat, "on (Claude via OpenRouter, 5m)"),
            ("gpt-5", None, Dialect::Responses, "on (GPT, by itself, with a prompt_cache_key)"),
            ("deepseek-chat", None, Dialect::Chat, "on (Deepseek, by itself)"),
            (
                "claude-sonnet-4-5",
                Some("openai"),
                Dialect::Chat,
                "off (the provider takes no cache breakpoints in bodies of this dialect)",
            ),
            (
                "claude-sonnet-4-5",
                None,
                Dialect::Responses,
                "off (Responses bodies have no place for cache breakpoints)",
            ),
            ("llama-3-70b", None, Dialect::Chat, "off (no cache is known for this model)"),
        ];
        for (name, provider, dialect, wanted) in cases {
            let model = models::find(name);
            let (policy, _) = Policy::new(&Config::default(), &model).unwrap();
            let provider = provider.map(|name| Provider::named(name).unwrap());
            let route = Route::new(&policy.caching, &model, provider, dialect);
            assert_eq!(
                route.status(&model, provider),
                format!("Prompt caching: {wanted}"),
                "{name} {dialect}"
            );
        }
    }
}
