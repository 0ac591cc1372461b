//! Parses a body into a value and reports every fault of the text itself under G1.
//!
//! `serde_json` silently keeps the last of two equal keys and refuses a lone surrogate. The rest of such a
//! body should still be checked. So keys are watched while the value is built, and lone surrogates are
//! replaced in a copy beforehand, by an escape of the same length, so that all offsets stay the same.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::rules::G1;
use super::{Findings, Severity};

/// Parses a body into a value. Returns `None` and reports the fault if it is not JSON.
pub(super) fn parse_body(body: &str, findings: &mut Findings) -> Option<Value> {
    let text = body.strip_prefix('\u{feff}').unwrap_or(body);
    if text.len() < body.len() {
        let message = "the body starts with a byte-order mark, which many readers refuse: remove it";
        findings.report_with_severity(Severity::Warning, &G1, "", message);
    }
    let lone = lone_surrogates(text);
    let mended;
    let text = if lone.is_empty() {
        text
    } else {
        for at in find_pointers(text, &lone) {
            let message = "this is half of a surrogate pair: write the whole character, or U+FFFD";
            findings.report(&G1, at, message);
        }
        mended = replace_surrogates(text, &lone);
        &mended
    };
    let mut twice = Vec::new();
    let mut json = serde_json::Deserializer::from_str(text);
    let value = DuplicateKeySeed(&mut twice).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    for at in twice {
        let message = "this key occurs twice in its object, and parsers differ on which one applies: remove one";
        findings.report_with_severity(Severity::Warning, &G1, at, message);
    }
    match value {
        Ok(value) => Some(value),
        Err(error) if error.to_string().starts_with("recursion limit") => {
            let message = "the body is nested deeper than 127 levels, so nothing in it can be checked: flatten it";
            findings.report(&G1, "", message);
            None
        }
        Err(error) => {
            findings.report(&G1, "", format!("the body is not JSON: {error}"));
            None
        }
    }
}

/// Returns the byte offsets of the escapes of surrogates that are not in a pair.
fn lone_surrogates(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(offset) = bytes.get(from..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let at = from + offset;
        from = at
            + match read_unicode_escape(bytes, at) {
                Some(0xD800..=0xDBFF) if matches!(read_unicode_escape(bytes, at + 6), Some(0xDC00..=0xDFFF)) => 12,
                Some(0xD800..=0xDFFF) => {
                    found.push(at);
                    6
                }
                _ => 2,
            };
    }
    found
}

/// Returns the code unit of a `\uXXXX` escape at this offset.
fn read_unicode_escape(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |turn, &digit| Some(turn << 4 | (digit as char).to_digit(16)? as u16))
}

fn replace_surrogates(text: &str, lone: &[usize]) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut from = 0;
    for &at in lone {
        mended.push_str(&text[from..at]);
        mended.push_str("\\ufffd");
        from = at + 6;
    }
    mended.push_str(&text[from..]);
    mended
}

/// A step from an array or object to one of its values.
enum PointerStep {
    Index(usize),
    Key(String),
}

fn render_pointer(path: &[PointerStep]) -> String {
    let mut pointer = String::new();
    for step in path {
        pointer.push('/');
        match step {
            PointerStep::Index(index) => pointer.push_str(&index.to_string()),
            PointerStep::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
        }
    }
    pointer
}

/// Returns the JSON pointers of the strings at these byte offsets, which must be ascending; each pointer
/// once. It is one pass without recursion and accepts invalid JSON, for which the pointers are only as good
/// as the brackets.
fn find_pointers(text: &str, offsets: &[usize]) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut path: Vec<PointerStep> = Vec::new();
    let mut wanted = offsets.iter().copied().peekable();
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < bytes.len() && wanted.peek().is_some() {
        match bytes[at] {
            b'{' => path.push(PointerStep::Key(String::new())),
            b'[' => path.push(PointerStep::Index(0)),
            b'}' | b']' => drop(path.pop()),
            b',' => {
                if let Some(PointerStep::Index(index)) = path.last_mut() {
                    *index += 1;
                }
            }
            b'"' => {
                let end = find_string_end(bytes, at);
                let key = bytes[end..].iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':');
                if let (true, Some(PointerStep::Key(name))) = (key, path.last_mut()) {
                    text[at + 1..end.max(at + 2) - 1].clone_into(name);
                }
                while wanted.next_if(|&offset| offset < end).is_some() {
                    let here = render_pointer(&path);
                    if found.last() != Some(&here) {
                        found.push(here);
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the offset after the closing quote of the string that starts at `at`, or the end of the text.
fn find_string_end(bytes: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(offset) = bytes.get(from..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        match bytes[from + offset] {
            b'"' => return from + offset + 1,
            _ => from += offset + 2,
        }
    }
    bytes.len()
}

/// Builds a value and collects the pointer of every key that its object already has.
struct DuplicateKeySeed<'r>(&'r mut Vec<String>);

impl<'de> DeserializeSeed<'de> for DuplicateKeySeed<'_> {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

/// Prepends a step to the pointers that were collected below it. For almost every value there are none.
fn prepend_step(twice: &mut [String], step: &PointerStep) {
    for pointer in twice {
        pointer.insert_str(0, &self::render_pointer(std::slice::from_ref(step)));
    }
}

impl<'de> Visitor<'de> for DuplicateKeySeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let twice = self.0;
        let mut list = Vec::new();
        let mut noted = twice.len();
        while let Some(item) = items.next_element_seed(DuplicateKeySeed(twice))? {
            if twice.len() > noted {
                prepend_step(&mut twice[noted..], &PointerStep::Index(list.len()));
                noted = twice.len();
            }
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let twice = self.0;
        let mut map = Map::new();
        let mut noted = twice.len();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(DuplicateKeySeed(twice))?;
            if twice.len() > noted {
                prepend_step(&mut twice[noted..], &PointerStep::Key(key.clone()));
            }
            match map.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert(value)),
                Entry::Occupied(mut entry) => {
                    twice.push(render_pointer(&[PointerStep::Key(entry.key().clone())]));
                    entry.insert(value);
                }
            }
            noted = twice.len();
        }
        Ok(Value::Object(map))
    }
}
