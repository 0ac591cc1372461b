//! Finds words that may be keys in another encoding: escape sequences of a string (`\u0067hp_…`, `\x67hp_…`),
//! or base64.

use std::ops::Range;

use memchr::memmem;

/// Returns the byte ranges of the words that contain string escapes and are long enough to contain a key.
pub(super) fn escaped_words(input: &[u8]) -> impl Iterator<Item = Range<usize>> {
    const MIN_WORD_BYTES: usize = 20;
    let mut read = 0;
    memchr::memchr_iter(b'\\', input).filter_map(move |slash| {
        if slash < read || parse_escape(&input[slash..]).is_none() {
            return None;
        }
        let inside = |byte: &&u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'`');
        let start = slash - input[read..slash].iter().rev().take_while(inside).count();
        read = slash + input[slash..].iter().take_while(inside).count();
        (read - start >= MIN_WORD_BYTES).then_some(start..read)
    })
}

/// Parses the string escape at the beginning of `rest`. Returns the byte that it means and the length of the
/// escape. A string inside a string has several backslashes.
pub(super) fn parse_escape(rest: &[u8]) -> Option<(u8, usize)> {
    let slashes = rest.iter().take(4).take_while(|byte| **byte == b'\\').count();
    let ([b'u', b'0', b'0', digits @ ..] | [b'u', b'{', digits @ ..] | [b'x', digits @ ..]) = rest.get(slashes..)?
    else {
        return None;
    };
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    let byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok().filter(u8::is_ascii_graphic)?;
    let closed = usize::from(rest[slashes..].starts_with(b"u{") && digits.get(2) == Some(&b'}'));
    Some((byte, rest.len() - digits.len() + 2 + closed))
}

/// The minimum length of a base64 word. Fewer characters contain no key.
const MIN_BASE64_CHARS: usize = 28;
/// The maximum length of a base64 word. More characters are a document.
const MAX_BASE64_CHARS: usize = 4096;

/// Returns the byte ranges of the words that are base64 of text, each with the decoded text.
pub(super) fn base64_words(input: &[u8]) -> impl Iterator<Item = (Range<usize>, Vec<u8>)> {
    let inside = |byte: &u8| base64_digit(*byte).is_some();
    let mut at = MIN_BASE64_CHARS - 1;
    std::iter::from_fn(move || {
        // A word of the minimum length covers at least one of every `MIN_BASE64_CHARS` bytes, so the others
        // are skipped.
        while at < input.len() {
            let here = at;
            at += MIN_BASE64_CHARS;
            if !inside(&input[here]) {
                continue;
            }
            let start =
                here - input[..here].iter().rev().take(MAX_BASE64_CHARS).take_while(|byte| inside(byte)).count();
            let end = here + input[here..].iter().take(MAX_BASE64_CHARS).take_while(|byte| inside(byte)).count();
            at = at.max(end + MIN_BASE64_CHARS - 1);
            if !(MIN_BASE64_CHARS..=MAX_BASE64_CHARS).contains(&(end - start)) {
                continue;
            }
            if let Some(text) = decode_text(&input[start..end]) {
                let padding = input[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
                return Some((start..end + padding, text));
            }
        }
        None
    })
}

/// Decodes base64 if the result is one line of printable characters. Most other words fail in their first
/// bytes.
fn decode_text(word: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(word.len() * 3 / 4);
    for group in word.chunks(4) {
        let mut bits = 0;
        for &byte in group {
            bits = bits << 6 | u32::from(base64_digit(byte)?);
        }
        bits <<= 6 * (4 - group.len());
        let bytes = bits.to_be_bytes();
        text.extend_from_slice(&bytes[1..group.len().max(1)]);
        let last = text.len() - usize::from(text.last() == Some(&b'\n'));
        if !text[..last].iter().rev().take(4).all(|byte| (b' '..=b'~').contains(byte)) {
            return None;
        }
    }
    Some(text)
}

/// Returns the value of a base64 character, of the standard alphabet or that for URLs.
pub(super) fn base64_digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// Whether the input has a string escape. Most inputs have none.
pub(super) fn has_escapes(input: &[u8]) -> bool {
    [&b"\\u00"[..], b"\\u{", b"\\x"].iter().any(|c| memmem::find(input, c).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_base64_are_read() {
        assert_eq!(parse_escape(br"\u0067hp"), Some((b'g', 6)));
        assert_eq!(parse_escape(br"\\\\u0067hp"), Some((b'g', 9)));
        assert_eq!(parse_escape(br"\u{67}hp"), Some((b'g', 6)));
        assert_eq!(parse_escape(br"\x67hp"), Some((b'g', 4)));
        assert_eq!(parse_escape(br"\u4e2d"), None);
        assert_eq!(parse_escape(br"\n"), None);
        let text = b"x VGhpcyBpcyBhIHRlc3Qgb2YgYmFzZTY0Lg== y";
        let found: Vec<_> = base64_words(text).collect();
        assert_eq!(found, [(2..38, b"This is a test of base64.".to_vec())]);
        assert_eq!(base64_words(b"averylongidentifierthatisnobase64atall").count(), 0);
    }
}
