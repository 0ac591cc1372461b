//! Secrets of many lines: private key blocks.

use memchr::memmem;

use super::shape::{Alphabet, Landmark, Runs};

/// A private key block is not longer than this. One that is loses its first part to the mark and the rest stays.
pub(super) const BLOCK: usize = 64 << 10;

/// The block whose `-----BEGIN` stands at `at`: to its end line, or as far as it looks like key material if that is missing.
pub(super) fn private_key(runs: &Runs, at: usize) -> Option<(usize, usize)> {
    let text = runs.text;
    let head = &text[at..text.len().min(at + 80)];
    let label_end = 10 + memmem::find(&head[10..], b"-----")?;
    if !is_private(&head[10..label_end]) {
        return None;
    }
    let body = at + label_end + 5;
    let window = &text[body..text.len().min(body + BLOCK)];
    let material = (runs.end(Alphabet::Block, body) - body).min(window.len());
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

/// A `PuTTY` key file from its first line: the private lines and the MAC go, the header stays.
pub(super) fn putty_key(runs: &Runs, at: usize) -> Option<(usize, usize)> {
    let text = runs.text;
    let window = &text[at..text.len().min(at + BLOCK)];
    let start = runs.next(Landmark::PrivateLines, at) - at;
    if start >= window.len() {
        return None;
    }
    let end = match memmem::find(&window[start..], b"Private-MAC:") {
        Some(mac) => {
            let line = &window[start + mac..];
            start + mac + memchr::memchr(b'\n', line).unwrap_or(line.len())
        }
        None => (runs.end(Alphabet::Block, at + start) - at).min(window.len()),
    };
    Some((at + start, at + end))
}
