//! `user:password@` in URLs, connection strings, and the cookies of a header.

use super::rules::Standard;
use super::shape::{Alphabet, Runs};
use super::value;

/// An authority is not longer than this.
const AUTHORITY: usize = 1024;

/// The credentials of the URL whose `//` ends at `at`, and their kind. On the web the user's name goes too, since either half
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
    let length = text[..scheme_end].iter().rev().take(24).take_while(|byte| is_scheme(**byte)).count();
    let scheme = text[scheme_end - length..scheme_end].to_ascii_lowercase();
    let scheme = scheme.rsplit(|&byte| byte == b'+').next().unwrap_or_default();
    let web = scheme_end + 2 == at || KEEP_THEIR_HOST.iter().any(|known| known.as_bytes() == scheme);
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
    let word = |part: &[u8]| !part.is_empty() && rules.placeholders.hold(part);
    let described = documented || (word(&info[..colon]) && word(password));
    if password.is_empty() || reference || (documented && local) || (described && web) {
        return None;
    }
    if scheme_end + 2 == at && !is_bare_address(text, scheme_end, info, host) {
        return None;
    }
    if web {
        return Some(("url-credentials", (at, at + info.len())));
    }
    let end = rest.iter().position(|&byte| ends_url(byte)).unwrap_or(rest.len());
    Some(("database-url", (scheme_end - length, at + end)))
}

/// Addresses of pages, repositories, files and proxies say more than their password: host and path stay.
const KEEP_THEIR_HOST: [&str; 20] = [
    "http", "https", "ws", "wss", "git", "ssh", "ftp", "ftps", "sftp", "svn", "socks4", "socks5", "socks5h",
    "rtsp", "rtmp", "smb", "ldap", "ldaps", "s3", "dav",
];

/// `//user:password@host` without a scheme: only what cannot well be anything else.
fn is_bare_address(text: &[u8], slashes: usize, info: &[u8], host: &[u8]) -> bool {
    let behind = slashes.checked_sub(1).map(|at| text[at]);
    let begins =
        behind.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'/' | b':' | b'.'));
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-~!$&*+=%:".contains(byte);
    let name =
        host.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')).count();
    begins
        && info.iter().all(plain)
        && name >= 3
        && (host[..name].contains(&b'.') || host.starts_with(b"localhost"))
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

/// The values of `a=b; c=d` behind a cookie header, each long enough or random enough to be a session. Returns where the list ends.
pub(super) fn cookies(runs: &Runs, header_end: usize, mut found: impl FnMut(usize, usize)) -> usize {
    const SESSIONS: [&[u8]; 6] = [b"sess", b"sid", b"auth", b"token", b"jwt", b"remember"];
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
            return at;
        }
        let start = name_end + 1;
        let end = runs.end(Alphabet::Bare, start);
        let attribute = ATTRIBUTES.iter().any(|known| known.eq_ignore_ascii_case(&text[at..name_end]));
        let value = &text[start..end];
        let session = || {
            let name = text[at..name_end].to_ascii_lowercase();
            SESSIONS.iter().any(|known| memchr::memmem::find(&name, known).is_some())
        };
        let telling = value.len() >= 8 && session() && !value::is_wordy(value) && !value::is_filler(value);
        if !attribute && (telling || value::is_dense(value, 12)) {
            found(start, end);
        }
        at = end;
        if text.get(at) != Some(&b';') {
            break;
        }
    }
    at
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
    let ends = |byte: &u8| matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b'\n' | b'\r' | b'\\');
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
