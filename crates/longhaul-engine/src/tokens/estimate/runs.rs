//! Scans the bytes of a text and counts its runs by class.

use super::{CLASS_COUNT, RunClass};

/// Counts the runs of a UTF-8 text by class.
pub(super) fn count_runs(text: &[u8]) -> [u32; CLASS_COUNT] {
    let mut scan = RunScanner { bytes: text, at: 0, preceding: PrecedingRun::Other, counts: [0; CLASS_COUNT] };
    while let Some(&byte) = text.get(scan.at) {
        match BYTE_KINDS[byte as usize] {
            LOWER | UPPER | DIGIT => scan.scan_alphanumeric(),
            SPACE => scan.scan_white_space(),
            PUNCTUATION => scan.scan_punctuation(),
            TWO_BYTES => scan.scan_two_byte_char(byte),
            THREE_BYTES => scan.scan_three_byte_char(byte),
            FOUR_BYTES => scan.add_character(RunClass::FourBytes, 4),
            _ => scan.add_character(RunClass::Control, 1),
        }
    }
    scan.counts
}

/// The kinds of bytes, as bits, so that the kinds in a run can be combined in one number.
const LOWER: u8 = 1;
const UPPER: u8 = 2;
const DIGIT: u8 = 4;
const SPACE: u8 = 8;
const PUNCTUATION: u8 = 16;
const TWO_BYTES: u8 = 32;
const THREE_BYTES: u8 = 64;
const FOUR_BYTES: u8 = 128;
const CONTROL: u8 = 0;
const LETTER: u8 = LOWER | UPPER;

const BYTE_KINDS: [u8; 256] = {
    let mut kinds = [CONTROL; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            b'!'..=b'~' => PUNCTUATION,
            0xc2..=0xdf => TWO_BYTES,
            0xe0..=0xef => THREE_BYTES,
            0xf0..=0xf7 => FOUR_BYTES,
            _ => CONTROL,
        };
        byte += 1;
    }
    kinds
};

/// The minimum length of a run of letters and digits that is a hash or base64 and not a word. Chosen by hand.
const MIN_BLOB_CHARS: usize = 20;

/// The minimum number of equal punctuation marks that make a ruler. Chosen by hand.
const MIN_RULER_CHARS: usize = 4;

/// The run directly before the next one, where it matters for the count.
#[derive(Clone, Copy, PartialEq)]
enum PrecedingRun {
    Other,
    Letter,
    Latin,
    Digit,
    Punctuation,
    Cyrillic,
    Arabic,
}

struct RunScanner<'t> {
    bytes: &'t [u8],
    at: usize,
    preceding: PrecedingRun,
    counts: [u32; CLASS_COUNT],
}

impl RunScanner<'_> {
    fn add_to_class(&mut self, class: RunClass, n: usize) {
        self.counts[class as usize] += n as u32;
    }

    fn kind_at(&self, at: usize) -> u8 {
        self.bytes.get(at).map_or(CONTROL, |&byte| BYTE_KINDS[byte as usize])
    }

    /// Returns the end of the run of bytes of these kinds.
    #[inline]
    fn run_end(&self, kinds: u8, from: usize) -> usize {
        let mut at = from;
        while at < self.bytes.len() && BYTE_KINDS[self.bytes[at] as usize] & kinds != 0 {
            at += 1;
        }
        at
    }

    fn add_character(&mut self, class: RunClass, length: usize) {
        self.add_to_class(class, 1);
        self.at += length;
        self.preceding = PrecedingRun::Other;
    }

    /// Counts a number or a word. If letters and digits meet in a long run, counts the rest of the run as a
    /// blob.
    fn scan_alphanumeric(&mut self) {
        let digits = self.run_end(DIGIT, self.at);
        if digits > self.at {
            if self.kind_at(digits) & LETTER == 0 || !self.scan_blob() {
                self.add_to_class(RunClass::Digits, (digits - self.at).div_ceil(3));
                self.at = digits;
                self.preceding = PrecedingRun::Digit;
            }
        } else {
            let small = self.run_end(UPPER, self.at);
            let end = self.run_end(LOWER, small);
            if self.kind_at(end) != DIGIT || !self.scan_blob() {
                self.add_word(small - self.at, end - self.at);
            }
        }
    }

    /// Counts the run of letters and digits that begins here if it is long. Returns whether it was.
    fn scan_blob(&mut self) -> bool {
        let end = self.run_end(LETTER | DIGIT, self.at);
        let run = &self.bytes[self.at..end];
        if run.len() < MIN_BLOB_CHARS {
            return false;
        }
        let kinds = run.iter().fold(0, |kinds, &byte| kinds | BYTE_KINDS[byte as usize]);
        self.add_to_class(if kinds & LETTER == LETTER { RunClass::Base64 } else { RunClass::Hex }, run.len());
        self.at = end;
        self.preceding = PrecedingRun::Digit;
        true
    }

    /// Counts a word of capitals followed by small letters. The next capital after a small letter begins
    /// another word.
    fn add_word(&mut self, capitals: usize, letters: usize) {
        let end = self.at + letters;
        match self.preceding {
            PrecedingRun::Letter => self.add_to_class(RunClass::WordAfterLetter, 1),
            PrecedingRun::Digit => self.add_to_class(RunClass::WordAfterDigit, 1),
            PrecedingRun::Punctuation => self.add_to_class(RunClass::WordAfterMark, 1),
            PrecedingRun::Other | PrecedingRun::Latin | PrecedingRun::Cyrillic | PrecedingRun::Arabic => {}
        }
        if capitals >= 2 {
            self.add_to_class(RunClass::Capitals, 1);
            self.add_to_class(RunClass::CapitalsPast2, letters - 2);
        } else if self.preceding == PrecedingRun::Other && self.has_prose_ending(end) {
            self.add_to_class(RunClass::Prose, 1);
            self.add_to_class(RunClass::ProsePast8, letters.saturating_sub(8));
            self.add_to_class(RunClass::ProsePast13, letters.saturating_sub(13));
        } else {
            // The letters after an accented letter belong to the same word.
            self.add_to_class(RunClass::Word, usize::from(self.preceding != PrecedingRun::Latin));
            self.add_to_class(RunClass::WordPast5, letters.saturating_sub(5));
            self.add_to_class(RunClass::WordPast10, letters.saturating_sub(10));
        }
        self.at = end;
        self.preceding = PrecedingRun::Letter;
    }

    fn has_prose_ending(&self, end: usize) -> bool {
        self.bytes
            .get(end)
            .is_none_or(|next| matches!(next, b' ' | b'\t' | b'\n' | b'\r' | b'.' | b',' | b';' | b':' | b'!' | b'?'))
    }

    /// Counts white space. Line ends with the white space before them are one run, and the indentation after
    /// them is another. The last space belongs to the word or punctuation that follows.
    fn scan_white_space(&mut self) {
        let next = self.kind_at(self.at + 1);
        if self.bytes[self.at] == b' ' && next & (SPACE | DIGIT) == 0 && next != CONTROL {
            self.at += 1;
            self.preceding = PrecedingRun::Other;
            return;
        }
        let end = self.run_end(SPACE, self.at);
        let run = &self.bytes[self.at..end];
        let mut indent = run.len();
        if let Some(last) = memchr::memrchr2(b'\n', b'\r', run) {
            let after_mark = self.preceding == PrecedingRun::Punctuation && matches!(run[0], b'\n' | b'\r');
            let class = if after_mark { RunClass::NewlinesAfterMark } else { RunClass::Newlines };
            self.add_to_class(class, 1 + last / 16);
            indent = run.len() - last - 1;
        }
        let next = self.kind_at(end);
        let own = if next == CONTROL { indent } else { indent.saturating_sub(1) };
        self.add_to_class(RunClass::Spaces, own.div_ceil(64));
        self.add_to_class(RunClass::SpaceBeforeDigit, usize::from(next == DIGIT && indent > 0));
        self.at = end;
        self.preceding = PrecedingRun::Other;
    }

    fn scan_punctuation(&mut self) {
        let end = self.run_end(PUNCTUATION, self.at);
        let mut mixed = 0;
        while self.at < end {
            let mark = self.bytes[self.at];
            let same = self.bytes[self.at..end].iter().take_while(|&&byte| byte == mark).count();
            if same >= MIN_RULER_CHARS {
                self.add_ruler(same);
            } else {
                mixed += same;
            }
            self.at += same;
        }
        if mixed == 1 && self.kind_at(end) & LETTER != 0 {
            self.add_to_class(RunClass::MarkBeforeLetter, 1);
        } else if mixed > 0 {
            self.add_to_class(RunClass::Marks, 1);
            self.add_to_class(RunClass::MarksPast1, mixed - 1);
            self.add_to_class(RunClass::MarksPast3, mixed.saturating_sub(3));
        }
        self.preceding = PrecedingRun::Punctuation;
    }

    fn add_ruler(&mut self, length: usize) {
        self.add_to_class(RunClass::Ruler, 1);
        self.add_to_class(RunClass::RulerSixteens, length / 16);
    }

    /// Counts a character of two bytes by its first byte: Latin letters, Greek to Armenian, or Hebrew to
    /// N'Ko.
    fn scan_two_byte_char(&mut self, lead: u8) {
        let (class, word, script) = match lead {
            0xc3..=0xca => (RunClass::Latin, None, PrecedingRun::Latin),
            0xcd..=0xd5 => (RunClass::Cyrillic, Some(RunClass::CyrillicWord), PrecedingRun::Cyrillic),
            0xd6..=0xdf => (RunClass::Arabic, Some(RunClass::ArabicWord), PrecedingRun::Arabic),
            _ => (RunClass::Symbol, None, PrecedingRun::Other),
        };
        if let Some(word) = word {
            self.add_to_class(word, usize::from(self.preceding != script));
        }
        self.add_character(class, 2);
        self.preceding = script;
    }

    /// Counts a character of three bytes by its first two bytes, which are the upper ten bits of the
    /// character.
    fn scan_three_byte_char(&mut self, lead: u8) {
        let second = self.bytes.get(self.at + 1).copied().unwrap_or(0);
        let class = match (lead, second) {
            (0xe0, _) | (0xe1, 0x80..=0x82 | 0x9c..=0xb7) => RunClass::Indic,
            (0xe1, 0xb8..=0xbb) => RunClass::Latin,
            (0xe2, _) | (0xe3, 0x80) | (0xef, 0xbc..=0xbd) => RunClass::Symbol,
            (0xe3, 0x81..=0x83) => RunClass::Kana,
            (0xe3, 0x90..) | (0xe4..=0xe9, _) => RunClass::Han,
            (0xea, 0xb0..) | (0xeb..=0xec, _) | (0xed, ..=0x9f) => RunClass::Hangul,
            _ => RunClass::ThreeBytes,
        };
        if class == RunClass::Symbol {
            let character = &self.bytes[self.at..(self.at + 3).min(self.bytes.len())];
            let same = self.bytes[self.at..].chunks_exact(3).take_while(|&next| next == character).count();
            if same >= MIN_RULER_CHARS {
                self.add_ruler(same);
                self.at += 3 * same;
                self.preceding = PrecedingRun::Other;
                return;
            }
        }
        self.add_character(class, 3);
        if class == RunClass::Latin {
            self.preceding = PrecedingRun::Latin;
        }
    }
}
