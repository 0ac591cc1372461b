//! Images and documents: how large they are, read from their base64 without decoding more than the header.

use serde_json::Value;

use super::block::Block;
use super::rules::{A36, A37, A38};
use super::{At, Findings, kind};

const LARGEST_IMAGE: usize = 5_242_880;
const MANY_IMAGES: usize = 20;
const LONGEST_SIDE: u32 = 8_000;
const LONGEST_SIDE_OF_MANY: u32 = 2_000;
/// A JPEG keeps its size behind its metadata; this much of it is looked through.
const HEADER_BYTES: usize = 128 * 1024;

/// Every image of a Messages body, those inside results included.
#[derive(Default)]
pub(super) struct Images<'v>(Vec<(At, &'v Value)>);

impl<'v> Images<'v> {
    /// Takes an image in; a document is judged at once (A38).
    pub(super) fn note(&mut self, block: &Block<'v>, findings: &mut Findings) {
        match block.kind {
            "image" => self.0.push((block.at, &block.value["source"])),
            "document" => document(&block.value["source"], block.at, findings),
            _ => {}
        }
    }

    /// A36 and A37.
    pub(super) fn check(self, findings: &mut Findings) {
        let longest = if self.0.len() > MANY_IMAGES { LONGEST_SIDE_OF_MANY } else { LONGEST_SIDE };
        for (at, source) in self.0 {
            let Some(data) = source["data"].as_str().filter(|_| kind(source) == "base64") else { continue };
            let bytes = decoded_length(data);
            if bytes > LARGEST_IMAGE {
                findings.report(
                    &A36,
                    at,
                    format!("the image has {bytes} bytes, more than 5 MB: make it smaller"),
                );
            }
            if let Some((width, height)) = dimensions(&decoded(data, HEADER_BYTES))
                && width.max(height) > longest
            {
                let message =
                    format!("the image is {width}x{height} pixels, more than {longest} a side: shrink it");
                findings.report(&A37, at, message);
            }
        }
    }
}

fn document(source: &Value, at: At, findings: &mut Findings) {
    let is_pdf = kind(source) == "base64" && source["media_type"] == "application/pdf";
    if is_pdf
        && source["data"].as_str().is_some_and(|data| !decoded(data, 1_024).windows(5).any(|w| w == b"%PDF-"))
    {
        findings.report(&A38, at, "the document is not a PDF: remove it or send its text");
    }
}

/// How many bytes a base64 text stands for.
fn decoded_length(data: &str) -> usize {
    let digits = data.trim_end_matches('=').len();
    digits * 3 / 4
}

/// Whether a text is base64 to the end.
pub(super) fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    data.len() - digits.len() <= 2
        && digits.len() % 4 != 1
        && data.len().is_multiple_of(4)
        && !data.is_empty()
        && digits.bytes().all(|byte| digit(byte).is_some())
}

fn digit(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

/// The first bytes of a base64 text, as far as it is base64.
fn decoded(data: &str, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for group in data.as_bytes().chunks(4).take(most / 3) {
        let digits: Vec<u32> = group.iter().map_while(|&byte| digit(byte)).collect();
        let bits = (0..4).fold(0, |bits, i| bits << 6 | digits.get(i).copied().unwrap_or_default());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..][..(digits.len() * 3) / 4]);
        if digits.len() < 4 {
            break;
        }
    }
    bytes
}

/// Width and height of a PNG, GIF, WebP or JPEG from its first bytes.
fn dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some((number(bytes, 16..20, Order::Big)?, number(bytes, 20..24, Order::Big)?));
    }
    if bytes.starts_with(b"GIF8") {
        return Some((number(bytes, 6..8, Order::Little)?, number(bytes, 8..10, Order::Little)?));
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return webp(bytes);
    }
    bytes.starts_with(b"\xff\xd8").then(|| jpeg(bytes)).flatten()
}

#[derive(Clone, Copy)]
enum Order {
    Big,
    Little,
}

fn number(bytes: &[u8], at: std::ops::Range<usize>, order: Order) -> Option<u32> {
    let digits = bytes.get(at)?.iter();
    let add = |number: u32, &byte: &u8| number << 8 | u32::from(byte);
    Some(match order {
        Order::Big => digits.fold(0, add),
        Order::Little => digits.rev().fold(0, add),
    })
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let little = |at| number(bytes, at, Order::Little);
    match bytes.get(12..16)? {
        b"VP8X" => Some((little(24..27)? + 1, little(27..30)? + 1)),
        b"VP8 " => Some((little(26..28)? & 0x3fff, little(28..30)? & 0x3fff)),
        b"VP8L" => {
            let bits = little(21..25)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        _ => None,
    }
}

/// Walks the segments of a JPEG up to the frame header.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1)?;
        if bytes[at] != 0xff {
            return None;
        }
        match marker {
            0xff => at += 1,
            0xc0..=0xcf if ![0xc4, 0xc8, 0xcc].contains(&marker) => {
                let height = number(bytes, at + 5..at + 7, Order::Big)?;
                return Some((number(bytes, at + 7..at + 9, Order::Big)?, height));
            }
            _ => at += 2 + number(bytes, at + 2..at + 4, Order::Big)?.max(2) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_the_headers() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x23\x28\0\0\x01\0";
        let gif = b"GIF89a\x10\0\x20\0";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04\0\0\xff\xc0\0\x11\x08\0\x40\0\x80";
        let webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0f\0\0\x1f\0\0";
        let sizes = [&png[..], gif, jpeg, webp].map(dimensions);
        assert_eq!(sizes, [Some((9000, 256)), Some((16, 32)), Some((128, 64)), Some((16, 32))]);
        assert_eq!(dimensions(b"\xff\xd8\xff"), None);
    }

    #[test]
    fn base64_is_read_as_far_as_it_goes() {
        assert_eq!(decoded("JVBERi0xLjQ=", 100), b"%PDF-1.4");
        assert_eq!(decoded("JVBE*", 100), b"%PD");
        assert_eq!([decoded_length("QQ=="), decoded_length("QUI="), decoded_length("QUJD")], [1, 2, 3]);
        assert!(is_base64("QUI=") && !is_base64("QUI") && !is_base64("Q*I=") && !is_base64("QUJDR==="));
    }
}
