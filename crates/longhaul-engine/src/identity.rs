//! What a message is known by wherever it comes again: a cryptographic hash of what it says and of all that stands before it.
//!
//! ```text
//! start ──▶ message 0 ──▶ message 1 ──▶ …        each identity: keyed hash of (the one before, what the message says)
//! ```
//!
//! A system prompt that opens the list of messages is no part of it: all sessions of an agent would be one otherwise.
//!
//! A client sends its whole history again with every request; by its identities a store finds the session, and writes only what
//! is new. White space, the order of keys, how characters are escaped, fields that are null, a string against a list of one text,
//! and where the client put its cache marks this time change no identity. The hash is keyed, so that nobody who reads identities
//! can try out what they stand for, and no two keepers share any.
//!
//! It may use `wire` and what is below it.

use std::collections::HashMap;

use crate::json::{Kind, NotJson, Scanner, Span, unescape};
use crate::known::ContentKey;
use crate::transcript::Transcript;
use crate::wire::MARK;

/// Values nested deeper than this are hashed as they stand, so that hostile input costs no stack.
const DEEPEST: u32 = 64;

/// The identity of a message and of all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub [u8; 32]);

/// Makes identities under one key.
#[derive(Clone)]
pub struct Identities {
    key: [u8; 32],
}

impl Identities {
    /// Under the key of whoever keeps what they name.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// One for each message of a body, in order; a system prompt at the beginning of the list is none, wherever a dialect puts it.
    #[must_use]
    pub fn chain(&self, transcript: &Transcript<'_>) -> Vec<Identity> {
        self.chain_of(transcript, b"", |_, _, identity| identity())
    }

    /// The same within a scope, where a history of one scope is none of another, with what is remembered of histories that came
    /// before: a message that was sent again, behind the same ones, costs no more than a look.
    #[must_use]
    pub fn chain_within(
        &self,
        scope: &[u8],
        transcript: &Transcript<'_>,
        seen: &mut Chains,
    ) -> Vec<Identity> {
        self.chain_of(transcript, scope, |before, message, identity| seen.of(before, message, identity))
    }

    fn chain_of(
        &self,
        transcript: &Transcript<'_>,
        scope: &[u8],
        mut known: impl FnMut(&Identity, &str, &mut dyn FnMut() -> Identity) -> Identity,
    ) -> Vec<Identity> {
        let dialect = transcript.dialect.name().as_bytes();
        let start = match scope {
            b"" => self.of(&[b"messages in ", dialect]),
            scope => self.of(&[b"messages in ", dialect, scope]),
        };
        let messages =
            (transcript.lead()..transcript.message_count()).filter_map(|index| transcript.message(index));
        let mut says = Vec::new();
        let chain = messages.scan(start, |before, message| {
            let last = *before;
            *before = known(&last, message, &mut || {
                says.clear();
                // A transcript is of a body that was scanned to its end, so nothing here can fail.
                let _ = value(message, &mut Scanner::new(message), Sort::Protocol, 0, &mut says);
                self.of(&[b"then", &last.0, &says])
            });
            Some(*before)
        });
        chain.collect()
    }

    /// The identity of bytes of any other kind, by themselves.
    #[must_use]
    pub fn of(&self, parts: &[&[u8]]) -> Identity {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        Identity(*hasher.finalize().as_bytes())
    }
}

/// Identities that were made before, in bounded room. A message is known by its bytes and by the identity before it, which is keyed: who
/// makes two messages look alike here mixes up nobody's history but their own.
#[derive(Default)]
pub struct Chains {
    seen: HashMap<(ContentKey, ContentKey), Identity>,
}

/// So many are remembered.
const MOST_SEEN: usize = 100_000;

impl Chains {
    fn of(&mut self, before: &Identity, message: &str, identity: &mut dyn FnMut() -> Identity) -> Identity {
        let key = (ContentKey::of(0, &before.0), ContentKey::of(1, message.as_bytes()));
        if let Some(seen) = self.seen.get(&key) {
            return *seen;
        }
        if self.seen.len() >= MOST_SEEN {
            self.seen.clear();
        }
        let identity = identity();
        self.seen.insert(key, identity);
        identity
    }
}

/// What sort of value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Part of the protocol, which can say one thing in several ways.
    Protocol,
    /// What a tool was called with: any difference but white space and the order of keys is one.
    Data,
}

/// Writes what a value says, in one way only: each kind has its sign, each string its length, and members come by their names.
fn value<'b>(
    body: &'b str,
    scanner: &mut Scanner<'b>,
    sort: Sort,
    depth: u32,
    says: &mut Vec<u8>,
) -> Result<(), NotJson> {
    match scanner.peek() {
        b'{' if depth < DEEPEST => object(body, scanner, sort, depth, says),
        b'[' if depth < DEEPEST => {
            says.push(b'[');
            scanner.elements(|scanner| value(body, scanner, sort, depth + 1, says))?;
            says.push(b']');
            Ok(())
        }
        _ => {
            let (at, kind) = scanner.value()?;
            scalar(body, at, kind, says);
            Ok(())
        }
    }
}

fn object<'b>(
    body: &'b str,
    scanner: &mut Scanner<'b>,
    sort: Sort,
    depth: u32,
    says: &mut Vec<u8>,
) -> Result<(), NotJson> {
    says.push(b'{');
    let start = says.len();
    // Where each member's name ends, and where the member does.
    let mut ends: Vec<[usize; 2]> = Vec::new();
    scanner.members(|scanner, key, _| {
        let name = unescape(&body[key.range()]);
        let protocol = sort == Sort::Protocol;
        if protocol && (scanner.peek() == b'n' || name == MARK) {
            scanner.value()?;
            return Ok(());
        }
        string(&name, says);
        let named = says.len();
        match (&*name, scanner.peek()) {
            // A string in the place of a list is a list of one text.
            ("content", b'"') if protocol => {
                let (at, kind) = scanner.value()?;
                says.extend_from_slice(b"[{");
                string("text", says);
                scalar(body, at, kind, says);
                string("type", says);
                string("text", says);
                says.extend_from_slice(b"}]");
            }
            ("type", b'"') if protocol => {
                let (at, kind) = scanner.value()?;
                match &body[at.unquoted().range()] {
                    "input_text" | "output_text" => string("text", says),
                    _ => scalar(body, at, kind, says),
                }
            }
            ("input" | "arguments", b'{' | b'[') => value(body, scanner, Sort::Data, depth + 1, says)?,
            _ => value(body, scanner, sort, depth + 1, says)?,
        }
        ends.push([named, says.len()]);
        Ok(())
    })?;
    by_name(says, start, &ends);
    says.push(b'}');
    Ok(())
}

/// Puts the members in the order of their names; most are in it already, and those of one name stay as they stand.
fn by_name(says: &mut Vec<u8>, start: usize, ends: &[[usize; 2]]) {
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

fn scalar(body: &str, at: Span, kind: Kind, says: &mut Vec<u8>) {
    match kind {
        Kind::Plain => string(&body[at.unquoted().range()], says),
        Kind::Escaped => string(&unescape(&body[at.unquoted().range()]), says),
        // Half a character is told from another half by its bytes alone.
        Kind::Damaged => sized(b'h', body[at.range()].as_bytes(), says),
        Kind::Object | Kind::Array | Kind::Scalar => sized(b'v', body[at.range()].as_bytes(), says),
    }
}

fn string(text: &str, says: &mut Vec<u8>) {
    sized(b's', text.as_bytes(), says);
}

fn sized(sign: u8, bytes: &[u8], says: &mut Vec<u8>) {
    says.push(sign);
    says.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    says.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    fn chain(key: u8, body: &str) -> Vec<Identity> {
        Identities::new([key; 32]).chain(&wire::parse(None, body).unwrap().0)
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
        let mut seen: Vec<Vec<Identity>> = inputs.iter().map(|input| chain(1, &call(input))).collect();
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
