//! Finds the parts of a reply that somebody may have to remember: exact values and whole lines.
//!
//! A value is a token that is no word of a language: a path, a file, an address, an ID, a hash, a name with
//! inner structure, or a number of four digits or more. A line has 24 to 200 characters and at least one
//! letter. Values count in calls only, because they have to be exact only there. Lines count everywhere in a
//! reply, because a model that repeats a whole line must have read it.

use std::sync::LazyLock;

use regex::Regex;

use crate::lines::{LineBreak, Lines};

const MIN_VALUE_BYTES: usize = 4;
const MAX_VALUE_BYTES: usize = 160;
const MIN_LINE_CHARS: usize = 24;
const MAX_LINE_CHARS: usize = 200;

/// The forms of values, except hashes, which a pattern cannot distinguish from words and numbers.
static VALUE_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const SHAPES: [&str; 7] = [
        // An e-mail address, a path, an ID.
        r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
        r"~?[\w.@+-]*(?:/[\w.@+-]+)+/?",
        r"\#?[A-Z]{1,4}\d{4,}",
        // A snake_case name, a file name, a CamelCase name.
        r"\w*[A-Za-z0-9]_[A-Za-z0-9]\w*",
        r"[A-Za-z_]\w*\.(?:py|rs|js|ts|go|c|h|cpp|java|json|ya?ml|toml|md|txt|cfg|sh|csv|html|css)",
        r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+",
        r"\d{4,}",
    ];
    Regex::new(&format!("^(?-u:{})$", SHAPES.join("|"))).ok()
});

/// Returns the exact values in a text.
pub(super) fn exact_values(text: &str) -> impl Iterator<Item = &str> {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"_./@#~+-".contains(&byte);
    text.split(move |character: char| !u8::try_from(character).is_ok_and(belongs))
        .map(|run| run.trim_end_matches(['.', '-', '+']))
        .filter(|run| (MIN_VALUE_BYTES..=MAX_VALUE_BYTES).contains(&run.len()) && is_value(run))
}

fn is_value(run: &str) -> bool {
    is_hash(run) || VALUE_PATTERN.as_ref().is_some_and(|shape| shape.is_match(run))
}

/// Whether a run of characters is a hash: hexadecimal digits with both letters and numerals.
fn is_hash(run: &str) -> bool {
    let bytes = run.as_bytes();
    (7..=40).contains(&bytes.len())
        && bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_lowercase)
}

/// Returns the lines of a text that are specific enough to be recognized when they are repeated.
pub(super) fn quotable_lines(text: &str) -> impl Iterator<Item = &str> {
    let counts = |line: &&str| {
        let characters = line.chars().take(MAX_LINE_CHARS + 1).count();
        (MIN_LINE_CHARS..=MAX_LINE_CHARS).contains(&characters) && line.chars().any(char::is_alphabetic)
    };
    Lines::new(text, LineBreak::Newline).map(|line| line.trimmed().text).filter(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_no_language_has_as_a_word() {
        let text = "See src/plan/mod.rs. Ask ann@example.org about #AB1234, HTTP 8080 and 1a2b3c4d: parse_body(TokenCount) in setup.py, \
                    not the deadbeef that facade or 123 or Words are...";
        let wanted = [
            "src/plan/mod.rs",
            "ann@example.org",
            "#AB1234",
            "8080",
            "1a2b3c4d",
            "parse_body",
            "TokenCount",
            "setup.py",
        ];
        assert_eq!(exact_values(text).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn lines_are_neither_short_nor_long_nor_rulers() {
        let long = "x".repeat(201);
        let text = format!("short\n    def a_function_with_a_name(self):\r\n{}\n{long}\n", "-".repeat(30));
        assert_eq!(quotable_lines(&text).collect::<Vec<_>>(), ["def a_function_with_a_name(self):"]);
    }
}
