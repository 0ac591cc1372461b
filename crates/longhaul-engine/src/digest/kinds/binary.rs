//! Images and other bytes that are no text: what they are and how many.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, counted};
use crate::clip;
use crate::lines::Line;

/// How the usual formats begin, as text and in base64.
const MAGIC: [(&str, &str); 12] = [
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

pub(in super::super) fn shows(page: &Page<'_>, _: &Sample<'_>) -> bool {
    let start = clip::start(page.text.trim_start(), 2000);
    let strange = start
        .chars()
        .filter(|c| {
            *c == '\u{fffd}' || (c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{1b}' | '\u{8}'))
        })
        .count();
    strange * 10 > start.chars().count().max(1) || is_base64(start)
}

fn is_base64(start: &str) -> bool {
    let data =
        start.split_once(";base64,").filter(|_| start.starts_with("data:")).map_or(start, |(_, data)| data);
    data.len() >= 400
        && data.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'-' | b'_')
        })
        && data.lines().next().is_some_and(|line| line.len() >= 60)
        && data.bytes().any(|byte| byte.is_ascii_uppercase())
        && data.bytes().any(|byte| byte.is_ascii_digit())
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let start = page.text.trim_start();
    let data =
        start.split_once(";base64,").filter(|_| start.starts_with("data:")).map_or(start, |(_, data)| data);
    let name = MAGIC.iter().find(|(_, magic)| data.starts_with(magic)).map_or("not text", |(name, _)| name);
    proposal.lead.push(name.to_owned());
    if page.bytes.is_none() {
        proposal.lead.push(counted(page.source.len(), "byte"));
    }
    let first = start.lines().next().unwrap_or_default();
    if first.chars().all(|c| !c.is_control()) {
        proposal.quote(Line { at: page.offset(first), text: clip::start(first, 40) }, 1.0);
    }
}
