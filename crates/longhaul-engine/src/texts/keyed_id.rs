//! IDs of ten letters and digits that need the session's key to make. They serve as recall IDs, and as
//! signatures of checkpoints.

use crate::redact::SessionKey;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_CHARS: usize = 10;

/// Returns the ID of a text under a key. The same key and text always give the same ID.
pub(crate) fn keyed_id(key: &SessionKey, text: &str) -> String {
    let hash = blake3::keyed_hash(key.bytes(), text.as_bytes());
    hash.as_bytes().iter().take(ID_CHARS).map(|byte| ALPHABET[usize::from(byte % 32)] as char).collect()
}

/// Derives a key for one purpose, so that the IDs of one purpose reveal nothing about those of another.
pub(super) fn derive_key(purpose: &str, key: &SessionKey) -> SessionKey {
    SessionKey::new(*blake3::keyed_hash(key.bytes(), purpose.as_bytes()).as_bytes())
}
