//! Finds private key blocks, which have many lines.

use memchr::memmem;

use super::key_shape::{Alphabet, Landmark, RunCache};

/// The maximum length in bytes of a private key block. Of a longer one only the first part is redacted.
pub(super) const MAX_BLOCK_BYTES: usize = 64 << 10;

/// Finds the block whose `-----BEGIN` is at `at`. It ends at its end line, or with the key material if that
/// line is missing.
pub(super) fn find_pem_block(runs: &RunCache, at: usize) -> Option<(usize, usize)> {
    let text = runs.text;
    let head = &text[at..text.len().min(at + 80)];
    let label_end = 10 + memmem::find(&head[10..], b"-----")?;
    if !is_private_key_label(&head[10..label_end]) {
        return None;
    }
    let body = at + label_end + 5;
    let window = &text[body..text.len().min(body + MAX_BLOCK_BYTES)];
    let material = (runs.run_end(Alphabet::Block, body) - body).min(window.len());
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

fn is_private_key_label(label: &[u8]) -> bool {
    memmem::find(label, b"PRIVATE KEY").is_some() || memmem::find(label, b"PRIVATE SSH KEY").is_some()
}

/// Finds the private lines and the MAC of the `PuTTY` key file whose first line is at `at`. The header is not
/// part of the secret.
pub(super) fn find_putty_key(runs: &RunCache, at: usize) -> Option<(usize, usize)> {
    let text = runs.text;
    let window = &text[at..text.len().min(at + MAX_BLOCK_BYTES)];
    let start = runs.find_landmark(Landmark::PrivateLines, at) - at;
    if start >= window.len() {
        return None;
    }
    let end = match memmem::find(&window[start..], b"Private-MAC:") {
        Some(mac) => {
            let line = &window[start + mac..];
            start + mac + memchr::memchr(b'\n', line).unwrap_or(line.len())
        }
        None => (runs.run_end(Alphabet::Block, at + start) - at).min(window.len()),
    };
    Some((at + start, at + end))
}
