//! Escapes text for JSON strings and unescapes it.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes `text` for the inside of a JSON string. It escapes only the characters that JSON requires.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            ..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[copied..at]);
        out.push_str(short);
        if short.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{byte:04x}");
        }
        copied = at + 1;
    }
    out.push_str(&text[copied..]);
    out
}

/// Unescapes the text between the quotes of a JSON string. Half of a surrogate pair becomes U+FFFD.
#[must_use]
pub fn unescape(raw: &str) -> Cow<'_, str> {
    let next = |from: usize| memchr::memchr(b'\\', &raw.as_bytes()[from..]).map(|plain| from + plain);
    let Some(mut escape) = next(0) else { return Cow::Borrowed(raw) };
    let mut out = String::with_capacity(raw.len());
    let mut copied = 0;
    loop {
        out.push_str(&raw[copied..escape]);
        let (character, used) = decode_escape(&raw[escape + 1..]);
        out.push(character);
        copied = escape + 1 + used;
        match next(copied) {
            Some(at) => escape = at,
            None => break,
        }
    }
    out.push_str(&raw[copied..]);
    Cow::Owned(out)
}

/// Decodes one escape. `after` is the text behind the backslash. Returns the character and the number of
/// bytes of `after` that were used.
#[inline]
pub(crate) fn decode_escape(after: &str) -> (char, usize) {
    let plain = match after.as_bytes().first() {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return decode_unicode_escape(after),
        Some(byte) if byte.is_ascii() => *byte as char,
        _ => return (char::REPLACEMENT_CHARACTER, 0),
    };
    (plain, 1)
}

fn decode_unicode_escape(after: &str) -> (char, usize) {
    let turn = |from: usize| after.get(from..from + 4).and_then(|hex| u16::from_str_radix(hex, 16).ok());
    let Some(first) = turn(1) else { return (char::REPLACEMENT_CHARACTER, 1) };
    let second = if after[5..].starts_with("\\u") { turn(7) } else { None };
    match (first, second) {
        (0xD800..=0xDBFF, Some(low @ 0xDC00..=0xDFFF)) => {
            let code = 0x1_0000 + (u32::from(first - 0xD800) << 10) + u32::from(low - 0xDC00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11)
        }
        _ => (char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
    }
}

/// Unescapes at least the first `len` bytes, or all of them if there are fewer. The time depends on `len`
/// only.
pub(crate) fn unescape_start(raw: &str, len: usize) -> Cow<'_, str> {
    let len = len.min(raw.len());
    let mut cut = 0;
    while cut < len {
        cut = match memchr::memchr(b'\\', &raw.as_bytes()[cut..len]) {
            Some(plain) => cut + plain + 1 + decode_escape(&raw[cut + plain + 1..]).1,
            None => (len..=raw.len()).find(|at| raw.is_char_boundary(*at)).unwrap_or(raw.len()),
        };
    }
    unescape(&raw[..cut])
}

/// How many bytes are searched backwards for a place between two escapes. Chosen by hand: the longest escape,
/// a surrogate pair, has 12 bytes.
const MAX_LOOK_BACK_BYTES: usize = 64;

/// Unescapes at least the last `len` bytes, or all of them if there are fewer.
pub(crate) fn unescape_end(raw: &str, len: usize) -> Cow<'_, str> {
    let from = raw.len().saturating_sub(len);
    let near = (from.saturating_sub(MAX_LOOK_BACK_BYTES).max(1)..=from).rev();
    let cut = near.into_iter().find(|&at| is_between_escapes(raw, at)).unwrap_or(0);
    unescape(&raw[cut..])
}

/// Returns whether no escape spans this position: either an escape begins here that is not the second half of
/// a pair, or there is no backslash close enough before it.
fn is_between_escapes(raw: &str, at: usize) -> bool {
    const MAX_ESCAPE_BYTES: usize = 12;
    let before = &raw.as_bytes()[at.saturating_sub(MAX_LOOK_BACK_BYTES)..at];
    if raw.as_bytes().get(at) == Some(&b'\\') {
        let run = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        let is_low_half = matches!(raw.as_bytes()[at + 1..], [b'u' | b'U', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..]);
        return run % 2 == 0 && run < MAX_LOOK_BACK_BYTES && !is_low_half;
    }
    raw.is_char_boundary(at) && !before.iter().rev().take(MAX_ESCAPE_BYTES).any(|byte| *byte == b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_pairs_read_as_replacement_characters() {
        assert_eq!(unescape(r"a\ud83d b"), "a\u{fffd} b");
        assert_eq!(unescape(r"\ud83d\ud83d\ude00"), "\u{fffd}😀");
        assert_eq!(unescape(r"\ude00\u0041"), "\u{fffd}A");
    }

    proptest! {
        #[test]
        fn escape_agrees_with_serde_json(text in any::<String>()) {
            let theirs = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unescape(&theirs[1..theirs.len() - 1]), text.as_str());
            let ours = format!("\"{}\"", escape(&text));
            prop_assert_eq!(serde_json::from_str::<String>(&ours).unwrap(), text);
        }

        #[test]
        fn starts_and_ends_are_those_of_the_text(text in "[a\\n\\\\\"é😀]{0,60}", len in 0usize..40) {
            let raw = escape(&text);
            prop_assert!(text.starts_with(&*unescape_start(&raw, len)));
            prop_assert!(text.ends_with(&*unescape_end(&raw, len)));
        }

        #[test]
        fn starts_and_ends_of_text_that_is_all_escapes_are_found_too(text in "[aя😀\\\\\n]{0,60}", len in 0usize..80) {
            let escaped: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let escaped = escaped.concat();
            let start = unescape_start(&escaped, len);
            prop_assert!(text.starts_with(&*start) && start.len() <= text.len());
            prop_assert!(text.ends_with(&*unescape_end(&escaped, len)));
            prop_assert!(len == 0 || text.is_empty() || !start.is_empty());
        }

        #[test]
        fn never_panics(raw in r"(\\(u[0-9a-fA-F]{0,4}|[a-z])?|é|x){0,20}") {
            let _ = unescape(&raw);
            for len in 0..raw.len() + 2 {
                let _ = (unescape_start(&raw, len), unescape_end(&raw, len));
            }
        }
    }
}
