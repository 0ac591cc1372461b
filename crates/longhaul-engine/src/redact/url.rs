//! `user:password@` in URLs, connection strings, and the cookies of a header.

use super::rules::Standard;
use super::shape::{Alphabet, Runs};
use super::value;

/// An authority is not longer than this.
const AUTHORITY: usize = 1024;

/// The credentials of the URL whose `://` ends at `at`, and their kind. On the web the user's name goes too, since either half
/// may be the token; the address of a database or a broker goes as a whole.
pub(super) fn credentials(
    text: &[u8],
    scheme_end: usize,
    at: usize,
    rules: &Standard,
) -> Option<(&'static str, (usize, usize))> {
    let rest = &text[at..text.len().min(at + AUTHORITY)];
    let authority = authority(rest);
    let info = &authority[..memchr::memrchr(b'@', authority)?];
    let web = text[..scheme_end].ends_with(b"http") || text[..scheme_end].ends_with(b"https");
    let Some(colon) = memchr::memchr(b':', info) else {
        return value::is_dense(info, 20).then_some(("url-credentials", (at, at + info.len())));
    };
    let password = &info[colon + 1..];
    let host = &authority[info.len() + 1..];
    let local = [&b"localhost"[..], b"127.0.0.1", b"0.0.0.0"].iter().any(|name| host.starts_with(name))
        || !host.contains(&b'.');
    let documented = std::str::from_utf8(info).is_ok_and(|pair| rules.placeholders.hold_pair(pair))
        || info.strip_suffix(password).and_then(|user| user.strip_suffix(b":")) == Some(password);
    let reference = value::is_filler(password) && password.len() > 1 || rules.placeholders.is_blank(password);
    if password.is_empty() || reference || (documented && local) {
        return None;
    }
    if web {
        return Some(("url-credentials", (at, at + info.len())));
    }
    let scheme = text[..scheme_end].iter().rev().take(24).take_while(|byte| is_scheme(**byte)).count();
    let length = rest.iter().position(|&byte| ends_url(byte)).unwrap_or(rest.len());
    Some(("database-url", (scheme_end - scheme, at + length)))
}

fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

fn ends_url(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>' | b')' | b'}' | b',')
}

fn authority(rest: &[u8]) -> &[u8] {
    let ends = |byte: u8| {
        byte <= b' ' || matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>')
    };
    &rest[..rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())]
}

/// The values of `a=b; c=d` behind a cookie header, each long enough or random enough to be a session.
pub(super) fn cookies(runs: &Runs, header_end: usize, mut found: impl FnMut(usize, usize)) {
    const ATTRIBUTES: [&[u8]; 6] = [b"path", b"domain", b"expires", b"max-age", b"samesite", b"version"];
    let text = runs.text;
    let mut at = header_end;
    let limit = text.len().min(header_end + 8192);
    while at < limit {
        while matches!(text.get(at), Some(b' ' | b';' | b':' | b'"' | b'\'' | b',')) {
            at += 1;
        }
        let name_end =
            at + text[at.min(limit)..limit].iter().take_while(|&&byte| Alphabet::Dotted.holds(byte)).count();
        if name_end == at || text.get(name_end) != Some(&b'=') {
            return;
        }
        let start = name_end + 1;
        let end = runs.end(Alphabet::Bare, start);
        let attribute = ATTRIBUTES.iter().any(|known| known.eq_ignore_ascii_case(&text[at..name_end]));
        if !attribute && value::is_dense(&text[start..end], 12) {
            found(start, end);
        }
        at = end;
        if text.get(at) != Some(&b';') {
            return;
        }
    }
}

/// The whole of a `Name=value;Name=value` list around a secret value, if it is a connection string: it tells where the
/// secret opens, and with what name.
pub(super) fn connection_string(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    const LONGEST: usize = 1024;
    const SAYS_WHERE: [&str; 9] = [
        "server",
        "data source",
        "host",
        "hostname",
        "endpoint",
        "accountname",
        "driver",
        "provider",
        "azconfig.io",
    ];
    let ends =
        |byte: &u8| matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b'\n' | b'\r' | b'\\' | b'{' | b'}');
    if text.get(end) != Some(&b';') && !text[start.saturating_sub(64)..start].contains(&b';') {
        return None;
    }
    let left = text[..start].iter().rev().take(LONGEST).take_while(|byte| !ends(byte)).count();
    let right = text[end..].iter().take(LONGEST).take_while(|byte| !ends(byte)).count();
    let line = &text[start - left..end + right];
    // `STORAGE=Protocol=https;…` is a name and the list behind it.
    let first = &line[..memchr::memchr(b';', line)?];
    let mut equals = memchr::memchr_iter(b'=', first);
    let skipped = match (equals.next(), equals.next()) {
        (Some(name), Some(_)) => name + 1,
        _ => 0,
    };
    let list = line[skipped..].trim_ascii();
    let lower = String::from_utf8_lossy(list).to_ascii_lowercase();
    let pairs = lower.split(';').filter(|pair| pair.contains('=')).count();
    let says_where = lower.split(';').any(|pair| {
        SAYS_WHERE.iter().any(|word| pair.trim_start().starts_with(word) || pair.ends_with(word))
    });
    let from = start - left + skipped + (line[skipped..].len() - line[skipped..].trim_ascii_start().len());
    (pairs >= 2 && says_where && from <= start).then_some((from, from + list.len()))
}
