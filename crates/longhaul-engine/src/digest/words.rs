//! The words by which outputs are read (`words.toml`).

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    pub(crate) wrappers: Vec<String>,
    pub(super) statuses: Vec<String>,
    pub(super) errors: Vec<String>,
    pub(super) verdicts: Vec<String>,
    pub(super) endings: Vec<String>,
    pub(super) complaints: Vec<String>,
    pub(super) askers: Vec<String>,
    pub(super) readers: Vec<String>,
    pub(super) successes: Vec<String>,
    pub(super) build: Vec<String>,
    pub(super) common: Vec<String>,
}

table! {
    /// The table.
    pub(crate) static WORDS: Words = "words.toml";
}

/// Whether a text begins with one of these, whatever its case.
pub(super) fn opens_with(text: &str, openers: &[String]) -> bool {
    let opens =
        |opener: &String| text.get(..opener.len()).is_some_and(|start| start.eq_ignore_ascii_case(opener));
    openers.iter().any(opens)
}
