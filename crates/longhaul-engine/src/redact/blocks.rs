//! Secrets of many lines: private key blocks and the data of Kubernetes Secrets.

use memchr::memmem;

use super::rules::Standard;
use super::value;

/// A private key block is not longer than this. One that is loses its first part to the mark and the rest stays.
pub(super) const BLOCK: usize = 64 << 10;

/// The block whose `-----BEGIN` stands at `at`: to its end line, or as far as it looks like key material if that is missing.
pub(super) fn private_key(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let head = &text[at..text.len().min(at + 80)];
    let label_end = 10 + memmem::find(&head[10..], b"-----")?;
    if !is_private(&head[10..label_end]) {
        return None;
    }
    let body = at + label_end + 5;
    let window = &text[body..text.len().min(body + BLOCK)];
    let material = window.iter().position(|&byte| !is_material(byte)).unwrap_or(window.len());
    let end = match memmem::find(&window[..material], b"-----END") {
        Some(end) => {
            let line = &window[end..window.len().min(end + 80)];
            let label = memmem::find(&line[8..], b"-----").map_or(line.len().min(8), |dashes| 8 + dashes + 5);
            (end, end + label)
        }
        None => (material, material),
    };
    let letters = window[..end.0].iter().filter(|byte| byte.is_ascii_alphanumeric()).take(16).count();
    (letters == 16).then_some((at, body + end.1))
}

fn is_private(label: &[u8]) -> bool {
    memmem::find(label, b"PRIVATE KEY").is_some() || memmem::find(label, b"PRIVATE SSH KEY").is_some()
}

const MATERIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric() || b.is_ascii_whitespace();
        byte += 1;
    }
    let others = b"+/=-\\\"',:.()_*;#>|";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// What stands between the two lines of a block: base64, headers, line ends plain or escaped, quotes and plus signs of
/// source code that spells it out.
fn is_material(byte: u8) -> bool {
    MATERIAL[byte as usize]
}

/// A `PuTTY` key file from its first line: the private lines and the MAC go, the header stays.
pub(super) fn putty_key(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let window = &text[at..text.len().min(at + BLOCK)];
    let start = memmem::find(window, b"Private-Lines:")?;
    let end = match memmem::find(&window[start..], b"Private-MAC:") {
        Some(mac) => {
            let line = &window[start + mac..];
            start + mac + memchr::memchr(b'\n', line).unwrap_or(line.len())
        }
        None => {
            start
                + window[start..].iter().position(|&byte| !is_material(byte)).unwrap_or(window.len() - start)
        }
    };
    Some((at + start, at + end))
}

/// The values under `data:` and `stringData:` of the YAML document around `at`, where `kind: Secret` stands.
/// Gives back where the document ends, so that it is read once however often it says its kind.
pub(super) fn kubernetes_secret(
    text: &[u8],
    at: usize,
    rules: &Standard,
    mut found: impl FnMut(usize, usize),
) -> usize {
    const DOCUMENT: usize = 16 << 10;
    if text[at..].get(12).is_some_and(|byte| !byte.is_ascii_whitespace() && *byte != b'\\') {
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
    let stand_in = value.len() < 10 || rules.placeholders.hold(value) || value::is_filler(value);
    (!stand_in && !value.contains(&b' ')).then_some(start)
}
