//! Who can be asked: the rows of `providers.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use longhaul_engine::{Dialect, table};
use serde::{Deserialize, Serialize};

/// A row of `providers.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    name: &'static str,
    row: &'static Row,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    base_url: Option<String>,
    dialect: Dialect,
    paths: BTreeMap<Dialect, String>,
    key_env: Option<String>,
    key_header: KeyHeader,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    limit: Limit,
    #[serde(default)]
    stream_usage: StreamUsage,
    #[serde(default)]
    native: Vec<Feature>,
    #[serde(rename = "source")]
    _source: String,
}

/// What one provider has, and others lack: the gateway serves it in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// `POST /v1/responses/compact`, and the items that it hands out.
    ResponsesCompact,
    /// `context_management` of a Messages request, and the blocks that it hands out.
    ContextManagement,
}

impl Feature {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::ResponsesCompact, Self::ContextManagement];

    /// What the configuration calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ResponsesCompact => "responses_compact",
            Self::ContextManagement => "context_management",
        }
    }

    /// The dialect that it belongs to.
    #[must_use]
    pub fn dialect(self) -> Dialect {
        match self {
            Self::ResponsesCompact => Dialect::Responses,
            Self::ContextManagement => Dialect::Messages,
        }
    }
}

/// The header that carries the key, and what stands before it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KeyHeader {
    XApiKey,
    ApiKey,
    Bearer,
}

/// What a Chat body calls the most that a model may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Limit {
    #[default]
    MaxTokens,
    MaxCompletionTokens,
}

/// How the usage gets into a Chat stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StreamUsage {
    /// It has to be asked for.
    #[default]
    Asked,
    /// It comes by itself, and to ask for it may be refused.
    Unasked,
}

impl KeyHeader {
    pub(super) fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::XApiKey => ("x-api-key", ""),
            Self::ApiKey => ("api-key", ""),
            Self::Bearer => ("authorization", "Bearer "),
        }
    }
}

impl Limit {
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
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

    /// The name of the row.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Where it is, unless that has to be told.
    #[must_use]
    pub fn base_url(self) -> Option<&'static str> {
        self.row.base_url.as_deref()
    }

    /// What it is asked in when the choice is ours.
    #[must_use]
    pub fn dialect(self) -> Dialect {
        self.row.dialect
    }

    /// Whether it takes bodies of this dialect.
    #[must_use]
    pub fn speaks(self, dialect: Dialect) -> bool {
        self.row.paths.contains_key(&dialect)
    }

    /// The environment variable that the key is usually in; none, where no key is needed.
    #[must_use]
    pub fn key_env(self) -> Option<&'static str> {
        self.row.key_env.as_deref()
    }

    /// What it has at its own address that others lack.
    #[must_use]
    pub fn native(self) -> &'static [Feature] {
        &self.row.native
    }

    pub(super) fn path(self, dialect: Dialect) -> Option<&'static str> {
        self.row.paths.get(&dialect).map(String::as_str)
    }

    pub(super) fn key_header(self) -> KeyHeader {
        self.row.key_header
    }

    pub(super) fn headers(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.row.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn limit(self) -> Limit {
        self.row.limit
    }

    pub(super) fn stream_usage(self) -> StreamUsage {
        self.row.stream_usage
    }
}

static TABLE: LazyLock<BTreeMap<String, Row>> =
    LazyLock::new(|| table::load("providers.toml", include_str!("providers.toml"), Ok));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Upstream;

    #[test]
    fn every_row_has_a_path_for_its_own_dialect_and_headers_that_are_headers() {
        for provider in Provider::all() {
            assert!(provider.speaks(provider.dialect()), "{}", provider.name());
            let elsewhere = Some("http://127.0.0.1:1/v1");
            Upstream::new(provider, provider.base_url().map_or(elsewhere, |_| None), None).unwrap();
            for (name, value) in provider.headers() {
                assert!(name.parse::<reqwest::header::HeaderName>().is_ok(), "{name}");
                assert!(value.parse::<reqwest::header::HeaderValue>().is_ok(), "{value}");
            }
        }
    }

    #[test]
    fn the_providers_that_the_documentation_names_are_there() {
        for (name, dialect, key) in [
            ("anthropic", Dialect::Messages, Some("ANTHROPIC_API_KEY")),
            ("openai", Dialect::Responses, Some("OPENAI_API_KEY")),
            ("openrouter", Dialect::Chat, Some("OPENROUTER_API_KEY")),
            ("compatible", Dialect::Chat, None),
        ] {
            let provider = Provider::named(name).unwrap();
            assert_eq!((provider.dialect(), provider.key_env()), (dialect, key), "{name}");
        }
        assert_eq!(Provider::named("nobody"), None);
    }
}
