//! The table of phrases (`phrases.toml`), and the search for phrases in a text.

use serde::Deserialize;

use crate::truncate;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PhraseTable {
    pub(super) well: Vec<String>,
    pub(super) badly: Vec<String>,
    pub(super) trouble: Vec<String>,
    pub(super) neither: Vec<String>,
    pub(super) roughly: Vec<String>,
    pub(super) absent: Vec<String>,
    pub(super) commands: Vec<String>,
    pub(super) reported: Vec<String>,
    pub(super) again: Vec<String>,
    pub(super) editing: Vec<String>,
    pub(super) extensions: Vec<String>,
    pub(super) permits: Vec<String>,
    pub(super) forbids: Vec<String>,
    pub(super) computes: Vec<String>,
}

table! {
    pub(super) static TABLE: PhraseTable = "phrases.toml";
}

/// Returns whether a text in lower case contains one of the phrases as whole words.
pub(super) fn contains_any(text: &str, phrases: &[String]) -> bool {
    phrases.iter().any(|phrase| find_phrase(text, phrase).is_some())
}

/// Returns a text in lower case without its code spans, because code says nothing about an outcome.
pub(super) fn lowercase_prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').step_by(2).collect();
    parts.join(" \u{b7} ").to_lowercase()
}

/// Returns a text in lower case without these phrases.
pub(super) fn remove_phrases(text: &str, phrases: &[String]) -> String {
    let mut text = text.to_owned();
    for phrase in phrases.iter().filter(|phrase| text.contains(phrase.as_str())).collect::<Vec<_>>() {
        let mut kept = String::with_capacity(text.len());
        let mut from = 0;
        for (at, _) in text.match_indices(phrase.as_str()).filter(|(at, _)| is_standalone(&text, *at, phrase)) {
            kept.push_str(&text[from..at]);
            kept.push('\u{b7}');
            from = at + phrase.len();
        }
        kept.push_str(&text[from..]);
        text = kept;
    }
    text
}

/// Returns whether a clause gives a permission.
pub(super) fn gives_permission(clause: &str) -> bool {
    // Signs of emphasis are no part of a word, and a permission in a block of code is one too.
    let prose = lowercase_prose(&clause.replace("```", " "));
    let prose = ["__", "*", " _", "_ "].iter().fold(prose, |prose, sign| prose.replace(sign, " "));
    contains_any(&remove_phrases(&prose, &TABLE.forbids), &TABLE.permits)
}

/// Replaces each run of white space by one space.
pub(super) fn on_one_line(text: &str) -> String {
    truncate::to_one_line(text, usize::MAX)
}

fn find_phrase(text: &str, phrase: &str) -> Option<usize> {
    text.match_indices(phrase).map(|(at, _)| at).find(|at| is_standalone(text, *at, phrase))
}

/// Returns whether a phrase is not part of a longer name. `console.error` does not contain the word `error`,
/// but a full stop at the end of a sentence does not count.
fn is_standalone(text: &str, at: usize, phrase: &str) -> bool {
    let mut behind = text[at + phrase.len()..].chars();
    let before = text[..at].chars().next_back();
    let joins = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    let ends = match behind.next() {
        Some('.') => behind.next().is_none_or(|next| !next.is_alphanumeric()),
        next => !next.is_some_and(joins),
    };
    ends && !before.is_some_and(joins)
}
