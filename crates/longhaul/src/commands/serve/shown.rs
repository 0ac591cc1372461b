//! What a gateway says about itself when it begins.

use longhaul_engine::cache::{Provider, Route};
use longhaul_engine::models;
use longhaul_engine::plan::Source;
use longhaul_engine::policy::Policy;
use longhaul_server::gateway::Access;
use longhaul_server::upstream::Feature;
use serde::Serialize;

use crate::agents;
use crate::config::{Listen, Recall};
use crate::output::{FAINT, FAIR, Line, Page, STRONG};
use crate::route;
use crate::serving::Plan;
use crate::upstreams::Destination;

#[derive(Serialize)]
pub(super) struct Shown {
    url: String,
    store: String,
    engine: String,
    /// Where that is from, unless it is built in.
    engine_from: Option<String>,
    compression: bool,
    /// When models are offered the recall tools.
    recall: Recall,
    threshold: f64,
    hygiene_threshold: f64,
    summaries: String,
    caching: Vec<String>,
    upstreams: Vec<Upstream>,
    /// What is served here, because the upstream is not known to have it.
    serves: Vec<&'static str>,
    keys: bool,
    agents: Vec<Pointed>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Upstream {
    dialect: String,
    address: String,
    key_env: Option<String>,
    #[serde(skip)]
    payer: String,
}

#[derive(Serialize)]
struct Pointed {
    name: &'static str,
    line: String,
}

impl Shown {
    pub(super) fn new(plan: &Plan, listen: Listen, access: &Access) -> Self {
        let url = format!("http://{listen}");
        let (shell, engine) = (&plan.settings.shell, &plan.settings.engine);
        let upstream = |there: &Destination| Upstream {
            dialect: there.dialect.to_string(),
            address: there.address(),
            key_env: there.key_env.clone(),
            payer: there.payer(),
        };
        let engine_in_force = plan.available.engines.of(&engine.context.engine);
        let mut caching: Vec<String> = Vec::new();
        for status in plan.destinations.iter().filter_map(|there| caching_of(plan, there)) {
            if !caching.contains(&status) {
                caching.push(status);
            }
        }
        Self {
            store: plan.store.shown(),
            engine: engine_in_force.name().to_string(),
            engine_from: match engine_in_force.source() {
                Source::Plugin(folder) => Some(folder),
                Source::Host | Source::BuiltIn => None,
            },
            compression: shell.compression.enabled,
            recall: shell.gateway.recall,
            threshold: engine.compression.threshold,
            hygiene_threshold: shell.compression.hygiene_threshold,
            summaries: plan.summaries.clone(),
            caching,
            upstreams: plan.destinations.iter().map(upstream).collect(),
            serves: serves(plan),
            keys: *access == Access::Keys,
            agents: agents::all()
                .map(|agent| Pointed { name: &agent.name, line: agent.line(&url) })
                .collect(),
            warnings: warnings(plan, listen),
            url,
        }
    }

    pub(super) fn page(&self) -> Page {
        let mut page = Page::default();
        page.line(Line::from("longhaul listens on ").styled(STRONG, &self.url));
        page.line(Line::default().styled(FAINT, "what it does is shown there, in a browser"));
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let engine = if self.compression {
            let (due, hygiene) = (percent(self.threshold), percent(self.hygiene_threshold));
            let from =
                self.engine_from.as_ref().map_or_else(String::new, |from| format!(" (plug-in in {from})"));
            format!("{}{from}, due at {due} of the window, at {hygiene} whatever else holds", self.engine)
        } else {
            "none: every byte passes as it came".to_owned()
        };
        let mut rows = vec![
            ("store".to_owned(), self.store.clone()),
            ("engine".to_owned(), engine),
            ("summaries".to_owned(), self.summaries.clone()),
            ("recall".to_owned(), when(self.recall).to_owned()),
        ];
        rows.extend(self.caching.iter().map(|status| ("caching".to_owned(), status.clone())));
        for Upstream { dialect, address, payer, .. } in &self.upstreams {
            rows.push((dialect.clone(), format!("{address}, {payer} pays")));
        }
        if !self.serves.is_empty() {
            rows.push(("served here".to_owned(), self.serves.join(", ")));
        }
        let keys = if self.keys {
            "only with a key of this store (longhaul keys)"
        } else {
            "whoever reaches it, until longhaul keys add"
        };
        rows.push(("let in".to_owned(), keys.to_owned()));
        let label = |name: &str| Line::default().styled(FAINT, format!("  {name}"));
        page.table(rows.iter().map(|(name, text)| [label(name), Line::from(text.as_str())]));
        page.blank();
        page.line("How to point agents here; longhaul run -- AGENT does it for one run:");
        page.table(self.agents.iter().map(|Pointed { name, line }| [label(name), Line::from(line.as_str())]));
        for warning in &self.warnings {
            page.line(Line::default().styled(FAIR, warning));
        }
        page
    }
}

/// What is served for upstreams that are not known to have it.
fn serves(plan: &Plan) -> Vec<&'static str> {
    let is_on = plan.settings.shell.compression.enabled;
    let served = plan.destinations.iter().filter(|_| is_on).flat_map(Destination::served);
    served.map(Feature::name).collect()
}

/// When models can reach back, in words.
fn when(recall: Recall) -> &'static str {
    match recall {
        Recall::Off => "models are offered no tools for it",
        Recall::Auto => "models are offered tools for it once something was compacted",
        Recall::On => "models are offered tools for it from the first request on",
    }
}

/// The line about the provider's cache, for the model that requests of a dialect are usually for.
fn caching_of(plan: &Plan, there: &Destination) -> Option<String> {
    let named = Provider::named(there.upstream.provider().name());
    let provider = named.or_else(|| route::vendor(there.dialect))?;
    let model = models::find(provider.usual_model()?).served_by(provider.name());
    let (policy, _) = Policy::new(&plan.settings.engine, &model).ok()?;
    let way = Route::new(&policy.caching, &policy.model, Some(provider), there.dialect);
    Some(way.status(&policy.model, Some(provider)))
}

/// What may not be what was meant.
fn warnings(plan: &Plan, listen: Listen) -> Vec<String> {
    let mut warnings = plan.settings.note_lines(&plan.settings.warnings);
    warnings.extend(plan.available.notes.iter().cloned());
    if !listen.is_local() {
        warnings.push(format!(
            "warning: {listen} speaks no TLS: what passes can be read on the way; put a server that does in front of it"
        ));
    }
    for there in plan.destinations.iter().filter(|there| there.is_open_to_others()) {
        let (dialect, address) = (there.dialect, there.address());
        warnings.push(format!(
            "warning: upstreams.{dialect}: {address} speaks no TLS: keys and transcripts can be read on the way"
        ));
    }
    warnings
}
