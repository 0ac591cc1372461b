//! Secrets told by the form around them: netrc lines, key lists, recovery phrases, what a command printed, and keys behind the
//! name of a service. Each form is looked for behind one of its words, within bounds.

use memchr::memmem;

use super::form::Form;
use super::label;
use super::rules::Standard;
use super::shape::{Alphabet, Runs, starts_clean};
use super::value::{self, Class, Written};

/// How far behind its word a form reaches.
const REACH: usize = 400;

impl Form {
    /// The secret of the form whose word ends at `at`, and its kind.
    pub(super) fn secret(
        self,
        text: &[u8],
        at: usize,
        rules: &Standard,
    ) -> Option<(&'static str, (usize, usize))> {
        match self {
            Self::Netrc => netrc(text, at, rules).map(|range| ("password", range)),
            Self::KeyList => listed_key(text, at).map(|range| ("secret", range)),
            Self::Phrase => phrase(text, at).map(|range| ("recovery-phrase", range)),
            Self::Output => output(text, at, rules).map(|range| ("secret", range)),
            Self::Decoded => {
                let command = &text[at.saturating_sub(REACH)..at];
                let command = command.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
                let reads_secret = [&b"secret"[..], b"password", b"token", b"credential"]
                    .iter()
                    .any(|word| memmem::find(command, word).is_some());
                output(text, at, rules).filter(|_| reads_secret).map(|range| ("secret", range))
            }
        }
    }
}

/// Words between blanks, by their place, from `at` on.
fn words(text: &[u8], at: usize) -> impl Iterator<Item = (usize, usize)> {
    let limit = text.len().min(at + REACH);
    let mut next = at;
    std::iter::from_fn(move || {
        let start = next + text[next..limit].iter().position(|byte| !byte.is_ascii_whitespace())?;
        let end = text[start..limit]
            .iter()
            .position(u8::is_ascii_whitespace)
            .map_or(limit, |length| start + length);
        next = end;
        Some((start, end))
    })
}

fn netrc(text: &[u8], at: usize, rules: &Standard) -> Option<(usize, usize)> {
    let word = |&(start, end): &(usize, usize)| &text[start..end];
    let mut words = words(text, at).take(9);
    // `machine readable login and password rules` is a sentence: machines have addresses.
    words.next().filter(|host| word(host).contains(&b'.') || word(host).starts_with(b"localhost"))?;
    let first = words.next()?;
    if !matches!(word(&first), b"login" | b"account" | b"password") {
        return None;
    }
    if word(&first) != b"password" {
        words.find(|range| word(range) == b"password")?;
    }
    let (start, end) = words.next()?;
    let end = start
        + text[start..end].iter().take_while(|byte| !matches!(byte, b'"' | b'\'' | b'\\' | b'`')).count();
    value::is_secret(&text[start..end], Class::Password, Written::Tight, &rules.placeholders)
        .then_some((start, end))
}

fn listed_key(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..text.len().min(at + REACH)];
    let behind = memmem::find(rest, b"value")? + 5;
    let gap = rest[behind..]
        .iter()
        .take_while(|byte| matches!(byte, b'"' | b'\'' | b'\\' | b':' | b' ' | b'='))
        .count();
    let start = at + behind + gap;
    let length = text[start..]
        .iter()
        .take(256)
        .take_while(|&&byte| Alphabet::Base64.holds(byte) || matches!(byte, b'-' | b'_'))
        .count();
    value::is_dense(&text[start..start + length], 20).then_some((start, start + length))
}

/// Twelve to twenty-four words of three to eight letters each, perhaps numbered.
fn phrase(text: &[u8], at: usize) -> Option<(usize, usize)> {
    const LEAST: usize = 12;
    const MOST: usize = 24;
    let part = |&(start, end): &(usize, usize)| {
        let word = &text[start..end];
        word.len() <= 12
            && word.iter().all(|byte| byte.is_ascii_lowercase() || b"0123456789.,):=\"'`".contains(byte))
    };
    let mut found: Option<(usize, usize)> = None;
    let mut count = 0;
    for range in words(text, at).skip_while(|range| !part(range)).take(60) {
        let word = &text[range.0..range.1];
        let letters = word.iter().filter(|byte| byte.is_ascii_lowercase()).count();
        if !part(&range) || count == MOST {
            break;
        }
        if letters == 0 {
            continue;
        }
        if !(3..=8).contains(&letters) {
            if count >= LEAST {
                break;
            }
            (found, count) = (None, 0);
            continue;
        }
        let quotes = word.iter().take_while(|byte| !byte.is_ascii_alphanumeric()).count();
        let last = range.1 - word.iter().rev().take_while(|byte| !byte.is_ascii_alphanumeric()).count();
        found = Some((found.map_or(range.0 + quotes, |(start, _)| start), last));
        count += 1;
        if last < range.1 && matches!(text[last], b'"' | b'\'' | b'`') {
            break;
        }
    }
    found.filter(|_| (LEAST..=MOST).contains(&count) && count % 3 == 0)
}

/// What stands below a command, if it is one word: prompts, fences and captions between the two are passed over.
fn output(text: &[u8], at: usize, rules: &Standard) -> Option<(usize, usize)> {
    let rest = &text[at..text.len().min(at + REACH)];
    let mut start = at + memchr::memchr(b'\n', rest)? + 1;
    for _ in 0..4 {
        let line = &text[start..text.len().min(start + REACH)];
        let length = line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len());
        let shown = line[..length].trim_ascii();
        let caption = shown.is_empty()
            || shown.starts_with(b"```")
            || shown.ends_with(b":")
            || (shown.starts_with(b"<")
                && shown.ends_with(b">")
                && memchr::memchr(b'<', &shown[1..]).is_none());
        if caption {
            start += length + 1;
            if start >= text.len() {
                return None;
            }
            continue;
        }
        let from = start + (line[..length].len() - line[..length].trim_ascii_start().len());
        let tag =
            if shown.starts_with(b"<") { memchr::memchr(b'>', shown).map_or(0, |end| end + 1) } else { 0 };
        let quoted = usize::from(matches!(shown.get(tag), Some(b'"' | b'\'')));
        let from = from + tag + quoted;
        let end = from
            + text[from..start + length]
                .iter()
                .take_while(|byte| !matches!(byte, b'<' | b'"' | b'\'' | b' ' | b'\r'))
                .count();
        let word = &text[from..end];
        let alone = text[end..start + length].iter().all(|byte| !byte.is_ascii_alphanumeric()) || tag > 0;
        let stand_in = rules.placeholders.hold(word)
            || value::is_filler(word)
            || label::is_label(word, &rules.placeholders)
            || label::names_a_secret(word, &rules.placeholders);
        return (alone && word.len() >= 6 && word[0] != b'$' && word[0] != b'{' && !stand_in)
            .then_some((from, end));
    }
    None
}

/// A key without a shape of its own behind the name of its service: a separator, and a value that looks drawn at random.
pub(super) fn service_key(runs: &Runs, start: usize, end: usize) -> Option<(usize, usize)> {
    const OTHER_THINGS: [&[u8]; 18] = [
        b"sha",
        b"hash",
        b"checksum",
        b"digest",
        b"commit",
        b"version",
        b"rev",
        b"url",
        b"uri",
        b"host",
        b"domain",
        b"path",
        b"image",
        b"file",
        b"build",
        b"release",
        b"tag",
        b"public",
    ];
    let text = runs.text;
    let follows_letter = start.checked_sub(1).is_some_and(|at| text[at].is_ascii_alphabetic());
    if follows_letter && !(text[start].is_ascii_uppercase() && text[start - 1].is_ascii_lowercase()) {
        return None;
    }
    let more =
        text[end..].iter().take(24).take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
    let name = text[end..end + more].to_ascii_lowercase();
    let name_end = end + more;
    let gap = text[name_end..]
        .iter()
        .take(8)
        .take_while(|byte| {
            matches!(byte, b' ' | b'\t' | b'=' | b':' | b'"' | b'\'' | b'\\' | b'>' | b'`' | b'-')
        })
        .count();
    let at = name_end + gap;
    let path = memmem::find(&text[name_end..at], b"::").is_some();
    if gap == 0 || path || OTHER_THINGS.iter().any(|thing| memmem::find(&name, thing).is_some()) {
        return None;
    }
    let value_end = runs.end(Alphabet::Bare, at);
    let value = text[at..value_end].trim_ascii_end();
    let value = value.strip_suffix(b".").unwrap_or(value);
    if !(16..=256).contains(&value.len()) {
        return None;
    }
    let assigned = text[name_end..at].iter().any(|byte| matches!(byte, b'=' | b':'));
    // A name and a space before hexadecimal digits of no key's length: as likely a commit, cut short.
    let hex = value.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    let checksum = !assigned && hex && !matches!(value.len(), 32 | 36 | 40 | 64);
    let path = memchr::memchr_iter(b'/', value).count() >= 2 && !value.ends_with(b"=");
    let key = !path
        && value::is_dense(value, 16)
        && !checksum
        && !value::is_wordy(value)
        && !value::is_file_name(value)
        && !value.iter().any(|byte| matches!(byte, b'@' | b'%' | b'?' | b'#' | b'$' | b'*'))
        && memmem::find(value, b"//").is_none()
        && !matches!(text.get(at + value.len()), Some(b'(' | b'['))
        && starts_clean(text, at);
    key.then_some((at, at + value.len()))
}
