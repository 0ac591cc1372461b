//! Summaries by a model, for a command that waits for them. The configuration names the model; by default
//! there is none.
//!
//! ```text
//! auxiliary.compression ──▶ SummaryModel ─┐
//! upstreams.FORMAT ──▶ SummaryModel ──────┴─ announce who pays ──request──▶ SummaryAttempt: a summary, or failures
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_engine::ApiFormat;
use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::{CompactionReport, WrittenBy};
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Dollars;
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::summary::{ModelSummary, SummaryJob};
use longhaul_server::session::{
    DefaultHost, FirstWriter, Host, OwnModel, Summarizer as SessionSummarizer, SummaryModels, SummaryResult,
    UnpricedModels, summarize_once,
};
use longhaul_server::upstream::{Client, Timeouts, Upstreams};
use tokio::runtime::{Builder, Runtime};

use crate::config::{
    AUTO_PROVIDER, AuxiliaryModelConfig, Environment, FirstModel, MAIN_PROVIDER, NO_PROVIDER, Settings, UpstreamsConfig,
};
use crate::failure::Failure;
use crate::{output, upstreams};
pub(crate) use summary_model::SummaryModel;

mod summary_model;

/// Returns the policy of the model that is configured for summaries, with the user's settings for that model.
pub(crate) fn configured_policy(settings: &Settings) -> Result<Option<Policy>, Failure> {
    let AuxiliaryModelConfig { model, provider, .. } = &settings.app.auxiliary.compression;
    let Some(name) = model.as_ref().filter(|_| provider != NO_PROVIDER) else { return Ok(None) };
    let policy = Policy::new(&settings.engine, &models::find(name));
    policy.map(|(policy, _)| Some(policy)).map_err(|invalid| settings.invalid_value_failure(&invalid))
}

/// Returns the summarizer for the sessions of a gateway, and a text that describes it. The session's own model is
/// asked if none is configured, or if the configured one fails; then our own code writes the checkpoint.
pub(crate) fn for_gateway(
    settings: &Settings,
    environment: &Environment,
    upstreams: Upstreams,
) -> Result<(SessionSummarizer, String), Failure> {
    let auxiliary_config = &settings.app.auxiliary.compression;
    let off_text = |reason: &str| format!("by our own code; no model is asked ({reason})");
    if !settings.app.compression.enabled {
        return Ok((SessionSummarizer::Code, off_text("compression.enabled: false")));
    }
    if auxiliary_config.provider == NO_PROVIDER {
        return Ok((SessionSummarizer::Code, off_text("auxiliary.compression.provider: none")));
    }
    let timeouts = Timeouts::with_total(Duration::from_secs(auxiliary_config.timeout_seconds));
    let own = Some(OwnModel::AsClient(upstreams));
    let limits = format!(
        "at most {:.0} % of what a compaction saves and {} a day; auxiliary.compression.provider: none turns it off",
        100.0 * auxiliary_config.max_share_of_saving,
        Dollars(auxiliary_config.max_usd_per_day)
    );
    let Some(policy) = configured_policy(settings)? else {
        if ![AUTO_PROVIDER, MAIN_PROVIDER].contains(&auxiliary_config.provider.as_str()) {
            return Ok((SessionSummarizer::Code, off_text("auxiliary.compression.model is not set")));
        }
        // Whoever names the session's own model knows what it costs; by default nothing without a price is asked.
        let unpriced =
            if auxiliary_config.provider == MAIN_PROVIDER { UnpricedModels::Ask } else { UnpricedModels::Skip };
        let first = FirstWriter::Auxiliary;
        let text = format!("by the session's own model, in the background, paid like the session; {limits}");
        return Ok((SessionSummarizer::Model(SummaryModels { auxiliary: None, own, first, timeouts, unpriced }), text));
    };
    let model = SummaryModel::from_auxiliary(auxiliary_config, &policy, environment).map_err(Failure::InvalidInput)?;
    let (name, url, payer) = (model.model_name(), model.url(), model.payer_text());
    let text = format!("by {name} at {url}, {payer}; if it fails, by the session's own model; {limits}");
    let first = match auxiliary_config.first {
        FirstModel::Auxiliary => FirstWriter::Auxiliary,
        FirstModel::Auto => FirstWriter::Auto,
    };
    let (auxiliary, unpriced) = (Some(model.writer), UnpricedModels::Ask);
    Ok((SessionSummarizer::Model(SummaryModels { auxiliary, own, first, timeouts, unpriced }), text))
}

/// Who writes summaries for a command that waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterChoice {
    /// The configured model, or the session's own if its upstream is configured and the configured one fails.
    Configured,
    /// The configured model, or the session's own if none is configured.
    Auto,
    /// The session's own model.
    Main,
}

/// Whether to print which model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announcement {
    Print,
    Silent,
}

/// The model that is configured for summaries, with what is needed to ask the session's own model if it
/// fails.
pub(crate) struct Summarizer {
    auxiliary: Option<SummaryModel>,
    choice: WriterChoice,
    settings: AuxiliaryModelConfig,
    upstreams: UpstreamsConfig,
    environment: Environment,
    runtime: Runtime,
    client: Arc<Client>,
    announcement: Announcement,
    /// The announcements that were printed already.
    announced: Mutex<BTreeSet<String>>,
}

/// The session to summarize.
pub(crate) struct SummarySubject<'a> {
    /// The policy for the session's own model.
    pub(crate) policy: &'a Policy,
    pub(crate) api_format: ApiFormat,
    pub(crate) rules: &'a Rules,
    pub(crate) key: Option<SessionKey>,
}

/// The result of asking for a summary.
#[derive(Debug, Clone)]
pub(crate) struct SummaryAttempt {
    pub(crate) summary: Option<ModelSummary>,
    /// The models that failed, each with the reason.
    pub(crate) failures: Vec<(String, String)>,
    cost: Option<Dollars>,
    /// The name of the model that is configured for summaries.
    auxiliary_name: Option<String>,
}

impl Summarizer {
    /// Returns the configured summarizer, or `None` without one. Wrong settings for reaching the model are
    /// invalid input.
    pub(crate) fn new(
        settings: &Settings,
        environment: &Environment,
        announcement: Announcement,
        choice: WriterChoice,
    ) -> Result<Option<Self>, Failure> {
        let app = &settings.app;
        if choice == WriterChoice::Auto && app.auxiliary.compression.provider == NO_PROVIDER {
            let problem =
                "auxiliary.compression.provider is none, so --summarizer auto asks no model; use --summarizer main";
            return Err(Failure::InvalidInput(problem.to_owned()));
        }
        let policy = if choice == WriterChoice::Main { None } else { configured_policy(settings)? };
        let auxiliary =
            policy.map(|policy| SummaryModel::from_auxiliary(&app.auxiliary.compression, &policy, environment));
        let auxiliary = auxiliary.transpose().map_err(Failure::InvalidInput)?;
        if auxiliary.is_none() && choice == WriterChoice::Configured {
            return Ok(None);
        }
        let addresses: Vec<String> = match &auxiliary {
            Some(auxiliary) => vec![auxiliary.url()],
            None => ApiFormat::ALL
                .iter()
                .map(|api_format| app.upstreams.for_api_format(*api_format).base_url.clone().unwrap_or_default())
                .collect(),
        };
        let client = upstreams::new_client(addresses.iter().map(String::as_str))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::System(format!("cannot start a runtime for model requests: {error}")))?;
        Ok(Some(Self {
            auxiliary,
            choice,
            settings: app.auxiliary.compression.clone(),
            upstreams: app.upstreams.clone(),
            environment: environment.clone(),
            runtime,
            client: Arc::new(client),
            announcement,
            announced: Mutex::default(),
        }))
    }

    /// Returns the model that is configured for summaries.
    pub(crate) fn auxiliary_model(&self) -> Option<&SummaryModel> {
        self.auxiliary.as_ref()
    }

    /// Asks for a summary and waits for it. `tag` is a random text that encloses the turns in the prompt.
    pub(crate) fn request_summary(&self, job: SummaryJob, tag: String, subject: &SummarySubject<'_>) -> SummaryAttempt {
        let mut not_asked = Vec::new();
        let main = match self.main_model(subject) {
            Some(Ok(model)) => Some(model),
            Some(Err(reason)) => {
                not_asked.push((subject.policy.model.name.clone(), reason));
                None
            }
            None => None,
        };
        self.announce(&job, main.as_ref());
        let writers = self.auxiliary.iter().chain(&main).map(|model| model.writer.clone()).collect();
        let (rules, key) = (subject.rules.clone(), subject.key.clone());
        let result = self.runtime.block_on(summarize_once(self.client.clone(), writers, job, tag, rules, key));
        let SummaryResult { summary, failures, cost } = result;
        let failures = failures.into_iter().map(|(model, failure)| (model, failure.to_string()));
        let mut failures: Vec<(String, String)> = failures.collect();
        // A model that could not be asked matters only if there is no summary.
        failures.extend(not_asked.into_iter().filter(|_| summary.is_none()));
        SummaryAttempt {
            summary,
            failures,
            cost,
            auxiliary_name: self.auxiliary.as_ref().map(|model| model.model_name().to_owned()),
        }
    }

    /// Returns the session's own model, or `None` if it is unknown, has no upstream, or is the configured
    /// model at the same address.
    fn main_model(&self, subject: &SummarySubject<'_>) -> Option<Result<SummaryModel, String>> {
        let Model { name, row, .. } = &subject.policy.model;
        if row.is_none() && name == "unknown" {
            return None;
        }
        let upstream = self.upstreams.for_api_format(subject.api_format);
        let about = (subject.policy, subject.api_format);
        let model = match self.choice {
            WriterChoice::Configured => SummaryModel::from_upstream(upstream, &self.settings, about, &self.environment),
            WriterChoice::Auto if self.auxiliary.is_some() => {
                SummaryModel::from_upstream(upstream, &self.settings, about, &self.environment)
            }
            WriterChoice::Auto | WriterChoice::Main => {
                SummaryModel::own_model(upstream, &self.settings, about, &self.environment)
            }
        }?;
        let is_the_same = |model: &SummaryModel| {
            self.auxiliary
                .as_ref()
                .is_some_and(|other| model.model_name() == other.model_name() && model.url() == other.url())
        };
        Some(model).filter(|model| !model.as_ref().is_ok_and(is_the_same))
    }

    /// Prints which model is asked, where, and whose key pays, before anything is sent. The same line is
    /// printed only once, also for several bodies.
    fn announce(&self, job: &SummaryJob, main: Option<&SummaryModel>) {
        let mut models = self.auxiliary.iter().chain(main);
        let Some(first) = models.next() else { return };
        let (name, url, seconds) = (first.model_name(), first.url(), self.settings.timeout_seconds);
        let fallback = models.next().map_or_else(String::new, |main| {
            let (name, url) = (main.model_name(), main.url());
            format!("; if it fails, {name} at {url} is asked once, {}", main.payer_text())
        });
        let line = format!("{name} at {url} is asked for summaries, {}{fallback}", first.payer_text());
        let is_new = self.announced.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone());
        if is_new && self.announcement == Announcement::Print {
            let tokens = job.tokens();
            output::print_message(&format!("{line}; {tokens} tokens of turns, at most {seconds} s a request"));
        }
    }
}

/// Returns a random tag, which nobody who wrote the turns can guess.
pub(crate) fn random_tag() -> Result<String, Failure> {
    let none = || Failure::System("the system returned no random bytes, so no model was asked".to_owned());
    DefaultHost.random_tag().ok_or_else(none)
}

impl SummaryAttempt {
    /// Returns the cost as text, or an empty text if there is no summary or the cost is unknown.
    fn cost_text(&self) -> String {
        let cost = self.cost.filter(|_| self.summary.is_some());
        cost.map_or_else(String::new, |cost| format!(" for {cost}"))
    }

    /// Adds to the report of a compaction which models were asked, and the result.
    pub(crate) fn add_to_report(&self, report: &mut CompactionReport) {
        let mut failed = self.failures.clone();
        let is_used = report.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.by == WrittenBy::Model);
        for (model, reason) in &failed {
            report.notes.push(format!("no summary by {model}: {reason}"));
        }
        match &self.summary {
            Some(summary) if is_used => {
                report.notes.push(format!("the summary was written by {}{}", summary.author, self.cost_text()));
            }
            // The engine reports why it did not use the summary.
            Some(summary) => failed.push((summary.author.clone(), "its summary was not used".to_owned())),
            None => report.notes.push("code writes the checkpoint".to_owned()),
        }
        if let Some((model, reason)) = failed.last() {
            report.state.last_error = Some(format!("{model}: {reason}"));
        }
        if failed.iter().any(|(model, _)| Some(model) == self.auxiliary_name.as_ref()) {
            report.state.auxiliary_failed.clone_from(&self.auxiliary_name);
        }
    }
}
