//! The pass over the bytes: which runs a text has.

use super::{Class, N};

/// Counts the classes of a text. The bytes are UTF-8.
pub(super) fn classes(text: &[u8]) -> [u32; N] {
    let mut scan = Scan { bytes: text, at: 0, before: Before::Other, counts: [0; N] };
    while let Some(&byte) = text.get(scan.at) {
        match KINDS[byte as usize] {
            LOWER | UPPER | DIGIT => scan.alphanumeric(),
            SPACE => scan.white_space(),
            MARK => scan.marks(),
            TWO => scan.two_bytes(byte),
            THREE => scan.three_bytes(byte),
            FOUR => scan.character(Class::FourBytes, 4),
            _ => scan.character(Class::Control, 1),
        }
    }
    scan.counts
}

/// The kinds of bytes, as bits, so that the kinds within a run can be gathered in one number.
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const DIGIT: u8 = 4;
const SPACE: u8 = 8;
const MARK: u8 = 16;
const TWO: u8 = 32;
const THREE: u8 = 64;
const FOUR: u8 = 128;
const CONTROL: u8 = 0;
const LETTER: u8 = LOWER | UPPER;

const KINDS: [u8; 256] = {
    let mut kinds = [CONTROL; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            b'!'..=b'~' => MARK,
            0xc2..=0xdf => TWO,
            0xe0..=0xef => THREE,
            0xf0..=0xf7 => FOUR,
            _ => CONTROL,
        };
        byte += 1;
    }
    kinds
};

/// A run of letters and digits this long is no word; with digits in it, it is a hash or a piece of base64.
const BLOB: usize = 20;

/// A mark this many times over is a ruler.
const RULER: usize = 4;

/// What the next run directly follows, where that matters.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Other,
    Letter,
    Latin,
    Digit,
    Mark,
    Cyrillic,
    Arabic,
}

struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
    before: Before,
    counts: [u32; N],
}

impl Scan<'_> {
    fn add(&mut self, class: Class, n: usize) {
        self.counts[class as usize] += n as u32;
    }

    fn kind(&self, at: usize) -> u8 {
        self.bytes.get(at).map_or(CONTROL, |&byte| KINDS[byte as usize])
    }

    /// Where the bytes of these kinds end.
    #[inline]
    fn end_of(&self, kinds: u8, from: usize) -> usize {
        let mut at = from;
        while at < self.bytes.len() && KINDS[self.bytes[at] as usize] & kinds != 0 {
            at += 1;
        }
        at
    }

    fn character(&mut self, class: Class, length: usize) {
        self.add(class, 1);
        self.at += length;
        self.before = Before::Other;
    }

    /// A number or a word, unless letters and digits meet in a long run: then all that is left of the run.
    fn alphanumeric(&mut self) {
        let digits = self.end_of(DIGIT, self.at);
        if digits > self.at {
            if self.kind(digits) & LETTER == 0 || !self.blob() {
                self.add(Class::Digits, (digits - self.at).div_ceil(3));
                self.at = digits;
                self.before = Before::Digit;
            }
        } else {
            let small = self.end_of(UPPER, self.at);
            let end = self.end_of(LOWER, small);
            if self.kind(end) != DIGIT || !self.blob() {
                self.word(small - self.at, end - self.at);
            }
        }
    }

    /// Takes the run of letters and digits that begins here, if it is a long one.
    fn blob(&mut self) -> bool {
        let end = self.end_of(LETTER | DIGIT, self.at);
        let run = &self.bytes[self.at..end];
        if run.len() < BLOB {
            return false;
        }
        let kinds = run.iter().fold(0, |kinds, &byte| kinds | KINDS[byte as usize]);
        self.add(if kinds & LETTER == LETTER { Class::Base64 } else { Class::Hex }, run.len());
        self.at = end;
        self.before = Before::Digit;
        true
    }

    /// Capitals, then small letters: where the case goes up again, the next word begins.
    fn word(&mut self, capitals: usize, letters: usize) {
        let end = self.at + letters;
        match self.before {
            Before::Letter => self.add(Class::WordAfterLetter, 1),
            Before::Digit => self.add(Class::WordAfterDigit, 1),
            Before::Mark => self.add(Class::WordAfterMark, 1),
            Before::Other | Before::Latin | Before::Cyrillic | Before::Arabic => {}
        }
        if capitals >= 2 {
            self.add(Class::Capitals, 1);
            self.add(Class::CapitalsPast2, letters - 2);
        } else if self.before == Before::Other && self.ends_as_prose(end) {
            self.add(Class::Prose, 1);
            self.add(Class::ProsePast8, letters.saturating_sub(8));
            self.add(Class::ProsePast13, letters.saturating_sub(13));
        } else {
            // The letters after an accented one go on with its word.
            self.add(Class::Word, usize::from(self.before != Before::Latin));
            self.add(Class::WordPast5, letters.saturating_sub(5));
            self.add(Class::WordPast10, letters.saturating_sub(10));
        }
        self.at = end;
        self.before = Before::Letter;
    }

    fn ends_as_prose(&self, end: usize) -> bool {
        self.bytes.get(end).is_none_or(|next| {
            matches!(next, b' ' | b'\t' | b'\n' | b'\r' | b'.' | b',' | b';' | b':' | b'!' | b'?')
        })
    }

    /// Line ends with the white space before them are one run, the indentation after them another, of which a last space
    /// belongs to the word or mark that follows.
    fn white_space(&mut self) {
        let next = self.kind(self.at + 1);
        if self.bytes[self.at] == b' ' && next & (SPACE | DIGIT) == 0 && next != CONTROL {
            self.at += 1;
            self.before = Before::Other;
            return;
        }
        let end = self.end_of(SPACE, self.at);
        let run = &self.bytes[self.at..end];
        let mut indent = run.len();
        if let Some(last) = memchr::memrchr2(b'\n', b'\r', run) {
            let after_mark = self.before == Before::Mark && matches!(run[0], b'\n' | b'\r');
            let class = if after_mark { Class::NewlinesAfterMark } else { Class::Newlines };
            self.add(class, 1 + last / 16);
            indent = run.len() - last - 1;
        }
        let next = self.kind(end);
        let own = if next == CONTROL { indent } else { indent.saturating_sub(1) };
        self.add(Class::Spaces, own.div_ceil(64));
        self.add(Class::SpaceBeforeDigit, usize::from(next == DIGIT && indent > 0));
        self.at = end;
        self.before = Before::Other;
    }

    fn marks(&mut self) {
        let end = self.end_of(MARK, self.at);
        let mut mixed = 0;
        while self.at < end {
            let mark = self.bytes[self.at];
            let same = self.bytes[self.at..end].iter().take_while(|&&byte| byte == mark).count();
            if same >= RULER {
                self.ruler(same);
            } else {
                mixed += same;
            }
            self.at += same;
        }
        if mixed == 1 && self.kind(end) & LETTER != 0 {
            self.add(Class::MarkBeforeLetter, 1);
        } else if mixed > 0 {
            self.add(Class::Marks, 1);
            self.add(Class::MarksPast1, mixed - 1);
            self.add(Class::MarksPast3, mixed.saturating_sub(3));
        }
        self.before = Before::Mark;
    }

    fn ruler(&mut self, length: usize) {
        self.add(Class::Ruler, 1);
        self.add(Class::RulerSixteens, length / 16);
    }

    /// Latin letters, Greek to Armenian, and Hebrew to N'Ko, by the first byte.
    fn two_bytes(&mut self, lead: u8) {
        let (class, word, script) = match lead {
            0xc3..=0xca => (Class::Latin, None, Before::Latin),
            0xcd..=0xd5 => (Class::Cyrillic, Some(Class::CyrillicWord), Before::Cyrillic),
            0xd6..=0xdf => (Class::Arabic, Some(Class::ArabicWord), Before::Arabic),
            _ => (Class::Symbol, None, Before::Other),
        };
        if let Some(word) = word {
            self.add(word, usize::from(self.before != script));
        }
        self.character(class, 2);
        self.before = script;
    }

    /// By the first two bytes, which are the upper ten bits of the character.
    fn three_bytes(&mut self, lead: u8) {
        let second = self.bytes.get(self.at + 1).copied().unwrap_or(0);
        let class = match (lead, second) {
            (0xe0, _) | (0xe1, 0x80..=0x82 | 0x9c..=0xb7) => Class::Indic,
            (0xe1, 0xb8..=0xbb) => Class::Latin,
            (0xe2, _) | (0xe3, 0x80) | (0xef, 0xbc..=0xbd) => Class::Symbol,
            (0xe3, 0x81..=0x83) => Class::Kana,
            (0xe3, 0x90..) | (0xe4..=0xe9, _) => Class::Han,
            (0xea, 0xb0..) | (0xeb..=0xec, _) | (0xed, ..=0x9f) => Class::Hangul,
            _ => Class::ThreeBytes,
        };
        if class == Class::Symbol {
            let character = &self.bytes[self.at..(self.at + 3).min(self.bytes.len())];
            let same = self.bytes[self.at..].chunks_exact(3).take_while(|&next| next == character).count();
            if same >= RULER {
                self.ruler(same);
                self.at += 3 * same;
                self.before = Before::Other;
                return;
            }
        }
        self.character(class, 3);
        if class == Class::Latin {
            self.before = Before::Latin;
        }
    }
}
