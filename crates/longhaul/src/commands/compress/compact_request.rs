//! Compacts one request and returns everything that the command may write about it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::models::Model;
use longhaul_engine::plan::{
    CompactOptions, CompactedRequest, CompactionReport, Engine, Original, Originals, Plan, RecallIds,
};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::summary::ModelSummary as Summary;
use longhaul_engine::{Tokens, Transcript};
use longhaul_server::session::UNDO_PROMISE;
use longhaul_server::store::HistoryPoint;
use serde::Serialize;

use super::diff::CompactionDiff;
use super::model_summary::SummaryCache;
use super::stored_session::{self, CompactionRef, PlannedCompaction, SessionHistory, StoreAccess};
use crate::body_planner::{self, BodyPlanner};
use crate::cli::{self, CompressArgs};
use crate::config::{self, Environment, Settings};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::originals::{self, SecretHandling};
use crate::request_body::{self, RequestBody};
use crate::store::{self, ConfiguredStore};
use crate::summarizer::{Announcement, Summarizer, WriterChoice};

/// The options, configuration, store and engines of one `longhaul compress` run, shared by all of its
/// requests.
pub(super) struct CompressRun<'a> {
    pub(super) args: &'a CompressArgs,
    environment: &'a Environment,
    config_files: config::ConfigFiles,
    /// The file for the removed originals, and whether secrets are redacted in it.
    pub(super) originals_file: Option<(&'a Path, SecretHandling)>,
    /// The store, if `--store` is given. It then keeps the originals.
    pub(super) store_access: Option<StoreAccess>,
    /// The built-in engines and the plug-ins.
    available: AvailableEngines,
    /// The summary that the user gave with `--summary`.
    given_summary: Option<Summary>,
    /// The model that writes summaries, if `--summarizer auto` is given and a model is configured.
    pub(super) summarizer: Option<Summarizer>,
}

/// The results that one worker reuses from request to request. They only save time and never change an
/// output.
#[derive(Default)]
pub(super) struct WorkerCache {
    block_cache: BlockCache,
    setups: BTreeMap<String, ModelSetup>,
}

impl WorkerCache {
    /// Makes a cache that counts tokens on all cores, for requests that are compacted one at a time.
    pub(super) fn with_all_cores() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { block_cache: BlockCache::default().with_threads(threads), ..Self::default() }
    }
}

/// The policy and engine for the requests to one model.
#[derive(Clone)]
struct ModelSetup {
    engine: Arc<dyn Engine>,
    policy: Policy,
    /// The value of `compression.enabled`.
    enabled: bool,
    notes: Vec<String>,
    /// The redaction rules, with the user's own. They apply to everything that is written.
    rules: Rules,
}

/// The JSON output for one request: the engine's report, with the facts that only the command knows.
#[derive(Serialize)]
pub(super) struct CompressOutput {
    pub(super) body: String,
    /// The place in the store, if there is a store.
    #[serde(flatten)]
    pub(super) compaction_ref: Option<CompactionRef>,
    #[serde(flatten)]
    pub(super) report: CompactionReport,
    elapsed_ms: f64,
}

/// The result of compacting one request.
pub(super) struct CompressResult {
    pub(super) output: CompressOutput,
    pub(super) window: Tokens,
    /// Whether `compression.enabled` is false, so that every size is accepted.
    is_disabled: bool,
    /// The new request body, or nothing if the request is unchanged.
    pub(super) text: Option<String>,
    /// The rows for the file of originals, as JSON lines.
    pub(super) original_rows: String,
    /// Whether only earlier decisions were replayed, and none was added.
    pub(super) is_replay: bool,
    /// The changes turn by turn, if `--diff` is given.
    pub(super) diff: Option<CompactionDiff>,
}

impl CompressResult {
    /// Returns a message if the result is larger than the requested size or the context window.
    pub(super) fn shortfall_message(&self) -> Option<String> {
        let (body, report) = (&self.output.body, &self.output.report);
        if report.reached || self.is_disabled {
            return None;
        }
        let tokens = &report.tokens;
        let over = if tokens.after > self.window {
            format!("the window of {}", self.window)
        } else {
            "the requested size".to_owned()
        };
        let after = tokens.after;
        Some(format!("{body}: still {after} tokens, more than {over}; the result is written anyway"))
    }
}

/// A target size that every request meets, so that the engine changes nothing.
const UNLIMITED_TOKENS: Tokens = Tokens(u64::MAX);

impl<'a> CompressRun<'a> {
    /// Reads the configuration and opens the store once, so that a mistake there is reported once and not for
    /// each request.
    pub(super) fn new(args: &'a CompressArgs, environment: &'a Environment) -> Result<Self, Failure> {
        let files = config::ConfigFiles::read(args.input.store_flags.config.as_deref(), environment)?;
        let file_and_handling = |file: &'a Option<PathBuf>, secrets| Some((file.as_deref()?, secrets));
        let originals = file_and_handling(&args.originals, SecretHandling::Redacted);
        let originals = originals.or_else(|| file_and_handling(&args.originals_raw, SecretHandling::Kept));
        let summary = args.summary.as_deref().map(body_planner::read_given_summary).transpose()?;
        let settings = Settings::from_layers(&files, environment, args.policy.config_flags("unknown"))?;
        let available = AvailableEngines::new(&settings, environment, PluginCaller::User)?;
        let announcement = if args.quiet { Announcement::Silent } else { Announcement::Print };
        let summarizer = match args.summarizer {
            Some(cli::SummarizerChoice::Auto) => {
                Summarizer::new(&settings, environment, announcement, WriterChoice::Auto)?
            }
            Some(cli::SummarizerChoice::Main) => {
                Summarizer::new(&settings, environment, announcement, WriterChoice::Main)?
            }
            Some(cli::SummarizerChoice::None) | None => None,
        };
        let open = |typed: &String| {
            let configured = ConfiguredStore::new(Some(typed), &settings.app.store, environment)?;
            if args.is_preview() {
                StoreAccess::open_read_only(&configured)
            } else {
                StoreAccess::open_read_write(&configured)
            }
        };
        let access = args.input.store_flags.store.as_ref().map(open).transpose()?;
        Ok(Self {
            args,
            environment,
            config_files: files,
            originals_file: originals,
            store_access: access,
            available,
            given_summary: summary,
            summarizer,
        })
    }

    /// Reads a request body. With `--store`, a stored session is read as the client sent it, because that is
    /// what gets recorded.
    pub(super) fn read_request(&self, path: &Path) -> Result<RequestBody, Failure> {
        match (store::session_name_in(path), &self.store_access) {
            (Some(id), Some(_)) => {
                let body = RequestBody::from_store(id, &self.args.input, HistoryPoint::Original)?;
                // The store recognizes a session by the text of its messages, so redacted text would start
                // another session.
                if body.text.contains("[REDACTED:") {
                    return Err(Failure::InvalidInput(format!(
                        "session {id} contains redacted secrets, so it cannot be recorded again; give the client's original request"
                    )));
                }
                Ok(body)
            }
            _ => RequestBody::read(path, &self.args.input),
        }
    }

    /// Compacts one request.
    pub(super) fn compress(&self, cache: &mut WorkerCache, body: &RequestBody) -> Result<CompressResult, Failure> {
        let start = Instant::now();
        let (transcript, notes) = body.parse(&self.args.input)?;
        let model = request_body::stated_model(&self.args.input, &transcript);
        if !cache.setups.contains_key(&model.name) {
            cache.setups.insert(model.name.clone(), self.set_up_model(&model)?);
        }
        let setup = &cache.setups[&model.name];
        let ModelSetup { engine, policy, notes: setup_notes, rules, .. } = setup;
        body_planner::check_keep_from(self.args.compaction.keep_from, &transcript, &body.label)?;
        let is_disabled = self.is_disabled(setup);
        let (planned, removed) = match &self.store_access {
            Some(access) => {
                let mut summary_cache = SummaryCache::default();
                let plan = |history: &SessionHistory| {
                    let planner = BodyPlanner {
                        engine: &**engine,
                        policy,
                        block_cache: &mut cache.block_cache,
                        transcript: &transcript,
                        ledger: &history.ledger,
                        label: &body.label,
                    };
                    self.plan_from_history(setup, planner, history, &mut summary_cache)
                };
                (stored_session::plan_and_commit(access, body.tenant(), &transcript, rules, plan)?, Vec::new())
            }
            None => self.plan_without_store(setup, &mut cache.block_cache, body, &transcript)?,
        };
        let PlannedCompaction { mut report, text, compaction_ref, is_replay } = planned;
        if is_disabled {
            let reason = "compression.enabled is false in the configuration; --force compacts anyway";
            report.reason = reason.into();
        }
        let new_body = text.as_deref().filter(|_| self.args.diff);
        let diff = new_body.map(|new_body| CompactionDiff::new(&transcript, new_body, &report));
        let originals = match self.originals_file.filter(|_| !self.args.is_preview()) {
            Some((_, secrets)) => originals::to_lines(removed, secrets, rules.clone())?,
            None => String::new(),
        };
        report.notes.extend(request_body::parse_note_lines(&transcript, &notes));
        report.notes.extend(setup_notes.iter().cloned());
        let elapsed_ms = start.elapsed().as_secs_f64() * 1_000.0;
        let compaction_ref = self.store_access.as_ref().map(|_| compaction_ref);
        let output = CompressOutput { body: body.label.clone(), compaction_ref, report, elapsed_ms };
        Ok(CompressResult {
            output,
            window: policy.window,
            is_disabled,
            text,
            original_rows: originals,
            is_replay,
            diff,
        })
    }

    /// Whether compaction is switched off in the configuration and not forced.
    fn is_disabled(&self, setup: &ModelSetup) -> bool {
        !setup.enabled && !self.args.compaction.force
    }

    /// Returns the options of the command line for the engine.
    fn compact_options(&self, setup: &ModelSetup) -> CompactOptions {
        let target = self.args.compaction.to_tokens.map(Tokens);
        CompactOptions {
            force: self.args.compaction.force,
            to_tokens: if self.is_disabled(setup) { Some(UNLIMITED_TOKENS) } else { target },
            focus: self.args.compaction.focus.clone(),
            redaction_rules: setup.rules.clone(),
            keep_from: self.args.compaction.keep_from,
            summary: self.given_summary.clone(),
            ..CompactOptions::default()
        }
    }

    /// Plans a compaction of a request without a store, so without earlier decisions.
    fn plan_without_store(
        &self,
        setup: &ModelSetup,
        cache: &mut BlockCache,
        body: &RequestBody,
        transcript: &Transcript<'_>,
    ) -> Result<(PlannedCompaction, Vec<Original>), Failure> {
        let key = || SessionKey::new(*blake3::hash(body.text.as_bytes()).as_bytes());
        let originals = self.originals_file.map_or(Originals::Discarded, |_| Originals::Stored(RecallIds::new(key())));
        let options = CompactOptions { originals, ..self.compact_options(setup) };
        let (policy, shown, ledger) = (&setup.policy, &body.label, &Ledger::default());
        let engine = &*setup.engine;
        let mut planner = BodyPlanner { engine, policy, block_cache: cache, transcript, ledger, label: shown };
        let (report, text, removed) =
            match self.plan_with_summary(&mut planner, &options, &mut SummaryCache::default())? {
                Plan::Unchanged(report) => (report, None, Vec::new()),
                Plan::Ready(outcome) => (outcome.report, Some(outcome.body), outcome.originals),
            };
        Ok((PlannedCompaction { report, text, compaction_ref: CompactionRef::default(), is_replay: false }, removed))
    }

    /// Plans a compaction that continues the earlier decisions about a stored session.
    fn plan_from_history(
        &self,
        setup: &ModelSetup,
        mut planner: BodyPlanner<'_, '_>,
        history: &SessionHistory,
        summary_cache: &mut SummaryCache,
    ) -> Result<Plan, Failure> {
        let (policy, options) = (&setup.policy, self.compact_options(setup));
        let originals = Originals::Stored(RecallIds::new(history.key.clone()));
        let (key, session) = (Some(history.key.clone()), history.name.clone());
        let options = CompactOptions { originals, session_key: key, session_id: session, ..options };
        if history.is_undone && !options.is_requested() {
            // The user undid a compaction. Compact again only when the request reaches the safety threshold.
            let mut plan = planner.plan(&CompactOptions { to_tokens: Some(UNLIMITED_TOKENS), ..options.clone() })?;
            let (Plan::Unchanged(report) | Plan::Ready(CompactedRequest { report, .. })) = &mut plan;
            if report.tokens.after < policy.safety_threshold {
                report.reason = format!("a compaction of it was undone; {UNDO_PROMISE} (--force)");
                return Ok(plan);
            }
        }
        self.plan_with_summary(&mut planner, &options, summary_cache)
    }

    fn settings(&self, model: &str) -> Result<Settings, Failure> {
        Settings::from_layers(&self.config_files, self.environment, self.args.policy.config_flags(model))
    }

    fn set_up_model(&self, model: &Model) -> Result<ModelSetup, Failure> {
        let settings = self.settings(&model.name)?;
        let (policy, warnings) =
            Policy::new(&settings.engine, model).map_err(|invalid| settings.invalid_value_failure(&invalid))?;
        let mut notes = settings.note_lines(&warnings);
        if policy.model.is_assumed("window") {
            let window = policy.window;
            notes.push(format!("the window of {} is assumed to be {window} tokens", model.name));
        }
        let rules = super::super::redact::load_rules(&settings)?;
        let engine = self.available.engines.find_or_compressor(&policy.engine);
        Ok(ModelSetup { engine, policy, enabled: settings.app.compression.enabled, notes, rules })
    }
}
