//! Checks the sizes of images and documents. It reads them from the base64 and decodes no more than the
//! header.

use serde_json::Value;

use super::block::LocatedBlock;
use super::rules::{A36, A37, A38};
use super::{Findings, JsonPath, type_of};

/// The maximum size of an image, in bytes (A36).
const MAX_IMAGE_BYTES: usize = 5_242_880;
/// The number of images above which a smaller maximum side applies (A37).
const MAX_FEW_IMAGES: usize = 20;
/// The maximum side of an image, in pixels (A37).
const MAX_SIDE_PIXELS: u32 = 8_000;
/// The maximum side of an image in a request with many images, in pixels (A37).
const MAX_SIDE_PIXELS_OF_MANY: u32 = 2_000;
/// The maximum number of bytes that are decoded to find the size: a JPEG has it after its metadata. Chosen by
/// hand.
const MAX_HEADER_BYTES: usize = 128 * 1024;

/// All images of a Messages body, including those inside results.
#[derive(Default)]
pub(super) struct Images<'v>(Vec<(JsonPath, &'v Value)>);

impl<'v> Images<'v> {
    /// Adds an image, or checks a document at once (A38).
    pub(super) fn add_block(&mut self, block: &LocatedBlock<'v>, findings: &mut Findings) {
        match block.kind {
            "image" => self.0.push((block.path, &block.value["source"])),
            "document" => check_document(&block.value["source"], block.path, findings),
            _ => {}
        }
    }

    /// Checks A36 and A37.
    pub(super) fn check(self, findings: &mut Findings) {
        let longest = if self.0.len() > MAX_FEW_IMAGES { MAX_SIDE_PIXELS_OF_MANY } else { MAX_SIDE_PIXELS };
        for (at, source) in self.0 {
            let Some(data) = source["data"].as_str().filter(|_| type_of(source) == "base64") else {
                continue;
            };
            let bytes = decoded_len(data);
            if bytes > MAX_IMAGE_BYTES {
                findings.report(&A36, at, format!("the image has {bytes} bytes, more than 5 MB: make it smaller"));
            }
            if let Some((width, height)) = read_dimensions(&decode_start(data, MAX_HEADER_BYTES))
                && width.max(height) > longest
            {
                let message = format!("the image is {width}x{height} pixels, more than {longest} a side: shrink it");
                findings.report(&A37, at, message);
            }
        }
    }
}

fn check_document(source: &Value, at: JsonPath, findings: &mut Findings) {
    let is_pdf = type_of(source) == "base64" && source["media_type"] == "application/pdf";
    if is_pdf
        && source["data"].as_str().is_some_and(|data| !decode_start(data, 1_024).windows(5).any(|w| w == b"%PDF-"))
    {
        findings.report(&A38, at, "the document is not a PDF: remove it or send its text");
    }
}

/// Returns the number of bytes that a base64 text encodes.
fn decoded_len(data: &str) -> usize {
    let digits = data.trim_end_matches('=').len();
    digits * 3 / 4
}

/// Returns whether all of a text is valid base64.
pub(super) fn is_base64(data: &str) -> bool {
    let digits = data.trim_end_matches('=');
    data.len() - digits.len() <= 2
        && digits.len() % 4 != 1
        && data.len().is_multiple_of(4)
        && !data.is_empty()
        && digits.bytes().all(|byte| decode_digit(byte).is_some())
}

fn decode_digit(byte: u8) -> Option<u32> {
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

/// Decodes about `most` bytes from the beginning of a base64 text, and stops where it is not base64.
fn decode_start(data: &str, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for group in data.as_bytes().chunks(4).take(most / 3) {
        let digits: Vec<u32> = group.iter().map_while(|&byte| decode_digit(byte)).collect();
        let bits = (0..4).fold(0, |bits, i| bits << 6 | digits.get(i).copied().unwrap_or_default());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..][..(digits.len() * 3) / 4]);
        if digits.len() < 4 {
            break;
        }
    }
    bytes
}

/// Reads the width and height of a PNG, GIF, WebP or JPEG from its first bytes.
fn read_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some((read_integer(bytes, 16..20, ByteOrder::Big)?, read_integer(bytes, 20..24, ByteOrder::Big)?));
    }
    if bytes.starts_with(b"GIF8") {
        return Some((read_integer(bytes, 6..8, ByteOrder::Little)?, read_integer(bytes, 8..10, ByteOrder::Little)?));
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return read_webp_dimensions(bytes);
    }
    bytes.starts_with(b"\xff\xd8").then(|| read_jpeg_dimensions(bytes)).flatten()
}

#[derive(Clone, Copy)]
enum ByteOrder {
    Big,
    Little,
}

fn read_integer(bytes: &[u8], at: std::ops::Range<usize>, order: ByteOrder) -> Option<u32> {
    let digits = bytes.get(at)?.iter();
    let add = |number: u32, &byte: &u8| number << 8 | u32::from(byte);
    Some(match order {
        ByteOrder::Big => digits.fold(0, add),
        ByteOrder::Little => digits.rev().fold(0, add),
    })
}

fn read_webp_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let little = |at| read_integer(bytes, at, ByteOrder::Little);
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

/// Walks over the segments of a JPEG to the frame header.
fn read_jpeg_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1)?;
        if bytes[at] != 0xff {
            return None;
        }
        match marker {
            0xff => at += 1,
            0xc0..=0xcf if ![0xc4, 0xc8, 0xcc].contains(&marker) => {
                let height = read_integer(bytes, at + 5..at + 7, ByteOrder::Big)?;
                return Some((read_integer(bytes, at + 7..at + 9, ByteOrder::Big)?, height));
            }
            _ => at += 2 + read_integer(bytes, at + 2..at + 4, ByteOrder::Big)?.max(2) as usize,
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
        let sizes = [&png[..], gif, jpeg, webp].map(read_dimensions);
        assert_eq!(sizes, [Some((9000, 256)), Some((16, 32)), Some((128, 64)), Some((16, 32))]);
        assert_eq!(read_dimensions(b"\xff\xd8\xff"), None);
    }

    #[test]
    fn base64_is_read_as_far_as_it_goes() {
        assert_eq!(decode_start("JVBERi0xLjQ=", 100), b"%PDF-1.4");
        assert_eq!(decode_start("JVBE*", 100), b"%PD");
        assert_eq!([decoded_len("QQ=="), decoded_len("QUI="), decoded_len("QUJD")], [1, 2, 3]);
        assert!(is_base64("QUI=") && !is_base64("QUI") && !is_base64("Q*I=") && !is_base64("QUJDR==="));
    }
}
