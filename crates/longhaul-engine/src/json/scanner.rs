//! A pull scanner for JSON: one pass over the bytes, without recursion or copies.

use std::fmt;

use super::Span;

/// The place where a request body stops being JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// The byte offset in the body.
    pub offset: usize,
    /// The line number, starting at 1.
    pub line: usize,
    /// The column in characters, starting at 1.
    pub column: usize,
    /// A description of the input that JSON requires at this place.
    pub expected: &'static str,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset: at, line, column, expected } = self;
        write!(f, "not JSON at line {line}, column {column} (byte {at}): expected {expected}")
    }
}

impl std::error::Error for JsonError {}

/// The kind of a JSON value. Strings are split by how much work their text needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Object,
    Array,
    /// A string without escapes, whose bytes are its text.
    PlainString,
    EscapedString,
    /// A string with half of a surrogate pair, which is not valid Unicode text.
    UnpairedSurrogate,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

impl ValueKind {
    pub(crate) fn is_string(self) -> bool {
        matches!(self, Self::PlainString | Self::EscapedString | Self::UnpairedSurrogate)
    }
}

/// Moves a cursor over a body. Every method starts before or between values and leaves the cursor after the
/// bytes that it read.
pub(crate) struct Scanner<'b> {
    text: &'b str,
    bytes: &'b [u8],
    at: usize,
    /// The brackets that are still open while a value is skipped. Nesting takes one byte of heap for each
    /// level and no stack.
    open_brackets: Vec<u8>,
}

impl<'b> Scanner<'b> {
    pub(crate) fn new(text: &'b str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, open_brackets: Vec::new() }
    }

    /// Creates a scanner for one value inside a larger body. Offsets are relative to the body.
    pub(crate) fn within(text: &'b str, span: Span) -> Self {
        let text = &text[..span.end as usize];
        Self { at: span.start as usize, ..Self::new(text) }
    }

    pub(crate) fn skip_byte_order_mark(&mut self) -> bool {
        let found = self.text[self.at..].starts_with('\u{feff}');
        self.at += if found { '\u{feff}'.len_utf8() } else { 0 };
        found
    }

    /// Skips the string that starts here. The caller knows from an earlier scan that its closing quote is at
    /// `end`.
    pub(crate) fn skip_known_string(&mut self, end: u32) -> Span {
        let start = self.at;
        self.at = end as usize + 1;
        Span::new(start, self.at)
    }

    /// Returns the byte offset of the cursor.
    pub(crate) fn position(&self) -> u32 {
        self.at as u32
    }

    fn error_here(&self, expected: &'static str) -> JsonError {
        let before = &self.bytes[..self.at.min(self.bytes.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |i| i + 1);
        let column = before[line_start..].iter().filter(|b| **b & 0xC0 != 0x80).count() + 1;
        JsonError { offset: self.at, line: memchr::memchr_iter(b'\n', before).count() + 1, column, expected }
    }

    /// Skips white space and returns the next byte, or `0` at the end of the body. No value begins with `0`.
    pub(crate) fn peek(&mut self) -> u8 {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return byte;
            }
            self.at += 1;
        }
        0
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), JsonError> {
        if self.peek() != byte {
            return Err(self.error_here(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// Returns an error unless only white space is left.
    pub(crate) fn expect_end(&mut self) -> Result<(), JsonError> {
        if self.peek() == 0 && self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.error_here("the end of the body"))
        }
    }

    /// Calls `each` before every element of the array that starts here. `each` must read exactly that
    /// element.
    pub(crate) fn for_each_element(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<Span, JsonError> {
        self.expect(b'[', "`[`")?;
        let start = self.at - 1;
        if self.peek() == b']' {
            self.at += 1;
            return Ok(Span::new(start, self.at));
        }
        loop {
            self.peek();
            each(self)?;
            match self.peek() {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Span::new(start, self.at));
                }
                _ => return Err(self.error_here("`,` or `]`")),
            }
        }
    }

    /// Calls `each` for every member of the object that starts here, with the span of the key between its
    /// quotes. The cursor is before the value, which `each` must read.
    pub(crate) fn for_each_member(
        &mut self,
        mut each: impl FnMut(&mut Self, Span, ValueKind) -> Result<(), JsonError>,
    ) -> Result<Span, JsonError> {
        self.expect(b'{', "`{`")?;
        let start = self.at - 1;
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(Span::new(start, self.at));
        }
        loop {
            let (key, kind) = self.read_key()?;
            self.peek();
            each(self, key, kind)?;
            match self.peek() {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(Span::new(start, self.at));
                }
                _ => return Err(self.error_here("`,` or `}`")),
            }
        }
    }

    fn read_key(&mut self) -> Result<(Span, ValueKind), JsonError> {
        if self.peek() != b'"' {
            return Err(self.error_here("a key in quotes"));
        }
        let (span, kind) = self.skip_string()?;
        self.expect(b':', "`:`")?;
        Ok((span.unquoted(), kind))
    }

    /// Skips one value of any kind and returns its span.
    pub(crate) fn skip_value(&mut self) -> Result<(Span, ValueKind), JsonError> {
        let kind = match self.peek() {
            b'"' => return self.skip_string(),
            b'{' => ValueKind::Object,
            b'[' => ValueKind::Array,
            _ => ValueKind::Scalar,
        };
        let start = self.at;
        self.skip_nested()?;
        Ok((Span::new(start, self.at), kind))
    }

    fn skip_nested(&mut self) -> Result<(), JsonError> {
        self.open_brackets.clear();
        loop {
            match self.peek() {
                b'"' => drop(self.skip_string()?),
                b'{' => {
                    self.at += 1;
                    if self.peek() == b'}' {
                        self.at += 1;
                    } else {
                        self.read_key()?;
                        self.open_brackets.push(b'}');
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    if self.peek() == b']' {
                        self.at += 1;
                    } else {
                        self.open_brackets.push(b']');
                        continue;
                    }
                }
                b't' => self.skip_literal("true")?,
                b'f' => self.skip_literal("false")?,
                b'n' => self.skip_literal("null")?,
                b'-' | b'0'..=b'9' => self.skip_number()?,
                _ => return Err(self.error_here("a value")),
            }
            loop {
                let Some(&close) = self.open_brackets.last() else { return Ok(()) };
                match self.peek() {
                    b',' => {
                        self.at += 1;
                        if close == b'}' {
                            self.read_key()?;
                        }
                        break;
                    }
                    byte if byte == close => {
                        self.at += 1;
                        self.open_brackets.pop();
                    }
                    _ if close == b'}' => return Err(self.error_here("`,` or `}`")),
                    _ => return Err(self.error_here("`,` or `]`")),
                }
            }
        }
    }

    fn skip_literal(&mut self, word: &'static str) -> Result<(), JsonError> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error_here("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn skip_number(&mut self) -> Result<(), JsonError> {
        let byte = |s: &Self| s.bytes.get(s.at).copied().unwrap_or(0);
        if byte(self) == b'-' {
            self.at += 1;
        }
        match byte(self) {
            b'0' => self.at += 1,
            _ => self.skip_digits()?,
        }
        if byte(self) == b'.' {
            self.at += 1;
            self.skip_digits()?;
        }
        if matches!(byte(self), b'e' | b'E') {
            self.at += 1;
            if matches!(byte(self), b'+' | b'-') {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    fn skip_digits(&mut self) -> Result<(), JsonError> {
        let count = self.bytes[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.error_here("a digit"));
        }
        self.at += count;
        Ok(())
    }

    /// Skips the string that starts here. Returns its span with the quotes, and its kind.
    fn skip_string(&mut self) -> Result<(Span, ValueKind), JsonError> {
        let start = self.at;
        self.at += 1;
        let mut kind = ValueKind::PlainString;
        loop {
            self.at = find_string_delimiter(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((Span::new(start, self.at), kind));
                }
                Some(b'\\') => {
                    let intact = self.skip_escape()?;
                    kind = if intact && kind != ValueKind::UnpairedSurrogate {
                        ValueKind::EscapedString
                    } else {
                        ValueKind::UnpairedSurrogate
                    };
                }
                Some(_) => return Err(self.error_here("an escape in place of the control character")),
                None => return Err(self.error_here("`\"` to end a string")),
            }
        }
    }

    /// Skips one escape, or both halves of a surrogate pair. Returns `false` for a half without the other
    /// one.
    fn skip_escape(&mut self) -> Result<bool, JsonError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(true)
            }
            Some(b'u') => {
                let turn = self.read_code_unit()?;
                match turn {
                    0xD800..=0xDBFF if self.bytes[self.at..].starts_with(b"\\u") => {
                        let back = self.at;
                        if matches!(self.read_code_unit()?, 0xDC00..=0xDFFF) {
                            return Ok(true);
                        }
                        self.at = back;
                        Ok(false)
                    }
                    0xD800..=0xDFFF => Ok(false),
                    _ => Ok(true),
                }
            }
            _ => Err(self.error_here("a valid escape")),
        }
    }

    fn read_code_unit(&mut self) -> Result<u16, JsonError> {
        let turn = self.text.get(self.at + 2..self.at + 6).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        let turn = turn.and_then(|h| u16::from_str_radix(h, 16).ok());
        let turn = turn.ok_or_else(|| self.error_here("four hexadecimal digits after `\\u`"))?;
        self.at += 6;
        Ok(turn)
    }
}

/// Returns the index of the next byte that is not an ordinary string byte: a quote, a backslash or a control
/// character. It tests eight bytes at a time, because most of the time of a scan is spent here.
fn find_string_delimiter(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let zero_bytes = |w: u64| w.wrapping_sub(ONES) & !w & HIGH;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let found =
            control | zero_bytes(word ^ (ONES * u64::from(b'"'))) | zero_bytes(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|b| matches!(b, b'"' | b'\\' | ..0x20)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_whole(text: &str) -> Result<ValueKind, JsonError> {
        let mut scanner = Scanner::new(text);
        let (span, kind) = scanner.skip_value()?;
        scanner.expect_end()?;
        assert_eq!(&text[span.range()], text.trim());
        Ok(kind)
    }

    #[test]
    fn accepts_what_serde_json_accepts() {
        let texts = [
            "{}",
            "[]",
            " [1, -0.5e+3, true, null] ",
            r#"{"a":{"b":[{}]}}"#,
            r#""\u00e9\n\"""#,
            "0",
            "-",
            "01",
            "1.",
            "1e",
            "tru",
            "[1,]",
            r#"{"a":1,}"#,
            "{a:1}",
            r#"{"a" 1}"#,
            "[1 2]",
            "\"\t\"",
            "\"",
            r#""\x""#,
            r#""\u12""#,
            "",
            "  ",
            "{} {}",
            "nulll",
            "\u{1}",
            "[[[[]]]]",
            "[",
            "{",
            r#"{"a":"#,
            "-0",
            "1E9",
            r#""\/""#,
        ];
        for text in texts {
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            assert_eq!(scan_whole(text).is_ok(), theirs, "{text:?}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_damage_not_an_error() {
        assert_eq!(scan_whole(r#""\ud83d\ude00""#), Ok(ValueKind::EscapedString));
        for text in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx\n""#, r#""\ud83d\u0041""#, r#""\ud83d\ud83d\ude00""#] {
            assert_eq!(scan_whole(text), Ok(ValueKind::UnpairedSurrogate), "{text}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let text = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(scan_whole(&text), Ok(ValueKind::Array));
    }

    #[test]
    fn an_error_says_where() {
        let error = scan_whole("{\n  \"é\": nope\n}").unwrap_err();
        assert_eq!(error.to_string(), "not JSON at line 2, column 8 (byte 10): expected a value");
    }
}
