//! Estimates the tokens of an image by its size in pixels, never by the length of its base64.
//!
//! The size is in the first bytes of the file (in a JPEG, after the first segments), so only those are
//! decoded. An image whose size is not visible (a URL, a file ID, another format) counts as a full-size one.

use super::Tokens;

/// The size of an image in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSize {
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
}

/// The rule by which a family of models charges for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageCost {
    /// By area: the image is scaled down to a longest edge, and each token pays for a number of pixels.
    Area {
        /// The number of pixels for one token.
        pixels_per_token: u32,
        /// The longest edge after scaling, in pixels.
        long_edge: u32,
        /// The maximum cost of an image, in tokens.
        max_tokens: u32,
    },
    /// By square tiles: the image is scaled down to fit a longest and a shortest edge, and costs a base plus
    /// an amount for each tile.
    Tiles {
        /// The tokens for the image itself, without its tiles.
        base_tokens: u32,
        /// The tokens for each tile.
        tokens_per_tile: u32,
        /// The edge of a tile in pixels.
        tile_pixels: u32,
        /// The longest edge after scaling, in pixels.
        long_edge: u32,
        /// The shortest edge after scaling, in pixels.
        short_edge: u32,
    },
    /// By square patches, up to a maximum number of them.
    Patches {
        /// The edge of a patch in pixels.
        patch_pixels: u32,
        /// The maximum number of patches that are charged.
        max_patches: u32,
        /// Thousandths of a token for each patch.
        millitokens_per_patch: u32,
    },
    /// The same for every image.
    Flat {
        /// The tokens for each image.
        tokens: u32,
    },
}

/// Returns Anthropic's documented rule: one token for 750 pixels, at most about 1,600. Of the common rules it
/// is the most expensive for a full-size image, so it also applies to model families whose rule is unknown.
impl Default for ImageCost {
    fn default() -> Self {
        Self::Area { pixels_per_token: 750, long_edge: 1_568, max_tokens: 1_600 }
    }
}

impl ImageCost {
    /// Returns the tokens of an image. If the size is unknown, returns those of a full-size image.
    #[must_use]
    pub fn tokens(self, size: Option<ImageSize>) -> Tokens {
        let ImageSize { width, height } = size.unwrap_or(ImageSize { width: 1_568, height: 1_568 });
        let (width, height) = (f64::from(width.max(1)), f64::from(height.max(1)));
        let (long, short) = (width.max(height), width.min(height));
        let tokens = match self {
            Self::Area { pixels_per_token, long_edge, max_tokens: most } => {
                let scale = (f64::from(long_edge) / long).min(1.0);
                let area = (long * scale) * (short * scale);
                (area / f64::from(pixels_per_token.max(1))).ceil().min(f64::from(most))
            }
            Self::Tiles { base_tokens: base, tokens_per_tile: per_tile, tile_pixels: tile, long_edge, short_edge } => {
                let scale = (f64::from(long_edge) / long).min(f64::from(short_edge) / short).min(1.0);
                let tiles = |edge: f64| (edge * scale / f64::from(tile.max(1))).ceil().max(1.0);
                f64::from(base) + f64::from(per_tile) * tiles(long) * tiles(short)
            }
            Self::Patches { patch_pixels: patch, max_patches: most, millitokens_per_patch: millitokens } => {
                let patches = |edge: f64| (edge / f64::from(patch.max(1))).ceil();
                let kept = (patches(long) * patches(short)).min(f64::from(most));
                (kept * f64::from(millitokens) / 1_000.0).ceil()
            }
            Self::Flat { tokens } => f64::from(tokens),
        };
        Tokens((tokens as u64).max(1))
    }
}

/// Reads the size of an image from base64 or a data URL. Returns `None` for a web address or an unknown
/// format.
///
/// All formats but JPEG need only the beginning of the data. In a JPEG, the segments before the frame are
/// skipped without decoding, so passing the whole text costs nothing.
#[must_use]
pub fn read_size(base64_or_url: &str) -> Option<ImageSize> {
    let encoded = match base64_or_url.split_once(',') {
        Some((head, data)) if head.starts_with("data:") => data,
        _ => base64_or_url,
    };
    let image = Base64Bytes(encoded.as_bytes());
    read_png_size(image)
        .or_else(|| read_gif_size(image))
        .or_else(|| read_webp_size(image))
        .or_else(|| read_jpeg_size(image))
        .filter(|s| s.width > 0 && s.height > 0)
}

fn read_png_size(image: Base64Bytes) -> Option<ImageSize> {
    (image.has_bytes_at(0, b"\x89PNG\r\n\x1a\n") && image.has_bytes_at(12, b"IHDR"))
        .then(|| Some(ImageSize { width: image.read_big_endian(16, 4)?, height: image.read_big_endian(20, 4)? }))?
}

fn read_gif_size(image: Base64Bytes) -> Option<ImageSize> {
    image
        .has_bytes_at(0, b"GIF8")
        .then(|| Some(ImageSize { width: image.read_little_endian(6, 2)?, height: image.read_little_endian(8, 2)? }))?
}

/// Reads the size of a WebP image, whose first chunk is lossy, lossless or extended.
fn read_webp_size(image: Base64Bytes) -> Option<ImageSize> {
    if !image.has_bytes_at(0, b"RIFF") || !image.has_bytes_at(8, b"WEBP") {
        return None;
    }
    if image.has_bytes_at(12, b"VP8 ") {
        let edge = |at| Some(image.read_little_endian(at, 2)? & 0x3fff);
        return Some(ImageSize { width: edge(26)?, height: edge(28)? });
    }
    if image.has_bytes_at(12, b"VP8L") {
        let bits = image.read_little_endian(21, 4)?;
        return Some(ImageSize { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 });
    }
    image.has_bytes_at(12, b"VP8X").then(|| {
        Some(ImageSize { width: image.read_little_endian(24, 3)? + 1, height: image.read_little_endian(27, 3)? + 1 })
    })?
}

/// Reads the size of a JPEG image: skips segments by their length until one begins a frame.
fn read_jpeg_size(image: Base64Bytes) -> Option<ImageSize> {
    if !image.has_bytes_at(0, b"\xff\xd8\xff") {
        return None;
    }
    let mut at = 2;
    loop {
        if image.byte_at(at)? != 0xff {
            return None;
        }
        match image.byte_at(at + 1)? {
            // A marker may be padded with any number of 0xff bytes.
            0xff => at += 1,
            // C4, C8 and CC are tables in the same range as the frame markers.
            marker if (0xc0..=0xcf).contains(&marker) && ![0xc4, 0xc8, 0xcc].contains(&marker) => {
                return Some(ImageSize {
                    width: image.read_big_endian(at + 7, 2)?,
                    height: image.read_big_endian(at + 5, 2)?,
                });
            }
            _ => at += 2 + (image.read_big_endian(at + 2, 2)?.max(2)) as usize,
        }
    }
}

/// Base64 text with access to its decoded bytes by index. Four characters encode three bytes, so any byte can
/// be read without decoding those before it. Decoders of whole strings do not offer this.
#[derive(Clone, Copy)]
struct Base64Bytes<'t>(&'t [u8]);

impl Base64Bytes<'_> {
    fn byte_at(self, at: usize) -> Option<u8> {
        let first = at / 3 * 4 + at % 3;
        let pair =
            u16::from(decode_sextet(*self.0.get(first)?)?) << 6 | u16::from(decode_sextet(*self.0.get(first + 1)?)?);
        Some((pair >> (4 - 2 * (at % 3))) as u8)
    }

    fn has_bytes_at(self, at: usize, expected: &[u8]) -> bool {
        expected.iter().enumerate().all(|(n, &byte)| self.byte_at(at + n) == Some(byte))
    }

    fn read_big_endian(self, at: usize, bytes: usize) -> Option<u32> {
        (at..at + bytes).try_fold(0, |number, at| Some(number << 8 | u32::from(self.byte_at(at)?)))
    }

    fn read_little_endian(self, at: usize, bytes: usize) -> Option<u32> {
        (at..at + bytes).rev().try_fold(0, |number, at| Some(number << 8 | u32::from(self.byte_at(at)?)))
    }
}

/// Returns the six bits of a character, in the standard or the URL-safe alphabet.
fn decode_sextet(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Base64Bytes, ImageCost, ImageSize, Tokens, read_size};

    const AREA: ImageCost = ImageCost::Area { pixels_per_token: 750, long_edge: 1_568, max_tokens: 1_600 };
    const TILES: ImageCost =
        ImageCost::Tiles { base_tokens: 85, tokens_per_tile: 170, tile_pixels: 512, long_edge: 2_048, short_edge: 768 };
    const PATCHES: ImageCost =
        ImageCost::Patches { patch_pixels: 32, max_patches: 1_536, millitokens_per_patch: 1_620 };

    fn base64(bytes: &[u8]) -> String {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let group = (0..3).fold(0u32, |g, n| g << 8 | u32::from(*three.get(n).unwrap_or(&0)));
            for n in 0..4 {
                let kept = n <= three.len();
                text.push(if kept { ALPHABET[(group >> (18 - 6 * n) & 63) as usize] as char } else { '=' });
            }
        }
        text
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &width.to_be_bytes(), &height.to_be_bytes(), b"\x08\x06"].concat()
    }

    fn jpeg(width: u16, height: u16, metadata: usize) -> Vec<u8> {
        let length = (metadata as u16 + 2).to_be_bytes();
        let (w, h) = (width.to_be_bytes(), height.to_be_bytes());
        [b"\xff\xd8\xff\xe1".as_slice(), &length, &vec![7; metadata], b"\xff\xff\xc2\0\x11\x08", &h, &w, b"\x03"]
            .concat()
    }

    #[test]
    fn the_size_is_read_off_each_format() {
        let lossless = ((1_080u32 - 1) * 0x4000 + 1_920 - 1).to_le_bytes();
        let cases = [
            ("png", png(1_920, 1_080)),
            ("gif", b"GIF89a\x80\x07\x38\x04\xf7".to_vec()),
            ("lossy webp", b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x07\x38\x04".to_vec()),
            ("lossless webp", [b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f".as_slice(), &lossless].concat()),
            ("extended webp", b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x7f\x07\0\x37\x04\0".to_vec()),
            ("jpeg", jpeg(1_920, 1_080, 14)),
            ("jpeg with metadata", jpeg(1_920, 1_080, 60_000)),
        ];
        for (format, bytes) in cases {
            let expected = Some(ImageSize { width: 1_920, height: 1_080 });
            assert_eq!(read_size(&base64(&bytes)), expected, "{format}");
            assert_eq!(
                read_size(&format!("data:image/any;base64,{}", base64(&bytes))),
                expected,
                "{format} in a data URL"
            );
        }
    }

    #[test]
    fn a_size_that_cannot_be_seen_is_not_invented() {
        for text in ["", "https://example.com/a,b.png", "data:image/png;base64,", "iVBORw0KGgo", "/9j/", "AAAA"] {
            assert_eq!(read_size(text), None, "{text}");
        }
        assert_eq!(read_size(&base64(&png(0, 10))), None);
    }

    #[test]
    fn each_rule_costs_what_its_provider_documents() {
        let cases = [
            (AREA, 200, 200, 54),
            (AREA, 1_000, 1_000, 1_334),
            (AREA, 1_092, 1_092, 1_590),
            (AREA, 4_000, 3_000, 1_600),
            (AREA, 10, 100_000, 1),
            (TILES, 100, 100, 255),
            (TILES, 1_024, 1_024, 765),
            (TILES, 2_048, 4_096, 1_105),
            (PATCHES, 1_024, 1_024, 1_659),
            (PATCHES, 4_000, 4_000, 2_489),
        ];
        for (cost, width, height, tokens) in cases {
            assert_eq!(cost.tokens(Some(ImageSize { width, height })), Tokens(tokens), "{cost:?} {width}x{height}");
        }
        assert_eq!(ImageCost::default().tokens(None), Tokens(1_600));
    }

    proptest! {
        #[test]
        fn a_byte_is_found_wherever_it_is(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let text = base64(&bytes);
            for (at, &byte) in bytes.iter().enumerate() {
                prop_assert_eq!(Base64Bytes(text.as_bytes()).byte_at(at), Some(byte));
            }
            prop_assert_eq!(Base64Bytes(text.as_bytes()).byte_at(bytes.len()), None);
        }

        #[test]
        fn no_text_and_no_size_panics(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..60), width: u32, height: u32) {
            let _ = read_size(&text);
            for head in [b"\xff\xd8\xff".as_slice(), b"RIFF\0\0\0\0WEBP", b"GIF8"] {
                let _ = read_size(&base64(&[head, &bytes].concat()));
            }
            for cost in [AREA, TILES, PATCHES] {
                let tokens = cost.tokens(Some(ImageSize { width, height }));
                prop_assert!(tokens > Tokens::ZERO);
            }
        }
    }
}
