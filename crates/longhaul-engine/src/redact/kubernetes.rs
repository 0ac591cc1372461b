//! Finds the data of Kubernetes Secrets in YAML and in JSON.

use memchr::memmem;

use super::encodings::base64_digit;
use super::rules::StandardRules;
use super::value;

/// The maximum number of bytes of a document that are read on each side of the line with its kind. Chosen by
/// hand.
const MAX_DOCUMENT_BYTES: usize = 16 << 10;

/// The maximum number of times that a byte of an unclosed object is read in search of its end.
const MAX_REREADS: usize = 16;

/// Reports the values under `data:` and `stringData:` of the YAML document around `at`, where `kind: Secret`
/// begins. Returns where the document ends, so that it is read once even if it names its kind several times.
pub(super) fn scan_yaml(text: &[u8], at: usize, rules: &StandardRules, mut found: impl FnMut(usize, usize)) -> usize {
    let quoted = text[at..].get(6) == Some(&b'"');
    if text[at..].get(if quoted { 14 } else { 12 }).is_some_and(|byte| !byte.is_ascii_whitespace() && *byte != b'\\') {
        return at;
    }
    let before = &text[at.saturating_sub(MAX_DOCUMENT_BYTES)..at];
    let start = at - before.len() + memmem::rfind(before, b"\n---").map_or(0, |dashes| dashes + 4);
    let after = &text[at..text.len().min(at + MAX_DOCUMENT_BYTES)];
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

/// Returns where the value begins on a line of `data:`: after its key, or alone below a block indicator.
fn secret_in_line(content: &[u8], rules: &StandardRules) -> Option<usize> {
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
    (is_secret_data(value, rules) && !value.contains(&b' ')).then_some(start)
}

/// Whether a value of `data` can be a secret. Short values are names and switches, or the indicator of a YAML
/// block.
fn is_secret_data(value: &[u8], rules: &StandardRules) -> bool {
    value.len() >= 6
        && !rules.placeholders.is_placeholder(value)
        && !value::is_dummy(value)
        && !decodes_to_few_bytes(value)
}

/// Whether base64 decodes to fewer than four bytes: `YmFyCg==` is `bar` and a line end.
fn decodes_to_few_bytes(value: &[u8]) -> bool {
    const MAX_CHARS: usize = 8;
    // Kubernetes writes the standard alphabet only.
    let digit = |byte: u8| base64_digit(byte).filter(|_| !matches!(byte, b'-' | b'_'));
    let digits = value.iter().take_while(|byte| **byte != b'=').map(|&byte| digit(byte).map(u64::from));
    let Some(digits) = digits.collect::<Option<Vec<u64>>>().filter(|_| value.len() <= MAX_CHARS) else {
        return false;
    };
    let bits = digits.iter().fold(0, |bits, digit| bits << 6 | digit);
    let bytes = digits.len() * 6 / 8;
    let bits = bits >> (digits.len() * 6 - bytes * 8);
    bits.to_be_bytes()[8 - bytes..].trim_ascii().len() < 4
}

/// Reports the values of `data` and `stringData` in the JSON object around `at`, where `kind"` begins.
/// Nothing before `read` is read again. Returns where the object ends.
pub(super) fn scan_json(
    text: &[u8],
    at: usize,
    read: usize,
    rules: &StandardRules,
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
    let floor = at.saturating_sub(MAX_DOCUMENT_BYTES).max(read);
    let limit = text.len().min(at + MAX_DOCUMENT_BYTES);
    let start = find_opening_brace(text, floor, at);
    let end = find_closing_brace(text, at, limit);
    for key in [&b"data\""[..], b"stringData\"", b"data\\\"", b"stringData\\\""] {
        let Some(behind) = memmem::find(&text[start..end], key) else { continue };
        let from = start + behind + key.len();
        let gap = text[from..end].iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b':').count();
        if text.get(from + gap) == Some(&b'{') {
            scan_values(&text[..find_closing_brace(text, from + gap + 1, end)], from + gap + 1, rules, &mut found);
        }
    }
    // An object whose end is out of reach may contain others. They are read again, but not every few bytes.
    if end < limit { end } else { at + MAX_DOCUMENT_BYTES / MAX_REREADS }
}

/// Returns the offset of the brace that opens the object around `at`, or `floor`.
fn find_opening_brace(text: &[u8], floor: usize, at: usize) -> usize {
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

/// Returns the offset of the brace that closes the object around `at`, or `limit`.
fn find_closing_brace(text: &[u8], at: usize, limit: usize) -> usize {
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

/// Reports the values after each colon, from `at` to the end of the text.
fn scan_values(text: &[u8], at: usize, rules: &StandardRules, found: &mut impl FnMut(usize, usize)) {
    let mut next = at;
    while let Some(colon) = memchr::memchr(b':', &text[next..]).map(|colon| next + colon) {
        let gap = text[colon + 1..].iter().take_while(|byte| matches!(byte, b' ' | b'\\' | b'"')).count();
        let start = colon + 1 + gap;
        let end = start + text[start..].iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | b',' | b'\n')).count();
        if gap > 0 && is_secret_data(&text[start..end], rules) {
            found(start, end);
        }
        next = end.max(colon + 1);
    }
}
