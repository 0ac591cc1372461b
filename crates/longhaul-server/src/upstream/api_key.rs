//! The API key of an upstream.

use std::fmt;

use reqwest::header::HeaderValue;

/// Shorter keys are not redacted, in bytes: they are dummy words for local servers, such as `none`, which
/// occur in many texts. Chosen by hand.
const MIN_REDACTED_KEY_BYTES: usize = 8;

/// An API key. Only the upstream that it belongs to ever sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Creates a key from typed text, without blanks around it; returns `None` if it is empty or not valid in
    /// a header.
    #[must_use]
    pub fn new(typed: &str) -> Option<Self> {
        let key = typed.trim();
        (!key.is_empty() && HeaderValue::from_str(key).is_ok()).then(|| Self(key.to_owned()))
    }

    /// Returns the value of the header, with a prefix before the key. It is marked as sensitive, so logs do
    /// not show it.
    pub(super) fn header_value(&self, before: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{before}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Replaces the key in a text by `[key]`, for upstreams that quote what they were sent.
    pub(super) fn redact(&self, text: &str) -> String {
        if self.0.len() < MIN_REDACTED_KEY_BYTES { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;

    #[test]
    fn a_key_is_never_printed() {
        let key = ApiKey::new(" sk-very-secret\n").unwrap();
        assert_eq!(format!("{key:?}"), "Key(…)");
        assert_eq!(format!("{:?}", key.header_value("Bearer ").unwrap()), "Sensitive");
        assert_eq!(key.header_value("Bearer ").unwrap().to_str().unwrap(), "Bearer sk-very-secret");
        assert_eq!(key.redact("no such key: sk-very-secret!"), "no such key: [key]!");
        assert_eq!(ApiKey::new("none").unwrap().redact("none of them"), "none of them");
    }

    #[test]
    fn what_can_be_no_header_is_no_key() {
        for typed in ["", "  ", "a\nb", "a\u{7f}b"] {
            assert_eq!(ApiKey::new(typed), None, "{typed:?}");
        }
    }
}
