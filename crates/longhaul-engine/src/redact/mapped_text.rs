//! A copy of the input with some bytes replaced, and the way back from its offsets to those of the input.

use std::ops::Range;

use super::key_shape::Alphabet;
use super::{encodings, tag};

/// A text that is scanned in place of the input. It maps its offsets to offsets of the input.
pub(super) struct MappedText {
    pub(super) text: Vec<u8>,
    /// For each copied segment its offset in `text` and its offset in the input.
    segments: Vec<(usize, usize)>,
}

impl MappedText {
    /// Copies the input with a redaction tag in place of each of these ranges.
    pub(super) fn with_tags(input: &[u8], ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let mut marked = Self { text: Vec::with_capacity(input.len()), segments: vec![(0, 0)] };
        let mut copied = 0;
        for range in ranges {
            marked.text.extend_from_slice(&input[copied..range.start]);
            marked.push_replacement(tag::SAMPLE_TAG, range.end);
            copied = range.end;
        }
        marked.text.extend_from_slice(&input[copied..]);
        marked
    }

    /// Copies the lines around hidden characters, without those characters: escape sequences of a terminal,
    /// soft hyphens, characters without width. The other lines are not copied, because they were scanned
    /// already. Returns `None` if nothing is hidden.
    pub(super) fn without_hidden(input: &[u8]) -> Option<Self> {
        if input.is_ascii() && !input.iter().any(|byte| is_hidden_control(*byte)) {
            return None;
        }
        let mut hidden = next_hidden(input, 0);
        let (first, _) = hidden?;
        let mut copied = line_start_before(input, first);
        let mut until = copied;
        let mut visible = Self { text: Vec::new(), segments: vec![(0, copied)] };
        while let Some((start, end)) = hidden {
            let from = line_start_before(input, start);
            if from > until {
                visible.text.extend_from_slice(&input[copied..until]);
                visible.push_replacement(b"\n", from);
                copied = from;
            }
            visible.text.extend_from_slice(&input[copied..start]);
            visible.push_replacement(&[], end);
            copied = end;
            until = line_end_after(input, end);
            hidden = next_hidden(input, end);
        }
        visible.text.extend_from_slice(&input[copied..until]);
        Some(visible)
    }

    /// Returns the offset in the input after the last byte before `end`. Hidden characters that follow are
    /// not included.
    pub(super) fn input_end(&self, end: usize) -> usize {
        self.input_position(end - 1) + 1
    }

    /// Copies a word of the input without percent-encoding, however often it was encoded.
    pub(super) fn percent_decoded(input: &[u8], word: Range<usize>) -> Self {
        Self::decode_escapes(input, word, b'%', parse_percent_escape)
    }

    /// Copies a word of the input without the escapes of a string.
    pub(super) fn unescaped(input: &[u8], word: Range<usize>) -> Self {
        Self::decode_escapes(input, word, b'\\', encodings::parse_escape)
    }

    /// Copies a word of the input with each escape replaced by the byte that it means. An escape begins with
    /// `introducer`.
    fn decode_escapes(
        input: &[u8],
        word: Range<usize>,
        introducer: u8,
        escape: impl Fn(&[u8]) -> Option<(u8, usize)>,
    ) -> Self {
        let mut decoded = Self { text: Vec::with_capacity(word.len()), segments: vec![(0, word.start)] };
        let mut at = word.start;
        while let Some(start) = memchr::memchr(introducer, &input[at..word.end]).map(|found| at + found) {
            decoded.text.extend_from_slice(&input[at..start]);
            at = if let Some((byte, length)) = escape(&input[start..word.end]) {
                decoded.push_replacement(&[byte], start + length);
                start + length
            } else {
                decoded.text.push(introducer);
                start + 1
            };
        }
        decoded.text.extend_from_slice(&input[at..word.end]);
        decoded
    }

    /// Appends bytes that replace the input up to `input_end`.
    fn push_replacement(&mut self, bytes: &[u8], input_end: usize) {
        self.text.extend_from_slice(bytes);
        self.segments.push((self.text.len(), input_end));
    }

    /// Returns the offset in the input of a byte that was copied, or of the text that the byte replaces.
    pub(super) fn input_position(&self, at: usize) -> usize {
        let after = self.segments.partition_point(|&(here, _)| here <= at);
        let (here, there) = self.segments[after - 1];
        at - here + there
    }
}

/// The number of bytes before and after a hidden character that are scanned again. Names and values that the
/// character splits are within them. Chosen by hand.
const CONTEXT_BYTES: usize = 1024;

/// Returns the beginning of a line at least [`CONTEXT_BYTES`] before `at`, or the place at exactly that
/// distance if the line is very long.
fn line_start_before(input: &[u8], at: usize) -> usize {
    let near = at.saturating_sub(CONTEXT_BYTES);
    let far = near.saturating_sub(CONTEXT_BYTES);
    memchr::memrchr(b'\n', &input[far..near]).map_or(near, |found| far + found + 1)
}

/// Returns the end of a line at least [`CONTEXT_BYTES`] after `at`, or the place at exactly that distance if
/// the line is very long.
fn line_end_after(input: &[u8], at: usize) -> usize {
    let near = (at + CONTEXT_BYTES).min(input.len());
    let far = (near + CONTEXT_BYTES).min(input.len());
    memchr::memchr(b'\n', &input[near..far]).map_or(near, |found| near + found)
}

/// Returns the byte range of the next hidden character or sequence.
fn next_hidden(input: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    while let Some(found) = input[at..].iter().position(|byte| may_begin_hidden(*byte)).map(|found| at + found) {
        let length = hidden_length(&input[found..]);
        if length > 0 {
            return Some((found, found + length));
        }
        at = found + 1;
    }
    None
}

/// Whether a byte is a control character that no terminal shows: all but tabs and line ends.
fn is_hidden_control(byte: u8) -> bool {
    matches!(byte, 0x00..=0x08 | 0x0e..=0x1f | 0x7f)
}

fn may_begin_hidden(byte: u8) -> bool {
    is_hidden_control(byte) || matches!(byte, 0xc2 | 0xcd | 0xe2 | 0xef | 0xf3)
}

/// Returns the length in bytes of the hidden character or sequence that `rest` begins with, or 0.
fn hidden_length(rest: &[u8]) -> usize {
    match rest {
        [0x1b, b'[', parameters @ ..] => {
            let length =
                parameters.iter().take(32).take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':' | b'?')).count();
            if parameters.get(length).is_some_and(|byte| (0x40..=0x7e).contains(byte)) { length + 3 } else { 0 }
        }
        [byte, ..] if *byte != 0x1b && is_hidden_control(*byte) => 1,
        // Soft hyphen, zero-width space, joiners, direction marks and variation selectors.
        [0xc2, 0xad, ..] | [0xcd, 0x8f, ..] => 2,
        [0xe2, 0x80, 0x8b..=0x8f, ..]
        | [0xe2, 0x81, 0xa0..=0xa4, ..]
        | [0xef, 0xbb, 0xbf, ..]
        | [0xef, 0xb8, 0x80..=0x8f, ..] => 3,
        // Unicode tag characters.
        [0xf3, 0xa0, 0x80..=0x87, _, ..] => 4,
        _ => 0,
    }
}

/// Returns the byte ranges of the words that contain percent-encoded bytes and are long enough to contain a
/// secret.
pub(super) fn percent_encoded_words(input: &[u8]) -> impl Iterator<Item = Range<usize>> {
    const MIN_RUN_BYTES: usize = 20;
    let mut read = 0;
    memchr::memchr_iter(b'%', input).filter_map(move |percent| {
        if percent < read || parse_percent_escape(&input[percent..]).is_none() {
            return None;
        }
        let inside = |byte: &&u8| Alphabet::Bare.contains(**byte);
        let start = percent - input[read..percent].iter().rev().take_while(inside).count();
        read = percent + input[percent..].iter().take_while(inside).count();
        (read - start >= MIN_RUN_BYTES).then_some(start..read)
    })
}

/// Parses the percent escape at the beginning of `rest`. Returns the byte that it means and the length of the
/// escape. `%252B` is `%2B`, encoded again.
fn parse_percent_escape(rest: &[u8]) -> Option<(u8, usize)> {
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
