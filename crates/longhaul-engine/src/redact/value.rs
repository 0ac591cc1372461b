//! Is this value a secret, or does it only stand where one would: a placeholder, a look-up, a type, a word?

use super::judged::{MAX_JUDGED_BYTES, judged};
use super::label;
use super::placeholders::Placeholders;

/// How much a name promises about the value behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// As a token, but only in the query of a URL.
    Query,
    /// The value must look drawn at random.
    Token,
    /// The value must be more than a plain word.
    Secret,
    /// Any value that is not a placeholder.
    Password,
    /// What follows an authorization header.
    Header,
}

/// What a value is made of.
struct Look {
    length: usize,
    digits: usize,
    uppers: usize,
    lowers: usize,
    distinct: u32,
    /// The longest run of letters and digits that has both.
    core: usize,
    /// Nothing but hexadecimal digits and dashes.
    hex: bool,
    /// Consonants in a row, of which words have few, and changes of case.
    consonants: usize,
    case_changes: usize,
}

const DIGIT: u8 = 1;
const UPPER: u8 = 2;
const LOWER: u8 = 4;
const CONSONANT: u8 = 8;
/// A hexadecimal digit, or the dash between groups of them.
const HEX: u8 = 16;

/// What each byte is, as bits: values are judged byte by byte, again for every name that stands before them.
const KINDS: [u8; 256] = {
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

impl Look {
    fn at(value: &[u8]) -> Self {
        let mut look = Look {
            length: value.len(),
            digits: 0,
            uppers: 0,
            lowers: 0,
            distinct: 0,
            core: 0,
            hex: true,
            consonants: 0,
            case_changes: 0,
        };
        let (mut seen, mut run, mut run_kinds, mut row) = (0u128, 0, 0, 0);
        let mut last = 0;
        for &byte in &value[..value.len().min(MAX_JUDGED_BYTES)] {
            let kind = KINDS[byte as usize];
            seen |= 1 << (byte & 0x7f);
            look.digits += usize::from(kind & DIGIT != 0);
            look.uppers += usize::from(kind & UPPER != 0);
            look.lowers += usize::from(kind & LOWER != 0);
            look.case_changes += usize::from((last | kind) & (UPPER | LOWER) == UPPER | LOWER);
            look.hex &= kind & HEX != 0;
            let in_run = kind & (DIGIT | UPPER | LOWER);
            (run, run_kinds) = if in_run == 0 { (0, 0) } else { (run + 1, run_kinds | in_run) };
            if run_kinds & DIGIT != 0 && run_kinds & (UPPER | LOWER) != 0 {
                look.core = look.core.max(run);
            }
            row = if kind & CONSONANT == 0 { 0 } else { row + 1 };
            look.consonants = look.consonants.max(row);
            last = kind;
        }
        look.distinct = seen.count_ones();
        look
    }

    fn letters(&self) -> usize {
        self.uppers + self.lowers
    }

    /// Drawn at random, as far as one can tell: letters with digits among them, or letters that no word has in that order.
    fn is_dense(&self, min: usize) -> bool {
        let judged = self.length.min(MAX_JUDGED_BYTES);
        if judged < min || self.distinct < 5 {
            return false;
        }
        let several = self.digits >= 2 || (self.digits >= 1 && self.case_changes >= 2);
        let mixed = several && self.letters() >= 2 && self.core >= 8 && (self.distinct >= 6 || judged >= 24);
        let scattered =
            judged >= 16 && self.digits >= 2 && self.uppers >= 2 && self.lowers >= 2 && self.distinct >= 10;
        let number = self.digits == judged && judged >= 16;
        let scrambled =
            judged >= 20 && self.letters() + self.digits >= judged - judged / 8 && self.consonants >= 5;
        let hash = self.hex && judged >= 24;
        let grouped = judged >= 24 && self.digits >= 8 && self.letters() >= 8;
        // Words written together change case less often.
        let shuffled =
            judged >= 16 && self.letters() * 8 >= judged * 7 && self.case_changes * 100 >= judged * 42;
        mixed || scattered || number || scrambled || hash || grouped || shuffled
    }
}

fn is_case_change(a: u8, b: u8) -> bool {
    a.is_ascii_alphabetic() && b.is_ascii_alphabetic() && a.is_ascii_lowercase() != b.is_ascii_lowercase()
}

/// How the value was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Quoted,
    /// The same as the argument of a command or a statement that takes nothing but a password: blanks are part of it.
    Argument,
    /// Unquoted behind the `=` of an environment assignment or in a query string: a bare word is a value there.
    Tight,
    /// Alone on its line behind a colon, as in YAML: a bare word is a value there too.
    Line,
    /// Unquoted anywhere else: a bare word is more likely code.
    Loose,
    /// Behind the name with only a space or a dash between: only what looks drawn at random counts.
    Spoken,
}

/// Whether a value behind a name of this class is a secret. The cheap tests come first: most values fail one of them.
pub(super) fn is_secret(value: &[u8], class: Class, written: Written, placeholders: &Placeholders) -> bool {
    fits(value, class, written)
        && (written == Written::Argument
            || !judged(value).iter().any(u8::is_ascii_whitespace)
            || (written == Written::Quoted
                && matches!(class, Class::Password | Class::Secret)
                && label::is_passphrase(value, placeholders)))
        && !is_path(value)
        && (matches!(written, Written::Quoted | Written::Argument) || !is_expression(value))
        && !(written == Written::Line && is_code_name(value))
        && !is_masked(value)
        && !is_pattern(value)
        && !is_example_id(value)
        && !is_file_name(value)
        && !placeholders.hold(value)
        && !label::is_label(value, placeholders)
        && (takes_any_name(class, written) || !label::names_a_secret(value, placeholders))
}

/// Whether what is spelled like the name of a secret is one all the same: where passwords stand, in quotes or behind the sign of
/// a variable. Other names are given the names of secrets that are kept elsewhere: `existingSecret: "db-password"`.
fn takes_any_name(class: Class, written: Written) -> bool {
    class == Class::Password && matches!(written, Written::Quoted | Written::Argument | Written::Tight)
}

/// Whether the value is made of what a secret of this class is made of.
pub(super) fn fits(value: &[u8], class: Class, written: Written) -> bool {
    let enough = match class {
        Class::Password => 4,
        Class::Secret | Class::Header => 8,
        Class::Token | Class::Query => 12,
    };
    if value.len() < enough {
        return false;
    }
    let look = || Look::at(value);
    match (class, written) {
        (Class::Password, Written::Spoken) => {
            value.len() >= 6
                && value.iter().take(MAX_JUDGED_BYTES).any(u8::is_ascii_digit)
                && look().letters() > 0
        }
        (Class::Password, Written::Loose) => !is_word(value),
        (Class::Header, _) => !is_word(value) || value.len() >= 16,
        (Class::Password, _) => true,
        (Class::Secret | Class::Token | Class::Query, Written::Spoken) => look().is_dense(14),
        (Class::Secret, _) => {
            let look = look();
            let telling = look.digits >= 1 && look.letters() >= 1 || look.is_dense(16);
            // One bare word may be a setting; two are a secret that somebody made up.
            telling || matches!(written, Written::Tight | Written::Quoted) || is_made_of_words(value)
        }
        (Class::Token | Class::Query, _) => look().is_dense(12),
    }
}

/// Whether it looks drawn at random and is at least this long: for values that no name vouches for.
pub(super) fn is_dense(value: &[u8], min: usize) -> bool {
    !is_filler(value) && Look::at(value).is_dense(min)
}

/// Words, written as names of things are: `config_user_agent`, `some-long-title-2`, `readTimeout`.
pub(super) fn is_wordy(value: &[u8]) -> bool {
    let mut parts = judged(value).split(|byte| !byte.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
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

/// What things in a cloud are called: `cmp2-west-1208358310`, words and numbers of small letters.
pub(super) fn is_resource_name(value: &[u8]) -> bool {
    let part = |part: &[u8]| {
        let letters = part.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
        !part.is_empty() && part[letters..].iter().all(u8::is_ascii_digit)
    };
    value.len() <= MAX_JUDGED_BYTES && value.contains(&b'-') && value.split(|&byte| byte == b'-').all(part)
}

/// Several words with something between them.
pub(super) fn is_made_of_words(value: &[u8]) -> bool {
    judged(value).split(|byte| !byte.is_ascii_alphanumeric()).filter(|part| part.len() >= 3).nth(1).is_some()
}

/// `DEFAULT_PASSWORD`, `readPassword`: what code calls things, where a bare word would be a value.
fn is_code_name(value: &[u8]) -> bool {
    let look = Look::at(value);
    let value = judged(value);
    let letters = value.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let constant = value.contains(&b'_') && look.lowers == 0;
    letters && (constant || (value[0].is_ascii_lowercase() && look.case_changes >= 1 && look.length < 32))
}

/// Nothing but a UUID.
pub(super) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// A name of a file, as it stands in listings and bundles: `token-3f2a….js`.
pub(super) fn is_file_name(value: &[u8]) -> bool {
    const ENDINGS: &str = "js mjs cjs ts tsx jsx css scss map json jsonl yaml yml toml xml html htm md txt log csv png jpg jpeg gif svg \
                           webp ico woff woff2 ttf py pyc rs go java class jar rb php c h cpp hpp cs sh ps1 bat sql db lock zip gz \
                           tgz tar whl pdf pem crt cer pub env ini cfg conf tmp bak so dll exe snap";
    let judged = judged(value);
    let Some(dot) = memchr::memrchr(b'.', judged) else { return false };
    let ending = &judged[dot + 1..];
    dot > 0 && ENDINGS.split_whitespace().any(|known| known.as_bytes().eq_ignore_ascii_case(ending))
}

/// Shannon's entropy of the first bytes, in bits a character.
pub(super) fn entropy(value: &[u8]) -> f64 {
    let judged = judged(value);
    let mut counts = [0u16; 256];
    for &byte in judged {
        counts[byte as usize] += 1;
    }
    let length = judged.len() as f64;
    counts
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| f64::from(count) / length)
        .map(|p| -p * p.log2())
        .sum()
}

/// `xxxx`, `****`, `0000`, `AKIA…EXAMPLE`: what documentation writes where a key would be. A name that says what the value is
/// counts for more than how it ends.
pub(super) fn is_filler(value: &[u8]) -> bool {
    let judged = judged(value);
    value.ends_with(b"EXAMPLE")
        || value.ends_with(b"EXAMPLEKEY")
        || memchr::memmem::find(judged, b"EXAMPLEEXAMPLE").is_some()
        || is_masked(value)
}

/// An id in capitals that ends like an example: ids are no secrets, and this one is nobody's.
fn is_example_id(value: &[u8]) -> bool {
    value.ends_with(b"EXAMPLE")
        && judged(value).iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// `xxxx`, `****`, `0000`: the same character over and over.
fn is_masked(value: &[u8]) -> bool {
    let judged = judged(value);
    let body = judged.iter().filter(|byte| matches!(byte, b'x' | b'X' | b'*' | b'#' | b'0')).count();
    let filler = body + judged.iter().filter(|byte| matches!(byte, b'.' | b'-' | b'_')).count();
    let row = longest_row(judged);
    filler == judged.len()
        || (body * 2 > judged.len() && row >= 3)
        || row * 10 >= judged.len() * 9
        || judged.ends_with(b"...")
        || (row >= 4
            && [&b"####"[..], b"****"].iter().any(|masked| memchr::memmem::find(judged, masked).is_some()))
}

fn longest_row(value: &[u8]) -> usize {
    let (mut longest, mut row, mut last) = (0, 0, None);
    for &byte in value {
        row = if last == Some(byte) { row + 1 } else { 1 };
        longest = longest.max(row);
        last = Some(byte);
    }
    longest
}

/// A regular expression: what a secret looks like, and none.
fn is_pattern(value: &[u8]) -> bool {
    let judged = judged(value);
    [&b"(?"[..], b"[a-z", b"[A-Z", b"[0-9", b"\\d", b"\\w"]
        .iter()
        .any(|sign| memchr::memmem::find(judged, sign).is_some())
}

fn is_path(value: &[u8]) -> bool {
    let head = judged(value);
    [&b"/"[..], b"./", b"../", b"~/", b"http:", b"https:", b"C:"].iter().any(|start| head.starts_with(start))
        || memchr::memmem::find(head, b"://").is_some()
}

/// Names joined by dots, and what only code has: `XSalsa20.key_length`, `var.db_password`, `a::b`.
fn is_expression(value: &[u8]) -> bool {
    let head = judged(value);
    let referred = head.strip_prefix(b"*").or_else(|| head.strip_prefix(b"&"));
    if referred.is_some_and(is_identifier) {
        return true;
    }
    let head = referred.unwrap_or(head);
    let dotted = head.contains(&b'.')
        && head.split(|&byte| byte == b'.').all(|part| part.len() < 20 && is_identifier(part));
    dotted || memchr::memmem::find(head, b"::").is_some() || memchr::memmem::find(head, b"->").is_some()
}

pub(super) fn is_identifier(part: &[u8]) -> bool {
    let part = judged(part);
    part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && part.iter().filter(|byte| byte.is_ascii_digit()).count() <= 2
}

fn is_word(value: &[u8]) -> bool {
    value
        .iter()
        .take(MAX_JUDGED_BYTES)
        .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-' | b'.'))
}
