//! A statement in clauses, each of which can be taken out without the others.

use std::ops::Range;

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
        if ends && !in_code && !is_short(text[start..at].trim()) {
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

/// Whether what ends here is an abbreviation, or too little to stand alone.
fn is_short(text: &str) -> bool {
    let last = text.rsplit([' ', '(']).next().unwrap_or(text);
    text.chars().count() < 8 || matches!(last, "e.g" | "i.e" | "etc" | "vs" | "No" | "approx" | "incl")
}

/// What opens a statement: what was done to what, before it says how that ended.
pub(super) fn opening(text: &str) -> &str {
    text.split_once(" — ").or_else(|| text.split_once(" - ")).map_or("", |(opening, _)| opening)
}
