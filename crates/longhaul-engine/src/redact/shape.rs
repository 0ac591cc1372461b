//! The shape of a key, as data: literal text and runs of an alphabet.
//!
//! `ghp_{base62:36}` reads: the four characters, then 36 letters and digits, as the vendor or a scanner published it.
//! `{url64:20-}` is a run of at least 20, `{digit:8-10}` one of 8 to 10. A run is always taken whole, so a shape is matched
//! in one pass without going back, and the same text that finds a key can also make one for the tests.
//!
//! The literal is the fact. Lengths and alphabets are hearsay: sources disagree and vendors change them, so a run is looked
//! for from [`LEAST`] of its published length on, without an upper bound and in a wider alphabet. `{hex:=8}` is meant as it
//! stands. What the width lets in, words and names of things, is told apart by how random it looks (`value`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A set of bytes that keys are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Alphabet {
    Digit,
    Hex,
    HexAny,
    Lower,
    Letter,
    Lower36,
    Upper36,
    Base62,
    Word,
    Url64,
    Base64,
    Dotted,
    Tilde,
    Crypt,
    /// What a private key block is made of: base64, headers, line ends plain or escaped, quotes and plus signs of source code that
    /// spells it out.
    Block,
    /// Whatever an unquoted value can hold: it ends at white space, quotes and list punctuation.
    Bare,
}

const ALPHABETS: [(&str, Alphabet); 15] = [
    ("digit", Alphabet::Digit),
    ("hex", Alphabet::Hex),
    ("hexany", Alphabet::HexAny),
    ("lower", Alphabet::Lower),
    ("letter", Alphabet::Letter),
    ("lower36", Alphabet::Lower36),
    ("upper36", Alphabet::Upper36),
    ("base62", Alphabet::Base62),
    ("word", Alphabet::Word),
    ("url64", Alphabet::Url64),
    ("base64", Alphabet::Base64),
    ("dotted", Alphabet::Dotted),
    ("tilde", Alphabet::Tilde),
    ("crypt", Alphabet::Crypt),
    ("bare", Alphabet::Bare),
];

const fn members(byte: u8) -> u16 {
    let digit = byte.is_ascii_digit();
    let lower = byte.is_ascii_lowercase();
    let letter = byte.is_ascii_alphabetic();
    let base62 = digit || letter;
    let url64 = base62 || byte == b'_' || byte == b'-';
    let bare = !(byte <= b' '
        || matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b'&' | b'<' | b'>' | b')' | b'}' | b']')
        || matches!(byte, b'\\' | b'|' | b'(' | b'{' | b'[' | 0x7f));
    let block = base62
        || byte.is_ascii_whitespace()
        || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'\\' | b'"' | b'\'' | b',' | b':' | b'.')
        || matches!(byte, b'(' | b')' | b'_' | b'*' | b';' | b'#' | b'>' | b'|');
    let sets = [
        digit,
        digit || matches!(byte, b'a'..=b'f'),
        byte.is_ascii_hexdigit(),
        lower,
        letter,
        digit || lower,
        digit || byte.is_ascii_uppercase(),
        base62,
        base62 || byte == b'_',
        url64,
        base62 || matches!(byte, b'+' | b'/' | b'='),
        url64 || byte == b'.',
        url64 || matches!(byte, b'.' | b'~'),
        base62 || matches!(byte, b'.' | b'/'),
        block,
        bare,
    ];
    let mut bits = 0;
    let mut at = 0;
    while at < sets.len() {
        if sets[at] {
            bits |= 1 << at;
        }
        at += 1;
    }
    bits
}

const MEMBERS: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = members(byte as u8);
        byte += 1;
    }
    table
};

impl Alphabet {
    pub(super) fn holds(self, byte: u8) -> bool {
        MEMBERS[byte as usize] & (1 << self as u8) != 0
    }

    /// The alphabet that some source will say it is.
    fn wider(self) -> Self {
        match self {
            Self::Hex | Self::HexAny | Self::Lower | Self::Letter | Self::Lower36 | Self::Upper36 => {
                Self::Base62
            }
            Self::Base62 | Self::Word => Self::Url64,
            other => other,
        }
    }

    fn named(name: &str) -> Option<Self> {
        ALPHABETS.iter().find(|(known, _)| *known == name).map(|&(_, alphabet)| alphabet)
    }
}

/// Remembers where runs end, so that text made of one endless run with a thousand prefixes inside is still read once.
pub(super) struct Runs<'t> {
    pub(super) text: &'t [u8],
    /// The ends of long runs by their beginnings, for each alphabet, and the run that was asked for last.
    known: [RefCell<BTreeMap<usize, usize>>; ALPHABET_COUNT],
    last: [Cell<(usize, usize)>; ALPHABET_COUNT],
    /// For each landmark, from where it was looked for, and where it is.
    landmarks: [Cell<(usize, usize)>; LANDMARK_COUNT],
}

const ALPHABET_COUNT: usize = Alphabet::Bare as usize + 1;

/// Runs that are no longer than this, in bytes, are cheaper to read again than to remember.
const SHORT_RUN: usize = 32;

/// A text that rules look for from many places: each stretch is searched once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Landmark {
    /// `&` in percent-encoding.
    EncodedAmpersand,
    /// The beginning of a tag.
    Tag,
    /// The line before the private part of a `PuTTY` key file.
    PrivateLines,
}

const LANDMARK_COUNT: usize = Landmark::PrivateLines as usize + 1;

impl Landmark {
    fn text(self) -> &'static [u8] {
        match self {
            Self::EncodedAmpersand => b"%26",
            Self::Tag => b"<",
            Self::PrivateLines => b"Private-Lines:",
        }
    }
}

impl<'t> Runs<'t> {
    pub(super) fn over(text: &'t [u8]) -> Self {
        let landmarks = std::array::from_fn(|_| Cell::new((1, 0)));
        Self { text, known: Default::default(), last: Default::default(), landmarks }
    }

    /// The next landmark from `start`, or the end of the text.
    pub(super) fn next(&self, landmark: Landmark, start: usize) -> usize {
        let known = &self.landmarks[landmark as usize];
        let (from, found) = known.get();
        if from <= start && start <= found {
            return found;
        }
        let found = memchr::memmem::find(&self.text[start..], landmark.text())
            .map_or(self.text.len(), |at| start + at);
        known.set((start, found));
        found
    }

    /// Where the run of `alphabet` that holds `start` ends; `start` itself if there is none.
    pub(super) fn end(&self, alphabet: Alphabet, start: usize) -> usize {
        let last = &self.last[alphabet as usize];
        let (from, to) = last.get();
        if from <= start && start < to {
            return to;
        }
        let rest = self.text.get(start..).unwrap_or_default();
        let outside = |&byte: &u8| !alphabet.holds(byte);
        if let Some(length) = rest[..rest.len().min(SHORT_RUN)].iter().position(outside) {
            return start + length;
        }
        let mut known = self.known[alphabet as usize].borrow_mut();
        let (from, to) = match known.range(..=start).next_back() {
            Some((&from, &to)) if start < to => (from, to),
            _ => (start, start + rest.iter().position(outside).unwrap_or(rest.len())),
        };
        if from == start {
            known.insert(from, to);
        }
        last.set((from, to));
        to
    }
}

const UUID: &str = "{hexany:=8}-{hexany:=4}-{hexany:=4}-{hexany:=4}-{hexany:=12}";

/// How much of a published length must be there, in hundredths.
const LEAST: usize = 60;

/// Runs shorter than this have no length to spare: regions, versions, check digits.
const SHORT: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Run { alphabet: Alphabet, min: usize, max: usize, exact: bool },
}

/// A parsed shape. The anchor is the literal that the keyword gate looks for.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) parts: Vec<Part>,
    anchor: Option<usize>,
}

impl Shape {
    /// Reads the notation above; the error says what is wrong and where.
    pub(super) fn parse(notation: &str) -> Result<Self, String> {
        let notation = notation.replace("{uuid}", UUID);
        let mut parts = Vec::new();
        let mut rest = notation.as_str();
        while !rest.is_empty() {
            let at = notation.len() - rest.len();
            if let Some(open) = rest.strip_prefix('{') {
                let (run, after) = open.split_once('}').ok_or(format!("unclosed brace at {at}"))?;
                if run.bytes().all(|byte| byte.is_ascii_uppercase()) {
                    parts.push(Part::Text(format!("{{{run}}}")));
                    rest = after;
                    continue;
                }
                parts.push(parse_run(run).ok_or(format!("unknown run `{run}` at {at}"))?);
                rest = after;
            } else {
                let end = rest.find('{').unwrap_or(rest.len());
                parts.push(Part::Text(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        let anchor = parts.iter().position(|part| matches!(part, Part::Text(text) if text.len() >= 2));
        Ok(Self { parts, anchor })
    }

    /// The shape that is looked for where this one is published.
    pub(super) fn loosened(&self) -> Self {
        let anchor = self.anchor.unwrap_or(0);
        let parts = self.parts.iter().enumerate().map(|(at, part)| match part {
            Part::Run { alphabet, min, max, exact: false } if *min >= SHORT => {
                let wider = if self.is_short() { *alphabet } else { alphabet.wider() };
                let next = self.parts.get(at + 1);
                let blocked = matches!(next, Some(Part::Text(text)) if text.bytes().next().is_some_and(|byte| wider.holds(byte)));
                let before_anchor = at < anchor;
                Part::Run {
                    alphabet: if blocked || before_anchor { *alphabet } else { wider },
                    min: (min * LEAST).div_ceil(100),
                    // A literal in the middle of a key is no prefix: nothing says that more may follow.
                    max: if anchor > 0 { *max } else { usize::MAX },
                    exact: false,
                }
            }
            part => part.clone(),
        });
        Self { parts: parts.collect(), anchor: self.anchor }
    }

    /// Whether the literal alone says little: a few characters, or letters that a word may begin with.
    pub(super) fn is_weak(&self) -> bool {
        self.keyword().is_none_or(|literal| {
            literal.len() <= 5
                || (literal.len() <= 6 && literal.bytes().all(|byte| byte.is_ascii_alphabetic()))
        })
    }

    fn is_short(&self) -> bool {
        self.keyword().is_none_or(|literal| {
            literal.len() <= 3 || literal.bytes().all(|byte| byte.is_ascii_alphabetic())
        })
    }

    /// Whether the shape is a literal and one run behind it, so that all keys that begin inside such a run end where it ends.
    pub(super) fn is_one_run(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Text(_), Part::Run { .. }])
    }

    /// Whether the literal is the first part.
    pub(super) fn begins_with_keyword(&self) -> bool {
        self.anchor == Some(0)
    }

    /// The literal to look for, if the shape has one.
    pub(super) fn keyword(&self) -> Option<&str> {
        match self.parts.get(self.anchor?)? {
            Part::Text(text) => Some(text),
            Part::Run { .. } => None,
        }
    }

    /// The range of the whole key whose anchor stands at `at`.
    pub(super) fn around(&self, runs: &Runs, at: usize) -> Option<(usize, usize)> {
        let anchor = self.anchor.unwrap_or(0);
        let end = self.parts[anchor..].iter().try_fold(at, |at, part| part.forward(runs, at))?;
        let start =
            self.parts[..anchor].iter().rev().try_fold(at, |at, part| part.backward(runs.text, at))?;
        Some((start, end))
    }
}

impl Part {
    fn forward(&self, runs: &Runs, at: usize) -> Option<usize> {
        match self {
            Part::Text(text) => runs.text.get(at..)?.starts_with(text.as_bytes()).then(|| at + text.len()),
            Part::Run { alphabet, min, max, .. } => {
                let end = runs.end(*alphabet, at);
                // The full stop of a sentence is not the key's.
                let end = end - usize::from(end > at && runs.text[end - 1] == b'.');
                (*min..=*max).contains(&(end - at)).then_some(end)
            }
        }
    }

    fn backward(&self, text: &[u8], at: usize) -> Option<usize> {
        match self {
            Part::Text(literal) => text[..at].ends_with(literal.as_bytes()).then(|| at - literal.len()),
            Part::Run { alphabet, min, max, .. } => {
                let length = text[..at]
                    .iter()
                    .rev()
                    .take(max.saturating_add(1))
                    .take_while(|&&byte| alphabet.holds(byte))
                    .count();
                // The letters of an escape before the key are not the key's.
                let start = at - length.min(*max);
                (length >= *min && (length <= *max || starts_clean(text, start))).then_some(start)
            }
        }
    }
}

fn parse_run(run: &str) -> Option<Part> {
    let (name, size) = run.split_once(':')?;
    let alphabet = Alphabet::named(name)?;
    let exact = size.starts_with('=');
    let size = size.trim_start_matches('=');
    let (min, max) = match size.split_once('-') {
        None => (size.parse().ok()?, size.parse().ok()?),
        Some((min, "")) => (min.parse().ok()?, usize::MAX),
        Some((min, max)) => (min.parse().ok()?, max.parse().ok()?),
    };
    Some(Part::Run { alphabet, min, max, exact })
}

/// Whether a key can begin here: behind no letter or digit, unless that one ends an escape of JSON, of a URL or of a terminal.
pub(super) fn starts_clean(text: &[u8], start: usize) -> bool {
    let before = &text[start.saturating_sub(8)..start];
    let Some(last) = before.last() else { return true };
    if !last.is_ascii_alphanumeric() {
        return true;
    }
    let hex = |tail: &[u8]| tail.iter().all(u8::is_ascii_hexdigit);
    let letter = before.len() >= 2 && before[before.len() - 2] == b'\\' && b"nrtbf".contains(last);
    let unicode = before.len() >= 6
        && before[before.len() - 6..].starts_with(b"\\u")
        && hex(&before[before.len() - 4..]);
    let percent = before.len() >= 3 && before[before.len() - 3] == b'%' && hex(&before[before.len() - 2..]);
    let terminal = *last == b'm' && before.windows(2).any(|window| window == b"\x1b[");
    letter || unicode || percent || terminal
}
