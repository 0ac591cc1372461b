//! Ten letters and digits that only somebody with the session's key can make: what fetches an original, and what shows that a
//! checkpoint is of this session.

use crate::redact::SessionKey;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 10;

/// What the key makes of a text: always the same.
pub(crate) fn keyed(key: &SessionKey, text: &str) -> String {
    let hash = blake3::keyed_hash(key.bytes(), text.as_bytes());
    hash.as_bytes().iter().take(LENGTH).map(|byte| ALPHABET[usize::from(byte % 32)] as char).collect()
}

/// The key for one purpose: what it makes of a text says nothing about what another's makes of it.
pub(super) fn key_for(purpose: &str, key: &SessionKey) -> SessionKey {
    SessionKey::new(*blake3::keyed_hash(key.bytes(), purpose.as_bytes()).as_bytes())
}
