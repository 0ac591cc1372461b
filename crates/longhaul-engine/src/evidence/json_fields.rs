//! Renders JSON results as short text: fields that report a state come first, and values that repeat the
//! call's arguments are left out.

use serde_json::{Map, Value};

use super::weights::{MAX_FIELD_BYTES, MAX_FIELDS};
use super::words::EVIDENCE_WORDS;
use crate::truncate::first_bytes;

/// Renders each field of an object as one text. Fields whose names report a state (`status`, `error`) come
/// first; fields that repeat an argument are left out. Any other value becomes one text.
pub(super) fn render_fields(value: &Value, arguments: &Map<String, Value>) -> Vec<String> {
    let clipped = |text: String| first_bytes(&text, MAX_FIELD_BYTES).to_owned();
    let Value::Object(object) = value else { return vec![clipped(render_value(value))] };
    let is_asked = |value: &Value| !matches!(value, Value::Bool(_)) && arguments.values().any(|asked| asked == value);
    let rank = |name: &str| {
        let is_named =
            |word: &String| name.strip_suffix(word.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
        EVIDENCE_WORDS.telling_fields.iter().position(is_named)
    };
    // A nested object mostly describes something else, such as a person or an address, so it comes last.
    let order = |name: &str, value: &Value| match value {
        _ if rank(name).is_some() => rank(name).unwrap_or_default(),
        Value::Object(map) if !is_keyed_list(map) => usize::MAX,
        _ => usize::MAX - 1,
    };
    let says = |(_, value): &(&String, &Value)| !is_empty_value(value) && !is_asked(value);
    let mut found: Vec<(usize, String)> = object
        .iter()
        .filter(says)
        .map(|(name, value)| (order(name, value), format!("{name} {}", render_value(value))))
        .collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.truncate(MAX_FIELDS);
    found.into_iter().map(|(_, text)| clipped(text)).collect()
}

/// Renders a value without quotes and braces, to save characters.
pub(super) fn render_value(value: &Value) -> String {
    match value {
        Value::Object(map) if is_keyed_list(map) => {
            let items: Vec<String> =
                map.iter().map(|(key, value)| format!("{key} {}", render_list_item(value, Some(key)))).collect();
            format!("[{}]", items.join("; "))
        }
        Value::Object(map) => {
            let named = map.iter().filter(|(_, value)| !is_empty_value(value));
            format!(
                "({})",
                named.map(|(key, value)| format!("{key} {}", render_value(value))).collect::<Vec<_>>().join(", ")
            )
        }
        // The items of a list have the same fields, so their names are left out.
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| render_list_item(item, None)).collect::<Vec<_>>().join("; "))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Renders an item of a list. Leaves out the names of text fields, and a value that repeats the item's key.
fn render_list_item(value: &Value, key: Option<&str>) -> String {
    let Value::Object(map) = value else { return render_value(value) };
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) if !is_digits(text) => text.clone(),
        other => format!("{name} {}", render_value(other)),
    };
    let says = |(_, value): &(&String, &Value)| !is_empty_value(value) && (key.is_none() || value.as_str() != key);
    map.iter().filter(says).map(field).collect::<Vec<_>>().join(" ")
}

/// Returns whether an object is a list whose items are stored under keys of their own.
fn is_keyed_list(map: &Map<String, Value>) -> bool {
    map.len() > 1 && map.values().all(|value| value.as_object().is_some_and(|item| item.len() > 1))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn how_it_stands_comes_first_and_what_was_asked_with_is_not_said_again() {
        let order = json!({
            "order_id": "W7", "user": {"first": "Ada", "last": ""}, "address": {"city": "Rome"},
            "items": [{"name": "Lamp", "price": 7.5, "options": {"color": "red"}}, {"name": "Cup", "price": 2}],
            "seats": {"a1": {"id": "a1", "free": true, "row": 1}, "b2": {"id": "b2", "free": false, "row": 2}},
            "status": "pending", "tags": [],
        });
        let asked = json!({"order_id": "W7"});
        assert_eq!(
            render_fields(&order, asked.as_object().unwrap()),
            [
                "status pending",
                "items [Lamp price 7.5 options (color red); Cup price 2]",
                "seats [a1 free true row 1; b2 free false row 2]",
                "tags []",
                "user (first Ada)",
                "address (city Rome)",
            ]
        );
    }
}
