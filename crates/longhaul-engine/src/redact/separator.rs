//! The separator between a name and its value, and where the value begins and ends.

use super::key_shape::{Alphabet, Landmark, RunCache};

/// The maximum number of bytes that are read of a separator.
const MAX_SEPARATOR_BYTES: usize = 64;
/// The maximum number of white space bytes around a separator.
const MAX_BLANK_BYTES: usize = 40;
/// The maximum length in bytes of the text of an XML element that contains a secret.
const MAX_ELEMENT_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// An `=` without a space before it.
    Equals,
    /// The `%3D` of a URL that is itself a parameter.
    EncodedEquals,
    /// An `=` with space before it, `:=`, `+=`, `?=` or `=>`.
    Assign,
    Colon,
    /// The word `value` or `default`, as in `name="x" value="y"` or `"name": "API_KEY", "value": "…"`.
    ValueKeyword,
    /// A comma, as in `set("name", "value")`. A list of names looks the same, so the value must pass more
    /// tests.
    Comma,
    /// A line break: the value is alone on the next line.
    NextLine,
    /// The end of an XML tag, as in `<name>value</name>`.
    XmlTag,
    Space,
    Dash,
}

/// Finds the separator after a name. Returns it and the offset where the value begins.
pub(super) fn find_separator(text: &[u8], name_end: usize) -> Option<(Separator, usize)> {
    let (quoted, after_quote) = skip_quote(text, name_end);
    let bracket = if quoted && text.get(after_quote) == Some(&b']') { after_quote + 1 } else { after_quote };
    let at = skip_blanks(text, bracket);
    let rest = &text[at..text.len().min(at + MAX_SEPARATOR_BYTES)];
    let spaced = at > bracket;
    match rest.first()? {
        b'=' if rest.starts_with(b"=>") => Some((Separator::Assign, skip_blanks(text, at + 2))),
        b'=' if rest.starts_with(b"==") || rest.starts_with(b"=~") => None,
        b'=' if spaced => Some((Separator::Assign, skip_blanks(text, at + 1))),
        b'=' => Some((Separator::Equals, skip_blanks(text, at + 1))),
        b'?' | b'+' if rest.get(1) == Some(&b'=') => Some((Separator::Assign, skip_blanks(text, at + 2))),
        b':' => after_colon(text, at),
        b'%' if rest.len() > 2 && rest[..3].eq_ignore_ascii_case(b"%3d") => Some((Separator::EncodedEquals, at + 3)),
        b'%' if rest.len() > 2 && rest[..3].eq_ignore_ascii_case(b"%3a") => Some((Separator::Colon, at + 3)),
        b'>' if !spaced && !quoted => Some((Separator::XmlTag, at + 1)),
        b',' if quoted && bracket == after_quote => after_comma(text, at + 1),
        _ if quoted => after_value_keyword(text, at).map(|at| (Separator::ValueKeyword, at)),
        b'\n' | b'\r' => after_value_keyword(text, at).map(|at| (Separator::ValueKeyword, at)),
        b'i' if spaced && rest.starts_with(b"is ") => Some((Separator::Space, skip_blanks(text, at + 3))),
        b'f' | b'o' | b't' if spaced => {
            Some((Separator::Space, skip_blanks(text, at + owner_phrase_length(rest).unwrap_or(0))))
        }
        b'-' if !spaced => Some((Separator::Dash, at + 1)),
        b'{' | b'|' | b'(' | b')' | b'}' | b'/' | b'.' | b';' | b'&' | b'?' | b'!' => None,
        _ if spaced => Some((Separator::Space, at)),
        _ => None,
    }
}

fn after_colon(text: &[u8], at: usize) -> Option<(Separator, usize)> {
    let colons = text[at..].iter().take(4).take_while(|&&byte| byte == b':').count();
    if text.get(at + colons) == Some(&b'=') {
        return Some((Separator::Assign, skip_blanks(text, at + colons + 1)));
    }
    // `Token::Word` is a path in code, not a name and its value.
    if colons != 1 {
        return None;
    }
    let value = skip_blanks(text, at + 1);
    Some(next_line_value(text, value).map_or((Separator::Colon, value), |below| (Separator::NextLine, below)))
}

/// Returns the length of a phrase that says whose password it is, up to the value: `for the staging host is`,
/// `of root:`.
fn owner_phrase_length(rest: &[u8]) -> Option<usize> {
    const TOLD: [&[u8]; 3] = [b" is ", b": ", b" = "];
    let leads = [&b"for "[..], b"of ", b"to "].iter().any(|lead| rest.starts_with(lead));
    let line = &rest[..memchr::memchr2(b'\n', b'"', rest).unwrap_or(rest.len())];
    let told = TOLD.iter().filter_map(|told| Some(memchr::memmem::find(line, told)? + told.len()));
    told.min().filter(|_| leads)
}

/// Returns where a value begins that is alone on the next line: bare, in a YAML block or in backticks.
fn next_line_value(text: &[u8], at: usize) -> Option<usize> {
    let block = text[at..].iter().take(3).take_while(|byte| matches!(byte, b'|' | b'>' | b'-' | b'+')).count();
    let line_end = at + block;
    if !matches!(text.get(line_end), Some(b'\n' | b'\r')) {
        return None;
    }
    let next =
        line_end + text[line_end..].iter().take(MAX_BLANK_BYTES).take_while(|byte| byte.is_ascii_whitespace()).count();
    let rest = &text[next..text.len().min(next + 256)];
    let word = rest.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
    let line = rest.iter().take_while(|byte| !matches!(byte, b'\n' | b'\r')).count();
    let starts = rest.first().is_some_and(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'`' | b'$' | b'!' | b'@' | b'%' | b'*' | b'^' | b'&')
    });
    let ends = rest[..word].last().is_some_and(|byte| !matches!(byte, b':' | b',' | b'(' | b'{' | b'['));
    (starts && ends && rest[word..line].trim_ascii().is_empty()).then_some(next)
}

/// Finds the separator of `"name", "value"` or `"name": "API_KEY", "value": "…"`, from after the comma.
fn after_comma(text: &[u8], at: usize) -> Option<(Separator, usize)> {
    if let Some(at) = after_value_keyword(text, at) {
        return Some((Separator::ValueKeyword, at));
    }
    let at = skip_blanks(text, at);
    matches!(text.get(at)?, b'"' | b'\'' | b'\\').then_some((Separator::Comma, at))
}

/// Returns where the value begins after `value:` or `default =`, on the same line as the name or on the next.
fn after_value_keyword(text: &[u8], at: usize) -> Option<usize> {
    let blank = |byte: &&u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'{' | b'\\');
    let at = at + text[at..].iter().take(MAX_BLANK_BYTES).take_while(blank).count();
    let word = ["value", "default", "Value"].iter().find(|word| text[at..].starts_with(word.as_bytes()))?;
    let (_, after) = skip_quote(text, at + word.len());
    let at = skip_blanks(text, after);
    matches!(text.get(at)?, b'=' | b':').then(|| skip_blanks(text, at + 1))
}

pub(super) fn skip_blanks(text: &[u8], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take(MAX_BLANK_BYTES).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Whether the line before this point has only indentation, a list dash, a comment character or `export`.
pub(super) fn starts_line(before: &[u8]) -> bool {
    let tail = &before[before.len().saturating_sub(MAX_SEPARATOR_BYTES)..];
    let line = tail.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_prefix(b"export ").unwrap_or(line);
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'#' | b'+' | b'>'))
}

/// Whether the rest of the line is empty or a comment.
pub(super) fn ends_line(text: &[u8], at: usize) -> bool {
    matches!(text.get(skip_blanks(text, at)), None | Some(b'\n' | b'\r' | b'#'))
}

/// Skips one quote and the backslashes that an outer string puts before it. Returns whether there is a quote,
/// and the offset after it.
fn skip_quote(text: &[u8], at: usize) -> (bool, usize) {
    let slashes = text[at.min(text.len())..].iter().take(4).take_while(|&&byte| byte == b'\\').count();
    match text.get(at + slashes) {
        Some(b'"' | b'\'' | b'`') => (true, at + slashes + 1),
        _ => (false, at),
    }
}

/// Returns the byte range of the value at `at`, without its quotes, and whether it had any.
pub(super) fn find_value_range(runs: &RunCache, at: usize, separator: Separator) -> Option<(usize, usize, bool)> {
    let text = runs.text;
    if separator == Separator::XmlTag {
        let end = runs.find_landmark(Landmark::AngleBracket, at);
        return (end < text.len() && end - at < MAX_ELEMENT_BYTES).then_some((at, end, true));
    }
    let at = skip_line_break(text, at);
    // String prefixes of source code: `b"…"`, `r'…'`.
    let prefixed = text.get(at).is_some_and(u8::is_ascii_alphabetic) && matches!(text.get(at + 1), Some(b'"' | b'\''));
    let at = at + usize::from(prefixed);
    let (quoted, inner) = skip_quote(text, at);
    if quoted {
        let slashes = inner - at - 1;
        if let Some(end) = find_closing_quote(text, inner, text[inner - 1], slashes) {
            return Some((inner, end, true));
        }
        // The text is cut inside the value.
        let end = runs.run_end(Alphabet::Bare, inner);
        return (end == text.len()).then_some((inner, end, true));
    }
    let mut end = runs.run_end(Alphabet::Bare, at);
    if separator == Separator::EncodedEquals {
        end = end.min(runs.find_landmark(Landmark::EncodedAmpersand, at));
    }
    let trailing = text[at..end].iter().rev().take(3).take_while(|byte| matches!(byte, b'.' | b':' | b'?')).count();
    (end > at).then_some((at, end - trailing, false))
}

/// Skips a line break before a quoted value. Formatters put a long string on the line after its name.
fn skip_line_break(text: &[u8], at: usize) -> usize {
    if !matches!(text.get(at), Some(b'\n' | b'\r')) {
        return at;
    }
    let next = at + text[at..].iter().take(MAX_BLANK_BYTES).take_while(|byte| byte.is_ascii_whitespace()).count();
    if matches!(text.get(next), Some(b'"' | b'\'')) { next } else { at }
}

/// Finds the closing quote on the same line. It has at most as many backslashes before it as the opening
/// quote.
fn find_closing_quote(text: &[u8], from: usize, quote: u8, slashes: usize) -> Option<usize> {
    let limit = text.len().min(from + (64 << 10));
    let mut at = from;
    loop {
        let found = at + memchr::memchr2(quote, b'\n', &text[at..limit])?;
        if text[found] == b'\n' {
            return None;
        }
        let escapes = text[from..found].iter().rev().take(slashes + 1).take_while(|&&byte| byte == b'\\').count();
        if escapes <= slashes {
            return Some(found - escapes);
        }
        at = found + 1;
    }
}
