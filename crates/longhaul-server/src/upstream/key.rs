//! The key that opens an upstream.

use std::fmt;

use reqwest::header::HeaderValue;

/// Shorter ones are words that stand for no key, such as servers of one's own are given; texts are full of them.
const SHORTEST: usize = 8;

/// An API key. It is shown to nobody but the upstream that it is for.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key as it was typed; blanks around it are none of it. Nothing, where it is empty or cannot stand in a header.
    #[must_use]
    pub fn new(typed: &str) -> Option<Self> {
        let key = typed.trim();
        (!key.is_empty() && HeaderValue::from_str(key).is_ok()).then(|| Self(key.to_owned()))
    }

    /// The header's value, with what stands before the key. Logs of headers do not show it.
    pub(super) fn header(&self, before: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{before}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The text with a mark where the key stood in it, for upstreams that quote what they were sent.
    pub(super) fn hide(&self, text: &str) -> String {
        if self.0.len() < SHORTEST { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn a_key_is_never_printed() {
        let key = Key::new(" sk-very-secret\n").unwrap();
        assert_eq!(format!("{key:?}"), "Key(…)");
        assert_eq!(format!("{:?}", key.header("Bearer ").unwrap()), "Sensitive");
        assert_eq!(key.header("Bearer ").unwrap().to_str().unwrap(), "Bearer sk-very-secret");
        assert_eq!(key.hide("no such key: sk-very-secret!"), "no such key: [key]!");
        assert_eq!(Key::new("none").unwrap().hide("none of them"), "none of them");
    }

    #[test]
    fn what_can_be_no_header_is_no_key() {
        for typed in ["", "  ", "a\nb", "a\u{7f}b"] {
            assert_eq!(Key::new(typed), None, "{typed:?}");
        }
    }
}
