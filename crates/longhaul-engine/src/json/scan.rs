//! A pull scanner: one pass over the bytes, no recursion, no copies.

use std::fmt;

use super::Span;

/// What a body that is not JSON looks like at the place where it stops being JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJson {
    /// Byte offset in the body.
    pub at: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What should have stood there.
    pub expected: &'static str,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, line, column, expected } = self;
        write!(f, "not JSON at line {line}, column {column} (byte {at}): expected {expected}")
    }
}

impl std::error::Error for NotJson {}

/// What kind of value a span holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    /// A string without escapes: its bytes are its text.
    Plain,
    Escaped,
    /// A string with half a surrogate pair in it, which no Unicode text can hold.
    Damaged,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

impl Kind {
    pub(crate) fn is_string(self) -> bool {
        matches!(self, Self::Plain | Self::Escaped | Self::Damaged)
    }
}

/// Walks a body. Every method expects to stand before a value or between values, and leaves the cursor after what it read.
pub(crate) struct Scanner<'b> {
    text: &'b str,
    bytes: &'b [u8],
    at: usize,
    /// The brackets still to be closed while a value is skipped: nesting costs a byte of heap a level, never stack.
    open: Vec<u8>,
}

impl<'b> Scanner<'b> {
    pub(crate) fn new(text: &'b str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, open: Vec::new() }
    }

    /// A scanner of one value inside a larger body; offsets stay those of the body.
    pub(crate) fn within(text: &'b str, span: Span) -> Self {
        let text = &text[..span.end as usize];
        Self { at: span.start as usize, ..Self::new(text) }
    }

    pub(crate) fn skip_byte_order_mark(&mut self) -> bool {
        let found = self.text[self.at..].starts_with('\u{feff}');
        self.at += if found { '\u{feff}'.len_utf8() } else { 0 };
        found
    }

    /// Reads past the string that starts here, whose inside ends at `end`, as somebody knows who scanned it before.
    pub(crate) fn known_string(&mut self, end: u32) -> Span {
        let start = self.at;
        self.at = end as usize + 1;
        Span::new(start, self.at)
    }

    /// Where it stands.
    pub(crate) fn at(&self) -> u32 {
        self.at as u32
    }

    fn fail(&self, expected: &'static str) -> NotJson {
        let before = &self.bytes[..self.at.min(self.bytes.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |i| i + 1);
        let column = before[line_start..].iter().filter(|b| **b & 0xC0 != 0x80).count() + 1;
        NotJson { at: self.at, line: memchr::memchr_iter(b'\n', before).count() + 1, column, expected }
    }

    /// The next byte that is not white space; `0` at the end, which no value begins with.
    pub(crate) fn peek(&mut self) -> u8 {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return byte;
            }
            self.at += 1;
        }
        0
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NotJson> {
        if self.peek() != byte {
            return Err(self.fail(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// Fails unless only white space is left.
    pub(crate) fn end(&mut self) -> Result<(), NotJson> {
        if self.peek() == 0 && self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.fail("the end of the body"))
        }
    }

    /// Calls `each` before every value of the array that starts here; `each` must read exactly that value.
    pub(crate) fn elements(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), NotJson>,
    ) -> Result<Span, NotJson> {
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
                _ => return Err(self.fail("`,` or `]`")),
            }
        }
    }

    /// Calls `each` with every key of the object that starts here (the span between its quotes), standing before its value.
    pub(crate) fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, Span, Kind) -> Result<(), NotJson>,
    ) -> Result<Span, NotJson> {
        self.expect(b'{', "`{`")?;
        let start = self.at - 1;
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(Span::new(start, self.at));
        }
        loop {
            let (key, kind) = self.key()?;
            self.peek();
            each(self, key, kind)?;
            match self.peek() {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(Span::new(start, self.at));
                }
                _ => return Err(self.fail("`,` or `}`")),
            }
        }
    }

    fn key(&mut self) -> Result<(Span, Kind), NotJson> {
        if self.peek() != b'"' {
            return Err(self.fail("a key in quotes"));
        }
        let (span, kind) = self.string()?;
        self.expect(b':', "`:`")?;
        Ok((span.unquoted(), kind))
    }

    /// Reads past one value of any kind and says where it was.
    pub(crate) fn value(&mut self) -> Result<(Span, Kind), NotJson> {
        let kind = match self.peek() {
            b'"' => return self.string(),
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            _ => Kind::Scalar,
        };
        let start = self.at;
        self.skip()?;
        Ok((Span::new(start, self.at), kind))
    }

    fn skip(&mut self) -> Result<(), NotJson> {
        self.open.clear();
        loop {
            match self.peek() {
                b'"' => drop(self.string()?),
                b'{' => {
                    self.at += 1;
                    if self.peek() == b'}' {
                        self.at += 1;
                    } else {
                        self.key()?;
                        self.open.push(b'}');
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    if self.peek() == b']' {
                        self.at += 1;
                    } else {
                        self.open.push(b']');
                        continue;
                    }
                }
                b't' => self.word("true")?,
                b'f' => self.word("false")?,
                b'n' => self.word("null")?,
                b'-' | b'0'..=b'9' => self.number()?,
                _ => return Err(self.fail("a value")),
            }
            loop {
                let Some(&close) = self.open.last() else { return Ok(()) };
                match self.peek() {
                    b',' => {
                        self.at += 1;
                        if close == b'}' {
                            self.key()?;
                        }
                        break;
                    }
                    byte if byte == close => {
                        self.at += 1;
                        self.open.pop();
                    }
                    _ if close == b'}' => return Err(self.fail("`,` or `}`")),
                    _ => return Err(self.fail("`,` or `]`")),
                }
            }
        }
    }

    fn word(&mut self, word: &'static str) -> Result<(), NotJson> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.fail("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotJson> {
        let byte = |s: &Self| s.bytes.get(s.at).copied().unwrap_or(0);
        if byte(self) == b'-' {
            self.at += 1;
        }
        match byte(self) {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if byte(self) == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(byte(self), b'e' | b'E') {
            self.at += 1;
            if matches!(byte(self), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let count = self.bytes[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.fail("a digit"));
        }
        self.at += count;
        Ok(())
    }

    /// Reads the string that starts here: its span with quotes, and how it is written.
    fn string(&mut self) -> Result<(Span, Kind), NotJson> {
        let start = self.at;
        self.at += 1;
        let mut kind = Kind::Plain;
        loop {
            self.at = plain_run(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((Span::new(start, self.at), kind));
                }
                Some(b'\\') => {
                    let intact = self.escape_sequence()?;
                    kind = if intact && kind != Kind::Damaged { Kind::Escaped } else { Kind::Damaged };
                }
                Some(_) => return Err(self.fail("no raw control character inside a string")),
                None => return Err(self.fail("`\"` to end a string")),
            }
        }
    }

    /// Reads one escape, or both halves of a surrogate pair; `false` for a half without its mate.
    fn escape_sequence(&mut self) -> Result<bool, NotJson> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(true)
            }
            Some(b'u') => {
                let unit = self.hex_unit()?;
                match unit {
                    0xD800..=0xDBFF if self.bytes[self.at..].starts_with(b"\\u") => {
                        let back = self.at;
                        if matches!(self.hex_unit()?, 0xDC00..=0xDFFF) {
                            return Ok(true);
                        }
                        self.at = back;
                        Ok(false)
                    }
                    0xD800..=0xDFFF => Ok(false),
                    _ => Ok(true),
                }
            }
            _ => Err(self.fail("an escape that JSON has")),
        }
    }

    fn hex_unit(&mut self) -> Result<u16, NotJson> {
        let unit =
            self.text.get(self.at + 2..self.at + 6).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = unit.and_then(|h| u16::from_str_radix(h, 16).ok());
        let unit = unit.ok_or_else(|| self.fail("four hexadecimal digits after `\\u`"))?;
        self.at += 6;
        Ok(unit)
    }
}

/// The index of the next byte that ends a run of ordinary string bytes: a quote, a backslash or a control character.
/// Eight bytes at a time, for this is where a body's time goes.
fn plain_run(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let zero_bytes = |w: u64| w.wrapping_sub(ONES) & !w & HIGH;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let found = control
            | zero_bytes(word ^ (ONES * u64::from(b'"')))
            | zero_bytes(word ^ (ONES * u64::from(b'\\')));
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

    fn whole(text: &str) -> Result<Kind, NotJson> {
        let mut scanner = Scanner::new(text);
        let (span, kind) = scanner.value()?;
        scanner.end()?;
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
            assert_eq!(whole(text).is_ok(), theirs, "{text:?}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_damage_not_an_error() {
        assert_eq!(whole(r#""\ud83d\ude00""#), Ok(Kind::Escaped));
        for text in
            [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx\n""#, r#""\ud83d\u0041""#, r#""\ud83d\ud83d\ude00""#]
        {
            assert_eq!(whole(text), Ok(Kind::Damaged), "{text}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let text = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(whole(&text), Ok(Kind::Array));
    }

    #[test]
    fn an_error_says_where() {
        let error = whole("{\n  \"é\": nope\n}").unwrap_err();
        assert_eq!(error.to_string(), "not JSON at line 2, column 8 (byte 10): expected a value");
    }
}
