//! What a model wrote as the arguments of a call: anything may stand there, and numbers often come as strings.

use longhaul_engine::clip;
use serde_json::{Map, Value};

/// So much of what was given is told in an error.
const TOLD: usize = 40;

/// The arguments of one call.
pub(crate) struct Arguments<'a> {
    given: Option<&'a Map<String, Value>>,
}

impl<'a> Arguments<'a> {
    /// Those of a call that takes these fields and no others.
    pub(crate) fn read(arguments: &'a Value, fields: &[&str]) -> Result<Self, String> {
        let given = match arguments {
            Value::Object(given) => Some(given),
            Value::Null => None,
            _ => return Err(format!("the arguments must be a JSON object with {}", listed(fields))),
        };
        let unknown = given.and_then(|given| given.keys().find(|name| !fields.contains(&name.as_str())));
        match unknown {
            Some(name) => Err(format!("there is no argument '{}', only {}", told(name), listed(fields))),
            None => Ok(Self { given }),
        }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.given.and_then(|given| given.get(name)).filter(|value| !value.is_null())
    }

    /// A text that must be there, and say something.
    pub(crate) fn text(&self, name: &str) -> Result<&'a str, String> {
        self.maybe_text(name)?
            .ok_or_else(|| format!("'{name}' is missing: it must be a string that is not empty"))
    }

    /// A text that may be there; an empty one is none.
    pub(crate) fn maybe_text(&self, name: &str) -> Result<Option<&'a str>, String> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(other) => Err(format!("'{name}' must be a string, not {}", told(&other.to_string()))),
        }
    }

    /// Whether something is wanted; not, where nothing is said.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(format!("'{name}' must be true or false, not {}", told(&other.to_string()))),
        }
    }

    /// A whole number that may be there, not below 0.
    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, String> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| usize::try_from(number).ok());
        let wrong = || format!("'{name}' must be a whole number from 0 on, not {}", told(&value.to_string()));
        number.map(Some).ok_or_else(wrong)
    }
}

/// What was given, without one field, and that field.
pub(crate) fn without(arguments: &Value, field: &str) -> (Value, Value) {
    let mut rest = arguments.clone();
    let taken = rest.as_object_mut().and_then(|given| given.shift_remove(field));
    (rest, taken.unwrap_or_default())
}

/// `3.0` is a whole number, as some write it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole, and in bounds")]
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number as u64)
}

/// What was given, as far as a line has room, and so that it is one line.
pub(crate) fn told(given: &str) -> String {
    let shown: String = given.chars().take(TOLD + 1).map(|c| if c.is_control() { ' ' } else { c }).collect();
    clip::on_one_line(&shown, TOLD)
}

fn listed(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("'{field}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_taken_as_models_write_them() {
        let number = |value: Value| {
            let given = json!({"from": value});
            Arguments::read(&given, &["from"]).unwrap().number("from")
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
        for wrong in
            [json!(-1), json!("-1"), json!(2.5), json!("three"), json!([]), json!(true), json!(1e300)]
        {
            let error = number(wrong).unwrap_err();
            assert!(error.starts_with("'from' must be a whole number"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_a_line_of_bounded_length() {
        let given = json!({"x\n\u{0}y".repeat(10_000): 1});
        let error = Arguments::read(&given, &["query", "limit"]).err().unwrap();
        assert!(error.len() < 200 && !error.contains(['\n', '\u{0}']), "{error}");
        assert!(Arguments::read(&json!([1]), &["query"]).is_err());
        assert!(Arguments::read(&Value::Null, &["query"]).unwrap().text("query").is_err());
    }
}
