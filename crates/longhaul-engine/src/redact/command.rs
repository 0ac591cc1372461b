//! Secrets that a command takes behind a flag: `curl -u user:password`, `mysql -ppassword`, `openssl -passin pass:…`.

use serde::Deserialize;

use super::placeholders::Placeholders;
use super::shape::Alphabet;
use super::value::{self, Class, Written};

/// A command is not longer than this.
const COMMAND: usize = 512;

/// A row of `commands` in `rules.toml`.
#[derive(Deserialize)]
pub(super) struct Command {
    pub(super) name: String,
    /// The value is the next argument.
    #[serde(default)]
    flags: Vec<String>,
    /// The value follows without a space.
    #[serde(default)]
    joined: Vec<String>,
    pub(super) gives: Gives,
}

/// What the flag is followed by.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Gives {
    /// A user's name, a colon and a password.
    Pair,
    /// The same with a percent sign or a comma between.
    Percent,
    Comma,
    Password,
    /// `pass:` and a password.
    Passed,
    /// A file, a user's name and a password.
    Third,
}

impl Gives {
    /// What stands between a user's name and the password.
    fn between(self) -> Option<u8> {
        match self {
            Self::Pair => Some(b':'),
            Self::Percent => Some(b'%'),
            Self::Comma => Some(b','),
            Self::Password | Self::Passed | Self::Third => None,
        }
    }
}

impl Command {
    /// The secret of the command whose name ends at `name_end`. Gives back the place up to which the command was read, too.
    pub(super) fn secret(
        &self,
        text: &[u8],
        name_end: usize,
        placeholders: &Placeholders,
    ) -> (usize, Option<(usize, usize)>) {
        let rest = &text[name_end..text.len().min(name_end + COMMAND)];
        let rest = match self.gives {
            _ if !rest.starts_with(b" ") => b"",
            Gives::Pair => rest,
            _ => &rest[..line_end(rest)],
        };
        let secret = memchr::memchr2_iter(b'-', b'/', rest)
            .filter(|&dash| dash > 0 && rest[dash - 1].is_ascii_whitespace())
            .find_map(|dash| self.behind_flag(text, name_end + dash, placeholders));
        (secret.map_or(name_end + rest.len(), |(start, _)| start), secret)
    }

    fn behind_flag(&self, text: &[u8], dash: usize, placeholders: &Placeholders) -> Option<(usize, usize)> {
        let behind = |flags: &[String]| {
            let flag = flags.iter().find(|flag| text[dash..].starts_with(flag.as_bytes()))?;
            Some(dash + flag.len())
        };
        let spaced = behind(&self.flags)
            .filter(|&end| matches!(text.get(end), Some(b' ' | b'=' | b'"' | b'\'')))
            .map(|end| {
                end + text[end..].iter().take(COMMAND).take_while(|byte| matches!(byte, b' ' | b'=')).count()
            });
        let (at, bare) = match spaced {
            Some(at) => (at, Written::Tight),
            None => (behind(&self.joined)?, Written::Loose),
        };
        let quoted = matches!(text.get(at), Some(b'"' | b'\''));
        let written = if quoted { Written::Argument } else { bare };
        let (start, end) = self.argument(text, at)?;
        let (start, end) = match self.gives {
            Gives::Passed => (start + text[start..end].strip_prefix(b"pass:").map(|_| 5)?, end),
            Gives::Third => {
                let (_, end) = self.argument(text, end + 1)?;
                self.argument(text, end + 1)?
            }
            _ => (start, end),
        };
        let secret = match self.gives.between() {
            Some(between) => is_pair(&text[start..end], between, placeholders),
            None => value::is_secret(&text[start..end], Class::Password, written, placeholders),
        };
        secret.then_some((start, end))
    }

    /// The argument that begins at `at`, without its quotes.
    fn argument(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let rest = text.get(at..text.len().min(at + COMMAND))?;
        if let Some(&quote @ (b'"' | b'\'')) = rest.first() {
            return Some((at + 1, at + 1 + memchr::memchr2(quote, b'\n', &rest[1..])?));
        }
        let inside = |byte: &&u8| match self.gives.between() {
            Some(_) => !byte.is_ascii_whitespace(),
            None => Alphabet::Bare.holds(**byte),
        };
        Some((at, at + rest.iter().take_while(inside).count()))
    }
}

/// A command ends with its line, unless a backslash joins the next one to it, and where the next command begins.
fn line_end(rest: &[u8]) -> usize {
    let ends = |at: usize| match rest[at] {
        b'\n' => at == 0 || rest[at - 1] != b'\\',
        byte => matches!(byte, b'|' | b';' | b'&'),
    };
    (0..rest.len()).find(|&at| ends(at)).unwrap_or(rest.len())
}

fn is_pair(pair: &[u8], between: u8, placeholders: &Placeholders) -> bool {
    let Some(at) = memchr::memchr(between, pair) else { return false };
    let (user, password) = (&pair[..at], &pair[at + 1..]);
    let secret = if password.is_empty() { user } else { password };
    let documented = std::str::from_utf8(pair).is_ok_and(|pair| placeholders.hold_pair(pair));
    let stand_in = value::is_filler(secret) || placeholders.hold(secret) || placeholders.hold(pair);
    secret.len() >= 4 && !stand_in && !documented
}
