//! Values that only say what would stand there: the name again, in any language, or one label among others.

use super::judged::judged;
use super::placeholders::Placeholders;

/// How far around a field its neighbours are looked for.
const AROUND: usize = 160;

/// Several words that are longer than this, in bytes, are text.
const LONGEST_PASSPHRASE: usize = 96;

/// Whether a value is text for people to read: `"password": "Passwort"`, `"Forgot your password?"`, `пароль`.
pub(super) fn is_label(value: &[u8], placeholders: &Placeholders) -> bool {
    let Ok(value) = std::str::from_utf8(judged(value)) else { return false };
    let digits = value.bytes().any(|byte| byte.is_ascii_digit());
    // Who draws a password draws it from the keys of any keyboard.
    let other_script = value.chars().any(|c| !c.is_ascii() && c.is_alphabetic());
    if digits {
        return false;
    }
    if other_script {
        return true;
    }
    let mut words = words_in(value).peekable();
    words.peek().is_some() && words.all(|word| placeholders.says_nothing(word))
}

/// Whether a value of one piece is spelled with a word that names secrets: `db-password`, `TestSourceToken`.
pub(super) fn names_a_secret(value: &[u8], placeholders: &Placeholders) -> bool {
    let Ok(value) = std::str::from_utf8(judged(value)) else { return false };
    is_spelled(value) && !value.contains(' ') && words_in(value).any(|word| placeholders.is_naming(word))
}

/// Letters, and what joins words: nothing that only a secret has.
fn is_spelled(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphabetic() || b" -_.,:;!?'()/&".contains(&byte))
}

/// The words of a value, also those that only a change of case parts.
fn words_in(value: &str) -> impl Iterator<Item = &str> {
    value.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(camel_words).filter(|word| !word.is_empty())
}

fn camel_words(word: &str) -> impl Iterator<Item = &str> {
    let bytes = word.as_bytes();
    let mut rest = 0;
    let mut cuts: Vec<&str> = Vec::new();
    for at in 1..bytes.len() {
        if bytes[at - 1].is_ascii_lowercase() && bytes[at].is_ascii_uppercase() {
            cuts.push(&word[rest..at]);
            rest = at;
        }
    }
    cuts.push(&word[rest..]);
    cuts.into_iter()
}

/// Several words in quotes that can be a passphrase: no sentence, no title.
pub(super) fn is_passphrase(value: &[u8], placeholders: &Placeholders) -> bool {
    if value.len() > LONGEST_PASSPHRASE {
        return false;
    }
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let count = value.split_whitespace().count();
    let title = value.starts_with(|c: char| c.is_ascii_uppercase())
        && !value.bytes().any(|byte| byte.is_ascii_digit());
    let named = words_in(value).any(|word| placeholders.is_naming(word));
    let sentence =
        words_in(value).any(|word| placeholders.is_prose(word)) || value.ends_with(['.', '?', ':', '…']);
    let markup = value.contains(['<', '{', '=', '(', '$']);
    // Few words that begin with a capital, or have the name of a secret among them, are what a form shows.
    let least = if title || named { 4 } else { 2 };
    let shown = sentence || markup || (title && named) || value.trim() != value;
    (least..=12).contains(&count) && !shown
}

/// Whether the field whose value is at `start..end` stands among labels: a capitalised word beside other text for people.
pub(super) fn among_labels(text: &[u8], name_start: usize, start: usize, end: usize) -> bool {
    let value = judged(&text[start..end]);
    let title = value.first().is_some_and(u8::is_ascii_uppercase)
        && value[1..]
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || matches!(byte, b' ' | b'-' | b'.' | b':'));
    if !title {
        return false;
    }
    let before = &text[name_start.saturating_sub(AROUND)..name_start];
    let after = &text[end..text.len().min(end + AROUND)];
    quoted_pairs(before).chain(quoted_pairs(after)).any(|(name, value)| {
        value.eq_ignore_ascii_case(name)
            || (value.contains(&b' ') && value.first().is_some_and(u8::is_ascii_uppercase))
    })
}

/// The names and values of `"name": "value"` in a piece of text.
fn quoted_pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b',' || byte == b'\n').filter_map(|pair| {
        let colon = memchr::memchr2(b':', b'=', pair)?;
        Some((unquoted(&pair[..colon])?, unquoted(&pair[colon + 1..])?))
    })
}

fn unquoted(part: &[u8]) -> Option<&[u8]> {
    let part = part.trim_ascii();
    let part = part.strip_prefix(b"{").unwrap_or(part).trim_ascii();
    let part = part.strip_suffix(b"}").unwrap_or(part).trim_ascii();
    let quote = part.first().filter(|byte| matches!(byte, b'"' | b'\''));
    match quote {
        Some(&quote) => part.strip_prefix(&[quote])?.strip_suffix(&[quote]),
        None => (!part.is_empty()).then_some(part),
    }
}
