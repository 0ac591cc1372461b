//! An upstream: a provider, where it is, and the key that opens it.

use std::fmt;

use longhaul_engine::Dialect;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::{Feature, Key, Provider};

/// One provider at one address, with the key for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Upstream {
    provider: Provider,
    base: Url,
    key: Option<Key>,
    /// What it has itself.
    native: Vec<Feature>,
}

impl Upstream {
    /// A provider at its own address or at another one, of which nobody knows what it has beyond the dialect. The error is one line for
    /// people.
    pub fn new(provider: Provider, base_url: Option<&str>, key: Option<Key>) -> Result<Self, String> {
        let name = provider.name();
        let typed = base_url
            .or(provider.base_url())
            .ok_or_else(|| format!("provider `{name}` has no address of its own; set base_url"))?;
        let base = Url::parse(typed.trim()).map_err(|error| format!("base_url of `{name}`: {error}"))?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(format!("base_url of `{name}`: it must begin with https:// or http://"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(format!("base_url of `{name}`: a name or password in it would be shown in errors"));
        }
        let native = if base_url.is_none() { provider.native().to_vec() } else { Vec::new() };
        Ok(Self { provider, base, key, native })
    }

    /// The same, of which it is known what it has itself.
    #[must_use]
    pub fn with_native(self, native: Vec<Feature>) -> Self {
        Self { native, ..self }
    }

    /// Whether it has a feature itself.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.native.contains(&feature)
    }

    /// The row.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Where requests of this dialect go; nowhere, if the provider does not take them.
    #[must_use]
    pub fn url(&self, dialect: Dialect) -> Option<Url> {
        let path = self.provider.path(dialect)?;
        let mut url = self.base.clone();
        url.set_path(&self.under_base(path));
        Some(url)
    }

    /// Where a path of the upstream is, with what stands behind it. Nothing in it can lead to another host.
    #[must_use]
    pub fn at(&self, target: &str) -> Url {
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let mut url = self.base.clone();
        url.set_path(&self.under_base(path));
        url.set_query(query.or(self.base.query()));
        url
    }

    /// A path behind that of the address. A version that ends the address and begins the path is said once; and where an address has a
    /// path of its own, and the provider's addresses have the version in them, that path is all of it.
    fn under_base(&self, path: &str) -> String {
        let base = self.base.path().trim_end_matches('/');
        let own = self.provider.path(self.provider.dialect()).unwrap_or_default();
        let is_said = base.ends_with("/v1") || (!base.is_empty() && !own.starts_with("/v1"));
        let path = if is_said { path.strip_prefix("/v1").unwrap_or(path) } else { path };
        format!("{base}/{}", path.trim_start_matches('/'))
    }

    /// The header that carries the key here, and its value, where there is a key.
    #[must_use]
    pub fn own_key(&self) -> Option<(HeaderName, HeaderValue)> {
        let (name, before) = self.provider.key_header().parts();
        let value = self.key.as_ref().and_then(|key| key.header(before))?;
        Some((HeaderName::from_static(name), value))
    }

    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in self.provider.headers() {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers.extend(self.own_key());
        headers
    }

    /// The text without the key, wherever it is quoted.
    pub(super) fn without_key(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.hide(text))
    }
}

/// It can be printed: neither the key shows, nor what somebody may have put behind the address in its place.
impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, path) = (self.base.origin().ascii_serialization(), self.base.path());
        write!(f, "Upstream({} at {host}{path})", self.provider.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(provider: &str, base_url: Option<&str>) -> Result<Upstream, String> {
        Upstream::new(Provider::named(provider).unwrap(), base_url, Key::new("sk-very-secret"))
    }

    #[test]
    fn an_address_is_joined_with_the_path_of_the_dialect() {
        let cases = [
            ("anthropic", None, Dialect::Messages, "https://api.anthropic.com/v1/messages"),
            ("anthropic", Some("http://localhost:80/v1/"), Dialect::Messages, "http://localhost/v1/messages"),
            ("openai", None, Dialect::Responses, "https://api.openai.com/v1/responses"),
            ("openai", Some("http://[::1]:8080"), Dialect::Chat, "http://[::1]:8080/chat/completions"),
            (
                "azure",
                Some("https://me.openai.azure.com/openai/v1?api-version=preview"),
                Dialect::Chat,
                "https://me.openai.azure.com/openai/v1/chat/completions?api-version=preview",
            ),
        ];
        for (provider, base, dialect, wanted) in cases {
            assert_eq!(at(provider, base).unwrap().url(dialect).unwrap().as_str(), wanted);
        }
        assert_eq!(at("anthropic", None).unwrap().url(Dialect::Chat), None);
    }

    #[test]
    fn a_wrong_address_is_one_clear_line() {
        for (provider, base, said) in [
            ("compatible", None, "provider `compatible` has no address of its own; set base_url"),
            (
                "openai",
                Some("localhost:8080"),
                "base_url of `openai`: it must begin with https:// or http://",
            ),
            ("openai", Some("not an address"), "base_url of `openai`: relative URL without a base"),
            (
                "openai",
                Some("https://me:secret@host"),
                "base_url of `openai`: a name or password in it would be shown in errors",
            ),
        ] {
            assert_eq!(at(provider, base).unwrap_err(), said);
        }
    }

    #[test]
    fn the_key_goes_into_the_providers_header_and_is_not_shown() {
        for (provider, header, value) in [
            ("anthropic", "x-api-key", "sk-very-secret"),
            ("openai", "authorization", "Bearer sk-very-secret"),
        ] {
            let upstream = at(provider, None).unwrap();
            assert_eq!(upstream.headers()[header], value);
            assert!(!format!("{upstream:?} {:?}", upstream.headers()).contains("secret"));
        }
        assert_eq!(at("anthropic", None).unwrap().headers()["anthropic-version"], "2023-06-01");
        let behind = at("openai", Some("https://127.0.0.1:8080/v1?key=secret")).unwrap();
        assert_eq!(format!("{behind:?}"), "Upstream(openai at https://127.0.0.1:8080/v1)");
    }
}
