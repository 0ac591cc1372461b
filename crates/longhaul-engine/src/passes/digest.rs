//! What an old result was, in one line: the tool, its target, its outcome and its size, and the error lines of a failure.

use super::{Change, Found, Leaves, Pass, Scope};
use crate::digest::line;

pub(super) const PASS: Pass =
    Pass { name: "digest", why: "old output, of which a line says what it was", leaves: Leaves::Least, run };

fn run(scope: &Scope<'_, '_>) -> Vec<Change> {
    let short = |found: Found<'_, '_>| found.digested(scope, PASS.name, line);
    scope.candidates().filter_map(short).collect()
}
