//! The ways to treat the requests of a session, for comparing their costs.

use std::fmt;

use crate::config::EngineName;
use crate::models::Model;
use crate::plan::{Compressor, Engine, Lossless, SacredZone};
use crate::policy::{Config, InvalidValue, Policy};

/// A way to treat the requests of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CostStrategy {
    /// Send them unchanged, without cache breakpoints.
    Passthrough,
    /// Set cache breakpoints and change nothing else.
    BreakpointsOnly,
    /// Set cache breakpoints, and compact at this share of the window.
    Compressor(f64),
    /// Set cache breakpoints, and shorten tool results with the engine `sacred-zone`.
    SacredZone,
    /// Set cache breakpoints, and compact with the engine `lossless`. It cuts where the compressor does, so
    /// it is not compared.
    Lossless,
    /// Set cache breakpoints, and compact when that pays off.
    Scheduler,
}

impl CostStrategy {
    /// The strategies that `longhaul cost` compares.
    pub const ALL: [Self; 11] = [
        Self::Passthrough,
        Self::BreakpointsOnly,
        Self::Compressor(0.3),
        Self::Compressor(0.4),
        Self::Compressor(0.5),
        Self::Compressor(0.6),
        Self::Compressor(0.7),
        Self::Compressor(0.8),
        Self::Compressor(0.9),
        Self::SacredZone,
        Self::Scheduler,
    ];

    /// Returns the strategy of an engine with this threshold as a share of the window, or `None` if the
    /// engine cannot be replayed.
    #[must_use]
    pub fn for_engine(engine: &EngineName, threshold: f64) -> Option<Self> {
        let strategies = [
            (EngineName::COMPRESSOR, Self::Compressor(threshold)),
            (EngineName::SACRED_ZONE, Self::SacredZone),
            (EngineName::LOSSLESS, Self::Lossless),
        ];
        strategies.into_iter().find_map(|(name, strategy)| (name == *engine).then_some(strategy))
    }

    /// Returns the engine that compacts, if any.
    pub(super) fn engine(self) -> Option<&'static dyn Engine> {
        match self {
            Self::Passthrough | Self::BreakpointsOnly => None,
            Self::Compressor(_) | Self::Scheduler => Some(&Compressor),
            Self::SacredZone => Some(&SacredZone),
            Self::Lossless => Some(&Lossless),
        }
    }

    /// Returns the policy of the strategy. A fixed threshold replaces the configured one.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn policy(self, config: &Config, model: &Model) -> Result<Policy, InvalidValue> {
        let mut config = config.clone();
        if let Self::Compressor(threshold) = self {
            config.compression.threshold = threshold;
            config.compression.threshold_tokens = None;
            for stated in config.models.values_mut() {
                (stated.threshold, stated.threshold_tokens) = (None, None);
            }
        }
        Policy::new(&config, model).map(|(policy, _)| policy)
    }
}

// Scripts rely on these names.
impl fmt::Display for CostStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passthrough => f.pad("nothing"),
            Self::BreakpointsOnly => f.pad("marks"),
            Self::Compressor(threshold) => f.pad(&format!("compressor@{threshold:.2}")),
            Self::SacredZone => f.pad("sacred-zone"),
            Self::Lossless => f.pad("lossless"),
            Self::Scheduler => f.pad("scheduler"),
        }
    }
}
