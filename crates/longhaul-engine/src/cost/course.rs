//! The ways to take a session past its window, side by side.

use std::fmt;

use crate::config::EngineName;
use crate::models::Model;
use crate::plan::{Compressor, Engine, Lossless, SacredZone};
use crate::policy::{Config, Invalid, Policy};

/// What is done with the requests of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Course {
    /// They are sent as they are, without marks.
    Nothing,
    /// They are marked for the cache.
    Marks,
    /// They are marked, and compacted at this share of the window.
    Compressor(f64),
    /// They are marked, and the sacred zone shortens tool outputs.
    SacredZone,
    /// They are marked, and folded with an overview of all of it. It cuts where the compressor does, so it is not compared.
    Lossless,
    /// They are marked, and compacted when that pays.
    Scheduler,
}

impl Course {
    /// Every course that is compared.
    pub const ALL: [Self; 11] = [
        Self::Nothing,
        Self::Marks,
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

    /// The one on which this engine compacts, at this share of the window; nothing where none is modelled.
    #[must_use]
    pub fn of(engine: &EngineName, threshold: f64) -> Option<Self> {
        let courses = [
            (EngineName::COMPRESSOR, Self::Compressor(threshold)),
            (EngineName::SACRED_ZONE, Self::SacredZone),
            (EngineName::LOSSLESS, Self::Lossless),
        ];
        courses.into_iter().find_map(|(name, course)| (name == *engine).then_some(course))
    }

    /// What compacts on it.
    pub(super) fn engine(self) -> Option<&'static dyn Engine> {
        match self {
            Self::Nothing | Self::Marks => None,
            Self::Compressor(_) | Self::Scheduler => Some(&Compressor),
            Self::SacredZone => Some(&SacredZone),
            Self::Lossless => Some(&Lossless),
        }
    }

    /// The policy that it follows: a fixed threshold is put in place of the one that is configured.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn policy(self, config: &Config, model: &Model) -> Result<Policy, Invalid> {
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

/// The names that scripts rely on.
impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.pad("nothing"),
            Self::Marks => f.pad("marks"),
            Self::Compressor(threshold) => f.pad(&format!("compressor@{threshold:.2}")),
            Self::SacredZone => f.pad("sacred-zone"),
            Self::Lossless => f.pad("lossless"),
            Self::Scheduler => f.pad("scheduler"),
        }
    }
}
