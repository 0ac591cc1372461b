//! An upstream: a provider, its address, and the key for it.

use std::fmt;
use std::sync::Arc;

use longhaul_engine::ApiFormat;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::{ApiKey, NativeFeature, Provider};

/// The upstream for each API format. Nothing in a request can choose another one.
#[derive(Debug, Clone)]
pub struct Upstreams {
    /// The upstream for Chat Completions requests.
    pub chat: Arc<Upstream>,
    /// The upstream for Messages requests.
    pub messages: Arc<Upstream>,
    /// The upstream for Responses requests.
    pub responses: Arc<Upstream>,
}

impl Upstreams {
    /// Returns the upstream that receives requests in this API format.
    #[must_use]
    pub fn for_api_format(&self, api_format: ApiFormat) -> &Arc<Upstream> {
        match api_format {
            ApiFormat::Chat => &self.chat,
            ApiFormat::Messages => &self.messages,
            ApiFormat::Responses => &self.responses,
        }
    }
}

/// One provider at one address, with the key for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Upstream {
    provider: Provider,
    base_url: Url,
    key: Option<ApiKey>,
    /// The features that this address has itself.
    native: Vec<NativeFeature>,
}

impl Upstream {
    /// Creates an upstream at the provider's own address or at another one. At another address no native
    /// features are assumed. The error is one line for people.
    pub fn new(provider: Provider, base_url: Option<&str>, key: Option<ApiKey>) -> Result<Self, String> {
        let name = provider.name();
        let typed = base_url
            .or(provider.base_url())
            .ok_or_else(|| format!("provider `{name}` has no address of its own; set base_url"))?;
        let base = Url::parse(typed.trim()).map_err(|error| {
            format!(
                "base_url of `{name}` is not a URL \
             ({error}): it must begin with https:// or http://"
            )
        })?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(format!("base_url of `{name}` has no scheme: it must begin with https:// or http://"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(format!(
                "base_url of `{name}` contains a user name or password, which error messages \
                 would show: remove it"
            ));
        }
        let native = if base_url.is_none() { provider.native_features().to_vec() } else { Vec::new() };
        Ok(Self { provider, base_url: base, key, native })
    }

    /// Sets the features that this address has itself.
    #[must_use]
    pub fn with_native(self, native: Vec<NativeFeature>) -> Self {
        Self { native, ..self }
    }

    /// Whether this address has a feature itself.
    #[must_use]
    pub fn has_native(&self, feature: NativeFeature) -> bool {
        self.native.contains(&feature)
    }

    /// Returns the provider.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns the address for people: without the query, in which a user may have put a key.
    #[must_use]
    pub fn address(&self) -> String {
        self.base_url.origin().ascii_serialization() + self.base_url.path()
    }

    /// Returns the URL for requests in this API format; `None` if the provider does not accept them.
    #[must_use]
    pub fn url(&self, api_format: ApiFormat) -> Option<Url> {
        let path = self.provider.path(api_format)?;
        let mut url = self.base_url.clone();
        url.set_path(&self.join_path(path));
        Some(url)
    }

    /// Returns the URL of a path and query at this upstream. It never points to another host.
    #[must_use]
    pub fn url_for_target(&self, target: &str) -> Url {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let mut url = self.base_url.clone();
        url.set_path(&self.join_path(path));
        url.set_query(query.or(self.base_url.query()));
        url
    }

    /// Joins the base URL's path and a path. The version `/v1` is not repeated if the base URL ends with it.
    /// It is also left out if the base URL has a path of its own and the provider's path does not begin with
    /// `/v1`.
    fn join_path(&self, path: &str) -> String {
        let base = self.base_url.path().trim_end_matches('/');
        let default_path = self.provider.path(self.provider.default_api_format()).unwrap_or_default();
        let has_version = base.ends_with("/v1") || (!base.is_empty() && !default_path.starts_with("/v1"));
        let path = if has_version { path.strip_prefix("/v1").unwrap_or(path) } else { path };
        format!("{base}/{}", path.trim_start_matches('/'))
    }

    /// Returns the name and value of the header with the key, if there is a key.
    #[must_use]
    pub fn key_header(&self) -> Option<(HeaderName, HeaderValue)> {
        let (name, before) = self.provider.key_header().name_and_prefix();
        let value = self.key.as_ref().and_then(|key| key.header_value(before))?;
        Some((HeaderName::from_static(name), value))
    }

    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in self.provider.headers() {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers.extend(self.key_header());
        headers
    }

    /// Replaces the key in a text, because an upstream may quote it.
    pub(super) fn redact_key(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text))
    }
}

/// Formats the upstream without its key.
impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({} at {})", self.provider.name(), self.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(provider: &str, base_url: Option<&str>) -> Result<Upstream, String> {
        Upstream::new(Provider::named(provider).unwrap(), base_url, ApiKey::new("sk-very-secret"))
    }

    #[test]
    fn an_address_is_joined_with_the_path_of_the_dialect() {
        let cases = [
            ("anthropic", None, ApiFormat::Messages, "https://api.anthropic.com/v1/messages"),
            ("anthropic", Some("http://localhost:80/v1/"), ApiFormat::Messages, "http://localhost/v1/messages"),
            ("openai", None, ApiFormat::Responses, "https://api.openai.com/v1/responses"),
            ("openai", Some("http://[::1]:8080"), ApiFormat::Chat, "http://[::1]:8080/chat/completions"),
            (
                "azure",
                Some("https://me.openai.azure.com/openai/v1?api-version=preview"),
                ApiFormat::Chat,
                "https://me.openai.azure.com/openai/v1/chat/completions?api-version=preview",
            ),
        ];
        for (provider, base, api_format, expected) in cases {
            assert_eq!(at(provider, base).unwrap().url(api_format).unwrap().as_str(), expected);
        }
        assert_eq!(at("anthropic", None).unwrap().url(ApiFormat::Chat), None);
    }

    #[test]
    fn a_wrong_address_is_one_clear_line() {
        for (provider, base, message) in [
            ("compatible", None, "provider `compatible` has no address of its own; set base_url"),
            (
                "openai",
                Some("localhost:8080"),
                "base_url of `openai` has no scheme: it must begin with https:// or http://",
            ),
            (
                "openai",
                Some("not an address"),
                "base_url of `openai` is not a URL (relative URL without a base): it must begin with https:// or http://",
            ),
            (
                "openai",
                Some("https://me:secret@host"),
                "base_url of `openai` contains a user name or password, which error messages would show: remove it",
            ),
        ] {
            assert_eq!(at(provider, base).unwrap_err(), message);
        }
    }

    #[test]
    fn the_key_goes_into_the_providers_header_and_is_not_shown() {
        for (provider, header, value) in
            [("anthropic", "x-api-key", "sk-very-secret"), ("openai", "authorization", "Bearer sk-very-secret")]
        {
            let upstream = at(provider, None).unwrap();
            assert_eq!(upstream.headers()[header], value);
            assert!(!format!("{upstream:?} {:?}", upstream.headers()).contains("secret"));
        }
        assert_eq!(at("anthropic", None).unwrap().headers()["anthropic-version"], "2023-06-01");
        let with_query = at("openai", Some("https://127.0.0.1:8080/v1?key=secret")).unwrap();
        assert_eq!(format!("{with_query:?}"), "Upstream(openai at https://127.0.0.1:8080/v1)");
    }
}
