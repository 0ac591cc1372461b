//! What an error says, wherever in its body it says it, and as much of it as may be shown.

use longhaul_engine::redact::{Content, Redacted, Redactor, Rules};
use serde_json::Value;

use super::Upstream;

/// So much of a text is looked at.
const READ: usize = 16 * 1024;
/// In so much of it an error says what it is.
const OPENING: usize = 1000;
/// So many characters of it are shown.
const SHOWN: usize = 300;

/// An error as its parts.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Its words.
    pub(super) words: String,
    /// Names and numbers of its kind.
    pub(super) codes: Vec<String>,
    /// What a machine is told besides.
    fields: Value,
}

impl Said {
    /// Reads the body of an error: JSON in any of the usual shapes, or a text.
    pub(super) fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).map_or_else(
            |_| Self { words: String::from_utf8_lossy(body).into_owned(), ..Self::default() },
            |value| Self::of(&value),
        )
    }

    /// Reads an error that came as JSON: `{"error": {…}}` as most write it, `{"error": "…"}`, the error itself, or a list with one.
    pub(super) fn of(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = match &value["error"] {
            Value::Object(_) => &value["error"],
            _ => value,
        };
        let texts = [&error["message"], &error["error"], &error["detail"], &error["metadata"]["raw"], error];
        let words: Vec<String> = texts.into_iter().flat_map(texts_of).collect();
        let codes = [&error["type"], &error["code"], &error["status"], &value["type"], &value["code"]];
        let codes = codes.into_iter().filter_map(name_of).collect();
        Self { words: words.join(" "), codes, fields: error.clone() }
    }

    /// The beginning of the words, where an error says what it is; behind it the request may be quoted.
    pub(super) fn opening(&self) -> &str {
        &self.words[..self.words.floor_char_boundary(OPENING)]
    }

    /// A number that stands in a field of its own.
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field)?.as_u64()
    }

    /// The status that a router tells of in the body, where the answer itself came as a success.
    pub(super) fn status(&self) -> Option<u16> {
        self.codes.iter().find_map(|code| code.parse().ok().filter(|code| (300..600).contains(code)))
    }

    /// The words that may be shown; the names of its kind where there are none.
    pub(super) fn shown(&self, upstream: &Upstream) -> Redacted {
        let words = if self.words.trim().is_empty() { self.codes.join(" ") } else { self.words.clone() };
        shown(upstream, &words)
    }
}

/// A text of an upstream on one line, bounded, without the key and without any other secret.
pub(super) fn shown(upstream: &Upstream, text: &str) -> Redacted {
    let text = upstream.without_key(text);
    let most = text.floor_char_boundary(READ);
    Redactor::numbered(Rules::default()).redact(&text[..most], Content::Text).text.on_one_line(SHOWN)
}

/// The texts in a place where an error says what is wrong. Lists of findings quote the request beside each of them, and what a request
/// says must not be taken for the words of an error.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(findings) => findings.iter().filter_map(|finding| name_of(&finding["msg"])).collect(),
        _ => Vec::new(),
    }
}

/// A name or a number of a kind.
fn name_of(value: &Value) -> Option<String> {
    match value {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{Key, Provider};

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
        for (body, words) in cases {
            assert_eq!(Said::read(body.as_bytes()).words, words, "{body}");
        }
        let said = Said::read(cases[2].0.as_bytes());
        assert_eq!(
            (said.codes.as_slice(), said.status()),
            (["400".into(), "INVALID_ARGUMENT".into()].as_slice(), Some(400))
        );
    }

    #[test]
    fn what_is_shown_is_short_on_one_line_and_without_secrets() {
        let upstream =
            Upstream::new(Provider::named("openai").unwrap(), None, Key::new("plain-key-of-ours")).unwrap();
        let said = shown(&upstream, "wrong key\nplain-key-of-ours, not AKIAQ7RZ2MTX5PWN3KVB\n");
        assert!(said.as_str().starts_with("wrong key [key], not "), "{said}");
        assert!(!said.as_str().contains("AKIAQ7RZ2MTX5PWN3KVB"), "{said}");
        assert!(shown(&upstream, &"words ".repeat(100_000)).as_str().chars().count() <= SHOWN + 1);
    }
}
