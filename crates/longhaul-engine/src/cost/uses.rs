//! What a reply uses that somebody may have to remember: exact values and whole lines.
//!
//! A value is what no language has as a word: a path, a file, an address, an id, a hash, a name with inner structure, a number of
//! four digits or more. A line is one of 24 to 200 characters with a letter in it. Values count in calls only, because only
//! there must they be exact; lines count in all that a reply says, because who repeats a whole line has it before him.

use std::sync::LazyLock;

use regex::Regex;

use crate::lines::{Breaks, Lines};

const SHORTEST_VALUE: usize = 4;
const LONGEST_VALUE: usize = 160;
const SHORTEST_LINE: usize = 24;
const LONGEST_LINE: usize = 200;

/// What values look like; hashes apart, which a pattern cannot tell from words and numbers.
static VALUE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const SHAPES: [&str; 7] = [
        // An address of a person, a path, an id.
        r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
        r"~?[\w.@+-]*(?:/[\w.@+-]+)+/?",
        r"\#?[A-Z]{1,4}\d{4,}",
        // Names: snake_case, a file's, CamelCase.
        r"\w*[A-Za-z0-9]_[A-Za-z0-9]\w*",
        r"[A-Za-z_]\w*\.(?:py|rs|js|ts|go|c|h|cpp|java|json|ya?ml|toml|md|txt|cfg|sh|csv|html|css)",
        r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+",
        r"\d{4,}",
    ];
    Regex::new(&format!("^(?-u:{})$", SHAPES.join("|"))).ok()
});

/// The exact values in a text.
pub(super) fn values(text: &str) -> impl Iterator<Item = &str> {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"_./@#~+-".contains(&byte);
    text.split(move |character: char| !u8::try_from(character).is_ok_and(belongs))
        .map(|run| run.trim_end_matches(['.', '-', '+']))
        .filter(|run| (SHORTEST_VALUE..=LONGEST_VALUE).contains(&run.len()) && is_value(run))
}

fn is_value(run: &str) -> bool {
    is_hash(run) || VALUE.as_ref().is_some_and(|shape| shape.is_match(run))
}

/// Hexadecimal digits, letters and figures among them.
fn is_hash(run: &str) -> bool {
    let bytes = run.as_bytes();
    (7..=40).contains(&bytes.len())
        && bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_lowercase)
}

/// The lines of a text that are worth remembering as a whole.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let counts = |line: &&str| {
        let characters = line.chars().take(LONGEST_LINE + 1).count();
        (SHORTEST_LINE..=LONGEST_LINE).contains(&characters) && line.chars().any(char::is_alphabetic)
    };
    Lines::new(text, Breaks::Newline).map(|line| line.trimmed().text).filter(counts)
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
        assert_eq!(values(text).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn lines_are_neither_short_nor_long_nor_rulers() {
        let long = "x".repeat(201);
        let text = format!("short\n    def a_function_with_a_name(self):\r\n{}\n{long}\n", "-".repeat(30));
        assert_eq!(lines(&text).collect::<Vec<_>>(), ["def a_function_with_a_name(self):"]);
    }
}
