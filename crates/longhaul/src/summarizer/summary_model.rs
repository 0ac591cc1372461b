//! A model that can write a summary: its provider, its address and its key, from the configuration and from
//! what that implies.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::ApiFormat;
use longhaul_engine::models::{self, Model};
use longhaul_engine::policy::Policy;
use longhaul_server::session::SummaryWriter;
use longhaul_server::upstream::{Payer, Provider, Timeouts};

use crate::config::{AUTO_PROVIDER, AuxiliaryModelConfig, Environment, UpstreamConfig};
use crate::upstreams::{self, ModelEndpoint, fits_api_format, provider_at};

/// A model that can be asked, and the variable whose key pays for it.
#[derive(Debug, Clone)]
pub(crate) struct SummaryModel {
    pub(crate) writer: SummaryWriter,
    key_variable: Option<String>,
}

impl SummaryModel {
    /// Returns the model that is configured for summaries. The error is one line that starts with the
    /// configuration key.
    pub(super) fn from_auxiliary(
        settings: &AuxiliaryModelConfig,
        policy: &Policy,
        environment: &Environment,
    ) -> Result<Self, String> {
        const SECTION: &str = "auxiliary.compression";
        let name = &policy.model.name;
        let base_url = settings.base_url.as_deref();
        let provider = match (settings.provider.as_str(), base_url) {
            (AUTO_PROVIDER, Some(address)) => provider_at(address),
            (AUTO_PROVIDER, None) => provider_by_model_name(name),
            (named, _) => Provider::named(named),
        };
        let provider = provider.ok_or_else(|| {
            format!("{SECTION}.provider: the provider of {name} is unknown; set provider or base_url")
        })?;
        let (endpoint, key_env) = (ModelEndpoint { provider, base_url }, settings.api_key_env.as_deref());
        Self::new(&endpoint, key_env, (policy, settings), environment).map_err(|error| format!("{SECTION}: {error}"))
    }

    /// Returns the session's own model, or `None` if its upstream is not configured.
    pub(super) fn from_upstream(
        upstream: &UpstreamConfig,
        settings: &AuxiliaryModelConfig,
        (policy, api_format): (&Policy, ApiFormat),
        environment: &Environment,
    ) -> Option<Result<Self, String>> {
        upstream.base_url.as_ref().or(upstream.api_key_env.as_ref())?;
        Self::own_model(upstream, settings, (policy, api_format), environment)
    }

    /// Returns the session's own model at its configured upstream, or else at the provider's own address with the
    /// key in the provider's usual variable. Returns `None` if its provider is unknown.
    pub(super) fn own_model(
        upstream: &UpstreamConfig,
        settings: &AuxiliaryModelConfig,
        (policy, api_format): (&Policy, ApiFormat),
        environment: &Environment,
    ) -> Option<Result<Self, String>> {
        let (base_url, key_env) = (upstream.base_url.as_deref(), upstream.api_key_env.as_deref());
        // The provider of the API format, for an address that is unknown. For Chat Completions there is none,
        // because every provider has it.
        let format_provider = upstreams::default_provider(api_format).filter(|_| api_format != ApiFormat::Chat);
        let provider = match base_url {
            Some(address) => {
                let provider_there = provider_at(address);
                let fitting = provider_there.filter(|provider| fits_api_format(*provider, api_format));
                fitting.or(format_provider).or(provider_there)
            }
            None => format_provider.or_else(|| provider_by_model_name(&policy.model.name)),
        };
        let endpoint = ModelEndpoint { provider: provider?, base_url };
        let model = Self::new(&endpoint, key_env, (policy, settings), environment);
        Some(model.map_err(|error| format!("upstreams.{api_format}: {error}")))
    }

    fn new(
        endpoint: &ModelEndpoint<'_>,
        key_env: Option<&str>,
        (policy, settings): (&Policy, &AuxiliaryModelConfig),
        environment: &Environment,
    ) -> Result<Self, String> {
        let key_env = key_env.or(endpoint.default_key_variable());
        let upstream = Arc::new(endpoint.to_upstream(key_env, environment)?);
        let timeouts = Timeouts::with_total(Duration::from_secs(settings.timeout_seconds));
        let price = policy.prices.as_ref().map(|prices| prices.price);
        let payer = Payer::Upstream;
        let writer = SummaryWriter { model: policy.model.clone(), price, upstream, payer, timeouts };
        Ok(Self { writer, key_variable: key_env.map(str::to_owned) })
    }

    /// Returns the name of the model.
    pub(crate) fn model_name(&self) -> &str {
        &self.writer.model.name
    }

    /// Returns the URL for requests, without query and fragment, which may contain a secret.
    pub(crate) fn url(&self) -> String {
        let upstream = &self.writer.upstream;
        upstreams::display_url(upstream, upstream.provider().default_api_format())
    }

    /// Returns the variable that contains the key.
    pub(crate) fn key_variable(&self) -> Option<&str> {
        self.key_variable.as_deref()
    }

    /// Describes who pays.
    pub(super) fn payer_text(&self) -> String {
        self.key_variable.as_ref().map_or_else(|| "no key is sent".to_owned(), |name| format!("the key in {name} pays"))
    }
}

/// Finds the provider that a model name implies: `vendor/model` is a name at `OpenRouter`, and other known
/// models are at their own provider.
fn provider_by_model_name(name: &str) -> Option<Provider> {
    if name.contains('/') {
        return Provider::named("openrouter");
    }
    let Model { row, facts, .. } = models::find(name);
    row.and_then(|_| Provider::named(&facts.host))
}
