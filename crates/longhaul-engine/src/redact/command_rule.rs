//! Finds secrets after a flag of a command: `curl -u user:password`, `mysql -ppassword`, `openssl -passin
//! pass:…`.

use serde::Deserialize;

use super::key_shape::Alphabet;
use super::placeholders::Placeholders;
use super::value::{self, NameClass, ValueStyle};

/// The maximum number of bytes that are read of a command. Chosen by hand: it bounds the time for each
/// command name.
const MAX_COMMAND_BYTES: usize = 512;

/// A command that takes a secret after a flag: a row of `commands` in `rules.toml`.
#[derive(Deserialize)]
pub(super) struct CommandRule {
    pub(super) name: String,
    /// The flags whose value is the next argument.
    #[serde(default)]
    flags: Vec<String>,
    /// The flags whose value follows without a space.
    #[serde(default)]
    joined: Vec<String>,
    pub(super) gives: FlagValue,
}

/// The kind of value that follows the flag. `rules.toml` has the variants in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FlagValue {
    /// A user name, a colon and a password.
    Pair,
    /// A user name, a percent sign and a password.
    Percent,
    /// A user name, a comma and a password.
    Comma,
    Password,
    /// The word `pass:` and a password.
    Passed,
    /// A file, a user name and a password, as three arguments.
    Third,
}

impl FlagValue {
    /// Returns the byte between the user name and the password, for values that have both.
    fn user_separator(self) -> Option<u8> {
        match self {
            Self::Pair => Some(b':'),
            Self::Percent => Some(b'%'),
            Self::Comma => Some(b','),
            Self::Password | Self::Passed | Self::Third => None,
        }
    }
}

impl CommandRule {
    /// Finds the secret of the command whose name ends at `name_end`. Returns the offset up to which the
    /// command was read, and the byte range of the secret.
    pub(super) fn find_secret(
        &self,
        text: &[u8],
        name_end: usize,
        placeholders: &Placeholders,
    ) -> (usize, Option<(usize, usize)>) {
        let rest = &text[name_end..text.len().min(name_end + MAX_COMMAND_BYTES)];
        let rest = match self.gives {
            _ if !rest.starts_with(b" ") => b"",
            FlagValue::Pair => rest,
            _ => &rest[..command_end(rest)],
        };
        let secret = memchr::memchr2_iter(b'-', b'/', rest)
            .filter(|&dash| dash > 0 && rest[dash - 1].is_ascii_whitespace())
            .find_map(|dash| self.secret_after_flag(text, name_end + dash, placeholders));
        (secret.map_or(name_end + rest.len(), |(start, _)| start), secret)
    }

    fn secret_after_flag(&self, text: &[u8], dash: usize, placeholders: &Placeholders) -> Option<(usize, usize)> {
        let behind = |flags: &[String]| {
            let flag = flags.iter().find(|flag| text[dash..].starts_with(flag.as_bytes()))?;
            Some(dash + flag.len())
        };
        let spaced =
            behind(&self.flags).filter(|&end| matches!(text.get(end), Some(b' ' | b'=' | b'"' | b'\''))).map(|end| {
                end + text[end..].iter().take(MAX_COMMAND_BYTES).take_while(|byte| matches!(byte, b' ' | b'=')).count()
            });
        let (at, bare) = match spaced {
            Some(at) => (at, ValueStyle::BareValue),
            None => (behind(&self.joined)?, ValueStyle::MaybeCode),
        };
        let quoted = matches!(text.get(at), Some(b'"' | b'\''));
        let written = if quoted { ValueStyle::WholeArgument } else { bare };
        let (start, end) = self.argument_at(text, at)?;
        let (start, end) = match self.gives {
            FlagValue::Passed => (start + text[start..end].strip_prefix(b"pass:").map(|_| 5)?, end),
            FlagValue::Third => {
                let (_, end) = self.argument_at(text, end + 1)?;
                self.argument_at(text, end + 1)?
            }
            _ => (start, end),
        };
        let secret = match self.gives.user_separator() {
            Some(between) => is_secret_pair(&text[start..end], between, placeholders),
            None => value::is_secret(&text[start..end], NameClass::Password, written, placeholders),
        };
        secret.then_some((start, end))
    }

    /// Returns the byte range of the argument that begins at `at`, without its quotes.
    fn argument_at(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let rest = text.get(at..text.len().min(at + MAX_COMMAND_BYTES))?;
        if let Some(&quote @ (b'"' | b'\'')) = rest.first() {
            return Some((at + 1, at + 1 + memchr::memchr2(quote, b'\n', &rest[1..])?));
        }
        let inside = |byte: &&u8| match self.gives.user_separator() {
            Some(_) => !byte.is_ascii_whitespace(),
            None => Alphabet::Bare.contains(**byte),
        };
        Some((at, at + rest.iter().take_while(inside).count()))
    }
}

/// Returns where a command ends: at the end of its line, unless a backslash continues the line, or where the
/// next command begins.
fn command_end(rest: &[u8]) -> usize {
    let ends = |at: usize| match rest[at] {
        b'\n' => at == 0 || rest[at - 1] != b'\\',
        byte => matches!(byte, b'|' | b';' | b'&'),
    };
    (0..rest.len()).find(|&at| ends(at)).unwrap_or(rest.len())
}

fn is_secret_pair(pair: &[u8], between: u8, placeholders: &Placeholders) -> bool {
    let Some(at) = memchr::memchr(between, pair) else { return false };
    let (user, password) = (&pair[..at], &pair[at + 1..]);
    let secret = if password.is_empty() { user } else { password };
    let documented = std::str::from_utf8(pair).is_ok_and(|pair| placeholders.is_placeholder_pair(pair));
    let stand_in = value::is_dummy(secret) || placeholders.is_placeholder(secret) || placeholders.is_placeholder(pair);
    secret.len() >= 4 && !stand_in && !documented
}
