//! Parses the arguments that a model wrote for a call. They can be any JSON, and models often write numbers
//! as strings.

use longhaul_engine::truncate;
use serde_json::{Map, Value};

/// The most characters of an argument that an error quotes. Chosen by hand.
const MAX_QUOTED_CHARS: usize = 40;

/// The arguments of one call.
pub(crate) struct ToolArguments<'a> {
    given: Option<&'a Map<String, Value>>,
}

impl<'a> ToolArguments<'a> {
    /// Accepts the arguments of a call that has these fields and no others. Null counts as an empty object.
    pub(crate) fn parse(arguments: &'a Value, fields: &[&str]) -> Result<Self, String> {
        let given = match arguments {
            Value::Object(given) => Some(given),
            Value::Null => None,
            _ => return Err(format!("the arguments must be a JSON object with {}", quote_names(fields))),
        };
        let unknown = given.and_then(|given| given.keys().find(|name| !fields.contains(&name.as_str())));
        match unknown {
            Some(name) => Err(format!("there is no argument '{}', only {}", quote_input(name), quote_names(fields))),
            None => Ok(Self { given }),
        }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.given.and_then(|given| given.get(name)).filter(|value| !value.is_null())
    }

    /// Returns a text that is required and must not be blank.
    pub(crate) fn text(&self, name: &str) -> Result<&'a str, String> {
        self.optional_text(name)?.ok_or_else(|| format!("'{name}' is missing: it must be a string that is not empty"))
    }

    /// Returns an optional text; a blank one counts as missing.
    pub(crate) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, String> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(other) => Err(format!("'{name}' must be a string, not {}", quote_input(&other.to_string()))),
        }
    }

    /// Returns an optional boolean; false if it is missing.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(format!("'{name}' must be true or false, not {}", quote_input(&other.to_string()))),
        }
    }

    /// Returns an optional whole number that is not negative.
    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, String> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| whole_number(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| usize::try_from(number).ok());
        let wrong = || format!("'{name}' must be a whole number from 0 on, not {}", quote_input(&value.to_string()));
        number.map(Some).ok_or_else(wrong)
    }
}

/// Splits one field off the arguments: returns the rest, and the field (null if it is missing).
pub(crate) fn split_off(arguments: &Value, field: &str) -> (Value, Value) {
    let mut rest = arguments.clone();
    let value = rest.as_object_mut().and_then(|given| given.shift_remove(field));
    (rest, value.unwrap_or_default())
}

/// Converts a number such as `3.0`, as some models write whole numbers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole, and in bounds")]
fn whole_number(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number as u64)
}

/// Shortens an argument to one line without control characters, for an error.
pub(crate) fn quote_input(given: &str) -> String {
    let shown: String =
        given.chars().take(MAX_QUOTED_CHARS + 1).map(|c| if c.is_control() { ' ' } else { c }).collect();
    truncate::to_one_line(&shown, MAX_QUOTED_CHARS)
}

fn quote_names(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("'{field}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_accepted_as_models_write_them() {
        let number = |value: Value| {
            let given = json!({"from": value});
            ToolArguments::parse(&given, &["from"]).unwrap().number("from")
        };
        for (given, read) in [
            (json!(3), Some(3)),
            (json!("3"), Some(3)),
            (json!(" 12 "), Some(12)),
            (json!(3.0), Some(3)),
            (Value::Null, None),
        ] {
            assert_eq!(number(given), Ok(read));
        }
        for wrong in [json!(-1), json!("-1"), json!(2.5), json!("three"), json!([]), json!(true), json!(1e300)] {
            let error = number(wrong).unwrap_err();
            assert!(error.starts_with("'from' must be a whole number"), "{error}");
        }
    }

    #[test]
    fn errors_are_one_line_of_bounded_length() {
        let given = json!({"x\n\u{0}y".repeat(10_000): 1});
        let error = ToolArguments::parse(&given, &["query", "limit"]).err().unwrap();
        assert!(error.len() < 200 && !error.contains(['\n', '\u{0}']), "{error}");
        assert!(ToolArguments::parse(&json!([1]), &["query"]).is_err());
        assert!(ToolArguments::parse(&Value::Null, &["query"]).unwrap().text("query").is_err());
    }
}
