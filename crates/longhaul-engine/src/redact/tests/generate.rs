//! Generates keys of a shape from a seed, so that neither the rules nor the tests contain a whole key.

use serde::Deserialize;

use crate::redact::key_shape::{KeyShape, ShapePart};

/// A rule of `rules.toml` with the fields that the tests need.
#[derive(Debug, Deserialize)]
pub(super) struct KeyRuleRow {
    pub(super) kind: String,
    pub(super) shapes: Vec<String>,
    pub(super) alike: String,
    #[serde(default)]
    pub(super) after: Vec<String>,
}

impl KeyRuleRow {
    /// Returns the text that must precede a key of this rule.
    pub(super) fn required_prefix(&self) -> String {
        self.after.first().map(|name| format!("{name}=")).unwrap_or_default()
    }
}

/// A command of `rules.toml`: `example` contains the secret `hunter2`, and `alike` must stay unchanged.
#[derive(Debug, Deserialize)]
pub(super) struct CommandLines {
    pub(super) name: String,
    pub(super) example: String,
    pub(super) alike: String,
}

/// A setting, or a command that reads a pipe: `example` contains the secret `hunter2`, and `alike` must stay
/// unchanged.
#[derive(Debug, Deserialize)]
pub(super) struct PasswordLines {
    pub(super) example: String,
    pub(super) alike: String,
}

#[derive(Deserialize)]
struct File {
    rules: Vec<KeyRuleRow>,
    commands: Vec<CommandLines>,
    settings: Vec<PasswordLines>,
    piped: Vec<PasswordLines>,
}

fn file() -> File {
    toml::from_str(include_str!("../rules.toml")).unwrap()
}

pub(super) fn rows() -> Vec<KeyRuleRow> {
    file().rules
}

pub(super) fn commands() -> Vec<CommandLines> {
    file().commands
}

/// Returns the rows of the settings and of the commands that read a pipe.
pub(super) fn setting_and_pipe_rows() -> Vec<PasswordLines> {
    let file = file();
    file.settings.into_iter().chain(file.piped).collect()
}

/// Generates a string of this shape. A run without an upper bound gets up to 12 characters more than its
/// minimum.
pub(super) fn generate_key(notation: &str, seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut key = String::new();
    for part in KeyShape::parse(notation).unwrap().parts {
        match part {
            ShapePart::Literal(text) => key.push_str(&text),
            ShapePart::Run { alphabet, min, max, .. } => {
                let length = min + random.below(max.saturating_sub(min).min(12) + 1);
                let letters: Vec<u8> = (b'!'..=b'~').filter(|&byte| alphabet.contains(byte)).collect();
                // A key does not begin or end with padding or punctuation, which could belong to the text
                // around it.
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
