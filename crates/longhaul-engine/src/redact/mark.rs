//! What stands in the place of a secret: `[REDACTED:github-token:ghp_..Wx:1]`.
//!
//! A mark has the kind, for long secrets a few characters of each end, and last what makes it the same mark for the same
//! secret: its number by first sight, or the first digits of a hash keyed by the session. It is made of characters that
//! need no escape in JSON, URLs' queries or source strings, and no rule finds anything inside it.

use super::SessionKey;
use crate::known::{ByContent, ContentKey};

const OPEN: &[u8] = b"[REDACTED:";

/// A mark of no secret in particular, to see what a text looks like with marks in it. Its kind is no word that the keyword
/// gate stops at.
pub(super) const STAND_IN: &[u8] = b"[REDACTED:x:1]";

/// From this length a secret keeps some characters at each end.
const LONG: usize = 24;
const KEPT_FIRST: usize = 4;
const KEPT_LAST: usize = 2;

/// Kinds whose ends say nothing, or are a part of what a person made up.
const KEEPS_NOTHING: [&str; 6] =
    ["private-key", "password", "url-credentials", "database-url", "connection-string", "kubernetes-secret"];

/// A text that was cut, without the beginning of a mark at its end: what is left of a mark is none, and could be taken for a secret.
pub(super) fn whole(mut text: String) -> String {
    const OPENING: &str = "[REDACTED:";
    if let Some(at) = text.rfind(OPENING).filter(|at| !text[*at..].contains(']')) {
        text.truncate(at);
        text.truncate(text.trim_end().len());
        text.push('…');
    }
    text
}

/// How secrets are told apart.
#[derive(Clone)]
pub(super) enum Marks {
    Keyed(SessionKey),
    /// Numbers by a hash of the secret, so that the secrets themselves are not kept.
    Numbered(ByContent<usize>),
}

impl Marks {
    /// Writes the mark of this secret to the end of `mark`.
    pub(super) fn write(&mut self, kind: &str, secret: &[u8], mark: &mut String) {
        mark.push_str("[REDACTED:");
        mark.push_str(kind);
        mark.push(':');
        if let Some((first, last)) = ends(kind, secret) {
            mark.push_str(first);
            mark.push_str("..");
            mark.push_str(last);
            mark.push(':');
        }
        match self {
            Marks::Keyed(key) => mark.push_str(&blake3::keyed_hash(key.bytes(), secret).to_hex()[..8]),
            Marks::Numbered(seen) => {
                let next = seen.len() + 1;
                push_number(mark, *seen.entry(ContentKey::of(0, secret)).or_insert(next));
            }
        }
        mark.push(']');
    }
}

fn push_number(mark: &mut String, number: usize) {
    if number >= 10 {
        push_number(mark, number / 10);
    }
    mark.push(char::from(b"0123456789"[number % 10]));
}

/// The ends that a long secret keeps.
fn ends<'s>(kind: &str, secret: &'s [u8]) -> Option<(&'s str, &'s str)> {
    if secret.len() < LONG || KEEPS_NOTHING.contains(&kind) {
        return None;
    }
    let first = std::str::from_utf8(&secret[..KEPT_FIRST]).ok()?;
    let last = std::str::from_utf8(&secret[secret.len() - KEPT_LAST..]).ok()?;
    let plain = |part: &str| part.bytes().all(is_kept);
    (plain(first) && plain(last)).then_some((first, last))
}

fn is_kept(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The marks already in the text, in order.
pub(super) fn existing(text: &[u8]) -> Vec<(usize, usize)> {
    memchr::memmem::find_iter(text, OPEN).filter_map(|at| Some((at, at + length(&text[at..])?))).collect()
}

/// The length of the mark that `text` begins with.
fn length(text: &[u8]) -> Option<usize> {
    let close = memchr::memchr(b']', &text[..text.len().min(80)])?;
    let mut parts = text[OPEN.len()..close].split(|&byte| byte == b':');
    let kind = parts.next()?;
    let (hint, identity) = match (parts.next()?, parts.next()) {
        (identity, None) => (None, identity),
        (hint, Some(identity)) => (Some(hint), identity),
    };
    let well_kind = !kind.is_empty()
        && kind.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    let well_hint = hint.is_none_or(|hint| {
        hint.len() == KEPT_FIRST + 2 + KEPT_LAST && &hint[KEPT_FIRST..KEPT_FIRST + 2] == b".."
    });
    let well_identity = (1..=8).contains(&identity.len()) && identity.iter().all(u8::is_ascii_hexdigit);
    (well_kind && well_hint && well_identity && parts.next().is_none()).then_some(close + 1)
}
