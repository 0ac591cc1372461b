//! The word lists in `words.toml`, by which tool outputs are read.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputWords {
    /// First words of lines that agents wrap around an output.
    pub(crate) wrappers: Vec<String>,
    /// First words of a line that gives an exit status.
    pub(super) statuses: Vec<String>,
    /// First words of an output of a tool that could not do its work.
    pub(super) errors: Vec<String>,
    /// Phrases in the last lines of a run that failed.
    pub(super) verdicts: Vec<String>,
    /// First words of the last lines of a run that was ended from outside.
    pub(super) endings: Vec<String>,
    /// First words of lines in which test runners print values or the name of a test.
    pub(super) complaints: Vec<String>,
    /// First words of commands for which exit status 1 is a negative result.
    pub(super) askers: Vec<String>,
    /// First words of commands that only show existing content.
    pub(super) readers: Vec<String>,
    pub(super) successes: Vec<String>,
    pub(super) build: Vec<String>,
    /// Words that occur in any request and say nothing about its topic.
    pub(super) common: Vec<String>,
    /// Phrases that only test runners print, at the start or the end of their output.
    pub(super) runners: Vec<String>,
    /// Phrases that show a test run anywhere in an output.
    pub(super) test_runs: Vec<String>,
    pub(super) definitions: Vec<String>,
    /// Words that may precede a keyword of `definitions`.
    pub(super) modifiers: Vec<String>,
    pub(super) imports: Vec<String>,
}

table! {
    /// The word lists; `words.toml` explains each of them.
    pub(crate) static OUTPUT_WORDS: OutputWords = "words.toml";
}

/// Returns whether a text starts with one of these, ignoring ASCII case.
pub(super) fn starts_with_any(text: &str, openers: &[String]) -> bool {
    let opens = |opener: &String| text.get(..opener.len()).is_some_and(|start| start.eq_ignore_ascii_case(opener));
    openers.iter().any(opens)
}
