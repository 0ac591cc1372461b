//! Decides whether a value is a secret, or only a placeholder, a reference, a type or a word in the place of
//! one.

use super::examined::{MAX_EXAMINED_BYTES, examined_part};
use super::label;
use super::placeholders::Placeholders;

/// The class of a name, which says how strict the test of its value is. The variants are ordered by strength:
/// `named_value` takes the stronger of two classes for its first test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameClass {
    /// A name that counts only in the query of a URL. The value must look random.
    QueryToken,
    /// A name such as `token`. The value must look random.
    Token,
    /// A name such as `secret` or `api_key`. The value must be more than a plain word.
    Secret,
    /// A name such as `password`. Any value counts that is not a placeholder.
    Password,
    /// An authorization header. The value is what follows the header, without the scheme.
    Header,
}

/// Counts about the bytes of a value, up to [`MAX_EXAMINED_BYTES`].
struct CharacterStats {
    length: usize,
    digits: usize,
    uppercase: usize,
    lowercase: usize,
    distinct_bytes: u32,
    /// The length of the longest run of letters and digits that has both.
    longest_mixed_run: usize,
    /// Whether all bytes are hexadecimal digits or dashes.
    is_hex: bool,
    /// The largest number of consonants in a row. Words have few.
    longest_consonant_run: usize,
    case_changes: usize,
}

const DIGIT: u8 = 1;
const UPPER: u8 = 2;
const LOWER: u8 = 4;
const CONSONANT: u8 = 8;
/// A hexadecimal digit, or the dash between groups of them.
const HEX: u8 = 16;

/// The properties of each byte, as bits. A table makes this fast: each value is examined byte by byte, again
/// for every name before it.
const BYTE_KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut at = 0;
    while at < 128 {
        let byte = at as u8;
        let vowel = matches!(byte | 0x20, b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
        kinds[at] = (DIGIT * byte.is_ascii_digit() as u8)
            | (UPPER * byte.is_ascii_uppercase() as u8)
            | (LOWER * byte.is_ascii_lowercase() as u8)
            | (CONSONANT * (byte.is_ascii_alphabetic() && !vowel) as u8)
            | (HEX * (byte.is_ascii_hexdigit() || byte == b'-') as u8);
        at += 1;
    }
    kinds
};

impl CharacterStats {
    fn measure(value: &[u8]) -> Self {
        let mut look = CharacterStats {
            length: value.len(),
            digits: 0,
            uppercase: 0,
            lowercase: 0,
            distinct_bytes: 0,
            longest_mixed_run: 0,
            is_hex: true,
            longest_consonant_run: 0,
            case_changes: 0,
        };
        let (mut seen, mut run, mut run_kinds, mut row) = (0u128, 0, 0, 0);
        let mut last = 0;
        for &byte in &value[..value.len().min(MAX_EXAMINED_BYTES)] {
            let kind = BYTE_KINDS[byte as usize];
            seen |= 1 << (byte & 0x7f);
            look.digits += usize::from(kind & DIGIT != 0);
            look.uppercase += usize::from(kind & UPPER != 0);
            look.lowercase += usize::from(kind & LOWER != 0);
            look.case_changes += usize::from((last | kind) & (UPPER | LOWER) == UPPER | LOWER);
            look.is_hex &= kind & HEX != 0;
            let in_run = kind & (DIGIT | UPPER | LOWER);
            (run, run_kinds) = if in_run == 0 { (0, 0) } else { (run + 1, run_kinds | in_run) };
            if run_kinds & DIGIT != 0 && run_kinds & (UPPER | LOWER) != 0 {
                look.longest_mixed_run = look.longest_mixed_run.max(run);
            }
            row = if kind & CONSONANT == 0 { 0 } else { row + 1 };
            look.longest_consonant_run = look.longest_consonant_run.max(row);
            last = kind;
        }
        look.distinct_bytes = seen.count_ones();
        look
    }

    fn letters(&self) -> usize {
        self.uppercase + self.lowercase
    }

    /// Whether the value looks random and has at least `min` bytes: letters mixed with digits, or letters in
    /// an order that no word has. The numbers below are chosen by hand and measured with `bench/redact`.
    fn looks_random(&self, min: usize) -> bool {
        let judged = self.length.min(MAX_EXAMINED_BYTES);
        if judged < min || self.distinct_bytes < 5 {
            return false;
        }
        let several = self.digits >= 2 || (self.digits >= 1 && self.case_changes >= 2);
        let mixed =
            several && self.letters() >= 2 && self.longest_mixed_run >= 8 && (self.distinct_bytes >= 6 || judged >= 24);
        let scattered =
            judged >= 16 && self.digits >= 2 && self.uppercase >= 2 && self.lowercase >= 2 && self.distinct_bytes >= 10;
        let number = self.digits == judged && judged >= 16;
        let scrambled =
            judged >= 20 && self.letters() + self.digits >= judged - judged / 8 && self.longest_consonant_run >= 5;
        let hash = self.is_hex && judged >= 24;
        let grouped = judged >= 24 && self.digits >= 8 && self.letters() >= 8;
        // Words that are written together, such as `readTimeout`, change case less often.
        let shuffled = judged >= 16 && self.letters() * 8 >= judged * 7 && self.case_changes * 100 >= judged * 42;
        mixed || scattered || number || scrambled || hash || grouped || shuffled
    }
}

fn is_case_change(a: u8, b: u8) -> bool {
    a.is_ascii_alphabetic() && b.is_ascii_alphabetic() && a.is_ascii_lowercase() != b.is_ascii_lowercase()
}

/// How a value is written, which decides how much a bare word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueStyle {
    Quoted,
    /// The whole argument of a command or statement that takes nothing but a password. White space is part of
    /// the password.
    WholeArgument,
    /// Without quotes, behind the `=` of an environment variable, in a query string or after a flag. A bare
    /// word is a value there.
    BareValue,
    /// Without quotes and alone on its line after a colon, as in YAML. A bare word is a value there, too.
    OwnLine,
    /// Without quotes anywhere else. A bare word is more likely code.
    MaybeCode,
    /// After the name with only a space or a dash between, as in a sentence. Only a value that looks random
    /// counts.
    InProse,
}

/// Whether a value after a name of this class is a secret. The cheap tests are first, because most values
/// fail one of them.
pub(super) fn is_secret(value: &[u8], class: NameClass, written: ValueStyle, placeholders: &Placeholders) -> bool {
    fits_class(value, class, written)
        && (written == ValueStyle::WholeArgument
            || !examined_part(value).iter().any(u8::is_ascii_whitespace)
            || (written == ValueStyle::Quoted
                && matches!(class, NameClass::Password | NameClass::Secret)
                && label::is_passphrase(value, placeholders)))
        && !is_path(value)
        && (matches!(written, ValueStyle::Quoted | ValueStyle::WholeArgument) || !is_code_expression(value))
        && !(written == ValueStyle::OwnLine && is_code_identifier(value))
        && !is_masked(value)
        && !is_regex(value)
        && !is_example_id(value)
        && !is_file_name(value)
        && !placeholders.is_placeholder(value)
        && !label::is_label(value, placeholders)
        && (accepts_secret_names(class, written) || !label::contains_secret_word(value, placeholders))
}

/// Whether a value that itself contains a word such as `password` can be a secret. This is so only for
/// passwords in quotes or in an assignment. In other places such a value is the name of a secret that is
/// stored elsewhere: `existingSecret: "db-password"`.
fn accepts_secret_names(class: NameClass, written: ValueStyle) -> bool {
    class == NameClass::Password
        && matches!(written, ValueStyle::Quoted | ValueStyle::WholeArgument | ValueStyle::BareValue)
}

/// Whether the length and the characters of the value fit a secret of this class. This is the cheap part of
/// [`is_secret`].
pub(super) fn fits_class(value: &[u8], class: NameClass, written: ValueStyle) -> bool {
    let enough = match class {
        NameClass::Password => 4,
        NameClass::Secret | NameClass::Header => 8,
        NameClass::Token | NameClass::QueryToken => 12,
    };
    if value.len() < enough {
        return false;
    }
    let look = || CharacterStats::measure(value);
    match (class, written) {
        (NameClass::Password, ValueStyle::InProse) => {
            value.len() >= 6 && value.iter().take(MAX_EXAMINED_BYTES).any(u8::is_ascii_digit) && look().letters() > 0
        }
        (NameClass::Password, ValueStyle::MaybeCode) => !is_plain_word(value),
        (NameClass::Header, _) => !is_plain_word(value) || value.len() >= 16,
        (NameClass::Password, _) => true,
        (NameClass::Secret | NameClass::Token | NameClass::QueryToken, ValueStyle::InProse) => look().looks_random(14),
        (NameClass::Secret, _) => {
            let look = look();
            let telling = look.digits >= 1 && look.letters() >= 1 || look.looks_random(16);
            // One bare word may be a setting. Several words are a secret that a person invented.
            telling || matches!(written, ValueStyle::BareValue | ValueStyle::Quoted) || has_several_words(value)
        }
        (NameClass::Token | NameClass::QueryToken, _) => look().looks_random(12),
    }
}

/// Whether a value without a name looks random, has at least `min` bytes, and is no dummy.
pub(super) fn looks_random(value: &[u8], min: usize) -> bool {
    !is_dummy(value) && CharacterStats::measure(value).looks_random(min)
}

/// Whether a value is made of words and short numbers, as names of things are: `config_user_agent`,
/// `some-long-title-2`, `readTimeout`.
pub(super) fn looks_like_words(value: &[u8]) -> bool {
    let mut parts = examined_part(value).split(|byte| !byte.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.all(|part| {
        if part.len() > 14 {
            return false;
        }
        let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            return digits == part.len() && digits <= 4;
        }
        let changes = part.windows(2).filter(|pair| is_case_change(pair[0], pair[1])).count();
        changes * 100 < part.len().max(5) * 42
    })
}

/// Whether a value is the name of a cloud resource, made of lower case words and numbers:
/// `cmp2-west-1208358310`.
pub(super) fn is_resource_name(value: &[u8]) -> bool {
    let part = |part: &[u8]| {
        let letters = part.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
        !part.is_empty() && part[letters..].iter().all(u8::is_ascii_digit)
    };
    value.len() <= MAX_EXAMINED_BYTES && value.contains(&b'-') && value.split(|&byte| byte == b'-').all(part)
}

/// Whether a value has at least two words of three or more characters, separated by other characters.
pub(super) fn has_several_words(value: &[u8]) -> bool {
    examined_part(value).split(|byte| !byte.is_ascii_alphanumeric()).filter(|part| part.len() >= 3).nth(1).is_some()
}

/// Whether a value is an identifier of source code rather than a bare word: `DEFAULT_PASSWORD`,
/// `readPassword`.
fn is_code_identifier(value: &[u8]) -> bool {
    let look = CharacterStats::measure(value);
    let value = examined_part(value);
    let letters = value.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let constant = value.contains(&b'_') && look.lowercase == 0;
    letters && (constant || (value[0].is_ascii_lowercase() && look.case_changes >= 1 && look.length < 32))
}

/// Whether a value is a UUID and nothing else.
pub(super) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether a value is the name of a file, as in listings and bundles: `token-3f2a….js`.
pub(super) fn is_file_name(value: &[u8]) -> bool {
    const ENDINGS: &str = "js mjs cjs ts tsx jsx css scss map json jsonl yaml yml toml xml html htm md txt log csv png jpg jpeg gif svg \
                           webp ico woff woff2 ttf py pyc rs go java class jar rb php c h cpp hpp cs sh ps1 bat sql db lock zip gz \
                           tgz tar whl pdf pem crt cer pub env ini cfg conf tmp bak so dll exe snap";
    let judged = examined_part(value);
    let Some(dot) = memchr::memrchr(b'.', judged) else { return false };
    let ending = &judged[dot + 1..];
    dot > 0 && ENDINGS.split_whitespace().any(|listed| listed.as_bytes().eq_ignore_ascii_case(ending))
}

/// Returns Shannon's entropy of the examined bytes, in bits per byte.
pub(super) fn entropy(value: &[u8]) -> f64 {
    let judged = examined_part(value);
    let mut counts = [0u16; 256];
    for &byte in judged {
        counts[byte as usize] += 1;
    }
    let length = judged.len() as f64;
    counts.iter().filter(|&&count| count > 0).map(|&count| f64::from(count) / length).map(|p| -p * p.log2()).sum()
}

/// Whether a value is what documentation writes in place of a key: `xxxx`, `****`, `0000`, `AKIA…EXAMPLE`.
/// For a value with a name, [`is_secret`] uses the weaker test [`is_masked`], because the name says more than
/// the end of the value.
pub(super) fn is_dummy(value: &[u8]) -> bool {
    let judged = examined_part(value);
    value.ends_with(b"EXAMPLE")
        || value.ends_with(b"EXAMPLEKEY")
        || memchr::memmem::find(judged, b"EXAMPLEEXAMPLE").is_some()
        || is_masked(value)
}

/// Whether a value is an ID in capitals that ends in `EXAMPLE`. IDs are no secrets, and this one belongs to
/// nobody.
fn is_example_id(value: &[u8]) -> bool {
    value.ends_with(b"EXAMPLE")
        && examined_part(value).iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Whether a value is masked, mostly the same character repeated: `xxxx`, `****`, `0000`.
fn is_masked(value: &[u8]) -> bool {
    let judged = examined_part(value);
    let body = judged.iter().filter(|byte| matches!(byte, b'x' | b'X' | b'*' | b'#' | b'0')).count();
    let filler = body + judged.iter().filter(|byte| matches!(byte, b'.' | b'-' | b'_')).count();
    let row = longest_repeat(judged);
    filler == judged.len()
        || (body * 2 > judged.len() && row >= 3)
        || row * 10 >= judged.len() * 9
        || judged.ends_with(b"...")
        || (row >= 4 && [&b"####"[..], b"****"].iter().any(|masked| memchr::memmem::find(judged, masked).is_some()))
}

fn longest_repeat(value: &[u8]) -> usize {
    let (mut longest, mut row, mut last) = (0, 0, None);
    for &byte in value {
        row = if last == Some(byte) { row + 1 } else { 1 };
        longest = longest.max(row);
        last = Some(byte);
    }
    longest
}

/// Whether a value is a regular expression, which describes secrets but is none.
fn is_regex(value: &[u8]) -> bool {
    let judged = examined_part(value);
    [&b"(?"[..], b"[a-z", b"[A-Z", b"[0-9", b"\\d", b"\\w"].iter().any(|c| memchr::memmem::find(judged, c).is_some())
}

fn is_path(value: &[u8]) -> bool {
    let head = examined_part(value);
    [&b"/"[..], b"./", b"../", b"~/", b"http:", b"https:", b"C:"].iter().any(|start| head.starts_with(start))
        || memchr::memmem::find(head, b"://").is_some()
}

/// Whether a value is an expression of source code: `XSalsa20.key_length`, `var.db_password`, `a::b`.
fn is_code_expression(value: &[u8]) -> bool {
    let head = examined_part(value);
    let referred = head.strip_prefix(b"*").or_else(|| head.strip_prefix(b"&"));
    if referred.is_some_and(is_identifier) {
        return true;
    }
    let head = referred.unwrap_or(head);
    let dotted =
        head.contains(&b'.') && head.split(|&byte| byte == b'.').all(|part| part.len() < 20 && is_identifier(part));
    dotted || memchr::memmem::find(head, b"::").is_some() || memchr::memmem::find(head, b"->").is_some()
}

pub(super) fn is_identifier(part: &[u8]) -> bool {
    let part = examined_part(part);
    part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && part.iter().filter(|byte| byte.is_ascii_digit()).count() <= 2
}

fn is_plain_word(value: &[u8]) -> bool {
    value.iter().take(MAX_EXAMINED_BYTES).all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-' | b'.'))
}
