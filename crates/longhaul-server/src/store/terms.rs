//! What a message can be found by: its words, identifiers whole and in parts, numbers, pairs of CJK characters.
//!
//! ```text
//! parseHTTPBody_v2 in src/wire.rs  ──▶  parsehttpbody_v2 · parse · http · body · v · 2 · in · src · wire · rs
//! 错误代码                          ──▶  错误 · 误代 · 代码
//! ```
//!
//! Both databases index what this gives, and a query is read by it, too, so that they agree on what a word is, and nothing of a
//! query reaches an index's own syntax.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

/// Longer terms are cut: nobody types them.
const LONGEST: usize = 64;

/// So many bytes of terms are indexed of one message: PostgreSQL takes a megabyte.
const MOST: usize = 800_000;

/// Fields that hold nothing to be found by: what the protocol is made of, and what nobody can read.
const UNREAD: [&str; 12] = [
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

/// What sort of term it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// A word, or part of an identifier.
    Word,
    /// An identifier with parts, whole.
    Identifier,
}

/// The terms of a text, in order, as often as they occur.
pub(super) fn terms(text: &str) -> Vec<(Cow<'_, str>, Class)> {
    let mut terms = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let cjk = rest.starts_with(is_cjk);
        let end = rest.find(|c: char| !is_word(c) || is_cjk(c) != cjk).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        if cjk {
            pairs(run, &mut terms);
        } else {
            words(run, &mut terms);
        }
        rest = behind;
    }
    terms
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Every two characters that stand side by side: a word in these scripts has no blanks around it.
fn pairs<'t>(run: &'t str, terms: &mut Vec<(Cow<'t, str>, Class)>) {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    if let [_, _] = starts[..] {
        terms.push((run.into(), Class::Word));
    }
    terms.extend(starts.windows(3).map(|at| (run[at[0]..at[2]].into(), Class::Word)));
}

fn words<'t>(run: &'t str, terms: &mut Vec<(Cow<'t, str>, Class)>) {
    // Most runs are a word in small letters.
    if run.bytes().all(|byte| byte.is_ascii_lowercase()) {
        terms.push((short(run), Class::Word));
        return;
    }
    let first = terms.len();
    for_parts(run, |part| terms.push((short(part), Class::Word)));
    if terms.len() > first + 1 {
        let parts = terms.split_off(first);
        terms.push((short(run), Class::Identifier));
        terms.extend(parts.into_iter().filter(|(part, _)| part.len() > 1));
    }
}

/// Where an identifier is put together: at underscores, between letters and digits, before a capital behind a small letter, and
/// before the last capital of several that a small letter follows.
fn for_parts<'t>(run: &'t str, mut part: impl FnMut(&'t str)) {
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

fn short(word: &str) -> Cow<'_, str> {
    let mut end = word.len().min(LONGEST);
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

/// The different terms of a message, with blanks between them, as an index takes them.
#[must_use]
pub fn of_message(message: &str) -> String {
    let text = words_of(message);
    let (mut seen, mut line) = (HashSet::new(), String::with_capacity(text.len().min(MOST)));
    for (term, _) in terms(&text) {
        if line.len() + term.len() >= MOST {
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

/// All that a message says, a line for each of its strings; arguments that are JSON in a string are read as what they say.
pub(super) fn words_of(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    match serde_json::from_str::<Value>(message) {
        Ok(value) => gather(&value, "", &mut text),
        // Nested too deep, or half a character in it.
        Err(_) => text.push_str(message),
    }
    text
}

fn gather(value: &Value, name: &str, text: &mut String) {
    match value {
        Value::String(words) if UNREAD.contains(&name) || words.starts_with("data:") => {}
        Value::String(words) => {
            let inside = if name == "arguments" { serde_json::from_str::<Value>(words).ok() } else { None };
            match inside.filter(|inside| inside.is_object() || inside.is_array()) {
                Some(inside) => gather(&inside, "", text),
                None => text.extend([words.as_str(), "\n"]),
            }
        }
        Value::Number(number) => text.extend([number.to_string().as_str(), "\n"]),
        Value::Array(values) => values.iter().for_each(|value| gather(value, name, text)),
        Value::Object(members) => members.iter().for_each(|(name, value)| gather(value, name, text)),
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
            let terms: Vec<Cow<'_, str>> = terms(text).into_iter().map(|(term, _)| term).collect();
            assert_eq!(terms.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn a_message_is_found_by_what_it_says_and_not_by_what_it_is_made_of() {
        let message = r#"{"role":"assistant","tool_calls":[{"id":"call_77","type":"function",
            "function":{"name":"read_file","arguments":"{\"path\":\"a\\nb.toml\",\"line\":12}"}}]}"#;
        assert_eq!(words_of(message), "read_file\na\nb.toml\n12\n");
        assert_eq!(of_message(message), "read_file read file a b toml 12");
    }
}
