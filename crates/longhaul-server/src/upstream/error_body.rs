//! The body of an error reply: its text and codes, wherever they are in the body, and a redacted line for
//! people.

use longhaul_engine::redact::{Redacted, RedactionMode, Redactor, Rules};
use serde_json::Value;

use super::Upstream;

/// The maximum length of text that is redacted for people, in bytes. Chosen by hand.
const MAX_READ_BYTES: usize = 16 * 1024;
/// The length of the opening in which an error's wording is searched, in bytes. Chosen by hand: behind it the
/// request may be quoted.
const MAX_OPENING_BYTES: usize = 1000;
/// The maximum length of the text that is shown, in characters. Chosen by hand.
const MAX_SHOWN_CHARS: usize = 300;

/// The parts of an error body.
#[derive(Debug, Default)]
pub(super) struct ErrorBody {
    /// The error's message, for people.
    pub(super) text: String,
    /// The names and numbers of the error's kind, from its `type`, `code` and `status` fields.
    pub(super) codes: Vec<String>,
    /// The JSON object of the error.
    fields: Value,
}

impl ErrorBody {
    /// Parses the body of an error: JSON in any of the usual shapes, or plain text.
    pub(super) fn parse(body: &[u8]) -> Self {
        serde_json::from_slice(body).map_or_else(
            |_| Self { text: String::from_utf8_lossy(body).into_owned(), ..Self::default() },
            |value| Self::from_json(&value),
        )
    }

    /// Reads an error from JSON: `{"error": {…}}` as most providers write it, `{"error": "…"}`, the error
    /// itself, or a list with one.
    pub(super) fn from_json(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = match &value["error"] {
            Value::Object(_) => &value["error"],
            _ => value,
        };
        let texts = [&error["message"], &error["error"], &error["detail"], &error["metadata"]["raw"], error];
        let texts: Vec<String> = texts.into_iter().flat_map(error_texts).collect();
        let codes = [&error["type"], &error["code"], &error["status"], &value["type"], &value["code"]];
        let codes = codes.into_iter().filter_map(string_or_number).collect();
        Self { text: texts.join(" "), codes, fields: error.clone() }
    }

    /// Returns the beginning of the text, which states the error; behind it the request may be quoted.
    pub(super) fn opening(&self) -> &str {
        &self.text[..self.text.floor_char_boundary(MAX_OPENING_BYTES)]
    }

    /// Returns the number in a field of the error object.
    pub(super) fn numeric_field(&self, field: &str) -> Option<u64> {
        self.fields.get(field)?.as_u64()
    }

    /// Returns the HTTP status that a router reports in the body of a reply with a status of success.
    pub(super) fn status(&self) -> Option<u16> {
        self.codes.iter().find_map(|code| code.parse().ok().filter(|code| (300..600).contains(code)))
    }

    /// Returns the redacted text for people; the codes if there is no text.
    pub(super) fn redacted_text(&self, upstream: &Upstream) -> Redacted {
        let text = if self.text.trim().is_empty() { self.codes.join(" ") } else { self.text.clone() };
        redact_to_line(upstream, &text)
    }
}

/// Redacts the key and all other secrets in an upstream's text, and shortens it to one line.
pub(super) fn redact_to_line(upstream: &Upstream, text: &str) -> Redacted {
    let text = upstream.redact_key(text);
    let max_end = text.floor_char_boundary(MAX_READ_BYTES);
    Redactor::numbered(Rules::default()).redact(&text[..max_end], RedactionMode::Text).text.one_line(MAX_SHOWN_CHARS)
}

/// Returns the texts in a field that describes the error. Lists of findings quote the request next to each
/// message, and quoted text must not be taken for the words of an error.
fn error_texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(findings) => findings.iter().filter_map(|finding| string_or_number(&finding["msg"])).collect(),
        _ => Vec::new(),
    }
}

/// Returns a string or a number as a string.
fn string_or_number(value: &Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{ApiKey, Provider};

    #[test]
    fn an_error_is_found_in_every_usual_shape() {
        let cases = [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, "Overloaded"),
            (r#"{"error":{"message":"no such model","type":"x","code":"model_not_found"}}"#, "no such model"),
            (r#"[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#, "bad"),
            (r#"{"object":"error","message":"too much","type":"BadRequestError","code":400}"#, "too much"),
            (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
            (
                r#"{"detail":[{"type":"extra_forbidden","msg":"Extra inputs","input":"prompt is too long"}]}"#,
                "Extra inputs",
            ),
            (
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"the real reason"}}}"#,
                "Provider returned error the real reason",
            ),
            (r#""busy""#, "busy"),
            ("<html>Bad Gateway</html>", "<html>Bad Gateway</html>"),
            ("", ""),
        ];
        for (body, text) in cases {
            assert_eq!(ErrorBody::parse(body.as_bytes()).text, text, "{body}");
        }
        let error_body = ErrorBody::parse(cases[2].0.as_bytes());
        assert_eq!(
            (error_body.codes.as_slice(), error_body.status()),
            (["400".into(), "INVALID_ARGUMENT".into()].as_slice(), Some(400))
        );
    }

    #[test]
    fn what_is_shown_is_short_on_one_line_and_without_secrets() {
        let upstream =
            Upstream::new(Provider::named("openai").unwrap(), None, ApiKey::new("plain-key-of-ours")).unwrap();
        let error_body = redact_to_line(&upstream, "wrong key\nplain-key-of-ours, not AKIAQ7RZ2MTX5PWN3KVB\n");
        assert!(error_body.as_str().starts_with("wrong key [key], not "), "{error_body}");
        assert!(!error_body.as_str().contains("AKIAQ7RZ2MTX5PWN3KVB"), "{error_body}");
        assert!(redact_to_line(&upstream, &"words ".repeat(100_000)).as_str().chars().count() <= MAX_SHOWN_CHARS + 1);
    }
}
