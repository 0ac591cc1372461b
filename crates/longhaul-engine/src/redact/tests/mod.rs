//! What must hold of redaction: a table of texts, and properties over every rule.

mod cases;
mod generate;
mod properties;
mod snippets;

use super::{Content, Redaction, Redactor, Rules};

/// The redacted text of one document.
fn redact(text: &str) -> String {
    redaction(text, Content::Text).text.into_string()
}

fn redaction(text: &str, content: Content) -> Redaction {
    Redactor::numbered(Rules::default()).redact(text, content)
}

/// No run of more than 8 characters of the secret is left.
fn survives(secret: &str, text: &str) -> bool {
    let bytes = secret.as_bytes();
    if bytes.len() <= 8 {
        return text.contains(secret);
    }
    bytes.windows(9).any(|run| memchr::memmem::find(text.as_bytes(), run).is_some())
}
