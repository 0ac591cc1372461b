//! The name before a value: where it begins and ends, and what its words mean.

use super::label::split_words;
use super::rules::NameWords;
use super::separator::{Separator, starts_line};
use super::value::NameClass;

/// The maximum length in bytes of a name. Chosen by hand: it bounds every search to the left of a keyword.
pub(super) const MAX_NAME_BYTES: usize = 64;

/// A word that names secrets, found by the keyword search: its byte range and its class.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeywordHit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: NameClass,
    /// Whether the word counts only if it is a separate word of the name: `pat` in `path` does not count.
    pub(super) whole_word: bool,
}

/// The kind of place in which a name and its value appear. In source code `Assignment` and `Field` are
/// ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamePlace {
    Assignment,
    Field,
    Header,
    Query,
    Flag,
}

/// Returns where the name ends: after the keyword, a number, or one of the known suffixes. Returns `None` if
/// the word continues in another way, because it is a different name then.
pub(super) fn name_end(text: &[u8], hit: KeywordHit, names: &NameWords) -> Option<usize> {
    const IDS: [&[u8]; 4] = [b"_id", b"Id", b"ID", b"_ID"];
    let rest = &text[hit.end..text.len().min(hit.end + 16)];
    let goes_on = |length: usize| rest.get(length).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let mut end = hit.end;
    if let Some(id) = IDS.iter().find(|id| rest.starts_with(id)) {
        if ends_with_any(&text[..hit.end], &["accesskey", "access_key", "access-key", "access"]) {
            end += id.len();
        }
    } else if goes_on(0) {
        // A suffix must end where the name ends. Most suffixes fail this test at once.
        let ends_name = |tail: &&String| {
            !goes_on(tail.len()) && rest.len() >= tail.len() && rest[..tail.len()].eq_ignore_ascii_case(tail.as_bytes())
        };
        end += names.suffixes.iter().find(ends_name).map_or(0, String::len);
    }
    while text.get(end).is_some_and(u8::is_ascii_digit) && end < hit.end + 12 {
        end += 1;
    }
    let goes_on = text.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (!goes_on).then_some(end)
}

pub(super) fn ends_with_any(text: &[u8], ends: &[&str]) -> bool {
    ends.iter()
        .any(|end| text.len() >= end.len() && text[text.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes()))
}

pub(super) fn name_start(text: &[u8], end: usize) -> usize {
    let floor = end.saturating_sub(MAX_NAME_BYTES);
    let name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (floor..end).rev().find(|&at| !name(text[at])).map_or(floor, |at| at + 1)
}

/// Whether a word begins at `start`. A word does not begin after a letter, unless an upper case letter
/// follows a lower case one.
pub(super) fn starts_word(text: &[u8], start: usize) -> bool {
    let Some(&before) = start.checked_sub(1).and_then(|at| text.get(at)) else { return true };
    !before.is_ascii_alphabetic() || (before.is_ascii_lowercase() && text[start].is_ascii_uppercase())
}

/// A name and the text before it.
pub(super) struct SecretName<'t> {
    pub(super) text: &'t [u8],
    pub(super) before: &'t [u8],
}

impl SecretName<'_> {
    /// Returns the class of the name, considering the words before its last one, or `None` if they make it
    /// harmless.
    pub(super) fn classify(&self, hit: KeywordHit, word: &[u8], names: &NameWords) -> Option<NameClass> {
        let head = &self.text[..self.text.len().min(MAX_NAME_BYTES)];
        if hit.class == NameClass::Password {
            return (!split_words(head).any(|part| is_any_of(&["forgot", "reset", "show", "hide"], part)))
                .then_some(NameClass::Password);
        }
        if split_words(head)
            .any(|part| names.harmless.iter().any(|listed| listed.as_bytes().eq_ignore_ascii_case(part)))
        {
            return None;
        }
        if word.eq_ignore_ascii_case(b"token") && hit.class == NameClass::Token {
            let strong = names
                .strengthening
                .iter()
                .any(|listed| ends_with_any(strip_joiner(&head[..head.len() - word.len().min(head.len())]), &[listed]));
            return Some(if strong { NameClass::Secret } else { NameClass::Token });
        }
        if !word.eq_ignore_ascii_case(b"key") {
            return Some(hit.class);
        }
        let head_only = &head[..head.len() - word.len().min(head.len())];
        let strong = |before: &[u8]| names.strengthening.iter().any(|listed| ends_with_any(before, &[listed]));
        let own_word = split_words(head).count() == 1 && head.len() <= word.len() + 2;
        if !own_word {
            return Some(if strong(strip_joiner(head_only)) { NameClass::Secret } else { hit.class });
        }
        if matches!(self.before.last(), Some(b'?' | b'&')) {
            return Some(hit.class);
        }
        // A bare `key` names no secret: maps, caches and sort orders have keys. The word before it decides.
        let before = self.word_before();
        let says_nothing = before.is_empty()
            || names.fillers.iter().chain(&names.harmless).any(|listed| listed.as_bytes().eq_ignore_ascii_case(before));
        match says_nothing {
            true => None,
            false if strong(before) => Some(NameClass::Secret),
            false => Some(hit.class),
        }
    }

    /// Returns the word before the name, if one space separates them.
    fn word_before(&self) -> &[u8] {
        let Some(rest) = self.before.strip_suffix(b" ") else { return b"" };
        let length =
            rest.iter().rev().take(24).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        &rest[rest.len() - length..]
    }

    pub(super) fn place(&self, text: &[u8], separator: Separator, end: usize, names: &NameWords) -> NamePlace {
        let lower = self.text.to_ascii_lowercase();
        let header = lower.starts_with(b"x-") || names.header_names.iter().any(|listed| listed.as_bytes() == lower);
        let encoded = self.before.len() >= 3
            && [&b"%3f"[..], b"%26"].iter().any(|mark| self.before[self.before.len() - 3..].eq_ignore_ascii_case(mark));
        let in_query = matches!(self.before.last(), Some(b'?' | b'&' | b'#')) || encoded;
        let form = separator == Separator::EncodedEquals || matches!(text.get(end), Some(b'&'));
        match separator {
            Separator::Equals | Separator::EncodedEquals if in_query || form => NamePlace::Query,
            Separator::Colon | Separator::Space if header => NamePlace::Header,
            _ if self.text.starts_with(b"--") || (self.text.starts_with(b"-") && self.before.ends_with(b" ")) => {
                NamePlace::Flag
            }
            Separator::Colon | Separator::ValueKeyword | Separator::Comma | Separator::NextLine | Separator::XmlTag => {
                NamePlace::Field
            }
            _ if self.is_quoted() => NamePlace::Field,
            _ => NamePlace::Assignment,
        }
    }

    pub(super) fn is_quoted(&self) -> bool {
        matches!(self.before.last(), Some(b'"' | b'\'' | b'`'))
    }

    /// Whether the quoted name is an argument or an element of a list: `("name"`, `["name"`, `, "name"`.
    pub(super) fn is_argument(&self) -> bool {
        let before = self.text_before_quote();
        matches!(before.last(), Some(b'(' | b'[' | b','))
    }

    /// Whether the quoted name is a branch of a conditional expression: `? 'name'`.
    pub(super) fn is_conditional_branch(&self) -> bool {
        self.text_before_quote().ends_with(b"?")
    }

    fn text_before_quote(&self) -> &[u8] {
        let tail = &self.before[self.before.len().saturating_sub(16)..];
        let quotes = tail.iter().rev().take_while(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'\\')).count();
        tail[..tail.len() - quotes].trim_ascii_end()
    }

    pub(super) fn is_uppercase(&self) -> bool {
        self.text.iter().all(|byte| !byte.is_ascii_lowercase())
    }

    /// Whether the name follows a verb of a statement that takes a password as its next word: `with
    /// password`, `set password`.
    pub(super) fn follows_statement_verb(&self) -> bool {
        is_any_of(&["with", "set", "encrypted", "login", "by"], self.word_before())
    }

    /// Whether the name has several words joined by punctuation, as in no sentence: `smtp_password`,
    /// `auth-pass`.
    pub(super) fn is_compound(&self) -> bool {
        self.text.iter().any(|byte| matches!(byte, b'_' | b'-' | b'.')) && !self.text.starts_with(b"-")
    }

    /// Whether the name is a plural, which names a place or a list of secrets: `secrets`, `dbCredentials`.
    pub(super) fn is_plural(&self) -> bool {
        self.text.last().is_some_and(|byte| byte.eq_ignore_ascii_case(&b's'))
            && !ends_with_any(self.text, &["pass", "access"])
    }

    /// Whether the line of the name is indented less than the line of the value at `at`.
    pub(super) fn is_indented_less_than(&self, text: &[u8], at: usize) -> bool {
        let column =
            |at: usize| text[..at].iter().rev().take(MAX_NAME_BYTES).take_while(|byte| **byte != b'\n').count();
        column(at) > column(self.before.len())
    }

    /// Whether a pair precedes the name in a way that code is not written: `user=bob,password=…`, `host=db
    /// user=app password=…`.
    pub(super) fn follows_pair(&self) -> bool {
        let tail = &self.before[self.before.len().saturating_sub(MAX_NAME_BYTES)..];
        let Some((b' ' | b',' | b';', rest)) = tail.split_last() else { return false };
        let word = rest.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
        let pair = memchr::memchr(b'=', word).is_some_and(|at| at > 0 && at + 1 < word.len());
        pair && !word.ends_with(b",") && !word.iter().any(|byte| b"()[]{}<>\"'`\\".contains(byte))
    }

    /// Whether the name is the first thing on its line, apart from indentation, a list dash, a comment
    /// character or `export`.
    pub(super) fn starts_line(&self) -> bool {
        starts_line(self.before)
    }
}

pub(super) fn is_any_of(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|listed| listed.as_bytes().eq_ignore_ascii_case(word))
}

/// Returns `api_` without the characters that join it to the next word.
fn strip_joiner(head: &[u8]) -> &[u8] {
    let joiners = head.iter().rev().take_while(|byte| matches!(byte, b'_' | b'-' | b'.')).count();
    &head[..head.len() - joiners]
}
