//! What a key of the gateway looks like, and what the store knows it by.

use std::fmt;

use longhaul_engine::identity::{Identities, Identity};

use super::error::Result;
use super::tenant::random;

/// How every key begins, so that people and scanners for secrets know one when they see it.
const START: &str = "lh-";

/// What 256 bits are written in.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How many letters those are.
const LENGTH: usize = 43;

/// How much of a key is shown to people.
const SHOWN: usize = START.len() + 4;

/// What the hashes are of, so that none is that of anything else. A key has as many bits as its hash: there is nothing to add.
const PURPOSE: [u8; 32] = *b"longhaul: keys of the gateway v1";

/// A key that was just made. It is told once, and nobody can be told again.
pub struct Secret(String);

/// Two keys are compared by their hashes, so that the time says nothing about how much of a guess was right.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Secret {}

impl Secret {
    /// A new random key, which no store knows.
    pub fn random() -> Result<Self> {
        Ok(Self::of(random()?))
    }

    /// Whether a text is this key.
    #[must_use]
    pub fn is(&self, typed: &str) -> bool {
        hash(typed).is_some_and(|typed| hash(&self.0) == Some(typed))
    }

    /// The key itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether a text has the shape of a key, known or not: nobody but the store is to be shown it.
    #[must_use]
    pub fn is_one(typed: &str) -> bool {
        hash(typed).is_some()
    }

    /// How it begins, for people to know it by.
    pub(super) fn prefix(&self) -> String {
        self.0.chars().take(SHOWN).collect()
    }

    pub(super) fn of(bits: [u8; 32]) -> Self {
        let bit = |at: usize| bits.get(at / 8).map_or(0, |byte| (byte >> (7 - at % 8)) & 1);
        let letter = |place: usize| (0..6).fold(0, |letter, at| (letter << 1) | bit(6 * place + at));
        let letters = (0..LENGTH).map(|place| char::from(LETTERS[usize::from(letter(place))]));
        Self(START.chars().chain(letters).collect())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a key is known by in the store; nothing, where a text has not the shape of one.
pub(super) fn hash(typed: &str) -> Option<Identity> {
    let letters = typed.strip_prefix(START).filter(|letters| letters.len() == LENGTH)?;
    letters
        .bytes()
        .all(|byte| LETTERS.contains(&byte))
        .then(|| Identities::new(PURPOSE).of(&[typed.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_all_bits_and_is_never_printed() {
        assert_eq!(Secret::of([0; 32]).reveal(), format!("lh-{}", "A".repeat(43)));
        assert_eq!(Secret::of([0xff; 32]).reveal(), format!("lh-{}8", "_".repeat(42)));
        for bit in 0..256 {
            let mut bits = [0; 32];
            bits[bit / 8] = 1 << (bit % 8);
            assert_ne!(Secret::of(bits).reveal(), Secret::of([0; 32]).reveal(), "{bit}");
        }
        assert_eq!(format!("{:?}", Secret::of([7; 32])), "Secret(…)");
        let (one, other) = (Secret::of([7; 32]), Secret::of([8; 32]));
        assert!(one == Secret::of([7; 32]) && one != other && one.is(one.reveal()));
        assert!(!one.is("") && !one.is("lh-") && !one.is(&one.reveal()[1..]));
    }
}
