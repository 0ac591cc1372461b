//! What a message is known by wherever it comes again: a cryptographic hash of what it says and of all that stands before it.
//!
//! ```text
//! start ──▶ message 0 ──▶ message 1 ──▶ …        each identity: keyed hash of (the one before, what the message says)
//! ```
//!
//! A client sends its whole history again with every request; by its identities a store finds the session, and writes only what
//! is new. White space, the order of keys, how characters are escaped, fields that are null, a string against a list of one text,
//! and where the client put its cache marks this time change no identity. The hash is keyed, so that nobody who reads identities
//! can try out what they stand for, and no two keepers share any.
//!
//! It may use `wire` and what is below it.

use crate::json::{Kind, NotJson, Scanner, Span, unescape};
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

    /// One for each message of a body, in order.
    #[must_use]
    pub fn chain(&self, transcript: &Transcript<'_>) -> Vec<Identity> {
        let start = self.of(&[b"messages in ", transcript.dialect.name().as_bytes()]);
        let messages = (0..transcript.message_count()).filter_map(|index| transcript.message(index));
        let said = messages.scan(start, |before, message| {
            // A transcript is of a body that was scanned to its end, so nothing here can fail.
            let says = self.value(message, &mut Scanner::new(message), 0).unwrap_or_default();
            *before = self.of(&[b"then", &before.0, &says]);
            Some(*before)
        });
        said.collect()
    }

    /// The identity of bytes of any other kind, by themselves.
    #[must_use]
    pub fn of(&self, parts: &[&[u8]]) -> Identity {
        Identity(self.hash(parts))
    }

    fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// What a value says.
    fn value<'b>(&self, body: &'b str, scanner: &mut Scanner<'b>, depth: u32) -> Result<[u8; 32], NotJson> {
        match scanner.peek() {
            b'{' if depth < DEEPEST => self.object(body, scanner, depth),
            b'[' if depth < DEEPEST => {
                let mut says = vec![b'['];
                scanner.elements(|scanner| {
                    says.extend_from_slice(&self.value(body, scanner, depth + 1)?);
                    Ok(())
                })?;
                Ok(self.hash(&[&says]))
            }
            _ => {
                let (at, kind) = scanner.value()?;
                Ok(self.scalar(body, at, kind))
            }
        }
    }

    fn object<'b>(&self, body: &'b str, scanner: &mut Scanner<'b>, depth: u32) -> Result<[u8; 32], NotJson> {
        let mut members: Vec<[[u8; 32]; 2]> = Vec::new();
        scanner.members(|scanner, key, _| {
            let name = unescape(&body[key.range()]);
            let is_null = scanner.peek() == b'n';
            if is_null || name == MARK {
                scanner.value()?;
                return Ok(());
            }
            let says = match (&*name, scanner.peek()) {
                ("content", b'"') => {
                    let (at, kind) = scanner.value()?;
                    self.only_text(self.scalar(body, at, kind))
                }
                ("type", b'"') => {
                    let (at, kind) = scanner.value()?;
                    match &body[at.unquoted().range()] {
                        "input_text" | "output_text" => self.string("text"),
                        _ => self.scalar(body, at, kind),
                    }
                }
                _ => self.value(body, scanner, depth + 1)?,
            };
            members.push([self.string(&name), says]);
            Ok(())
        })?;
        Ok(self.members(members))
    }

    fn members(&self, mut members: Vec<[[u8; 32]; 2]>) -> [u8; 32] {
        members.sort_unstable();
        let says: Vec<u8> = b"{".iter().copied().chain(members.into_iter().flatten().flatten()).collect();
        self.hash(&[&says])
    }

    /// What a list of one text says, whose words say this.
    fn only_text(&self, words: [u8; 32]) -> [u8; 32] {
        let block =
            self.members(vec![[self.string("type"), self.string("text")], [self.string("text"), words]]);
        let says: Vec<u8> = b"[".iter().copied().chain(block).collect();
        self.hash(&[&says])
    }

    fn scalar(&self, body: &str, at: Span, kind: Kind) -> [u8; 32] {
        match kind {
            Kind::Plain => self.string(&body[at.unquoted().range()]),
            Kind::Escaped => self.string(&unescape(&body[at.unquoted().range()])),
            // Half a character is told from another half by its bytes alone.
            Kind::Damaged => self.hash(&[b"damaged", body[at.range()].as_bytes()]),
            Kind::Object | Kind::Array | Kind::Scalar => {
                self.hash(&[b"as it stands", body[at.range()].as_bytes()])
            }
        }
    }

    fn string(&self, text: &str) -> [u8; 32] {
        self.hash(&[b"string", text.as_bytes()])
    }
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
        for (at, (from, to)) in changes.into_iter().enumerate() {
            let changed = chain(1, &BODY.replace(from, to));
            assert_eq!(changed[..at], ours[..at]);
            assert!((at..3).all(|place| changed[place] != ours[place]), "{from}");
        }
        assert!(chain(2, BODY).iter().all(|identity| !ours.contains(identity)));
    }

    #[test]
    fn half_characters_and_deep_nesting_are_told_apart() {
        let body = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":{text}}}]}}"#);
        assert_ne!(chain(1, &body(r#""\ud800""#)), chain(1, &body(r#""\udbff""#)));
        let deep = |depth: usize, at: &str| body(&format!("{}{at}{}", "[".repeat(depth), "]".repeat(depth)));
        assert_ne!(chain(1, &deep(2_000, "1")), chain(1, &deep(2_000, "2")));
    }
}
