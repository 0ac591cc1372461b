//! Finds secrets by the layout of the text around them: netrc lines, key lists, recovery phrases, the output
//! of a command, and keys after the name of a service. Each search starts at a keyword and is bounded.

use memchr::memmem;

use super::key_shape::{Alphabet, RunCache, is_key_boundary};
use super::label;
use super::layout::SecretLayout;
use super::rules::StandardRules;
use super::value::{self, NameClass, ValueStyle};

/// The maximum distance in bytes between the keyword of a layout and its secret. Chosen by hand: it bounds
/// the time for each keyword.
const MAX_LAYOUT_BYTES: usize = 400;

impl SecretLayout {
    /// Finds the secret of this layout, whose keyword ends at `at`. Returns the kind of the secret and its
    /// byte range.
    pub(super) fn find_secret(
        self,
        text: &[u8],
        at: usize,
        rules: &StandardRules,
    ) -> Option<(&'static str, (usize, usize))> {
        match self {
            Self::Netrc => find_netrc_password(text, at, rules).map(|range| ("password", range)),
            Self::KeyList => find_listed_key(text, at).map(|range| ("secret", range)),
            Self::RecoveryPhrase => find_recovery_phrase(text, at).map(|range| ("recovery-phrase", range)),
            Self::CommandOutput => find_command_output(text, at, rules).map(|range| ("secret", range)),
            Self::DecodedOutput => {
                let command = &text[at.saturating_sub(MAX_LAYOUT_BYTES)..at];
                let command = command.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
                let reads_secret = [&b"secret"[..], b"password", b"token", b"credential"]
                    .iter()
                    .any(|word| memmem::find(command, word).is_some());
                find_command_output(text, at, rules).filter(|_| reads_secret).map(|range| ("secret", range))
            }
        }
    }
}

/// Returns the byte ranges of the words after `at`, separated by white space.
fn word_ranges(text: &[u8], at: usize) -> impl Iterator<Item = (usize, usize)> {
    let limit = text.len().min(at + MAX_LAYOUT_BYTES);
    let mut next = at;
    std::iter::from_fn(move || {
        let start = next + text[next..limit].iter().position(|byte| !byte.is_ascii_whitespace())?;
        let end = text[start..limit].iter().position(u8::is_ascii_whitespace).map_or(limit, |length| start + length);
        next = end;
        Some((start, end))
    })
}

fn find_netrc_password(text: &[u8], at: usize, rules: &StandardRules) -> Option<(usize, usize)> {
    let word = |&(start, end): &(usize, usize)| &text[start..end];
    let mut words = word_ranges(text, at).take(9);
    // A machine in a netrc file has an address. `machine readable login and password rules` is a sentence.
    words.next().filter(|host| word(host).contains(&b'.') || word(host).starts_with(b"localhost"))?;
    let first = words.next()?;
    if !matches!(word(&first), b"login" | b"account" | b"password") {
        return None;
    }
    if word(&first) != b"password" {
        words.find(|range| word(range) == b"password")?;
    }
    let (start, end) = words.next()?;
    let end = start + text[start..end].iter().take_while(|byte| !matches!(byte, b'"' | b'\'' | b'\\' | b'`')).count();
    value::is_secret(&text[start..end], NameClass::Password, ValueStyle::BareValue, &rules.placeholders)
        .then_some((start, end))
}

fn find_listed_key(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..text.len().min(at + MAX_LAYOUT_BYTES)];
    let behind = memmem::find(rest, b"value")? + 5;
    let gap =
        rest[behind..].iter().take_while(|byte| matches!(byte, b'"' | b'\'' | b'\\' | b':' | b' ' | b'=')).count();
    let start = at + behind + gap;
    let length = text[start..]
        .iter()
        .take(256)
        .take_while(|&&byte| Alphabet::Base64.contains(byte) || matches!(byte, b'-' | b'_'))
        .count();
    value::looks_random(&text[start..start + length], 20).then_some((start, start + length))
}

/// Finds twelve to twenty-four words of three to eight letters each, which may be numbered. The number of
/// words is a multiple of three.
fn find_recovery_phrase(text: &[u8], at: usize) -> Option<(usize, usize)> {
    const MIN_WORDS: usize = 12;
    const MAX_WORDS: usize = 24;
    let part = |&(start, end): &(usize, usize)| {
        let word = &text[start..end];
        word.len() <= 12 && word.iter().all(|byte| byte.is_ascii_lowercase() || b"0123456789.,):=\"'`".contains(byte))
    };
    let mut found: Option<(usize, usize)> = None;
    let mut count = 0;
    for range in word_ranges(text, at).skip_while(|range| !part(range)).take(60) {
        let word = &text[range.0..range.1];
        let letters = word.iter().filter(|byte| byte.is_ascii_lowercase()).count();
        if !part(&range) || count == MAX_WORDS {
            break;
        }
        if letters == 0 {
            continue;
        }
        if !(3..=8).contains(&letters) {
            if count >= MIN_WORDS {
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
    found.filter(|_| (MIN_WORDS..=MAX_WORDS).contains(&count) && count % 3 == 0)
}

/// Finds the word that a command printed: the first line below it, if that is one word. Skips up to four
/// blank lines, code fences, XML tags and captions.
fn find_command_output(text: &[u8], at: usize, rules: &StandardRules) -> Option<(usize, usize)> {
    let rest = &text[at..text.len().min(at + MAX_LAYOUT_BYTES)];
    let mut start = at + memchr::memchr(b'\n', rest)? + 1;
    for _ in 0..4 {
        let line = &text[start..text.len().min(start + MAX_LAYOUT_BYTES)];
        let length = line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len());
        let shown = line[..length].trim_ascii();
        let caption = shown.is_empty()
            || shown.starts_with(b"```")
            || shown.ends_with(b":")
            || (shown.starts_with(b"<") && shown.ends_with(b">") && memchr::memchr(b'<', &shown[1..]).is_none());
        if caption {
            start += length + 1;
            if start >= text.len() {
                return None;
            }
            continue;
        }
        let from = start + (line[..length].len() - line[..length].trim_ascii_start().len());
        let tag = if shown.starts_with(b"<") { memchr::memchr(b'>', shown).map_or(0, |end| end + 1) } else { 0 };
        let quoted = usize::from(matches!(shown.get(tag), Some(b'"' | b'\'')));
        let from = from + tag + quoted;
        let end = from
            + text[from..start + length]
                .iter()
                .take_while(|byte| !matches!(byte, b'<' | b'"' | b'\'' | b' ' | b'\r'))
                .count();
        let word = &text[from..end];
        let alone = text[end..start + length].iter().all(|byte| !byte.is_ascii_alphanumeric()) || tag > 0;
        let is_dummy = rules.placeholders.is_placeholder(word)
            || value::is_dummy(word)
            || label::is_label(word, &rules.placeholders)
            || label::contains_secret_word(word, &rules.placeholders);
        return (alone && word.len() >= 6 && word[0] != b'$' && word[0] != b'{' && !is_dummy).then_some((from, end));
    }
    None
}

/// Finds a key without a shape of its own: a random-looking value after the name of its service and a
/// separator. The name is at `start..end`.
pub(super) fn find_service_key(runs: &RunCache, start: usize, end: usize) -> Option<(usize, usize)> {
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
    let more = text[end..].iter().take(24).take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
    let name = text[end..end + more].to_ascii_lowercase();
    let name_end = end + more;
    let gap = text[name_end..]
        .iter()
        .take(8)
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'=' | b':' | b'"' | b'\'' | b'\\' | b'>' | b'`' | b'-'))
        .count();
    let at = name_end + gap;
    let path = memmem::find(&text[name_end..at], b"::").is_some();
    if gap == 0 || path || OTHER_THINGS.iter().any(|thing| memmem::find(&name, thing).is_some()) {
        return None;
    }
    let value_end = runs.run_end(Alphabet::Bare, at);
    let value = text[at..value_end].trim_ascii_end();
    let value = value.strip_suffix(b".").unwrap_or(value);
    if !(16..=256).contains(&value.len()) {
        return None;
    }
    let assigned = text[name_end..at].iter().any(|byte| matches!(byte, b'=' | b':'));
    // Hexadecimal digits after a name and a space are more likely a shortened commit hash, unless they have a
    // usual length of keys.
    let hex = value.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    let checksum = !assigned && hex && !matches!(value.len(), 32 | 36 | 40 | 64);
    let path = memchr::memchr_iter(b'/', value).count() >= 2 && !value.ends_with(b"=");
    let key = !path
        && value::looks_random(value, 16)
        && !checksum
        && !value::looks_like_words(value)
        && !value::is_file_name(value)
        && !value.iter().any(|byte| matches!(byte, b'@' | b'%' | b'?' | b'#' | b'$' | b'*'))
        && memmem::find(value, b"//").is_none()
        && !matches!(text.get(at + value.len()), Some(b'(' | b'['))
        && is_key_boundary(text, at);
    key.then_some((at, at + value.len()))
}
