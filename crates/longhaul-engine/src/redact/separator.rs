//! What stands between a name and its value, and where the value begins and ends.

use super::shape::{Alphabet, Landmark, Runs};

/// A separator is looked at no further than this.
const NEAR: usize = 64;
/// The space around a separator is not longer than this.
const SPACE: usize = 40;
/// The text of an XML element that holds a secret is shorter than this, in bytes.
const LONGEST_ELEMENT: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// `=` without space before it.
    Equals,
    /// `%3D` in a URL that is itself a parameter.
    Encoded,
    /// `=` with space, `:=`, `=>`.
    Assign,
    Colon,
    /// `name="x" value="y"`, `"name": "API_KEY", "value": "…"`.
    Pair,
    /// `set("name", "value")`: a list of names looks the same, so more is asked of the value.
    Comma,
    /// The value stands on the line below.
    Below,
    /// `<name>value</name>`
    Tag,
    Space,
    Dash,
}

/// The separator behind a name, and where its value begins.
pub(super) fn separator(text: &[u8], name_end: usize) -> Option<(Separator, usize)> {
    let (quoted, after_quote) = closing_quote(text, name_end);
    let bracket = if quoted && text.get(after_quote) == Some(&b']') { after_quote + 1 } else { after_quote };
    let at = skip_blanks(text, bracket);
    let rest = &text[at..text.len().min(at + NEAR)];
    let spaced = at > bracket;
    match rest.first()? {
        b'=' if rest.starts_with(b"=>") => Some((Separator::Assign, skip_blanks(text, at + 2))),
        b'=' if rest.starts_with(b"==") || rest.starts_with(b"=~") => None,
        b'=' if spaced => Some((Separator::Assign, skip_blanks(text, at + 1))),
        b'=' => Some((Separator::Equals, skip_blanks(text, at + 1))),
        b'?' | b'+' if rest.get(1) == Some(&b'=') => Some((Separator::Assign, skip_blanks(text, at + 2))),
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
        b'f' | b'o' | b't' if spaced => {
            Some((Separator::Space, skip_blanks(text, at + said_of(rest).unwrap_or(0))))
        }
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
    if colons != 1 {
        return None;
    }
    let value = skip_blanks(text, at + 1);
    Some(below(text, value).map_or((Separator::Colon, value), |below| (Separator::Below, below)))
}

/// `for the staging host is`, `of root:`: who the password is for, up to where it is told.
fn said_of(rest: &[u8]) -> Option<usize> {
    const TOLD: [&[u8]; 3] = [b" is ", b": ", b" = "];
    let leads = [&b"for "[..], b"of ", b"to "].iter().any(|lead| rest.starts_with(lead));
    let line = &rest[..memchr::memchr2(b'\n', b'"', rest).unwrap_or(rest.len())];
    let told = TOLD.iter().filter_map(|told| Some(memchr::memmem::find(line, told)? + told.len()));
    told.min().filter(|_| leads)
}

/// Where a value begins that stands alone on the next line, be it bare, in a block of YAML or behind a quotation mark.
fn below(text: &[u8], at: usize) -> Option<usize> {
    let block =
        text[at..].iter().take(3).take_while(|byte| matches!(byte, b'|' | b'>' | b'-' | b'+')).count();
    let line_end = at + block;
    if !matches!(text.get(line_end), Some(b'\n' | b'\r')) {
        return None;
    }
    let next =
        line_end + text[line_end..].iter().take(SPACE).take_while(|byte| byte.is_ascii_whitespace()).count();
    let rest = &text[next..text.len().min(next + 256)];
    let word = rest.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
    let line = rest.iter().take_while(|byte| !matches!(byte, b'\n' | b'\r')).count();
    let starts = rest.first().is_some_and(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'`' | b'$' | b'!' | b'@' | b'%' | b'*' | b'^' | b'&')
    });
    let ends = rest[..word].last().is_some_and(|byte| !matches!(byte, b':' | b',' | b'(' | b'{' | b'['));
    (starts && ends && rest[word..line].trim_ascii().is_empty()).then_some(next)
}

/// `"name", "value"` or `"name": "API_KEY", "value": "…"`.
fn pair(text: &[u8], at: usize) -> Option<(Separator, usize)> {
    if let Some(at) = value_keyword(text, at) {
        return Some((Separator::Pair, at));
    }
    let at = skip_blanks(text, at);
    matches!(text.get(at)?, b'"' | b'\'' | b'\\').then_some((Separator::Comma, at))
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

pub(super) fn skip_blanks(text: &[u8], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take(SPACE).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Whether nothing but indentation, a list dash, a comment mark or `export` stands before, on this line.
pub(super) fn starts_line(before: &[u8]) -> bool {
    let tail = &before[before.len().saturating_sub(NEAR)..];
    let line = tail.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_prefix(b"export ").unwrap_or(line);
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'#' | b'+' | b'>'))
}

/// Whether nothing but a comment follows on this line.
pub(super) fn ends_line(text: &[u8], at: usize) -> bool {
    matches!(text.get(skip_blanks(text, at)), None | Some(b'\n' | b'\r' | b'#'))
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
pub(super) fn value_range(runs: &Runs, at: usize, separator: Separator) -> Option<(usize, usize, bool)> {
    let text = runs.text;
    if separator == Separator::Tag {
        let end = runs.next(Landmark::Tag, at);
        return (end < text.len() && end - at < LONGEST_ELEMENT).then_some((at, end, true));
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
        end = end.min(runs.next(Landmark::EncodedAmpersand, at));
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
        let escapes =
            text[from..found].iter().rev().take(slashes + 1).take_while(|&&byte| byte == b'\\').count();
        if escapes <= slashes {
            return Some(found - escapes);
        }
        at = found + 1;
    }
}
