//! From text to a value, with every fault of the text itself reported under G1.
//!
//! `serde_json` keeps the last of two equal keys without a word and refuses a lone surrogate outright; a body with either
//! still deserves the rest of the check. So keys are watched while the value is built, and surrogates are replaced in a
//! copy beforehand (by an escape of the same length, which keeps every offset).

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::rules::G1;
use super::{Findings, Severity};

/// The value of a body; `None` when it is no JSON at all, which is then reported.
pub(super) fn read(body: &str, findings: &mut Findings) -> Option<Value> {
    let text = body.strip_prefix('\u{feff}').unwrap_or(body);
    if text.len() < body.len() {
        let message = "the body starts with a byte-order mark, which many readers refuse: remove it";
        findings.report_as(Severity::Warning, &G1, "", message);
    }
    let lone = lone_surrogates(text);
    let mended;
    let text = if lone.is_empty() {
        text
    } else {
        for at in pointers(text, &lone) {
            let message = "half of a surrogate pair stands alone: write the whole character, or U+FFFD";
            findings.report(&G1, at, message);
        }
        mended = without(text, &lone);
        &mended
    };
    let mut twice = Vec::new();
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Seed(&mut twice).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    for at in twice {
        let message = "this key stands twice in its object and readers differ on which counts: remove one";
        findings.report_as(Severity::Warning, &G1, at, message);
    }
    match value {
        Ok(value) => Some(value),
        Err(error) if error.to_string().starts_with("recursion limit") => {
            let message =
                "the body is nested deeper than 127 levels, so nothing in it can be checked: flatten it";
            findings.report(&G1, "", message);
            None
        }
        Err(error) => {
            findings.report(&G1, "", format!("the body is not JSON: {error}"));
            None
        }
    }
}

/// Where the escapes of surrogates without their mate begin, in bytes.
fn lone_surrogates(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(offset) = bytes.get(from..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let at = from + offset;
        from = at
            + match escape(bytes, at) {
                Some(0xD800..=0xDBFF) if matches!(escape(bytes, at + 6), Some(0xDC00..=0xDFFF)) => 12,
                Some(0xD800..=0xDFFF) => {
                    found.push(at);
                    6
                }
                _ => 2,
            };
    }
    found
}

/// The code unit of a `\uXXXX` escape at that place.
fn escape(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | (digit as char).to_digit(16)? as u16))
}

fn without(text: &str, lone: &[usize]) -> String {
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

/// A place in an array or object that is being walked.
enum Step {
    Index(usize),
    Key(String),
}

fn pointer(path: &[Step]) -> String {
    let mut pointer = String::new();
    for step in path {
        pointer.push('/');
        match step {
            Step::Index(index) => pointer.push_str(&index.to_string()),
            Step::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
        }
    }
    pointer
}

/// The JSON pointers of the strings at these byte offsets (rising), each once. One walk that needs no valid JSON and no
/// recursion; what is not JSON gives a pointer that is as good as its brackets.
fn pointers(text: &str, offsets: &[usize]) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut path: Vec<Step> = Vec::new();
    let mut wanted = offsets.iter().copied().peekable();
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < bytes.len() && wanted.peek().is_some() {
        match bytes[at] {
            b'{' => path.push(Step::Key(String::new())),
            b'[' => path.push(Step::Index(0)),
            b'}' | b']' => drop(path.pop()),
            b',' => {
                if let Some(Step::Index(index)) = path.last_mut() {
                    *index += 1;
                }
            }
            b'"' => {
                let end = string_end(bytes, at);
                let key = bytes[end..].iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':');
                if let (true, Some(Step::Key(name))) = (key, path.last_mut()) {
                    text[at + 1..end.max(at + 2) - 1].clone_into(name);
                }
                while wanted.next_if(|&offset| offset < end).is_some() {
                    let here = pointer(&path);
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

/// The offset behind the quote that closes the string opened at `at`, or the end of the text.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(offset) = bytes.get(from..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        match bytes[from + offset] {
            b'"' => return from + offset + 1,
            _ => from += offset + 2,
        }
    }
    bytes.len()
}

/// Builds a value and notes the pointer of every key that its object already had.
struct Seed<'r>(&'r mut Vec<String>);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

/// Puts a step in front of the pointers that were noted below it, which are none for almost every value.
fn prefix(twice: &mut [String], step: &Step) {
    for pointer in twice {
        pointer.insert_str(0, &self::pointer(std::slice::from_ref(step)));
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
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
        while let Some(item) = items.next_element_seed(Seed(twice))? {
            if twice.len() > noted {
                prefix(&mut twice[noted..], &Step::Index(list.len()));
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
            let value = entries.next_value_seed(Seed(twice))?;
            if twice.len() > noted {
                prefix(&mut twice[noted..], &Step::Key(key.clone()));
            }
            match map.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert(value)),
                Entry::Occupied(mut entry) => {
                    twice.push(pointer(&[Step::Key(entry.key().clone())]));
                    entry.insert(value);
                }
            }
            noted = twice.len();
        }
        Ok(Value::Object(map))
    }
}
