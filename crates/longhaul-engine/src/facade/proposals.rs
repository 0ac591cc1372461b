//! An engine that asks a function of the caller for a proposal.

use crate::config::EngineName;
use crate::plan::{Engine, Plan, PlanInput, Proposal, ProposalInput, compact_by_proposal};
use crate::rewrite::RewriteError;

/// A function that proposes a compaction, or explains why it cannot.
type Propose = Box<dyn Fn(&ProposalInput) -> Result<Proposal, String> + Send + Sync>;

/// The engine of a session whose caller decides what is removed and shortened.
pub(super) struct ProposalEngine {
    pub(super) name: String,
    pub(super) propose: Propose,
}

impl Engine for ProposalEngine {
    fn name(&self) -> EngineName {
        EngineName::from(self.name.clone())
    }

    fn description(&self) -> &str {
        &self.name
    }

    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        compact_by_proposal(self, input, &self.propose)
    }
}
