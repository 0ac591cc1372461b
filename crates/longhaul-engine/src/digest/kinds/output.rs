//! What a program prints: its first and last lines, and whatever it complains about.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth};

pub(in super::super) fn shows(_: &Page<'_>, _: &Sample<'_>) -> bool {
    true
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    proposal.facts(page, Worth::RUN);
    proposal.edges(page, 20, 10, 3.0);
}
