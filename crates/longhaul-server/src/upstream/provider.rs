//! The providers: the rows of `providers.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use longhaul_engine::{ApiFormat, table};
use serde::{Deserialize, Serialize};

/// A row of `providers.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    name: &'static str,
    row: &'static ProviderRow,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderRow {
    base_url: Option<String>,
    dialect: ApiFormat,
    paths: BTreeMap<ApiFormat, String>,
    key_env: Option<String>,
    key_header: KeyHeader,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    limit: OutputLimitField,
    #[serde(default)]
    stream_usage: StreamUsage,
    #[serde(default)]
    native: Vec<NativeFeature>,
    #[serde(rename = "source")]
    _source: String,
}

/// A feature that one provider has and others lack. The gateway serves it in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NativeFeature {
    /// `POST /v1/responses/compact`, and the items that it returns.
    ResponsesCompact,
    /// `context_management` of a Messages request, and the blocks that it returns.
    ContextManagement,
}

impl NativeFeature {
    /// All features.
    pub const ALL: [Self; 2] = [Self::ResponsesCompact, Self::ContextManagement];

    /// Returns the feature's name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ResponsesCompact => "responses_compact",
            Self::ContextManagement => "context_management",
        }
    }

    /// Returns the API format that the feature belongs to.
    #[must_use]
    pub fn api_format(self) -> ApiFormat {
        match self {
            Self::ResponsesCompact => ApiFormat::Responses,
            Self::ContextManagement => ApiFormat::Messages,
        }
    }
}

/// The header that carries the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KeyHeader {
    XApiKey,
    ApiKey,
    Bearer,
}

/// The name of the field in a Chat body that limits the output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputLimitField {
    #[default]
    MaxTokens,
    MaxCompletionTokens,
}

/// Whether the usage in a Chat stream must be requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StreamUsage {
    /// The request must ask for it.
    #[default]
    OnRequest,
    /// The provider always sends it, and may refuse a request that asks for it.
    Always,
}

impl KeyHeader {
    pub(super) fn name_and_prefix(self) -> (&'static str, &'static str) {
        match self {
            Self::XApiKey => ("x-api-key", ""),
            Self::ApiKey => ("api-key", ""),
            Self::Bearer => ("authorization", "Bearer "),
        }
    }
}

impl OutputLimitField {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

impl Provider {
    /// Finds the provider with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TABLE.get_key_value(name).map(|(name, row)| Self { name, row })
    }

    /// Returns all providers, sorted by name.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(name, row)| Self { name, row })
    }

    /// Returns the name of the row.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the provider's address; `None` if the user must configure it.
    #[must_use]
    pub fn base_url(self) -> Option<&'static str> {
        self.row.base_url.as_deref()
    }

    /// Returns the API format for our own requests.
    #[must_use]
    pub fn default_api_format(self) -> ApiFormat {
        self.row.dialect
    }

    /// Whether the provider accepts requests in this API format.
    #[must_use]
    pub fn supports(self, api_format: ApiFormat) -> bool {
        self.row.paths.contains_key(&api_format)
    }

    /// Returns the environment variable that usually has the key; `None` if no key is needed.
    #[must_use]
    pub fn key_env(self) -> Option<&'static str> {
        self.row.key_env.as_deref()
    }

    /// Returns the features that the provider has at its own address.
    #[must_use]
    pub fn native_features(self) -> &'static [NativeFeature] {
        &self.row.native
    }

    pub(super) fn path(self, api_format: ApiFormat) -> Option<&'static str> {
        self.row.paths.get(&api_format).map(String::as_str)
    }

    pub(super) fn key_header(self) -> KeyHeader {
        self.row.key_header
    }

    pub(super) fn headers(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.row.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn output_limit_field(self) -> OutputLimitField {
        self.row.limit
    }

    pub(super) fn stream_usage(self) -> StreamUsage {
        self.row.stream_usage
    }
}

static TABLE: LazyLock<BTreeMap<String, ProviderRow>> =
    LazyLock::new(|| table::load("providers.toml", include_str!("providers.toml"), Ok));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Upstream;

    #[test]
    fn every_row_has_a_path_for_its_own_dialect_and_headers_that_are_headers() {
        for provider in Provider::all() {
            assert!(provider.supports(provider.default_api_format()), "{}", provider.name());
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
        for (name, api_format, key) in [
            ("anthropic", ApiFormat::Messages, Some("ANTHROPIC_API_KEY")),
            ("openai", ApiFormat::Responses, Some("OPENAI_API_KEY")),
            ("openrouter", ApiFormat::Chat, Some("OPENROUTER_API_KEY")),
            ("compatible", ApiFormat::Chat, None),
        ] {
            let provider = Provider::named(name).unwrap();
            assert_eq!((provider.default_api_format(), provider.key_env()), (api_format, key), "{name}");
        }
        assert_eq!(Provider::named("nobody"), None);
    }
}
