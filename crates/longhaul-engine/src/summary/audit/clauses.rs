//! A statement in clauses, each of which can be taken out without the others.

use std::ops::Range;

use crate::evidence::is_abbreviation;

/// A clause of fewer characters is too little to stand alone.
const SHORTEST: usize = 8;

/// The clauses of a statement, which together are all of it: sentences, and what semicolons part. Nothing is parted inside code.
pub(super) fn clauses(text: &str) -> Vec<Range<usize>> {
    let mut clauses = Vec::new();
    let (mut start, mut in_code) = (0, false);
    for (at, sign) in text.char_indices() {
        in_code ^= sign == '`';
        let behind = &text[at + sign.len_utf8()..];
        let ends = match sign {
            ';' | '!' | '?' => behind.starts_with(' '),
            '.' => behind.strip_prefix(' ').is_some_and(|next| !next.starts_with(char::is_lowercase)),
            '。' | '！' | '？' | '；' => true,
            _ => false,
        };
        let sentence = text[start..at + sign.len_utf8()].trim();
        if ends && !in_code && sentence.chars().count() > SHORTEST && !is_abbreviation(sentence) {
            let end = at + sign.len_utf8() + usize::from(behind.starts_with(' '));
            clauses.push(start..end);
            start = end;
        }
    }
    if start < text.len() {
        clauses.push(start..text.len());
    }
    clauses
}

/// What opens a statement: what was done to what, before it says how that ended.
pub(super) fn opening(text: &str) -> &str {
    let parted = [" — ", " - ", ": ", ". "].iter().find_map(|between| text.split_once(between));
    parted.map_or("", |(opening, _)| opening)
}
