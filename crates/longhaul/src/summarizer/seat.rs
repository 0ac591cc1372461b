//! Who is asked, where, and with whose key: what the configuration says, and what it leaves to be found out.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Dialect;
use longhaul_engine::models::{self, Model};
use longhaul_engine::policy::Policy;
use longhaul_server::session::Writer;
use longhaul_server::upstream::{Key, Patience, Provider, Upstream};

use crate::config::{AUTO, AuxiliaryModel, Environment, UpstreamSettings};

/// What stands in the addresses of resources at Azure.
const AZURE: &str = ".openai.azure.com";

/// A model that can be asked, and the variable whose key pays for it.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) writer: Writer,
    key_env: Option<String>,
}

/// Where a model is, before its key is looked for.
struct Place<'c> {
    provider: Provider,
    base_url: Option<&'c str>,
    key_env: Option<&'c str>,
}

impl Seat {
    /// The model that is meant for summaries. The error is one line that begins with the key it is about.
    pub(super) fn auxiliary(
        settings: &AuxiliaryModel,
        policy: &Policy,
        environment: &Environment,
    ) -> Result<Self, String> {
        const SECTION: &str = "auxiliary.compression";
        let name = &policy.model.name;
        let base_url = settings.base_url.as_deref();
        let provider = match (settings.provider.as_str(), base_url) {
            (AUTO, Some(address)) => by_address(address),
            (AUTO, None) => by_name(name),
            (named, _) => Provider::named(named),
        };
        let provider = provider.ok_or_else(|| {
            format!("{SECTION}.provider: nothing tells who serves {name}; name a provider, or set base_url")
        })?;
        let place = Place { provider, base_url, key_env: settings.api_key_env.as_deref() };
        place.seat(policy, settings, environment).map_err(|error| format!("{SECTION}: {error}"))
    }

    /// The session's own model, where its upstream is configured.
    pub(super) fn main(
        upstream: &UpstreamSettings,
        settings: &AuxiliaryModel,
        (policy, dialect): (&Policy, Dialect),
        environment: &Environment,
    ) -> Option<Result<Self, String>> {
        let (base_url, key_env) = (upstream.base_url.as_deref(), upstream.api_key_env.as_deref());
        base_url.or(key_env)?;
        // Whose dialect it is, where the address is nobody's that is known.
        let vendor = match dialect {
            Dialect::Messages => Provider::named("anthropic"),
            Dialect::Responses => Provider::named("openai"),
            Dialect::Chat => None,
        };
        let provider = match base_url {
            Some(address) => {
                let there = by_address(address);
                let speaks = there.filter(|there| there.dialect() == dialect || there.base_url().is_some());
                speaks.or(vendor).or(there)
            }
            None => vendor.or_else(|| by_name(&policy.model.name)),
        };
        let place = Place { provider: provider?, base_url, key_env };
        let section = format!("upstreams.{dialect}");
        Some(place.seat(policy, settings, environment).map_err(|error| format!("{section}: {error}")))
    }

    /// The model's name.
    pub(crate) fn model(&self) -> &str {
        &self.writer.model.name
    }

    /// Where its requests go, without what somebody may have put behind the address.
    pub(crate) fn address(&self) -> String {
        let upstream = &self.writer.upstream;
        let url = upstream.url(upstream.provider().dialect());
        url.map_or_else(String::new, |mut url| {
            url.set_query(None);
            url.set_fragment(None);
            url.to_string()
        })
    }

    /// The variable that holds the key.
    pub(crate) fn key_env(&self) -> Option<&str> {
        self.key_env.as_deref()
    }

    /// Who pays, in words.
    pub(super) fn payer(&self) -> String {
        self.key_env
            .as_ref()
            .map_or_else(|| "no key is sent".to_owned(), |name| format!("the key in {name} pays"))
    }

    /// Whether it is on this machine, where no proxy is in between.
    pub(super) fn is_local(&self) -> bool {
        let upstream = &self.writer.upstream;
        let host =
            upstream.url(upstream.provider().dialect()).and_then(|url| url.host_str().map(str::to_owned));
        host.is_some_and(|host| host == "localhost" || host == "[::1]" || host.starts_with("127."))
    }
}

impl Place<'_> {
    fn seat(
        &self,
        policy: &Policy,
        settings: &AuxiliaryModel,
        environment: &Environment,
    ) -> Result<Seat, String> {
        let provider = self.provider;
        // The usual key is for the provider's own address; whoever sends one elsewhere has to say so.
        let usual = provider.key_env().filter(|_| self.is_at_home());
        let key_env = self.key_env.or(usual);
        let key = key_env.map(|name| {
            let value = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
            Key::new(value.unwrap_or_default()).ok_or_else(|| {
                let whose = provider.name();
                format!(
                    "{name} holds no key for {whose}; set it, or name the variable that does in api_key_env"
                )
            })
        });
        let upstream = Arc::new(Upstream::new(provider, self.base_url, key.transpose()?)?);
        let patience = Patience::of(Duration::from_secs(settings.timeout_seconds));
        let price = policy.prices.as_ref().map(|prices| prices.price);
        let writer = Writer { model: policy.model.clone(), price, upstream, patience };
        Ok(Seat { writer, key_env: key_env.map(str::to_owned) })
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

/// The provider at an address; any that is not known speaks Chat Completions.
fn by_address(address: &str) -> Option<Provider> {
    let typed = authority(address);
    let is_there = |provider: &Provider| match provider.base_url() {
        Some(own) => authority(own) == typed,
        None => provider.name() == "azure" && typed.ends_with(AZURE),
    };
    Provider::all().find(is_there).or_else(|| Provider::named("compatible"))
}

/// The provider that a model's name gives away: `vendor/model` is how OpenRouter names it, and the others serve their own.
fn by_name(name: &str) -> Option<Provider> {
    if name.contains('/') {
        return Provider::named("openrouter");
    }
    let Model { row, facts, .. } = models::find(name);
    row.and_then(|_| Provider::named(&facts.host))
}

/// Host and port of an address.
fn authority(address: &str) -> &str {
    let behind = address.trim().split_once("://").map_or("", |(_, behind)| behind);
    behind.split(['/', '?', '#']).next().unwrap_or_default()
}
