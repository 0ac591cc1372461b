//! The engine `lossless`: the compressor with a tree of pages behind its checkpoint, which gives an overview
//! of the whole session, however long it is.
//!
//! ```text
//! system │ head │ checkpoint: rules and state, entries for earlier work, the newest actions │ tail
//!                                           └─▶ page ─▶ page ─▶ the original blocks
//! ```
//!
//! The pages contain what the compressor would drop from one checkpoint to the next. The host stores them
//! under their recall IDs. If nothing is stored, there are no recall IDs, and the entries are all that
//! remains of earlier work.

use super::compressor::compact;
use super::engine::{Engine, EngineSource};
use super::workspace::EarlierActions;
use super::{Compressor, Plan, PlanInput, summary_job};
use crate::block_cache::BlockCache;
use crate::config::EngineName;
use crate::policy::Policy;
use crate::summary::SummaryJob;
use crate::transcript::Transcript;
use crate::{RewriteError, Tokens};

/// The engine that summarizes old turns into a tree of pages.
#[derive(Debug, Clone, Copy)]
pub struct Lossless;

impl Engine for Lossless {
    fn name(&self) -> EngineName {
        EngineName::LOSSLESS
    }

    fn description(&self) -> &'static str {
        "summarizes like the compressor, and keeps an overview of all earlier work in pages, each with a recall ID"
    }

    fn source(&self) -> EngineSource {
        EngineSource::BuiltIn
    }

    fn observe(&self, policy: &Policy, cache: &mut BlockCache, transcript: &Transcript<'_>) -> Tokens {
        Compressor.observe(policy, cache, transcript)
    }

    fn summary_job(&self, input: PlanInput<'_, '_>) -> Option<SummaryJob> {
        summary_job::build_summary_job(EarlierActions::Paged, input)
    }

    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        compact(self, EarlierActions::Paged, input)
    }
}
