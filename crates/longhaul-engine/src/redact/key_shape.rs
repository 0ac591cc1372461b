//! The shape of a key, as data: literal text and runs of an alphabet.
//!
//! `ghp_{base62:36}` means four literal characters, then 36 letters and digits, as the vendor or a scanner
//! published it. `{url64:20-}` is a run of at least 20 characters, `{digit:8-10}` one of 8 to 10. A run is
//! always matched to its end, so a shape is matched in one pass without going back. The tests use the same
//! notation to generate keys.
//!
//! Only the literal is certain. Sources disagree about lengths and alphabets, and vendors change them. So a
//! run also matches from [`MIN_LENGTH_PERCENT`] of its published length, without an upper bound and in a
//! wider alphabet. `{hex:=8}` is exact. This also matches words and names of things; `value` excludes those
//! that do not look random.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A set of bytes that keys consist of.
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
    /// The bytes of a private key block: base64, headers, line ends (plain or escaped), and the quotes and
    /// plus signs of source code that contains the block.
    Block,
    /// The bytes of an unquoted value, which ends at white space, quotes and list punctuation.
    Bare,
}

const ALPHABET_NAMES: [(&str, Alphabet); 15] = [
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

const fn alphabets_of(byte: u8) -> u16 {
    let digit = byte.is_ascii_digit();
    let lower = byte.is_ascii_lowercase();
    let request = byte.is_ascii_alphabetic();
    let base62 = digit || request;
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
        request,
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

const BYTE_ALPHABETS: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = alphabets_of(byte as u8);
        byte += 1;
    }
    table
};

impl Alphabet {
    pub(super) fn contains(self, byte: u8) -> bool {
        BYTE_ALPHABETS[byte as usize] & (1 << self as u8) != 0
    }

    /// Returns a wider alphabet, which covers what other sources say about the same key.
    fn wider(self) -> Self {
        match self {
            Self::Hex | Self::HexAny | Self::Lower | Self::Letter | Self::Lower36 | Self::Upper36 => Self::Base62,
            Self::Base62 | Self::Word => Self::Url64,
            other => other,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        ALPHABET_NAMES.iter().find(|(listed, _)| *listed == name).map(|&(_, alphabet)| alphabet)
    }
}

/// Finds the ends of runs and remembers them. Without it, a text that is one long run with a thousand key
/// prefixes inside would be read a thousand times.
pub(super) struct RunCache<'t> {
    pub(super) text: &'t [u8],
    /// The ends of long runs by their beginnings, for each alphabet.
    known_runs: [RefCell<BTreeMap<usize, usize>>; ALPHABET_COUNT],
    /// The run that was returned last, for each alphabet.
    last_run: [Cell<(usize, usize)>; ALPHABET_COUNT],
    /// For each landmark the offset from which it was searched, and the offset where it was found.
    landmarks: [Cell<(usize, usize)>; LANDMARK_COUNT],
}

const ALPHABET_COUNT: usize = Alphabet::Bare as usize + 1;

/// The maximum length in bytes of a run that is not remembered, because reading it again is cheaper.
const MAX_UNCACHED_RUN_BYTES: usize = 32;

/// A text that rules search for from many places. [`RunCache`] searches each part of the input once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Landmark {
    /// An `&` in percent-encoding.
    EncodedAmpersand,
    /// The beginning of an XML tag.
    AngleBracket,
    /// The line before the private part of a `PuTTY` key file.
    PrivateLines,
}

const LANDMARK_COUNT: usize = Landmark::PrivateLines as usize + 1;

impl Landmark {
    fn text(self) -> &'static [u8] {
        match self {
            Self::EncodedAmpersand => b"%26",
            Self::AngleBracket => b"<",
            Self::PrivateLines => b"Private-Lines:",
        }
    }
}

impl<'t> RunCache<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        let landmarks = std::array::from_fn(|_| Cell::new((1, 0)));
        Self { text, known_runs: Default::default(), last_run: Default::default(), landmarks }
    }

    /// Returns the offset of the next landmark from `start`, or the end of the text.
    pub(super) fn find_landmark(&self, landmark: Landmark, start: usize) -> usize {
        let cache = &self.landmarks[landmark as usize];
        let (from, found) = cache.get();
        if from <= start && start <= found {
            return found;
        }
        let found = memchr::memmem::find(&self.text[start..], landmark.text()).map_or(self.text.len(), |at| start + at);
        cache.set((start, found));
        found
    }

    /// Returns the end of the run of `alphabet` that contains `start`, or `start` itself if there is none.
    pub(super) fn run_end(&self, alphabet: Alphabet, start: usize) -> usize {
        let last = &self.last_run[alphabet as usize];
        let (from, to) = last.get();
        if from <= start && start < to {
            return to;
        }
        let rest = self.text.get(start..).unwrap_or_default();
        let outside = |&byte: &u8| !alphabet.contains(byte);
        if let Some(length) = rest[..rest.len().min(MAX_UNCACHED_RUN_BYTES)].iter().position(outside) {
            return start + length;
        }
        let mut cache = self.known_runs[alphabet as usize].borrow_mut();
        let (from, to) = match cache.range(..=start).next_back() {
            Some((&from, &to)) if start < to => (from, to),
            _ => (start, start + rest.iter().position(outside).unwrap_or(rest.len())),
        };
        if from == start {
            cache.insert(from, to);
        }
        last.set((from, to));
        to
    }
}

const UUID_NOTATION: &str = "{hexany:=8}-{hexany:=4}-{hexany:=4}-{hexany:=4}-{hexany:=12}";

/// The percentage of a published length that a run must have. Chosen by hand: sources disagree about lengths.
const MIN_LENGTH_PERCENT: usize = 60;

/// The minimum length in bytes of a run that may be shorter than published. Shorter runs are regions,
/// versions and check digits, whose lengths are exact.
const MIN_FLEXIBLE_RUN_BYTES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShapePart {
    Literal(String),
    Run { alphabet: Alphabet, min: usize, max: usize, exact: bool },
}

/// A parsed shape. The anchor is the index of the literal that the keyword search looks for.
#[derive(Debug, Clone)]
pub(super) struct KeyShape {
    pub(super) parts: Vec<ShapePart>,
    anchor: Option<usize>,
}

impl KeyShape {
    /// Parses the notation that the module documentation describes. The error says what is wrong and at which
    /// offset.
    pub(super) fn parse(notation: &str) -> Result<Self, String> {
        let notation = notation.replace("{uuid}", UUID_NOTATION);
        let mut parts = Vec::new();
        let mut rest = notation.as_str();
        while !rest.is_empty() {
            let at = notation.len() - rest.len();
            if let Some(open) = rest.strip_prefix('{') {
                let (run, after) = open.split_once('}').ok_or(format!("unclosed brace at {at}"))?;
                if run.bytes().all(|byte| byte.is_ascii_uppercase()) {
                    parts.push(ShapePart::Literal(format!("{{{run}}}")));
                    rest = after;
                    continue;
                }
                parts.push(parse_run(run).ok_or(format!("unknown run `{run}` at {at}"))?);
                rest = after;
            } else {
                let end = rest.find('{').unwrap_or(rest.len());
                parts.push(ShapePart::Literal(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        let anchor = parts.iter().position(|part| matches!(part, ShapePart::Literal(text) if text.len() >= 2));
        Ok(Self { parts, anchor })
    }

    /// Returns the shape with the lengths and alphabets widened, as the module documentation describes.
    pub(super) fn loosened(&self) -> Self {
        let anchor = self.anchor.unwrap_or(0);
        let parts = self.parts.iter().enumerate().map(|(at, part)| match part {
            ShapePart::Run { alphabet, min, max, exact: false } if *min >= MIN_FLEXIBLE_RUN_BYTES => {
                let wider = if self.has_common_literal() { *alphabet } else { alphabet.wider() };
                let next = self.parts.get(at + 1);
                let blocked = matches!(next, Some(ShapePart::Literal(text)) if text.bytes().next().is_some_and(|byte| wider.contains(byte)));
                let before_anchor = at < anchor;
                ShapePart::Run {
                    alphabet: if blocked || before_anchor { *alphabet } else { wider },
                    min: (min * MIN_LENGTH_PERCENT).div_ceil(100),
                    // The published maximum length applies if the literal is not at the beginning: no prefix
                    // says that more may follow.
                    max: if anchor > 0 { *max } else { usize::MAX },
                    exact: false,
                }
            }
            part => part.clone(),
        });
        Self { parts: parts.collect(), anchor: self.anchor }
    }

    /// Whether the literal proves little: it has few characters, or only letters that a word may begin with.
    pub(super) fn has_weak_literal(&self) -> bool {
        self.keyword().is_none_or(|literal| {
            literal.len() <= 5 || (literal.len() <= 6 && literal.bytes().all(|byte| byte.is_ascii_alphabetic()))
        })
    }

    /// Whether the literal is so common in ordinary text that a wider alphabet would match too much.
    fn has_common_literal(&self) -> bool {
        self.keyword()
            .is_none_or(|literal| literal.len() <= 3 || literal.bytes().all(|byte| byte.is_ascii_alphabetic()))
    }

    /// Whether the shape is a literal and one run after it. All keys of such a shape that begin inside the
    /// same run end at the same offset.
    pub(super) fn is_literal_and_run(&self) -> bool {
        matches!(self.parts.as_slice(), [ShapePart::Literal(_), ShapePart::Run { .. }])
    }

    /// Whether the literal is the first part.
    pub(super) fn begins_with_keyword(&self) -> bool {
        self.anchor == Some(0)
    }

    /// Returns the literal that the keyword search looks for, if the shape has one.
    pub(super) fn keyword(&self) -> Option<&str> {
        match self.parts.get(self.anchor?)? {
            ShapePart::Literal(text) => Some(text),
            ShapePart::Run { .. } => None,
        }
    }

    /// Matches the shape with its anchor at `at`. Returns the byte range of the whole key.
    pub(super) fn match_at(&self, runs: &RunCache, at: usize) -> Option<(usize, usize)> {
        let anchor = self.anchor.unwrap_or(0);
        let end = self.parts[anchor..].iter().try_fold(at, |at, part| part.match_forward(runs, at))?;
        let start = self.parts[..anchor].iter().rev().try_fold(at, |at, part| part.match_backward(runs.text, at))?;
        Some((start, end))
    }
}

impl ShapePart {
    fn match_forward(&self, runs: &RunCache, at: usize) -> Option<usize> {
        match self {
            ShapePart::Literal(text) => runs.text.get(at..)?.starts_with(text.as_bytes()).then(|| at + text.len()),
            ShapePart::Run { alphabet, min, max, .. } => {
                let end = runs.run_end(*alphabet, at);
                // The full stop of a sentence does not belong to the key.
                let end = end - usize::from(end > at && runs.text[end - 1] == b'.');
                (*min..=*max).contains(&(end - at)).then_some(end)
            }
        }
    }

    fn match_backward(&self, text: &[u8], at: usize) -> Option<usize> {
        match self {
            ShapePart::Literal(literal) => text[..at].ends_with(literal.as_bytes()).then(|| at - literal.len()),
            ShapePart::Run { alphabet, min, max, .. } => {
                let length = text[..at]
                    .iter()
                    .rev()
                    .take(max.saturating_add(1))
                    .take_while(|&&byte| alphabet.contains(byte))
                    .count();
                // The letters of an escape sequence before the key do not belong to the key.
                let start = at - length.min(*max);
                (length >= *min && (length <= *max || is_key_boundary(text, start))).then_some(start)
            }
        }
    }
}

fn parse_run(run: &str) -> Option<ShapePart> {
    let (name, size) = run.split_once(':')?;
    let alphabet = Alphabet::from_name(name)?;
    let exact = size.starts_with('=');
    let size = size.trim_start_matches('=');
    let (min, max) = match size.split_once('-') {
        None => (size.parse().ok()?, size.parse().ok()?),
        Some((min, "")) => (min.parse().ok()?, usize::MAX),
        Some((min, max)) => (min.parse().ok()?, max.parse().ok()?),
    };
    Some(ShapePart::Run { alphabet, min, max, exact })
}

/// Whether a key can begin at `start`: not after a letter or digit, unless that one ends an escape sequence
/// of JSON, of a URL or of a terminal.
pub(super) fn is_key_boundary(text: &[u8], start: usize) -> bool {
    let before = &text[start.saturating_sub(8)..start];
    let Some(last) = before.last() else { return true };
    if !last.is_ascii_alphanumeric() {
        return true;
    }
    let hex = |tail: &[u8]| tail.iter().all(u8::is_ascii_hexdigit);
    let request = before.len() >= 2 && before[before.len() - 2] == b'\\' && b"nrtbf".contains(last);
    let unicode =
        before.len() >= 6 && before[before.len() - 6..].starts_with(b"\\u") && hex(&before[before.len() - 4..]);
    let percent = before.len() >= 3 && before[before.len() - 3] == b'%' && hex(&before[before.len() - 2..]);
    let terminal = *last == b'm' && before.windows(2).any(|window| window == b"\x1b[");
    request || unicode || percent || terminal
}
