//! Values with a name in the arguments and results of tool calls: the user's ID, the number of an order, an address.
//! A later call needs them exactly, and nobody can guess them.

use serde_json::{Map, Value};

use super::weights::{MAX_NAMED_VALUES, MAX_VALUE_BYTES, MIN_VALUE_BYTES};
use super::words::EVIDENCE_WORDS;

/// A value and its name, as the call or the result writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Returns the values in the arguments of a call that identify something.
pub(super) fn values_of_arguments(arguments: &Map<String, Value>) -> Vec<NamedValue> {
    let mut found = Vec::new();
    for (name, value) in arguments {
        collect(name, value, &|name, value| names_identity(name) || looks_like_identity(value), &mut found);
    }
    found
}

/// Returns the values in a result that stand under the name of an identity (`user_id`, `order_number`).
pub(super) fn values_of_result(result: &Value) -> Vec<NamedValue> {
    let mut found = Vec::new();
    collect("", result, &|name, _| names_identity(name), &mut found);
    found
}

fn collect(name: &str, value: &Value, is_wanted: &dyn Fn(&str, &str) -> bool, found: &mut Vec<NamedValue>) {
    if found.len() >= MAX_NAMED_VALUES {
        return;
    }
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| collect(name, value, is_wanted, found)),
        // The items of a list have the name of the list.
        Value::Array(items) => items.iter().for_each(|value| collect(name, value, is_wanted, found)),
        Value::String(_) | Value::Number(_) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let is_short = (MIN_VALUE_BYTES..=MAX_VALUE_BYTES).contains(&text.len()) && !text.contains('\n');
            let named = NamedValue { name: name.to_owned(), value: text };
            if is_short && !name.is_empty() && is_wanted(name, &named.value) && !found.contains(&named) {
                found.push(named);
            }
        }
        Value::Bool(_) | Value::Null => {}
    }
}

/// Returns whether a name ends with a word for an identity, such as `id` or `number`.
fn names_identity(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_end = |word: &String| {
        name.strip_suffix(word.as_str())
            .or_else(|| name.strip_suffix('s')?.strip_suffix(word.as_str()))
            .is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-', '.']) || word.len() > 3)
    };
    EVIDENCE_WORDS.identity_fields.iter().any(is_end)
        || name.len() > 2 && name.ends_with("id") && name != "valid" && name != "paid"
}

/// Returns whether a value looks like an identity: one word with letters and digits, or with a sign such as `#` or `@`.
fn looks_like_identity(value: &str) -> bool {
    let has = |test: fn(char) -> bool| value.chars().any(test);
    !value.contains(char::is_whitespace)
        && !value.contains(['/', '(', '*'])
        && has(char::is_alphanumeric)
        && (has(|c| c.is_ascii_digit()) && has(char::is_alphabetic) || has(|c| matches!(c, '#' | '@')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(values: Vec<NamedValue>) -> Vec<String> {
        values.into_iter().map(|named| format!("{} {}", named.name, named.value)).collect()
    }

    #[test]
    fn identities_are_found_by_their_name_or_form() {
        let call = json!({"user_id": "omar_3817", "cabin": "economy", "limit": 20, "flights": [{"flight_number": "HAT028", "date": "2024-05-21"}]});
        assert_eq!(
            shown(values_of_arguments(call.as_object().unwrap())),
            ["user_id omar_3817", "flight_number HAT028"]
        );
        let result = json!({"reservations": ["X7BYG1"], "payment_methods": {"gift_card_34": {"id": "gift_card_34", "amount": 22}}, "paid": "yes"});
        assert_eq!(shown(values_of_result(&result)), ["id gift_card_34"]);
    }
}
