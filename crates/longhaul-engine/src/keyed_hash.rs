//! Recognizes messages that are sent again, by a keyed cryptographic hash of each message and of all messages
//! before it.
//!
//! ```text
//! start ──▶ message 0 ──▶ message 1 ──▶ …
//!
//! each hash: keyed hash of (the hash before, the content of the message)
//! ```
//!
//! A client sends its whole history with every request. The store finds the session by these hashes, and
//! writes only the messages that are new.
//!
//! - A system prompt at the beginning of the list of messages is not hashed. Otherwise all sessions of an agent
//!   would begin alike.
//! - The hash does not depend on white space, the order of keys, escapes, fields that are null, a string in
//!   place of a list with one text, or the client's cache breakpoints.
//! - The hash is keyed. So nobody can guess a content from its hash, and hashes under different keys do not
//!   match.
//!
//! This module may use `wire` and the modules below it.

use std::collections::HashMap;

use crate::block_cache::ContentKey;
use crate::json::{JsonError, Scanner, Span, ValueKind, unescape};
use crate::transcript::Transcript;
use crate::wire::CACHE_CONTROL_FIELD;

/// The maximum depth of nested values that are brought into canonical form. Deeper values are hashed as they
/// are written, so that hostile input cannot overflow the stack. Chosen by hand.
const MAX_DEPTH: u32 = 64;

/// A keyed hash: of a message and all messages before it, or of other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyedHash(pub [u8; 32]);

/// Computes hashes under one key.
#[derive(Clone)]
pub struct KeyedHasher {
    key: [u8; 32],
}

impl KeyedHasher {
    /// Creates a hasher with the key of the tenant, or of whoever else stores the hashes.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// Returns a hash for each message of a request, in order. A system prompt at the beginning of the list
    /// gets none in any API format.
    #[must_use]
    pub fn hash_chain(&self, transcript: &Transcript<'_>) -> Vec<KeyedHash> {
        self.hash_messages(transcript, b"", |_, _, identity| identity())
    }

    /// Returns the hashes of [`hash_chain`](Self::hash_chain) within a scope: equal histories in different
    /// scopes have different hashes. Hashes of messages that were sent before, behind the same history, are
    /// taken from the cache. The empty scope gives the same hashes as `hash_chain`.
    #[must_use]
    pub fn hash_chain_in_scope(
        &self,
        scope: &[u8],
        transcript: &Transcript<'_>,
        seen: &mut HashChainCache,
    ) -> Vec<KeyedHash> {
        self.hash_messages(transcript, scope, |before, message, identity| {
            seen.get_or_compute(before, message, identity)
        })
    }

    fn hash_messages(
        &self,
        transcript: &Transcript<'_>,
        scope: &[u8],
        mut cache: impl FnMut(&KeyedHash, &str, &mut dyn FnMut() -> KeyedHash) -> KeyedHash,
    ) -> Vec<KeyedHash> {
        let api_format = transcript.api_format.name().as_bytes();
        let start = match scope {
            b"" => self.hash(&[b"messages in ", api_format]),
            scope => self.hash(&[b"messages in ", api_format, scope]),
        };
        let messages = (transcript.system_message_count()..transcript.message_count())
            .filter_map(|index| transcript.message_json(index));
        let mut says = Vec::new();
        let chain = messages.scan(start, |before, message| {
            let last = *before;
            *before = cache(&last, message, &mut || {
                says.clear();
                // The transcript was parsed from a body that was scanned to its end, so this cannot fail.
                let _ = write_value(message, &mut Scanner::new(message), ValueContext::Protocol, 0, &mut says);
                self.hash(&[b"then", &last.0, &says])
            });
            Some(*before)
        });
        chain.collect()
    }

    /// Computes the hash of these parts. The boundaries between the parts are included in the hash.
    #[must_use]
    pub fn hash(&self, parts: &[&[u8]]) -> KeyedHash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        KeyedHash(*hasher.finalize().as_bytes())
    }
}

/// A bounded cache of message hashes. Its key is the bytes of a message and the keyed hash before it. So
/// somebody who forges two messages with the same key confuses only their own history.
#[derive(Default)]
pub struct HashChainCache {
    hashes: HashMap<(ContentKey, ContentKey), KeyedHash>,
}

/// The number of hashes at which the cache is emptied. Chosen by hand.
const MAX_CACHED_HASHES: usize = 100_000;

impl HashChainCache {
    fn get_or_compute(
        &mut self,
        before: &KeyedHash,
        message: &str,
        identity: &mut dyn FnMut() -> KeyedHash,
    ) -> KeyedHash {
        let key = (ContentKey::new(0, &before.0), ContentKey::new(1, message.as_bytes()));
        if let Some(seen) = self.hashes.get(&key) {
            return *seen;
        }
        if self.hashes.len() >= MAX_CACHED_HASHES {
            self.hashes.clear();
        }
        let identity = identity();
        self.hashes.insert(key, identity);
        identity
    }
}

/// The part of a message that a value belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueContext {
    /// The protocol, which can express the same content in several ways.
    Protocol,
    /// The arguments of a tool call, where every difference counts, except white space and the order of keys.
    ToolInput,
}

/// Writes a value in canonical form: each value has a tag for its kind, each string has its length, and
/// members are sorted by key.
fn write_value<'b>(
    body: &'b str,
    scanner: &mut Scanner<'b>,
    sort: ValueContext,
    depth: u32,
    says: &mut Vec<u8>,
) -> Result<(), JsonError> {
    match scanner.peek() {
        b'{' if depth < MAX_DEPTH => write_object(body, scanner, sort, depth, says),
        b'[' if depth < MAX_DEPTH => {
            says.push(b'[');
            scanner.for_each_element(|scanner| write_value(body, scanner, sort, depth + 1, says))?;
            says.push(b']');
            Ok(())
        }
        _ => {
            let (at, kind) = scanner.skip_value()?;
            write_scalar(body, at, kind, says);
            Ok(())
        }
    }
}

fn write_object<'b>(
    body: &'b str,
    scanner: &mut Scanner<'b>,
    sort: ValueContext,
    depth: u32,
    says: &mut Vec<u8>,
) -> Result<(), JsonError> {
    says.push(b'{');
    let start = says.len();
    // For each member, the end of its key and the end of the member.
    let mut ends: Vec<[usize; 2]> = Vec::new();
    scanner.for_each_member(|scanner, key, _| {
        let name = unescape(&body[key.range()]);
        let protocol = sort == ValueContext::Protocol;
        if protocol && (scanner.peek() == b'n' || name == CACHE_CONTROL_FIELD) {
            scanner.skip_value()?;
            return Ok(());
        }
        write_string(&name, says);
        let named = says.len();
        match (&*name, scanner.peek()) {
            // A string in place of a content list means a list with one text.
            ("content", b'"') if protocol => {
                let (at, kind) = scanner.skip_value()?;
                says.extend_from_slice(b"[{");
                write_string("text", says);
                write_scalar(body, at, kind, says);
                write_string("type", says);
                write_string("text", says);
                says.extend_from_slice(b"}]");
            }
            ("type", b'"') if protocol => {
                let (at, kind) = scanner.skip_value()?;
                match &body[at.unquoted().range()] {
                    "input_text" | "output_text" => write_string("text", says),
                    _ => write_scalar(body, at, kind, says),
                }
            }
            ("input" | "arguments", b'{' | b'[') => {
                write_value(body, scanner, ValueContext::ToolInput, depth + 1, says)?;
            }
            _ => write_value(body, scanner, sort, depth + 1, says)?,
        }
        ends.push([named, says.len()]);
        Ok(())
    })?;
    sort_members(says, start, &ends);
    says.push(b'}');
    Ok(())
}

/// Sorts the members by key. Most objects are sorted already. Members with the same key keep their order.
fn sort_members(says: &mut Vec<u8>, start: usize, ends: &[[usize; 2]]) {
    let starts = [start].into_iter().chain(ends.iter().map(|[_, end]| *end));
    let mut members: Vec<(&[u8], &[u8])> =
        starts.zip(ends).map(|(from, [named, end])| (&says[from..*named], &says[from..*end])).collect();
    if !members.is_sorted_by_key(|(name, _)| *name) {
        members.sort_by_key(|(name, _)| *name);
        let sorted: Vec<u8> = members.into_iter().flat_map(|(_, member)| member).copied().collect();
        says.truncate(start);
        says.extend_from_slice(&sorted);
    }
}

fn write_scalar(body: &str, at: Span, kind: ValueKind, says: &mut Vec<u8>) {
    match kind {
        ValueKind::PlainString => write_string(&body[at.unquoted().range()], says),
        ValueKind::EscapedString => write_string(&unescape(&body[at.unquoted().range()]), says),
        // Two different half surrogates both unescape to U+FFFD, so the bytes are compared.
        ValueKind::UnpairedSurrogate => write_sized(b'h', body[at.range()].as_bytes(), says),
        ValueKind::Object | ValueKind::Array | ValueKind::Scalar => {
            write_sized(b'v', body[at.range()].as_bytes(), says);
        }
    }
}

fn write_string(text: &str, says: &mut Vec<u8>) {
    write_sized(b's', text.as_bytes(), says);
}

fn write_sized(c: u8, bytes: &[u8], says: &mut Vec<u8>) {
    says.push(c);
    says.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    says.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    fn chain(key: u8, body: &str) -> Vec<KeyedHash> {
        KeyedHasher::new([key; 32]).hash_chain(&wire::parse(None, body).unwrap().0)
    }

    const BODY: &str = r#"{"model":"claude-sonnet-4-5","system":"be brief","messages":[
        {"role":"user","content":"go / on"},
        {"role":"assistant","content":[{"type":"text","text":"well"},{"type":"tool_use","id":"t1","name":"ls","input":{"a":1,"b":[2]}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a.txt"}]}]}"#;

    #[test]
    fn how_a_message_is_written_does_not_matter() {
        let other = r#"{"messages":[{"content":[{"text":"go \/ on","type":"text","cache_control":{"type":"ephemeral"}}],"role":"user"},
            {"role":"assistant","name":null,"content":[{"type":"text","text":"we\u006cl"},{"input":{"b":[2],"a":1},"name":"ls","id":"t1","type":"tool_use"}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a.txt"}]}]}],
            "model":"claude-opus-4-5","system":"be long","max_tokens":5}"#;
        assert_eq!(chain(1, BODY), chain(1, other));
    }

    #[test]
    fn what_it_says_what_stands_before_it_and_who_keeps_it_does() {
        let ours = chain(1, BODY);
        let changes = [("go / on", "go on"), (r#""a":1"#, r#""a":2"#), ("a.txt", "b.txt")];
        for (at, (from, into)) in changes.into_iter().enumerate() {
            let other = chain(1, &BODY.replace(from, into));
            assert_eq!(other[..at], ours[..at]);
            assert!((at..3).all(|place| other[place] != ours[place]), "{from}");
        }
        assert!(chain(2, BODY).iter().all(|identity| !ours.contains(identity)));
    }

    #[test]
    fn what_a_tool_was_called_with_is_told_apart_to_the_letter() {
        let call = |input: &str| {
            format!(
                r#"{{"messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"f","input":{input}}}]}}]}}"#
            )
        };
        let inputs = [
            r#"{"type":"input_text"}"#,
            r#"{"type":"output_text"}"#,
            r#"{"type":"output_text","cache_control":"a"}"#,
            r#"{"type":"output_text","value":null}"#,
            r#"{"content":"a"}"#,
            r#"{"content":[{"text":"a","type":"text"}]}"#,
            r#"{"content":"A","content":"B"}"#,
            r#"{"content":"B","content":"A"}"#,
        ];
        let mut seen: Vec<Vec<KeyedHash>> = inputs.iter().map(|input| chain(1, &call(input))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), inputs.len());
        assert_eq!(chain(1, &call(r#"{"a":1,"b":2}"#)), chain(1, &call(r#"{ "b": 2, "a": 1 }"#)));
    }

    #[test]
    fn half_characters_and_deep_nesting_are_told_apart() {
        let body = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":{text}}}]}}"#);
        assert_ne!(chain(1, &body(r#""\ud800""#)), chain(1, &body(r#""\udbff""#)));
        let deep = |depth: usize, at: &str| body(&format!("{}{at}{}", "[".repeat(depth), "]".repeat(depth)));
        assert_ne!(chain(1, &deep(2_000, "1")), chain(1, &deep(2_000, "2")));
    }
}
