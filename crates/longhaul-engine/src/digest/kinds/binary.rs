//! Images and other data that is not text: keeps the format and the size.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, count_with_noun};
use super::super::weights::binary as weights;
use crate::lines::Line;
use crate::truncate;

/// The first characters of common formats, as text and in base64.
const FORMAT_PREFIXES: [(&str, &str); 12] = [
    ("PNG image", "\u{fffd}PNG"),
    ("PNG image in base64", "iVBORw0KGgo"),
    ("JPEG image in base64", "/9j/"),
    ("GIF image", "GIF8"),
    ("GIF image in base64", "R0lGOD"),
    ("WebP image in base64", "UklGR"),
    ("PDF", "%PDF"),
    ("PDF in base64", "JVBERi0"),
    ("ZIP archive", "PK\u{3}\u{4}"),
    ("ZIP archive in base64", "UEsDB"),
    ("gzip data in base64", "H4sI"),
    ("ELF program", "\u{7f}ELF"),
];

pub(in super::super) fn recognizes(output: &ParsedOutput<'_>, _: &Sample<'_>) -> bool {
    let start = truncate::first_chars(output.text.trim_start(), weights::EXAMINED_CHARS);
    let strange = start
        .chars()
        .filter(|c| *c == '\u{fffd}' || (c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{1b}' | '\u{8}')))
        .count();
    strange * weights::STRANGE_DIVISOR > start.chars().count().max(1) || is_base64(start)
}

fn is_base64(start: &str) -> bool {
    let data = start.split_once(";base64,").filter(|_| start.starts_with("data:")).map_or(start, |(_, data)| data);
    data.len() >= weights::MIN_BASE64_BYTES
        && data
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'-' | b'_'))
        && data.lines().next().is_some_and(|line| line.len() >= weights::MIN_BASE64_LINE_BYTES)
        && data.bytes().any(|byte| byte.is_ascii_uppercase())
        && data.bytes().any(|byte| byte.is_ascii_digit())
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let start = output.text.trim_start();
    let data = start.split_once(";base64,").filter(|_| start.starts_with("data:")).map_or(start, |(_, data)| data);
    let name = FORMAT_PREFIXES.iter().find(|(_, magic)| data.starts_with(magic)).map_or("not text", |(name, _)| name);
    proposal.head_facts.push(name.to_owned());
    if output.original_bytes.is_none() {
        proposal.head_facts.push(count_with_noun(output.source.len(), "byte"));
    }
    let first = start.lines().next().unwrap_or_default();
    if first.chars().all(|c| !c.is_control()) {
        let text = truncate::first_chars(first, weights::QUOTE_CHARS);
        proposal.add_quote(Line { offset: output.offset_of(first), text }, weights::QUOTE_VALUE);
    }
}
