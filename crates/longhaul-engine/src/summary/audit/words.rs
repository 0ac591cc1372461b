//! The table of words (`words.toml`), and how a phrase is found in a text.

use serde::Deserialize;

use crate::clip;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) well: Vec<String>,
    pub(super) badly: Vec<String>,
    pub(super) amiss: Vec<String>,
    pub(super) trouble: Vec<String>,
    pub(super) neither: Vec<String>,
    pub(super) roughly: Vec<String>,
    pub(super) absent: Vec<String>,
    pub(super) commands: Vec<String>,
    pub(super) reported: Vec<String>,
    pub(super) again: Vec<String>,
    pub(super) looking: Vec<String>,
    pub(super) running: Vec<String>,
    pub(super) editing: Vec<String>,
    pub(super) endings: Vec<String>,
    pub(super) permits: Vec<String>,
    pub(super) directs: Vec<String>,
}

table! {
    pub(super) static TABLE: Table = "words.toml";
}

/// Whether one of these phrases stands in a text in lower case, with no letter or digit around it.
pub(super) fn has_any(text: &str, phrases: &[String]) -> bool {
    phrases.iter().any(|phrase| find(text, phrase).is_some())
}

/// A text in lower case without what stands between backticks, which is code and says nothing of how it ended.
pub(super) fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').step_by(2).collect();
    parts.join(" \u{b7} ").to_lowercase()
}

/// A text in lower case without these phrases.
pub(super) fn without(text: &str, phrases: &[String]) -> String {
    let mut text = text.to_owned();
    for phrase in phrases.iter().filter(|phrase| text.contains(phrase.as_str())).collect::<Vec<_>>() {
        let mut kept = String::with_capacity(text.len());
        let mut from = 0;
        for (at, _) in text.match_indices(phrase.as_str()).filter(|(at, _)| is_free(&text, *at, phrase)) {
            kept.push_str(&text[from..at]);
            kept.push('\u{b7}');
            from = at + phrase.len();
        }
        kept.push_str(&text[from..]);
        text = kept;
    }
    text
}

/// A text with its white space made single blanks.
pub(super) fn on_one_line(text: &str) -> String {
    clip::on_one_line(text, usize::MAX)
}

fn find(text: &str, phrase: &str) -> Option<usize> {
    text.match_indices(phrase).map(|(at, _)| at).find(|at| is_free(text, *at, phrase))
}

/// Whether a phrase stands by itself there. Part of a name is no word: `console.error`, but an error. And a sentence ends with its stop.
fn is_free(text: &str, at: usize, phrase: &str) -> bool {
    let mut behind = text[at + phrase.len()..].chars();
    let before = text[..at].chars().next_back();
    let joins = |sign: char| sign.is_alphanumeric() || "._-/".contains(sign);
    let ends = match behind.next() {
        Some('.') => behind.next().is_none_or(|next| !next.is_alphanumeric()),
        next => !next.is_some_and(joins),
    };
    ends && !before.is_some_and(joins)
}
