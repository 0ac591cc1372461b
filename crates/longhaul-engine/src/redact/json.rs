//! Redacts a JSON document: scans the text of its strings and splices redaction tags into them. Every other
//! byte stays as it is.
//!
//! A string is unescaped before the scan, so that a secret that is written `gh\u0070_…` or `pass\/word` is
//! found. The match is then mapped back to the bytes of the input. Tags need no escaping, so the document
//! stays valid, even if a string is itself JSON. Images, signatures and encrypted content are not scanned.
//! Names of fields and IDs are scanned only for keys of a known shape. Thinking blocks may not be edited:
//! secrets in them are reported as sealed, and the caller drops the block.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::rules::Rules;
use super::tag::TagWriter;
use super::{FoundSecret, Redacted, RedactionMode, scan};
use crate::json::{StringScanner, decode_escape};

/// The result of redacting a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonRedaction {
    /// The document with a redaction tag in place of each secret. It is valid JSON.
    pub text: Redacted,
    /// The secrets that were replaced, in order, with offsets in the input.
    pub found: Vec<FoundSecret>,
    /// The secrets in fields that may not be edited. They are still in `text`, so the caller must drop the
    /// blocks that contain them.
    pub sealed: Vec<FoundSecret>,
}

/// An error: the input is not a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidJson {
    /// The line of the error, from 1.
    pub line: usize,
    /// The column of the error, from 1.
    pub column: usize,
    /// A description of the error.
    pub message: String,
}

impl fmt::Display for InvalidJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not JSON at line {} column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for InvalidJson {}

/// The minimum length in bytes of a field name or ID that is scanned. No key with a shape of its own is
/// shorter.
const MIN_KEY_BYTES: usize = 16;

/// Fields whose strings are IDs that the provider compares byte for byte. No provider makes IDs that begin
/// like a key of a service, so an ID that does is a key.
const ID_FIELDS: [&str; 10] = [
    "id",
    "tool_call_id",
    "call_id",
    "tool_use_id",
    "item_id",
    "message_id",
    "response_id",
    "previous_response_id",
    "container_id",
    "file_id",
];
/// Fields that only their vendor can read. They are not scanned.
const OPAQUE_FIELDS: [&str; 4] = ["signature", "encrypted_content", "thought_signature", "thoughtSignature"];
/// Fields with text that may not be edited, because it is signed.
const SEALED_FIELDS: [&str; 1] = ["thinking"];
/// Fields that contain binary data if the whole value is base64.
const BINARY_FIELDS: [&str; 4] = ["data", "b64_json", "file_data", "image_url"];

/// The treatment of secrets in fields that may not be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SealedPolicy {
    /// The secrets are reported and stay in the document.
    Report,
    /// The secrets are replaced like others, because nobody will send the document again.
    Redact,
}

pub(super) fn redact_document(
    body: &str,
    rules: &Rules,
    marks: &mut TagWriter,
    if_sealed: SealedPolicy,
) -> Result<JsonRedaction, InvalidJson> {
    serde_json::from_str::<serde::de::IgnoredAny>(body).map_err(|error| InvalidJson {
        line: error.line(),
        column: error.column(),
        message: error.to_string(),
    })?;
    let mut clean = String::with_capacity(body.len());
    let mut copied = 0;
    let (mut found, mut sealed) = (Vec::new(), Vec::new());
    for string in StringScanner::keys_and_values(body) {
        let name = &body[string.key.clone()];
        let raw = &body[string.text.clone()];
        let is_id = !string.is_key && ID_FIELDS.contains(&name);
        let is_opaque = !string.is_key && (OPAQUE_FIELDS.contains(&name) || is_binary(name, raw));
        if is_opaque || ((string.is_key || is_id) && raw.len() < MIN_KEY_BYTES) {
            continue;
        }
        let read = UnescapedString::from(raw);
        let secrets = match (string.is_key, is_id) {
            (true, _) => shaped_keys_in(&read.text, rules),
            (_, true) => shaped_keys_in(&read.text, rules).into_iter().filter(|(range, _)| range.start == 0).collect(),
            _ => secrets_in_string(name, &read.text, rules),
        };
        for (range, kind) in secrets {
            let at =
                string.text.start + read.raw_position(range.start)..string.text.start + read.raw_position(range.end);
            let finding = FoundSecret { kind: kind.to_owned(), start: at.start, end: at.end };
            if !string.is_key && SEALED_FIELDS.contains(&name) && if_sealed == SealedPolicy::Report {
                sealed.push(finding);
                continue;
            }
            clean.push_str(&body[copied..at.start]);
            marks.write_tag(kind, &read.text.as_bytes()[range], &mut clean);
            copied = at.end;
            found.push(finding);
        }
    }
    clean.push_str(&body[copied..]);
    Ok(JsonRedaction { text: Redacted(clean), found, sealed })
}

/// Finds the keys with a shape of their own in the name of a field or in an ID.
fn shaped_keys_in<'r>(text: &str, rules: &'r Rules) -> Vec<(Range<usize>, &'r str)> {
    let found = scan::find_shaped_keys(text.as_bytes(), rules);
    found.into_iter().map(|finding| (finding.start..finding.end, finding.kind)).collect()
}

/// Finds the secrets of one string: those in its text, or the whole value if the name of the field says that
/// it is a secret.
fn secrets_in_string<'r>(name: &str, text: &str, rules: &'r Rules) -> Vec<(Range<usize>, &'r str)> {
    let inside = scan::find_secrets(text.as_bytes(), RedactionMode::Text, rules);
    let named = scan::find_in_field(name.as_bytes(), text.as_bytes(), rules);
    match named {
        Some((range, kind))
            if inside.iter().all(|finding| range.start <= finding.start && finding.end <= range.end) =>
        {
            let kind = inside.first().map_or(kind, |finding| finding.kind);
            vec![(range, kind)]
        }
        _ => inside.into_iter().map(|finding| (finding.start..finding.end, finding.kind)).collect(),
    }
}

fn is_binary(name: &str, raw: &str) -> bool {
    let data_url = raw.starts_with("data:") && raw[..raw.len().min(100)].contains(";base64,");
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
    data_url || (BINARY_FIELDS.contains(&name) && raw.len() >= 64 && raw.bytes().all(base64))
}

/// The unescaped text of a string, with the origin of each of its bytes.
struct UnescapedString<'j> {
    text: Cow<'j, str>,
    /// For each byte of the text, and for its end, the offset in the raw string. It is empty if the offsets
    /// are the same.
    origins: Vec<usize>,
}

impl<'j> From<&'j str> for UnescapedString<'j> {
    fn from(raw: &'j str) -> Self {
        if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
            return Self { text: Cow::Borrowed(raw), origins: Vec::new() };
        }
        let mut text = String::with_capacity(raw.len());
        let mut origins = Vec::with_capacity(raw.len() + 1);
        let mut at = 0;
        while at < raw.len() {
            let next = memchr::memchr(b'\\', &raw.as_bytes()[at..]).map_or(raw.len(), |slash| at + slash);
            text.push_str(&raw[at..next]);
            origins.extend(at..next);
            at = next;
            if at < raw.len() {
                let (character, used) = decode_escape(&raw[at + 1..]);
                text.push(character);
                origins.extend(std::iter::repeat_n(at, character.len_utf8()));
                at += 1 + used;
            }
        }
        origins.push(raw.len());
        Self { text: Cow::Owned(text), origins }
    }
}

impl UnescapedString<'_> {
    fn raw_position(&self, at: usize) -> usize {
        self.origins.get(at).copied().unwrap_or(at)
    }
}
