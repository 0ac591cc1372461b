//! Cuts long strings in the arguments of old tool calls. The arguments stay valid JSON: keys, numbers,
//! nesting and every remaining byte are unchanged.

use super::{NewText, Pass, PassScope, ProposedChange, Remainder};
use crate::digest::format_count;
use crate::json::{Scanner, StringScanner, decode_escape, unescape};
use crate::texts::CutPlaceholder;
use crate::transcript::{Block, TextEncoding};

pub(super) const PASS: Pass = Pass {
    name: "shrink_arguments",
    reason: "old argument, cut after its beginning",
    remainder: Remainder::Minimal,
    run,
};

fn run(scope: &PassScope<'_, '_>) -> Vec<ProposedChange> {
    let calls = scope.calls().filter(|call| (scope.may_change)(call.position.unit));
    calls
        .filter_map(|call| {
            let to = shrink_arguments(scope, call.block)?;
            Some(ProposedChange { at: call.position, pass: PASS.name, new_text: NewText::Text(to) })
        })
        .collect()
}

/// Returns the arguments with their long strings cut. Returns `None` if no string is long or the arguments
/// are not JSON.
pub(super) fn shrink_arguments(scope: &PassScope<'_, '_>, block: &Block<'_>) -> Option<String> {
    let span = block.text.filter(|text| matches!(text.encoding, TextEncoding::Json | TextEncoding::JsonInString))?;
    let most = scope.policy.prune_above_chars;
    if span.at.len() <= most {
        return None;
    }
    let text = block.text();
    let mut scanner = Scanner::new(&text);
    scanner.skip_value().and_then(|_| scanner.expect_end()).ok()?;
    let mut recall_id = None;
    let mut out = String::new();
    let mut copied = 0;
    for string in StringScanner::values(&text) {
        let raw = &text[string.text.clone()];
        let Some(kept) = (raw.len() > most).then(|| raw_prefix_bytes(raw, most)).flatten() else { continue };
        let rest = &raw[kept..];
        if rest.is_empty() || unescape(rest).parse::<CutPlaceholder>().is_ok() {
            continue;
        }
        let recall_id = recall_id.get_or_insert_with(|| (scope.recall_id)(&text)).clone();
        let characters = format_count(unescape(rest).chars().count());
        let mark = CutPlaceholder { omitted_chars: characters, recall_id }.to_string();
        if mark.len() < rest.len() {
            out.push_str(&text[copied..string.text.start + kept]);
            out.push_str(&mark);
            copied = string.text.end;
        }
    }
    out.push_str(&text[copied..]);
    (copied > 0).then_some(out)
}

/// Returns how many bytes of a raw JSON string its first characters take. Returns `None` if the string has
/// fewer characters or an escape is invalid.
fn raw_prefix_bytes(raw: &str, characters: usize) -> Option<usize> {
    let mut at = 0;
    for _ in 0..characters {
        at += match raw[at..].chars().next()? {
            '\\' => match decode_escape(&raw[at + 1..]) {
                (char::REPLACEMENT_CHARACTER, used) if !raw[at + 1..][..used].eq_ignore_ascii_case("ufffd") => {
                    return None;
                }
                (_, used) => 1 + used,
            },
            plain => plain.len_utf8(),
        };
    }
    Some(at)
}
