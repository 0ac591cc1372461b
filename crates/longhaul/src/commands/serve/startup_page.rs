//! The page that the gateway prints when it starts.

use longhaul_engine::cache::{CacheProvider, CachingMode};
use longhaul_engine::models;
use longhaul_engine::plan::EngineSource;
use longhaul_engine::policy::Policy;
use longhaul_server::gateway::ClientAccess;
use longhaul_server::upstream::NativeFeature;
use serde::Serialize;

use crate::agent_setup;
use crate::config::{ListenAddress, RecallSetting};
use crate::gateway_plan::GatewayPlan;
use crate::output::{EMPHASIS_STYLE, Page, SECONDARY_STYLE, StyledLine, WARNING_STYLE};
use crate::provider_choice;
use crate::upstreams::Destination;

#[derive(Serialize)]
pub(super) struct ServeOutput {
    url: String,
    store: String,
    engine: String,
    /// The folder of the engine, if it is a plug-in.
    engine_from: Option<String>,
    compression: bool,
    /// When models are offered the recall tools.
    recall: RecallSetting,
    threshold: f64,
    hygiene_threshold: f64,
    summaries: String,
    caching: Vec<String>,
    upstreams: Vec<ServeUpstream>,
    /// The provider features that the gateway serves itself, because the upstream is not known to have them.
    serves: Vec<&'static str>,
    keys: bool,
    agents: Vec<ServeAgent>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct ServeUpstream {
    dialect: String,
    address: String,
    key_env: Option<String>,
    #[serde(skip)]
    payer: String,
}

#[derive(Serialize)]
struct ServeAgent {
    name: &'static str,
    line: String,
}

impl ServeOutput {
    pub(super) fn new(plan: &GatewayPlan, listen: ListenAddress, access: &ClientAccess) -> Self {
        let url = format!("http://{listen}");
        let (app, engine) = (&plan.settings.app, &plan.settings.engine);
        let upstream = |destination: &Destination| ServeUpstream {
            dialect: destination.api_format.to_string(),
            address: destination.url(),
            key_env: destination.key_variable.clone(),
            payer: destination.payer_text(),
        };
        let active_engine = plan.available_engines.engines.find_or_compressor(&engine.context.engine);
        let mut caching: Vec<String> = Vec::new();
        for status in plan.destinations.iter().filter_map(|destination| caching_status(plan, destination)) {
            if !caching.contains(&status) {
                caching.push(status);
            }
        }
        Self {
            store: plan.store.label(),
            engine: active_engine.name().to_string(),
            engine_from: match active_engine.source() {
                EngineSource::Plugin(folder) => Some(folder),
                EngineSource::Host | EngineSource::BuiltIn => None,
            },
            compression: app.compression.enabled,
            recall: app.gateway.recall,
            threshold: engine.compression.threshold,
            hygiene_threshold: app.compression.hygiene_threshold,
            summaries: plan.summarizer_text.clone(),
            caching,
            upstreams: plan.destinations.iter().map(upstream).collect(),
            serves: served_features(plan),
            keys: *access == ClientAccess::Keys,
            agents: agent_setup::all()
                .map(|agent| ServeAgent { name: &agent.name, line: agent.shell_command(&url) })
                .collect(),
            warnings: warnings(plan, listen),
            url,
        }
    }

    pub(super) fn page(&self) -> Page {
        let mut page = Page::default();
        page.add_line(StyledLine::from("longhaul listens on ").styled(EMPHASIS_STYLE, &self.url));
        page.add_line(
            StyledLine::default().styled(SECONDARY_STYLE, "open this address in a browser for the dashboard"),
        );
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let engine = if self.compression {
            let (threshold, safety_threshold) = (percent(self.threshold), percent(self.hygiene_threshold));
            let from = self.engine_from.as_ref().map_or_else(String::new, |from| format!(" (plug-in in {from})"));
            format!(
                "{}{from}, triggered at {threshold} of the window, at the safety threshold of {safety_threshold} in any case",
                self.engine
            )
        } else {
            "none: requests are passed through unchanged".to_owned()
        };
        let mut rows = vec![
            ("store".to_owned(), self.store.clone()),
            ("engine".to_owned(), engine),
            ("summaries".to_owned(), self.summaries.clone()),
            ("recall".to_owned(), recall_text(self.recall).to_owned()),
        ];
        rows.extend(self.caching.iter().map(|status| ("caching".to_owned(), status.clone())));
        for ServeUpstream { dialect, address, payer, .. } in &self.upstreams {
            rows.push((dialect.clone(), format!("{address}, {payer} pays")));
        }
        if !self.serves.is_empty() {
            rows.push(("served here".to_owned(), self.serves.join(", ")));
        }
        let keys = if self.keys {
            "only with a key of this store (longhaul keys)"
        } else {
            "everybody who can reach it, until you add a key (longhaul keys add)"
        };
        rows.push(("allowed".to_owned(), keys.to_owned()));
        let label = |name: &str| StyledLine::default().styled(SECONDARY_STYLE, format!("  {name}"));
        page.add_table(rows.iter().map(|(name, text)| [label(name), StyledLine::from(text.as_str())]));
        page.add_blank();
        page.add_line("How to point agents here; longhaul run -- AGENT does it for one run:");
        page.add_table(
            self.agents.iter().map(|ServeAgent { name, line }| [label(name), StyledLine::from(line.as_str())]),
        );
        for warning in &self.warnings {
            page.add_line(StyledLine::default().styled(WARNING_STYLE, warning));
        }
        page
    }
}

/// Lists the features that the gateway serves for upstreams that are not known to have them.
fn served_features(plan: &GatewayPlan) -> Vec<&'static str> {
    let is_on = plan.settings.app.compression.enabled;
    let served = plan.destinations.iter().filter(|_| is_on).flat_map(Destination::emulated_features);
    served.map(NativeFeature::name).collect()
}

/// Describes when models are offered the recall tools.
fn recall_text(recall: RecallSetting) -> &'static str {
    match recall {
        RecallSetting::Off => "models get no recall tools",
        RecallSetting::Auto => "models get recall tools once something was compacted",
        RecallSetting::On => "models get recall tools from the first request on",
    }
}

/// Describes how the provider's cache is used, for the default model of the upstream's provider.
fn caching_status(plan: &GatewayPlan, destination: &Destination) -> Option<String> {
    let named = CacheProvider::find(destination.upstream.provider().name());
    let provider = named.or_else(|| provider_choice::default_provider(destination.api_format))?;
    let model = models::find(provider.default_model()?).served_by(provider.name());
    let (policy, _) = Policy::new(&plan.settings.engine, &model).ok()?;
    let caching_mode = CachingMode::new(&policy.caching, &policy.model, Some(provider), destination.api_format);
    Some(caching_mode.status_line(&policy.model, Some(provider)))
}

/// Collects warnings about settings that the user may not have intended.
fn warnings(plan: &GatewayPlan, listen: ListenAddress) -> Vec<String> {
    let mut warnings = plan.settings.note_lines(&plan.settings.warnings);
    warnings.extend(plan.available_engines.notes.iter().cloned());
    if !listen.is_local() {
        warnings.push(format!(
            "warning: {listen} uses no TLS: traffic can be read on the network; put a TLS server in front of it"
        ));
    }
    for destination in plan.destinations.iter().filter(|destination| destination.is_unencrypted()) {
        let (api_format, address) = (destination.api_format, destination.url());
        warnings.push(format!(
            "warning: upstreams.{api_format}: {address} uses no TLS: keys and transcripts can be read on the network"
        ));
    }
    warnings
}
