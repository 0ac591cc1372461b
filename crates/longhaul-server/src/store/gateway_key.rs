//! The format of a gateway key, and the hash by which the store recognizes it.

use std::fmt;

use longhaul_engine::keyed_hash::{KeyedHash, KeyedHasher};

use super::error::Result;
use super::tenant::random_bytes;

/// The prefix of every key, by which people and secret scanners recognize one.
const KEY_PREFIX: &str = "lh-";

/// The characters that encode the 256 random bits, six bits each.
const KEY_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The number of characters after the prefix: 256 bits at six bits each.
const RANDOM_CHARS: usize = 43;

/// The number of characters of a key that are shown to people.
const SHOWN_CHARS: usize = KEY_PREFIX.len() + 4;

/// The key of the hash, so that no other hash in the program can equal one of a gateway key. No salt is
/// needed, since a key has as many random bits as its hash.
const HASH_KEY: [u8; 32] = *b"longhaul: keys of the gateway v1";

/// A gateway key. It is shown to people once, when it is created; the store only has its hash.
pub struct GatewayKey(String);

/// Compares two keys by their hashes, so that the time does not reveal how much of a guess is right.
impl PartialEq for GatewayKey {
    fn eq(&self, other: &Self) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for GatewayKey {}

impl GatewayKey {
    /// Makes a random key that no store knows.
    pub fn random() -> Result<Self> {
        Ok(Self::from_bits(random_bytes()?))
    }

    /// Returns whether a text is this key.
    #[must_use]
    pub fn matches(&self, typed: &str) -> bool {
        hash_key(typed).is_some_and(|typed| hash_key(&self.0) == Some(typed))
    }

    /// Returns the key as text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether a text has the format of a gateway key, known or not. Such a text must not be sent to
    /// anybody.
    #[must_use]
    pub fn has_key_format(typed: &str) -> bool {
        hash_key(typed).is_some()
    }

    /// Returns the first characters, by which people recognize the key.
    pub(super) fn prefix(&self) -> String {
        self.0.chars().take(SHOWN_CHARS).collect()
    }

    pub(super) fn from_bits(bits: [u8; 32]) -> Self {
        let bit = |at: usize| bits.get(at / 8).map_or(0, |byte| (byte >> (7 - at % 8)) & 1);
        let request = |place: usize| (0..6).fold(0, |request, at| (request << 1) | bit(6 * place + at));
        let letters = (0..RANDOM_CHARS).map(|place| char::from(KEY_ALPHABET[usize::from(request(place))]));
        Self(KEY_PREFIX.chars().chain(letters).collect())
    }
}

impl fmt::Debug for GatewayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Returns the hash by which the store finds a key, or `None` if the text does not have the format of one.
pub(super) fn hash_key(typed: &str) -> Option<KeyedHash> {
    let letters = typed.strip_prefix(KEY_PREFIX).filter(|letters| letters.len() == RANDOM_CHARS)?;
    letters
        .bytes()
        .all(|byte| KEY_ALPHABET.contains(&byte))
        .then(|| KeyedHasher::new(HASH_KEY).hash(&[typed.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_all_bits_and_is_never_printed() {
        assert_eq!(GatewayKey::from_bits([0; 32]).reveal(), format!("lh-{}", "A".repeat(43)));
        assert_eq!(GatewayKey::from_bits([0xff; 32]).reveal(), format!("lh-{}8", "_".repeat(42)));
        for bit in 0..256 {
            let mut bits = [0; 32];
            bits[bit / 8] = 1 << (bit % 8);
            assert_ne!(GatewayKey::from_bits(bits).reveal(), GatewayKey::from_bits([0; 32]).reveal(), "{bit}");
        }
        assert_eq!(format!("{:?}", GatewayKey::from_bits([7; 32])), "Secret(…)");
        let (one, other) = (GatewayKey::from_bits([7; 32]), GatewayKey::from_bits([8; 32]));
        assert!(one == GatewayKey::from_bits([7; 32]) && one != other && one.matches(one.reveal()));
        assert!(!one.matches("") && !one.matches("lh-") && !one.matches(&one.reveal()[1..]));
    }
}
