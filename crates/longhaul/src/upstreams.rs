//! Where requests go, whose address that is, and whose key pays: for summaries, and for what passes the gateway.
//!
//! ```text
//! base_url, or the vendor of the dialect ──▶ Provider ──▶ Place ── key of a variable ──▶ Upstream
//! ```

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Dialect;
use longhaul_server::upstream::{Client, Feature, Key, Network, Provider, Proxies, Upstream};

use crate::config::{Environment, UpstreamSettings};
use crate::failure::Failure;

/// What stands in the addresses of resources at Azure.
const AZURE: &str = ".openai.azure.com";

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// Where the API of a server is whose address says nothing about it.
const API: &str = "/v1";

/// Where a model is, before its key is looked for.
pub(crate) struct Place<'c> {
    pub(crate) provider: Provider,
    pub(crate) base_url: Option<&'c str>,
}

impl Place<'_> {
    /// The variable that usually holds the key. That one is for the provider's own address; whoever sends it elsewhere has to say so.
    pub(crate) fn usual_key(&self) -> Option<&'static str> {
        self.provider.key_env().filter(|_| self.is_at_home())
    }

    /// The place with the key that a variable holds.
    pub(crate) fn upstream(
        &self,
        key_env: Option<&str>,
        environment: &Environment,
    ) -> Result<Upstream, String> {
        let whose = self.provider.name();
        let key = key_env.map(|name| {
            let value = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
            Key::new(value.unwrap_or_default()).ok_or_else(|| {
                format!(
                    "{name} holds no key for {whose}; set it, or name the variable that does in api_key_env"
                )
            })
        });
        Upstream::new(self.provider, self.base_url, key.transpose()?)
    }

    /// Whether it is asked at an address of the provider's own.
    fn is_at_home(&self) -> bool {
        let Some(typed) = self.base_url.map(authority) else { return true };
        match self.provider.base_url().map(authority) {
            Some(own) => own == typed,
            None => typed.ends_with(AZURE),
        }
    }
}

/// Where the gateway sends the requests of one dialect.
pub(crate) struct Destination {
    pub(crate) dialect: Dialect,
    pub(crate) upstream: Arc<Upstream>,
    /// The variable whose key pays; without one the client's own does.
    pub(crate) key_env: Option<String>,
}

impl Destination {
    /// The configured one, else the vendor's own. The error is one line that begins with the key it is about.
    pub(crate) fn new(
        dialect: Dialect,
        configured: &UpstreamSettings,
        environment: &Environment,
    ) -> Result<Self, String> {
        let section = |error: String| format!("upstreams.{dialect}: {error}");
        let vendor = vendor(dialect).ok_or_else(|| section("nobody speaks it".to_owned()))?;
        let typed = configured.base_url.as_deref();
        let there =
            typed.and_then(by_address).filter(|there| there.speaks(dialect) && serves(*there, dialect));
        let provider = there.unwrap_or(vendor);
        let base_url = typed.map(|typed| with_path(typed, provider));
        let place = Place { provider, base_url: base_url.as_deref() };
        let key_env = configured.api_key_env.clone();
        let upstream = place.upstream(key_env.as_deref(), environment).map_err(section)?;
        // Whoever is there has what is its own, by whichever row it is asked.
        let owner = Place { provider: typed.and_then(by_address).unwrap_or(vendor), base_url: typed };
        let known = if owner.is_at_home() { owner.provider.native() } else { &[] };
        let native = configured.native.clone().unwrap_or_else(|| known.to_vec());
        let upstream = upstream.with_native(native);
        Ok(Self { dialect, upstream: Arc::new(upstream), key_env })
    }

    /// Where requests go.
    pub(crate) fn address(&self) -> String {
        shown(&self.upstream, self.dialect)
    }

    /// Whose server that is.
    pub(crate) fn origin(&self) -> String {
        let address = self.address();
        let (scheme, host) = (address.split("://").next().unwrap_or_default(), authority(&address));
        format!("{scheme}://{host}")
    }

    /// What the gateway serves there itself, because the upstream is not known to have it.
    pub(crate) fn served(&self) -> impl Iterator<Item = Feature> {
        Feature::ALL.into_iter().filter(|own| own.dialect() == self.dialect && !self.upstream.has(*own))
    }

    /// Who pays, in words.
    pub(crate) fn payer(&self) -> String {
        self.key_env
            .as_ref()
            .map_or_else(|| "the client's own key".to_owned(), |name| format!("the key in {name}"))
    }

    /// Whether what is sent there can be read on the way.
    pub(crate) fn is_open_to_others(&self) -> bool {
        let address = self.address();
        address.starts_with("http://") && !is_local(&address)
    }
}

/// Whether a provider's row fits a dialect: one for any address is written for Chat Completions, and the vendors' own fit the others
/// better.
pub(crate) fn serves(provider: Provider, dialect: Dialect) -> bool {
    provider.dialect() == dialect || provider.base_url().is_some()
}

/// Whose dialect it is.
pub(crate) fn vendor(dialect: Dialect) -> Option<Provider> {
    Provider::named(match dialect {
        Dialect::Messages => "anthropic",
        Dialect::Chat | Dialect::Responses => "openai",
    })
}

/// The provider at an address; any that is not known speaks Chat Completions.
pub(crate) fn by_address(address: &str) -> Option<Provider> {
    let typed = authority(address);
    let is_there = |provider: &Provider| match provider.base_url() {
        Some(own) => authority(own) == typed,
        None => provider.name() == "azure" && typed.ends_with(AZURE),
    };
    Provider::all().find(is_there).or_else(|| Provider::named("compatible"))
}

/// Where requests of a dialect go, without what somebody may have put behind the address.
pub(crate) fn shown(upstream: &Upstream, dialect: Dialect) -> String {
    upstream.url(dialect).map_or_else(String::new, |mut url| {
        url.set_query(None);
        url.set_fragment(None);
        url.to_string()
    })
}

/// Whether an address is on this machine, where no proxy is in between.
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

/// What talks to upstreams; through the proxies of the environment, unless all of them are on this machine.
pub(crate) fn client<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Result<Client, Failure> {
    let is_at_home = addresses.into_iter().all(is_local);
    let proxies = if is_at_home { Proxies::None } else { Proxies::Environment };
    // Chance only spreads those who were turned away together, so that none is no harm.
    let dice = Arc::new(|| getrandom::u32().unwrap_or_default());
    Client::new(Network { proxies, connect: CONNECT, dice }).map_err(Failure::World)
}

/// An address that is a server's and nothing more, with the path to its API: that of the vendor whose API it serves.
fn with_path(typed: &str, provider: Provider) -> Cow<'_, str> {
    let bare = typed.trim().trim_end_matches('/');
    let host = authority(bare);
    if host.is_empty() || !bare.ends_with(host) {
        return Cow::Borrowed(typed);
    }
    let own = provider.base_url().map(|own| {
        let host = authority(own);
        own.find(host).map_or("", |at| &own[at + host.len()..])
    });
    Cow::Owned(format!("{bare}{}", own.unwrap_or(API)))
}

/// Host and port of an address.
fn authority(address: &str) -> &str {
    let behind = address.trim().split_once("://").map_or("", |(_, behind)| behind);
    behind.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(dialect: Dialect, base_url: Option<&str>) -> Result<Destination, String> {
        let configured =
            UpstreamSettings { base_url: base_url.map(str::to_owned), ..UpstreamSettings::default() };
        Destination::new(dialect, &configured, &Vec::new())
    }

    #[test]
    fn requests_go_to_the_vendor_of_their_dialect_or_where_they_are_told_to() {
        let cases = [
            (Dialect::Messages, None, "https://api.anthropic.com/v1/messages"),
            (Dialect::Chat, None, "https://api.openai.com/v1/chat/completions"),
            (Dialect::Responses, None, "https://api.openai.com/v1/responses"),
            (Dialect::Messages, Some("http://127.0.0.1:9"), "http://127.0.0.1:9/v1/messages"),
            (Dialect::Chat, Some("http://127.0.0.1:9/"), "http://127.0.0.1:9/v1/chat/completions"),
            (Dialect::Responses, Some("http://h:9/v1"), "http://h:9/v1/responses"),
            (Dialect::Chat, Some("http://h/proxy/v1"), "http://h/proxy/v1/chat/completions"),
            (Dialect::Messages, Some("http://h/proxy"), "http://h/proxy/v1/messages"),
            (Dialect::Chat, Some("https://api.openai.com"), "https://api.openai.com/v1/chat/completions"),
            (Dialect::Chat, Some("https://api.deepseek.com"), "https://api.deepseek.com/chat/completions"),
            (
                Dialect::Messages,
                Some("https://openrouter.ai/api/v1"),
                "https://openrouter.ai/api/v1/messages",
            ),
        ];
        for (dialect, base_url, address) in cases {
            let there = to(dialect, base_url).unwrap();
            assert_eq!(there.address(), address);
            assert!(address.starts_with(&there.origin()) && there.origin().matches('/').count() == 2);
        }
    }

    #[test]
    fn a_feature_is_the_providers_at_its_own_address_and_otherwise_what_was_configured() {
        let has = |dialect, base_url, feature| to(dialect, base_url).unwrap().upstream.has(feature);
        let (edits, compact) = (Feature::ContextManagement, Feature::ResponsesCompact);
        assert!(has(Dialect::Messages, None, edits) && has(Dialect::Responses, None, compact));
        assert!(has(Dialect::Messages, Some("https://api.anthropic.com"), edits));
        assert!(has(Dialect::Responses, Some("https://me.openai.azure.com/openai/v1"), compact));
        assert!(!has(Dialect::Messages, Some("http://127.0.0.1:9"), edits));
        assert!(!has(Dialect::Responses, Some("https://openrouter.ai/api/v1"), compact));
        let there = |native: Vec<Feature>| {
            let base_url = Some("http://127.0.0.1:9".to_owned());
            let configured = UpstreamSettings { base_url, api_key_env: None, native: Some(native) };
            Destination::new(Dialect::Messages, &configured, &Vec::new()).unwrap()
        };
        assert_eq!(there(vec![edits]).served().count(), 0);
        assert_eq!(there(Vec::new()).served().collect::<Vec<_>>(), [edits]);
    }

    #[test]
    fn a_wrong_address_and_a_key_that_is_not_there_are_one_line() {
        let wrong = to(Dialect::Chat, Some("localhost:8080")).err().unwrap();
        assert_eq!(wrong, "upstreams.chat: base_url of `compatible`: it must begin with https:// or http://");
        let configured =
            UpstreamSettings { api_key_env: Some("NOT_SET".to_owned()), ..UpstreamSettings::default() };
        let wrong = Destination::new(Dialect::Messages, &configured, &Vec::new()).err().unwrap();
        assert!(wrong.starts_with("upstreams.messages: NOT_SET holds no key for anthropic"), "{wrong}");
    }

    #[test]
    fn what_is_on_this_machine_is_known_and_what_others_could_read_is() {
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
        let is_open = |base_url| to(Dialect::Chat, Some(base_url)).unwrap().is_open_to_others();
        assert!(
            is_open("http://10.0.0.1/v1")
                && !is_open("https://10.0.0.1/v1")
                && !is_open("http://127.0.0.1/v1")
        );
    }
}
