//! Finds passwords after a keyword that is no name: a setting and its value with a space between
//! (`requirepass …`), and input that is piped to a command that reads its password from there (`echo … | sudo
//! -S`).

use serde::Deserialize;

use super::key_shape::is_key_boundary;
use super::placeholders::Placeholders;
use super::separator::{ends_line, skip_blanks, starts_line};
use super::value::{self, NameClass, ValueStyle};

/// The maximum distance in bytes between a keyword and its password. Chosen by hand: it bounds the time for
/// each keyword.
const MAX_DISTANCE_BYTES: usize = 256;

/// A setting whose value is a password: a row of `settings` in `rules.toml`.
#[derive(Deserialize)]
pub(super) struct SettingRule {
    pub(super) word: String,
    /// Whether sentences use the keyword, too, so that only a value in quotes counts.
    #[serde(default)]
    quoted: bool,
}

impl SettingRule {
    /// Finds the value of the setting whose keyword is at `start..end`. A value without quotes must be alone
    /// on the line with its keyword, as in files of settings. Sentences about the setting do not look like
    /// that.
    pub(super) fn find_secret(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        placeholders: &Placeholders,
    ) -> Option<(usize, usize)> {
        let at = skip_blanks(text, end);
        let at = if matches!(text.get(at), Some(b'=' | b':')) { skip_blanks(text, at + 1) } else { at };
        let (argument, after) = shell_argument(text, at)?;
        let written = if after > argument.1 { ValueStyle::WholeArgument } else { ValueStyle::BareValue };
        let alone = !self.quoted && starts_line(&text[..start]) && ends_line(text, after);
        let secret = (written == ValueStyle::WholeArgument || alone)
            && is_key_boundary(text, start)
            && value::is_secret(&text[argument.0..argument.1], NameClass::Password, written, placeholders);
        secret.then_some(argument)
    }
}

/// A command, or an option of one, that reads a password from a pipe: a row of `piped` in `rules.toml`.
#[derive(Deserialize)]
pub(super) struct PipedPasswordRule {
    pub(super) word: String,
    /// Whether the command reads a user name and a colon before the password.
    #[serde(default)]
    pair: bool,
}

impl PipedPasswordRule {
    /// Finds the input of the command whose keyword is at `start..end`: the argument of `echo … |` before it,
    /// or of `<<<` after it.
    pub(super) fn find_secret(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        placeholders: &Placeholders,
    ) -> Option<(usize, usize)> {
        // The keyword search ignores case, but an option in another case is a different option.
        if text[start..end] != *self.word.as_bytes() || !is_key_boundary(text, start) {
            return None;
        }
        let handed = echoed_argument(text, start).or_else(|| here_string_argument(text, end))?;
        let pair = usize::from(self.pair) * memchr::memchr(b':', &text[handed.0..handed.1]).map_or(0, |at| at + 1);
        let (from, to) = (handed.0 + pair, handed.1);
        value::is_secret(&text[from..to], NameClass::Password, ValueStyle::WholeArgument, placeholders)
            .then_some((from, to))
    }
}

/// Returns the last argument of the `echo` or `printf` that is piped to the command at `start`.
fn echoed_argument(text: &[u8], start: usize) -> Option<(usize, usize)> {
    let floor = start.saturating_sub(MAX_DISTANCE_BYTES);
    let line = floor + memchr::memrchr(b'\n', &text[floor..start]).map_or(0, |at| at + 1);
    let bar = line + memchr::memrchr(b'|', &text[line..start])?;
    let says = |word: &[u8]| Some(line + memchr::memmem::rfind(&text[line..bar], word)? + word.len());
    let mut at = says(b"echo ").max(says(b"printf "))?;
    loop {
        let (argument, after) = shell_argument(text, skip_blanks(text, at)).filter(|(_, after)| *after <= bar)?;
        let rest = skip_blanks(text, after);
        if rest == bar {
            return Some(argument);
        }
        // Only flags and formats may precede the last argument. Two words are no password.
        if rest == after || !matches!(text[argument.0..].first(), Some(b'-' | b'%')) {
            return None;
        }
        at = rest;
    }
}

fn here_string_argument(text: &[u8], end: usize) -> Option<(usize, usize)> {
    let rest = &text[end..text.len().min(end + MAX_DISTANCE_BYTES)];
    let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
    let at = end + memchr::memmem::find(line, b"<<<")? + 3;
    shell_argument(text, skip_blanks(text, at)).map(|(argument, _)| argument)
}

/// Returns the byte range of the shell argument that begins at `at`, without its quotes (plain or escaped),
/// and the offset after it.
fn shell_argument(text: &[u8], at: usize) -> Option<((usize, usize), usize)> {
    let rest = text.get(at..text.len().min(at + MAX_DISTANCE_BYTES))?;
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
