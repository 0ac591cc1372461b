//! Any output of a program: keeps its first and last lines, its errors and its warnings.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::DigestProposal;
use super::super::weights;

pub(in super::super) fn recognizes(_: &ParsedOutput<'_>, _: &Sample<'_>) -> bool {
    true
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    proposal.add_facts(output, weights::RUN_FACTS);
    proposal.add_edges(output, &weights::PLAIN_EDGES);
}
