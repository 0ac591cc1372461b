//! `user:password@` in URLs, `-u user:password` on command lines, and the cookies of a header.

use super::rules::Standard;
use super::shape::{Alphabet, Runs};
use super::value;

/// An authority is not longer than this.
const AUTHORITY: usize = 1024;

/// The credentials of the URL whose `://` ends at `at`. Databases and brokers keep the user's name, which is seldom secret
/// and tells who connects; on the web either half may be the token, so both go.
pub(super) fn credentials(text: &[u8], scheme_end: usize, at: usize, rules: &Standard) -> Option<(usize, usize)> {
    let authority = authority(&text[at..text.len().min(at + AUTHORITY)]);
    let info = &authority[..memchr::memrchr(b'@', authority)?];
    let encoded = memchr::memmem::find(info, b"%3A").filter(|_| !info.contains(&b':'));
    let (colon, after) = match (memchr::memchr(b':', info), encoded) {
        (Some(colon), _) => (colon, colon + 1),
        (None, Some(colon)) => (colon, colon + 3),
        (None, None) => return value::is_dense(info, 20).then_some((at, at + info.len())),
    };
    let (user, password) = (&info[..colon], &info[after..]);
    let pair = format!("{}:{}", String::from_utf8_lossy(user), String::from_utf8_lossy(password));
    if password.is_empty() || is_stand_in(password, rules) || rules.placeholders.hold_pair(&pair) {
        return None;
    }
    let web = text[..scheme_end].ends_with(b"http") || text[..scheme_end].ends_with(b"https");
    let start = if web { at } else { at + after };
    Some((start, at + info.len()))
}

fn is_stand_in(password: &[u8], rules: &Standard) -> bool {
    (value::is_filler(password) && password.len() > 1) || rules.placeholders.hold(password)
}

fn authority(rest: &[u8]) -> &[u8] {
    let ends = |byte: u8| byte <= b' ' || matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>');
    &rest[..rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())]
}

/// `-u user:password` and `--user user:password` behind `curl`, from the end of that word on its command.
pub(super) fn command_line(runs: &Runs, curl_end: usize, rules: &Standard) -> Option<(usize, usize)> {
    let text = runs.text;
    let command = &text[curl_end..text.len().min(curl_end + 512)];
    let flag = [&b" -u "[..], b" --user ", b" -u\"", b" -u'"]
        .iter()
        .filter_map(|flag| memchr::memmem::find(command, flag).map(|at| at + flag.trim_ascii_end().len()))
        .min()?;
    let mut start = curl_end + flag;
    while matches!(text.get(start), Some(b' ')) {
        start += 1;
    }
    let quote = text.get(start).copied().filter(|byte| matches!(byte, b'"' | b'\''));
    let start = start + usize::from(quote.is_some());
    let end = match quote {
        Some(quote) => start + memchr::memchr2(quote, b'\n', &text[start..text.len().min(start + 512)])?,
        None => start + text[start..].iter().take(512).take_while(|byte| !byte.is_ascii_whitespace()).count(),
    };
    let pair = &text[start..end];
    let colon = memchr::memchr(b':', pair)?;
    let (user, password) = (&pair[..colon], &pair[colon + 1..]);
    let secret = if password.is_empty() { user } else { password };
    let written = std::str::from_utf8(pair).ok()?;
    let stand_in = is_stand_in(secret, rules) || rules.placeholders.hold(pair) || rules.placeholders.hold_pair(written);
    (!stand_in && secret.len() >= 4).then_some((start, end))
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
        let name_end = at + text[at.min(limit)..limit].iter().take_while(|&&byte| Alphabet::Dotted.holds(byte)).count();
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
