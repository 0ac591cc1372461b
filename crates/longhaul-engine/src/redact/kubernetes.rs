//! The data of Kubernetes Secrets, as YAML and as JSON.

use memchr::memmem;

use super::rules::Standard;
use super::value;

/// A document is not longer than this to either side of the line that says its kind.
const DOCUMENT: usize = 16 << 10;

/// No byte of an object that is not closed is read more often than this, looking for its end.
const READS: usize = 16;

/// The values under `data:` and `stringData:` of the YAML document around `at`, where `kind: Secret` stands.
/// Gives back where the document ends, so that it is read once however often it says its kind.
pub(super) fn in_yaml(
    text: &[u8],
    at: usize,
    rules: &Standard,
    mut found: impl FnMut(usize, usize),
) -> usize {
    let quoted = text[at..].get(6) == Some(&b'"');
    if text[at..]
        .get(if quoted { 14 } else { 12 })
        .is_some_and(|byte| !byte.is_ascii_whitespace() && *byte != b'\\')
    {
        return at;
    }
    let before = &text[at.saturating_sub(DOCUMENT)..at];
    let start = at - before.len() + memmem::rfind(before, b"\n---").map_or(0, |dashes| dashes + 4);
    let after = &text[at..text.len().min(at + DOCUMENT)];
    let end = at + memmem::find(after, b"\n---").unwrap_or(after.len());
    let mut in_data = None;
    let mut line_start = start;
    for line in text[start..end].split_inclusive(|&byte| byte == b'\n') {
        let indent = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let content = line[indent..].trim_ascii_end();
        if in_data.is_some_and(|outer| indent > outer) {
            if let Some(offset) = secret_in_line(content, rules) {
                found(line_start + indent + offset, line_start + indent + content.len());
            }
        } else if !content.is_empty() {
            in_data = matches!(content, b"data:" | b"stringData:").then_some(indent);
        }
        line_start += line.len();
    }
    end
}

/// Where the value begins on a line of `data:`, be it behind its key or alone under a block mark.
fn secret_in_line(content: &[u8], rules: &Standard) -> Option<usize> {
    if content.starts_with(b"#") {
        return None;
    }
    let key = content.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte)).count();
    let start = match content.get(key) {
        Some(b':') => key + 1 + content[key + 1..].iter().take_while(|byte| **byte == b' ').count(),
        None if key == content.len() => 0,
        Some(b'=' | b'+' | b'/') => 0,
        _ => return None,
    };
    let value = content.get(start..)?;
    (is_data(value, rules) && !value.contains(&b' ')).then_some(start)
}

/// Whether a value of `data` is there: short ones are names and switches, blocks say so in a sign or two.
fn is_data(value: &[u8], rules: &Standard) -> bool {
    value.len() >= 6 && !rules.placeholders.hold(value) && !value::is_filler(value) && !is_short(value)
}

/// Whether base64 says less than four characters: `YmFyCg==` is `bar` and a line end.
fn is_short(value: &[u8]) -> bool {
    const LONGEST: usize = 8;
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits = value.iter().take_while(|byte| **byte != b'=').map(|&byte| digit(byte).map(u64::from));
    let Some(digits) = digits.collect::<Option<Vec<u64>>>().filter(|_| value.len() <= LONGEST) else {
        return false;
    };
    let bits = digits.iter().fold(0, |bits, digit| bits << 6 | digit);
    let bytes = digits.len() * 6 / 8;
    let bits = bits >> (digits.len() * 6 - bytes * 8);
    bits.to_be_bytes()[8 - bytes..].trim_ascii().len() < 4
}

/// The values of `data` and `stringData` in the JSON object around `at`, where `kind"` stands. Nothing before `read` is looked
/// at again. Gives back where the object ends.
pub(super) fn in_json(
    text: &[u8],
    at: usize,
    read: usize,
    rules: &Standard,
    mut found: impl FnMut(usize, usize),
) -> usize {
    if at < read {
        return read;
    }
    let rest = &text[at + 5..text.len().min(at + 32)];
    let gap = rest.iter().take_while(|byte| matches!(byte, b' ' | b':' | b'"' | b'\\')).count();
    if !rest[gap..].starts_with(b"Secret") || !matches!(rest.get(gap + 6), Some(b'"' | b'\\')) {
        return read;
    }
    let floor = at.saturating_sub(DOCUMENT).max(read);
    let limit = text.len().min(at + DOCUMENT);
    let start = opening(text, floor, at);
    let end = closing(text, at, limit);
    for key in [&b"data\""[..], b"stringData\"", b"data\\\"", b"stringData\\\""] {
        let Some(behind) = memmem::find(&text[start..end], key) else { continue };
        let from = start + behind + key.len();
        let gap =
            text[from..end].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b':').count();
        if text.get(from + gap) == Some(&b'{') {
            values(&text[..closing(text, from + gap + 1, end)], from + gap + 1, rules, &mut found);
        }
    }
    // An object that is not closed in reach may hold others; they are looked at again, but not for every few bytes.
    if end < limit { end } else { at + DOCUMENT / READS }
}

/// The brace that opens the object around `at`, or the floor.
fn opening(text: &[u8], floor: usize, at: usize) -> usize {
    let mut depth = 0usize;
    for place in (floor..at).rev() {
        match text[place] {
            b'}' => depth += 1,
            b'{' if depth == 0 => return place,
            b'{' => depth -= 1,
            _ => {}
        }
    }
    floor
}

/// The brace that closes the object around `at`, or the limit.
fn closing(text: &[u8], at: usize, limit: usize) -> usize {
    let mut depth = 0usize;
    for (place, byte) in text.iter().enumerate().take(limit).skip(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return place,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    limit
}

/// The strings that stand behind a colon, from `at` to the end of the text.
fn values(text: &[u8], at: usize, rules: &Standard, found: &mut impl FnMut(usize, usize)) {
    let mut next = at;
    while let Some(colon) = memchr::memchr(b':', &text[next..]).map(|colon| next + colon) {
        let gap = text[colon + 1..].iter().take_while(|byte| matches!(byte, b' ' | b'\\' | b'"')).count();
        let start = colon + 1 + gap;
        let end = start
            + text[start..].iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | b',' | b'\n')).count();
        if gap > 0 && is_data(&text[start..end], rules) {
            found(start, end);
        }
        next = end.max(colon + 1);
    }
}
