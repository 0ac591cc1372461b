//! What a host settles once for a session.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::models::{self, Model};
use longhaul_engine::plan::Engines;
use longhaul_engine::policy::Config;
use longhaul_engine::prices::{self, Dollars, Price};
use longhaul_engine::redact::{Rules, SessionKey};

use crate::upstream::{Patience, Upstream};

/// What holds for a session as long as it lasts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the engine goes by.
    pub config: Config,
    /// The engines there are; the configuration names one.
    pub engines: Engines,
    /// The model, where a request does not name it.
    pub model: String,
    /// Whether anything is compacted without being asked for.
    pub automatic: Automatic,
    /// The share of the window from which on a request is compacted whatever was decided otherwise.
    pub hygiene: f64,
    /// How long a turn may wait for a model's summary.
    pub max_wait: Duration,
    /// Who writes the checkpoints.
    pub summarizer: Summarizer,
    /// How often, and for how much.
    pub limits: Limits,
    /// What counts as a secret.
    pub rules: Rules,
    /// What makes the session's checkpoints unforgeable, and finds them again after a restart. A store brings its own.
    pub key: Option<SessionKey>,
}

/// Whether anything is compacted without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Automatic {
    /// It is.
    #[default]
    On,
    /// Only what was decided before is decided again.
    Off,
}

/// How often is compacted, and for how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// More compactions in an hour make automatic compaction pause.
    pub an_hour: usize,
    /// More is not spent on summaries in a day.
    pub a_day: Option<Dollars>,
}

/// A compaction takes half of the room in a window; who fills that thirty times an hour does nothing else.
impl Default for Limits {
    fn default() -> Self {
        Self { an_hour: 30, a_day: None }
    }
}

/// Who writes the checkpoints. There is one per session, so its size does not matter.
#[expect(clippy::large_enum_variant)]
#[derive(Debug, Clone, Default)]
pub enum Summarizer {
    /// Our own code. No model is asked, and nothing is billed.
    #[default]
    Code,
    /// A model, and our own code wherever that fails.
    Model {
        /// The one that is meant for it.
        auxiliary: Writer,
        /// Where the session's own model is asked, if the auxiliary one fails or the other is cheaper.
        main: Option<Arc<Upstream>>,
        /// Which is asked first.
        first: First,
    },
}

/// Which model is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum First {
    /// The auxiliary one.
    #[default]
    Auxiliary,
    /// The session's own where the evidence is dense: where a checkpoint by code keeps under half of what it found.
    Auto,
}

/// A model that writes summaries, and how it is reached.
#[derive(Debug, Clone)]
pub struct Writer {
    /// The model.
    pub model: Model,
    /// What it costs, if that is known.
    pub price: Option<Price>,
    /// Where it is asked.
    pub upstream: Arc<Upstream>,
    /// How long is waited for it.
    pub patience: Patience,
}

impl Writer {
    /// A model by its name, with what the tables say of it.
    #[must_use]
    pub fn named(model: &str, upstream: Arc<Upstream>, patience: Patience) -> Self {
        let price = prices::find(model).map(|prices| prices.price);
        Self { model: models::find(model), price, upstream, patience }
    }

    /// What it can be asked at once.
    #[must_use]
    pub fn window(&self) -> Tokens {
        self.model.facts.input_window()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: Config::default(),
            engines: Engines::default(),
            model: String::new(),
            automatic: Automatic::On,
            hygiene: 0.85,
            max_wait: Duration::ZERO,
            summarizer: Summarizer::Code,
            limits: Limits::default(),
            rules: Rules::default(),
            key: None,
        }
    }
}
