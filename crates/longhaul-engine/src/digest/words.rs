//! The words by which outputs are read (`words.toml`).

use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    pub(crate) wrappers: Vec<String>,
    pub(super) statuses: Vec<String>,
    pub(super) errors: Vec<String>,
    pub(super) successes: Vec<String>,
    pub(super) build: Vec<String>,
    pub(super) common: Vec<String>,
}

/// The table; a test holds that it is readable.
pub(crate) static WORDS: LazyLock<Words> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).unwrap_or_default());

/// Whether a text begins with one of these, whatever its case.
pub(super) fn opens_with(text: &str, openers: &[String]) -> bool {
    let opens =
        |opener: &String| text.get(..opener.len()).is_some_and(|start| start.eq_ignore_ascii_case(opener));
    openers.iter().any(opens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_readable() {
        assert!(toml::from_str::<Words>(include_str!("words.toml")).is_ok());
    }
}
