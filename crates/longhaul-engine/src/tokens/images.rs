//! What an image costs: by its size in pixels, never by the length of its base64.
//!
//! The size stands in the first bytes of the file (in a JPEG, behind its first segments), so only those are decoded.
//! An image whose size cannot be seen (a URL, a file id, another format) costs what a full-size one does.

use super::Tokens;

/// Width and height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
}

/// How a family of models charges for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageCost {
    /// One token for so many pixels, after shrinking to the longest edge; at most so many tokens.
    Area {
        /// Pixels that make one token.
        pixels_per_token: u32,
        /// The longest edge that is kept.
        long_edge: u32,
        /// The cost of a full-size image.
        most: u32,
    },
    /// A base cost and a cost per square tile, after shrinking to a box and then to a shortest edge.
    Tiles {
        /// Tokens for the image as such.
        base: u32,
        /// Tokens for each tile.
        per_tile: u32,
        /// The edge of a tile in pixels.
        tile: u32,
        /// The longest edge that is kept.
        long_edge: u32,
        /// The shortest edge that is kept.
        short_edge: u32,
    },
    /// A cost per square patch, up to so many patches.
    Patches {
        /// The edge of a patch in pixels.
        patch: u32,
        /// The most patches that are kept.
        most: u32,
        /// Thousandths of a token for each patch.
        millitokens: u32,
    },
    /// The same for every image.
    Flat {
        /// So much.
        tokens: u32,
    },
}

/// About 1,600 tokens at full size and one per 750 pixels below, as Anthropic documents for its models. It is the dearest
/// of the common rules for a full-size image, so it is what is assumed where a family's own rule is not known.
impl Default for ImageCost {
    fn default() -> Self {
        Self::Area { pixels_per_token: 750, long_edge: 1_568, most: 1_600 }
    }
}

impl ImageCost {
    /// The tokens of an image; of a full-size one where the size is not known.
    #[must_use]
    pub fn tokens(self, size: Option<Size>) -> Tokens {
        let Size { width, height } = size.unwrap_or(Size { width: 1_568, height: 1_568 });
        let (width, height) = (f64::from(width.max(1)), f64::from(height.max(1)));
        let (long, short) = (width.max(height), width.min(height));
        let tokens = match self {
            Self::Area { pixels_per_token, long_edge, most } => {
                let scale = (f64::from(long_edge) / long).min(1.0);
                let area = (long * scale) * (short * scale);
                (area / f64::from(pixels_per_token.max(1))).ceil().min(f64::from(most))
            }
            Self::Tiles { base, per_tile, tile, long_edge, short_edge } => {
                let scale = (f64::from(long_edge) / long).min(f64::from(short_edge) / short).min(1.0);
                let tiles = |edge: f64| (edge * scale / f64::from(tile.max(1))).ceil().max(1.0);
                f64::from(base) + f64::from(per_tile) * tiles(long) * tiles(short)
            }
            Self::Patches { patch, most, millitokens } => {
                let patches = |edge: f64| (edge / f64::from(patch.max(1))).ceil();
                let kept = (patches(long) * patches(short)).min(f64::from(most));
                (kept * f64::from(millitokens) / 1_000.0).ceil()
            }
            Self::Flat { tokens } => f64::from(tokens),
        };
        Tokens((tokens as u64).max(1))
    }
}

/// The size of an image given as base64 or as a data URL; `None` for a web address or a format that is not known.
///
/// Only the beginning is needed for every format but JPEG: there the segments before the frame are stepped over without
/// decoding them, so the whole text is welcome and costs nothing.
#[must_use]
pub fn size(base64_or_url: &str) -> Option<Size> {
    let encoded = match base64_or_url.split_once(',') {
        Some((head, data)) if head.starts_with("data:") => data,
        _ => base64_or_url,
    };
    let image = Encoded(encoded.as_bytes());
    png(image)
        .or_else(|| gif(image))
        .or_else(|| webp(image))
        .or_else(|| jpeg(image))
        .filter(|s| s.width > 0 && s.height > 0)
}

fn png(image: Encoded) -> Option<Size> {
    (image.starts_with(0, b"\x89PNG\r\n\x1a\n") && image.starts_with(12, b"IHDR"))
        .then(|| Some(Size { width: image.big_endian(16, 4)?, height: image.big_endian(20, 4)? }))?
}

fn gif(image: Encoded) -> Option<Size> {
    image
        .starts_with(0, b"GIF8")
        .then(|| Some(Size { width: image.little_endian(6, 2)?, height: image.little_endian(8, 2)? }))?
}

/// WebP has three kinds of first chunk: lossy, lossless, and extended.
fn webp(image: Encoded) -> Option<Size> {
    if !image.starts_with(0, b"RIFF") || !image.starts_with(8, b"WEBP") {
        return None;
    }
    if image.starts_with(12, b"VP8 ") {
        let edge = |at| Some(image.little_endian(at, 2)? & 0x3fff);
        return Some(Size { width: edge(26)?, height: edge(28)? });
    }
    if image.starts_with(12, b"VP8L") {
        let bits = image.little_endian(21, 4)?;
        return Some(Size { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 });
    }
    image.starts_with(12, b"VP8X").then(|| {
        Some(Size { width: image.little_endian(24, 3)? + 1, height: image.little_endian(27, 3)? + 1 })
    })?
}

/// Segments, each with its length, until one that begins a frame.
fn jpeg(image: Encoded) -> Option<Size> {
    if !image.starts_with(0, b"\xff\xd8\xff") {
        return None;
    }
    let mut at = 2;
    loop {
        if image.byte(at)? != 0xff {
            return None;
        }
        match image.byte(at + 1)? {
            // A marker may be padded with any number of 0xff.
            0xff => at += 1,
            // C4, C8 and CC are tables that share the frames' range.
            marker if (0xc0..=0xcf).contains(&marker) && ![0xc4, 0xc8, 0xcc].contains(&marker) => {
                return Some(Size {
                    width: image.big_endian(at + 7, 2)?,
                    height: image.big_endian(at + 5, 2)?,
                });
            }
            _ => at += 2 + (image.big_endian(at + 2, 2)?.max(2)) as usize,
        }
    }
}

/// Base64 text read as the bytes it stands for, wherever they are: four characters hold three bytes, so a byte is found
/// without decoding what is before it, which no decoder of whole strings offers.
#[derive(Clone, Copy)]
struct Encoded<'t>(&'t [u8]);

impl Encoded<'_> {
    fn byte(self, at: usize) -> Option<u8> {
        let first = at / 3 * 4 + at % 3;
        let pair = u16::from(sextet(*self.0.get(first)?)?) << 6 | u16::from(sextet(*self.0.get(first + 1)?)?);
        Some((pair >> (4 - 2 * (at % 3))) as u8)
    }

    fn starts_with(self, at: usize, expected: &[u8]) -> bool {
        expected.iter().enumerate().all(|(n, &byte)| self.byte(at + n) == Some(byte))
    }

    fn big_endian(self, at: usize, bytes: usize) -> Option<u32> {
        (at..at + bytes).try_fold(0, |number, at| Some(number << 8 | u32::from(self.byte(at)?)))
    }

    fn little_endian(self, at: usize, bytes: usize) -> Option<u32> {
        (at..at + bytes).rev().try_fold(0, |number, at| Some(number << 8 | u32::from(self.byte(at)?)))
    }
}

/// The six bits of a character of either base64 alphabet.
fn sextet(character: u8) -> Option<u8> {
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

    use super::{Encoded, ImageCost, Size, Tokens, size};

    const AREA: ImageCost = ImageCost::Area { pixels_per_token: 750, long_edge: 1_568, most: 1_600 };
    const TILES: ImageCost =
        ImageCost::Tiles { base: 85, per_tile: 170, tile: 512, long_edge: 2_048, short_edge: 768 };
    const PATCHES: ImageCost = ImageCost::Patches { patch: 32, most: 1_536, millitokens: 1_620 };

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
        [
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(),
            &width.to_be_bytes(),
            &height.to_be_bytes(),
            b"\x08\x06",
        ]
        .concat()
    }

    fn jpeg(width: u16, height: u16, metadata: usize) -> Vec<u8> {
        let length = (metadata as u16 + 2).to_be_bytes();
        let (w, h) = (width.to_be_bytes(), height.to_be_bytes());
        [
            b"\xff\xd8\xff\xe1".as_slice(),
            &length,
            &vec![7; metadata],
            b"\xff\xff\xc2\0\x11\x08",
            &h,
            &w,
            b"\x03",
        ]
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
            let expected = Some(Size { width: 1_920, height: 1_080 });
            assert_eq!(size(&base64(&bytes)), expected, "{format}");
            assert_eq!(
                size(&format!("data:image/any;base64,{}", base64(&bytes))),
                expected,
                "{format} in a data URL"
            );
        }
    }

    #[test]
    fn a_size_that_cannot_be_seen_is_not_invented() {
        for text in
            ["", "https://example.com/a,b.png", "data:image/png;base64,", "iVBORw0KGgo", "/9j/", "AAAA"]
        {
            assert_eq!(size(text), None, "{text}");
        }
        assert_eq!(size(&base64(&png(0, 10))), None);
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
            assert_eq!(
                cost.tokens(Some(Size { width, height })),
                Tokens(tokens),
                "{cost:?} {width}x{height}"
            );
        }
        assert_eq!(ImageCost::default().tokens(None), Tokens(1_600));
    }

    proptest! {
        #[test]
        fn a_byte_is_found_wherever_it_is(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let text = base64(&bytes);
            for (at, &byte) in bytes.iter().enumerate() {
                prop_assert_eq!(Encoded(text.as_bytes()).byte(at), Some(byte));
            }
            prop_assert_eq!(Encoded(text.as_bytes()).byte(bytes.len()), None);
        }

        #[test]
        fn no_text_and_no_size_panics(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..60), width: u32, height: u32) {
            let _ = size(&text);
            for head in [b"\xff\xd8\xff".as_slice(), b"RIFF\0\0\0\0WEBP", b"GIF8"] {
                let _ = size(&base64(&[head, &bytes].concat()));
            }
            for cost in [AREA, TILES, PATCHES] {
                let tokens = cost.tokens(Some(Size { width, height }));
                prop_assert!(tokens > Tokens::ZERO);
            }
        }
    }
}
