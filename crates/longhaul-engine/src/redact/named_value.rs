//! Finds secrets that only the name before them reveals: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization:
//! Bearer …`, `?token=…`.
//!
//! A keyword hit is the last word of a name. From there the text is read once to the right: the rest of the
//! name, the separator, the value. Only if all of that fits, a bounded number of bytes to the left is read
//! for the other words of the name. Every step is bounded except the value, whose end `RunCache` remembers.

use super::examined::examined_part;
use super::key_shape::{Alphabet, RunCache};
use super::rules::{KeywordMeaning, NameWords, StandardRules};
use super::secret_name::{
    KeywordHit, MAX_NAME_BYTES, NamePlace, SecretName, ends_with_any, is_any_of, name_end, name_start, starts_word,
};
use super::separator::{Separator, ends_line, find_separator, find_value_range, skip_blanks};
use super::value::{self, NameClass, ValueStyle};
use super::{label, url};

/// A secret value with the class and the place of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamedValue {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: NameClass,
    pub(super) place: NamePlace,
}

/// Finds the secret value of the name that ends at this keyword hit. The cheap tests are first.
pub(super) fn find_value(runs: &RunCache, hit: KeywordHit, rules: &StandardRules) -> Option<NamedValue> {
    let text = runs.text;
    let name_end = name_end(text, hit, &rules.names)?;
    if hit.whole_word && !starts_word(text, hit.start) {
        return None;
    }
    let (separator, at) = find_separator(text, name_end)?;
    // `key-1f2e…` by itself is an ID; `service-key-1f2e…` is not.
    let joined = hit.start > 0 && Alphabet::Dotted.contains(text[hit.start - 1]);
    if separator == Separator::Dash && !joined && text[hit.start..hit.end].eq_ignore_ascii_case(b"key") {
        return None;
    }
    let (start, end, quoted) = find_value_range(runs, at, separator)?;
    let (start, end) = strip_auth_scheme(runs, start, end, &rules.names, hit.class);
    let value = &text[start..end];
    let word = &text[hit.start..hit.end];
    if (!quoted && is_not_a_value(text, value, end, separator)) || !can_reach_value(separator, word, value) {
        return None;
    }
    // After a space the value is most likely part of a sentence. More is possible only if the value may have
    // its line to itself.
    let loosest = match separator {
        Separator::Dash => ValueStyle::InProse,
        Separator::Space if !quoted && !ends_line(text, end) && !is_flag_name(text, hit.start) => ValueStyle::InProse,
        _ => ValueStyle::BareValue,
    };
    if !value::fits_class(value, hit.class.max(NameClass::Secret), loosest) {
        return None;
    }
    let name_start = name_start(text, hit.start);
    let name = SecretName { text: &text[name_start..name_end], before: &text[..name_start] };
    let class = name.classify(hit, word, &rules.names)?;
    let place = name.place(text, separator, end, &rules.names);
    let found = NamedValue { start, end, class, place };
    let written = value_style(text, &name, separator, quoted, &found);
    if is_false_positive(text, &name, word, separator, quoted, &found) {
        return None;
    }
    // In a connection string any word can be a password.
    let listed = class == NameClass::Password
        && written == ValueStyle::BareValue
        && text.get(end) == Some(&b';')
        && !rules.placeholders.is_reference_or_template(value)
        && url::connection_string_around(text, start, end).is_some();
    (listed || value::is_secret(value, class, written, &rules.placeholders)).then_some(found)
}

/// Whether a name and its value are something else: part of a list of names, a test result, a branch of a
/// condition, a sentence or a label.
fn is_false_positive(
    text: &[u8],
    name: &SecretName,
    word: &[u8],
    separator: Separator,
    quoted: bool,
    found: &NamedValue,
) -> bool {
    let value = &text[found.start..found.end];
    let broken_json = !quoted && name.is_quoted() && !value.iter().take(64).any(u8::is_ascii_alphabetic);
    let misplaced = found.class == NameClass::QueryToken && found.place != NamePlace::Query;
    let verdict = separator == Separator::Colon && word.eq_ignore_ascii_case(b"pass") && !name.is_quoted();
    let not_a_tag = separator == Separator::XmlTag && name.before.last() != Some(&b'<');
    let prose = found.class == NameClass::Header
        && found.start == next_word_start(text, name)
        && !value.iter().take(MAX_NAME_BYTES).any(u8::is_ascii_digit);
    // A list of names has only names in it, and none of them looks random.
    let list = separator == Separator::Comma
        && !(name.is_argument() && is_last_in_list(text, found.end) && !value::looks_like_words(value))
        && !value::looks_random(value, 20);
    let place_of_many = name.is_plural() && value::is_resource_name(value);
    let choice = separator == Separator::Colon && name.is_quoted() && name.is_conditional_branch();
    let id = is_any_of(&["session", "sessionid", "sid"], word) && value::is_uuid(value);
    let repeated = name.text.eq_ignore_ascii_case(value.strip_suffix(b"=").unwrap_or(value));
    let label = quoted
        && found.place == NamePlace::Field
        && label::is_among_labels(text, found.start.saturating_sub(name.text.len() + 4), found.start, found.end);
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

/// Returns where the next word after the name begins.
fn next_word_start(text: &[u8], name: &SecretName) -> usize {
    skip_blanks(text, name.before.len() + name.text.len())
}

/// Whether the quoted value that ends here is the last one of its list.
fn is_last_in_list(text: &[u8], end: usize) -> bool {
    let rest = &text[end..text.len().min(end + 8)];
    let quote = rest.iter().take_while(|byte| matches!(byte, b'\\' | b'"' | b'\'' | b'`')).count();
    matches!(rest[quote..].trim_ascii_start().first(), Some(b')' | b']'))
}

/// Whether a name with this last word can be the name of a value across this separator. Across a space or a
/// dash only unambiguous words can: names of sessions and directories have dashes, too, and `private` is a
/// word of many languages.
fn can_reach_value(separator: Separator, word: &[u8], value: &[u8]) -> bool {
    let telling = ends_with_any(word, &["secret", "token", "key", "access", "private", "bearer"]);
    let shouted = word.iter().all(u8::is_ascii_uppercase);
    match separator {
        Separator::Dash => telling && value.len() >= 20 && !value::is_file_name(value),
        Separator::Space => {
            shouted || !is_any_of(&["private", "access", "login", "session", "auth", "pat", "jwt", "sid"], word)
        }
        _ => true,
    }
}

/// Whether the text after the separator is no value of the name: a call, another name and its value, the rest
/// of a dashed name, or truncated text.
fn is_not_a_value(text: &[u8], value: &[u8], end: usize, separator: Separator) -> bool {
    let word = |most| value.iter().take(most).take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
    let followed_by_call = matches!(text.get(end), Some(b'(' | b'[' | b'{'));
    let elided = text[end..].starts_with(b"...");
    let goes_on = if separator == Separator::Dash {
        let length = word(16);
        length < 16 && value.get(length).is_some_and(|byte| matches!(byte, b'-' | b'=' | b'.'))
    } else {
        let length = word(MAX_NAME_BYTES);
        value.get(length) == Some(&b'=') && value.get(length + 1).is_some_and(|byte| *byte != b'=')
    };
    followed_by_call || elided || goes_on
}

/// Finds the secret in the value of a JSON field with this name. Returns its byte range in the value and its
/// class.
pub(super) fn find_in_field(name: &[u8], value: &[u8], rules: &StandardRules) -> Option<(usize, usize, NameClass)> {
    let name = &name[name.len().saturating_sub(MAX_NAME_BYTES)..];
    let hits =
        rules.word_finder.find_iter(name).filter_map(|found| match rules.word_meanings[found.pattern().as_usize()] {
            KeywordMeaning::SecretName { class, whole, cookie: false } if class != NameClass::QueryToken => {
                Some(KeywordHit { start: found.start(), end: found.end(), class, whole_word: whole })
            }
            _ => None,
        });
    let hit = hits.last()?;
    if name_end(name, hit, &rules.names)? != name.len() || (hit.whole_word && !starts_word(name, hit.start)) {
        return None;
    }
    let class = SecretName { text: name, before: b"" }.classify(hit, &name[hit.start..hit.end], &rules.names)?;
    let (start, end) = strip_auth_scheme(&RunCache::new(value), 0, value.len(), &rules.names, class);
    value::is_secret(&value[start..end], class, ValueStyle::Quoted, &rules.placeholders).then_some((start, end, class))
}

/// Skips the authentication scheme of a value: in `Bearer abc` only `abc` is the secret. The value of a
/// header with a scheme ends at its next space.
fn strip_auth_scheme(runs: &RunCache, start: usize, end: usize, names: &NameWords, class: NameClass) -> (usize, usize) {
    let text = runs.text;
    let word_end = start + text[start..].iter().take(20).take_while(|byte| !byte.is_ascii_whitespace()).count();
    let word = std::str::from_utf8(&text[start..word_end.min(text.len())]).unwrap_or_default();
    let is_scheme = word.len() < 20 && names.auth_schemes.iter().any(|scheme| scheme.eq_ignore_ascii_case(word));
    if !is_scheme || class == NameClass::Password {
        return (start, end);
    }
    let start = skip_blanks(text, word_end);
    (start, runs.run_end(Alphabet::Bare, start))
}

fn value_style(text: &[u8], name: &SecretName, separator: Separator, quoted: bool, found: &NamedValue) -> ValueStyle {
    let alone = name.starts_line() && ends_line(text, found.end);
    let value = examined_part(&text[found.start..found.end]);
    let telling = || value.iter().any(u8::is_ascii_digit) || value::has_several_words(value);
    match separator {
        Separator::Space if found.place == NamePlace::Flag => ValueStyle::BareValue,
        // For example `WITH PASSWORD 'x'` or `with password "x"`.
        Separator::Space if quoted && (name.is_uppercase() || name.follows_statement_verb()) => ValueStyle::Quoted,
        // For example `smtp_password x` in a file of settings.
        Separator::Space if alone && !quoted && name.is_compound() && telling() => ValueStyle::OwnLine,
        // YAML continues a value on an indented line. The line below a prompt may be anything.
        Separator::NextLine if name.starts_line() && name.is_indented_less_than(text, found.start) => {
            ValueStyle::OwnLine
        }
        Separator::Space | Separator::Dash | Separator::NextLine => ValueStyle::InProse,
        _ if quoted => ValueStyle::Quoted,
        // A list of variables has the value on the line below the name.
        Separator::ValueKeyword if ends_line(text, found.end) => ValueStyle::OwnLine,
        Separator::Equals | Separator::EncodedEquals
            if found.place == NamePlace::Query || name.is_uppercase() || name.follows_pair() =>
        {
            ValueStyle::BareValue
        }
        Separator::Equals if text.get(found.end) == Some(&b';') => ValueStyle::BareValue,
        Separator::Colon | Separator::Equals if alone => ValueStyle::OwnLine,
        Separator::Assign if alone && (name.is_uppercase() || !value::is_identifier(value)) => ValueStyle::OwnLine,
        _ => ValueStyle::MaybeCode,
    }
}

/// Whether the word that begins here is part of an option: `--db-password`.
fn is_flag_name(text: &[u8], start: usize) -> bool {
    let name = name_start(text, start);
    text[name..].starts_with(b"-")
}
