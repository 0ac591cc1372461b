//! Secrets that only their name gives away: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization: Bearer …`, `?token=…`.
//!
//! A keyword hit is the last word of a name. From there the text is read once to the right (rest of the name, separator,
//! value) and, only if all that fits, a bounded step to the left for the words before it. No step is longer than the
//! lengths below except the value itself, whose end is remembered by `Runs`.

use super::judged::judged;
use super::name::{Hit, NAME, Name, Place, ends_with_any, matches, name_end, name_start, starts_word};
use super::rules::{Meaning, Names, Standard};
use super::separator::{Separator, ends_line, separator, skip_blanks, value_range};
use super::shape::{Alphabet, Runs};
use super::value::{self, Class, Written};
use super::{label, url};

/// A named value and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: Class,
    pub(super) place: Place,
}

/// The value that the name ending at this hit gives away, if it is a secret. What is cheap to refuse is refused first.
pub(super) fn value_at(runs: &Runs, hit: Hit, rules: &Standard) -> Option<Named> {
    let text = runs.text;
    let name_end = name_end(text, hit, &rules.names)?;
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
    // Behind a blank, words in a sentence are the most: more is only looked at where the value may have its line to itself.
    let loosest = match separator {
        Separator::Dash => Written::Spoken,
        Separator::Space if !quoted && !ends_line(text, end) && !is_flag(text, hit.start) => Written::Spoken,
        _ => Written::Tight,
    };
    if !value::fits(value, hit.class.max(Class::Secret), loosest) {
        return None;
    }
    let name_start = name_start(text, hit.start);
    let name = Name { text: &text[name_start..name_end], before: &text[..name_start] };
    let class = name.class(hit, word, &rules.names)?;
    let place = name.place(text, separator, end, &rules.names);
    let found = Named { start, end, class, place };
    let written = written(text, &name, separator, quoted, &found);
    if is_something_else(text, &name, word, separator, quoted, &found) {
        return None;
    }
    // In a connection string any word is a password.
    let listed = class == Class::Password
        && written == Written::Tight
        && text.get(end) == Some(&b';')
        && !rules.placeholders.is_blank(value)
        && url::connection_string(text, start, end).is_some();
    (listed || value::is_secret(value, class, written, &rules.placeholders)).then_some(found)
}

/// What has the form of a name and its value and is none: a list of names, a verdict, a choice, a sentence, a label.
fn is_something_else(
    text: &[u8],
    name: &Name,
    word: &[u8],
    separator: Separator,
    quoted: bool,
    found: &Named,
) -> bool {
    let value = &text[found.start..found.end];
    let broken_json = !quoted && name.is_quoted() && !value.iter().take(64).any(u8::is_ascii_alphabetic);
    let misplaced = found.class == Class::Query && found.place != Place::Query;
    let verdict = separator == Separator::Colon && word.eq_ignore_ascii_case(b"pass") && !name.is_quoted();
    let not_a_tag = separator == Separator::Tag && name.before.last() != Some(&b'<');
    let prose = found.class == Class::Header
        && found.start == at_name_end(text, name)
        && !value.iter().take(NAME).any(u8::is_ascii_digit);
    // A list of names has names in it, and nothing that was drawn at random.
    let list = separator == Separator::Comma
        && !(name.is_argument() && is_last(text, found.end) && !value::is_wordy(value))
        && !value::is_dense(value, 20);
    let place_of_many = name.is_plural() && value::is_resource_name(value);
    let choice = separator == Separator::Colon && name.is_quoted() && name.is_chosen();
    let id = matches(&["session", "sessionid", "sid"], word) && value::is_uuid(value);
    let repeated = name.text.eq_ignore_ascii_case(value.strip_suffix(b"=").unwrap_or(value));
    let label = quoted
        && found.place == Place::Field
        && label::among_labels(text, found.start.saturating_sub(name.text.len() + 4), found.start, found.end);
    broken_json
        || misplaced
        || verdict
        || not_a_tag
        || prose
        || list
        || choice
        || id
        || repeated
        || label
        || place_of_many
}

/// Where a value would begin that only blanks part from the name.
fn at_name_end(text: &[u8], name: &Name) -> usize {
    skip_blanks(text, name.before.len() + name.text.len())
}

/// Whether the quoted value that ends here is the last of its list.
fn is_last(text: &[u8], end: usize) -> bool {
    let rest = &text[end..text.len().min(end + 8)];
    let quote = rest.iter().take_while(|byte| matches!(byte, b'\\' | b'"' | b'\'' | b'`')).count();
    matches!(rest[quote..].trim_ascii_start().first(), Some(b')' | b']'))
}

/// Whether a name may reach its value over this separator. Over a space or a dash only words that mean little else do:
/// sessions and directories have dashes in their names too, and `private` is a word of many languages.
fn names_across(separator: Separator, word: &[u8], value: &[u8]) -> bool {
    let telling = ends_with_any(word, &["secret", "token", "key", "access", "private", "bearer"]);
    let shouted = word.iter().all(u8::is_ascii_uppercase);
    match separator {
        Separator::Dash => telling && value.len() >= 20 && !value::is_file_name(value),
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
    if name_end(name, hit, &rules.names)? != name.len() || (hit.whole && !starts_word(name, hit.start)) {
        return None;
    }
    let class = Name { text: name, before: b"" }.class(hit, &name[hit.start..hit.end], &rules.names)?;
    let (start, end) = without_scheme(&Runs::over(value), 0, value.len(), &rules.names, class);
    value::is_secret(&value[start..end], class, Written::Quoted, &rules.placeholders)
        .then_some((start, end, class))
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

fn written(text: &[u8], name: &Name, separator: Separator, quoted: bool, found: &Named) -> Written {
    let alone = name.starts_line() && ends_line(text, found.end);
    let value = judged(&text[found.start..found.end]);
    let telling = || value.iter().any(u8::is_ascii_digit) || value::is_made_of_words(value);
    match separator {
        Separator::Space if found.place == Place::Flag => Written::Tight,
        // `WITH PASSWORD 'x'`, `with password "x"`.
        Separator::Space if quoted && (name.is_shouted() || name.follows_with()) => Written::Quoted,
        // `smtp_password x` on a line of settings.
        Separator::Space if alone && !quoted && name.is_compound() && telling() => Written::Line,
        // As YAML continues a value; what a prompt is followed by may be anything.
        Separator::Below if name.starts_line() && name.is_left_of(text, found.start) => Written::Line,
        Separator::Space | Separator::Dash | Separator::Below => Written::Spoken,
        _ if quoted => Written::Quoted,
        // The line below a name in a list of variables.
        Separator::Pair if ends_line(text, found.end) => Written::Line,
        Separator::Equals | Separator::Encoded
            if found.place == Place::Query || name.is_shouted() || name.is_among_pairs() =>
        {
            Written::Tight
        }
        Separator::Equals if text.get(found.end) == Some(&b';') => Written::Tight,
        Separator::Colon | Separator::Equals if alone => Written::Line,
        Separator::Assign if alone && (name.is_shouted() || !value::is_identifier(value)) => Written::Line,
        _ => Written::Loose,
    }
}

/// Whether the word that begins here is part of an option: `--db-password`.
fn is_flag(text: &[u8], start: usize) -> bool {
    let name = name_start(text, start);
    text[name..].starts_with(b"-")
}
