//! Text made from the input by putting other bytes in the place of some, and the way back to the input.

use std::ops::Range;

use super::shape::Alphabet;
use super::{disguised, mark};

/// Text to be read in place of the input.
pub(super) struct Rewritten {
    pub(super) text: Vec<u8>,
    /// Where each stretch of copied text begins here, and where it began in the input.
    stretches: Vec<(usize, usize)>,
}

impl Rewritten {
    /// The input with a mark in the place of each of these ranges.
    pub(super) fn marked(input: &[u8], ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let mut marked = Self { text: Vec::with_capacity(input.len()), stretches: vec![(0, 0)] };
        let mut copied = 0;
        for range in ranges {
            marked.text.extend_from_slice(&input[copied..range.start]);
            marked.put(mark::STAND_IN, range.end);
            copied = range.end;
        }
        marked.text.extend_from_slice(&input[copied..]);
        marked
    }

    /// The input without what nobody sees: escape sequences of a terminal, soft hyphens, characters without width. Only what
    /// stands around them, for the rest was read as it is. Nothing where there is none of them.
    pub(super) fn visible(input: &[u8]) -> Option<Self> {
        if input.is_ascii() && !input.iter().any(|byte| is_hidden_control(*byte)) {
            return None;
        }
        let mut hidden = next_hidden(input, 0);
        let (first, _) = hidden?;
        let mut copied = line_before(input, first);
        let mut until = copied;
        let mut visible = Self { text: Vec::new(), stretches: vec![(0, copied)] };
        while let Some((start, end)) = hidden {
            let from = line_before(input, start);
            if from > until {
                visible.text.extend_from_slice(&input[copied..until]);
                visible.put(b"\n", from);
                copied = from;
            }
            visible.text.extend_from_slice(&input[copied..start]);
            visible.put(&[], end);
            copied = end;
            until = line_behind(input, end);
            hidden = next_hidden(input, end);
        }
        visible.text.extend_from_slice(&input[copied..until]);
        Some(visible)
    }

    /// The place in the input behind the last of these bytes, before anything hidden that follows.
    pub(super) fn origin_end(&self, end: usize) -> usize {
        self.origin(end - 1) + 1
    }

    /// This word of the input as it reads without percent-encoding, however often that was done to it.
    pub(super) fn decoded(input: &[u8], word: Range<usize>) -> Self {
        Self::without_escapes(input, word, b'%', escape)
    }

    /// This word of the input as it reads without the escapes of a string.
    pub(super) fn unescaped(input: &[u8], word: Range<usize>) -> Self {
        Self::without_escapes(input, word, b'\\', disguised::escape)
    }

    /// This word of the input with the bytes that escapes stand for in their place. An escape begins with `sign`.
    fn without_escapes(
        input: &[u8],
        word: Range<usize>,
        sign: u8,
        escape: impl Fn(&[u8]) -> Option<(u8, usize)>,
    ) -> Self {
        let mut read = Self { text: Vec::with_capacity(word.len()), stretches: vec![(0, word.start)] };
        let mut at = word.start;
        while let Some(start) = memchr::memchr(sign, &input[at..word.end]).map(|found| at + found) {
            read.text.extend_from_slice(&input[at..start]);
            at = if let Some((byte, length)) = escape(&input[start..word.end]) {
                read.put(&[byte], start + length);
                start + length
            } else {
                read.text.push(sign);
                start + 1
            };
        }
        read.text.extend_from_slice(&input[at..word.end]);
        read
    }

    /// Bytes in the place of the input's up to `input_end`.
    fn put(&mut self, bytes: &[u8], input_end: usize) {
        self.text.extend_from_slice(bytes);
        self.stretches.push((self.text.len(), input_end));
    }

    /// The place in the input of a byte that was copied or begins what was put in its place.
    pub(super) fn origin(&self, at: usize) -> usize {
        let after = self.stretches.partition_point(|&(here, _)| here <= at);
        let (here, there) = self.stretches[after - 1];
        at - here + there
    }
}

/// So much before and behind a hidden thing is read again: names and values that it parts stand within that.
const AROUND: usize = 1024;

/// The beginning of a line some way before a place; on a line without end, just so far before it.
fn line_before(input: &[u8], at: usize) -> usize {
    let near = at.saturating_sub(AROUND);
    let far = near.saturating_sub(AROUND);
    memchr::memrchr(b'\n', &input[far..near]).map_or(near, |found| far + found + 1)
}

/// The end of a line some way behind a place; on a line without end, just so far behind it.
fn line_behind(input: &[u8], at: usize) -> usize {
    let near = (at + AROUND).min(input.len());
    let far = (near + AROUND).min(input.len());
    memchr::memchr(b'\n', &input[near..far]).map_or(near, |found| near + found)
}

/// Where the next hidden thing begins and ends.
fn next_hidden(input: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    while let Some(found) = input[at..].iter().position(|byte| may_hide(*byte)).map(|found| at + found) {
        let length = hidden_length(&input[found..]);
        if length > 0 {
            return Some((found, found + length));
        }
        at = found + 1;
    }
    None
}

/// Control characters that no terminal shows: all but tabs and the ends of lines.
fn is_hidden_control(byte: u8) -> bool {
    matches!(byte, 0x00..=0x08 | 0x0e..=0x1f | 0x7f)
}

fn may_hide(byte: u8) -> bool {
    is_hidden_control(byte) || matches!(byte, 0xc2 | 0xcd | 0xe2 | 0xef | 0xf3)
}

/// The length of the hidden thing that `rest` begins with.
fn hidden_length(rest: &[u8]) -> usize {
    match rest {
        [0x1b, b'[', parameters @ ..] => {
            let length = parameters
                .iter()
                .take(32)
                .take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':' | b'?'))
                .count();
            if parameters.get(length).is_some_and(|byte| (0x40..=0x7e).contains(byte)) {
                length + 3
            } else {
                0
            }
        }
        [byte, ..] if *byte != 0x1b && is_hidden_control(*byte) => 1,
        // Soft hyphen; zero-width space, joiners and word joiner, marks of direction, and variation selectors.
        [0xc2, 0xad, ..] | [0xcd, 0x8f, ..] => 2,
        [0xe2, 0x80, 0x8b..=0x8f, ..]
        | [0xe2, 0x81, 0xa0..=0xa4, ..]
        | [0xef, 0xbb, 0xbf, ..]
        | [0xef, 0xb8, 0x80..=0x8f, ..] => 3,
        // Tags.
        [0xf3, 0xa0, 0x80..=0x87, _, ..] => 4,
        _ => 0,
    }
}

/// The words of the input that have percent-encoded bytes and are long enough for a secret beside its encoding.
pub(super) fn encoded_words(input: &[u8]) -> impl Iterator<Item = Range<usize>> {
    const SHORTEST: usize = 20;
    let mut read = 0;
    memchr::memchr_iter(b'%', input).filter_map(move |percent| {
        if percent < read || escape(&input[percent..]).is_none() {
            return None;
        }
        let inside = |byte: &&u8| Alphabet::Bare.holds(**byte);
        let start = percent - input[read..percent].iter().rev().take_while(inside).count();
        read = percent + input[percent..].iter().take_while(inside).count();
        (read - start >= SHORTEST).then_some(start..read)
    })
}

/// The byte that the escape at the beginning of `rest` stands for, and the escape's length. `%252B` is `%2B`, encoded again.
fn escape(rest: &[u8]) -> Option<(u8, usize)> {
    let digit = |at: usize| char::from(*rest.get(at)?).to_digit(16);
    let pair = |at: usize| u8::try_from(digit(at)? * 16 + digit(at + 1)?).ok();
    let mut at = 1;
    let mut byte = pair(at)?;
    while byte == b'%'
        && let Some(inner) = pair(at + 2)
    {
        byte = inner;
        at += 2;
    }
    Some((byte, at + 2))
}
