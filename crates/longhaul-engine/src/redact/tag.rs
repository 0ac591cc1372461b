//! Redaction tags, which replace secrets: `[REDACTED:github-token:ghp_..Wx:1]`.
//!
//! A tag has three parts: the kind of the secret; for long secrets a hint, which is a few characters of each
//! end; and an identity that is the same for the same secret. The identity is a number in the order of first
//! appearance, or the first digits of a hash keyed by the session. A tag needs no escaping in JSON, in the
//! query of a URL or in source strings, and no rule finds a secret inside it.

use std::fmt::Write as _;

use super::SessionKey;
use crate::block_cache::{ContentKey, ContentMap};

const TAG_START: &str = "[REDACTED:";

/// An example of a tag, used to scan a text as it will look with tags in it. The keyword search does not know
/// its kind `x`.
pub(super) const SAMPLE_TAG: &[u8] = b"[REDACTED:x:1]";

/// The minimum length in bytes of a secret whose tag has a hint. Chosen by hand: the hint shows six
/// characters, and most of the secret must stay hidden.
const MIN_HINTED_BYTES: usize = 24;
const HINT_FIRST_BYTES: usize = 4;
const HINT_LAST_BYTES: usize = 2;

/// Kinds whose tags never have a hint: their ends say nothing, or belong to a password that a person
/// invented.
const KINDS_WITHOUT_HINT: [&str; 6] =
    ["private-key", "password", "url-credentials", "database-url", "connection-string", "kubernetes-secret"];

/// Removes an incomplete tag from the end of a text that was truncated. The rest of a tag is not recognized
/// as a tag and could be taken for a secret.
pub(super) fn drop_cut_tag(mut text: String) -> String {
    if let Some(at) = text.rfind(TAG_START).filter(|at| !text[*at..].contains(']')) {
        text.truncate(at);
        text.truncate(text.trim_end().len());
        text.push('…');
    }
    text
}

/// Writes redaction tags and keeps the identities of secrets.
#[derive(Clone)]
pub(super) enum TagWriter {
    Keyed(SessionKey),
    /// The number of each secret, by a hash of the secret, so that no secret is kept in memory.
    Numbered(ContentMap<usize>),
}

impl TagWriter {
    /// Appends the tag of this secret to `mark`.
    pub(super) fn write_tag(&mut self, kind: &str, secret: &[u8], mark: &mut String) {
        mark.push_str(TAG_START);
        mark.push_str(kind);
        mark.push(':');
        if let Some((first, last)) = hint_ends(kind, secret) {
            mark.push_str(first);
            mark.push_str("..");
            mark.push_str(last);
            mark.push(':');
        }
        match self {
            TagWriter::Keyed(key) => mark.push_str(&blake3::keyed_hash(key.bytes(), secret).to_hex()[..8]),
            TagWriter::Numbered(seen) => {
                let next = seen.len() + 1;
                let number = *seen.entry(ContentKey::new(0, secret)).or_insert(next);
                let _ = write!(mark, "{number}");
            }
        }
        mark.push(']');
    }
}

/// Returns the first and last characters of a long secret that its tag shows as a hint.
fn hint_ends<'s>(kind: &str, secret: &'s [u8]) -> Option<(&'s str, &'s str)> {
    if secret.len() < MIN_HINTED_BYTES || KINDS_WITHOUT_HINT.contains(&kind) {
        return None;
    }
    let first = std::str::from_utf8(&secret[..HINT_FIRST_BYTES]).ok()?;
    let last = std::str::from_utf8(&secret[secret.len() - HINT_LAST_BYTES..]).ok()?;
    let plain = |part: &str| part.bytes().all(is_hint_byte);
    (plain(first) && plain(last)).then_some((first, last))
}

fn is_hint_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Returns the byte ranges of all tags in a text, in order.
pub(super) fn find_tags(text: &[u8]) -> Vec<(usize, usize)> {
    memchr::memmem::find_iter(text, TAG_START).filter_map(|at| Some((at, at + tag_length(&text[at..])?))).collect()
}

/// Returns the length in bytes of the tag that `text` begins with.
fn tag_length(text: &[u8]) -> Option<usize> {
    let close = memchr::memchr(b']', &text[..text.len().min(80)])?;
    let mut parts = text[TAG_START.len()..close].split(|&byte| byte == b':');
    let kind = parts.next()?;
    let (hint, identity) = match (parts.next()?, parts.next()) {
        (identity, None) => (None, identity),
        (hint, Some(identity)) => (Some(hint), identity),
    };
    let well_kind =
        !kind.is_empty() && kind.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    let well_hint = hint.is_none_or(|hint| {
        hint.len() == HINT_FIRST_BYTES + 2 + HINT_LAST_BYTES && &hint[HINT_FIRST_BYTES..HINT_FIRST_BYTES + 2] == b".."
    });
    let well_identity = (1..=8).contains(&identity.len()) && identity.iter().all(u8::is_ascii_hexdigit);
    (well_kind && well_hint && well_identity && parts.next().is_none()).then_some(close + 1)
}
