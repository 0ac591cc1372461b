//! The engine that keeps an overview of all of a session, however long: the compressor with a tree of pages behind its checkpoint.
//!
//! ```text
//! system │ head │ checkpoint: what holds, earlier work by its nodes, the newest stretch │ tail
//!                                           └─▶ page ─▶ page ─▶ the blocks themselves
//! ```
//!
//! What the compressor would drop from one checkpoint to the next stands in pages that the host keeps under their handles. Where
//! nothing is kept there are no handles; the nodes then say what was done, and that is all there is of it.

use super::compressor::compact;
use super::engine::{Engine, Source};
use super::work::Past;
use super::{Compressor, Plan, Wish, ask};
use crate::config::EngineName;
use crate::known::Known;
use crate::policy::Policy;
use crate::summary::Ask;
use crate::transcript::Transcript;
use crate::{Refused, Tokens};

/// The engine that folds what is old into a tree of pages.
#[derive(Debug, Clone, Copy)]
pub struct Lossless;

impl Engine for Lossless {
    fn name(&self) -> EngineName {
        EngineName::LOSSLESS
    }

    fn about(&self) -> &'static str {
        "folds like the compressor and keeps an overview of all that went before, page by page, each with its handle"
    }

    fn source(&self) -> Source {
        Source::BuiltIn
    }

    fn look(&self, policy: &Policy, known: &mut Known, transcript: &Transcript<'_>) -> Tokens {
        Compressor.look(policy, known, transcript)
    }

    fn would_ask(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Option<Ask> {
        ask::ask(Past::Paged, policy, wish, known, transcript)
    }

    fn compact(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Result<Plan, Refused> {
        compact(self, Past::Paged, policy, wish, known, transcript)
    }
}
