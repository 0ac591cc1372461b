//! Makes keys of a shape. The rules hold no whole key, and neither do the tests: a key is drawn from its shape and a seed.

use serde::Deserialize;

use crate::redact::shape::{Part, Shape};

/// A rule as the tests need it: with the look-alike.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) kind: String,
    pub(super) shapes: Vec<String>,
    pub(super) alike: String,
    #[serde(default)]
    pub(super) after: Vec<String>,
}

impl Row {
    /// What has to stand before the key for it to be one.
    pub(super) fn lead(&self) -> String {
        self.after.first().map(|name| format!("{name}=")).unwrap_or_default()
    }
}

/// A command as the tests need it: a line with the secret `hunter2`, and one that must be left alone.
#[derive(Debug, Deserialize)]
pub(super) struct CommandLines {
    pub(super) name: String,
    pub(super) example: String,
    pub(super) alike: String,
}

/// A setting or a command that reads a pipe, likewise.
#[derive(Debug, Deserialize)]
pub(super) struct Lines {
    pub(super) example: String,
    pub(super) alike: String,
}

#[derive(Deserialize)]
struct File {
    rules: Vec<Row>,
    commands: Vec<CommandLines>,
    settings: Vec<Lines>,
    piped: Vec<Lines>,
}

fn file() -> File {
    toml::from_str(include_str!("../rules.toml")).unwrap()
}

pub(super) fn rows() -> Vec<Row> {
    file().rules
}

pub(super) fn commands() -> Vec<CommandLines> {
    file().commands
}

/// The rows of settings and of commands that read a pipe.
pub(super) fn handed() -> Vec<Lines> {
    let file = file();
    file.settings.into_iter().chain(file.piped).collect()
}

/// A string of this shape. Runs without an upper bound get a few characters more than their least.
pub(super) fn key(notation: &str, seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut key = String::new();
    for part in Shape::parse(notation).unwrap().parts {
        match part {
            Part::Text(text) => key.push_str(&text),
            Part::Run { alphabet, min, max, .. } => {
                let length = min + random.below(max.saturating_sub(min).min(12) + 1);
                let letters: Vec<u8> = (b'!'..=b'~').filter(|&byte| alphabet.holds(byte)).collect();
                // A key does not end in padding or punctuation that the text around it would claim.
                let inner: Vec<u8> = letters.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
                for at in 0..length {
                    let from = if at == 0 || at + 1 == length { &inner } else { &letters };
                    key.push(char::from(from[random.below(from.len())]));
                }
            }
        }
    }
    key
}

/// Xorshift: enough to draw characters, and the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % limit
    }
}
