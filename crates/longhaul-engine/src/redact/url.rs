//! Finds credentials in URLs (`user:password@`), connection strings, and the cookies of a header.

use super::key_shape::{Alphabet, RunCache};
use super::rules::StandardRules;
use super::value;

/// The maximum number of bytes that are read of a URL's authority.
const MAX_AUTHORITY_BYTES: usize = 1024;

/// Finds the credentials of the URL whose `//` ends at `at`. Returns their kind and byte range. In a web
/// address the user name is part of the credentials, because either half may be the token. The address of a
/// database or a broker is a secret as a whole.
pub(super) fn find_credentials(
    text: &[u8],
    scheme_end: usize,
    at: usize,
    rules: &StandardRules,
) -> Option<(&'static str, (usize, usize))> {
    let rest = &text[at..text.len().min(at + MAX_AUTHORITY_BYTES)];
    let authority = authority(rest);
    let info = &authority[..memchr::memrchr(b'@', authority)?];
    let length = text[..scheme_end].iter().rev().take(24).take_while(|byte| is_scheme_byte(**byte)).count();
    let scheme = text[scheme_end - length..scheme_end].to_ascii_lowercase();
    let scheme = scheme.rsplit(|&byte| byte == b'+').next().unwrap_or_default();
    let web = scheme_end + 2 == at || HOST_KEEPING_SCHEMES.iter().any(|listed| listed.as_bytes() == scheme);
    let Some(colon) = memchr::memchr(b':', info) else {
        return value::looks_random(info, 20).then_some(("url-credentials", (at, at + info.len())));
    };
    let password = &info[colon + 1..];
    let host = &authority[info.len() + 1..];
    let local = [&b"localhost"[..], b"127.0.0.1", b"0.0.0.0"].iter().any(|name| host.starts_with(name))
        || !host.contains(&b'.');
    let documented = std::str::from_utf8(info).is_ok_and(|pair| rules.placeholders.is_placeholder_pair(pair))
        || info.strip_suffix(password).and_then(|user| user.strip_suffix(b":")) == Some(password);
    let reference =
        value::is_dummy(password) && password.len() > 1 || rules.placeholders.is_reference_or_template(password);
    let word = |part: &[u8]| !part.is_empty() && rules.placeholders.is_placeholder(part);
    let described = documented || (word(&info[..colon]) && word(password));
    if password.is_empty() || reference || (documented && local) || (described && web) {
        return None;
    }
    if scheme_end + 2 == at && !is_schemeless_address(text, scheme_end, info, host) {
        return None;
    }
    if web {
        return Some(("url-credentials", (at, at + info.len())));
    }
    let end = rest.iter().position(|&byte| is_url_end(byte)).unwrap_or(rest.len());
    Some(("database-url", (scheme_end - length, at + end)))
}

/// Schemes whose URLs lose only the credentials. Host and path of pages, repositories, files and proxies
/// stay, because they are useful to a reader.
const HOST_KEEPING_SCHEMES: [&str; 20] = [
    "http", "https", "ws", "wss", "git", "ssh", "ftp", "ftps", "sftp", "svn", "socks4", "socks5", "socks5h", "rtsp",
    "rtmp", "smb", "ldap", "ldaps", "s3", "dav",
];

/// Whether `//user:password@host` without a scheme is an address. The tests are strict, because the same
/// characters can be code.
fn is_schemeless_address(text: &[u8], slashes: usize, info: &[u8], host: &[u8]) -> bool {
    let behind = slashes.checked_sub(1).map(|at| text[at]);
    let begins = behind.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'/' | b':' | b'.'));
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-~!$&*+=%:".contains(byte);
    let name = host.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')).count();
    begins && info.iter().all(plain) && name >= 3 && (host[..name].contains(&b'.') || host.starts_with(b"localhost"))
}

fn is_scheme_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

fn is_url_end(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>' | b')' | b'}' | b',')
}

fn authority(rest: &[u8]) -> &[u8] {
    let ends =
        |byte: u8| byte <= b' ' || matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>');
    &rest[..rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())]
}

/// Finds the values of `a=b; c=d` after a cookie header that are long or random enough to be a session.
/// Returns where the list ends.
pub(super) fn find_cookies(runs: &RunCache, header_end: usize, mut found: impl FnMut(usize, usize)) -> usize {
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
            at + text[at.min(limit)..limit].iter().take_while(|&&byte| Alphabet::Dotted.contains(byte)).count();
        if name_end == at || text.get(name_end) != Some(&b'=') {
            return at;
        }
        let start = name_end + 1;
        let end = runs.run_end(Alphabet::Bare, start);
        let attribute = ATTRIBUTES.iter().any(|listed| listed.eq_ignore_ascii_case(&text[at..name_end]));
        let value = &text[start..end];
        let session = || {
            let name = text[at..name_end].to_ascii_lowercase();
            SESSIONS.iter().any(|listed| memchr::memmem::find(&name, listed).is_some())
        };
        let telling = value.len() >= 8 && session() && !value::looks_like_words(value) && !value::is_dummy(value);
        if !attribute && (telling || value::looks_random(value, 12)) {
            found(start, end);
        }
        at = end;
        if text.get(at) != Some(&b';') {
            break;
        }
    }
    at
}

/// Returns the byte range of the `Name=value;Name=value` list around a secret value, if it is a connection
/// string. The list is redacted as a whole, because it also says which server the secret opens.
pub(super) fn connection_string_around(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    const LONGEST: usize = 1024;
    const SAYS_WHERE: [&str; 9] =
        ["server", "data source", "host", "hostname", "endpoint", "accountname", "driver", "provider", "azconfig.io"];
    let ends = |byte: &u8| matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b'\n' | b'\r' | b'\\');
    if text.get(end) != Some(&b';') && !text[start.saturating_sub(64)..start].contains(&b';') {
        return None;
    }
    let left = text[..start].iter().rev().take(LONGEST).take_while(|byte| !ends(byte)).count();
    let right = text[end..].iter().take(LONGEST).take_while(|byte| !ends(byte)).count();
    let line = &text[start - left..end + right];
    // `STORAGE=Protocol=https;…` is a name and its value, which is a list.
    let first = &line[..memchr::memchr(b';', line)?];
    let mut equals = memchr::memchr_iter(b'=', first);
    let skipped = match (equals.next(), equals.next()) {
        (Some(name), Some(_)) => name + 1,
        _ => 0,
    };
    let list = line[skipped..].trim_ascii();
    let lower = String::from_utf8_lossy(list).to_ascii_lowercase();
    let pairs = lower.split(';').filter(|pair| pair.contains('=')).count();
    let says_where = lower
        .split(';')
        .any(|pair| SAYS_WHERE.iter().any(|word| pair.trim_start().starts_with(word) || pair.ends_with(word)));
    let from = start - left + skipped + (line[skipped..].len() - line[skipped..].trim_ascii_start().len());
    (pairs >= 2 && says_where && from <= start).then_some((from, from + list.len()))
}
