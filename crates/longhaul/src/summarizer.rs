//! Summaries by a model, for a command that waits for them. The configuration names the model; by default
//! there is none.
//!
//! ```text
//! auxiliary.compression ──▶ SummaryModel ─┐
//! upstreams.FORMAT ──▶ SummaryModel ──────┴─ announce who pays ──request──▶ SummaryAttempt: a summary, or failures
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_engine::ApiFormat;
use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::{CompactionReport, WrittenBy};
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Dollars;
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::summary::{ModelSummary, SummaryJob};
use longhaul_server::session::{
    DefaultHost, FirstWriter, Host, Summarizer as SessionSummarizer, SummaryResult, summarize_once,
};
use longhaul_server::upstream::Client;
use tokio::runtime::{Builder, Runtime};

use crate::config::{AuxiliaryModelConfig, Environment, Settings, UpstreamsConfig};
use crate::failure::Failure;
use crate::{output, upstreams};
pub(crate) use summary_model::SummaryModel;

mod summary_model;

/// The message for a user who wants a model's summary when no model is configured.
pub(crate) const NO_MODEL_CONFIGURED: &str = "no model is configured for summaries; our own code writes them";

/// Returns the policy of the model that is configured for summaries, with the user's settings for that model.
pub(crate) fn configured_policy(settings: &Settings) -> Result<Option<Policy>, Failure> {
    let Some(name) = &settings.app.auxiliary.compression.model else { return Ok(None) };
    let policy = Policy::new(&settings.engine, &models::find(name));
    policy.map(|(policy, _)| Some(policy)).map_err(|invalid| settings.invalid_value_failure(&invalid))
}

/// Returns the summarizer for the sessions of a gateway, and a text that describes it. A gateway asks only the
/// configured model: if that model fails, our own code writes the checkpoint.
pub(crate) fn for_gateway(
    settings: &Settings,
    environment: &Environment,
) -> Result<(SessionSummarizer, String), Failure> {
    let Some(policy) = configured_policy(settings)? else {
        return Ok((SessionSummarizer::Code, "by our own code; no model is asked".to_owned()));
    };
    let model = SummaryModel::from_auxiliary(&settings.app.auxiliary.compression, &policy, environment);
    let model = model.map_err(Failure::InvalidInput)?;
    let text = format!("by {} at {}, {}", model.model_name(), model.url(), model.payer_text());
    let auxiliary = model.writer;
    Ok((SessionSummarizer::Model { auxiliary, main: None, first: FirstWriter::Auxiliary }, text))
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
    auxiliary: SummaryModel,
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
    auxiliary_name: String,
}

impl Summarizer {
    /// Returns the configured summarizer, or `None` without one. Wrong settings for reaching the model are
    /// invalid input.
    pub(crate) fn new(
        settings: &Settings,
        environment: &Environment,
        announcement: Announcement,
    ) -> Result<Option<Self>, Failure> {
        let Some(policy) = configured_policy(settings)? else { return Ok(None) };
        let app = &settings.app;
        let auxiliary = SummaryModel::from_auxiliary(&app.auxiliary.compression, &policy, environment);
        let auxiliary = auxiliary.map_err(Failure::InvalidInput)?;
        let client = upstreams::new_client([auxiliary.url().as_str()])?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::System(format!("cannot start a runtime for model requests: {error}")))?;
        Ok(Some(Self {
            auxiliary,
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
    pub(crate) fn auxiliary_model(&self) -> &SummaryModel {
        &self.auxiliary
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
        let writers = std::iter::once(&self.auxiliary).chain(&main).map(|model| model.writer.clone()).collect();
        let (rules, key) = (subject.rules.clone(), subject.key.clone());
        let result = self.runtime.block_on(summarize_once(self.client.clone(), writers, job, tag, rules, key));
        let SummaryResult { summary, failures, cost } = result;
        let failures = failures.into_iter().map(|(model, failure)| (model, failure.to_string()));
        let mut failures: Vec<(String, String)> = failures.collect();
        // A model that could not be asked matters only if there is no summary.
        failures.extend(not_asked.into_iter().filter(|_| summary.is_none()));
        SummaryAttempt { summary, failures, cost, auxiliary_name: self.auxiliary.model_name().to_owned() }
    }

    /// Returns the session's own model, or `None` if it is unknown, has no upstream, or is the configured
    /// model at the same address.
    fn main_model(&self, subject: &SummarySubject<'_>) -> Option<Result<SummaryModel, String>> {
        let Model { name, row, .. } = &subject.policy.model;
        if row.is_none() && name == "unknown" {
            return None;
        }
        let upstream = self.upstreams.for_api_format(subject.api_format);
        let model = SummaryModel::from_upstream(
            upstream,
            &self.settings,
            (subject.policy, subject.api_format),
            &self.environment,
        )?;
        let is_the_same = |model: &SummaryModel| {
            model.model_name() == self.auxiliary.model_name() && model.url() == self.auxiliary.url()
        };
        Some(model).filter(|model| !model.as_ref().is_ok_and(is_the_same))
    }

    /// Prints which model is asked, where, and whose key pays, before anything is sent. The same line is
    /// printed only once, also for several bodies.
    fn announce(&self, job: &SummaryJob, main: Option<&SummaryModel>) {
        let auxiliary = &self.auxiliary;
        let (name, url, seconds) = (auxiliary.model_name(), auxiliary.url(), self.settings.timeout_seconds);
        let fallback = main.map_or_else(String::new, |main| {
            let (name, url) = (main.model_name(), main.url());
            format!("; if it fails, {name} at {url} is asked once, {}", main.payer_text())
        });
        let line = format!("{name} at {url} is asked for summaries, {}{fallback}", auxiliary.payer_text());
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
        if failed.iter().any(|(model, _)| *model == self.auxiliary_name) {
            report.state.auxiliary_failed = Some(self.auxiliary_name.clone());
        }
    }
}
