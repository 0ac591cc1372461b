//! What a piece of JSON says, as a number: marks, white space and the order of keys do not count.

use std::hash::{DefaultHasher, Hasher};

use serde_json::Value;

/// The kinds of block that are plain text, which each dialect calls otherwise and a string says without any.
pub(super) const TEXTS: [&str; 3] = ["text", "input_text", "output_text"];

/// A block as it stands in a request: text that is a plain string there, or an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'v> {
    Text(&'v str),
    Object(&'v Value),
}

impl Content<'_> {
    /// The same for everything that says the same.
    pub(super) fn print(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Text(said) => {
                hasher.write_u8(5);
                hasher.write_usize(2);
                for (key, field) in [("text", said), ("type", "text")] {
                    string(key, &mut hasher);
                    text(field, &mut hasher);
                }
            }
            Self::Object(object) => value(object, &mut hasher),
        }
        hasher.finish()
    }
}

/// What any JSON says.
pub(super) fn print(of: &Value) -> u64 {
    Content::Object(of).print()
}

/// Two numbers as one, in their order.
pub(super) fn then(before: u64, next: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(before);
    hasher.write_u64(next);
    hasher.finish()
}

/// What a text says.
pub(super) fn print_text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    string(text, &mut hasher);
    hasher.finish()
}

fn string(text: &str, hasher: &mut DefaultHasher) {
    hasher.write_usize(text.len());
    hasher.write(text.as_bytes());
}

/// Takes a text in.
fn text(text: &str, hasher: &mut DefaultHasher) {
    hasher.write_u8(3);
    string(text, hasher);
}

/// Takes a value in.
fn value(of: &Value, hasher: &mut DefaultHasher) {
    match of {
        Value::Null => hasher.write_u8(0),
        Value::Bool(is) => hasher.write_u8(1 + u8::from(*is)),
        Value::String(said) => text(said, hasher),
        Value::Number(number) => {
            hasher.write_u8(4);
            string(&number.to_string(), hasher);
        }
        Value::Array(items) => {
            hasher.write_u8(6);
            hasher.write_usize(items.len());
            for item in items {
                value(item, hasher);
            }
        }
        Value::Object(fields) => {
            hasher.write_u8(5);
            let mut fields: Vec<_> = fields.iter().filter(|(key, _)| *key != "cache_control").collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            hasher.write_usize(fields.len());
            for (key, field) in fields {
                string(key, hasher);
                if key == "type" && TEXTS.iter().any(|kind| field == kind) {
                    text("text", hasher);
                } else {
                    value(field, hasher);
                }
            }
        }
    }
}
