//! The part of a value that is examined.

/// The number of bytes of a value that are examined. A limit keeps the time linear: text can name a secret
/// every few bytes, with a value that reaches to the end of the text each time. Chosen by hand.
pub(super) const MAX_EXAMINED_BYTES: usize = 256;

/// Returns the part of a value that is examined, cut between characters.
pub(super) fn examined_part(value: &[u8]) -> &[u8] {
    if value.len() <= MAX_EXAMINED_BYTES {
        return value;
    }
    let begins_character = |at: &usize| value[*at] & 0xc0 != 0x80;
    &value[..(MAX_EXAMINED_BYTES - 3..=MAX_EXAMINED_BYTES).rev().find(begins_character).unwrap_or(MAX_EXAMINED_BYTES)]
}
