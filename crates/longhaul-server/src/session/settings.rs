//! The settings of a session, which the host chooses once.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::EngineRegistry;
use longhaul_engine::policy::Config;
use longhaul_engine::prices::{self, TokenPrices};
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::{ApiFormat, Tokens};

use crate::DailyBudget;
use crate::upstream::{Payer, Timeouts, Upstream, Upstreams};

/// The settings of a session. They stay the same as long as it lives.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// The engine's configuration.
    pub config: Config,
    /// The available engines; the configuration names one of them.
    pub engines: EngineRegistry,
    /// The model to assume if a request names none.
    pub model: String,
    /// Whether the session compacts without being asked.
    pub auto_compaction: AutoCompaction,
    /// The safety threshold, as a share of the window. From there on a request is compacted even after an
    /// undo.
    pub safety_share: f64,
    /// The longest time that a request waits for a model's summary.
    pub max_summary_wait: Duration,
    /// The author of the checkpoints: code, or a model.
    pub summarizer: Summarizer,
    /// When a summary that is prepared early is requested.
    pub summary_start: SummaryStart,
    /// The limits on the number of compactions and on the cost of summaries.
    pub limits: SessionLimits,
    /// The rules that recognize secrets.
    pub rules: Rules,
    /// The key that makes the session's checkpoints unforgeable, and recognizes them after a restart. A store
    /// has its own.
    pub key: Option<SessionKey>,
}

/// Whether a session compacts without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AutoCompaction {
    /// The triggers may start a compaction.
    #[default]
    On,
    /// No trigger starts a compaction; the existing ledger is still replayed. The gateway does not use it: its
    /// `compression` setting passes requests through before a session sees them.
    Off,
}

/// When a summary that is prepared early is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SummaryStart {
    /// While the request that makes it likely is being prepared.
    #[default]
    AtOnce,
    /// When the caller reports that the request was answered, with
    /// [`LiveSession::start_planned_summary`](super::LiveSession::start_planned_summary). The provider then has the
    /// whole request in its cache, and is known not to limit the client's rate.
    AfterReply,
}

/// The limits on compactions and their cost.
#[derive(Debug, Clone)]
pub struct SessionLimits {
    /// The number of compactions in an hour; more make automatic compaction pause.
    pub max_compactions_per_hour: usize,
    /// The money for summaries, shared by all sessions that have the same budget; `None` for no limit.
    pub daily_budget: Option<Arc<DailyBudget>>,
    /// The largest share of what a compaction is expected to save that its summary may cost; `None` for no limit.
    pub max_summary_cost_share: Option<f64>,
}

/// Thirty compactions an hour, and no limit of cost. A compaction frees half of a window, so a session that
/// fills it thirty times an hour does nothing useful.
impl Default for SessionLimits {
    fn default() -> Self {
        Self { max_compactions_per_hour: 30, daily_budget: None, max_summary_cost_share: None }
    }
}

/// The author of the checkpoints.
#[expect(clippy::large_enum_variant)]
#[derive(Debug, Clone, Default)]
pub enum Summarizer {
    /// Our own code: no model is asked, and nothing is billed.
    #[default]
    Code,
    /// A model, and our own code if the model fails.
    Model(SummaryModels),
}

/// The models that may be asked for summaries.
#[derive(Debug, Clone)]
pub struct SummaryModels {
    /// The model that is configured for summaries, if there is one.
    pub auxiliary: Option<SummaryWriter>,
    /// How the session's own model is reached. With an auxiliary model, it is asked if that one fails, or if it is
    /// cheaper. `None` means that it is never asked.
    pub own: Option<OwnModel>,
    /// The model that is asked first, if there are both.
    pub first: FirstWriter,
    /// The timeouts of each request to the session's own model.
    pub timeouts: Timeouts,
    /// Whether models without a known price are asked.
    pub unpriced: UnpricedModels,
}

impl SummaryModels {
    /// Returns only an auxiliary model, which is asked whatever it costs.
    #[must_use]
    pub fn auxiliary(writer: SummaryWriter) -> Self {
        let timeouts = writer.timeouts;
        let (first, unpriced) = (FirstWriter::Auxiliary, UnpricedModels::Ask);
        Self { auxiliary: Some(writer), own: None, first, timeouts, unpriced }
    }
}

/// How a session's own model is reached.
#[derive(Debug, Clone)]
pub enum OwnModel {
    /// At this upstream, with its key.
    At(Arc<Upstream>),
    /// At the upstream that the session's requests go to, with the client's own credential. The session's
    /// [`ModelClient`](crate::upstream::ModelClient) adds the credential.
    AsClient(Upstreams),
}

impl OwnModel {
    /// Returns the upstream for a session in this API format.
    #[must_use]
    pub fn upstream(&self, api_format: ApiFormat) -> &Arc<Upstream> {
        match self {
            Self::At(upstream) => upstream,
            Self::AsClient(upstreams) => upstreams.for_api_format(api_format),
        }
    }

    /// Returns whose credential pays.
    #[must_use]
    pub fn payer(&self) -> Payer {
        match self {
            Self::At(_) => Payer::Upstream,
            Self::AsClient(_) => Payer::Client,
        }
    }
}

/// Whether models without a known price are asked for summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnpricedModels {
    /// They are asked, and their cost is not limited. For models that the user named.
    #[default]
    Ask,
    /// They are not asked, because nobody can say what a summary would cost.
    Skip,
}

/// The model that is asked first for a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstWriter {
    /// The auxiliary model, unless the session's own model is cheaper.
    #[default]
    Auxiliary,
    /// The session's own model if the evidence is dense: if a checkpoint by code keeps under half of the
    /// evidence that it found.
    Auto,
}

/// A model that writes summaries, and how to reach it.
#[derive(Debug, Clone)]
pub struct SummaryWriter {
    /// The model with its facts.
    pub model: Model,
    /// The model's prices, if they are known.
    pub price: Option<TokenPrices>,
    /// The upstream that serves the model.
    pub upstream: Arc<Upstream>,
    /// Whose credential pays.
    pub payer: Payer,
    /// The timeouts of each request to it.
    pub timeouts: Timeouts,
}

impl SummaryWriter {
    /// Creates a writer from a model's name, with the facts and prices of the built-in tables.
    #[must_use]
    pub fn from_name(model: &str, upstream: Arc<Upstream>, timeouts: Timeouts) -> Self {
        let price = prices::find(model).map(|prices| prices.price);
        Self { model: models::find(model), price, upstream, payer: Payer::Upstream, timeouts }
    }

    /// Returns the largest prompt that the model accepts.
    #[must_use]
    pub fn window(&self) -> Tokens {
        self.model.facts.input_window()
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            config: Config::default(),
            engines: EngineRegistry::default(),
            model: String::new(),
            auto_compaction: AutoCompaction::On,
            safety_share: 0.85,
            max_summary_wait: Duration::ZERO,
            summarizer: Summarizer::Code,
            summary_start: SummaryStart::AtOnce,
            limits: SessionLimits::default(),
            rules: Rules::default(),
            key: None,
        }
    }
}
