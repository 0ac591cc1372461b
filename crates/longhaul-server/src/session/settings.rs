//! The settings of a session, which the host chooses once.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::EngineRegistry;
use longhaul_engine::policy::Config;
use longhaul_engine::prices::{self, Dollars, TokenPrices};
use longhaul_engine::redact::{Rules, SessionKey};

use crate::upstream::{Timeouts, Upstream};

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

/// The limits on compactions and their cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionLimits {
    /// The number of compactions in an hour; more make automatic compaction pause.
    pub max_compactions_per_hour: usize,
    /// The maximum to spend on summaries in a day; `None` for no limit.
    pub max_daily_cost: Option<Dollars>,
}

/// Thirty compactions an hour, and no limit of cost. A compaction frees half of a window, so a session that
/// fills it thirty times an hour does nothing useful.
impl Default for SessionLimits {
    fn default() -> Self {
        Self { max_compactions_per_hour: 30, max_daily_cost: None }
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
    Model {
        /// The model that is configured for summaries.
        auxiliary: SummaryWriter,
        /// The upstream of the session's own model. That model is asked if the auxiliary one fails, or if it
        /// is cheaper. `None` means that it is never asked.
        main: Option<Arc<Upstream>>,
        /// The model that is asked first.
        first: FirstWriter,
    },
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
    /// The timeouts of each request to it.
    pub timeouts: Timeouts,
}

impl SummaryWriter {
    /// Creates a writer from a model's name, with the facts and prices of the built-in tables.
    #[must_use]
    pub fn from_name(model: &str, upstream: Arc<Upstream>, timeouts: Timeouts) -> Self {
        let price = prices::find(model).map(|prices| prices.price);
        Self { model: models::find(model), price, upstream, timeouts }
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
            limits: SessionLimits::default(),
            rules: Rules::default(),
            key: None,
        }
    }
}
