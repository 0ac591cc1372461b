//! How `o200k_base` splits a text into pieces before it merges bytes: words with what stands before them, numbers of three
//! digits, runs of signs, white space.
//!
//! The vocabulary's publisher states it as one expression, in this order:
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
//! Here it is a walk by the class of each character, several times faster than an engine for expressions, which would
//! have to be built first. The tests hold it against the `tiktoken` crate.

use super::class::{BLOCK, BLOCKS, Class};

/// Which row each block has, then the rows.
static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes"));
/// The first row: the characters before 256.
static FIRST: [u8; BLOCK] = {
    let (first, _) = TABLE.split_at(BLOCKS).1.as_chunks();
    first[0]
};

#[inline]
fn class_of_ascii(byte: u8) -> Class {
    Class(FIRST[usize::from(byte)])
}

fn class_of(character: char) -> Class {
    let at = character as usize;
    let row = usize::from(TABLE[at / BLOCK]);
    Class(TABLE[BLOCKS + row * BLOCK + at % BLOCK])
}

/// The pieces of a text, one after the other, without a gap.
pub(super) struct Pieces<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = &'t [u8];

    #[inline]
    fn next(&mut self) -> Option<&'t [u8]> {
        let start = self.at;
        if start == self.text.len() {
            return None;
        }
        self.at = self.end_of_piece(start);
        Some(&self.text.as_bytes()[start..self.at])
    }
}

/// What follows at a place, taken as a word.
enum Word {
    /// No letter stands there.
    None,
    /// Capitals alone, up to here.
    Capitals(usize),
    /// A word up to here that has at least one letter which is no capital.
    Whole(usize),
}

impl Pieces<'_> {
    /// The class of the character at a place, and where the next one begins; nothing at the end.
    #[inline]
    fn class(&self, at: usize) -> (Class, usize) {
        match self.text.as_bytes().get(at) {
            None => (Class::NONE, at),
            Some(&byte) if byte.is_ascii() => (class_of_ascii(byte), at + 1),
            Some(_) => self.class_of_wide(at),
        }
    }

    #[inline(never)]
    fn class_of_wide(&self, at: usize) -> (Class, usize) {
        self.text[at..].chars().next().map_or((Class::NONE, at), |c| (class_of(c), at + c.len_utf8()))
    }

    /// Where a run of characters ends that have one of these classes.
    #[inline]
    fn run(&self, mut at: usize, wanted: Class) -> usize {
        loop {
            let (class, next) = self.class(at);
            if !class.has(wanted) {
                return at;
            }
            at = next;
        }
    }

    #[inline]
    fn end_of_piece(&self, start: usize) -> usize {
        let (first, after) = self.class(start);
        if first.has(Class::LETTER) {
            match self.word(start) {
                Word::Capitals(end) | Word::Whole(end) => return self.contraction(end),
                Word::None => {}
            }
        } else if !first.has(Class::NUMBER | Class::LINE_END) {
            // What is neither letter nor number may stand before a word, a mark may be one by itself.
            match self.word(after) {
                Word::Whole(end) => return self.contraction(end),
                Word::Capitals(end) if !first.has(Class::UPPER) => return self.contraction(end),
                _ if first.has(Class::UPPER) => return self.contraction(after),
                _ => {}
            }
        }
        if first.has(Class::NUMBER) {
            return (0..2).fold(after, |end, _| {
                let (class, next) = self.class(end);
                if class.has(Class::NUMBER) { next } else { end }
            });
        }
        let signs = if self.text.as_bytes()[start] == b' ' { after } else { start };
        let end = self.run(signs, Class::SIGN);
        if end > signs {
            return self.run(end, Class::LINE_END | Class::SLASH);
        }
        self.white_space(start)
    }

    /// Capitals, then other letters; letters that are both, and marks, go with either.
    #[inline]
    fn word(&self, start: usize) -> Word {
        let (mut at, mut other) = (start, None);
        loop {
            let (class, next) = self.class(at);
            if !class.has(Class::UPPER) {
                break;
            }
            if class.has(Class::LOWER) {
                other = Some(next);
            }
            at = next;
        }
        let end = self.run(at, Class::LOWER);
        match other {
            _ if end > at => Word::Whole(end),
            Some(end) => Word::Whole(end),
            None if at > start => Word::Capitals(at),
            None => Word::None,
        }
    }

    /// The end of an English contraction that follows a word, or the end of the word.
    fn contraction(&self, end: usize) -> usize {
        let rest = &self.text.as_bytes()[end..];
        if rest.first() != Some(&b'\'') {
            return end;
        }
        let folded = |at: usize| rest.get(at).map(u8::to_ascii_lowercase);
        end + match (folded(1), folded(2)) {
            (Some(b's' | b't' | b'm' | b'd'), _) => 2,
            // The last is the long s, another form of the letter.
            (Some(b'r' | b'v'), Some(b'e')) | (Some(b'l'), Some(b'l')) | (Some(0xC5), Some(0xBF)) => 3,
            _ => 0,
        }
    }

    /// Up to the last line end; without one, all but what stands before a word.
    fn white_space(&self, start: usize) -> usize {
        let (mut at, mut last, mut line_end) = (start, start, None);
        loop {
            let (class, next) = self.class(at);
            if !class.has(Class::SPACE) {
                break;
            }
            if class.has(Class::LINE_END) {
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
