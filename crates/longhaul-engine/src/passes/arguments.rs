//! Long strings in the arguments of old calls are cut, inside the JSON that they stand in: keys, numbers, nesting and every byte
//! of what stays are as they were.

use super::{Change, Leaves, NewText, Pass, Scope};
use crate::digest::number;
use crate::json::{Scanner, Strings, escaped_char, unescape};
use crate::texts::CutMark;
use crate::transcript::{Block, Form};

pub(super) const PASS: Pass = Pass {
    name: "shrink_arguments",
    why: "the beginning of an old argument says what it was",
    leaves: Leaves::Least,
    run,
};

fn run(scope: &Scope<'_, '_>) -> Vec<Change> {
    let calls = scope.calls().filter(|call| (scope.may_change)(call.at.unit));
    calls
        .filter_map(|call| {
            let to = shrunk(scope, call.block)?;
            Some(Change { at: call.at, pass: PASS.name, to: NewText::Text(to) })
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
    for string in Strings::of(&text) {
        let raw = &text[string.text.clone()];
        let Some(kept) = (raw.len() > most).then(|| raw_prefix(raw, most)).flatten() else { continue };
        let rest = &raw[kept..];
        if rest.is_empty() || unescape(rest).parse::<CutMark>().is_ok() {
            continue;
        }
        let handle = handle.get_or_insert_with(|| (scope.handle)(&text)).clone();
        let characters = number(unescape(rest).chars().count());
        let mark = CutMark { characters, handle }.to_string();
        if mark.len() < rest.len() {
            out.push_str(&text[copied..string.text.start + kept]);
            out.push_str(&mark);
            copied = string.text.end;
        }
    }
    out.push_str(&text[copied..]);
    (copied > 0).then_some(out)
}

/// How many bytes of a string, as it stands in JSON, its first characters take; nothing where it has no more than those, or
/// where it is damaged.
fn raw_prefix(raw: &str, characters: usize) -> Option<usize> {
    let mut at = 0;
    for _ in 0..characters {
        at += match raw[at..].chars().next()? {
            '\\' => match escaped_char(&raw[at + 1..]) {
                (char::REPLACEMENT_CHARACTER, used)
                    if !raw[at + 1..][..used].eq_ignore_ascii_case("ufffd") =>
                {
                    return None;
                }
                (_, used) => 1 + used,
            },
            plain => plain.len_utf8(),
        };
    }
    Some(at)
}
