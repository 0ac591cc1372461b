//! Replaces an old result by one line: the tool, its target, its outcome and its size, and the error lines of
//! a failure.

use super::{Pass, PassScope, ProposedChange, Remainder, ResultBlock};
use crate::digest::one_line_text;

pub(super) const PASS: Pass =
    Pass { name: "digest", reason: "old output, reduced to one line", remainder: Remainder::Minimal, run };

fn run(scope: &PassScope<'_, '_>) -> Vec<ProposedChange> {
    let short = |found: ResultBlock<'_, '_>| found.digest_change(scope, PASS.name, one_line_text);
    scope.candidates().filter_map(short).collect()
}
