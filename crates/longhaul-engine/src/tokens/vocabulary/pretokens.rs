//! Splits a text into pre-tokens as `o200k_base` does before it merges bytes: words with the character before
//! them, numbers of up to three digits, runs of symbols, and white space.
//!
//! The publisher of the vocabulary defines this by one regular expression, with the alternatives in this
//! order:
//!
//! ```text
//! [^\r\n\p{L}\p{N}]?[U]*[L]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?     U: \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}
//! [^\r\n\p{L}\p{N}]?[U]+[L]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?     L: \p{Ll}\p{Lm}\p{Lo}\p{M}
//! \p{N}{1,3}
//!  ?[^\s\p{L}\p{N}]+[\r\n/]*
//! \s*[\r\n]+
//! \s+(?!\S)
//! \s+
//! ```
//!
//! This module walks over the text by the class of each character. That is several times faster than a
//! regular expression engine, which would also have to be built first. Tests compare the result with the
//! `tiktoken` crate.

use super::class::{BLOCK_CHARS, BLOCK_COUNT, CharClass};

/// The table of `build.rs`: the row number of each block of characters, then the rows.
static CLASS_TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes"));
/// The first row of the table, for the characters below 256.
static FIRST_ROW: [u8; BLOCK_CHARS] = {
    let (first, _) = CLASS_TABLE.split_at(BLOCK_COUNT).1.as_chunks();
    first[0]
};

#[inline]
fn class_of_ascii(byte: u8) -> CharClass {
    CharClass(FIRST_ROW[usize::from(byte)])
}

fn class_of(character: char) -> CharClass {
    let at = character as usize;
    let row = usize::from(CLASS_TABLE[at / BLOCK_CHARS]);
    CharClass(CLASS_TABLE[BLOCK_COUNT + row * BLOCK_CHARS + at % BLOCK_CHARS])
}

/// An iterator over the pre-tokens of a text, which leave no gap between them.
pub(super) struct PreTokens<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

impl<'t> Iterator for PreTokens<'t> {
    type Item = &'t [u8];

    #[inline]
    fn next(&mut self) -> Option<&'t [u8]> {
        let start = self.at;
        if start == self.text.len() {
            return None;
        }
        self.at = self.pretoken_end(start);
        Some(&self.text.as_bytes()[start..self.at])
    }
}

/// The end of a word that may start at some position.
enum WordEnd {
    /// There is no letter at the position.
    None,
    /// The end of a word of capitals only.
    Capitals(usize),
    /// The end of a word with at least one letter that is not a capital.
    Whole(usize),
}

impl PreTokens<'_> {
    /// Returns the class of the character at a position and the position of the next one. At the end of the
    /// text, the class is empty.
    #[inline]
    fn class_at(&self, at: usize) -> (CharClass, usize) {
        match self.text.as_bytes().get(at) {
            None => (CharClass::NONE, at),
            Some(&byte) if byte.is_ascii() => (class_of_ascii(byte), at + 1),
            Some(_) => self.class_at_wide(at),
        }
    }

    #[inline(never)]
    fn class_at_wide(&self, at: usize) -> (CharClass, usize) {
        self.text[at..].chars().next().map_or((CharClass::NONE, at), |c| (class_of(c), at + c.len_utf8()))
    }

    /// Returns the end of the run of characters that have one of these classes.
    #[inline]
    fn run_end(&self, mut at: usize, wanted: CharClass) -> usize {
        loop {
            let (class, next) = self.class_at(at);
            if !class.has_any(wanted) {
                return at;
            }
            at = next;
        }
    }

    #[inline]
    fn pretoken_end(&self, start: usize) -> usize {
        let (first, after) = self.class_at(start);
        if first.has_any(CharClass::LETTER) {
            match self.find_word_end(start) {
                WordEnd::Capitals(end) | WordEnd::Whole(end) => return self.contraction_end(end),
                WordEnd::None => {}
            }
        } else if !first.has_any(CharClass::NUMBER | CharClass::LINE_END) {
            // One character that is neither a letter nor a number may precede a word. A combining mark can be
            // a word by itself.
            match self.find_word_end(after) {
                WordEnd::Whole(end) => return self.contraction_end(end),
                WordEnd::Capitals(end) if !first.has_any(CharClass::UPPER) => {
                    return self.contraction_end(end);
                }
                _ if first.has_any(CharClass::UPPER) => return self.contraction_end(after),
                _ => {}
            }
        }
        if first.has_any(CharClass::NUMBER) {
            return (0..2).fold(after, |end, _| {
                let (class, next) = self.class_at(end);
                if class.has_any(CharClass::NUMBER) { next } else { end }
            });
        }
        let chars = if self.text.as_bytes()[start] == b' ' { after } else { start };
        let end = self.run_end(chars, CharClass::SYMBOL);
        if end > chars {
            return self.run_end(end, CharClass::LINE_END | CharClass::SLASH);
        }
        self.white_space_end(start)
    }

    /// Finds the end of a word: capitals, then small letters. Letters without case and combining marks can be
    /// in either part.
    #[inline]
    fn find_word_end(&self, start: usize) -> WordEnd {
        let (mut at, mut other) = (start, None);
        loop {
            let (class, next) = self.class_at(at);
            if !class.has_any(CharClass::UPPER) {
                break;
            }
            if class.has_any(CharClass::LOWER) {
                other = Some(next);
            }
            at = next;
        }
        let end = self.run_end(at, CharClass::LOWER);
        match other {
            _ if end > at => WordEnd::Whole(end),
            Some(end) => WordEnd::Whole(end),
            None if at > start => WordEnd::Capitals(at),
            None => WordEnd::None,
        }
    }

    /// Returns the end of the English contraction that follows a word, or the end of the word if none
    /// follows.
    fn contraction_end(&self, end: usize) -> usize {
        let rest = &self.text.as_bytes()[end..];
        if rest.first() != Some(&b'\'') {
            return end;
        }
        let summarized = |at: usize| rest.get(at).map(u8::to_ascii_lowercase);
        end + match (summarized(1), summarized(2)) {
            (Some(b's' | b't' | b'm' | b'd'), _) => 2,
            // The last pair of bytes is the long s (ſ), another form of the letter.
            (Some(b'r' | b'v'), Some(b'e')) | (Some(b'l'), Some(b'l')) | (Some(0xC5), Some(0xBF)) => 3,
            _ => 0,
        }
    }

    /// Returns the end of white space: after the last line end or, without one, before the last character if
    /// other text follows.
    fn white_space_end(&self, start: usize) -> usize {
        let (mut at, mut last, mut line_end) = (start, start, None);
        loop {
            let (class, next) = self.class_at(at);
            if !class.has_any(CharClass::SPACE) {
                break;
            }
            if class.has_any(CharClass::LINE_END) {
                line_end = Some(next);
            }
            (last, at) = (at, next);
        }
        match line_end {
            Some(end) => end,
            None if last > start && at < self.text.len() => last,
            None => at,
        }
    }
}
