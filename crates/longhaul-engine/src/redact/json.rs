//! Redaction of a JSON document: the strings are read as text, the secrets in them are spliced out, and every other byte is
//! the input's.
//!
//! A string is unescaped before it is read, so that a secret written `gh\u0070_…` or `pass\/word` is found, and what is found
//! is mapped back to the bytes it came from. Marks need no escapes, so the document stays valid, also where the string is
//! itself JSON. Images, signatures and encrypted content are not read; names of fields and ids only for keys of a known shape. Thinking may not be edited:
//! what is found in it is reported as sealed, and the caller drops the block.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::mark::Marks;
use super::rules::Rules;
use super::{Content, Found, Redacted, scan};
use crate::json::{Strings, escaped_char};

/// A JSON document without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonRedaction {
    /// The document with marks in place of secrets, valid as before.
    pub text: Redacted,
    /// What was found and replaced, by bytes of the input, in order.
    pub found: Vec<Found>,
    /// What was found where nothing may be edited: a block that holds one of these must not pass.
    pub sealed: Vec<Found>,
}

/// The input is not a JSON document: where and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJson {
    /// The line of the trouble, from 1.
    pub line: usize,
    /// The column of the trouble, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not JSON at line {} column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for NotJson {}

/// No key that its own shape gives away is shorter.
const MIN_KEY_BYTES: usize = 16;

/// Fields whose strings are not text: what the protocol refers to by its bytes. No provider makes ids that begin like a service's
/// key, so an id that does is somebody's key.
const IDS: [&str; 10] = [
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
/// Fields that nobody but their vendor can read.
const OPAQUE: [&str; 4] = ["signature", "encrypted_content", "thought_signature", "thoughtSignature"];
/// Text that may not be edited.
const SEALED: [&str; 1] = ["thinking"];
/// Fields that hold binary data, if all of it is base64.
const BINARY: [&str; 4] = ["data", "b64_json", "file_data", "image_url"];

/// What is done about secrets where nothing may be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sealed {
    /// They are reported.
    Report,
    /// They go like any other: nobody will send the document again.
    Redact,
}

pub(super) fn redact(
    body: &str,
    rules: &Rules,
    marks: &mut Marks,
    if_sealed: Sealed,
) -> Result<JsonRedaction, NotJson> {
    serde_json::from_str::<serde::de::IgnoredAny>(body).map_err(|error| NotJson {
        line: error.line(),
        column: error.column(),
        message: error.to_string(),
    })?;
    let mut clean = String::with_capacity(body.len());
    let mut copied = 0;
    let (mut found, mut sealed) = (Vec::new(), Vec::new());
    for string in Strings::and_names(body) {
        let name = &body[string.name.clone()];
        let raw = &body[string.text.clone()];
        let is_id = !string.is_name && IDS.contains(&name);
        let is_opaque = !string.is_name && (OPAQUE.contains(&name) || is_binary(name, raw));
        if is_opaque || ((string.is_name || is_id) && raw.len() < MIN_KEY_BYTES) {
            continue;
        }
        let read = Unescaped::from(raw);
        let secrets = match (string.is_name, is_id) {
            (true, _) => shaped(&read.text, rules),
            (_, true) => {
                shaped(&read.text, rules).into_iter().filter(|(range, _)| range.start == 0).collect()
            }
            _ => secrets(name, &read.text, rules),
        };
        for (range, kind) in secrets {
            let at = string.text.start + read.raw_at(range.start)..string.text.start + read.raw_at(range.end);
            let finding = Found { kind: kind.to_owned(), start: at.start, end: at.end };
            if !string.is_name && SEALED.contains(&name) && if_sealed == Sealed::Report {
                sealed.push(finding);
                continue;
            }
            clean.push_str(&body[copied..at.start]);
            marks.write(kind, &read.text.as_bytes()[range], &mut clean);
            copied = at.end;
            found.push(finding);
        }
    }
    clean.push_str(&body[copied..]);
    Ok(JsonRedaction { text: Redacted(clean), found, sealed })
}

/// The secrets of the name of a field, or of an id: those alone that have a shape of their own.
fn shaped<'r>(text: &str, rules: &'r Rules) -> Vec<(Range<usize>, &'r str)> {
    let found = scan::shaped(text.as_bytes(), rules);
    found.into_iter().map(|finding| (finding.start..finding.end, finding.kind)).collect()
}

/// The secrets of one string: those in its text, or the whole of it where the field's name says so.
fn secrets<'r>(name: &str, text: &str, rules: &'r Rules) -> Vec<(Range<usize>, &'r str)> {
    let inside = scan::secrets(text.as_bytes(), Content::Text, rules);
    let named = scan::field(name.as_bytes(), text.as_bytes(), rules);
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
    data_url || (BINARY.contains(&name) && raw.len() >= 64 && raw.bytes().all(base64))
}

/// A string's text and where each of its bytes came from.
struct Unescaped<'j> {
    text: Cow<'j, str>,
    /// For each byte of the text and its end, the byte of the raw string; empty where they are the same.
    origins: Vec<usize>,
}

impl<'j> From<&'j str> for Unescaped<'j> {
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
                let (character, used) = escaped_char(&raw[at + 1..]);
                text.push(character);
                origins.extend(std::iter::repeat_n(at, character.len_utf8()));
                at += 1 + used;
            }
        }
        origins.push(raw.len());
        Self { text: Cow::Owned(text), origins }
    }
}

impl Unescaped<'_> {
    fn raw_at(&self, at: usize) -> usize {
        self.origins.get(at).copied().unwrap_or(at)
    }
}
