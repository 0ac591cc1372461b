//! What a JSON object says, in the fewest signs that a reader needs: what tells most first, and not what was asked with.

use serde_json::{Map, Value};

use super::words::TABLE;
use crate::clip::start_within;

/// More of a field than this is not kept; less of it is shown.
const WIDTH: usize = 2_000;
/// Fields that are kept.
const MOST: usize = 24;

/// The fields of an object, one text each, those first whose names say how something stands; without what repeats an argument.
/// A list is one field.
pub(super) fn fields(value: &Value, arguments: &Map<String, Value>) -> Vec<String> {
    let clipped = |text: String| start_within(&text, WIDTH).to_owned();
    let Value::Object(object) = value else { return vec![clipped(plain(value))] };
    let is_asked =
        |value: &Value| !matches!(value, Value::Bool(_)) && arguments.values().any(|asked| asked == value);
    let rank = |name: &str| {
        let is_named = |word: &String| {
            name.strip_suffix(word.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        };
        TABLE.telling_fields.iter().position(is_named)
    };
    // What has parts of its own is mostly about something else: who, and where.
    let order = |name: &str, value: &Value| match value {
        _ if rank(name).is_some() => rank(name).unwrap_or_default(),
        Value::Object(map) if !is_list(map) => usize::MAX,
        _ => usize::MAX - 1,
    };
    let says = |(_, value): &(&String, &Value)| !says_nothing(value) && !is_asked(value);
    let mut found: Vec<(usize, String)> = object
        .iter()
        .filter(says)
        .map(|(name, value)| (order(name, value), format!("{name} {}", plain(value))))
        .collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.truncate(MOST);
    found.into_iter().map(|(_, text)| clipped(text)).collect()
}

/// A value in the fewest signs.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Object(map) if is_list(map) => {
            let items: Vec<String> =
                map.iter().map(|(key, value)| format!("{key} {}", values(value, Some(key)))).collect();
            format!("[{}]", items.join("; "))
        }
        Value::Object(map) => {
            let named = map.iter().filter(|(_, value)| !says_nothing(value));
            format!(
                "({})",
                named.map(|(key, value)| format!("{key} {}", plain(value))).collect::<Vec<_>>().join(", ")
            )
        }
        // What is listed has the same fields again and again.
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| values(item, None)).collect::<Vec<_>>().join("; "))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An item of a list, without the names of its texts, which speak for themselves, and without the key that it stands under.
fn values(value: &Value, key: Option<&str>) -> String {
    let Value::Object(map) = value else { return plain(value) };
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) if !is_number(text) => text.clone(),
        other => format!("{name} {}", plain(other)),
    };
    let says =
        |(_, value): &(&String, &Value)| !says_nothing(value) && (key.is_none() || value.as_str() != key);
    map.iter().filter(says).map(field).collect::<Vec<_>>().join(" ")
}

/// Whether an object is a list whose items stand under their own names.
fn is_list(map: &Map<String, Value>) -> bool {
    map.len() > 1 && map.values().all(|value| value.as_object().is_some_and(|item| item.len() > 1))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn says_nothing(value: &Value) -> bool {
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
            fields(&order, asked.as_object().unwrap()),
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
