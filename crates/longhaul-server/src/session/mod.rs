//! A live session: the state machine behind the gateway and behind any agent loop written in Rust.
//!
//! ```text
//! request ──prepare_request──▶ replay the ledger ──▶ measure ──▶ triggered? ──▶ compact: host, plan, commit, event ──▶ PreparedRequest
//!   reply ──record_reply─────▶ the provider's token count: calibrates our counts, may trigger the next compaction
//! refusal ──record_failure───▶ compact and retry, send the original, wait, or give up
//! command ──run_command──────▶ compact now, or preview it, because a person asks for it
//!         ──compact_if_idle──▶ compact while nobody waits, once the cache has expired
//!         ──switch_model─────▶ measure the next request by another model
//!         ──reset────────────▶ forget the checkpoint, the counts and the errors
//! ```
//!
//! A ledger is the list of recorded decisions about a history. The session replays it with each request, so
//! that the same bytes are sent again and stay cached.
//!
//! - `active_ledger` holds the ledger that applies now. `incoming_request` parses a request, `request` turns it
//!   into a `prepared_request`; `request_context` is everything known about it meanwhile.
//! - `request_size` measures a request: by the provider's count of the last one plus what was added since,
//!   else by a calibrated estimate. `learned_model` learns a model's window from refusals. `prompt_cache`
//!   tracks what the provider still has cached.
//! - `triggers` has all triggers, in order; `payoff` asks the scheduler if only the price decides; `breaker`
//!   pauses automatic compaction that saves too little or comes too often.
//! - `compact` makes one compaction; `host` is the interface to the program that runs the session; `recorder`
//!   saves the session in the store, if there is one.
//! - `compact_stored` compacts a session in the store for a caller that has no request of it.
//! - `prepare_summary` starts a model's summary before it is needed, `summarize` asks for it,
//!   `background_summary` stores it, and `cooldown` pauses a model that failed. By default no model is asked.
//!
//! Nothing here reads a clock or generates random numbers: the caller passes the time, and the host the
//! random tags. Only waiting uses the runtime's clock. Nothing here fails either: whatever goes wrong, the
//! session returns a body that can be sent, and reports the problem.

mod active_ledger;
mod background_summary;
mod breaker;
mod command;
mod compact;
mod compact_stored;
mod cooldown;
mod host;
mod incoming_request;
mod learned_model;
mod notices;
mod payoff;
mod prepare_summary;
mod prepared_request;
mod pressure_notice;
mod prompt_cache;
mod recorder;
mod reply;
mod request;
mod request_context;
mod request_size;
mod settings;
mod state;
mod summarize;
mod summarize_once;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{self, SessionPace};
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::Trigger;
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::TokenPrices;
use longhaul_engine::redact::SessionKey;
use longhaul_engine::wire::CacheLifetime;
use longhaul_engine::{CancelFlag, Tokens};

pub use breaker::{Breaker, Pause, PauseReason};
pub use command::{CompressRequest, Preview, SessionCommand};
pub use compact_stored::{StoredCompaction, StoredOutcome, compact_stored};
pub use cooldown::Cooldowns;
pub use host::{CompactionEvent, DefaultHost, Host, MAX_HOST_NOTE_CHARS, PendingRemoval};
pub use incoming_request::IncomingRequest;
pub use learned_model::{LearnedModel, LearnedWindow, policy_for_model};
pub use prepared_request::{PreparedRequest, RequestAction, RequestSizes, WindowUsage};
pub use reply::{AfterReply, RetryDecision};
pub use request::FinalEdit;
pub use request_context::replay_if_changed;
pub use request_size::{Calibration, CalibrationErrors, MeasuredBy, MeasuredSize};
pub use settings::{
    AutoCompaction, FirstWriter, OwnModel, SessionLimits, SessionSettings, Summarizer, SummaryModels, SummaryStart,
    SummaryWriter, UnpricedModels,
};
pub use state::SessionState;
pub use summarize::{SummaryFailure, SummaryResult};
pub use summarize_once::summarize_once;
pub use triggers::UNDO_PROMISE;

use active_ledger::ActiveLedger;
use background_summary::BackgroundSummary;
use recorder::Recorder;
use request_size::{SizeTracker, TokenCount};

use crate::store::{SessionId, Store, StoreError, Tenant};
use crate::upstream::ModelClient;
use longhaul_engine::Timestamp;

/// One session in memory, with everything that is decided and measured for it.
pub struct LiveSession {
    settings: SessionSettings,
    host: Arc<dyn Host>,
    models: Option<Arc<dyn ModelClient>>,
    recorder: Option<Recorder>,
    block_cache: BlockCache,
    ledger: ActiveLedger,
    /// The model of the newest request.
    model: String,
    learned: BTreeMap<String, LearnedModel>,
    size_tracker: SizeTracker,
    background_summary: BackgroundSummary,
    state: SessionState,
    last_request: LastRequest,
    /// The notices that are given only once per session, and were given.
    given_notices: BTreeSet<String>,
    /// Ends a plan that nobody waits for any more.
    cancel: CancelFlag,
}

/// The newest request of a session, and what it means for the next one.
struct LastRequest {
    sent: LastSent,
    threshold: Tokens,
    /// Our count of the client's whole request, and of what was sent in its place.
    original_count: Option<(Tokens, TokenCount)>,
    /// The hash of the ledger whose rewrite the provider refused. It is set until the provider answers the
    /// original that is sent instead.
    refused_ledger_hash: Option<u64>,
    /// The size that the provider refused as too long. The next request must be smaller.
    size_to_undercut: Option<Tokens>,
    /// The trigger to report when the next request reaches the threshold.
    threshold_trigger: Trigger,
    /// The request size below which the session does not calculate again whether a compaction would pay.
    next_payoff_check: Tokens,
    /// The request size below which the session does not calculate again whether a summary is affordable.
    next_summary_check: Tokens,
}

impl Default for LastRequest {
    fn default() -> Self {
        Self {
            sent: LastSent::default(),
            threshold: Tokens::ZERO,
            original_count: None,
            refused_ledger_hash: None,
            size_to_undercut: None,
            threshold_trigger: Trigger::Preflight,
            next_payoff_check: Tokens::ZERO,
            next_summary_check: Tokens::ZERO,
        }
    }
}

/// The form in which the newest request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LastSent {
    /// The client's own body.
    #[default]
    Original,
    /// A body rewritten by the ledger with this hash.
    Rewritten(u64),
}

impl LiveSession {
    /// Creates a new session with the [`DefaultHost`], without models and without a store.
    #[must_use]
    pub fn new(settings: SessionSettings) -> Self {
        Self {
            settings,
            host: Arc::new(DefaultHost),
            models: None,
            recorder: None,
            block_cache: BlockCache::default(),
            ledger: ActiveLedger::default(),
            model: String::new(),
            learned: BTreeMap::new(),
            size_tracker: SizeTracker::default(),
            background_summary: BackgroundSummary::default(),
            state: SessionState::default(),
            last_request: LastRequest::default(),
            given_notices: BTreeSet::new(),
            cancel: CancelFlag::default(),
        }
    }

    /// Sets the host that is notified of compactions, and asked about them.
    #[must_use]
    pub fn with_host(self, host: Arc<dyn Host>) -> Self {
        Self { host, ..self }
    }

    /// Sets the client that asks models for summaries. The settings decide whether a model is asked, and
    /// which.
    #[must_use]
    pub fn with_models(self, models: Arc<dyn ModelClient>) -> Self {
        Self { models: Some(models), ..self }
    }

    /// Sets the store that saves the requests, the compactions, the session's state and what was learned about
    /// models.
    #[must_use]
    pub fn with_store(self, store: Store, tenant: Tenant) -> Self {
        Self { recorder: Some(Recorder::new(store, tenant)), ..self }
    }

    /// Restores an earlier session for a host that saves the state itself, without a store.
    #[must_use]
    pub fn resume(self, state: SessionState, learned: BTreeMap<String, LearnedModel>, ledger: Ledger) -> Self {
        Self { ledger: ActiveLedger::restored(ledger), learned, state, ..self }
    }

    /// Returns the same session as after a restart of the process: everything that is not in the store is
    /// forgotten. Used for a session that was dropped in the middle of a request.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self {
            host: Arc::clone(&self.host),
            models: self.models.clone(),
            recorder: self.recorder.as_ref().map(Recorder::restarted),
            ..Self::new(self.settings.clone())
        }
    }

    /// Makes plans end as soon as this flag is set.
    pub fn cancel_with(&mut self, cancel: CancelFlag) {
        self.cancel = cancel;
    }

    /// Returns the state that must survive a restart.
    #[must_use]
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// Returns what was learned about models, by model name.
    #[must_use]
    pub fn learned(&self) -> &BTreeMap<String, LearnedModel> {
        &self.learned
    }

    /// Returns the decisions that apply now.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.ledger.current()
    }

    /// Returns the session's readable name in the store; `None` without a store.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.recorder.as_ref().and_then(Recorder::name)
    }

    /// Returns the session's ID in the store; `None` without a store.
    #[must_use]
    pub fn id(&self) -> Option<SessionId> {
        self.recorder.as_ref().and_then(Recorder::id)
    }

    /// Announces the tokens that the caller will add to the next request, and that its body does not contain
    /// yet.
    pub fn expect_extra_tokens(&mut self, tokens: Tokens) {
        self.size_tracker.set_next_extra(tokens);
    }

    /// Sets the tokens that the caller did add to the newest request.
    pub fn record_extra_tokens(&mut self, tokens: Tokens) {
        self.size_tracker.set_sent_extra(tokens);
    }

    /// Returns a number that changes whenever the ledger is replaced.
    #[must_use]
    pub fn ledger_version(&self) -> u64 {
        self.ledger.version()
    }

    /// Whether the store has the newest request. It is false without a store, or if the store did not answer.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::has_newest_request)
    }

    /// Returns the reason why the session is in memory only; `None` if the store works, or there is none.
    #[must_use]
    pub fn store_error(&self) -> Option<&StoreError> {
        self.recorder.as_ref().and_then(Recorder::store_error)
    }

    /// Moves the session to the stored tenant, after the store did not answer and the session began with a
    /// temporary one. The tenant's ID and key change, and with the key the hashes of the messages.
    pub(crate) fn change_tenant(&mut self, tenant: Tenant) {
        if let Some(recorder) = &mut self.recorder {
            recorder.change_tenant(tenant);
        }
    }

    /// Returns the policy for the model of the newest request; `None` if the configuration is invalid.
    #[must_use]
    pub fn policy(&self) -> Option<Policy> {
        let learned = self.learned.get(&self.model).cloned().unwrap_or_default();
        learned_model::policy_for_model(&self.settings.config, &self.model, &learned).ok()
    }

    /// Chooses how long the provider should cache the prompt, by the pauses between the session's requests.
    #[must_use]
    pub fn cache_lifetime(&self, prices: Option<&TokenPrices>, now: Timestamp) -> CacheLifetime {
        let Some(price) = prices else { return CacheLifetime::FiveMinutes };
        let prompt_cache = &self.state.prompt_cache;
        let (pauses, prefix) = (prompt_cache.pauses(now), prompt_cache.cached_tokens(now));
        cache::choose_lifetime(
            &SessionPace { pauses: &pauses, prefix, added_per_request: prompt_cache.average_growth() },
            price,
        )
        .lifetime
    }

    /// Estimates the probability that a session, idle for `idle_time`, sends a request `within` this time. The
    /// estimate uses the session's own pauses; it is `None` if fewer than four of them were as long as
    /// `idle_time`.
    #[must_use]
    pub fn return_probability(&self, idle_time: Duration, within: Duration) -> Option<f64> {
        const MIN_LONGER_PAUSES: usize = 4;
        let pauses = self.state.prompt_cache.past_pauses();
        let longer_pauses: Vec<Duration> = pauses.filter(|pause| *pause >= idle_time).collect();
        let return_count = longer_pauses.iter().filter(|pause| **pause < idle_time + within).count();
        (longer_pauses.len() >= MIN_LONGER_PAUSES).then(|| return_count as f64 / longer_pauses.len() as f64)
    }

    /// Restarts the session: forgets the checkpoint, the counts, the cooldowns and the errors, and cancels a
    /// running summary. What was learned about models stays.
    pub fn reset(&mut self) {
        let reset_compaction = self.recorder.as_ref().and_then(Recorder::compaction_number);
        self.state = SessionState { reset_compaction, ..SessionState::default() };
        (self.size_tracker, self.background_summary) = (SizeTracker::default(), BackgroundSummary::default());
        self.last_request = LastRequest::default();
        self.ledger.clear();
        self.given_notices.clear();
    }

    /// Returns the key for recall IDs and redaction tags: the store's, a temporary one while the store is down,
    /// else the one in the settings.
    pub(crate) fn key(&self) -> Option<SessionKey> {
        let stored_key = self.recorder.as_ref().and_then(Recorder::key);
        stored_key.or_else(|| self.settings.key.clone())
    }
}
