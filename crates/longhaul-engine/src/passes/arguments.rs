//! Long strings in the arguments of old calls are cut, inside the JSON that they stand in: keys, numbers, nesting and every byte
//! of what stays are as they were.

use super::{Change, Leaves, NewText, Pass, Scope};
use crate::digest::number;
use crate::json::{Scanner, unescape};
use crate::texts::CutMark;
use crate::transcript::{Block, Form};
use memchr::memchr2;

pub(super) const PASS: Pass = Pass {
    name: "shrink_arguments",
    why: "the beginning of an old argument says what it was",
    leaves: Leaves::Least,
    run,
};

fn run(scope: &Scope<'_, '_>) -> Vec<Change> {
    let calls = scope.calls().filter(|(at, _)| (scope.may_change)(at.unit));
    calls
        .filter_map(|(at, block)| {
            let to = shrunk(scope, block)?;
            Some(Change { at, pass: PASS.name, to: NewText::Text(to) })
        })
        .collect()
}

/// The arguments with their long strings cut; nothing where none is, or where they are no JSON.
pub(super) fn shrunk(scope: &Scope<'_, '_>, block: &Block<'_>) -> Option<String> {
    let span = block.text.filter(|text| matches!(text.form, Form::Json | Form::JsonInString))?;
    let most = scope.policy.prune_characters;
    if span.at.len() <= most {
        return None;
    }
    let text = block.text();
    let mut scanner = Scanner::new(&text);
    scanner.value().and_then(|_| scanner.end()).ok()?;
    let mut handle = None;
    let mut out = String::new();
    let mut copied = 0;
    for (start, end) in string_values(&text) {
        let raw = &text[start..end];
        let Some(kept) = (raw.len() > most).then(|| raw_prefix(raw, most)).flatten() else { continue };
        let rest = &raw[kept..];
        if rest.is_empty() || unescape(rest).parse::<CutMark>().is_ok() {
            continue;
        }
        let handle = handle.get_or_insert_with(|| (scope.handle)(&text)).clone();
        let characters = number(unescape(rest).chars().count());
        let mark = CutMark { characters, handle }.to_string();
        if mark.len() < rest.len() {
            out.push_str(&text[copied..start + kept]);
            out.push_str(&mark);
            copied = end;
        }
    }
    out.push_str(&text[copied..]);
    (copied > 0).then_some(out)
}

/// Where the strings of a JSON text are that are values, without their quotes.
pub(super) fn string_values(json: &str) -> Vec<(usize, usize)> {
    let bytes = json.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(quote) = memchr::memchr(b'"', &bytes[at..]) {
        let start = at + quote + 1;
        let mut end = start;
        while let Some(next) = memchr2(b'"', b'\\', &bytes[end..]) {
            end += next;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        at = end + 1;
        let next = bytes.get(at..).unwrap_or_default().iter().find(|byte| !byte.is_ascii_whitespace());
        if next != Some(&b':') {
            found.push((start, end.min(bytes.len())));
        }
        if at >= bytes.len() {
            break;
        }
    }
    found
}

/// How many bytes of a string, as it stands in JSON, its first characters take; nothing where it has no more than those, or
/// where it is damaged.
fn raw_prefix(raw: &str, characters: usize) -> Option<usize> {
    let unit = |at: usize| u16::from_str_radix(raw.get(at + 2..at + 6)?, 16).ok();
    let mut at = 0;
    for _ in 0..characters {
        let rest = &raw[at..];
        at += match rest.chars().next()? {
            '\\' if rest.as_bytes().get(1) == Some(&b'u') => match unit(at)? {
                0xD800..=0xDBFF if rest[6..].starts_with("\\u") => {
                    unit(at + 6).filter(|low| matches!(low, 0xDC00..=0xDFFF))?;
                    12
                }
                0xD800..=0xDFFF => return None,
                _ => 6,
            },
            '\\' => 2,
            plain => plain.len_utf8(),
        };
    }
    Some(at)
}
