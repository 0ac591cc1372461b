//! The name before a value: where it begins and ends, and what its words say.

use super::rules::Names;
use super::separator::{Separator, starts_line};
use super::value::Class;

/// A name is not longer than this.
pub(super) const NAME: usize = 64;

/// A hit of the keyword gate: where the word stands and what it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: Class,
    /// The word counts only where it is a word of its own.
    pub(super) whole: bool,
}

/// Where names and values stand. Source code is spared the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Assignment,
    Field,
    Header,
    Query,
    Flag,
}

/// Where the name ends: after a number or one of the few words that may follow. Anything else makes it another name.
pub(super) fn name_end(text: &[u8], hit: Hit, names: &Names) -> Option<usize> {
    const IDS: [&[u8]; 4] = [b"_id", b"Id", b"ID", b"_ID"];
    let rest = &text[hit.end..text.len().min(hit.end + 16)];
    let goes_on =
        |length: usize| rest.get(length).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let mut end = hit.end;
    if let Some(id) = IDS.iter().find(|id| rest.starts_with(id)) {
        if ends_with_any(&text[..hit.end], &["accesskey", "access_key", "access-key", "access"]) {
            end += id.len();
        }
    } else if goes_on(0) {
        // A tail ends where the name ends, which most of them fail at once.
        let known = |tail: &&String| {
            !goes_on(tail.len())
                && rest.len() >= tail.len()
                && rest[..tail.len()].eq_ignore_ascii_case(tail.as_bytes())
        };
        end += names.tails.iter().find(known).map_or(0, String::len);
    }
    while text.get(end).is_some_and(u8::is_ascii_digit) && end < hit.end + 12 {
        end += 1;
    }
    let goes_on = text.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (!goes_on).then_some(end)
}

pub(super) fn ends_with_any(text: &[u8], ends: &[&str]) -> bool {
    ends.iter().any(|end| {
        text.len() >= end.len() && text[text.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    })
}

pub(super) fn name_start(text: &[u8], end: usize) -> usize {
    let floor = end.saturating_sub(NAME);
    let name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (floor..end).rev().find(|&at| !name(text[at])).map_or(floor, |at| at + 1)
}

/// A lower case word behind a letter is part of a longer word; an upper case one behind a lower case one is not.
pub(super) fn starts_word(text: &[u8], start: usize) -> bool {
    let Some(&before) = start.checked_sub(1).and_then(|at| text.get(at)) else { return true };
    !before.is_ascii_alphabetic() || (before.is_ascii_lowercase() && text[start].is_ascii_uppercase())
}

/// A name and the text before it.
pub(super) struct Name<'t> {
    pub(super) text: &'t [u8],
    pub(super) before: &'t [u8],
}

impl Name<'_> {
    /// The class of the name with the words before its last one, or nothing where they make it harmless.
    pub(super) fn class(&self, hit: Hit, word: &[u8], names: &Names) -> Option<Class> {
        let head = &self.text[..self.text.len().min(NAME)];
        if hit.class == Class::Password {
            return (!words_of(head).any(|part| matches(&["forgot", "reset", "show", "hide"], part)))
                .then_some(Class::Password);
        }
        if words_of(head)
            .any(|part| names.harmless.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(part)))
        {
            return None;
        }
        if word.eq_ignore_ascii_case(b"token") && hit.class == Class::Token {
            let strong = names.strengthens.iter().any(|known| {
                ends_with_any(without_joiner(&head[..head.len() - word.len().min(head.len())]), &[known])
            });
            return Some(if strong { Class::Secret } else { Class::Token });
        }
        if !word.eq_ignore_ascii_case(b"key") {
            return Some(hit.class);
        }
        let head_only = &head[..head.len() - word.len().min(head.len())];
        let strong = |before: &[u8]| names.strengthens.iter().any(|known| ends_with_any(before, &[known]));
        let own_word = words_of(head).count() == 1 && head.len() <= word.len() + 2;
        if !own_word {
            return Some(if strong(without_joiner(head_only)) { Class::Secret } else { hit.class });
        }
        if matches!(self.before.last(), Some(b'?' | b'&')) {
            return Some(hit.class);
        }
        // A bare `key` names nothing by itself: maps, caches and sort orders have keys. The word before it may.
        let before = self.word_before();
        let says_nothing = before.is_empty()
            || names
                .filling
                .iter()
                .chain(&names.harmless)
                .any(|known| known.as_bytes().eq_ignore_ascii_case(before));
        match says_nothing {
            true => None,
            false if strong(before) => Some(Class::Secret),
            false => Some(hit.class),
        }
    }

    /// The word that stands before the name, one space away.
    fn word_before(&self) -> &[u8] {
        let Some(rest) = self.before.strip_suffix(b" ") else { return b"" };
        let length = rest
            .iter()
            .rev()
            .take(24)
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        &rest[rest.len() - length..]
    }

    pub(super) fn place(&self, text: &[u8], separator: Separator, end: usize, names: &Names) -> Place {
        let lower = self.text.to_ascii_lowercase();
        let header = lower.starts_with(b"x-") || names.headers.iter().any(|known| known.as_bytes() == lower);
        let encoded = self.before.len() >= 3
            && [&b"%3f"[..], b"%26"]
                .iter()
                .any(|mark| self.before[self.before.len() - 3..].eq_ignore_ascii_case(mark));
        let in_query = matches!(self.before.last(), Some(b'?' | b'&' | b'#')) || encoded;
        let form = separator == Separator::Encoded || matches!(text.get(end), Some(b'&'));
        match separator {
            Separator::Equals | Separator::Encoded if in_query || form => Place::Query,
            Separator::Colon | Separator::Space if header => Place::Header,
            _ if self.text.starts_with(b"--")
                || (self.text.starts_with(b"-") && self.before.ends_with(b" ")) =>
            {
                Place::Flag
            }
            Separator::Colon | Separator::Pair | Separator::Comma | Separator::Below | Separator::Tag => {
                Place::Field
            }
            _ if self.is_quoted() => Place::Field,
            _ => Place::Assignment,
        }
    }

    pub(super) fn is_quoted(&self) -> bool {
        matches!(self.before.last(), Some(b'"' | b'\'' | b'`'))
    }

    /// `("name"`, `["name"`, `, "name"`: an argument or an element.
    pub(super) fn is_argument(&self) -> bool {
        let before = self.before_quote();
        matches!(before.last(), Some(b'(' | b'[' | b','))
    }

    /// `? 'name'`: one of the two that are chosen from.
    pub(super) fn is_chosen(&self) -> bool {
        self.before_quote().ends_with(b"?")
    }

    fn before_quote(&self) -> &[u8] {
        let tail = &self.before[self.before.len().saturating_sub(16)..];
        let quotes = tail.iter().rev().take_while(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'\\')).count();
        tail[..tail.len() - quotes].trim_ascii_end()
    }

    pub(super) fn is_shouted(&self) -> bool {
        self.text.iter().all(|byte| !byte.is_ascii_lowercase())
    }

    /// `with password`, `set password`: statements that take it as their next word.
    pub(super) fn follows_with(&self) -> bool {
        matches(&["with", "set", "encrypted", "login", "by"], self.word_before())
    }

    /// `smtp_password`, `auth-pass`: what no sentence says.
    pub(super) fn is_compound(&self) -> bool {
        self.text.iter().any(|byte| matches!(byte, b'_' | b'-' | b'.')) && !self.text.starts_with(b"-")
    }

    /// `secrets`, `dbCredentials`: the place or the list of many.
    pub(super) fn is_plural(&self) -> bool {
        self.text.last().is_some_and(|byte| byte.eq_ignore_ascii_case(&b's'))
            && !ends_with_any(self.text, &["pass", "access"])
    }

    /// Whether the line of the value at `at` is indented more than the name's own.
    pub(super) fn is_left_of(&self, text: &[u8], at: usize) -> bool {
        let column =
            |at: usize| text[..at].iter().rev().take(NAME).take_while(|byte| **byte != b'\n').count();
        column(at) > column(self.before.len())
    }

    /// Pairs stand before it that no code writes so: `user=bob,password=…`, `host=db user=app password=…`.
    pub(super) fn is_among_pairs(&self) -> bool {
        let tail = &self.before[self.before.len().saturating_sub(NAME)..];
        let Some((b' ' | b',' | b';', rest)) = tail.split_last() else { return false };
        let word = rest.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
        let pair = memchr::memchr(b'=', word).is_some_and(|at| at > 0 && at + 1 < word.len());
        pair && !word.ends_with(b",") && !word.iter().any(|byte| b"()[]{}<>\"'`\\".contains(byte))
    }

    /// Nothing but indentation, a list dash, a comment mark or `export` stands before the name.
    pub(super) fn starts_line(&self) -> bool {
        starts_line(self.before)
    }
}

pub(super) fn matches(known: &[&str], word: &[u8]) -> bool {
    known.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

/// `api_` without what joins it to the next word.
fn without_joiner(head: &[u8]) -> &[u8] {
    let joiners = head.iter().rev().take_while(|byte| matches!(byte, b'_' | b'-' | b'.')).count();
    &head[..head.len() - joiners]
}

/// The words of a name: `dbPassword`, `DB_PASSWORD` and `db-password` all have two.
pub(super) fn words_of(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| !byte.is_ascii_alphanumeric())
        .flat_map(|part| part.chunk_by(|a, b| !(a.is_ascii_lowercase() && b.is_ascii_uppercase())))
        .filter(|word| !word.is_empty())
}
