//! Splits a statement into clauses that can be removed one by one.

use std::ops::Range;

use crate::evidence::ends_in_abbreviation;

/// The minimum length of a clause in characters. A shorter one stays part of the next. Chosen by hand.
const MIN_CLAUSE_CHARS: usize = 8;

/// Splits a statement into sentences, and further at semicolons, but never inside code. Together the clauses
/// are the whole statement.
pub(super) fn split_clauses(text: &str) -> Vec<Range<usize>> {
    let mut clauses = Vec::new();
    let (mut start, mut in_code) = (0, false);
    for (at, c) in text.char_indices() {
        in_code ^= c == '`';
        let behind = &text[at + c.len_utf8()..];
        let ends = match c {
            ';' | '!' | '?' => behind.starts_with(' '),
            '.' => behind.strip_prefix(' ').is_some_and(|next| !next.starts_with(char::is_lowercase)),
            '。' | '！' | '？' | '；' => true,
            _ => false,
        };
        let sentence = text[start..at + c.len_utf8()].trim();
        if ends && !in_code && sentence.chars().count() > MIN_CLAUSE_CHARS && !ends_in_abbreviation(sentence) {
            let end = at + c.len_utf8() + usize::from(behind.starts_with(' '));
            clauses.push(start..end);
            start = end;
        }
    }
    if start < text.len() {
        clauses.push(start..text.len());
    }
    clauses
}

/// Returns the start of a statement, which says what was done to what before it gives the outcome; empty if
/// nothing separates the two.
pub(super) fn statement_opening(text: &str) -> &str {
    let parted = [" — ", " - ", ": ", ". "].iter().find_map(|between| text.split_once(between));
    parted.map_or("", |(opening, _)| opening)
}
