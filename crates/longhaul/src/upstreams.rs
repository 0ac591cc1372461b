//! Finds the provider, the address and the API key of an upstream, for summaries and for requests through the
//! gateway.
//!
//! ```text
//! base_url, or the API format's provider ──▶ Provider ──▶ ModelEndpoint ── key in a variable ──▶ Upstream
//! ```

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::ApiFormat;
use longhaul_server::upstream::{ApiKey, Client, ClientOptions, NativeFeature, Provider, ProxyMode, Upstream};

use crate::config::{Environment, UpstreamConfig};
use crate::failure::Failure;

/// The end of the host names of Azure `OpenAI` resources.
const AZURE_HOST_SUFFIX: &str = ".openai.azure.com";

/// The maximum time to open a connection. Chosen by hand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The API path of a server whose provider has no address of its own.
const DEFAULT_API_PATH: &str = "/v1";

/// The provider and the address of a model, without a key.
pub(crate) struct ModelEndpoint<'c> {
    pub(crate) provider: Provider,
    pub(crate) base_url: Option<&'c str>,
}

impl ModelEndpoint<'_> {
    /// Returns the variable that usually contains the provider's key, but only for the provider's own
    /// address. To send the key elsewhere, the user must name the variable.
    pub(crate) fn default_key_variable(&self) -> Option<&'static str> {
        self.provider.key_env().filter(|_| self.is_provider_address())
    }

    /// Builds the upstream with the key that a variable contains.
    pub(crate) fn to_upstream(&self, key_env: Option<&str>, environment: &Environment) -> Result<Upstream, String> {
        let provider_name = self.provider.name();
        let key = key_env.map(|name| {
            let value = environment.iter().find(|(variable, _)| variable == name).map(|(_, value)| value.as_str());
            ApiKey::new(value.unwrap_or_default()).ok_or_else(|| {
                format!("the variable {name} has no key for {provider_name}; set it, or name another variable in api_key_env")
            })
        });
        Upstream::new(self.provider, self.base_url, key.transpose()?)
    }

    /// Whether the address is the provider's own.
    fn is_provider_address(&self) -> bool {
        let Some(typed) = self.base_url.map(authority) else { return true };
        match self.provider.base_url().map(authority) {
            Some(provider_authority) => provider_authority == typed,
            None => typed.ends_with(AZURE_HOST_SUFFIX),
        }
    }
}

/// The upstream to which the gateway sends the requests of one API format.
pub(crate) struct Destination {
    pub(crate) api_format: ApiFormat,
    pub(crate) upstream: Arc<Upstream>,
    /// The variable whose key pays. Without one, the client's own key is used.
    pub(crate) key_variable: Option<String>,
}

impl Destination {
    /// Returns the configured upstream, or else that of the API format's own provider. The error is one line
    /// that starts with the configuration key.
    pub(crate) fn new(
        api_format: ApiFormat,
        configured: &UpstreamConfig,
        environment: &Environment,
    ) -> Result<Self, String> {
        let section = |error: String| format!("upstreams.{api_format}: {error}");
        let default_provider =
            default_provider(api_format).ok_or_else(|| section("no provider supports this API format".to_owned()))?;
        let typed = configured.base_url.as_deref();
        let at_address = typed
            .and_then(provider_at)
            .filter(|provider| provider.supports(api_format) && fits_api_format(*provider, api_format));
        let provider = at_address.unwrap_or(default_provider);
        let base_url = typed.map(|typed| with_api_path(typed, provider));
        let endpoint = ModelEndpoint { provider, base_url: base_url.as_deref() };
        let key_env = configured.api_key_env.clone();
        let upstream = endpoint.to_upstream(key_env.as_deref(), environment).map_err(section)?;
        // The native features are those of the provider that has this address, even if another provider's row
        // decides how requests are sent.
        let owner =
            ModelEndpoint { provider: typed.and_then(provider_at).unwrap_or(default_provider), base_url: typed };
        let default_features = if owner.is_provider_address() { owner.provider.native_features() } else { &[] };
        let native = configured.native.clone().unwrap_or_else(|| default_features.to_vec());
        let upstream = upstream.with_native(native);
        Ok(Self { api_format, upstream: Arc::new(upstream), key_variable: key_env })
    }

    /// Returns the URL for requests.
    pub(crate) fn url(&self) -> String {
        display_url(&self.upstream, self.api_format)
    }

    /// Returns the scheme and host of the upstream.
    pub(crate) fn origin(&self) -> String {
        let address = self.url();
        let (scheme, host) = (address.split("://").next().unwrap_or_default(), authority(&address));
        format!("{scheme}://{host}")
    }

    /// Returns the native features that the gateway emulates, because the upstream is not known to have them.
    pub(crate) fn emulated_features(&self) -> impl Iterator<Item = NativeFeature> {
        NativeFeature::ALL
            .into_iter()
            .filter(|feature| feature.api_format() == self.api_format && !self.upstream.has_native(*feature))
    }

    /// Describes whose key pays.
    pub(crate) fn payer_text(&self) -> String {
        self.key_variable
            .as_ref()
            .map_or_else(|| "the client's own key".to_owned(), |name| format!("the key in {name}"))
    }

    /// Whether requests to the upstream are unencrypted and leave this machine.
    pub(crate) fn is_unencrypted(&self) -> bool {
        let address = self.url();
        address.starts_with("http://") && !is_local(&address)
    }
}

/// Whether a provider's settings fit an API format. A provider without an address of its own (`compatible`,
/// `azure`) has settings for its default API format only; in the other formats, those of the format's own
/// provider fit better.
pub(crate) fn fits_api_format(provider: Provider, api_format: ApiFormat) -> bool {
    provider.default_api_format() == api_format || provider.base_url().is_some()
}

/// Returns the provider that defined an API format.
pub(crate) fn default_provider(api_format: ApiFormat) -> Option<Provider> {
    Provider::named(match api_format {
        ApiFormat::Messages => "anthropic",
        ApiFormat::Chat | ApiFormat::Responses => "openai",
    })
}

/// Returns the provider at an address. An unknown address is expected to use Chat Completions.
pub(crate) fn provider_at(address: &str) -> Option<Provider> {
    let typed = authority(address);
    let is_at_address = |provider: &Provider| match provider.base_url() {
        Some(base_url) => authority(base_url) == typed,
        None => provider.name() == "azure" && typed.ends_with(AZURE_HOST_SUFFIX),
    };
    Provider::all().find(is_at_address).or_else(|| Provider::named("compatible"))
}

/// Returns the URL for requests in an API format, without query and fragment, which may contain a secret.
pub(crate) fn display_url(upstream: &Upstream, api_format: ApiFormat) -> String {
    upstream.url(api_format).map_or_else(String::new, |mut url| {
        url.set_query(None);
        url.set_fragment(None);
        url.to_string()
    })
}

/// Whether an address is on this machine, so that no proxy is needed.
pub(crate) fn is_local(address: &str) -> bool {
    let host = authority(address);
    let host = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(host, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let address = bare.parse::<IpAddr>().map(|address| address.to_canonical());
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Builds the client for these upstreams. It uses the proxies in the environment, unless all upstreams are on
/// this machine.
pub(crate) fn new_client<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Result<Client, Failure> {
    let are_all_local = addresses.into_iter().all(is_local);
    let proxies = if are_all_local { ProxyMode::Direct } else { ProxyMode::Environment };
    // Random numbers only spread retries in time, so a zero in their place does no harm.
    let random_bits = Arc::new(|| getrandom::u32().unwrap_or_default());
    Client::new(ClientOptions { proxies, connect_timeout: CONNECT_TIMEOUT, random_bits }).map_err(Failure::System)
}

/// Adds the API path of a provider to an address that has only a host.
fn with_api_path(typed: &str, provider: Provider) -> Cow<'_, str> {
    let bare = typed.trim().trim_end_matches('/');
    let host = authority(bare);
    if host.is_empty() || !bare.ends_with(host) {
        return Cow::Borrowed(typed);
    }
    let api_path = provider.base_url().map(|base_url| {
        let host = authority(base_url);
        base_url.find(host).map_or("", |at| &base_url[at + host.len()..])
    });
    Cow::Owned(format!("{bare}{}", api_path.unwrap_or(DEFAULT_API_PATH)))
}

/// Returns the host and port of an address.
fn authority(address: &str) -> &str {
    let without_scheme = address.trim().split_once("://").map_or("", |(_, rest)| rest);
    without_scheme.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(api_format: ApiFormat, base_url: Option<&str>) -> Result<Destination, String> {
        let configured = UpstreamConfig { base_url: base_url.map(str::to_owned), ..UpstreamConfig::default() };
        Destination::new(api_format, &configured, &Vec::new())
    }

    #[test]
    fn requests_go_to_the_provider_of_their_api_format_or_to_the_configured_address() {
        let cases = [
            (ApiFormat::Messages, None, "https://api.anthropic.com/v1/messages"),
            (ApiFormat::Chat, None, "https://api.openai.com/v1/chat/completions"),
            (ApiFormat::Responses, None, "https://api.openai.com/v1/responses"),
            (ApiFormat::Messages, Some("http://127.0.0.1:9"), "http://127.0.0.1:9/v1/messages"),
            (ApiFormat::Chat, Some("http://127.0.0.1:9/"), "http://127.0.0.1:9/v1/chat/completions"),
            (ApiFormat::Responses, Some("http://h:9/v1"), "http://h:9/v1/responses"),
            (ApiFormat::Chat, Some("http://h/proxy/v1"), "http://h/proxy/v1/chat/completions"),
            (ApiFormat::Messages, Some("http://h/proxy"), "http://h/proxy/v1/messages"),
            (ApiFormat::Chat, Some("https://api.openai.com"), "https://api.openai.com/v1/chat/completions"),
            (ApiFormat::Chat, Some("https://api.deepseek.com"), "https://api.deepseek.com/chat/completions"),
            (ApiFormat::Messages, Some("https://openrouter.ai/api/v1"), "https://openrouter.ai/api/v1/messages"),
        ];
        for (api_format, base_url, address) in cases {
            let built = destination(api_format, base_url).unwrap();
            assert_eq!(built.url(), address);
            assert!(address.starts_with(&built.origin()) && built.origin().matches('/').count() == 2);
        }
    }

    #[test]
    fn a_feature_is_the_providers_at_its_own_address_and_otherwise_what_was_configured() {
        let has =
            |api_format, base_url, feature| destination(api_format, base_url).unwrap().upstream.has_native(feature);
        let (edits, compact) = (NativeFeature::ContextManagement, NativeFeature::ResponsesCompact);
        assert!(has(ApiFormat::Messages, None, edits) && has(ApiFormat::Responses, None, compact));
        assert!(has(ApiFormat::Messages, Some("https://api.anthropic.com"), edits));
        assert!(has(ApiFormat::Responses, Some("https://me.openai.azure.com/openai/v1"), compact));
        assert!(!has(ApiFormat::Messages, Some("http://127.0.0.1:9"), edits));
        assert!(!has(ApiFormat::Responses, Some("https://openrouter.ai/api/v1"), compact));
        let configured_with = |native: Vec<NativeFeature>| {
            let base_url = Some("http://127.0.0.1:9".to_owned());
            let configured = UpstreamConfig { base_url, api_key_env: None, native: Some(native) };
            Destination::new(ApiFormat::Messages, &configured, &Vec::new()).unwrap()
        };
        assert_eq!(configured_with(vec![edits]).emulated_features().count(), 0);
        assert_eq!(configured_with(Vec::new()).emulated_features().collect::<Vec<_>>(), [edits]);
    }

    #[test]
    fn a_wrong_address_and_a_key_that_is_not_there_are_one_line() {
        let wrong = destination(ApiFormat::Chat, Some("localhost:8080")).err().unwrap();
        assert_eq!(
            wrong,
            "upstreams.chat: base_url of `compatible` has no scheme: it must begin with https:// or http://"
        );
        let configured = UpstreamConfig { api_key_env: Some("NOT_SET".to_owned()), ..UpstreamConfig::default() };
        let wrong = Destination::new(ApiFormat::Messages, &configured, &Vec::new()).err().unwrap();
        assert!(wrong.starts_with("upstreams.messages: the variable NOT_SET has no key for anthropic"), "{wrong}");
    }

    #[test]
    fn local_addresses_and_unencrypted_ones_are_recognized() {
        for local in [
            "http://127.0.0.1:1/v1",
            "http://localhost",
            "https://[::1]:8080/",
            "http://127.9.9.9",
            "http://[::ffff:127.0.0.1]",
            "http://LOCALHOST:1",
        ] {
            assert!(is_local(local), "{local}");
        }
        for remote in [
            "http://10.0.0.1:80",
            "https://localhost.example.com",
            "http://[2001:db8::1]",
            "http://127.evil.example/v1",
            "http://127.0.0.1.evil.example",
            "http://127.1",
            "http://127.0.0.1@evil.example",
            "http://evil.example#127.0.0.1",
            "",
        ] {
            assert!(!is_local(remote), "{remote}");
        }
        let is_open = |base_url| destination(ApiFormat::Chat, Some(base_url)).unwrap().is_unencrypted();
        assert!(is_open("http://10.0.0.1/v1") && !is_open("https://10.0.0.1/v1") && !is_open("http://127.0.0.1/v1"));
    }
}
