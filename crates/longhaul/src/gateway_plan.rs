//! The gateway as configured, for `serve` and `run`.
//!
//! ```text
//! configuration ──▶ GatewayPlan: upstreams, summarizer, engines ──open_store, build_gateway──▶ Gateway
//! ```

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::ApiFormat;
use longhaul_engine::prices::Dollars;
use longhaul_engine::redact::Rules;
use longhaul_server::DailyBudget;
use longhaul_server::gateway::{
    CacheKeepAlive, ClientAccess, Gateway, GatewayEnvironment, GatewayLimits, GatewaySettings, RecallMode, Switch,
    Upstreams,
};
use longhaul_server::session::{AutoCompaction, DefaultHost, SessionLimits, SessionSettings, SummaryStart};
use longhaul_server::store::Store;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::cli::StoreFlags;
use crate::commands::redact;
use crate::config::{self, Environment, Flag, Settings};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::store::{self, ConfiguredStore};
use crate::summarizer;
use crate::upstreams::{self, Destination};

/// How long a gateway that has stopped may continue to write records. Chosen by hand.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time between two checks whether the gateway has written its records. Chosen by hand.
const SETTLE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A gateway that is configured but not started. Its store is not open yet.
pub(crate) struct GatewayPlan {
    pub(crate) settings: Settings,
    pub(crate) rules: Rules,
    pub(crate) store: ConfiguredStore,
    pub(crate) destinations: Vec<Destination>,
    /// A text that describes who writes summaries.
    pub(crate) summarizer_text: String,
    /// The engines. If the configuration names a plug-in, it is running.
    pub(crate) available_engines: AvailableEngines,
    session_settings: SessionSettings,
    upstreams: Upstreams,
}

impl GatewayPlan {
    /// Plans a gateway from the configuration and the options of a call.
    pub(crate) fn new(store_flags: &StoreFlags, flags: Vec<Flag>, environment: &Environment) -> Result<Self, Failure> {
        let settings = Settings::load(store_flags.config.as_deref(), environment, flags)?;
        settings.check_for_gateway()?;
        let rules = redact::load_rules(&settings)?;
        let store = ConfiguredStore::new(store_flags.store.as_deref(), &settings.app.store, environment)?;
        let destination_for = |api_format| {
            let configured = settings.app.upstreams.for_api_format(api_format);
            Destination::new(api_format, configured, environment).map_err(Failure::InvalidInput)
        };
        let api_formats = [ApiFormat::Messages, ApiFormat::Chat, ApiFormat::Responses];
        let destinations = api_formats.into_iter().map(destination_for).collect::<Result<Vec<_>, _>>()?;
        let upstreams = new_upstreams(&destinations)?;
        let (summarizer, summaries) = summarizer::for_gateway(&settings, environment, upstreams.clone())?;
        let available = AvailableEngines::new(&settings, environment, PluginCaller::Gateway)?.start_plugin();
        let (compression, auxiliary) = (&settings.app.compression, &settings.app.auxiliary.compression);
        let session = SessionSettings {
            config: settings.engine.clone(),
            engines: available.engines.clone(),
            auto_compaction: if compression.enabled { AutoCompaction::On } else { AutoCompaction::Off },
            safety_share: compression.hygiene_threshold,
            max_summary_wait: Duration::from_secs(compression.max_wait_seconds),
            summarizer,
            summary_start: SummaryStart::AfterReply,
            limits: SessionLimits {
                daily_budget: Some(Arc::new(DailyBudget::new(Dollars(auxiliary.max_usd_per_day)))),
                max_summary_cost_share: Some(auxiliary.max_share_of_saving),
                ..SessionLimits::default()
            },
            rules: rules.clone(),
            ..SessionSettings::default()
        };
        Ok(Self {
            settings,
            rules,
            store,
            destinations,
            summarizer_text: summaries,
            available_engines: available,
            session_settings: session,
            upstreams,
        })
    }

    /// Returns the upstream for requests in an API format.
    pub(crate) fn destination(&self, api_format: ApiFormat) -> Option<&Destination> {
        self.destinations.iter().find(|destination| destination.api_format == api_format)
    }

    /// Opens the store, and creates it if it does not exist.
    pub(crate) async fn open_store(&self) -> Result<Store, Failure> {
        self.store.open_async().await
    }

    /// Builds the gateway over an open store.
    pub(crate) fn build_gateway(&self, store: Store, access: ClientAccess) -> Result<Arc<Gateway>, Failure> {
        let config = &self.settings.app.gateway;
        let addresses: Vec<String> = self.destinations.iter().map(Destination::url).collect();
        let client = upstreams::new_client(addresses.iter().map(String::as_str))?;
        let keep_alive =
            config.keep_alive.enabled.then_some(CacheKeepAlive { max_per_day: Dollars(config.keep_alive.usd_per_day) });
        let settings = GatewaySettings {
            session: self.session_settings.clone(),
            compression: if self.settings.app.compression.enabled { Switch::On } else { Switch::Off },
            commands: if config.commands { Switch::On } else { Switch::Off },
            recall: match config.recall {
                config::RecallSetting::Off => RecallMode::Off,
                config::RecallSetting::Auto => RecallMode::Auto,
                config::RecallSetting::On => RecallMode::On,
            },
            upstreams: self.upstreams.clone(),
            access,
            hosts: config.hosts.clone(),
            limits: GatewayLimits {
                max_body_bytes: usize::try_from(config.max_body_bytes).unwrap_or(usize::MAX),
                max_total_body_bytes: usize::try_from(config.max_bodies_bytes).unwrap_or(usize::MAX),
                max_connections: config.max_connections as usize,
                drain_timeout: Duration::from_secs(config.drain_seconds),
                ..GatewayLimits::default()
            },
            keep_alive,
        };
        let environment = GatewayEnvironment { clock: Arc::new(store::now), host: Arc::new(DefaultHost) };
        Ok(Gateway::new(settings, store, client, environment))
    }
}

/// Returns the upstream of each API format.
fn new_upstreams(destinations: &[Destination]) -> Result<Upstreams, Failure> {
    let upstream = |api_format| {
        let destination = destinations.iter().find(|destination| destination.api_format == api_format);
        let upstream = destination.map(|destination| Arc::clone(&destination.upstream));
        upstream.ok_or_else(|| Failure::System(format!("there is no upstream for {api_format}")))
    };
    Ok(Upstreams {
        chat: upstream(ApiFormat::Chat)?,
        messages: upstream(ApiFormat::Messages)?,
        responses: upstream(ApiFormat::Responses)?,
    })
}

/// Builds the async runtime for a gateway.
pub(crate) fn new_runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::System(format!("cannot start the runtime: {error}")))
}

/// Waits until no task uses the gateway any more, up to [`SETTLE_TIMEOUT`]: the records of a request are
/// written after its reply.
pub(crate) async fn wait_until_idle(gateway: &Arc<Gateway>) {
    let others = async {
        while Arc::strong_count(gateway) > 1 {
            sleep(SETTLE_POLL_INTERVAL).await;
        }
    };
    let _ = timeout(SETTLE_TIMEOUT, others).await;
}
