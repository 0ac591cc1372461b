//! Secrets that only their name gives away: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization: Bearer …`, `?token=…`.
//!
//! A keyword hit is the last word of a name. From there the text is read once to the right (rest of the name, separator,
//! value) and, only if all that fits, a bounded step to the left for the words before it. No step is longer than the
//! lengths below except the value itself, whose end is remembered by `Runs`.

use super::rules::{Meaning, Names, Standard};
use super::shape::{Alphabet, Runs};
use super::url;
use super::value::{self, Class, Written};

/// A name is not longer than this, nor is the space around a separator.
const NAME: usize = 64;
const SPACE: usize = 40;

/// A hit of the keyword gate: where the word stands and what it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: Class,
    /// The word counts only where it is a word of its own.
    pub(super) whole: bool,
}

/// A named value and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: Class,
    pub(super) place: Place,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// `=` without space before it.
    Equals,
    /// `%3D` in a URL that is itself a parameter.
    Encoded,
    /// `=` with space, `:=`, `=>`.
    Assign,
    Colon,
    /// `"name", "value"`, or `name="x" value="y"`.
    Pair,
    /// `<name>value</name>`
    Tag,
    Space,
    Dash,
}

/// The value that the name ending at this hit gives away, if it is a secret. What is cheap to refuse is refused first.
pub(super) fn value_at(runs: &Runs, hit: Hit, rules: &Standard) -> Option<Named> {
    let text = runs.text;
    let name_end = name_end(text, hit)?;
    if hit.whole && !starts_word(text, hit.start) {
        return None;
    }
    let (separator, at) = separator(text, name_end)?;
    // `key-1f2e…` by itself is an id; `service-key-1f2e…` is not.
    let joined = hit.start > 0 && Alphabet::Dotted.holds(text[hit.start - 1]);
    if separator == Separator::Dash && !joined && text[hit.start..hit.end].eq_ignore_ascii_case(b"key") {
        return None;
    }
    let (start, end, quoted) = value_range(runs, at, separator)?;
    let (start, end) = without_scheme(runs, start, end, &rules.names, hit.class);
    let value = &text[start..end];
    let word = &text[hit.start..hit.end];
    if (!quoted && is_no_value(text, value, end, separator)) || !names_across(separator, word, value) {
        return None;
    }
    let loosest = if matches!(separator, Separator::Space | Separator::Dash) {
        Written::Spoken
    } else {
        Written::Tight
    };
    if !value::fits(value, hit.class.max(Class::Secret), loosest) {
        return None;
    }
    let name_start = name_start(text, hit.start);
    let name = Name { text: &text[name_start..name_end], before: &text[..name_start] };
    let class = name.class(hit, word, &rules.names)?;
    let place = name.place(text, separator, end, &rules.names);
    let written = written(text, &name, separator, end, quoted, place);
    let broken_json = !quoted && name.is_quoted() && !value.iter().take(64).any(u8::is_ascii_alphabetic);
    let misplaced = class == Class::Query && place != Place::Query;
    let verdict = separator == Separator::Colon && word.eq_ignore_ascii_case(b"pass") && !name.is_quoted();
    let not_a_tag = separator == Separator::Tag && name.before.last() != Some(&b'<');
    if broken_json
        || misplaced
        || verdict
        || not_a_tag
        || name.text.eq_ignore_ascii_case(value.strip_suffix(b"=").unwrap_or(value))
    {
        return None;
    }
    // In a connection string any word is a password.
    let listed = class == Class::Password
        && written == Written::Tight
        && text.get(end) == Some(&b';')
        && !rules.placeholders.is_blank(value)
        && url::connection_string(text, start, end).is_some();
    (listed || value::is_secret(value, class, written, &rules.placeholders)).then_some(Named {
        start,
        end,
        class,
        place,
    })
}

/// Whether a name may reach its value over this separator. Over a space or a dash only words that mean little else do:
/// sessions and directories have dashes in their names too, and `private` is a word of many languages.
fn names_across(separator: Separator, word: &[u8], value: &[u8]) -> bool {
    let telling = matches(&["secret", "token", "key", "access", "private", "apikey", "bearer"], word);
    let shouted = word.iter().all(u8::is_ascii_uppercase);
    match separator {
        Separator::Dash => telling && value.len() >= 20,
        Separator::Space => {
            shouted || !matches(&["private", "access", "login", "session", "auth", "pat", "jwt", "sid"], word)
        }
        _ => true,
    }
}

/// A call, a name and its value, the next words of a dashed name, or text that was cut short: no value of the name before it.
fn is_no_value(text: &[u8], value: &[u8], end: usize, separator: Separator) -> bool {
    let word = |most| {
        value.iter().take(most).take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count()
    };
    let followed_by_call = matches!(text.get(end), Some(b'(' | b'[' | b'{'));
    let elided = text[end..].starts_with(b"...");
    let goes_on = if separator == Separator::Dash {
        let length = word(16);
        length < 16 && value.get(length).is_some_and(|byte| matches!(byte, b'-' | b'=' | b'.'))
    } else {
        let length = word(NAME);
        value.get(length) == Some(&b'=') && value.get(length + 1).is_some_and(|byte| *byte != b'=')
    };
    followed_by_call || elided || goes_on
}

/// The secret in the value of a JSON field with this name.
pub(super) fn field(name: &[u8], value: &[u8], rules: &Standard) -> Option<(usize, usize, Class)> {
    let name = &name[name.len().saturating_sub(NAME)..];
    let hits = rules.words.find_iter(name).filter_map(|found| {
        match rules.word_meanings[found.pattern().as_usize()] {
            Meaning::Named { class, whole, cookie: false } if class != Class::Query => {
                Some(Hit { start: found.start(), end: found.end(), class, whole })
            }
            _ => None,
        }
    });
    let hit = hits.last()?;
    if name_end(name, hit)? != name.len() || (hit.whole && !starts_word(name, hit.start)) {
        return None;
    }
    let class = Name { text: name, before: b"" }.class(hit, &name[hit.start..hit.end], &rules.names)?;
    let (start, end) = without_scheme(&Runs::over(value), 0, value.len(), &rules.names, class);
    value::is_secret(&value[start..end], class, Written::Quoted, &rules.placeholders)
        .then_some((start, end, class))
}

/// Where the name ends: after a number or one of the few words that may follow. Anything else makes it another name.
fn name_end(text: &[u8], hit: Hit) -> Option<usize> {
    const TAILS: [&[u8]; 7] = [b"_value", b"Value", b"_id", b"Id", b"ID", b"_ID", b"_base64"];
    let rest = &text[hit.end..text.len().min(hit.end + 16)];
    let mut end = hit.end;
    if let Some(tail) = TAILS.iter().find(|tail| rest.starts_with(tail)) {
        let is_id = tail.to_ascii_lowercase().ends_with(b"id");
        let access_key =
            is_id && ends_with_any(&text[..hit.end], &["accesskey", "access_key", "access-key", "access"]);
        if access_key || !is_id {
            end += tail.len();
        }
    }
    while text.get(end).is_some_and(u8::is_ascii_digit) && end < hit.end + 12 {
        end += 1;
    }
    let goes_on = text.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (!goes_on).then_some(end)
}

fn ends_with_any(text: &[u8], ends: &[&str]) -> bool {
    ends.iter().any(|end| {
        text.len() >= end.len() && text[text.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    })
}

fn name_start(text: &[u8], end: usize) -> usize {
    let floor = end.saturating_sub(NAME);
    let name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (floor..end).rev().find(|&at| !name(text[at])).map_or(floor, |at| at + 1)
}

/// A lower case word behind a letter is part of a longer word; an upper case one behind a lower case one is not.
fn starts_word(text: &[u8], start: usize) -> bool {
    let Some(&before) = start.checked_sub(1).and_then(|at| text.get(at)) else { return true };
    !before.is_ascii_alphabetic() || (before.is_ascii_lowercase() && text[start].is_ascii_uppercase())
}

fn separator(text: &[u8], name_end: usize) -> Option<(Separator, usize)> {
    let (quoted, after_quote) = closing_quote(text, name_end);
    let bracket = if quoted && text.get(after_quote) == Some(&b']') { after_quote + 1 } else { after_quote };
    let at = skip_blanks(text, bracket);
    let rest = &text[at..text.len().min(at + NAME)];
    let spaced = at > bracket;
    match rest.first()? {
        b'=' if rest.starts_with(b"=>") => Some((Separator::Assign, skip_blanks(text, at + 2))),
        b'=' if rest.starts_with(b"==") || rest.starts_with(b"=~") => None,
        b'=' if spaced => Some((Separator::Assign, skip_blanks(text, at + 1))),
        b'=' => Some((Separator::Equals, skip_blanks(text, at + 1))),
        b':' => colon(text, at),
        b'%' if rest.len() > 2 && rest[..3].eq_ignore_ascii_case(b"%3d") => {
            Some((Separator::Encoded, at + 3))
        }
        b'%' if rest.len() > 2 && rest[..3].eq_ignore_ascii_case(b"%3a") => Some((Separator::Colon, at + 3)),
        b'>' if !spaced && !quoted => Some((Separator::Tag, at + 1)),
        b',' if quoted && bracket == after_quote => pair(text, at + 1),
        _ if quoted => value_keyword(text, at).map(|at| (Separator::Pair, at)),
        b'\n' | b'\r' => value_keyword(text, at).map(|at| (Separator::Pair, at)),
        b'i' if spaced && rest.starts_with(b"is ") => Some((Separator::Space, skip_blanks(text, at + 3))),
        b'-' if !spaced => Some((Separator::Dash, at + 1)),
        b'{' | b'|' | b'(' | b')' | b'}' | b'/' | b'.' | b';' | b'&' | b'?' | b'!' => None,
        _ if spaced => Some((Separator::Space, at)),
        _ => None,
    }
}

fn colon(text: &[u8], at: usize) -> Option<(Separator, usize)> {
    let colons = text[at..].iter().take(4).take_while(|&&byte| byte == b':').count();
    if text.get(at + colons) == Some(&b'=') {
        return Some((Separator::Assign, skip_blanks(text, at + colons + 1)));
    }
    // `Token::Word` is a path in code, not a name and its value.
    (colons == 1).then(|| (Separator::Colon, skip_blanks(text, at + 1)))
}

/// `"name", "value"` or `"name": "API_KEY", "value": "…"`.
fn pair(text: &[u8], at: usize) -> Option<(Separator, usize)> {
    if let Some(at) = value_keyword(text, at) {
        return Some((Separator::Pair, at));
    }
    let at = skip_blanks(text, at);
    matches!(text.get(at)?, b'"' | b'\'' | b'\\').then_some((Separator::Pair, at))
}

/// `value:` or `default =` behind a name, on the same line or the next.
fn value_keyword(text: &[u8], at: usize) -> Option<usize> {
    let blank = |byte: &&u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'{' | b'\\');
    let at = at + text[at..].iter().take(SPACE).take_while(blank).count();
    let word = ["value", "default", "Value"].iter().find(|word| text[at..].starts_with(word.as_bytes()))?;
    let (_, after) = closing_quote(text, at + word.len());
    let at = skip_blanks(text, after);
    matches!(text.get(at)?, b'=' | b':').then(|| skip_blanks(text, at + 1))
}

fn skip_blanks(text: &[u8], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take(SPACE).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// A quote that ends a name, with the backslashes of an outer string before it.
fn closing_quote(text: &[u8], at: usize) -> (bool, usize) {
    let slashes = text[at.min(text.len())..].iter().take(4).take_while(|&&byte| byte == b'\\').count();
    match text.get(at + slashes) {
        Some(b'"' | b'\'' | b'`') => (true, at + slashes + 1),
        _ => (false, at),
    }
}

/// The value from `at`, without its quotes, and whether it had any.
fn value_range(runs: &Runs, at: usize, separator: Separator) -> Option<(usize, usize, bool)> {
    let text = runs.text;
    if separator == Separator::Tag {
        let end = at + memchr::memchr(b'<', &text[at..text.len().min(at + 4096)])?;
        return Some((at, end, true));
    }
    let at = past_line_break(text, at);
    // `b"…"`, `r'…'` and their like.
    let prefixed =
        text.get(at).is_some_and(u8::is_ascii_alphabetic) && matches!(text.get(at + 1), Some(b'"' | b'\''));
    let at = at + usize::from(prefixed);
    let (quoted, inner) = closing_quote(text, at);
    if quoted {
        let slashes = inner - at - 1;
        if let Some(end) = quote_end(text, inner, text[inner - 1], slashes) {
            return Some((inner, end, true));
        }
        // The text breaks off inside the value.
        let end = runs.end(Alphabet::Bare, inner);
        return (end == text.len()).then_some((inner, end, true));
    }
    let mut end = runs.end(Alphabet::Bare, at);
    if separator == Separator::Encoded {
        end = end.min(runs.encoded_ampersand(at));
    }
    let trailing =
        text[at..end].iter().rev().take(3).take_while(|byte| matches!(byte, b'.' | b':' | b'?')).count();
    (end > at).then_some((at, end - trailing, false))
}

/// Formatters put a long string on the line after its name.
fn past_line_break(text: &[u8], at: usize) -> usize {
    if !matches!(text.get(at), Some(b'\n' | b'\r')) {
        return at;
    }
    let next = at + text[at..].iter().take(SPACE).take_while(|byte| byte.is_ascii_whitespace()).count();
    if matches!(text.get(next), Some(b'"' | b'\'')) { next } else { at }
}

/// The closing quote: on the same line, behind no more backslashes than the opening one.
fn quote_end(text: &[u8], from: usize, quote: u8, slashes: usize) -> Option<usize> {
    let limit = text.len().min(from + (64 << 10));
    let mut at = from;
    loop {
        let found = at + memchr::memchr2(quote, b'\n', &text[at..limit])?;
        if text[found] == b'\n' {
            return None;
        }
        let escapes = text[from..found].iter().rev().take_while(|&&byte| byte == b'\\').count();
        if escapes <= slashes {
            return Some(found - escapes);
        }
        at = found + 1;
    }
}

/// `Bearer abc` is the scheme and the secret; the scheme stays. A quoted header value ends at its first space.
fn without_scheme(runs: &Runs, start: usize, end: usize, names: &Names, class: Class) -> (usize, usize) {
    let text = runs.text;
    let word_end =
        start + text[start..].iter().take(20).take_while(|byte| !byte.is_ascii_whitespace()).count();
    let word = std::str::from_utf8(&text[start..word_end.min(text.len())]).unwrap_or_default();
    let is_scheme = word.len() < 20 && names.schemes.iter().any(|scheme| scheme.eq_ignore_ascii_case(word));
    if !is_scheme || class == Class::Password {
        return (start, end);
    }
    let start = skip_blanks(text, word_end);
    (start, runs.end(Alphabet::Bare, start))
}

fn written(
    text: &[u8],
    name: &Name,
    separator: Separator,
    end: usize,
    quoted: bool,
    place: Place,
) -> Written {
    match separator {
        Separator::Space if place == Place::Flag => Written::Tight,
        Separator::Space | Separator::Dash => Written::Spoken,
        _ if quoted => Written::Quoted,
        Separator::Equals | Separator::Encoded if place == Place::Query || name.is_shouted() => {
            Written::Tight
        }
        Separator::Equals if text.get(end) == Some(&b';') => Written::Tight,
        Separator::Colon if name.starts_line() && ends_line(text, end) => Written::Line,
        _ => Written::Loose,
    }
}

fn ends_line(text: &[u8], at: usize) -> bool {
    matches!(text.get(skip_blanks(text, at)), None | Some(b'\n' | b'\r' | b'#'))
}

struct Name<'t> {
    text: &'t [u8],
    before: &'t [u8],
}

impl Name<'_> {
    /// The class of the name with the words before its last one, or nothing where they make it harmless.
    fn class(&self, hit: Hit, word: &[u8], names: &Names) -> Option<Class> {
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
        if !word.eq_ignore_ascii_case(b"key") {
            return Some(hit.class);
        }
        let head_only = &head[..head.len() - word.len().min(head.len())];
        let strong = |before: &[u8]| names.strengthens.iter().any(|known| ends_with_any(before, &[known]));
        let own_word = words_of(head).count() == 1 && head.len() <= word.len() + 2;
        if !own_word {
            return Some(if strong(without_joiner(head_only)) { Class::Secret } else { hit.class });
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

    fn place(&self, text: &[u8], separator: Separator, end: usize, names: &Names) -> Place {
        let lower = self.text.to_ascii_lowercase();
        let header = lower.starts_with(b"x-") || names.headers.iter().any(|known| known.as_bytes() == lower);
        let encoded = self.before.len() >= 3
            && [&b"%3f"[..], b"%26"]
                .iter()
                .any(|mark| self.before[self.before.len() - 3..].eq_ignore_ascii_case(mark));
        let in_query = matches!(self.before.last(), Some(b'?' | b'&')) || encoded;
        let form = separator == Separator::Encoded || matches!(text.get(end), Some(b'&'));
        match separator {
            Separator::Equals | Separator::Encoded if in_query || form => Place::Query,
            Separator::Colon | Separator::Space if header => Place::Header,
            _ if self.text.starts_with(b"--")
                || (self.text.starts_with(b"-") && self.before.ends_with(b" ")) =>
            {
                Place::Flag
            }
            Separator::Colon | Separator::Pair | Separator::Tag => Place::Field,
            _ if self.is_quoted() => Place::Field,
            _ => Place::Assignment,
        }
    }

    fn is_quoted(&self) -> bool {
        matches!(self.before.last(), Some(b'"' | b'\'' | b'`'))
    }

    fn is_shouted(&self) -> bool {
        self.text.iter().all(|byte| !byte.is_ascii_lowercase())
    }

    /// Nothing but indentation, a list dash, a comment mark or `export` stands before the name.
    fn starts_line(&self) -> bool {
        let tail = &self.before[self.before.len().saturating_sub(NAME)..];
        let line = tail.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'#'))
    }
}

fn matches(known: &[&str], word: &[u8]) -> bool {
    known.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

/// `api_` without what joins it to the next word.
fn without_joiner(head: &[u8]) -> &[u8] {
    let joiners = head.iter().rev().take_while(|byte| matches!(byte, b'_' | b'-' | b'.')).count();
    &head[..head.len() - joiners]
}

/// The words of a name: `dbPassword`, `DB_PASSWORD` and `db-password` all have two.
fn words_of(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| !byte.is_ascii_alphanumeric())
        .flat_map(|part| part.chunk_by(|a, b| !(a.is_ascii_lowercase() && b.is_ascii_uppercase())))
        .filter(|word| !word.is_empty())
}
