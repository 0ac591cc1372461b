//! Excerpts: a one-line digest with some lines of the output below it. They are no longer made, but stand in transcripts that were
//! compacted before.

/// How the first line of an excerpt ends.
const ENDING: &str = " quoted below)";

/// Whether a text begins like an excerpt.
pub(super) fn is_excerpt(first: &str, tool: &str) -> bool {
    first.starts_with(&format!("[{tool}] ")) && first.ends_with(ENDING)
}
