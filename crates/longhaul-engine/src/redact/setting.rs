//! Passwords that a keyword gives away instead of a name: a setting and its value with a blank between (`requirepass …`), and
//! what is handed to a command that reads its password from a pipe (`echo … | sudo -S`).

use serde::Deserialize;

use super::placeholders::Placeholders;
use super::separator::{ends_line, skip_blanks, starts_line};
use super::shape::starts_clean;
use super::value::{self, Class, Written};

/// How far from its keyword a value is looked for.
const NEAR: usize = 256;

/// A row of `settings` in `rules.toml`.
#[derive(Deserialize)]
pub(super) struct Setting {
    pub(super) word: String,
    /// The keyword is also said in sentences, so only a value in quotes counts.
    #[serde(default)]
    quoted: bool,
}

impl Setting {
    /// The value of the setting whose keyword stands at `start..end`. One without quotes has its line to itself, as in files of
    /// settings; sentences about the setting do not look like that.
    pub(super) fn secret(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        placeholders: &Placeholders,
    ) -> Option<(usize, usize)> {
        let at = skip_blanks(text, end);
        let at = if matches!(text.get(at), Some(b'=' | b':')) { skip_blanks(text, at + 1) } else { at };
        let (argument, after) = argument(text, at)?;
        let written = if after > argument.1 { Written::Argument } else { Written::Tight };
        let alone = !self.quoted && starts_line(&text[..start]) && ends_line(text, after);
        let secret = (written == Written::Argument || alone)
            && starts_clean(text, start)
            && value::is_secret(&text[argument.0..argument.1], Class::Password, written, placeholders);
        secret.then_some(argument)
    }
}

/// A row of `piped` in `rules.toml`: a command, or an option of one, that reads a password from a pipe.
#[derive(Deserialize)]
pub(super) struct Piped {
    pub(super) word: String,
    /// It reads a user's name and a colon before the password.
    #[serde(default)]
    pair: bool,
}

impl Piped {
    /// What is handed to the command whose word stands at `start..end`: by `echo … |` before it, or by `<<<` behind it.
    pub(super) fn secret(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        placeholders: &Placeholders,
    ) -> Option<(usize, usize)> {
        // The words are looked for in any case, and options mean something else in another.
        if text[start..end] != *self.word.as_bytes() || !starts_clean(text, start) {
            return None;
        }
        let handed = echoed(text, start).or_else(|| here_string(text, end))?;
        let pair =
            usize::from(self.pair) * memchr::memchr(b':', &text[handed.0..handed.1]).map_or(0, |at| at + 1);
        let (from, to) = (handed.0 + pair, handed.1);
        value::is_secret(&text[from..to], Class::Password, Written::Argument, placeholders)
            .then_some((from, to))
    }
}

/// The last argument of the `echo` or `printf` whose output goes to the command at `start`.
fn echoed(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let floor = start.saturating_sub(NEAR);
    let line = floor + memchr::memrchr(b'\n', &text[floor..start]).map_or(0, |at| at + 1);
    let bar = line + memchr::memrchr(b'|', &text[line..start])?;
    let says = |word: &[u8]| Some(line + memchr::memmem::rfind(&text[line..bar], word)? + word.len());
    let mut at = says(b"echo ").max(says(b"printf "))?;
    loop {
        let (argument, after) = argument(text, skip_blanks(text, at)).filter(|(_, after)| *after <= bar)?;
        let rest = skip_blanks(text, after);
        if rest == bar {
            return Some(argument);
        }
        // Flags and formats stand before what is said; two words that are said are no password.
        if rest == after || !matches!(text[argument.0..].first(), Some(b'-' | b'%')) {
            return None;
        }
        at = rest;
    }
}

fn here_string(text: &[u8], end: usize) -> Option<(usize, usize)> {
    let rest = &text[end..text.len().min(end + NEAR)];
    let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
    let at = end + memchr::memmem::find(line, b"<<<")? + 3;
    argument(text, skip_blanks(text, at)).map(|(argument, _)| argument)
}

/// The argument of a shell that begins at `at` without its quotes, be they escaped or not, and the place behind it.
fn argument(text: &[u8], at: usize) -> Option<((usize, usize), usize)> {
    let rest = text.get(at..text.len().min(at + NEAR))?;
    let slashes = rest.iter().take_while(|&&byte| byte == b'\\').count();
    if let Some(&quote @ (b'"' | b'\'')) = rest.get(slashes) {
        let inner = &rest[slashes + 1..];
        let end = memchr::memchr2(quote, b'\n', inner).filter(|&end| inner[end] == quote)?;
        let start = at + slashes + 1;
        return (end > slashes).then(|| ((start, start + end - slashes), start + end + 1));
    }
    let length = rest
        .iter()
        .take_while(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'' | b'|' | b';' | b'`'))
        .count();
    (length > 0).then_some(((at, at + length), at + length))
}
