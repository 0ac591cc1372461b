//! The exact values of a text, line by line: what an agent must remember letter for letter or not at all.
//!
//! ```text
//! def _combinator_query(self, combinator, *other_qs):      one line, two values: _combinator_query, other_qs
//! ```
//!
//! A value is a run of letters, digits and `_ . / @ # ~ + -` whose shape says that it is no plain word: a path, an address, a
//! name with inner structure, a file, a hash, an id, a long number. Which of them later turns need cannot be known; which were
//! used before, and how lately, can.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;
use xxhash_rust::xxh3::xxh3_64;

use crate::json::unescape;
use crate::transcript::{Block, Form};

/// Longer lines are taken in pieces, so that one line of JSON is not all or nothing.
const LONGEST_LINE: usize = 400;
/// About the length of such a piece.
const PIECE: usize = 240;
/// Shorter runs are in every text by chance; longer ones are data.
const LENGTHS: std::ops::RangeInclusive<usize> = 4..=160;

/// The identity of a value or of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    /// The key of these bytes.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(xxh3_64(text.as_bytes()))
    }
}

/// A text as lines with their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    lines: Vec<LineAt>,
    values: Vec<Key>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineAt {
    start: u32,
    end: u32,
    /// Where this line's values end in the list of all.
    values_end: u32,
    key: Key,
}

/// One line, or a piece of a very long one, without the blanks around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'l> {
    /// The same line elsewhere has the same key.
    pub key: Key,
    /// Where it starts in the text.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// The values in it, in order.
    pub values: &'l [Key],
}

impl Line<'_> {
    /// Where it stands in the text.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

impl Lines {
    /// Reads a text once.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut lines = Self::default();
        let bytes = text.as_bytes();
        let mut start = 0;
        while start < bytes.len() {
            let end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |at| start + at);
            lines.add(text, start, end);
            start = end + 1;
        }
        lines
    }

    /// How many lines there are that are not blank.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// The bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.values)
    }

    /// Whether all lines are blank.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// One line.
    #[must_use]
    pub fn line(&self, index: usize) -> Line<'_> {
        let LineAt { start, end, values_end, key } = self.lines[index];
        let first = index.checked_sub(1).map_or(0, |before| self.lines[before].values_end);
        let values = &self.values[first as usize..values_end as usize];
        Line { key, start: start as usize, end: end as usize, values }
    }

    /// All lines, in order.
    pub fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        (0..self.len()).map(|index| self.line(index))
    }

    /// All values, in order.
    #[must_use]
    pub fn values(&self) -> &[Key] {
        &self.values
    }

    fn add(&mut self, text: &str, start: usize, end: usize) {
        let line = text[start..end].trim();
        let mut from = start + (text[start..end].len() - text[start..end].trim_start().len());
        let end = from + line.len();
        while end - from > LONGEST_LINE {
            let to = piece_end(text, from, end);
            self.push(text, from, to);
            from = to + (text[to..end].len() - text[to..end].trim_start().len());
        }
        if from < end {
            self.push(text, from, end);
        }
    }

    fn push(&mut self, text: &str, start: usize, end: usize) {
        values_in(&text[start..end], &mut self.values);
        let values_end = self.values.len() as u32;
        let key = Key::of(&text[start..end]);
        self.lines.push(LineAt { start: start as u32, end: end as u32, values_end, key });
    }
}

/// Where a piece of a long line ends: at a blank or a comma if there is one near, and never inside a character.
fn piece_end(text: &str, from: usize, end: usize) -> usize {
    let bytes = text.as_bytes();
    let breaks = |at: &usize| matches!(bytes[*at], b' ' | b',' | b';' | b'\t' | b'>');
    let near = (from + PIECE..(from + LONGEST_LINE).min(end)).find(breaks);
    let mut at = near.map_or(from + PIECE, |at| at + 1);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// What a byte can be in a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Upper,
    Lower,
    Digit,
    Mark,
    Outside,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Outside; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'A'..=b'Z' => Class::Upper,
            b'a'..=b'z' => Class::Lower,
            b'0'..=b'9' => Class::Digit,
            b'_' | b'.' | b'/' | b'@' | b'#' | b'~' | b'+' | b'-' => Class::Mark,
            _ => Class::Outside,
        };
        byte += 1;
    }
    classes
};

fn values_in(line: &str, values: &mut Vec<Key>) {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if CLASSES[bytes[at] as usize] == Class::Outside {
            at += 1;
            continue;
        }
        let start = at;
        let mut shape = Shape::default();
        while at < bytes.len() {
            let class = CLASSES[bytes[at] as usize];
            if class == Class::Outside {
                break;
            }
            shape.add(class, bytes[at]);
            at += 1;
        }
        let run = line[start..at].trim_end_matches(['.', '-', '+']);
        if LENGTHS.contains(&run.len()) && shape.is_value(run) {
            values.push(Key::of(run));
        }
    }
}

/// What a run is made of.
#[derive(Default)]
struct Shape {
    letters: u16,
    digits: u16,
    slashes: u16,
    /// Signs between two letters or digits.
    joints: u16,
    underscores: u16,
    /// A small letter or digit followed by a capital one.
    humps: u16,
    beyond_hex: u16,
    at_sign: bool,
    last: Option<Class>,
    last_mark: u8,
}

impl Shape {
    fn add(&mut self, class: Class, byte: u8) {
        let after_joint =
            self.last == Some(Class::Mark) && class != Class::Mark && self.letters + self.digits > 0;
        if after_joint {
            self.joints = self.joints.saturating_add(1);
            self.underscores = self.underscores.saturating_add(u16::from(self.last_mark == b'_'));
        }
        match class {
            Class::Upper | Class::Lower => {
                self.letters = self.letters.saturating_add(1);
                let hump = class == Class::Upper && matches!(self.last, Some(Class::Lower | Class::Digit));
                self.humps = self.humps.saturating_add(u16::from(hump));
                let beyond = class == Class::Upper || byte > b'f';
                self.beyond_hex = self.beyond_hex.saturating_add(u16::from(beyond));
            }
            Class::Digit => self.digits = self.digits.saturating_add(1),
            Class::Mark => {
                self.slashes = self.slashes.saturating_add(u16::from(byte == b'/'));
                self.at_sign |= byte == b'@';
                self.last_mark = byte;
            }
            Class::Outside => {}
        }
        self.last = Some(class);
    }

    fn is_value(&self, run: &str) -> bool {
        let plain = self.joints == 0 && self.slashes == 0;
        let is_hash = plain && self.beyond_hex == 0 && self.digits > 0 && self.letters > 0 && run.len() >= 7;
        let is_id = self.digits >= 4 && self.letters <= 12 && plain;
        let is_path = self.slashes > 0 && self.letters > 0;
        let is_address = self.at_sign && self.joints >= 2;
        let is_name = self.underscores > 0 || (self.humps > 0 && plain);
        let is_joined = !plain && self.joints >= 2 && self.letters > 0;
        is_path || is_name || is_id || is_hash || is_address || is_joined || has_extension(run)
    }
}

/// `name.ext`, with a short extension of letters.
fn has_extension(run: &str) -> bool {
    run.rsplit_once('.').is_some_and(|(name, extension)| {
        (1..=5).contains(&extension.len())
            && extension.bytes().all(|b| b.is_ascii_lowercase())
            && name.len() > 1
            && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && !name.ends_with('.')
    })
}

/// The text of a block as a person would read it. A call's arguments are shown as they stand while they are short; longer ones
/// leaf by leaf, the lines of each as lines.
#[must_use]
pub fn readable<'b>(block: &Block<'b>) -> Cow<'b, str> {
    let text = block.text();
    let json = block.text.is_some_and(|text| matches!(text.form, Form::Json | Form::JsonInString));
    if !json || (text.len() <= LONGEST_LINE && !text.contains("\\n")) {
        return text;
    }
    Cow::Owned(leaves(&text))
}

/// The scalars of a JSON text, each behind its key and on lines of its own. What is not JSON comes out as far as it is.
fn leaves(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find(|c: char| !(c.is_ascii_whitespace() || "{}[],".contains(c))) {
        rest = &rest[start..];
        let (token, behind) = scalar(rest);
        rest = behind;
        let is_key = rest.trim_start().starts_with(':');
        match token.strip_prefix('"') {
            Some(inside) => out.push_str(&unescape(inside.strip_suffix('"').unwrap_or(inside))),
            None => out.push_str(token.trim_end()),
        }
        if is_key {
            rest = &rest.trim_start()[1..];
            out.push_str(": ");
        } else {
            out.push('\n');
        }
    }
    out
}

/// The string, number or word at the start, and what is behind it.
fn scalar(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    if bytes[0] != b'"' {
        let end = text
            .char_indices()
            .skip(1)
            .find(|(_, c)| ",]}\n\":".contains(*c))
            .map_or(text.len(), |(at, _)| at);
        return text.split_at(end);
    }
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return text.split_at(at + 1),
            _ => at += 1,
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let lines = Lines::of(text);
        let words = text.split([' ', '\n', '(', ')', ',', ':', '"']);
        words.filter(|word| lines.values().contains(&Key::of(word.trim_end_matches(['.', '-'])))).collect()
    }

    #[test]
    fn shapes_that_are_no_plain_words_are_values() {
        for value in [
            "src/db/query.rs",
            "/etc/hosts",
            "config.toml",
            "max_retries",
            "QuerySet",
            "9f3ac21",
            "ann@example.org",
            "ORD20391",
            "48213",
            "django.db.models",
            "~/notes",
        ] {
            assert_eq!(found(value), [value]);
        }
        for word in ["hello", "the", "well-known", "Yes.", "12", "...", "----", "A"] {
            assert_eq!(found(word), Vec::<&str>::new(), "{word}");
        }
    }

    #[test]
    fn lines_know_their_values_and_their_place() {
        let text = "\n  fn load_all(path)\n\nplain words\r\n\tuse a_b, c_d\n";
        let lines = Lines::of(text);
        let read: Vec<_> = lines.iter().map(|line| (&text[line.range()], line.values.len())).collect();
        assert_eq!(read, [("fn load_all(path)", 1), ("plain words", 0), ("use a_b, c_d", 0)]);
        assert_eq!(lines.line(0).key, Key::of("fn load_all(path)"));
    }

    #[test]
    fn a_very_long_line_is_taken_in_pieces_that_make_up_the_whole() {
        let text = "{\"name\": \"wert_über\", ".repeat(100);
        let lines = Lines::of(&text);
        assert!(lines.len() > 5);
        let joined: String = lines.iter().map(|line| text[line.range()].replace(' ', "")).collect();
        assert_eq!(joined, text.replace(' ', ""));
    }

    #[test]
    fn long_arguments_are_read_leaf_by_leaf() {
        let json = r#"{"path":"src/a.rs","old":"fn one() {\n    two_words();\n}","n":[1, 20391],"ok":true}"#;
        assert_eq!(
            leaves(json),
            "path: src/a.rs\nold: fn one() {\n    two_words();\n}\nn: 1\n20391\nok: true\n"
        );
        for broken in ["", "{\"a", "plain words, and more", "\"half\\", ":::", "{\"a\":é\"}"] {
            let _ = leaves(broken);
        }
    }
}
