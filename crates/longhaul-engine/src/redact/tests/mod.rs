//! Tests of redaction: tables of texts, and properties over every rule.

mod cases;
mod generate;
mod properties;
mod snippets;

use super::{RedactionMode, Redactor, Rules, TextRedaction};

/// Redacts one document with the standard rules.
fn redact(text: &str) -> String {
    redaction(text, RedactionMode::Text).text.into_string()
}

fn redaction(text: &str, content: RedactionMode) -> TextRedaction {
    Redactor::numbered(Rules::default()).redact(text, content)
}

/// Whether a run of more than 8 characters of the secret is left in the text.
fn survives(secret: &str, text: &str) -> bool {
    let bytes = secret.as_bytes();
    if bytes.len() <= 8 {
        return text.contains(secret);
    }
    bytes.windows(9).any(|run| memchr::memmem::find(text.as_bytes(), run).is_some())
}
