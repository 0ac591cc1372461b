//! Who is asked, where, and with whose key: what the configuration says, and what it leaves to be found out.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Dialect;
use longhaul_engine::models::{self, Model};
use longhaul_engine::policy::Policy;
use longhaul_server::session::Writer;
use longhaul_server::upstream::{Patience, Provider};

use crate::config::{AUTO, AuxiliaryModel, Environment, UpstreamSettings};
use crate::upstreams::{self, Place, by_address, serves};

/// A model that can be asked, and the variable whose key pays for it.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) writer: Writer,
    key_env: Option<String>,
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
        let (place, key_env) = (Place { provider, base_url }, settings.api_key_env.as_deref());
        Self::new(&place, key_env, (policy, settings), environment)
            .map_err(|error| format!("{SECTION}: {error}"))
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
        // Whose dialect it is, where the address is nobody's that is known. Chat Completions are everybody's.
        let vendor = upstreams::vendor(dialect).filter(|_| dialect != Dialect::Chat);
        let provider = match base_url {
            Some(address) => {
                let there = by_address(address);
                let speaks = there.filter(|there| serves(*there, dialect));
                speaks.or(vendor).or(there)
            }
            None => vendor.or_else(|| by_name(&policy.model.name)),
        };
        let place = Place { provider: provider?, base_url };
        let seat = Self::new(&place, key_env, (policy, settings), environment);
        Some(seat.map_err(|error| format!("upstreams.{dialect}: {error}")))
    }

    fn new(
        place: &Place<'_>,
        key_env: Option<&str>,
        (policy, settings): (&Policy, &AuxiliaryModel),
        environment: &Environment,
    ) -> Result<Self, String> {
        let key_env = key_env.or(place.usual_key());
        let upstream = Arc::new(place.upstream(key_env, environment)?);
        let patience = Patience::of(Duration::from_secs(settings.timeout_seconds));
        let price = policy.prices.as_ref().map(|prices| prices.price);
        let writer = Writer { model: policy.model.clone(), price, upstream, patience };
        Ok(Self { writer, key_env: key_env.map(str::to_owned) })
    }

    /// The model's name.
    pub(crate) fn model(&self) -> &str {
        &self.writer.model.name
    }

    /// Where its requests go, without what somebody may have put behind the address.
    pub(crate) fn address(&self) -> String {
        let upstream = &self.writer.upstream;
        upstreams::shown(upstream, upstream.provider().dialect())
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
}

/// The provider that a model's name gives away: `vendor/model` is how `OpenRouter` names it, and the others serve their own.
fn by_name(name: &str) -> Option<Provider> {
    if name.contains('/') {
        return Provider::named("openrouter");
    }
    let Model { row, facts, .. } = models::find(name);
    row.and_then(|_| Provider::named(&facts.host))
}
