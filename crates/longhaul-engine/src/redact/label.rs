//! Recognizes values that are text for people to read: the name of the secret again, in any language, or one
//! label among others.

use super::examined::examined_part;
use super::placeholders::Placeholders;

/// The number of bytes before and after a field in which its neighbours are searched. Chosen by hand.
const NEIGHBOUR_REACH_BYTES: usize = 160;

/// The maximum length in bytes of a passphrase. Longer text with several words is a sentence.
const MAX_PASSPHRASE_BYTES: usize = 96;

/// Whether a value is text for people to read: `"password": "Passwort"`, `"Forgot your password?"`, `пароль`.
pub(super) fn is_label(value: &[u8], placeholders: &Placeholders) -> bool {
    let Ok(value) = std::str::from_utf8(examined_part(value)) else { return false };
    let digits = value.bytes().any(|byte| byte.is_ascii_digit());
    // A generated password has only characters that every keyboard has.
    let other_script = value.chars().any(|c| !c.is_ascii() && c.is_alphabetic());
    if digits {
        return false;
    }
    if other_script {
        return true;
    }
    let mut words = words_of(value).peekable();
    words.peek().is_some() && words.all(|word| placeholders.is_uninformative(word))
}

/// Whether a value without spaces contains a word that means a secret: `db-password`, `TestSourceToken`.
pub(super) fn contains_secret_word(value: &[u8], placeholders: &Placeholders) -> bool {
    let Ok(value) = std::str::from_utf8(examined_part(value)) else { return false };
    is_spelled_out(value) && !value.contains(' ') && words_of(value).any(|word| placeholders.is_secret_word(word))
}

/// Whether a value has only letters and punctuation that joins words.
fn is_spelled_out(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphabetic() || b" -_.,:;!?'()/&".contains(&byte))
}

/// Splits a name into its words: `dbPassword`, `DB_PASSWORD` and `db-password` have two each.
pub(super) fn split_words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| !byte.is_ascii_alphanumeric())
        .flat_map(|part| part.chunk_by(|a, b| !(a.is_ascii_lowercase() && b.is_ascii_uppercase())))
        .filter(|word| !word.is_empty())
}

/// Returns the words of a value.
fn words_of(value: &str) -> impl Iterator<Item = &str> {
    split_words(value.as_bytes()).filter_map(|word| std::str::from_utf8(word).ok())
}

/// Whether several words in quotes can be a passphrase: they are no sentence, no title and no markup.
pub(super) fn is_passphrase(value: &[u8], placeholders: &Placeholders) -> bool {
    if value.len() > MAX_PASSPHRASE_BYTES {
        return false;
    }
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let count = value.split_whitespace().count();
    let title = value.starts_with(|c: char| c.is_ascii_uppercase()) && !value.bytes().any(|byte| byte.is_ascii_digit());
    let named = words_of(value).any(|word| placeholders.is_secret_word(word));
    let sentence =
        words_of(value).any(|word| placeholders.is_prose_word(word)) || value.ends_with(['.', '?', ':', '…']);
    let markup = value.contains(['<', '{', '=', '(', '$']);
    // A few words that begin with a capital, or contain a word for a secret, are more likely the text of a
    // form.
    let least = if title || named { 4 } else { 2 };
    let shown = sentence || markup || (title && named) || value.trim() != value;
    (least..=12).contains(&count) && !shown
}

/// Whether the value at `start..end` is a capitalised word, and a field beside it has text for people, too.
pub(super) fn is_among_labels(text: &[u8], name_start: usize, start: usize, end: usize) -> bool {
    let value = examined_part(&text[start..end]);
    let title = value.first().is_some_and(u8::is_ascii_uppercase)
        && value[1..].iter().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b' ' | b'-' | b'.' | b':'));
    if !title {
        return false;
    }
    let before = &text[name_start.saturating_sub(NEIGHBOUR_REACH_BYTES)..name_start];
    let after = &text[end..text.len().min(end + NEIGHBOUR_REACH_BYTES)];
    quoted_pairs(before).chain(quoted_pairs(after)).any(|(name, value)| {
        value.eq_ignore_ascii_case(name) || (value.contains(&b' ') && value.first().is_some_and(u8::is_ascii_uppercase))
    })
}

/// Returns the names and values of each `"name": "value"` in a piece of text.
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
