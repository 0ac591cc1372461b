//! The search terms of a message: words, identifiers whole and in parts, numbers, and pairs of CJK
//! characters.
//!
//! ```text
//! parseHTTPBody_v2 in src/wire.rs  ──▶  parsehttpbody_v2 · parse · http · body · v · 2 · in · src · wire · rs
//! 错误代码                          ──▶  错误 · 误代 · 代码
//! ```
//!
//! Both databases index these terms, and a query is split in the same way. So both agree on what a word is,
//! and no part of a query reaches the query syntax of an index.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

/// The bytes to which a term is cut: nobody types longer ones. Chosen by hand.
const MAX_TERM_BYTES: usize = 64;

/// The bytes of terms that are indexed of one message at most: PostgreSQL's limit for a `tsvector` is 1 MB.
const MAX_INDEXED_BYTES: usize = 800_000;

/// The fields whose strings are not indexed: parts of the protocol, and data that nobody can read.
const UNINDEXED_FIELDS: [&str; 12] = [
    "role",
    "type",
    "id",
    "tool_call_id",
    "tool_use_id",
    "call_id",
    "signature",
    "encrypted_content",
    "thought_signature",
    "media_type",
    "data",
    "status",
];

/// The class of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TermClass {
    /// A word, or a part of an identifier.
    Word,
    /// A whole identifier that has several parts.
    Identifier,
}

/// Splits a text into terms, in order and with repetitions.
pub(super) fn split_terms(text: &str) -> Vec<(Cow<'_, str>, TermClass)> {
    let mut terms = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let cjk = rest.starts_with(is_cjk);
        let end = rest.find(|c: char| !is_word(c) || is_cjk(c) != cjk).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        if cjk {
            push_cjk_pairs(run, &mut terms);
        } else {
            push_word_terms(run, &mut terms);
        }
        rest = after;
    }
    terms
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Adds each pair of adjacent CJK characters, since words in these scripts have no spaces between them.
fn push_cjk_pairs<'t>(run: &'t str, terms: &mut Vec<(Cow<'t, str>, TermClass)>) {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    if let [_, _] = starts[..] {
        terms.push((run.into(), TermClass::Word));
    }
    terms.extend(starts.windows(3).map(|at| (run[at[0]..at[2]].into(), TermClass::Word)));
}

fn push_word_terms<'t>(run: &'t str, terms: &mut Vec<(Cow<'t, str>, TermClass)>) {
    // Fast path: most runs are one word in small letters.
    if run.bytes().all(|byte| byte.is_ascii_lowercase()) {
        terms.push((normalize_term(run), TermClass::Word));
        return;
    }
    let first = terms.len();
    for_each_part(run, |part| terms.push((normalize_term(part), TermClass::Word)));
    if terms.len() > first + 1 {
        let parts = terms.split_off(first);
        terms.push((normalize_term(run), TermClass::Identifier));
        terms.extend(parts.into_iter().filter(|(part, _)| part.len() > 1));
    }
}

/// Calls `part` for each part of an identifier. Parts end at underscores, between letters and digits, before
/// a capital after a small letter, and before the last of several capitals if a small letter follows it.
fn for_each_part<'t>(run: &'t str, mut part: impl FnMut(&'t str)) {
    for piece in run.split('_').filter(|piece| !piece.is_empty()) {
        let mut start = 0;
        let mut characters = piece.char_indices().peekable();
        let mut before: Option<char> = None;
        while let Some((place, c)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            let cut = before.is_some_and(|before| {
                before.is_numeric() != c.is_numeric()
                    || (before.is_lowercase() && c.is_uppercase())
                    || (before.is_uppercase() && c.is_uppercase() && next.is_some_and(char::is_lowercase))
            });
            if cut {
                part(&piece[start..place]);
                start = place;
            }
            before = Some(c);
        }
        part(&piece[start..]);
    }
}

fn normalize_term(word: &str) -> Cow<'_, str> {
    let mut end = word.len().min(MAX_TERM_BYTES);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    let word = &word[..end];
    if word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(word.to_lowercase())
    }
}

/// Returns the distinct terms of a message, separated by spaces, as an index takes them.
#[must_use]
pub fn index_terms(message: &str) -> String {
    let text = message_text(message);
    let (mut seen, mut line) = (HashSet::new(), String::with_capacity(text.len().min(MAX_INDEXED_BYTES)));
    for (term, _) in split_terms(&text) {
        if line.len() + term.len() >= MAX_INDEXED_BYTES {
            break;
        }
        if seen.contains(&term) {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&term);
        seen.insert(term);
    }
    line
}

/// Returns all readable text of a message, one line for each of its strings. Arguments that are JSON in a
/// string are read as JSON.
pub(super) fn message_text(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    match serde_json::from_str::<Value>(message) {
        Ok(value) => collect_text(&value, "", &mut text),
        // The JSON is nested too deeply, or has half a surrogate pair.
        Err(_) => text.push_str(message),
    }
    text
}

fn collect_text(value: &Value, name: &str, text: &mut String) {
    match value {
        Value::String(string) if UNINDEXED_FIELDS.contains(&name) || string.starts_with("data:") => {}
        Value::String(string) => {
            let inside = if name == "arguments" { serde_json::from_str::<Value>(string).ok() } else { None };
            match inside.filter(|inside| inside.is_object() || inside.is_array()) {
                Some(inside) => collect_text(&inside, "", text),
                None => text.extend([string.as_str(), "\n"]),
            }
        }
        Value::Number(number) => text.extend([number.to_string().as_str(), "\n"]),
        Value::Array(values) => values.iter().for_each(|value| collect_text(value, name, text)),
        Value::Object(members) => members.iter().for_each(|(name, value)| collect_text(value, name, text)),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_identifiers_paths_codes_and_cjk_become_terms() {
        for (text, expected) in [
            ("parseHTTPBody_v2 in src/wire.rs", "parsehttpbody_v2 parse http body in src wire rs"),
            ("错误代码 是E0308", "错误 误代 代码 是 e0308 0308"),
            ("__init__ don't; Ärger", "init don t ärger"),
            ("HTTPError 404 get_user_by_id", "httperror http error 404 get_user_by_id get user by id"),
            ("\u{1}\"' OR 1:* --", "or 1"),
        ] {
            let terms: Vec<Cow<'_, str>> = split_terms(text).into_iter().map(|(term, _)| term).collect();
            assert_eq!(terms.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn a_message_is_found_by_what_it_says_and_not_by_what_it_is_made_of() {
        let message = r#"{"role":"assistant","tool_calls":[{"id":"call_77","type":"function",
            "function":{"name":"read_file","arguments":"{\"path\":\"a\\nb.toml\",\"line\":12}"}}]}"#;
        assert_eq!(message_text(message), "read_file\na\nb.toml\n12\n");
        assert_eq!(index_terms(message), "read_file read file a b toml 12");
    }
}
